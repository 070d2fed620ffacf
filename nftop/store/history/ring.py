"""A ring of ticks in memory: some metrics of some rows."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from threading import Lock
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nftop.derive.compare.window import Track
from nftop.model.column import Floats

# 1024 CPUs with 600 ticks.
MOST_BYTES, LEAST_TICKS = 80 << 20, 30

Series: TypeAlias = NDArray[np.float32]


class Ring:
    """The last `ticks` ticks of some metrics by row. Safe between one writer and readers.

    Rows are told apart by a key, that of a CPU, say. Memory: ticks x metrics x rows x 4 bytes;
    where that is more than MOST_BYTES there are fewer ticks, LEAST_TICKS at least.
    """

    def __init__(self, metrics: Sequence[str], ticks: int) -> None:
        self._ticks = ticks
        self.metrics = {metric: index for index, metric in enumerate(metrics)}
        self._lock = Lock()
        self._row_of: Mapping[Any, int] = {}
        self._count = 0
        self._times_ns = np.zeros(ticks, np.int64)
        self._covers_ns = np.zeros(ticks, np.int64)
        self._values = np.full((ticks, len(self.metrics), 1), np.nan, np.float32)

    def append(
        self,
        time_ns: int,
        covers_ns: int,
        row_of: Mapping[Any, int],
        columns: Sequence[Floats],
    ) -> None:
        """Keep one tick: for each metric a number by row, NaN where there is none.

        Ticks come in order; one from before the last starts all over.
        """
        with self._lock:
            # Rows stay the same object until they change, so this costs nothing per row.
            if row_of is not self._row_of and row_of != self._row_of:
                self._move_rows(row_of)
            newest = (self._count - 1) % len(self._times_ns)
            if self._count and time_ns <= self._times_ns[newest]:
                self._count = 0
            at = self._count % len(self._times_ns)
            self._times_ns[at] = time_ns
            self._covers_ns[at] = covers_ns
            for index, values in enumerate(columns):
                self._values[at, index] = values
            self._count += 1

    def series(
        self, metric: str, key: Hashable, points: int, span_s: float, until_ns: int | None = None
    ) -> Series:
        """One metric of one row over time; see `History.series`."""
        times, covers, values = self._column(self.metrics[metric], key)
        if until_ns is not None:
            known = int(np.searchsorted(times, until_ns, side="right"))
            times, covers, values = times[:known], covers[:known], values[:known]
        if not len(times) or points < 1:
            return np.full(max(0, points), np.nan, np.float32)
        step_ns = max(1, round(span_s * 1e9 / points))
        end_ns = -(-int(times[-1] if until_ns is None else until_ns) // step_ns) * step_ns
        edges = end_ns - step_ns * np.arange(points, -1, -1, dtype=np.int64)
        first = np.searchsorted(times, edges[:-1], side="right")
        after = np.searchsorted(times, edges[1:], side="right")
        means = _means(values, first, after)
        spoken_for = _spoken_for(times, covers, after, edges)
        held = np.where(spoken_for, values[np.minimum(after, len(values) - 1)], np.nan)
        return np.where(after > first, means, held).astype(np.float32)

    def track(self, until_ns: int) -> Track:
        """All ticks up to CLOCK_MONOTONIC `until_ns`."""
        with self._lock:
            size = len(self._times_ns)
            order = np.arange(max(0, self._count - size), self._count) % size
            order = order[self._times_ns[order] <= until_ns]
            times, values = self._times_ns[order], self._values[order]
            return Track(times, self.metrics, self._row_of, values)

    def _column(
        self, index: int, key: Hashable
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        with self._lock:
            size = len(self._times_ns)
            order = np.arange(max(0, self._count - size), self._count) % size
            row = self._row_of.get(key)
            if row is None:
                order = order[:0]
            values = self._values[order, index, row or 0].astype(np.float64)
            return self._times_ns[order], self._covers_ns[order], values

    def _move_rows(self, row_of: Mapping[Any, int]) -> None:
        """Make room for another set of rows; those that stay keep their history."""
        size, metrics, _ = self._values.shape
        ticks = min(
            self._ticks, max(LEAST_TICKS, MOST_BYTES // (4 * metrics * max(len(row_of), 1)))
        )
        order = np.arange(max(0, self._count - min(size, ticks)), self._count) % size
        stay = row_of.keys() & self._row_of.keys()
        new, old = [row_of[cpu] for cpu in stay], [self._row_of[cpu] for cpu in stay]
        values = np.full((ticks, metrics, len(row_of)), np.nan, np.float32)
        values[: len(order), :, new] = self._values[order][:, :, old]
        times, covers = np.zeros(ticks, np.int64), np.zeros(ticks, np.int64)
        times[: len(order)], covers[: len(order)] = self._times_ns[order], self._covers_ns[order]
        self._values, self._times_ns, self._covers_ns = values, times, covers
        self._row_of, self._count = row_of, len(order)


def _means(
    values: NDArray[np.float64], first: NDArray[np.intp], after: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Mean of values[first:after] without its NaNs, for every pair; NaN where there is none."""
    known = np.isfinite(values)
    sums = np.concatenate(([0.0], np.cumsum(np.where(known, values, 0.0))))
    counts = np.concatenate(([0], np.cumsum(known)))
    within = counts[after] - counts[first]
    return np.where(within > 0, (sums[after] - sums[first]) / np.maximum(1, within), np.nan)


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
