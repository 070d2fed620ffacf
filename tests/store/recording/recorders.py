"""Samples and recorders for the tests of recordings."""

from __future__ import annotations

from functools import lru_cache

from nftop.model.sample import Sample
from nftop.store.history.flight import FlightRecorder
from nftop.store.reading.scan import ScanItem
from nftop.store.recording.recorder import Recorder
from tests.bench.scenes import Clocked
from tests.recordings import header_of, ticks_of

WALL_NS = 1_790_000_000_000_000_000


@lru_cache(maxsize=1)
def clocked() -> Clocked:
    return Clocked(2)


@lru_cache(maxsize=1)
def samples() -> tuple[Sample, ...]:
    return tuple(clocked().sample() for _ in range(40))


def numbers(result: list[ScanItem]) -> list[int]:
    return [tick.number for tick in ticks_of(result)]


def recorder(flight: FlightRecorder | None = None) -> Recorder:
    """With nothing of the past, unless a flight recorder has it."""
    return Recorder(header_of(clocked()), flight=flight)
