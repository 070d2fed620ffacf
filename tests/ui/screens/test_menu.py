"""The sort menu: what it lists, that it sorts at once, and how it closes."""

from __future__ import annotations

import pytest

from nftop.ui.screens.main import MainScreen
from nftop.ui.screens.menu import SortMenu
from tests.frames import frame, with_cells
from tests.ui.harness import Running, running


def menu(run: Running) -> SortMenu:
    assert isinstance(run.app.screen, SortMenu)
    return run.app.screen


def labels(run: Running) -> list[str]:
    return [row.label for row in menu(run).rows]


async def test_it_lists_all_columns_and_marks_the_current_one() -> None:
    async with running(frame(8), size=(80, 24)) as run:
        await run.press("s")
        assert labels(run)[:5] == ["harm", "CPU", "THREAD", "NF", "BUSY"]
        assert "CSW/s" in labels(run), "also those without room on this screen"
        assert [row.label for row in menu(run).rows if row.note] == ["harm"]


async def test_enter_sorts_and_again_reverses() -> None:
    async with running(frame(8), size=(80, 24)) as run:
        await run.press("s")
        at = labels(run).index("IPC")
        text = await run.press("g", *["j"] * at, "enter")
        assert "sort IPC▼" in text and isinstance(run.app.screen, MainScreen)
        assert "sort IPC▲" in await run.press("s", "enter")


async def test_the_screen_below_shows_the_order_and_new_frames() -> None:
    async with running(frame(8), size=(120, 30)) as run:
        assert "sort harm▲" in await run.press("s", "I")
        assert " 77%" not in run.text
        assert " 77%" in await run.give(with_cells(frame(8, 1), "busy_ratio", {1: 0.77}))


async def test_a_click_on_a_row_sorts_by_it() -> None:
    async with running(frame(8), size=(80, 24)) as run:
        text = await run.press("s")
        rows = text.split("\n")
        y = next(at for at, row in enumerate(rows) if "│  THREAD" in row)
        await run.pilot.click(offset=(rows[y].index("│  THREAD") + 4, y))
        await run.pilot.pause()
        assert "sort THREAD▲" in run.text


@pytest.mark.parametrize("key", ["escape", "s", "q"])
async def test_it_closes_without_a_change(key: str) -> None:
    async with running(frame(8), size=(80, 24)) as run:
        before = run.text
        assert await run.press("s", "j", key) == before


async def test_nfs_sort_by_their_own_columns() -> None:
    async with running(frame(8), size=(120, 30)) as run:
        await run.press("2", "s")
        assert labels(run)[:2] == ["harm", "NF"]
        assert "sort NF▲" in await run.press("j", "enter")
