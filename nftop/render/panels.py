"""The panels of the Cores screen: what is counted per cache class and per package, not per CPU."""

from __future__ import annotations

from collections.abc import Callable

from nftop.model.frame import Frame
from nftop.render.cache import cache_lines
from nftop.render.line import BLANK, Line
from nftop.render.packages import package_lines

# In the order in which they get their place: what is short leaves something for the others.
_PANELS: tuple[Callable[[Frame, int, int], list[Line]], ...] = (package_lines, cache_lines)


def panel_lines(frame: Frame, width: int, limit: int) -> list[Line]:
    """The panels that have something to show and fit `limit` lines, a blank line between two."""
    lines: list[Line] = []
    for panel in _PANELS:
        gap = [BLANK] if lines else []
        drawn = panel(frame, width, limit - len(lines) - len(gap))
        if drawn:
            lines += [*gap, *drawn]
    return lines
