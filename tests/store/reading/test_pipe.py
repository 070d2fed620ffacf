"""A recording through a pipe: nothing unread is lost, and memory has a bound."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.export.json.frame import frame_json
from nftop.model.recording_loss import RecordingLoss
from nftop.session.markers import all_markers
from nftop.session.reader import NoMomentError, NoRecordingError
from nftop.session.replay import Replay
from nftop.store.format.records import Marker, Tick
from nftop.store.reading.bytes import PipeBytes
from nftop.store.reading.scan import Scan, ScanItem
from nftop.store.reading.seek import last_position, next_position
from tests.recordings import Taken, taken
from tests.samples import S
from tests.session.replays import number
from tests.waiting import LONGEST_S, until

TICKS = 60
# Less than a third of the recording; a tick is in half of it.
MOST = 9_000


@lru_cache(maxsize=1)
def session() -> Taken:
    sources = ("dpdk", "kernel", "perf", "processes", "topology")
    return taken(TICKS, cpus=2, marks=(33,), frame=10, sources=sources)


class Writer:
    """The other end of a pipe, in a thread of its own: it waits where nobody reads.

    Attributes:
        written: how many bytes the pipe took.
    """

    def __init__(self, data: bytes, handle: int) -> None:
        self.written = 0
        self._data = data
        self._handle = handle
        self.go_on = threading.Event()
        self.go_on.set()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        with os.fdopen(self._handle, "wb", buffering=0) as out:
            try:
                while self.written < len(self._data):
                    self.go_on.wait()
                    self.written += out.write(self._data[self.written : self.written + 1000]) or 0
            except OSError:  # nobody reads any more
                pass


@contextmanager
def piped(data: bytes, most: int = MOST) -> Iterator[tuple[PipeBytes, Writer, threading.Event]]:
    behind, front = os.pipe()
    news = threading.Event()
    pipe = PipeBytes(behind, most, more=news.set)
    try:
        yield pipe, Writer(data, front), news
    finally:
        pipe.close()


def held(pipe: PipeBytes) -> int:
    return pipe.size - pipe.first


def read_all(pipe: PipeBytes) -> Iterator[ScanItem]:
    """As the tape reads: what is read is passed."""
    scan = Scan(pipe)
    while True:
        grows = pipe.grows
        result = scan.next()
        pipe.passed(scan.passed)
        if result is not None:
            yield result
        elif not grows:
            return


def test_a_slow_reader_of_a_pipe_gets_everything() -> None:
    whole = session().data
    assert len(whole) > 3 * MOST
    with piped(whole) as (pipe, writer, _):
        until(lambda: pipe.full)
        # It stays so, whoever looks at the end: that was not read.
        assert last_position(pipe) is not None
        assert held(pipe) <= 1.5 * MOST
        most, numbers = 0, []
        for result in read_all(pipe):
            most = max(most, held(pipe))
            assert not isinstance(result, RecordingLoss)
            numbers += [result.number] if isinstance(result, Tick) else []
        assert numbers == list(range(TICKS))
        assert most <= 1.5 * MOST
        assert writer.written == pipe.size == len(whole)


def test_what_was_passed_is_kept_as_far_as_room_allows() -> None:
    whole = session().data
    for most in (1 << 28, MOST):
        with piped(whole, most) as (pipe, _, news):
            assert len(list(read_all(pipe))) > TICKS and news.is_set()
            assert (pipe.first == 0) == (most > len(whole))
            assert held(pipe) >= min(most * 3 // 4, len(whole))
            assert pipe.read(pipe.first, len(whole)) == whole[pipe.first :]
            assert pipe.read(pipe.first + 10, 5) == whole[pipe.first + 10 : pipe.first + 15]
            assert pipe.read(0, 5) == (whole[:5] if pipe.first == 0 else b"")
            assert pipe.read(len(whole), 5) == b""


def test_going_back_in_what_is_kept_lets_nothing_go() -> None:
    whole = session().data
    with piped(whole, len(whole) * 2 // 3) as (pipe, _, _news):
        reading = read_all(pipe)
        while pipe.first == 0:
            next(reading)
        location = next_position(pipe, pipe.first)
        assert location is not None
        pipe.passed(location.at)
        until(lambda: pipe.full or not pipe.grows)
        assert pipe.first <= location.at
        again = Scan(pipe, location.at)
        assert isinstance(again.next(), object) and not isinstance(again.next(), RecordingLoss)


def test_the_writer_ends_on_request_while_it_waits_for_space() -> None:
    with piped(session().data) as (pipe, writer, _):
        until(lambda: pipe.full)
        pipe.stop()
        until(lambda: not pipe.grows)
        with pytest.raises(InterruptedError):
            pipe.read(0, 1)
        writer.thread.join(LONGEST_S)  # its end was closed
        assert not writer.thread.is_alive()


def replayed(pipe: PipeBytes, news: threading.Event, **options: object) -> Replay:
    return Replay(pipe, news=news, paced=False, stays=False, **options)  # type: ignore[arg-type]


def test_a_batch_has_every_tick_of_a_pipe() -> None:
    with piped(session().data) as (pipe, _, news):
        losses: list[RecordingLoss] = []
        frames = []
        for frame in replayed(pipe, news, on_loss=losses.append).frames():
            assert held(pipe) <= 1.5 * MOST
            frames.append(frame_json(frame))
    assert frames == [frame_json(item) for item in session().frames]
    assert not losses


@pytest.mark.parametrize(
    ("at", "first"), [("+0s", 0), ("start", 0), ("+3s", 3), ("+35s", 35), ("+59s", 59)]
)
def test_a_pipe_is_read_up_to_the_moment_that_was_requested(at: str, first: int) -> None:
    samples = session().samples
    with piped(session().data) as (pipe, writer, news):
        writer.go_on.clear()
        feed = replayed(pipe, news, at=at)
        reports: list[int] = []
        thread = threading.Thread(
            target=lambda: reports.extend(frame.wall_ns for frame in feed.frames())
        )
        thread.start()
        # Nothing is shown before it has come.
        writer.go_on.set()
        thread.join(LONGEST_S)
    assert reports == [sample.wall_ns for sample in samples[max(first - 1, 0) :]]


def test_a_moment_rests_on_as_much_of_a_pipe_as_of_a_file() -> None:
    frames = session().frames
    with piped(session().data) as (pipe, _, news):
        again = list(replayed(pipe, news, at="+35s").frames())
    for live, replay in zip(frames[35:], again[1:], strict=True):
        assert live.wall_ns == replay.wall_ns
        assert [nf.readings for nf in live.nfs] == [nf.readings for nf in replay.nfs]


@pytest.mark.parametrize("at", ["end", "-5s", " END"])
def test_a_time_from_a_pipe_s_end_is_refused(at: str) -> None:
    with (
        piped(session().data) as (pipe, _, news),
        pytest.raises(NoMomentError, match="how a pipe ends is not known"),
    ):
        next(replayed(pipe, news, at=at).frames())


@pytest.mark.parametrize("at", ["+100s", "2000-01-01T00:00:00Z"])
def test_a_moment_that_never_came_is_reported(at: str) -> None:
    with (
        piped(session().data) as (pipe, _, news),
        pytest.raises(NoMomentError, match="nothing was recorded at"),
    ):
        next(replayed(pipe, news, at=at).frames())


def test_what_never_begins_to_be_a_recording_is_refused_within_the_bound() -> None:
    with (
        piped(b"x" * 50 * MOST) as (pipe, writer, news),
        pytest.raises(NoRecordingError, match="no recording of nftop's"),
    ):
        next(replayed(pipe, news).frames())
    assert writer.written < 50 * MOST


def test_damage_longer_than_the_memory_is_passed_over() -> None:
    whole = session().data
    with piped(whole[: len(whole) // 2] + b"x" * 20 * MOST + whole) as (pipe, _, news):
        losses: list[RecordingLoss] = []
        frames = list(replayed(pipe, news, on_loss=losses.append).frames())
    walls = [frame.wall_ns for frame in frames]
    assert walls[-TICKS:] == [sample.wall_ns for sample in session().samples]
    assert sum(loss.size_bytes for loss in losses) >= 20 * MOST
    with piped(whole[: len(whole) // 2] + b"x" * 20 * MOST + whole) as (pipe, _, news):
        walls = [frame.wall_ns for frame in replayed(pipe, news, at="+50s").frames()]
    assert walls[-10:] == [sample.wall_ns for sample in session().samples[-10:]]


def test_behind_one_recording_s_end_another_may_come() -> None:
    whole = session().data
    with piped(whole + whole) as (pipe, writer, news):
        writer.go_on.clear()
        feed = replayed(pipe, news)
        reports: list[float | None] = []
        thread = threading.Thread(
            target=lambda: reports.extend(frame.interval_s for frame in feed.frames())
        )
        thread.start()
        writer.go_on.set()
        thread.join(LONGEST_S)
    assert len(reports) == 2 * TICKS
    assert [at for at, item in enumerate(reports) if item is None] == [0, TICKS]
    assert all(item > 0 for item in reports if item is not None)


def test_what_was_let_go_can_not_be_gone_back_to_and_it_is_reported(
    snapshot: SnapshotAssertion,
) -> None:
    with piped(session().data) as (pipe, _, news):
        feed = Replay(pipe, news=news, paced=False)
        frames = feed.frames()

        # Until the beginning is not held any more, and the tick before this one is.
        def back_ns() -> int:
            return session().samples[number(feed) - 1].wall_ns

        def begun() -> bool:  # the pipe may be ahead of the first frame
            return feed.position is not None and number(feed) > 0

        while not (
            begun()
            and pipe.first
            and (kept := next_position(pipe, pipe.first))
            and kept.point.wall_ns < back_ns()
        ):
            until(lambda: pipe.full or not pipe.grows)
            next(frames)
        here = number(feed)
        feed.seek(session().samples[0].wall_ns)
        next(frames)
        position = feed.position
        assert position is not None and number(feed) == here
        assert position.remark == snapshot
        feed.seek(position.at_ns - S)
        next(frames)
        assert number(feed) == here - 1
        feed.stop()


def test_markers_of_a_pipe_that_is_longer_than_what_is_held() -> None:
    whole = session().data
    with piped(whole) as (pipe, _, news):
        result = list(all_markers(pipe, news))
        assert [item.kind for item in result if isinstance(item, Marker)].count("marker") == 1
        assert pipe.size == len(whole) and held(pipe) <= 1.5 * MOST
