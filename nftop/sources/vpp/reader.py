"""Client of the process that reads a segment, which never blocks, and the tables of a reading."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import weakref
from collections.abc import Sequence

import msgspec
import numpy as np

from nftop.model.missing import Missing, Reason
from nftop.model.nf.vpp import VppErrors, VppInstance, VppInterfaces, VppNodes, VppThread
from nftop.model.sample import Counts
from nftop.model.sample_bounds import VPP_ROWS
from nftop.model.struct import replace
from nftop.sources.runtime import helper
from nftop.sources.vpp.protocol import (
    CountsByThread,
    ErrorReading,
    NodeReading,
    Question,
    ReadAnswer,
    VppReading,
)

_MODULE = "nftop.sources.vpp.worker"
_LONGEST_LINE = 1 << 24
# VPP's own default is 32 MiB (statseg size); some hundred interfaces and threads need a few times.
MAX_SEGMENT_BYTES = 1 << 30
_MEMORY_BYTES = 320 << 20  # of addresses, besides the segment: Python, numpy's libraries, a reading
_MAX_READERS = 16
_PIECE = 1 << 18
INSTALL = "pip install 'vpp-papi>=2.4.1,<3'"
_LEAST = (2, 4, 1)
_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
_NAME_LIMIT = 256
_WHY = {
    "SIGPROF": "reading its stats segment took too long and was given up: VPP began to change it "
    "and did not finish",
    "SIGBUS": "its stats segment is shorter than it was",
}
_DECODER = msgspec.json.Decoder(ReadAnswer)


class ReaderError(Exception):
    """There is no reading; `why` is for the operator. `ended`: the process has ended."""

    def __init__(self, why: Missing, *, ended: bool) -> None:
        super().__init__(why.message)
        self.why, self.ended = why, ended


class NotReadError(Exception):
    """A segment is not read; `why` is for the operator."""

    def __init__(self, why: Missing) -> None:
        super().__init__(why.message)
        self.why = why


class SegmentReader:
    """One process that reads a segment.

    Attributes:
        waiting: a request has not been answered yet.
        cpu_ns: CPU time it had used at its last reply.
    """

    def __init__(self, handle: int) -> None:
        """Start it. `handle` is the segment's descriptor.

        Raises NotReadError: the segment is too large, or too many are read already; OSError: the
        process can't be started.
        """
        about = os.fstat(handle)
        why = ""
        if not stat.S_ISREG(about.st_mode) or about.st_size > MAX_SEGMENT_BYTES:
            why = f"its stats segment is not a file of {MAX_SEGMENT_BYTES >> 20} MiB at most"
        elif len(_RUNNING) >= _MAX_READERS:
            why = f"{_MAX_READERS} stats segments are read already, and no more are"
        if why:
            raise NotReadError(Missing(Reason.ERROR, why))
        memory_bytes = about.st_size + _MEMORY_BYTES
        self._helper = helper.start(
            _MODULE, str(handle), handles=(handle,), memory_bytes=memory_bytes
        )
        _RUNNING.add(self)
        self._helper.channel.settimeout(0)
        self._heard = bytearray()
        self.waiting = False
        self.cpu_ns = 0

    def fileno(self) -> int:
        return self._helper.channel.fileno()

    def ask(self, question: Question) -> None:
        """Request a reading; one request at a time."""
        self.waiting = True
        with contextlib.suppress(OSError):  # it has ended: the next `hear` reports why
            self._helper.channel.sendall(msgspec.json.encode(question) + b"\n")

    def hear(self) -> VppReading | None:
        """The reading; None if it has not arrived yet.

        Raises ReaderError: it will not arrive; if the process has `ended`, it is closed too.
        """
        try:
            while not self._heard.endswith(b"\n"):
                piece = self._helper.channel.recv(_PIECE)
                if not piece:
                    raise ReaderError(self._why_ended(), ended=True)
                self._heard += piece
                if len(self._heard) > _LONGEST_LINE:
                    raise self._nonsense()
        except BlockingIOError:
            return None
        except OSError:
            raise ReaderError(self._why_ended(), ended=True) from None
        line, self._heard, self.waiting = bytes(self._heard), bytearray(), False
        return self._understood(line)

    def close(self) -> None:
        """Kill the process."""
        _RUNNING.discard(self)
        helper.end(self._helper, kill=True)

    def _understood(self, line: bytes) -> VppReading:
        try:
            answer = _DECODER.decode(line)
            self.cpu_ns = answer.cpu_ns
            if answer.value is not None:
                return answer.value
            why = Missing(Reason(answer.reason), answer.sentence)
        except ValueError:  # msgspec's are such, and so is a reason that there is none
            raise self._nonsense() from None
        raise ReaderError(why, ended=False)

    def _nonsense(self) -> ReaderError:
        self.close()
        why = Missing(
            Reason.ERROR, "the process that reads its stats segment sends invalid replies"
        )
        return ReaderError(why, ended=True)

    def _why_ended(self) -> Missing:
        _RUNNING.discard(self)
        ended = helper.end(self._helper, kill=False)
        otherwise = "the process that reads its stats segment ended"
        if ended.signal:
            otherwise += f" by {ended.signal}"
        return Missing(Reason.ERROR, _WHY.get(ended.signal, otherwise) + ended.complaint)


_RUNNING: weakref.WeakSet[SegmentReader] = weakref.WeakSet()


# The tables of a reading.
def interfaces_of(reading: VppReading) -> VppInterfaces:
    """The hardware interfaces.

    A sub-interface, `NAME.<number>` of an interface NAME (src/vnet/interface/stats.c), repeats
    counts of its interface. Raises ValueError: names and counters do not match, or there are more
    than a recording holds.
    """
    tables = [
        _counts(rows)
        for rows in (
            reading.rx_packets,
            reading.tx_packets,
            reading.rx_misses,
            reading.drops,
            reading.rx_bytes,
            reading.rx_no_buffers,
            reading.rx_errors,
            reading.tx_errors,
        )
    ]
    width = len(reading.names)
    if {table.shape for table in tables} != {(len(reading.rx_packets), width)}:
        raise ValueError(f"it names {width} interfaces but counts others")
    known = set(reading.names)
    split = [name.rpartition(".") for name in reading.names]  # NAME.<number> of an interface NAME
    own = [i for i, (of, dot, n) in enumerate(split) if not (dot and n.isdecimal() and of in known)]
    _check_count(len(own), "interfaces")
    names = tuple(reading.names[index][:_NAME_LIMIT] for index in own)
    received, sent, misses, drops, size, no_buffers, errors, unsent = (
        table[:, own] for table in tables
    )
    return VppInterfaces(
        names,
        received,
        sent,
        misses,
        drops,
        rx_bytes=size,
        rx_no_buffers=no_buffers,
        rx_errors=errors,
        tx_errors=unsent,
    )


def nodes_of(reading: NodeReading, threads: int) -> VppNodes:
    """The nodes of so many threads.

    Raises ValueError: names and counters do not match, or there are more than a recording holds.
    """
    _check_count(len(reading.names), "nodes")
    names = tuple(name[:_NAME_LIMIT] for name in reading.names)
    tables = [_counts(rows) for rows in (reading.clocks, reading.vectors, reading.calls)]
    if {table.shape for table in tables} != {(threads, len(names))}:
        raise ValueError(f"it names {len(names)} nodes but counts others")
    return VppNodes(names, *tables)


def errors_of(reading: ErrorReading | str, threads: int) -> VppErrors | Missing:
    """The error counters of so many threads. Raises ValueError: names and counters do not match."""
    if isinstance(reading, str):
        return Missing(Reason.SOURCE, reading)
    nodes, names = (
        tuple(text[:_NAME_LIMIT] for text in texts) for texts in (reading.nodes, reading.names)
    )
    counts = _counts(reading.counts)
    if len(nodes) != len(names) or counts.shape != (threads, len(names)):
        raise ValueError(f"it names {len(names)} errors but counts others")
    return VppErrors(reading.epoch, nodes, names, counts)


def _check_count(count: int, kind: str) -> None:
    if count > VPP_ROWS:
        raise ValueError(f"{count} {kind} are more than {VPP_ROWS}, the most that nftop records")


def _at(numbers: Sequence[int], index: int) -> float | None:
    return float(numbers[index]) if index < len(numbers) else None


def _counts(rows: CountsByThread) -> Counts:
    """uint64 (t, i). ValueError if rows differ in length or numbers are out of range."""
    try:
        table = np.array(rows, dtype=np.uint64)
    except OverflowError as error:
        raise ValueError("a counter is out of range") from error
    return table if table.ndim == 2 else table.reshape(len(rows), -1)


_NO_COUNTS = np.zeros((0, 0), dtype=np.uint64)
NOTHING_READ = VppInstance(
    pid=0,
    start_ticks=0,
    name="",
    socket="",
    version="",
    problem=None,
    heartbeat=0,
    threads=(),
    interfaces=VppInterfaces((), _NO_COUNTS, _NO_COUNTS, _NO_COUNTS, _NO_COUNTS),
    nodes=None,
    read_at_ns=0,
    took_ns=0,
)


def after(before: VppInstance, reading: VppReading) -> VppInstance:
    """`before` with one more reading; nodes stay until VPP has refreshed them.

    Raises ValueError: parts of the reading are not of the same threads, interfaces or nodes.
    """
    threads = len(reading.rx_packets)
    nodes = before.nodes if reading.counts_nodes else None
    loops, rates = reading.loops_per_s, reading.vector_rate
    return replace(
        before,
        heartbeat=reading.heartbeat,
        threads=tuple(
            VppThread(index, None, None, _at(loops, index), _at(rates, index))
            for index in range(threads)
        ),
        interfaces=interfaces_of(reading),
        nodes=nodes if reading.nodes is None else nodes_of(reading.nodes, threads),
        read_at_ns=(reading.began_ns + reading.ended_ns) // 2,
        took_ns=reading.ended_ns - reading.began_ns,
        errors=errors_of(reading.errors, threads),
    )


# Whether PyPI's vpp-papi is installed in a version that reads segments correctly. Up to 2.4.0
# scalars such as the heartbeat are those of the last read of the directory, so a live segment looks
# frozen. Tested with 2.3.2, 2.4.0, 2.4.1 and 2.4.2.
def installed() -> str | None:
    """Installed version of vpp-papi, or None."""
    from importlib import metadata  # noqa: PLC0415 - it takes long to import

    try:
        return metadata.version("vpp-papi")
    except metadata.PackageNotFoundError:
        return None


def unfit(version: str | None) -> Missing | None:
    """Why that version can't read segments; None if it can."""
    if version is None:
        return Missing(
            Reason.SOURCE,
            f"its stats segment is read with PyPI's vpp-papi, which is not installed: {INSTALL}",
        )
    match = _VERSION.match(version)
    if match is not None and tuple(int(number or 0) for number in match.groups()) >= _LEAST:
        return None
    return Missing(
        Reason.SOURCE,
        f"its stats segment is read with PyPI's vpp-papi 2.4.1 or later, and this is {version}, "
        f"which returns stale numbers: {INSTALL}",
    )
