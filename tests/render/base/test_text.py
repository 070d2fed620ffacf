"""Text of others on our screen: it can neither move, hide, reorder nor outgrow a cell."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from nftop.render.base.line import Line, Span, Tone, crop, line
from nftop.render.base.text import (
    REPLACEMENT,
    ascii_only,
    fit,
    is_narrow,
    printable,
    truncate,
    wrap,
)
from tests.frames import HOSTILE

nasty = st.text(
    st.characters()
    | st.sampled_from(
        "\x1b\x07\x9b\r\n\t\u200b\u200d\u202e\u2066\ufe0f\u0301\u05d0\u0627\u0661漢🏽🇩"
    ),
    max_size=60,
)


def test_escapes_marks_and_right_to_left_letters_are_replaced() -> None:
    assert [printable(name) for name in HOSTILE] == [
        "[red]x[/] ?[2J",
        "漢字のスレッド名前",
        "ẹ??zalgo??",
        "?gnp.exe ????",
        "tab?new?line??31m",
    ]
    assert printable("\u1161") == "?", "a letter of no width, alone"


@given(nasty)
def test_printable_text_is_inert(text: str) -> None:
    shown = printable(text)
    for char in shown:
        assert unicodedata.category(char)[0] not in "CM"
        assert unicodedata.category(char) not in {"Zl", "Zp"}
        assert unicodedata.bidirectional(char) not in {"R", "AL", "AN", "RLO", "LRO", "RLI"}
    assert cell_len(shown) == sum(map(cell_len, shown)), "no cluster is narrower than its parts"
    assert printable(shown) == shown


def test_what_is_narrow_takes_one_cell() -> None:
    narrow = [char for char in map(chr, range(0x20, 0x3000)) if char.isprintable()]
    narrow = [char for char in narrow if is_narrow(char)]
    assert all(cell_len(char) == 1 for char in narrow) and {"→", "█", "⣿"} <= {*narrow}


@given(nasty, st.integers(-3, 80))
def test_widths_are_kept(text: str, width: int) -> None:
    assert cell_len(truncate(text, width)) <= max(0, width)
    assert cell_len(fit(text, width)) == max(0, width)
    assert cell_len(fit(text, width, right=True)) == max(0, width)
    assert cell_len(crop(line(text, Span(text, Tone.BAD)), width).text) <= max(0, width)
    assert all(cell_len(row) <= width for row in wrap(text, width))


@given(nasty)
def test_ascii_has_the_same_width(text: str) -> None:
    shown = printable(text + "▁█…─│└▲·")
    plain = ascii_only(shown)
    assert plain.isascii()
    assert len(plain) == cell_len(shown)


def test_every_mark_of_the_screens_has_one_in_ascii() -> None:
    """A mark that becomes `?` reads as a doubt."""
    assert REPLACEMENT not in ascii_only("▁▂▃▄▅▆▇█…─│▲▼▾·└┤━╸●✔→⏎■□◆≤▸✘◇┊┃▌░\u2571○◀▶↓≥┄⚑▐±")


@given(st.lists(st.text("abc漢", min_size=1, max_size=12), max_size=12), st.integers(2, 30))
def test_wrapping_loses_no_letter(words: list[str], width: int) -> None:
    assert "".join(wrap(" ".join(words), width)).replace(" ", "") == "".join(words)


def test_what_is_cut_reports_it() -> None:
    assert truncate("dpdk-worker12", 8) == "dpdk-wo…"
    assert truncate("漢字名前", 6) == "漢字…"
    assert crop(line("abcdef", Span("ghi", Tone.MUTED)), 6) == line("abcde…")
    assert crop(line("abcdef", Span("ghi", Tone.MUTED)), 8).text == "abcdefg…"
    assert crop(line("abc"), 3) == Line((Span("abc", Tone.PLAIN),))
    assert len(printable("x" * 10_000)) == 2000


def test_equal_tones_are_one_span() -> None:
    assert line("a", Span("b", Tone.PLAIN), Span("c", Tone.BAD), Span("", Tone.MUTED)).spans == (
        Span("ab", Tone.PLAIN),
        Span("c", Tone.BAD),
    )
