"""The command palette: actions of the screen by name, screens and themes."""

from __future__ import annotations

import pytest
from textual.command import CommandPalette

from nftop.ui.options import Options
from tests.frames import frame
from tests.ui.harness import Running, running


async def typed(run: Running, text: str) -> None:
    """Type into the palette and wait until it lists what matches."""
    await run.press(*text)
    await run.until(lambda: text in run.text and "  (" in run.text)


@pytest.mark.parametrize("key", ["colon", "ctrl+p"])
@pytest.mark.parametrize(
    "options", [Options(), Options(color=False, ascii_only=True)], ids=["plain", "ascii"]
)
async def test_it_opens_a_screen_by_name(key: str, options: Options) -> None:
    async with running(frame(8), size=(80, 24), options=options) as run:
        await run.press(key)
        await typed(run, "cache screen")
        assert run.text.isascii() == options.ascii_only
        at = next(y for y, row in enumerate(run.text.split("\n")) if "the Cache screen" in row)
        styles = [style for _, style in run.rows[at]]
        grounds = {
            style.bgcolor for style in styles if style.bgcolor and not style.bgcolor.is_default
        }
        assert any(style.reverse for style in styles) if not options.color else grounds
        await run.press("enter")
        await run.until(lambda: "[3 Cache]" in run.text)


async def test_it_has_the_actions_of_the_screen_it_is_opened_on() -> None:
    async with running(frame(8), size=(80, 24)) as run:
        await run.press("colon")
        await typed(run, "explain")
        await run.press("enter")
        await run.until(lambda: "CPP (cpp)" in run.text)
        await run.press("ctrl+p")
        assert isinstance(run.app.screen, CommandPalette)
        await typed(run, "close; so")
        await run.press("enter")
        await run.until(lambda: "CPP (cpp)" not in run.text)


async def test_a_colon_in_a_prompt_is_a_character() -> None:
    async with running(frame(8)) as run:
        assert "CPU: :" in await run.press("slash", "colon")


async def test_themes_are_commands() -> None:
    async with running(frame(8), size=(80, 24)) as run:
        await run.press("colon", *"colours: li")
        await run.until(lambda: "colours: light" in run.text)
        await run.press("enter")
        await run.until(lambda: run.app.theme == "light")
