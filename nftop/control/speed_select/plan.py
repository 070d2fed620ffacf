"""Actions on SST to a proposal: every core that is touched, what it has then, why it can't be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nftop.control.speed_select.operations import CLASSES
from nftop.control.speed_select.state import OFF, ON, Told, bf_cell, bf_state, class_cell
from nftop.model.change import (
    Action,
    Cell,
    Change,
    Proposal,
    SetCpClass,
    State,
    SwitchBf,
    bf_words,
    difference,
)
from nftop.model.ids import format_cpu_list, mhz_text
from nftop.sources.cpufreq.isst import PROGRAM, Domain

# Cascade Lake, whose firmware switches SST-BF (`is_clx_n_platform` of the tool).
_CASCADE_LAKE = 0x55
_FIRMWARE = (
    f"on Cascade Lake SST-BF is switched by firmware (BIOS), and {PROGRAM} only sets frequency "
    "limits there: `nftop sst apply --mode bf` does that, with a way back"
)
_NO_MODEL = f"{PROGRAM} does not say which CPU it runs on, so what it would do is not known"
_CP_OFF = (
    "{}: SST-CP is off, and Linux's guide to SST wants it on before SST-BF, with high-priority "
    "cores in a class with the higher minimum: nftop sets a core's class, and neither switches "
    f"SST-CP on nor sets limits of classes ({PROGRAM} core-power enable, core-power config)"
)
_ONLY_BF = (
    "limits of frequency, SST-CP and its classes stay as they are: `nftop sst apply --mode bf` "
    "pins every core to its base frequency of then"
)
_IDLE = "{}: SST-CP is off: a class has no effect there until it is on"


@dataclass(slots=True)
class _Draft:
    told: Told
    classes: Callable[[Iterable[int]], State]
    base: dict[Cell, str] = field(default_factory=dict)
    target: dict[Cell, str] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)

    def set(self, base: State, cell: Cell, value: str) -> None:
        """What it is to be, of what it is."""
        self.base.setdefault(cell, base[cell])
        self.target[cell] = value


def propose(
    told: Told,
    classes: Callable[[Iterable[int]], State],
    actions: Sequence[Action],
    commands: tuple[str, ...],
    keepers: Callable[[], tuple[str, ...]],
) -> Proposal:
    """What the actions, in their order, would change; nothing is touched.

    The proposal's base is of the power domains and CPUs that are changed alone.

    Args:
        told: of the host.
        classes: SST-CP classes of CPUs as cells, those that are told.
        actions: to be planned.
        commands: the command lines that do the same.
        keepers: who else may set these, sentences.
    """
    draft = _Draft(told, classes)
    for action in actions:
        if not draft.refusals:
            _ACTS[type(action)](draft, action)
    if draft.refusals:
        refusals = tuple(dict.fromkeys(draft.refusals))
        return Proposal(draft.base, (), refusals=refusals, commands=commands)
    changes = difference(draft.base, {**draft.base, **draft.target})
    if not changes:
        return Proposal(draft.base, (), commands=commands)
    asked = {cpu for item in actions if isinstance(item, SetCpClass) for cpu in item.cpus}
    effects, warnings = describe_effects(told, changes, asked)
    return Proposal(draft.base, changes, effects, (*warnings, *keepers()), commands=commands)


def describe_effects(
    told: Told, changes: Iterable[Change], asked: Iterable[int] = ()
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What comes with changes, and what may be wrong with them: sentences.

    `asked`: CPUs that were named; others of the changes are their siblings. Empty: all were.
    """
    effects, warnings = list[str](), list[str]()
    by_cell = {bf_cell(item): item for item in told.domains}
    classed = []
    for change in changes:
        domain = by_cell.get(change.cell)
        if domain is not None and change.new in (ON, OFF):
            effects += _bases(told, domain, on=change.new == ON)
            warnings += _bf_warnings(told, domain, on=change.new == ON)
        elif change.cell.kind == "cp_class":
            classed.append(change.cell.number)
    if any(item.cell.kind == "bf" for item in changes):
        effects.append(_ONLY_BF)
    if classed:
        named = set(asked)
        more = [cpu for cpu in classed if named and cpu not in named]
        if more:
            verb = "is another thread" if len(more) == 1 else "are other threads"
            effects.append(
                f"CPU {format_cpu_list(more)} {verb} of the same cores and changed with them"
            )
        for domain in _domains_of(told, classed):
            if domain.cp is not True:
                warnings.append(_IDLE.format(_name(domain)))
    return tuple(dict.fromkeys(effects)), tuple(dict.fromkeys(warnings))


def _switch(draft: _Draft, action: SwitchBf) -> None:
    told = draft.told
    if told.model is None or told.model == _CASCADE_LAKE:
        draft.refusals.append(_NO_MODEL if told.model is None else _FIRMWARE)
        return
    packages = action.packages or tuple(sorted({item.package for item in told.domains}))
    for package in packages:
        own = [item for item in told.domains if item.package == package]
        if not own:
            draft.refusals.append(f"{PROGRAM} tells of no package {package}")
        for domain in own:
            why = _why_not(told, domain)
            if why:
                draft.refusals.append(f"{_name(domain)}: {why}")
            else:
                draft.set(bf_state([domain]), bf_cell(domain), ON if action.on else OFF)


def _why_not(told: Told, domain: Domain) -> str:
    if domain.bf_supported is not True:
        return f"there is no SST-BF at its level {domain.level} of SST-PP"
    if domain.bf is None:
        return "whether SST-BF is on is not told, so it could not be read back"
    if domain.cpu is None or not told.cpus(domain):
        return "nobody tells which CPUs it is of, so they could not be shown"
    return ""


def _classify(draft: _Draft, action: SetCpClass) -> None:
    told, value = draft.told, f"{action.cp_class:d}"
    if value not in CLASSES:
        draft.refusals.append(f"there is no SST-CP class {value}: they are 0 to 3")
        return
    gone = [cpu for cpu in action.cpus if cpu not in told.places]
    if gone:
        draft.refusals.append(f"CPU {format_cpu_list(gone)}: it is not there, or offline")
        return
    every = [cpu for cpu in told.with_siblings(action.cpus) if cpu in told.places]
    homes = list(_domains_of(told, every))
    reached = {cpu for home in homes for cpu in told.cpus(home)}
    without = [home for home in homes if home.cp_supported is not True]
    for domain in without:
        draft.refusals.append(f"{_name(domain)}: there is no SST-CP, or it is not told")
    if set(every) - reached:
        cpus = format_cpu_list(set(every) - reached)
        draft.refusals.append(f"CPU {cpus}: {PROGRAM} does not tell of it")
    if draft.refusals:
        return
    now = draft.classes(every)
    untold = [cpu for cpu in every if class_cell(cpu) not in now]
    if untold:
        draft.refusals.append(
            f"CPU {format_cpu_list(untold)}: its SST-CP class can't be read, so it is not set"
        )
        return
    for cpu in every:
        draft.set(now, class_cell(cpu), value)


def _domains_of(told: Told, cpus: Iterable[int]) -> Iterator[Domain]:
    some = set(cpus)
    return (domain for domain in told.domains if some & set(told.cpus(domain)))


def _bases(told: Told, domain: Domain, *, on: bool) -> Iterator[str]:
    """A sentence for all CPUs of a power domain whose base frequency goes the same way."""
    ways: dict[tuple[bool, int | None, int | None], list[int]] = {}
    high = set(told.with_siblings(domain.bf_high))
    for cpu in told.cpus(domain):
        is_high = on and cpu in high
        then_hz = (domain.bf_high_hz if is_high else domain.bf_low_hz) if on else domain.base_hz
        then = None if then_hz is None else then_hz // 1000
        ways.setdefault((is_high, told.base_khz.get(cpu), then), []).append(cpu)
    for (is_high, now, then), cpus in sorted(ways.items(), key=lambda way: way[1]):
        kind = (" (high priority)" if is_high else " (low priority)") if on else ""
        yield (
            f"{_name(domain)}, CPU {format_cpu_list(cpus)}{kind}: base frequency {_mhz(now)} now, "
            f"{_mhz(then)} then, as {PROGRAM} has it"
        )


def _bf_warnings(told: Told, domain: Domain, *, on: bool) -> Iterator[str]:
    if on and not domain.bf_high:
        yield f"{_name(domain)}: which cores are favoured is not told"
    if on and domain.cp is not True:
        yield _CP_OFF.format(_name(domain))
    if on and told.turbo is False:
        yield "turbo is off (no_turbo), and SST-BF needs it on"
    pinned: dict[int, list[int]] = {}
    for cpu in told.cpus(domain):
        if cpu in told.pinned_khz:
            pinned.setdefault(told.pinned_khz[cpu], []).append(cpu)
    for khz, cpus in sorted(pinned.items()):
        yield f"CPU {format_cpu_list(cpus)}: pinned to {mhz_text(khz)}, and stays so"


def _name(domain: Domain) -> str:
    return bf_words(bf_cell(domain)).removeprefix("SST-BF of ").partition(" at level")[0]


def _mhz(khz: int | None) -> str:
    return "not told" if khz is None else mhz_text(khz)


_ACTS: Mapping[type[Action], Callable[[_Draft, Any], None]] = {
    SwitchBf: _switch, SetCpClass: _classify,
}  # fmt: skip
