from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from nftop.derive.step import State
from nftop.model.frame import Frame
from nftop.model.ids import Cpu
from nftop.model.reading import Missing, Reason
from nftop.model.sample import ThreadTable
from nftop.session.live import MIN_INTERVAL_S, Live
from tests.samples import HOST, S, thread, threads, topology
from tests.session.test_sampler import FakeSource

START = State(HOST, topology(4, smt=False))


class FakeClock:
    """Time that passes only in waits, and by `work_s` at every look between them."""

    def __init__(self) -> None:
        self.now_ns = 10 * S
        self.waits: list[float] = []

    def monotonic_ns(self) -> int:
        return self.now_ns

    def wait(self, stopped: threading.Event, seconds: float) -> None:
        self.waits.append(seconds)
        self.now_ns += max(int(seconds * S), 0)


def live(*sources: FakeSource, interval_s: float = 0.1, **options: Any) -> Live:
    options = {"on_pollers": lambda cpus, topology: None, **options}
    return Live(sources, START, interval_s, **options)


def take(frames: Iterator[Frame], count: int) -> list[Frame]:
    return [next(frames) for _ in range(count)]


def test_deadlines_are_absolute_however_long_a_tick_takes() -> None:
    clock = FakeClock()
    frames = live(interval_s=1.0, clock=clock).frames()
    starts = []
    for work_ms in (300, 999, 1, 500, 0, 0):
        next(frames)
        starts.append(clock.now_ns - 10 * S)
        clock.now_ns += work_ms * 1_000_000
    assert starts == [0, S, 2 * S, 3 * S, 4 * S, 5 * S]
    assert clock.waits == pytest.approx([0.7, 0.001, 0.999, 0.5, 1.0])


def test_ticks_that_were_missed_are_not_made_up_for() -> None:
    clock = FakeClock()
    frames = live(interval_s=1.0, clock=clock).frames()
    starts = []
    for work_ms in (100, 3400, 0, 0):
        next(frames)
        starts.append(clock.now_ns - 10 * S)
        clock.now_ns += work_ms * 1_000_000
    # It was busy from 1.0 to 4.4: the next tick is at 5, not at once and not three at a time.
    assert starts == [0, S, 5 * S, 6 * S]


def test_the_first_numbers_of_a_slow_pace_come_early() -> None:
    clock = FakeClock()
    frames = live(interval_s=60.0, first_interval_s=1.0, clock=clock).frames()
    take(frames, 4)
    assert clock.waits == pytest.approx([1.0, 60.0, 60.0])


def test_a_new_pace_holds_from_the_next_tick() -> None:
    clock = FakeClock()
    feed = live(interval_s=1.0, clock=clock)
    frames = feed.frames()
    take(frames, 2)
    feed.set_interval(0.5)
    take(frames, 2)
    assert clock.waits == pytest.approx([1.0, 0.5, 0.5])


def test_a_source_that_can_is_told_once_whose_core_is_looked_at() -> None:
    told: list[Cpu | None] = []

    class Looking(FakeSource):
        def focus(self, cpu: Cpu | None) -> None:
            told.append(cpu)

    silent = Missing(Reason.SOURCE)
    sources = [each("any", lambda: silent, inline=True) for each in (Looking, FakeSource)]
    feed = live(*sources, clock=FakeClock())
    frames = feed.frames()
    take(frames, 2)
    feed.focus(Cpu(3))
    take(frames, 2)
    feed.focus(None)
    take(frames, 1)
    assert told == [Cpu(3), None]


class TurningSource(FakeSource):
    """Notes when it is told to turn, and may want that or not."""

    def __init__(self, clock: FakeClock, *, inline: bool = True, wants: bool = True) -> None:
        super().__init__("turning", lambda: Missing(Reason.SOURCE), inline=inline)
        self.clock = clock
        self.turning = wants
        self.turned: list[float] = []

    def turn(self) -> None:
        self.turned.append((self.clock.now_ns - 10 * S) / S)


def test_a_source_has_its_turn_a_tenth_before_each_deadline() -> None:
    clock = FakeClock()
    source = TurningSource(clock)
    frames = live(source, interval_s=1.0, clock=clock).frames()
    starts = []
    for work_ms in (300, 0, 899):
        next(frames)
        starts.append((clock.now_ns - 10 * S) / S)
        clock.now_ns += work_ms * 1_000_000
    next(frames)
    assert starts == [0, 1, 2]  # deadlines are where they are without it
    assert source.turned == pytest.approx([0.9, 1.9, 2.9])
    assert clock.waits == pytest.approx([0.6, 0.1, 0.9, 0.1, 0.001, 0.1])


def test_the_tenth_is_of_the_tick_that_comes() -> None:
    clock = FakeClock()
    source = TurningSource(clock)
    feed = live(source, interval_s=60.0, first_interval_s=1.0, clock=clock)
    frames = feed.frames()
    take(frames, 3)
    feed.set_interval(0.5)
    take(frames, 1)
    assert source.turned == pytest.approx([0.9, 55.0, 61.45])


def test_a_late_tick_has_no_turn() -> None:
    clock = FakeClock()
    source = TurningSource(clock)
    frames = live(source, interval_s=1.0, clock=clock).frames()
    starts = []
    for work_ms in (900, 950, 1300, 0):
        next(frames)
        starts.append((clock.now_ns - 10 * S) / S)
        clock.now_ns += work_ms * 1_000_000
    next(frames)
    assert starts == [0, 1, 2, 4]
    assert source.turned == pytest.approx([3.9, 4.9])


def test_nobody_wakes_up_where_no_source_wants_a_turn() -> None:
    clock = FakeClock()
    sources = [TurningSource(clock, wants=False), TurningSource(clock, inline=False)]
    feed = live(*sources, interval_s=1.0, clock=clock)
    frames = feed.frames()
    take(frames, 3)
    assert clock.waits == pytest.approx([1.0, 1.0])
    sources[0].turning = True
    take(frames, 1)
    assert clock.waits[2:] == pytest.approx([0.9, 0.1])
    assert [source.turned for source in sources] == [[2.9], []]
    frames.close()


def test_no_turn_comes_after_the_end() -> None:
    clock = FakeClock()
    source = TurningSource(clock)
    feed = live(source, interval_s=1.0, clock=clock)
    frames = feed.frames()
    next(frames)
    feed.stop()
    assert list(frames) == []
    assert source.turned == []


def test_stop_ends_a_wait_from_another_thread() -> None:
    feed = live(interval_s=3600.0)
    frames = feed.frames()
    next(frames)
    timer = threading.Timer(0.05, feed.stop)
    timer.start()
    assert list(frames) == []
    timer.join()


def test_sources_are_closed_when_the_frames_end_or_are_left() -> None:
    for left in (True, False):
        source = FakeSource("kernel", lambda: Missing(Reason.SOURCE), inline=True)
        feed = live(source)
        frames = feed.frames()
        next(frames)
        if left:
            del frames
        else:
            feed.stop()
            assert list(frames) == []
        assert source.closed.is_set()


def test_pollers_are_announced_at_first_and_when_they_change() -> None:
    told: list[frozenset[int]] = []
    clock = FakeClock()
    runs = iter([0, 1, 2, 3, 3, 3, 3, 3])

    def spin_then_sleep() -> ThreadTable:
        # It runs all the time between its readings, then not at all.
        run_s = next(runs)
        return threads(
            thread(
                run_ns=run_s * S,
                read_at_ns=clock.now_ns,
                voluntary=clock.now_ns if run_s == 3 else 0,
            )
        )

    source = FakeSource("processes", spin_then_sleep, inline=True)
    feed = live(
        source, interval_s=1.0, clock=clock, on_pollers=lambda cpus, topology: told.append(cpus)
    )
    take(feed.frames(), 7)
    assert told == [frozenset(), frozenset({1}), frozenset()]


def test_some_cpus_are_shown_but_all_pollers_are_announced() -> None:
    told: list[frozenset[int]] = []
    clock = FakeClock()
    source = FakeSource(
        "processes",
        lambda: threads(thread(run_ns=clock.now_ns, read_at_ns=clock.now_ns)),
        inline=True,
    )
    feed = live(
        source,
        interval_s=1.0,
        clock=clock,
        cpus=[Cpu(0)],
        on_pollers=lambda cpus, topology: told.append(cpus),
    )
    last = take(feed.frames(), 3)[-1]
    assert [info.cpu for info in last.cpus.topology.cpus] == [0]
    assert len(last.topology.cpus) == 4
    assert told[-1] == {1}


@pytest.mark.parametrize("wanted", [0.0, -1.0, 0.01])
def test_the_pace_has_a_floor(wanted: float) -> None:
    feed = live(interval_s=1.0)
    feed.set_interval(wanted)
    assert feed.interval_s == MIN_INTERVAL_S
