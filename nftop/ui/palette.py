"""Command palette: every action of the screen by name, and the themes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.types import IgnoreReturnCallbackType

from nftop.ui.keys import KeyRow
from nftop.ui.screens.base import BannerScreen
from nftop.ui.theme import THEMES

# Keys that only move about; their names would fill the list.
_MOVES = frozenset({"move", "page", "last", "find_again", "app.command_palette"})


class PaletteCommand(NamedTuple):
    """A command: its name with the keys that do the same, and what runs it."""

    name: str
    run: IgnoreReturnCallbackType


class NftopCommands(Provider):
    """Commands of the screen on which the palette was opened."""

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for command in self._commands():
            if (score := matcher.match(command.name)) > 0:
                yield Hit(score, matcher.highlight(command.name), command.run)

    async def discover(self) -> Hits:
        for command in self._commands():
            yield DiscoveryHit(command.name, command.run)

    def _commands(self) -> Iterator[PaletteCommand]:
        if isinstance(self.screen, BannerScreen):
            for key in self.screen.key_rows:
                if key.action not in _MOVES:
                    run = partial(self.screen.run_action, _action(key))
                    yield PaletteCommand(f"{key.help}  ({key.shown})", run)
        for theme in THEMES:
            yield PaletteCommand(f"colours: {theme.name}", partial(self._set_theme, theme.name))

    def _set_theme(self, name: str) -> None:
        self.app.theme = name


def _action(key: KeyRow) -> str:
    return key.action if "." in key.action else f"act({key.action!r}, {key.by})"
