"""The Topdown screen: keys, sizes, and which core is counted because of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from syrupy.assertion import SnapshotAssertion
from textual import events

from nftop.model.frame import Frame
from nftop.ui.options import Options
from tests.command import lines_with
from tests.focus import with_focus
from tests.frames import all_missing, bare, frame, hostile, ticks
from tests.ui.harness import Running, assert_fits
from tests.ui.harness import running as running_by

# The rows of these tests are in the order of CPUs.
running = partial(running_by, sort="cpu")

HOST = tuple(ticks(lambda tick: frame(16, tick, packages=2, tma=True), 4))
FOCUSED = tuple(with_focus(item, 1) for item in HOST)


def focused(run: Running) -> int | None:
    """The CPU whose core the feed was last told to count more of."""
    return run.feed.focus.core


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 50), (40, 8)])
@pytest.mark.parametrize("frames", [HOST, FOCUSED], ids=["alone", "focused"])
async def test_screen(
    frames: tuple[Frame, ...], size: tuple[int, int], snapshot: SnapshotAssertion
) -> None:
    async with running(*frames, size=size) as run:
        assert await run.press("6") == snapshot


@pytest.mark.parametrize("size", [(1, 1), (20, 5), (39, 30), (300, 9), (60, 14)])
@pytest.mark.parametrize("make", [all_missing, bare, hostile, lambda: FOCUSED[0]])
async def test_any_size_shows_what_fits(size: tuple[int, int], make: Callable[[], Frame]) -> None:
    async with running(make(), size=size) as run:
        for keys, title in (
            (("6",), " ── cpu"),
            (("t",), " Top-down by network function"),
            (("t",), " Top-down by cache class"),
            (("t", "pagedown", "x"), "Top-down of cpu"),
        ):
            await run.press(*keys)
            assert_fits(run, title)


async def test_enter_opens_it_and_escape_keeps_the_cpu_selected() -> None:
    async with running(*HOST, size=(120, 36)) as run:
        text = await run.press("j", "enter")
        assert "[6 Topdown]" in text
        assert "── cpu 2 · dpdk-worker2" in text
        for key, cpu in (("j", 3), ("k", 2), ("p", 1), ("n", 2), ("down", 3), ("up", 2)):
            assert f"── cpu {cpu} ·" in await run.press(key), key
        await run.press("slash", *"vpp", "enter")
        assert "── cpu 3 · vpp_wk_0" in run.text
        text = await run.press("escape")
        assert "[1 Cores]" in text
        assert " cpu 3 vpp_wk_0" in text


async def test_filter_sort_and_pause_carry_over() -> None:
    async with running(*HOST, size=(120, 36)) as run:
        await run.press("backslash", *"fwd", "enter", "greater_than_sign", "space")
        text = await run.press("6")
        assert "PAUSED" in text
        assert "filter fwd" in text and "sort THREAD" in text
        assert "/2 " in text.rsplit("\n", 1)[-1]
        await run.press("I")
        text = await run.press("1")
        assert "sort THREAD" in text and "dpdk-worker2" in text
        table = text[text.index("  CPU THREAD") :]
        assert table.index("dpdk-worker2") < table.index("dpdk-worker1")


async def test_only_the_core_in_focus_is_counted() -> None:
    async with running(*HOST, size=(120, 36)) as run:
        assert focused(run) is None, "nothing more is counted for the table"
        await run.press("6")
        assert focused(run) == 1
        await run.press("j")
        assert focused(run) == 2
        await run.press("x")
        assert focused(run) == 2, "a page above it changes nothing"
        await run.press("escape", "t")
        assert focused(run) is None, "of groups nothing more is known"
        await run.press("t", "t")
        assert focused(run) == 2
        await run.press("4")
        assert focused(run) is None
        await run.press("6", "1")
        assert focused(run) is None


async def test_a_sibling_is_no_other_core() -> None:
    async with running(*HOST, size=(120, 36)) as run:
        await run.press("i", "6", "slash", "1", "enter")
        assert focused(run) == 1
        await run.press("slash", "9", "enter")
        assert "── cpu 9" in run.text
        assert focused(run) == 1


async def test_while_the_screen_stands_still_so_does_what_is_counted(
    snapshot: SnapshotAssertion,
) -> None:
    async with running(*FOCUSED, size=(120, 36)) as run:
        await run.press("6", "space", "j")
        assert "── cpu 2" in run.text
        assert lines_with(run.text, "paused") == snapshot
        assert focused(run) == 1
        await run.press("space")
        assert focused(run) == 2


@pytest.mark.parametrize("leave", [("1",), ("escape",), ("4",), ("t",)])
async def test_what_is_left_ends_though_the_screen_stands_still(leave: tuple[str, ...]) -> None:
    async with running(*FOCUSED, size=(120, 36)) as run:
        await run.press("6", "space")
        assert focused(run) == 1
        await run.press(*leave)
        assert focused(run) is None
        await run.press("6")
        assert focused(run) is None, "what begins now is not on the screen"
        await run.press("space")
        assert focused(run) == (None if leave == ("t",) else 1)


async def test_level_3_comes_with_its_frame() -> None:
    async with running(*HOST, size=(120, 50)) as run:
        assert "dram bound" not in await run.press("6")
        text = await run.give(with_focus(frame(16, 4, packages=2, tma=True), 1))
        assert "dram bound" in text and "PROBES" in text
        assert "load latency" in text


async def test_scrolling_shows_the_rest() -> None:
    async with running(*FOCUSED, size=(80, 24)) as run:
        text = await run.press("6")
        assert "PROBES" not in text and "frontend bound" in text
        assert "lines 1-18/" in text
        text = await run.press("pagedown")
        assert "PROBES" in text and "── cpu 1" not in text
        assert "── cpu 1" in await run.press("pageup")


async def test_groups() -> None:
    async with running(*HOST, size=(120, 36)) as run:
        text = await run.press("6", "t")
        assert "by network function" in text and "fwd 4242" in text
        text = await run.press("t")
        assert "by cache class" in text
        assert "── cpu 1" in await run.press("t")


async def test_explain(snapshot: SnapshotAssertion) -> None:
    async with running(*FOCUSED, size=(120, 50)) as run:
        text = await run.press("6", "x")
        assert lines_with(text, "cpu 1's") == snapshot
        assert "dram bound" in text


async def test_ascii_without_colour() -> None:
    async with running(
        *FOCUSED, size=(120, 36), options=Options(color=False, ascii_only=True)
    ) as run:
        assert (await run.press("6")).isascii()
        assert "|" in run.text and "#" in run.text
        assert (await run.press("t")).isascii()


async def test_keys_that_lead_nowhere_report_it(snapshot: SnapshotAssertion) -> None:
    async with running(*HOST, size=(120, 36)) as run:
        assert "no screen 8" in await run.press("8")
        await run.press("z")
        assert run.footer == snapshot
        # Escape with a digit right behind it is Alt to Textual.
        run.app.screen.post_message(events.Key("pilcrow_sign", "¶"))
        await run.pilot.pause()
        assert run.footer == snapshot
        await run.press("t")
        assert run.footer == snapshot
        await run.press("slash", "z")
        assert run.footer == snapshot
        assert "does nothing" not in run.text, "within a prompt they are typed"
