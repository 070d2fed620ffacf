"""Clicks on any text of any screen that takes one: none ends the application."""

from __future__ import annotations

from functools import lru_cache

import pytest

from nftop.model.frame import Frame
from nftop.render.base.line import Click
from nftop.ui.messages import Clicked
from nftop.ui.screens.registry import screens
from nftop.ui.widgets.lines import Lines
from tests.sim.hosts import Frozen, S
from tests.ui.harness import Running, running


@lru_cache(maxsize=1)
def shared() -> tuple[Frame, ...]:
    host = Frozen("shared", traffic=None)
    return (host.tick(0), host.tick(28 * S), *(host.tick(S) for _ in range(8)))


def targets(run: Running) -> list[tuple[Lines, Clicked]]:
    """What the text on screen posts where it is clicked, each once."""
    seen = set[Click]()
    result = []
    for widget in run.app.screen.query(Lines):
        for line in widget.lines if widget.display else ():
            for at in range(line.width):
                click = line.click_at(at)
                if click is not None and click not in seen:
                    seen.add(click)
                    result.append((widget, Clicked(click.action, click.argument)))
    return result


@pytest.mark.parametrize("key", [row.keys[0] for row in screens()])
async def test_a_click_on_any_text_of_a_screen_ends_nothing(key: str) -> None:
    async with running(*shared(), size=(120, 36)) as run:
        posted, depth = 0, len(run.app.screen_stack)
        await run.press(key)
        for widget, message in targets(run):
            if message.action.endswith("quit"):
                continue
            widget.post_message(message)
            await run.pilot.pause()
            posted += 1
            while len(run.app.screen_stack) > depth:
                await run.press("escape")
            await run.press(key)
        assert run.app.is_running and run.app.return_code is None
        assert posted > 5


async def test_labels_of_network_functions_sort_no_cpus() -> None:
    host = Frozen("shared", traffic=None)
    async with running(host.tick(0), host.tick(S), host.tick(S), size=(120, 36)) as run:
        rows = run.text.split("\n")
        y = next(at for at, row in enumerate(rows) if "DROP/s" in row and "IN Mpps" in row)
        await run.pilot.click(offset=(rows[y].index("DROP/s") + 1, y))
        await run.pilot.pause()
        assert "sort harm" in run.text
