"""Going back in a live session shows the frames that were shown live."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest import mock

from nftop.derive.findings.engine import begun
from nftop.model.frame import Frame
from nftop.model.rule_settings import NO_SETTINGS
from nftop.session.timeline import LivePast
from nftop.store.history.events import EventHistory
from nftop.store.history.flight import FlightRecorder
from nftop.store.recording.recorder import Recorder
from tests.bench.scenes import Clocked
from tests.recordings import header_of, same
from tests.store.history.test_flight import PER_SEGMENT, TICKS, S, flown, full
from tests.waiting import until


class Shown:
    """What a screen was given, in order; None is now."""

    def __init__(self, past: LivePast) -> None:
        self.frames: list[Frame | None] = []
        self.past = past
        past.listen(self.frames.append)

    @property
    def tick(self) -> int | None:
        """The number of the tick on screen; None: now."""
        last = self.frames[-1] if self.frames else None
        if last is None:
            return None
        walls = [frame.wall_ns for frame in flown()[1]]
        return walls.index(last.wall_ns)

    def reach(self, tick: int | None) -> None:
        until(lambda: bool(self.frames) and self.tick == tick)


@contextmanager
def going_back(events: EventHistory | None = None) -> Iterator[Shown]:
    past = LivePast(full(), events or EventHistory())
    shown = Shown(past)
    try:
        yield shown
    finally:
        past.close()
    until(lambda: not any(item.name == "nftop-past" for item in threading.enumerate()))


def test_a_second_back_is_the_tick_before_and_its_numbers_are_those_shown_live() -> None:
    frames = flown()[1]
    with going_back() as shown:
        shown.past.shift(-S)
        shown.reach(TICKS - 2)
        position = shown.past.position
        assert position is not None and position.paused and position.warmed is None
        for back in (3, 4, 5):
            shown.past.shift(-S)
            shown.reach(TICKS - back)
            last = shown.frames[-1]
            assert last is not None and same(last, frames[TICKS - back])


def test_first_step_back_from_now_is_to_the_tick_before_the_newest() -> None:
    with going_back() as shown:
        for back in (2, 3):
            shown.past.step(-1)
            shown.reach(TICKS - back)
            assert shown.past.active
        shown.past.step(1)
        shown.reach(TICKS - 2)


def test_a_minute_back_and_forth_and_to_now() -> None:
    frames = flown()[1]
    with going_back() as shown:
        shown.past.shift(-60 * S)
        shown.reach(TICKS - 61)
        last = shown.frames[-1]
        assert last is not None and same(last, frames[TICKS - 61])
        shown.past.shift(30 * S)
        shown.reach(TICKS - 31)
        last = shown.frames[-1]
        assert last is not None and same(last, frames[TICKS - 31])
        assert shown.past.history is not None
        shown.past.shift(40 * S)
        shown.reach(None)
        assert not shown.past.active and shown.past.history is None


def test_before_what_is_kept_it_stays_at_the_first_tick_and_forward_of_now_is_refused() -> None:
    with going_back() as shown:
        shown.past.shift(S)
        assert not shown.past.active and shown.past.problem
        shown.past.shift(-9999 * S)
        shown.reach(0)
        shown.past.shift(-S)
        shown.past.step(1)
        shown.reach(1)


def test_an_empty_history_is_reported() -> None:
    past = LivePast(FlightRecorder(), EventHistory())
    past.shift(-S)
    assert not past.active and past.problem


def test_keys_that_come_faster_than_ticks_are_folded_are_one_way() -> None:
    with going_back() as shown:
        for _ in range(25):
            shown.past.shift(-S)
        shown.reach(TICKS - 26)
        for _ in range(5):
            shown.past.shift(S)
        shown.reach(TICKS - 21)


def test_events_are_reached_from_either_side() -> None:
    frames, events = flown()[1], EventHistory()
    for tick in (20, 50, 70):
        events.mark(f"at {tick}", frames[tick].wall_ns)
    events.mark("too old", frames[0].wall_ns - 999 * S)
    with going_back(events) as shown:
        for wanted in (70, 50, 20):
            shown.past.to_marker(-1)
            shown.reach(wanted)
        shown.past.to_marker(-1)
        assert shown.past.problem
        shown.past.to_marker(1)
        shown.reach(50)
        assert not shown.past.problem


def test_events_are_counted_from_the_one_requested_last_even_before_it_is_drawn() -> None:
    frames, events = flown()[1], EventHistory()
    for tick in (20, 50, 70):
        events.mark(f"at {tick}", frames[tick].wall_ns)
    with going_back(events) as shown:
        for _ in range(3):
            shown.past.to_marker(-1)
        shown.reach(20)
        shown.past.to_marker(1)
        shown.past.to_marker(1)
        shown.reach(70)
        shown.past.shift(-S)
        shown.reach(69)
        shown.past.to_marker(-1)
        shown.reach(50)


def test_a_time_is_sought_and_a_wrong_one_is_reported() -> None:
    frames = flown()[1]
    with going_back() as shown:
        shown.past.seek(frames[33].wall_ns)
        shown.reach(33)
        shown.past.seek(frames[0].wall_ns - 99 * S)
        until(lambda: "nothing was recorded" in remark(shown.past))
        assert shown.tick == 33


def test_a_time_that_is_not_kept_is_refused_at_now_too() -> None:
    frames = flown()[1]
    with going_back() as shown:
        for wall_ns in (frames[0].wall_ns - 99 * S, frames[-1].wall_ns + 99 * S):
            shown.past.seek(wall_ns)
            assert not shown.past.active and "nothing was recorded" in shown.past.problem
        assert shown.frames == []
        shown.past.seek(frames[12].wall_ns)
        shown.reach(12)
        assert not shown.past.problem


def test_an_older_way_back_neither_shows_nor_ends_anything_of_a_newer_one() -> None:
    with going_back() as shown:
        shown.past.shift(-5 * S)
        shown.reach(TICKS - 6)
        older, first = shown.past._replay, shown.past.generation
        shown.past.to_now()
        shown.past.shift(-9 * S)
        shown.reach(TICKS - 10)
        newer = shown.past.generation
        assert newer > first
        shown.past._leave(older, "too late")  # it caught up, or failed, while the newer one began
        assert shown.past.active and shown.tick == TICKS - 10 and not shown.past.problem
        assert shown.past.generation == newer


def remark(past: LivePast) -> str:
    return "" if past.position is None else past.position.remark


class StepClock:
    """Time passes in waits, when it is let."""

    def __init__(self) -> None:
        self.now_ns = 0

    def monotonic_ns(self) -> int:
        return self.now_ns

    def wait(self, news: threading.Event, seconds: float) -> None:
        if not news.wait(0.001):
            self.now_ns += int(seconds * S)


def test_past_that_goes_on_catches_up_with_now() -> None:
    past = LivePast(full(), EventHistory(), StepClock())
    shown = Shown(past)
    past.shift(-10 * S)
    shown.reach(TICKS - 11)
    past.pause()
    shown.reach(None)
    walls: list[int] = [frame.wall_ns for frame in shown.frames if frame is not None]
    assert walls == sorted(walls) and walls[-1] == flown()[1][-1].wall_ns


def test_live_samples_are_kept_while_the_past_is_shown() -> None:
    flight = FlightRecorder()
    samples, frames, states, encoder = flown()
    encoder.restart()
    for number in range(40):
        flight.append(encoder.tick(number, samples[number]), states[number])
    past = LivePast(flight, EventHistory())
    shown = Shown(past)
    past.shift(-5 * S)
    shown.reach(34)
    for number in range(40, 60):
        flight.append(encoder.tick(number, samples[number]), states[number])
    past.shift(20 * S)
    shown.reach(54)
    last = shown.frames[-1]
    assert last is not None and same(last, frames[54])
    past.close()


def test_fault_of_the_past_returns_to_now() -> None:
    with going_back() as shown:
        flight = shown.past.flight

        def fails(at: int) -> None:
            raise RuntimeError("oh")

        flight.state_at: Callable[[int], None] = fails  # type: ignore[misc,method-assign]
        problems: list[str] = []
        shown.past.listen(lambda frame: problems.append(shown.past.problem))
        shown.past.shift(-S)
        until(lambda: bool(problems))
        assert not shown.past.active and "RuntimeError" in problems[0]


def test_frames_of_a_recorded_session_are_gone_back_to() -> None:
    """The way of a live session: samples and states through the recorder's thread."""
    samples, frames, states, _ = flown()
    flight = FlightRecorder()
    recorder = Recorder(header_of(Clocked(24, scenario="noisy")), flight=flight)
    with mock.patch("nftop.store.format.encoder.FRAME_NS", PER_SEGMENT * S):
        # A note begins the first segment, before its sample.
        recorder.kept(None, samples[0].wall_ns - 1, samples[0].monotonic_ns - 1)
        for sample, state, frame in zip(samples, states, frames, strict=True):
            recorder.take(sample, state)
            for item in begun((), frame.findings):
                recorder.record_finding(item, frame.wall_ns, frame.monotonic_ns)
            until(lambda: recorder._waiting == 0)
    recorder.close()
    assert flight.size.ticks == TICKS
    past = LivePast(flight, EventHistory())
    shown = Shown(past)
    for tick in (70, 45, 12):
        past.seek(frames[tick].wall_ns)
        shown.reach(tick)
        last, here = shown.frames[-1], past.position
        assert last is not None and same(last, frames[tick])
        # The incidents of every screen say what a marker of a finding would.
        assert here is not None and (here.warmed, here.remark) == (None, "")
    past.close()


def test_settings_of_rules_reach_the_past() -> None:
    rules = {finding.rule for frame in flown()[1][20:60] for finding in frame.findings}
    settings = NO_SETTINGS
    for rule in rules:
        settings = settings.with_muted(rule)
    with going_back() as shown:
        shown.past.shift(-30 * S)
        shown.reach(TICKS - 31)
        shown.past.set_rules(settings)
        shown.past.step(1)
        shown.reach(TICKS - 30)
        last = shown.frames[-1]
        assert last is not None and last.findings
        assert all(item.is_muted for item in last.findings if item.rule in rules)
        shown.past.to_now()
        shown.past.shift(-10 * S)
        shown.reach(TICKS - 11)
        last = shown.frames[-1]
        assert last is not None and any(item.is_muted for item in last.findings)
