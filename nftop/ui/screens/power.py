"""The Power screen: what packages take, and how far each CPU sleeps."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar, Literal

from nftop.model.frame import Frame
from nftop.render.base.line import Line
from nftop.render.cores.columns import POWER_CPU_METRICS, columns_for, metric_of
from nftop.render.frame.header import ViewStatus, where
from nftop.render.pages.help import explain_power_lines
from nftop.render.power.page import MARKS as PACKAGE_MARKS
from nftop.render.power.page import power_parts
from nftop.render.power.settings import MARKS as SETTING_MARKS
from nftop.ui.keys import ALWAYS, CPUS, DRILL, MOVE, PRIORITIES, KeyRow
from nftop.ui.screens.cores import CoresView
from nftop.ui.screens.registry import ScreenRow, register
from nftop.ui.widgets.panels import MainLayout


class PowerView(CoresView):
    """As the Cores screen, with its own columns, below the packages."""

    KEYS: ClassVar[tuple[KeyRow, ...]] = (*MOVE, *DRILL, *CPUS, *PRIORITIES, *ALWAYS)
    EDITS: ClassVar[Literal["classes", "priority"]] = "priority"

    def paint(self, frame: Frame, status: ViewStatus, stage: MainLayout) -> tuple[str, bool]:
        watch = self.watch
        watch.arrange()
        watch.settle(watch.page)
        self._columns = columns_for(stage.width, frame.cpus, "power")
        parts = power_parts(
            frame,
            status,
            watch.row,
            partial(watch.history.package_series, until_ns=frame.monotonic_ns),
            columns=self._columns,
            interval_s=watch.feed.interval_s,
            rows=watch.rows.lines,
            width=stage.width,
            height=stage.height,
        )
        watch.settle(parts.table - 1)
        self._paint_parts(frame, parts, stage)
        spot = where(watch.view, watch.place.top, watch.page, len(watch.rows.shown))
        return spot, bool(parts.footer)

    def explain(self, frame: Frame) -> Callable[[int], list[Line]] | None:
        metric = metric_of(self.watch.view.sort) or POWER_CPU_METRICS[0]
        return partial(explain_power_lines, frame, self.watch.row, metric)


register(ScreenRow("power", "7", "Power", PowerView, marks=(*PACKAGE_MARKS, *SETTING_MARKS)))
