"""Counter groups to a CounterTable: each CPU's events in the columns of the whole table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from nftop.model.reading import Reason
from nftop.model.sample import CounterTable
from nftop.sources.perf.cores import CoreGroups
from nftop.sources.perf.group import Fault, GroupReadings
from nftop.sources.perf.problems import CAME_BACK, STALLED, Problem, explain
from nftop.uarch.table import Uarch

_PROBLEM_OF = {Fault.ENDED: CAME_BACK, Fault.STALLED: STALLED, Fault.UNSCHEDULABLE: STALLED}


class TableLayout:
    """What goes where; made anew when rows change, so that a tick copies arrays and no more."""

    def __init__(self, uarch: Uarch, cores: CoreGroups) -> None:
        self._events = uarch.counted
        self._extras = uarch.extras
        self._group = np.zeros(len(self._events), np.int32)
        self._cpus = np.array([row.cpu for row in cores.rows], np.int32)
        self._absent = [cores.absences(row) for row in cores.rows]
        self._reasons, self._details = _reasons(self._events, self._absent)
        self._counting = np.array([row.group is not None for row in cores.rows], np.bool_)
        rows_of: dict[int, list[int]] = {}
        for index, row in enumerate(cores.rows):
            if row.group is not None:
                rows_of.setdefault(row.step, []).append(index)
        self._moves = []
        for rows in rows_of.values():
            names = cores.step(cores.rows[rows[0]]).names
            columns = [self._events.index(name) for name in names]
            self._moves.append((np.ix_(rows, columns), np.array(rows), len(columns)))

    def table(self, readings: GroupReadings, root: Path = Path("/")) -> CounterTable:
        """The table of one read; rows with a fault have no numbers and say why.

        Where rows lack an event for one reason but in different words, the most frequent are kept.
        """
        values = np.zeros((len(self._cpus), len(self._events)), np.uint64)
        for where, rows, width in self._moves:
            values[where] = readings.values[rows, :width]
        reasons, details, counting = self._reasons, self._details, self._counting
        if readings.faults:
            absent = list(self._absent)
            counting = counting.copy()
            for row, (fault, code) in readings.faults.items():
                problem = _PROBLEM_OF.get(fault) or explain(code, root)
                absent[row] = dict.fromkeys(self._events, problem)
                counting[row] = False
            reasons, details = _reasons(self._events, absent)
            values[reasons != Reason.PRESENT] = 0
        return CounterTable(
            cpus=self._cpus,
            events=self._events,
            group=self._group,
            values=values,
            reasons=reasons,
            enabled_ns=np.where(counting, readings.enabled_ns, np.uint64(0))[:, None],
            running_ns=np.where(counting, readings.running_ns, np.uint64(0))[:, None],
            details=details,
            extras=self._extras,
        )


def _reasons(
    events: Sequence[str], absent: Sequence[Mapping[str, Problem]]
) -> tuple[np.typing.NDArray[np.uint8], dict[str, dict[int, str]]]:
    reasons = np.zeros((len(absent), len(events)), np.uint8)
    details: dict[str, dict[int, str]] = {}
    for column, event in enumerate(events):
        problems = [(row, lacks[event]) for row, lacks in enumerate(absent) if event in lacks]
        for row, problem in problems:
            reasons[row, column] = problem.reason
        ranked = Counter(problem for _, problem in problems).most_common()
        for problem, _ in ranked:
            details.setdefault(event, {}).setdefault(int(problem.reason), problem.sentence)
    reasons.flags.writeable = False
    return reasons, details
