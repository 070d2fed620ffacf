"""The text a line is put together as, against what Textual makes of the same line's segments."""

from __future__ import annotations

import io

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.style import Style
from textual.strip import Strip

from nftop.render.base.line import Line, Span, Tone, crop, line
from nftop.render.base.table import LastResults
from nftop.render.base.text import printable
from nftop.ui.widgets.lines import Ink, LineStrip, _regions
from tests.ui.emulator import Screen, cells

WIDTH = 24
STYLES = ("", "bold", "dim", "red", "bold red", "reverse", "bold reverse", "on blue")
# A colour of its own for each: Textual keeps a style's codes whatever system asks for them next.
SYSTEMS = {"standard": "color(97)", "256": "color(98)", "truecolor": "#123456"}

texts = st.text(st.sampled_from("ab 0~█漢…") | st.characters(codec="utf-8"), max_size=12).map(
    printable
)
spans = st.builds(Span, texts, st.sampled_from(list(Tone)))
lines = st.builds(Line, st.lists(spans, max_size=6).map(tuple), st.just(Tone.PLAIN))


def console(system: str = "256") -> Console:
    return Console(file=io.StringIO(), force_terminal=True, color_system=system)  # type: ignore[arg-type]


def ink(*, plain: bool = False, to_edge: bool = True, fill: str = "", system: str = "256") -> Ink:
    style_names = (*STYLES, SYSTEMS[system])
    styles = {
        tone: Style.parse(f"default on default {style_names[at % len(style_names)]}")
        + Style.parse(fill)
        for at, tone in enumerate(Tone)
    }
    return Ink(styles.__getitem__, plain=plain, to_edge=to_edge)


def shown(text: str, columns: int = WIDTH) -> list[pyte.screens.Char]:
    """The first line of a terminal full of other things, after `text`."""
    screen = Screen(columns, 2)
    stream = pyte.Stream(screen)
    stream.feed("\x1b[7;33m" + "#" * columns + "\x1b[0m\x1b[1;1H" + text)
    cursor = screen.cursor.attrs
    assert cursor == screen.default_char, "the style does not end with the line"
    return cells(screen)[0]


@given(
    lines,
    st.sampled_from(list(SYSTEMS)),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["", "reverse", "on green"]),
)
def test_it_draws_what_the_segments_would(
    drawn: Line, system: str, plain: bool, to_edge: bool, fill: str
) -> None:
    drawn = crop(drawn, WIDTH)
    pen = ink(plain=plain, to_edge=to_edge, fill=fill, system=system)
    wanted = Strip(pen.segments(drawn, WIDTH), WIDTH)
    text = LineStrip(drawn, WIDTH, pen).render(console(system))
    assert shown(text) == shown(wanted.render(console(system)))
    assert len(text) <= len(wanted.render(console(system)))


@given(st.lists(spans, max_size=6), st.data(), st.booleans(), st.sampled_from(["", "reverse"]))
def test_an_update_leaves_what_the_whole_line_would(
    before: list[Span], data: st.DataObject, to_edge: bool, fill: str
) -> None:
    kept = data.draw(st.lists(st.booleans(), min_size=len(before), max_size=len(before)))
    after = [span if keep else data.draw(spans) for span, keep in zip(before, kept, strict=True)]
    pen = ink(to_edge=to_edge, fill=fill)
    old, new = (LineStrip(crop(Line(tuple(i)), WIDTH), WIDTH, pen) for i in (before, after))
    sent = old.render(console())
    assert shown(sent + new.update(old, 1, console())) == shown(new.render(console()))


def test_an_update_passes_over_what_stays() -> None:
    def strip(number: str) -> LineStrip:
        return LineStrip(line("unchanged ", Span(number, Tone.BAD), " tail"), WIDTH, pen)

    pen = ink()
    old, new, other = strip("12"), strip("13"), strip("14")
    assert new.update(old, 3, console()) == f"\x1b[3H{new.render(console())}", "it was never sent"
    assert "unchanged" not in other.update(new, 3, console())
    assert other.update(new, 3, console()).startswith("\x1b[3;11H")
    assert strip("14").update(other, 3, console()) == ""


@given(lines, st.integers(0, WIDTH + 3), st.integers(0, WIDTH + 3))
def test_its_halves_are_those_of_the_segments(drawn: Line, start: int, end: int) -> None:
    drawn = crop(drawn, WIDTH)
    strip, wanted = LineStrip(drawn, WIDTH, ink()), Strip(ink().segments(drawn, WIDTH), WIDTH)
    assert list(strip.crop(start, end)) == list(wanted.crop(start, end))
    cuts = sorted({min(start, WIDTH), WIDTH} - {0})
    assert [list(component) for component in strip.divide(cuts)] == [
        list(p) for p in wanted.divide(cuts)
    ]
    assert list(strip) == list(wanted)
    assert (strip.text, strip.cell_length) == (wanted.text, WIDTH)
    assert list(Strip.join([strip, strip])) == [*wanted, *wanted]


def test_a_line_is_erased_to_its_end_only_where_the_terminal_ends() -> None:
    strip = LineStrip(line("ab"), WIDTH, ink(to_edge=True))
    assert strip.render(console()) == "ab\x1b[K"
    inside = LineStrip(line("ab"), WIDTH, ink(to_edge=False))
    assert inside.render(console()) == "ab" + " " * (WIDTH - 2)
    cursor = LineStrip(line("ab"), WIDTH, ink(fill="reverse")).render(console())
    assert cursor == "\x1b[7mab" + " " * (WIDTH - 2) + "\x1b[m"


def test_rendering_alone_makes_no_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    strip = LineStrip(line("ab"), WIDTH, ink())
    with monkeypatch.context() as patch:
        patch.setattr(Ink, "segments", None)
        strip.render(console())
        assert strip.divide([WIDTH]) == [strip]
        assert strip.crop(0, WIDTH) is strip
    assert [segment.text for segment in strip] == ["ab", " " * (WIDTH - 2)]


def test_search_without_a_match() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        LineStrip(line("ab"), WIDTH, ink()).nonsense  # noqa: B018 - the access is the test


@given(st.sets(st.integers(0, 40), min_size=1))
def test_what_is_drawn_again_is_what_changed_in_as_few_pieces_as_cover_it(
    changed: set[int],
) -> None:
    regions = list(_regions(sorted(changed), WIDTH))
    assert [y for region in regions for y in region.line_range] == sorted(changed)
    assert all(region.column_span == (0, WIDTH) for region in regions)
    assert len(regions) == sum(y - 1 not in changed for y in changed)


def test_two_results_are_kept_by_the_identity_of_their_arguments() -> None:
    calls: list[object] = []

    def work(of: object, number: int) -> object:
        calls.append(of)
        return [of, number]

    kept = LastResults(work)
    one, other, third = [1], [1], [1]
    first = kept(one, 1000)
    assert kept(one, int("1000")) is first
    second = kept(other, 1000)
    assert second is not first
    assert kept(one, 1000) is first
    assert kept(other, 1000) is second
    kept(third, 1000)
    assert kept(other, 1000) is second
    assert len(calls) == 3
    assert kept(one, 1000) is not first
    assert kept(one, 1001) == [one, 1001]


def test_the_same_value_of_another_type_is_another() -> None:
    kept = LastResults(lambda value: [value])
    assert kept(1) is not kept(True)
    assert kept((1, 2)) is kept((1, 2))
