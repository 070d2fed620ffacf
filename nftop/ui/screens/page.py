"""A page of text to scroll: help, or one number explained."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from nftop.render.footer import footer_line
from nftop.render.line import Line
from nftop.ui.changing import Changes
from nftop.ui.keys import PAGE, PAGE_HINTS, bindings
from nftop.ui.options import Options
from nftop.ui.screens.base import BannerScreen
from nftop.ui.screens.views import LEADING
from nftop.ui.widgets.banner import Banner
from nftop.ui.widgets.footer import Footer
from nftop.ui.widgets.lines import Lines


class PageScreen(BannerScreen[int | None]):
    """Shows what `text` gives for a width. Closed by a key that leads to a view, it says which."""

    BINDINGS: ClassVar[list[BindingType]] = bindings((*PAGE, *LEADING))

    def __init__(
        self, text: Callable[[int], list[Line]], options: Options, changes: Changes
    ) -> None:
        super().__init__()
        self.changes = changes
        self._text = text
        self._options = options
        self._top = 0
        self._said = ""

    def compose(self) -> ComposeResult:
        yield Banner(ascii_only=self._options.ascii_only)
        yield Lines(ascii_only=self._options.ascii_only, id="page")
        yield Footer(ascii_only=self._options.ascii_only)

    def on_resize(self) -> None:
        self.paint()

    def on_mouse_scroll_down(self) -> None:
        self._scroll(3)

    def on_mouse_scroll_up(self) -> None:
        self._scroll(-3)

    def action_act(self, action: str, by: int) -> None:
        if action == "close":
            self.dismiss()
            return
        if action == "screen":
            self.dismiss(by)
            return
        self._said = ""
        page = max(1, self.size.height - 2) if action == "page" else 1
        self._scroll(by * page)

    def _scroll(self, lines: int) -> None:
        self._top += lines
        self.paint()

    def say(self, message: str) -> None:
        self._said = message
        self.paint()

    def paint(self) -> None:
        taken = self.show_banner()
        if taken is None:
            return
        width, height = self.size.width, self.size.height - 1 - taken
        lines = self._text(width)
        self._top = max(0, min(self._top, len(lines) - height))
        shown = lines[self._top : self._top + max(0, height)]
        place = f"{self._top + 1}-{self._top + len(shown)}/{len(lines)}"
        self.query_one("#page", Lines).show(shown, max(0, height))
        self.query_one(Footer).show([footer_line(PAGE_HINTS, place, width, self._said)], 1)
