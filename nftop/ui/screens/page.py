"""Scrollable page of text: help, findings, or an explanation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar, TypeAlias

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType

from nftop.render.base.line import Line
from nftop.render.pages.help import section
from nftop.ui.keys import PAGE, KeyRow, bindings, help_rows
from nftop.ui.options import Options
from nftop.ui.pending_change import ChangeControl
from nftop.ui.screens.base import BannerScreen
from nftop.ui.screens.registry import screen_keys
from nftop.ui.widgets.lines import Lines
from nftop.ui.widgets.panels import ChangeBanner, Footer

# Lines of a page, for a width in cells.
PageText: TypeAlias = Callable[[int], list[Line]]


class PageScreen(BannerScreen[int | None]):
    """Shows the text of `source`. A screen's key closes it with the screen's index."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(PAGE)

    def __init__(
        self,
        source: Callable[[], PageText | None],
        options: Options,
        changes: ChangeControl,
        *,
        toggle: str = "",
        help_text: PageText | None = None,
    ) -> None:
        """A page.

        Args:
            source: called at each drawing; None keeps the text.
            options: of the interface.
            changes: for the banner.
            toggle: key that opened the page and also closes it.
            help_text: page for `?`; None: this is the help page, and `?` closes it.
        """
        super().__init__()
        self.bind_keys(screen_keys())
        self.changes = changes
        self.follows = help_text is not None
        self._source = source
        self._text: PageText = source() or (lambda _width: [])
        self._toggle = toggle
        self._help_text = help_text
        self._options = options
        self._top = 0
        self._message = ""

    def compose(self) -> ComposeResult:
        yield ChangeBanner(ascii_only=self._options.ascii_only)
        yield Lines(ascii_only=self._options.ascii_only, id="page")
        yield Footer(ascii_only=self._options.ascii_only)

    def on_resize(self) -> None:
        self.paint()

    def on_mouse_scroll_down(self) -> None:
        self._scroll(3)

    def on_mouse_scroll_up(self) -> None:
        self._scroll(-3)

    def on_key(self, event: events.Key) -> None:
        if event.key == self._toggle:
            event.stop()
            self.dismiss()
        else:
            self.say_unbound(event)

    def action_act(self, action: str, by: int) -> None:
        if action == "close":
            self.dismiss()
            return
        if action == "screen":
            self.dismiss(by)
            return
        if action == "help":
            self._help()
            return
        self._message = ""
        page = max(1, self.size.height - 2) if action == "page" else 1
        self._scroll(by * page)

    def _help(self) -> None:
        """Open the keys of this page and of the screen below it."""
        below = self._help_text
        if below is None:
            self.dismiss()
            return
        of_screen = below  # not None for the closure

        def text(width: int) -> list[Line]:
            return [*section("On this page", help_rows(PAGE), width), *of_screen(width)]

        self.app.push_screen(PageScreen(lambda: text, self._options, self.changes), self._back)

    def _back(self, number: int | None) -> None:
        """Return from the help page, to a screen if `number` is given."""
        if number is None:
            self.paint()
        else:
            self.dismiss(number)

    def _scroll(self, lines: int) -> None:
        self._top += lines
        self.paint()

    def say(self, message: str) -> None:
        self._message = message
        self.paint()

    def paint(self) -> None:
        taken = self.show_banner()
        if taken is None:
            return
        self._text = self._source() or self._text
        width, height = self.size.width, self.size.height - 1 - taken
        lines = self._text(width)
        self._top = max(0, min(self._top, len(lines) - height))
        shown = lines[self._top : self._top + max(0, height)]
        position = f"{self._top + 1}-{self._top + len(shown)}/{len(lines)}"
        self.query_one("#page", Lines).show(shown, max(0, height))
        self.show_footer(PAGE, position=position, message=self._message)


def keys_page(keys: Iterable[KeyRow], options: Options, changes: ChangeControl) -> PageScreen:
    """Help page of a screen that has only keys to explain."""
    rows = help_rows(keys)
    return PageScreen(lambda: lambda width: section("Keys", rows, width), options, changes)
