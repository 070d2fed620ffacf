"""Bottom line of a screen: keys that work now, by priority; and the line of screens, the tabs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from nftop.model.metrics.cpu import WAIT_RATIO_MOST
from nftop.model.struct import dataclass
from nftop.model.usual import NEAR
from nftop.render.base.line import BLANK, Click, Line, Span, Tone, crop, line

# Names of keys that have a glyph, for terminals without it.
_SPELLED = {"⏎": "Enter", "←→": "Left Right"}
_GAP = "  "
_EDGE_FROM = 90  # cells from which the tabs have a blank one before them


@dataclass(frozen=True, slots=True)
class Hint:
    """A key of the footer.

    Attributes:
        key: as written.
        word: what it does.
        rank: a lower one stays longer where there is no room; negative: stands at the right edge.
        click: what a click on it does.
    """

    key: str
    word: str
    rank: int
    click: Click


def footer_line(
    hints: Sequence[Hint],
    width: int,
    *,
    position: str = "",
    message: str = "",
    ascii_only: bool = False,
) -> Line:
    """Keys that fit, or a message; at the right the position and the keys of negative rank.

    `ascii_only`: keys are spelled, not drawn.
    """
    edge = _joined(tuple(hint for hint in hints if hint.rank < 0), ascii_only=ascii_only)
    right = crop(
        line(Span(position, Tone.MUTED), _GAP if position and edge.spans else "", edge), width - 2
    )
    room = width - right.width - 4
    if message:
        left = crop(line(Span(message, Tone.STRONG)), max(0, room))
    else:
        left = _hints(tuple(hint for hint in hints if hint.rank >= 0), room, plain=ascii_only)
    blank = " " * max(0, width - 2 - left.width - right.width)
    return line(" ", left, blank, right, fill=Tone.FOOTER)


@lru_cache(maxsize=16)  # drawn every tick
def _hints(hints: tuple[Hint, ...], room: int, *, plain: bool) -> Line:
    """The hints of the lowest ranks that fit, in their own order."""
    shown: set[int] = set()
    for at in sorted(range(len(hints)), key=lambda index: hints[index].rank):
        wider = _joined(
            tuple(hint for index, hint in enumerate(hints) if index in shown | {at}),
            ascii_only=plain,
        )
        if wider.width <= room:
            shown.add(at)
    return _joined(tuple(hint for at, hint in enumerate(hints) if at in shown), ascii_only=plain)


@lru_cache(maxsize=64)
def _joined(hints: tuple[Hint, ...], *, ascii_only: bool) -> Line:
    pieces: list[Line | str] = []
    for hint in hints:
        key = _SPELLED.get(hint.key, hint.key) if ascii_only else hint.key
        word = f" {hint.word}"
        pieces += [
            _GAP if pieces else "",
            Line((Span(key, Tone.ACCENT, hint.click), Span(word, Tone.PLAIN, hint.click))),
        ]
    return line(*pieces) if pieces else BLANK


@dataclass(frozen=True, slots=True)
class Tab:
    """A screen: the key that opens it, its name and a short one."""

    key: str
    name: str
    short: str


@dataclass(frozen=True, slots=True)
class Tabs:
    """Tabs, sort column and filter in the footer's line.

    Attributes:
        tabs: the screens.
        up: index of the current one.
        sort: label of the column that rows are sorted by; "": none is; None: they cannot be sorted.
        descending: high first.
        search: the filter; None: the screen has none.
        sick: pollers that are harmed, and all; None: not counted on this screen.
    """

    tabs: tuple[Tab, ...]
    up: int
    sort: str | None = None
    descending: bool = True
    search: str | None = None
    sick: tuple[int, int] | None = None


@lru_cache(maxsize=8)  # drawn every tick
def tabs_line(tabs: Tabs, width: int) -> Line:
    """The screens with their keys; at the right order, filter and the sick, as far as they fit."""
    sort = (_sort_text(tabs),) if tabs.sort is not None else ()
    used = (_filter_text(tabs.search),) if tabs.search else ()
    unused = (_filter_text(""),) if tabs.search == "" else ()
    sick = () if tabs.sick is None else (_sick_text(*tabs.sick),)
    for short, pieces in (
        (False, (*sort, *used, *unused, *sick)),
        (False, (*sort, *used, *sick)),
        (False, (*sort, *used)),
        (True, (*sort, *used, *sick)),
        (True, (*sort, *used)),
        (True, used or sort),
        (True, ()),
    ):
        left = _names(tabs, width, short=short)
        # The names end with a blank or a bracket.
        right = line(" " * bool(pieces), *[item for text in pieces for item in (_GAP, text)][1:])
        if (room := width - left.width - right.width) >= 0:
            return line(left, " " * room, right, fill=Tone.FOOTER)
    return crop(line(_names(tabs, width, short=True), fill=Tone.FOOTER), width)


def _names(tabs: Tabs, width: int, *, short: bool) -> Line:
    spans = [Span(" ", Tone.PLAIN)] if not short and width >= _EDGE_FROM else []
    for index, tab in enumerate(tabs.tabs):
        click, name = Click("screen", index), tab.short if short else tab.name
        if index == tabs.up:
            spans.append(Span(f"[{tab.key} {name}]", Tone.TAB, click))
        else:
            spans += [Span(f" {tab.key}", Tone.ACCENT, click), Span(f" {name} ", Tone.PLAIN, click)]
    return line(*spans)


def _sort_text(tabs: Tabs) -> Line:
    click = Click("sort_menu")
    arrow = "▼" if tabs.descending else "▲"
    order = f"{tabs.sort}{arrow}" if tabs.sort else "-"
    return line(Span("sort ", Tone.MUTED, click), Span(order, Tone.PLAIN, click))


_SICK = (
    "4 of the 17 polling cores are harmed: their NF loses packets, they wait for their CPU more "
    f"than {WAIT_RATIO_MOST:.0%} of the time, a packet costs over {NEAR:.0%} more than usual, or "
    "they are a victim or the culprit of an incident that is no note"
)
MARKS = (("sick 4 of 17", _SICK),)


def _sick_text(count: int, pollers: int) -> Line:
    """`sick 11 of 13`."""
    number = Span(f"{count}", Tone.WARN if count else Tone.MUTED)
    return line(Span("sick ", Tone.MUTED), number, Span(f" of {pollers}", Tone.MUTED))


def _filter_text(search: str) -> Line:
    click = Click("ask_filter")
    return line(Span("filter ", Tone.MUTED, click), Span(search or "-", Tone.PLAIN, click))
