"""Which events this host can count, and in which groups: determined once, on one CPU.

An open that succeeds proves that the kernel knows the event, not that the group will ever run; that
shows after the first tick. So a survey has every group that opens, best first.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from nftop.model.missing import Missing, Reason
from nftop.model.perf_tool import PerfTool
from nftop.model.struct import dataclass, field, replace
from nftop.model.terminal_text import safe_line
from nftop.sources.base import SETTLE_S
from nftop.sources.host.sysfs import comm, entries, link_target
from nftop.sources.perf import abi, pmu
from nftop.sources.perf.abi import READ_HEADER_WORDS, Kernel, close_events, open_next
from nftop.sources.perf.group import close_group, open_group
from nftop.sources.perf.problems import (
    DOES_NOT_FIT,
    NO_EVENT,
    NO_REGISTER,
    NOT_IN_GROUP,
    REGISTER_IGNORED,
    CounterProblem,
    explain,
)
from nftop.sources.runtime.helper import find, run
from nftop.uarch.events import PERF_TYPES
from nftop.uarch.table import Encoding, EventSpec, Plan, PmuTerms, Uarch
from nftop.uarch.topdown import CLOCKS, computable, events_read

# PERF_COUNT_HW_BRANCH_INSTRUCTIONS: an architectural event without a fixed counter, which every
# general counter can count (Intel SDM volume 3, "Branch Instructions Retired").
_ON_ANY_COUNTER = Encoding(PERF_TYPES["hardware"], 4)
_MAX_COUNTERS = 16
# What /proc/PID/fd shows of a descriptor of perf_event_open(2).
_PERF_EVENT = "anon_inode:[perf_event]"


@dataclass(frozen=True, slots=True)
class Holder:
    """A process with open perf events; `comm` is its name, `events` their number."""

    pid: int
    comm: str
    events: int


@dataclass(frozen=True, slots=True)
class GeneralCounters:
    """General counters of one CPU: all, and those that a group can get."""

    total: int
    free: int


def general_counters_needed(uarch: Uarch, events: Collection[str], *, watchdog: bool) -> int:
    """How many general counters a group of events takes.

    `watchdog`: the NMI watchdog holds the fixed counter of cycles. Every fixed counter takes one
    event; parts of PERF_METRICS are read with the slots; events of other PMUs need none.
    """
    fixed = [] if uarch.counters is None else list(uarch.counters.fixed)
    if watchdog:
        fixed = [item for item in fixed if "cycles" not in item]
    needed = 0
    for event in events:
        slot = next((item for item in fixed if event in item), None)
        if slot is not None:
            fixed.remove(slot)
        elif _takes_counter(uarch, event):
            needed += 1
    return needed


def fits_with_watchdog(
    uarch: Uarch, events: Collection[str], opened: Sequence[Collection[str]]
) -> bool:
    """Whether a group fits on a CPU of which the NMI watchdog has the counter of cycles.

    If it does and never runs, another program has counters. `opened` are all the groups that the
    kernel accepted, which shows how many counters the firmware left. False without a table.
    """
    counters = uarch.counters
    if counters is None:
        return False
    most = max((general_counters_needed(uarch, item, watchdog=False) for item in opened), default=0)
    few, many = sorted((counters.general_smt_on, counters.general_smt_off))
    general = many if most > few else few
    return general_counters_needed(uarch, events, watchdog=True) <= general


def _takes_counter(uarch: Uarch, event: str) -> bool:
    spec = uarch.events[event]
    if isinstance(spec, PmuTerms):
        # Without `=` it is a name of sysfs: the slots or a part of PERF_METRICS.
        return spec.pmu == "cpu" and "=" in spec.terms
    return spec.pmu_type != PERF_TYPES["software"]


def count_general_counters(kernel: Kernel, cpu: int) -> GeneralCounters | None:
    """Number of general counters of a CPU, all and free; None if none can be opened.

    Opens groups of as many events as there are counters, then of one less, until one runs: up to
    half a second, for `nftop doctor` only. Never raises.
    """
    total = 0
    for size in range(_MAX_COUNTERS, 0, -1):
        ran = _runs(kernel, cpu, size)
        if ran is None:
            continue
        total = total or size
        if ran:
            return GeneralCounters(total, size)
    return GeneralCounters(total, 0) if total else None


def _runs(kernel: Kernel, cpu: int, size: int) -> bool | None:
    """Whether a group of that many events gets onto the counters; None: it does not open."""
    try:
        group = open_group(kernel, cpu, [_ON_ANY_COUNTER] * size)
    except OSError:
        return None
    try:
        time.sleep(SETTLE_S)
        words = memoryview(bytearray(8 * (READ_HEADER_WORDS + size))).cast("Q")
        kernel.readv(group.fds[0], [words.cast("B")])
        return bool(words[2])
    except OSError:
        return False
    finally:
        close_group(kernel, group)


def perf_event_holders(root: Path = Path("/")) -> tuple[Holder, ...]:
    """The other processes in /proc that have perf events open, most events first.

    Reads the descriptors of every process: for `nftop doctor` only. Processes that can't be read,
    or that end meanwhile, are left out.
    """
    holders = []
    for name in entries(root / "proc"):
        if name.isdecimal() and int(name) != os.getpid():
            folder = root / "proc" / name
            fds = [link_target(folder / "fd" / fd) for fd in entries(folder / "fd")]
            with suppress(OSError):
                if events := fds.count(_PERF_EVENT):
                    holders.append(Holder(int(name), comm(folder), events))
    return tuple(sorted(holders, key=lambda holder: (-holder.events, holder.pid)))


LEVELS = 2  # of top-down, that are counted of every core
# No register alongside an event has this bit (`valid_mask` of struct extra_reg in the kernel's
# arch/x86/events/perf_event.h).
_INVALID_REGISTER_BIT = 1 << 63
# Errors of nftop's own limits, not of the event.
OWN_LIMITS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


@dataclass(frozen=True, slots=True)
class Members:
    """A group that can be opened."""

    names: tuple[str, ...] = ()  # in the order they are opened; none: it can't be
    encodings: tuple[Encoding, ...] = ()
    fits_with_watchdog: bool = False  # it fits while the NMI watchdog holds a counter


@dataclass(frozen=True, slots=True)
class PlanStep:
    """A way to count."""

    main: Members  # the group that counts most of the time
    turns: tuple[Members, ...]  # take turns with it; of every step as many, some of them empty
    absent: Mapping[str, CounterProblem]  # why other events of the plans are in no group

    @property
    def names(self) -> tuple[str, ...]:
        return self.main.names


@dataclass(frozen=True, slots=True)
class Survey:
    """Result of a survey.

    Attributes:
        events: every event that some group of the table counts.
        steps: the ways to count, best first, each with another main group.
        problem: why there is no step; else None.
        focus: further groups of a focused core.
        nodes: by `focus`, the node while which is the largest it is counted; "" for always.
        unfocused: why other events of the table's focus are not.
    """

    events: tuple[str, ...]
    steps: tuple[PlanStep, ...]
    problem: CounterProblem | None
    focus: tuple[Members, ...] = ()
    unfocused: Mapping[str, CounterProblem] = field(default_factory=dict)
    nodes: tuple[str, ...] = ()


def survey(kernel: Kernel, cpu: int, uarch: Uarch, root: Path = Path("/")) -> Survey:
    """Try the table's plans on `cpu`; every descriptor is closed again. Never raises."""
    events = uarch.all_events
    encodings, problems = _resolve(uarch.events, events, root)
    planned = dict.fromkeys(e for plan in uarch.plans for group in plan.groups for e in group)
    most = max(len(plan.turns) for plan in uarch.plans)
    tried = _Trial(kernel, cpu, encodings, problems, root)
    steps: dict[tuple[str, ...], PlanStep] = {}
    try:
        tried.has_pmu = "cycles" in encodings and tried.opens_alone("cycles")
        tried.check_registers()
        for plan in uarch.plans:
            names = tried.whole(plan)
            if names and names not in steps:
                members = (
                    tried.further_members(turn, alongside=plan.events) for turn in plan.turns
                )
                turns = (*members, *[Members()] * (most - len(plan.turns)))
                counted = {*names, *(name for turn in turns for name in turn.names)}
                absent = {e: problems.get(e, NOT_IN_GROUP) for e in planned if e not in counted}
                steps[names] = PlanStep(tried.group_of(names), turns, absent)
        best = uarch.plans[0].events
        focus = tuple(tried.further_members(group, alongside=best) for group in uarch.deep_groups)
    except OSError as error:
        return Survey(events, (), explain(error.errno or 0, root))
    steps, focus = _with_watchdog(uarch, steps, focus)
    problem = None
    if not steps:  # missing privileges are reported first
        known = [problems[e] for e in uarch.main_events if e in problems]
        problem = min(known, key=lambda p: p.reason is not Reason.PERMISSION, default=DOES_NOT_FIT)
    focused = {name for group in focus for name in group.names}
    unfocused = {
        event: problems.get(event, NOT_IN_GROUP)
        for group in uarch.deep_groups
        for event in group
        if event not in focused
    }
    return Survey(events, tuple(steps.values()), problem, focus, unfocused, uarch.drilled_nodes)


def _with_watchdog(
    uarch: Uarch, steps: Mapping[tuple[str, ...], PlanStep], focus: Sequence[Members]
) -> tuple[dict[tuple[str, ...], PlanStep], tuple[Members, ...]]:
    """The same, each group with whether it fits with the NMI watchdog."""
    groups = [*(group for step in steps.values() for group in (step.main, *step.turns)), *focus]
    opened = [group.names for group in groups]

    def known(group: Members) -> Members:
        fits = fits_with_watchdog(uarch, group.names, opened)
        return replace(group, fits_with_watchdog=fits)

    return (
        {
            names: replace(step, main=known(step.main), turns=tuple(map(known, step.turns)))
            for names, step in steps.items()
        },
        tuple(map(known, focus)),
    )


def _resolve(
    specs: Mapping[str, EventSpec], names: Iterable[str], root: Path
) -> tuple[dict[str, Encoding], dict[str, CounterProblem]]:
    encodings: dict[str, Encoding] = {}
    problems: dict[str, CounterProblem] = {}
    for name in names:
        spec = specs[name]
        if isinstance(spec, Encoding):
            encodings[name] = spec
            continue
        try:
            encodings[name] = pmu.encode(pmu.read_pmu(spec.pmu, root), spec.terms)
        except FileNotFoundError:
            sentence = f"this kernel has no PMU {spec.pmu} (no {spec} in sysfs)"
            problems[name] = CounterProblem(Reason.HARDWARE, sentence)
        except OSError as error:
            sentence = f"the PMU {spec.pmu} can't be read in sysfs: {error.strerror}"
            problems[name] = CounterProblem(Reason.ERROR, sentence)
        except pmu.PmuError as error:
            problems[name] = CounterProblem(Reason.HARDWARE, str(error))
    return encodings, problems


@dataclass(slots=True)
class _Trial:
    """Opens groups on one CPU and closes them again.

    `problems` has why an event did not open; each is tried again in the next group. Methods raise
    OSError for nftop's own limits.
    """

    kernel: Kernel
    cpu: int
    encodings: dict[str, Encoding]
    problems: dict[str, CounterProblem]
    root: Path
    has_pmu: bool = False

    def check_registers(self) -> None:
        """Drop the events whose register this kernel would not set.

        For an event that needs a register besides its counter (`config1`: MSR_OFFCORE_RSP_x,
        MSR_PEBS_FRONTEND) the kernel has an entry with the valid bits; any other bit is EINVAL.
        Without an entry it ignores config1, and the event counts something else:
        `x86_pmu_extra_regs` in arch/x86/events/core.c. So Linux 5.12 and 5.13 count UOPS_RETIRED.MS
        of Sapphire Rapids, whose entry came with "perf/x86/intel: Add more events requires FRONTEND
        MSR on Sapphire Rapids". The folder `format` shows the term `frontend` in either case.
        """
        for name, encoding in list(self.encodings.items()):
            if encoding.config1 and self.opens_alone(name):
                invalid = replace(encoding, config1=encoding.config1 | _INVALID_REGISTER_BIT)
                if self._opens(invalid):
                    del self.encodings[name]
                    self.problems[name] = REGISTER_IGNORED

    def group_of(self, names: tuple[str, ...]) -> Members:
        return Members(names, tuple(self.encodings[name] for name in names))

    def whole(self, plan: Plan) -> tuple[str, ...]:
        """The events of the plan that opened as one group; none if the plan fails."""
        names, fits = self._open(plan.events, stop=True)
        return names if fits and plan.needs <= set(names) else ()

    def further_members(self, listed: tuple[str, ...], *, alongside: Collection[str]) -> Members:
        """Events of a further group that opened; empty if `alongside` has all of them."""
        names, _ = self._open(listed, stop=False)
        return self.group_of(names) if set(names) - set(alongside) else Members()

    def _open(self, listed: tuple[str, ...], *, stop: bool) -> tuple[tuple[str, ...], bool]:
        """What opened, and whether all of it fits; `stop` at the first event that does not."""
        names: list[str] = []
        fits = True
        with _descriptors(self.kernel) as fds:
            for name in listed:
                if name not in self.encodings:
                    continue
                refusal = _open(self.kernel, self.cpu, self.encodings[name], fds)
                if not refusal:
                    names.append(name)
                    self.problems.pop(name, None)
                elif names and self.opens_alone(name):
                    self.problems[name] = DOES_NOT_FIT
                    fits = False
                    if stop:
                        break
                else:
                    self.problems[name] = self._refused(name, refusal)
        return tuple(names), fits

    def _refused(self, name: str, code: int) -> CounterProblem:
        if code == errno.ENOENT and self.has_pmu:
            return NO_EVENT
        if code == errno.ENXIO and self.encodings[name].config1:
            return NO_REGISTER
        return explain(code, self.root)

    def opens_alone(self, name: str) -> bool:
        return self._opens(self.encodings[name])

    def _opens(self, encoding: Encoding) -> bool:
        with _descriptors(self.kernel) as fds:
            return _open(self.kernel, self.cpu, encoding, fds) == 0


def _open(kernel: Kernel, cpu: int, encoding: Encoding, fds: list[int]) -> int:
    """Open an event behind the leader in `fds` and append it; the errno, 0 if it opened."""
    try:
        open_next(kernel, cpu, encoding, fds)
    except OSError as error:
        if error.errno in OWN_LIMITS:
            raise
        return error.errno or errno.EINVAL
    return 0


@contextmanager
def _descriptors(kernel: Kernel) -> Iterator[list[int]]:
    fds: list[int] = []
    try:
        yield fds
    finally:
        close_events(kernel, fds)


def stand_ins(uarch: Uarch, *, turns: bool = True) -> frozenset[str]:
    """Events whose absence is no fault: not in the best plan, or turns while without `turns`."""
    best = uarch.plans[0]
    groups = (*(best.groups if turns else (best.events,)), *uarch.focus_groups)
    promised = {name for group in groups for name in group}
    return uarch.extras | (frozenset(uarch.all_events) - promised)


def substituted(uarch: Uarch, counted: Collection[str], *, turns: bool = True) -> frozenset[str]:
    """The events of top-down, if it is as complete without some of them as by the best plan.

    Complete are levels 1 and 2, or what the plan's own group has of them without `turns`. Cycles
    are not among the events: CPP needs them too.
    """
    best = uarch.plans[0]
    if uarch.topdown is None:
        return frozenset()
    smt = best.smt is not False
    promised = {name for group in (best.groups if turns else (best.events,)) for name in group}
    if not computable(uarch, promised, smt=smt) <= computable(uarch, counted, smt=smt):
        return frozenset()
    read = events_read(uarch.topdown.formulas(smt=smt))
    names = (name for name, level in uarch.topdown.level.items() if level <= LEVELS)
    return frozenset[str]().union(*(read[name] for name in names)) - frozenset(CLOCKS)


# The command perf(1) of this host: its version, and what it can record here.
_VERSION = re.compile(r"perf version (\d{1,3})\.(\d{1,3})")
_TIMEOUT_S = 5.0
_FAULT_LIMIT = 160  # characters of perf's message


def read_tool(root: Path = Path("/"), kernel: Kernel | None = None) -> PerfTool:
    """Capabilities of perf and this kernel, from perf itself and sysfs. Never raises."""
    kernel = kernel or abi.host_kernel(pid=abi.THIS_THREAD)
    pmus = set(entries(root / pmu.DEVICES))
    core = next((pmu for pmu in ("cpu", "cpu_core") if pmu in pmus), "")
    events = set(entries(root / pmu.DEVICES / core / "events")) if core else set()
    version, fault = _version()
    return PerfTool(
        version=version,
        cycles=bool(core),
        samples=next(
            (
                name
                for name, event in _SAMPLED.items()
                if (core or name != "cycles") and _samples(kernel, event)
            ),
            "",
        ),
        memory_events="mem-loads" in events or "ibs_op" in pmus,
        processor_trace="intel_pt" in pmus,
        fault=fault,
    )


# What a CPU can be sampled by: interrupts of the PMU, or a timer (PERF_COUNT_SW_CPU_CLOCK).
_SAMPLED = {
    name: Encoding(PERF_TYPES[kind], 0)
    for name, kind in (("cycles", "hardware"), ("cpu-clock", "software"))
}
_RARELY = 1 << 40


def _samples(kernel: Kernel, event: Encoding) -> bool:
    """Whether the kernel can sample an event: it opens one of this thread, which never runs."""
    attr = abi.attribute(event, leader=True)
    attr.sample_period = _RARELY
    try:
        kernel.close(kernel.open_event(attr, -1, -1))
    except OSError as error:
        return error.errno in (errno.EACCES, errno.EPERM)  # sudo may do what this user may not
    return True


def _version() -> tuple[tuple[int, int] | None, str]:
    """As `version` and `fault` of PerfTool. Wrappers of distributions end with an error."""
    program = find("perf")
    if program is None:
        return None, ""
    output = run(program, ["--version"], _TIMEOUT_S)
    if isinstance(output, Missing):
        return (0, 0), output.message
    if output.code:
        first = (output.errors or output.output).strip().partition("\n")[0][:_FAULT_LIMIT]
        shown = safe_line(first)
        return (0, 0), f"perf is installed and does not run (exit code {output.code}): {shown}"
    match = _VERSION.search(output.output)
    return ((int(match[1]), int(match[2])) if match else (0, 0)), ""
