"""The Traffic screen: keys and sizes."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.model.frame import Focus
from nftop.model.ids import Cpu
from nftop.render.base.line import Tone
from nftop.ui.options import Options
from tests.frames import frame, ticks
from tests.sim.hosts import Frozen, S
from tests.traffic import with_traffic
from tests.ui.harness import Running, assert_fits, running, selected_rows

TWO = tuple(ticks(lambda tick: with_traffic(frame(16, tick, packages=2)), 70))


def marked(run: Running) -> str:
    """The row under the cursor."""
    (row,) = selected_rows(run)
    return row


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 50), (40, 8)])
async def test_screen(size: tuple[int, int], snapshot: SnapshotAssertion) -> None:
    async with running(*TWO, size=size) as run:
        assert await run.press("4") == snapshot


@pytest.mark.parametrize(
    ("size", "page_up"),
    [
        ((1, 1), ""),
        ((20, 5), ""),
        ((39, 30), ""),
        ((300, 9), "0 "),
        ((60, 14), "UPI received"),
    ],
)
async def test_any_size_shows_what_fits(size: tuple[int, int], page_up: str) -> None:
    async with running(TWO[0], size=size) as run:
        await run.press("4", "G")
        assert_fits(run, selected="1 ")
        await run.press("pageup")
        assert_fits(run, selected=page_up)


async def test_all_traffic_is_counted_while_the_screen_is_up() -> None:
    async with running(*TWO[:3], size=(120, 36), sort="cpu") as run:
        assert run.feed.focus == Focus(processes=Cpu(1))
        await run.press("4")
        assert run.feed.focus == Focus(traffic=True)
        await run.press("x")
        assert run.feed.focus == Focus(traffic=True), "a page above it changes nothing"
        await run.press("escape", "6")
        assert run.feed.focus == Focus(core=Cpu(1))
        await run.press("4", "space", "1")
        assert run.feed.focus == Focus(), "what is left ends at once"
        await run.press("4")
        assert run.feed.focus == Focus(), "and nothing begins while the screen stands still"
        await run.press("space")
        assert run.feed.focus == Focus(traffic=True)


async def test_a_device_under_the_cursor_is_explained() -> None:
    host = Frozen(cpus=44, processor="gold-6230n")
    seen = [host.tick(S) for _ in range(3)]
    async with running(*seen[1:], size=(80, 24)) as run:
        await run.press("4")
        for _ in range(60):
            if marked(run).startswith(" eno1"):
                break
            await run.press("j")
        assert "s0 1.2" in marked(run)
        text = await run.press("x")
        assert "0000:10:02.0" in text
        assert "i40e" in text


async def test_the_cursor_scrolls_through_all_rows() -> None:
    async with running(*TWO[:3], size=(80, 24)) as run:
        await run.press("4")
        assert marked(run).startswith(" read")
        seen = []
        for _ in range(200):
            seen.append(marked(run))
            if "Links" in run.text and marked(run).startswith(" 1 ") and " 1 " in seen[-2]:
                break
            await run.press("j")
        text = await run.press("G")
        assert "[b]" not in marked(run)
        last = marked(run)
        await run.press("j")
        assert marked(run) == last
        assert text.count("\n") == 23
        await run.press("pageup")
        assert marked(run) != last
        await run.press("g")
        assert marked(run) == seen[0]


async def test_a_graph_under_the_cursor_is_not_drawn_in_reverse() -> None:
    async with running(*TWO, size=(120, 36)) as run:
        await run.press("4")
        row = next(row for row in run.rows if row and run.has_ground(row[0][1], Tone.SELECTION))
        graphs = [style for text, style in row if "⠒" in text or "⠤" in text or "⣀" in text]
        assert graphs
        assert not any(run.has_ground(style, Tone.SELECTION) for style in graphs)


async def test_explain_is_about_the_row_under_the_cursor() -> None:
    async with running(*TWO[:3], size=(120, 36)) as run:
        text = await run.press("4", "j", "x")
        assert text.startswith("MEM.wr (memory.write_bytes_per_s)")
        assert "socket 1" in text
        await run.press("escape", "G")
        assert "UPI" in await run.press("x") or "Sources" in run.text


async def test_history_is_drawn_and_a_frozen_screen_stands_still() -> None:
    async with running(*TWO, size=(120, 36)) as run:
        await run.press("4")
        frozen = await run.press("space")
        assert "⠒" in frozen
        later = with_traffic(frame(16, 80, packages=2))
        assert await run.give(later) == frozen
        assert await run.press("space") != frozen


async def test_ascii_and_no_colour() -> None:
    async with running(*TWO, size=(120, 36), options=Options(ascii_only=True, color=False)) as run:
        assert (await run.press("4")).isascii()


async def test_keys_of_cpus_report_that_they_are_not_for_it(snapshot: SnapshotAssertion) -> None:
    async with running(*TWO[:2]) as run:
        await run.press("4", "slash")
        assert run.footer == snapshot
        assert "find" not in run.text
        assert "[1 Cores]" in await run.press("escape", "escape")
