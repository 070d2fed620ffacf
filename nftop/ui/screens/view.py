"""Interface of the views of the main screen."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal, Protocol

from nftop.model.frame import CacheClass, Focus, Frame, NfRow
from nftop.model.rdt.rdt import ROOT
from nftop.model.struct import dataclass
from nftop.render.base.line import Line
from nftop.render.cores.columns import (
    EVERY_COLUMN,
    HARM,
    CpuTableKind,
    column_name,
    columns_for,
    sorts_down,
)
from nftop.render.frame.header import ViewStatus
from nftop.ui.key_bindings import KeyRow
from nftop.ui.session_view import SessionView
from nftop.ui.widgets.lines import MainLayout


@dataclass(frozen=True, slots=True)
class SortState:
    """Order of a table.

    Attributes:
        columns: key and label of each column that rows can be sorted by, in the table's order.
        key: of the current one; "": as found.
        descending: high first.
    """

    columns: tuple[tuple[str, str], ...]
    key: str
    descending: bool

    @property
    def label(self) -> str:
        """Label of the current column."""
        return dict(self.columns).get(self.key, self.key)


def sorting_of_cpus(session: SessionView, table: CpuTableKind = "cores") -> SortState:
    """Order of the CPUs; the column may be one of another table of CPUs."""
    view, cpus = session.view, None if session.frame is None else session.frame.cpus
    columns = {HARM: column_name(HARM)}
    columns |= {col.key: col.label for col in columns_for(EVERY_COLUMN, cpus, table)}
    columns.setdefault(view.sort, column_name(view.sort))
    return SortState(tuple(columns.items()), view.sort, sorts_down(view.sort) != view.inverted)


@dataclass(frozen=True, slots=True)
class ColumnState:
    """Columns of a table.

    Attributes:
        table: its name in `SessionView.columns`.
        every: key and label of each column there is; the first is always shown.
        shown: keys of those shown by default or by choice, from left to right.
    """

    table: str
    every: tuple[tuple[str, str], ...]
    shown: tuple[str, ...]


class SortableView(Protocol):
    """What the sort menu needs of a view."""

    @property
    def sorting(self) -> SortState | None:
        """Order of the table; None: it has a fixed one."""

    def sort_by(self, key: str) -> None:
        """Sort by a column; by the current one: reverse the order."""

    def invert(self) -> None:
        """Reverse the order."""


class ScreenView(Protocol):
    """A view of a frame; `paint` is called only while it is on screen."""

    session: SessionView

    KEYS: ClassVar[tuple[KeyRow, ...]]
    # Editor opened by `e`.
    EDITS: ClassVar[Literal["classes", "priority"]] = "classes"
    # Whether the line of screens has how many pollers are sick.
    COUNTS_SICK: ClassVar[bool] = False
    # Whether `R` keeps the past as a recording instead of beginning one.
    KEEPS_PAST: ClassVar[bool] = False

    def __init__(self, session: SessionView) -> None:
        self.session = session

    def paint(self, frame: Frame, status: ViewStatus, layout: MainLayout) -> tuple[str, bool]:
        """Draw the frame; returns the position text and whether there is a footer."""

    def explain(self, frame: Frame) -> Callable[[int], list[Line]] | None:
        """Page for `x` by width; None: nothing to explain."""

    def counters(self, frame: Frame) -> Callable[[int], list[Line]] | None:  # noqa: ARG002 - optional
        """Page of all counters of ports by width; None: no row has any."""
        return None

    def full_page(self, frame: Frame) -> Callable[[int], list[Line]] | None:  # noqa: ARG002 - optional
        """Page for Enter by width; None: Enter opens a screen."""
        return None

    def enter(self) -> bool:
        """Handle Enter within the view; False: it does not."""
        return False

    def back(self) -> bool:
        """Close what Enter opened; whether there was anything."""
        return False

    def choose_workload(self) -> None:
        """Choose the next workload of the selected row."""
        return

    @property
    def metered(self) -> NfRow | None:
        """Network function whose threads `M` has monitored."""
        return None

    @property
    def focus(self) -> Focus:
        """What to count while this view is on screen."""
        return Focus()

    @property
    def editor_start(self) -> tuple[str, int | None]:
        """Initial class and L3 of the editor."""
        frame, row = self.session.frame, self.session.row
        group = None if frame is None or row is None else frame.cpus.group[row]
        return group.name if isinstance(group, CacheClass) else ROOT, None

    def move(self, by: int) -> None:
        """Move the cursor down."""
        self.session.move(by)

    def page(self, pages: int) -> None:
        """Move the cursor down by pages."""
        self.session.move(pages * self.session.page)

    def wheel(self, by: int) -> None:
        """Scroll by lines of the mouse wheel."""
        self.move(by)

    def find_next(self, step: int) -> None:
        """Select the next or previous match of the search."""
        self.session.find(step)

    @property
    def sorting(self) -> SortState | None:
        """Order of the table; None: it has a fixed one."""
        return None

    @property
    def columns(self) -> ColumnState | None:
        """Columns of the table; None: they cannot be chosen."""
        return None

    def cycle_sort(self, step: int) -> None:  # noqa: ARG002 - optional
        """Sort by the next or previous column."""
        return

    def sort_by(self, key: str) -> None:
        """Sort by a column of a table of CPUs; by the current one: reverse the order."""
        if not self.session.can_sort(key):
            return
        if key == self.session.view.sort:
            self.session.change_view(inverted=not self.session.view.inverted)
        else:
            self.session.change_view(sort=key, inverted=False)

    def invert(self) -> None:
        """Reverse the order."""
        self.session.change_view(inverted=not self.session.view.inverted)

    def group(self) -> None:
        """Switch to the next grouping."""
        return

    def next_cache(self, by: int) -> None:  # noqa: ARG002 - optional
        """Go to the next cache."""
        return

    def swap_card(self) -> None:
        """Switch between the cards below the table."""
        return

    def select(self, row: int) -> None:
        """Select a row of the table, counted from its first."""
        self.session.move(row - self.session.cursor.index)
