"""Trying again what a CPU could not count: when, what, and how its counts go on after that.

A trial is one more group of a CPU. It has its turn in the last tenth of a tick, as those of a
plan's turns have, and so disturbs nothing else; that it ran shows that there is room for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

from nftop.model.reading import Reason
from nftop.sources.perf.abi import Kernel
from nftop.sources.perf.cpu_state import Row, Trial
from nftop.sources.perf.group import Group, GroupReadings, close_group
from nftop.sources.perf.multiplex import Rotation
from nftop.sources.perf.probe import Members, Step
from nftop.sources.perf.problems import Problem

FIRST_NS, MOST_NS = 30_000_000_000, 300_000_000_000

# What is absent for these reasons may come back: a counter, a descriptor.
_PASSING = (Reason.TAKEN, Reason.ERROR)
_WORD = 1 << 64

# A step and, where it is the row's own, which of its turns; None: the step's main group.
Candidate: TypeAlias = tuple[int, int | None]


def candidates(row: Row, steps: Sequence[Step]) -> tuple[Candidate, ...]:
    """What the row has lost and may have again, best first."""
    if row.group is None:
        return ()
    better = range(row.step) if row.left is not None and row.left.reason in _PASSING else ()
    lost = (
        place
        for place, item in enumerate(row.further[: len(steps[row.step].turns)])
        if isinstance(item, Problem) and item.reason in _PASSING
    )
    return (*((step, None) for step in better), *((row.step, place) for place in lost))


class Trials:
    """Begins trials and decides them; the rows, and all that is open, stay the caller's."""

    def __init__(
        self,
        kernel: Kernel,
        rotation: Rotation,
        steps: Sequence[Step],
        open_stopped: Callable[[int, Members], Group | Problem],
    ) -> None:
        """`open_stopped` opens a group on a CPU, not started, or says why there is none."""
        self._kernel = kernel
        self._rotation = rotation
        self._steps = steps
        self._open_stopped = open_stopped

    def begin(self, row: Row, untried: Iterable[Candidate]) -> Row:
        """The row with the first of these that opens on trial."""
        for step, place in untried:
            members = self._steps[step].main if place is None else self._steps[step].turns[place]
            opened = self._open_stopped(row.cpu, members)
            if isinstance(opened, Group):
                return replace(row, trial=Trial(opened, step, place))
        return row

    def judged(self, row: Row, readings: GroupReadings, main: int, cell: int) -> Row:
        """The row with what it tried, where that ran; else with the next trial, where it did not.

        `main` and `cell` are those of the main group and of the trial.
        """
        if row.trial is None or row.group is None:
            return row
        tried, known = (row.trial.step, row.trial.place), candidates(row, self._steps)
        ran = bool(readings.running_ns[cell] > 0)
        if ran and tried in known:
            if row.trial.place is None:
                return self._switched(row, row.trial, readings, main, cell)
            at = row.trial.place
            further = (*row.further[:at], row.trial.group, *row.further[at + 1 :])
            return replace(row, further=further, trial=None)
        if not ran and cell not in readings.faults:
            return row
        row = replace(row, retired_ns=self._closed(row, [row.trial.group]), trial=None)
        return self.begin(row, known[known.index(tried) + 1 :] if tried in known else ())

    def _switched(
        self, row: Row, trial: Trial, readings: GroupReadings, main: int, cell: int
    ) -> Row:
        """The row with the better step of its trial: what both count goes on without a gap."""
        others = [group for group in row.groups if group is not None and group is not trial.group]
        retired_ns = self._closed(row, others)
        self._rotation.start(trial.group)
        pairs = zip(self._steps[row.step].names, readings.values[main].tolist(), strict=False)
        shown = {name: value + row.carried.get(name, 0) for name, value in pairs}
        ran_ns = int(readings.running_ns[main]) + row.carried_running_ns
        # An event that the other group lacked begins with 0.
        pairs = zip(self._steps[trial.step].names, readings.values[cell].tolist(), strict=False)
        carried = {name: (shown.get(name, 0) - value) % _WORD for name, value in pairs}
        return Row(
            row.cpu,
            trial.step,
            row.left if trial.step else None,
            trial.group,
            retired_ns=retired_ns,
            carried=carried,
            carried_running_ns=(ran_ns - int(readings.running_ns[cell])) % _WORD,
        )

    def _closed(self, row: Row, groups: Iterable[Group]) -> int:
        """Close these groups of the row: its `retired_ns` after that."""
        retired_ns = row.retired_ns
        for group in groups:
            if row.group is not None:
                retired_ns += self._rotation.leave(row.group, group)
                close_group(self._kernel, group)
        return retired_ns


class Pace:
    """Some time after something was lost, then ever more seldom while nothing changes."""

    def __init__(self) -> None:
        self._lost: frozenset[tuple[int, Candidate]] = frozenset()
        self._wait_ns = FIRST_NS
        self._at_ns = 0

    def is_due(self, now_ns: int, lost: frozenset[tuple[int, Candidate]]) -> bool:
        """Whether to try now; `lost` is what there is to try, by CPU. To be asked every tick."""
        if lost != self._lost:
            self._lost, self._wait_ns = lost, FIRST_NS
            self._at_ns = now_ns + FIRST_NS
        if not lost or now_ns < self._at_ns:
            return False
        self._wait_ns = min(2 * self._wait_ns, MOST_NS)
        self._at_ns = now_ns + self._wait_ns
        return True
