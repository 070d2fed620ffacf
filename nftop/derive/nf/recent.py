"""Rates of each network function in the last minutes: its usual ones, and those at an earlier time.

The usual rate is the median of `USUAL_S`. Ticks in which the throughput is below `KEPT_RATIO` of it
are left out for up to `NEW_NORMAL_AFTER_S`, so that a collapse is not usual while it lasts.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence

from nftop.derive.fold_stage import FoldStage, FoldTick
from nftop.derive.frame import FRAME
from nftop.model.frame import Frame, NfRow
from nftop.model.median import median
from nftop.model.metrics.metric import is_bound
from nftop.model.metrics.nf import NF_METRICS
from nftop.model.missing import Missing, Reading, Reason, number_or, total
from nftop.model.struct import dataclass, field, replace
from nftop.model.usual import NEW_NORMAL_AFTER_S

USUAL_S = 120.0
KEPT_S = 240.0
KEPT_RATIO = 0.5
# An NF with fewer packets than this is not busy enough to have a usual rate.
LEAST_PACKETS_PER_S = 100_000.0
_SPACING_S = 0.9
_LEAST_POINTS = 8
_LEAST_BEFORE = 3
_COST_GROWN = 1.05
_GONE_AFTER_S = 60.0
_WARMING = Missing(Reason.WARMING, "nothing is known of it from before")


@dataclass(frozen=True, slots=True)
class PacketCost:
    """Cycles per packet of an NF: catalogue id, value, whether empty polls may be in it."""

    metric: str
    value: Reading
    is_bound: bool


@dataclass(frozen=True, slots=True)
class RecentPoint:
    """Rates of one tick; NaN where there is no number.

    Attributes:
        dropped: packets lost per second (`drop_packets_per_s`).
        throughput: packets sent per second; received, of an NF that does not count those.
        arriving: packets received and missed per second, a lower bound if the latter are unknown.
        cpp: cycles per packet, of work only where the NF counts these.
        is_work: `cpp` is of work only. is_bound: it may have empty polls in it.
        cache_hit_ratio: of lookups in flow tables.
        is_usual: it counts for the usual rates.
    """

    monotonic_ns: int
    throughput: float
    arriving: float
    dropped: float
    cpp: float
    cache_hit_ratio: float = float("nan")
    is_usual: bool = True
    is_work: bool = False
    is_bound: bool = False


@dataclass(frozen=True, slots=True)
class RecentRates:
    """One NF.

    Attributes:
        points: oldest first, about one per second.
        usual, usual_arriving: packets per second, or WARMING.
        unusual_since_ns: CLOCK_MONOTONIC since when its throughput is far below the usual one.
    """

    points: tuple[RecentPoint, ...] = ()
    usual: Reading = _WARMING
    usual_arriving: Reading = _WARMING
    unusual_since_ns: int | None = None

    @property
    def now(self) -> RecentPoint | None:
        return self.points[-1] if self.points else None

    def before(
        self, monotonic_ns: int, value: Callable[[RecentPoint], float], span_s: float = 60.0
    ) -> Reading:
        """Median of a value in the `span_s` until one second before that time; else WARMING."""
        points = self._points_before(monotonic_ns, span_s)
        values = [number for point in points if not math.isnan(number := value(point))]
        return median(values) if len(values) >= _LEAST_BEFORE else _WARMING

    def cost_before(self, monotonic_ns: int, span_s: float = 60.0) -> PacketCost:
        """Median cost before that time: of work only if there are enough such numbers."""
        points = [
            point
            for point in self._points_before(monotonic_ns, span_s)
            if not math.isnan(point.cpp)
        ]
        work = [point.cpp for point in points if point.is_work]
        if len(work) >= _LEAST_BEFORE:
            return PacketCost("busy_cpp", median(work), is_bound=False)
        others = [point for point in points if not point.is_work]
        if len(others) < _LEAST_BEFORE:
            return PacketCost("cpp", _WARMING, is_bound=False)
        middle = median([point.cpp for point in others])
        return PacketCost("cpp", middle, is_bound=any(point.is_bound for point in others))

    def cost_grew(self, nf: NfRow, at_ns: int) -> bool:
        """Whether a packet costs clearly more than in the minute before a time."""
        was = self.cost_before(at_ns)
        return has_grown(was.value, cost_of(nf, was).value)

    def _points_before(self, monotonic_ns: int, span_s: float) -> Sequence[RecentPoint]:
        since_ns, until_ns = monotonic_ns - span_s * 1e9, monotonic_ns - 1e9
        first = bisect_left(self.points, since_ns, key=_time_of)
        return self.points[first : bisect_right(self.points, until_ns, key=_time_of)]


Recent = Mapping[str, RecentRates]
_NONE = RecentRates()


@dataclass(frozen=True, slots=True)
class RecentState:
    """By `NfRow.key`."""

    rates: Recent = field(default_factory=dict)
    monotonic_ns: int = 0


def step_recent(state: RecentState, frame: Frame) -> RecentState:
    """Fold one frame in; NFs that left are kept for a minute."""
    now_ns = frame.monotonic_ns
    if now_ns < state.monotonic_ns:
        state = RecentState()
    rates = {
        key: known
        for key, known in state.rates.items()
        if known.now is not None and now_ns - known.now.monotonic_ns < _GONE_AFTER_S * 1e9
    }
    for nf in frame.nfs:
        rates[nf.key] = _step(rates.get(nf.key, _NONE), nf, now_ns)
    return RecentState(rates, now_ns)


def throughput_of(nf: NfRow) -> tuple[str, Reading]:
    """The metric that stands for an NF's throughput, and its value: sent, else received."""
    sent = nf.readings["tx_packets_per_s"]
    if isinstance(sent, Missing):
        return "rx_packets_per_s", nf.readings["rx_packets_per_s"]
    return "tx_packets_per_s", sent


def arriving_of(nf: NfRow) -> Reading:
    """Packets received and missed per second, a lower bound if the latter are unknown."""
    received, missed = nf.readings["rx_packets_per_s"], nf.readings["missed_packets_per_s"]
    return received if isinstance(missed, Missing) else total((received, missed))


def cost_of(nf: NfRow, like: PacketCost | None = None) -> PacketCost:
    """Cycles of work per packet where the NF counts these, else all cycles per packet.

    `like`: a cost that it is compared with; the same metric if that has a value.
    """
    busy = nf.readings["busy_cpp"]
    chosen = "cpp" if isinstance(busy, Missing) else "busy_cpp"
    if like is not None and not isinstance(like.value, Missing):
        chosen = like.metric
    if chosen == "busy_cpp":
        return PacketCost(chosen, busy, is_bound=False)
    bound = is_bound(_CPP, saturated=nf.saturated, clock=nf.cpp_clock)
    return PacketCost(chosen, nf.readings["cpp"], bound)


_CPP = next(metric for metric in NF_METRICS if metric.id == "cpp")


def has_grown(before: Reading, now: Reading) -> bool:
    """Whether a cost is clearly higher than before; False if either is unknown."""
    if isinstance(before, Missing) or isinstance(now, Missing):
        return False
    return now > _COST_GROWN * before


def _step(known: RecentRates, nf: NfRow, now_ns: int) -> RecentRates:
    last = known.now
    if last is not None and (now_ns - last.monotonic_ns) < _SPACING_S * 1e9:
        return known
    cost = cost_of(nf)
    point = RecentPoint(
        now_ns,
        number_or(throughput_of(nf)[1], math.nan),
        number_or(arriving_of(nf), math.nan),
        number_or(nf.readings["drop_packets_per_s"], math.nan),
        number_or(cost.value, math.nan),
        number_or(nf.readings.get("ovs.cache_hit_ratio", _WARMING), math.nan),
        is_work=cost.metric == "busy_cpp",
        is_bound=cost.is_bound,
    )
    usual = known.usual
    unknown = math.isnan(point.throughput)
    low = not isinstance(usual, Missing) and point.throughput < KEPT_RATIO * usual
    # A tick without a number neither begins nor ends a collapse.
    unusual_ns = (known.unusual_since_ns or now_ns) if low else None
    unusual_ns = known.unusual_since_ns if unknown else unusual_ns
    if unusual_ns is not None and now_ns - unusual_ns > NEW_NORMAL_AFTER_S * 1e9:
        return RecentRates((point,))
    point = replace(point, is_usual=not (low or unknown))
    kept_ns = now_ns - KEPT_S * 1e9
    old = bisect_left(known.points, kept_ns, key=_time_of)
    # While a collapse lasts, the ticks before it stay.
    lasting = [item for item in known.points[:old] if item.is_usual] if unusual_ns else ()
    points = (*lasting, *known.points[old:], point)
    if low or unknown:
        return RecentRates(points, usual, known.usual_arriving, unusual_ns)
    span_ns = now_ns - USUAL_S * 1e9
    recent = points[bisect_left(points, span_ns, key=_time_of) :]
    counted = [item for item in recent if item.is_usual]
    return RecentRates(
        points,
        _usual([item.throughput for item in counted]),
        _usual([item.arriving for item in counted]),
    )


def _time_of(point: RecentPoint) -> int:
    return point.monotonic_ns


def _usual(values: list[float]) -> Reading:
    known = [value for value in values if not math.isnan(value)]
    if len(known) < _LEAST_POINTS:
        return _WARMING
    return median(known)


def _run(state: RecentState, tick: FoldTick) -> tuple[RecentState, Recent]:
    state = step_recent(state, tick.output(FRAME))
    return state, state.rates


RECENT: FoldStage[RecentState, Recent] = FoldStage("recent", RecentState, _run, lasting=True)
