"""Counter groups: opened and scheduled together, read with one call.

A read returns (perf_event_open(2), PERF_FORMAT_GROUP with both times) the words nr, time_enabled,
time_running, then one value an event in the order they were opened.

Faults: a CPU that went offline takes its events out of their group for good, so the read is short
or its clock stands still; a group that does not fit on the counters is enabled but never runs; one
in the error state reads as end of file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from nftop.model.struct import dataclass, field
from nftop.sources.perf.abi import READ_HEADER_WORDS, Kernel, close_events, open_next
from nftop.sources.perf.problems import CounterProblem
from nftop.uarch.table import Encoding

# The kernel rotates groups that share counters every perf_event_mux_interval_ms (4 by default): a
# group without a turn for this long will not get one.
STALLED_AFTER_NS = 50_000_000

_WORD_BYTES = 8


@dataclass(frozen=True, slots=True, eq=False)
class CounterGroup:
    """An open group, led by `fds[0]`; closing an event takes it out of the group.

    Compared by identity: numbers of closed descriptors are reused.
    """

    cpu: int
    fds: tuple[int, ...]


def open_group(
    kernel: Kernel, cpu: int, encodings: Sequence[Encoding], *, start: bool = True
) -> CounterGroup:
    """Open a group on a CPU, all events or none, and start it by default.

    Raises OSError of perf_event_open or ioctl; nothing stays open.
    """
    fds: list[int] = []
    try:
        for encoding in encodings:
            open_next(kernel, cpu, encoding, fds)
        if start:
            kernel.enable(fds[0])
    except OSError:
        close_events(kernel, fds)
        raise
    return CounterGroup(cpu, tuple(fds))


def close_group(kernel: Kernel, group: CounterGroup) -> None:
    close_events(kernel, group.fds)


class Fault(Enum):
    """Failure of reading a group."""

    ENDED = "its CPU went offline since it was opened"
    STALLED = "enabled, but it does not run"
    UNSCHEDULABLE = "in the error state"
    FAILED = "the read failed"


@dataclass(frozen=True, slots=True, eq=False)
class GroupReadings:
    """The last read of each of n groups, k events in the widest.

    Attributes:
        values: uint64 (n, k), cumulative and unscaled, events in the order they were opened;
            undefined beyond a group's width and in a row with a fault.
        enabled_ns, running_ns: uint64 (n,).
        faults: of those read now, by row, with the errno of a FAILED one (else 0).
    """

    values: NDArray[np.uint64]
    enabled_ns: NDArray[np.uint64]
    running_ns: NDArray[np.uint64]
    faults: Mapping[int, tuple[Fault, int]]


class GroupReader:
    """Reads a fixed list of groups, one call each, into one buffer, and detects faults.

    A tick is a `fetch` of each group that was to run since the last one, then `finish`; the other
    groups keep their values. A row without a group (None) reads as zeros. The caller owns the
    groups.
    """

    def __init__(
        self,
        kernel: Kernel,
        groups: Sequence[CounterGroup | None],
        before: GroupReader | None = None,
    ) -> None:
        """Takes over the state of groups that `before` has too."""
        widths = [len(group.fds) if group else 0 for group in groups]
        words = READ_HEADER_WORDS + max(widths, default=0)
        self._readv = kernel.readv
        self._groups = tuple(groups)
        self._buffer = np.zeros((len(groups), words), np.uint64)
        self._sizes = np.zeros(len(groups), np.int64)
        self._expected = np.zeros(len(groups), np.int64)
        self._fetched = np.zeros(len(groups), np.bool_)
        self._stopped = np.zeros(len(groups), np.bool_)
        self._targets: dict[int, tuple[int, tuple[memoryview]]] = {}
        for row, group in enumerate(groups):
            if group is not None:
                size = READ_HEADER_WORDS + len(group.fds)
                self._expected[row] = size * _WORD_BYTES
                # Cut to the group's own width: a shorter answer is then seen as one.
                self._targets[row] = (group.fds[0], (self._buffer[row, :size].data,))
        self._enabled = np.zeros(len(groups), np.uint64)
        self._running = np.zeros(len(groups), np.uint64)
        self._ran_at = np.zeros(len(groups), np.uint64)
        if before is not None:
            self._take_over(before)

    def fetch(self, row: int, *, stopped: bool = False) -> None:
        """Read one group. Never raises: `finish` reports failures.

        The clock of a group that was `stopped` before may stand still.
        """
        fd, views = self._targets[row]
        try:
            self._sizes[row] = self._readv(fd, views)
        except OSError as error:
            self._sizes[row] = -(error.errno or 0) - 1  # below zero even without an errno
        self._fetched[row] = True
        self._stopped[row] = stopped

    def enabled_ns(self, group: CounterGroup) -> int:
        """Time for which the group had been enabled when it was last read; 0 if it never was."""
        return int(self._enabled[self._groups.index(group)]) if group in self._groups else 0

    def finish(self) -> GroupReadings:
        """Everything fetched since the last call, with its faults."""
        now = self._buffer.copy()
        faults = self._faults(now[:, 1], now[:, 2])
        self._fetched[:] = False
        return GroupReadings(now[:, READ_HEADER_WORDS:], now[:, 1], now[:, 2], faults)

    def _take_over(self, before: GroupReader) -> None:
        known = {group: row for row, group in enumerate(before._groups) if group is not None}
        both = [(row, known[group]) for row, group in enumerate(self._groups) if group in known]
        rows, olds = [row for row, _ in both], [old for _, old in both]
        words = min(self._buffer.shape[1], before._buffer.shape[1])
        self._buffer[rows, :words] = before._buffer[olds, :words]
        self._enabled[rows] = before._enabled[olds]
        self._running[rows] = before._running[olds]
        self._ran_at[rows] = before._ran_at[olds]

    def _faults(
        self, enabled: NDArray[np.uint64], running: NDArray[np.uint64]
    ) -> dict[int, tuple[Fault, int]]:
        whole = self._sizes == self._expected
        still = whole & (enabled <= self._enabled) & ~self._stopped
        self._ran_at = np.where(running != self._running, enabled, self._ran_at)
        waited = np.where(enabled > self._ran_at, enabled - self._ran_at, 0)
        stalled = whole & (waited >= STALLED_AFTER_NS) & ~still
        self._enabled, self._running = enabled, running
        suspects = np.flatnonzero(self._fetched & (~whole | still | stalled))
        return {int(row): self._fault(int(row), stalled=bool(stalled[row])) for row in suspects}

    def _fault(self, row: int, *, stalled: bool) -> tuple[Fault, int]:
        size = int(self._sizes[row])
        if size < 0:
            return Fault.FAILED, -size - 1
        if size == 0:
            return Fault.UNSCHEDULABLE, 0
        return (Fault.STALLED if stalled else Fault.ENDED), 0


@dataclass(frozen=True, slots=True)
class Trial:
    """A group opened to see whether it runs; `step` and `position` as `TrialCandidate`."""

    group: CounterGroup
    step: int
    position: int | None


@dataclass(frozen=True, slots=True)
class CpuRow:
    """One CPU.

    Attributes:
        step: index of the step it counts with.
        left: why it left the step before; None in the best one.
        group: its main group; None exactly if there is a `problem`.
        problem: why it counts nothing.
        further: the step's turns, then the groups of a focused core, each a group or why there is
            none.
        retired_ns: time for which its closed groups had been enabled.
        trial: a lost group that is tried again.
        carried, carried_running_ns: added, modulo 2**64, to counts and running time of the main
            group, to continue those of the main group before it.
    """

    cpu: int
    step: int = 0
    left: CounterProblem | None = None
    group: CounterGroup | None = None
    problem: CounterProblem | None = None
    further: tuple[CounterGroup | CounterProblem, ...] = ()
    retired_ns: int = 0
    trial: Trial | None = None
    carried: Mapping[str, int] = field(default_factory=dict)
    carried_running_ns: int = 0

    @property
    def groups(self) -> tuple[CounterGroup | None, ...]:
        """The main group, those that take turns with it, and its trial; None for an absent one."""
        further = (item if isinstance(item, CounterGroup) else None for item in self.further)
        return (self.group, *further, *((self.trial.group,) if self.trial else ()))

    @property
    def trial_slot(self) -> int | None:
        """Index of its trial in `groups`."""
        return 1 + len(self.further) if self.trial else None


@dataclass(slots=True)
class Costs:
    """Cost of reading so far.

    Attributes:
        reads: of counter groups.
        interrupts: of the counted CPUs. Reading, starting or stopping a group takes one; reading a
            stopped group takes none.
    """

    reads: int = 0
    interrupts: int = 0


# Multiplexing: `turn` stops the main group of a CPU and starts another; the next `read` reads both
# and restarts the main group. The kernel's own multiplexing is not used: it arms a 4 ms timer on
# every core. A CPU's events are stopped through their leader, at the cost of one interrupt.
class GroupRotation:
    """The open groups of all CPUs, which the caller owns."""

    def __init__(self, kernel: Kernel) -> None:
        self.costs = Costs()
        self._kernel = kernel
        self._rounds = 0
        # By main group, the one that runs in its place.
        self._turned: dict[CounterGroup, CounterGroup] = {}
        self._reader = GroupReader(kernel, ())
        self.install((), ())

    def install(self, rows: Sequence[CpuRow], orders: Iterable[Sequence[CounterGroup]]) -> None:
        """Replace the rows; `orders` are the groups of each row that take turns, in order."""
        cells = [
            (index, slot, group)
            for index, row in enumerate(rows)
            for slot, group in enumerate(row.groups)
            if group is not None or slot == 0
        ]
        groups = [group for *_, group in cells]
        self._reader = GroupReader(self._kernel, groups, self._reader)
        self.cells = tuple((index, slot) for index, slot, _ in cells)
        self._cell_of = {group: cell for cell, group in enumerate(groups) if group is not None}
        self._mains = [(row.group, self._cell_of[row.group]) for row in rows if row.group]
        pairs = zip(rows, orders, strict=True)
        self._orders = [(row.group, order) for row, order in pairs if row.group and order]
        self._turned = {
            main: group for main, group in self._turned.items() if main in self._cell_of
        }

    @property
    def turning(self) -> bool:
        """Whether some CPU has groups that take turns."""
        return bool(self._orders)

    def turns(self, cpus: Collection[int] | None = None) -> int:
        """The largest number of groups that take turns on one of these CPUs."""
        return max(
            (len(order) for main, order in self._orders if cpus is None or main.cpu in cpus),
            default=0,
        )

    def turn(self) -> None:
        """Start the next group wherever there is one. Never raises: reads report failures."""
        for main, order in self._orders:
            if main not in self._turned:
                group = order[self._rounds % len(order)]
                self._stop(main)
                self.start(group)
                self._turned[main] = group
        self._rounds += 1

    def read(self) -> GroupReadings:
        """One read of each group that ran since the last; `cells` has their rows and slots."""
        reader = self._reader
        for main, cell in self._mains:
            turned = self._turned.pop(main, None)
            if turned is None:
                reader.fetch(cell)
                self.costs.reads += 1
                self.costs.interrupts += 1
            else:
                # Stopped groups are read without an interrupt.
                self._stop(turned)
                reader.fetch(self._cell_of[turned], stopped=True)
                reader.fetch(cell, stopped=True)
                self.start(main)
                self.costs.reads += 2
        return reader.finish()

    def latest(self) -> GroupReadings:
        """The last read of each group; nothing of groups opened since."""
        return self._reader.finish()

    def leave(self, main: CounterGroup, group: CounterGroup) -> int:
        """Restart the main group if `group`, which is to be closed, ran in its place.

        Returns the time in ns for which `group` had been enabled when it was last read.
        """
        if self._turned.get(main) is group:
            del self._turned[main]
            self.start(main)
        return self._reader.enabled_ns(group)

    def _stop(self, group: CounterGroup) -> None:
        with suppress(OSError):  # it then goes on, or is found faulty when it is read
            self._kernel.disable(group.fds[0])
        self.costs.interrupts += 1

    def start(self, group: CounterGroup) -> None:
        with suppress(OSError):
            self._kernel.enable(group.fds[0])
        self.costs.interrupts += 1
