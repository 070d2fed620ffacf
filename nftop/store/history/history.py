"""The last ticks of every CPU, package and cache class, for graphs: rings of columns in memory.

Filled by whoever consumes the feed, read by the screens; screens themselves remember nothing, so
a frame the screen was too slow for is still in its graphs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nftop.derive.compare.window import ClassKey, Window
from nftop.model.frame import Frame
from nftop.model.ids import Cpu, Package
from nftop.model.metrics.catalogue import CPU_METRICS
from nftop.model.metrics.cpu import FREQUENCY_METRICS
from nftop.model.metrics.package import PACKAGE_METRICS
from nftop.model.metrics.pcm import PCM_CPU_METRICS, PCM_PACKAGE_METRICS
from nftop.model.reading import Missing, Reason
from nftop.store.history.ring import Ring, Series
from nftop.store.history.samples import Samples

# What can be a column of some screen's table.
KEPT = tuple(
    metric.id
    for metric in CPU_METRICS
    if metric.priority is not None or metric in (*PCM_CPU_METRICS, *FREQUENCY_METRICS)
)
_OF_PACKAGES = tuple(metric.id for metric in (*PACKAGE_METRICS, *PCM_PACKAGE_METRICS))
_UNTOLD = Missing(Reason.SOURCE)


class History:
    """A ring of `ticks` ticks of some per-CPU metrics, of all of packages and of `Samples`.

    Safe between one writer and readers. Memory: ticks x metrics x CPUs x 4 bytes; 40 MB for 600
    ticks of 512 CPUs. More than 1024 CPUs have fewer ticks (see `Ring`).
    """

    def __init__(self, metrics: Sequence[str] = KEPT, ticks: int = 600) -> None:
        self._cpus = Ring(metrics, ticks)
        self._packages = Ring(_OF_PACKAGES, ticks)
        self._samples = Samples(ticks)

    def __contains__(self, metric: str) -> bool:
        return metric in self._cpus.metrics

    def append(self, frame: Frame) -> None:
        """Keep one frame. Frames come in order; one from before the last starts all over."""
        covers_ns = round((frame.interval_s or 0.0) * 1e9)
        columns = frame.cpus.columns
        self._cpus.append(
            frame.monotonic_ns,
            covers_ns,
            frame.cpus.topology.row_of,
            [columns[metric].values for metric in self._cpus.metrics],
        )
        self._samples.append(frame, covers_ns)
        rows = frame.packages
        if rows:
            readings = [
                [row.readings.get(metric, _UNTOLD) for row in rows] for metric in _OF_PACKAGES
            ]
            self._packages.append(
                frame.monotonic_ns,
                covers_ns,
                {row.package: place for place, row in enumerate(rows)},
                [
                    np.array([np.nan if isinstance(one, Missing) else one for one in reading])
                    for reading in readings
                ],
            )

    def series(
        self, metric: str, cpu: Cpu, points: int, span_s: float, until_ns: int | None = None
    ) -> Series:
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
    ) -> Series:
        """One metric of one package over time, as `series`."""
        return self._packages.series(metric, package, points, span_s, until_ns)

    def class_series(
        self, metric: str, key: ClassKey, points: int, span_s: float, until_ns: int | None = None
    ) -> Series:
        """One of `window.CACHE_KEPT` of a class in one cache over time, as `series`."""
        return self._samples.series(metric, key, points, span_s, until_ns)

    def window(self, frame: Frame) -> Window:
        """What a change of cache classes is judged by: the samples up to a frame."""
        return self._samples.window(frame)
