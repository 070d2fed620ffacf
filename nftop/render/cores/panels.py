"""The panels of the Cores screen: what is counted per cache class and per package, not per CPU."""

from __future__ import annotations

from collections.abc import Callable

from nftop.model.frame import Frame
from nftop.render.base.line import Line
from nftop.render.cache.panel import cache_lines
from nftop.render.cores.packages import package_lines

# In the order in which they get their place: what is short leaves something for the others.
_PANELS: tuple[Callable[[Frame, int, int], list[Line]], ...] = (package_lines, cache_lines)


def panels(frame: Frame, width: int, limit: int) -> list[list[Line]]:
    """The panels that have something to show, as far as they fit `limit` lines together."""
    shown: list[list[Line]] = []
    for panel in _PANELS:
        if lines := panel(frame, width, limit):
            shown.append(lines)
            limit -= len(lines)
    return shown
