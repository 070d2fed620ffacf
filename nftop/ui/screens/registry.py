"""Registry of the screens: one row per screen, registered next to its class.

Header, number keys, footer, help page and key table are built from the rows. Every module of this
package but those `OPENED` is imported before the rows are read, so a new screen is a new file that
calls `register`.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence
from functools import cache
from importlib import import_module

from nftop.model.struct import dataclass
from nftop.render.base.table import LastResults
from nftop.ui.key_bindings import KeyRow
from nftop.ui.screens.view import ScreenView

_PACKAGE = __name__.rpartition(".")[0]
# Modules of pages, menus and editors, without a row. They are imported after the first frame, which
# would wait for them, or at the key that opens them.
OPENED = ("page", "incident", "menu", "confirm", "experiment", "editor", "priority")
# Screen that Enter opens where the current one has nothing of its own to open.
DRILL_DOWN = "topdown"


@dataclass(frozen=True, slots=True)
class ScreenRow:
    """A screen of the main window.

    Attributes:
        id: its name in code.
        keys: characters that open it; the first is shown, and its order is that of the header.
        title: its name in header, help and messages.
        view: draws it; its `KEYS` are those of footer and help.
        short: its name where the header is narrow; the title if empty.
        help: what the keys do; the title says it if empty.
        marks: marks and words on this screen with their meaning, for the help page.
    """

    id: str
    keys: str
    title: str
    view: type[ScreenView]
    short: str = ""
    help: str = ""
    marks: Sequence[tuple[str, str]] = ()


_ROWS: dict[str, ScreenRow] = {}


def register(row: ScreenRow) -> None:
    """Add a screen.

    Raises:
        ValueError: its id or one of its keys is taken.
    """
    taken = {key for other in _ROWS.values() for key in other.keys}
    if row.id in _ROWS or not row.keys or taken & set(row.keys):
        raise ValueError(f"screen {row.id!r}: id or keys {row.keys!r} are taken")
    _ROWS[row.id] = row


def unregister(screen_id: str) -> None:
    """Remove a screen; an application that is running keeps it."""
    del _ROWS[screen_id]


def screens() -> tuple[ScreenRow, ...]:
    """All screens in the order of their keys."""
    _import_all()
    return tuple(sorted(_ROWS.values(), key=lambda row: row.keys))


def position(screen_id: str) -> int:
    """Index of a screen in `screens()`."""
    return [row.id for row in screens()].index(screen_id)


def screen_keys() -> tuple[KeyRow, ...]:
    """The keys that open a screen; `Key.by` is its index in `screens()`."""
    return _keys_of(screens())


def _screen_keys(rows: tuple[ScreenRow, ...]) -> tuple[KeyRow, ...]:
    return tuple(
        KeyRow(
            ",".join(row.keys),
            "screen",
            " ".join(row.keys),
            row.help or f"the {row.title} screen",
            index,
        )
        for index, row in enumerate(rows)
    )


_keys_of = LastResults(_screen_keys)


def main_keys() -> tuple[KeyRow, ...]:
    """Every key of every screen once, in the order of the help."""
    own = (key for row in screens() for key in row.view.KEYS)
    return tuple(dict.fromkeys((*screen_keys(), *own)))


def import_opened() -> None:
    """Import the modules OPENED."""
    for name in OPENED:
        import_module(f"{_PACKAGE}.{name}")


@cache
def _import_all() -> None:
    for info in pkgutil.iter_modules(import_module(_PACKAGE).__path__):
        if info.name not in OPENED and info.name != "fleet":  # an application of its own
            import_module(f"{_PACKAGE}.{info.name}")
