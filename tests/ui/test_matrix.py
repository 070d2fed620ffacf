"""Every screen and page, at every size, in every way of drawing: what must hold for all of them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pytest
from rich.cells import cell_len
from rich.color import ColorType

from nftop.model.check import Check
from nftop.model.frame import Frame
from nftop.model.missing import Reason
from nftop.model.perf_tool import PerfTool
from nftop.model.struct import replace
from nftop.ui.options import Options
from nftop.ui.screens.editor import EditorScreen
from nftop.ui.screens.experiment import ExperimentScreen
from nftop.ui.screens.registry import screens
from tests.frames import all_missing, frame, ticks
from tests.sim.hosts import Frozen, S
from tests.store.history.test_flight import TICKS
from tests.ui.editing import apply, edited, is_planned
from tests.ui.gates import open_gate
from tests.ui.harness import Running, running
from tests.ui.screens.test_timeline import live, moment
from tests.ui.test_recordings import replaying

SIZES = ((40, 8), (80, 24), (120, 36), (200, 50), (400, 100))
SCREENS = tuple(row.keys[0] for row in screens())
# Pages and dialogs that cover a screen; each is left by Escape.
PAGES = ("question_mark", "x", "F", "s", "c", "tab")
NF_PAGES = ("question_mark", "x", "o")  # of the NFs screen
# On a smaller terminal the worst is said in one line.
FULL = (80, 24)
APPEARANCES = {
    "dark": Options(theme="dark"),
    "light": Options(theme="light"),
    "16-colours": Options(theme="ansi"),
    "no-colour": Options(color=False),
    "ascii": Options(theme="dark", ascii_only=True),
}


# Themes change no width, so the least and the most that is on screen show all their colours.
SIZES_OF = {
    appearance: SIZES if appearance in ("dark", "ascii") else (SIZES[0], SIZES[-1])
    for appearance in APPEARANCES
}


@lru_cache(maxsize=1)
def sick() -> tuple[Frame, ...]:
    """The simulated host ten seconds after a neighbour began to take the cache of VPP."""
    host = Frozen("noisy", traffic=None)
    return (host.tick(0), host.tick(50 * S), *(host.tick(S) for _ in range(20)))


@lru_cache(maxsize=1)
def healthy() -> tuple[Frame, ...]:
    return tuple(ticks(lambda tick: frame(88, tick, packages=2, tma=True), 3))


def check_fits(run: Running, size: tuple[int, int]) -> None:
    rows = run.text.split("\n")
    assert len(rows) == size[1]
    assert max(map(cell_len, rows)) <= size[0]
    if size >= FULL and (size[0] > FULL[0] or not isinstance(run.app.screen, EditorScreen)):
        # A blank column at both edges, but for the bracket of the first tab and a last cell's mark;
        # what is narrow has all cells on the right.
        inner = [row.removeprefix("[1 Cores]").removesuffix("~") for row in rows]
        assert [row for row in inner if row[:1] not in ("", " ")] == []
        assert size == FULL or max(map(cell_len, inner)) < size[0]


def check_appearance(run: Running, appearance: str) -> None:
    """What the terminal gets has only what it can show."""
    colors = [
        color
        for row in run.rows
        for _, style in row
        for color in (style.color, style.bgcolor)
        if color is not None and not color.is_default
    ]
    if appearance == "no-colour":
        assert colors == []
    elif appearance == "16-colours":
        assert colors
        assert all(color.type is ColorType.STANDARD for color in colors)
    else:
        assert colors
    assert appearance != "ascii" or run.text.isascii()


async def check_all(run: Running, size: tuple[int, int], appearance: str) -> dict[str, str]:
    """Text of every screen at a size, after each was checked; on the first one its pages are too.

    One application is resized: to start one takes longer than to draw all of its screens.
    """
    await run.resize(size)
    texts = {}
    for key in SCREENS:
        texts[key] = await run.press(key)
        check_fits(run, size)
        check_appearance(run, appearance)
    for screen, pages in ((SCREENS[0], PAGES), (SCREENS[1], NF_PAGES)):
        await run.press(screen)
        depth = len(run.app.screen_stack)
        for key in pages:
            await run.press(key)
            assert len(run.app.screen_stack) == depth + 1, key
            check_fits(run, size)
            check_appearance(run, appearance)
            await run.press("escape")
            assert len(run.app.screen_stack) == depth, key
    return texts


@pytest.mark.parametrize("appearance", APPEARANCES)
async def test_what_is_sick_is_on_every_screen_and_nothing_overflows(appearance: str) -> None:
    (incident,) = [item for item in sick()[-1].incidents if item.kind == "neighbour"]
    assert (incident.group, incident.victims[0].party.name) == ("tenant", "vpp")
    async with running(
        *sick(), size=SIZES_OF[appearance][0], options=APPEARANCES[appearance]
    ) as run:
        for size in SIZES_OF[appearance]:
            texts = await check_all(run, size, appearance)
            for key, text in texts.items():
                if size >= FULL:
                    assert "tenant" in text and "vpp" in text, (size, key)
                assert "SIM" in text.split("\n")[0], (size, key)
            assert "vpp" in texts[SCREENS[0]], size


@pytest.mark.parametrize("appearance", APPEARANCES)
async def test_the_editor_its_preview_and_the_doctor_fit(appearance: str) -> None:
    checks = [
        Check("perf", Reason.PRESENT, "counts"),
        Check("vpp", Reason.SOURCE, "no socket " * 9),
    ]
    wanted = APPEARANCES[appearance]
    options: dict[str, Any] = {
        "theme": wanted.theme,
        "color": wanted.color,
        "ascii_only": wanted.ascii_only,
        "examine": lambda: (checks, ""),
    }
    async with edited(open_gate(), "plus", **options) as run:

        async def check_sizes() -> None:
            for size in SIZES:
                await run.resize(size)
                check_fits(run, size)
                check_appearance(run, appearance)

        await check_sizes()
        await run.press("enter")
        await run.until(lambda: is_planned(run))
        await check_sizes()
        await run.press("escape", "escape", "n", "f9")
        await run.until(lambda: "counts" in run.text)
        await check_sizes()


async def test_a_change_that_is_not_kept_and_an_experiment_fit() -> None:
    gate = open_gate()
    async with edited(gate, "plus", theme="dark", ascii_only=True) as run:
        await apply(run, gate)
        await run.until(lambda: "NOT KEPT" in run.text)
        for size in SIZES:
            text = await run.resize(size)
            check_fits(run, size)
            check_appearance(run, "ascii")
            assert "CHANGE 1" in text and "NOT KEPT" in text and "K keep" in text
            assert ("vpp L3 0 0f0 > 1f0 " in text) == (size[0] >= 80)
        await run.press("K")
        await run.until(lambda: "NOT KEPT" not in run.text)
        await run.press("T")
        assert isinstance(run.app.screen, ExperimentScreen)
        for size in SIZES:
            await run.resize(size)
            check_fits(run, size)
            check_appearance(run, "ascii")


@pytest.mark.parametrize("appearance", APPEARANCES)
async def test_the_palette_and_the_commands_of_perf_fit(appearance: str) -> None:
    tool = PerfTool(
        (6, 1), cycles=True, samples="cycles", memory_events=True, processor_trace=False
    )
    options = replace(APPEARANCES[appearance], perf_tool=lambda: tool)
    async with running(*sick(), size=FULL, options=options) as run:
        for keys, shown in ((("colon", *"baseline"), "baseline"), (("escape", "Y"), "sudo perf ")):
            await run.press(*keys)
            await run.until(lambda shown=shown: run.text.count(shown) > 1)  # type: ignore[misc]
            for size in SIZES_OF[appearance]:
                text = await run.resize(size)
                check_fits(run, size)
                check_appearance(run, appearance)
                assert shown in text or size < FULL


@pytest.mark.parametrize("appearance", APPEARANCES)
async def test_the_past_of_a_live_session_fits_and_is_marked_on_every_screen(
    appearance: str,
) -> None:
    wanted = APPEARANCES[appearance]
    options: dict[str, Any] = {
        "theme": wanted.theme,
        "color": wanted.color,
        "ascii_only": wanted.ascii_only,
    }
    async with live(FULL, **options) as (run, past):
        await run.press("left_square_bracket")
        await moment(run, past, TICKS - 2)
        for size in SIZES_OF[appearance]:
            await run.resize(size)
            for key in SCREENS:
                text = await run.press(key)
                check_fits(run, size)
                check_appearance(run, appearance)
                assert "1s AGO" in text, key


async def test_a_healthy_host_fits_and_is_not_called_simulated() -> None:
    async with running(*healthy(), size=SIZES[0], options=APPEARANCES["ascii"]) as run:
        for size in SIZES:
            texts = await check_all(run, size, "ascii")
            assert all("SIM" not in text for text in texts.values()), size


async def test_a_host_of_which_nothing_is_known_fits() -> None:
    async with running(all_missing(), size=SIZES[0], options=APPEARANCES["dark"]) as run:
        for size in SIZES:
            await check_all(run, size, "dark")


async def test_a_replay_fits_and_is_marked_on_every_screen() -> None:
    async with replaying(SIZES[0], APPEARANCES["dark"]) as (run, _):
        await run.press("space")
        for size in SIZES:
            texts = await check_all(run, size, "dark")
            assert all("REPLAY" in text or "PAUSED" in text for text in texts.values()), size
