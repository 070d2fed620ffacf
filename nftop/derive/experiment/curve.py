"""The curve of an experiment: what each setting costs, with intervals, and the recommendation.

A visit is one sample, so noise that persists within a visit does no harm. The numbers of a network
function are fitted as setting + round by least squares: drift between rounds takes no part, drift
within a round is in the residual, since the order is random. Differences to the reference are
contrasts of that fit, with Student's distribution of the residual's degrees of freedom.

Words of an effect share one probability, divided by the number of tests in the whole experiment,
looks included (Bonferroni). For `nothing` all numbers of a setting have to be accepted, so that
their count needs no correction (intersection-union test, Berger 1982): only looks divide it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import NormalDist

import numpy as np

from nftop.derive.compare.metric import LEAST_RATIO
from nftop.derive.compare.ranksum import student
from nftop.model.column import Floats
from nftop.model.experiment import (
    Curve,
    Estimate,
    Experiment,
    NfEffect,
    NfLevels,
    SettingEffect,
    SettingResult,
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
# Visits of a setting that lost some: from this share on it drops. Fewer are bursts of the load,
# which is known from so many visits on.
_LOSING_SHARE, _BURST_VISITS = 1 / 3, 4
# Least standard deviation between visits, relative; of a lost share absolute. A visit's rates can't
# be known better, and equal visits would make every difference significant.
_LEAST_SD, _LEAST_LOST_SD = 2e-4, 5e-6
_INTERVAL_P = 0.05
_NAN = math.nan
_RANK: Mapping[SettingEffect, int] = {
    "costs": 5, "drops": 4, "unmeasured": 3, "undecided": 2, "gains": 1, "nothing": 0,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Fit:
    """Means by setting, adjusted for rounds.

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


def _fit(rows: Sequence[tuple[int, int, float]], least_sd: float) -> _Fit:
    """Fit (setting, round, value) rows; rows without a value are left out."""
    known = [row for row in rows if math.isfinite(row[2])]
    order = tuple(sorted({row[0] for row in known}))
    rounds = sorted({row[1] for row in known})
    if not known:
        return _Fit((), {}, None, 0)
    design = np.zeros((len(known), len(order) + len(rounds) - 1))
    values = np.array([row[2] for row in known])
    for at, (setting, number, _) in enumerate(known):
        design[at, order.index(setting)] = 1
        # Effects of rounds sum to 0, so that a setting's mean is that over all rounds.
        if number == rounds[-1]:
            design[at, len(order) :] = -1
        else:
            design[at, len(order) + rounds.index(number)] = 1
    factors, _, rank, _ = np.linalg.lstsq(design, values, rcond=None)
    freedom = len(known) - int(rank)
    means = {setting: float(factors[at]) for at, setting in enumerate(order)}
    if freedom < 1:
        return _Fit(order, means, None, 0)
    residual = values - design @ factors
    variance = max(float(residual @ residual) / freedom, least_sd**2)
    spread = np.linalg.pinv(design.T @ design)[: len(order), : len(order)] * variance
    return _Fit(order, means, np.asarray(spread), freedom)


def _critical(p: float, freedom: int) -> float:
    """Student's t that is exceeded with probability p."""
    return student(NormalDist().inv_cdf(1 - p), freedom) if freedom else math.inf


def irrelevant_loss(reference_ratio: float) -> float:
    """Share of packets that may be lost besides those that the reference loses."""
    return min(max(reference_ratio / 2, LEAST_LOST_RATIO), MOST_LOST_RATIO)


@dataclass(frozen=True, slots=True)
class _Tests:
    """Tests of an effect in the whole experiment, and how often they are made."""

    count: int
    looks: int


@dataclass(frozen=True, slots=True)
class _Measured:
    """One tested number of a network function: loss is positive.

    Attributes:
        fit: of its visits. sign: 1 if more is worse, else -1.
        least: smallest relevant loss.
        losing: by setting the share of its visits that lost packets, and their number, where the
            reference loses none; else empty.
    """

    fit: _Fit
    sign: int
    least: float
    losing: Mapping[int, tuple[float, int]] = field(default_factory=dict)

    def loss(self, setting: int, reference: int) -> float:
        means = self.fit.means
        if setting not in means or reference not in means:
            return _NAN
        return self.sign * (means[setting] - means[reference])

    def effect(self, setting: int, reference: int, tests: _Tests) -> SettingEffect:
        loss = self.loss(setting, reference)
        if not math.isfinite(loss):
            return "unmeasured"
        if setting == reference:
            return "nothing"
        error = self.fit.error(setting, reference)
        sure = _critical(WORD_P / tests.count / 2, self.fit.freedom) * error
        if abs(loss) >= self.least and abs(loss) > sure:
            return "costs" if loss > 0 else "gains"
        if self.losing:
            return _of_losing(*self.losing[setting])
        return "nothing" if self._below(loss, error, self.least, tests) else "undecided"

    def tolerates(self, setting: int, reference: int, tests: _Tests, ratio: float) -> bool:
        loss = self.loss(setting, reference)
        if setting == reference:
            return math.isfinite(loss)
        return math.isfinite(loss) and self._below(
            loss, self.fit.error(setting, reference), ratio, tests
        )

    def _below(self, loss: float, error: float, most: float, tests: _Tests) -> bool:
        return loss + _critical(NOTHING_P / tests.looks, self.fit.freedom) * error <= most


def _of_losing(share: float, visits: int) -> SettingEffect:
    """Effect by the share of visits that lost packets; single ones may be bursts of the load."""
    if share >= _LOSING_SHARE:
        return "drops"
    return "nothing" if share == 0 or visits >= _BURST_VISITS else "undecided"


@dataclass(frozen=True, slots=True)
class _Nf:
    """The fits of one network function; `lost` or `cost` may be None."""

    packets: _Fit
    cpp: _Fit
    lost: _Measured | None
    cost: _Measured | None

    @property
    def tested(self) -> tuple[_Measured, ...]:
        return tuple(item for item in (self.lost, self.cost) if item is not None)


def curve_of(plan: Experiment, visits: Sequence[Visit]) -> Curve:
    """Results of the visits so far; the baseline takes no part."""
    own = [visit for visit in visits if visit.round]
    order = sorted({visit.setting for visit in own})
    if not order:
        return Curve(())
    references = {key: reference_of(plan, key, order) for key in plan.watch}
    nfs = {key: _measured(own, key, references[key]) for key in plan.watch}
    looks = plan.rounds_most - plan.rounds_least + 1
    count = sum(len(nf.tested) for nf in nfs.values())
    tests = max((len(plan.settings) - 1) * count * looks, 1)
    tested = _Tested(plan, nfs, references, _Tests(tests, looks))
    results = tuple(_result(tested, own, setting) for setting in order)
    return _recommended(plan, results)


def reference_of(plan: Experiment, key: str, order: Sequence[int]) -> int:
    """Setting with which a network function's others are compared: its best by construction."""
    return order[-1] if plan.kind == "sweep" and key in plan.own else order[0]


def _measured(visits: Sequence[Visit], key: str, reference: int) -> _Nf:
    def rows(value: Callable[[NfLevels], float]) -> list[tuple[int, int, float]]:
        return [
            (visit.setting, visit.round, value(visit.nfs[key]))
            for visit in visits
            if key in visit.nfs
        ]

    packets = _fit(rows(lambda nf: _log(nf.packets_per_s)), _LEAST_SD)
    lost_rows = rows(lambda nf: nf.lost_ratio)
    lost: _Measured | None
    if any(math.isfinite(row[2]) for row in lost_rows):
        fit = _fit(lost_rows, _LEAST_LOST_SD)
        usual = fit.means.get(reference, 1.0)
        losing = _losing(lost_rows) if usual < _NONE_RATIO else {}
        lost = _Measured(fit, 1, irrelevant_loss(usual), losing)
    else:
        lost = _Measured(packets, -1, LEAST_RATIO) if packets.order else None
    cost = _fit(rows(lambda nf: _log(nf.cost_cpp)), _LEAST_SD)
    # Where a visit lacks it, its cores were not busy all the time: then the lost packets decide.
    whole = len(cost.order) == len({visit.setting for visit in visits})
    return _Nf(
        packets,
        _fit(rows(lambda nf: _log(nf.cpp)), _LEAST_SD),
        lost,
        _Measured(cost, 1, LEAST_RATIO) if whole else None,
    )


@dataclass(frozen=True, slots=True)
class _Tested:
    """Fits and references by network function."""

    plan: Experiment
    nfs: Mapping[str, _Nf]
    references: Mapping[str, int]
    tests: _Tests


def _losing(rows: Sequence[tuple[int, int, float]]) -> dict[int, tuple[float, int]]:
    """By setting the share of its visits that lost packets, and their number."""
    values: dict[int, list[bool]] = {}
    for setting, _, ratio in rows:
        if math.isfinite(ratio):
            values.setdefault(setting, []).append(ratio > _SOME_RATIO)
    return {setting: (sum(item) / len(item), len(item)) for setting, item in values.items()}


def _result(tested: _Tested, visits: Sequence[Visit], setting: int) -> SettingResult:
    mine = [visit for visit in visits if visit.setting == setting]
    effects = {
        key: _effect(tested, key, setting, [v.nfs[key] for v in mine if key in v.nfs])
        for key in tested.nfs
    }
    return SettingResult(
        setting=setting,
        visits=len(mine),
        nfs=effects,
        effect=_worst(nf.effect for nf in effects.values()),
        occupancy_bytes=_mean([visit.occupancy_bytes for visit in mine]),
        memory_bytes_per_s=_mean([visit.memory_bytes_per_s for visit in mine]),
        ipc=_mean([visit.ipc for visit in mine]),
    )


def _effect(tested: _Tested, key: str, setting: int, levels: Sequence[NfLevels]) -> NfEffect:
    nf, reference, tests = tested.nfs[key], tested.references[key], tested.tests
    tolerance = tested.plan.tolerance_ratio
    numbers = nf.tested
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
        else _worst(item.effect(setting, reference, tests) for item in numbers),
        tolerated=bool(numbers)
        and not stopped
        and all(item.tolerates(setting, reference, tests, tolerance) for item in numbers),
    )


def _lost_ratio(nf: _Nf, setting: int, reference: int, *, stopped: bool) -> float:
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


def _recommended(plan: Experiment, results: tuple[SettingResult, ...]) -> Curve:
    undecided = tuple(item.setting for item in results if item.effect == "undecided")
    if plan.kind == "try":
        return Curve(results, decided=not undecided, undecided=undecided)
    chosen = _chosen(plan, results, lambda nf: nf.effect in ("nothing", "gains"))
    possible = _chosen(plan, results, lambda nf: nf.effect in ("nothing", "gains", "undecided"))
    return Curve(
        results,
        recommended=chosen,
        tolerated=_chosen(plan, results, lambda nf: nf.tolerated, strict=False),
        decided=chosen == possible,
        undecided=tuple(item for item in undecided if _is_beyond(plan, item, chosen)),
    )


def _chosen(
    plan: Experiment,
    results: Sequence[SettingResult],
    accepts: Callable[[NfEffect], bool],
    *,
    strict: bool = True,
) -> int | None:
    """The furthest setting from the reference that is accepted.

    None beyond one that has no numbers or forwards nothing; `strict`: nor beyond one that costs.

    That is the largest width of a neighbour's class, the smallest of an NF's own class. Masks
    contain each other, so what a wider neighbour does not cost a narrower one does not either:
    settings in between may be undecided.
    """
    best = None
    for item in results[::-1] if plan.own else results:
        judged = [item.nfs[key] for key in plan.own or plan.watch]
        if any(nf.effect == "unmeasured" or nf.lost_ratio == 1.0 for nf in judged):
            break
        if strict and any(nf.effect in ("costs", "drops") for nf in judged):
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
