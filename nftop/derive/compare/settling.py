"""Settling of occupancy after a change, and the samples on either side of it.

Lines stay in a way that their class has lost until another class needs it, so samples during that
time belong to neither side.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from nftop.derive.cache.changes import TOGETHER_NS, groups_in, together
from nftop.derive.compare.metric import steady
from nftop.derive.compare.window import ClassKey, Times, Window
from nftop.model.change import Change, Noticed
from nftop.model.clock import NS_PER_S
from nftop.model.column import Bools, Floats
from nftop.model.median import median
from nftop.model.struct import dataclass

# Longest time compared on each side.
SPAN_S = 120
# Seconds left out: at least, if occupancy is not monitored, and at most.
LEAST_S, UNMETERED_S, MOST_S = 5, 15, 60
# Occupancy has settled if this many readings stay within this share of the cache, or within the
# range of as many before the change.
_READINGS, STILL_RATIO = 5, 0.02


@dataclass(frozen=True, slots=True)
class Sides:
    """Time ranges before and after a change, CLOCK_MONOTONIC.

    Attributes:
        from_ns, until_ns: range of samples before.
        after_ns, end_ns: range of samples after; `after_ns` is preliminary until `settled`.
        settled: whether occupancy has settled.
        over: no more samples will come.
        span_s: seconds between `after_ns` and `end_ns`.
        at_ns: latest time at which the change was written or noticed.
        noticed: observed changes, also earlier ones that had not settled.
        quiet_ns: no other change was noticed or settled between this and `until_ns`.
        later: changes noticed after it.
        note: remark on the settling, a sentence or "".
    """

    from_ns: int
    until_ns: int
    after_ns: int
    end_ns: int
    settled: bool
    over: bool
    span_s: float
    at_ns: int
    noticed: tuple[Noticed, ...]
    later: tuple[Change, ...]
    note: str
    quiet_ns: int = 0

    @property
    def changes(self) -> tuple[Change, ...]:
        return tuple(change for item in self.noticed for change in item.changes)


@dataclass(frozen=True, slots=True)
class Term:
    """When nftop ends a change: CLOCK_MONOTONIC, ns.

    Attributes:
        until_ns: time of the revert unless it is kept; None if no change waits to be kept.
        taken_back_ns: time of the revert, or None.
    """

    until_ns: int | None = None
    taken_back_ns: int | None = None


STANDS = Term()


def sides_of(
    window: Window, changed_at_ns: int, keys: Collection[ClassKey], term: Term = STANDS
) -> Sides:
    """Time ranges before and after a change, without other changes.

    Args:
        window: recent samples.
        changed_at_ns: CLOCK_MONOTONIC of the change.
        keys: classes and caches whose occupancy has to settle.
        term: when nftop ends the change.
    """
    now_ns, domains = window.frame.monotonic_ns, window.frame.domains
    noticed = together(window.frame.noticed)
    own = [
        entry for entry in noticed if entry.since_ns <= changed_at_ns <= entry.at_ns + TOGETHER_NS
    ]
    since_ns = min([changed_at_ns, *(candidate.since_ns for candidate in own)])
    at_ns = max([changed_at_ns, *(candidate.at_ns for candidate in own)])
    after = [entry for entry in noticed if entry.since_ns >= at_ns and entry not in own]
    from_ns, quiet_ns = since_ns - SPAN_S * NS_PER_S, 0
    for item in reversed(
        [element for element in noticed if element.at_ns <= since_ns and element not in own]
    ):
        its = [(name, domain.l3) for name in groups_in(item.changes) for domain in domains]
        still_ns, settled, _ = _settled(window, {*keys, *its}, item.at_ns, since_ns)
        if settled:
            from_ns, quiet_ns = max(since_ns - SPAN_S * NS_PER_S, still_ns), still_ns
            break
        # Without samples in between, both are judged together.
        own.insert(0, item)
        since_ns = item.since_ns
        from_ns = since_ns - SPAN_S * NS_PER_S
    ends_ns = [element.since_ns for element in after]
    if term.taken_back_ns is not None:
        ends_ns.append(term.taken_back_ns)
    until_ns = min([now_ns, *ends_ns])
    after_ns, settled, note = _settled(window, keys, at_ns, until_ns)
    end_ns = min([after_ns + SPAN_S * NS_PER_S, *ends_ns])
    over = bool(ends_ns) or (settled and end_ns <= now_ns)
    if term.until_ns is not None:
        end_ns = min(end_ns, term.until_ns)
    return Sides(
        from_ns=from_ns,
        until_ns=since_ns,
        after_ns=after_ns,
        end_ns=end_ns,
        settled=settled,
        over=over,
        span_s=max(0.0, (end_ns - after_ns) / NS_PER_S),
        at_ns=at_ns,
        noticed=tuple(own),
        later=tuple(change for one in after for change in one.changes),
        note=note,
        quiet_ns=quiet_ns,
    )


class SideSamples(NamedTuple):
    """Samples of one metric around a change, float64, in the order of time.

    `earlier`: all since the previous change, of other levels too. `most_after`: maximum number
    after it at the present rate.
    """

    before: Floats
    after: Floats
    earlier: Floats
    most_after: int = 0


def split(times_ns: Times, new: Bools, values: Floats, sides: Sides) -> SideSamples:
    """The samples before and after the change.

    A sample stands for the time since the previous one, which must be on one side; before the
    change only samples of the last level count (`steady`).

    Args:
        times_ns: int64 (n,), CLOCK_MONOTONIC of the ticks.
        new: bool (n,), which have a new reading.
        values: float64 (n,), NaN if absent.
        sides: of the change.
    """
    at = np.flatnonzero(new)
    # The begin of the first sample is unknown.
    begins, ends, values = times_ns[at[:-1]], times_ns[at[1:]], values[at[1:]]
    known = np.isfinite(values)
    before = known & (begins >= sides.from_ns) & (ends <= sides.until_ns)
    after = known & (begins >= sides.after_ns) & (ends <= sides.end_ns)
    earlier = known & (begins >= sides.quiet_ns) & (ends <= sides.until_ns)
    spans_s = (ends - begins)[earlier | after] / NS_PER_S
    most_after = int(sides.span_s / median(spans_s)) - 1 if len(spans_s) else 0
    return SideSamples(
        steady(values[before]),
        values[after] if sides.settled else values[:0],
        values[earlier],
        max(most_after, 0),
    )


def _settled(
    window: Window, keys: Collection[ClassKey], at_ns: int, until_ns: int
) -> tuple[int, bool, str]:
    """When occupancy settled after a change at `at_ns`, whether it did, and a note."""
    sizes = {domain.l3: domain.size_bytes for domain in window.frame.domains}
    result = []
    for key in keys:
        used = window.caches.of(key, "occupancy_bytes")
        known = np.isfinite(used) & window.caches.new(key) & (window.caches.times_ns <= until_ns)
        if known.any():
            times, used = window.caches.times_ns[known], used[known]
            result.append(still_since(times, used, at_ns, (sizes.get(key[1]) or 0) * STILL_RATIO))
    latest_ns = at_ns + MOST_S * NS_PER_S
    if not result:
        after_ns = at_ns + UNMETERED_S * NS_PER_S
        return after_ns, after_ns <= until_ns, "occupancy is not metered here"
    if None in result:
        still_moving = f"occupancy still moves {MOST_S} s after the change"
        return (
            min(until_ns, latest_ns),
            until_ns >= latest_ns,
            (still_moving if until_ns >= latest_ns else ""),
        )
    after_ns = max(at_ns + LEAST_S * NS_PER_S, *(item for item in result if item is not None))
    if after_ns > latest_ns:
        return latest_ns, True, f"occupancy still moved {MOST_S} s after the change"
    return after_ns, after_ns <= until_ns, ""


def still_since(times: Times, used: Floats, at_ns: int, still_bytes: float) -> int | None:
    """When the occupancy of a class settled after `at_ns`, or None.

    Args:
        times: int64 (n,), CLOCK_MONOTONIC of readings.
        used: float64 (n,), bytes.
        at_ns: of the change.
        still_bytes: range within which readings count as still.
    """
    later = times > at_ns
    usual = [float(np.ptp(item)) for item in _runs(used[~later])]
    still_bytes = max([still_bytes, *([median(usual)] if usual else [])])
    for end_ns, run in zip(times[later][_READINGS - 1 :].tolist(), _runs(used[later]), strict=True):
        if np.ptp(run) <= still_bytes:
            return int(end_ns)
    return None


def _runs(values: Floats) -> Sequence[Floats]:
    if len(values) < _READINGS:
        return ()
    return list(np.lib.stride_tricks.sliding_window_view(values, _READINGS))
