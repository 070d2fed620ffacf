"""The Timeline screen, and going back in a live session on every screen."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from textual.widgets import Input

from nftop.cli.commands.report import write_report
from nftop.model.struct import replace
from nftop.model.timeline import Strip
from nftop.session.timeline import LivePast
from nftop.store.history.events import EventHistory
from nftop.store.history.flight import FlightRecorder
from nftop.store.recording.recorder import Recorder
from nftop.store.recording.sink import FileSink
from nftop.ui.options import Options
from nftop.ui.recording_keys import keep_default
from nftop.ui.widgets.lines import HeaderLines, Panels
from nftop.ui.widgets.prompt import Prompt
from tests.bench.scenes import Clocked
from tests.recordings import everything, header_of, ticks_of
from tests.store.history.test_flight import TICKS, S, flown, full
from tests.ui.gates import open_gate
from tests.ui.harness import Running, running
from tests.waiting import until

SIZES = [(40, 8), (40, 16), (80, 24), (120, 36), (200, 50), (400, 100)]


@asynccontextmanager
async def live(
    size: tuple[int, int] = (120, 36), **options: Any
) -> AsyncIterator[tuple[Running, LivePast]]:
    """A session with a past of all its ticks; the newest frame is on screen."""
    frames, events = flown()[1], EventHistory()
    for frame in frames[:-1]:
        events.append(frame)
    past = LivePast(full(), events)
    drawn = Options(past=past, events=events, **options)
    async with running(*frames[-1:], size=size, options=drawn) as run:
        yield run, past


async def moment(run: Running, past: LivePast, tick: int) -> str:
    """The screen once it shows this tick."""
    wall_ns = flown()[1][tick].wall_ns

    def present() -> bool:
        shown = run.app._main._session.past
        return shown is not None and shown.wall_ns == wall_ns

    await run.until(present)
    return run.text


async def now(run: Running) -> str:
    await run.until(lambda: run.app._main._session.past is None)
    return run.text


@pytest.mark.parametrize("screen", ["1", "2", "3", "4", "5", "6", "7"])
async def test_arrows_go_back_on_every_screen_and_end_returns(screen: str) -> None:
    async with live() as (run, past):
        await run.press(screen, "left")
        assert "◀ 1s AGO" in await moment(run, past, TICKS - 2)
        assert "PAST 1s ago" in run.text
        assert "next ticks" not in run.text, "no tick follows that could count it"
        await run.press("left", "left", "shift+left")
        await moment(run, past, TICKS - 4 - 60)
        await run.press("end")
        assert "AGO" not in await now(run) and "LIVE" in run.text


@pytest.mark.parametrize("leave", ["escape", "end"])
async def test_page_follows_the_moment_and_is_left_before_the_past(leave: str) -> None:
    async with live() as (run, past):
        await run.press("left")
        await moment(run, past, TICKS - 2)
        await run.press("F", "left")
        await run.until(lambda: past.position is not None and past.position.number == TICKS - 3)
        await run.press("escape")
        assert "◀ 2s AGO" in await moment(run, past, TICKS - 3)
        await run.press(leave)
        await now(run)


async def test_escape_on_the_page_of_an_incident_undoes_its_way_back() -> None:
    async with live() as (run, past):
        await run.press("tab", "left_square_bracket")
        await moment(run, past, TICKS - 2)
        await run.press("shift+left")
        await moment(run, past, TICKS - 2 - 60)
        await run.press("escape")
        await now(run)
        assert len(run.app.screen_stack) == 3, "the page stays"
        await run.press("escape")
        assert len(run.app.screen_stack) == 2


async def test_live_frames_go_on_and_the_age_grows() -> None:
    async with live() as (run, past):
        await run.press("left")
        await moment(run, past, TICKS - 2)
        newest = flown()[1][-1]
        later = replace(newest, wall_ns=newest.wall_ns + 70 * S)
        await run.give(later)
        assert "◀ 1m11s AGO" in run.text
        assert run.app._main._session.newest is later
        await run.press("end")
        await now(run)


async def test_nothing_is_edited_in_the_past(snapshot: SnapshotAssertion) -> None:
    async with live(gate=open_gate(), rw=True) as (run, past):
        await run.press("left")
        await moment(run, past, TICKS - 2)
        for key in ("e", "u"):
            await run.press(key)
            assert run.footer == snapshot
            assert len(run.app.screen_stack) == 2
        await run.press("b")
        assert run.footer == snapshot
        # The draft of an incident's remedy, too.
        await run.press("tab", "enter")
        assert len(run.app.screen_stack) == 3
        await run.press("e")
        assert run.footer == snapshot
        assert len(run.app.screen_stack) == 3
        await run.press("escape", "end")
        await now(run)


async def test_time_is_typed_and_brackets_step() -> None:
    async with live() as (run, past):
        await run.press("S", *"-20s", "enter")
        await moment(run, past, TICKS - 21)
        await run.press("left_square_bracket")
        await moment(run, past, TICKS - 22)
        await run.press("right_square_bracket", "right_square_bracket")
        await moment(run, past, TICKS - 20)


@pytest.mark.parametrize("opens", ["tab", "F", "x", "f9"])
async def test_time_is_typed_on_a_page_and_the_page_stays(opens: str) -> None:
    async with live(examine=lambda: ((), "")) as (run, past):
        await run.press(opens, "S")
        assert run.app.screen.query_one(Prompt).display
        # Keys of the page, its own prompt's and `S` too, are letters of the text.
        await run.press(*"Sq/", *("backspace",) * 3, *"-20s", "enter")
        await moment(run, past, TICKS - 21)
        assert len(run.app.screen_stack) == 3
        assert not run.app.screen.query_one(Prompt).display
        await run.press("S", "escape", "S", *"soon", "enter")
        assert "no time: HH:MM:SS" in run.text
        await run.press("S", *"end", "enter")
        await moment(run, past, TICKS - 1)


async def test_marker_is_an_event_that_is_gone_to(snapshot: SnapshotAssertion) -> None:
    async with live() as (run, past):
        wall_ns = flown()[1][40].wall_ns
        run.app._main._options.events.mark("here it was", wall_ns)
        assert "here it was" in await run.press("5")
        events = run.app._main._options.events.events(0, 1 << 62)
        index = [event.begin_ns for event in reversed(events)].index(wall_ns)
        await run.press(*["j"] * index, "enter")
        text = await moment(run, past, 40)
        assert "THEN" in text and "AND NOW" in text and "vpp" in text
        await run.press("left_curly_bracket", "right_curly_bracket")
        await moment(run, past, 40)


@pytest.mark.parametrize("ascii_only", [False, True])
@pytest.mark.parametrize("size", SIZES)
async def test_screen_fits_and_names_the_culprit(
    size: tuple[int, int], *, ascii_only: bool
) -> None:
    async with live(size, ascii_only=ascii_only) as (run, past):
        await run.press("5")
        rows = run.text.split("\n")
        assert len(rows) == size[1]
        assert all(len(row) <= size[0] for row in rows)
        assert "tenant" in run.text
        await run.press("left")
        rows = (await moment(run, past, TICKS - 2)).split("\n")
        assert len(rows) == size[1] and all(len(row) <= size[0] for row in rows)
        assert not ascii_only or run.text.isascii()


async def test_past_is_kept_as_a_recording(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    clocked = Clocked(2)
    flight = FlightRecorder()
    recorder = Recorder(header_of(clocked), flight=flight)
    for _ in range(5):
        recorder.take(clocked.sample())
    until(lambda: flight.size.ticks == 5)
    file = tmp_path / "kept.nftop"
    past = LivePast(flight, EventHistory())
    options = Options(past=past, recorder=recorder, new_sink=lambda: FileSink(file))
    async with running(*flown()[1][-1:], size=(120, 36), options=options) as run:
        await run.press("5")
        await run.press("R")
        assert run.footer == snapshot
        await run.press("ctrl+u", *"nonsense", "enter")
        assert run.footer == snapshot
        await run.press("ctrl+u", "1", "enter")
        until(lambda: file.exists() and recorder.recording is None)
        until(lambda: everything(file)[1])
    recorder.close()
    result, ended, rest = everything(file)
    assert ended and rest is None and len(ticks_of(result)) == 5


async def test_h_writes_the_report_of_the_past(tmp_path: Path) -> None:
    clocked = Clocked(2)
    flight = FlightRecorder()
    recorder = Recorder(header_of(clocked), flight=flight)
    for _ in range(5):
        recorder.take(clocked.sample())
    until(lambda: flight.size.ticks == 5)
    past = LivePast(flight, EventHistory())
    page = tmp_path / "kept.html"
    options = Options(
        past=past,
        recorder=recorder,
        new_sink=lambda: FileSink(tmp_path / "kept.nftop"),
        report=lambda recording, done: done(write_report(recording, "all is well")),
    )
    async with running(*flown()[1][-1:], size=(120, 36), options=options) as run:
        await run.press("5")
        assert "past to report" in await run.press("H")
        await run.press("ctrl+u", "1", "enter")
        until(page.exists)
        await run.until(lambda: f"report: {page}" in str(run.app._main._session.message))
        recorder.close()
    text = page.read_text()
    assert text.startswith("<!doctype html>") and "all is well" in text
    assert write_report(str(tmp_path / "kept.nftop"), "").endswith("File exists")


@pytest.mark.parametrize(
    ("kept_s", "text"),
    [(4.0, "4s"), (94.2, "95s"), (60.0, "1m"), (180.0, "3m"), (599.5, "10m"), (9000.0, "10m")],
)
def test_whole_minutes_or_seconds_are_offered(kept_s: float, text: str) -> None:
    assert keep_default(kept_s) == text


async def test_every_strip_is_built_once_a_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with live() as (run, _):
        await run.press("5")
        built: list[int] = []
        strip = EventHistory.strip

        def counted(history: EventHistory, last_ns: int, **options: Any) -> Strip:
            built.append(last_ns)
            return strip(history, last_ns, **options)

        monkeypatch.setattr(EventHistory, "strip", counted)
        run.app._main.paint()
        assert len(built) == 2, "one of the window, one of all that is kept"


@pytest.mark.parametrize("screen", ["1", "4", "5"])
async def test_click_on_the_strip_goes_to_that_moment(screen: str) -> None:
    shows = Panels if screen == "5" else HeaderLines  # screen 5 has the axis in its body
    async with live() as (run, past):
        await run.press(screen)
        lines = run.app.screen.query_one(shows).lines
        spots = {
            (x, y): int(click.argument)
            for y, line in enumerate(lines)
            for x in range(120)
            if (click := line.click_at(x)) is not None and click.action == "moment"
        }
        spot = next(at for at, wall_ns in spots.items() if wall_ns > flown()[1][9].wall_ns)
        await run.pilot.click(shows, offset=spot)
        await run.until(lambda: past.position is not None)
        here = past.position
        assert here is not None and abs(here.at_ns - spots[spot]) <= S
        past.to_now()
        await run.pilot.click(shows, offset=next(iter(spots)))
        assert not past.active and "nothing was recorded" in past.problem


async def test_prompt_leaves_room_for_the_text_on_a_narrow_screen() -> None:
    async with live((60, 12)) as (run, _):
        for key in ("S", "slash", "d"):
            await run.press(key, *"3ab:12")
            shown = run.text.splitlines()[-1]
            assert "3ab:12" in shown, key
            assert run.app.screen.query_one(Input).size.width >= 12
            await run.press("escape")
