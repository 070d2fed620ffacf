"""The whole screen, as text, at the sizes people use and at those they should not."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest
from rich.color import Color
from rich.style import Style
from syrupy.assertion import SnapshotAssertion

from nftop.derive.usual import UsualState, step_usual
from nftop.model.frame import Frame
from nftop.ui.options import Options
from nftop.ui.theme import VARIABLES, tone_styles
from tests.frames import HOSTILE, all_missing, bare, frame, hostile, ticks
from tests.ui.harness import assert_fits, running


def compared(frames: Iterable[Frame]) -> tuple[Frame, ...]:
    """Frames with what is usual for their rows, as the fold has it."""
    state, result = UsualState(), []
    for item in frames:
        state, usual = step_usual(state, item)
        result.append(replace(item, usual=usual))
    return tuple(result)


HEALTHY = compared(ticks(lambda tick: frame(8, tick), 90))
TOPDOWN = compared(ticks(lambda tick: frame(88, tick, packages=2, tma=True), 90))
LARGE = compared(ticks(lambda tick: frame(128, tick, packages=2, simulated=True), 90))


@pytest.mark.parametrize(
    ("frames", "size"),
    [
        pytest.param(HEALTHY, (80, 24), id="80x24"),
        pytest.param(HEALTHY, (120, 36), id="120x36"),
        pytest.param(LARGE, (200, 50), id="200x50"),
        pytest.param(TOPDOWN, (120, 36), id="top-down"),
        pytest.param(TOPDOWN, (200, 50), id="top-down-200x50"),
        pytest.param((all_missing(),), (120, 36), id="all-missing"),
        pytest.param((all_missing(),), (80, 24), id="all-missing-80x24"),
        pytest.param((bare(),), (80, 24), id="bare"),
        pytest.param((hostile(),), (80, 24), id="hostile"),
        pytest.param(HEALTHY, (40, 8), id="40x8"),
        pytest.param(HEALTHY, (20, 5), id="20x5"),
    ],
)
async def test_screen(
    frames: tuple[Frame, ...], size: tuple[int, int], snapshot: SnapshotAssertion
) -> None:
    async with running(*frames, size=size) as run:
        assert run.text == snapshot


async def test_sorting_by_the_bar_is_by_retiring_and_graphs_it() -> None:
    async with running(*TOPDOWN[:3], size=(120, 36)) as run:
        text = await run.press("i")
        for _ in range(20):
            if "sort TOPDOWN" in (text := await run.press("greater_than_sign")):
                break
        assert "TOPDOWN 5% a letter▼" in text
        rows = [row for row in text.split("\n") if row.rstrip("~").endswith("R") and "FF" in row]
        counts = [row.count("R") for row in rows if "vpp" not in row and "dpdk" not in row]
        assert len(counts) > 3
        assert counts == sorted(counts, reverse=True)


async def test_the_bar_and_the_map_without_colour_and_in_ascii() -> None:
    async with running(*TOPDOWN[:3], size=(120, 36), options=Options(theme="dark")) as run:
        plain = run.text
        grounds = {VARIABLES[f"nf-tma-{letter}"] for letter in "fbmcr"}
        assert grounds <= _colours(run.rows)
    async with running(*TOPDOWN[:3], size=(120, 36), options=Options(color=False)) as run:
        assert _colours(run.rows) == set()
        assert run.text == plain
    async with running(*TOPDOWN[:3], size=(120, 36), options=Options(ascii_only=True)) as run:
        assert run.text.isascii()
        assert "FFbMMMM" in run.text
    async with running(*TOPDOWN[:3], size=(80, 24)) as run:
        assert "MAP" not in run.text, "the table needs the room"
        assert "TOPDN 10%" in run.text


async def test_ascii(snapshot: SnapshotAssertion) -> None:
    options = Options(ascii_only=True)
    async with running(*HEALTHY, size=(80, 24), options=options) as run:
        assert run.text == snapshot
        assert run.text.isascii()
        for key in ("question_mark", "x"):
            assert (await run.press(key)).isascii()
            await run.press("escape")
        assert (await run.press("slash")).isascii()
    async with running(hostile(), options=options) as run:
        assert run.text.isascii()


@pytest.mark.parametrize("size", [(20, 5), (1, 1), (5, 2), (39, 30), (300, 9), (60, 14), (80, 200)])
@pytest.mark.parametrize(
    ("make", "cpu"), [(lambda: frame(8), "3"), (all_missing, "1"), (bare, "0"), (hostile, "3")]
)
async def test_any_size_shows_what_fits(
    make: Callable[[], Frame], cpu: str, size: tuple[int, int]
) -> None:
    async with running(make(), size=size) as run:
        assert_fits(run, "CPU THREAD", selected=f"{cpu} ")


async def test_a_small_terminal_reports_what_it_needs(snapshot: SnapshotAssertion) -> None:
    async with running(frame(8), size=(20, 5)) as run:
        words = " ".join(run.text.split())
        assert words == snapshot
        assert "vpp_wk" in words, "and still shows what fits"


async def test_a_resize_reflows() -> None:
    async with running(*HEALTHY, size=(200, 50)) as wide:
        expected = {(200, 50): wide.text}
    async with running(*HEALTHY, size=(80, 24)) as run:
        expected[80, 24] = run.text
        for size in ((200, 50), (20, 5), (80, 24)):
            await run.pilot.resize_terminal(*size)
            await run.pilot.pause()
            assert run.text == expected.get(size, run.text)
            assert len(run.text.split("\n")) == size[1]


def _of(style: Style) -> list[Color]:
    return [color for color in (style.color, style.bgcolor) if color is not None]


def _colours(run_rows: list[list[tuple[str, Style]]]) -> set[str]:
    used = set()
    for row in run_rows:
        for _, style in row:
            used |= {
                color.name
                for color in (style.color, style.bgcolor)
                if color is not None and not color.is_default
            }
    return used


@pytest.mark.parametrize("no_color", [None, "", "1"])
async def test_colour_is_what_the_options_report(
    monkeypatch: pytest.MonkeyPatch, no_color: str | None
) -> None:
    """Whatever Textual makes of NO_COLOR, even of an empty one."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color is not None:
        monkeypatch.setitem(os.environ, "NO_COLOR", no_color)
    async with running(*HEALTHY, options=Options(theme="dark")) as run:
        plain = run.text
        shades = {item.name for tone in tone_styles("dark").values() for item in _of(tone)}
        assert _colours(run.rows) <= set(VARIABLES.values()) | shades
        assert VARIABLES["nf-accent"] in _colours(run.rows)
    async with running(*HEALTHY, options=Options(theme="ansi")) as run:
        assert run.text == plain
        assert "color(6)" in _colours(run.rows) and "#" not in "".join(_colours(run.rows))
    async with running(*HEALTHY, options=Options(color=False)) as run:
        assert _colours(run.rows) == set()
        assert run.text == plain, "nothing is said by colour alone"
        await run.press("slash", "v")
        assert _colours(run.rows) == set()


async def test_the_selected_row_is_marked_without_colour() -> None:
    async with running(frame(8), options=Options(color=False)) as run:
        marked = [row for row in run.rows if all(style.reverse for _, style in row)]
        assert ["vpp_wk" in "".join(text for text, _ in row) for row in marked] == [True]


async def test_untrusted_names_are_text() -> None:
    async with running(hostile(), size=(120, 36)) as run:
        assert "[red]x[/] ?[2J" in run.text
        assert run.text.replace("\n", "").isprintable()
        assert HOSTILE[0] not in run.text
        await run.press("x")
        assert run.text.replace("\n", "").isprintable()
