"""Counter groups: opened together, on the counters together, read with one call.

What a read gives (perf_event_open(2), PERF_FORMAT_GROUP with both times): the words nr,
time_enabled, time_running, then one value an event in the order they were opened.

A group reports trouble in its own ways, which are told apart here and dealt with elsewhere:
a CPU that went offline takes its events out of their group for good, so the read comes up short
or its clock stands still; a group that does not fit on the counters is enabled but never runs;
one in the error state reads as end of file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from nftop.sources.perf.abi import READ_HEADER_WORDS, Kernel, attribute
from nftop.uarch.table import Encoding

# The kernel rotates groups that share counters every perf_event_mux_interval_ms (4 by default):
# a group without a turn in this long will not get one.
STALLED_AFTER_NS = 50_000_000

_WORD_BYTES = 8


@dataclass(frozen=True, slots=True)
class Group:
    """An open group; `fds[0]` is the leader's, and closing any of them takes it out."""

    cpu: int
    fds: tuple[int, ...]


def open_group(kernel: Kernel, cpu: int, encodings: Sequence[Encoding]) -> Group:
    """Open and start a group on a CPU; all of it or nothing.

    Raises:
        OSError: as perf_event_open or ioctl gave it; nothing stays open.
    """
    fds: list[int] = []
    try:
        for encoding in encodings:
            attr = attribute(encoding, leader=not fds)
            fds.append(kernel.open_event(attr, cpu, fds[0] if fds else -1))
        kernel.enable(fds[0])
    except OSError:
        close_group(kernel, Group(cpu, tuple(fds)))
        raise
    return Group(cpu, tuple(fds))


def close_group(kernel: Kernel, group: Group) -> None:
    """Close every event of the group, the leader last."""
    for fd in reversed(group.fds):
        kernel.close(fd)


class Fault(Enum):
    """What is wrong with a group that was read."""

    ENDED = "its CPU went offline since it was opened"
    STALLED = "enabled, but it does not run"
    UNSCHEDULABLE = "in the error state"
    FAILED = "the read failed"


@dataclass(frozen=True, slots=True, eq=False)
class GroupReadings:
    """One read of n groups, k events in the widest.

    Attributes:
        values: uint64 (n, k), cumulative and unscaled, events in the order they were opened; what
            is beyond a group's width, or in a row with a fault, means nothing.
        enabled_ns, running_ns: uint64 (n,).
        faults: by row, with the errno of a FAILED one (else 0).
    """

    values: NDArray[np.uint64]
    enabled_ns: NDArray[np.uint64]
    running_ns: NDArray[np.uint64]
    faults: Mapping[int, tuple[Fault, int]]


class GroupReader:
    """Reads a fixed list of groups, one call each, into one buffer, and watches that they count.

    A row without a group (None) costs nothing and reads as zeros. The groups stay the caller's.
    """

    def __init__(self, kernel: Kernel, groups: Sequence[Group | None]) -> None:
        widths = [len(group.fds) if group else 0 for group in groups]
        words = READ_HEADER_WORDS + max(widths, default=0)
        self._readv = kernel.readv
        self._buffer = np.zeros((len(groups), words), np.uint64)
        self._sizes = np.zeros(len(groups), np.int64)
        self._expected = np.zeros(len(groups), np.int64)
        self._targets: list[tuple[int, int, tuple[memoryview]]] = []
        for row, group in enumerate(groups):
            if group is not None:
                size = READ_HEADER_WORDS + len(group.fds)
                self._expected[row] = size * _WORD_BYTES
                # Cut to the group's own width: a shorter answer is then seen as one.
                self._targets.append((row, group.fds[0], (self._buffer[row, :size].data,)))
        self._enabled = np.zeros(len(groups), np.uint64)
        self._running = np.zeros(len(groups), np.uint64)
        self._ran_at = np.zeros(len(groups), np.uint64)

    @property
    def width(self) -> int:
        """How many groups there are to read: the calls one `read` makes."""
        return len(self._targets)

    def read(self) -> GroupReadings:
        """Read every group once. Never raises: what failed is in `faults`."""
        readv, sizes = self._readv, self._sizes
        for row, fd, views in self._targets:
            try:
                sizes[row] = readv(fd, views)
            except OSError as error:
                sizes[row] = -(error.errno or 0) - 1  # below zero even without an errno
        now = self._buffer.copy()
        faults = self._faults(now[:, 1], now[:, 2])
        return GroupReadings(now[:, READ_HEADER_WORDS:], now[:, 1], now[:, 2], faults)

    def _faults(
        self, enabled: NDArray[np.uint64], running: NDArray[np.uint64]
    ) -> dict[int, tuple[Fault, int]]:
        whole = self._sizes == self._expected
        still = whole & (enabled <= self._enabled) & (self._expected > 0)
        self._ran_at = np.where(running != self._running, enabled, self._ran_at)
        # A clock that went backwards is `still`, so the wrapped difference does not matter.
        stalled = whole & (enabled - self._ran_at >= STALLED_AFTER_NS) & ~still
        self._enabled, self._running = enabled, running
        suspects = np.flatnonzero(~whole | still | stalled)
        return {int(row): self._fault(int(row), stalled=bool(stalled[row])) for row in suspects}

    def _fault(self, row: int, *, stalled: bool) -> tuple[Fault, int]:
        size = int(self._sizes[row])
        if size < 0:
            return Fault.FAILED, -size - 1
        if size == 0:
            return Fault.UNSCHEDULABLE, 0
        return (Fault.STALLED if stalled else Fault.ENDED), 0
