"""The sort menu: what it lists, that it sorts at once, and how it closes."""

from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.store.user.chosen_columns import ColumnsFile
from nftop.ui.options import Options
from nftop.ui.screens.main import MainScreen
from nftop.ui.screens.menu import ColumnMenu, SortMenu
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


def columns(run: Running) -> list[str]:
    """Labels marked as shown, from the first."""
    assert isinstance(run.app.screen, ColumnMenu)
    return [row.label for row in run.app.screen.rows if row.mark == "[x] "]


def header(run: Running) -> list[str]:
    """Labels of the table of CPUs."""
    lines = run.text.split("\n")
    return next(text for text in lines if text.split()[:1] in (["CPU"], ["CPU▲"])).split()


async def test_columns_are_hidden_shown_and_moved_and_the_table_follows(tmp_path: Path) -> None:
    file = ColumnsFile(tmp_path / "nftop/columns.toml")
    options = Options(columns=file)
    async with running(frame(8), size=(120, 30), options=options) as run:
        before = header(run)
        assert before[:3] == ["CPU", "THREAD", "NF"]
        await run.press("c")
        assert columns(run)[:3] == ["CPU", "THREAD", "NF"]
        await run.press("j", "space")
        assert header(run)[:2] == ["CPU", "NF"]
        await run.press("g", "j", "greater_than_sign")
        assert columns(run)[:3] == ["CPU", "BUSY", "NF"]
        await run.press("enter")
        assert header(run)[:3] == ["CPU", "BUSY", "NF"]
    assert file.chosen["cores"][:3] == ("cpu", "busy_ratio", "nf")
    async with running(frame(8), size=(120, 30), options=options) as run:
        assert header(run)[:3] == ["CPU", "BUSY", "NF"], "the choice is kept"
        await run.press("c", "r", "enter")
        assert header(run) == before
    assert "cores" not in file.chosen


async def test_the_first_column_stays_and_screens_have_their_own_choice(
    snapshot: SnapshotAssertion,
) -> None:
    async with running(frame(8), size=(120, 30)) as run:
        await run.press("c", "space")
        assert run.footer == snapshot
        await run.press("less_than_sign", "j", "space", "escape", "2", "f2")
        assert columns(run)[:2] == ["NF", "KIND"]
        await run.press("j", "space", "escape")
        await run.press("1")
        assert header(run)[:2] == ["CPU", "NF"]


async def test_columns_that_do_not_fit_are_left_out_from_the_right() -> None:
    async with running(frame(8), size=(40, 24)) as run:
        await run.press("c", "escape")
        assert header(run)[0] == "CPU"


async def test_a_choice_that_cannot_be_kept_lasts_for_the_session(tmp_path: Path) -> None:
    (tmp_path / "nftop").write_text("no folder")
    options = Options(columns=ColumnsFile(tmp_path / "nftop/columns.toml"))
    async with running(frame(8), size=(120, 30), options=options) as run:
        text = await run.press("c", "j", "space", "escape")
        assert "session only" in text
        assert header(run)[:2] == ["CPU", "NF"]
