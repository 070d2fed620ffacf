"""SST by intel-speed-select as a backend: actions to a proposal, state, lock, the only calls."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from stat import S_IWGRP, S_IWOTH
from typing import Any, get_args

from nftop.control.backend import (
    AbsentError,
    Backend,
    BackendRow,
    HistoryReader,
    Refusals,
    RefusedError,
    boot_id,
    own_lock,
)
from nftop.control.cpufreq.backend import siblings_text
from nftop.control.cpufreq.cpufreq import Cpufreq
from nftop.control.journal import DEFAULT as JOURNAL
from nftop.control.revert import differing
from nftop.model.change import (
    Action,
    Cell,
    Change,
    Proposal,
    ReasonCode,
    SetCpClass,
    SstAction,
    State,
    SwitchBf,
    bf_words,
    difference,
)
from nftop.model.ids import format_cpu_list, mhz_text
from nftop.model.missing import Missing
from nftop.model.struct import dataclass, field
from nftop.sources.cpufreq.files import read_keepers
from nftop.sources.cpufreq.isst import (
    LIMIT_S,
    PROGRAM,
    Ask,
    Domain,
    SstDomains,
    ask_classes,
    ask_domains,
    at_once,
    refusal,
)
from nftop.sources.host.topology import read_topology
from nftop.sources.runtime.helper import FOLDERS, find, run

ON, OFF = "on", "off"
_VERBS: Mapping[str, str] = {ON: "enable", OFF: "disable"}
CLASSES = ("0", "1", "2", "3")


@dataclass(frozen=True, slots=True)
class CpuLocation:
    package: int
    die: int
    siblings: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SstFacts:
    """SST of a host.

    Attributes:
        model: of the CPU, as the tool reports it; None if not reported.
        domains: of the tool, ascending.
        locations: of every online CPU.
        base_khz: base frequencies of CPUs that the kernel reports.
        pinned_khz: limits of CPUs whose two limits are the same.
        turbo: whether turbo is allowed; None if unknown.
    """

    model: int | None
    domains: tuple[Domain, ...]
    locations: Mapping[int, CpuLocation]
    base_khz: Mapping[int, int] = field(default_factory=dict)
    pinned_khz: Mapping[int, int] = field(default_factory=dict)
    turbo: bool | None = None

    def of(self, package: int, die: int) -> tuple[Domain, ...]:
        return tuple(row for row in self.domains if (row.package, row.die) == (package, die))

    def cpus(self, domain: Domain) -> tuple[int, ...]:
        """Online CPUs of a power domain; empty if unknown."""
        if len(self.of(domain.package, domain.die)) == 1:
            die = (domain.package, domain.die)
            here = [cpu for cpu, item in self.locations.items() if (item.package, item.die) == die]
            if here:
                return tuple(sorted(here))
        return tuple(sorted(cpu for cpu in domain.cpus if cpu in self.locations))

    def with_siblings(self, cpus: Iterable[int]) -> tuple[int, ...]:
        requested = set(cpus)
        others = {
            other
            for cpu in requested & self.locations.keys()
            for other in self.locations[cpu].siblings
        }
        return tuple(sorted(requested | others))


def bf_cell(domain: Domain) -> Cell:
    """Cell: whether SST-BF is on in a power domain."""
    return Cell("bf", "", f"{domain.die}.{domain.domain}@{domain.level}", domain.package)


def bf_state(domains: Iterable[Domain]) -> dict[Cell, str]:
    """State of SST-BF in the power domains that report it."""
    return {bf_cell(row): ON if row.bf else OFF for row in domains if row.bf is not None}


def class_cell(cpu: int) -> Cell:
    """Cell: the SST-CP class of a CPU."""
    return Cell("cp_class", "", "", cpu)


@dataclass(frozen=True, slots=True)
class IsstCall:
    """One call, which sets one power domain or several CPUs to a value."""

    cells: tuple[Cell, ...]
    value: str

    def delta(self, state: State) -> Mapping[Cell, str | None]:  # noqa: ARG002 - as `backend.BackendStep`
        return dict.fromkeys(self.cells, self.value)

    @property
    def is_bf(self) -> bool:
        return self.cells[0].kind == "bf"

    @property
    def is_sound(self) -> bool:
        kinds = {(cell.kind, cell.number >= 0) for cell in self.cells}
        if self.is_bf:
            return len(self.cells) == 1 and kinds == {("bf", True)} and self.value in _VERBS
        return kinds == {("cp_class", True)} and self.value in CLASSES

    def words(self, cpu: int | None) -> tuple[str, ...]:
        """Arguments of the tool; `cpu` is one of the power domain."""
        if self.is_bf:
            return ("-f", "json", "-c", f"{cpu:d}", "base-freq", _VERBS[self.value])
        some = ",".join(f"{cell.number:d}" for cell in self.cells)
        return ("-f", "json", "-c", some, "core-power", "assoc", "--clos", self.value)

    @property
    def shell(self) -> str:
        """Shell command; for a power domain with any of its CPUs."""
        if self.is_bf:
            verb, package = _VERBS.get(self.value, ""), self.cells[0].number
            return f"{PROGRAM} -c CPU base-freq {verb}  # CPU: one of package {package}"
        return f"{PROGRAM} {' '.join(self.words(None)[2:])}"


def calls(state: State, changes: Iterable[Change]) -> tuple[IsstCall, ...]:
    """Calls for changes of a state: classes by number, then SST-BF."""
    wanted = [
        change
        for change in changes
        if change.new is not None and change.cell in state and state[change.cell] != change.new
    ]
    classes: dict[str, list[int]] = {}
    for item in wanted:
        if item.cell.kind == "cp_class":
            classes.setdefault(str(item.new), []).append(item.cell.number)
    return (
        *(
            IsstCall(tuple(class_cell(int(cpu)) for cpu in some.split(",")), value)
            for value, cpus in sorted(classes.items())
            for some in at_once(sorted(cpus))
        ),
        *(IsstCall((item.cell,), str(item.new)) for item in wanted if item.cell.kind == "bf"),
    )


# Cascade Lake, whose firmware switches SST-BF (`is_clx_n_platform` of the tool).
_CASCADE_LAKE = 0x55
_FIRMWARE = (
    f"on Cascade Lake SST-BF is switched by firmware (BIOS), and {PROGRAM} only sets frequency "
    "limits there: `nftop sst apply --mode bf` does that, with a way back"
)
_NO_MODEL = f"{PROGRAM} does not report the CPU model, so what it would do is not known"
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
ISST = "isst"
_LOCK = "isst.lock"
# A setting may be reported with a delay; a call itself takes longer.
_SETTLE_S = 2.0
_PAUSE_S = 0.05
NOT_SIMULATED = (
    "no simulated host can switch SST-BF (that of a Cascade Lake is the firmware's) or has SST-CP"
)
_ABSENT = (
    f"{PROGRAM} is not installed where only root can have put it "
    f"({', '.join(f'/{folder}' for folder in FOLDERS)}): SST-BF and SST-CP classes can't be set"
)


@dataclass(slots=True)
class _Draft:
    facts: SstFacts
    classes: Callable[[Iterable[int]], State]
    base: dict[Cell, str] = field(default_factory=dict)
    target: dict[Cell, str] = field(default_factory=dict)
    refusals: Refusals = field(default_factory=Refusals)

    def set(self, base: State, cell: Cell, value: str) -> None:
        self.base.setdefault(cell, base[cell])
        self.target[cell] = value


def propose(
    facts: SstFacts,
    classes: Callable[[Iterable[int]], State],
    actions: Sequence[Action],
    commands: tuple[str, ...],
    keepers: Callable[[], tuple[str, ...]],
) -> Proposal:
    """Changes that the actions, in their order, would make; writes nothing.

    The proposal's base has only the power domains and CPUs that change. `classes` reads SST-CP
    classes of CPUs as cells; `keepers`: messages on other programs that may set these.
    """
    draft = _Draft(facts, classes)
    for action in actions:
        if not draft.refusals:
            _ACTS[type(action)](draft, action)
    if draft.refusals:
        refusals = tuple(dict.fromkeys(draft.refusals))
        return Proposal(draft.base, (), refusals=refusals, commands=commands)
    changes = difference(draft.base, {**draft.base, **draft.target})
    if not changes:
        return Proposal(draft.base, (), commands=commands)
    requested = {cpu for item in actions if isinstance(item, SetCpClass) for cpu in item.cpus}
    effects, warnings = describe_effects(facts, changes, requested)
    return Proposal(draft.base, changes, effects, (*warnings, *keepers()), commands=commands)


def describe_effects(
    facts: SstFacts, changes: Iterable[Change], requested: Iterable[int] = ()
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Effects of changes, and warnings.

    `requested`: CPUs that were named; the others are their siblings. Empty: all were named.
    """
    effects, warnings = list[str](), list[str]()
    by_cell = {bf_cell(item): item for item in facts.domains}
    classed = []
    for change in changes:
        domain = by_cell.get(change.cell)
        if domain is not None and change.new in (ON, OFF):
            effects += _bases(facts, domain, on=change.new == ON)
            warnings += _bf_warnings(facts, domain, on=change.new == ON)
        elif change.cell.kind == "cp_class":
            classed.append(change.cell.number)
    if any(item.cell.kind == "bf" for item in changes):
        effects.append(_ONLY_BF)
    if classed:
        named = set(requested)
        effects += siblings_text([cpu for cpu in classed if named and cpu not in named])
        for domain in _domains_of(facts, classed):
            if domain.cp is not True:
                warnings.append(_IDLE.format(_name(domain)))
    return tuple(dict.fromkeys(effects)), tuple(dict.fromkeys(warnings))


def _switch(draft: _Draft, action: SwitchBf) -> None:
    facts = draft.facts
    if facts.model is None or facts.model == _CASCADE_LAKE:
        draft.refusals.add(
            ReasonCode.SST_UNSUPPORTED, _NO_MODEL if facts.model is None else _FIRMWARE
        )
        return
    packages = action.packages or tuple(sorted({item.package for item in facts.domains}))
    for package in packages:
        own = [item for item in facts.domains if item.package == package]
        if not own:
            draft.refusals.add(
                ReasonCode.RESOURCE_ABSENT, f"{PROGRAM} reports no package {package}"
            )
        for domain in own:
            if domain.bf_supported is not True:
                why = f"there is no SST-BF at its level {domain.level} of SST-PP"
                draft.refusals.add(ReasonCode.SST_UNSUPPORTED, f"{_name(domain)}: {why}")
            elif why := _unreported(facts, domain):
                draft.refusals.add(ReasonCode.RESOURCE_UNREPORTED, f"{_name(domain)}: {why}")
            else:
                draft.set(bf_state([domain]), bf_cell(domain), ON if action.on else OFF)


def _unreported(facts: SstFacts, domain: Domain) -> str:
    if domain.bf is None:
        return "whether SST-BF is on is not reported, so it could not be read back"
    if domain.cpu is None or not facts.cpus(domain):
        return "its CPUs are not reported, so they could not be shown"
    return ""


def _classify(draft: _Draft, action: SetCpClass) -> None:
    facts, value = draft.facts, f"{action.cp_class:d}"
    if value not in CLASSES:
        why = f"there is no SST-CP class {value}: they are 0 to 3"
        draft.refusals.add(ReasonCode.SST_CLASS_INVALID, why)
        return
    gone = [cpu for cpu in action.cpus if cpu not in facts.locations]
    if gone:
        why = f"CPU {format_cpu_list(gone)}: it is not there, or offline"
        draft.refusals.add(ReasonCode.CPU_ABSENT, why)
        return
    every = [cpu for cpu in facts.with_siblings(action.cpus) if cpu in facts.locations]
    homes = list(_domains_of(facts, every))
    reached = {cpu for home in homes for cpu in facts.cpus(home)}
    without = [home for home in homes if home.cp_supported is not True]
    for domain in without:
        why = f"{_name(domain)}: there is no SST-CP, or it is not reported"
        draft.refusals.add(ReasonCode.SST_UNSUPPORTED, why)
    if set(every) - reached:
        cpus = format_cpu_list(set(every) - reached)
        draft.refusals.add(
            ReasonCode.RESOURCE_UNREPORTED, f"CPU {cpus}: {PROGRAM} does not report it"
        )
    if draft.refusals:
        return
    now = draft.classes(every)
    unread = format_cpu_list(cpu for cpu in every if class_cell(cpu) not in now)
    if unread:
        why = f"CPU {unread}: its SST-CP class can't be read, so it is not set"
        draft.refusals.add(ReasonCode.RESOURCE_UNREPORTED, why)
        return
    for cpu in every:
        draft.set(now, class_cell(cpu), value)


def _domains_of(facts: SstFacts, cpus: Iterable[int]) -> Iterator[Domain]:
    some = set(cpus)
    return (domain for domain in facts.domains if some & set(facts.cpus(domain)))


def _bases(facts: SstFacts, domain: Domain, *, on: bool) -> Iterator[str]:
    """A message per group of CPUs of a power domain whose base frequency changes alike."""
    ways: dict[tuple[bool, int | None, int | None], list[int]] = {}
    high = set(facts.with_siblings(domain.bf_high))
    for cpu in facts.cpus(domain):
        is_high = on and cpu in high
        then_hz = (domain.bf_high_hz if is_high else domain.bf_low_hz) if on else domain.base_hz
        then = None if then_hz is None else then_hz // 1000
        ways.setdefault((is_high, facts.base_khz.get(cpu), then), []).append(cpu)
    for (is_high, now, then), cpus in sorted(ways.items(), key=lambda way: way[1]):
        kind = (" (high priority)" if is_high else " (low priority)") if on else ""
        yield (
            f"{_name(domain)}, CPU {format_cpu_list(cpus)}{kind}: base frequency {_mhz(now)} now, "
            f"{_mhz(then)} then, as {PROGRAM} has it"
        )


def _bf_warnings(facts: SstFacts, domain: Domain, *, on: bool) -> Iterator[str]:
    if on and not domain.bf_high:
        yield f"{_name(domain)}: the high-priority cores are not reported"
    if on and domain.cp is not True:
        yield _CP_OFF.format(_name(domain))
    if on and facts.turbo is False:
        yield "turbo is off (no_turbo), and SST-BF needs it on"
    pinned: dict[int, list[int]] = {}
    for cpu in facts.cpus(domain):
        if cpu in facts.pinned_khz:
            pinned.setdefault(facts.pinned_khz[cpu], []).append(cpu)
    for khz, cpus in sorted(pinned.items()):
        yield f"CPU {format_cpu_list(cpus)}: pinned to {mhz_text(khz)}, and stays so"


def _name(domain: Domain) -> str:
    return bf_words(bf_cell(domain)).removeprefix("SST-BF of ").partition(" at level")[0]


def _mhz(khz: int | None) -> str:
    return "unknown" if khz is None else mhz_text(khz)


_ACTS: Mapping[type[Action], Callable[[_Draft, Any], None]] = {
    SwitchBf: _switch,
    SetCpClass: _classify,
}


@dataclass(frozen=True, slots=True)
class SpeedSelect(Backend[IsstCall]):
    """`ask` runs the tool; `root` is /, or a test's; `folder` is the journal's, with its lock."""

    ask: Ask
    root: Path = Path("/")
    folder: Path = JOURNAL
    limit_s: float = field(default=_SETTLE_S)

    @property
    def identity(self) -> str:
        return f"{boot_id(self.root)} {ISST}"

    @property
    def where(self) -> str:
        return PROGRAM

    @property
    def subject(self) -> str:
        return "SST-BF and SST-CP classes"

    @property
    def renewed(self) -> str:
        return "the tool reports another host since, which undid it"

    def facts(self) -> SstFacts:
        """Facts for a proposal. Raises OSError if the tool does not answer.

        To read base frequencies the kernel interrupts each CPU for some microseconds: only for a
        requested preview.
        """
        domains = self._domains()
        locations = {
            int(info.cpu): CpuLocation(
                -1 if info.package is None else int(info.package),
                info.die or 0,
                tuple(map(int, info.siblings)),
            )
            for info in read_topology(self.root).cpus
            if info.online
        }
        base, pinned, turbo = dict[int, int](), dict[int, int](), None
        with contextlib.suppress(OSError):  # without cpufreq the tool's own numbers are left
            kernel = Cpufreq(self.root)
            facts, state = kernel.facts(), kernel.state()
            turbo = facts.turbo
            for policy in facts.policies:
                low, high = (state.get(policy.cell(kind)) for kind in ("min_khz", "max_khz"))
                if policy.base_khz is not None:
                    base |= dict.fromkeys(policy.cpus, policy.base_khz)
                if low is not None and low == high:
                    pinned |= dict.fromkeys(policy.cpus, int(low))
        return SstFacts(domains.model, domains.rows, locations, base, pinned, turbo)

    def keepers(self) -> tuple[str, ...]:
        return tuple(
            f"{keeper.name} may set SST here too ({keeper.seen})"
            for keeper in read_keepers(self.root)
        )

    def classes(self, cpus: Iterable[int]) -> State:
        """SST-CP classes of CPUs, those that are reported. Raises OSError."""
        some = sorted(set(cpus))
        classes = ask_classes(some, self.ask) if some else {}
        if isinstance(classes, Missing):
            raise OSError(classes.message)
        return {class_cell(cpu): f"{classes[cpu]:d}" for cpu in some if cpu in classes}

    def read(self, like: Iterable[Cell]) -> State:
        cells = set(like)
        state: dict[Cell, str] = {}
        if any(cell.kind == "bf" for cell in cells):
            own = bf_state(self._domains().rows)
            state |= {cell: value for cell, value in own.items() if cell in cells}
        classes = self.classes(cell.number for cell in cells if cell.kind == "cp_class")
        return {**state, **classes}

    def read_back(self, foreseen: State) -> State:
        deadline = time.monotonic() + self.limit_s
        state = self.read(foreseen)
        while differing(foreseen, state) and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)
            state = self.read(foreseen)
        return state

    def steps(self, state: State, changes: Iterable[Change]) -> tuple[IsstCall, ...]:
        return calls(state, changes)

    def plan(
        self, actions: Sequence[Action], commands: tuple[str, ...], history: HistoryReader
    ) -> Proposal:
        del history
        return propose(self.facts(), self.classes, actions, commands, self.keepers)

    def checked_proposal(
        self, base: State, target: State, changes: Sequence[Change], commands: tuple[str, ...]
    ) -> Proposal:
        del target
        seen = {change.cell: base[change.cell] for change in changes if change.cell in base}
        if not changes:
            return Proposal(seen, (), commands=commands)
        effects, warnings = describe_effects(self.facts(), changes)
        warnings = (*warnings, *self.keepers())
        return Proposal(seen, tuple(changes), effects, warnings, commands=commands)

    def shell(self, proposal: Proposal) -> tuple[str, ...]:
        return tuple(call.shell for call in calls(proposal.base, proposal.changes))

    def do(self, step: IsstCall) -> None:
        if not step.is_sound:
            raise RefusedError(f"{PROGRAM} is not called with {step.value!r}")
        output = self.ask(step.words(self._address(step.cells[0]) if step.is_bf else None))
        if isinstance(output, Missing):
            raise RefusedError(f"{output.message}: how far it got is not known, so it is read back")
        why = refusal(output)
        if why:
            raise RefusedError(f"{step.shell}: {why}")

    def lock(self, limit_s: float) -> contextlib.AbstractContextManager[None]:
        """nftop's own lock: the tool has none."""
        return own_lock(self.folder, _LOCK, limit_s)

    def _address(self, cell: Cell) -> int:
        """A CPU of the power domain, if that is still at the level of the preview."""
        try:
            rows = self._domains().rows
        except OSError as error:
            raise RefusedError(str(error)) from None
        cpus = [row.cpu for row in rows if bf_cell(row) == cell and row.cpu is not None]
        if not cpus:
            raise RefusedError("the power domain is at another level of SST-PP now, or gone")
        return cpus[0]

    def _domains(self) -> SstDomains:
        domains = ask_domains(self.ask)
        if isinstance(domains, Missing):
            raise OSError(domains.message)
        return domains


def open_isst(root: Path = Path("/"), folder: Path = JOURNAL) -> SpeedSelect:
    """SST of this host; the tool is not run yet. Raises AbsentError."""
    program = find(PROGRAM, root)
    if program is None:
        raise AbsentError(_ABSENT)
    try:
        own = program.resolve().parent.stat()
    except OSError as error:
        raise AbsentError(f"{program}: {error.strerror}") from None
    if own.st_uid != 0 or own.st_mode & (S_IWGRP | S_IWOTH):
        raise AbsentError(f"{program}: others than root may write to its folder, so it is not run")
    return SpeedSelect(lambda words: run(program, words, LIMIT_S), root, folder)


ROW = BackendRow(
    ISST, get_args(SstAction), open_isst, lambda _word, folder: open_isst(folder=folder)
)
