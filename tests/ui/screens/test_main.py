"""Keys go before frames on the main screen, and draw again only what they change."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from textual import events

from nftop.model.frame import Frame
from nftop.render.cores import layout
from nftop.render.timeline import strip
from nftop.ui.messages import FrameReady
from nftop.ui.screens.main import MainScreen
from tests.frames import frame
from tests.ui.harness import Running, running


@pytest.fixture
def painted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Frame | None]]:
    """The frame of each paint of the main screen."""
    frames: list[Frame | None] = []
    paint = MainScreen._paint

    def noted(self: MainScreen) -> None:
        frames.append(self.frame)
        paint(self)

    monkeypatch.setattr(MainScreen, "_paint", noted)
    yield frames


def main_of(run: Running) -> MainScreen:
    screen = run.app.first
    assert isinstance(screen, MainScreen)
    return screen


async def test_a_key_that_came_with_a_frame_is_answered_before_it(
    painted: list[Frame | None],
) -> None:
    now, later = frame(8), frame(8, 4)
    async with running(now, size=(120, 36)) as run:
        painted.clear()
        driver = run.app._driver
        assert driver is not None
        driver.process_message(events.Key("j", "j"))
        main_of(run).post_message(FrameReady(later))
        await run.until(lambda: later in painted)
        assert painted[0] is not later
        assert painted[-1] is later
        assert len(painted) == 2


async def test_a_frame_waits_for_a_key_that_is_not_answered_but_for_one_tick(
    painted: list[Frame | None],
) -> None:
    async with running(frame(8), size=(120, 36)) as run:
        main, key = main_of(run), events.Key("j", "j")
        main.key_read(key)
        painted.clear()
        first, second = frame(8, 4), frame(8, 5)
        main.post_message(FrameReady(first))
        await run.pilot.pause()
        assert painted == []
        main.post_message(FrameReady(second))
        await run.until(lambda: bool(painted))
        assert painted == [second]
        main.key_handled(key)
        await run.pilot.pause()
        assert painted == [second]


async def test_a_key_in_a_prompt_is_a_character() -> None:
    async with running(frame(8), size=(120, 36)) as run:
        driver = run.app._driver
        assert driver is not None
        await run.press("slash")
        driver.process_message(events.Key("j", "j"))
        await run.until(lambda: "CPU: j" in run.text)


async def test_a_move_of_the_cursor_draws_no_header_strip_or_incident(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: list[str] = []

    def count(module: ModuleType, name: str) -> None:
        work = getattr(module, name)

        def counted(*args: Any, **named: Any) -> Any:
            drawn.append(name)
            return work(*args, **named)

        monkeypatch.setattr(module, name, counted)

    async with running(frame(8), size=(120, 36)) as run:
        main = main_of(run)
        count(layout, "header_lines")
        count(layout, "incident_lines")
        count(strip, "_strip_lines")
        cpu = main._session.cpu
        await run.press("down")
        assert main._session.cpu != cpu
        assert drawn == []
        await run.give(frame(8, 4))
        assert sorted(drawn) == ["_strip_lines", "header_lines", "incident_lines"]
