"""Interface of the views of the main screen."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal, Protocol

from nftop.model.frame import CacheClass, Focus, Frame
from nftop.model.rdt.rdt import ROOT
from nftop.render.base.line import Line
from nftop.render.frame.header import ViewStatus
from nftop.ui.keys import KeyRow
from nftop.ui.session_view import SessionView
from nftop.ui.widgets.panels import MainLayout


class ScreenView(Protocol):
    """A view of a frame; `paint` is called only while it is on screen."""

    session: SessionView

    KEYS: ClassVar[tuple[KeyRow, ...]]
    # Editor opened by `e`.
    EDITS: ClassVar[Literal["classes", "priority"]] = "classes"

    def __init__(self, session: SessionView) -> None:
        self.session = session

    def paint(self, frame: Frame, status: ViewStatus, layout: MainLayout) -> tuple[str, bool]:
        """Draw the frame; returns the position text and whether there is a footer."""

    def explain(self, frame: Frame) -> Callable[[int], list[Line]] | None:
        """Page for `x` by width; None: nothing to explain."""

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

    def cycle_sort(self, step: int) -> None:  # noqa: ARG002 - optional
        """Sort by the next or previous column."""
        return

    def group(self) -> None:
        """Switch to the next grouping."""
        return

    def next_cache(self, by: int) -> None:  # noqa: ARG002 - optional
        """Go to the next cache."""
        return

    def swap_card(self) -> None:
        """Switch between the cards below the table."""
        return

    def click(self, line: int, x: int) -> None:  # noqa: ARG002 - optional
        """A click on a line of the table's body; -1: its header."""
        return
