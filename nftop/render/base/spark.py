"""Blocks and scales of graphs: from zero to a round number above the largest value."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from nftop.model.metrics.metric import Unit

BLOCKS = "▁▂▃▄▅▆▇█"

# Few steps, so that the scale seldom changes.
_STEPS = (1, 2, 3, 5, 10)
_SPANS_S = (60, 300, 900, 3600, 4 * 3600, 24 * 3600)


def scale_top(values: NDArray[np.float32], unit: Unit) -> float:
    """End of the scale: the smallest round number at or above all values; 1 without any.

    For shares it is at least 1.
    """
    least = 1.0 if unit is Unit.RATIO else 0.0
    largest = float(np.max(values, initial=least, where=np.isfinite(values)))
    if largest <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(largest))
    # Tolerance for float32.
    return next((step * power for step in _STEPS if largest <= step * power * (1 + 1e-6)), largest)


def span_for(points: int, interval_s: float) -> float:
    """Seconds shown by so many points: a round time of at least one tick per point."""
    return next((float(span) for span in _SPANS_S if span >= points * interval_s), _SPANS_S[-1])


def span_name(span_s: float) -> str:
    """`5 min`."""
    for seconds, unit in ((3600, "h"), (60, "min")):
        if span_s >= seconds:
            return f"{span_s / seconds:g} {unit}"
    return f"{span_s:g} s"
