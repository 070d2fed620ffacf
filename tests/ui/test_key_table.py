"""The table of keys: no key has two meanings, and docs/keys.md is the table.

`python -m tests.ui.test_key_table` writes the page again.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.app import App
from textual.keys import KEY_ALIASES
from textual.screen import Screen

from nftop.render.pages.help import help_lines
from nftop.ui.key_bindings import MOVE, KeyRow, hints
from nftop.ui.key_table import _DIALOGS, help_content, key_tables, titles
from nftop.ui.screens.registry import screens

PAGE = Path(__file__).parents[2] / "docs/keys.md"
# What terminals, tmux and screen take, and what Textual quits by.
TAKEN = {"ctrl+a", "ctrl+b", "ctrl+s", "ctrl+q", "ctrl+c", "ctrl+z", "ctrl+backslash"}


# Keys that have an owner but no action yet, by screen: another action must not take them.
RESERVED: dict[str, tuple[tuple[str, str], ...]] = {
    "main": (("P", "screenshot"),),
    "page": (("T", "on an incident's page: sweep of the culprit's ways"),),
}


def reserved(screen: str) -> tuple[tuple[str, str], ...]:
    """Keys of a screen that are not taken yet but have an owner, with what they will do."""
    return RESERVED.get(screen if screen in _DIALOGS else "main", ())


def markdown() -> str:
    """`docs/keys.md`: what all screens of the main window share, then each table's own keys."""
    tables = key_tables()
    main = [dict.fromkeys(tables[row.id]) for row in screens()]
    shared = [key for key in main[0] if all(key in table for table in main)]
    sections = [_HEAD, _section("All screens", shared)]
    for name, keys in tables.items():
        own = keys if name in _DIALOGS else [key for key in keys if key not in shared]
        sections.append(_section(titles()[name], own))
    kept = {key: text for rows in RESERVED.values() for key, text in rows}
    lines = [f"| `{key}` | {text} |" for key, text in kept.items()]
    sections.append("\n".join(["## Reserved", "", "| key | for |", "|---|---|", *lines]))
    return "\n\n".join(sections) + "\n"


_HEAD = """\
# Keys

Made from `nftop/ui/key_bindings.py` by `python -m tests.ui.test_key_table`; do not edit.
A key means the same on every screen of the main window. `y` only confirms, `C` copies.
No key needs Alt, Ctrl-A, Ctrl-B, Ctrl-S or Ctrl-Q. Ctrl-C quits everywhere, Ctrl-Z suspends."""


def _section(title: str, keys: list[KeyRow] | tuple[KeyRow, ...]) -> str:
    rows = [f"| {_code(key.shown)} | {key.help} |" for key in keys]
    return "\n".join([f"## {title}", "", "| key | does |", "|---|---|", *rows])


def _code(shown: str) -> str:
    return " ".join(f"`{key}`" if key != "\\" else "`\\\\`" for key in shown.split())


def meanings(keys: tuple[KeyRow, ...]) -> dict[str, set[tuple[str, int]]]:
    """Action and argument of each of Textual's keys."""
    result: dict[str, set[tuple[str, int]]] = {}
    for row in keys:
        for key in row.keys.split(","):
            result.setdefault(key, set()).add((row.action, row.by))
    return result


@pytest.mark.parametrize("screen", key_tables())
def test_a_key_has_one_meaning_on_a_screen(screen: str) -> None:
    matches = meanings(key_tables()[screen])
    assert {key: sorted(what) for key, what in matches.items() if len(what) > 1} == {}
    assert not matches.keys() & {key for key, _ in reserved(screen)}


def test_a_key_means_the_same_on_all_screens_of_the_main_window() -> None:
    every = tuple(key for row in screens() for key in key_tables()[row.id])
    matches = meanings(every)
    assert {key: sorted(what) for key, what in matches.items() if len(what) > 1} == {}


def test_a_key_that_writes_does_nothing_else_on_any_screen() -> None:
    rows = [row for keys in key_tables().values() for row in keys]
    confirming = {row for row in rows if row.action in ("yes", "start")}
    keys = {key for row in confirming for key in row.keys.split(",")}
    assert keys == {"y"}
    assert {row for row in rows if keys.intersection(row.keys.split(","))} == confirming
    assert all("C" in row.keys.split(",") for row in rows if row.action == "copy")


def test_collisions_are_detected() -> None:
    matches = meanings((*MOVE, KeyRow("k", "keep", "k", "keep")))
    assert matches["k"] == {("move", -1), ("keep", 0)}


@pytest.mark.parametrize("screen", key_tables())
def test_no_key_is_the_terminals_or_an_alias_of_another(screen: str) -> None:
    matches = meanings(key_tables()[screen])
    assert not {key for key in matches if "alt+" in key or "meta+" in key or key in TAKEN}
    # A terminal sends the same byte for both: they must not differ.
    for key, aliases in KEY_ALIASES.items():
        for alias in aliases:
            assert key not in matches or alias not in matches or matches[key] == matches[alias]


def test_textuals_own_keys_are_ours_on_purpose() -> None:
    theirs = {
        key
        for item in (*Screen.BINDINGS, *App.BINDINGS)
        for key in getattr(item, "key", "").split(",")
    }
    ours = {key for keys in key_tables().values() for key in meanings(keys)}
    # The focus does not move: there is nothing to focus but a prompt.
    assert ours & theirs <= {"tab", "shift+tab"}


@pytest.mark.parametrize("screen", key_tables())
def test_every_screen_has_help_and_a_way_back_among_its_hints(screen: str) -> None:
    actions = [hint.click.action for hint in hints(key_tables()[screen])]
    assert actions[0] == "help" or screen == "help"
    assert {"app.quit", "close"} & set(actions)
    # Nothing is changed from the fleet's screen.
    if not screen.startswith("fleet"):
        assert {"K", "u"} <= {hint.key for hint in hints(key_tables()[screen], ["pending"])}
    assert screen in titles()


@pytest.mark.parametrize("screen", key_tables())
def test_the_help_of_every_screen_finds_what_sick_is(screen: str) -> None:
    shown, others = help_content(screen)
    lines = help_lines(shown, others, "sick", 100)
    assert any(item.text.lstrip().startswith("sick 4 of 17") for item in lines)


def test_the_page_is_the_table() -> None:
    assert PAGE.read_text(encoding="utf-8") == markdown(), "python -m tests.ui.test_key_table"


if __name__ == "__main__":
    PAGE.write_text(markdown(), encoding="utf-8")
