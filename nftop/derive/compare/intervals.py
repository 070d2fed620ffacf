"""Samples of one interval of a recording, by network function, cache class and package.

Consecutive ticks are correlated, and drift grows with the interval. So samples are grouped before
the test: blocks of equally many consecutive samples, at most `BLOCKS` in the shorter interval; a
block counts as its median. Correlation of blocks widens the test as in `ranksum`: it is bounded
there, which is safe up to this number of blocks, since with the bound no order of them is
significant.

Drift that is slower than an interval looks like a step. So if the halves of either interval differ
by half as much as the intervals do, the result is inconclusive.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from nftop.derive.compare.comparability import LOSSES
from nftop.derive.compare.metric import (
    DIFFERS,
    Code,
    Compared,
    compared,
    cycle_of,
    cyclic,
    drifts,
    is_beyond,
    measured,
    moved,
    persistent,
)
from nftop.derive.compare.window import (
    NF_KEPT,
    ReadTimes,
    core_values,
    is_renewed,
    nf_sources,
    sample_of,
    source_of,
)
from nftop.model.column import Floats
from nftop.model.frame import CpuTable, Frame, NfRow, PackageRow
from nftop.model.ids import format_cpu_list
from nftop.model.median import median, row_medians
from nftop.model.metrics.group import GROUP_METRICS
from nftop.model.metrics.metric import Metric
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.rdt.rdt import class_name
from nftop.model.struct import dataclass, field, replace

BLOCKS = 60
RULE_BLOCKS = (
    "samples follow each other and are alike, so they are tested as medians of equally long runs, "
    f"at most {BLOCKS} of the interval that has fewer; where the halves of an interval lie half as "
    "far apart as the intervals do, it is inconclusive: drift"
)
_SIDES = ("in A", "in B")
PACKAGE_COMPARED = (
    "memory.read_bytes_per_s",
    "memory.write_bytes_per_s",
    "pcie.read_bytes_per_s",
    "pcie.write_bytes_per_s",
    "pcie.ddio_hit_ratio",
    "upi.received_bytes_per_s",
    "upi.sent_bytes_per_s",
)
CLASS_COMPARED = tuple(metric.id for metric in GROUP_METRICS)
_NONE = Missing(Reason.UNDEFINED, "there is no sample of it")
_MISSES = NF_KEPT.index("llc_misses_per_packet")

EntityKind: TypeAlias = Literal["nf", "class", "package"]


class Entity(NamedTuple):
    """Entity that samples describe. Names are untrusted text.

    A network function is identified by kind and name (`dpdk`, `vpp`, ...), since recordings have
    different processes; if several have one name, by its CPUs too.
    """

    kind: EntityKind
    name: str
    of: str = ""


@dataclass(slots=True)
class EntitySeries:
    """Samples of one entity by metric, in the order of time; NaN if absent.

    Attributes:
        why: by metric, reason of the last absent number.
        keys: its processes in the order of time; several if it was restarted.
    """

    values: dict[str, array[float]] = field(default_factory=dict)
    why: dict[str, Missing] = field(default_factory=dict)
    keys: dict[str, None] = field(default_factory=dict)

    def of(self, metric: str) -> Floats:
        """float64 (n,): samples of a metric."""
        return np.array(self.values.get(metric, ()), dtype=np.float64)

    def add(self, readings: Mapping[str, Reading]) -> None:
        for name, reading in readings.items():
            if isinstance(reading, Missing):
                self.why[name] = reading
            number = np.nan if isinstance(reading, Missing) else reading
            self.values.setdefault(name, array("d")).append(number)


class Interval:
    """Samples of an interval, from frames in the order of time.

    Attributes:
        things: by entity. ticks: number of frames.
        first_ns, last_ns: wall clock of the first and last frame.
    """

    def __init__(self) -> None:
        self.entities: dict[Entity, EntitySeries] = {}
        self._tsc_hz = array("d")
        self.ticks = self.first_ns = self.last_ns = 0
        self._began_ns: float | None = None
        self._newest_ns = 0
        self._times = ReadTimes()
        self._misses: dict[str, list[float]] = {}
        self._estimates: dict[tuple[Entity, str], Reading] = {}
        self._metered_at_ns: dict[Entity, int] = {}

    @property
    def tsc_hz(self) -> float:
        """Frequency of the time stamp counters; NaN if unknown."""
        return median(self._tsc_hz) if self._tsc_hz else np.nan

    def take(self, frame: Frame) -> None:
        """Add what sources have read since the previous frame.

        A reading stands for the time since the previous reading, which must begin after the first
        frame.
        """
        if self._began_ns is None or frame.monotonic_ns < self._newest_ns:
            # The first frame, or the first of another session.
            span_ns = frame.elapsed_s * 1e9
            self._began_ns = frame.monotonic_ns - span_ns / 2
            self._times = ReadTimes()
            self._metered_at_ns.clear()
        self.first_ns = self.first_ns or frame.wall_ns
        self._newest_ns = frame.monotonic_ns
        self.last_ns = frame.wall_ns
        self.ticks += 1
        tsc = frame.cpus.columns["tsc_hz"]
        self._tsc_hz.extend(tsc.values[tsc.present][:1])
        renewed = self._times.renewed(frame)
        new = {name for name, before_ns in renewed.items() if self._is_inside(before_ns)}
        if self.ticks == 1:
            self._take_classes(frame)
            return
        for entity, nf in _named(frame):
            if is_renewed(frame, (source_of(nf),), new):
                series = self._series(entity)
                series.keys[nf.key] = None
                series.add(
                    {
                        # No sample if one of its sources has nothing new.
                        name: reading
                        if is_renewed(frame, nf_sources(frame, nf, name), new)
                        else np.nan
                        for name, reading in self._of_nf(frame, nf).items()
                    }
                )
        self._take_classes(frame)
        for package in frame.packages:
            entity = Entity("package", str(package.package))
            self._series(entity).add(
                {
                    name: package.readings[name]
                    for name in PACKAGE_COMPARED
                    if is_renewed(frame, (package.origins.get(name, "uncore"),), new)
                    and not self._is_held(entity, name, package)
                }
            )

    def _take_classes(self, frame: Frame) -> None:
        for group in frame.groups:
            shown = class_name(group.name)
            for cache in group.caches:
                entity = Entity("class", shown, f"L3 {cache.l3}")
                before_ns = self._metered_at_ns.get(entity)
                self._metered_at_ns[entity] = cache.metered_at_ns
                if cache.metered_at_ns != before_ns and self._is_inside(before_ns):
                    self._series(entity).add(
                        {name: cache.readings[name] for name in CLASS_COMPARED}
                    )

    def _is_inside(self, before_ns: float | None) -> bool:
        """Whether the time since the previous reading lies in this interval."""
        return before_ns is not None and (self._began_ns or 0.0) <= before_ns

    def _series(self, entity: Entity) -> EntitySeries:
        return self.entities.setdefault(entity, EntitySeries())

    def _is_held(self, entity: Entity, name: str, package: PackageRow) -> bool:
        """Whether an estimate is repeated from an earlier reading."""
        before = self._estimates.get((entity, name))
        self._estimates[entity, name] = now = package.readings[name]
        return name in package.estimates and now == before

    def _of_nf(self, frame: Frame, nf: NfRow) -> Mapping[str, Reading]:
        (cores,) = core_values(frame.cpus, (nf,))
        numbers = sample_of(nf, cores)
        # Misses may be counted in turns and held in between, unlike packets, their weight.
        if cores.misses == self._misses.get(nf.key):
            numbers[_MISSES] = np.nan
        self._misses[nf.key] = cores.misses
        why = nf.problem or _NONE
        result: dict[str, Reading] = {
            name: number if np.isfinite(number) else _reason(frame.cpus, nf, name, why)
            for name, number in zip(NF_KEPT[:-1], numbers, strict=True)
        }
        return {
            **result,
            **{name: nf.readings[name] for name in ("ipp", *LOSSES)},
            "busy_ratio": _busy(frame.cpus, nf),
        }


def _named(frame: Frame) -> Iterator[tuple[Entity, NfRow]]:
    names = [(nf.kind, nf.name) for nf in frame.nfs]
    for nf in frame.nfs:
        alone = names.count((nf.kind, nf.name)) == 1
        cpus = "" if alone else f", CPUs {format_cpu_list(nf.cpus) or 'none'}"
        yield Entity("nf", nf.name, f"{nf.kind}{cpus}"), nf


def _reason(cpus: CpuTable, nf: NfRow, name: str, otherwise: Missing) -> Missing:
    value = nf.readings.get(name)
    if isinstance(value, Missing):
        return value
    for cpu in nf.cpus:
        row = cpus.topology.row_of.get(cpu)
        reading = cpus.columns[name][row] if name in cpus.columns and row is not None else None
        if isinstance(reading, Missing):
            return reading
    return otherwise


def _busy(cpus: CpuTable, nf: NfRow) -> Reading:
    """Mean busy ratio of its CPUs, if all are known."""
    readings = [
        cpus.columns["busy_ratio"][cpus.topology.row_of[cpu]]
        for cpu in nf.cpus
        if cpu in cpus.topology.row_of
    ]
    numbers = [reading for reading in readings if not isinstance(reading, Missing)]
    if not readings or len(readings) != len(nf.cpus):
        return Missing(Reason.SOURCE, "not all its CPUs were recorded")
    if len(numbers) != len(readings):
        return next(reading for reading in readings if isinstance(reading, Missing))
    return float(np.mean(numbers))


@dataclass(frozen=True, slots=True)
class EntityRow:
    """One metric of one entity in both intervals.

    Attributes:
        result: of all samples, but with the word of their blocks.
        blocks_a, blocks_b: number of blocks.
        incomparable: why the two numbers can't be compared, whatever the word, and its code; or "".
    """

    result: Compared
    blocks_a: int
    blocks_b: int
    incomparable: tuple[str, Code] = ("", "")


def row_of(
    metric: Metric, a: Floats, b: Floats, why: Missing, context: tuple[Floats, Floats] | None = None
) -> EntityRow:
    """Compare two samples in the order of time, float64 (n,) and (m,), NaN if absent.

    Args:
        metric: of the samples.
        a: samples of A.
        b: samples of B.
        why: reason if there is no number at all.
        context: samples of A and B extended to both sides, in which cycles are searched for too.
    """
    a, b = a[np.isfinite(a)], b[np.isfinite(b)]
    blocks_a, blocks_b = blocks(a, b)
    tested = compared(metric, blocks_a, blocks_b, why, over=True, sides=_SIDES)
    numbers = measured(metric, a, b, why)
    result = replace(
        tested,
        before=numbers.before,
        after=numbers.after,
        change_ratio=numbers.change_ratio,
        n_before=numbers.n_before,
        n_after=numbers.n_after,
        spread_before=numbers.spread_before,
        spread_after=numbers.spread_after,
    )
    if result.code == "few_samples" and not _can_be_added(a, b, result.lacking):
        result = persistent(result, "noise persists: compare longer intervals")
    if result.word in (*DIFFERS, "no difference", "too few samples") or result.code == "cyclic":
        # Cycles are searched for in samples: blocks may be too long to show them.
        cycle = cycle_of(a, b)
        if cycle is None and context is not None:
            longer_a, longer_b = (samples[np.isfinite(samples)] for samples in context)
            cycle = cycle_of(longer_a, longer_b)
        if cycle is not None and not is_beyond(cycle, result.word, a, b):
            result = cyclic(result, cycle)
    if result.word in DIFFERS:
        drifting = [
            name for name, drift in zip(_SIDES, drifts(blocks_a, blocks_b), strict=True) if drift
        ]
        if drifting:
            which = " and ".join(drifting).replace("in ", "")
            why_not = f"it drifts as far within {which}"
            result = replace(result, word="inconclusive", why=why_not, code="drift")
    return EntityRow(result, len(blocks_a), len(blocks_b))


def _can_be_added(a: Floats, b: Floats, counts: tuple[int | None, int | None]) -> bool:
    """Whether with so many more samples each is still a block; longer blocks have other noise."""
    sizes = [len(item) + (count or 0) for item, count in zip((a, b), counts, strict=True)]
    return _block_samples(a, b) == 1 and min(sizes) <= BLOCKS


def moved_by(a: Floats, b: Floats) -> float | None:
    """`metric.moved` of the blocks of two samples."""
    return moved(*blocks(a[np.isfinite(a)], b[np.isfinite(b)]))


def blocks(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Medians of equally long runs of both samples; an incomplete run at the end is left out."""
    size = _block_samples(a, b)
    return _medians(a, size), _medians(b, size)


def _block_samples(a: Floats, b: Floats) -> int:
    return max(1, -(-min(len(a), len(b)) // BLOCKS))


def _medians(values: Floats, size: int) -> Floats:
    count = len(values) // size
    return row_medians(values[: count * size].reshape(count, size)) if count else values[:0]
