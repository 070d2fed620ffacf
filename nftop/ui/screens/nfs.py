"""NFs screen: all network functions; threads, queues and nodes of the selected one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

from nftop.model.frame import Frame, NfRow
from nftop.model.ids import Cpu
from nftop.render.base.line import BLANK, Line, Span, Tone, clickable, line, selected
from nftop.render.base.table import EDGE, TableColumn, cut_lines, scroll
from nftop.render.cores.columns import EVERY_COLUMN
from nftop.render.cores.layout import above_text
from nftop.render.cores.nfs import USUAL, nobody
from nftop.render.cores.rows import Cursor
from nftop.render.frame.header import ViewStatus
from nftop.render.nfs.detail import explain_nf_lines, joined, nf_detail, xstat_lines
from nftop.render.nfs.papers import choices, title_of
from nftop.render.nfs.table import (
    MARKS,
    SORTS,
    NfOrder,
    in_order,
    nf_columns,
    nf_line,
    order_header,
)
from nftop.ui.key_bindings import ALWAYS, COLUMNS, CPUS, EDIT, END, NFS, SORT, KeyRow
from nftop.ui.screens.registry import ScreenRow, register
from nftop.ui.screens.view import ColumnState, ScreenView, SortState
from nftop.ui.session_view import SessionView
from nftop.ui.widgets.lines import MainLayout

# Labels that rows can be sorted by.
_NAMES = ("name", "kind")
# Least lines of the table; height from which blocks are separated.
_TABLE_LEAST, _APART_FROM = 4, 40


class NfsView(ScreenView):
    """Table of network functions; below it the selected one, which Enter opens."""

    # No `i`: there are no CPUs to fold.
    KEYS: ClassVar[tuple[KeyRow, ...]] = (*END, *NFS, *CPUS, *SORT, *COLUMNS, *EDIT, *ALWAYS)

    def __init__(self, session: SessionView) -> None:
        super().__init__(session)
        self._key: str | None = None  # of the selected one
        self._at = 0
        self._open = False
        self._scroll = 0
        self._room = 1
        self._page = 1
        self._sort = ""
        self._seen_sort = session.view.sort
        self._rows: tuple[NfRow, ...] = ()
        self._columns: tuple[TableColumn, ...] = ()
        self._top = 0
        self._seen_cpu: Cpu | None = None  # the one selected when last drawn
        # Workloads chosen by the operator, by `NfRow.key`.
        self._workloads: dict[str, str] = {}

    def paint(self, frame: Frame, status: ViewStatus, layout: MainLayout) -> tuple[str, bool]:
        session = self.session
        width = layout.text_width
        cells = layout.width - EDGE  # of the table, whose last cell is blank
        above, height, footer = above_text(frame, status, width=layout.width, height=layout.height)
        self._columns = nf_columns(
            cells, compared=frame.baselines is not None, chosen=session.columns.get("nfs", ())
        )
        order = self._order()
        session.arrange()
        self._rows = in_order(frame, order, session.facts.trends)
        self._settle()
        if not self._rows:
            why = "no network function matches the filter" if frame.nfs else ""
            body = [line(Span(why, Tone.MUTED))] if why else nobody(frame, width)
            layout.show_text(above, body[:height], height)
            return self._spot(0, 0), bool(footer)
        nf = self._rows[self._at]
        sections = nf_detail(frame, nf, width, self._workloads.get(nf.key))
        lines = joined(sections, spaced=height >= _APART_FROM or self._open)
        head = order_header(self._columns, order, cells)
        if self._open:
            table = [selected(nf_line(frame, nf, self._columns, cells, session.facts.trends))]
        else:
            table = self._table(frame, cells, height - 1, len(lines))
        self._room = max(0, height - 1 - len(table))
        last = max(0, len(lines) - self._room)
        self._scroll = max(0, min(self._scroll, last)) if self._open else 0
        shown = lines[self._scroll : self._scroll + self._room]
        if not self._open:
            shown = cut_lines(lines, self._room, width, "Enter shows all")
        layout.show_text(above, [head, *table, *shown], height)
        return self._spot(len(lines), last), bool(footer)

    def explain(self, frame: Frame) -> Callable[[int], list[Line]] | None:
        nf = self._selected
        return None if nf is None else partial(explain_nf_lines, frame, nf)

    def counters(self, frame: Frame) -> Callable[[int], list[Line]] | None:
        now = {nf.key: nf for nf in frame.nfs}
        nf = None if self._key is None else now.get(self._key)
        return None if nf is None else partial(xstat_lines, frame.host, nf)

    def enter(self) -> bool:
        self._open, self._scroll = not self._open and bool(self._rows), 0
        return True

    def back(self) -> bool:
        was, self._open = self._open, False
        return was

    def move(self, by: int) -> None:
        if self._rows:
            self._select(max(0, min(self._at + by, len(self._rows) - 1)))

    def page(self, pages: int) -> None:
        if self._open:
            self.wheel(pages * max(1, self._room - 1))
        else:
            self.move(pages * max(1, self._page - 1))

    def wheel(self, by: int) -> None:
        if self._open:
            self._scroll = max(0, self._scroll + by)
        else:
            self.move(by)

    def find_next(self, step: int) -> None:
        """Select the next match in names of NFs and threads, kinds and CPUs."""
        search = self.session.search.casefold()
        for away in range(1, len(self._rows) + 1) if search else ():
            at = (self._at + away * step) % len(self._rows)
            nf = self._rows[at]
            names = (nf.name, nf.kind, *(thread.name for thread in nf.threads))
            cpus = {str(cpu) for cpu in nf.cpus}
            if search in cpus or any(search in name.casefold() for name in names):
                self._select(at)
                return
        if search:
            self.session.message = f"not found: {self.session.search}"

    @property
    def columns(self) -> ColumnState | None:
        frame = self.session.frame
        every = nf_columns(EVERY_COLUMN, compared=frame is not None and frame.baselines is not None)
        chosen = self.session.columns.get("nfs") or tuple(col.key for col in self._columns)
        return ColumnState("nfs", tuple((col.key, col.label) for col in every), chosen)

    @property
    def sorting(self) -> SortState | None:
        frame = self.session.frame
        every = nf_columns(EVERY_COLUMN, compared=frame is not None and frame.baselines is not None)
        sortable = (col for col in every if _sortable(col))
        columns = (("", "harm"), *((col.key, col.label) for col in sortable))
        is_number = self._sort not in _NAMES
        return SortState(columns, self._sort, is_number != self.session.view.inverted)

    def sort_by(self, key: str) -> None:
        if key == self._sort:
            self.session.change_view(inverted=not self.session.view.inverted)
        else:
            self._sort_by(key)

    def cycle_sort(self, step: int) -> None:
        shown = [col.key for col in self._columns if _sortable(col)]
        at = shown.index(self._sort) if self._sort in shown else -step if step > 0 else 0
        self._sort_by(shown[(at + step) % len(shown)])

    def choose_workload(self) -> None:
        """Choose the next published workload of this kind; after the last: none."""
        nf = self._selected
        if nf is None:
            return
        options: tuple[str | None, ...] = (None, *choices(nf))
        if len(options) == 1:
            self.session.message = f"no published numbers for kind {nf.kind}"
            return
        now = self._workloads.get(nf.key)
        chosen = options[(options.index(now) + 1) % len(options)]
        if chosen is None:
            self._workloads.pop(nf.key, None)
            self.session.message = f"papers: any workload for {nf.name}"
        else:
            self._workloads[nf.key] = chosen
            self.session.message = f"papers: {title_of(chosen)} for {nf.name}"

    def select(self, row: int) -> None:
        if row < len(self._rows):
            self._select(row)

    @property
    def _selected(self) -> NfRow | None:
        return self._rows[self._at] if self._at < len(self._rows) else None

    @property
    def metered(self) -> NfRow | None:
        return self._selected

    def _select(self, at: int) -> None:
        """Select an NF, and one of its CPUs for the other screens."""
        self._at, self._scroll = at, 0
        nf = self._rows[at]
        self._key = nf.key
        session = self.session
        if session.frame is not None and session.cursor.cpu not in nf.cpus:
            infos = session.frame.cpus.topology.cpus
            shown = {infos[row].cpu for row in session.rows.shown}
            cpu = next((cpu for cpu in nf.cpus if cpu in shown), None)
            session.cursor = session.cursor if cpu is None else Cursor(cpu, held=True)

    def _settle(self) -> None:
        """Keep the selection; follow a CPU selected on another screen."""
        keys = [nf.key for nf in self._rows]
        if self._key in keys:
            self._at = keys.index(self._key)
        elif keys:
            self._at = min(self._at, len(keys) - 1)
            self._key = keys[self._at]
        cpu = self.session.cursor.cpu
        index = next((at for at, nf in enumerate(self._rows) if cpu in nf.cpus), None)
        chosen = cpu != self._seen_cpu and index is not None
        if index is not None and chosen and cpu not in self._rows[self._at].cpus:
            self._at, self._key = index, keys[index]
        self.session.settle(self.session.page, pinned=True)
        self._seen_cpu = self.session.cursor.cpu

    def _order(self) -> NfOrder:
        """Order chosen here, or later on another screen by a metric this table has."""
        view = self.session.view
        if view.sort != self._seen_sort:
            self._seen_sort = view.sort
            if view.sort in SORTS:
                self._sort = view.sort
        return NfOrder(self._sort, view.inverted, view.filter)

    def _sort_by(self, key: str) -> None:
        self._sort = key
        # A metric of the CPU table becomes its order, too.
        if self.session.can_sort(key):
            self.session.change_view(sort=key, inverted=False)
            self._seen_sort = key
        else:
            self.session.change_view(inverted=False)

    def _table(self, frame: Frame, width: int, height: int, wanted: int) -> list[Line]:
        """Rows that leave room for the lower part, including the selected one."""
        least = min(len(self._rows), max(_TABLE_LEAST, height // 3))
        room = max(least, min(len(self._rows), height - wanted - 1))
        room = max(1, min(room, height))
        self._page = room
        self._top = scroll(self._top, self._at, self._at, len(self._rows), room)
        lines = []
        for at in range(self._top, min(self._top + room, len(self._rows))):
            drawn = nf_line(frame, self._rows[at], self._columns, width, self.session.facts.trends)
            drawn = clickable(drawn, "row", at)
            lines.append(selected(drawn) if at == self._at else drawn)
        return [*lines, BLANK] if height > len(lines) + wanted else lines

    def _spot(self, lines: int, last: int) -> str:
        position = f"{self._at + 1}/{len(self._rows)}" if self._rows else "none"
        more = ""
        if self._open and last:
            more = f"lines {self._scroll + 1}-{min(lines, self._scroll + self._room)}/{lines}  "
        return f"{more}{position}"


def _sortable(col: TableColumn) -> bool:
    return col.metric is not None or col.key in (*_NAMES, USUAL.key)


register(ScreenRow("nfs", "2", "NFs", NfsView, marks=MARKS))
