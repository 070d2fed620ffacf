"""A terminal emulator that tells faint text too."""

from __future__ import annotations

from collections.abc import Sequence

import pyte

# Codes that name a colour, and how many more follow by the kind that comes next.
_COLOURS, _MORE = (38, 48), {5: 2, 2: 4}
_FAINT, _BLINKING = 2, 5


class Screen(pyte.Screen):
    """pyte's, which knows no faint text: here it blinks, which nothing else does."""

    def select_graphic_rendition(self, *attrs: int) -> None:
        super().select_graphic_rendition(*_faint_as_blinking(attrs))


def cells(screen: pyte.Screen) -> list[list[pyte.screens.Char]]:
    """Every cell with its colours and attributes, a list a row."""
    return [[screen.buffer[y][x] for x in range(screen.columns)] for y in range(screen.lines)]


def _faint_as_blinking(codes: Sequence[int]) -> list[int]:
    reported: list[int] = []
    colour = 0  # codes left of one that names a colour
    for at, code in enumerate(codes):
        if colour:
            colour -= 1
        elif code in _COLOURS:
            colour = _MORE.get(codes[at + 1], 0) if at + 1 < len(codes) else 0
        reported.append(_BLINKING if code == _FAINT and not colour else code)
    return reported
