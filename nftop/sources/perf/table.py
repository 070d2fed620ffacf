"""Counter groups to a CounterTable: each CPU's events in the columns of the whole table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nftop.model.reading import Reason
from nftop.model.sample import CounterTable, Counts
from nftop.sources.perf.cpu_groups import CoreGroups
from nftop.sources.perf.cpu_state import Row
from nftop.sources.perf.group import Fault, GroupReadings
from nftop.sources.perf.probe import Members, made_up_for, stand_ins
from nftop.sources.perf.problems import (
    CAME_BACK,
    LEVEL_1,
    NOT_IN_GROUP,
    STALLED,
    Problem,
    explain,
    never_ran,
)
from nftop.uarch.table import Uarch

_PROBLEM_OF = {Fault.ENDED: CAME_BACK, Fault.STALLED: STALLED, Fault.UNSCHEDULABLE: STALLED}


class TableLayout:
    """What goes where; made anew when rows change, so that a tick copies arrays and no more."""

    def __init__(
        self,
        uarch: Uarch,
        cores: CoreGroups,
        *,
        turns: bool = True,
        looked_at: Collection[int] | None = None,
    ) -> None:
        """A row for every CPU, or for those `looked_at` with all that is counted of these.

        Without `turns` the columns of groups that take turns are there, and say that they are not
        counted.
        """
        slots = _slots(uarch) if looked_at is None else (*_slots(uarch), *uarch.focus_groups)
        self._columns = [(part, name) for part, names in enumerate(slots) for name in names]
        self._events = tuple(name for _, name in self._columns)
        self._group = np.array([part for part, _ in self._columns], np.int32)
        self._extras = stand_ins(uarch, turns=turns)
        counting = [
            {name for group in cores.members(row) for name in group.names}
            for row in cores.rows
            if row.group is not None
        ]
        if counting:
            everywhere = counting[0].intersection(*counting[1:])
            self._extras |= made_up_for(uarch, everywhere, turns=turns)
        if looked_at is not None:
            self._turns = cores.rotation.turns(looked_at)
        else:
            self._turns = cores.usual_turns if turns else 0
        shown = [
            (index, row)
            for index, row in enumerate(cores.rows)
            if looked_at is None or row.cpu in looked_at
        ]
        self._cpus = np.array([row.cpu for _, row in shown], np.int32)
        members = [cores.members(row) for _, row in shown]
        self._absent = [dict(cores.absences(row)) for _, row in shown]
        if not turns and looked_at is None:
            further = {name for turn in slots[1:] for name in turn}
            for absent, member in zip(self._absent, members, strict=True):
                if member:
                    unread = further - set(absent) - set(member[0].names)
                    absent.update(dict.fromkeys(unread, LEVEL_1))
            members = [item[:1] for item in members]
        members = [item[: len(slots)] for item in members]
        self._members = [tuple(frozenset(entry.names) for entry in row) for row in members]
        self._fits_beside_watchdog = [
            [entry.fits_beside_watchdog for entry in row] for row in members
        ]
        self._counting = np.array([row.group is not None for _, row in shown], np.bool_)
        self._retired_ns = np.array([row.retired_ns for _, row in shown], np.uint64)
        place = {index: at for at, (index, _) in enumerate(shown)}
        self._place = {
            cell: (place[index], part)
            for cell, (index, part) in enumerate(cores.rotation.cells)
            if index in place
        }
        self._cells = np.array(list(self._place), np.int64)
        first = [at for at, (_, part) in enumerate(self._place.values()) if part == 0]
        self._starts = np.array(first, np.int64)
        self._carried, self._carried_ns = self._carried_on([row for _, row in shown])
        self._moves = self._moved(members)
        self._reasons, self._details = self._reasons_of(self._absent)

    def table(self, readings: GroupReadings, root: Path = Path("/")) -> CounterTable:
        """The table of one read; what was found faulty has no numbers and says why.

        Where rows lack an event for one reason but in different words, the most frequent are kept.
        """
        rows, groups = len(self._cpus), int(self._group.max(initial=0)) + 1
        values = np.zeros((rows, len(self._events)), np.uint64)
        running = np.zeros((rows, groups), np.uint64)
        for where, cells, width, part in self._moves:
            values[where] = readings.values[cells, :width]
            running[where[0][:, 0], part] = readings.running_ns[cells]
        values += self._carried  # modulo 2**64, as is what is added
        running += self._carried_ns
        enabled = self._retired_ns
        if len(self._starts):
            enabled = enabled + np.add.reduceat(readings.enabled_ns[self._cells], self._starts)
        reasons, details, counting = self._reasons, self._details, self._counting
        faults = [cell for cell in readings.faults if cell in self._place]
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
    ) -> list[dict[str, Problem]]:
        """Why each row lacks what; a row that has no numbers at all is no longer `counting`."""
        absent = [dict(item) for item in self._absent]
        for cell, (fault, code) in readings.faults.items():
            if cell not in self._place:
                continue
            row, part = self._place[cell]
            if part == 0 or fault is Fault.ENDED:
                problem = _PROBLEM_OF.get(fault) or explain(code, root)
                absent[row] = dict.fromkeys(self._events, problem)
                counting[row] = False
            elif counting[row] and part < len(self._members[row]):
                fits = self._fits_beside_watchdog[row][part]
                problem = never_ran(root, fits_beside_watchdog=fits)
                if fault is Fault.FAILED:
                    problem = explain(code, root)
                others = {
                    name
                    for other, names in enumerate(self._members[row])
                    for name in names
                    if other != part
                }
                absent[row].update(dict.fromkeys(self._members[row][part] - others, problem))
        return absent

    def _carried_on(self, rows: Sequence[Row]) -> tuple[Counts, Counts]:
        """What counts, and the time groups ran, have to be added to go on: shapes of the table."""
        counts = np.zeros((len(rows), len(self._columns)), np.uint64)
        running = np.zeros((len(rows), int(self._group.max(initial=0)) + 1), np.uint64)
        for at, row in enumerate(rows):
            running[at, 0] = row.carried_running_ns
            for name, carried in row.carried.items():
                counts[at, self._columns.index((0, name))] = carried
        return counts, running

    def _moved(
        self, members: Sequence[Sequence[Members]]
    ) -> list[tuple[tuple[NDArray[np.int64], ...], NDArray[np.int64], int, int]]:
        """Per group of the table and members of it: where they go, from which cells, how many."""
        alike: dict[tuple[int, tuple[str, ...]], list[tuple[int, int]]] = {}
        for cell, (row, part) in self._place.items():
            if self._counting[row] and part < len(members[row]) and members[row][part].names:
                alike.setdefault((part, members[row][part].names), []).append((row, cell))
        column = {key: index for index, key in enumerate(self._columns)}
        moves = []
        for (part, names), found in alike.items():
            rows, cells = np.array(found, np.int64).T
            columns = np.array([column[part, name] for name in names], np.int64)
            moves.append((np.ix_(rows, columns), cells, len(columns), part))
        return moves

    def _reasons_of(
        self, absent: Sequence[Mapping[str, Problem]]
    ) -> tuple[NDArray[np.uint8], dict[str, dict[int, str]]]:
        """Per row and column; an event that another group of the row counts has no sentence."""
        reasons = np.zeros((len(absent), len(self._columns)), np.uint8)
        for row, (lacks, members) in enumerate(zip(absent, self._members, strict=True)):
            for index, (part, name) in enumerate(self._columns):
                if name in lacks:
                    reasons[row, index] = lacks[name].reason
                elif part >= len(members) or name not in members[part]:
                    reasons[row, index] = NOT_IN_GROUP.reason
        details: dict[str, dict[int, str]] = {}
        for event in dict.fromkeys(self._events):
            problems = Counter(lacks[event] for lacks in absent if event in lacks)
            for problem, _ in problems.most_common():
                details.setdefault(event, {}).setdefault(int(problem.reason), problem.sentence)
        reasons.flags.writeable = False
        return reasons, details


def _slots(uarch: Uarch) -> tuple[tuple[str, ...], ...]:
    """The events of the main groups of all plans, of their first turns, of their second turns..."""
    turns = zip_longest(*(plan.turns for plan in uarch.plans), fillvalue=())
    return (
        uarch.main_events,
        *(tuple(dict.fromkeys(name for turn in item for name in turn)) for item in turns),
    )
