"""Recording while a session goes on, and what disks do to it."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import ResctrlTable
from nftop.model.sample import Sample
from nftop.store.format.encoder import Chunk
from nftop.store.format.records import Marker
from nftop.store.history.flight import FlightRecorder
from nftop.store.recording.recorder import Recording, changes
from nftop.store.recording.sink import (
    FileSink,
)
from tests.recordings import everything, same, ticks_of
from tests.store.recording.recorders import numbers, recorder, samples
from tests.waiting import until


def test_a_recording_has_what_was_before_it_began(tmp_path: Path) -> None:
    taking = recorder(FlightRecorder())
    for sample in samples()[:20]:
        taking.take(sample)
    taking.mark("here it happens")
    file = tmp_path / "new" / "folder" / "a.nftop"
    taking.start(FileSink(file))
    for sample in samples()[20:30]:
        taking.take(sample)
    done = taking.close()
    assert done == Recording(str(file), 29.0, 30, file.stat().st_size, 0, "", before_s=19.0)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    result, ended, rest = everything(file)
    assert ended and rest is None
    assert all(same(a, t.sample) for a, t in zip(samples(), ticks_of(result), strict=False))
    assert numbers(result) == list(range(30))
    (marker,) = [item for item in result if isinstance(item, Marker)]
    assert marker.text == "here it happens"
    assert result.index(marker) == 1 + 20


def test_recordings_one_after_the_other_share_what_is_kept(tmp_path: Path) -> None:
    taking = recorder(FlightRecorder())
    for number in range(3):
        taking.start(FileSink(tmp_path / f"{number}.nftop"))
        for sample in samples()[number * 5 : number * 5 + 5]:
            taking.take(sample)
        taking.stop()
    taking.close()
    for number in range(3):
        result, ended, _ = everything(tmp_path / f"{number}.nftop")
        assert ended and numbers(result) == list(range(number * 5 + 5))


@pytest.mark.parametrize(
    ("flight", "past_ns", "least", "most"),
    [
        (FlightRecorder(longest_ns=10_000_000_000), 600_000_000_000, 10, 20),
        (FlightRecorder(budget_bytes=12_000), 600_000_000_000, 1, 39),
        (FlightRecorder(), 10_000_000_000, 10, 20),
        (FlightRecorder(), 0, 0, 0),
    ],
)
def test_past_in_a_recording_has_a_bound(
    tmp_path: Path, flight: FlightRecorder, past_ns: int, least: int, most: int
) -> None:
    taking = recorder(flight)
    file = tmp_path / "a.nftop"
    with mock.patch("nftop.store.format.encoder.FRAME_NS", 5_000_000_000):
        for sample in samples()[:-1]:
            taking.take(sample)
            until(lambda: taking._waiting == 0)
        assert flight.size.size_bytes <= flight.budget_bytes
        taking.start(FileSink(file), past_ns)
        taking.take(samples()[-1])
        taking.close()
    result, ended, rest = everything(file)
    assert ended and rest is None and least <= len(numbers(result)) - 1 <= most
    assert numbers(result)[-1] == 39


def paced(step_ms: int, count: int) -> list[Sample]:
    """Samples of the first second, as if they were taken at another pace."""
    first = samples()[0]
    step_ns = step_ms * 1_000_000
    return [
        replace(
            samples()[at % 40],
            wall_ns=first.wall_ns + at * step_ns,
            monotonic_ns=first.monotonic_ns + at * step_ns,
            interval_ns=step_ns,
        )
        for at in range(count)
    ]


@pytest.mark.parametrize(
    ("step_ms", "kept"), [(100, 10), (250, 10), (999, 91), (1001, 91), (600, 46), (5000, 91)]
)
def test_flight_recorder_keeps_at_most_a_sample_a_second(step_ms: int, kept: int) -> None:
    flight = FlightRecorder()
    taking = recorder(flight)
    for sample in paced(step_ms, 40 if step_ms < 500 and step_ms > 100 else 91):
        taking.take(sample)
        until(lambda: taking._waiting == 0)
    taking.close()
    assert flight.size.ticks == pytest.approx(kept, abs=1)


def test_recording_at_a_fast_pace_has_every_sample_behind_the_thinned_past(tmp_path: Path) -> None:
    flight, file = FlightRecorder(), tmp_path / "a.nftop"
    taking = recorder(flight)
    fast = paced(100, 60)
    for sample in fast[:30]:
        taking.take(sample)
    taking.mark("before")
    taking.start(FileSink(file))
    for sample in fast[30:45]:
        taking.take(sample)
    taking.mark("within")
    for sample in fast[45:]:
        taking.take(sample)
    done = taking.close()
    result, ended, rest = everything(file)
    assert ended and rest is None
    times = [tick.sample.wall_ns for tick in ticks_of(result)]
    assert times == [item.wall_ns for item in (*fast[:30:10], *fast[30:])]
    assert numbers(result) == list(range(33)), "what was thinned is not a loss"
    assert [item.text for item in result if isinstance(item, Marker)] == ["before", "within"]
    assert done is not None and done.ticks == 33 and flight.size.ticks == 6


def test_last_minutes_are_kept_as_a_recording_while_another_goes_on(tmp_path: Path) -> None:
    taking = recorder(FlightRecorder())
    kept: list[Recording] = []
    with mock.patch("nftop.store.format.encoder.FRAME_NS", 5_000_000_000):
        taking.start(FileSink(tmp_path / "all.nftop"))
        for sample in samples()[:30]:
            taking.take(sample)
        taking.keep(FileSink(tmp_path / "last.nftop"), 9_000_000_000, kept.append)
        for sample in samples()[30:]:
            taking.take(sample)
        taking.close()
    result, ended, rest = everything(tmp_path / "last.nftop")
    assert ended and rest is None and numbers(result) == list(range(20, 30))
    assert (kept[0].ticks, kept[0].seconds, kept[0].problem) == (10, 9.0, "")
    assert numbers(everything(tmp_path / "all.nftop")[0]) == list(range(40))


class LateSink(FileSink):
    """A file on a disk that has no room for the first frame."""

    starts = 0

    def write(self, chunk: Chunk) -> None:
        self.starts += chunk.starts
        if self.starts > 1:
            super().write(chunk)


def test_what_is_kept_begins_with_what_was_written(tmp_path: Path) -> None:
    taking = recorder(FlightRecorder())
    kept: list[Recording] = []
    with mock.patch("nftop.store.format.encoder.FRAME_NS", 5_000_000_000):
        for sample in samples()[:30]:
            taking.take(sample)
        taking.keep(LateSink(tmp_path / "last.nftop"), 9_000_000_000, kept.append)
        taking.close()
    assert numbers(everything(tmp_path / "last.nftop")[0]) == list(range(25, 30))
    assert (kept[0].ticks, kept[0].seconds) == (5, 4.0)


def table(**changed: Any) -> ResctrlTable:
    result = samples()[0].readings["resctrl"].value
    assert isinstance(result, ResctrlTable)
    return replace(result, **changed)


def test_changes_of_classes_are_recorded_as_they_are_seen(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    before = table()
    vpp = next(group for group in before.groups if group.name == "vpp")
    wider = replace(vpp.caches[0], cbm=Cbm(0x7, 11))
    after = table(
        groups=tuple(
            replace(g, caches=(wider, *g.caches[1:])) if g.name == "vpp" else g
            for g in before.groups
        )
    )
    old = vpp.caches[0].cbm
    assert isinstance(old, Cbm)
    message = changes(before, after)
    assert message == (f"vpp: L3 {wider.l3} {old.hex} -> 007",)
    assert changes(before, before) == ()
    gone = table(groups=tuple(g for g in before.groups if g.name != "vpp"))
    assert changes(before, gone) == ("vpp is gone",)
    (new,) = changes(gone, before)
    assert new == snapshot

    base = samples()[0]
    taking = recorder(FlightRecorder())
    taking.start(FileSink(tmp_path / "a.nftop"))
    for at, now in enumerate((before, before, after)):
        reading = replace(base.readings["resctrl"], value=now)
        readings = {**base.readings, "resctrl": reading}
        sample = replace(base, monotonic_ns=base.monotonic_ns + at, readings=readings)
        if at == 2:
            taking.acted("applied: nftop cat set", classes=True)
        taking.take(sample)
    taking.close()
    result, _, _ = everything(tmp_path / "a.nftop")
    act, change = [item for item in result if isinstance(item, Marker)]
    assert act.kind == "action"
    assert act.text == snapshot
    assert change.kind == "change"
    assert change.text == snapshot
    assert [type(item).__name__ for item in result][-2:] == ["Marker", "Tick"]
