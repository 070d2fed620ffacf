"""Cache screen: table, class detail and the verdict on the last change."""

from __future__ import annotations

from collections.abc import Sequence

from nftop.derive.compare.window import ClassKey
from nftop.model.change import OwnChange
from nftop.model.frame import Frame
from nftop.model.struct import dataclass
from nftop.render.base.line import BLANK, Line, Span, Tone, crop, line
from nftop.render.base.table import cut_lines
from nftop.render.cache.detail import absence_lines, budget_line, level_2_lines
from nftop.render.cache.table import ClassTable, cache_table
from nftop.render.frame.header import badge_lines, time_of_day

# Least lines of the table, and of the lower part.
_TABLE_LEAST, _LOWER_LEAST = 6, 4


@dataclass(frozen=True, slots=True)
class CachePage:
    """Lines of the cache screen in three parts.

    Attributes:
        fixed: lines that stay on top: budget and header.
        table: lines of the table, of which `room` are in view; `keys`: the class of each line.
        lower: lines below it.
    """

    fixed: tuple[Line, ...]
    table: tuple[Line, ...]
    keys: tuple[ClassKey | None, ...]
    room: int
    lower: tuple[Line, ...]


def upper(
    frame: Frame, width: int, own_changes: Sequence[OwnChange], *, folded: bool
) -> ClassTable:
    """The table, then second-level caches and reasons of absences."""
    table = cache_table(frame, width, own_changes, folded=folded)
    more = [*level_2_lines(frame, width)]
    absent = absence_lines(frame, width)
    more += [BLANK, *absent] if absent and frame.groups else absent
    return ClassTable(
        table.header,
        (*table.lines, *(crop(item, width) for item in more)),
        (*table.rows, *[None] * len(more)),
    )


def page(
    frame: Frame, table: ClassTable, width: int, height: int, blocks: Sequence[Sequence[Line]]
) -> CachePage:
    """Divide the height: the table first, then the blocks below it.

    Args:
        frame: with the limits.
        table: of `upper`.
        width: cells of a line.
        height: lines of all.
        blocks: of the lower part, each with a header.
    """
    fixed: tuple[Line, ...] = ()
    if frame.groups:
        fixed = (budget_line(frame.limits, frame.groups, width), table.header)
    room = max(0, height - len(fixed))
    wanted = [item for block in blocks for item in block]
    least = min(len(table.lines), max(_TABLE_LEAST, room // 2))
    lower = min(len(wanted), room - least)
    if lower < min(_LOWER_LEAST, len(wanted)):
        lower = 0
    shown = cut_lines(wanted, lower, width, "Enter shows all")
    return CachePage(fixed, table.lines, table.rows, room - lower, tuple(shown))


def whole(frame: Frame, blocks: Sequence[Sequence[Line]], width: int) -> list[Line]:
    """All that is below the table, as a page with host and time."""
    title = Span(f"Cache, below the table at {time_of_day(frame)}", Tone.STRONG)
    head = line(
        *(block for badge_line in badge_lines(frame.host) for block in (badge_line, " ")), title
    )
    return [crop(head, width), *(item for block in blocks if block for item in (BLANK, *block))]
