"""A change of frequencies as single writes, in an order whose every state is valid.

For each policy: governor and EPP, the upper limit where it rises, the lower limit, the upper limit
where it falls. So the lower limit is never above the upper one: the kernel would clamp it, keep
what was asked for, and let it come up again later.

Kernel facts, `drivers/cpufreq` of Linux 6.1 to 6.12: limits are requests, and what is in effect
follows a moment later (`cpufreq_notifier_min` only schedules the work); with another governor
intel_pstate sets EPP by itself: to `performance` with that governor, else to what it had kept, and
refuses any other EPP under it (EBUSY), though some kernels go on showing what was written before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from nftop.control.backend import KERNEL_ASSIGNED, advance, goal
from nftop.model.change import Cell, Change, Kind, State
from nftop.model.struct import dataclass

# What the kernel may set in addition.
_BRINGS: Mapping[Kind, Kind] = MappingProxyType({"governor": "epp"})
FILES: Mapping[Kind, str] = MappingProxyType(
    {
        "governor": "scaling_governor",
        "epp": "energy_performance_preference",
        "min_khz": "scaling_min_freq",
        "max_khz": "scaling_max_freq",
    }
)


@dataclass(frozen=True, slots=True)
class CpufreqWrite:
    """One write to a file of a policy."""

    cell: Cell
    value: str

    def delta(self, state: State) -> Mapping[Cell, str | None]:
        """Cells that differ after it; the kernel chooses the value of the second."""
        delta = {self.cell: self.value}
        brought = _BRINGS.get(self.cell.kind)
        other = None if brought is None else self.cell._replace(kind=brought)
        if other is not None and other in state:
            delta[other] = KERNEL_ASSIGNED
        return delta

    @property
    def shell(self) -> str:
        return f"echo {self.value} > policy{self.cell.number}/{FILES[self.cell.kind]}"


def in_shell(planned: Iterable[CpufreqWrite]) -> Iterator[str]:
    """Shell commands of writes; policies with the same writes share a loop."""
    by_policy: dict[int, list[CpufreqWrite]] = {}
    for item in planned:
        by_policy.setdefault(item.cell.number, []).append(item)
    alike: dict[tuple[tuple[Kind, str], ...], list[int]] = {}
    for number, own in by_policy.items():
        alike.setdefault(tuple((entry.cell.kind, entry.value) for entry in own), []).append(number)
    for pairs, numbers in alike.items():
        if len(numbers) == 1:
            yield from (entry.shell for entry in by_policy[numbers[0]])
            continue
        yield f"for n in {' '.join(map(str, numbers))}; do"
        yield from (f"  echo {value} > policy$n/{FILES[kind]}" for kind, value in pairs)
        yield "done"


def writes(state: State, changes: Iterable[Change]) -> tuple[CpufreqWrite, ...]:
    rows = list(changes)
    target = goal(state, rows)
    now = dict(state)
    steps: list[CpufreqWrite] = []
    for policy in sorted({(row.cell.number, row.cell.name) for row in rows}):
        for kind in _order(now, target, policy):
            cell = Cell(kind, "", policy[1], policy[0])
            wanted = target.get(cell, KERNEL_ASSIGNED)
            if wanted not in (KERNEL_ASSIGNED, now.get(cell)) and cell in now:
                step = CpufreqWrite(cell, wanted)
                advance(now, step.delta(now))
                steps.append(step)
    return tuple(steps)


def _order(now: State, target: State, policy: tuple[int, str]) -> Iterator[Kind]:
    """EPP after the governor, which sets its own; before it if the governor would refuse it."""
    number, name = policy
    governor, epp = (target.get(Cell(kind, "", name, number)) for kind in ("governor", "epp"))
    refused = governor == "performance" and epp not in (None, KERNEL_ASSIGNED, "performance")
    yield from ("epp", "governor") if refused else ("governor", "epp")
    upper = Cell("max_khz", "", name, number)
    rises = upper in now and upper in target and int(target[upper]) > int(now[upper])
    yield from ("max_khz", "min_khz") if rises else ("min_khz", "max_khz")
