"""Whether two sources tell different numbers of the same thing, or only of different moments."""

from __future__ import annotations

import numpy as np

from nftop.model.column import Bools, Floats

READINGS = 5
_RATIO = 0.05


def taken(before: Floats | None, first: Floats, second: Floats) -> Floats:
    """The latest readings of two sources, float64 (at most READINGS, 2, n), with one more.

    `first` and `second` are float64 (n,), NaN where there is no number. After a change of rows it
    begins anew.
    """
    pair = np.array([[first, second]])
    if before is None or before.shape[2] != pair.shape[2]:
        return pair
    return np.concatenate([before[1 - READINGS :], pair])


def differ(readings: Floats, pace_s: float) -> Bools:
    """bool (n,): rows of which two sources tell different numbers; `readings` as `taken` has them.

    Both are read every `pace_s` seconds, the first of all that time, the second of one second that
    ends up to one before. So where the pace is a second their sums over READINGS readings differ by
    what is in a part of a second at either end: by no more than the largest of those numbers less
    the smallest. The further the pace is from a second, the more of that they may differ by: with
    the square of how often the one time is in the other, READINGS times at most. (The square is
    chosen so that noise of 5 % a second gives an alarm in fewer than 1 of 1000 readings.) Beyond
    that they must differ by 5 %, and in each reading the same one must be the larger.
    """
    if len(readings) < READINGS:
        return np.zeros(readings.shape[2], dtype=np.bool_)
    first, second = readings[:, 0], readings[:, 1]
    larger, smaller = np.all(first > second, axis=0), np.all(first < second, axis=0)
    pace_s = max(pace_s, 1e-3)
    often = np.clip(max(pace_s, 1 / pace_s) ** 2, 1, READINGS)
    slack = often * np.ptp(readings, axis=0).max(axis=0)
    sums = readings.sum(axis=0)
    # A NaN makes both comparisons above, and so the result, false.
    with np.errstate(invalid="ignore"):
        far = np.abs(sums[0] - sums[1]) - slack > _RATIO * np.abs(sums).max(axis=0)
    apart: Bools = (larger | smaller) & far
    return apart
