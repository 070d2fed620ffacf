"""Lines of a list to choose from: the sort menu and the column chooser."""

from __future__ import annotations

from collections.abc import Sequence

from nftop.model.struct import dataclass
from nftop.render.base.line import Line, Span, Tone, clickable, crop, line, selected
from nftop.render.base.table import scroll
from nftop.render.base.text import fit

WIDTH = 30
_LEAD = {True: "│> ", False: "│  "}


@dataclass(frozen=True, slots=True)
class MenuRow:
    """Attributes.

    mark: before the label: state of the row. label, note: name and what stands right of it.
    """

    label: str
    mark: str = ""
    note: str = ""


def menu_lines(
    title: str, rows: Sequence[MenuRow], at: int, top: int, height: int
) -> tuple[list[Line], int]:
    """A title and the rows around the cursor in `height` lines of `WIDTH` cells.

    Returns:
        The lines, and the first row shown. A click on a row is the action `pick` with its index.
    """
    room = max(1, height - 1)
    top = scroll(top, at, at, len(rows), room)
    head = line(Span(fit(f"│ {title}", WIDTH), Tone.HEADER), fill=Tone.HEADER)
    lines = [head]
    for index in range(top, min(top + room, len(rows))):
        row = rows[index]
        text = f"{_LEAD[index == at]}{row.mark}{row.label}"
        left = max(0, WIDTH - len(row.note) - 1)
        drawn = crop(line(fit(text, left), Span(f"{row.note} ", Tone.MUTED)), WIDTH)
        drawn = clickable(drawn, "pick", index)
        lines.append(selected(drawn) if index == at else drawn)
    return lines, top
