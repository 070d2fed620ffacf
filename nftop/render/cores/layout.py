"""Layout of the Cores screen: its sections and how many lines each gets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from nftop.model.frame import Frame
from nftop.model.metrics.metric import Metric
from nftop.model.struct import dataclass, replace
from nftop.render.base.line import BLANK, Line, crop
from nftop.render.cache.panel import cache_lines
from nftop.render.cores.map import map_lines
from nftop.render.cores.nfs import nf_lines
from nftop.render.cores.packages import package_lines
from nftop.render.frame.findings import finding_lines, lines_for
from nftop.render.frame.footer import tabs_line
from nftop.render.frame.header import ViewStatus, alert_lines, badge_lines, header_lines

# In the order in which they get room: the short one first.
_PANELS: tuple[Callable[[Frame, int, int], list[Line]], ...] = (package_lines, cache_lines)


def panels(frame: Frame, width: int, limit: int) -> list[list[Line]]:
    """Non-empty panels that fit in `limit` lines together."""
    shown: list[list[Line]] = []
    for panel in _PANELS:
        if lines := panel(frame, width, limit):
            shown.append(lines)
            limit -= len(lines)
    return shown


LEAST_WIDTH, LEAST_HEIGHT = 40, 8
_FOOTER = 1
_DETAIL_FROM = 12  # lines from which table and detail are both shown
_TABLE_LEAST, _DETAIL_LEAST = 5, 6  # headers and title included
_TABLE_GOOD = 8  # lines the table keeps unless NFs need them
_DETAIL_GOOD = 7  # lines it keeps when blank lines are inserted
_NFS_FROM, _PANELS_FROM = 14, 30  # lines of the screen


@dataclass(frozen=True, slots=True)
class ScreenSections:
    """Sections of the screen from top to bottom: lines, or a number of lines.

    Attributes:
        top: header, network functions and map.
        table: lines for the CPU table, including its header.
        panels: cache classes and packages.
        detail: lines for the selected CPU.
        footer: 0 if there is no room.
    """

    top: Sequence[Line]
    table: int
    panels: Sequence[Line]
    detail: int
    footer: int


def is_tiny(width: int, height: int) -> bool:
    """Whether the terminal is too small for the normal layout."""
    return width < LEAST_WIDTH or height < LEAST_HEIGHT


def share_out(
    frame: Frame,
    status: ViewStatus,
    metric: Metric,
    *,
    rows: int,
    width: int,
    height: int,
    search: str = "",
) -> ScreenSections:
    """Divide the screen among its sections.

    Table and selected CPU come first; network functions, panels and map, in this order, get what
    they leave, the map only as a whole. The table gets no more lines than its rows need.

    Args:
        frame: shown.
        status: for the header.
        metric: of the map.
        rows: lines of the table's body.
        width: of the screen, in cells.
        height: of the screen, in lines.
        search: filter of the rows.
    """
    if is_tiny(width, height):
        top = _too_small(frame, width, height)
        return ScreenSections(top, height - len(top), (), 0, 0)
    head = _head(frame, status, width, height)
    room = height - _FOOTER - len(head)
    nfs = _nfs(frame, search, width, height, room)
    room -= len(nfs)
    spare = room - min(_TABLE_GOOD, rows + 2) - _DETAIL_LEAST
    drawn: list[Line] = []
    below: list[list[Line]] = []
    if height >= _PANELS_FROM:
        below = panels(frame, width, spare)
        taken = sum(map(len, below))
        drawn = map_lines(frame.cpus, metric, width, min(height // 4, spare - taken))
        room -= taken + len(drawn)
    above = [section for section in (head, nfs, drawn) if section]
    if room < _DETAIL_FROM:
        return ScreenSections(_joined(above), room, _joined(below), 0, _FOOTER)
    wanted = rows + 1 + (not below)  # and a blank line
    table = max(_TABLE_LEAST, min(room - max(_DETAIL_LEAST, room * 2 // 5), wanted))
    gaps = len(above) + len(below)
    if height < _PANELS_FROM or table < wanted or room - table - gaps < _DETAIL_GOOD:
        return ScreenSections(_joined(above), table, _joined(below), room - table, _FOOTER)
    # Insert blank lines where they cost nothing; a rule follows the last panel.
    parts_above = [line for section in above for line in (*section, BLANK)]
    parts_below = [line for section in below for line in (BLANK, *section)]
    return ScreenSections(parts_above, table, parts_below, room - table - gaps, _FOOTER)


def above_text(
    frame: Frame, status: ViewStatus, *, width: int, height: int
) -> tuple[list[Line], int, int]:
    """For a screen of text: header lines, lines of room, and lines of the footer."""
    if is_tiny(width, height):
        top = _too_small(frame, width, height)
        return top, height - len(top), 0
    head = _head(frame, status, width, height)
    if height >= _PANELS_FROM:
        head.append(BLANK)
    return head, height - len(head) - _FOOTER, _FOOTER


def _head(frame: Frame, status: ViewStatus, width: int, height: int) -> list[Line]:
    if height < _NFS_FROM:  # few lines: keep them for the CPUs
        status = replace(status, tabs=None)
    head = header_lines(frame, status, width)[: max(2, height // 3)]
    tabs = [] if status.tabs is None else [tabs_line(status.tabs, width)]
    return [*head, *finding_lines(frame, width, lines_for(height)), *tabs]


def _too_small(frame: Frame, width: int, height: int) -> list[Line]:
    """The badge and a message that the terminal is too small."""
    notice = f"terminal too small: {width}x{height}, needs {LEAST_WIDTH}x{LEAST_HEIGHT}"
    badge = [crop(line, width) for line in badge_lines(frame.host)]
    room = max(0, height - 2 - len(badge))
    return [*badge, *alert_lines(notice, width=width)[:room]]


def _nfs(frame: Frame, search: str, width: int, height: int, room: int) -> list[Line]:
    """The network functions, if the table leaves room."""
    if height < _NFS_FROM:
        return []
    limit = min(max(4, height // 4), room - _TABLE_LEAST + 2)
    return nf_lines(frame, width, max(0, limit), search)


def _joined(sections: Iterable[Sequence[Line]]) -> list[Line]:
    return [line for section in sections for line in section]
