"""A line of a screen: spans of text, each with a tone.

A tone names the meaning of a text, not a colour: `ui/theme.py` defines its look.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

from nftop.model.struct import dataclass
from nftop.render.base import text as safe


class Tone(StrEnum):
    """Meaning of a text; `ui/theme.py` has the look of each in every theme.

    `*_DIM`: half of the hue, for the body of a graph below its crest. `CLASSn`: hue of a cache
    class, `CLASSn_ON` text on it (a way held alone), `CLASSn_SHARED` on a shade of it (a shared
    way). Get them from `class_tone`.
    """

    PLAIN = "plain"
    STRONG = "strong"  # what to read first
    MUTED = "muted"  # labels, what may be skipped
    FAINT = "faint"  # rules, empty ways
    ACCENT = "accent"  # keys, the past, changes
    GOOD = "good"  # better than before, all is well
    WARN = "warn"  # degraded, no loss yet
    BAD = "bad"  # packets are lost now
    AREA = "area"  # graph without a judgement
    MISSING = "missing"  # mark of a reason
    ACCENT_DIM = "accent-dim"
    GOOD_DIM = "good-dim"
    WARN_DIM = "warn-dim"
    BAD_DIM = "bad-dim"
    # Grounds, also as `Line.fill`.
    HEADER = "header"  # headers of tables
    FOOTER = "footer"
    SELECTION = "selection"  # the row under the cursor
    PENDING = "pending"  # a change that is not kept; nothing else
    PENDING_TEXT = "pending-text"  # the same as a hue of text
    PAST = "past"  # the screen does not show now
    TAB = "tab"  # the current screen
    BADGE = "badge"  # simulated host, mode that is not live
    # Issue slots of a core; LIT: more than the baseline.
    FRONTEND = "frontend"
    SPECULATION = "speculation"
    BACKEND = "backend"
    MEMORY = "memory"
    CORE = "core"
    RETIRING = "retiring"
    LIT = "lit"
    CLASS1, CLASS2, CLASS3, CLASS4 = "class1", "class2", "class3", "class4"
    CLASS5, CLASS6, CLASS7, CLASS8 = "class5", "class6", "class7", "class8"
    CLASS1_ON, CLASS2_ON, CLASS3_ON, CLASS4_ON = "class1-on", "class2-on", "class3-on", "class4-on"
    CLASS5_ON, CLASS6_ON, CLASS7_ON, CLASS8_ON = "class5-on", "class6-on", "class7-on", "class8-on"
    CLASS1_SHARED, CLASS2_SHARED, CLASS3_SHARED = "class1-shared", "class2-shared", "class3-shared"
    CLASS4_SHARED, CLASS5_SHARED, CLASS6_SHARED = "class4-shared", "class5-shared", "class6-shared"
    CLASS7_SHARED, CLASS8_SHARED = "class7-shared", "class8-shared"
    CLASS1_DIM, CLASS2_DIM, CLASS3_DIM = "class1-dim", "class2-dim", "class3-dim"
    CLASS4_DIM, CLASS5_DIM, CLASS6_DIM = "class4-dim", "class5-dim", "class6-dim"
    CLASS7_DIM, CLASS8_DIM = "class7-dim", "class8-dim"


ClassVariant: TypeAlias = Literal["", "_ON", "_SHARED", "_DIM"]
CLASS_HUES = 8


def class_tone(number: int | None, variant: ClassVariant = "") -> Tone:
    """Hue of the cache class of this number, 0 for the root class; `MUTED` if it is unknown.

    From class 8 on, hues repeat, except that of the root class.
    """
    if number is None:
        return Tone.MUTED
    hue = number if number < CLASS_HUES else 1 + (number - 1) % (CLASS_HUES - 1)
    return Tone[f"CLASS{hue + 1}{variant}"]


class ClickScale(NamedTuple):
    """Cells of a line from `first` on, which stand for equal shares of `low` to `high`."""

    first: int
    cells: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Click:
    """What a click does: an action of the screen with its argument, as a key has them.

    `scale`: the argument depends on the cell.
    """

    action: str
    argument: int | str = 0
    scale: ClickScale | None = None

    def at(self, cell: int) -> Click | None:
        """The click on a cell of the line; None if that is outside the scale."""
        if self.scale is None:
            return self
        first, cells, low, high = self.scale
        if not first <= cell < first + cells:
            return None
        # A text: a number is an argument of keys.
        middle = low + (high - low) * (2 * (cell - first) + 1) // (2 * cells)
        return Click(self.action, str(middle))


class Span(NamedTuple):
    """Text with a tone, and what a click on it does; printable, see `text.printable`."""

    text: str
    tone: Tone
    click: Click | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """A line of styled text.

    Attributes:
        spans: from left to right.
        fill: tone behind the whole line.
        click: what a click does on a span without its own, and right of the text.
    """

    spans: tuple[Span, ...] = ()
    fill: Tone = Tone.PLAIN
    click: Click | None = None

    @property
    def text(self) -> str:
        return "".join(span.text for span in self.spans)

    @property
    def width(self) -> int:
        """Width in cells."""
        texts = [text for text, _, _ in self.spans]
        whole = "".join(texts)
        return len(whole) if safe.is_narrow(whole) else sum(map(safe.cells, texts))

    def click_at(self, x: int) -> Click | None:
        """What a click on cell `x` does, from 0; None: nothing."""
        left = x
        for span in self.spans:
            left -= safe.cells(span.text)
            if left < 0 and span.click is not None:
                return span.click.at(x)
            if left < 0:
                break
        return None if self.click is None else self.click.at(x)


BLANK = Line()


def line(*pieces: str | Span | Line, fill: Tone = Tone.PLAIN) -> Line:
    """A line of texts, spans and lines; texts become printable, equal tones are joined."""
    spans: list[Span] = []
    for item in pieces:
        if isinstance(item, Line):
            for span in item.spans:
                own = span.click or item.click is None
                _add(spans, span if own else span._replace(click=item.click))
        elif isinstance(item, str):
            _add(spans, Span(safe.printable(item), Tone.PLAIN))
        else:
            text = safe.printable(item.text)
            _add(spans, item if text is item.text else item._replace(text=text))
    return Line(tuple(spans), fill)


def _add(spans: list[Span], span: Span) -> None:
    if spans and spans[-1].tone is span.tone and spans[-1].click == span.click:
        spans[-1] = span._replace(text=spans[-1].text + span.text)
    elif span.text:
        spans.append(span)


def clickable(whole: Line, action: str, argument: int | str = 0) -> Line:
    """The line with this click wherever it has none."""
    return Line(whole.spans, whole.fill, whole.click or Click(action, argument))


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
        spans.append(span._replace(text=cut))
        break
    return Line(tuple(span for span in spans if span.text), whole.fill, whole.click)


def selected(whole: Line) -> Line:
    """The line under the cursor."""
    # Dim text is hard to read in reverse.
    faint = (Tone.MUTED, Tone.MISSING)
    spans = (span._replace(tone=Tone.PLAIN) if span.tone in faint else span for span in whole.spans)
    return Line(tuple(spans), Tone.SELECTION, whole.click)


def pointed_at(whole: Line) -> Line:
    """The line under the cursor, with its graph not in reverse."""
    spans = (
        span if span.tone is Tone.AREA else span._replace(tone=Tone.SELECTION)
        for span in whole.spans
    )
    return Line(tuple(spans), whole.fill, whole.click)


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
