"""The last samples of every network function and cache class, for graphs and verdicts."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Mapping

import numpy as np

from nftop.derive.compare.window import (
    CACHE_KEPT,
    CLASS_KEPT,
    NF_KEPT,
    ClassKey,
    ReadTimes,
    Window,
    class_ipc,
    is_renewed,
    nf_misses,
    nf_sample,
    nf_sources,
    source_of,
)
from nftop.model.frame import Frame
from nftop.model.reading import Missing
from nftop.store.history.ring import Ring, Series

_MISSES = NF_KEPT.index("llc_misses_per_packet")


class Samples:
    """Rings of `ticks` ticks. Safe between one writer and readers, as `Ring` is.

    Memory: 4 bytes x ticks x metrics x rows; 1 MB for 600 ticks of 16 classes in 8 caches.
    """

    def __init__(self, ticks: int) -> None:
        self._nfs = Ring(NF_KEPT, ticks)
        self._caches = Ring(CACHE_KEPT, ticks)
        self._classes = Ring(CLASS_KEPT, ticks)
        self._times = ReadTimes()
        self._misses: dict[str, tuple[float, ...]] = {}
        self._metered_at_ns: dict[ClassKey, int] = {}

    def append(self, frame: Frame, covers_ns: int) -> None:
        """Keep what is new in a frame; a source that is late has nothing new."""
        renewed = self._times.renewed(frame).keys()
        self._append_nfs(frame, covers_ns, renewed)
        if frame.groups:
            self._append_caches(frame, covers_ns)
            keys = [(group.name, cache.l3) for group in frame.groups for cache in group.caches]
            columns = list(class_ipc(frame, keys, renewed))
            self._classes.append(frame.monotonic_ns, covers_ns, _places(keys), columns)

    def window(self, frame: Frame) -> Window:
        """What there is up to a frame."""
        until_ns = frame.monotonic_ns
        tracks = (ring.track(until_ns) for ring in (self._nfs, self._caches, self._classes))
        return Window(frame, *tracks)

    def series(
        self, metric: str, key: ClassKey, points: int, span_s: float, until_ns: int | None
    ) -> Series:
        """One of `CACHE_KEPT` over time, as `History.series`."""
        return self._caches.series(metric, key, points, span_s, until_ns)

    def _append_nfs(self, frame: Frame, covers_ns: int, renewed: Collection[str]) -> None:
        keys = [nf.key for nf in frame.nfs]
        if not keys:
            return
        values = np.array([[*nf_sample(frame, nf), 1.0] for nf in frame.nfs])
        for at, nf in enumerate(frame.nfs):
            new = [is_renewed(frame, nf_sources(frame, nf, name), renewed) for name in NF_KEPT[:-1]]
            # What rests on more than its own counters, and of that there is nothing new.
            values[at, :-1][~np.array(new)] = np.nan
            values[at, -1] = is_renewed(frame, (source_of(nf),), renewed)
            misses = nf_misses(frame, nf)
            if misses == self._misses.get(nf.key):
                values[at, _MISSES] = np.nan
            self._misses[nf.key] = misses
        self._nfs.append(frame.monotonic_ns, covers_ns, _places(keys), list(values.T))

    def _append_caches(self, frame: Frame, covers_ns: int) -> None:
        caches = {(group.name, cache.l3): cache for group in frame.groups for cache in group.caches}
        values = np.empty((len(caches), len(CACHE_KEPT)))
        for at, (key, cache) in enumerate(caches.items()):
            readings = [cache.readings[metric] for metric in CACHE_KEPT[:-1]]
            numbers = [math.nan if isinstance(one, Missing) else one for one in readings]
            values[at] = *numbers, cache.metered_at_ns not in (0, self._metered_at_ns.get(key))
        self._metered_at_ns = {key: cache.metered_at_ns for key, cache in caches.items()}
        self._caches.append(frame.monotonic_ns, covers_ns, _places(caches), list(values.T))


def _places(keys: Iterable[Hashable]) -> Mapping[Hashable, int]:
    return {key: place for place, key in enumerate(keys)}
