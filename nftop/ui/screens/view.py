"""What every view of the main screen can do."""

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
    """One way to look at a frame. It is told to draw only while it is up."""

    session: SessionView

    KEYS: ClassVar[tuple[KeyRow, ...]]
    # What `e` edits.
    EDITS: ClassVar[Literal["classes", "priority"]] = "classes"

    def __init__(self, session: SessionView) -> None:
        self.session = session

    def paint(self, frame: Frame, status: ViewStatus, layout: MainLayout) -> tuple[str, bool]:
        """Draw the frame; what to say at the right of the footer, and whether there is one."""

    def explain(self, frame: Frame) -> Callable[[int], list[Line]] | None:
        """The page for `x`, made for a width; None where there is nothing to explain."""

    def full_page(self, frame: Frame) -> Callable[[int], list[Line]] | None:  # noqa: ARG002 - not every view cuts anything off
        """The page for Enter, made for a width; None where Enter leads to a screen."""
        return None

    def enter(self) -> bool:
        """Enter opens something within the view, or closes it: whether that is so here."""
        return False

    def back(self) -> bool:
        """Escape closes what Enter opened: whether there was anything."""
        return False

    def choose_workload(self) -> None:
        """The next of what can be said of the selected row."""
        return

    @property
    def focus(self) -> Focus:
        """What should be counted because this view is up."""
        return Focus()

    @property
    def editor_start(self) -> tuple[str, int | None]:
        """Where the editor begins: a group, and an L3 if one is meant."""
        frame, row = self.session.frame, self.session.row
        group = None if frame is None or row is None else frame.cpus.group[row]
        return group.name if isinstance(group, CacheClass) else ROOT, None

    def move(self, by: int) -> None:
        """So many rows down."""
        self.session.move(by)

    def page(self, pages: int) -> None:
        """So many pages down."""
        self.session.move(pages * self.session.page)

    def wheel(self, by: int) -> None:
        """The mouse wheel asks for so many lines."""
        self.move(by)

    def find_next(self, step: int) -> None:
        """The next row that matches what is sought, or the one before."""
        self.session.find(step)

    def cycle_sort(self, step: int) -> None:  # noqa: ARG002 - not every view has anything to order
        """The next order of rows, or the one before."""
        return

    def group(self) -> None:
        """The next way to bring rows together."""
        return

    def next_cache(self, by: int) -> None:  # noqa: ARG002 - not every view has blocks of rows
        """So many blocks of rows down."""
        return

    def swap_card(self) -> None:
        """The next thing in a place that several have in turn."""
        return

    def click(self, line: int, x: int) -> None:  # noqa: ARG002 - nor anything to click on
        """A click on a line of the table's body, -1 being its headers."""
        return
