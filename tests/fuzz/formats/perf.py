"""Buffers that read(2) of perf events fills, as no kernel does, and the frames that come of them.

An input is a script: before each tick and for each read a byte says what happens.
"""

from __future__ import annotations

import errno
import os
import struct

import numpy as np

from nftop.derive.cpu.counters import CounterState, step_counters
from nftop.model.missing import Missing, Reason
from nftop.model.sample import CounterTable, SourceReading
from nftop.sources.perf.abi import MappedPage
from nftop.sources.perf.source import PerfSource
from nftop.uarch.table import GENERIC, load
from tests.fuzz.registry import scratch
from tests.samples import topology
from tests.sources.perf_kernel import FakeKernel
from tests.sources.trees import ONLINE

_TICKS, _CPUS = 3, 2
_UARCH = load(GENERIC)
_HOST = topology(_CPUS)
_DURATIONS_NS = (10**9, 10**9, 10**6, 1, 10**8, 10**10, 10**12, 0)
_ERRORS = (errno.EIO, errno.EBADF, errno.EAGAIN, errno.EINTR, errno.ENOSPC, errno.ENODEV)
WORDS = tuple(
    struct.pack("Q", number)
    for number in (0, 1, 3, 5, 8, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 10**9, 1 << 48)
) + tuple(bytes([number]) * 4 for number in range(8))


class _Scripted(FakeKernel):
    """A kernel that answers by a script, and truly where it has ended."""

    script: bytes = b""
    at: int = 0

    def __post_init__(self) -> None:
        if (self.root / ONLINE).exists():  # its files are the same for every input
            self.online = set(range(self.cpus))
        else:
            super().__post_init__()

    def take(self, size: int = 1) -> bytes:
        piece = self.script[self.at : self.at + size]
        self.at += size
        return piece

    def byte(self) -> int:
        return (self.take() or b"\0")[0]

    def _readv(self, fd: int, views: MappedPage) -> int:
        way = self.byte() % 8
        if way < 2:
            return super()._readv(fd, views)
        if way == 2:
            code = _ERRORS[self.byte() % len(_ERRORS)]
            raise OSError(code, os.strerror(code))
        if way == 3:
            return 0
        (view,) = views
        data = self.take(view.nbytes)
        view.cast("B")[: len(data)] = data
        return {4: len(data) // 8 * 8, 5: view.nbytes, 6: self.byte(), 7: view.nbytes}[way]


def seeds() -> list[bytes]:
    plain = struct.pack("=8Q", 5, 10**9, 10**9, 1, 2, 3, 4, 5)
    return [
        b"\0" * 12,
        (b"\0" + b"\5" + plain + b"\5" + plain) * 4,
        b"\0\0\2\1\0\3\4" + plain[:24] + b"\0\0\6" + plain + b"\x18",
        b"\1\7" + b"\xff" * 64 + b"\7" + bytes(64),
    ]


def play(data: bytes) -> None:
    """Some ticks of a source, folded into frames."""
    kernel = _Scripted(scratch("perf"), cpus=_CPUS)
    kernel.script = data
    source = PerfSource(
        root=kernel.root, kernel=kernel.kernel, uarch=_UARCH, clock_ns=lambda: kernel.now_ns
    )
    state = CounterState()
    try:
        for tick in range(_TICKS):
            kernel.pass_ns(_DURATIONS_NS[kernel.byte() % len(_DURATIONS_NS)])
            table = source.read()
            _check(table)
            state, rates = step_counters(state, SourceReading(table, (tick + 1) * 10**9, 0), _HOST)
            for name, column in rates.per_s.items():
                assert not np.any(column.values < 0), name
    finally:
        source.close()
    assert not kernel.fds


def _check(table: CounterTable | Missing) -> None:
    if isinstance(table, CounterTable):
        assert table.values.shape == table.reasons.shape == (len(table.cpus), len(table.events))
        assert not np.any(table.values[table.reasons != Reason.PRESENT])
