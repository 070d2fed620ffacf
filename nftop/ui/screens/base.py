"""What every screen has: the lines that say that a change waits to be kept."""

from __future__ import annotations

from typing import TypeVar

from textual.screen import Screen

from nftop.ui.changing import Changes
from nftop.ui.widgets.banner import Banner
from nftop.ui.widgets.footer import Footer

Result = TypeVar("Result")


class BannerScreen(Screen[Result]):
    """Attributes.

    changes: what is being changed, whichever screen is up.
    """

    changes: Changes

    def show_banner(self) -> int | None:
        """Draw it; how many lines of the screen it has taken. None: nothing can be drawn here.

        A thread's news may come before the screen is composed, or when it is being taken apart.
        """
        banner, footer = self.query_one_optional(Banner), self.query_one_optional(Footer)
        if banner is None or footer is None or not self.size:
            return None
        lines = self.changes.lines(self.size.width)
        banner.show(lines, len(lines))
        return len(lines)

    def paint(self) -> None:
        """Draw the screen as things stand now."""
        raise NotImplementedError

    def say(self, message: str) -> None:
        """Say something until the next key, where the screen has a place for it."""
        raise NotImplementedError
