from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from nftop.derive.step import State
from nftop.model.frame import Frame
from nftop.model.reading import Missing, Reason
from nftop.model.sample import ThreadTable
from nftop.session.live import MIN_INTERVAL_S, Live
from tests.samples import HOST, S, thread, threads, topology
from tests.session.test_sampler import FakeSource

START = State(HOST, topology(4, smt=False))


def take(frames: Iterator[Frame], count: int) -> list[Frame]:
    return [next(frames) for _ in range(count)]


def test_deadlines_are_absolute() -> None:
    live = Live([], START, 0.1, on_pollers=lambda cpus: None)
    frames = live.frames()
    first, *rest = take(frames, 6)
    live.stop()
    # However long each tick took, the sixth is five intervals after the first.
    assert rest[-1].monotonic_ns - first.monotonic_ns >= 0.5 * S - 5_000_000


def test_missed_ticks_are_not_made_up_for() -> None:
    live = Live([], START, 0.1, on_pollers=lambda cpus: None)
    frames = live.frames()
    take(frames, 1)
    time.sleep(0.35)  # a consumer that was stopped for three ticks
    late, following = take(frames, 2)
    live.stop()
    assert following.monotonic_ns > late.monotonic_ns
    assert list(frames) == []


def test_stop_ends_a_wait_from_another_thread() -> None:
    live = Live([], START, 3600.0, on_pollers=lambda cpus: None)
    frames = live.frames()
    next(frames)
    timer = threading.Timer(0.05, live.stop)
    timer.start()
    assert list(frames) == []
    timer.join()


def test_sources_are_closed_when_the_frames_end_or_are_left() -> None:
    for left in (True, False):
        source = FakeSource("kernel", lambda: Missing(Reason.SOURCE), inline=True)
        live = Live([source], START, 0.1, on_pollers=lambda cpus: None)
        frames = live.frames()
        next(frames)
        if left:
            del frames
        else:
            live.stop()
            assert list(frames) == []
        assert source.closed.is_set()


def test_pollers_are_announced_when_they_change() -> None:
    told: list[frozenset[int]] = []
    runs = iter([0, 1, 2, 3, 3, 3, 3])

    def spin_then_sleep() -> ThreadTable:
        # It runs all the time between its readings, then not at all.
        return threads(thread(run_ns=next(runs) * S, read_at_ns=time.monotonic_ns()))

    source = FakeSource("processes", spin_then_sleep, inline=True)
    live = Live([source], START, 0.1, on_pollers=told.append)
    take(live.frames(), 6)
    live.stop()
    assert told == [frozenset({1}), frozenset()]


@pytest.mark.parametrize("wanted", [0.0, -1.0, 0.01])
def test_the_pace_has_a_floor(wanted: float) -> None:
    live = Live([], START, 1.0, on_pollers=lambda cpus: None)
    live.set_interval(wanted)
    assert live.interval_s == MIN_INTERVAL_S
