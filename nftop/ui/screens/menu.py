"""Lists over the screen: the sort menu and the column chooser."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.binding import BindingType
from textual.screen import ModalScreen

from nftop.render.base.table import MenuRow, menu_lines
from nftop.ui.change_control import ChangeControl
from nftop.ui.key_bindings import COLUMN_MENU, SORT_MENU, KeyRow, bindings
from nftop.ui.options import Options
from nftop.ui.screens.base import BannerScreen
from nftop.ui.screens.view import ColumnState, ScreenView, SortableView
from nftop.ui.widgets.lines import Lines


class MenuScreen(BannerScreen[None], ModalScreen[None]):
    """A list at the right edge; the screen below stays visible and shows what is chosen."""

    TITLE_TEXT: ClassVar[str] = ""
    TABLE: ClassVar[str] = ""
    PANEL: ClassVar[str] = "menu"
    follows = True

    def __init__(
        self, repaint: Callable[[], None], options: Options, changes: ChangeControl
    ) -> None:
        """`repaint`: draws the screen below."""
        super().__init__()
        self.changes = changes
        self._repaint = repaint
        self._options = options
        self.at = 0

    @property
    def rows(self) -> Sequence[MenuRow]:
        """Rows to choose from."""
        raise NotImplementedError

    def on_mount(self) -> None:
        self.paint()

    def on_mouse_scroll_down(self) -> None:
        self.action_act("move", 3)

    def on_mouse_scroll_up(self) -> None:
        self.action_act("move", -3)

    def action_act(self, action: str, by: int) -> None:
        self._message = ""
        if action == "close":
            self.close()
            return
        if action == "help":
            self.open_help(self.TABLE, self._options)
            return
        if action == "move":
            self.at = max(0, min(self.at + by, len(self.rows) - 1))
        elif action == "pick":
            self.at = by
            self.choose()
        else:
            self.act(action, by)
        if self.is_current:
            self.paint()
            self._repaint()

    def close(self) -> None:
        """Return to the screen."""
        self.dismiss()

    def choose(self) -> None:
        """Choose the row under the cursor."""
        raise NotImplementedError

    def act(self, action: str, by: int) -> None:
        """Run an action of this menu's own keys."""
        raise NotImplementedError

    def paint(self) -> None:
        taken = self.show_banner()
        if taken is None:
            return
        rows = self.rows
        self.at = max(0, min(self.at, len(rows) - 1))
        room = max(1, min(len(rows) + 1, self.size.height - 8 - taken))
        lines, self._top = menu_lines(self.TITLE_TEXT, rows, self.at, self._top, room)
        menu = self.query_one("#menu", Lines)
        # Above the footer, so that the header with the order stays visible.
        menu.styles.offset = (-1, self.size.height - 1 - room)
        menu.show(lines, room)
        self.show_footer(message=self._message)


class SortMenu(MenuScreen):
    """Columns that the rows of the view can be sorted by."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(SORT_MENU)
    TITLE_TEXT = "Sort by"
    TABLE = "sort_menu"
    KEYS: ClassVar[tuple[KeyRow, ...]] = SORT_MENU

    def __init__(
        self,
        view: Callable[[], SortableView],
        repaint: Callable[[], None],
        options: Options,
        changes: ChangeControl,
    ) -> None:
        """`view`: the one on screen."""
        super().__init__(repaint, options, changes)
        self._view = view
        order = view().sorting
        keys = [] if order is None else [key for key, _ in order.columns]
        self.at = keys.index(order.key) if order is not None and order.key in keys else 0

    @property
    def rows(self) -> Sequence[MenuRow]:
        order = self._view().sorting
        if order is None:
            return ()
        arrow = "▼" if order.descending else "▲"
        return [
            MenuRow(label, note=arrow if key == order.key else "") for key, label in order.columns
        ]

    def choose(self) -> None:
        order = self._view().sorting
        if order is not None:
            self._view().sort_by(order.columns[self.at][0])

    def act(self, action: str, by: int) -> None:  # noqa: ARG002 - no distances
        if action == "choose":
            self.choose()
            self._repaint()
            self.dismiss()
        else:
            self._view().invert()


class ColumnMenu(MenuScreen):
    """Columns of the view's table: those shown in their order, then the others."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(COLUMN_MENU)
    TITLE_TEXT = "Columns"
    TABLE = "column_menu"
    KEYS: ClassVar[tuple[KeyRow, ...]] = COLUMN_MENU

    def __init__(
        self,
        view: ScreenView,
        state: ColumnState,
        repaint: Callable[[], None],
        options: Options,
        changes: ChangeControl,
    ) -> None:
        """`view`: the one on screen; `state`: its columns."""
        super().__init__(repaint, options, changes)
        self._session = view.session
        self._table = state.table
        self._labels = dict(state.every)
        self._first = state.every[0][0]
        self._shown = [key for key in state.shown if key in self._labels]

    @property
    def _keys(self) -> list[str]:
        return [*self._shown, *(key for key in self._labels if key not in self._shown)]

    @property
    def rows(self) -> Sequence[MenuRow]:
        return [
            MenuRow(self._labels[key], mark="[x] " if key in self._shown else "[ ] ")
            for key in self._keys
        ]

    def choose(self) -> None:
        key = self._keys[self.at]
        if key == self._first:
            self._message = f"{self._labels[key]} is always shown"
        elif key in self._shown:
            self._shown.remove(key)
            self._use()
        else:
            self._shown.append(key)
            self._use()
            self.at = len(self._shown) - 1

    def act(self, action: str, by: int) -> None:
        if action == "choose":
            self.choose()
        elif action == "shift":
            self._shift(by)
        else:
            self._session.columns.pop(self._table, None)
            self._repaint()
            self._message = "columns are nftop's own choice by width"

    def _shift(self, by: int) -> None:
        to = self.at + by
        # The first column has its place.
        if 0 < self.at < len(self._shown) and 0 < to < len(self._shown):
            self._shown.insert(to, self._shown.pop(self.at))
            self.at = to
            self._use()

    def _use(self) -> None:
        self._session.columns[self._table] = tuple(self._shown)

    def close(self) -> None:
        """Keep the choice in the operator's file, if there is one."""
        file = self._options.columns
        if file is not None and file.chosen != self._session.columns:
            try:
                file.keep(self._session.columns)
            except OSError as error:
                why = error.strerror
                self._session.message = f"columns are kept for this session only: {why}"
        self.dismiss()
