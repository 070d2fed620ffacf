"""The wall clock steps, or the host was suspended: rates, recordings and the past stay right.

Rates are of CLOCK_MONOTONIC, which stands still during a suspend while the wall clock goes on.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from nftop.derive.fold import step
from nftop.export.json.frame import frame_json
from nftop.export.openmetrics.page import Tally, page
from nftop.export.openmetrics.writer import TextFormat
from nftop.model.frame import Frame
from nftop.model.recording_loss import RecordingLoss
from nftop.model.sample import Sample
from nftop.model.struct import replace
from nftop.render.pages.batch_text import frame_text
from nftop.session.reader import Tape
from nftop.store.format.encoder import Encoder
from nftop.store.format.zstd import FRAME_END
from nftop.store.history.flight import FlightRecorder
from nftop.store.reading.scan import Scan, ScanItem
from nftop.store.reading.seekpoint import packed
from nftop.store.recording.recorder import Recorder
from tests.bench.scenes import Clocked
from tests.recordings import header_of, joined, ticks_of
from tests.store.reading.test_scan import Bytes
from tests.waiting import until

S = 1_000_000_000
TICKS, AT = 24, 12
# By how much the wall clock is ahead of before from tick AT on.
STEPS = {
    "an hour ahead": 3600 * S,
    "an hour back": -3600 * S,
    "a second back": -S,
    "ten years ahead": 10 * 365 * 86400 * S,
    "a suspend of a day": 86400 * S,
    "back to 1970": None,
}


@dataclass(frozen=True)
class Session:
    """Samples, and the frames of their fold."""

    samples: tuple[Sample, ...]
    frames: tuple[Frame, ...]


@cache
def session(clock: str | None) -> Session:
    """A healthy host whose wall clock steps."""
    clocked = Clocked(4)
    state, samples, frames = clocked.state, list[Sample](), list[Frame]()
    for number in range(TICKS):
        sample = clocked.sample()
        if clock is not None and number >= AT:
            by_ns = STEPS[clock]
            wall_ns = number * S if by_ns is None else sample.wall_ns + by_ns
            sample = replace(sample, wall_ns=wall_ns)
        state, frame = step(state, sample)
        samples.append(sample)
        frames.append(frame)
    return Session(tuple(samples), tuple(frames))


def numbers(frame: Frame) -> dict[str, Any]:
    """A frame's JSON without times of day."""
    document: dict[str, Any] = json.loads(frame_json(frame))
    return {key: document[key] for key in ("cpus", "nfs", "packages", "groups", "interval_s")}


def rates(frame: Frame) -> list[float | None]:
    return [cpu["ipc"] for cpu in numbers(frame)["cpus"]]


@pytest.fixture(scope="module")
def honest() -> Session:
    return session(None)


@pytest.mark.parametrize("clock", STEPS)
def test_rates_are_those_of_a_clock_that_does_not_step(clock: str, honest: Session) -> None:
    for frame, other in zip(session(clock).frames, honest.frames, strict=True):
        assert numbers(frame) == numbers(other)
        assert frame_text(frame, 120, ascii_only=True, mode="LIVE")
        assert page(frame, Tally(), TextFormat.OPENMETRICS)


@pytest.mark.parametrize("clock", STEPS)
def test_a_recording_replays_every_tick(clock: str) -> None:
    own = session(clock)
    encoder = Encoder(header_of(Clocked(4)))
    chunks = []
    for number, sample in enumerate(own.samples):
        if number % 6 == 0:
            encoder.restart()
        chunks.append(encoder.tick(number, sample))
    data = joined(chunks) + FRAME_END + packed(chunks[-1].after)
    tape, frames = Tape(Bytes(data)), list[Frame]()
    while (shown := tape.forward()) is not None:
        frames.append(shown.frame)
    assert [frame.wall_ns for frame in frames] == [frame.wall_ns for frame in own.frames]
    # The first ticks of a replay have no rates of before yet.
    for frame, other in zip(frames[AT - 2 :], own.frames[AT - 2 :], strict=True):
        assert rates(frame) == rates(other) != [None] * 4
    assert tape.tail_loss() is None


@pytest.mark.parametrize("clock", STEPS)
def test_the_flight_recorder_keeps_what_was_before(clock: str) -> None:
    own = session(clock)
    flight = FlightRecorder()
    recorder = Recorder(header_of(Clocked(4)), flight=flight)
    for sample in own.samples:
        recorder.take(sample)
        until(lambda: recorder._waiting == 0)
    recorder.close()
    scan, kept = Scan(Bytes(joined(tuple(flight.chunks(0))))), list[ScanItem]()
    while (item := scan.next()) is not None:
        kept.append(item)
    times = [item.sample.wall_ns for item in ticks_of(kept)]
    assert times == [sample.wall_ns for sample in own.samples]
    assert not [item for item in kept if isinstance(item, RecordingLoss)]
