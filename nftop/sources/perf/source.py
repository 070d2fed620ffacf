"""The source `perf`: the counter groups of all CPUs.

A CPU whose events all fit into one group costs one read a tick, which interrupts it once. Where
there are groups that take turns, the main one has nine tenths of a tick and another the last tenth:
two reads, and four interrupts to stop and start them (`cpu_state.Costs`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

from nftop.model.ids import Cpu
from nftop.model.reading import Missing, Reason
from nftop.model.sample import CounterTable
from nftop.sources.base import RETRY_AFTER_NS, SETTLE_S, Check
from nftop.sources.host.online import OnlineCpus
from nftop.sources.perf.abi import Kernel, host_kernel, raise_open_files
from nftop.sources.perf.checks import counter_checks, table_checks
from nftop.sources.perf.cpu_groups import CoreGroups
from nftop.sources.perf.probe import Survey, survey
from nftop.sources.perf.problems import NO_CPU, Problem
from nftop.sources.perf.retry import Pace
from nftop.sources.perf.table import TableLayout
from nftop.uarch import table as uarch_table

_CLOSED = Problem(Reason.SOURCE, "the perf source has been closed")


class PerfSource:
    """Counts every online CPU, or those of `cpus`; opens its groups at the first read.

    In the steady state a tick is one pread of the online mask and one readv per group that ran.
    CPUs that come and go are followed. Those in `quiet_cpus` are rows without numbers and no
    counter is ever opened on them. Not for use by several threads at once, `focus` aside.
    """

    name = "perf"
    inline = True

    def __init__(
        self,
        cpus: Collection[int] | None = None,
        *,
        root: Path = Path("/"),
        quiet_cpus: Collection[int] = frozenset(),
        uarch: uarch_table.Uarch | None = None,
        kernel: Kernel | None = None,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        turns: bool = True,
        threads_of: Callable[[Cpu], Collection[Cpu]] = lambda cpu: (cpu,),
    ) -> None:
        """`uarch` defaults to the generic table; `root`, `kernel` and `clock_ns` to this host's.

        Without `turns` only the main groups are counted, but of a core that is looked at;
        `threads_of` tells the CPUs of the core of one.
        """
        self._wanted = None if cpus is None else frozenset(cpus)
        self._root = root
        self._quiet = frozenset(quiet_cpus)
        self._uarch = uarch or uarch_table.load()
        self._kernel = kernel or host_kernel()
        self._clock_ns = clock_ns
        self._online = OnlineCpus(root)
        self._cpus: tuple[Cpu, ...] = ()
        self._cores: CoreGroups | None = None
        self._layout: TableLayout | None = None
        self._problem: Problem | None = None
        self._retry_at_ns = 0
        self._pace = Pace()
        self._closed = False
        self._turns = turns
        self._threads_of = threads_of
        self._wanted_focus: Cpu | None = None
        self._focus: frozenset[Cpu] = frozenset()
        self._focus_layout: TableLayout | None = None

    @property
    def counter_reads(self) -> int:
        """Reads of counter groups so far."""
        return self._cores.rotation.costs.reads if self._cores else 0

    @property
    def counter_interrupts(self) -> int:
        """How often a CPU that counts was interrupted for it so far."""
        return self._cores.rotation.costs.interrupts if self._cores else 0

    @property
    def turning(self) -> bool:
        """It wants to be told when the last part of a tick begins."""
        return self._cores is not None and self._cores.rotation.turning

    def turn(self) -> None:
        """Let the next of the groups that take turns count until the next reading."""
        if self._cores is not None and not self._closed:
            self._cores.rotation.turn()

    def focus(self, cpu: Cpu | None) -> None:
        """Count more of this CPU's core from the next reading on; of none with None."""
        self._wanted_focus = cpu

    def read(self) -> CounterTable | Missing:
        """Every counter of every CPU now; Missing where none can be counted at all."""
        if self._closed:
            return _CLOSED.missing
        try:
            cpus = self._chosen()
        except (OSError, ValueError) as error:
            self._problem = Problem(Reason.ERROR, f"the list of online CPUs can't be read: {error}")
            return self._problem.missing
        if not cpus:
            self._problem = NO_CPU
            return NO_CPU.missing
        cores = self._follow(cpus)
        tries = cores is not None and self._pace.is_due(self._clock_ns(), cores.lost)
        if cores is not None and tries:
            cores.try_again()
        if cores is not None and (tries or self._layout is None):
            self._lay_out()
        if cores is None or self._layout is None:
            return (self._problem or NO_CPU).missing
        return self._read(cores, self._layout)

    def check(self) -> tuple[Check, ...]:
        """Opens the groups, lets them run, and says what counts where and what does not."""
        table = self.read()
        # A group that does not run is replaced at the next read, by one that may not run either.
        for _ in self._uarch.plans:
            if isinstance(table, CounterTable):
                time.sleep(SETTLE_S)
                table = self.read()
        # So is each of those that take turns.
        for _ in range(self._cores.rotation.turns() if self._cores else 0):
            self.turn()
            time.sleep(SETTLE_S)
            table = self.read()
        if isinstance(table, Missing) or self._cores is None:
            problem = self._problem or _CLOSED
            return (Check(self.name, problem.reason, problem.sentence, problem.fix),)
        checks = table_checks(self.name, self._uarch, self._cores, turns=self._turns)
        return (*checks, *counter_checks(self.name, self._kernel, self._cores, self._root))

    def close(self) -> None:
        """Close every counter; a later read says so. Safe to call twice."""
        self._closed = True
        if self._cores is not None:
            self._cores.close()
        self._online.close()

    def _chosen(self) -> tuple[Cpu, ...]:
        online = self._online.read()
        return online if self._wanted is None else tuple(c for c in online if c in self._wanted)

    def _follow(self, cpus: tuple[Cpu, ...]) -> CoreGroups | None:
        """The groups of these CPUs, opened or reopened where need be; None: see `_problem`."""
        ailing = self._cores is None or self._cores.ailing
        retry = ailing and self._clock_ns() >= self._retry_at_ns
        if cpus == self._cpus and not retry:
            return self._cores
        if self._cores is None or self._cores.blind:
            self._begin(cpus)
        else:
            self._cores.follow(cpus)
        self._cpus = cpus
        self._retry_at_ns = self._clock_ns() + RETRY_AFTER_NS
        self._lay_out()
        return self._cores

    def _lay_out(self) -> None:
        """The tables' layouts, after rows have changed."""
        self._layout = self._focus_layout = None  # an old one must not survive what goes wrong here
        if self._cores is not None:
            focus = self._focus
            if focus:
                self._focus_layout = TableLayout(self._uarch, self._cores, looked_at=focus)
            self._layout = TableLayout(self._uarch, self._cores, turns=self._turns)

    def _begin(self, cpus: tuple[Cpu, ...]) -> None:
        raise_open_files()
        found = self._survey(cpus)
        self._problem = found.problem
        if found.problem is None:
            self._cores = CoreGroups(
                self._kernel,
                found,
                quiet=self._quiet,
                online=self._online.read,
                root=self._root,
                turns=self._turns,
            )
            self._cores.look_at(self._focus)
            self._cores.follow(cpus)

    def _survey(self, cpus: tuple[Cpu, ...]) -> Survey:
        """The survey on the first CPU that stays online for it and that we may disturb."""
        found = Survey(self._uarch.all_events, (), None)
        for cpu in cpus:
            if cpu in self._quiet:
                continue
            found = survey(self._kernel, cpu, self._uarch, self._root)
            if found.problem is None or cpu in self._chosen():
                break
        return found

    def _read(self, cores: CoreGroups, layout: TableLayout) -> CounterTable:
        readings = cores.rotation.read()
        table = layout.table(readings, self._root)
        if self._focus_layout is not None:
            table = replace(table, focus=self._focus_layout.table(readings, self._root))
        mended = bool(readings.faults) or cores.trying
        if mended:
            cores.mend(readings)
        if readings.faults:
            self._retry_at_ns = self._clock_ns() + RETRY_AFTER_NS
        wanted = self._wanted_focus
        focus = frozenset(self._threads_of(wanted)) if wanted is not None else frozenset()
        moved = focus != self._focus
        if moved:
            self._focus = focus
            cores.look_at(focus)
        if mended or moved:
            self._lay_out()
        if moved and self._focus_layout is not None:
            table = replace(table, focus=self._focus_layout.table(cores.rotation.latest()))
        return table if focus else replace(table, focus=None)
