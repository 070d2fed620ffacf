"""Every key, once: what is bound, what the footer hints at and what the help lists."""

from __future__ import annotations

from collections.abc import Iterable

from textual.binding import Binding, BindingType

from nftop.model.struct import dataclass


@dataclass(frozen=True, slots=True)
class KeyRow:
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
MOVE: tuple[KeyRow, ...] = (
    KeyRow("down,j", "move", "down j", "next CPU or line", 1),
    KeyRow("up,k", "move", "up k", "the one before", -1),
    KeyRow("pagedown", "page", "PgDn", "a page down", 1),
    KeyRow("pageup", "page", "PgUp", "a page up", -1),
    KeyRow("g,home", "move", "g Home", "the first", -MOST),
    KeyRow("G,end", "move", "G End", "the last", MOST),
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
    KeyRow("n", "find_again", "n", "find the next", 1),
    KeyRow("N", "find_again", "N", "find the one before", -1),
    KeyRow(
        "backslash,f4",
        "ask_filter",
        "\\ F4",
        "show only rows with this thread, NF or CPU list; empty shows all",
        hint=("\\", "Filter"),
        asks=True,
    ),
    KeyRow("greater_than_sign,f6", "sort", "> F6", "sort by the next column", 1, ("<>", "Sort")),
    KeyRow("less_than_sign", "sort", "<", "sort by the column before", -1),
    KeyRow("I", "invert", "I", "sort the other way", hint=("I", "Invert")),
    KeyRow("i", "fold", "i", "show or fold the CPUs nothing polls on", hint=("i", "Others")),
)
TOPDOWN: tuple[KeyRow, ...] = (
    KeyRow("p", "move", "p", "Topdown: the CPU before, as k", -1),
    KeyRow(
        "t",
        "group",
        "t",
        "Topdown: the selected core, or all by NF or cache class",
        hint=("t", "Group"),
    ),
)
NFS: tuple[KeyRow, ...] = (
    # The same action as in `DRILL`: a key has one.
    KeyRow(
        "enter",
        "open",
        "Enter",
        "NFs: the selected one alone, with all its threads, queues, ports and nodes; again: back",
        hint=("Enter", "Threads"),
    ),
    KeyRow(
        "w",
        "choose",
        "w",
        "NFs: which workload it runs, to set a paper's numbers beside it; nftop can't know",
        1,
        ("w", "Workload"),
    ),
)
CLASSES: tuple[KeyRow, ...] = (
    KeyRow(
        "D", "jump", "D", "Cache: the next cache, and after the last the first", 1, ("D", "Cache")
    ),
    KeyRow(
        "v",
        "swap",
        "v",
        "Cache: below the table the class, or the verdict on the last change",
        hint=("v", "Verdict"),
    ),
    # The same action as in `DRILL`: a key has one. What it leads to says where it is of use.
    KeyRow("enter", "open", "Enter", "Cache: all of what is below the table, as a page"),
    KeyRow("i", "fold", "i", "Cache: show or fold the classes nobody uses", hint=("i", "Others")),
)
DRILL: tuple[KeyRow, ...] = (
    KeyRow(
        "enter", "open", "Enter", "Cores: top-down of the selected core", hint=("Enter", "Topdown")
    ),
)
# Known on every screen: a change that nobody keeps is taken back, wherever one looks meanwhile.
CHANGE: tuple[KeyRow, ...] = (
    KeyRow("K", "app.keep", "K", "keep the change that was applied"),
    KeyRow("U", "app.take_back", "U", "take back the change that is not kept yet"),
    KeyRow("u", "app.undo", "u", "the same; where none waits, undo the last kept one (previewed)"),
)
EDIT: tuple[KeyRow, ...] = (
    KeyRow("e", "edit", "e", "Cores, Cache, Memory: edit the cache classes", hint=("e", "Edit")),
)
PRIORITIES: tuple[KeyRow, ...] = (
    KeyRow("e", "edit", "e", "Power: pin cores to their frequencies, release them",
        hint=("e", "Edit")),
)  # fmt: skip
TAPE: tuple[KeyRow, ...] = (
    KeyRow("R", "record", "R", "record into a file, with the last minutes; again: stop",
        hint=("R", "Rec")),
    KeyRow("m", "ask_mark", "m", "set a marker in the recording", hint=("m", "Mark"), asks=True),
    KeyRow("left_square_bracket", "step", "[", "replay: a tick back", -1),
    KeyRow("right_square_bracket", "step", "]", "replay: a tick on", 1),
    KeyRow("left_curly_bracket", "marker", "{", "replay: the marker, change or finding before", -1),
    KeyRow("right_curly_bracket", "marker", "}", "replay: the next marker, change or finding", 1),
    KeyRow("S", "ask_seek", "S", "replay: go to a time", asks=True),
    KeyRow("plus", "faster", "+", "replay: twice as fast", 1),
    KeyRow("minus", "faster", "-", "replay: half as fast", -1),
)  # fmt: skip
BASELINE: tuple[KeyRow, ...] = (
    KeyRow("b", "baseline", "b", "keep a baseline of every NF and core: medians of the last ticks, "
        "which vs.base compares with; again: another in its place", 1, ("b", "Base")),
    KeyRow("B", "baseline", "B", "forget the baseline; in a replay: the recording's own again"),
)  # fmt: skip
ALWAYS: tuple[KeyRow, ...] = (
    KeyRow(
        "x",
        "explain",
        "x",
        "explain the metrics looked at, with their values",
        hint=("x", "Explain"),
    ),
    KeyRow("F", "findings", "F", "all findings: where, since when, by which rule and whose limit"),
    KeyRow(
        "space",
        "pause",
        "Space",
        "freeze the screen, nftop goes on measuring; a replay stands still",
        hint=("Spc", "Pause"),
    ),
    *BASELINE,
    *TAPE,
    KeyRow("d", "ask_delay", "d", "seconds between ticks", hint=("d", "Delay"), asks=True),
    KeyRow("question_mark,h,f1", "help", "? h F1", "this page", hint=("?", "Help")),
    KeyRow("escape", "clear", "Esc", "clear message and filter, then back to Cores"),
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
    """What the footer says of them, in its order."""
    shown = (key.hint for key in keys if key.hint)
    rank = {key: index for index, key in enumerate(_HINT_ORDER)}
    return tuple(sorted(shown, key=lambda hint: rank.get(hint[0], len(rank))))


PAGE: tuple[KeyRow, ...] = (
    KeyRow("down,j", "move", "down j", "down", 1),
    KeyRow("up,k", "move", "up k", "up", -1),
    KeyRow("pagedown,space", "page", "PgDn", "a page down", 1),
    KeyRow("pageup", "page", "PgUp", "a page up", -1),
    KeyRow("g,home", "move", "g", "to the top", -MOST),
    KeyRow("G,end", "move", "G", "to the end", MOST),
    KeyRow("question_mark,h,f1", "help", "? h F1", "the keys; on the page of keys: close"),
    KeyRow("escape,q,f10", "close", "Esc q", "close, as the key does that opened the page"),
    *CHANGE,
)
PAGE_HINTS = (("Esc", "Close"), ("jk", "Scroll"), ("?", "Help"))

# The editor of cache classes; ways are drawn with the highest left.
EDITOR: tuple[KeyRow, ...] = (
    KeyRow("left", "way", "left", "the next higher way", 1),
    KeyRow("right", "way", "right", "the next lower way", -1),
    KeyRow("down,j,tab", "class", "down j Tab", "the next class", 1),
    KeyRow("up,k,shift+tab", "class", "up k", "the one before", -1),
    KeyRow(
        "space", "toggle", "Space", "give the class the way or take it; an edge of its mask moves"
    ),
    KeyRow("left_square_bracket", "shift", "[", "shift the mask left, to higher ways", 1),
    KeyRow("right_square_bracket", "shift", "]", "shift it right", -1),
    KeyRow("plus", "grow", "+", "a way more, at the edge that is nearer to the selected way", 1),
    KeyRow("minus", "grow", "-", "a way less", -1),
    KeyRow("D", "domain", "D", "the next cache", 1),
    KeyRow("L", "link", "L", "change all caches alike, or one"),
    KeyRow("equals_sign", "alike", "=", "make the class's mask the same in all caches"),
    KeyRow("c", "cache", "c", "L3 or L2"),
    KeyRow("greater_than_sign", "bandwidth", ">", "a step more memory bandwidth (MBA)", 1),
    KeyRow("less_than_sign", "bandwidth", "<", "a step less", -1),
    KeyRow("b", "ask_limit", "b", "limit memory bandwidth to a number", asks=True),
    KeyRow("m", "ask_cpus", "m", "move CPUs into the class (4 or 0-3,8)", asks=True),
    KeyRow("n", "ask_name", "n", "a new class of nftop's own", asks=True),
    KeyRow("p", "ask_profile", "p", "take a profile into the draft, by its name", asks=True),
    KeyRow("X,delete", "remove", "X Del", "remove the class, if it is nftop's own"),
    KeyRow("z", "reset", "z", "drop what was changed in the draft"),
    KeyRow("r", "reload", "r", "read the host again, and keep the draft's changes"),
    KeyRow("d", "diff", "d", "all that the draft would change"),
    KeyRow("enter", "preview", "Enter", "preview: what would be written, and then apply it"),
    KeyRow("question_mark,h,f1", "help", "? h F1", "this page"),
    KeyRow("escape", "close", "Esc", "back to where one was; asks about a changed draft"),
    KeyRow("q,f10", "quit", "q F10", "quit nftop; asks about a changed draft"),
    *CHANGE,
)
EDITOR_HINTS = (
    ("Enter", "Preview"), ("Spc", "Toggle"), ("[]", "Shift"), ("+-", "Size"), ("D", "Cache"),
    ("L", "Link"), ("?", "Help"), ("Esc", "Back"), ("m", "CPUs"), ("<>", "MBA"), ("d", "Diff"),
)  # fmt: skip
CONFIRM: tuple[KeyRow, ...] = (
    *PAGE[:6],
    KeyRow("y", "yes", "y", "apply it: final, or taken back unless it is kept, as it says above"),
    KeyRow("escape,n,q,f10", "close", "Esc n", "leave everything as it is"),
    KeyRow("question_mark,h,f1", "help", "? h F1", "this page"),
    *CHANGE,
)
CONFIRM_HINTS = (("y", "Apply"), ("Esc", "Back"), ("jk", "Scroll"), ("?", "Help"))


PRIORITY: tuple[KeyRow, ...] = (
    *PAGE[:2],
    KeyRow("g,home", "move", "g", "the first", -MOST),
    KeyRow("G,end", "move", "G", "the last", MOST),
    KeyRow("enter", "preview", "Enter", "preview: what would be written, and then apply it"),
    KeyRow("escape,q,f10", "close", "Esc q", "back to where one was"),
    KeyRow("question_mark,h,f1", "help", "? h F1", "this page"),
    *CHANGE,
)
PRIORITY_HINTS = (("Enter", "Preview"), ("jk", "Choose"), ("Esc", "Back"), ("?", "Help"))


# What Textual takes Alt and a digit for, and so Escape with a digit right behind it.
_ALT = dict(zip("¡™£¢∞§¶•ªº", "1234567890", strict=True))


def named(character: str | None) -> str:
    """A key as one would call it."""
    return f"Alt-{_ALT[character]}" if character in _ALT else str(character)


def bindings(keys: Iterable[KeyRow]) -> list[BindingType]:
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


def help_rows(keys: Iterable[KeyRow]) -> list[tuple[str, str]]:
    """Pairs of keys and what they do, for the help page."""
    return [(key.shown, key.help) for key in keys]
