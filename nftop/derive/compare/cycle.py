"""Whether samples rise and fall in a cycle, by their autocorrelation over long lags.

A cycle of period T correlates with itself T samples later and is opposed to itself T / 2 samples
later. Noise that persists does neither beyond its own correlation length, and a single step falls
off steadily with the lag. So the score of a period is the mean autocorrelation around lag T less
that around T / 2, by the standard deviation that a first-order autoregression of the same lag-1
correlation gives it (Bartlett, Supplement to the Journal of the Royal Statistical Society 8, 1946).
About one and a half periods have to be seen.

A load that is switched off and on again has such a score too. Jumps between levels are recognised
as differences between the medians of two short runs that the runs before and after do not share.
Where there are any, the cycle must remain when each level is subtracted, or the jumps must go on
from begin to end, over several periods.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from nftop.derive.compare.ranksum import ranks_of
from nftop.model.column import Floats

# Fewer samples or shorter periods are not examined.
LEAST_SAMPLES, _LEAST_PERIOD = 40, 4
# Simulated (the tests do): autoregressions up to 0.98 and single steps pass it in less than 3 % of
# cases, at 60 to 600 samples. From one and a half periods on sines of one or two deviations do in
# more than 90 %, of half a deviation in 75 %. A cleaner one persists as drift does and needs more
# of it: two periods of 300.
_LEAST_SCORE = 4.5
# Lags around a period or its half that are averaged, as a part of it to either side.
_BESIDE = 10
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
    """The period of a cycle in float64 (n,), in samples; None where none is seen."""
    period = _period(values)
    jumps = [] if period is None else _jumps(values)
    if period is None or not jumps:
        return period
    ends = [0, *jumps, len(values)]
    lasts = [end - start for start, end in pairwise(ends)]
    go_on = max(lasts) <= _LONGEST_LEVEL * period
    if go_on and len(values) >= _LEAST_PERIODS * period:
        return period
    levels = [np.median(values[start:end]) for start, end in pairwise(ends)]
    return _period(values - np.repeat(levels, lasts))


def _jumps(values: Floats) -> list[int]:
    """Where one level ends and another begins, as positions of the first sample behind."""
    if len(values) < 4 * _RUN:
        return []
    medians = np.median(np.lib.stride_tricks.sliding_window_view(values, _RUN), axis=1)
    # Of the run from each position on, less that of the run before it.
    heights = np.zeros(len(values) + 1)
    heights[_RUN : len(values) - _RUN + 1] = np.abs(medians[_RUN:] - medians[:-_RUN])
    deviation = _SD_OF_DIFFERENCE * float(np.median(np.abs(np.diff(values))))
    found: list[int] = []
    for at in np.argsort(-heights, kind="stable").tolist():
        height = heights[at]
        if height <= _JUMP_DEVIATIONS * deviation or height <= 0:
            break
        earlier, later = (heights[min(max(at + by, 0), len(values))] for by in (-_RUN, _RUN))
        alone = height > _JUMP_RATIO * max(earlier, later)
        if alone and all(abs(at - other) > _RUN for other in found):
            found.append(at)
    return sorted(found)


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
    """Scores by period in samples, -inf below the least; empty where there are none."""
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
    return np.concatenate((np.full(_LEAST_PERIOD, -np.inf), scores))


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
