"""The feed of a fleet: nothing waits for a reading, and what is known stays."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue

from nftop.model.fleet import FleetFrame, FleetSample
from nftop.model.missing import Missing, Reason
from nftop.session.fleet import FleetFeed
from tests.fleet import sample_of, three_hosts
from tests.waiting import LONGEST_S

HANGS_S = 600.0


@contextmanager
def consumed(feed: FleetFeed) -> Iterator[Callable[[], FleetFrame]]:
    """A consumer in a thread; the next frame."""
    frames: SimpleQueue[FleetFrame] = SimpleQueue()

    def run() -> None:
        for frame in feed.frames():
            frames.put(frame)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield lambda: frames.get(timeout=LONGEST_S)
    finally:
        feed.stop()
        thread.join(LONGEST_S)
        assert not thread.is_alive()


def test_frames_end_while_a_reading_hangs() -> None:
    began, goes_on = threading.Event(), threading.Event()

    def read() -> FleetSample | Missing:
        began.set()
        goes_on.wait(HANGS_S)
        return sample_of({})

    feed = FleetFeed(read, 10.0)
    with consumed(feed):
        assert began.wait(LONGEST_S)
    goes_on.set()


def test_a_failure_keeps_the_last_frame_with_its_reason() -> None:
    answers: SimpleQueue[FleetSample | Missing | Exception] = SimpleQueue()

    def read() -> FleetSample | Missing:
        answer = answers.get()
        if isinstance(answer, Exception):
            raise answer
        return answer

    feed = FleetFeed(read, 0.01)
    with consumed(feed) as following:
        answers.put(Missing(Reason.SOURCE, "nothing listens"))
        first = following()
        assert (first.hosts, first.problem) == ((), "nothing listens")
        answers.put(sample_of(three_hosts()))
        frame = following()
        assert (len(frame.hosts), frame.problem) == (3, "")
        answers.put(Missing(Reason.STALE, "too slow"))
        late = following()
        assert late.hosts is frame.hosts
        assert late.problem == "too slow"
        answers.put(ZeroDivisionError("own"))
        assert "ZeroDivisionError" in following().problem
        answers.put(sample_of(three_hosts()))
        assert following().problem == ""
        feed.stop()
        answers.put(Missing(Reason.SOURCE))


def test_a_second_consumer_begins_with_the_last_frame() -> None:
    readings = 0
    enough = threading.Event()

    def read() -> FleetSample | Missing:
        nonlocal readings
        readings += 1
        if readings > 1:
            enough.wait(HANGS_S)
        return sample_of(three_hosts())

    feed = FleetFeed(read, 0.01)
    with consumed(feed) as following:
        frame = following()
    with consumed(feed) as following:
        assert following() is frame
    enough.set()


def test_refresh_and_a_shorter_interval_read_at_once() -> None:
    feed = FleetFeed(lambda: sample_of(three_hosts()), HANGS_S)
    with consumed(feed) as following:
        following()
        feed.refresh()
        following()
        feed.set_interval(HANGS_S - 1)
        following()
    assert feed.interval_s == HANGS_S - 1
