"""Boxes to an UncoreTable: a row for each event of each box."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nftop.model.ids import Package
from nftop.model.reading import Reason
from nftop.model.uncore import UNWANTED, UncoreTable
from nftop.sources.perf.problems import Problem, explain
from nftop.sources.uncore.open_counters import BoxReadings, OpenBox
from nftop.uarch.sections import Uncore

LOST = Problem(
    Reason.RESET, "its package went offline and came back, or is offline: counting starts again"
)
_UNWANTED = Problem(Reason.SOURCE, UNWANTED)
_NO_BOX = -1


@dataclass(frozen=True, slots=True)
class _Row:
    package: int
    number: int
    event: str
    box: int = -1  # its index among the open boxes, of which one without a group counts nothing
    group: int = -1
    column: int = 0
    problem: Problem | None = None
    unwanted: bool = False  # on demand, and nobody looks


class UncoreLayout:
    """What goes where; made anew when boxes change, so that a reading copies arrays and no more."""

    def __init__(
        self,
        units: Sequence[Uncore],
        boxes: Sequence[OpenBox],
        lacking: Mapping[tuple[str, Package], Problem],
        *,
        detailed: bool,
    ) -> None:
        """`lacking` is why units have no open boxes in a package: rows of the box -1 say it.

        Unless `detailed`, what is on demand is not counted, and has rows that say so.
        """
        unwanted = {
            event for unit in units for turn in unit.on_demand for event in turn if not detailed
        }
        self._extras = frozenset(unwanted)
        self._events = tuple(event for unit in units for event in unit.events)
        self._rows = [
            _Row(package, _NO_BOX, event, problem=problem)
            for (name, package), problem in lacking.items()
            for unit in units
            if unit.name == name
            for event in unit.events
        ]
        group = 0
        self._box_of_group: list[int] = []
        for at, opened in enumerate(boxes):
            where = (opened.box.package, opened.box.number)
            self._rows += [_Row(*where, e, at, problem=why) for e, why in opened.absent.items()]
            for turn in opened.turns:
                if turn.fds:
                    self._rows += [
                        _Row(*where, event, at, group, column, unwanted=event in unwanted)
                        for column, event in enumerate(turn.events)
                    ]
                    self._box_of_group.append(at)
                    group += 1
        self._boxes = len(boxes)
        place = {event: index for index, event in enumerate(self._events)}
        self._packages = np.array([row.package for row in self._rows], np.int32)
        self._numbers = np.array([row.number for row in self._rows], np.int32)
        self._event = np.array([place[row.event] for row in self._rows], np.int32)
        self._counts = np.flatnonzero([row.group >= 0 for row in self._rows])
        self._group = np.array([row.group for row in self._rows if row.group >= 0], np.intp)
        self._column = np.array([row.column for row in self._rows if row.group >= 0], np.intp)
        self._box = np.array([row.box for row in self._rows if row.group >= 0], np.intp)
        self._unwanted = np.array([row.unwanted for row in self._rows], np.bool_)
        self._problems = [_UNWANTED if row.unwanted else row.problem for row in self._rows]
        self._reasons, self._details = _reasons(self._rows, self._problems)

    def table(self, read: BoxReadings, root: Path = Path("/")) -> UncoreTable:
        """The table of one reading; rows of a box with a fault have no numbers and say why.

        A box's clock is the time in which any of its turns was on, so that what of it a group ran
        is that turn's share.
        """
        of_box = np.zeros(self._boxes, np.uint64)
        np.add.at(of_box, self._box_of_group, read.enabled_ns)
        values, enabled, running = (np.zeros(len(self._rows), np.uint64) for _ in range(3))
        values[self._counts] = read.values[self._group, self._column]
        values[self._unwanted] = 0  # but its clock goes on, for when somebody looks
        running[self._counts] = read.running_ns[self._group]
        enabled[self._counts] = of_box[self._box]
        reasons, details = self._reasons, self._details
        if read.faults:
            why = {box: _fault(code, root) for box, code in read.faults.items()}
            problems = [
                row.problem or why.get(row.box) or problem
                for row, problem in zip(self._rows, self._problems, strict=True)
            ]
            reasons, details = _reasons(self._rows, problems)
            for counts in (values, enabled, running):
                counts[reasons != Reason.PRESENT] = 0
        return UncoreTable(
            events=self._events,
            packages=self._packages,
            boxes=self._numbers,
            event=self._event,
            values=values,
            reasons=reasons,
            enabled_ns=enabled,
            running_ns=running,
            details=details,
            extras=self._extras,
        )


def _fault(code: int, root: Path) -> Problem:
    return explain(code, root) if code else LOST


def _reasons(
    rows: Sequence[_Row], problems: Sequence[Problem | None]
) -> tuple[np.typing.NDArray[np.uint8], dict[str, dict[int, str]]]:
    """By row; and by event and reason the sentence that most rows have."""
    reasons = np.array([0 if why is None else why.reason for why in problems], np.uint8)
    reasons.flags.writeable = False
    details: dict[str, dict[int, str]] = {}
    told = Counter(
        (row.event, why) for row, why in zip(rows, problems, strict=True) if why is not None
    )
    for (event, why), _ in told.most_common():
        details.setdefault(event, {}).setdefault(int(why.reason), why.sentence)
    return reasons, details
