"""Strips that go to the terminal as text made straight from a line.

Textual's strips are lists of segments with seven caches each, and every segment is styled and reset
by itself. Nearly every strip of ours is written whole and once, so its text is put together from
the line, with each tone's escape codes ready; only a strip that is cut or looked into becomes a
list of segments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from nftop.render.base.line import Line, Tone
from nftop.render.base.text import ascii_only, cells, printable

_SYSTEMS = {
    "standard": ColorSystem.STANDARD,
    "256": ColorSystem.EIGHT_BIT,
    "truecolor": ColorSystem.TRUECOLOR,
    "windows": ColorSystem.WINDOWS,
}
_RESET = "\x1b[m"
_ERASE = "\x1b[K"  # from here to the end of the line


class Terminal(Protocol):
    """What is asked of Rich's console."""

    @property
    def color_system(self) -> str | None:
        """`standard`, `256`, `truecolor`; None for one without colours."""


class Ink:
    """What the tones look like on one fill: their styles, and the codes that switch to them.

    Args of `__init__`:
        styles: of every tone on this fill.
        plain: write ASCII only.
        to_edge: what is drawn ends at the terminal's right edge.
    """

    def __init__(self, styles: dict[Tone, Style], *, plain: bool, to_edge: bool) -> None:
        self.styles = styles
        self.plain = plain
        self._to_edge = to_edge
        self._codes: dict[Tone, str] = {}
        self._system: str | None = None

    def segments(self, line: Line, width: int) -> list[Segment]:
        """The line as Textual would have it, with blanks up to `width`."""
        segments = [Segment(self._shown(text), self.styles[tone]) for text, tone in line.spans]
        if (left := width - line.width) > 0:
            segments.append(Segment(" " * left, self.styles[Tone.PLAIN]))
        return segments

    def text(self, line: Line, width: int, console: Terminal) -> str:
        """The same as text with escape codes, as few as it takes. Begins and ends without a style.

        The line must be no wider than `width`.
        """
        codes = self._codes_for(console)
        parts: list[str] = []
        now, used = "", 0
        for text, tone in line.spans:
            if (wanted := codes[tone]) != now:
                parts.append(_switch(now, wanted))
                now = wanted
            shown = self._shown(text)
            used += len(shown) if shown.isascii() else cells(shown)
            parts.append(shown)
        if (left := width - used) > 0:
            if (wanted := codes[Tone.PLAIN]) != now:
                parts.append(_switch(now, wanted))
                now = wanted
            # Erasing leaves blanks in the terminal's own colours, so only where no code is on.
            short = self._to_edge and not now and left > len(_ERASE)
            parts.append(_ERASE if short else " " * left)
        if now:
            parts.append(_RESET)
        return "".join(parts)

    def _shown(self, text: str) -> str:
        """The text as it is sent. It is printable by now; this is where nothing else may pass."""
        text = text if text.isprintable() else printable(text)
        return ascii_only(text) if self.plain else text

    def _codes_for(self, console: Terminal) -> dict[Tone, str]:
        """The codes of each tone after a reset."""
        if not self._codes or console.color_system != self._system:
            self._system = console.color_system
            system = _SYSTEMS.get(self._system or "", ColorSystem.TRUECOLOR)
            self._codes = {
                tone: Strip.render_ansi(_without_defaults(style), system)
                for tone, style in self.styles.items()
            }
        return self._codes


def _switch(now: str, wanted: str) -> str:
    if not wanted:
        return _RESET
    return f"\x1b[0;{wanted}m" if now else f"\x1b[{wanted}m"


def _without_defaults(style: Style) -> Style:
    """The style without the terminal's own colours, which are there after a reset."""
    color, background = style.color, style.bgcolor
    return style.without_color + Style(
        color=None if color is None or color.is_default else color,
        bgcolor=None if background is None or background.is_default else background,
    )


class LineStrip(Strip):
    """A line in `width` cells. It must be no wider."""

    __slots__ = ["ink", "is_whole", "line", "text_sent", "width"]

    def __init__(self, line: Line, width: int, ink: Ink) -> None:
        # Textual's own part, `Strip.__init__`, waits until it is needed: see `__getattr__`.
        self.line = line
        self.width = width
        self.ink = ink
        self.text_sent: str | None = None
        self.is_whole = False

    def __getattr__(self, name: str) -> Any:
        """Only asked for what isn't there: become a list of segments first."""
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
            self.text_sent = self.ink.text(self.line, self.width, console)
        return self.text_sent

    def divide(self, cuts: Iterable[int]) -> Sequence[Strip]:
        cuts = list(cuts)
        return [self] if cuts == [self.width] else super().divide(cuts)

    def crop(self, start: int, end: int | None = None) -> Strip:
        if start <= 0 and (end is None or end >= self.width):
            return self
        return super().crop(start, end)
