"""Samples of the last minutes, by network function and by cache class, to judge a change.

A reading that is repeated, since its source is slower than the ticks, is no new sample. `new` is 1
for a new one, else 0.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nftop.model.column import Block, Bools, Floats
from nftop.model.frame import Clock, CpuTable, Frame, NfRow, base_clock
from nftop.model.ids import L3Domain
from nftop.model.median import median
from nftop.model.missing import Missing, number_or
from nftop.model.nf.kinds import NF_SOURCES
from nftop.model.struct import dataclass

Times: TypeAlias = NDArray[np.int64]
ClassKey: TypeAlias = tuple[str, L3Domain]

# Metrics of a network function. `saturated`: 1 if its cores were busy all the time, else 0;
# `clock`: index in `CLOCKS`.
NF_KEPT = (
    "packets_per_s",
    "offered_packets_per_s",
    "drop_packets_per_s",
    "cpp",
    "busy_cpp",
    "ipc",
    "llc_misses_per_packet",
    "saturated",
    "clock",
    "new",
)
# Metrics of a class in one cache.
CACHE_KEPT = ("occupancy_bytes", "mbm_total_bytes_per_s", "mbm_local_bytes_per_s", "new")
# Metrics of a class' CPUs at one cache.
CLASS_KEPT = ("ipc", "new")
CLOCKS: tuple[Clock, ...] = ("core", "tsc", "nf", "core_by_run", "tsc_by_run", "nf_by_run")
# CPUs below this busy ratio do not represent their class.
BUSY_RATIO = 0.5
# Ages are rounded: readings closer than this are the same.
_SAME_NS = 1_000_000
# Sources of a network function's cycles beside its own counters; the TSC's rate is constant.
_OF_CPUS = ("ipc", "llc_misses_per_packet")
_CYCLES_OF: Mapping[Clock, tuple[str, ...]] = {
    "core": ("perf",),
    "tsc": (),
    "nf": (),
    "core_by_run": ("perf", "processes"),
    "tsc_by_run": ("processes",),
    "nf_by_run": ("processes",),
}


@dataclass(frozen=True, slots=True, eq=False)
class Track:
    """Metrics of some rows over time.

    Attributes:
        times_ns: int64 (n,), CLOCK_MONOTONIC of the ticks, ascending.
        metrics, rows: indices in `values`, float32 (n, metrics, rows); NaN if absent.
    """

    times_ns: Times
    metrics: Mapping[str, int]
    rows: Mapping[Hashable, int]
    values: NDArray[np.float32]

    def new(self, row: Hashable) -> Bools:
        """bool (n,): ticks with a new sample of a row."""
        return self.of(row, "new") > 0

    def of(self, row: Hashable, metric: str) -> Floats:
        """float64 (n,): one metric of one row; NaN for an unknown row."""
        if row not in self.rows:
            return np.full(len(self.times_ns), np.nan)
        return self.values[:, self.metrics[metric], self.rows[row]].astype(np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """Recent samples up to a frame.

    Attributes:
        frame: the last.
        nfs: `NF_KEPT` by `NfRow.key`. caches: `CACHE_KEPT` by group and cache.
        classes: `CLASS_KEPT` by group and cache.
    """

    frame: Frame
    nfs: Track
    caches: Track
    classes: Track


class ReadTimes:
    """Time of the last reading of each source."""

    def __init__(self) -> None:
        self._read_at_ns: dict[str, float] = {}

    def renewed(self, frame: Frame) -> Mapping[str, float | None]:
        """Sources read since the previous frame, with CLOCK_MONOTONIC of the last but one reading.

        None if that is unknown. A source that was read earlier than before belongs to another
        session and begins anew.
        """
        result: dict[str, float | None] = {}
        for source, state in frame.sources.items():
            if state.age_s is None:
                continue
            read_at_ns = frame.monotonic_ns - state.age_s * 1e9
            before_ns = self._read_at_ns.get(source)
            self._read_at_ns[source] = read_at_ns
            if before_ns is None or read_at_ns < before_ns - _SAME_NS:
                result[source] = None
            elif read_at_ns > before_ns + _SAME_NS:
                result[source] = before_ns
        return result


def is_renewed(frame: Frame, sources: Iterable[str], renewed: Collection[str]) -> bool:
    """Whether all of these that are sources were read anew."""
    return all(source in renewed or source not in frame.sources for source in sources)


def source_of(nf: NfRow) -> str:
    """Source of a network function's packet counts."""
    return NF_SOURCES.get(nf.kind, nf.kind)


def nf_sources(frame: Frame, nf: NfRow, metric: str) -> set[str]:
    """The sources of a metric of a network function in this frame."""
    if metric in ("cpp", "busy_cpp"):
        return {source_of(nf), *(() if nf.cpp_clock is None else _CYCLES_OF[nf.cpp_clock])}
    if metric == "ipp":
        return {source_of(nf), "perf"}
    if metric in _OF_CPUS:
        return cpu_sources(frame.cpus, metric, rows_of(frame.cpus, nf))
    return {source_of(nf)}


def cpu_sources(cpus: CpuTable, metric: str, rows: Iterable[int]) -> set[str]:
    """Whose numbers of a metric, that perf counts in the first place, these CPUs have."""
    origins = cpus.origins.get(metric)
    return {"perf"} if origins is None else {origins[row] or "perf" for row in rows}


def rows_of(cpus: CpuTable, nf: NfRow) -> list[int]:
    """Those of a network function's CPUs that are shown."""
    return [cpus.topology.row_of[cpu] for cpu in nf.cpus if cpu in cpus.topology.row_of]


class CoreValues(NamedTuple):
    """Values of those CPUs of a network function that are shown; NaN if absent."""

    ipc: list[float]
    misses: list[float]
    packets: list[float]


_OF_CORES = ("ipc", "llc_misses_per_packet", "packets_per_s")


def core_values(cpus: CpuTable, nfs: Sequence[NfRow]) -> list[CoreValues]:
    """Those of each network function."""
    rows = [rows_of(cpus, nf) for nf in nfs]
    block, every = Block.of(cpus.columns), np.array([*chain.from_iterable(rows)], np.intp)
    metrics = np.array(block.rows_of(_OF_CORES))[:, None]
    values = [iter(line) for line in block.floats[metrics, every].tolist()]
    return [CoreValues(*([*islice(line, len(own))] for line in values)) for own in rows]


def sample_of(nf: NfRow, cores: CoreValues) -> list[float]:
    """`NF_KEPT` of one network function without `new`; NaN if absent.

    Offered packets are received packets and those its NIC dropped for lack of descriptors. Drops
    are absent where those of the NIC are: the rest alone is there only at times. IPC is the median
    over its cores, misses per packet their mean weighted by packets: only if all cores have them
    and no CPU is shared with other threads.
    """
    rx, readings = nf.direction == "rx", nf.readings
    packets = number_or(readings["rx_packets_per_s" if rx else "tx_packets_per_s"], math.nan)
    missed = number_or(readings["missed_packets_per_s"], math.nan)
    drops = number_or(readings["drop_packets_per_s"], math.nan)
    whole = len(cores.ipc) == len(nf.cpus) > 0 and nf.shared is None
    return [
        packets,
        packets + (missed if rx and missed > 0 else 0.0),
        math.nan if math.isnan(missed) else drops,
        number_or(readings["cpp"], math.nan),
        number_or(readings["busy_cpp"], math.nan),
        median(cores.ipc) if whole else math.nan,
        _weighted(cores) if whole else math.nan,
        math.nan if nf.saturated is None else float(nf.saturated),
        math.nan if nf.cpp_clock is None else float(CLOCKS.index(nf.cpp_clock)),
    ]


def class_ipc(
    frame: Frame, keys: Sequence[ClassKey], renewed: Collection[str]
) -> tuple[Floats, Floats]:
    """float64 (n,): median IPC of busy CPUs of a class at a cache, NaN without any; and `new`."""
    cpus = frame.cpus
    ipc = cpus.columns["ipc"].values
    busy = cpus.columns["cpu_time_ratio"].values >= BUSY_RATIO
    result: dict[tuple[str, L3Domain | None], list[int]] = {}
    for row in np.flatnonzero(busy & np.isfinite(ipc)).tolist():
        own = cpus.group[row]
        if not isinstance(own, Missing):
            result.setdefault((own.name, cpus.topology.cpus[row].l3), []).append(row)
    new = [
        float(is_renewed(frame, cpu_sources(cpus, "ipc", result.get(key, ())), renewed))
        for key in keys
    ]
    values = [median(ipc[result[key]]) if key in result else np.nan for key in keys]
    return np.array(values), np.array(new)


def io_hit_ratio(frame: Frame, caches: Collection[L3Domain]) -> float:
    """Share of devices' writes that hit these caches: the mean of their packages; NaN if absent."""
    packages = {info.package for info in frame.topology.cpus if info.l3 in caches}
    hits = [
        number_or(row.readings["pcie.ddio_hit_ratio"], np.nan)
        for row in frame.packages
        if row.package in packages
    ]
    known = [value for value in hits if np.isfinite(value)]
    return float(np.mean(known)) if known else float(np.nan)


def _weighted(cores: CoreValues) -> float:
    """Mean of the misses per packet of some cores, weighted by packets."""
    # A core without packets has no misses per packet, and no weight.
    some = [(own, weight) for own, weight in zip(*cores[1:], strict=True) if weight > 0]
    if not some or not all(map(math.isfinite, cores.packets)):
        return math.nan
    return float(sum(own * weight for own, weight in some) / sum(weight for _, weight in some))


def clock_indices(clock: str | None) -> tuple[int, ...]:
    """Indices in `CLOCKS` of a base clock and its estimate from run time."""
    return tuple(index for index, name in enumerate(CLOCKS) if base_clock(name) == clock)
