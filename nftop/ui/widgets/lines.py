"""A widget that draws the lines it is given and redraws only those that changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from nftop.render.base.line import BLANK, Line, Tone, crop
from nftop.ui.widgets.strips import Ink, LineStrip


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
        self._strips: dict[int, Strip] = {}
        self._strips_width = 0
        self._inks: dict[Tone, Ink] = {}
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
            self.refresh(*_regions(changed, self.size.width))

    def render_lines(self, crop: Region) -> list[Strip]:
        """The strips of a part of the widget. It has neither border nor padding to draw."""
        width = self.size.width
        if width != self._strips_width:
            # The edge of the terminal may be another too, and inks know where that is.
            self._forget()
            self._strips_width = width
        kept = self._strips
        strips = [kept[y] if y in kept else self._make(y, width) for y in crop.line_range]
        if crop.column_span != (0, width):
            strips = [strip.crop(*crop.column_span) for strip in strips]
        return strips

    def render_line(self, y: int) -> Strip:
        return self._make(y, self.size.width)

    def _make(self, y: int, width: int) -> Strip:
        """The strip of a line, kept until another line takes its place or the width changes."""
        shown = crop(self._shown[y], width) if y < len(self._shown) else BLANK
        self._strips[y] = strip = LineStrip(shown, width, self._ink(shown.fill))
        return strip

    def notify_style_update(self) -> None:
        self._forget()
        super().notify_style_update()

    def _forget(self) -> None:
        self._strips.clear()
        self._inks.clear()

    def _ink(self, fill: Tone) -> Ink:
        """What tones look like on a fill; the stylesheet says it, and the line filters."""
        if fill not in self._inks:
            self._inks[fill] = Ink(
                {tone: self._style(fill, tone) for tone in Tone},
                plain=self._ascii_only,
                to_edge=self.region.right == self.app.size.width,
            )
        return self._inks[fill]

    def _style(self, fill: Tone, tone: Tone) -> Style:
        parts = (
            self.get_component_rich_style(f"lines--{item}", partial=True) for item in (tone, fill)
        )
        drawn = [Segment(" ", self.rich_style + Style.combine(parts))]
        for line_filter in self.get_line_filters():
            # A filter looks at a segment's style only, so one of each tone tells it all.
            drawn = line_filter.apply(drawn, self.background_colors[1])
        return drawn[0].style or Style.null()


def _regions(changed: Sequence[int], width: int) -> Iterator[Region]:
    """Regions of whole lines, as few as cover those that changed; `changed` ascends."""
    first = last = changed[0]
    for y in changed[1:]:
        if y != last + 1:
            yield Region(0, first, width, last - first + 1)
            first = y
        last = y
    yield Region(0, first, width, last - first + 1)
