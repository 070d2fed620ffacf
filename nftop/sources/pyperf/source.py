"""Source `perf` through the kernel's Python module, for CPUs without a table; choice of source."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nftop.model.check import Check
from nftop.model.ids import Cpu, format_cpu_list
from nftop.model.missing import Missing, Reason
from nftop.model.sample import CounterTable, Counts
from nftop.model.struct import dataclass
from nftop.sources.base import RETRY_AFTER_NS, SETTLE_S, missing_check
from nftop.sources.host.sysfs import OnlineCpus
from nftop.sources.perf.abi import raise_open_files
from nftop.sources.perf.group import STALLED_AFTER_NS
from nftop.sources.perf.problems import CAME_BACK, NO_CPU, QUIET, CounterProblem, never_ran
from nftop.sources.perf.source import PerfSource
from nftop.sources.pyperf.metrics import (
    KernelMetrics,
    MetricNames,
    Opened,
    basic_events,
    find_metrics,
    fitting,
    grouped,
    open_groups,
    subgroups,
    without_metrics,
)
from nftop.sources.pyperf.module import PerfModule, load_module, silenced
from nftop.uarch.table import GENERIC, Uarch

# More than any counter does between two reads: it went backwards.
_ABSURD = 1 << 62
_NO_THREAD = -1  # of no thread but of a CPU: perf_event_open(2)'s pid


class Totals:
    """Counts and times since the start, by CPU and event, across reopened groups.

    `values`, `enabled_ns`, `running_ns`: uint64 (n CPUs, k events), never changed in place.
    """

    values: Counts
    enabled_ns: Counts
    running_ns: Counts

    def __init__(self, events: Sequence[str]) -> None:
        self._column = {name: index for index, name in enumerate(events)}
        self._row: dict[Cpu, int] = {}
        self._install(np.zeros((3, 0, len(events)), np.uint64))

    def follow(self, cpus: Sequence[Cpu]) -> None:
        """Make the rows these CPUs; rows of known CPUs continue."""
        before, old = self._row, self._sums
        sums = np.zeros((3, len(cpus), len(self._column)), np.uint64)
        self._row = {cpu: row for row, cpu in enumerate(cpus)}
        for cpu in self._row.keys() & before.keys():
            sums[:, self._row[cpu]] = old[:, before[cpu]]
        self._install(sums)

    def forget(self, cpus: Collection[Cpu]) -> None:
        """Reset these CPUs' rows to 0."""
        sums = self._sums.copy()
        sums[:, [row for cpu, row in self._row.items() if cpu in cpus]] = 0
        self._install(sums)

    def add(self, opened: Opened) -> tuple[frozenset[Cpu], frozenset[str]]:
        """Read everything once; the CPUs that went offline, and the events that stall.

        An event of a CPU that was offline stays dead: its clock stands still.
        """
        reads = [event.read(cpu, _NO_THREAD) for cpu, _, event in opened.reads]
        counted = [(read.val, read.ena, read.run) for read in reads]
        if not counted:
            return frozenset(), frozenset()
        rows = np.array([self._row[cpu] for cpu, _, _ in opened.reads])
        columns = np.array([self._column[name] for _, name, _ in opened.reads])
        new = np.array(counted, np.uint64)
        sound = (new[:, 1] > 0) & (new < _ABSURD).all(axis=1)
        stalled = sound & (new[:, 2] == 0) & (new[:, 1] >= STALLED_AFTER_NS)
        sums = self._sums.copy()
        sums[:, rows[sound], columns[sound]] += new[sound].T
        self._install(sums)
        dead = (opened.reads[index][0] for index in np.flatnonzero(~sound))
        idle = (opened.reads[index][1] for index in np.flatnonzero(stalled))
        return frozenset(dead), frozenset(idle)

    def _install(self, sums: NDArray[np.uint64]) -> None:
        self._sums = sums
        self.values, self.enabled_ns, self.running_ns = sums


_TURNS = (
    "events take turns on the counters, the least counted had {share:.0%} of the time: the kernel "
    "changes them every few ms, which interrupts the CPUs"
)


def table_checks(
    name: str,
    table: CounterTable,
    absent: Mapping[str, CounterProblem],
    metrics: KernelMetrics,
    root: Path,
) -> tuple[Check, ...]:
    """What is counted where at how many reads, what is not, and the origin of top-down."""
    rows = np.flatnonzero((table.reasons == Reason.PRESENT).any(axis=1))
    cpus = [Cpu(int(cpu)) for cpu in table.cpus[rows]]
    if not cpus:
        problem = QUIET if len(table.cpus) else NO_CPU
        return (Check(name, problem.reason, f"no CPU is counted: {problem.sentence}"),)
    counted = [_shown(event, metrics) for event in table.events if event not in absent]
    text = (
        f"the kernel's Python module counts {', '.join(counted)} on CPU {format_cpu_list(cpus)}, "
        f"{len(counted)} reads a tick each"
    )
    checks = [Check(name, Reason.PRESENT, text)]
    for event, problem in absent.items():
        checks.append(problem.check(f"{name} {_shown(event, metrics)}"))
    checks += _of_turns(name, table, rows.tolist(), metrics, root)
    if metrics.formulas:
        nodes = _nodes(metrics.formulas)
        text = f"{nodes}: the kernel's own formulas, by CPU as `perf stat -A` has them"
        checks.append(Check(f"{name} top-down", Reason.PRESENT, text))
    for problem in dict.fromkeys(metrics.absent.values()):
        lost = [node for node, why in metrics.absent.items() if why == problem]
        text = f"no {_nodes(lost)}: {problem.sentence}"
        checks.append(Check(f"{name} top-down", problem.reason, text, problem.fix))
    return tuple(checks)


def _shown(event: str, metrics: KernelMetrics) -> str:
    """An event by nftop's name, or perf's."""
    return metrics.events.get(event, event).replace(",{}", "").replace("/{}/", "")


def _nodes(metrics: Iterable[str]) -> str:
    return ", ".join(metric.removeprefix("tma.") for metric in metrics)


def _of_turns(
    name: str, table: CounterTable, rows: Sequence[int], metrics: KernelMetrics, root: Path
) -> Iterator[Check]:
    """Checks of the events that were not on the counters all the time."""
    enabled, running = table.enabled_ns[rows], table.running_ns[rows]
    share = np.where(enabled > 0, running / np.maximum(enabled, 1), 1.0).min(axis=0)
    never = [event for event, ratio in zip(table.events, share, strict=True) if ratio == 0]
    if never:
        problem = never_ran(root)
        text = f"{', '.join(_shown(event, metrics) for event in never)}: {problem.sentence}"
        yield Check(f"{name} groups", problem.reason, text, problem.fix)
    partly = share[(share > 0) & (share < 1)]
    if partly.size:
        yield Check(f"{name} turns", Reason.PRESENT, _TURNS.format(share=partly.min()))


_CLOSED = CounterProblem(Reason.SOURCE, "the perf source has been closed")
_NOT_OPENED = CounterProblem(Reason.WARMING, "it has not been opened yet")


class PythonPerfSource:
    """Counts every online CPU but `quiet_cpus`, on which no event is opened.

    The module reads one event of one CPU with a system call, so a tick costs as many reads of each
    CPU as there are events; groups only ensure that events are counted together (with
    PERF_FORMAT_GROUP the module of Linux 7.2 gives zeros or ends the process). Readings have the
    kernel's formulas as texts (`CounterTable.formulas`) with the raw counts:
    `evlist.compute_metric` would cost a further read of every event for each metric, of another
    interval, and could not be derived again from a recording. Not thread-safe.
    """

    name = "perf"
    inline = True

    def __init__(
        self,
        module: PerfModule,
        metrics: KernelMetrics,
        *,
        root: Path = Path("/"),
        quiet_cpus: Collection[int] = frozenset(),
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """Nothing is opened before the first read."""
        self._module = module
        self._metrics = metrics
        self._root = root
        self._quiet = frozenset(quiet_cpus)
        self._clock_ns = clock_ns
        self._online = OnlineCpus(root)
        self._requested = {**basic_events(root), **metrics.events}
        self._events = tuple(self._requested)
        self._totals = Totals(self._events)
        self._cpus: tuple[Cpu, ...] = ()
        self._groups: tuple[MetricNames, ...] | None = None
        self._absent: Mapping[str, CounterProblem] = {}
        self._opened = Opened()
        self._problem: CounterProblem | None = _NOT_OPENED
        self._retry_at_ns = 0
        self.counter_reads = self.counter_interrupts = 0  # each read interrupts its CPU
        self._closed = False

    def read(self) -> CounterTable | Missing:
        """Every counter of every CPU now; Missing if none can be counted."""
        if self._closed:
            return _CLOSED.missing
        try:
            cpus = self._online.read()
        except (OSError, ValueError) as error:
            return Missing(Reason.ERROR, f"the list of online CPUs can't be read: {error}")
        # Keep the counts so far: the groups are reopened below.
        dead, stalled = self._totals.add(self._opened)
        self.counter_reads = self.counter_interrupts = self.counter_reads + len(self._opened.reads)
        retry = self._problem is not None and self._clock_ns() >= self._retry_at_ns
        if cpus != self._cpus or retry:
            self._cpus = cpus
            self._totals.follow(cpus)
            with silenced():
                self._open()
        elif dead or stalled:
            self._totals.forget(dead)
            self._mend(dead, stalled)
        if self._problem is not None:
            return self._problem.missing
        return self._table(dead)

    def check(self) -> tuple[Check, ...]:
        """Opens the groups, lets them run, and reports what is counted where."""
        table = self.read()
        # Once more for groups that do not run, and are then counted one by one.
        for _ in range(2):
            if isinstance(table, CounterTable):
                time.sleep(SETTLE_S)
                table = self.read()
        if isinstance(table, Missing):
            fix = self._problem.fix if self._problem is not None else ""
            return missing_check(self.name, table, fix)
        return table_checks(self.name, table, self._absent, self._metrics, self._root)

    def close(self) -> None:
        """Close every counter; a later read is Missing. Safe to call twice."""
        self._closed = True
        self._opened.close()
        self._online.close()

    def _open(self) -> None:
        self._opened.close()
        self._retry_at_ns = self._clock_ns() + RETRY_AFTER_NS
        cpus = [cpu for cpu in self._cpus if cpu not in self._quiet]
        if not cpus:
            self._problem = NO_CPU if not self._cpus else None
            return
        if self._groups is None:
            raise_open_files()
            groups = grouped(self._events, self._metrics.events)
            usable, self._absent = fitting(self._module, groups, self._requested, cpus[0])
            if not usable:
                self._problem = self._absent["cycles"]
                return
            self._groups = usable
        opened = open_groups(self._module, self._groups, self._requested, cpus)
        if isinstance(opened, CounterProblem):
            self._problem = opened
        else:
            self._opened, self._problem = opened, None

    def _mend(self, dead: Collection[Cpu], stalled: frozenset[str]) -> None:
        """Reopen events whose CPU went offline, and split groups that never ran."""
        before = self._groups or ()
        after: list[MetricNames] = []
        for group in before:
            after += (group,) if stalled.isdisjoint(group) else subgroups(group)
        if dead or tuple(after) != before:
            self._groups = tuple(after)
            with silenced():
                self._open()

    def _table(self, dead: Collection[Cpu]) -> CounterTable:
        """The table. Each event is a group of its own, since it is read with its own clock."""
        width = len(self._events)
        reasons = np.zeros((len(self._cpus), width), np.uint8)
        details: dict[str, dict[int, str]] = {}

        def lacks(names: Collection[str], rows: list[int], problem: CounterProblem) -> None:
            for name in names:
                reasons[rows, self._events.index(name)] = problem.reason
                details.setdefault(name, {})[int(problem.reason)] = problem.sentence

        for name, problem in self._absent.items():
            lacks((name,), list(range(len(self._cpus))), problem)
        for cpus, problem in ((self._quiet, QUIET), (frozenset(dead), CAME_BACK)):
            rows = [row for row, cpu in enumerate(self._cpus) if cpu in cpus]
            if rows:
                lacks(self._events, rows, problem)
        for metric, problem in self._metrics.absent.items():
            details[metric] = {int(problem.reason): problem.sentence}
        return CounterTable(
            cpus=np.array(self._cpus, np.int32),
            events=self._events,
            group=np.arange(width, dtype=np.int32),
            values=np.where(reasons == 0, self._totals.values, np.uint64(0)),
            reasons=reasons,
            enabled_ns=self._totals.enabled_ns,
            running_ns=self._totals.running_ns,
            details=details,
            formulas=self._metrics.formulas,
        )


WAYS = ("auto", "perf", "python-perf")
_NAME = "python-perf"
_UNUSED = CounterProblem(
    Reason.HARDWARE,
    "it can count here, but the kernel has no top-down for this CPU: nftop's own groups give the "
    "rest with fewer reads",
)


class NoCounters:
    """The source `perf` if the requested way to count is not available."""

    name = "perf"
    inline = True
    counter_reads = 0
    counter_interrupts = 0

    def __init__(self, problem: CounterProblem) -> None:
        self._problem = problem

    def read(self) -> Missing:
        return self._problem.missing

    def check(self) -> tuple[Check, ...]:
        return (self._problem.check(self.name),)

    def close(self) -> None:
        """Nothing is held."""


@dataclass(frozen=True, slots=True)
class CounterChoice:
    """The source that counts, and doctor's lines on the one that does not."""

    source: PerfSource | PythonPerfSource | NoCounters
    checks: tuple[Check, ...] = ()


def choose(
    way: str,
    own: PerfSource,
    uarch: Uarch,
    *,
    quiet_cpus: Collection[int],
    root: Path = Path("/"),
    module: PerfModule | CounterProblem | None = None,
) -> CounterChoice:
    """`own` or the module's source, by `--pmu` (one of `WAYS`); loads the module only if needed.

    `auto` uses the module on CPUs without a table, if the kernel has top-down for them: everything
    else `own` gives at one read a tick.
    """
    if way == "perf" or (way == "auto" and uarch.name != GENERIC):
        return CounterChoice(own)
    try:
        with silenced():
            loaded = load_module(root) if module is None else module
            if not isinstance(loaded, CounterProblem):
                return _by_module(way, loaded, own, quiet_cpus, root)
    except Exception as error:  # noqa: BLE001 - the boundary: a C module may raise anything
        message = f"the kernel's Python module perf failed: {type(error).__name__}: {error}"
        loaded = CounterProblem(Reason.ERROR, message)
    if way == "python-perf":
        return CounterChoice(NoCounters(loaded))
    return CounterChoice(own, (loaded.check(_NAME),))


def _by_module(
    way: str, module: PerfModule, own: PerfSource, quiet_cpus: Collection[int], root: Path
) -> CounterChoice:
    """The choice if the module is present; raises whatever the module does."""
    problem = _cycles_problem(module, quiet_cpus, root)
    # perf writes errors about formulas with unknown events: don't read them then.
    metrics = find_metrics(module, root) if problem is None else without_metrics(problem)
    if way == "auto" and not metrics.formulas:
        return CounterChoice(own, ((problem or _UNUSED).check(_NAME),))
    return CounterChoice(PythonPerfSource(module, metrics, root=root, quiet_cpus=quiet_cpus))


def _cycles_problem(
    module: PerfModule, quiet_cpus: Collection[int], root: Path
) -> CounterProblem | None:
    """Why cycles can't be counted, tried on a CPU that may be disturbed; None if they can."""
    online = OnlineCpus(root)
    try:
        cpu = next((cpu for cpu in online.read() if cpu not in quiet_cpus), None)
    except (OSError, ValueError) as error:
        return CounterProblem(Reason.ERROR, f"the list of online CPUs can't be read: {error}")
    finally:
        online.close()
    if cpu is None:
        return QUIET
    _, absent = fitting(module, (("cycles",),), basic_events(root), cpu)
    return absent.get("cycles")
