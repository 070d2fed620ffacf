"""Topdown screen: tree of the selected core to level 3, or groups of cores."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

from nftop.model.frame import Focus, Frame
from nftop.model.ids import Cpu
from nftop.render.base.line import Line, line
from nftop.render.cores.columns import columns_for
from nftop.render.cores.layout import above_text
from nftop.render.frame.header import ViewStatus, where
from nftop.render.pages.help import explain_core_lines
from nftop.render.topdown.peers import Grouping, group_lines
from nftop.render.topdown.tree import MARKS, core_lines
from nftop.ui.key_bindings import ALWAYS, CPUS, END, FOLD, HANDOVER, SORT, TOPDOWN, KeyRow
from nftop.ui.screens.registry import ScreenRow, register
from nftop.ui.screens.view import ScreenView, SortState, sorting_of_cpus
from nftop.ui.session_view import SessionView
from nftop.ui.widgets.lines import MainLayout

# In the order of the key.
_GROUPINGS: tuple[Grouping | None, ...] = (None, "nf", "class")


class TopdownView(ScreenView):
    """One core, in the order and under the filter of the CPU table; or groups."""

    KEYS: ClassVar[tuple[KeyRow, ...]] = (
        *END,
        *TOPDOWN,
        *CPUS,
        *SORT,
        *FOLD,
        *HANDOVER,
        *ALWAYS,
    )

    def __init__(self, session: SessionView) -> None:
        self.session = session
        self._grouping = 0
        self._top = 0
        self._room = 1
        self._columns: tuple[str, ...] = ()
        self._since: tuple[Cpu | None, int] = (None, 0)

    def paint(self, frame: Frame, status: ViewStatus, layout: MainLayout) -> tuple[str, bool]:
        session = self.session
        session.arrange()
        session.settle(session.page, pinned=True)
        self._columns = tuple(col.key for col in columns_for(layout.width, frame.cpus))
        above, self._room, footer = above_text(
            frame, status, width=layout.width, height=layout.height
        )
        lines = self._lines(frame, layout.text_width)
        last = max(0, len(lines) - self._room)
        self._top = max(0, min(self._top, last))
        layout.show_text(above, lines[self._top : self._top + self._room], self._room)
        more = f"lines {self._top + 1}-{self._top + self._room}/{len(lines)}  " if last else ""
        return more + where(session.cursor.index, 1, len(session.rows.shown)), bool(footer)

    def explain(self, frame: Frame) -> Callable[[int], list[Line]] | None:
        if self.session.row is None:
            return None
        return partial(explain_core_lines, frame, self.session.row)

    @property
    def focus(self) -> Focus:
        return Focus(core=self.session.cpu if _GROUPINGS[self._grouping] is None else None)

    def page(self, pages: int) -> None:
        self.wheel(pages * max(1, self._room - 1))

    def wheel(self, by: int) -> None:
        self._top = max(0, self._top + by)

    @property
    def sorting(self) -> SortState | None:
        return sorting_of_cpus(self.session)

    def cycle_sort(self, step: int) -> None:
        self.session.cycle_sort(step, self._columns)

    def find_next(self, step: int) -> None:
        # Without a search: the next row.
        if self.session.search:
            self.session.find(step)
        else:
            self.session.move(step)

    def group(self) -> None:
        self._grouping = (self._grouping + 1) % len(_GROUPINGS)
        self._top = 0

    def _lines(self, frame: Frame, width: int) -> list[Line]:
        session = self.session
        grouping = _GROUPINGS[self._grouping]
        if grouping is not None:
            return group_lines(frame.cpus, session.rows.shown, grouping, width)
        if session.row is None:
            return [line("no rows")]
        if self._since[0] != session.cpu or frame.monotonic_ns < self._since[1]:
            self._since = (session.cpu, frame.monotonic_ns)
        waited_s = (frame.monotonic_ns - self._since[1]) / 1e9
        # No tick follows that could count it.
        frozen = session.frozen is not None or session.past is not None
        return core_lines(frame, session.row, width, waited_s=waited_s, frozen=frozen)


register(ScreenRow("topdown", "6", "Topdown", TopdownView, "TMA", marks=MARKS))
