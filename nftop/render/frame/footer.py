"""The bottom line: what can be pressed, and where in the table one is."""

from __future__ import annotations

from functools import lru_cache

from nftop.render.base.line import Line, Span, Tone, crop, line
from nftop.render.cores.columns import column_name
from nftop.render.cores.rows import View


def where(view: View, top: int, height: int, rows: int) -> str:
    """Which rows are shown, of how many, in which order, under which filter."""
    last = min(rows, top + height)
    span = f"{top + 1}-{last}/{rows}" if rows else "no rows"
    filtered = f"  filter {view.filter}" if view.filter else ""
    return f"{span}  by {column_name(view.sort)}{filtered}"


def footer_line(
    hints: tuple[tuple[str, str], ...], place: str, width: int, message: str = ""
) -> Line:
    """Hints (key and word) as many as fit, or a message instead of them; then `place`."""
    right = crop(line(Span(place, Tone.DIM)), width)
    room = width - right.width - 2
    left = crop(line(Span(message, Tone.BAD)), room) if message else _hints(hints, room)
    return line(left, " " * (width - left.width - right.width), right)


@lru_cache(maxsize=8)  # they change with the width only, and every tick asks for them
def _hints(hints: tuple[tuple[str, str], ...], room: int) -> Line:
    shown = line()
    for key, word in hints:
        more = line(shown, "  " if shown.spans else "", Span(key, Tone.ACCENT), f" {word}")
        if more.width > room:
            break
        shown = more
    return shown
