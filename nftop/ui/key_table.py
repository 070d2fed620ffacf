"""The list of all screens with their keys, and the help made from it; keys are in `keys.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from nftop.render.cache.verdict import MARKS as VERDICT_MARKS
from nftop.render.editor.page import CHECK_MARKS
from nftop.render.editor.rows import MARKS as EDITOR_MARKS
from nftop.render.fleet import MARKS as FLEET_MARKS
from nftop.render.pages.help import HelpSection, mark_sections, reference_sections
from nftop.ui.key_bindings import (
    ALWAYS,
    COLUMN_MENU,
    CONFIRM,
    DOCTOR,
    EDITOR,
    EXPERIMENT,
    FINDINGS,
    FLEET,
    FLEET_PAGE,
    HELP,
    INCIDENT,
    PAGE,
    PRIORITY,
    SORT_MENU,
    KeyRow,
    help_rows,
)
from nftop.ui.screens.registry import screen_keys, screens

_DIALOGS: Mapping[str, tuple[KeyRow, ...]] = {
    "page": PAGE,
    "incident": INCIDENT,
    "findings": FINDINGS,
    "doctor": DOCTOR,
    "help": HELP,
    "sort_menu": SORT_MENU,
    "column_menu": COLUMN_MENU,
    "editor": EDITOR,
    "experiment": EXPERIMENT,
    "confirm": CONFIRM,
    "priority": PRIORITY,
    "fleet": FLEET,
    "fleet_page": FLEET_PAGE,
}
# Pages from which the number keys lead to another screen.
_LEAVES = ("page", "doctor", "incident", "findings", "help")
_TITLES = {
    "page": "Pages: explain, details",
    "incident": "Page of an incident",
    "findings": "Page of findings",
    "doctor": "Doctor",
    "help": "Help",
    "sort_menu": "Sort menu",
    "column_menu": "Column chooser",
    "editor": "Editor of cache classes",
    "experiment": "Experiment (sweep)",
    "confirm": "Preview of a change",
    "priority": "Editor of a core's frequencies",
    "fleet": "Fleet screen (nftop fleet)",
    "fleet_page": "Pages over the fleet screen",
}

_EDITOR_HELP = (
    HelpSection("Marks", (*EDITOR_MARKS, *CHECK_MARKS)),
    HelpSection("In a verdict", VERDICT_MARKS),
)


def key_tables() -> dict[str, tuple[KeyRow, ...]]:
    """Keys by screen: an id of the registry, or a name of a page or dialog."""
    return {
        **{row.id: (*screen_keys(), *row.view.KEYS) for row in screens()},
        **{
            name: (*(screen_keys() if name in _LEAVES else ()), *keys)
            for name, keys in _DIALOGS.items()
        },
    }


def titles() -> dict[str, str]:
    """Title of each table of `key_tables`."""
    return {**{row.id: f"{row.title} screen" for row in screens()}, **_TITLES}


class HelpContent(NamedTuple):
    """Sections of a help page: those drawn, and those that only a search finds."""

    shown: tuple[HelpSection, ...]
    others: tuple[HelpSection, ...]


def help_content(screen: str) -> HelpContent:
    """Help of a screen: its keys and marks; the search also finds those of all others."""
    tables, names = key_tables(), titles()
    rows = {row.id: row for row in screens()}
    shared = tuple(dict.fromkeys((*screen_keys(), *ALWAYS)))
    own = tables[screen]
    hidden = shared if screen in rows else ()
    shown = [HelpSection(names[screen], help_rows(key for key in own if key not in hidden))]
    if screen in rows:
        shown.append(HelpSection("All screens", help_rows(key for key in own if key in shared)))
        shown.append(HelpSection("Marks of this screen", rows[screen].marks))
    if screen == "editor":
        shown += _EDITOR_HELP
    elif screen == "fleet":
        shown += (HelpSection("Marks of this screen", FLEET_MARKS), *mark_sections())
    elif screen in rows:
        shown += mark_sections()
    others = [
        HelpSection(names[name], help_rows(key for key in keys if key not in shared))
        for name, keys in tables.items()
        if name != screen
    ]
    others += [
        HelpSection(f"Marks of the {row.title} screen", row.marks)
        for row in rows.values()
        if row.id != screen
    ]
    return HelpContent(tuple(shown), (*others, *reference_sections()))
