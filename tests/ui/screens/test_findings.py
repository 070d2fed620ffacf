"""Findings on the screens: their page, and what is typed to get there."""

from __future__ import annotations

from dataclasses import replace

from syrupy.assertion import SnapshotAssertion

from tests.frames import frame, ticks
from tests.render.frame.test_findings import FOUND
from tests.ui.harness import running

QUIET = tuple(ticks(lambda tick: frame(8, tick), 3))
LAST = QUIET[-1]
# Their times are of the first frame's clock.
LOUD = (*QUIET, replace(LAST, wall_ns=frame().wall_ns, findings=FOUND))


async def test_the_page_lists_all_and_goes_back(snapshot: SnapshotAssertion) -> None:
    async with running(*LOUD, size=(80, 24)) as run:
        assert await run.press("F") == snapshot
        assert "(empty-polls)" in await run.press("G")
        assert "[1 Cores]" in await run.press("escape")


async def test_every_screen_has_the_key() -> None:
    async with running(*LOUD, size=(80, 24)) as run:
        for screen in "123467":
            await run.press(screen)
            assert "Findings at" in await run.press("F")
            await run.press("escape")


async def test_they_go_when_the_frame_has_none() -> None:
    async with running(*LOUD, size=(80, 24)) as run:
        assert "(drops)" in await run.press("F")
        await run.press("escape")
        await run.give(replace(LAST, wall_ns=LAST.wall_ns + 10**9))
        assert "No active findings." in await run.press("F")
