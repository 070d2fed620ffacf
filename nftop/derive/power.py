"""What the rank-sum test can find: how many samples it needs, and the smallest difference it sees.

The test calls a difference sure from a normal deviate on (`ranksum`). Even samples of which all of
one side are above all of the other reach it only from some count on, since the rank sum has an
upper end, n x m / 2 above its mean, and the variance is widened by the persistence that is
estimated. That estimate is itself uncertain: its standard error is sqrt((1 - r^2) / N) (Bartlett,
1946). So the count asked for is one at which separated samples are found sure for all but the 5 %
most unlucky estimates.

The smallest difference that would have been seen is that of normal noise of the samples' spread at
which the test succeeds in 80 % of cases (Noether, Journal of the American Statistical Association
82, 1987).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from nftop.derive.ranksum import MOST_PERSISTENCE, deviate, deviation, persistence_of
from nftop.model.column import Floats

# One-sided normal deviates: 95 % of estimates of persistence, 80 % of tests.
_UNLUCKY_Z, _POWER_Z = 1.645, 0.842
# Standard deviation of normal noise by its median absolute deviation.
_SD_OF_MAD = 1.4826
# Persistence below so many samples a side is not known at all.
_KNOWN_FROM = 10
# More samples than this nobody waits for; with the most persistence even they are not enough.
_MOST_SAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Power:
    """What the test could have found in two samples.

    Attributes:
        lacking_before, lacking_after: samples that are lacking on each side until fully separated
            ones would be called sure; None where no number is enough.
        detectable: the smallest difference that would have been seen, in the samples' unit; None
            while samples are lacking.
    """

    lacking_before: int | None
    lacking_after: int | None
    detectable: float | None

    @property
    def is_enough(self) -> bool:
        """Whether separated samples would be found."""
        return self.lacking_before == 0 and self.lacking_after == 0


def power_of(before: Floats, after: Floats, least_z: float, *, studentized: bool = True) -> Power:
    """Of two samples, float64 (n,) and (m,), in the order of time.

    Args:
        before: those before.
        after: those after.
        least_z: the normal deviate from which on a difference is sure.
        studentized: whether it is compared with Student's distribution, as `Shift.sure` is.
    """
    n, m = len(before), len(after)
    known = min(n, m) >= _KNOWN_FROM
    # In hundredths, so that the search is remembered.
    persistence = round(persistence_of(before, after), 2) if known else 0.0
    lacking = lacking_samples(n, m, persistence, least_z, studentized=studentized)
    if lacking != (0, 0):
        return Power(*lacking, None)
    spread = _SD_OF_MAD * max(deviation(before), deviation(after))
    inflation = (1 + persistence) / (1 - persistence)
    above = (least_z + _POWER_Z) * math.sqrt((n + m + 1) * inflation / (12 * n * m))
    # Beyond this samples are as good as separated.
    chance = min(0.5 + above, 0.999)
    return Power(0, 0, math.sqrt(2) * spread * _normal_quantile(chance))


@lru_cache(maxsize=512)
def lacking_samples(
    n: int, m: int, persistence: float, least_z: float, *, studentized: bool = True
) -> tuple[int | None, int | None]:
    """How many samples n before and m after lack until separated ones would be found; None: any."""

    def finds(n: int, m: int) -> bool:
        return _of_separated(n, m, persistence, studentized=studentized) >= least_z

    if finds(n, m):
        return 0, 0
    even = _first(lambda count: finds(count, count))
    if even is None:
        return None, None
    if n >= even:
        after = _first(lambda count: finds(n, count))
        return 0, even - m if after is None else max(after - m, 0)
    if m >= even:
        before = _first(lambda count: finds(count, m))
        return even - n if before is None else max(before - n, 0), 0
    return even - n, even - m


def _first(finds: Callable[[int], bool]) -> int | None:
    """The smallest count for which `finds` is true, which then stays so."""
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
    # As `ranksum` estimates it, with the factor that takes its bias out.
    error = math.sqrt((1 - persistence**2) / total) * (total / 2) / (total / 2 - 3)
    worst = min(persistence + _UNLUCKY_Z * error, MOST_PERSISTENCE)
    spread = n * m * (total + 1) / 12 * (1 + worst) / (1 - worst)
    z = (n * m / 2 - 0.5) / math.sqrt(spread)
    return deviate(z, total - 2) if studentized else z


def _normal_quantile(probability: float) -> float:
    """The normal deviate below which a share of 0.5 to 0.999 lies, by bisection."""
    low, high = 0.0, 4.0
    for _ in range(40):
        middle = (low + high) / 2
        below = (1 + math.erf(middle / math.sqrt(2))) / 2 < probability
        low, high = (middle, high) if below else (low, middle)
    return (low + high) / 2


def least_samples(least_z: float, *, studentized: bool = True) -> int:
    """Samples a side from which on separated ones are found, where noise does not persist."""
    return lacking_samples(0, 0, 0.0, least_z, studentized=studentized)[0] or _MOST_SAMPLES
