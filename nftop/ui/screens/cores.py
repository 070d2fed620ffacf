"""The Cores screen: who polls where, how busy, at what cost per packet."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

from nftop.model.frame import Focus, Frame
from nftop.render.base.line import Line
from nftop.render.cores.columns import Col, columns_for
from nftop.render.cores.detail import trend_metric
from nftop.render.cores.layout import ScreenSections, share_out
from nftop.render.cores.map import MARKS, map_metric
from nftop.render.frame.header import ViewStatus, where
from nftop.render.pages.help import explain_lines
from nftop.ui.keys import ALWAYS, CPUS, DRILL, EDIT, MOVE, KeyRow
from nftop.ui.screens.registry import ScreenRow, register
from nftop.ui.screens.view import ScreenView
from nftop.ui.session_view import SessionView
from nftop.ui.widgets.panels import MainLayout


class CoresView(ScreenView):
    """The table of CPUs, and what there is room for around it."""

    KEYS: ClassVar[tuple[KeyRow, ...]] = (*MOVE, *DRILL, *CPUS, *EDIT, *ALWAYS)

    def __init__(self, watch: SessionView) -> None:
        super().__init__(watch)
        self._columns: tuple[Col, ...] = ()

    def paint(self, frame: Frame, status: ViewStatus, stage: MainLayout) -> tuple[str, bool]:
        watch = self.watch
        watch.arrange()
        self._columns = columns_for(stage.width, frame.cpus)
        parts = share_out(
            frame,
            status,
            map_metric(frame.cpus, watch.view.sort),
            rows=watch.rows.lines,
            width=stage.width,
            height=stage.height,
            sought=watch.view.filter,
        )
        watch.settle(parts.table - 1)
        self._paint_parts(frame, parts, stage)
        spot = where(watch.view, watch.place.top, watch.page, len(watch.rows.shown))
        return spot, bool(parts.footer)

    @property
    def looking(self) -> Focus:
        """The processes of the selected CPU are described in the detail pane."""
        return Focus(processes=self.watch.cpu)

    def explain(self, frame: Frame) -> Callable[[int], list[Line]] | None:
        if self.watch.row is None:
            return None
        metric = trend_metric(frame.cpus, self.watch.row, self.watch.view.sort)
        return partial(explain_lines, frame, self.watch.row, metric)

    def turn(self, step: int) -> None:
        self.watch.turn(step, [col.key for col in self._columns])

    def click(self, line: int, x: int) -> None:
        watch = self.watch
        if line < 0:
            self._sort_at(x)
        elif watch.place.top + line < len(watch.rows.shown):
            watch.move(watch.place.top + line - watch.place.index)

    def _sort_at(self, x: int) -> None:
        """Sort by the column whose header was clicked; the other way if it already is."""
        view = self.watch.view
        for col in self._columns:
            if 0 <= x < col.width:
                same = col.key == view.sort
                self.watch.look(sort=col.key, inverted=same and not view.inverted)
            x -= col.width

    def _paint_parts(self, frame: Frame, parts: ScreenSections, stage: MainLayout) -> None:
        watch = self.watch
        stage.header.show(parts.top, len(parts.top))
        stage.table.show_rows(
            frame.cpus,
            watch.view,
            watch.rows,
            columns=self._columns,
            place=watch.place,
            height=parts.table,
        )
        stage.panels.show(parts.panels, len(parts.panels))
        if watch.row is not None and parts.detail:
            stage.detail.show_row(
                frame,
                watch.row,
                watch.view.sort,
                watch.history,
                interval_s=watch.feed.interval_s,
                width=stage.width,
                height=parts.detail,
            )
        else:
            stage.detail.show([], parts.detail)


register(ScreenRow("cores", "1", "Cores", CoresView, marks=MARKS))
