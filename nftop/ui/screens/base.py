"""What every screen has: the lines that say that a change waits to be kept."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from textual import events
from textual.binding import BindingsMap
from textual.screen import Screen

from nftop.ui.keys import KeyRow, bindings, named
from nftop.ui.pending_change import ChangeControl
from nftop.ui.widgets.panels import ChangeBanner, Footer

Result = TypeVar("Result")


class BannerScreen(Screen[Result]):
    """Attributes.

    changes: what is being changed, whichever screen is up.
    follows: drawn anew with every frame while it is up.
    """

    changes: ChangeControl
    follows: bool = False

    def show_banner(self) -> int | None:
        """Draw it; how many lines of the screen it has taken. None: nothing can be drawn here.

        A thread's news may come before the screen is composed, or when it is being taken apart.
        """
        banner, footer = self.query_one_optional(ChangeBanner), self.query_one_optional(Footer)
        if banner is None or footer is None or not self.size:
            return None
        lines = self.changes.lines(self.size.width)
        banner.show(lines, len(lines))
        return len(lines)

    def bind_keys(self, keys: Iterable[KeyRow]) -> None:
        """Bind keys of this screen that are known only when it is created."""
        self._bindings.key_to_bindings.update(BindingsMap(bindings(keys)).key_to_bindings)

    def say_unbound(self, event: events.Key) -> None:
        """Answer a printable key that no binding of this screen has."""
        if event.is_printable and event.key not in self._bindings.key_to_bindings:
            self.say(f"{named(event.character)} does nothing here: ? lists the keys")

    def paint(self) -> None:
        """Draw the screen as things stand now."""
        raise NotImplementedError

    def say(self, message: str) -> None:
        """Say something until the next key, where the screen has a place for it."""
        raise NotImplementedError
