"""Usual cost and load of rows: what their numbers are compared with on screen."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from nftop.model.column import Floats
from nftop.model.struct import dataclass, field

# Metrics with a usual value, by row of `UsualTable.values`.
USUAL_METRICS = ("cpp", "busy_cpp", "packets_per_s")
# Time of learning that a usual value is the median of.
USUAL_SPAN_S = 600.0
# Changes up to this ratio of what is usual, or was before, are none.
NEAR = 0.03
# Values inside an open incident are not usual for so long; then they are, and no others.
NEW_NORMAL_AFTER_S = 1800.0


@dataclass(frozen=True, slots=True, eq=False)
class UsualTable:
    """Usual values of n rows.

    Attributes:
        row_of: index by key.
        values: float64 (metrics, n), NaN where nothing is known from before an incident.
    """

    row_of: Mapping[Any, int] = field(default_factory=dict)
    values: Floats = field(default_factory=lambda: np.zeros((len(USUAL_METRICS), 0)))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, UsualTable)
            and self.row_of == other.row_of
            and np.array_equal(self.values, other.values, equal_nan=True)
        )

    __hash__ = None  # type: ignore[assignment]

    def of(self, metric: str, keys: Sequence[Hashable]) -> Floats:
        """float64 (len(keys),), NaN where unknown."""
        values: Floats = self.all_of(keys)[USUAL_METRICS.index(metric)]
        return values

    def all_of(self, keys: Sequence[Hashable]) -> Floats:
        """float64 (metrics, len(keys)), NaN where unknown."""
        rows = np.array([self.row_of.get(key, -1) for key in keys], np.intp)
        if not self.values.shape[1]:
            return np.full((len(USUAL_METRICS), len(rows)), np.nan)
        return np.where(rows >= 0, self.values[:, rows], np.nan)


@dataclass(frozen=True, slots=True)
class Usual:
    """Usual values of pollers by CPU, and of network functions by `NfRow.key`."""

    cpus: UsualTable = field(default_factory=UsualTable)
    nfs: UsualTable = field(default_factory=UsualTable)
