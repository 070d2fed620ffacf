"""The curve of an experiment: what each setting costs, with intervals, and the recommendation.

A visit is one sample, so noise that persists within a visit does no harm. The numbers of a network
function are fitted as setting + round + trend by least squares: drift between rounds takes no part,
and neither does a steady one within them (an analysis of covariance; the order is random). What
else drifts within a round is in the residual. Differences to the reference are contrasts of that
fit, with Student's distribution of the residual's degrees of freedom.

Words of an effect share one probability, divided by the number of tests in the whole experiment,
looks included (Bonferroni). For `nothing` all numbers of a setting have to be accepted, so that
their count needs no correction (intersection-union test, Berger 1982): only looks divide it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from statistics import NormalDist
from typing import Literal, TypeAlias

import numpy as np

from nftop.derive.compare.metric import LEAST_RATIO
from nftop.derive.compare.ranksum import student
from nftop.model.clock import NS_PER_S
from nftop.model.column import Floats
from nftop.model.experiment import (
    CostBasis,
    Curve,
    Estimate,
    Experiment,
    NfEffect,
    NfLevels,
    SettingEffect,
    SettingResult,
    TryDifference,
    TryWord,
    Visit,
)
from nftop.model.struct import dataclass, field

# Probability of any false `costs` or `gains` in an experiment, and of a false recommendation.
WORD_P, NOTHING_P = 0.001, 0.02
# Where the reference loses packets, half as many more are irrelevant, within these shares of the
# offered ones.
LEAST_LOST_RATIO, MOST_LOST_RATIO = 0.001, 0.005
# Losing none: less than this share; losing some: more than that, while the reference loses none.
_NONE_RATIO, _SOME_RATIO = 1e-6, 1e-5
# Visits of a setting that lost some: if all did it drops, and from this share on once there are so
# many visits; fewer are bursts of the load then.
_LOSING_SHARE, _BURST_VISITS = 1 / 3, 4
# Least standard deviation between visits, relative; of a lost share absolute. A visit's rates can't
# be known better, and equal visits would make every difference significant.
_LEAST_SD, _LEAST_LOST_SD = 2e-4, 5e-6
# The trend is fitted where so many degrees of freedom remain: with fewer it costs more than it
# gains. That depends on the visits' number only, not on what they measured.
_LEAST_FREEDOM = 5
_INTERVAL_P = 0.05
_NAN = math.nan
_BASES: tuple[CostBasis, ...] = ("busy", "full")
_FINE: frozenset[SettingEffect] = frozenset({"nothing", "gains"})
_POSSIBLE: frozenset[SettingEffect] = _FINE | {"undecided"}
_RANK: Mapping[SettingEffect, int] = {
    "costs": 5, "drops": 4, "unmeasured": 3, "undecided": 2, "gains": 1, "nothing": 0,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Fit:
    """Means by setting, adjusted for rounds and for a trend.

    Attributes:
        order: the settings.
        means: by setting.
        covariance: of the means of `order`, float64 (s, s); None without degrees of freedom.
        freedom: degrees of freedom of the residual.
    """

    order: tuple[int, ...]
    means: Mapping[int, float]
    covariance: Floats | None
    freedom: int

    def error(self, one: int, other: int | None = None) -> float:
        """Standard error of a mean, or of the difference of two."""
        if self.covariance is None:
            return math.inf
        weights = np.zeros(len(self.order))
        weights[self.order.index(one)] += 1
        if other is not None:
            weights[self.order.index(other)] -= 1
        return math.sqrt(max(float(weights @ self.covariance @ weights), 0.0))


# A visit's setting, its round, its time in seconds and a number of it.
_FitRow: TypeAlias = tuple[int, int, float, float]


def _fit(rows: Sequence[_FitRow], least_sd: float) -> _Fit:
    """Fit numbers of visits; rows without one are left out."""
    known = [row for row in rows if math.isfinite(row[3])]
    order = tuple(sorted({row[0] for row in known}))
    rounds = sorted({row[1] for row in known})
    if not known:
        return _Fit((), {}, None, 0)
    design = np.zeros((len(known), len(order) + len(rounds) - 1))
    values = np.array([row[3] for row in known])
    for at, (setting, number, _, _) in enumerate(known):
        design[at, order.index(setting)] = 1
        # Effects of rounds sum to 0, so that a setting's mean is that over all rounds.
        if number == rounds[-1]:
            design[at, len(order) :] = -1
        else:
            design[at, len(order) + rounds.index(number)] = 1
    if len(known) - design.shape[1] - 1 >= _LEAST_FREEDOM:
        times = np.array([row[2] for row in known])
        spread = float(np.std(times))
        trend = np.column_stack([design, (times - times.mean()) / (spread or 1.0)])
        # An order that runs with time, setting by setting, can't tell a trend from an effect.
        if np.linalg.matrix_rank(trend) > np.linalg.matrix_rank(design):
            design = trend
    factors, _, rank, _ = np.linalg.lstsq(design, values, rcond=None)
    freedom = len(known) - int(rank)
    means = {setting: float(factors[at]) for at, setting in enumerate(order)}
    if freedom < 1:
        return _Fit(order, means, None, 0)
    residual = values - design @ factors
    variance = max(float(residual @ residual) / freedom, least_sd**2)
    covariance = np.linalg.pinv(design.T @ design)[: len(order), : len(order)] * variance
    return _Fit(order, means, np.asarray(covariance), freedom)


def _critical(p: float, freedom: int) -> float:
    """Student's t that is exceeded with probability p."""
    return student(NormalDist().inv_cdf(1 - p), freedom) if freedom else math.inf


def irrelevant_loss(reference_ratio: float) -> float:
    """Share of packets that may be lost besides those that the reference loses."""
    return min(max(reference_ratio / 2, LEAST_LOST_RATIO), MOST_LOST_RATIO)


@dataclass(frozen=True, slots=True)
class _Correction:
    """Tests of an effect in the whole experiment, and how often they are made."""

    count: int
    test_count: int


@dataclass(frozen=True, slots=True)
class _TestedNumber:
    """One tested number of a network function: loss is positive.

    Attributes:
        fit: of its visits. sign: 1 if more is worse, else -1.
        least: smallest relevant loss.
        calm: of the visits of settings that lose about as much as the reference, or None. Where
            much is lost, the share that is lost varies more: those visits would widen the interval
            of settings that lose nothing.
        losing: by setting the share of its visits that lost packets, and their number, where the
            reference loses none; else empty.
    """

    fit: _Fit
    sign: int
    least: float
    calm: _Fit | None = None
    losing: Mapping[int, tuple[float, int]] = field(default_factory=dict)

    def loss(self, setting: int, reference: int) -> float:
        means = self.fit.means
        if setting not in means or reference not in means:
            return _NAN
        return self.sign * (means[setting] - means[reference])

    def effect(self, setting: int, reference: int, correction: _Correction) -> SettingEffect:
        loss = self.loss(setting, reference)
        if not math.isfinite(loss):
            return "unmeasured"
        if setting == reference:
            return "nothing"
        error = self.fit.error(setting, reference)
        sure = _critical(WORD_P / correction.count / 2, self.fit.freedom) * error
        if abs(loss) >= self.least and abs(loss) > sure:
            return "costs" if loss > 0 else "gains"
        if self.losing:
            return _of_losing(*self.losing[setting])
        return "nothing" if self._below(setting, reference, self.least, correction) else "undecided"

    def is_close(self, setting: int, reference: int, correction: _Correction) -> bool:
        """Whether a loss of at least the limit may be below it."""
        loss = self.loss(setting, reference)
        margin = _critical(NOTHING_P / correction.test_count, self.fit.freedom)
        return loss - margin * self.fit.error(setting, reference) < self.least

    def tolerates(
        self, setting: int, reference: int, correction: _Correction, ratio: float
    ) -> bool:
        loss = self.loss(setting, reference)
        if setting == reference:
            return math.isfinite(loss)
        return math.isfinite(loss) and self._below(setting, reference, ratio, correction)

    def _below(self, setting: int, reference: int, most: float, correction: _Correction) -> bool:
        """Whether the upper end of the loss' interval is within `most`."""
        calm = self.calm
        fit = calm if calm is not None and {setting, reference} <= {*calm.order} else self.fit
        loss = self.sign * (fit.means[setting] - fit.means[reference])
        margin = _critical(NOTHING_P / correction.test_count, fit.freedom) * fit.error(
            setting, reference
        )
        return loss + margin <= most


def _of_losing(share: float, visits: int) -> SettingEffect:
    """Effect by the share of visits that lost packets; single ones may be bursts of the load."""
    if share in (0, 1):
        return "drops" if share else "nothing"
    if visits < _BURST_VISITS:
        return "undecided"
    return "drops" if share >= _LOSING_SHARE else "nothing"


@dataclass(frozen=True, slots=True)
class _NfFits:
    """The fits of one network function; `lost` or `cost` may be None."""

    packets: _Fit
    cpp: _Fit
    lost: _TestedNumber | None
    cost: _TestedNumber | None
    basis: CostBasis | None

    @property
    def numbers(self) -> tuple[_TestedNumber, ...]:
        return tuple(item for item in (self.lost, self.cost) if item is not None)


def curve_of(plan: Experiment, visits: Sequence[Visit]) -> Curve:
    """Results of the visits so far; the baseline takes no part."""
    own = [visit for visit in visits if visit.round]
    order = sorted({visit.setting for visit in own})
    if not order:
        return Curve(())
    references = {key: reference_of(plan, key, order) for key in plan.watch}
    nfs = {key: _fits_of(own, key, references[key]) for key in plan.watch}
    test_count = plan.rounds_most - plan.rounds_least + 1
    count = sum(len(nf.numbers) for nf in nfs.values())
    tests = max((len(plan.settings) - 1) * count * test_count, 1)
    analysis = _Analysis(plan, nfs, references, _Correction(tests, test_count))
    results = tuple(_result(analysis, own, setting) for setting in order)
    return _with_recommendation(plan, results)


def reference_of(plan: Experiment, key: str, order: Sequence[int]) -> int:
    """Setting with which a network function's others are compared: its best by construction."""
    return order[-1] if plan.kind == "sweep" and key in plan.own else order[0]


def _fits_of(visits: Sequence[Visit], key: str, reference: int) -> _NfFits:
    own = [visit for visit in visits if key in visit.nfs]

    def rows(value: Callable[[NfLevels], float]) -> list[_FitRow]:
        return [
            (
                visit.setting,
                visit.round,
                (visit.settled_ns + visit.end_ns) / 2 / NS_PER_S,
                value(visit.nfs[key]),
            )
            for visit in own
        ]

    packets = _fit(rows(lambda nf: _log(nf.packets_per_s)), _LEAST_SD)
    lost_rows = rows(lambda nf: nf.lost_ratio)
    lost: _TestedNumber | None
    if any(math.isfinite(row[3]) for row in lost_rows):
        fit = _fit(lost_rows, _LEAST_LOST_SD)
        usual = fit.means.get(reference, 1.0)
        losing = _losing(lost_rows) if usual < _NONE_RATIO else {}
        most = usual + MOST_LOST_RATIO
        calm = _fit(
            [row for row in lost_rows if fit.means.get(row[0], 1.0) <= most], _LEAST_LOST_SD
        )
        lost = _TestedNumber(fit, 1, irrelevant_loss(usual), calm, losing)
    else:
        lost = _TestedNumber(packets, -1, LEAST_RATIO) if packets.order else None
    basis, clock = _basis(own, {visit.setting for visit in visits}, key)
    cost = None
    if basis is not None:
        used = basis
        cost_rows = rows(lambda nf: _log(nf.cost(used)) if nf.clock == clock else _NAN)
        cost = _TestedNumber(_fit(cost_rows, _LEAST_SD), 1, LEAST_RATIO)
    return _NfFits(packets, _fit(rows(lambda nf: _log(nf.cpp)), _LEAST_SD), lost, cost, basis)


def _basis(
    visits: Sequence[Visit], settings: Collection[int], key: str
) -> tuple[CostBasis | None, str]:
    """Cycles per packet that every setting has, of one clock; None: the lost packets decide.

    Busy cycles and all cycles are different numbers, and so are cycles of different clocks.
    """
    clocks = Counter(visit.nfs[key].clock for visit in visits)
    for clock, _ in clocks.most_common():
        for basis in _BASES:
            known = {
                visit.setting
                for visit in visits
                if visit.nfs[key].clock == clock and visit.nfs[key].cost(basis) > 0
            }
            if known == settings:
                return basis, clock
    return None, ""


@dataclass(frozen=True, slots=True)
class _Analysis:
    """Fits and references by network function."""

    plan: Experiment
    nfs: Mapping[str, _NfFits]
    references: Mapping[str, int]
    correction: _Correction


def _losing(rows: Sequence[_FitRow]) -> dict[int, tuple[float, int]]:
    """By setting the share of its visits that lost packets, and their number."""
    values: dict[int, list[bool]] = {}
    for setting, _, _, ratio in rows:
        if math.isfinite(ratio):
            values.setdefault(setting, []).append(ratio > _SOME_RATIO)
    return {setting: (sum(item) / len(item), len(item)) for setting, item in values.items()}


def _result(analysis: _Analysis, visits: Sequence[Visit], setting: int) -> SettingResult:
    mine = [visit for visit in visits if visit.setting == setting]
    effects = {
        key: _effect(analysis, key, setting, [v.nfs[key] for v in mine if key in v.nfs])
        for key in analysis.nfs
    }
    return SettingResult(
        setting=setting,
        visits=len(mine),
        nfs=effects,
        effect=_worst(nf.effect for nf in effects.values()),
        occupancy_bytes=_mean([visit.occupancy_bytes for visit in mine]),
        memory_bytes_per_s=_mean([visit.memory_bytes_per_s for visit in mine]),
        ipc=_mean([visit.ipc for visit in mine]),
        moving=sum(visit.settling == "moving" for visit in mine),
        io_hit_ratio=_mean([visit.io_hit_ratio for visit in mine]),
    )


def _effect(analysis: _Analysis, key: str, setting: int, levels: Sequence[NfLevels]) -> NfEffect:
    nf, reference, correction = analysis.nfs[key], analysis.references[key], analysis.correction
    tolerance = analysis.plan.tolerance_ratio
    numbers = nf.numbers
    # Nothing forwarded, and something at the reference, is a value, though it has no logarithm.
    stopped = reference in nf.packets.means and any(item.packets_per_s == 0 for item in levels)
    return NfEffect(
        packets_per_s=_estimate(nf.packets, setting),
        cpp=_estimate(nf.cpp, setting),
        drop_packets_per_s=_mean([item.drop_packets_per_s for item in levels]),
        llc_misses_per_packet=_mean([item.llc_misses_per_packet for item in levels]),
        cost_ratio=_NAN if nf.cost is None else math.expm1(nf.cost.loss(setting, reference)),
        lost_ratio=_lost_ratio(nf, setting, reference, stopped=stopped),
        effect="costs"
        if stopped
        else _worst(item.effect(setting, reference, correction) for item in numbers),
        tolerated=bool(numbers)
        and not stopped
        and all(item.tolerates(setting, reference, correction, tolerance) for item in numbers),
        cost_basis=nf.basis,
        close=not stopped and _is_close(numbers, setting, reference, correction),
        cpp_is_bound=any(item.cpp_is_bound for item in levels),
    )


def _is_close(
    numbers: Sequence[_TestedNumber], setting: int, reference: int, correction: _Correction
) -> bool:
    """Whether it costs, and by no number for sure more than is relevant."""
    costly = [item for item in numbers if item.effect(setting, reference, correction) == "costs"]
    return bool(costly) and all(item.is_close(setting, reference, correction) for item in costly)


def _lost_ratio(nf: _NfFits, setting: int, reference: int, *, stopped: bool) -> float:
    if stopped:
        return 1.0
    return _NAN if nf.lost is None else nf.lost.loss(setting, reference)


def _estimate(fit: _Fit, setting: int) -> Estimate:
    """A mean of logarithms as a number, with half of its interval."""
    if setting not in fit.means:
        return Estimate(_NAN, _NAN)
    value = math.exp(fit.means[setting])
    half = _critical(_INTERVAL_P / 2, fit.freedom) * fit.error(setting) if fit.freedom else _NAN
    return Estimate(value, value * half)


def _with_recommendation(plan: Experiment, results: tuple[SettingResult, ...]) -> Curve:
    undecided = tuple(item.setting for item in results if item.effect == "undecided")
    if plan.kind == "try":
        return Curve(results, decided=not undecided, undecided=undecided)
    chosen = _furthest_accepted(plan, results, _is_fine)
    possible = _furthest_accepted(
        plan, results, lambda nf: nf.close or nf.effect in _POSSIBLE, close=True
    )
    closes = tuple(item.setting for item in results if any(nf.close for nf in item.nfs.values()))
    better = sorted(item for item in {*undecided, *closes} if _is_beyond(plan, item, chosen))
    if possible is not None:
        better = [item for item in better if not _is_beyond(plan, item, possible)]
    return Curve(
        results,
        recommended=chosen,
        tolerated=_furthest_accepted(plan, results, lambda nf: nf.tolerated, strict=False),
        decided=chosen == possible,
        undecided=() if chosen == possible else tuple(better),
    )


def _is_fine(nf: NfEffect) -> bool:
    return nf.effect in _FINE


def _furthest_accepted(
    plan: Experiment,
    results: Sequence[SettingResult],
    accepts: Callable[[NfEffect], bool],
    *,
    strict: bool = True,
    close: bool = False,
) -> int | None:
    """The furthest setting from the reference that is accepted.

    None beyond one that has no numbers or forwards nothing; `strict`: nor beyond one that costs,
    with `close` only if that is sure.

    That is the largest width of a neighbour's class, the smallest of an NF's own class. Masks
    contain each other, so what a wider neighbour does not cost a narrower one does not either:
    settings in between may be undecided.
    """
    best = None
    for item in results[::-1] if plan.own else results:
        judged = [item.nfs[key] for key in plan.own or plan.watch]
        if any(nf.effect == "unmeasured" or nf.lost_ratio == 1.0 for nf in judged):
            break
        if strict and any(
            nf.effect in ("costs", "drops") and not (close and nf.close) for nf in judged
        ):
            break
        if all(map(accepts, item.nfs.values())):
            best = item.setting
    return best


def _is_beyond(plan: Experiment, setting: int, chosen: int | None) -> bool:
    """Whether a setting would be the better choice."""
    return chosen is None or (setting < chosen if plan.own else setting > chosen)


def _worst(effects: Iterable[SettingEffect]) -> SettingEffect:
    ranked = sorted(effects, key=_RANK.__getitem__)
    return ranked[-1] if ranked else "unmeasured"


def _log(value: float) -> float:
    return math.log(value) if value > 0 else _NAN


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if math.isfinite(value)]
    return float(np.mean(known)) if known else _NAN


@dataclass(frozen=True, slots=True)
class _Compared:
    """A number that is compared in a `try`.

    Attributes:
        fit: of its visits; of logarithms unless it is `lost_ratio`.
        better: sign of a change for the better; 0: neither is.
        losing: share of the visits with the second setting that lost packets, if none of the first
            did; else None.
    """

    kind: Literal["nf", "class", "socket"]
    name: str
    metric: str
    fit: _Fit
    better: int
    losing: float | None = None

    @property
    def is_share(self) -> bool:
        return self.metric == "lost_ratio"

    @property
    def known(self) -> bool:
        return self.fit.order == (0, 1)


def differences(plan: Experiment, visits: Sequence[Visit]) -> tuple[TryDifference, ...]:
    """What differs with the second setting of a `try`: network functions, classes, sockets.

    Words share one probability, WORD_P, divided by the number of all numbers (Bonferroni). `same`:
    both ends of the interval are below the smallest relevant difference.
    """
    own = [visit for visit in visits if visit.round]
    numbers = [item for key in plan.watch for item in _of_nf(plan, own, key)]
    numbers += _of_others(own)
    count = max(sum(item.known for item in numbers), 1)
    return tuple(_difference(item, count) for item in numbers)


def _of_nf(plan: Experiment, visits: Sequence[Visit], key: str) -> list[_Compared]:
    name, nf = plan.watch[key], _fits_of(visits, key, 0)
    cost = _fit([], _LEAST_SD) if nf.cost is None else nf.cost.fit
    result = [_Compared("nf", name, "cpp" if nf.basis != "busy" else "busy_cpp", cost, -1)]
    if nf.lost is not None and nf.lost.sign > 0:
        losing = nf.lost.losing
        share = losing[1][0] if 1 in losing and losing.get(0, (1.0, 0))[0] == 0 else None
        result.append(_Compared("nf", name, "lost_ratio", nf.lost.fit, -1, share))
    # More packets are better where drops are unknown; else they are what is offered, or lost.
    better = 0 if nf.lost is not None and nf.lost.sign > 0 else 1
    return [*result, _Compared("nf", name, "packets_per_s", nf.packets, better)]


def _of_others(visits: Sequence[Visit]) -> list[_Compared]:
    result = []
    for key in sorted({key for visit in visits for key in visit.others}):
        kind, rest = key.split("/", 1)
        name, metric = rest.rsplit("/", 1)  # the root group is "/"
        rows = [
            (
                visit.setting,
                visit.round,
                (visit.settled_ns + visit.end_ns) / 2 / NS_PER_S,
                _log(visit.others.get(key, _NAN)),
            )
            for visit in visits
        ]
        of: Literal["class", "socket"] = "class" if kind == "class" else "socket"
        # As in a verdict: of IPC, too, neither direction is better without packets.
        result.append(_Compared(of, name, metric, _fit(rows, _LEAST_SD), 0))
    return result


def _difference(item: _Compared, count: int) -> TryDifference:
    fit = item.fit
    if not item.known:
        return TryDifference(
            item.kind, item.name, item.metric, _NAN, _NAN, _NAN, _NAN, "unmeasured"
        )
    now, then = fit.means[0], fit.means[1]
    change, error = then - now, fit.error(1, 0)
    half = _critical(_INTERVAL_P / 2, fit.freedom) * error
    if not item.is_share:
        now, then = math.exp(now), math.exp(then)
    return TryDifference(
        kind=item.kind,
        name=item.name,
        metric=item.metric,
        now=now,
        then=then,
        change=change if item.is_share else math.expm1(change),
        half=half,
        word=_word(item, change, error, count),
    )


def _word(item: _Compared, change: float, error: float, count: int) -> TryWord:
    freedom = item.fit.freedom
    least = irrelevant_loss(item.fit.means[0]) if item.is_share else LEAST_RATIO
    if abs(change) >= least and abs(change) > _critical(WORD_P / count / 2, freedom) * error:
        if not item.better:
            return "more" if change > 0 else "less"
        return "better" if change * item.better > 0 else "worse"
    if item.losing is not None and item.losing > 0:
        return "drops" if item.losing == 1 else "undecided"
    margin = _critical(NOTHING_P, freedom) * error
    return "same" if abs(change) + margin <= least else "undecided"
