"""Counter groups of every CPU: opened, followed through hotplug, replaced by smaller ones.

A row counts with the best step of the survey that opens and runs *on that CPU*: the NMI
watchdog, for example, holds a counter on housekeeping CPUs and none on nohz_full ones. A row that
counts nothing has a problem, and is tried again after a while.

Besides its main group a row may have further ones, which take turns with it (`GroupRotation`).
Groups lost because another program had counters are tried again (`Trials`).
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TypeAlias

from nftop.model.missing import Reason
from nftop.model.struct import replace
from nftop.sources.perf.abi import Kernel
from nftop.sources.perf.group import (
    CounterGroup,
    CpuRow,
    Fault,
    GroupReadings,
    GroupRotation,
    Trial,
    close_group,
    open_group,
)
from nftop.sources.perf.probe import OWN_LIMITS, Members, PlanStep, Survey
from nftop.sources.perf.problems import (
    LEVEL_1,
    NOT_IN_GROUP,
    NOT_LARGEST,
    QUIET,
    CounterProblem,
    explain,
    never_ran,
)

RETRY_MIN_NS, RETRY_MAX_NS = 30_000_000_000, 300_000_000_000

# Losses for these reasons may pass. A trial is one more group of a CPU. It runs in the last tenth
# of a tick, like multiplexed groups, and disturbs no other group. If it ran, there is room for it.
_PASSING = (Reason.TAKEN, Reason.ERROR)
_WORD = 1 << 64

# A step, and a turn of it; None: its main group.
TrialCandidate: TypeAlias = tuple[int, int | None]


def candidates(row: CpuRow, steps: Sequence[PlanStep]) -> tuple[TrialCandidate, ...]:
    """Lost groups that the row may get again, best first."""
    if row.group is None:
        return ()
    better = range(row.step) if row.left is not None and row.left.reason in _PASSING else ()
    lost = (
        position
        for position, item in enumerate(row.further[: len(steps[row.step].turns)])
        if isinstance(item, CounterProblem) and item.reason in _PASSING
    )
    return (*((step, None) for step in better), *((row.step, position) for position in lost))


class Trials:
    """Starts and decides trials; the caller owns the rows and all open groups."""

    def __init__(
        self,
        kernel: Kernel,
        rotation: GroupRotation,
        steps: Sequence[PlanStep],
        open_stopped: Callable[[int, Members], CounterGroup | CounterProblem],
    ) -> None:
        """`open_stopped` opens a group on a CPU without starting it."""
        self._kernel, self._rotation, self._steps = kernel, rotation, steps
        self._open_stopped = open_stopped

    def begin(self, row: CpuRow, untried: Iterable[TrialCandidate]) -> CpuRow:
        """The row with the first of these that opens on trial."""
        for step, position in untried:
            members = (
                self._steps[step].main if position is None else self._steps[step].turns[position]
            )
            opened = self._open_stopped(row.cpu, members)
            if isinstance(opened, CounterGroup):
                return replace(row, trial=Trial(opened, step, position))
        return row

    def after_trial(self, row: CpuRow, readings: GroupReadings, main: int, cell: int) -> CpuRow:
        """The row with the tried group if it ran; if not, with the next trial.

        `main` and `cell` are the cells of the main group and of the trial.
        """
        if row.trial is None or row.group is None:
            return row
        tried, known = (row.trial.step, row.trial.position), candidates(row, self._steps)
        ran = bool(readings.running_ns[cell] > 0)
        if ran and tried in known:
            if row.trial.position is None:
                return self._switched(row, row.trial, readings, main, cell)
            at = row.trial.position
            further = (*row.further[:at], row.trial.group, *row.further[at + 1 :])
            return replace(row, further=further, trial=None)
        if not ran and cell not in readings.faults:
            return row
        row = replace(row, retired_ns=self._closed(row, [row.trial.group]), trial=None)
        return self.begin(row, known[known.index(tried) + 1 :] if tried in known else ())

    def _switched(
        self, row: CpuRow, trial: Trial, readings: GroupReadings, main: int, cell: int
    ) -> CpuRow:
        """The row with the better step of its trial; events that both count go on without a gap."""
        others = [group for group in row.groups if group is not None and group is not trial.group]
        retired_ns = self._closed(row, others)
        self._rotation.start(trial.group)
        pairs = zip(self._steps[row.step].names, readings.values[main].tolist(), strict=False)
        shown = {name: value + row.carried.get(name, 0) for name, value in pairs}
        ran_ns = int(readings.running_ns[main]) + row.carried_running_ns
        # An event that the other group lacked begins with 0.
        pairs = zip(self._steps[trial.step].names, readings.values[cell].tolist(), strict=False)
        carried = {name: (shown.get(name, 0) - value) % _WORD for name, value in pairs}
        return CpuRow(
            row.cpu,
            trial.step,
            row.left if trial.step else None,
            trial.group,
            retired_ns=retired_ns,
            carried=carried,
            carried_running_ns=(ran_ns - int(readings.running_ns[cell])) % _WORD,
        )

    def _closed(self, row: CpuRow, groups: Iterable[CounterGroup]) -> int:
        """Close these groups of the row; returns its new `retired_ns`."""
        retired_ns = row.retired_ns
        for group in groups:
            if row.group is not None:
                retired_ns += self._rotation.leave(row.group, group)
                close_group(self._kernel, group)
        return retired_ns


class RetryPace:
    """When to retry: some time after a loss, then ever less often while nothing changes."""

    def __init__(self) -> None:
        self._lost: frozenset[tuple[int, TrialCandidate]] = frozenset()
        self._wait_ns = RETRY_MIN_NS
        self._at_ns = 0

    def is_due(self, now_ns: int, lost: frozenset[tuple[int, TrialCandidate]]) -> bool:
        """Whether to retry now. Called every tick; `lost` is what to try, by CPU."""
        if lost != self._lost:
            self._lost, self._wait_ns = lost, RETRY_MIN_NS
            self._at_ns = now_ns + RETRY_MIN_NS
        if not lost or now_ns < self._at_ns:
            return False
        self._wait_ns = min(2 * self._wait_ns, RETRY_MAX_NS)
        self._at_ns = now_ns + self._wait_ns
        return True


class CpuGroups:
    """The groups of every CPU followed. Not thread-safe.

    Attributes:
        rows: ascending by CPU.
        ailing: some CPU counts nothing for a reason that may pass.
        lost: groups that counting CPUs lack for a reason that may pass.
    """

    def __init__(
        self,
        kernel: Kernel,
        survey: Survey,
        *,
        quiet: Collection[int],
        online: Callable[[], Collection[int]],
        root: Path,
        turns: bool = True,
    ) -> None:
        """`online`: the current state, for CPUs that go offline while being opened.

        Without `turns` only focused cores have groups besides the main one.
        """
        self.rotation = GroupRotation(kernel)
        self._kernel = kernel
        self._survey = survey
        self._quiet = frozenset(quiet)
        self._online = online
        self._root = root
        self._turns = turns
        self._focused: frozenset[int] = frozenset()
        self._node = ""
        self._exhausted: CounterProblem | None = None
        self._trials = Trials(kernel, self.rotation, survey.steps, self._further)
        self._install(())

    @property
    def blind(self) -> bool:
        """No group is known to try: every CPU was quiet until now."""
        return not self._survey.steps

    @property
    def usual_turns(self) -> int:
        """Largest number of multiplexed groups of a CPU without focus."""
        further = (row.further[: len(self.step(row).turns)] for row in self.rows if row.group)
        return max(
            (sum(isinstance(group, CounterGroup) for group in groups) for groups in further),
            default=0,
        )

    def step(self, row: CpuRow) -> PlanStep:
        return self._survey.steps[row.step]

    def members(self, row: CpuRow) -> tuple[Members, ...]:
        """The events of the row's groups as in `CpuRow.groups`, none for an absent one."""
        if row.group is None:
            return ()
        further = (*self.step(row).turns, *self._survey.focus)
        pairs = zip(further, row.further, strict=False)
        return (
            self.step(row).main,
            *(known if isinstance(group, CounterGroup) else Members() for known, group in pairs),
        )

    def absences(self, row: CpuRow) -> Mapping[str, CounterProblem]:
        """By event, why no group of the row counts it."""
        if row.problem is not None:
            return dict.fromkeys(self._survey.events, row.problem)
        step = self.step(row)
        absent = {**self._survey.unfocused, **step.absent}
        if row.left is not None:
            better = self._survey.steps[: row.step]
            groups = [turn for step in better for turn in (step.main, *step.turns)]
            fuller = {name for item in groups for name in item.names}
            absent |= {name: row.left for name in absent if name in fuller}
        counted = {name for member in self.members(row) for name in member.names}
        for known, group in zip((*step.turns, *self._survey.focus), row.further, strict=False):
            if isinstance(group, CounterProblem):
                absent |= dict.fromkeys(known.names, group)
        return {name: problem for name, problem in absent.items() if name not in counted}

    def follow(self, cpus: Collection[int]) -> None:
        """Make the rows these CPUs: close what vanished, open what is new or counts nothing."""
        known = {row.cpu: row for row in self.rows}
        for cpu in known.keys() - set(cpus):
            self._drop(known[cpu])
        self._exhausted = None
        rows: list[CpuRow | None] = []
        for cpu in sorted(cpus):
            row = known.get(cpu)
            if row is None or row.group is None:
                row = CpuRow(cpu, problem=QUIET) if cpu in self._quiet else self._start(cpu)
            rows.append(row)
        self._install(rows)

    def set_focus(self, cpus: Collection[int], node: str = "") -> None:
        """Count the groups of `focus` on these CPUs from now on, and on no others.

        Of those below a node of top-down only the ones below `node`.
        """
        if (self._focused, self._node) != (frozenset(cpus), node):
            self._focused, self._node = frozenset(cpus), node
            self._exhausted = None
            self._install(self.rows)

    def try_again(self) -> None:
        """Start a trial wherever a group was lost."""
        self._exhausted = None
        steps = self._survey.steps
        self._install(
            row if row.trial else self._trials.begin(row, candidates(row, steps))
            for row in self.rows
        )

    def mend(self, readings: GroupReadings) -> None:
        """Replace the groups that a read found faulty, and decide trials.

        A group that takes turns is dropped alone.
        """
        rows: list[CpuRow | None] = list(self.rows)
        self._exhausted = None
        whole = {}
        for cell, (fault, code) in readings.faults.items():
            index, slot = self.rotation.cells[cell]
            if slot == self.rows[index].trial_slot:
                continue
            if slot == 0 or fault is Fault.ENDED:
                whole[index] = (fault, code)
            else:
                group = self.members(self.rows[index])[slot]
                why = self._never_ran(group)
                if fault is Fault.FAILED:
                    why = explain(code, self._root)
                rows[index] = self._without(rows[index] or self.rows[index], slot - 1, why)
        cells = {position: cell for cell, position in enumerate(self.rotation.cells)}
        for index, before in enumerate(self.rows):
            row = rows[index]
            if before.trial_slot is not None and index not in whole and row is not None:
                of_trial = cells[index, before.trial_slot]
                rows[index] = self._trials.after_trial(row, readings, cells[index, 0], of_trial)
        for index, (fault, code) in whole.items():
            row = rows[index] or self.rows[index]
            self._drop(row)
            rows[index] = self._instead(row, fault, code)
        self._install(rows)

    def close(self) -> None:
        """Close everything; safe to call twice."""
        for row in self.rows:
            self._drop(row)
        self._install(())

    def _instead(self, row: CpuRow, fault: Fault, code: int) -> CpuRow | None:
        if fault is Fault.FAILED:
            return CpuRow(row.cpu, problem=explain(code, self._root))
        if fault is Fault.ENDED:
            return self._start(row.cpu)
        return self._start(row.cpu, row.step + 1, self._never_ran(self.step(row).main))

    def _never_ran(self, group: Members) -> CounterProblem:
        return never_ran(self._root, fits_with_watchdog=group.fits_with_watchdog)

    def _start(self, cpu: int, first: int = 0, left: CounterProblem | None = None) -> CpuRow | None:
        """The row of a CPU with the best group from step `first` on; None if the CPU vanished."""
        for index, step in enumerate(self._survey.steps[first:], first):
            if self._exhausted is not None:
                return CpuRow(cpu, problem=self._exhausted)
            try:
                group = open_group(self._kernel, cpu, step.main.encodings)
            except OSError as error:
                code = error.errno or errno.EINVAL
                if code == errno.ENODEV and cpu not in self._online():
                    return None
                left = explain(code, self._root)
                self._exhausted = left if code in OWN_LIMITS else None
            else:
                return CpuRow(cpu, index, left, group)
        return CpuRow(cpu, problem=left)

    def _completed(self, row: CpuRow) -> CpuRow:
        """The row with exactly the further groups that it is to have now."""
        if row.group is None:
            return row
        focused = row.cpu in self._focused
        turns = self.step(row).turns
        wanted = (*turns, *(self._survey.focus if focused else ()))
        for position in reversed(range(len(wanted), len(row.further))):
            row = self._without(row, position, NOT_IN_GROUP)
        row = replace(row, further=row.further[: len(wanted)])
        for position, members in enumerate(wanted):
            known = row.further[position] if position < len(row.further) else LEVEL_1
            if not focused and not self._turns:
                row = self._without(row, position, LEVEL_1)
            elif not self._is_wanted(position - len(turns)):
                row = self._without(row, position, NOT_LARGEST)
            elif known in (LEVEL_1, NOT_LARGEST):
                opened = self._further(row.cpu, members)
                row = replace(
                    row, further=(*row.further[:position], opened, *row.further[position + 1 :])
                )
        return row

    def _is_wanted(self, position: int) -> bool:
        """Whether the group of `focus` at this position is to be counted; negative: a turn."""
        nodes = self._survey.nodes
        return not 0 <= position < len(nodes) or nodes[position] in ("", self._node)

    def _further(self, cpu: int, members: Members) -> CounterGroup | CounterProblem:
        if not members.names:
            return NOT_IN_GROUP
        if self._exhausted is not None:
            return self._exhausted
        try:
            return open_group(self._kernel, cpu, members.encodings, start=False)
        except OSError as error:
            why = explain(error.errno or errno.EINVAL, self._root)
            self._exhausted = why if error.errno in OWN_LIMITS else None
            return why

    def _without(self, row: CpuRow, position: int, why: CounterProblem) -> CpuRow:
        """The row with `why` in place of a further group."""
        group = row.further[position] if position < len(row.further) else None
        retired_ns = row.retired_ns
        if isinstance(group, CounterGroup) and row.group is not None:
            retired_ns += self.rotation.leave(row.group, group)
            close_group(self._kernel, group)
        further = (*row.further[:position], why, *row.further[position + 1 :])
        return replace(row, further=further, retired_ns=retired_ns)

    def _drop(self, row: CpuRow) -> None:
        for group in row.groups:
            if group is not None:
                close_group(self._kernel, group)

    def _install(self, rows: Iterable[CpuRow | None]) -> None:
        # All main groups are opened before any further one, in case descriptors run out.
        self.rows = tuple(self._completed(row) for row in rows if row is not None)
        self.ailing = any(row.problem not in (None, QUIET) for row in self.rows)
        steps = self._survey.steps
        self.lost = frozenset(
            (row.cpu, candidate) for row in self.rows for candidate in candidates(row, steps)
        )
        orders = [self._order(row) if row.group else () for row in self.rows]
        self.rotation.install(self.rows, orders)

    def _order(self, row: CpuRow) -> tuple[CounterGroup, ...]:
        """Order of the row's further groups: turns and focus alternate, its trial comes last."""
        turns = len(self.step(row).turns)
        pairs = zip_longest(row.further[:turns], row.further[turns:])
        order = tuple(item for pair in pairs for item in pair if isinstance(item, CounterGroup))
        return (*order, row.trial.group) if row.trial else order
