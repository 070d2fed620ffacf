"""Traffic screen: memory, PCIe and links; traffic of each package."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from nftop.model.frame import DeviceRow, Focus, Frame
from nftop.model.ids import Package
from nftop.render.base.line import Line, clickable, pointed_at
from nftop.render.base.table import EDGE, scroll
from nftop.render.cores.layout import above_text
from nftop.render.frame.header import ViewStatus
from nftop.render.pages.help import explain_device_lines, explain_package_lines
from nftop.render.traffic.page import MARKS, TrafficRow, traffic
from nftop.ui.key_bindings import ALWAYS, EDIT, END, KeyRow
from nftop.ui.screens.registry import ScreenRow, register
from nftop.ui.screens.view import ScreenView
from nftop.ui.session_view import SessionView
from nftop.ui.widgets.lines import MainLayout


class TrafficView(ScreenView):
    """Rows of traffic with a cursor; the lines scroll with it."""

    KEYS: ClassVar[tuple[KeyRow, ...]] = (*END, *EDIT, *ALWAYS)

    def __init__(self, session: SessionView) -> None:
        super().__init__(session)
        self._cursor = 0
        self._top = 0
        self._room = 1
        self._rows: tuple[TrafficRow | DeviceRow, ...] = ()

    def paint(self, frame: Frame, status: ViewStatus, layout: MainLayout) -> tuple[str, bool]:
        above, self._room, footer = above_text(
            frame, status, width=layout.width, height=layout.height
        )
        past = partial(self._past, until_ns=frame.monotonic_ns)
        drawn = traffic(frame, layout.width - EDGE, past, self.session.feed.interval_s)
        at = [line for line, row in enumerate(drawn.rows) if row is not None]
        self._rows = tuple(row for row in drawn.rows if row is not None)
        self.move(0)
        lines = list(drawn.lines)
        for row, index in enumerate(at):
            lines[index] = clickable(lines[index], "row", row)
        if at:
            # The first and the last row bring the lines above or below them.
            first = at[self._cursor] - 1 if self._cursor else 0
            last = at[self._cursor] if self._cursor < len(at) - 1 else len(lines) - 1
            self._top = scroll(self._top, first, last, len(lines), self._room)
            lines[at[self._cursor]] = pointed_at(lines[at[self._cursor]])
        layout.show_text(above, lines[self._top : self._top + self._room], self._room)
        return f"{self._cursor + 1}/{len(at)}", bool(footer)

    def explain(self, frame: Frame) -> Callable[[int], list[Line]] | None:
        if not self._rows:
            return None
        row = self._rows[self._cursor]
        if isinstance(row, DeviceRow):
            return partial(explain_device_lines, frame, row)
        return partial(explain_package_lines, frame, row.metrics)

    @property
    def focus(self) -> Focus:
        return Focus(traffic=True)

    def select(self, row: int) -> None:
        self.move(row - self._cursor)

    def move(self, by: int) -> None:
        self._cursor = max(0, min(self._cursor + by, len(self._rows) - 1))

    def page(self, pages: int) -> None:
        self.move(pages * max(1, self._room - 1))

    def _past(
        self, metric: str, package: Package, points: int, span_s: float, *, until_ns: int
    ) -> NDArray[np.float32]:
        history = self.session.history
        return history.package_series(metric, package, points, span_s, until_ns)


register(ScreenRow("traffic", "4", "Traffic", TrafficView, "Traf", marks=MARKS))
