"""How many samples the rank-sum test needs, and the smallest difference it finds.

The test calls a difference sure from a normal deviate on (`ranksum`). Even samples of which all of
one side are above all of the other reach it only from some count on, since the rank sum has an
upper end, n x m / 2 above its mean, and the variance is widened by the persistence that is
estimated. That estimate is itself uncertain: its standard error is sqrt((1 - r^2) / N) (Bartlett,
1946). So the count required is one at which separated samples are found for all but the 5 % most
unlucky estimates.

The smallest difference that would have been found assumes no distribution of the noise: the samples
themselves are shifted against each other, and the shift at which the test succeeds is the result.
The variance of the rank sum of shifted samples is that of their placements (Sen, 1960; DeLong,
DeLong and Clarke-Pearson, Biometrics 44, 1988), and the standard error of a median that of its
order statistics. Both are widened by persistence, estimated as unluckily as above.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from nftop.derive.compare.ranksum import MOST_PERSISTENCE, deviate, persistence_of
from nftop.model.column import Floats

# One-sided normal deviates: 95 % of estimates of persistence; 90 % of rank sums and of medians,
# both of which must succeed, so that 80 % of tests do at least (the tests simulate it).
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
    """Lag-1 correlation of ranks in hundredths, so that searches are cached; 0 where unknown."""
    known = min(len(before), len(after)) >= _KNOWN_FROM
    return round(persistence_of(before, after), 2) if known else 0.0


def least_shift(
    before: Floats, after: Floats, least_z: float, floor: float, *, studentized: bool = True
) -> float:
    """The shift between two samples that would have been found in 4 of 5 cases, in their unit.

    Args:
        before: float64 (n,), in the order of time, not empty.
        after: float64 (m,), likewise.
        least_z: the normal deviate from which on a difference is sure.
        floor: medians must differ by so much too.
        studentized: whether it is compared with Student's distribution, as `Shift.sure` is.
    """
    n, m = len(before), len(after)
    total = n + m
    inflation = _unlucky_inflation(total, known_persistence(before, after))
    least = _student(least_z, total - 2) if studentized else least_z
    x, y, pooled = (_quantiles(item) for item in (before, after, np.concatenate((before, after))))

    def needed(p_deviation: float) -> float:
        """The share of pairs in order, above one half, at which the test succeeds."""
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
    """How far `high` must be moved up until its ranks are found to be higher. Both are sorted."""
    least, most = 0.0, max(0.0, float(low[-1] - high[0]))
    for _ in range(_HALVINGS):
        middle = (least + most) / 2
        of_low = 1 - _share_below(high + middle, low)
        of_high = _share_below(low, high + middle)
        error = math.sqrt(float(of_low.var()) / n + float(of_high.var()) / m)
        found = float(of_high.mean()) - 0.5 >= needed(error)
        least, most = (least, middle) if found else (middle, most)
    return most


def _share_below(values: Floats, limits: Floats) -> Floats:
    """Share of sorted values below each limit, equal ones by half."""
    sums = np.searchsorted(values, limits) + np.searchsorted(values, limits, side="right")
    return np.asarray(sums / (2 * len(values)))


def _median_error(low: Floats, high: Floats, n: int, m: int, inflation: float) -> float:
    """How far the medians of equal samples unluckily differ, `low` upwards and `high` downwards."""
    spread_n, spread_m = (_POWER_Z / 2 * math.sqrt(inflation / item) for item in (n, m))
    up = np.quantile(low, min(0.5 + spread_n, 1.0)) - np.quantile(low, 0.5)
    down = np.quantile(high, 0.5) - np.quantile(high, max(0.5 - spread_m, 0.0))
    return math.hypot(float(up), float(down))


def _quantiles(values: Floats) -> Floats:
    """Sorted values, at most `_MOST_QUANTILES` of them."""
    ordered = np.sort(values)
    if len(ordered) <= _MOST_QUANTILES:
        return ordered
    return np.asarray(np.quantile(ordered, np.linspace(0, 1, _MOST_QUANTILES)))


def _student(normal: float, freedom: float) -> float:
    """The deviate of Student's distribution that `deviate` turns into this normal one."""
    freedom = max(freedom, 1.0)
    wide = (8 * freedom + 1) / (8 * freedom + 3)
    return math.sqrt(freedom * math.expm1((normal / wide) ** 2 / freedom))


def _unlucky_inflation(total: int, persistence: float) -> float:
    """Of the variance, for an estimate of persistence that is too high, as `ranksum` gives it."""
    # With the factor that takes its bias out.
    error = math.sqrt((1 - persistence**2) / total) * (total / 2) / (total / 2 - 3)
    worst = min(persistence + _UNLUCKY_Z * error, MOST_PERSISTENCE)
    return (1 + worst) / (1 - worst)


@lru_cache(maxsize=512)
def lacking_samples(
    n: int, m: int, persistence: float, least_z: float, *, studentized: bool = True
) -> tuple[int, int]:
    """How many samples must be added to n before and m after until separated ones are found."""

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
    """Samples after a change at which separated ones are found, with n before it; None: never."""
    return _first(lambda m: _of_separated(n, m, persistence, studentized=studentized) >= least_z)


def _first(finds: Callable[[int], bool]) -> int | None:
    """The smallest count for which `finds` is true, which then stays so; None up to the limit."""
    low, high = 1, _MOST_SAMPLES
    if not finds(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if finds(middle) else (middle + 1, high)
    return low


def _of_separated(n: int, m: int, persistence: float, *, studentized: bool) -> float:
    """The normal deviate of separated samples for an unlucky estimate of their persistence."""
    total = n + m
    if min(n, m) <= 3:
        return 0.0
    spread = n * m * (total + 1) / 12 * _unlucky_inflation(total, persistence)
    z = (n * m / 2 - 0.5) / math.sqrt(spread)
    return deviate(z, total - 2) if studentized else z


def least_samples(least_z: float, *, studentized: bool = True) -> int:
    """Samples a side from which on separated ones are found, where noise does not persist."""
    return lacking_samples(0, 0, 0.0, least_z, studentized=studentized)[0]
