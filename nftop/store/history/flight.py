"""Flight recorder: the last samples of a live session, encoded as a recording, in memory.

The bytes are those of a recording file from some seek point on, so that they can be written to one
and are read by the same code. The oldest segment is dropped when the budget is full.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from threading import Lock

from nftop.derive.fold import FoldState, lasting
from nftop.model.struct import dataclass, field
from nftop.store.format.encoder import Chunk
from nftop.store.format.zstd import FRAME_END
from nftop.store.reading.bytes import KeptBytes
from nftop.store.reading.seekpoint import SeekPoint

BUDGET_BYTES = 32 << 20
LONGEST_NS = 4 * 3_600_000_000_000
# A state of the fold in memory, measured on simulated hosts of 8, 88 and 512 CPUs with every
# source: whole, but for the ticks of the baseline, and what of it outlasts a warm-up. Of that,
# states a minute apart share most points of the recent rates of NFs, which are counted once.
STATE_BYTES, STATE_BYTES_PER_CPU = 250_000, 4_800
LASTING_BYTES, LASTING_BYTES_PER_CPU = 60_000, 850
# Whole states may take this share of the budget. Older segments keep what outlasts a warm-up.
STATES_SHARE = 0.1


@dataclass(slots=True, eq=False)
class _Segment:
    """Samples from one seek point to the next; `at` is the address of the first byte."""

    at: int
    began_ns: int  # CLOCK_MONOTONIC
    began_wall_ns: int
    newest: SeekPoint
    data: bytearray = field(default_factory=bytearray)
    ticks: int = 0
    ended: bool = False  # `data` has its FRAME_END
    state: FoldState | None = None
    state_bytes: int = 0


@dataclass(frozen=True, slots=True)
class FlightSize:
    """What a flight recorder keeps.

    Attributes:
        size_bytes: of samples and states. budget_bytes: their limit.
        ticks: samples. seconds: from the first to the last.
        first_ns, last_ns: wall time of these; 0 without any.
    """

    size_bytes: int
    budget_bytes: int
    ticks: int
    seconds: float
    first_ns: int
    last_ns: int


class FlightRecorder:
    """Segments of encoded samples. One thread appends; any may read."""

    def __init__(self, *, budget_bytes: int = BUDGET_BYTES, longest_ns: int = LONGEST_NS) -> None:
        """Keeps up to `longest_ns` in at most `budget_bytes`."""
        self.budget_bytes = budget_bytes
        self._longest_ns = longest_ns
        self._lock = Lock()
        self._segments: deque[_Segment] = deque()
        self._bytes = self._state_bytes = 0
        self._end = 0  # address behind the last byte

    def append(self, chunk: Chunk, state: FoldState | None = None) -> bool:
        """Keep a chunk; `state` is that of the fold before its sample.

        Returns whether the next chunk can go on; False: it has to start a segment.
        """
        with self._lock:
            if chunk.starts:
                if self._segments:
                    self._extend(FRAME_END)
                    self._segments[-1].ended = True
                after = chunk.after
                begun = _Segment(self._end, after.monotonic_ns, after.wall_ns, after)
                self._segments.append(begun)
            if not self._segments:
                return False
            newest = self._segments[-1]
            if not newest.ticks and chunk.ticks and state is not None:
                self._keep_state(newest, state)
            self._extend(chunk.data)
            newest.ticks += chunk.ticks
            newest.newest = chunk.after
            return self._drop(chunk.after.monotonic_ns)

    @property
    def wants_state(self) -> bool:
        """Whether the next sample begins a segment."""
        with self._lock:
            return not self._segments or not self._segments[-1].ticks

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self._segments.clear()
            self._bytes = self._state_bytes = 0

    def chunks(self, since_ns: int) -> Iterator[Chunk]:
        """Whole segments with the samples from this CLOCK_MONOTONIC on, each as one chunk."""
        with self._lock:
            segments = list(self._segments)
        for index, segment in enumerate(segments):
            later = segments[index + 1 :]
            if later and later[0].began_ns <= since_ns:
                continue
            with self._lock:
                data = bytes(segment.data[: -len(FRAME_END) if segment.ended else None])
                chunk = Chunk(data, starts=True, ticks=segment.ticks, after=segment.newest)
            yield chunk

    def state_at(self, at: int) -> FoldState | None:
        """State of the fold before the first sample of the segment at this address, if kept.

        Without a sample (`before`) it is only what outlasts a warm-up.
        """
        with self._lock:
            return next((item.state for item in self._segments if item.at == at), None)

    @property
    def size(self) -> FlightSize:
        """What is kept now."""
        with self._lock:
            if not self._segments:
                return FlightSize(0, self.budget_bytes, 0, 0.0, 0, 0)
            first, last = self._segments[0], self._segments[-1].newest
            return FlightSize(
                self._bytes + self._state_bytes,
                self.budget_bytes,
                sum(item.ticks for item in self._segments),
                max(0, last.monotonic_ns - first.began_ns) / 1e9,
                first.began_wall_ns,
                last.wall_ns,
            )

    @property
    def began_ns(self) -> int:
        """CLOCK_MONOTONIC of the oldest sample; 0 without any."""
        with self._lock:
            return self._segments[0].began_ns if self._segments else 0

    def reader(self) -> FlightBytes:
        """The bytes, for one reader."""
        return FlightBytes(self)

    def read(self, at: int, size: int) -> bytes:
        """So many bytes from an address on, fewer where no more are there."""
        with self._lock:
            starts = [item.at for item in self._segments]
            index = bisect_right(starts, at) - 1
            result = bytearray()
            while 0 <= index < len(starts) and len(result) < size:
                segment = self._segments[index]
                behind = at + len(result) - segment.at
                result += memoryview(segment.data)[behind : behind + size - len(result)]
                index += 1
            return bytes(result)

    @property
    def ends(self) -> tuple[int, int]:
        """Addresses of the first byte and behind the last one."""
        with self._lock:
            return (self._segments[0].at if self._segments else self._end), self._end

    # With the lock held

    def _extend(self, data: bytes) -> None:
        self._segments[-1].data += data
        self._bytes += len(data)
        self._end += len(data)

    def _keep_state(self, segment: _Segment, state: FoldState) -> None:
        """Keep a state; those of the oldest segments are reduced to make room for it."""
        size = STATE_BYTES + STATE_BYTES_PER_CPU * len(state.topology.cpus)
        whole = [item for item in self._segments if item.state is not None and item.state.before]
        room = int(self.budget_bytes * STATES_SHARE / size) - 1
        for older in whole[: max(0, len(whole) - max(room, 0))]:
            self._reduce_state(older)
        self._set_state(segment, state, size)
        if room < 0:
            self._reduce_state(segment)

    def _reduce_state(self, segment: _Segment) -> None:
        if segment.state is not None:
            size = LASTING_BYTES + LASTING_BYTES_PER_CPU * len(segment.state.topology.cpus)
            self._set_state(segment, lasting(segment.state), size)

    def _set_state(self, segment: _Segment, state: FoldState | None, size: int) -> None:
        self._state_bytes += size - segment.state_bytes
        segment.state, segment.state_bytes = state, size

    def _drop(self, now_ns: int) -> bool:
        while self._segments and (
            self._bytes + self._state_bytes > self.budget_bytes
            or (len(self._segments) > 1 and now_ns - self._segments[1].began_ns > self._longest_ns)
        ):
            gone = self._segments.popleft()
            self._bytes -= len(gone.data)
            self._set_state(gone, None, 0)
        return bool(self._segments)


class FlightBytes(KeptBytes):
    """The bytes of a flight recorder for one reader: a `Readable` that grows and forgets."""

    def __init__(self, flight: FlightRecorder) -> None:
        self._flight = flight

    def read(self, at: int, size: int) -> bytes:
        self.check()
        return self._flight.read(at, size)

    @property
    def first(self) -> int:
        return self._flight.ends[0]

    @property
    def size(self) -> int:
        return self._flight.ends[1]

    def close(self) -> None:
        """Nothing is open."""
