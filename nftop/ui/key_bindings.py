"""All keys by screen: their bindings, their hints in the footer and their lines in the help.

`key_table.py` has the list of all screens and makes the pages of the help from these rows.

A key means the same on every screen of the main window, and `y` only confirms: a key that copies
on one screen must not write on the next. `tests/ui/test_key_table.py` finds collisions, also with
keys that are reserved, and keeps `docs/keys.md`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal, TypeAlias

from textual.binding import Binding, BindingType

from nftop.model.struct import dataclass
from nftop.render.base.line import Click
from nftop.render.frame.footer import Hint

# State of the application on which hints of keys depend: `past` that a moment of the past of a live
# session is shown, `edits` that classes can be edited,
# `pending` that a change is not kept yet, `records` that there is a recorder,
# `incident` that one is on the page, `draft` that a draft would mend it;
# of an experiment: `planned` that it waits for the operator's word, `running`, `measured` that it
# is over, `offer` that it recommends something.
Mode: TypeAlias = Literal[
    "live",
    "replay",
    "past",
    "edits",
    "records",
    "pending",
    "incident",
    "draft",
    "mask",
    "planned",
    "running",
    "measured",
    "offer",
]


@dataclass(frozen=True, slots=True)
class KeyRow:
    """One row of a screen's key table.

    Attributes:
        keys: Textual's names, comma separated.
        action: of the screen, or `app.` and one of the application.
        shown: the keys as the help writes them.
        help: what they do.
        by: argument of the action: a distance, direction or index.
        hint: key and word in the footer; None: not in the footer.
        rank: of the hint; a lower one stays longer where the footer is narrow.
        when: modes in one of which the hint is shown; empty: always.
        opens_prompt: opens a prompt; handled first, since keys typed after it belong to the prompt.
    """

    keys: str
    action: str
    shown: str
    help: str
    by: int = 0
    hint: tuple[str, str] | None = None
    rank: int = 50
    when: frozenset[Mode] = frozenset()
    opens_prompt: bool = False


MOST = 100_000  # lines: to the end

# Groups are in the order of the help; hints have that of the groups.
MOVE: tuple[KeyRow, ...] = (
    KeyRow("down,j", "move", "down j", "next CPU or line", 1),
    KeyRow("up,k", "move", "up k", "previous CPU or line", -1),
    KeyRow("pagedown", "page", "PgDn", "page down", 1),
    KeyRow("pageup", "page", "PgUp", "page up", -1),
    KeyRow("g,home", "move", "g Home", "first", -MOST),
    KeyRow("G,end", "move", "G End", "last", MOST),
)
END: tuple[KeyRow, ...] = (
    *MOVE[:-1],
    KeyRow("G", "move", "G", "last", MOST),
    KeyRow(
        "end",
        "last",
        "End",
        "last; in the past: return to now",
        hint=("End", "now"),
        rank=-1,
        when=frozenset({"past"}),
    ),
)
HELP_KEY = KeyRow(
    "question_mark,h,f1",
    "help",
    "? h F1",
    "keys and marks of this screen",
    hint=("?", "help"),
    rank=0,
)
FIND_AGAIN: tuple[KeyRow, ...] = (
    KeyRow("n", "find_again", "n", "find next", 1),
    KeyRow("N", "find_again", "N", "find previous", -1),
)
CPUS: tuple[KeyRow, ...] = (
    KeyRow(
        "slash",
        "ask_find",
        "/",
        "find a thread, an NF or a CPU (4 or 0-3,8)",
        hint=("/", "find"),
        rank=6,
        opens_prompt=True,
    ),
    *FIND_AGAIN,
    KeyRow(
        "backslash,f4",
        "ask_filter",
        "\\ F4",
        "show only rows with this thread, NF or CPU list; empty: all",
        hint=("\\", "filter"),
        rank=11,
        opens_prompt=True,
    ),
)
SORT: tuple[KeyRow, ...] = (
    KeyRow("greater_than_sign,f6", "sort", "> F6", "sort by the next column", 1),
    KeyRow("less_than_sign", "sort", "<", "sort by the previous column", -1),
    KeyRow("I", "invert", "I", "reverse the order"),
    KeyRow("s", "sort_menu", "s", "choose the column to sort by", hint=("s", "sort"), rank=2),
)
COLUMNS: tuple[KeyRow, ...] = (
    KeyRow(
        "c,f2",
        "columns",
        "c F2",
        "choose the table's columns and their order",
        hint=("c", "columns"),
        rank=8,
    ),
)
FOLD: tuple[KeyRow, ...] = (
    KeyRow("i", "fold", "i", "show or fold CPUs without a poller", hint=("i", "others"), rank=14),
)
TOPDOWN: tuple[KeyRow, ...] = (
    KeyRow("p", "move", "p", "previous CPU, as k", -1),
    KeyRow(
        "t",
        "group",
        "t",
        "selected core, or all cores by NF or cache class",
        hint=("t", "group"),
        rank=3,
    ),
)
EDITS: frozenset[Mode] = frozenset({"edits"})
RECORDS: frozenset[Mode] = frozenset({"records"})
NFS: tuple[KeyRow, ...] = (
    KeyRow("enter", "open", "Enter",
        "all threads, queues, ports and nodes of the selected NF; again: back",
        hint=("⏎", "open"), rank=1),
    KeyRow("o", "counters", "o",
        "all counters of the selected NF's ports and graph nodes, by their own names",
        hint=("o", "counters"), rank=12),
    KeyRow("w", "choose", "w", "choose its workload, for comparison with published numbers", 1,
        ("w", "workload"), rank=13),
    KeyRow("M", "meter", "M",
        "preview a monitoring group of its threads (L3MiB, MBL, MBR); again: take it away", 1,
        ("M", "monitor"), rank=12, when=EDITS),
)  # fmt: skip
CLASSES: tuple[KeyRow, ...] = (
    KeyRow("enter", "open", "Enter", "all that is below the table, as a page",
        hint=("⏎", "open"), rank=4),
    KeyRow("D", "jump", "D", "next cache", 1, ("D", "cache"), rank=3),
    KeyRow("v", "swap", "v", "class detail or verdict on the last change below the table",
        hint=("v", "verdict"), rank=5),
    KeyRow("i", "fold", "i", "show or fold unused classes", hint=("i", "others"), rank=14),
)  # fmt: skip
DRILL: tuple[KeyRow, ...] = (
    KeyRow("enter", "open", "Enter", "top-down of the selected core", hint=("⏎", "open"), rank=1),
)
HANDOVER: tuple[KeyRow, ...] = (
    KeyRow(
        "Y",
        "perf",
        "Y",
        "commands of perf for the selected core: functions, shared lines, branches; there C "
        "copies them",
    ),
)
TIMELINE: tuple[KeyRow, ...] = (
    KeyRow(
        "enter",
        "open",
        "Enter",
        "go to the moment of the selected event",
        hint=("⏎", "go there"),
        rank=1,
    ),
    KeyRow(
        "H",
        "ask_report",
        "H",
        "report of the past as a web page, with its recording",
        when=RECORDS,
        opens_prompt=True,
    ),
)
# On every screen: a change that is not kept is reverted.
PENDING: frozenset[Mode] = frozenset({"pending"})
CHANGE: tuple[KeyRow, ...] = (
    KeyRow(
        "K", "app.keep", "K", "keep the applied change", hint=("K", "keep"), rank=-2, when=PENDING
    ),
    KeyRow("U", "app.take_back", "U", "take back the pending change"),
    KeyRow(
        "u",
        "app.undo",
        "u",
        "take back the pending change, or preview the undo of the last one",
        hint=("u", "undo"),
        rank=-1,
        when=PENDING,
    ),
)
EDIT: tuple[KeyRow, ...] = (
    KeyRow("e", "edit", "e", "edit the cache classes", hint=("e", "edit"), rank=4, when=EDITS),
    KeyRow(
        "T",
        "sweep",
        "T",
        "sweep: find the mask of the selected class by experiment; replay: the recorded "
        "experiment up to here",
    ),
)
PRIORITIES: tuple[KeyRow, ...] = (
    KeyRow(
        "e", "edit", "e", "pin or release core frequencies", hint=("e", "edit"), rank=4, when=EDITS
    ),
)
REPLAY: frozenset[Mode] = frozenset({"replay"})
BACK: frozenset[Mode] = frozenset({"replay", "past"})
# On every screen but the editors, whose keys have these.
TIME: tuple[KeyRow, ...] = (
    KeyRow("S", "app.ask_seek", "S", "go to a time",
        hint=("S", "seek"), rank=5, when=BACK, opens_prompt=True),
    KeyRow("left", "app.shift_time(-1)", "Left", "back in time by 1 s, live and in a replay",
        hint=("←→", "time"), rank=7),
    KeyRow("right", "app.shift_time(1)", "Right", "forward by 1 s, at the end to now"),
    KeyRow("shift+left", "app.shift_time(-60)", "Shift-Left", "back in time by 1 min"),
    KeyRow("shift+right", "app.shift_time(60)", "Shift-Right", "forward by 1 min"),
)  # fmt: skip
TAPE: tuple[KeyRow, ...] = (
    KeyRow("R", "record", "R", "record into a file, including the last minutes; again: stop; "
        "Timeline: keep the past as a recording",
        hint=("R", "record"), rank=8, when=RECORDS),
    KeyRow("m", "ask_mark", "m", "set a marker in the recording",
        hint=("m", "mark"), rank=16, when=RECORDS, opens_prompt=True),
    KeyRow("left_square_bracket", "step", "[", "back in time by one tick", -1,
        ("[ ]", "step"), rank=3, when=BACK),
    KeyRow("right_square_bracket", "step", "]", "forward by one tick", 1),
    KeyRow("left_curly_bracket", "marker", "{",
        "back to the previous incident, change or marker; replay: marker, change or finding", -1,
        ("{ }", "event"), rank=4, when=BACK),
    KeyRow("right_curly_bracket", "marker", "}", "forward to the next one", 1),
    KeyRow("plus", "faster", "+", "replay and past: twice as fast", 1,
        ("+ -", "speed"), rank=6, when=REPLAY),
    KeyRow("minus", "faster", "-", "replay and past: half as fast", -1),
    *TIME,
)  # fmt: skip
BASELINE: tuple[KeyRow, ...] = (
    KeyRow(
        "b",
        "baseline",
        "b",
        "keep a baseline: medians of the last ticks of NFs and cores, for vs.base; again: replace "
        "it",
        1,
        ("b", "base"),
        rank=17,
    ),
    KeyRow("B", "baseline", "B", "forget the baseline; replay: use the recording's own"),
)
LIVE: frozenset[Mode] = frozenset({"live"})
PALETTE = KeyRow(
    "colon,ctrl+p",
    "app.command_palette",
    ": Ctrl-P",
    "all commands by name",
    hint=(":", "command"),
    rank=5,
)
ALWAYS: tuple[KeyRow, ...] = (
    KeyRow("x", "explain", "x", "explain the selected metrics, with their values",
        hint=("x", "explain"), rank=3),
    KeyRow("F", "findings", "F", "all findings: location, start, rule and source of the limit",
        hint=("F", "findings"), rank=12),
    KeyRow("tab", "incident", "Tab", "the worst incident: culprit, victims, evidence, remedy",
        hint=("Tab", "incident"), rank=7),
    KeyRow("space", "pause", "Space",
        "freeze the screen (measuring continues); pause a replay or the past",
        hint=("Spc", "pause"), rank=9),
    KeyRow("C", "copy", "C", "copy the selected row to the clipboard (OSC 52)",
        hint=("C", "copy"), rank=19),
    *BASELINE,
    *TAPE,
    KeyRow("d", "ask_delay", "d", "seconds between ticks",
        hint=("d", "delay"), rank=18, when=LIVE, opens_prompt=True),
    KeyRow("f9", "doctor", "F9", "doctor: which sources work here, and how to see more",
        hint=("F9", "doctor"), rank=15, when=LIVE),
    PALETTE,
    HELP_KEY,
    KeyRow("escape", "clear", "Esc",
        "return to now; clear message and filter; then the Cores screen"),
    KeyRow("q,f10", "app.quit", "q F10",
        "quit; twice while a change is not kept (Ctrl-C quits at once)",
        hint=("q", "quit"), rank=-3),
    *CHANGE,
)  # fmt: skip


def hints(keys: Iterable[KeyRow], modes: Collection[Mode] = ()) -> tuple[Hint, ...]:
    """Hints of the footer in these modes, from left to right; help is first and quit last."""
    shown = [key for key in keys if key.hint and (not key.when or key.when.intersection(modes))]
    shown.sort(key=lambda key: (key.action != "help") + (key.action == "app.quit"))
    return tuple(Hint(*key.hint, key.rank, Click(key.action, key.by)) for key in shown if key.hint)


SCROLL: tuple[KeyRow, ...] = (
    KeyRow("down,j", "move", "down j", "down", 1, ("j k", "scroll"), rank=2),
    KeyRow("up,k", "move", "up k", "up", -1),
    KeyRow("pagedown,space", "page", "PgDn", "page down", 1),
    KeyRow("pageup", "page", "PgUp", "page up", -1),
    KeyRow("g,home", "move", "g", "to the top", -MOST),
    KeyRow("G,end", "move", "G", "to the end", MOST),
)  # fmt: skip
FIND: tuple[KeyRow, ...] = (
    KeyRow(
        "slash", "ask_find", "/", "find on this page", hint=("/", "find"), rank=3, opens_prompt=True
    ),
    *FIND_AGAIN,
    KeyRow(
        "C",
        "copy",
        "C",
        "copy the page to the clipboard (OSC 52), or the lines that have the search",
        hint=("C", "copy"),
        rank=4,
    ),
)
LEAVE: tuple[KeyRow, ...] = (
    HELP_KEY,
    KeyRow("escape,q,f10", "close", "Esc q", "close; so does the key that opened the page",
        hint=("Esc", "close"), rank=1),
    KeyRow("left_square_bracket", "app.step_time(-1)", "[", "back in time by one tick"),
    KeyRow("right_square_bracket", "app.step_time(1)", "]", "forward by one tick"),
    KeyRow("left_curly_bracket", "app.to_event(-1)", "{",
        "back to the previous incident, change or marker"),
    KeyRow("right_curly_bracket", "app.to_event(1)", "}", "forward to the next one"),
    *TIME,
    *CHANGE,
)  # fmt: skip
PAGE: tuple[KeyRow, ...] = (*SCROLL, *FIND, *LEAVE)
DOCTOR: tuple[KeyRow, ...] = (
    KeyRow("r", "again", "r", "examine the host again", hint=("r", "again"), rank=0),
    *PAGE,
)
HELP: tuple[KeyRow, ...] = (
    *SCROLL,
    KeyRow("slash", "ask_find", "/", "search keys, marks and columns of all screens",
        hint=("/", "search"), rank=0, opens_prompt=True),
    KeyRow("question_mark,h,f1,escape,q,f10", "close", "? Esc q", "clear the search, then close",
        hint=("Esc", "close"), rank=1),
    *CHANGE,
)  # fmt: skip
# Lists to choose from: the sort menu and the column chooser.
CHOOSE: tuple[KeyRow, ...] = (
    KeyRow("down,j", "move", "down j", "next", 1),
    KeyRow("up,k", "move", "up k", "previous", -1),
    KeyRow("g,home", "move", "g", "first", -MOST),
    KeyRow("G,end", "move", "G", "last", MOST),
)
COLUMN_MENU: tuple[KeyRow, ...] = (
    *CHOOSE,
    KeyRow("space", "choose", "Space", "show or hide it", hint=("Spc", "show"), rank=1),
    KeyRow("less_than_sign", "shift", "<", "move it to the left", -1, ("< >", "move"), rank=2),
    KeyRow("greater_than_sign", "shift", ">", "move it to the right", 1),
    KeyRow("r", "reset", "r", "nftop's own choice by width", hint=("r", "reset"), rank=3),
    HELP_KEY,
    KeyRow("escape,enter,c,f2,q,f10", "close", "Esc Enter", "keep the choice and go back",
        hint=("⏎", "keep"), rank=1),
    *CHANGE,
)  # fmt: skip
SORT_MENU: tuple[KeyRow, ...] = (
    *CHOOSE,
    KeyRow("enter,space", "choose", "Enter", "sort by it; by the current one: reverse the order",
        hint=("⏎", "sort"), rank=1),
    KeyRow("I", "invert", "I", "reverse the order", hint=("I", "reverse"), rank=2),
    HELP_KEY,
    KeyRow("escape,s,q,f10", "close", "Esc s q", "back", hint=("Esc", "back"), rank=1),
    *CHANGE,
)  # fmt: skip

# The screen of many hosts, and pages over it: there is no change to keep, and no past.
FLEET: tuple[KeyRow, ...] = (
    KeyRow("enter", "open", "Enter", "open the selected host live, over ssh",
        hint=("⏎", "open"), rank=1),
    KeyRow("down,j", "move", "down j", "next row", 1),
    KeyRow("up,k", "move", "up k", "previous row", -1),
    *MOVE[2:],
    KeyRow("tab", "incident", "Tab", "select the host of the next incident", 1,
        ("Tab", "incident"), rank=4),
    KeyRow("slash", "ask_find", "/", "find a host, an NF, a class or an incident",
        hint=("/", "find"), rank=5, opens_prompt=True),
    *FIND_AGAIN,
    KeyRow("backslash,f4", "ask_filter", "\\ F4",
        "show only rows with this host, NF, class or incident; empty: all",
        hint=("\\", "filter"), rank=6, opens_prompt=True),
    *SORT,
    KeyRow("x", "explain", "x", "all that is known of the selected row and its host",
        hint=("x", "explain"), rank=3),
    KeyRow("F", "findings", "F", "findings of all hosts", hint=("F", "findings"), rank=8),
    KeyRow("space", "pause", "Space", "freeze the screen", hint=("Spc", "pause"), rank=9),
    KeyRow("r", "refresh", "r", "ask Prometheus now", hint=("r", "refresh"), rank=10),
    KeyRow("d", "ask_delay", "d", "seconds between queries",
        hint=("d", "delay"), rank=11, opens_prompt=True),
    KeyRow("C", "copy", "C", "copy the selected row to the clipboard (OSC 52)",
        hint=("C", "copy"), rank=12),
    PALETTE,
    HELP_KEY,
    KeyRow("escape", "clear", "Esc", "give up opening a host; clear message, then filter"),
    KeyRow("q,f10", "app.quit", "q F10", "quit", hint=("q", "quit"), rank=-3),
)  # fmt: skip
FLEET_PAGE: tuple[KeyRow, ...] = (
    *SCROLL,
    *FIND,
    HELP_KEY,
    KeyRow("escape,q,f10", "close", "Esc q", "close; so does the key that opened the page",
        hint=("Esc", "close"), rank=1),
)  # fmt: skip

INCIDENT: tuple[KeyRow, ...] = (
    KeyRow("n,tab", "incident", "n Tab", "next incident", 1, ("n p", "next"), rank=3,
        when=frozenset({"incident"})),
    KeyRow("p,shift+tab", "incident", "p", "previous incident", -1),
    KeyRow("e", "edit", "e", "open the draft that would mend it in the editor",
        hint=("e", "edit draft"), rank=1, when=frozenset({"draft"})),
    KeyRow("T", "sweep", "T", "sweep: find the width of its mask by experiment",
        hint=("T", "sweep"), rank=1, when=frozenset({"mask"})),
    KeyRow("C", "copy", "C", "copy its text and its commands to the clipboard",
        hint=("C", "copy"), rank=2,
        when=frozenset({"incident"})),
    KeyRow("m", "mute", "m", "mute its rules for its victims; again: no longer",
        hint=("m", "mute"), rank=4, when=frozenset({"incident"})),
    KeyRow("a", "acknowledge", "a", "mark it as seen; again: no longer",
        hint=("a", "seen"), rank=5, when=frozenset({"incident"})),
    *SCROLL,
    *LEAVE,
)  # fmt: skip

# Page of findings: a cursor over them, and settings of the rule of the selected one.
FINDINGS: tuple[KeyRow, ...] = (
    KeyRow("down,j", "choose", "down j", "next finding", 1, ("j k", "choose"), rank=2),
    KeyRow("up,k", "choose", "up k", "previous finding", -1),
    KeyRow("m", "mute", "m", "mute its rule for its NF; again: no longer",
        hint=("m", "mute"), rank=1),
    KeyRow("M", "mute", "M", "mute its rule for all NFs; again: no longer", 1),
    KeyRow("l", "ask_limit", "l", "set another limit of its rule for its NF",
        hint=("l", "limit"), rank=1, opens_prompt=True),
    KeyRow("L", "ask_limit", "L", "set another limit of its rule for all NFs", 1,
        opens_prompt=True),
    *SCROLL[2:],
    *FIND,
    *LEAVE,
)  # fmt: skip

# Class editor; the highest way is leftmost.
EDITOR: tuple[KeyRow, ...] = (
    KeyRow("enter", "preview", "Enter", "preview the writes, then apply",
        hint=("⏎", "preview"), rank=1),
    KeyRow("left", "way", "left", "next higher way", 1),
    KeyRow("right", "way", "right", "next lower way", -1),
    KeyRow("down,j,tab", "class", "down j Tab", "next class", 1),
    KeyRow("up,k,shift+tab", "class", "up k", "previous class", -1),
    KeyRow("space", "toggle", "Space", "add or remove the way at an edge of the mask",
        hint=("Spc", "way"), rank=2),
    KeyRow("left_square_bracket", "shift", "[", "shift the mask to higher ways", 1,
        ("[ ]", "shift"), rank=3),
    KeyRow("right_square_bracket", "shift", "]", "shift it to lower ways", -1),
    KeyRow("plus", "grow", "+", "one way more, at the edge nearer to the selected way", 1,
        ("+ -", "size"), rank=4),
    KeyRow("minus", "grow", "-", "one way less", -1),
    KeyRow("D", "domain", "D", "next cache", 1, ("D", "cache"), rank=7),
    KeyRow("L", "link", "L", "edit all caches together, or one", hint=("L", "link"), rank=8),
    KeyRow("equals_sign", "alike", "=", "copy the class's mask to all caches"),
    KeyRow("c", "cache", "c", "L3 or L2"),
    KeyRow("greater_than_sign", "bandwidth", ">", "more memory bandwidth (MBA)", 1,
        ("< >", "MBA"), rank=6),
    KeyRow("less_than_sign", "bandwidth", "<", "less memory bandwidth", -1),
    KeyRow("b", "ask_limit", "b", "set the memory bandwidth limit", opens_prompt=True),
    KeyRow("m", "ask_cpus", "m", "move CPUs into the class (4 or 0-3,8)",
        hint=("m", "CPUs"), rank=5, opens_prompt=True),
    KeyRow("n", "ask_name", "n", "create a class owned by nftop",
        hint=("n", "new"), rank=9, opens_prompt=True),
    KeyRow("p", "ask_profile", "p", "add a profile to the draft", opens_prompt=True),
    KeyRow("X,delete", "remove", "X Del", "remove a class owned by nftop"),
    KeyRow("z", "reset", "z", "discard the draft"),
    KeyRow("r", "reload", "r", "read the host again; keep the draft"),
    KeyRow("d", "diff", "d", "all changes of the draft", hint=("d", "diff"), rank=8),
    KeyRow("T", "sweep", "T", "sweep: find the mask of the selected class by experiment",
        hint=("T", "sweep"), rank=5),
    HELP_KEY,
    KeyRow("escape", "close", "Esc", "back; asks if the draft is changed",
        hint=("Esc", "back"), rank=1),
    KeyRow("C", "copy", "C", "copy the draft's commands to the clipboard",
        hint=("C", "copy"), rank=9),
    KeyRow("q,f10", "quit", "q F10", "quit nftop; asks if the draft is changed"),
    *CHANGE,
)  # fmt: skip
PLANNED: frozenset[Mode] = frozenset({"planned"})
OFFER: frozenset[Mode] = frozenset({"offer"})
EXPERIMENT: tuple[KeyRow, ...] = (
    KeyRow("y", "start", "y", "start it: the masks that are shown are tried",
        hint=("y", "start"), rank=1, when=PLANNED),
    KeyRow("n", "ask_ways", "n", "numbers of ways to try (1-8); empty: all",
        hint=("n", "ways"), rank=3, when=PLANNED, opens_prompt=True),
    KeyRow("w", "ask_watch", "w", "network functions to watch (vpp,ovs); empty: all at its caches",
        hint=("w", "watch"), rank=4, when=PLANNED, opens_prompt=True),
    KeyRow("e", "draft", "e", "open the recommended mask as a draft in the editor",
        hint=("e", "draft"), rank=1, when=OFFER),
    KeyRow("t", "draft", "t", "open the mask within the tolerance as a draft", 1,
        ("t", "tolerance"), rank=4, when=OFFER),
    KeyRow("C,c", "copy", "C", "copy the command that sets the recommended mask (OSC 52)",
        hint=("C", "copy"), rank=5, when=OFFER),
    KeyRow("T", "again", "T", "plan it again", hint=("T", "again"), rank=6,
        when=frozenset({"measured"})),
    KeyRow("tab", "swap", "Tab", "graphs of the next network function",
        hint=("Tab", "NF"), rank=7, when=frozenset({"running", "measured"})),
    *SCROLL,
    HELP_KEY,
    KeyRow("escape,q,f10", "close", "Esc q", "back; while it runs: end it and restore",
        hint=("Esc", "back"), rank=0),
    *TIME,
    *CHANGE,
)  # fmt: skip
CONFIRM: tuple[KeyRow, ...] = (
    KeyRow("y", "yes", "y", "apply it; final or taken back unless kept, as stated above",
        hint=("y", "apply"), rank=1),
    KeyRow("escape,n,q,f10", "close", "Esc n", "back without a change",
        hint=("Esc", "back"), rank=1),
    KeyRow("C,c", "copy", "C", "copy the command to the clipboard (OSC 52)",
        hint=("C", "copy"), rank=3),
    *SCROLL,
    HELP_KEY,
    *CHANGE,
)  # fmt: skip


PRIORITY: tuple[KeyRow, ...] = (
    KeyRow("enter", "preview", "Enter", "preview the writes, then apply",
        hint=("⏎", "preview"), rank=1),
    KeyRow("down,j", "move", "down j", "next setting", 1, ("j k", "choose"), rank=2),
    KeyRow("up,k", "move", "up k", "previous setting", -1),
    KeyRow("g,home", "move", "g", "first", -MOST),
    KeyRow("G,end", "move", "G", "last", MOST),
    KeyRow("escape,q,f10", "close", "Esc q", "back", hint=("Esc", "back"), rank=1),
    HELP_KEY,
    *CHANGE,
)  # fmt: skip

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
            priority=key.opens_prompt,
        )
        for key in keys
    ]


def help_rows(keys: Iterable[KeyRow]) -> list[tuple[str, str]]:
    """Pairs of keys and their meaning, for the help page."""
    return [(key.shown, key.help) for key in keys]
