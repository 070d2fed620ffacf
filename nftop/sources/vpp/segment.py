"""Reading a stats segment with vpp-papi, only in a process that may crash or be killed.

VPP writes during the read. It marks a change of the layout by `in_progress` and a new epoch, and
vpp-papi then discards what it read; counters change at any time.

A segment whose VPP died during a change has `in_progress` set for ever, so it is checked before
each call of vpp-papi, which would wait without end. vpp-papi's own connect has no limit either, so
the mapping is made here.

vpp-papi knows the types of directory entries as VPP numbers them since 22.06. VPP 20.09 to 22.02
had one more, an index into a vector of errors that the header points to: those are renumbered.
"""

from __future__ import annotations

import mmap
import re
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any

from vpp_papi import vpp_stats

from nftop.model.missing import Reason
from nftop.model.sample_bounds import VPP_ERRORS
from nftop.sources.vpp.protocol import CountsByThread, ErrorReading, NodeReading, VppReading

_VERSION = 2
_HEADER_BYTES = 64
_TRIES = 5
# VPP holds its lock for microseconds, unless it has lost its CPU meanwhile.
_LOCKED_S, _POLL_S = 0.1, 0.001
# Errors of vpp-papi for a segment with invalid offsets, types or texts.
_NONSENSE = (
    OSError, LookupError, ValueError, TypeError, AttributeError, AssertionError, MemoryError,
    OverflowError, struct.error,
)  # fmt: skip
_MOST_THREADS = 1024
# Elements of vectors, strings included: 64 threads, 2,000 nodes and 1,000 interfaces have 900,000.
MAX_ELEMENTS = 1 << 21
MAX_VECTOR = 1 << 18
_OTHER = "Optimistic lock failed"
# Types of entries (stat_directory_type_t), and those of VPP 20.09 to 22.02 by vpp-papi's.
_NAMES, _EMPTY, _SYMLINK = 4, 5, 6
_OLDER_ERROR, _OLDER_NAMES = 4, 5
_OLDER = {_OLDER_ERROR: _EMPTY, _OLDER_NAMES: _NAMES, 6: _EMPTY, 7: _SYMLINK}
# Counters of interfaces by field of `VppReading`.
_LOSSES = {
    "rx_misses": "/if/rx-miss", "drops": "/if/drops", "rx_no_buffers": "/if/rx-no-buf",
    "rx_errors": "/if/rx-error", "tx_errors": "/if/tx-error",
}  # fmt: skip
_ERROR_VECTOR_AT = 40  # of the header of VPP 20.09 to 22.02
_ERROR_VECTOR = "/node/errors"  # that symlinks of errors point into since 22.06
_ERROR = "/err/"
# Nodes of an interface have its name, which may have slashes: GigabitEthernet3/0/0-tx.
_ERROR_PATH = re.compile(
    r"/err/([^/]+(?:(?:/[0-9a-f]+)+(?:\.[0-9]+)*-(?:tx|output))?)/(.+)", re.DOTALL
)
_NO_ERRORS = "its stats segment has no error counters"


class UnreadableError(Exception):
    """A segment can't be read now, with a reason."""

    def __init__(self, reason: Reason, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


def _bounded(memory: Any) -> Any:
    """vpp-papi's view of a mapping, or of a buffer, with a limit on what one reading contains.

    Its `elements_left` is the number of elements of vectors that this reading may still have.
    """
    stats = vpp_stats.VPPStats("")
    stats.statseg, stats.size = memory, len(memory)
    stats.elements_left = MAX_ELEMENTS
    return stats


class _TooLongError(ValueError):
    """A vector is longer than nftop reads."""


def _bounded_length(stats: Any, offset: int) -> int:
    """Length of the vector at `offset`; replaces vpp-papi's `get_vec_len`, which has no limit."""
    length = int(vpp_stats.VEC_LEN_FMT.unpack_from(stats.statseg, offset - 8)[0])
    stats.elements_left -= length
    if length > MAX_VECTOR or stats.elements_left < 0:
        raise _TooLongError(f"a vector of {length} elements is too long")
    return length


def limit_lengths() -> None:
    """Make vpp-papi read lengths of vectors by `_bounded_length`, and check that it does.

    Raises UnreadableError: this vpp-papi reads lengths in another way, so nothing limits them.
    """
    vpp_stats.get_vec_len = _bounded_length
    memory = bytearray(256)
    struct.pack_into("=I", memory, 128 - 8, MAX_VECTOR + 1)
    attempts: tuple[Callable[[], object], ...] = (
        lambda: vpp_stats.StatsVector(_bounded(memory), 128, "Q"),
        lambda: vpp_stats.get_string(_bounded(memory), 128),
    )
    for read in attempts:
        try:
            read()
        except _TooLongError:
            continue
        except _NONSENSE:
            pass
        raise UnreadableError(
            Reason.SOURCE,
            "its stats segment is not read: this vpp-papi does not let nftop limit the length of "
            "vectors",
        )


class Segment:
    """One segment, by its descriptor."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._stats: Any = None
        self._names: list[str] = []
        self._ran: set[int] = set()
        self._directory: object = None  # of which `_errors` is
        self._errors = _ErrorIndex(0, {})

    def read(self, heartbeat: int | None) -> VppReading:
        """Everything now; nodes if VPP has refreshed them since `heartbeat`.

        Raises UnreadableError: it can't be read now.
        """
        why = OSError("")
        for _ in range(_TRIES):
            try:
                return self._once(heartbeat)
            except _NONSENSE as error:
                why = (
                    error
                    if isinstance(error, OSError)
                    else OSError(f"{type(error).__name__} {error}".strip())
                )
        if self._stats is not None:  # drop what vpp-papi remembers of the segment
            self._stats.statseg.close()  # two mappings may exceed the limit of the process
            self._stats = None
        if _OTHER in str(why):
            raise UnreadableError(Reason.STALE, "its stats segment changes while it is read")
        raise UnreadableError(Reason.ERROR, f"its stats segment is invalid: {why}")

    def _once(self, known: int | None) -> VppReading:
        if self._stats is None:
            limit_lengths()
            self._stats = self._mapped()
        stats = self._stats
        stats.elements_left = MAX_ELEMENTS
        _wait_unlocked(stats)
        if stats.last_epoch != stats.epoch or not stats.directory:
            stats.refresh(blocking=False)
        if stats.directory is not self._directory:
            self._errors, self._directory = _prepared(stats), stats.directory
        epoch = stats.epoch
        began_ns = time.monotonic_ns()
        both = _few(self._get("/if/rx"))  # counters of packets and bytes
        received, received_bytes = ([[item[at] for item in row] for row in both] for at in (0, 1))
        sent = [[item[0] for item in row] for row in _few(self._get("/if/tx"))]
        losses = {field: _rows(self._get(name)) for field, name in _LOSSES.items()}
        ended_ns = time.monotonic_ns()
        names = _texts(self._get("/if/names"))
        heartbeat = int(self._get("/sys/heartbeat"))
        loops, rates = (
            list(next(iter(self._get(f"/sys/{name}_per_worker", absent=[])), ()))
            for name in ("loops", "vector_rate")
        )
        counts_nodes = "/sys/node/clocks" in stats.directory
        wanted = counts_nodes and heartbeat != known
        nodes = self._nodes(len(received)) if wanted else None
        left, stats.elements_left = stats.elements_left, MAX_ELEMENTS  # errors have their own
        try:
            errors = self._errors.read(stats, len(received))
        except _NONSENSE as error:  # if the segment changed, all is read again below
            errors = f"its error counters are invalid: {type(error).__name__} {error}".strip()
        stats.elements_left = left
        if stats.epoch != epoch:
            raise OSError(_OTHER)
        width = max(map(len, received), default=0)
        return VppReading(
            heartbeat=heartbeat,
            # A name comes before its counters; one less than those may be any of them.
            names=names[:width],
            rx_packets=_even(received, width),
            tx_packets=_even(sent, width, len(received)),
            rx_bytes=_even(received_bytes, width),
            **{field: _even(rows, width, len(received)) for field, rows in losses.items()},
            loops_per_s=loops,
            vector_rate=rates,
            counts_nodes=counts_nodes,
            nodes=nodes,
            began_ns=began_ns,
            ended_ns=ended_ns,
            errors=errors,
        )

    def _mapped(self) -> Any:
        memory = mmap.mmap(self._handle, 0, mmap.MAP_SHARED, mmap.PROT_READ)
        if len(memory) < _HEADER_BYTES:
            raise UnreadableError(Reason.ERROR, f"its stats segment has only {len(memory)} bytes")
        stats = _bounded(memory)
        if stats.version != _VERSION:
            raise UnreadableError(
                Reason.SOURCE,
                f"its stats segment has version {stats.version}, and nftop reads version "
                f"{_VERSION}, as newer VPPs have it",
            )
        stats.connected = True
        return stats

    def _get(self, name: str, *, absent: Any = None) -> Any:
        """A value; `absent`, or a LookupError, if there is none."""
        if absent is not None and name not in self._stats.directory:
            return absent
        _wait_unlocked(self._stats)
        value = self._stats.get_counter(name, blocking=False)
        if value is None:
            raise LookupError(f"{name} is of no known type")
        return value

    def _nodes(self, threads: int) -> NodeReading:
        """Nodes that ever ran. VPP updates them without a mark, so `clocks` is read twice."""
        names = _texts(self._get("/sys/node/names"))
        clocks, vectors, calls, again = (
            _rows(self._get(f"/sys/node/{name}"))[:threads]
            for name in ("clocks", "vectors", "calls", "clocks")
        )
        if clocks != again:
            raise OSError(_OTHER)
        width = max(map(len, clocks), default=0)
        if len(names) < width:
            raise LookupError(f"it counts {width} nodes and names {len(names)}")
        if names[:width] != self._names:
            self._names, self._ran = names[:width], set()
        tables = [_even(rows, width, threads) for rows in (clocks, vectors, calls)]
        for table in tables:
            for row in table:
                self._ran.update(index for index, count in enumerate(row) if count)
        ran = sorted(self._ran)
        return NodeReading(
            [names[index] for index in ran],
            *([[row[index] for index in ran] for row in table] for table in tables),
        )


class _ErrorIndex:
    """Where the errors of a directory are counted: vectors by thread that `at` points to.

    Their number is that of all errors of all nodes, some thousands, so each vector is unpacked at
    once, and only what ever counted is looked up.
    """

    def __init__(self, at: int, paths: dict[int, str]) -> None:
        self._at = at  # pointer to a vector of pointers, by thread
        self._paths = paths  # by index
        self._counted: set[int] = set()

    def read(self, stats: Any, threads: int) -> ErrorReading | str:
        """Errors that ever counted, or why there are none."""
        if not self._paths:
            return _NO_ERRORS
        _wait_unlocked(stats)
        rows = [_unpacked(stats, at) for at in _few(_unpacked(stats, self._at))[:threads]]
        for row in rows:
            self._counted.update(
                index for index, count in enumerate(row) if count and index in self._paths
            )
        counted = [index for index in self._paths if index in self._counted]
        if len(counted) > VPP_ERRORS:
            return f"{len(counted)} error counters are more than {VPP_ERRORS}, the most nftop reads"
        split = [_ERROR_PATH.fullmatch(self._paths[index]) for index in counted]
        named = [
            (index, match[1], match[2])
            for index, match in zip(counted, split, strict=True)
            if match is not None
        ]
        counts = [[row[at] if at < len(row) else 0 for at, _, _ in named] for row in rows]
        return ErrorReading(
            epoch=stats.last_epoch,
            nodes=[node for _, node, _ in named],
            names=[name for _, _, name in named],
            counts=_even(counts, len(named), threads),
        )


def _prepared(stats: Any) -> _ErrorIndex:
    """Renumber the types of an older VPP's directory; where its errors are."""
    directory = stats.directory
    names = directory.get("/if/names")
    errors = {path: entry for path, entry in directory.items() if path.startswith(_ERROR)}
    if names is not None and names.type == _OLDER_NAMES:
        paths = {entry.value: path for path, entry in errors.items() if entry.type == _OLDER_ERROR}
        for path, entry in list(directory.items()):
            kind = _OLDER.get(entry.type, entry.type)
            directory[path] = vpp_stats.StatsEntry(kind, entry.value, entry.index)
        return _ErrorIndex(struct.unpack_from("=Q", stats.statseg, _ERROR_VECTOR_AT)[0], paths)
    vector = directory.get(_ERROR_VECTOR)
    if vector is None:
        return _ErrorIndex(0, {})
    paths = {}
    for path, entry in errors.items():
        target, index = entry.value & 0xFFFFFFFF, entry.value >> 32
        if entry.type == _SYMLINK and target == vector.index:
            paths[index] = path
    return _ErrorIndex(vector.value, paths)


def _unpacked(stats: Any, pointer: int) -> tuple[int, ...]:
    """The vector of 64-bit numbers at `pointer`; none there is empty."""
    if not pointer:
        return ()
    vector = vpp_stats.StatsVector(stats, pointer, "Q")
    return struct.unpack_from(f"={vector.vec_len}Q", stats.statseg, vector.vec_start)


def _wait_unlocked(stats: Any) -> None:
    for _ in range(int(_LOCKED_S / _POLL_S)):
        if not stats.in_progress:
            return
        time.sleep(_POLL_S)
    raise UnreadableError(
        Reason.STALE, "its stats segment stays locked for a change: VPP hangs, or died during it"
    )


def _texts(names: Any) -> list[str]:
    """Names; the entry may be of another type. Raises ValueError."""
    texts = list(names)
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("its names are no texts")
    return texts


def _rows(table: Sequence[Sequence[int]]) -> CountsByThread:
    return [list(row) for row in _few(table)]


def _few(table: Any) -> Any:
    if len(table) > _MOST_THREADS:
        raise ValueError(f"{len(table)} threads")
    return table


def _even(rows: CountsByThread, width: int, height: int | None = None) -> CountsByThread:
    """`height` rows of this width; what VPP has not created yet has counted nothing."""
    wanted = len(rows) if height is None else height
    padded = [*rows[:wanted], *([] for _ in range(wanted - len(rows)))]
    return [row[:width] + [0] * (width - len(row)) for row in padded]
