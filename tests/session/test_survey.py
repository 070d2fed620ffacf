"""What the timeline of a recording knows, and what finding it out may cost."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from unittest import mock

import numpy as np
import pytest

from nftop.model.rule_settings import NO_SETTINGS
from nftop.model.timeline import EventState
from nftop.session.survey import SHARE, RecordingSurvey, events_of
from nftop.store.format.encoder import Encoder
from nftop.store.format.records import Marker
from nftop.store.history.events import EventHistory
from nftop.store.history.flight import FlightRecorder
from tests.bench.scenes import Clocked
from tests.recordings import header_of
from tests.store.history.test_flight import PER_SEGMENT, TICKS, S, flown
from tests.waiting import until


def recording() -> FlightRecorder:
    """The flown session with a marker, as bytes that can be read."""
    samples, _, _, _ = flown()
    encoder, flight = Encoder(header_of(Clocked(24, scenario="noisy"))), FlightRecorder()
    for number, sample in enumerate(samples):
        if number % PER_SEGMENT == 0:
            encoder.restart()
        if number == 30:
            note = Marker("marker", sample.wall_ns, sample.monotonic_ns, "coffee")
            flight.append(encoder.note(note, note.wall_ns, note.monotonic_ns))
        flight.append(encoder.tick(number, sample))
    return flight


class Cpu:
    """A thread's CPU time that passes only when it is looked at."""

    def __init__(self, step_s: float) -> None:
        self.step_s = step_s
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += self.step_s
        return self.now_s


def surveyed(
    events: EventHistory,
    cpu_s: Callable[[], float] = lambda: 0.0,
    wait: Callable[[float], bool] = lambda _: False,
) -> EventHistory:
    RecordingSurvey(recording().reader(), events, NO_SETTINGS, wait=wait, cpu_s=cpu_s).run()
    return events


def test_events_are_those_of_the_live_session() -> None:
    frames = flown()[1]
    live = EventHistory()
    for frame in frames:
        live.append(frame)
    events = surveyed(EventHistory())
    ends = frames[0].wall_ns - 600 * S, frames[-1].wall_ns
    assert events.scanned_ns is None
    incidents = [item for item in events.events(*ends) if item.kind == "incident"]
    assert [(item.key, item.begin_ns, item.worst_drops_per_s) for item in incidents] == [
        (item.key, item.begin_ns, item.worst_drops_per_s) for item in live.events(*ends)
    ]
    assert any(item.state is EventState.OPEN and item.severity == 2 for item in incidents)
    assert [item.text for item in events.events(*ends) if item.kind == "marker"] == ["coffee"]
    ours, theirs = events.series("drops_per_s", *ends), live.series("drops_per_s", *ends)
    assert np.array_equal(ours.values, theirs.values, equal_nan=True) and len(ours.values) == TICKS


def test_it_rests_so_that_its_share_of_a_cpu_is_kept() -> None:
    rests: list[float] = []

    def wait(seconds: float) -> bool:
        rests.append(seconds)
        return False

    surveyed(EventHistory(), Cpu(0.01), wait)
    assert rests and all(item == pytest.approx(0.01 * (1 / SHARE - 1)) for item in rests)


def test_cpu_time_in_all_is_bounded_and_the_strip_reports_its_progress() -> None:
    frames = flown()[1]
    with mock.patch("nftop.session.survey.MOST_CPU_S", 10.0):
        events = surveyed(EventHistory(), Cpu(0.5))
    scanned_ns = events.scanned_ns
    assert scanned_ns is not None and frames[5].wall_ns < scanned_ns < frames[40].wall_ns
    assert events.strip(frames[-1].wall_ns).scanned_ns == scanned_ns
    assert [item.text for item in events.events(0, 1 << 62) if item.kind == "marker"] == ["coffee"]


def test_long_recording_has_totals_of_every_minute_before_its_incidents() -> None:
    frames, steps = flown()[1], 0

    def wait(seconds: float) -> bool:
        nonlocal steps
        steps += 1
        return steps > -(-TICKS // PER_SEGMENT)

    with mock.patch("nftop.session.survey.SAMPLED_FROM_NS", 0):
        events = surveyed(EventHistory(), wait=wait)
    series = events.series("drops_per_s", frames[0].wall_ns, frames[-1].wall_ns)
    ticks = (series.times_ns - frames[0].wall_ns) // S
    # Two ticks with rates of each minute; then it had begun with the first tick of all.
    minutes = range(0, TICKS, PER_SEGMENT)
    assert ticks.tolist() == [0, *(at + by for at in minutes for by in (1, 2))]
    assert np.isfinite(series.values[1:]).all()


def test_file_that_cannot_be_read_ends_it_and_is_closed() -> None:
    reader, events = recording().reader(), EventHistory()
    with (
        mock.patch.object(type(reader), "read", side_effect=OSError(errno.EIO, "x")),
        mock.patch.object(type(reader), "close") as close,
    ):
        RecordingSurvey(reader, events, NO_SETTINGS).run()
    assert close.call_count == 1 and events.scanned_ns == 0


def test_thread_ends_when_it_is_stopped() -> None:
    survey = RecordingSurvey(recording().reader(), EventHistory(), NO_SETTINGS)
    survey.start()
    survey.stop()
    until(lambda: not any(item.name == "nftop-survey" for item in threading.enumerate()))


def test_totals_of_a_long_recording_have_longer_steps() -> None:
    flight = FlightRecorder()
    assert events_of(flight.reader()).first_ns is None
    samples, _, _, _ = flown()
    encoder = Encoder(header_of(Clocked(24, scenario="noisy")))
    flight.append(encoder.tick(0, samples[0]))
    with mock.patch("nftop.session.survey.last_tick_ns", lambda _: samples[0].wall_ns + 86_400 * S):
        events = events_of(flight.reader())
    assert events.series("drops_per_s", 0, 1).step_ns == 7 * S
