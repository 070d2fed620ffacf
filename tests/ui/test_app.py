"""The command palette: actions of the screen by name, screens and themes; sizes of the terminal."""

from __future__ import annotations

import errno
import sys
import time

import pytest
from textual.command import CommandPalette

from nftop.export.output import FAILURE
from nftop.store.history.rings import TickHistory
from nftop.ui.app import NftopApp
from nftop.ui.key_table import titles
from nftop.ui.options import Options
from nftop.ui.screens.main import MainScreen
from tests.frames import frame
from tests.ui.feeds import StepFeed
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


@pytest.mark.parametrize("text", ["foo", "zzz", "frget", "soort", "bx", "[", "!!"])
async def test_an_unknown_word_runs_nothing(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    acts: list[str] = []
    monkeypatch.setattr(MainScreen, "action_act", lambda _, action, _by: acts.append(action))
    async with running(frame(8), size=(80, 24)) as run:
        for wait in (False, True):  # Enter before the list is there, and after
            await run.press("colon", *(event_key(char) for char in text))
            if wait:
                await run.until(lambda: "no command" in run.text)
            await run.press("enter", "escape")
            await run.until(lambda: not isinstance(run.app.screen, CommandPalette))
        assert set(acts) <= {"clear"}  # of Escape, where Enter closed the palette


@pytest.mark.parametrize(("text", "screen"), [("mute", "incident"), ("mute its rule", "findings")])
async def test_a_key_of_another_screen_is_named_with_it(text: str, screen: str) -> None:
    async with running(frame(8), size=(120, 30)) as run:
        await run.press("colon", *(event_key(char) for char in text))
        await run.until(lambda: f"{titles()[screen]}: m " in run.text)
        await run.press("escape")
        await run.press("colon", *"sweep")
        await run.until(lambda: "(T)" in run.text)


async def test_a_word_that_resembles_a_command_is_offered() -> None:
    async with running(frame(8), size=(80, 24)) as run:
        await run.press("colon", *"timelin", "z")
        await run.until(lambda: "did you mean" in run.text)
        assert "the Timeline screen" in run.text
        await run.press("down", "enter")
        await run.until(lambda: "[5 Timeline]" in run.text)


async def test_a_command_typed_at_once_runs() -> None:
    async with running(frame(8), size=(80, 24)) as run:
        await run.press("colon", *"cache screen", "enter")
        await run.until(lambda: "[3 Cache]" in run.text)


def event_key(char: str) -> str:
    return {"[": "left_square_bracket", "!": "exclamation_mark"}.get(char, char)


async def test_a_size_is_taken_though_its_timer_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[object] = []

    def get_time() -> float:
        caller = sys._getframe(1)
        if caller.f_code.co_name != "_run":  # of a timer
            return time.monotonic()
        timer = caller.f_locals["self"]
        late_s = 1.0 if timer in started else 0.0  # the process did not run after its start
        started.append(timer)
        return time.monotonic() + late_s

    async with running(frame(8), size=(80, 24)) as run:
        monkeypatch.setattr("textual.timer._time.get_time", get_time)
        await run.resize((120, 36))
        assert len(started) > 1
        await run.resize((40, 8))


async def test_what_the_first_frame_does_not_need_is_loaded_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Modules come last: what is before them releases descriptors for them."""
    steps = list[str]()
    monkeypatch.setattr("nftop.ui.app.import_opened", lambda: steps.append("modules"))
    later = (lambda: steps.append("released"), lambda: steps.append("papers"))
    app = NftopApp(StepFeed(frame(8)), TickHistory(), later=later)
    async with app.run_test() as pilot:
        await Running(app, pilot, StepFeed()).until(lambda: "modules" in steps)
    assert steps == ["released", "papers", "modules"]
    assert app.exit_message == "" and not app.return_code


async def test_a_limit_that_prevents_loading_ends_it_with_a_sentence() -> None:
    def load() -> None:
        raise OSError(errno.EMFILE, "Too many open files", "rows.toml")

    app = NftopApp(StepFeed(frame(8)), TickHistory(), later=(load,))
    async with app.run_test() as pilot:
        await Running(app, pilot, StepFeed()).until(lambda: app.return_code is not None)
    assert app.return_code == FAILURE
    assert app.exit_message == "rows.toml: Too many open files"
