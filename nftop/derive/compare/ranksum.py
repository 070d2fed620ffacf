"""Whether two samples differ by more than their noise: the Wilcoxon-Mann-Whitney rank-sum test.

It asks nothing of the noise but that it is the same before and after, so that a few wild ticks
and coarse counters do no harm. Formulas: Lehmann, Nonparametrics (1975), chapter 1, with its
correction for ties.

Ticks follow each other and noise persists, which makes n ticks worth fewer. The variance is that
of a first-order autoregression with the lag-1 correlation of the ranks: (1 + r) / (1 - r) times as
large (Bayley and Hammersley, 1946). In n samples r is seen too small, by (1 + 3r) / n (Kendall,
Biometrika 41, 1954), which is added again; and since it is only estimated, chance is that of
Student's distribution with n - 2 degrees of freedom and not the normal one (by Wallace's
approximation, Annals of Mathematical Statistics 30, 1959).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nftop.model.column import Floats

# Two-sided, normal: by chance less than once in 10 000, and once in 100. Simulated (the tests do),
# noise that persists, with lag-1 correlations up to 0.98, is `sure` to be a shift less than once in
# 1000.
SURE_Z, LIKELY_Z = 3.89, 2.58
# Persistence beyond this can't be told from drift in as few ticks as there are.
MOST_PERSISTENCE = 0.9
# On either side so many may be wild.
_WILD_RATIO = 0.05


@dataclass(frozen=True, slots=True)
class Shift:
    """How two samples lie to each other.

    Attributes:
        z: of the rank sum, positive where those after are larger; 0 where either is empty.
        sure: chance does that less often than `SURE_Z` says.
        clear: each of either, a few wild ones aside, is beyond all of the other by more than
            either is wide, which no noise that wide does.
    """

    z: float
    sure: bool
    clear: bool


_NONE = Shift(0.0, sure=False, clear=False)


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
    sure = deviate(abs(z), total - 2) >= SURE_Z
    return Shift(z, sure=sure, clear=_is_clear(before, after))


def persistence_of(before: Floats, after: Floats) -> float:
    """Lag-1 correlation of ranks within two samples, as `shift` corrects for it."""
    if not len(before) or not len(after):
        return 0.0
    ranks, _ = _ranks(np.concatenate((before, after)))
    return _lag1(ranks[: len(before)], ranks[len(before) :])


def ranks_of(values: Floats) -> Floats:
    """Ranks from 1, equal values sharing theirs, float64 (n,)."""
    return _ranks(values)[0]


def median(values: Floats) -> float:
    """The middle of a sample that is not empty."""
    return float(np.median(values))


def deviation(values: Floats) -> float:
    """The median absolute deviation from the median."""
    return float(np.median(np.abs(values - np.median(values))))


def _ranks(values: Floats) -> tuple[Floats, float]:
    """Ranks from 1, equal values sharing theirs; and the sum of t^3 - t over runs of t equals."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    upto = np.cumsum(counts)
    middle = upto - (counts - 1) / 2
    sizes = counts.astype(np.float64)
    return middle[place], float((sizes**3 - sizes).sum())


def _lag1(before: Floats, after: Floats) -> float:
    """Lag-1 correlation within both samples, 0 to `MOST_PERSISTENCE`, without its bias."""
    along = square = 0.0
    for item in (before, after):
        away = item - item.mean()
        along += float((away[1:] * away[:-1]).sum())
        square += float((away**2).sum())
    if square <= 0:
        return 0.0
    each_has = (len(before) + len(after)) / 2
    seen = along / square
    known = (each_has * seen + 1) / (each_has - 3) if each_has > 3 else seen
    return min(max(known, 0.0), MOST_PERSISTENCE)


def deviate(t: float, freedom: float) -> float:
    """The normal deviate that is as rare as `t` of Student's distribution."""
    freedom = max(freedom, 1.0)
    wide = (8 * freedom + 1) / (8 * freedom + 3)
    return wide * math.sqrt(freedom * math.log1p(t * t / freedom))


def _is_clear(before: Floats, after: Floats) -> bool:
    before, after = _inner(before), _inner(after)
    gap = max(after.min() - before.max(), before.min() - after.max())
    return bool(gap > max(np.ptp(before), np.ptp(after)))


def _inner(values: Floats) -> Floats:
    """A sample without its wildest on either side, so few that small ones are left whole."""
    wild = int(_WILD_RATIO * len(values))
    return np.sort(values)[wild : len(values) - wild]
