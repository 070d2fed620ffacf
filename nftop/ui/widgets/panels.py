"""Widgets of the screens: banner, header, CPU table, panels, detail and footer."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events

from nftop.model.frame import CpuTable, Frame
from nftop.model.reading import Reading
from nftop.model.struct import dataclass
from nftop.render.base.line import Line, clickable, selected
from nftop.render.base.spark import span_for
from nftop.render.base.table import TableColumn
from nftop.render.cores.detail import (
    Trend,
    detail_line,
    detail_lines,
    graph_points,
    trend_metric,
)
from nftop.render.cores.harm import RowFacts
from nftop.render.cores.rows import CpuRows, CpuView, Cursor
from nftop.render.cores.table import NO_FACTS, body_lines, header_line
from nftop.store.history.history import TickHistory
from nftop.ui.messages import WHEEL_LINES, Wheel
from nftop.ui.widgets.lines import Lines


class Panels(Lines):
    """Panels below the table, or the lines of a screen without one."""

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.post_message(Wheel(WHEEL_LINES))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.post_message(Wheel(-WHEEL_LINES))


class ChangeBanner(Lines):
    """Banner of a pending change."""


class Footer(Lines):
    """The bottom line."""


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
        interval_s: float,
        width: int,
        height: int,
    ) -> None:
        """Draw one row of `frame`, with its history up to that frame.

        `usual`: its usual cost.
        """
        if height == 1:
            self.show([detail_line(frame.cpus, row, usual, width)], 1)
            return
        metric = trend_metric(frame.cpus, row, sort)
        points = graph_points(width)
        span_s = span_for(points, interval_s)
        cpu = frame.cpus.topology.cpus[row].cpu
        values = history.series(metric.id, cpu, points, span_s, until_ns=frame.monotonic_ns)
        self.show(detail_lines(frame, row, Trend(metric, values, span_s), width, height), height)


class CpuTableView(Lines):
    """Table of CPUs; draws only the rows in view."""

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
        body = body_lines(cpus, rows, columns, cursor.top, height - 1, facts=facts)
        for at in range(min(len(body), len(rows.shown) - cursor.top)):
            body[at] = clickable(body[at], "row", cursor.top + at)
        if rows.shown:
            at = cursor.index - cursor.top
            body[at : at + 1] = [selected(line) for line in body[at : at + 1]]
        self.show([header_line(columns, view), *body], height)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.post_message(Wheel(WHEEL_LINES))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.post_message(Wheel(-WHEEL_LINES))


@dataclass(frozen=True, slots=True)
class MainLayout:
    """Widgets of the main screen and its size in cells and lines, including the footer."""

    width: int
    height: int
    header: HeaderLines
    table: CpuTableView
    panels: Panels
    detail: CpuDetail

    def show_text(self, top: Sequence[Line], body: Sequence[Line], room: int) -> None:
        """Draw a header and `room` lines of text below it."""
        self.header.show(top, len(top))
        self.table.show([], 0)
        self.panels.show(body, room)
        self.detail.show([], 0)
