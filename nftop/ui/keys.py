"""Every key, once: what is bound, what the footer hints at and what the help lists."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from textual.binding import Binding, BindingType


@dataclass(frozen=True, slots=True)
class Key:
    """Attributes.

    keys: Textual's names, comma separated.
    action: what the screen does.
    shown: how the help writes the keys.
    help: what they do.
    by: how far, or which; what that is depends on the action.
    hint: key and word in the footer, None where the footer leaves it out.
    asks: opens a prompt; heeded before any other key is, as those behind it are for the prompt.
    """

    keys: str
    action: str
    shown: str
    help: str
    by: int = 0
    hint: tuple[str, str] | None = None
    asks: bool = False


MOST = 100_000  # lines: to the end, however far that is

# In the order of the help; hints are in the footer's own order below.
MOVE: tuple[Key, ...] = (
    Key("down,j", "move", "down j", "next CPU or line", 1),
    Key("up,k", "move", "up k", "the one before", -1),
    Key("pagedown", "page", "PgDn", "a page down", 1),
    Key("pageup", "page", "PgUp", "a page up", -1),
    Key("g,home", "move", "g Home", "the first", -MOST),
    Key("G,end", "move", "G End", "the last", MOST),
)
CPUS: tuple[Key, ...] = (
    Key(
        "slash",
        "ask_find",
        "/",
        "find a thread, an NF or a CPU (4 or 0-3,8)",
        hint=("/", "Find"),
        asks=True,
    ),
    Key("n", "find_again", "n", "find the next", 1),
    Key("N", "find_again", "N", "find the one before", -1),
    Key(
        "backslash,f4",
        "ask_filter",
        "\\ F4",
        "show only rows with this thread, NF or CPU list; empty shows all",
        hint=("\\", "Filter"),
        asks=True,
    ),
    Key("greater_than_sign,f6", "sort", "> F6", "sort by the next column", 1, ("<>", "Sort")),
    Key("less_than_sign", "sort", "<", "sort by the column before", -1),
    Key("I", "invert", "I", "sort the other way", hint=("I", "Invert")),
    Key("i", "fold", "i", "show or fold the CPUs nothing polls on", hint=("i", "Others")),
)
TOPDOWN: tuple[Key, ...] = (
    Key("p", "move", "p", "Topdown: the CPU before, as k", -1),
    Key(
        "t",
        "group",
        "t",
        "Topdown: the selected core, or all by NF or cache class",
        hint=("t", "Group"),
    ),
)
DRILL: tuple[Key, ...] = (
    Key(
        "enter", "screen", "Enter", "Cores: top-down of the selected core", 6, ("Enter", "Topdown")
    ),
)
ALWAYS: tuple[Key, ...] = (
    Key(
        "x",
        "explain",
        "x",
        "explain the metrics looked at, with their values",
        hint=("x", "Explain"),
    ),
    Key(
        "space",
        "pause",
        "Space",
        "freeze the screen; nftop goes on measuring",
        hint=("Spc", "Pause"),
    ),
    Key("d", "ask_delay", "d", "seconds between ticks", hint=("d", "Delay"), asks=True),
    Key("question_mark,h,f1", "help", "? h F1", "this page", hint=("?", "Help")),
    Key("escape", "clear", "Esc", "clear message and filter, then back to Cores"),
    Key("q,f10", "app.quit", "q F10", "quit (also Ctrl-C)", hint=("q", "Quit")),
)

_HINT_ORDER = ("?", "q", "Spc", "/", "Enter", "t", "\\", "<>", "x", "i", "I", "d")


def hints(keys: Iterable[Key]) -> tuple[tuple[str, str], ...]:
    """What the footer says of them, in its order."""
    found = (key.hint for key in keys if key.hint)
    return tuple(sorted(found, key=lambda hint: _HINT_ORDER.index(hint[0])))


PAGE: tuple[Key, ...] = (
    Key("down,j", "move", "down j", "down", 1),
    Key("up,k", "move", "up k", "up", -1),
    Key("pagedown,space", "page", "PgDn", "a page down", 1),
    Key("pageup", "page", "PgUp", "a page up", -1),
    Key("g,home", "move", "g", "to the top", -MOST),
    Key("G,end", "move", "G", "to the end", MOST),
    Key("escape,q,f10,x,question_mark,h,f1", "close", "Esc q", "close"),
)
PAGE_HINTS = (("Esc", "Close"), ("jk", "Scroll"))


def bindings(keys: Iterable[Key]) -> list[BindingType]:
    """What Textual binds for them: the screen's `action_act`, or an action of the application."""
    return [
        Binding(
            key.keys,
            key.action if "." in key.action else f"act({key.action!r}, {key.by})",
            show=False,
            priority=key.asks,
        )
        for key in keys
    ]


def help_rows(keys: Iterable[Key]) -> list[tuple[str, str]]:
    """Pairs of keys and what they do, for the help page."""
    return [(key.shown, key.help) for key in keys]
