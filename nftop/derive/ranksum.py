"""Whether two samples differ by more than their noise: the Wilcoxon-Mann-Whitney rank-sum test.

It asks nothing of the noise but that it is the same before and after, so that a few wild ticks
and coarse counters do no harm. Formulas: Lehmann, Nonparametrics (1975), chapter 1, with its
correction for ties.

Ticks follow each other and noise persists, which makes n ticks worth fewer. The variance is that
of a first-order autoregression with the lag-1 correlation of the ranks: (1 + r) / (1 - r) times as
large (Bayley and Hammersley, 1946).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nftop.model.column import Floats

# Two-sided, normal: by chance less than once in 10 000, and once in 100.
SURE_Z, LIKELY_Z = 3.89, 2.58
# Persistence beyond this can't be told from drift in as few ticks as there are.
_MOST_PERSISTENCE = 0.9
# On either side so many may be wild.
_WILD_RATIO = 0.05


@dataclass(frozen=True, slots=True)
class Shift:
    """How two samples lie to each other.

    Attributes:
        z: of the rank sum, positive where those after are larger; 0 where either is empty.
        apart: each of either, a few wild ones aside, is beyond all of the other by more than
            either is wide, which no noise that wide does.
    """

    z: float
    apart: bool


def shift(before: Floats, after: Floats) -> Shift:
    """Compare two samples, float64 (n,) and (m,), each in the order of time."""
    n, m = len(before), len(after)
    if not n or not m:
        return Shift(0.0, apart=False)
    ranks, ties = _ranks(np.concatenate((before, after)))
    total = n + m
    spread = n * m / 12 * ((total + 1) - ties / (total * max(1, total - 1)))
    if spread <= 0:
        return Shift(0.0, apart=False)
    above = float(ranks[n:].sum()) - m * (total + 1) / 2
    # The sum moves in steps, half of one of which is given to chance.
    distance = math.copysign(max(0.0, abs(above) - 0.5), above)
    persistence = _persistence(ranks[:n], ranks[n:])
    inflation = (1 + persistence) / (1 - persistence)
    return Shift(distance / math.sqrt(spread * inflation), _apart(before, after))


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


def _persistence(before: Floats, after: Floats) -> float:
    """Lag-1 correlation within both samples, 0 to `_MOST_PERSISTENCE`."""
    along = square = 0.0
    for each in (before, after):
        away = each - each.mean()
        along += float((away[1:] * away[:-1]).sum())
        square += float((away**2).sum())
    return min(max(along / square, 0.0), _MOST_PERSISTENCE) if square > 0 else 0.0


def _apart(before: Floats, after: Floats) -> bool:
    before, after = _inner(before), _inner(after)
    gap = max(after.min() - before.max(), before.min() - after.max())
    return bool(gap > max(np.ptp(before), np.ptp(after)))


def _inner(values: Floats) -> Floats:
    """A sample without its wildest on either side, so few that small ones are left whole."""
    wild = int(_WILD_RATIO * len(values))
    return np.sort(values)[wild : len(values) - wild]
