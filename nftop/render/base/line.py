"""A line of a screen: spans of text, each with a tone.

A tone names the kind of text, not a colour: `ui/nftop.tcss` defines its look.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from nftop.model.struct import dataclass
from nftop.render.base import text as safe


class Tone(StrEnum):
    """Kind of a text."""

    PLAIN = "plain"
    TITLE = "title"
    HEADER = "header"
    ACCENT = "accent"
    AREA = "area"
    DIM = "dim"
    MISSING = "missing"
    BAD = "bad"
    BADGE = "badge"
    CURSOR = "cursor"
    FRONTEND = "frontend"
    SPECULATION = "speculation"
    BACKEND = "backend"
    MEMORY = "memory"
    CORE = "core"
    RETIRING = "retiring"


class Span(NamedTuple):
    """Text with a tone; printable, see `text.printable`."""

    text: str
    tone: Tone


@dataclass(frozen=True, slots=True)
class Line:
    """Spans from left to right; `fill` is the tone behind the whole line."""

    spans: tuple[Span, ...] = ()
    fill: Tone = Tone.PLAIN

    @property
    def text(self) -> str:
        return "".join(span.text for span in self.spans)

    @property
    def width(self) -> int:
        """Width in cells."""
        return sum([len(text) if text.isascii() else safe.cells(text) for text, _ in self.spans])


BLANK = Line()


def line(*parts: str | Span | Line, fill: Tone = Tone.PLAIN) -> Line:
    """A line of texts, spans and lines; texts become printable, equal tones are joined."""
    spans: list[Span] = []
    for item in parts:
        if isinstance(item, Line):
            for text, tone in item.spans:
                _add(spans, text, tone)
        elif isinstance(item, str):
            _add(spans, safe.printable(item), Tone.PLAIN)
        else:
            _add(spans, safe.printable(item.text), item.tone)
    return Line(tuple(spans), fill)


def _add(spans: list[Span], text: str, tone: Tone) -> None:
    if spans and spans[-1].tone is tone:
        spans[-1] = Span(spans[-1].text + text, tone)
    elif text:
        spans.append(Span(text, tone))


def crop(whole: Line, width: int) -> Line:
    """`whole` in at most `width` cells, with an ellipsis if it is cut."""
    if whole.width <= width:
        return whole
    spans: list[Span] = []
    room = width
    for span in whole.spans:
        used = safe.cells(span.text)
        # Keep room for the ellipsis.
        if used < room:
            spans.append(span)
            room -= used
            continue
        cut = safe.truncate(span.text + safe.ELLIPSIS * 2, room)
        spans.append(Span(cut, span.tone))
        break
    return Line(tuple(span for span in spans if span.text), whole.fill)


def selected(whole: Line) -> Line:
    """The line under the cursor."""
    # Dim text is hard to read in reverse.
    faint = (Tone.DIM, Tone.MISSING)
    spans = (Span(span.text, Tone.PLAIN) if span.tone in faint else span for span in whole.spans)
    return Line(tuple(spans), Tone.CURSOR)


def pointed_at(whole: Line) -> Line:
    """The line under the cursor, with its graph not in reverse."""
    spans = (
        span if span.tone is Tone.AREA else Span(span.text, Tone.CURSOR) for span in whole.spans
    )
    return Line(tuple(spans), whole.fill)


def flow(items: Iterable[Line], width: int, gap: str = " ") -> list[Line]:
    """The items side by side, wrapped to lines of `width` cells."""
    return list(_flow(tuple(items), width, gap))


@lru_cache(maxsize=32)  # mostly constant from tick to tick
def _flow(items: tuple[Line, ...], width: int, gap: str) -> tuple[Line, ...]:
    lines: list[Line] = []
    for item in items:
        joined = line(lines[-1], gap, item) if lines else item
        if lines and joined.width <= width:
            lines[-1] = joined
        else:
            lines.append(item)
    return tuple(crop(entry, width) for entry in lines)


def paragraph(text: str, width: int, *, lead: Line = BLANK, tone: Tone = Tone.PLAIN) -> list[Line]:
    """`text` wrapped to the right of `lead`."""
    return list(_paragraph(text, width, lead, tone))


@lru_cache(maxsize=128)  # texts stay for many ticks
def _paragraph(text: str, width: int, lead: Line, tone: Tone) -> tuple[Line, ...]:
    indent = lead.width
    rows = safe.wrap(text, width - indent)
    heads = [lead, *[line(" " * indent)] * (len(rows) - 1)]
    pairs = zip(heads, rows or [""], strict=False)
    return tuple(line(head, Span(row, tone)) for head, row in pairs)
