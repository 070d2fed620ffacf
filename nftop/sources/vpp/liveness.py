"""Whether a VPP lives: its counters can be read for ever, whoever filled them last."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nftop.model.reading import Missing, Reason

# Even one that has nothing to do wakes up some times a second.
LIFELESS_NS = 30_000_000_000
# How often VPP updates its segment is its operator's choice, so it is learnt from it.
_BEATS, _GRACE_NS = 3, 10_000_000_000


@dataclass(frozen=True, slots=True)
class Signs:
    """What tells one state of it from the next.

    Attributes:
        counted: the sum of its packets. cpu_ticks: its CPU time; 0 where that is not known.
    """

    heartbeat: int
    counted: int
    cpu_ticks: int


@dataclass(frozen=True, slots=True)
class Pulse:
    """When it was seen to change.

    Attributes:
        seen: as it was last.
        lived_at_ns: when any of that changed; told_at_ns: heartbeat or counters.
        beat_at_ns: the heartbeat; None while it has not changed once.
        longest_ns: between two heartbeats; None before the second.
    """

    seen: Signs
    lived_at_ns: int
    told_at_ns: int
    beat_at_ns: int | None = None
    longest_ns: int | None = None


def felt(before: Pulse | None, now: Signs, at_ns: int) -> Pulse:
    """Fold one look in."""
    if before is None:
        return Pulse(now, at_ns, at_ns)
    after = replace(before, seen=now)
    if now != before.seen:
        after = replace(after, lived_at_ns=at_ns)
    if (now.heartbeat, now.counted) != (before.seen.heartbeat, before.seen.counted):
        after = replace(after, told_at_ns=at_ns)
    if now.heartbeat != before.seen.heartbeat:
        if before.beat_at_ns is not None:
            after = replace(
                after, longest_ns=max(before.longest_ns or 0, at_ns - before.beat_at_ns)
            )
        after = replace(after, beat_at_ns=at_ns)
    return after


def why_still(pulse: Pulse, at_ns: int) -> Missing | None:
    """Why what it counts is not to be believed any more; None while it is."""
    if at_ns - pulse.lived_at_ns > LIFELESS_NS:
        return _still(pulse.lived_at_ns, at_ns, "and has used no CPU time")
    allowed_ns = None if pulse.longest_ns is None else _BEATS * pulse.longest_ns + _GRACE_NS
    if allowed_ns is not None and at_ns - pulse.told_at_ns > allowed_ns:
        return _still(pulse.told_at_ns, at_ns, "though it runs")
    return None


def _still(since_ns: int, at_ns: int, how: str) -> Missing:
    seconds = (at_ns - since_ns) // 1_000_000_000
    return Missing(Reason.STALE, f"has not updated its stats segment for {seconds} s, {how}")
