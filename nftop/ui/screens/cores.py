"""Cores screen: pollers, their load and their cost per packet."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

from nftop.model.frame import Focus, Frame
from nftop.render.base.line import Line
from nftop.render.base.table import LastResults, TableColumn
from nftop.render.cache.way_cells import MARKS
from nftop.render.cores.columns import BY_HARM, EVERY_COLUMN, HARM, CpuTableKind, columns_for
from nftop.render.cores.detail import trend_metric
from nftop.render.cores.layout import ScreenSections, below_head, share_out
from nftop.render.cores.map import MARKS as MAP_MARKS
from nftop.render.frame.footer import MARKS as SICK_MARKS
from nftop.render.frame.header import ViewStatus, where
from nftop.render.pages.help import explain_lines
from nftop.ui.key_bindings import (
    ALWAYS,
    COLUMNS,
    CPUS,
    DRILL,
    EDIT,
    END,
    FOLD,
    HANDOVER,
    SORT,
    KeyRow,
)
from nftop.ui.screens.registry import ScreenRow, register
from nftop.ui.screens.view import ColumnState, ScreenView, SortState, sorting_of_cpus
from nftop.ui.session_view import SessionView
from nftop.ui.widgets.lines import MainLayout


class CoresView(ScreenView):
    """Table of CPUs with the panels that fit around it."""

    KEYS: ClassVar[tuple[KeyRow, ...]] = (
        *END,
        *DRILL,
        *CPUS,
        *SORT,
        *COLUMNS,
        *FOLD,
        *EDIT,
        *HANDOVER,
        *ALWAYS,
    )
    _TABLE: ClassVar[CpuTableKind] = "cores"
    COUNTS_SICK: ClassVar[bool] = True

    def __init__(self, session: SessionView) -> None:
        super().__init__(session)
        self._columns: tuple[TableColumn, ...] = ()
        self._below = LastResults(below_head)

    def paint(self, frame: Frame, status: ViewStatus, layout: MainLayout) -> tuple[str, bool]:
        session = self.session
        session.arrange(merged=True)
        self._columns = columns_for(
            layout.width, frame.cpus, trends=True, chosen=session.columns.get(self._TABLE, ())
        )
        sections = share_out(
            frame,
            status,
            session.histories(frame),
            rows=session.rows.lines,
            width=layout.width,
            height=layout.height,
            search=session.view.filter,
            below=self._below,
        )
        session.settle(sections.table - 1)
        self._paint_sections(frame, sections, layout)
        spot = where(session.cursor.top, session.page, len(session.rows.shown))
        return spot, bool(sections.footer)

    @property
    def focus(self) -> Focus:
        """The processes of the selected CPU are described in the detail pane."""
        return Focus(processes=self.session.cpu)

    def explain(self, frame: Frame) -> Callable[[int], list[Line]] | None:
        if self.session.row is None:
            return None
        metric = trend_metric(frame.cpus, self.session.row, self.session.view.sort)
        return partial(explain_lines, frame, self.session.row, metric)

    @property
    def columns(self) -> ColumnState | None:
        cpus = None if self.session.frame is None else self.session.frame.cpus
        trends = self._TABLE == "cores"
        every = columns_for(EVERY_COLUMN, cpus, self._TABLE, trends=trends)
        chosen = self.session.columns.get(self._TABLE) or tuple(col.key for col in self._columns)
        return ColumnState(self._TABLE, tuple((col.key, col.label) for col in every), chosen)

    @property
    def sorting(self) -> SortState | None:
        return sorting_of_cpus(self.session, self._TABLE)

    def cycle_sort(self, step: int) -> None:
        self.session.cycle_sort(
            step, [HARM, *(col.key for col in self._columns if col.key not in BY_HARM)]
        )

    def _paint_sections(self, frame: Frame, sections: ScreenSections, layout: MainLayout) -> None:
        session = self.session
        layout.header.show(sections.top, len(sections.top))
        layout.table.show_rows(
            frame.cpus,
            session.view,
            session.rows,
            columns=self._columns,
            facts=session.facts,
            cursor=session.cursor,
            height=sections.table,
        )
        layout.panels.show(sections.panels, len(sections.panels))
        if session.row is not None and sections.detail:
            before = session.facts.before.get(session.cpu, {}) if session.cpu else {}
            layout.detail.show_row(
                frame,
                session.row,
                session.view.sort,
                session.history,
                usual=session.facts.trends.cpus.usual(session.cpu),
                before=before,
                interval_s=session.feed.interval_s,
                width=layout.width,
                height=sections.detail,
            )
        else:
            layout.detail.show([], sections.detail)


register(ScreenRow("cores", "1", "Cores", CoresView, marks=(*SICK_MARKS, *MARKS, *MAP_MARKS)))
