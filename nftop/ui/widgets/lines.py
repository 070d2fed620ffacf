"""A widget that draws the lines it is given and redraws only those that changed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from nftop.render.line import BLANK, Line, Tone, crop
from nftop.render.text import ascii_only


class Lines(Widget):
    """Lines from the top; what is below the last one is blank.

    Drawing costs what is on screen: Textual asks `render_line` for visible lines only, and keeps
    each strip until a line that differs takes its place.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"lines--{tone}" for tone in Tone}
    ALLOW_SELECT = False

    def __init__(self, *, ascii_only: bool = False, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._ascii_only = ascii_only
        self._shown: tuple[Line, ...] = ()
        self._styles_of: dict[tuple[Tone, Tone], Style] = {}
        self._strips: dict[int, Strip] = {}
        self._height = -1

    def show(self, lines: Sequence[Line], height: int) -> None:
        """Draw these from now on, in so many lines of the screen; 0 hides the widget."""
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
        for y in changed:
            self._strips.pop(y, None)
        if changed:
            self.refresh(*(Region(0, y, self.size.width, 1) for y in changed))

    def render_lines(self, crop: Region) -> list[Strip]:
        """The strips of a part of the widget. It has neither border nor padding to draw."""
        width = self.size.width
        strips = [self._strip(y) for y in crop.line_range]
        if crop.column_span != (0, width):
            strips = [strip.crop(*crop.column_span) for strip in strips]
        return strips

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        shown = self._shown[y] if y < len(self._shown) else BLANK
        segments = [
            Segment(self._drawn(span.text), self._style(shown.fill, span.tone))
            for span in crop(shown, width).spans
        ]
        used = sum(cell_len(segment.text) for segment in segments)
        if used < width:
            segments.append(Segment(" " * (width - used), self._style(shown.fill, Tone.PLAIN)))
        return Strip(segments, width)

    def notify_style_update(self) -> None:
        self._styles_of.clear()
        self._strips.clear()
        super().notify_style_update()

    def _strip(self, y: int) -> Strip:
        """The strip of a line, kept until another line takes its place or the width changes."""
        strip = self._strips.get(y)
        if strip is None or strip.cell_length != self.size.width:
            strip = self.render_line(y)
            for each in self.get_line_filters():
                strip = strip.apply_filter(each, self.background_colors[1])
            self._strips[y] = strip
        return strip

    def _drawn(self, text: str) -> str:
        return ascii_only(text) if self._ascii_only else text

    def _style(self, fill: Tone, tone: Tone) -> Style:
        """The style of a tone on a fill; the stylesheet says what they look like."""
        if (fill, tone) not in self._styles_of:
            parts = (
                self.get_component_rich_style(f"lines--{each}", partial=True)
                for each in (tone, fill)
            )
            self._styles_of[fill, tone] = self.rich_style + Style.combine(parts)
        return self._styles_of[fill, tone]
