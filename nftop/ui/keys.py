"""Every key, once: what is bound, what the footer hints at and what the help lists."""

from __future__ import annotations

from dataclasses import dataclass

from textual.binding import Binding, BindingType


@dataclass(frozen=True, slots=True)
class Key:
    """Attributes.

    keys: Textual's names, comma separated.
    action: what the screen does.
    shown: how the help writes the keys.
    help: what they do.
    hint: key and word in the footer, None where the footer leaves it out.
    asks: opens a prompt; heeded before any other key is, as those behind it are for the prompt.
    """

    keys: str
    action: str
    shown: str
    help: str
    hint: tuple[str, str] | None = None
    asks: bool = False


# In the order of the help; hints are in the footer's own order below.
CORES: tuple[Key, ...] = (
    Key("down,j", "move(1)", "down j", "next CPU"),
    Key("up,k", "move(-1)", "up k", "previous CPU"),
    Key("pagedown", "page(1)", "PgDn", "a page down"),
    Key("pageup", "page(-1)", "PgUp", "a page up"),
    Key("g,home", "move(-100000)", "g Home", "first CPU"),
    Key("G,end", "move(100000)", "G End", "last CPU"),
    Key(
        "slash",
        "ask_find",
        "/",
        "find a thread, an NF or a CPU (4 or 0-3,8)",
        ("/", "Find"),
        asks=True,
    ),
    Key("n", "find_again(1)", "n", "find the next"),
    Key("N", "find_again(-1)", "N", "find the one before"),
    Key(
        "backslash,f4",
        "ask_filter",
        "\\ F4",
        "show only rows with this thread, NF or CPU list; empty shows all",
        ("\\", "Filter"),
        asks=True,
    ),
    Key("greater_than_sign,f6", "sort(1)", "> F6", "sort by the next column", ("<>", "Sort")),
    Key("less_than_sign", "sort(-1)", "<", "sort by the column before"),
    Key("I", "invert", "I", "sort the other way", ("I", "Invert")),
    Key("i", "fold", "i", "show or fold the CPUs nothing polls on", ("i", "Others")),
    Key("x", "explain", "x", "explain the metric of the graph, for this CPU", ("x", "Explain")),
    Key("space", "pause", "Space", "freeze the screen; nftop goes on measuring", ("Spc", "Pause")),
    Key("d", "ask_delay", "d", "seconds between ticks", ("d", "Delay"), asks=True),
    Key("question_mark,h,f1", "help", "? h F1", "this page", ("?", "Help")),
    Key("escape", "clear", "Esc", "clear filter and message"),
    Key("q,f10", "app.quit", "q F10", "quit (also Ctrl-C)", ("q", "Quit")),
)

_HINT_ORDER = ("?", "q", "Spc", "/", "\\", "<>", "x", "i", "I", "d")
HINTS: tuple[tuple[str, str], ...] = tuple(
    sorted((key.hint for key in CORES if key.hint), key=lambda hint: _HINT_ORDER.index(hint[0]))
)

PAGE: tuple[Key, ...] = (
    Key("down,j", "scroll_by(1)", "down j", "down"),
    Key("up,k", "scroll_by(-1)", "up k", "up"),
    Key("pagedown,space", "scroll_page(1)", "PgDn", "a page down"),
    Key("pageup", "scroll_page(-1)", "PgUp", "a page up"),
    Key("g,home", "scroll_by(-100000)", "g", "to the top"),
    Key("G,end", "scroll_by(100000)", "G", "to the end"),
    Key("escape,q,f10,x,question_mark,h,f1", "close", "Esc q", "close"),
)
PAGE_HINTS = (("Esc", "Close"), ("jk", "Scroll"))


def bindings(keys: tuple[Key, ...]) -> list[BindingType]:
    """What Textual binds for them."""
    return [Binding(key.keys, key.action, show=False, priority=key.asks) for key in keys]


def help_rows() -> list[tuple[str, str]]:
    """Pairs of keys and what they do, for the help page."""
    return [(key.shown, key.help) for key in CORES]
