"""History of every CPU, package and cache class for graphs: ring buffers of columns in memory.

The consumer of the feed fills it, screens read it. Screens keep no history of their own, so graphs
include frames that a screen was too slow to draw.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from threading import Lock
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nftop.derive.compare.window import (
    CACHE_KEPT,
    CLASS_KEPT,
    NF_KEPT,
    ClassKey,
    ReadTimes,
    Track,
    Window,
    class_ipc,
    core_values,
    is_renewed,
    nf_sources,
    sample_of,
    source_of,
)
from nftop.model.column import Block, Floats
from nftop.model.frame import Frame
from nftop.model.ids import Cpu, Package
from nftop.model.metrics.catalogue import ALL_PACKAGE_METRICS, CPU_METRICS
from nftop.model.metrics.cpu import FREQUENCY_METRICS
from nftop.model.metrics.metric import Unit
from nftop.model.metrics.pcm import PCM_CPU_METRICS
from nftop.model.metrics.power import COUNTED_POWER_CPU_METRICS
from nftop.model.metrics.tma import TMA_METRICS
from nftop.model.missing import Missing, Reason, number_or
from nftop.model.struct import dataclass
from nftop.model.usual import KeyRows
from nftop.store.format.zstd import compress, decompress

# What a network function sends; changes of classes are judged without it.
SENT = "tx_packets_per_s"
_MISSES = NF_KEPT.index("llc_misses_per_packet")


class SampleRings:
    """Rings of `ticks` ticks. Safe between one writer and readers, as `Ring` is.

    Memory: 4 bytes x ticks x metrics x rows; 1 MB for 600 ticks of 16 classes in 8 caches.
    """

    def __init__(self, ticks: int) -> None:
        self._nfs = Ring(NF_KEPT, ticks)
        self._sent = Ring((SENT,), ticks)
        self._caches = Ring(CACHE_KEPT, ticks)
        self._classes = Ring(CLASS_KEPT, ticks)
        self._times = ReadTimes()
        self._misses: dict[str, list[float]] = {}
        self._metered_at_ns: dict[ClassKey, int] = {}

    def append(self, frame: Frame, covers_ns: int) -> None:
        """Append the new values of a frame; a late source adds none."""
        renewed = self._times.renewed(frame).keys()
        self._append_nfs(frame, covers_ns, renewed)
        if frame.groups:
            self._append_caches(frame, covers_ns)
            keys = [(group.name, cache.l3) for group in frame.groups for cache in group.caches]
            values = np.array(list(class_ipc(frame, keys, renewed)))
            self._classes.append(frame.monotonic_ns, covers_ns, _positions(keys), values)

    def window(self, frame: Frame) -> Window:
        """What there is up to a frame."""
        until_ns = frame.monotonic_ns
        tracks = (ring.track(until_ns) for ring in (self._nfs, self._caches, self._classes))
        return Window(frame, *tracks)

    def series(
        self, metric: str, key: ClassKey, points: int, span_s: float, until_ns: int | None
    ) -> HistorySeries:
        """One of `CACHE_KEPT` over time, as `TickHistory.series`."""
        return self._caches.series(metric, key, points, span_s, until_ns)

    def nf_matrix(
        self, metric: str, keys: Sequence[str], points: int, span_s: float, until_ns: int | None
    ) -> HistorySeries:
        """One of `NF_KEPT`, or `SENT`, of several network functions, as `Ring.matrix`."""
        ring = self._sent if metric == SENT else self._nfs
        return ring.matrix(metric, keys, points, span_s, until_ns)

    def _append_nfs(self, frame: Frame, covers_ns: int, renewed: Collection[str]) -> None:
        keys = [nf.key for nf in frame.nfs]
        if not keys:
            return
        readings = [nf.readings[SENT] for nf in frame.nfs]
        sent = [number_or(one, np.nan) for one in readings]
        self._sent.append(frame.monotonic_ns, covers_ns, _positions(keys), np.array([sent]))
        cores = core_values(frame.cpus, frame.nfs)
        pairs = list(zip(frame.nfs, cores, strict=True))
        values = np.array([[*sample_of(nf, own), 1.0] for nf, own in pairs])
        all_renewed = is_renewed(frame, frame.sources, renewed)
        for at, (nf, own) in enumerate(pairs):
            if not all_renewed:
                new = [
                    is_renewed(frame, nf_sources(frame, nf, name), renewed) for name in NF_KEPT[:-1]
                ]
                # What rests on more than its own counters, and of that there is nothing new.
                values[at, :-1][~np.array(new)] = np.nan
                values[at, -1] = is_renewed(frame, (source_of(nf),), renewed)
            # Misses may be counted in turns and held in between, unlike packets, their weight.
            if own.misses == self._misses.get(nf.key):
                values[at, _MISSES] = np.nan
            self._misses[nf.key] = own.misses
        self._nfs.append(frame.monotonic_ns, covers_ns, _positions(keys), values.T)

    def _append_caches(self, frame: Frame, covers_ns: int) -> None:
        caches = {(group.name, cache.l3): cache for group in frame.groups for cache in group.caches}
        values = np.empty((len(caches), len(CACHE_KEPT)))
        for at, (key, cache) in enumerate(caches.items()):
            readings = [cache.readings[metric] for metric in CACHE_KEPT[:-1]]
            numbers = [number_or(one, np.nan) for one in readings]
            values[at] = *numbers, cache.metered_at_ns not in (0, self._metered_at_ns.get(key))
        self._metered_at_ns = {key: cache.metered_at_ns for key, cache in caches.items()}
        self._caches.append(frame.monotonic_ns, covers_ns, _positions(caches), values.T)


def _positions(keys: Iterable[Hashable]) -> Mapping[Hashable, int]:
    return {key: index for index, key in enumerate(keys)}


# 1024 CPUs with 600 ticks.
MOST_BYTES, LEAST_TICKS = 80 << 20, 30

HistorySeries: TypeAlias = NDArray[np.float32]

_MATRICES = 64


@dataclass(frozen=True, slots=True)
class _Matrix:
    """What `Ring.matrix` returned last for a metric, a number of parts and their length.

    Attributes:
        keys: of its rows, a tuple.
        row_of: rows of the ring then.
        until_ns: the time it was computed for.
        end: number of its last part; part n ends at n times the length of a part.
        newest: number of the part that the newest tick was in.
        values: float32 (parts, keys).
        after: number of ticks there were. sums, counts: of the last part, see `_totals`.
    """

    keys: tuple[Hashable, ...]
    row_of: Mapping[Any, int]
    until_ns: int
    end: int
    newest: int
    values: NDArray[np.float32]
    after: int
    sums: NDArray[np.float64]
    counts: NDArray[np.int64]


# A block: so many bytes of a metric, 16 ticks of 512 CPUs, but at most so many ticks. Few bytes are
# not packed, as that takes longer than it saves.
_BLOCK_BYTES, _BLOCK_TICKS, _FEW_BYTES = 32 << 10, 64, 4 << 10
_MOST_UNPACKED = 8  # of a ring, 256 KiB
_Packed: TypeAlias = bytes | NDArray[np.float32]


class _Values:
    """float32 values of at least the last `ticks` ticks; each whole block of ticks is packed.

    Tick n is the one appended after n others. Packed losslessly: bytes of equal significance, then
    ticks of a row, are neighbours, so that a value that stays or is absent takes next to nothing.
    """

    def __init__(self, metrics: int, rows: int, ticks: int) -> None:
        self.count = 0
        self.block_ticks = min(max(_BLOCK_BYTES // (4 * rows), 1), _BLOCK_TICKS)
        self._open = np.full((metrics, self.block_ticks, rows), np.nan, np.float32)
        self._whole: deque[list[_Packed]] = deque(maxlen=-(-ticks // self.block_ticks))
        # By metric and number of the block. At 1 Hz it has what the graphs of a tick need; at 10 Hz
        # their newest parts are more blocks.
        self._unpacked: dict[tuple[int, int], NDArray[np.float32]] = {}

    def append(self, values: NDArray[Any]) -> None:
        """Keep one tick: (metrics, rows)."""
        self._open[:, self.count % self.block_ticks] = values
        self.count += 1
        if self.count % self.block_ticks == 0:
            self._whole.append([self._packed(values) for values in self._open])

    def of(self, metric: int, first: int, after: int) -> NDArray[np.float32]:
        """Values of one metric of ticks first:after: (ticks, rows); valid until the next tick."""
        begin, last = first // self.block_ticks, after // self.block_ticks
        blocks = [self._block(metric, number) for number in range(begin, last + 1)]
        skipped = begin * self.block_ticks
        values = blocks[0] if begin == last else np.concatenate(blocks)
        return values[first - skipped : after - skipped]

    def _block(self, metric: int, number: int) -> NDArray[np.float32]:
        """Values of a block: (ticks, rows)."""
        back = number - self.count // self.block_ticks
        block = self._whole[back][metric] if back else self._open[metric]
        if not isinstance(block, bytes):
            return block
        if (known := self._unpacked.get((metric, number))) is not None:
            return known
        by_significance = np.frombuffer(decompress(block), np.uint8).reshape(4, -1)
        values = np.ascontiguousarray(by_significance.T).view(np.float32)
        values = values.reshape(-1, self.block_ticks).T
        if len(self._unpacked) >= _MOST_UNPACKED:
            del self._unpacked[next(iter(self._unpacked))]  # the oldest
        self._unpacked[metric, number] = values
        return values

    @staticmethod
    def _packed(values: NDArray[np.float32]) -> _Packed:
        if values.nbytes < _FEW_BYTES:
            return values.copy()
        by_significance = np.ascontiguousarray(values.T).view(np.uint8).reshape(-1, 4).T
        return compress(np.ascontiguousarray(by_significance).data, level=1)


class Ring:
    """The last `ticks` ticks of some metrics by row. Safe between one writer and readers.

    Rows are distinguished by a key, that of a CPU, say. Memory: ticks x metrics x rows x 4 bytes at
    most; where that is more than MOST_BYTES there are fewer ticks, LEAST_TICKS at least.
    """

    def __init__(self, metrics: Sequence[str], ticks: int) -> None:
        self._ticks = ticks
        self.metrics = {metric: index for index, metric in enumerate(metrics)}
        self._lock = Lock()
        self._row_of: Mapping[Any, int] = {}
        self._times_ns = np.zeros(ticks, np.int64)
        self._covers_ns = np.zeros(ticks, np.int64)
        self._values = _Values(len(self.metrics), 1, ticks)
        self._matrices: dict[tuple[str, int, int], _Matrix] = {}
        # Number of the first tick, and values, by metric and row, of the last `_column`.
        self._columns: dict[tuple[int, int], tuple[int, NDArray[np.float64]]] = {}
        self._rows = KeyRows()

    def append(
        self, time_ns: int, covers_ns: int, row_of: Mapping[Any, int], values: Floats
    ) -> None:
        """Keep one tick: float64 (metrics, rows), NaN where there is no number.

        Ticks come in order; one from before the last starts all over. Without rows it is a gap.
        """
        if not row_of:
            return
        with self._lock:
            # Rows stay the same object until they change, so this costs nothing per row.
            if row_of is not self._row_of and row_of != self._row_of:
                self._move_rows(row_of)
            size, count = len(self._times_ns), self._values.count
            if count and time_ns <= self._times_ns[(count - 1) % size]:
                self._values = _Values(len(self.metrics), len(row_of), size)
                self._matrices.clear()
                self._columns.clear()
            at = self._values.count % size
            self._times_ns[at] = time_ns
            self._covers_ns[at] = covers_ns
            self._values.append(values)

    @property
    def oldest_ns(self) -> int | None:
        """Time of the oldest tick; None without any."""
        with self._lock:
            times = self._times()
            return int(times[0]) if len(times) else None

    def series(
        self, metric: str, key: Hashable, points: int, span_s: float, until_ns: int | None = None
    ) -> HistorySeries:
        """One metric of one row over time; see `TickHistory.series`."""
        times, covers, values = self._column(self.metrics[metric], key)
        if until_ns is not None:
            known = int(np.searchsorted(times, until_ns, side="right"))
            times, covers, values = times[:known], covers[:known], values[:known]
        if not len(times) or points < 1:
            return np.full(max(0, points), np.nan, np.float32)
        step_ns = max(1, round(span_s * 1e9 / points))
        end_ns = -(-int(times[-1] if until_ns is None else until_ns) // step_ns) * step_ns
        edges = end_ns - step_ns * np.arange(points, -1, -1, dtype=np.int64)
        bounds = np.searchsorted(times, edges, side="right")
        after = bounds[1:]
        means = _means(*_totals(values[bounds[0] :, None], bounds - bounds[0]))[:, 0]
        spoken_for = _spoken_for(times, covers, after, edges)
        held = np.where(spoken_for, values[np.minimum(after, len(values) - 1)], np.nan)
        return np.where(after > bounds[:-1], means, held).astype(np.float32)

    def matrix(
        self,
        metric: str,
        keys: Sequence[Hashable],
        points: int,
        span_s: float,
        until_ns: int | None = None,
    ) -> HistorySeries:
        """`series` of several rows at once: float32 of shape (len(keys), points).

        Parts that are over do not change: from one tick to the next only those that are new, and
        the one before them, are computed; what a tick adds to the last part is added to its sum.
        """
        step_ns = max(1, round(span_s * 1e9 / points)) if points > 0 else 1
        keys = tuple(keys)
        with self._lock:
            times = self._times()
            first = self._values.count - len(times)
            if until_ns is not None:
                times = times[: int(times.searchsorted(until_ns, side="right"))]
            if not len(times) or points < 1:
                return np.full((len(keys), points), np.nan, np.float32)
            until_ns = int(times[-1]) if until_ns is None else until_ns
            end = -(-until_ns // step_ns)  # number of the part that it is in
            newest, after = -(-int(times[-1]) // step_ns), first + len(times)
            name = (metric, points, step_ns)
            kept = self._matrices.get(name)
            if (
                kept is None
                or kept.row_of is not self._row_of
                or kept.until_ns > until_ns
                or (kept.keys is not keys and kept.keys != keys)
            ):
                kept, fresh = None, points
            else:
                fresh = min(points, end - kept.newest + 1)
            # All ticks of the last part are still there.
            whole = not first or times[0] <= (end - 1) * step_ns
            if kept is not None and kept.end == kept.newest == newest == end and whole:
                sums, counts, result = kept.sums, kept.counts, kept.values.copy()
                for values in self._selected(metric, keys, kept.after, after):
                    known = np.isfinite(values)
                    sums, counts = sums + np.where(known, values, 0.0), counts + known
                result[-1] = _means(sums, counts)
            else:
                edges = step_ns * np.arange(end - fresh, end + 1, dtype=np.int64)
                bounds = first + times.searchsorted(edges, side="right")
                values = self._selected(metric, keys, int(bounds[0]), int(bounds[-1]))
                all_sums, all_counts = _totals(values, bounds - bounds[0])
                result = _means(all_sums, all_counts)
                sums, counts = all_sums[-1], all_counts[-1]
                if kept is not None and fresh < points:
                    gone = end - kept.end
                    result = np.concatenate((kept.values[gone : gone + points - fresh], result))
            if len(self._matrices) > _MATRICES:
                self._matrices.clear()
            self._matrices[name] = _Matrix(
                keys, self._row_of, until_ns, end, newest, result, after, sums, counts
            )
        return result.copy().T

    def _selected(
        self, metric: str, keys: Sequence[Hashable], first: int, after: int
    ) -> NDArray[np.float32]:
        """Values (ticks, len(keys)) of ticks first:after; NaN for a key without a row."""
        rows = self._rows(self._row_of, keys)
        values = self._values.of(self.metrics[metric], first, after)[:, rows]
        if len(rows) and rows.min() < 0:
            values[:, rows < 0] = np.nan
        return values

    def track(self, until_ns: int) -> Track:
        """All ticks up to CLOCK_MONOTONIC `until_ns`."""
        with self._lock:
            times, after = self._times(), self._values.count
            first, known = after - len(times), times <= until_ns
            lines = [self._values.of(metric, first, after) for metric in self.metrics.values()]
            return Track(times[known], self.metrics, self._row_of, np.stack(lines, axis=1)[known])

    def _times(self) -> NDArray[np.int64]:
        """When the ticks were that are kept, oldest first."""
        size, count = len(self._times_ns), self._values.count
        return self._times_ns[:count] if count <= size else np.roll(self._times_ns, -(count % size))

    def _order(self) -> NDArray[np.int64]:
        size, count = len(self._times_ns), self._values.count
        return np.arange(max(0, count - size), count) % size

    def _column(
        self, index: int, key: Hashable
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        with self._lock:
            row, order, count = self._row_of.get(key), self._order(), self._values.count
            if row is None:
                return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
            first = count - len(order)
            begin, values = self._columns.get((index, row), (first, np.zeros(0)))
            new = self._values.of(index, max(begin + len(values), first), count)[:, row]
            values = np.concatenate((values[first - begin :], new), dtype=np.float64)
            if len(self._columns) > _MATRICES:
                self._columns.clear()
            self._columns[index, row] = first, values
            return self._times_ns[order], self._covers_ns[order], values.copy()

    def _move_rows(self, row_of: Mapping[Any, int]) -> None:
        """Make room for another set of rows; those that stay keep their history."""
        metrics, before = len(self.metrics), self._values
        ticks = min(self._ticks, max(LEAST_TICKS, MOST_BYTES // (4 * metrics * len(row_of))))
        order = self._order()[-ticks:]
        stay = row_of.keys() & self._row_of.keys()
        new, old = [row_of[cpu] for cpu in stay], [self._row_of[cpu] for cpu in stay]
        self._values = _Values(metrics, len(row_of), ticks)
        # A block's ticks at a time: all of them unpacked would be ten times as much.
        for first in range(before.count - len(order), before.count, _BLOCK_TICKS):
            after = min(first + _BLOCK_TICKS, before.count)
            values = np.full((after - first, metrics, len(row_of)), np.nan, np.float32)
            for at in range(metrics):
                values[:, at, new] = before.of(at, first, after)[:, old]
            for tick in values:
                self._values.append(tick)
        times, covers = np.zeros(ticks, np.int64), np.zeros(ticks, np.int64)
        times[: len(order)], covers[: len(order)] = self._times_ns[order], self._covers_ns[order]
        self._row_of, self._times_ns, self._covers_ns = row_of, times, covers
        self._matrices.clear()
        self._columns.clear()


def _totals(
    values: NDArray[Any], bounds: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Sums and counts of values[a:b] without NaN for each two neighbours of `bounds`.

    `values` is (ticks, rows), NaN where there is none; the result (parts, rows).
    """
    values = values[: bounds[-1]]
    # A last row of zeros: an empty part may begin behind all ticks.
    known = np.zeros((len(values) + 1, values.shape[1]), np.bool_)
    known[:-1] = np.isfinite(values)
    numbers = np.zeros(known.shape)
    np.copyto(numbers[:-1], values, where=known[:-1])
    # Where a part is empty, reduceat gives the tick that follows.
    some = (bounds[:-1] < bounds[1:])[:, None]
    within = np.where(some, np.add.reduceat(known, bounds[:-1], dtype=np.int64), 0)
    return np.where(some, np.add.reduceat(numbers, bounds[:-1]), 0.0), within


def _means(sums: NDArray[np.float64], counts: NDArray[np.int64]) -> NDArray[np.float32]:
    """NaN where nothing was counted."""
    means = np.full(sums.shape, np.nan, np.float32)
    np.divide(sums, counts, out=means, where=counts > 0, casting="same_kind")
    return means


def _spoken_for(
    times: NDArray[np.int64],
    covers: NDArray[np.int64],
    after: NDArray[np.intp],
    edges: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Which parts lie, by their middle, in the interval of the tick that follows them."""
    follower = np.minimum(after, len(times) - 1)
    begins = times[follower] - covers[follower]
    return (after < len(times)) & (begins <= (edges[:-1] + edges[1:]) // 2)


# What can be a column of some screen's table.
KEPT = tuple(
    metric.id
    for metric in CPU_METRICS
    if metric.priority is not None
    or metric in (*PCM_CPU_METRICS, *COUNTED_POWER_CPU_METRICS, *FREQUENCY_METRICS)
)
# Issue slots are kept of few ticks: only a minute of them is compared.
_SLOTS = tuple(
    metric.id for metric in TMA_METRICS if metric.unit is Unit.RATIO and metric.id not in KEPT
)
_SLOT_TICKS, _SLOT_SPACING_NS = 60, 10_000_000_000
_OF_PACKAGES = tuple(metric.id for metric in ALL_PACKAGE_METRICS)
_UNREPORTED = Missing(Reason.SOURCE)


class TickHistory:
    """A ring of `ticks` ticks of some per-CPU metrics, of all of packages and of `SampleRings`.

    Safe between one writer and readers. Memory for 600 ticks of 512 CPUs: 5 MB on the simulated
    host, 50 MB if nothing can be packed. More than 1024 CPUs have fewer ticks (see `Ring`).
    """

    def __init__(self, metrics: Sequence[str] = KEPT, ticks: int = 600) -> None:
        self._cpus = Ring(metrics, ticks)
        self._slots = Ring(_SLOTS, _SLOT_TICKS)
        self._slots_ns: int | None = None
        self._packages = Ring(_OF_PACKAGES, ticks)
        self._samples = SampleRings(ticks)

    def __contains__(self, metric: str) -> bool:
        return metric in self._cpus.metrics

    @property
    def oldest_ns(self) -> int | None:
        """CLOCK_MONOTONIC of the oldest tick; None without any."""
        return self._cpus.oldest_ns

    def append(self, frame: Frame) -> None:
        """Keep one frame. Frames come in order; one from before the last starts all over."""
        covers_ns = round(frame.elapsed_s * 1e9)
        columns = Block.of(frame.cpus.columns)
        values = columns.floats[columns.rows_of(tuple(self._cpus.metrics))]
        row_of = frame.cpus.topology.row_of
        self._cpus.append(frame.monotonic_ns, covers_ns, row_of, values)
        last_ns = self._slots_ns
        if last_ns is None or not 0 <= frame.monotonic_ns - last_ns < _SLOT_SPACING_NS:
            self._slots_ns = frame.monotonic_ns
            slots = columns.floats[columns.rows_of(_SLOTS)]
            self._slots.append(frame.monotonic_ns, covers_ns, row_of, slots)
        self._samples.append(frame, covers_ns)
        rows = frame.packages
        if rows:
            numbers = [
                [number_or(row.readings.get(metric, _UNREPORTED), np.nan) for row in rows]
                for metric in _OF_PACKAGES
            ]
            self._packages.append(
                frame.monotonic_ns,
                covers_ns,
                {row.package: index for index, row in enumerate(rows)},
                np.array(numbers),
            )

    def series(
        self, metric: str, cpu: Cpu, points: int, span_s: float, until_ns: int | None = None
    ) -> HistorySeries:
        """One metric of one CPU over time.

        A tick's value speaks for the time since the tick before it (`Frame.interval_s`), so a
        span without ticks that no later tick speaks for is a gap, as is a tick without a value.

        Args:
            metric: one of the metrics kept.
            cpu: the CPU; one that no frame had is a gap.
            points: how many equal parts of the span to give.
            span_s: seconds to look back.
            until_ns: CLOCK_MONOTONIC to look back from; the newest tick if not given.

        Returns:
            float32 of shape (points,), oldest first: the mean of each part, NaN where it is a gap.
            Parts begin at multiples of their length, so a graph moves by whole columns.

        Raises:
            KeyError: the metric is not kept.
        """
        return self._cpus.series(metric, cpu, points, span_s, until_ns)

    def package_series(
        self, metric: str, package: Package, points: int, span_s: float, until_ns: int | None = None
    ) -> HistorySeries:
        """One metric of one package over time, as `series`."""
        return self._packages.series(metric, package, points, span_s, until_ns)

    def cpu_matrix(
        self,
        metric: str,
        cpus: Sequence[Cpu],
        points: int,
        span_s: float,
        until_ns: int | None = None,
    ) -> HistorySeries:
        """One metric of several CPUs: float32 (len(cpus), points); parts without a tick are NaN.

        Shares of issue slots have a tick of every ten seconds.
        """
        ring = self._slots if metric in self._slots.metrics else self._cpus
        return ring.matrix(metric, cpus, points, span_s, until_ns)

    def nf_matrix(
        self, metric: str, keys: Sequence[str], points: int, span_s: float, until_ns: int | None
    ) -> HistorySeries:
        """One of `window.NF_KEPT`, or `SENT`, of several network functions, as `cpu_matrix`."""
        return self._samples.nf_matrix(metric, keys, points, span_s, until_ns)

    def class_series(
        self, metric: str, key: ClassKey, points: int, span_s: float, until_ns: int | None = None
    ) -> HistorySeries:
        """One of `window.CACHE_KEPT` of a class in one cache over time, as `series`."""
        return self._samples.series(metric, key, points, span_s, until_ns)

    def window(self, frame: Frame) -> Window:
        """What a change of cache classes is judged by: the samples up to a frame."""
        return self._samples.window(frame)
