"""One metric before and after a change, and the word for the difference."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from nftop.derive.compare.ranksum import (
    LIKELY_Z,
    SURE_Z,
    cycle_samples,
    deviation,
    known_persistence,
    lacking_samples,
    least_samples,
    least_shift,
    needed_after,
    shift,
)
from nftop.model.column import Floats
from nftop.model.median import median
from nftop.model.metrics.metric import Metric
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.struct import dataclass, replace

# Fewer samples are not compared. "No difference" needs a computed number.
LEAST_SAMPLES = 10
# Samples added per step in the search for the last level.
_STEP = 15
# Fewer samples are not a level.
_STEP_LEAST = 5
# Smaller differences are irrelevant, however significant.
LEAST_RATIO = 0.01
# From this ratio on a change is shown as a multiple.
_MANIFOLD, _MOST_MANIFOLD = 9.0, 999
# Limit for a test that is repeated every tick. Simulated: z exceeds it within two minutes of
# persistent noise (lag-1 correlations up to 0.95) in less than 1 of 200 cases (3.89, as for a
# single test, in 1 of 60; measured before `ranksum` removed the bias of persistence).
_EXAMINED_Z = 5.0
_RULE = (
    f"a difference is {LEAST_RATIO:.0%} or more that noise shows {{}} (rank sums, made wider where "
    "noise persists), or samples further apart than they are spread. It is looked for from {} "
    "samples a side on, more where noise persists; 'no difference' states the smallest change that "
    "would have shown in 4 of 5 cases. A load that rises and falls more slowly than the samples "
    "last looks like a difference"
)
# For legends: rules of a single test, and of a card tested every tick.
SAMPLES_NEEDED = least_samples(SURE_Z)
RULE = _RULE.format(
    "in less than 1 of 1000 cases, of 10 000 where it does not persist", SAMPLES_NEEDED
)
RULE_EVERY_TICK = _RULE.format(
    "at any tick after less than 1 of 200 changes", least_samples(_EXAMINED_Z, studentized=False)
)
# A difference of halves by this share of the difference is a drift.
_DRIFT_RATIO = 0.5

Word: TypeAlias = Literal[
    "better",
    "worse",
    "more",  # or less, of what is neither good nor bad
    "less",
    "no difference",
    "settling",  # the time that is left out is not over
    "too few samples",
    "too few hosts",  # of many hosts only
    "inconclusive",
    "no number",
]
# Reason of a word that is no verdict, for programs.
Code: TypeAlias = Literal[
    "",
    "few_samples",
    "few_possible",  # as many as the time before and after the change allows are too few
    "persistent_noise",  # noise persists too long for as many samples as are possible or usable
    "cyclic",  # it rises and falls in a cycle of which too little was seen
    "drift",  # it changes as much within one side
    "load_moved",
    "empty_polls",
    "busy_unknown",
    "few_hosts",  # fewer hosts have it, or have any difference, than a test needs
    "many_numbers",  # alone it would be a difference; among so many numbers it may be chance
]
DIFFERS: tuple[Word, ...] = ("better", "worse", "more", "less")
_NONE = Missing(Reason.UNDEFINED, "there is no sample of it")
_NOT_KNOWN = Missing(Reason.UNDEFINED, "it was not looked for")
_FROM_NOTHING = Missing(Reason.UNDEFINED, "it was 0 before")


@dataclass(frozen=True, slots=True)
class Compared:
    """One metric before and after.

    Attributes:
        before, after: medians, or why there is none.
        change_ratio: after / before - 1; UNDEFINED if `before` is 0 or either is missing.
        n_before, n_after: number of samples.
        spread_before, spread_after: median absolute deviations, in the metric's unit.
        word: the result. why: its reason, if it needs one; else "".
        code: reason for programs, or "".
        bounds: whether the number of each side is an upper bound of a packet's cost.
        lacking: samples to add before and after until a difference could be found; None if none can
            be added, or the number is unknown.
        detectable: for "no difference" the smallest difference that would have been found in at
            least 4 of 5 cases, in the metric's unit; else UNDEFINED.
        samples: those before and after, for a picture of them; empty where none is drawn.
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
    code: Code = ""
    bounds: tuple[bool, bool] = (False, False)
    lacking: tuple[int | None, int | None] = (0, 0)
    detectable: Reading = _NOT_KNOWN
    samples: tuple[tuple[float, ...], tuple[float, ...]] = ((), ())

    @property
    def detectable_ratio(self) -> Reading:
        """`detectable` / `before`."""
        if isinstance(self.detectable, Missing) or isinstance(self.before, Missing):
            return _NOT_KNOWN
        return self.detectable / abs(self.before) if self.before else _FROM_NOTHING


def compared(
    metric: Metric,
    before: Floats,
    after: Floats,
    why: Missing,
    *,
    over: bool,
    earlier: Floats | None = None,
    most_after: int | None = None,
    sides: tuple[str, str] = ("before", "after"),
) -> Compared:
    """Compare two samples, float64 (n,) and (m,), in the order of time.

    Args:
        metric: of the samples.
        before: samples before the change.
        after: samples after it.
        why: reason if there is no sample; WARMING if there will be some.
        over: no more samples will come.
        earlier: all samples since the previous change, of other levels too, in which cycles are
            searched for; default `before`.
        most_after: maximum number of samples after, if those before are fixed; None if both sides
            can be extended.
        sides: names of the two in sentences.
    """
    row = measured(metric, before, after, why)
    word = _word(metric, before, after, why, over=over)
    row = replace(row, word=word, why=why.message if word == "no number" else "")
    if word not in (*DIFFERS, "no difference", "too few samples"):
        return row
    cycle = cycle_of(before if earlier is None else earlier, after)
    if cycle is not None and not is_beyond(cycle, word, before, after):
        return cyclic(row, cycle)
    if word == "too few samples" and most_after is not None:
        return _lacking_after(row, before, after, most_after, over=over)
    if word == "too few samples":
        return lacking(row, _lacking(before, after, over=over), sides)
    return _with_detectable(row, before, after, over=over) if word == "no difference" else row


def measured(metric: Metric, before: Floats, after: Floats, why: Missing) -> Compared:
    """The numbers of two samples, float64 (n,) and (m,), without a word."""
    middles = [median(item) if len(item) else why for item in (before, after)]
    spreads: list[Reading] = [deviation(item) if len(item) else _NONE for item in (before, after)]
    return Compared(
        metric=metric,
        before=middles[0],
        after=middles[1],
        change_ratio=_ratio(middles[0], middles[1]),
        n_before=len(before),
        n_after=len(after),
        spread_before=spreads[0],
        spread_after=spreads[1],
        word="no number",
    )


def lacking(row: Compared, counts: tuple[int, int], sides: tuple[str, str]) -> Compared:
    """The row as one with too few samples; `counts` more are needed on each side."""
    needed = [f"{count} more {side}" for count, side in zip(counts, sides, strict=True) if count]
    return replace(
        row, word="too few samples", why=", ".join(needed), code="few_samples", lacking=counts
    )


def persistent(row: Compared, why: str) -> Compared:
    """The row as inconclusive, since its noise persists too long."""
    return replace(
        row, word="too few samples", why=why, code="persistent_noise", lacking=(None, None)
    )


def _lacking(before: Floats, after: Floats, *, over: bool) -> tuple[int, int]:
    """Samples to add to each side until separated ones would be found."""
    least = [max(LEAST_SAMPLES - len(item), 0) for item in (before, after)]
    if _is_constant(before, after):
        return least[0], least[1]
    persistence = known_persistence(before, after)
    counts = lacking_samples(
        len(before), len(after), persistence, _least_z(over=over), studentized=over
    )
    return max(counts[0], least[0]), max(counts[1], least[1])


def _lacking_after(
    row: Compared, before: Floats, after: Floats, most_after: int, *, over: bool
) -> Compared:
    """The row with too few samples, if only those after the change can become more."""
    n, m, least_z = len(before), len(after), _least_z(over=over)
    most_after = m if over else max(m, most_after)

    def needed(persistence: float) -> int | None:
        if n < LEAST_SAMPLES:
            return None
        if _is_constant(before, after):
            count: int | None = LEAST_SAMPLES
        else:
            count = needed_after(n, persistence, least_z, studentized=over)
        return None if count is None or max(count, LEAST_SAMPLES) > most_after else count

    count = needed(known_persistence(before, after))
    if count is not None:
        return lacking(row, (0, max(count, LEAST_SAMPLES, m + 1) - m), ("before", "after"))
    after_text = f"{m}" if over else f"at most {most_after}"
    if needed(0.0) is not None:
        return persistent(row, f"noise persists too long for {n} before and {after_text} after")
    why = f"only {n} before and {after_text} after"
    return replace(row, word="too few samples", why=why, code="few_possible", lacking=(None, None))


def cyclic(row: Compared, period: int) -> Compared:
    """The row as inconclusive, since it has a cycle of `period` samples.

    Two whole cycles are enough unless they persist from sample to sample.
    """
    enough = min(row.n_before, row.n_after) >= 2 * period
    advice = "too few of them were seen" if enough else "compare two whole cycles or more"
    why = f"it rises and falls every {period} samples: {advice}"
    return replace(row, word="inconclusive", why=why, code="cyclic")


def _with_detectable(row: Compared, before: Floats, after: Floats, *, over: bool) -> Compared:
    """The row without difference, with the smallest one that would have been found."""
    floor = LEAST_RATIO * abs(median(before))
    if _is_constant(before, after):
        shown = floor
    else:
        shown = least_shift(before, after, _least_z(over=over), floor, studentized=over)
    row = replace(row, detectable=shown)
    ratio = row.detectable_ratio
    if isinstance(ratio, Missing):
        return row
    return replace(row, why=f"less than {ratio:.1%} would not show")


def _least_z(*, over: bool) -> float:
    """Least significant normal deviate, of a single test or of one per tick."""
    return SURE_Z if over else _EXAMINED_Z


def _is_constant(before: Floats, after: Floats) -> bool:
    """Whether there is no noise, so that every difference shows."""
    if not len(before) or not len(after):
        return False
    return not max(float(np.ptp(before)), float(np.ptp(after)))


def cycle_of(before: Floats, after: Floats) -> int | None:
    """The longer period of cycles on either side, in samples, or None."""
    periods = [cycle_samples(before), cycle_samples(after)]
    return max((period for period in periods if period is not None), default=None)


def is_beyond(period: int, word: Word, before: Floats, after: Floats) -> bool:
    """Whether a word holds although the samples have a cycle of so many.

    It does from two cycles per side on; a difference does from one cycle on if the sides are
    further apart than they are wide. Since a cycle persists, the word may be "too few samples" for
    any number.
    """
    cycles = min(len(before), len(after)) / period
    if word == "too few samples":
        return False
    return cycles >= 2 or (cycles >= 1 and word in DIFFERS and shift(before, after).clear)


def drifts(before: Floats, after: Floats) -> tuple[bool, bool]:
    """Whether the halves of either side differ by half as much as the sides do."""
    gap = abs(median(after) - median(before))
    shifted = [_drift(item) >= _DRIFT_RATIO * gap for item in (before, after)]
    return shifted[0], shifted[1]


def _drift(values: Floats) -> float:
    half = len(values) // 2
    return abs(median(values[-half:]) - median(values[:half])) if half else 0.0


def steady(before: Floats) -> Floats:
    """The last samples before a change that are of one level, in the order of time.

    A load that began shortly before the change must not be compared with what was before it.
    """
    base = _after_step(before[-_STEP:])
    if len(base) < min(_STEP, len(before)):
        return base
    kept = len(base)
    while kept + LEAST_SAMPLES <= len(before):
        older = before[-(kept + _STEP) : -kept]
        if _is_elsewhere(older, base) or abs(shift(older, before[-kept:]).z) >= LIKELY_Z:
            break
        kept += len(older)
    return before[len(before) - kept :]


def _after_step(base: Floats) -> Floats:
    """The samples since the level last stepped; all of them if it did not.

    A step: all samples before it are further from those since than these are wide, three times as
    far where there are fewer than `LEAST_SAMPLES` since it. A neighbour that began seconds before
    a change is otherwise hidden by what was before it.
    """
    if len(base) <= _STEP_LEAST or np.ptp(base) <= LEAST_RATIO * abs(median(base)):
        return base
    for kept in range(_STEP_LEAST, len(base)):
        older, since = base[:-kept], base[-kept:]
        low, high = float(since.min()), float(since.max())
        width = max(high - low, LEAST_RATIO * abs(median(since)))
        away = np.maximum(low - older, older - high)
        if (away > (width if kept >= LEAST_SAMPLES else 3 * width)).all():
            return since
    return base


def _is_elsewhere(older: Floats, base: Floats) -> bool:
    """Whether older samples, outliers aside, are further from the last than those are wide."""
    low, high = float(base.min()), float(base.max())
    away = np.maximum(low - older, older - high)
    return int((away > max(high - low, LEAST_RATIO * abs(median(base)))).sum()) > 1


def percent(ratio: float) -> str:
    """A change in at most 7 cells: `-12.0%`, `-0.04%`, `<0.01%` of either sign, `x50`, `0%`.

    A ratio is at least -1.
    """
    if ratio >= _MANIFOLD:
        return f"x{ratio + 1:.3g}" if ratio + 1 < _MOST_MANIFOLD else f">x{_MOST_MANIFOLD}"
    text = f"{ratio:+.1%}" if ratio <= -1 else f"{max(ratio, -0.999):+.1%}"
    if text.strip("+-") != "0.0%":
        return text
    return "0%" if ratio == 0 else f"{ratio:+.2%}" if abs(ratio) >= 5e-5 else "<0.01%"


def moved(before: Floats, after: Floats) -> float | None:
    """Change of the median if it exceeds its noise, else None.

    Less strict than a difference: it only withholds comparisons.
    """
    if min(len(before), len(after)) < LEAST_SAMPLES:
        return None
    shifted = shift(before, after)
    ratio = _ratio(median(before), median(after))
    if isinstance(ratio, Missing) or abs(ratio) < LEAST_RATIO:
        return None
    return ratio if abs(shifted.z) >= LIKELY_Z or shifted.clear else None


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
    shifted = shift(before, after)
    was, now = median(before), median(after)
    enough = abs(now - was) >= LEAST_RATIO * abs(was) and now != was
    significant = shifted.significant if over else abs(shifted.z) >= _EXAMINED_Z
    if enough and (significant or shifted.clear):
        return direction(metric, up=now > was)
    enough_samples = _lacking(before, after, over=over) == (0, 0)
    return "no difference" if enough_samples else "too few samples"


def direction(metric: Metric, *, up: bool) -> Word:
    """The word of a number that rose or fell."""
    if metric.good is None:
        return "more" if up else "less"
    return "better" if up == (metric.good == "high") else "worse"
