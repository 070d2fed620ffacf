"""Base of all screens: the banner of a pending change, and messages."""

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

    changes: control of the pending change.
    follows: redrawn with every frame.
    """

    changes: ChangeControl
    follows: bool = False

    def show_banner(self) -> int | None:
        """Draw the banner; returns its lines, or None while the screen cannot be drawn.

        Messages may arrive before the screen is composed or while it is torn down.
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
        """Report a printable key that is not bound on this screen."""
        if event.is_printable and event.key not in self._bindings.key_to_bindings:
            self.say(f"{named(event.character)} does nothing here (?: keys)")

    def paint(self) -> None:
        """Draw the screen."""
        raise NotImplementedError

    def say(self, message: str) -> None:
        """Show a message until the next key."""
        raise NotImplementedError
