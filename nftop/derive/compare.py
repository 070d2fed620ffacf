"""One metric before and after a change, and the word for what lies between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from nftop.derive.ranksum import LIKELY_Z, deviation, median, shift
from nftop.model.column import Floats
from nftop.model.metric import Metric
from nftop.model.reading import Missing, Reading, Reason

# Fewer can't be told from chance; with so many that show nothing there is nothing to wait for.
LEAST_SAMPLES, ENOUGH_SAMPLES = 10, 20
# So many more at a time are looked at for whether they are of the same level.
_STEP = 15
# What is less is of no use to anybody, however sure.
LEAST_RATIO = 0.01
# From here on a change is written as a multiple.
_MANIFOLD, _MOST_MANIFOLD = 9.0, 999
# It is looked at every tick, and chance has so many more of them: simulated, the first z to pass
# this one in two minutes of noise that persists (lag-1 correlations up to 0.95) does so in less
# than 1 of 200 cases. (Measured before `ranksum` took the bias out of persistence, which makes it
# rarer; 3.89, as for one look, did so in 1 of 60.)
_LOOKED_AT_Z = 5.0
_RULE = (
    f"a difference is {LEAST_RATIO:.0%} or more that noise shows {{}} (rank sums, made wider where "
    "noise persists), or samples further apart than they are spread"
)
# For legends, what the words rest on: of one look, and of a card that is judged anew every tick.
RULE = _RULE.format("in less than 1 of 1000 cases, of 10 000 where it does not persist")
RULE_EVERY_TICK = _RULE.format("at any tick after less than 1 of 200 changes")

Word: TypeAlias = Literal[
    "better",
    "worse",
    "more",  # or less, of what is neither good nor bad
    "less",
    "no difference",
    "settling",  # the time that is left out is not over
    "too few samples",
    "inconclusive",
    "no number",
]
_NONE = Missing(Reason.UNDEFINED, "there is no sample of it")
_FROM_NOTHING = Missing(Reason.UNDEFINED, "it was 0 before")


@dataclass(frozen=True, slots=True)
class Compared:
    """One metric before and after.

    Attributes:
        metric: of the catalogue.
        before, after: medians, or why there is none.
        change_ratio: after / before - 1; UNDEFINED where `before` is 0 or either is missing.
        n_before, n_after: how many samples.
        spread_before, spread_after: median absolute deviations, in the metric's unit.
        word: what it comes to. why: the reason of a word that needs one; else "".
        bounds: of which side the number is an upper bound of what a packet costs.
    """

    metric: Metric
    before: Reading
    after: Reading
    change_ratio: Reading
    n_before: int
    n_after: int
    spread_before: Reading
    spread_after: Reading
    word: Word
    why: str = ""
    bounds: tuple[bool, bool] = (False, False)


def compared(
    metric: Metric, before: Floats, after: Floats, why: Missing, *, over: bool
) -> Compared:
    """Two samples, float64 (n,) and (m,), in the order of time.

    Args:
        metric: what they are of.
        before: those from before the change.
        after: those from after it.
        why: what to say where there is no sample; WARMING where there will be some.
        over: there will be no more of those after.
    """
    middles = [median(each) if len(each) else why for each in (before, after)]
    word = _word(metric, before, after, why, over=over)
    spreads: list[Reading] = [deviation(each) if len(each) else _NONE for each in (before, after)]
    return Compared(
        metric=metric,
        before=middles[0],
        after=middles[1],
        change_ratio=_ratio(middles[0], middles[1]),
        n_before=len(before),
        n_after=len(after),
        spread_before=spreads[0],
        spread_after=spreads[1],
        word=word,
        why=why.sentence if word == "no number" else "",
    )


def steady(before: Floats) -> Floats:
    """The last samples of those before a change that are of one level, in the order of time.

    What is compared is what was there when the change was made: where a load began a minute before
    it, what was before that says nothing.
    """
    base = before[-_STEP:]
    kept = len(base)
    while kept + LEAST_SAMPLES <= len(before):
        older = before[-(kept + _STEP) : -kept]
        if _is_elsewhere(older, base) or abs(shift(older, before[-kept:]).z) >= LIKELY_Z:
            break
        kept += len(older)
    return before[len(before) - kept :]


def _is_elsewhere(older: Floats, base: Floats) -> bool:
    """Whether older samples, but for a wild one, are further from the last than those are wide.

    Ranks alone don't tell where noise is slow, since samples that persist weigh little.
    """
    low, high = float(base.min()), float(base.max())
    away = np.maximum(low - older, older - high)
    return int((away > max(high - low, LEAST_RATIO * abs(median(base)))).sum()) > 1


def percent(ratio: float) -> str:
    """A change as it is written, in 7 cells: `-12.0%`, `x50`; what is not nothing never as nothing.

    A ratio is at least -1.
    """
    if ratio >= _MANIFOLD:
        return f"x{ratio + 1:.3g}" if ratio + 1 < _MOST_MANIFOLD else f">x{_MOST_MANIFOLD}"
    # What is short of all is not all.
    text = f"{ratio:+.1%}" if ratio <= -1 else f"{max(ratio, -0.999):+.1%}"
    if text.strip("+-") != "0.0%":
        return text
    return "0%" if ratio == 0 else f"{text[0]}0+%"


def moved(before: Floats, after: Floats) -> float | None:
    """By which share it moved where that is more than its noise; None where it is not.

    More easily said than a difference: what it speaks against should not be compared.
    """
    if min(len(before), len(after)) < LEAST_SAMPLES:
        return None
    found = shift(before, after)
    ratio = _ratio(median(before), median(after))
    if isinstance(ratio, Missing) or abs(ratio) < LEAST_RATIO:
        return None
    return ratio if abs(found.z) >= LIKELY_Z or found.clear else None


def _ratio(before: Reading, after: Reading) -> Reading:
    if isinstance(before, Missing) or isinstance(after, Missing):
        return _NONE
    return after / before - 1 if before else _FROM_NOTHING


def _word(metric: Metric, before: Floats, after: Floats, why: Missing, *, over: bool) -> Word:
    n, m = len(before), len(after)
    if not m and (not n or why.reason is not Reason.WARMING):
        return "no number"
    if min(n, m) < LEAST_SAMPLES:
        return "too few samples"
    found = shift(before, after)
    was, now = median(before), median(after)
    enough = abs(now - was) >= LEAST_RATIO * abs(was) and now != was
    sure = found.sure if over else abs(found.z) >= _LOOKED_AT_Z
    if enough and (sure or found.clear):
        up = now > was
        if metric.good is None:
            return "more" if up else "less"
        return "better" if up == (metric.good == "high") else "worse"
    return "no difference" if over or m >= ENOUGH_SAMPLES else "too few samples"
