"""A widget that draws lines, and the strips it sends to the terminal.

Textual's strips hold styled segments with seven caches each and reset the style after every one.
Nearly every strip here is written whole and once, so its text is built directly from the line, with
the escape codes of each tone prepared; only a strip that is cut becomes a list of segments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from itertools import accumulate, zip_longest
from typing import Any, NamedTuple, Protocol, TypeVar

from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.driver import Driver
from textual.geometry import Region
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

from nftop.model.frame import CpuTable, Frame
from nftop.model.missing import Reading
from nftop.model.struct import dataclass
from nftop.render.base.graph import span_for
from nftop.render.base.line import BLANK, Line, Span, Tone, clickable, crop, selected
from nftop.render.base.table import EDGE, LastResults, TableColumn, indented
from nftop.render.base.text import ascii_only, cells, is_narrow, printable
from nftop.render.cores.detail import Trend, detail_line, detail_lines, graph_points, trend_metric
from nftop.render.cores.harm import RowFacts
from nftop.render.cores.rows import CpuRows, CpuView, Cursor
from nftop.render.cores.table import NO_FACTS, body_lines, header_line
from nftop.store.history.rings import TickHistory
from nftop.ui.messages import WHEEL_LINES, Clicked, Wheel
from nftop.ui.theme import tone_styles

_SYSTEMS = {"standard": ColorSystem.STANDARD, "256": ColorSystem.EIGHT_BIT}  # else truecolor
_RESET = "\x1b[m"
_ERASE = "\x1b[K"  # from here to the end of the line
_PASSED_FROM = 4  # unchanged cells: more than it costs bytes to pass over them


_S = TypeVar("_S")


class Terminal(Protocol):
    """The part of Rich's console that is used."""

    @property
    def color_system(self) -> str | None:
        """`standard`, `256` or `truecolor`; None: no colours."""


class _Code(NamedTuple):
    """Parts of an escape code: attributes, foreground, background; "" is the terminal's own."""

    attributes: str
    color: str
    ground: str


_NOTHING = _Code("", "", "")


class Ink:
    """Styles of the tones on one fill, and the escape codes that switch to them.

    Args of `__init__`:
        style_of: style of a tone on this fill; asked once for each.
        plain: write ASCII only.
        to_edge: lines end at the terminal's right edge.
    """

    def __init__(self, style_of: Callable[[Tone], Style], *, plain: bool, to_edge: bool) -> None:
        self._style_of = cache(style_of)
        self.plain = plain
        self._to_edge = to_edge
        self._codes: dict[Tone, _Code] = {}
        # From one tone to another; None is no style.
        self._switches: dict[tuple[Tone | None, Tone], str] = {}
        self._system: str | None = None

    def segments(self, line: Line, width: int) -> list[Segment]:
        """The line as Textual's segments, padded to `width`."""
        segments = [
            Segment(self._shown(text), self._style_of(tone)) for text, tone, _ in line.spans
        ]
        if (left := width - line.width) > 0:
            segments.append(Segment(" " * left, self._style_of(Tone.PLAIN)))
        return segments

    def text(self, strip: LineStrip, console: Terminal) -> str:
        """The strip as text with the fewest escape codes; starts and ends without a style."""
        self._prepare(console)
        pieces: list[str] = []
        now = self._add(pieces, None, strip.spans)
        self._end(pieces, now, strip.width - strip.starts[-1])
        return "".join(pieces)

    def update(self, new: LineStrip, old: LineStrip, row: int, console: Terminal) -> str:
        """Codes that turn a line on the terminal into another; as `text` without a style around.

        Unchanged cells are passed over. Both strips are of this ink and equally wide, from column 1
        of `row`, counted from 1.
        """
        self._prepare(console)
        spans, starts = new.spans, new.starts
        before: Iterable[Span | None] = old.spans
        if starts != old.starts:
            before = map(dict(zip(old.starts, old.spans, strict=False)).get, starts)
        pieces, now, done = list[str](), None, -1
        for at, (span, known) in enumerate(zip(spans, before, strict=False)):
            if span == known or not span.text:
                continue
            if done < 0:
                pieces.append(f"\x1b[{row};{starts[at] + 1}H")
            elif starts[at] - starts[done] > _PASSED_FROM:
                pieces.append(f"\x1b[{starts[at] + 1}G")
                done = at
            now = self._add(pieces, now, spans[done if done >= 0 else at : at + 1])
            done = at + 1
        left = new.width - starts[-1] if starts[-1] < old.starts[-1] else 0
        if left and done != len(spans):
            pieces.append(f"\x1b[{row};{starts[-1] + 1}H")
        self._end(pieces, now, left)
        return "".join(pieces)

    def _prepare(self, console: Terminal) -> None:
        """Forget the codes of another number of colours."""
        if console.color_system != self._system:
            self._system = console.color_system
            self._codes.clear()
            self._switches.clear()

    def _add(self, pieces: list[str], now: Tone | None, spans: Iterable[Span]) -> Tone | None:
        """Text of the spans behind codes for their tones, `now` being that before; the last."""
        for text, tone, _ in spans:
            if tone is not now:
                # `or` would take the switch between equal styles for an unknown one.
                code = self._switches.get((now, tone))
                pieces.append(self._switch(now, tone) if code is None else code)
                now = tone
            pieces.append(text)
        return now

    def _end(self, pieces: list[str], now: Tone | None, left: int) -> None:
        """Codes for so many blank cells behind a line, and for no style."""
        if left > 0:
            pieces.append(self._switch(now, Tone.PLAIN))
            now = Tone.PLAIN
            # Erased cells have the terminal's own colours: only without an active code.
            bare = self._to_edge and self._code(now) == _NOTHING and left > len(_ERASE)
            pieces.append(_ERASE if bare else " " * left)
        if now is not None and self._code(now) != _NOTHING:
            pieces.append(_RESET)

    def shown(self, line: Line) -> tuple[Sequence[Span], list[int]]:
        """The spans as sent, and the first cell of each, at last the cells of all.

        It is the last check that nothing unprintable passes.
        """
        spans = line.spans
        texts = [text for text, _, _ in spans]
        whole = "".join(texts)
        if not whole.isprintable() or (self.plain and not whole.isascii()):
            spans = tuple(span._replace(text=self._shown(span.text)) for span in spans)
            texts = [text for text, _, _ in spans]
            whole = "".join(texts)
        sizes = map(len if is_narrow(whole) else cells, texts)
        return spans, [*accumulate(sizes, initial=0)]

    def _shown(self, text: str) -> str:
        text = text if text.isprintable() else printable(text)
        return ascii_only(text) if self.plain else text

    def _code(self, tone: Tone) -> _Code:
        """Escape code of a tone after a reset."""
        if tone not in self._codes:
            system = _SYSTEMS.get(self._system or "", ColorSystem.TRUECOLOR)
            style = _without_defaults(self._style_of(tone))
            pieces = (style.without_color, Style(color=style.color), Style(bgcolor=style.bgcolor))
            self._codes[tone] = _Code(*(Strip.render_ansi(item, system) for item in pieces))
        return self._codes[tone]

    def _switch(self, now: Tone | None, wanted: Tone) -> str:
        """Escape sequence from one tone to another; "" if they look the same."""
        if (now, wanted) not in self._switches:
            before = _NOTHING if now is None else self._code(now)
            self._switches[now, wanted] = _sequence(before, self._code(wanted))
        return self._switches[now, wanted]


def _sequence(now: _Code, wanted: _Code) -> str:
    """The shortest escape sequence from one style to another."""
    if now == wanted:
        return ""
    if wanted == _NOTHING:
        return _RESET
    whole = ";".join(filter(None, ("0" if now != _NOTHING else "", *wanted)))
    before, after = (set(filter(None, code.attributes.split(";"))) for code in (now, wanted))
    if before - after:
        return f"\x1b[{whole}m"
    steps = [item for item in wanted.attributes.split(";") if item in after - before]
    if now.color != wanted.color:
        steps.append(wanted.color or "39")
    if now.ground != wanted.ground:
        steps.append(wanted.ground or "49")
    return f"\x1b[{min(whole, ';'.join(steps), key=len)}m"


def _without_defaults(style: Style) -> Style:
    """The style without the terminal's own colours, which a reset restores."""
    color, background = style.color, style.bgcolor
    return style.without_color + Style(
        color=None if color is None or color.is_default else color,
        bgcolor=None if background is None or background.is_default else background,
    )


class LineStrip(Strip):
    """A line in `width` cells, cropped if it is wider.

    `is_sent`: the terminal has it, unless something else was drawn over it since. `spans`,
    `starts`: as `Ink.shown`.
    """

    __slots__ = [
        "ink",
        "is_sent",
        "is_whole",
        "line",
        "spans",
        "starts",
        "text_sent",
        "width",
    ]

    def __init__(self, line: Line, width: int, ink: Ink) -> None:
        # `Strip.__init__` runs only if needed: see `__getattr__`.
        self.spans, self.starts = ink.shown(line)
        if self.starts[-1] > width:
            line = crop(line, width)
            self.spans, self.starts = ink.shown(line)
        self.line = line
        self.width = width
        self.ink = ink
        self.text_sent: str | None = None
        self.is_whole = False
        self.is_sent = False

    def update(self, old: Strip | None, row: int, console: Terminal) -> str:
        """Codes that draw it on a row, counted from 1, where the terminal has the strip `old`."""
        self.is_sent = True
        if not isinstance(old, LineStrip) or not old.is_sent or old.ink is not self.ink:
            return f"\x1b[{row}H{self.render(console)}"
        return self.ink.update(self, old, row, console)

    def __getattr__(self, name: str) -> Any:
        """An attribute of Textual's strip: build its segments first."""
        if self.is_whole:
            raise AttributeError(name)
        self.is_whole = True
        super().__init__(self.ink.segments(self.line, self.width), self.width)
        return getattr(self, name)

    @property
    def cell_length(self) -> int:
        return self.width

    def render(self, console: Terminal) -> str:
        if self.text_sent is None:
            self.text_sent = self.ink.text(self, console)
        self.is_sent = True
        return self.text_sent

    def divide(self, cuts: Iterable[int]) -> Sequence[Strip]:
        cuts = list(cuts)
        return [self] if cuts == [self.width] else super().divide(cuts)

    def crop(self, start: int, end: int | None = None) -> Strip:
        if start <= 0 and (end is None or end >= self.width):
            return self
        return super().crop(start, end)


class Lines(Widget):
    """Draws lines from the top; only visible lines are rendered, and only changed ones again."""

    ALLOW_SELECT = False

    def __init__(self, *, ascii_only: bool = False, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.ascii_only = ascii_only
        self._shown: tuple[Line, ...] = ()
        self._strips: dict[int, Strip] = {}
        self._strips_width = 0
        self._inks: dict[Tone, Ink] = {}
        self._height = -1

    @property
    def lines(self) -> tuple[Line, ...]:
        """What is drawn, from the top."""
        return self._shown

    def on_click(self, event: events.Click) -> None:
        """Post what the line has for this cell."""
        click = self._shown[event.y].click_at(event.x) if event.y < len(self._shown) else None
        if click is not None:
            event.stop()
            self.post_message(Clicked(click.action, click.argument))

    def show(self, lines: Sequence[Line], height: int) -> None:
        """Draw these lines in `height` lines of the screen; 0 hides the widget."""
        if height != self._height:
            self._height = height
            self.styles.height = height
            self.display = height > 0
        before, self._shown = self._shown, tuple(lines[:height])
        changed = [
            y
            for y, (old, new) in enumerate(zip_longest(before, self._shown))
            if old is not new and old != new
        ]
        old = {y: self._strips.pop(y, None) for y in changed}
        if not old:
            return
        screen = self.screen
        if isinstance(screen, LineScreen) and screen.redrawn is not None:
            screen.redrawn.append((self, old))
        else:
            self.refresh(*_regions(changed, self.size.width))

    def updates(self, old: Mapping[int, Strip | None], console: Terminal) -> Iterator[str]:
        """Codes that draw the lines whose strips on the terminal are `old`."""
        _, top, width, _ = self.region
        self._fit(width)
        for y, strip in old.items():
            yield self._make(y, width).update(strip, top + y + 1, console)

    def below(self, top: int, width: int) -> int:
        """Row below it, or -1 unless it is laid out from `top` on as tall as it is to be."""
        if self._height <= 0:
            return top
        laid_out = self.region == Region(0, top, width, self._height)
        return top + self._height if laid_out else -1

    def render_lines(self, crop: Region) -> list[Strip]:
        """Strips of a region; the widget has no border or padding."""
        width = self.size.width
        self._fit(width)
        kept = self._strips
        strips = [kept[y] if y in kept else self._make(y, width) for y in crop.line_range]
        if crop.column_span != (0, width):
            strips = [strip.crop(*crop.column_span) for strip in strips]
        return strips

    def _fit(self, width: int) -> None:
        if width != self._strips_width:
            # Inks depend on the edge of the terminal.
            self._forget()
            self._strips_width = width

    def render_line(self, y: int) -> Strip:
        return self._make(y, self.size.width)

    def _make(self, y: int, width: int) -> LineStrip:
        """Strip of a line, cached until the line or the width changes."""
        shown = self._shown[y] if y < len(self._shown) else BLANK
        self._strips[y] = strip = LineStrip(shown, width, self._ink(shown.fill))
        return strip

    def notify_style_update(self) -> None:
        self._forget()
        super().notify_style_update()

    def _forget(self) -> None:
        self._strips.clear()
        self._inks.clear()

    def _ink(self, fill: Tone) -> Ink:
        """Styles of all tones on a fill, from the theme and the line filters."""
        if fill not in self._inks:
            self._inks[fill] = Ink(
                partial(self._style, fill),
                plain=self.ascii_only,
                to_edge=self.region.right == self.app.size.width,
            )
        return self._inks[fill]

    def _style(self, fill: Tone, tone: Tone) -> Style:
        of_tone = tone_styles(self.app.theme)
        drawn = [Segment(" ", self.rich_style + of_tone[fill] + of_tone[tone])]
        for line_filter in self.get_line_filters():
            # A filter depends on the style only: one segment per tone is enough.
            drawn = line_filter.apply(drawn, self.background_colors[1])
        return drawn[0].style or Style.null()


def _regions(changed: Sequence[int], width: int) -> Iterator[Region]:
    """Fewest regions of whole lines that cover `changed`, which ascends."""
    first = last = changed[0]
    for y in changed[1:]:
        if y != last + 1:
            yield Region(0, first, width, last - first + 1)
            first = y
        last = y
    yield Region(0, first, width, last - first + 1)


class LineScreen(Screen[_S]):
    """Screen of `Lines` from top to bottom, and a prompt below them.

    What a paint changes is written to the terminal at once, only the cells that differ, where
    Textual has nothing to draw; else Textual draws all of these lines, at its next turn. What it
    draws is what the lines are then, so that it puts right what it may have covered meanwhile.
    """

    redrawn: list[tuple[Lines, dict[int, Strip | None]]] | None = None

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Collect what the lines of this screen change, and draw it; not to be nested."""
        self.redrawn = []
        try:
            yield
        finally:
            changes, self.redrawn = self.redrawn, None
            if changes and not self._write(changes):
                for widget, old in changes:
                    widget.refresh(*_regions(list(old), widget.size.width))

    def _write(self, changes: Sequence[tuple[Lines, dict[int, Strip | None]]]) -> bool:
        app, driver = self.app, self.app._driver  # noqa: SLF001 - as `App._display`
        if driver is None or not self._is_settled(driver):
            return False
        texts = [text for widget, old in changes for text in widget.updates(old, app.console)]
        x, y = self.outer_size.clamp_offset(app.cursor_position)
        app._begin_update()  # noqa: SLF001 - as above
        driver.write(f"{''.join(texts)}\x1b[{y + 1};{x + 1}H")
        app._end_update()  # noqa: SLF001 - as above
        driver.flush()
        app.post_display_hook()
        return True

    def _is_settled(self, driver: Driver) -> bool:
        """Whether the terminal has this screen as it is laid out, and nothing above it."""
        app = self.app
        if driver.is_headless or driver.is_inline or app._batch_count or app._notifications:  # noqa: SLF001 - as `App._display`
            return False
        if self._dirty_widgets or self._repaint_required or self._layout_required:
            return False
        top = 0
        for widget in self.children:
            if top >= 0 and isinstance(widget, Lines):
                top = widget.below(top, app.size.width)
        return top >= 0 and app.screen is self and not self._scroll_required


class ScrolledLines(Lines):
    """Lines that the wheel scrolls."""

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.post_message(Wheel(WHEEL_LINES))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.post_message(Wheel(-WHEEL_LINES))


class ChangeBanner(Lines):
    """Banner of a pending change."""


class Footer(Lines):
    """The bottom line."""


class Panels(ScrolledLines):
    """Panels below the table, or the lines of a screen without one."""


class HeaderLines(Lines):
    """Header, network functions and map of CPUs."""


class CpuDetail(Lines):
    """The selected CPU with its history."""

    def show_row(
        self,
        frame: Frame,
        row: int,
        sort: str,
        history: TickHistory,
        *,
        usual: Reading,
        before: Mapping[str, float],
        interval_s: float,
        width: int,
        height: int,
    ) -> None:
        """Draw one row of `frame`, with its history up to that frame.

        `usual`: its usual cost. `before`: as `detail_line`.
        """
        if height == 1:
            self.show([detail_line(frame.cpus, row, usual, width - EDGE, before)], 1)
            return
        metric = trend_metric(frame.cpus, row, sort)
        width -= 2 * EDGE
        points = graph_points(width)
        span_s = span_for(points, interval_s)
        cpu = frame.cpus.topology.cpus[row].cpu
        values = history.series(metric.id, cpu, points, span_s, until_ns=frame.monotonic_ns)
        trend = Trend(metric, values, span_s)
        lines = detail_lines(frame, row, trend, width, height)
        self.show(indented(lines), height)


class CpuTableView(ScrolledLines):
    """Table of CPUs; draws only the rows in view."""

    def __init__(self, *, ascii_only: bool = False) -> None:
        super().__init__(ascii_only=ascii_only)
        self._body = LastResults(_clickable_body)

    def show_rows(
        self,
        cpus: CpuTable,
        view: CpuView,
        rows: CpuRows,
        *,
        columns: Sequence[TableColumn],
        cursor: Cursor,
        height: int,
        facts: RowFacts = NO_FACTS,
    ) -> None:
        """Draw the rows around the cursor in `height` lines, including the header."""
        # A widget that was hidden has no size yet.
        width = self.size.width or self.app.size.width
        body = list(self._body(cpus, rows, tuple(columns), cursor.top, height - 1, facts, width))
        if rows.shown:
            at = cursor.index - cursor.top
            body[at : at + 1] = [selected(line) for line in body[at : at + 1]]
        self.show([*indented([header_line(columns, view)]), *body], height)


def _clickable_body(  # noqa: PLR0917 - of `LastResults`
    cpus: CpuTable,
    rows: CpuRows,
    columns: Sequence[TableColumn],
    top: int,
    height: int,
    facts: RowFacts,
    width: int,
) -> list[Line]:
    body = indented(body_lines(cpus, rows, columns, top, height, facts=facts, width=width - EDGE))
    for at in range(min(len(body), len(rows.shown) - top)):
        body[at] = clickable(body[at], "row", top + at)
    return body


_EDGES_FROM = 100  # cells


@dataclass(frozen=True, slots=True)
class MainLayout:
    """Widgets of the main screen and its size in cells and lines, including the footer."""

    width: int
    height: int
    header: HeaderLines
    table: CpuTableView
    panels: Panels
    detail: CpuDetail

    @property
    def text_width(self) -> int:
        """Cells of the lines of `show_text`; of a narrow screen up to its right edge."""
        return self.width - (2 * EDGE if self.width >= _EDGES_FROM else EDGE)

    def show_text(
        self, top: Sequence[Line], body: Sequence[Line], room: int, *, indent: bool = True
    ) -> None:
        """Draw a header and `room` lines of text below it; `indent`: behind a blank column."""
        self.header.show(top, len(top))
        self.table.show([], 0)
        self.panels.show(indented(body) if indent else body, room)
        self.detail.show([], 0)
