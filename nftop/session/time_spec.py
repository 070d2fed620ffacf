"""Parsing of times, on the command line in UTC and on screen in the zone that it shows."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo

from nftop.model.clock import NS_PER_S, clock_of, date_time_of
from nftop.model.replay_position import Position
from nftop.model.time_forms import DAY_S, span_ns, time_forms

_CLOCK = re.compile(
    r"(\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d{1,9})?))?(Z|[+-]\d{2}:\d{2})?", re.IGNORECASE
)


def outside(wall_ns: int, here: Position, *, open_end: bool = False) -> str:
    """Message that nothing was recorded at `wall_ns`; "" if something was.

    With `open_end` times after the end are not refused: they may still be recorded.
    """
    # Times are typed in whole seconds, and ticks come between them.
    if wall_ns >= here.first_ns - NS_PER_S and (open_end or wall_ns <= here.last_ns + NS_PER_S):
        return ""
    one_day = (
        here.first_ns // (DAY_S * NS_PER_S)
        == here.last_ns // (DAY_S * NS_PER_S)
        == wall_ns // (DAY_S * NS_PER_S)
    )
    requested, first, last = (
        _clock_text(item, one_day=one_day) for item in (wall_ns, here.first_ns, here.last_ns)
    )
    return f"nothing was recorded at {requested}; the recording is {first} to {last}"


def not_kept(wall_ns: int, first_ns: int) -> str:
    """Message if `wall_ns` is before the oldest kept sample, `first_ns`; else ""."""
    if wall_ns >= first_ns - NS_PER_S:
        return ""
    return f"what came before {_clock_text(first_ns, one_day=True)} is not kept any more"


def forms(zone: tzinfo | None) -> str:
    """Formats of times; those without a zone are in `zone`, None: the local one."""
    return time_forms(zone_name(zone))


def zone_name(zone: tzinfo | None) -> str:
    """`UTC`, or `local time`."""
    return "UTC" if zone is UTC else "local time"


def counts_from_end(text: str) -> bool:
    """Whether a time is relative to the end of a recording."""
    return text.strip().lower() == "end" or text.strip().startswith("-")


def _clock_text(wall_ns: int, *, one_day: bool) -> str:
    try:
        return clock_of(wall_ns) if one_day else date_time_of(wall_ns)
    except (OverflowError, ValueError, OSError):
        return "such a time"


def moment_ns(text: str, here: Position, zone: tzinfo | None = UTC) -> int:
    """Wall clock in ns of a time as text.

    A time of the day is the first one within the recording, else the nearest; `+` counts from its
    start, `-` from its end. A time without a zone is in `zone`; None: the local one.

    Raises:
        ValueError: it is no time; the message lists the formats.
    """
    text = text.strip()
    ends = {"start": here.first_ns, "end": here.last_ns}
    if text.lower() in ends:
        return ends[text.lower()]
    try:
        if text[:1] in ("+", "-"):
            span = span_ns(text[1:])
            return here.first_ns + span if text[0] == "+" else here.last_ns - span
        clock = _CLOCK.fullmatch(text)
        if clock is not None:
            return _of_day(clock, here, zone)
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is no time: {forms(UTC)}") from None
    # A naive time is local to `timestamp`.
    moment = moment.replace(tzinfo=zone) if moment.tzinfo is None else moment
    return round(moment.timestamp() * NS_PER_S)


def _of_day(clock: re.Match[str], here: Position, zone: tzinfo | None) -> int:
    """The first such time in the recording, whose first second counts; else the nearest to it."""
    hours, minutes, seconds = int(clock[1]), int(clock[2]), float(clock[3] or 0)
    if hours > 23 or minutes > 59 or seconds >= 60:
        raise ValueError("no time of the day")
    if clock[4]:
        zone = datetime.fromisoformat(f"2000-01-01T00:00:00{clock[4].upper()}").tzinfo
    first_s = here.first_ns // NS_PER_S
    last_ns = max(here.first_ns, here.last_ns)
    moments = []
    day = datetime.fromtimestamp(first_s, UTC).astimezone(zone).date()
    # The day before: a change of the offset may make today's time come early.
    for later in (-1, 0, 1):
        date = day + timedelta(days=later)
        moment = datetime(date.year, date.month, date.day, hours, minutes, tzinfo=zone)
        moments.append(round(moment.timestamp()) * NS_PER_S + round(seconds * NS_PER_S))
    return min(
        moments, key=lambda at_ns: (max(first_s * NS_PER_S - at_ns, at_ns - last_ns, 0), at_ns)
    )
