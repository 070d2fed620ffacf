"""Whether samples rise and fall in a cycle, by their autocorrelation over long lags.

A cycle of period T correlates with itself T samples later and is opposed to itself T / 2 samples
later. Noise that persists does neither beyond its own correlation length, and a single step falls
off steadily with the lag. So the score of a period is the mean autocorrelation around lag T less
that around T / 2, by the standard deviation that a first-order autoregression of the same lag-1
correlation gives it (Bartlett, Supplement to the Journal of the Royal Statistical Society 8, 1946).
About one and a half periods have to be seen.
"""

from __future__ import annotations

import numpy as np

from nftop.derive.ranksum import ranks_of
from nftop.model.column import Floats

# Fewer samples or shorter periods are not looked at.
LEAST_SAMPLES, _LEAST_PERIOD = 40, 16
# Simulated (the tests do): autoregressions up to 0.98 and single steps pass it in less than 3 % of
# cases, at 60 to 600 samples. From one and a half periods on sines of one or two deviations do in
# more than 90 %, of half a deviation in 75 %. A cleaner one persists as drift does and needs more
# of it: two periods of 300.
_LEAST_SCORE = 4.5
# Lags around a period or its half that are averaged, as a part of it to either side.
_BESIDE = 10
# A clean cycle has a lag-1 correlation near 1, with which nothing would stand out.
_MOST_PERSISTENCE = 0.95


def cycle_samples(values: Floats) -> int | None:
    """The period of a cycle in float64 (n,), in samples; None where none is seen."""
    count = len(values)
    if count < LEAST_SAMPLES:
        return None
    lags, longest = np.arange(count), 2 * count // 3
    correlation = _autocorrelation(values)[: longest + 1]
    if not len(correlation):
        return None
    persistence = (count * correlation[1] + 1) / (count - 3)
    persistence = min(max(float(persistence), 0.0), _MOST_PERSISTENCE)
    sums = np.concatenate(([0.0], np.cumsum(correlation)))

    def around(centre: np.ndarray[tuple[int], np.dtype[np.int64]]) -> tuple[Floats, Floats]:
        """Mean correlation around each lag, and its variance."""
        low = centre - centre // _BESIDE
        high = np.minimum(centre + centre // _BESIDE, longest)
        width = (high - low + 1).astype(np.float64)
        squared = (1 + persistence**2) / (1 - persistence**2)
        spread = np.minimum(1.0, (1 + persistence) / (1 - persistence) / width)
        return (sums[high + 1] - sums[low]) / width, squared * spread / (count - centre)

    periods = lags[_LEAST_PERIOD : longest + 1]
    at_period, of_period = around(periods)
    at_half, of_half = around(periods // 2)
    scores = (at_period - at_half) / np.sqrt(of_period + of_half)
    best = int(scores.argmax())
    return int(periods[best]) if scores[best] >= _LEAST_SCORE else None


def _autocorrelation(values: Floats) -> Floats:
    """Of the ranks of float64 (n,), by lag 0 to n - 1, free of the bias of fewer pairs.

    Empty where all values are equal.
    """
    count = len(values)
    away = ranks_of(values) - (count + 1) / 2
    power = np.abs(np.fft.rfft(away, 2 * count)) ** 2
    products = np.fft.irfft(power)[:count]
    if products[0] <= 0:
        return np.empty(0)
    return np.asarray(products / (count - np.arange(count)) * count / products[0])
