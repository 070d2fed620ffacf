"""The groups of all cores: opened, followed through hotplug, replaced by smaller ones.

A row per CPU. It counts with the best step of the survey that opens and runs *on that CPU*: the
NMI watchdog, for one, holds a counter on housekeeping CPUs and none on nohz_full ones. A row that
counts nothing has a problem, and is tried again after a while in case it was cured.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nftop.sources.perf.abi import Kernel
from nftop.sources.perf.group import (
    Fault,
    Group,
    GroupReader,
    GroupReadings,
    close_group,
    open_group,
)
from nftop.sources.perf.problems import QUIET, Problem, explain, never_ran
from nftop.sources.perf.survey import OWN_LIMITS, Step, Survey


@dataclass(frozen=True, slots=True)
class Row:
    """One CPU.

    Attributes:
        step: index of the step it counts with.
        left: why it left the step before; None in the best one.
        group: None exactly where `problem` is not.
        problem: why it counts nothing.
    """

    cpu: int
    step: int = 0
    left: Problem | None = None
    group: Group | None = None
    problem: Problem | None = None


class CoreGroups:
    """The groups of every CPU followed. Not for use by several threads at once."""

    def __init__(
        self,
        kernel: Kernel,
        found: Survey,
        *,
        quiet: Collection[int],
        online: Callable[[], Collection[int]],
        root: Path,
    ) -> None:
        """`online` tells the present state, for a CPU that vanishes while it is being opened."""
        self._kernel = kernel
        self._found = found
        self._quiet = frozenset(quiet)
        self._online = online
        self._root = root
        self._exhausted: Problem | None = None
        self._install(())

    @property
    def rows(self) -> Sequence[Row]:
        """Ascending by CPU."""
        return self._rows

    @property
    def ailing(self) -> bool:
        """Some CPU counts nothing for a reason that may pass."""
        return self._ailing

    @property
    def blind(self) -> bool:
        """No group is known to try, because every CPU was to be left alone until now."""
        return not self._found.steps

    @property
    def width(self) -> int:
        """How many groups one `read` reads."""
        return self._reader.width

    def step(self, row: Row) -> Step:
        return self._found.steps[row.step]

    def absences(self, row: Row) -> Mapping[str, Problem]:
        """Why the row lacks what it lacks, by event."""
        if row.problem is not None:
            return dict.fromkeys(self._found.events, row.problem)
        absent = dict(self.step(row).absent)
        if row.left is not None:
            fuller = {name for step in self._found.steps[: row.step] for name in step.names}
            absent |= {name: row.left for name in absent if name in fuller}
        return absent

    def follow(self, cpus: Collection[int]) -> None:
        """Make the rows these CPUs: close what vanished, open what is new or counts nothing."""
        known = {row.cpu: row for row in self._rows}
        for cpu in known.keys() - set(cpus):
            self._drop(known[cpu])
        self._exhausted = None
        rows: list[Row | None] = []
        for cpu in sorted(cpus):
            row = known.get(cpu)
            if row is None or row.group is None:
                row = Row(cpu, problem=QUIET) if cpu in self._quiet else self._start(cpu)
            rows.append(row)
        self._install(rows)

    def read(self) -> GroupReadings:
        """One read of each group, rows in the order of `rows`."""
        return self._reader.read()

    def mend(self, faults: Mapping[int, tuple[Fault, int]]) -> None:
        """Replace the groups of rows that a read found faulty."""
        rows: list[Row | None] = list(self._rows)
        self._exhausted = None
        for index, (fault, code) in faults.items():
            row = self._rows[index]
            self._drop(row)
            if fault is Fault.FAILED:
                rows[index] = Row(row.cpu, problem=explain(code, self._root))
            elif fault is Fault.ENDED:
                rows[index] = self._start(row.cpu)
            else:
                rows[index] = self._start(row.cpu, row.step + 1, never_ran(self._root))
        self._install(rows)

    def close(self) -> None:
        """Close everything; safe to call twice."""
        for row in self._rows:
            self._drop(row)
        self._install(())

    def _start(self, cpu: int, first: int = 0, left: Problem | None = None) -> Row | None:
        """The row of a CPU with the best group from step `first` on; None if the CPU vanished."""
        for index, step in enumerate(self._found.steps[first:], first):
            if self._exhausted is not None:
                return Row(cpu, problem=self._exhausted)
            try:
                group = open_group(self._kernel, cpu, step.encodings)
            except OSError as error:
                code = error.errno or errno.EINVAL
                if code == errno.ENODEV and cpu not in self._online():
                    return None
                left = explain(code, self._root)
                self._exhausted = left if code in OWN_LIMITS else None
            else:
                return Row(cpu, index, left, group)
        return Row(cpu, problem=left)

    def _drop(self, row: Row) -> None:
        if row.group is not None:
            close_group(self._kernel, row.group)

    def _install(self, rows: Iterable[Row | None]) -> None:
        self._rows = tuple(row for row in rows if row is not None)
        self._ailing = any(row.problem not in (None, QUIET) for row in self._rows)
        self._reader = GroupReader(self._kernel, [row.group for row in self._rows])
