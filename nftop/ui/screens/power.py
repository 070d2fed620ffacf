"""Power screen: power of packages, idle states and frequencies of CPUs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar, Literal

from nftop.model.frame import Frame
from nftop.render.base.line import Line
from nftop.render.cores.columns import POWER_CPU_METRICS, CpuTableKind, columns_for, metric_of
from nftop.render.frame.header import ViewStatus, where
from nftop.render.pages.help import explain_power_lines
from nftop.render.power.page import MARKS as PACKAGE_MARKS
from nftop.render.power.page import power_sections
from nftop.render.power.settings import MARKS as SETTING_MARKS
from nftop.ui.key_bindings import (
    ALWAYS,
    COLUMNS,
    CPUS,
    DRILL,
    END,
    FOLD,
    HANDOVER,
    PRIORITIES,
    SORT,
    KeyRow,
)
from nftop.ui.screens.cores import CoresView
from nftop.ui.screens.registry import ScreenRow, register
from nftop.ui.widgets.lines import MainLayout


class PowerView(CoresView):
    """Packages above a table of CPUs with columns of power."""

    KEYS: ClassVar[tuple[KeyRow, ...]] = (
        *END,
        *DRILL,
        *CPUS,
        *SORT,
        *COLUMNS,
        *FOLD,
        *PRIORITIES,
        *HANDOVER,
        *ALWAYS,
    )
    _TABLE: ClassVar[CpuTableKind] = "power"
    EDITS: ClassVar[Literal["classes", "priority"]] = "priority"
    COUNTS_SICK: ClassVar[bool] = False

    def paint(self, frame: Frame, status: ViewStatus, layout: MainLayout) -> tuple[str, bool]:
        session = self.session
        session.arrange()
        session.settle(session.page)
        self._columns = columns_for(
            layout.width, frame.cpus, "power", chosen=session.columns.get(self._TABLE, ())
        )
        past = partial(session.history.package_series, until_ns=frame.monotonic_ns)
        sections = power_sections(
            frame,
            status,
            session.row,
            past,
            columns=self._columns,
            interval_s=session.feed.interval_s,
            rows=session.rows.lines,
            width=layout.width,
            height=layout.height,
        )
        session.settle(sections.table - 1)
        self._paint_sections(frame, sections, layout)
        spot = where(session.cursor.top, session.page, len(session.rows.shown))
        return spot, bool(sections.footer)

    def explain(self, frame: Frame) -> Callable[[int], list[Line]] | None:
        metric = metric_of(self.session.view.sort) or POWER_CPU_METRICS[0]
        return partial(explain_power_lines, frame, self.session.row, metric)


register(ScreenRow("power", "7", "Power", PowerView, "Pwr", marks=(*PACKAGE_MARKS, *SETTING_MARKS)))
