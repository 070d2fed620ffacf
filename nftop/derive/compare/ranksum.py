"""Statistics of samples before and after a change, on one host and on many.

- `shift`: do two samples differ by more than their noise? (Wilcoxon-Mann-Whitney rank-sum test)
- `least_samples`, `least_shift`: the required number of samples, and the smallest detectable shift.
- `cycle_samples`: do samples rise and fall in a cycle? (autocorrelation over long lags)
- `signed_rank`: do the differences of many hosts lie around 0? (Wilcoxon signed-rank test)
- `centre`: their Hodges-Lehmann estimate and its interval. `adjusted`: Benjamini and Hochberg's
  probabilities of many such tests.

The rank-sum test assumes only equal noise before and after; outliers and coarse counters do no
harm. Formulas: Lehmann, Nonparametrics (1975), chapter 1, with its correction for ties.

Consecutive ticks are correlated, so n ticks are worth fewer. The variance is that of a first-order
autoregression with the lag-1 correlation r of the ranks: (1 + r) / (1 - r) times as large (Bayley
and Hammersley, 1946). r is underestimated by (1 + 3r) / n (Kendall, Biometrika 41, 1954), which is
added back. Since it is an estimate, probabilities are those of Student's distribution with n - 2
degrees of freedom (Wallace's approximation, Annals of Mathematical Statistics 30, 1959).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.fft import irfft, rfft  # here: numpy imports it at its first use, late

from nftop.model.column import Floats
from nftop.model.median import median, quantile, row_medians
from nftop.model.struct import dataclass

# Two-sided, normal: by chance less than once in 10 000, and once in 100. Simulated (the tests do),
# noise that persists, with lag-1 correlations up to 0.98, is a `significant` shift less than once
# in 1000.
SURE_Z, LIKELY_Z = 3.89, 2.58
# Persistence beyond this can't be distinguished from drift in as few ticks as there are.
MOST_PERSISTENCE = 0.9
# On either side so many may be wild.
_WILD_RATIO = 0.05


@dataclass(frozen=True, slots=True)
class Shift:
    """Result of the rank-sum test.

    Attributes:
        z: of the rank sum, positive if those after are larger; 0 if either is empty.
        significant: beyond `SURE_Z`.
        clear: apart from outliers the samples do not overlap, and are further apart than each is
            wide.
    """

    z: float
    significant: bool
    clear: bool


_NONE = Shift(0.0, significant=False, clear=False)


def shift(before: Floats, after: Floats) -> Shift:
    """Compare two samples, float64 (n,) and (m,), each in the order of time."""
    n, m = len(before), len(after)
    if not n or not m:
        return _NONE
    ranks, ties = _ranks(np.concatenate((before, after)))
    total = n + m
    spread = n * m / 12 * ((total + 1) - ties / (total * max(1, total - 1)))
    if spread <= 0:
        return _NONE
    above = float(ranks[n:].sum()) - m * (total + 1) / 2
    # The sum moves in steps, half of one of which is given to chance.
    distance = math.copysign(max(0.0, abs(above) - 0.5), above)
    persistence = _lag1(ranks[:n], ranks[n:])
    inflation = (1 + persistence) / (1 - persistence)
    z = distance / math.sqrt(spread * inflation)
    significant = deviate(abs(z), total - 2) >= SURE_Z
    return Shift(z, significant=significant, clear=_is_clear(before, after))


def persistence_of(before: Floats, after: Floats) -> float:
    """Lag-1 correlation of ranks within two samples, as `shift` corrects for it."""
    if not len(before) or not len(after):
        return 0.0
    ranks, _ = _ranks(np.concatenate((before, after)))
    return _lag1(ranks[: len(before)], ranks[len(before) :])


def deviation(values: Floats) -> float:
    return median(np.abs(values - median(values)))


def _ranks(values: Floats) -> tuple[Floats, float]:
    """Ranks from 1, equal values sharing theirs; and the sum of t^3 - t over runs of t equals."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    upto = np.cumsum(counts)
    middle = upto - (counts - 1) / 2
    sizes = counts.astype(np.float64)
    return middle[inverse], float((sizes**3 - sizes).sum())


def _lag1(before: Floats, after: Floats) -> float:
    """Lag-1 correlation within both samples, 0 to `MOST_PERSISTENCE`, without its bias."""
    along = square = 0.0
    for item in (before, after):
        away = item - item.mean()
        along += float((away[1:] * away[:-1]).sum())
        square += float((away**2).sum())
    if square <= 0:
        return 0.0
    per_side = (len(before) + len(after)) / 2
    seen = along / square
    known = (per_side * seen + 1) / (per_side - 3) if per_side > 3 else seen
    return min(max(known, 0.0), MOST_PERSISTENCE)


def deviate(t: float, freedom: float) -> float:
    """Normal deviate with the same probability as `t` of Student's distribution."""
    freedom = max(freedom, 1.0)
    wide = (8 * freedom + 1) / (8 * freedom + 3)
    return wide * math.sqrt(freedom * math.log1p(t * t / freedom))


def _is_clear(before: Floats, after: Floats) -> bool:
    before, after = _inner(before), _inner(after)
    gap = max(after.min() - before.max(), before.min() - after.max())
    return bool(gap > max(np.ptp(before), np.ptp(after)))


def _inner(values: Floats) -> Floats:
    """A sample without the `_WILD_RATIO` outermost values on either side."""
    wild = int(_WILD_RATIO * len(values))
    return np.sort(values)[wild : len(values) - wild]


# Power of the test. Even fully separated samples are significant only from some count on: the rank
# sum is at most n x m / 2 above its mean, and the variance is widened by the estimated persistence.
# That estimate has a standard error of sqrt((1 - r^2) / N) (Bartlett, 1946), so the required count
# is one at which separated samples are found for all but the 5 % most unlucky estimates.
#
# `least_shift` assumes no distribution of the noise: it shifts the samples against each other until
# the test succeeds. The variance of the rank sum of shifted samples is that of their placements
# (Sen, 1960; DeLong, DeLong and Clarke-Pearson, Biometrics 44, 1988), the standard error of a
# median that of its order statistics. Both are widened by persistence, estimated as unluckily as
# above. One-sided normal deviates: 95 % of estimates of persistence; 90 % of rank sums and of
# medians, both of which must succeed, so that 80 % of tests do at least (the tests simulate it).
_UNLUCKY_Z, _POWER_Z = 1.645, 1.282
# Persistence below so many samples a side is not known at all.
_KNOWN_FROM = 10
# Upper end of the search for a count. With the most persistence 320 a side are enough.
_MOST_SAMPLES = 2000
# Larger samples are represented by so many of their quantiles.
_MOST_QUANTILES = 120
# Halvings of the range of shifts.
_HALVINGS = 12


def known_persistence(before: Floats, after: Floats) -> float:
    """Lag-1 correlation of ranks, rounded so that searches are cached; 0 if unknown."""
    known = min(len(before), len(after)) >= _KNOWN_FROM
    return round(persistence_of(before, after), 2) if known else 0.0


def least_shift(
    before: Floats, after: Floats, least_z: float, floor: float, *, studentized: bool = True
) -> float:
    """The shift between two samples that would be found in 4 of 5 cases, in their unit.

    Args:
        before: float64 (n,), in the order of time, not empty.
        after: float64 (m,), likewise.
        least_z: least significant normal deviate.
        floor: least difference of medians.
        studentized: use Student's distribution, as `Shift.significant` does.
    """
    n, m = len(before), len(after)
    total = n + m
    inflation = _unlucky_inflation(total, known_persistence(before, after))
    least = student(least_z, total - 2) if studentized else least_z
    x, y, pooled = (_quantiles(item) for item in (before, after, np.concatenate((before, after))))

    def needed(p_deviation: float) -> float:
        """Share of pairs in order, above one half, from which the test succeeds."""
        null = math.sqrt((total + 1) * inflation / (12 * n * m))
        return 0.5 / (n * m) + least * null + _POWER_Z * p_deviation * math.sqrt(inflation)

    pairs = [(x, y), (-x[::-1], -y[::-1]), (pooled, pooled)]
    of_ranks = max(_shift_of_ranks(low, high, n, m, needed) for low, high in pairs)
    pairs.append((-pooled[::-1], -pooled[::-1]))
    of_medians = max(_median_error(low, high, n, m, inflation) for low, high in pairs)
    return max(of_ranks, floor + of_medians)


def _shift_of_ranks(
    low: Floats, high: Floats, n: int, m: int, needed: Callable[[float], float]
) -> float:
    """Least shift of sorted `high` above sorted `low` that the test finds."""
    least, most = 0.0, max(0.0, float(low[-1] - high[0]))
    for _ in range(_HALVINGS):
        middle = (least + most) / 2
        of_low = 1 - _share_below(high + middle, low)
        of_high = _share_below(low, high + middle)
        error = math.sqrt(float(of_low.var()) / n + float(of_high.var()) / m)
        enough = float(of_high.mean()) - 0.5 >= needed(error)
        least, most = (least, middle) if enough else (middle, most)
    return most


def _share_below(values: Floats, limits: Floats) -> Floats:
    """Share of sorted values below each limit, equal ones by half."""
    sums = np.searchsorted(values, limits) + np.searchsorted(values, limits, side="right")
    return np.asarray(sums / (2 * len(values)))


def _median_error(low: Floats, high: Floats, n: int, m: int, inflation: float) -> float:
    """Unlucky difference of the medians of equal samples, `low` upwards and `high` downwards."""
    spread_n, spread_m = (_POWER_Z / 2 * math.sqrt(inflation / item) for item in (n, m))
    up = quantile(low, min(0.5 + spread_n, 1.0)) - quantile(low, 0.5)
    down = quantile(high, 0.5) - quantile(high, max(0.5 - spread_m, 0.0))
    return math.hypot(up, down)


def _quantiles(values: Floats) -> Floats:
    """Sorted values, at most `_MOST_QUANTILES` of them."""
    ordered = np.sort(values)
    if len(ordered) <= _MOST_QUANTILES:
        return ordered
    return np.array([quantile(ordered, at) for at in np.linspace(0, 1, _MOST_QUANTILES)])


def student(normal: float, freedom: float) -> float:
    """Inverse of `deviate`."""
    freedom = max(freedom, 1.0)
    wide = (8 * freedom + 1) / (8 * freedom + 3)
    return math.sqrt(freedom * math.expm1((normal / wide) ** 2 / freedom))


def _unlucky_inflation(total: int, persistence: float) -> float:
    """Inflation of the variance for an unlucky estimate of persistence."""
    # With the factor that takes its bias out.
    error = math.sqrt((1 - persistence**2) / total) * (total / 2) / (total / 2 - 3)
    worst = min(persistence + _UNLUCKY_Z * error, MOST_PERSISTENCE)
    return (1 + worst) / (1 - worst)


@lru_cache(maxsize=512)
def lacking_samples(
    n: int, m: int, persistence: float, least_z: float, *, studentized: bool = True
) -> tuple[int, int]:
    """Samples to add to n before and m after until separated ones are found."""

    def finds(n: int, m: int) -> bool:
        return _of_separated(n, m, persistence, studentized=studentized) >= least_z

    if finds(n, m):
        return 0, 0
    even = _first(lambda count: finds(count, count)) or _MOST_SAMPLES
    if n >= even:
        return 0, max((_first(lambda count: finds(n, count)) or even) - m, 0)
    if m >= even:
        return max((_first(lambda count: finds(count, m)) or even) - n, 0), 0
    return even - n, even - m


@lru_cache(maxsize=512)
def needed_after(
    n: int, persistence: float, least_z: float, *, studentized: bool = True
) -> int | None:
    """Samples after a change until separated ones are found, with n before it, or None."""
    return _first(lambda m: _of_separated(n, m, persistence, studentized=studentized) >= least_z)


def _first(finds: Callable[[int], bool]) -> int | None:
    """Smallest count for which the monotonic `finds` is true, or None."""
    low, high = 1, _MOST_SAMPLES
    if not finds(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if finds(middle) else (middle + 1, high)
    return low


def _of_separated(n: int, m: int, persistence: float, *, studentized: bool) -> float:
    """Normal deviate of separated samples for an unlucky estimate of their persistence."""
    total = n + m
    if min(n, m) <= 3:
        return 0.0
    spread = n * m * (total + 1) / 12 * _unlucky_inflation(total, persistence)
    z = (n * m / 2 - 0.5) / math.sqrt(spread)
    return deviate(z, total - 2) if studentized else z


def least_samples(least_z: float, *, studentized: bool = True) -> int:
    """Samples per side from which separated ones are found, without persistence."""
    return lacking_samples(0, 0, 0.0, least_z, studentized=studentized)[0]


# Many hosts, one difference each. Hosts do not depend on each other, so that nothing persists. If
# a change has no effect, each difference is as likely with the other sign: the probability of a sum
# of signed ranks is a count of the 2^n signs (Wilcoxon, Biometrics Bulletin 1, 1945; ties share
# their ranks, and differences of 0 are left out, as Lehmann does). Beyond `_EXACT_HOSTS` it is
# normal.
_EXACT_HOSTS = 25
ALPHA = 0.05


def signed_rank(differences: Floats) -> float:
    """Two-sided probability of so large a sum of signed ranks of float64 (n,); 1 if all are 0."""
    values = differences[differences != 0]
    if not len(values):
        return 1.0
    ranks, ties = _ranks(np.abs(values))
    above, count = float(ranks[values > 0].sum()), len(values)
    if count <= _EXACT_HOSTS:
        ways = _ways(tuple(np.rint(2 * np.sort(ranks)).astype(int).tolist()))
        low = round(2 * min(above, count * (count + 1) / 2 - above))
        return min(1.0, 2 * float(ways[: low + 1].sum()) / 2.0**count)
    spread = math.sqrt(count * (count + 1) * (2 * count + 1) / 24 - ties / 48)
    distance = max(0.0, abs(above - count * (count + 1) / 4) - 0.5)
    return math.erfc(distance / spread / math.sqrt(2))


@lru_cache(maxsize=256)
def _ways(ranks: tuple[int, ...]) -> Floats:
    """By sum of doubled ranks, in how many of all choices of signs the positive ones have it."""
    ways = np.zeros(sum(ranks) + 1)
    ways[0] = 1.0
    for rank in ranks:
        ways[rank:] += ways[: len(ways) - rank].copy()
    return ways


def centre(differences: Floats) -> tuple[float, tuple[float, float] | None]:
    """Hodges-Lehmann estimate of float64 (n,), not empty, and its interval at 1 - `ALPHA`.

    The median of the means of all pairs, each value with itself too; values may be infinite. The
    interval is of the signed ranks without ties; None with fewer than `least_hosts()`.
    """
    count = len(differences)
    rows, columns = np.triu_indices(count)
    with np.errstate(invalid="ignore"):
        means = (differences[rows] + differences[columns]) / 2
    means = np.sort(np.where(np.isnan(means), 0.0, means))  # opposite infinities cancel
    middle = median(means)
    if count <= _EXACT_HOSTS:
        below = np.cumsum(_ways(tuple(range(2, 2 * count + 1, 2)))[::2]) / 2.0**count
        outside = int(np.searchsorted(below, ALPHA / 2, side="right"))
    else:
        spread = math.sqrt(count * (count + 1) * (2 * count + 1) / 24)
        outside = int(count * (count + 1) / 4 - _TWO_SIDED_Z * spread)
    return middle, (float(means[outside - 1]), float(means[-outside])) if outside else None


# The normal deviate of `ALPHA`, two-sided.
_TWO_SIDED_Z = 1.959964


def least_hosts(numbers: float = 1) -> int:
    """Hosts from which one number of so many that were tested can be found: 2 / 2^n is enough."""
    return math.ceil(math.log2(2 * numbers / ALPHA) - 1e-9)


def adjusted(probabilities: Floats) -> Floats:
    """Of float64 (k,): the least rate of false discoveries at which each would be one.

    Benjamini and Hochberg, Journal of the Royal Statistical Society B 57, 1995.
    """
    count = len(probabilities)
    order = np.argsort(probabilities)
    scaled = probabilities[order] * count / np.arange(1, count + 1)
    result = np.empty(count)
    result[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return result


# Cycles. A cycle of period T correlates with itself T samples later and is opposed to itself T / 2
# samples later. Persistent noise does neither beyond its own correlation length, and a single step
# falls off steadily with the lag. So the score of a period is the mean autocorrelation near lag T
# minus that near T / 2, divided by the standard deviation that a first-order autoregression of the
# same lag-1 correlation has (Bartlett, Supplement to the Journal of the Royal Statistical Society
# 8, 1946). About one and a half periods are needed.
#
# A load that is switched off and on again has such a score too. Jumps between levels are the
# differences between the medians of two short runs that the runs before and after do not share.
# Where there are any, the cycle must remain when each level is subtracted, or the jumps must
# continue from begin to end, over several periods.

# Fewer samples or shorter periods are not examined.
LEAST_SAMPLES, _LEAST_PERIOD = 40, 4
# Simulated (the tests do): autoregressions up to 0.98 and single steps pass it in less than 3 % of
# cases, at 60 to 600 samples. From one and a half periods on sines of one or two deviations do in
# more than 90 %, of half a deviation in 75 %. A cleaner one persists as drift does and needs more
# of it: two periods of 300.
_LEAST_SCORE = 4.5
# Lags around a period or its half that are averaged, as a part of it to either side.
_NEAR_LAGS = 10
# A clean cycle has a lag-1 correlation near 1, with which nothing would stand out.
_MOST_PERSISTENCE = 0.93
# A multiple of the period scores about as well: the shortest with so much of the best score counts.
_SHARE_OF_BEST = 0.8
# Samples of a run to either side of a jump, which is so many deviations of neighbouring samples
# high, and so many times as high as what lies between the runs before it or after it.
_RUN, _JUMP_DEVIATIONS, _JUMP_RATIO = 8, 4.0, 2.0
# Jumps are a cycle's where so many periods were seen, and where the longest time without any, in
# periods, is no more than that.
_LEAST_PERIODS, _LONGEST_LEVEL = 3.0, 0.8
# Standard deviation of normal noise by the median absolute difference of neighbours.
_SD_OF_DIFFERENCE = 1.4826 / np.sqrt(2)


def cycle_samples(values: Floats) -> int | None:
    """Period of a cycle in float64 (n,), in samples, or None."""
    period = _period(values)
    jumps = [] if period is None else _jumps(values)
    if period is None or not jumps:
        return period
    ends = [0, *jumps, len(values)]
    lasts = [end - start for start, end in pairwise(ends)]
    go_on = max(lasts) <= _LONGEST_LEVEL * period
    if go_on and len(values) >= _LEAST_PERIODS * period:
        return period
    levels = [median(values[start:end]) for start, end in pairwise(ends)]
    return _period(values - np.repeat(levels, lasts))


def _jumps(values: Floats) -> list[int]:
    """Positions of the first sample of each new level."""
    if len(values) < 4 * _RUN:
        return []
    medians = row_medians(np.lib.stride_tricks.sliding_window_view(values, _RUN))
    # Of the run from each position on, less that of the run before it.
    heights = np.zeros(len(values) + 1)
    heights[_RUN : len(values) - _RUN + 1] = np.abs(medians[_RUN:] - medians[:-_RUN])
    deviation = _SD_OF_DIFFERENCE * median(np.abs(np.diff(values)))
    starts: list[int] = []
    for at in np.argsort(-heights, kind="stable").tolist():
        height = heights[at]
        if height <= _JUMP_DEVIATIONS * deviation or height <= 0:
            break
        earlier, later = (heights[min(max(at + by, 0), len(values))] for by in (-_RUN, _RUN))
        alone = height > _JUMP_RATIO * max(earlier, later)
        if alone and all(abs(at - other) > _RUN for other in starts):
            starts.append(at)
    return sorted(starts)


def _period(values: Floats) -> int | None:
    """The period of the best score, or a fraction of it that scores nearly as well."""
    scores = _scores(values)
    if not len(scores) or scores.max() < _LEAST_SCORE:
        return None
    best = int(scores.argmax())
    least = max(_LEAST_SCORE, _SHARE_OF_BEST * float(scores[best]))
    for divisor in range(best // _LEAST_PERIOD, 1, -1):
        low, high = int(0.9 * best / divisor), round(1.1 * best / divisor)
        low = max(low, _LEAST_PERIOD)
        if high >= low:
            shorter = low + int(scores[low : high + 1].argmax())
            if (
                scores[shorter] >= least
                and scores[shorter] >= scores[shorter - 1 : shorter + 2].max()
            ):
                return shorter
    return best


def _scores(values: Floats) -> Floats:
    """Scores by period in samples, -inf below the least; may be empty."""
    count = len(values)
    if count < LEAST_SAMPLES:
        return np.empty(0)
    lags, longest = np.arange(count), 2 * count // 3
    correlation = _autocorrelation(values)[: longest + 1]
    if not len(correlation):
        return np.empty(0)
    persistence = (count * correlation[1] + 1) / (count - 3)
    persistence = min(max(float(persistence), 0.0), _MOST_PERSISTENCE)
    sums = np.concatenate(([0.0], np.cumsum(correlation)))

    def averages(centre: np.ndarray[tuple[int], np.dtype[np.int64]]) -> tuple[Floats, Floats]:
        """Mean correlation around each lag, and its variance."""
        low = centre - centre // _NEAR_LAGS
        high = np.minimum(centre + centre // _NEAR_LAGS, longest)
        width = (high - low + 1).astype(np.float64)
        squared = (1 + persistence**2) / (1 - persistence**2)
        spread = np.minimum(1.0, (1 + persistence) / (1 - persistence) / width)
        return (sums[high + 1] - sums[low]) / width, squared * spread / (count - centre)

    periods = lags[_LEAST_PERIOD : longest + 1]
    at_period, of_period = averages(periods)
    at_half, of_half = averages(periods // 2)
    scores = (at_period - at_half) / np.sqrt(of_period + of_half)
    return np.concatenate((np.full(_LEAST_PERIOD, -np.inf), scores))


def _autocorrelation(values: Floats) -> Floats:
    """Unbiased, of the ranks of float64 (n,), by lag 0 to n - 1; empty if all values are equal."""
    count = len(values)
    away = _ranks(values)[0] - (count + 1) / 2
    power = np.abs(rfft(away, 2 * count)) ** 2
    products = irfft(power)[:count]
    if products[0] <= 0:
        return np.empty(0)
    return np.asarray(products / (count - np.arange(count)) * count / products[0])
