"""Comparison of two intervals of recordings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial

import numpy as np

from nftop.derive.compare.comparability import (
    COSTS,
    DROPS,
    LOSSES,
    comparable_row,
    incomparable,
    is_full,
    load_moved,
    neutral,
    summed,
)
from nftop.derive.compare.intervals import (
    CLASS_COMPARED,
    PACKAGE_COMPARED,
    Entity,
    EntityRow,
    EntitySeries,
    Interval,
    moved_by,
    row_of,
)
from nftop.derive.compare.metric import Word
from nftop.derive.compare.window import CLOCKS, clock_indices
from nftop.model.column import Bools, Floats
from nftop.model.frame import base_clock
from nftop.model.median import median
from nftop.model.metrics.catalogue import METRICS
from nftop.model.metrics.metric import Metric, is_bound
from nftop.model.metrics.ports import OTHER_LOSSES
from nftop.model.missing import Missing, Reason
from nftop.model.number_text import counted
from nftop.model.struct import dataclass, replace

_BY_ID = {(metric.scope, metric.id): metric for metric in METRICS}
_NF_ROWS = (
    "packets_per_s",
    *DROPS,
    "cpp",
    "busy_cpp",
    "ipp",
    "ipc",
    "llc_misses_per_packet",
    "busy_ratio",
)
# Metrics that the catalogue has for CPUs only are used for network functions too.
_ROWS: Mapping[str, tuple[Metric, ...]] = {
    "nf": tuple(_BY_ID.get(("nf", name)) or _BY_ID["cpu", name] for name in _NF_ROWS),
    "class": tuple(_BY_ID["group", name] for name in CLASS_COMPARED),
    "package": tuple(_BY_ID["package", name] for name in PACKAGE_COMPARED),
}
_NO_SAMPLE = Missing(Reason.WARMING, "there is no sample of it in either interval")
_NO_CLOCK = Missing(Reason.UNDEFINED, "its cycles are counted by another clock")
# Time stamp counters whose measured rates differ by more have different frequencies.
_SAME_CLOCK_RATIO = 0.002


@dataclass(frozen=True, slots=True)
class EntityReport:
    """One network function, cache class in one cache, or package.

    Attributes:
        rows: all its metrics.
        word, why: overall result of a network function; "no number" for others.
        notes: further facts, sentences.
        offered: medians of a network function's offered packets/s in A and B; () if unknown.
        full: whether its cores were busy all the time in both, so that packets are its capacity.
        clock: base clock of its cycles; None if there is none, or not the same in both.
    """

    entity: Entity
    rows: tuple[EntityRow, ...]
    word: Word = "no number"
    why: str = ""
    notes: tuple[str, ...] = ()
    offered: tuple[float, ...] = ()
    full: bool = False
    clock: str | None = None

    @property
    def load_moved(self) -> bool:
        """Whether the load of these cores moved, so that numbers can't be compared."""
        return any(row.incomparable[1] == "load_moved" for row in self.rows)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Comparison of two intervals.

    Attributes:
        reports: entities in both: network functions, classes, packages.
        only_a, only_b: entities in one only.
    """

    reports: tuple[EntityReport, ...]
    only_a: tuple[Entity, ...]
    only_b: tuple[Entity, ...]


class _Context:
    """Series of the intervals around A and B, in which cycles are searched for."""

    def __init__(self, intervals: tuple[Interval, Interval] | None) -> None:
        self._intervals = intervals

    def of(
        self, entity: Entity, name: str, clock: str | None = None
    ) -> tuple[Floats, Floats] | None:
        """Samples of a metric, float64 (n,) and (m,), or None."""
        if self._intervals is None:
            return None
        a, b = (interval.entities.get(entity, EntitySeries()) for interval in self._intervals)
        if entity.kind == "nf":
            return _of_clock(a, name, clock), _of_clock(b, name, clock)
        return a.of(name), b.of(name)


def comparison(
    a: Interval,
    b: Interval,
    context: tuple[Interval, Interval] | None = None,
    *,
    zero_losses: bool = False,
    sides: tuple[str, str] = ("A", "B"),
) -> Comparison:
    """Compare all entities in both intervals, A as before and B as after.

    `context`: A and B extended to both sides. `zero_losses`: with rows of losses that are 0.
    `sides`: names of the two in notes.
    """
    noise = _Context(context)
    other_tsc: Missing | None = None
    if not is_same_clock(a.tsc_hz, b.tsc_hz):
        rates = f"{a.tsc_hz / 1e9:.2f} and {b.tsc_hz / 1e9:.2f} GHz"
        other_tsc = Missing(Reason.UNDEFINED, f"its cycles are those of clocks of {rates}")
    report = partial(
        _nf_report, context=noise, sides=sides, zero_losses=zero_losses, other_tsc=other_tsc
    )
    both = [entity for entity in ordered(a.entities) if entity in b.entities]
    nfs = {
        entity: report(entity, a.entities[entity], b.entities[entity])
        for entity in both
        if entity.kind == "nf"
    }
    # Package traffic follows the load: better or worse only under the same load.
    loaded = any(moved is not None for _, moved in nfs.values())
    reports = [
        nfs[entity][0]
        if entity.kind == "nf"
        else _plain_report(entity, a.entities[entity], b.entities[entity], noise, loaded=loaded)
        for entity in both
    ]
    return Comparison(
        tuple(reports),
        tuple(entity for entity in ordered(a.entities) if entity not in b.entities),
        tuple(entity for entity in ordered(b.entities) if entity not in a.entities),
    )


def is_same_clock(one_hz: float, other_hz: float) -> bool:
    """Whether measured rates of clocks may be of one frequency; True if one is NaN."""
    return not abs(one_hz - other_hz) > _SAME_CLOCK_RATIO * one_hz


def ordered(entities: Iterable[Entity]) -> list[Entity]:
    """Network functions, classes, packages, each by name."""
    order = list(_ROWS)
    return sorted(entities, key=lambda entity: (order.index(entity.kind), entity.name, entity.of))


def _plain_report(
    entity: Entity, a: EntitySeries, b: EntitySeries, context: _Context, *, loaded: bool
) -> EntityReport:
    rows = []
    for metric in _ROWS[entity.kind]:
        name = metric.id
        used = neutral(metric, is_nf=False) if loaded else metric
        why = _why(name, a, b)
        rows.append(row_of(used, a.of(name), b.of(name), why, context.of(entity, name)))
    return EntityReport(entity, tuple(rows))


def _notes_on_side(name: str, series: EntitySeries) -> list[str]:
    count = len(series.keys)
    notes = [f"it was {count} processes in {name}, one after the other"] if count > 1 else []
    return [*notes, *_few_losses(name, series)]


def _nf_report(
    entity: Entity,
    a: EntitySeries,
    b: EntitySeries,
    *,
    context: _Context,
    sides: tuple[str, str],
    zero_losses: bool,
    other_tsc: Missing | None,
) -> tuple[EntityReport, float | None]:
    """A network function, and the change of its load.

    `other_tsc`: why cycles of time stamp counters can't be compared; None if they can.
    """
    offered = moved_by(a.of("offered_packets_per_s"), b.of("offered_packets_per_s"))
    full = [_is_full(item) for item in (a, b)]
    clock, notes = _clock(a, b)
    no_clock = _NO_CLOCK
    if clock not in (None, "core") and other_tsc is not None:
        clock, no_clock = None, other_tsc
    rows = []
    for metric in _ROWS["nf"]:
        if metric.id in LOSSES and not zero_losses and not _is_any(metric.id, a, b):
            continue
        # If more was offered, more packets are neither better nor worse.
        moved = offered is not None and full != [True, True]
        used = neutral(metric, is_nf=True) if moved else metric
        why = _why(metric.id, a, b)
        if clock is None and metric.id in COSTS and _has_numbers(metric.id, a, b):
            why = no_clock
        of_a, of_b = (_of_clock(item, metric.id, clock) for item in (a, b))
        row = row_of(used, of_a, of_b, why, context.of(entity, metric.id, clock))
        if used is not metric and offered is not None:
            row = replace(row, incomparable=(load_moved(offered), "load_moved"))
        else:
            row = replace(
                row,
                result=comparable_row(row.result, full, offered),
                incomparable=incomparable(metric, full, offered),
            )
        if metric.id in OTHER_LOSSES:
            row = _losses_row(row, _per_packet(of_a, a), _per_packet(of_b, b))
        rows.append(_bounded(row, full, clock))
    results = [row.result for row in rows]
    word, why_word = summed(results, offered if full != [True, True] else None)
    for name, series in zip(sides, (a, b), strict=True):
        notes += _notes_on_side(name, series)
    loads = [item[np.isfinite(item)] for item in (s.of("offered_packets_per_s") for s in (a, b))]
    report = EntityReport(
        entity,
        tuple(rows),
        word,
        why_word,
        tuple(notes),
        tuple(median(item) for item in loads) if all(map(len, loads)) else (),
        full == [True, True],
        clock,
    )
    return report, offered


def _bounded(row: EntityRow, full: Iterable[bool | None], clock: str | None) -> EntityRow:
    """With the sides marked whose cost may have empty polls in it."""
    was, now = (is_bound(row.result.metric, saturated=item, clock=clock) for item in full)
    return replace(row, result=replace(row.result, bounds=(was, now)))


def _few_losses(name: str, series: EntitySeries) -> Iterator[str]:
    """A note of each kind of losses that a median of 0 hides."""
    for metric in _ROWS["nf"]:
        lost = series.of(metric.id) if metric.id in DROPS else np.empty(0)
        lost = lost[np.isfinite(lost)]
        if lost.any() and not median(lost):
            few = "losses in fewer than half of the samples"
            yield f"{metric.label} {name}: {few}, so that the median is 0"


def _losses_row(row: EntityRow, a: Floats, b: Floats) -> EntityRow:
    """Other losses: fewer may be those of fewer packets, more those of more; `a`, `b` for each."""
    metric, word = row.result.metric, row.result.word
    more = word == "worse" and row_of(metric, a, b, _NO_SAMPLE).result.word != "worse"
    word = "less" if word == "better" else "more" if more else word
    return replace(row, result=replace(row.result, word=word))


def _per_packet(losses: Floats, series: EntitySeries) -> Floats:
    """Losses for each packet that was forwarded, float64 (n,); NaN without packets."""
    packets = series.of("packets_per_s")
    if len(losses) != len(packets):
        return np.empty(0)
    result = np.full(len(losses), np.nan)
    np.divide(losses, packets, out=result, where=packets > 0)
    return result


def _is_any(name: str, a: EntitySeries, b: EntitySeries) -> bool:
    """Whether a sample of a metric is above 0: most NFs have no such losses."""
    return any(bool((series.of(name) > 0).any()) for series in (a, b))


def _is_full(series: EntitySeries) -> bool | None:
    known = np.isfinite(series.of("saturated"))
    forwards = np.isfinite(series.of("packets_per_s"))
    return is_full(series.of("saturated")[known], known[forwards | known].astype(np.float64))


def _clock(a: EntitySeries, b: EntitySeries) -> tuple[str | None, list[str]]:
    """The base clock with the most samples in the interval that has fewer of it, and notes."""
    counts = {
        clock: tuple(int(_counted_by(series, clock).sum()) for series in (a, b))
        for clock in dict.fromkeys(base_clock(name) for name in CLOCKS)
        if clock is not None
    }
    clock = max(counts, key=lambda name: min(counts[name]))
    if min(counts[clock]) == 0:
        return None, []
    known = sum(int(np.isfinite(series.of("clock")).sum()) for series in (a, b))
    left_out = known - sum(counts[clock])
    note = f"left out: {counted(left_out, 'sample')} of CPP by another clock than {clock}"
    return clock, [note] if left_out else []


def _counted_by(series: EntitySeries, clock: str | None) -> Bools:
    """bool (n,): samples whose cycles this base clock counts, directly or by run time."""
    return np.isin(series.of("clock"), clock_indices(clock))


def _of_clock(series: EntitySeries, name: str, clock: str | None) -> Floats:
    """A metric of a network function; cycles of this base clock only."""
    values = series.of(name)
    return np.where(_counted_by(series, clock), values, np.nan) if name in COSTS else values


def _has_numbers(name: str, a: EntitySeries, b: EntitySeries) -> bool:
    return all(np.isfinite(item.of(name)).any() for item in (a, b))


def _why(name: str, a: EntitySeries, b: EntitySeries) -> Missing:
    return b.why.get(name) or a.why.get(name) or _NO_SAMPLE
