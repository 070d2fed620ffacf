"""The keys of recordings on the screen: make one of what is shown, and move about in one."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import lru_cache, partial
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.render.base.line import Tone
from nftop.session.replay import Replay
from nftop.store.format.records import Marker
from nftop.store.history.flight import FlightRecorder
from nftop.store.history.rings import TickHistory
from nftop.store.recording.recorder import Recorder
from nftop.store.recording.sink import FileSink, create
from nftop.ui.app import NftopApp
from nftop.ui.options import Options
from tests.bench.scenes import Clocked
from tests.command import lines_with
from tests.recordings import Taken, everything, header_of, taken, ticks_of
from tests.store.reading.test_scan import Bytes
from tests.ui.feeds import StepFeed
from tests.ui.harness import PATIENCE_S, Running, running

TICKS = 60


@lru_cache(maxsize=1)
def session() -> Taken:
    return taken(TICKS, cpus=4, marks=(20, 40), frame=15)


class Still:
    """A clock for replays that only go where they are told: waits end with news."""

    def monotonic_ns(self) -> int:
        return 0

    def wait(self, news: threading.Event, seconds: float) -> None:
        news.wait(0.02)


@asynccontextmanager
async def replaying(
    size: tuple[int, int] = (80, 24), options: Options | None = None
) -> AsyncIterator[tuple[Running, Replay]]:
    history = TickHistory()
    feed = Replay(Bytes(session().data), clock=Still(), on_frame=history.append)
    app = NftopApp(feed, history, options=options)
    async with app.run_test(size=size) as pilot:
        run = Running(app, pilot, StepFeed())
        await shows(run, "REPLAY")
        yield run, feed


async def test_replay_moves_by_a_second_and_a_minute_with_the_arrows() -> None:
    async with replaying() as (run, feed):
        await run.press("space")
        await shows(run, "PAUSED")
        await run.press("S", *"end", "enter")
        await shows_tick(run, feed, TICKS - 1)
        await run.press("left", "left", "left")
        await shows_tick(run, feed, TICKS - 4)
        await run.press("right")
        await shows_tick(run, feed, TICKS - 3)
        await run.press("shift+left")
        await shows_tick(run, feed, 0)


@pytest.mark.parametrize("opens", ["tab", "F", "x"])
async def test_time_is_typed_on_a_page_of_a_replay(opens: str) -> None:
    async with replaying() as (run, feed):
        await run.press("space", opens, "S", *"end", "enter")
        await shows_tick(run, feed, TICKS - 1)
        await run.press("S", *"-30s", "enter")
        await shows_tick(run, feed, TICKS - 31)
        assert len(run.app.screen_stack) == 3


async def shows_tick(run: Running, feed: Replay, tick: int) -> None:
    def present() -> bool:
        return feed.position is not None and feed.position.number == tick

    await run.until(present)


async def shows(run: Running, text: str) -> None:
    """Wait until it does."""
    deadline = time.monotonic() + PATIENCE_S
    while text not in run.text:
        assert time.monotonic() < deadline, run.text
        await run.pilot.pause(0.01)


async def test_a_replay_is_loud_and_reports_where_it_is() -> None:
    async with replaying() as (run, _):
        first = run.text.splitlines()[0]
        assert first.startswith(" REPLAY  ") and "00:00 of 00:59 (0 %)" in first
        assert "SIMULATED" in run.text and "READ-ONLY" in run.text and "LIVE" not in run.text
        row = run.rows[0]
        assert all(run.has_ground(style, Tone.PAST) for text, style in row if text.strip())
        assert sum(len(text) for text, _ in row) == 80


async def test_space_and_steps() -> None:
    async with replaying() as (run, feed):
        await run.press("space")
        await shows(run, "PAUSED 1x")
        await run.press("right_square_bracket")
        await shows(run, "00:01 of 00:59")
        await run.press("right_square_bracket")
        await shows(run, "00:02 of 00:59")
        await run.press("left_square_bracket")
        await shows(run, "00:01 of 00:59")
        await run.press("plus", "plus")
        await shows(run, "PAUSED 4x")
        await run.press("minus")
        await shows(run, "PAUSED 2x")
        assert feed.position is not None and feed.position.number == 1


async def test_markers_and_times(snapshot: SnapshotAssertion) -> None:
    async with replaying() as (run, _):
        await run.press("right_curly_bracket")
        await shows(run, "> mark 20")
        await run.press("right_curly_bracket")
        await shows(run, "> mark 40")
        assert lines_with(run.text, "after a jump") == snapshot
        await run.press("left_curly_bracket")
        await shows(run, "> mark 20")
        await run.press("S")
        await shows(run, "go to (")
        await run.press(*"end", "enter")
        await shows(run, "00:59 of 00:59")
        await run.press("S", "minus", *"30s", "enter")
        await shows(run, "00:29 of 00:59 (49 %)")
        await run.press("S", *"soon", "enter")
        await shows(run, "no time: HH:MM:SS")
        await run.press("S", "escape")
        assert "00:29 of 00:59" in run.text


async def test_seconds_between_ticks_are_the_speed_of_a_replay(snapshot: SnapshotAssertion) -> None:
    async with replaying((120, 30)) as (run, _):
        await run.press("space")
        await shows(run, "PAUSED 1x")
        assert "the replay's speed" in await run.press("d")
        await run.press(*"0.3", "enter")
        await shows(run, "PAUSED 3.33x")
        assert run.footer == snapshot


async def test_a_replay_is_neither_recorded_nor_marked() -> None:
    async with replaying() as (run, _):
        await run.press("R")
        await shows(run, "cannot be recorded")
        await run.press("m")
        await shows(run, "cannot be recorded")


async def test_every_screen_has_the_banner_in_few_characters() -> None:
    async with replaying((200, 50), Options(color=False, ascii_only=True)) as (run, _):
        for key in ("4", "6", "1"):
            text = await run.press(key)
            assert text.splitlines()[0].startswith(" REPLAY  ") and text.isascii()


async def test_without_a_past_keys_of_time_report_it(snapshot: SnapshotAssertion) -> None:
    async with running(session().frames[1]) as run:
        for key in ("left_square_bracket", "right_curly_bracket", "plus", "S", "left"):
            await run.press(key)
            assert run.footer == snapshot
            await run.press("escape")
        assert "[" not in run.text.splitlines()[-1]


async def test_a_file_that_cannot_be_created_is_reported_with_the_next_tick(tmp_path: Path) -> None:
    clocked = Clocked(2)
    recorder = Recorder(header_of(clocked), flight=FlightRecorder())
    for _ in range(5):
        recorder.take(clocked.sample())
    plain = tmp_path / "plain"
    plain.touch()
    sink = partial(FileSink, plain / "recordings" / "a.nftop")
    async with running(
        session().frames[1], options=Options(recorder=recorder, new_sink=sink), size=(160, 30)
    ) as run:
        await run.press("R")
        await run.until(lambda: recorder.broken is not None)
        await run.give(session().frames[2])
        assert os.strerror(errno.ENOTDIR) in run.text.splitlines()[-1]
        assert f"recording into {tmp_path}" not in run.text
    recorder.close()


async def test_recording_what_is_shown_and_what_was(tmp_path: Path) -> None:
    clocked = Clocked(2)
    recorder = Recorder(header_of(clocked), flight=FlightRecorder())
    for _ in range(5):
        recorder.take(clocked.sample())
    created = [tmp_path / "a.nftop", tmp_path / "b.nftop", tmp_path / "c.nftop"]
    names = iter(created)
    options = Options(recorder=recorder, new_sink=lambda: FileSink(next(names)))
    frames = session().frames
    async with running(frames[1], options=options, size=(120, 30)) as run:
        assert "REC" not in run.text.splitlines()[0]
        await run.press("m", *"odd", "enter")
        assert "marked; R records" in run.text
        text = await run.press("R")
        assert f"recording into {tmp_path}" in text
        await run.until(lambda: created[0].exists() or recorder.broken is not None)
        assert recorder.broken is None
        recorder.take(clocked.sample())
        await run.give(frames[2])
        await shows(run, "REC 00:0")
        text = await run.press("R")
        assert "ticks, 0.0 MB in" in text
        await run.until(lambda: recorder.recording is None)
        await run.give(frames[3])
        assert "REC 0" not in run.text
        # Where it can't be, the screen says so until it can.
        os.close(create(created[1], None))
        await run.press("R")
        recorder.take(clocked.sample())
        await run.until(lambda: recorder.broken is not None)
        await run.give(frames[4])
        await shows(run, "REC FAILED: it exists")
        text = await run.press("m", *"lost", "enter")
        assert "marked on screen, not in the recording: it exists" in text
        await run.press("R")
        await run.until(created[2].exists)
        await run.give(frames[5])
        assert "FAILED" not in run.text
    recorder.close()
    result, ended, _ = everything(created[0])
    assert ended and len(ticks_of(result)) == 6
    assert [item.text for item in result if isinstance(item, Marker)] == ["odd"]
    assert everything(created[2])[1]
