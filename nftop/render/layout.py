"""What of the Cores screen stands where: its parts, and how many lines each gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nftop.model.frame import Frame
from nftop.model.metric import Metric
from nftop.render.header import Status, alert_lines, header_lines
from nftop.render.line import BLANK, Line
from nftop.render.map import map_lines
from nftop.render.nfs import nf_lines
from nftop.render.panels import panel_lines

LEAST_WIDTH, LEAST_HEIGHT = 40, 8
_FOOTER = 1
_DETAIL_FROM = 12  # lines of table and detail together from which both have their place
_TABLE_LEAST, _DETAIL_LEAST = 5, 6  # headers and title included
_TABLE_GOOD = 8  # lines which only what names the host's trouble may take from the table
_NFS_FROM, _ROOMY = 14, 30


@dataclass(frozen=True, slots=True)
class Parts:
    """The screen from top to bottom; lines of the parts that depend on where the operator looks.

    Attributes:
        top: header, network functions and map.
        table: lines for the table of CPUs, its headers included.
        panels: what is known per cache class and per package.
        detail: lines for the selected CPU.
        footer: 0 where there is no room for one.
    """

    top: Sequence[Line]
    table: int
    panels: Sequence[Line]
    detail: int
    footer: int


def is_tiny(width: int, height: int) -> bool:
    """Too small for the screen as it is meant to be."""
    return width < LEAST_WIDTH or height < LEAST_HEIGHT


def share_out(
    frame: Frame, status: Status, metric: Metric, *, rows: int, width: int, height: int
) -> Parts:
    """Share the screen out between its parts.

    The table and the selected CPU come first; network functions, panels and map, in this order,
    take what those can spare, the map as a whole or not at all. The table then gets no more than
    its `rows` need, so that what is below it stays close to it.

    Args:
        frame: what to show.
        status: how it is being watched.
        metric: what the map draws.
        rows: lines the table would like for its body.
        width: of the screen, in cells.
        height: of the screen, in lines.
    """
    if is_tiny(width, height):
        notice = f"terminal too small: {width}x{height}, needs {LEAST_WIDTH}x{LEAST_HEIGHT}"
        top = alert_lines(notice, width=width)[: max(0, height - 2)]
        return Parts(top, height - len(top), (), 0, 0)
    gap = (BLANK,) if height >= _ROOMY else ()  # costs nothing that is missed
    head = [*header_lines(frame, status, width), *gap][: max(2, height // 3)]
    room = height - _FOOTER - len(head)
    nfs = _spaced(_nfs(frame, width, height, room), gap)
    room -= len(nfs)
    spare = room - min(_TABLE_GOOD, rows + 2) - _DETAIL_LEAST
    panels = panel_lines(frame, width, spare - len(gap)) if gap else []
    panels = [*gap, *panels] if panels else []  # the rule above what follows is a gap by itself
    spare -= len(panels)
    limit = min(height // 4, spare - len(gap))
    drawn = _spaced(map_lines(frame.cpus, metric, width, limit) if gap else [], gap)
    room -= len(panels) + len(drawn)
    top = [*head, *nfs, *drawn]
    if room < _DETAIL_FROM:
        return Parts(top, room, panels, 0, _FOOTER)
    detail = max(_DETAIL_LEAST, room * 2 // 5)
    wanted = rows + 1 + (not panels)  # a line apart from what follows
    table = max(_TABLE_LEAST, min(room - detail, wanted))
    return Parts(top, table, panels, room - table, _FOOTER)


def _nfs(frame: Frame, width: int, height: int, room: int) -> list[Line]:
    """The network functions, where the table has lines to spare for them."""
    if height < _NFS_FROM:
        return []
    limit = min(max(4, height // 4), room - _TABLE_LEAST + 2)
    return nf_lines(frame, width, max(0, limit))


def _spaced(lines: Sequence[Line], gap: Sequence[Line]) -> list[Line]:
    return [*lines, *gap] if lines else []
