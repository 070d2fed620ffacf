"""The source `perf` by the kernel's own Python module, for CPUs that nftop has no table for."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import numpy as np

from nftop.model.ids import Cpu
from nftop.model.reading import Missing, Reason
from nftop.model.sample import CounterTable
from nftop.sources.base import RETRY_AFTER_NS, SETTLE_S, Check
from nftop.sources.host.online import OnlineCpus
from nftop.sources.perf.abi import raise_open_files
from nftop.sources.perf.problems import CAME_BACK, NO_CPU, QUIET, Problem
from nftop.sources.pyperf.checks import table_checks
from nftop.sources.pyperf.groups import (
    Group,
    Opened,
    basic_events,
    fitting,
    grouped,
    open_groups,
    parts_of,
)
from nftop.sources.pyperf.metrics import KernelMetrics
from nftop.sources.pyperf.module import PerfModule, unheard
from nftop.sources.pyperf.totals import Totals

_CLOSED = Problem(Reason.SOURCE, "the perf source has been closed")
_NOT_OPENED = Problem(Reason.WARMING, "it has not been opened yet")


class PythonPerfSource:
    """Counts every online CPU but `quiet_cpus`, on which no event is ever opened.

    The module reads one event of one CPU with a system call, so a tick costs as many reads of
    each CPU as there are events; groups only see to it that events are counted together (asked for
    PERF_FORMAT_GROUP, that of Linux 7.2 gives zeros or ends the process). Nothing is sampled,
    nothing inherited. Top-down is the kernel's own formulas: they go with each
    reading as texts (`CounterTable.formulas`) beside the raw counts, and not as the numbers that
    `evlist.compute_metric` makes of them: those are of whatever passed since the module's last
    reads, cost a further read of every event for each metric, and could not be derived again from
    a recording. Not for use by several threads at once.
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
        self._asked = {**basic_events(root), **metrics.events}
        self._events = tuple(self._asked)
        self._totals = Totals(self._events)
        self._cpus: tuple[Cpu, ...] = ()
        self._groups: tuple[Group, ...] | None = None
        self._absent: Mapping[str, Problem] = {}
        self._opened = Opened()
        self._problem: Problem | None = _NOT_OPENED
        self._retry_at_ns = 0
        self._counter_reads = 0
        self._closed = False

    @property
    def counter_reads(self) -> int:
        """Reads of counters so far: each interrupts the CPU it reads."""
        return self._counter_reads

    @property
    def counter_interrupts(self) -> int:
        """As many: nothing is stopped or started in between."""
        return self._counter_reads

    def read(self) -> CounterTable | Missing:
        """Every counter of every CPU now; Missing where none can be counted at all."""
        if self._closed:
            return _CLOSED.missing
        try:
            cpus = self._online.read()
        except (OSError, ValueError) as error:
            return Missing(Reason.ERROR, f"the list of online CPUs can't be read: {error}")
        # What was counted until now is not lost when the groups are opened anew below.
        dead, stalled = self._totals.add(self._opened)
        self._counter_reads += len(self._opened.reads)
        retry = self._problem is not None and self._clock_ns() >= self._retry_at_ns
        if cpus != self._cpus or retry:
            self._cpus = cpus
            self._totals.follow(cpus)
            self._open()
        elif dead or stalled:
            self._totals.forget(dead)
            self._mend(dead, stalled)
        if self._problem is not None:
            return self._problem.missing
        return self._table(dead)

    def check(self) -> tuple[Check, ...]:
        """Opens the groups, lets them run, and says what counts where and what does not."""
        table = self.read()
        # Once more for groups that do not run, and are then counted one by one.
        for _ in range(2):
            if isinstance(table, CounterTable):
                time.sleep(SETTLE_S)
                table = self.read()
        if isinstance(table, Missing):
            fix = self._problem.fix if self._problem is not None else ""
            return (Check(self.name, table.reason, table.message, fix),)
        return table_checks(self.name, table, self._absent, self._metrics, self._root)

    def close(self) -> None:
        """Close every counter; a later read says so. Safe to call twice."""
        self._closed = True
        self._opened.close()
        self._online.close()

    def _open(self) -> None:
        with unheard():
            self._open_all()

    def _open_all(self) -> None:
        self._opened.close()
        self._retry_at_ns = self._clock_ns() + RETRY_AFTER_NS
        cpus = [cpu for cpu in self._cpus if cpu not in self._quiet]
        if not cpus:
            self._problem = NO_CPU if not self._cpus else None
            return
        if self._groups is None:
            raise_open_files()
            groups = grouped(self._events, self._metrics.events)
            found, self._absent = fitting(self._module, groups, self._asked, cpus[0])
            if not found:
                self._problem = self._absent["cycles"]
                return
            self._groups = found
        opened = open_groups(self._module, self._groups, self._asked, cpus)
        if isinstance(opened, Problem):
            self._problem = opened
        else:
            self._opened, self._problem = opened, None

    def _mend(self, dead: Collection[Cpu], stalled: frozenset[str]) -> None:
        """Open anew what died with its CPU, and in parts what never ran as a group."""
        before = self._groups or ()
        after: list[Group] = []
        for group in before:
            after += (group,) if stalled.isdisjoint(group) else parts_of(group)
        if dead or tuple(after) != before:
            self._groups = tuple(after)
            self._open()

    def _table(self, dead: Collection[Cpu]) -> CounterTable:
        """Each event is a group of its own: it has its own clock, being read by itself."""
        width = len(self._events)
        reasons = np.zeros((len(self._cpus), width), np.uint8)
        details: dict[str, dict[int, str]] = {}

        def lacks(names: Collection[str], rows: list[int], problem: Problem) -> None:
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
