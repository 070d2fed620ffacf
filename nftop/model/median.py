"""Medians and quantiles, for which numpy takes several times as long, and imports `numpy.ma`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def median(values: Sequence[float] | NDArray[Any]) -> float:
    """Median of numbers; NaN of none, and if one is NaN."""
    if isinstance(values, np.ndarray):
        ordered = np.sort(values, axis=None).tolist()
        has_nan = any(map(math.isnan, ordered[-1:]))  # which comes last
    else:
        ordered = sorted(values)
        has_nan = any(map(math.isnan, ordered))
    if has_nan or not ordered:
        return math.nan
    middle = len(ordered) // 2
    return (float(ordered[middle - (not len(ordered) % 2)]) + float(ordered[middle])) / 2


def row_medians(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Median of each row of (n, m), m at least 1; NaN where one is NaN."""
    ordered = np.sort(values, axis=1)
    middle = ordered.shape[1] // 2
    low = middle - (not ordered.shape[1] % 2)
    return np.where(np.isnan(ordered[:, -1]), np.nan, (ordered[:, low] + ordered[:, middle]) / 2)


def quantile(ordered: Sequence[float] | NDArray[Any], ratio: float) -> float:
    """Quantile of sorted numbers, at least one, by numpy's default method; NaN if the last is."""
    if math.isnan(ordered[-1]):
        return math.nan
    at = (len(ordered) - 1) * ratio
    low = min(int(at), len(ordered) - 2)
    if low < 0:
        return float(ordered[0])
    below, above = float(ordered[low]), float(ordered[low + 1])
    share = at - low
    # Exact at both ends.
    step = above - below
    return above - step * (1 - share) if share >= 0.5 else below + step * share
