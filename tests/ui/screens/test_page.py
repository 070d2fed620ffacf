"""Pages above the screens: what they follow, which keys close them and which lead to help."""

from __future__ import annotations

import errno
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.model.check import Check
from nftop.model.ids import Cpu
from nftop.model.missing import Reason
from nftop.model.perf_tool import PerfTask, PerfTool
from nftop.render.base.line import Line, line
from nftop.ui.options import Options
from nftop.ui.screens.main import MainScreen
from nftop.ui.screens.page import DoctorScreen, PageScreen, PerfScreen
from tests.frames import bare, frame, ticks
from tests.render.frame.test_findings import RESULT
from tests.ui.harness import Running, running

QUIET = tuple(ticks(lambda tick: frame(8, tick), 3))
LAST = QUIET[-1]
LOUD = replace(LAST, wall_ns=LAST.wall_ns + 10**9, findings=RESULT)
LATER = replace(LAST, wall_ns=LAST.wall_ns + 2 * 10**9)


def pages(run: Running) -> int:
    return sum(isinstance(item, PageScreen) for item in run.app.screen_stack)


async def test_the_findings_page_follows_the_frames_and_stands_still_while_paused() -> None:
    async with running(*QUIET, size=(80, 24)) as run:
        assert RESULT[0].rule not in await run.press("F")
        assert f"({RESULT[0].rule})" in await run.give(LOUD)
        assert RESULT[0].rule not in await run.give(LATER)
        await run.give(LOUD)
        await run.press("F", "space", "F")
        assert f"({RESULT[0].rule})" in run.text
        assert f"({RESULT[0].rule})" in await run.give(LATER), "of the frame that it is paused at"
        await run.press("F", "space")
        assert RESULT[0].rule not in await run.press("F")


@pytest.mark.parametrize("opens", ["x", "enter"])
async def test_pages_about_a_frame_follow_the_frames(opens: str) -> None:
    async with running(*QUIET, size=(80, 24)) as run:
        await run.press("3" if opens == "enter" else "1", opens)
        assert pages(run) == 1
        for page in [run.app.screen]:
            assert isinstance(page, PageScreen)
            before = "\n".join(map(str, page._text(80)))
            await run.give(LATER)
            assert "\n".join(map(str, page._text(80))) != before


@pytest.mark.parametrize("key", ["question_mark", "h", "f1"])
@pytest.mark.parametrize("opens", ["F", "x"])
async def test_the_key_of_help_opens_it_above_a_page(opens: str, key: str) -> None:
    async with running(*QUIET, LOUD, size=(80, 24)) as run:
        before = await run.press(opens)
        title = "Page of findings" if opens == "F" else "Pages: "
        assert (await run.press(key)).startswith(f" {title}")
        assert pages(run) == 2
        assert await run.press(key) == before and pages(run) == 1
        await run.press(key, "escape")
        assert pages(run) == 1
        await run.press(opens)
        assert isinstance(run.app.screen, MainScreen), "the key that opened it closes it"


async def test_a_screen_s_number_opens_it_from_help_above_a_page() -> None:
    async with running(*QUIET, size=(80, 24)) as run:
        wanted = await run.press("4")
        await run.press("1", "F", "question_mark")
        assert await run.press("4") == wanted


@pytest.mark.parametrize("key", ["w", "x"])
async def test_a_key_that_a_page_does_not_know_is_named(key: str) -> None:
    async with running(*QUIET, size=(80, 24)) as run:
        before = await run.press("F")
        text = await run.press(key)
        assert pages(run) == 1 and text.splitlines()[:-1] == before.splitlines()[:-1]
        assert text.splitlines()[-1].startswith(f" {key} does nothing here")


async def test_search_on_a_page() -> None:
    async with running(*QUIET, size=(80, 8)) as run:
        await run.press("x")
        assert "no search yet" in await run.press("n")
        text = await run.press("slash", *"Sources", "enter")
        assert text.startswith(" Sources")
        assert "not found: Sources" in await run.press("n")
        assert (await run.press("g", "n")).startswith(" Sources")
        assert "q" in await run.press("slash", "q", "escape"), "in the prompt q is a letter"
        assert pages(run) == 1


def footer_has(run: Running, text: str) -> bool:
    return text in run.footer


def paged(texts: Sequence[str], _width: int) -> list[Line]:
    return [line(text) for text in texts]


async def test_search_within_the_last_screenful_goes_on() -> None:
    """Its lines are all in view: the page can't scroll to the second of them."""
    lines = [f"line {at}" for at in range(40)]
    lines[36] = lines[38] = "wanted"
    async with running(*QUIET, size=(80, 24)) as run:
        page = PageScreen(lambda: partial(paged, lines), run.app._options, run.app.changes)
        run.app.push_screen(page)
        await run.until(lambda: run.app.screen is page)
        await run.press("slash", *"wanted", "enter")
        assert page._hit == 36
        await run.press("n")
        assert page._hit == 38
        assert "not found: wanted" in await run.press("n")
        await run.press("N")
        assert page._hit == 36


async def test_an_error_of_perf_is_a_message() -> None:
    def fails() -> Sequence[PerfTask]:
        raise OSError(errno.EMFILE, "Too many open files")

    async with running(*QUIET, size=(80, 24)) as run:
        run.app.push_screen(PerfScreen(fails, Cpu(1), run.app._options, run.app.changes))
        await run.until(lambda: "Too many open files" in run.footer)
        assert run.app.is_running


async def test_what_another_thread_reports_is_shown_on_a_paused_screen_and_on_a_page() -> None:
    async with running(*QUIET, size=(80, 24)) as run:
        await run.press("space")
        for opens in ("F", ""):
            await run.press(*opens)
            text = f"12 ticks in file {opens}"
            thread = threading.Thread(target=run.app._main._recording_keys._report, args=(text,))
            thread.start()
            thread.join(60)
            await run.until(partial(footer_has, run, text))
            await run.press("escape")


async def test_where_nothing_can_be_explained_it_reports_of_which_screen(
    snapshot: SnapshotAssertion,
) -> None:
    async with running(bare(), size=(80, 24)) as run:
        await run.press("2", "x")
        assert pages(run) == 0
        assert run.footer == snapshot


class Examiner:
    """Counts how often the host is examined; answers once `free` is set."""

    def __init__(self) -> None:
        self.times = 0
        self.free = threading.Event()
        self.thread: threading.Thread | None = None

    def __call__(self) -> tuple[Sequence[Check], str]:
        self.times += 1
        self.thread = threading.current_thread()
        assert self.free.wait(60)
        if self.times == 3:
            raise ValueError("no such host")
        return (Check(f"perf {self.times}", Reason.PRESENT, "counts", WIDE),), ""


WIDE = "echo 1 | sudo tee " + "/long" * 60


async def test_the_host_is_examined_in_a_thread_and_again_on_request() -> None:
    examiner = Examiner()
    async with running(frame(8), options=Options(examine=examiner)) as run:
        assert "examining the host" in await run.press("f9")
        await run.press("r", "r")
        assert examiner.times == 1, "one examination at a time"
        examiner.free.set()
        await run.until(lambda: "✔ perf 1" in run.text)
        assert WIDE not in run.text and f"{WIDE[:40]}" in run.text
        await run.press("C")
        assert f"  {WIDE}" in run.app.clipboard.split("\n"), "a part of it would do something else"
        assert examiner.thread is not threading.main_thread()
        await run.press("r")
        await run.until(lambda: "✔ perf 2" in run.text)
        await run.press("r")
        await run.until(lambda: "cannot examine the host: no such host" in run.text)
        assert "✔ perf 2" in run.text, "the last report stays"
        await run.press("f9")
        assert not isinstance(run.app.screen, DoctorScreen)


async def test_a_replay_has_no_doctor() -> None:
    async with running(frame(8)) as run:
        assert "no doctor here" in await run.press("f9")


async def test_commands_of_perf_are_those_of_the_selected_core_and_copied() -> None:
    tool = PerfTool(
        (6, 1), cycles=True, samples="cycles", memory_events=True, processor_trace=False
    )
    async with running(frame(8), options=Options(perf_tool=lambda: tool)) as run:
        await run.press("down", "Y")
        assert isinstance(run.app.screen, PerfScreen)
        await run.until(lambda: "c2c record" in run.text)
        await run.press("C")
        copied = run.app.clipboard.split("\n")
        assert len(copied) == 6 and all(text.startswith("sudo perf ") for text in copied)
        assert run.text.count("intel_pt") == 1, "its reason"
        cpu = int(copied[0].split(" -C ")[1].split()[0])
        assert f"perf on CPU {cpu}" in run.text
        await run.press("slash", *"script", "enter", "C")
        assert run.app.clipboard == copied[3]
        await run.press("Y")
        assert not isinstance(run.app.screen, PerfScreen)


async def test_a_replay_has_no_commands_of_perf(snapshot: SnapshotAssertion) -> None:
    async with running(frame(8)) as run:
        await run.press("Y")
        assert run.footer == snapshot
