"""All keys: their bindings, their hints in the footer and their lines in the help."""

from __future__ import annotations

from collections.abc import Iterable

from textual.binding import Binding, BindingType

from nftop.model.struct import dataclass


@dataclass(frozen=True, slots=True)
class KeyRow:
    """Attributes.

    keys: Textual's names, comma separated.
    action: of the screen, or `app.` and one of the application.
    shown: the keys as the help writes them.
    help: what they do.
    by: argument of the action: a distance, direction or index.
    hint: key and word in the footer; None: not in the footer.
    asks: opens a prompt; handled first, since keys typed after it belong to the prompt.
    """

    keys: str
    action: str
    shown: str
    help: str
    by: int = 0
    hint: tuple[str, str] | None = None
    asks: bool = False


MOST = 100_000  # lines: to the end

# In the order of the help; `_HINT_ORDER` is that of the footer.
MOVE: tuple[KeyRow, ...] = (
    KeyRow("down,j", "move", "down j", "next CPU or line", 1),
    KeyRow("up,k", "move", "up k", "previous CPU or line", -1),
    KeyRow("pagedown", "page", "PgDn", "page down", 1),
    KeyRow("pageup", "page", "PgUp", "page up", -1),
    KeyRow("g,home", "move", "g Home", "first", -MOST),
    KeyRow("G,end", "move", "G End", "last", MOST),
)
CPUS: tuple[KeyRow, ...] = (
    KeyRow(
        "slash",
        "ask_find",
        "/",
        "find a thread, an NF or a CPU (4 or 0-3,8)",
        hint=("/", "Find"),
        asks=True,
    ),
    KeyRow("n", "find_again", "n", "find next", 1),
    KeyRow("N", "find_again", "N", "find previous", -1),
    KeyRow(
        "backslash,f4",
        "ask_filter",
        "\\ F4",
        "show only rows with this thread, NF or CPU list; empty: all",
        hint=("\\", "Filter"),
        asks=True,
    ),
    KeyRow("greater_than_sign,f6", "sort", "> F6", "sort by the next column", 1, ("<>", "Sort")),
    KeyRow("less_than_sign", "sort", "<", "sort by the previous column", -1),
    KeyRow("I", "invert", "I", "reverse the order", hint=("I", "Invert")),
    KeyRow("i", "fold", "i", "show or fold CPUs without a poller", hint=("i", "Others")),
)
TOPDOWN: tuple[KeyRow, ...] = (
    KeyRow("p", "move", "p", "Topdown: previous CPU, as k", -1),
    KeyRow(
        "t",
        "group",
        "t",
        "Topdown: selected core, or all cores by NF or cache class",
        hint=("t", "Group"),
    ),
)
NFS: tuple[KeyRow, ...] = (
    # A key has one action: this is that of `DRILL`.
    KeyRow(
        "enter",
        "open",
        "Enter",
        "NFs: all threads, queues, ports and nodes of the selected one; again: back",
        hint=("Enter", "Threads"),
    ),
    KeyRow(
        "w",
        "choose",
        "w",
        "NFs: choose its workload, for comparison with published numbers",
        1,
        ("w", "Workload"),
    ),
)
CLASSES: tuple[KeyRow, ...] = (
    KeyRow("D", "jump", "D", "Cache: next cache", 1, ("D", "Cache")),
    KeyRow(
        "v",
        "swap",
        "v",
        "Cache: class detail or verdict on the last change below the table",
        hint=("v", "Verdict"),
    ),
    KeyRow("enter", "open", "Enter", "Cache: all that is below the table, as a page"),
    KeyRow("i", "fold", "i", "Cache: show or fold unused classes", hint=("i", "Others")),
)
DRILL: tuple[KeyRow, ...] = (
    KeyRow(
        "enter", "open", "Enter", "Cores: top-down of the selected core", hint=("Enter", "Topdown")
    ),
)
# On every screen: a change that is not kept is reverted.
CHANGE: tuple[KeyRow, ...] = (
    KeyRow("K", "app.keep", "K", "keep the applied change"),
    KeyRow("U", "app.take_back", "U", "take back the pending change"),
    KeyRow(
        "u",
        "app.undo",
        "u",
        "take back the pending change, or preview the undo of the last one",
    ),
)
EDIT: tuple[KeyRow, ...] = (
    KeyRow("e", "edit", "e", "Cores, Cache, Memory: edit the cache classes", hint=("e", "Edit")),
)
PRIORITIES: tuple[KeyRow, ...] = (
    KeyRow("e", "edit", "e", "Power: pin or release core frequencies",
        hint=("e", "Edit")),
)  # fmt: skip
TAPE: tuple[KeyRow, ...] = (
    KeyRow("R", "record", "R", "record into a file, including the last minutes; again: stop",
        hint=("R", "Rec")),
    KeyRow("m", "ask_mark", "m", "set a marker in the recording", hint=("m", "Mark"), asks=True),
    KeyRow("left_square_bracket", "step", "[", "replay: one tick back", -1),
    KeyRow("right_square_bracket", "step", "]", "replay: one tick forward", 1),
    KeyRow("left_curly_bracket", "marker", "{", "replay: previous marker, change or finding", -1),
    KeyRow("right_curly_bracket", "marker", "}", "replay: next marker, change or finding", 1),
    KeyRow("S", "ask_seek", "S", "replay: go to a time", asks=True),
    KeyRow("plus", "faster", "+", "replay: twice as fast", 1),
    KeyRow("minus", "faster", "-", "replay: half as fast", -1),
)  # fmt: skip
BASELINE: tuple[KeyRow, ...] = (
    KeyRow("b", "baseline", "b", "keep a baseline: medians of the last ticks of NFs and cores, for "
        "vs.base; again: replace it", 1, ("b", "Base")),
    KeyRow("B", "baseline", "B", "forget the baseline; replay: use the recording's own"),
)  # fmt: skip
ALWAYS: tuple[KeyRow, ...] = (
    KeyRow(
        "x",
        "explain",
        "x",
        "explain the selected metrics, with their values",
        hint=("x", "Explain"),
    ),
    KeyRow("F", "findings", "F", "all findings: location, start, rule and source of the limit"),
    KeyRow(
        "space",
        "pause",
        "Space",
        "freeze the screen (measuring continues); pause a replay",
        hint=("Spc", "Pause"),
    ),
    *BASELINE,
    *TAPE,
    KeyRow("d", "ask_delay", "d", "seconds between ticks", hint=("d", "Delay"), asks=True),
    KeyRow("question_mark,h,f1", "help", "? h F1", "this page", hint=("?", "Help")),
    KeyRow("escape", "clear", "Esc", "clear message and filter; then the Cores screen"),
    KeyRow("q,f10", "app.quit", "q F10", "quit (also Ctrl-C)", hint=("q", "Quit")),
    *CHANGE,
)

_HINT_ORDER = (
    "?",
    "q",
    "Spc",
    "/",
    "Enter",
    "t",
    "D",
    "v",
    "\\",
    "<>",
    "x",
    "e",
    "i",
    "I",
    "d",
    "R",
    "m",
    "w",
    "b",
)


def hints(keys: Iterable[KeyRow]) -> tuple[tuple[str, str], ...]:
    """Hints of the footer, in its order."""
    shown = (key.hint for key in keys if key.hint)
    rank = {key: index for index, key in enumerate(_HINT_ORDER)}
    return tuple(sorted(shown, key=lambda hint: rank.get(hint[0], len(rank))))


PAGE: tuple[KeyRow, ...] = (
    KeyRow("down,j", "move", "down j", "down", 1),
    KeyRow("up,k", "move", "up k", "up", -1),
    KeyRow("pagedown,space", "page", "PgDn", "page down", 1),
    KeyRow("pageup", "page", "PgUp", "page up", -1),
    KeyRow("g,home", "move", "g", "to the top", -MOST),
    KeyRow("G,end", "move", "G", "to the end", MOST),
    KeyRow("question_mark,h,f1", "help", "? h F1", "list of keys; again: close"),
    KeyRow("escape,q,f10", "close", "Esc q", "close; so does the key that opened the page"),
    *CHANGE,
)
PAGE_HINTS = (("Esc", "Close"), ("jk", "Scroll"), ("?", "Help"))

# Class editor; the highest way is leftmost.
EDITOR: tuple[KeyRow, ...] = (
    KeyRow("left", "way", "left", "next higher way", 1),
    KeyRow("right", "way", "right", "next lower way", -1),
    KeyRow("down,j,tab", "class", "down j Tab", "next class", 1),
    KeyRow("up,k,shift+tab", "class", "up k", "previous class", -1),
    KeyRow("space", "toggle", "Space", "add or remove the way at an edge of the mask"),
    KeyRow("left_square_bracket", "shift", "[", "shift the mask to higher ways", 1),
    KeyRow("right_square_bracket", "shift", "]", "shift it to lower ways", -1),
    KeyRow("plus", "grow", "+", "one way more, at the edge nearer to the selected way", 1),
    KeyRow("minus", "grow", "-", "one way less", -1),
    KeyRow("D", "domain", "D", "next cache", 1),
    KeyRow("L", "link", "L", "edit all caches together, or one"),
    KeyRow("equals_sign", "alike", "=", "copy the class's mask to all caches"),
    KeyRow("c", "cache", "c", "L3 or L2"),
    KeyRow("greater_than_sign", "bandwidth", ">", "more memory bandwidth (MBA)", 1),
    KeyRow("less_than_sign", "bandwidth", "<", "less memory bandwidth", -1),
    KeyRow("b", "ask_limit", "b", "set the memory bandwidth limit", asks=True),
    KeyRow("m", "ask_cpus", "m", "move CPUs into the class (4 or 0-3,8)", asks=True),
    KeyRow("n", "ask_name", "n", "create a class owned by nftop", asks=True),
    KeyRow("p", "ask_profile", "p", "add a profile to the draft", asks=True),
    KeyRow("X,delete", "remove", "X Del", "remove a class owned by nftop"),
    KeyRow("z", "reset", "z", "discard the draft"),
    KeyRow("r", "reload", "r", "read the host again; keep the draft"),
    KeyRow("d", "diff", "d", "all changes of the draft"),
    KeyRow("enter", "preview", "Enter", "preview the writes, then apply"),
    KeyRow("question_mark,h,f1", "help", "? h F1", "this page"),
    KeyRow("escape", "close", "Esc", "back; asks if the draft is changed"),
    KeyRow("q,f10", "quit", "q F10", "quit nftop; asks if the draft is changed"),
    *CHANGE,
)
EDITOR_HINTS = (
    ("Enter", "Preview"), ("Spc", "Toggle"), ("[]", "Shift"), ("+-", "Size"), ("D", "Cache"),
    ("L", "Link"), ("?", "Help"), ("Esc", "Back"), ("m", "CPUs"), ("<>", "MBA"), ("d", "Diff"),
)  # fmt: skip
CONFIRM: tuple[KeyRow, ...] = (
    *PAGE[:6],
    KeyRow("y", "yes", "y", "apply it; final or taken back unless kept, as stated above"),
    KeyRow("escape,n,q,f10", "close", "Esc n", "back without a change"),
    KeyRow("question_mark,h,f1", "help", "? h F1", "this page"),
    *CHANGE,
)
CONFIRM_HINTS = (("y", "Apply"), ("Esc", "Back"), ("jk", "Scroll"), ("?", "Help"))


PRIORITY: tuple[KeyRow, ...] = (
    *PAGE[:2],
    KeyRow("g,home", "move", "g", "first", -MOST),
    KeyRow("G,end", "move", "G", "last", MOST),
    KeyRow("enter", "preview", "Enter", "preview the writes, then apply"),
    KeyRow("escape,q,f10", "close", "Esc q", "back"),
    KeyRow("question_mark,h,f1", "help", "? h F1", "this page"),
    *CHANGE,
)
PRIORITY_HINTS = (("Enter", "Preview"), ("jk", "Choose"), ("Esc", "Back"), ("?", "Help"))


# Characters that Textual reports for Alt and a digit, and for Escape directly before a digit.
_ALT = dict(zip("¡™£¢∞§¶•ªº", "1234567890", strict=True))


def named(character: str | None) -> str:
    """Name of a key."""
    return f"Alt-{_ALT[character]}" if character in _ALT else str(character)


def bindings(keys: Iterable[KeyRow]) -> list[BindingType]:
    """Textual bindings to the screen's `action_act`, or to an action of the application."""
    return [
        Binding(
            key.keys,
            key.action if "." in key.action else f"act({key.action!r}, {key.by})",
            show=False,
            priority=key.asks,
        )
        for key in keys
    ]


def help_rows(keys: Iterable[KeyRow]) -> list[tuple[str, str]]:
    """Pairs of keys and their meaning, for the help page."""
    return [(key.shown, key.help) for key in keys]
