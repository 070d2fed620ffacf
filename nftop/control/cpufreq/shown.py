"""What is set for each CPU, to be shown."""

from __future__ import annotations

from dataclasses import dataclass

from nftop.control.cpufreq.policies import Facts
from nftop.model.change import State
from nftop.model.ids import Cpu
from nftop.model.sst import Priority


@dataclass(frozen=True, slots=True)
class Core:
    """One online CPU; None: its driver tells no such thing.

    Attributes:
        siblings: the other threads of its core.
        priority: SST-BF's; None where it is not on.
        together: all CPUs of its frequency policy, where that has more than one.
        min_khz, max_khz: in effect; least_khz, most_khz: the hardware's.
        pinned: both limits are its base frequency.
    """

    cpu: int
    siblings: tuple[int, ...]
    together: tuple[int, ...]
    driver: str
    priority: Priority | None
    base_khz: int | None
    min_khz: int | None
    max_khz: int | None
    least_khz: int
    most_khz: int
    governor: str | None
    epp: str | None
    pinned: bool


def cores(facts: Facts, state: State) -> tuple[Core, ...]:
    """A row for each online CPU that has a policy, ascending."""
    kinds = facts.priorities
    found: dict[int, Core] = {}
    for policy in facts.policies:
        low, high = (state.get(policy.cell(kind)) for kind in ("min_khz", "max_khz"))
        base = policy.base_khz
        for cpu in policy.cpus:
            if cpu in facts.offline:
                continue
            found[cpu] = Core(
                cpu=cpu,
                siblings=tuple(sorted(facts.siblings.get(cpu, ()))),
                together=policy.cpus if len(policy.cpus) > 1 else (),
                driver=policy.driver,
                priority=kinds.get(Cpu(cpu)),
                base_khz=base,
                min_khz=None if low is None else int(low),
                max_khz=None if high is None else int(high),
                least_khz=policy.least_khz,
                most_khz=policy.most_khz,
                governor=state.get(policy.cell("governor")),
                epp=state.get(policy.cell("epp")),
                pinned=base is not None and low == high == str(base),
            )
    return tuple(found[cpu] for cpu in sorted(found))
