"""Widgets of the main screen: header, table of CPUs, panels below it, detail of one CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nftop.model.frame import CpuTable, Frame
from nftop.model.missing import Reading
from nftop.model.struct import dataclass
from nftop.render.base.graph import span_for
from nftop.render.base.line import Line, clickable, selected
from nftop.render.base.table import EDGE, LastResults, TableColumn, indented
from nftop.render.cores.detail import Trend, detail_line, detail_lines, graph_points, trend_metric
from nftop.render.cores.harm import RowFacts
from nftop.render.cores.rows import CpuRows, CpuView, Cursor
from nftop.render.cores.table import NO_FACTS, body_lines, header_line
from nftop.store.history.rings import TickHistory
from nftop.ui.widgets.lines import Lines, ScrolledLines


class Panels(ScrolledLines):
    """Panels below the table, or the lines of a screen without one."""


class HeaderLines(Lines):
    """Header, network functions and map of CPUs."""


class CpuDetail(Lines):
    """The selected CPU with its history."""

    def show_row(
        self,
        frame: Frame,
        row: int,
        sort: str,
        history: TickHistory,
        *,
        usual: Reading,
        before: Mapping[str, float],
        interval_s: float,
        width: int,
        height: int,
    ) -> None:
        """Draw one row of `frame`, with its history up to that frame.

        `usual`: its usual cost. `before`: as `detail_line`.
        """
        if height == 1:
            self.show([detail_line(frame.cpus, row, usual, width - EDGE, before)], 1)
            return
        metric = trend_metric(frame.cpus, row, sort)
        width -= 2 * EDGE
        points = graph_points(width)
        span_s = span_for(points, interval_s)
        cpu = frame.cpus.topology.cpus[row].cpu
        values = history.series(metric.id, cpu, points, span_s, until_ns=frame.monotonic_ns)
        trend = Trend(metric, values, span_s)
        lines = detail_lines(frame, row, trend, width, height)
        self.show(indented(lines), height)


class CpuTableView(ScrolledLines):
    """Table of CPUs; draws only the rows in view."""

    def __init__(self, *, ascii_only: bool = False) -> None:
        super().__init__(ascii_only=ascii_only)
        self._body = LastResults(_clickable_body)

    def show_rows(
        self,
        cpus: CpuTable,
        view: CpuView,
        rows: CpuRows,
        *,
        columns: Sequence[TableColumn],
        cursor: Cursor,
        height: int,
        facts: RowFacts = NO_FACTS,
    ) -> None:
        """Draw the rows around the cursor in `height` lines, including the header."""
        # A widget that was hidden has no size yet.
        width = self.size.width or self.app.size.width
        body = list(self._body(cpus, rows, tuple(columns), cursor.top, height - 1, facts, width))
        if rows.shown:
            at = cursor.index - cursor.top
            body[at : at + 1] = [selected(line) for line in body[at : at + 1]]
        self.show([*indented([header_line(columns, view)]), *body], height)


def _clickable_body(  # noqa: PLR0917 - of `LastResults`
    cpus: CpuTable,
    rows: CpuRows,
    columns: Sequence[TableColumn],
    top: int,
    height: int,
    facts: RowFacts,
    width: int,
) -> list[Line]:
    body = indented(body_lines(cpus, rows, columns, top, height, facts=facts, width=width - EDGE))
    for at in range(min(len(body), len(rows.shown) - top)):
        body[at] = clickable(body[at], "row", top + at)
    return body


_EDGES_FROM = 100  # cells


@dataclass(frozen=True, slots=True)
class MainLayout:
    """Widgets of the main screen and its size in cells and lines, including the footer."""

    width: int
    height: int
    header: HeaderLines
    table: CpuTableView
    panels: Panels
    detail: CpuDetail

    @property
    def text_width(self) -> int:
        """Cells of the lines of `show_text`; of a narrow screen up to its right edge."""
        return self.width - (2 * EDGE if self.width >= _EDGES_FROM else EDGE)

    def show_text(
        self, top: Sequence[Line], body: Sequence[Line], room: int, *, indent: bool = True
    ) -> None:
        """Draw a header and `room` lines of text below it; `indent`: behind a blank column."""
        self.header.show(top, len(top))
        self.table.show([], 0)
        self.panels.show(indented(body) if indent else body, room)
        self.detail.show([], 0)
