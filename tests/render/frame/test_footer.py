"""The footer keeps the hints of the lowest rank, and the line of screens shortens itself."""

from __future__ import annotations

import pytest

from nftop.model.struct import replace
from nftop.render.base.line import Click, Tone
from nftop.render.frame.footer import Hint, Tab, Tabs, footer_line, tabs_line

HINTS = (
    Hint("?", "help", 0, Click("help")),
    Hint("⏎", "open", 2, Click("open")),
    Hint("s", "sort", 1, Click("sort_menu")),
    Hint("q", "quit", -1, Click("app.quit")),
)
TABS = Tabs(
    (Tab("1", "Cores", "Cores"), Tab("5", "Timeline", "Time"), Tab("6", "Topdown", "TMA")),
    1,
    "CPP",
    search="",
)


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (40, " ? help  ⏎ open  s sort          q quit"),
        (33, " ? help  ⏎ open  s sort   q quit"),
        (31, " ? help  s sort         q quit"),
        (18, " ? help    q quit"),
        (10, "   q quit"),
    ],
)
def test_hints_go_by_rank_and_stay_in_order(width: int, text: str) -> None:
    drawn = footer_line(HINTS, width)
    assert (drawn.text, drawn.width, drawn.fill) == (text, width - 1, Tone.FOOTER)


def test_a_message_takes_the_hints_but_not_quit() -> None:
    drawn = footer_line(HINTS, 30, position="1/8", message="no such CPU in this table")
    assert (drawn.text, drawn.width) == (" no such CPU in…  1/8  q quit", 29)


def test_glyphs_of_keys_are_spelled_in_ascii() -> None:
    assert "Enter open" in footer_line(HINTS, 60, ascii_only=True).text
    assert footer_line(HINTS, 60, ascii_only=True).text.isascii()


def test_every_hint_is_clicked_where_it_stands() -> None:
    drawn = footer_line(HINTS, 40)
    for hint in HINTS:
        for at in range(len(hint.key)):
            assert drawn.click_at(drawn.text.index(f"{hint.key} {hint.word}") + at) == hint.click
    assert drawn.click_at(30) is None


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (61, " 1 Cores [5 Timeline] 6 Topdown           sort CPP▼  filter -"),
        (51, " 1 Cores [5 Timeline] 6 Topdown           sort CPP▼"),
        (36, " 1 Cores [5 Time] 6 TMA    sort CPP▼"),
        (30, " 1 Cores [5 Time] 6 TMA       "),
        (12, " 1 Cores [5…"),
    ],
)
def test_the_line_of_screens_at_its_widths(width: int, text: str) -> None:
    drawn = tabs_line(TABS, width)
    assert (drawn.text.rstrip(), drawn.width) == (text.rstrip(), width)


def test_the_sick_are_counted_if_the_line_is_long_enough() -> None:
    tabs = replace(TABS, sick=(11, 13))
    assert tabs_line(tabs, 80).text.endswith("filter -  sick 11 of 13")
    assert tabs_line(tabs, 51) == tabs_line(TABS, 51)
    for count, tone in ((0, Tone.MUTED), (11, Tone.WARN)):
        spans = tabs_line(replace(TABS, sick=(count, 13)), 80).spans
        assert [span.tone for span in spans if f"{count}" in span.text][-1] is tone


def test_screens_order_and_filter_are_clicked_where_they_stand() -> None:
    drawn = tabs_line(TABS, 62)
    where = {word: drawn.click_at(drawn.text.index(word)) for word in ("Topdown", "CPP", "filter")}
    assert where == {
        "Topdown": Click("screen", 2),
        "CPP": Click("sort_menu"),
        "filter": Click("ask_filter"),
    }
