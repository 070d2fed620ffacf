"""The last samples in memory: what is kept, what is dropped, and that it reads as a recording."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import lru_cache
from operator import attrgetter
from unittest import mock

import numpy as np
import pytest

from nftop.derive.fold import FoldState, checkpoint, lasting
from nftop.model.frame import Frame
from nftop.model.sample import CounterTable, Sample
from nftop.model.struct import replace
from nftop.session.reader import Tape
from nftop.store.format.encoder import Chunk, Encoder
from nftop.store.history.flight import (
    BUDGET_BYTES,
    LASTING_BYTES,
    LASTING_BYTES_PER_CPU,
    STATE_BYTES,
    STATE_BYTES_PER_CPU,
    STATES_SHARE,
    FlightRecorder,
)
from nftop.store.reading.scan import Scan
from nftop.store.reading.seek import next_position, positions
from tests.bench.scenes import Clocked
from tests.recordings import header_of, same

TICKS, PER_SEGMENT = 90, 20
S = 1_000_000_000


@lru_cache(maxsize=1)
def flown() -> tuple[tuple[Sample, ...], tuple[Frame, ...], tuple[FoldState, ...], Encoder]:
    """Samples, frames seen live, and the state before each."""
    clocked = Clocked(24, scenario="noisy")
    clocked.now_ns += 25 * S  # a tenant begins to stream soon
    samples, frames, states = list[Sample](), list[Frame](), list[FoldState]()
    for _ in range(TICKS):
        states.append(clocked.state)
        samples.append(clocked.sample())
        frames.append(clocked.fold(samples[-1]))
    return tuple(samples), tuple(frames), tuple(states), Encoder(header_of(clocked))


@lru_cache(maxsize=1)
def encoded() -> tuple[tuple[Chunk, FoldState], ...]:
    """Chunks of the samples while nothing is dropped, and the state before each."""
    samples, _, known, encoder = flown()
    chunks = []
    for number, sample in enumerate(samples):
        if number % PER_SEGMENT == 0:
            encoder.restart()
        chunks.append((encoder.tick(number, sample), checkpoint(known[number])))
    return tuple(chunks)


def full() -> FlightRecorder:
    """With all the samples; encoded once for all tests."""
    flight = FlightRecorder()
    for chunk, state in encoded():
        assert flight.append(chunk, state)
    return flight


def filled(flight: FlightRecorder, *, states: bool = True) -> FlightRecorder:
    """Whose budget may be too small for all the samples."""
    samples, _, known, encoder = flown()
    for number, sample in enumerate(samples):
        if number % PER_SEGMENT == 0:
            encoder.restart()
        kept = checkpoint(known[number]) if states else None
        if not flight.append(encoder.tick(number, sample), kept):
            encoder.restart()
    return flight


@pytest.mark.parametrize("tick", [3, 19, 20, 41, 55, 89])
def test_frame_gone_back_to_is_the_frame_shown_live(tick: int) -> None:
    _, frames, _, _ = flown()
    flight = full()
    tape = Tape(flight.reader(), goes_back=True, state_at=flight.state_at)
    reached = tape.go(frames[tick].wall_ns)[-1]
    assert reached.warmed is None and same(reached.frame, frames[tick])
    following = tape.forward()
    if tick + 1 < TICKS:
        assert following is not None and same(following.frame, frames[tick + 1])


def test_without_a_state_rates_are_equal_after_the_warm_up() -> None:
    _, frames, _, _ = flown()
    flight = filled(FlightRecorder(), states=False)
    reached = Tape(flight.reader(), state_at=flight.state_at).go(frames[55].wall_ns)[-1]
    assert reached.warmed is not None and reached.warmed >= 10
    live, again = frames[55], reached.frame
    assert same(live.nfs, again.nfs) and same(live.cpus, again.cpus)


def test_budget_holds_whatever_comes_and_the_oldest_goes_first() -> None:
    samples, _, _, _ = flown()
    for budget in (5_000, 20_000, 60_000, 400_000):
        flight = FlightRecorder(budget_bytes=budget)
        filled(flight, states=budget > 100_000)
        size = flight.size
        assert size.size_bytes <= budget
        if size.ticks:
            assert size.last_ns == samples[-1].wall_ns
            first = samples[-size.ticks]
            assert size.first_ns == first.wall_ns


def test_what_is_left_starts_at_a_seek_point_and_reads_without_a_loss() -> None:
    flight = filled(FlightRecorder(budget_bytes=30_000), states=False)
    data = flight.reader()
    assert data.first > 0
    start = next_position(data, data.first)
    assert start is not None and start.at == data.first
    result = list(positions(data, data.first))
    assert result[0].point.number % PER_SEGMENT == 0
    scan = Scan(data)
    items = iter(scan.next, None)
    assert [type(item).__name__ for item in items].count("RecordingLoss") == 0
    assert scan.expected == TICKS


def test_age_has_a_limit() -> None:
    flight = filled(FlightRecorder(longest_ns=30 * S))
    assert 30 <= flight.size.seconds <= 30 + PER_SEGMENT


def test_reader_of_a_dropped_segment_goes_on_with_what_is_kept() -> None:
    flight = FlightRecorder(longest_ns=30 * S)
    samples, _, _, encoder = flown()
    encoder.restart()
    data = flight.reader()
    flight.append(encoder.tick(0, samples[0]))
    scan = Scan(data)
    scan.next()
    for number, sample in enumerate(samples[1:], 1):
        if number % PER_SEGMENT == 0:
            encoder.restart()
        flight.append(encoder.tick(number, sample))
    items = [type(item).__name__ for item in iter(scan.next, None)]
    assert "RecordingLoss" in items and items[-1] == "Tick"
    data.stop()
    with pytest.raises(InterruptedError):
        data.read(0, 1)


def uneven(clocked: Clocked, ticks: int) -> list[Sample]:
    """Samples whose counters grow as unevenly as those of a real poller (0.1 %)."""
    random = np.random.default_rng(5)
    samples, extra, before = [], None, None
    for _ in range(ticks):
        sample = clocked.sample()
        reading = sample.readings["perf"]
        table = reading.value
        assert isinstance(table, CounterTable)
        grown = table.values.astype(np.float64) - (0 if before is None else before)
        noise = np.abs(random.normal(0, 0.001, table.values.shape)) * np.minimum(grown, 1e10)
        extra = noise.astype(np.uint64) + (0 if extra is None else extra)
        before = table.values.astype(np.float64)
        table = replace(table, values=table.values + extra)
        perf = replace(reading, value=table)
        samples.append(replace(sample, readings={**sample.readings, "perf": perf}))
    return samples


@pytest.mark.parametrize(("cpus", "minutes"), [(88, 40), (512, 10)])
def test_ten_minutes_of_a_large_host_fit(cpus: int, minutes: int) -> None:
    """Whole states take their share of the budget, the others come with each segment."""
    clocked = Clocked(cpus)
    encoder = Encoder(header_of(clocked))
    samples = uneven(clocked, 16)
    sizes = [len(encoder.tick(at, item).data) for at, item in enumerate(samples)]
    minute_bytes = sizes[0] + 59 * sum(sizes[1:]) / 15
    minute_bytes += LASTING_BYTES + LASTING_BYTES_PER_CPU * cpus
    assert BUDGET_BYTES * (1 - STATES_SHARE) / minute_bytes >= minutes


def test_memory_of_a_state_is_not_more_than_is_counted_for_it() -> None:
    clocked = Clocked(88, scenario="noisy")
    for _ in range(60):
        clocked.fold(clocked.sample())
    shared = dict[int, object]()
    memory((clocked.host, header_of(clocked), lasting(clocked.state)), shared)
    for _ in range(60):
        clocked.fold(clocked.sample())
    whole, least = checkpoint(clocked.state), lasting(clocked.state)
    assert memory(whole, dict(shared)) < 1.2 * (STATE_BYTES + 88 * STATE_BYTES_PER_CPU)
    assert memory(least, dict(shared)) < 1.2 * (LASTING_BYTES + 88 * LASTING_BYTES_PER_CPU)
    assert least.before is None and whole.before is not None and not whole.baseline.seen


def memory(root: object, seen: dict[int, object]) -> int:
    """Bytes of an object and of all it refers to that is not `seen`, by id."""
    pending, total = [root], 0
    while pending:
        item = pending.pop()
        if id(item) in seen or item is None or isinstance(item, type | bool):
            continue
        seen[id(item)] = item  # an id is only good while its object is there
        total += sys.getsizeof(item)
        if isinstance(item, np.ndarray):
            pending.append(item.base)
        elif isinstance(item, Mapping):
            pending += [*item.keys(), *item.values()]
        elif isinstance(item, list | tuple | set | frozenset):
            pending += item
        else:
            slots = getattr(item, "__slots__", ())
            fields: tuple[str, ...] = getattr(item, "__struct_fields__", slots)
            pending += [getattr(item, name, None) for name in fields]
            pending += getattr(item, "__dict__", {}).values()
    return total


@pytest.mark.parametrize("tick", [3, 41, 55, 89])
def test_what_lasts_is_right_where_only_that_is_kept(tick: int) -> None:
    """Findings and changes of minutes, though only ten seconds are folded before the moment."""
    _, frames, _, _ = flown()
    flight = FlightRecorder()
    with mock.patch("nftop.store.history.flight.STATES_SHARE", 0.0):
        filled(flight)
    reached = Tape(flight.reader(), state_at=flight.state_at).go(frames[tick].wall_ns)[-1]
    live, again = frames[tick], reached.frame
    assert same(live.nfs, again.nfs) and same(live.cpus.columns, again.cpus.columns)
    assert same(live.noticed, again.noticed)
    key = attrgetter("rule", "where", "since_ns")
    assert [*map(key, live.findings)] == [*map(key, again.findings)]
    assert tick < 41 or live.findings


def test_a_segment_that_ends_while_chunks_are_read_is_whole() -> None:
    """Another thread appends: its data, ticks and end belong together."""
    flight = full()
    expected = list(flight.chunks(0))
    chunks = flight.chunks(0)
    first = next(chunks)
    samples, _, _, encoder = flown()
    encoder.restart()
    flight.append(encoder.tick(TICKS, samples[-1]))
    assert [first, *chunks] == expected
