"""Times of day on screen, always with their zone: `12:41:07Z` or `14:41:07+02:00`."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo

NS_PER_S = 1_000_000_000

# Zone of what is drawn; None: the local one. Output other than the screen's is in UTC.
_zone: tzinfo | None = UTC


def show_utc(*, utc: bool) -> None:
    """Draw times in UTC, or in the local zone (TZ); before anything is drawn."""
    global _zone  # noqa: PLW0603 - one screen per process
    _zone = UTC if utc else None


def shown_zone() -> tzinfo | None:
    """Zone of the times on screen; None: the local one."""
    return _zone


def clock_of(wall_ns: int) -> str:
    """Time of day of nanoseconds since the epoch."""
    return _zoned(wall_ns, "%H:%M:%S")


def date_time_of(wall_ns: int) -> str:
    """Date and time of day: `2026-11-23 12:41:07Z`."""
    return _zoned(wall_ns, "%Y-%m-%d %H:%M:%S")


def clock_width() -> int:
    """Cells that the longest time of day takes, and one that separates it from the next column."""
    return 10 if _zone is UTC else 15


def _zoned(wall_ns: int, form: str) -> str:
    moment = datetime.fromtimestamp(wall_ns / 1e9, UTC).astimezone(_zone)
    offset = moment.strftime("%z")
    zone = "Z" if offset == "+0000" else f"{offset[:3]}:{offset[3:5]}"
    return f"{moment.strftime(form)}{zone}"
