"""The feed of a fleet: nothing waits for a reading, and what is known stays."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue

import pytest

from nftop.model.fleet import FleetFrame, FleetSample
from nftop.model.missing import Missing, Reason
from nftop.session.fleet import FleetFeed
from tests.fleet import sample_of, three_hosts
from tests.waiting import LONGEST_S, until

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


def test_a_stop_before_the_first_frame_is_wanted_counts() -> None:
    readings: list[int] = []

    def read() -> FleetSample:
        readings.append(1)
        return sample_of({})

    feed = FleetFeed(read, HANGS_S)
    frames = feed.frames()
    feed.stop()
    assert next(frames, None) is None
    with consumed(feed) as following:
        assert following().problem == ""


class Waits(threading.Event):
    """Notes for how long a wait would be, and whether it is over already; none waits."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.waits: list[tuple[float | None, bool]] = []
        self._most = most
        self.all = threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append((timeout, self.is_set()))
        if len(self.waits) == self._most:
            self.all.set()
        return self.is_set() if len(self.waits) < self._most else super().wait()


def waits(took_s: list[float], interval_s: float, *, fails: set[int], due: set[int]) -> Waits:
    """Waits after readings that take so long; these fail, and during these one is requested."""
    clock_s, number = [0.0], itertools.count()
    result = Waits(len(took_s))

    def read() -> FleetSample | Missing:
        at = next(number)
        feed._current.due = result
        clock_s[0] += took_s[min(at, len(took_s) - 1)]
        if at in due:
            feed.refresh()
        return Missing(Reason.STALE, "too slow") if at in fails else sample_of({})

    feed = FleetFeed(read, interval_s, lambda: clock_s[0])
    with consumed(feed):
        assert result.all.wait(LONGEST_S)
    return result


def test_a_slow_server_has_pauses_that_grow_with_its_failures() -> None:
    took_s = [0.5, 1.8, 40.0, 8.0, 8.0, 8.0, 8.0, 0.5, 8.0]
    result = waits(took_s, 2.0, fails={3, 4, 5, 6}, due=set())
    expected = [1.5, 0.9, 20.0, 8.0, 16.0, 32.0, 60.0, 1.5, 4.0]
    assert [wait for wait, _ in result.waits] == [pytest.approx(item) for item in expected]


def test_a_requested_reading_is_one_reading() -> None:
    result = waits([0.1] * 4, 10.0, fails=set(), due={1})
    assert [is_due for _, is_due in result.waits] == [False, True, False, False]


def test_a_reading_that_ends_after_the_stop_changes_nothing() -> None:
    began, goes_on = threading.Event(), threading.Event()
    readings = itertools.count()

    def read() -> FleetSample | Missing:
        if next(readings):
            began.set()
            goes_on.wait(HANGS_S)
            return Missing(Reason.STALE, "late")
        return sample_of(three_hosts())

    feed = FleetFeed(read, HANGS_S)
    with consumed(feed) as following:
        frame = following()
        feed.refresh()
        assert began.wait(LONGEST_S)
    goes_on.set()
    until(lambda: all(item.name != "nftop-fleet" for item in threading.enumerate()))
    assert feed._frame is frame
