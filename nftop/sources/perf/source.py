"""The source `perf`: the counter groups of all CPUs.

A CPU whose events all fit into one group costs one read a tick, which interrupts it once. With
groups that take turns, the main one has nine tenths of a tick and another the last tenth: two
reads, and four interrupts to stop and start them (`perf.group.Costs`).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nftop.model.check import Check
from nftop.model.ids import Cpu, format_cpu_list
from nftop.model.missing import Missing, Reason
from nftop.model.sample import CounterTable, Counts
from nftop.model.struct import replace
from nftop.sources.base import RETRY_AFTER_NS, SETTLE_S
from nftop.sources.host.sysfs import OnlineCpus
from nftop.sources.perf import probe
from nftop.sources.perf.abi import Kernel, host_kernel, raise_open_files
from nftop.sources.perf.cpu_groups import CpuGroups, RetryPace
from nftop.sources.perf.group import CpuRow, Fault, GroupReadings
from nftop.sources.perf.problems import (
    CAME_BACK,
    LEVEL_1,
    NO_CPU,
    NOT_IN_GROUP,
    STALLED,
    CounterProblem,
    explain,
    never_ran,
    sysctl,
)
from nftop.uarch import table as uarch_table
from nftop.uarch.table import Uarch

_PROBLEM_OF = {Fault.ENDED: CAME_BACK, Fault.STALLED: STALLED, Fault.UNSCHEDULABLE: STALLED}


class TableLayout:
    """Layout of the table, rebuilt when rows change: a tick only copies arrays."""

    def __init__(
        self,
        uarch: Uarch,
        cores: CpuGroups,
        *,
        turns: bool = True,
        focused: Collection[int] | None = None,
    ) -> None:
        """A row for every CPU, or for the `focused` ones with all their groups.

        Without `turns` the columns of groups that take turns are present but not counted.
        """
        slots = _slots(uarch) if focused is None else (*_slots(uarch), *uarch.deep_groups)
        self._columns = [(slot, name) for slot, names in enumerate(slots) for name in names]
        self._events = tuple(name for _, name in self._columns)
        self._group = np.array([slot for slot, _ in self._columns], np.int32)
        self._extras = _extras(uarch, cores, turns=turns)
        if focused is not None:
            self._turns = cores.rotation.turns(focused)
        else:
            self._turns = cores.usual_turns if turns else 0
        shown = {
            index: row
            for index, row in enumerate(cores.rows)
            if focused is None or row.cpu in focused
        }
        rows = list(shown.values())
        members = [cores.members(row) for row in rows]
        self._absent = [dict(cores.absences(row)) for row in rows]
        if not turns and focused is None:
            further = {name for turn in slots[1:] for name in turn}
            for absent, member in zip(self._absent, members, strict=True):
                if member:
                    unread = further - set(absent) - set(member[0].names)
                    absent.update(dict.fromkeys(unread, LEVEL_1))
            members = [item[:1] for item in members]
        members = [item[: len(slots)] for item in members]
        self._cpus = np.array([row.cpu for row in rows], np.int32)
        self._members = [tuple(frozenset(entry.names) for entry in row) for row in members]
        self._fits_with_watchdog = [[entry.fits_with_watchdog for entry in row] for row in members]
        self._counting = np.array([row.group is not None for row in rows], np.bool_)
        self._retired_ns = np.array([row.retired_ns for row in rows], np.uint64)
        position = {index: at for at, index in enumerate(shown)}
        self._positions = {
            cell: (position[index], slot)
            for cell, (index, slot) in enumerate(cores.rotation.cells)
            if index in position
        }
        self._cells = np.array(list(self._positions), np.int64)
        first = [at for at, (_, slot) in enumerate(self._positions.values()) if slot == 0]
        self._starts = np.array(first, np.int64)
        self._carried, self._carried_ns = self._carried_on(rows)
        self._moves = self._moved(members)
        self._reasons, self._details = self._reasons_of(self._absent)

    def table(self, readings: GroupReadings, root: Path = Path("/")) -> CounterTable:
        """The table of one read; faulty groups have reasons and no numbers.

        If rows lack an event for one reason but with different messages, the most frequent is kept.
        """
        rows, groups = len(self._cpus), int(self._group.max(initial=0)) + 1
        values = np.zeros((rows, len(self._events)), np.uint64)
        running = np.zeros((rows, groups), np.uint64)
        for where, cells, width, slot in self._moves:
            values[where] = readings.values[cells, :width]
            running[where[0][:, 0], slot] = readings.running_ns[cells]
        values += self._carried  # modulo 2**64, as is what is added
        running += self._carried_ns
        enabled = self._retired_ns
        if len(self._starts):
            enabled = enabled + np.add.reduceat(readings.enabled_ns[self._cells], self._starts)
        reasons, details, counting = self._reasons, self._details, self._counting
        faults = [cell for cell in readings.faults if cell in self._positions]
        if faults:
            counting = counting.copy()
            reasons, details = self._reasons_of(self._faulty(readings, counting, root))
            values[reasons != Reason.PRESENT] = 0
        return CounterTable(
            cpus=self._cpus,
            events=self._events,
            group=self._group,
            values=values,
            reasons=reasons,
            enabled_ns=np.where(counting[:, None], np.repeat(enabled[:, None], groups, 1), 0),
            running_ns=np.where(counting[:, None], running, 0),
            details=details,
            extras=self._extras,
            turns=self._turns,
        )

    def _faulty(
        self, readings: GroupReadings, counting: NDArray[np.bool_], root: Path
    ) -> list[dict[str, CounterProblem]]:
        """By row, why events are absent; clears `counting` of rows without numbers."""
        absent = [dict(item) for item in self._absent]
        for cell, (fault, code) in readings.faults.items():
            if cell not in self._positions:
                continue
            row, slot = self._positions[cell]
            if slot == 0 or fault is Fault.ENDED:
                problem = _PROBLEM_OF.get(fault) or explain(code, root)
                absent[row] = dict.fromkeys(self._events, problem)
                counting[row] = False
            elif counting[row] and slot < len(self._members[row]):
                fits = self._fits_with_watchdog[row][slot]
                problem = never_ran(root, fits_with_watchdog=fits)
                if fault is Fault.FAILED:
                    problem = explain(code, root)
                others = {
                    name
                    for other, names in enumerate(self._members[row])
                    for name in names
                    if other != slot
                }
                absent[row].update(dict.fromkeys(self._members[row][slot] - others, problem))
        return absent

    def _carried_on(self, rows: Sequence[CpuRow]) -> tuple[Counts, Counts]:
        """Offsets of counts and running times, in the shapes of the table."""
        counts = np.zeros((len(rows), len(self._columns)), np.uint64)
        running = np.zeros((len(rows), int(self._group.max(initial=0)) + 1), np.uint64)
        for at, row in enumerate(rows):
            running[at, 0] = row.carried_running_ns
            for name, carried in row.carried.items():
                counts[at, self._columns.index((0, name))] = carried
        return counts, running

    def _moved(
        self, members: Sequence[Sequence[probe.Members]]
    ) -> list[tuple[tuple[NDArray[np.int64], ...], NDArray[np.int64], int, int]]:
        """By group and members: target rows and columns, source cells, width, slot."""
        alike: dict[tuple[int, tuple[str, ...]], list[tuple[int, int]]] = {}
        for cell, (row, slot) in self._positions.items():
            if self._counting[row] and slot < len(members[row]) and members[row][slot].names:
                alike.setdefault((slot, members[row][slot].names), []).append((row, cell))
        column = {key: index for index, key in enumerate(self._columns)}
        moves = []
        for (slot, names), result in alike.items():
            rows, cells = np.array(result, np.int64).T
            columns = np.array([column[slot, name] for name in names], np.int64)
            moves.append((np.ix_(rows, columns), cells, len(columns), slot))
        return moves

    def _reasons_of(
        self, absent: Sequence[Mapping[str, CounterProblem]]
    ) -> tuple[NDArray[np.uint8], dict[str, dict[int, str]]]:
        """By row and column; an event that another group of the row counts has no message."""
        reasons = np.zeros((len(absent), len(self._columns)), np.uint8)
        for row, (lacks, members) in enumerate(zip(absent, self._members, strict=True)):
            for index, (slot, name) in enumerate(self._columns):
                if name in lacks:
                    reasons[row, index] = lacks[name].reason
                elif slot >= len(members) or name not in members[slot]:
                    reasons[row, index] = NOT_IN_GROUP.reason
        details: dict[str, dict[int, str]] = {}
        for event in dict.fromkeys(self._events):
            problems = Counter(lacks[event] for lacks in absent if event in lacks)
            for problem, _ in problems.most_common():
                details.setdefault(event, {}).setdefault(int(problem.reason), problem.sentence)
        reasons.flags.writeable = False
        return reasons, details


def _extras(uarch: Uarch, cores: CpuGroups, *, turns: bool) -> frozenset[str]:
    """Events whose absence is no fault."""
    counting = [
        {name for group in cores.members(row) for name in group.names}
        for row in cores.rows
        if row.group is not None
    ]
    extras = probe.stand_ins(uarch, turns=turns)
    if not counting:
        return extras
    return extras | probe.substituted(uarch, set.intersection(*counting), turns=turns)


def _slots(uarch: Uarch) -> tuple[tuple[str, ...], ...]:
    """Events of the main groups of all plans, of their first turns, of their second turns..."""
    turns = zip_longest(*(plan.turns for plan in uarch.plans), fillvalue=())
    return (
        uarch.main_events,
        *(tuple(dict.fromkeys(name for turn in item for name in turn)) for item in turns),
    )


_NO_TABLE = CounterProblem(
    Reason.SOURCE,
    "nftop has no table for this CPU model: it counts the kernel's generic events, which give no "
    "top-down",
)


def table_checks(
    name: str, uarch: Uarch, cores: CpuGroups, *, turns: bool = True
) -> tuple[Check, ...]:
    """A check of the source, one for CPUs that count nothing, and for what is missing.

    Events that the same CPUs lack for the same reason share one check. Events that replace others,
    and those they replace, are not missing; nor are those of groups that take turns without
    `turns`.
    """
    extras = probe.stand_ins(uarch, turns=turns)
    idle: dict[CounterProblem, list[int]] = {}
    lacking: dict[tuple[str, CounterProblem], list[int]] = {}
    counted: dict[str, None] = {}
    for row in cores.rows:
        if row.problem is not None:
            idle.setdefault(row.problem, []).append(row.cpu)
            continue
        names = dict.fromkeys(name for group in cores.members(row) for name in group.names)
        counted |= names
        needless = extras | probe.substituted(uarch, names.keys(), turns=turns)
        for event, problem in cores.absences(row).items():
            if event not in needless:
                lacking.setdefault((event, problem), []).append(row.cpu)
    active = [row.cpu for row in cores.rows if row.group is not None]
    checks = [_whole(name, active, list(counted), cores.rotation.turns(), idle)]
    for problem, cpus in idle.items():
        checks.append(problem.check(f"{name} CPU {format_cpu_list(cpus)}"))
    alike: dict[tuple[CounterProblem, tuple[int, ...]], list[str]] = {}
    order = {event: index for index, event in enumerate(uarch.all_events)}
    for (event, problem), cpus in sorted(lacking.items(), key=lambda item: order[item[0][0]]):
        alike.setdefault((problem, tuple(cpus)), []).append(event)
    for (problem, where_not), (event, *others) in alike.items():
        everywhere = len(where_not) == len(active)
        where = "" if everywhere else f" (CPU {format_cpu_list(where_not)})"
        also = f"; the same for {', '.join(others)}" if others else ""
        checks.append(problem.check(f"{name} {event}", where + also))
    if uarch.topdown is None:
        checks.append(_NO_TABLE.check(f"{name} top-down"))
    return tuple(checks)


def counter_checks(
    name: str, kernel: Kernel, cores: CpuGroups, root: Path = Path("/")
) -> tuple[Check, ...]:
    """How many counters are free and which processes hold perf events, if a group never ran.

    Of the first such CPU; nothing if every group ran.
    """
    row = next((row for row in cores.rows if _lacks_counter(row, cores)), None)
    if row is None:
        return ()
    general = probe.count_general_counters(kernel, row.cpu)
    text = f"no general counter of CPU {row.cpu} can be opened"
    if general is not None:
        text = f"{general.free} of {general.total} general counters of CPU {row.cpu} are free"
    if sysctl(root, "nmi_watchdog") == "1":
        text += ", and the NMI watchdog holds a counter of cycles"
    holders = probe.perf_event_holders(root)
    programs = ", ".join(f"{holder.comm} (pid {holder.pid}: {holder.events})" for holder in holders)
    text += (
        f"; perf events are held by {programs}"
        if programs
        else "; no readable process in /proc holds perf events"
    )
    return (Check(f"{name} counters", Reason.TAKEN, text),)


def _lacks_counter(row: CpuRow, cores: CpuGroups) -> bool:
    problems = (row.problem, row.left, *cores.absences(row).values())
    return any(problem is not None and problem.reason is Reason.TAKEN for problem in problems)


def _whole(
    name: str,
    active: Sequence[int],
    counted: Sequence[str],
    turns: int,
    idle: dict[CounterProblem, list[int]],
) -> Check:
    if not active:
        problem = next(iter(idle), NO_CPU)
        return Check(name, problem.reason, f"no CPU is counted: {problem.sentence}", problem.fix)
    cpus = format_cpu_list(active)
    pace = "one read a tick each"
    if turns:
        pace = f"two reads a tick each; besides the main group {turns} more take turns"
    text = f"counts {', '.join(counted)} on CPU {cpus}, {pace}"
    return Check(name, Reason.PRESENT, text)


_CLOSED = CounterProblem(Reason.SOURCE, "the perf source has been closed")


class PerfSource:
    """Counts every online CPU, or those of `cpus`; opens its groups at the first read.

    A tick is one pread of the online mask and one readv per group that ran. CPUs that come and go
    are followed. Those in `quiet_cpus` are rows without numbers; no counter is opened on them. Not
    thread-safe, except `focus`.
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
        """`uarch` defaults to the generic table. `threads_of` returns the CPUs of a CPU's core.

        Without `turns` only main groups are counted, except of the focused core.
        """
        self._wanted = None if cpus is None else frozenset(cpus)
        self._root = root
        self._quiet = frozenset(quiet_cpus)
        self._uarch = uarch or uarch_table.load()
        self._kernel = kernel or host_kernel()
        self._clock_ns = clock_ns
        self._online = OnlineCpus(root)
        self._cpus: tuple[Cpu, ...] = ()
        self._cores: CpuGroups | None = None
        self._layout: TableLayout | None = None
        self._problem: CounterProblem | None = None
        self._retry_at_ns = 0
        self._pace = RetryPace()
        self._closed = False
        self._turns = turns
        self._threads_of = threads_of
        self._wanted_focus: Cpu | None = None
        self._wanted_node = self._node = ""
        self._focus: frozenset[Cpu] = frozenset()
        self._focus_layout: TableLayout | None = None

    @property
    def counter_reads(self) -> int:
        return self._cores.rotation.costs.reads if self._cores else 0

    @property
    def counter_interrupts(self) -> int:
        return self._cores.rotation.costs.interrupts if self._cores else 0

    @property
    def turning(self) -> bool:
        return self._cores is not None and self._cores.rotation.turning

    def turn(self) -> None:
        """As `Turning`."""
        if self._cores is not None and not self._closed:
            self._cores.rotation.turn()

    def focus(self, cpu: Cpu | None, node: str = "") -> None:
        """As `Focusing`."""
        self._wanted_focus, self._wanted_node = cpu, node

    def read(self) -> CounterTable | Missing:
        """Every counter of every CPU now; Missing if none can be counted."""
        if self._closed:
            return _CLOSED.missing
        try:
            cpus = self._chosen()
        except (OSError, ValueError) as error:
            self._problem = CounterProblem(
                Reason.ERROR, f"the list of online CPUs can't be read: {error}"
            )
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
        """Opens the groups, lets them run, and reports what is counted where."""
        table = self.read()
        # A group that does not run is replaced at the next read, by one that may not run.
        for _ in self._uarch.plans:
            if isinstance(table, CounterTable):
                time.sleep(SETTLE_S)
                table = self.read()
        # The same for each group that takes turns.
        for _ in range(self._cores.rotation.turns() if self._cores else 0):
            self.turn()
            time.sleep(SETTLE_S)
            table = self.read()
        if isinstance(table, Missing) or self._cores is None:
            return ((self._problem or _CLOSED).check(self.name),)
        checks = table_checks(self.name, self._uarch, self._cores, turns=self._turns)
        return (*checks, *counter_checks(self.name, self._kernel, self._cores, self._root))

    def close(self) -> None:
        """Close every counter; a later read is Missing. Safe to call twice."""
        self._closed = True
        if self._cores is not None:
            self._cores.close()
        self._online.close()

    def _chosen(self) -> tuple[Cpu, ...]:
        online = self._online.read()
        return online if self._wanted is None else tuple(c for c in online if c in self._wanted)

    def _follow(self, cpus: tuple[Cpu, ...]) -> CpuGroups | None:
        """The groups of these CPUs, opened or reopened if necessary; None: see `_problem`."""
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
        """Rebuild the layouts after rows have changed."""
        self._layout = self._focus_layout = None  # an old one must not survive what goes wrong here
        if self._cores is not None:
            focus = self._focus
            if focus:
                self._focus_layout = TableLayout(self._uarch, self._cores, focused=focus)
            self._layout = TableLayout(self._uarch, self._cores, turns=self._turns)

    def _begin(self, cpus: tuple[Cpu, ...]) -> None:
        raise_open_files()
        result = self._survey(cpus)
        self._problem = result.problem
        if result.problem is None:
            self._cores = CpuGroups(
                self._kernel,
                result,
                quiet=self._quiet,
                online=self._online.read,
                root=self._root,
                turns=self._turns,
            )
            self._cores.set_focus(self._focus, self._node)
            self._cores.follow(cpus)

    def _survey(self, cpus: tuple[Cpu, ...]) -> probe.Survey:
        """The survey of the first CPU that may be disturbed and stays online."""
        result = probe.Survey(self._uarch.all_events, (), None)
        for cpu in cpus:
            if cpu in self._quiet:
                continue
            result = probe.survey(self._kernel, cpu, self._uarch, self._root)
            if result.problem is None or cpu in self._chosen():
                break
        return result

    def _read(self, cores: CpuGroups, layout: TableLayout) -> CounterTable:
        readings = cores.rotation.read()
        table = layout.table(readings, self._root)
        if self._focus_layout is not None:
            table = replace(table, focus=self._focus_layout.table(readings, self._root))
        mended = bool(readings.faults) or any(row.trial for row in cores.rows)
        if mended:
            cores.mend(readings)
        if readings.faults:
            self._retry_at_ns = self._clock_ns() + RETRY_AFTER_NS
        wanted = self._wanted_focus
        focus = frozenset(self._threads_of(wanted)) if wanted is not None else frozenset()
        moved = (focus, self._wanted_node) != (self._focus, self._node)
        if moved:
            self._focus, self._node = focus, self._wanted_node
            cores.set_focus(focus, self._node)
        if mended or moved:
            self._lay_out()
        if moved and self._focus_layout is not None:
            table = replace(table, focus=self._focus_layout.table(cores.rotation.latest()))
        return table if focus else replace(table, focus=None)
