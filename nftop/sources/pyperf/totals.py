"""What the module's reads add up to: it gives differences, samples are cumulative."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from nftop.model.ids import Cpu
from nftop.model.sample import Counts
from nftop.sources.perf.group import STALLED_AFTER_NS
from nftop.sources.pyperf.groups import Opened

# More than any counter does between two reads: it went backwards.
_ABSURD = 1 << 62
_NO_THREAD = -1  # of no thread but of a CPU: perf_event_open(2)'s pid


class Totals:
    """Counts and times since the start, by CPU and event, whatever is opened anew meanwhile.

    Attributes:
        values, enabled_ns, running_ns: uint64 (n CPUs, k events), never changed in place.
    """

    values: Counts
    enabled_ns: Counts
    running_ns: Counts

    def __init__(self, events: Sequence[str]) -> None:
        self._column = {name: index for index, name in enumerate(events)}
        self._row: dict[Cpu, int] = {}
        self._install(np.zeros((3, 0, len(events)), np.uint64))

    def follow(self, cpus: Sequence[Cpu]) -> None:
        """Make the rows these CPUs; those that were there go on from where they are."""
        before, old = self._row, self._sums
        sums = np.zeros((3, len(cpus), len(self._column)), np.uint64)
        self._row = {cpu: row for row, cpu in enumerate(cpus)}
        for cpu in self._row.keys() & before.keys():
            sums[:, self._row[cpu]] = old[:, before[cpu]]
        self._install(sums)

    def forget(self, cpus: Collection[Cpu]) -> None:
        """Begin these CPUs' rows at 0 again."""
        sums = self._sums.copy()
        sums[:, [row for cpu, row in self._row.items() if cpu in cpus]] = 0
        self._install(sums)

    def add(self, opened: Opened) -> tuple[frozenset[Cpu], frozenset[str]]:
        """Read everything once; the CPUs that went offline meanwhile, and the events that stall.

        An event of a CPU that has been offline is dead though the CPU be back: its clock stands.
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
