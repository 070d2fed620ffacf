from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest

from nftop.derive.fold import FoldState
from nftop.model.frame import Focus, Frame
from nftop.model.ids import Cpu
from nftop.model.incident import Incident, Price, Severity
from nftop.model.missing import Missing, Reason
from nftop.model.sample import ProcessFacts, Sample, ThreadTable
from nftop.model.uncore import UncoreTable
from nftop.session.live import MIN_INTERVAL_S, Live, Notice
from tests.frames import frame
from tests.samples import HOST, S, thread, threads, topology
from tests.session.test_sampler import FakeSource
from tests.waiting import until

START = FoldState(HOST, topology(4, smt=False))


class FakeClock:
    """Time that passes only in waits; what is to happen in one ends it when there are news."""

    def __init__(self) -> None:
        self.now_ns = 10 * S
        self.waits: list[float] = []
        self.events: dict[float, Callable[[], None]] = {}  # by second

    def monotonic_ns(self) -> int:
        return self.now_ns

    def wait(self, news: threading.Event, seconds: float) -> None:
        self.waits.append(seconds)
        until_ns = self.now_ns + max(int(seconds * S), 0)
        for at in sorted(at for at in self.events if 10 * S + int(at * S) <= until_ns):
            self.now_ns = 10 * S + int(at * S)
            self.events.pop(at)()
            if news.is_set():
                return
        self.now_ns = until_ns

    @property
    def second(self) -> float:
        return (self.now_ns - 10 * S) / S


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


def test_ticks_that_were_missed_are_not_repeated() -> None:
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
    frames = live(interval_s=60.0, soon_s=1.0, clock=clock).frames()
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


class Inspected(FakeSource):
    """Notes what it is told to count."""

    def __init__(self, reports: list[object]) -> None:
        super().__init__("looked", lambda: Missing(Reason.SOURCE), inline=True)
        self.reported = reports

    def focus(self, cpu: Cpu | None, node: str = "") -> None:
        self.reported.append(cpu)

    def detail(self, *, wanted: bool) -> None:
        self.reported.append(wanted)


def test_sources_that_can_are_reported_once_what_is_observed() -> None:
    reports: list[object] = []
    other = FakeSource("any", lambda: Missing(Reason.SOURCE), inline=True)
    feed = live(Inspected(reports), other, clock=FakeClock())
    frames = feed.frames()
    take(frames, 2)
    feed.set_focus(Focus(core=Cpu(3)))
    take(frames, 2)
    feed.set_focus(Focus(traffic=True))
    take(frames, 2)
    feed.set_focus(Focus())
    take(frames, 1)
    # The fourth and the fifth tick are those of the sample that every five ticks have.
    assert reports == [3, True, None, False]


def test_what_is_counted_on_demand_is_sampled_two_ticks_in_five() -> None:
    reports: list[object] = []
    source = Inspected(reports)

    def read() -> Missing:
        reports.append("read")
        return Missing(Reason.SOURCE)

    source._read = read
    take(live(source, clock=FakeClock()).frames(), 11)
    off, on = ["read"] * 3, [True, "read", "read", False]
    assert reports == [*off, *on, *off, *on, "read"]


def test_it_is_not_sampled_if_that_interrupts_a_polling_core() -> None:
    reports: list[object] = []
    none = np.zeros(0, np.int32)
    counts = np.zeros(0, np.uint64)
    table = UncoreTable(
        ("cas_read",),
        none,
        none,
        none,
        counts,
        np.zeros(0, np.uint8),
        counts,
        counts,
        warning="CPU 0 polls",
    )
    uncore = FakeSource("uncore", lambda: table, inline=True)
    feed = live(Inspected(reports), uncore, clock=FakeClock())
    take(feed.frames(), 10)
    assert reports == []


class Culprits(FakeSource):
    """Notes the CPUs of incidents that it is to describe."""

    def __init__(self) -> None:
        super().__init__("processes", lambda: Missing(Reason.SOURCE), inline=True)
        self.wanted: list[object] = []

    def focus_culprits(self, cpus: Collection[Cpu], memory: Collection[Cpu]) -> None:
        self.wanted.append((tuple(cpus), tuple(memory)))


def test_cpus_of_open_incidents_are_described_from_the_next_tick_on() -> None:
    one = Incident(
        "cpu-1", Severity.WARN, "", None, (), Price(), 0, watch=(Cpu(7), Cpu(2)), memory=(Cpu(2),)
    )
    script = iter([(), (one,), (one,), (), ()])

    def step(state: FoldState, sample: Sample) -> tuple[FoldState, Frame]:
        return state, replace(frame(4), wall_ns=sample.wall_ns, incidents=next(script))

    source = Culprits()
    with mock.patch("nftop.session.live.step", side_effect=step):
        take(live(source, clock=FakeClock()).frames(), 5)
    assert source.wanted == [((2, 7), (2,)), ((), ())]


class DescribingSource(FakeSource):
    """Notes the CPUs whose processes it is to describe."""

    def __init__(self) -> None:
        super().__init__("described", lambda: Missing(Reason.SOURCE), inline=True)
        self.cpus: list[Cpu | None] = []

    def focus_processes(self, cpu: Cpu | None) -> None:
        self.cpus.append(cpu)


def test_another_selected_cpu_reaches_the_source_at_the_next_tick_and_brings_none_early() -> None:
    clock, source = FakeClock(), DescribingSource()
    feed = live(source, interval_s=60.0, soon_s=1.0, clock=clock)
    clock.events[30.4] = lambda: feed.set_focus(Focus(processes=Cpu(1)))
    clock.events[30.9] = lambda: feed.set_focus(Focus(processes=Cpu(2)))
    assert starts_of(feed, clock, 3) == pytest.approx([0, 1, 61])
    assert source.cpus == [2]


def test_what_is_observed_from_the_start_is_reported_before_the_first_reading() -> None:
    reports: list[object] = []
    source = Inspected(reports)

    def read() -> Missing:
        reports.append("read")
        return Missing(Reason.SOURCE)

    source._read = read
    feed = live(source, clock=FakeClock())
    feed.set_focus(Focus(traffic=True))
    take(feed.frames(), 1)
    assert reports == [True, "read"]


def starts_of(feed: Live, clock: FakeClock, count: int) -> list[float]:
    """When each frame came, in seconds."""
    frames = feed.frames()
    return [(next(frames), clock.second)[1] for _ in range(count)]


@pytest.mark.parametrize(
    ("reported_at", "pace", "starts"),
    [
        (2.5, 1.0, [0, 3, 4, 5]),
        (0.5, 2000.0, [0, 2000, 4000]),
        (3599.95, 5.0, [0, 3600, 3605]),  # it is due before
        (700.0, 7200.0, [0, 7200]),
    ],
)
def test_a_new_pace_does_not_wait_out_the_old_one(
    reported_at: float, pace: float, starts: list[float]
) -> None:
    clock = FakeClock()
    feed = live(interval_s=3600.0, clock=clock)
    clock.events[reported_at] = lambda: feed.set_interval(pace)
    assert starts_of(feed, clock, len(starts)) == pytest.approx(starts)


def test_other_views_do_not_count_it_either() -> None:
    """One tick to begin with it, and one to have its numbers; then the pace is as before."""
    clock = FakeClock()
    feed = live(interval_s=60.0, soon_s=1.0, clock=clock)
    clock.events[30.4] = lambda: feed.set_focus(Focus(core=Cpu(1)))
    assert starts_of(feed, clock, 5) == pytest.approx([0, 1, 31, 32, 92])


def test_where_nobody_waits_for_it_the_pace_stays() -> None:
    clock = FakeClock()
    feed = live(interval_s=60.0, clock=clock)
    clock.events[30.4] = lambda: feed.set_focus(Focus(core=Cpu(1)))
    assert starts_of(feed, clock, 3) == pytest.approx([0, 60, 120])


def test_soon_is_no_later_than_the_pace() -> None:
    clock = FakeClock()
    feed = live(interval_s=0.25, soon_s=1.0, clock=clock)
    clock.events[0.6] = lambda: feed.set_focus(Focus(core=Cpu(1)))
    assert starts_of(feed, clock, 5) == pytest.approx([0, 0.25, 0.5, 0.75, 1.0])


class TurningSource(FakeSource):
    """Notes when it is told to turn, and may want that or not."""

    def __init__(self, clock: FakeClock, *, inline: bool = True, wants: bool = True) -> None:
        super().__init__("turning", lambda: Missing(Reason.SOURCE), inline=inline)
        self.clock = clock
        self.turning = wants
        self.turned: list[float] = []

    def turn(self) -> None:
        self.turned.append((self.clock.now_ns - 10 * S) / S)


def test_a_source_has_its_turn_a_tenth_before_every_deadline() -> None:
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
    feed = live(source, interval_s=60.0, soon_s=1.0, clock=clock)
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


@pytest.mark.parametrize(
    ("reported_at", "pace", "starts", "turned"),
    [
        (3.0, 1.0, [0, 4, 5], [3.9, 4.9]),  # before its turn: there is one all the same
        (9.5, 1.0, [0, 10, 11], [9.0, 10.9]),  # and no second one in the same tick
        (9.5, 3600.0, [0, 10, 3610], [9.0, 3250.0]),  # which would last
    ],
)
def test_a_new_pace_and_turns(
    reported_at: float, pace: float, starts: list[float], turned: list[float]
) -> None:
    clock = FakeClock()
    source = TurningSource(clock)
    feed = live(source, interval_s=10.0, clock=clock)
    clock.events[reported_at] = lambda: feed.set_interval(pace)
    assert starts_of(feed, clock, 3) == pytest.approx(starts)
    assert source.turned == pytest.approx(turned)


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


def test_a_new_pace_ends_a_wait_from_another_thread() -> None:
    feed = live(interval_s=3600.0)
    frames = feed.frames()
    next(frames)
    timer = threading.Timer(0.05, feed.set_interval, (0.1,))
    timer.start()
    next(frames)
    timer.join()
    frames.close()


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
    reports: list[frozenset[int]] = []
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
        source, interval_s=1.0, clock=clock, on_pollers=lambda cpus, topology: reports.append(cpus)
    )
    take(feed.frames(), 7)
    assert reports == [frozenset(), frozenset({1}), frozenset()]


def test_some_cpus_are_shown_but_all_pollers_are_announced() -> None:
    reports: list[frozenset[int]] = []
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
        on_pollers=lambda cpus, topology: reports.append(cpus),
    )
    last = take(feed.frames(), 3)[-1]
    assert [info.cpu for info in last.cpus.topology.cpus] == [0]
    assert len(last.topology.cpus) == 4
    assert reports[-1] == {1}


def test_a_notice_is_requested_now_and_then_and_never_waited_for() -> None:
    requests, release, clock = list[int](), threading.Event(), FakeClock()

    def request() -> str:
        requests.append(threading.get_ident())
        release.wait()
        if len(requests) > 1:
            raise ValueError("the disk is gone")
        return "mind the gap"

    frames = live(interval_s=1.0, clock=clock, notice=request).frames()
    assert [frame.notice for frame in take(frames, 5)] == [""] * 5
    assert requests != [threading.get_ident()]
    release.set()
    until(lambda: next(frames).notice == "mind the gap" or len(requests) > 1)
    until(lambda: "ValueError: the disk is gone" in next(frames).notice)


def test_a_notice_is_requested_once_in_some_seconds() -> None:
    requests: list[int] = []

    def request() -> str:
        requests.append(1)
        return str(len(requests))

    notice = Notice(request)
    notice.latest(0)
    until(lambda: notice.latest(int(2.9 * S)) == "1")
    until(lambda: notice.latest(3 * S) == "2")
    assert len(requests) == 2


@pytest.mark.parametrize("wanted", [0.0, -1.0, 0.01])
def test_the_pace_has_a_floor(wanted: float) -> None:
    feed = live(interval_s=1.0)
    feed.set_interval(wanted)
    assert feed.interval_s == MIN_INTERVAL_S


def test_no_command_line_of_a_process_is_given_to_a_recorder() -> None:
    facts = (ProcessFacts(7, Cpu(1), "vpp --password x", "root", "/a", 0, 1.0),)
    table = ThreadTable((), 0, 0, facts)
    samples: list[Sample] = []
    source = FakeSource("processes", lambda: table, inline=True)
    (frame,) = take(live(source, clock=FakeClock(), on_sample=samples.append).frames(), 1)
    assert [item.command for item in frame.processes] == ["vpp --password x"]
    recorded = samples[0].readings["processes"].value
    assert isinstance(recorded, ThreadTable)
    assert [(item.pid, item.user, item.command) for item in recorded.facts] == [(7, "root", "")]
