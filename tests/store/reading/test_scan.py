"""A recording in any state: all that is whole is read, what is lost is said, nothing raises."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nftop.model.number_text import counted
from nftop.model.recording_loss import BREAKS_OFF, BREAKS_OFF_BETWEEN, RecordingLoss
from nftop.store.format.encoder import Encoder
from nftop.store.format.records import DroppedTicks, Header, Marker
from nftop.store.format.zstd import FRAME_END
from nftop.store.reading.scan import Scan, ScanItem
from nftop.store.reading.seek import last_before, last_position, positions
from nftop.store.reading.seekpoint import SIZE, SeekPoint, packed
from tests.recordings import Taken, everything, joined, same, taken, ticks_of

TICKS, FRAME = 12, 5
MARKS = (4, 9)
SOURCES = ("perf", "processes", "dpdk", "resctrl")


@lru_cache(maxsize=1)
def session() -> Taken:
    """Three zstd frames of four sources; `tests/session/test_replay.py` replays all of them."""
    return taken(TICKS, cpus=2, marks=MARKS, frame=FRAME, sources=SOURCES)


class Bytes:
    """A recording in memory."""

    piped = False
    first = 0
    grows = False
    full = False

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.stopped = False

    def check(self) -> None:
        if self.stopped:
            raise InterruptedError

    def read(self, at: int, size: int) -> bytes:
        self.check()
        return self.data[at : at + size]

    @property
    def size(self) -> int:
        return len(self.data)

    def passed(self, at: int) -> None:
        pass

    def stop(self) -> None:
        self.stopped = True

    def close(self) -> None:
        pass


def scanned(data: bytes) -> tuple[list[ScanItem], Scan]:
    scan = Scan(Bytes(data))
    result = []
    while (row := scan.next()) is not None:
        result.append(row)
    return result, scan


def numbers(result: list[ScanItem]) -> list[int]:
    return [tick.number for tick in ticks_of(result)]


def beyond(wall_ns: int) -> Callable[[SeekPoint], bool]:
    return lambda point: point.wall_ns > wall_ns


def losses(result: list[ScanItem]) -> list[RecordingLoss]:
    return [item for item in result if isinstance(item, RecordingLoss)]


def test_what_was_recorded_is_read(tmp_path: Path) -> None:
    file = tmp_path / "a.nftop"
    file.write_bytes(session().data)
    result, ended, rest = everything(file)
    ticks = ticks_of(result)
    assert [tick.number for tick in ticks] == list(range(TICKS))
    assert all(same(a, b.sample) for a, b in zip(session().samples, ticks, strict=True))
    headers = [item for item in result if isinstance(item, Header)]
    assert len(headers) == 3 and all(same(session().header, header) for header in headers)
    assert [item.text for item in result if isinstance(item, Marker)] == [
        f"mark {at}" for at in MARKS
    ]
    assert ended and rest is None and not losses(list(result))


def test_cut_off_behind_any_tick_all_is_present() -> None:
    whole = session()
    for count, end in enumerate(whole.ends, start=1):
        result, scan = scanned(whole.data[:end])
        ticks = sum(chunk.ticks for chunk in whole.chunks[:count])
        assert numbers(result) == list(range(ticks))
        assert scan.tail_loss() is None and not scan.ended and not losses(result)


def test_cut_off_anywhere_all_before_is_present() -> None:
    whole, rng = session(), random.Random(9)
    for _ in range(200):
        cut = rng.randrange(len(whole.data))
        result, scan = scanned(whole.data[:cut])
        before = [c.ticks for c, end in zip(whole.chunks, whole.ends, strict=True) if end <= cut]
        assert numbers(result) == list(range(sum(before)))
        rest = scan.tail_loss()
        if cut in whole.ends or cut == 0:
            assert rest is None
        elif rest is None:  # between two frames: the first has its end, the second no block yet
            behind = whole.data[max(end for end in whole.ends if end < cut) : cut]
            assert behind.startswith(FRAME_END)
            assert len(behind) < len(FRAME_END) + SIZE + 18
        elif cut < whole.ends[-1]:
            assert not rest.damage and rest.ticks in (1, None)
            assert 0 < rest.size_bytes < cut + 1
            assert rest.why == (BREAKS_OFF if rest.ticks else BREAKS_OFF_BETWEEN)
            if rest.ticks is None:  # a frame has ended or is about to: what was next is not told
                ends = whole.data[: cut - rest.size_bytes].endswith(FRAME_END)
                ends |= FRAME_END.startswith(whole.data[cut - rest.size_bytes : cut])
                assert rest.size_bytes < SIZE and (ends or cut == rest.size_bytes)


def test_cut_off_within_the_end_no_tick_is_lost() -> None:
    data = session().data
    assert len(data) == session().ends[-1] + len(FRAME_END) + SIZE
    for left in range(1, SIZE + len(FRAME_END)):
        result, scan = scanned(data[:-left])
        rest = scan.tail_loss()
        assert numbers(result) == list(range(TICKS)) and not scan.ended
        if left == SIZE:  # as if the frame had ended and nothing was next
            assert rest is None
            continue
        assert rest is not None and not rest.damage
        assert rest.ticks == (0 if left <= SIZE - 24 else None)
        assert rest.sentence.endswith(f"{BREAKS_OFF_BETWEEN} ({counted(rest.size_bytes, 'byte')})")


def test_bits_flipped_anywhere_cost_one_frame_and_it_is_reported() -> None:
    whole, rng = session(), random.Random(7)
    frames = [at for at, chunk in enumerate(whole.chunks) if chunk.starts]
    assert len(frames) == 3
    anywhere = [rng.randrange(len(whole.data)) for _ in range(90)]
    for where in (*range(SIZE), *anywhere):
        spoilt = bytearray(whole.data)
        spoilt[where] ^= 1 << rng.randrange(8)
        result, scan = scanned(bytes(spoilt))
        read = numbers(result)
        assert read == sorted(set(read)) and len(read) >= TICKS - FRAME
        for tick in ticks_of(result):
            assert same(tick.sample, whole.samples[tick.number])
        reports = losses(result)
        rest = scan.tail_loss()
        lost = sum(item.ticks or 0 for item in reports)
        if rest is not None:
            assert rest.size_bytes > 0 and rest.sentence
            lost += rest.ticks or 0
        # What is missing in the middle is counted exactly; at the end as far as blocks tell.
        assert any(item.ticks is None for item in reports) == (where < SIZE)
        if where < SIZE:  # nothing says with which number it begins
            assert [entry.ticks for entry in reports] == [None] and read == [*range(FRAME, TICKS)]
            assert reports[0].sentence.startswith("an unknown number of")
        elif rest is None:
            assert lost == TICKS - len(read)
        elif rest.ticks is not None:
            assert lost >= TICKS - len(read)


@settings(max_examples=40)
@given(st.data())
def test_whatever_is_put_in_or_cut_out_nothing_raises(data: st.DataObject) -> None:
    whole = session().data
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, min(len(whole), start + 5000)))
    result, scan = scanned(whole[:start] + data.draw(st.binary(max_size=300)) + whole[end:])
    scan.tail_loss()
    for tick in ticks_of(result):
        assert same(tick.sample, session().samples[tick.number])


@settings(max_examples=60)
@given(st.binary(max_size=400), st.booleans())
def test_what_is_no_recording_is_none(data: bytes, behind: bool) -> None:
    point = packed(session().chunks[0].after)
    result, scan = scanned(point + data if behind else data)
    scan.tail_loss()
    assert not numbers(result)


def test_recordings_stand_behind_one_another_finished_or_not() -> None:
    first, second = session(), taken(3, cpus=2, began_ns=2)
    for before in (first.data, joined(first.chunks), first.data[: first.ends[-1] - 5]):
        result, scan = scanned(before + second.data)
        assert numbers(result)[-3:] == [0, 1, 2] and scan.ended
        assert len(numbers(result)) >= TICKS + 2
        # How many ticks were in what is cut off before another recording nobody can tell.
        assert [loss.ticks for loss in losses(result)] in ([], [None])


def test_lost_ticks_have_the_reason_that_was_recorded() -> None:
    whole = session()
    chunks = list(whole.chunks[:4])
    encoder = Encoder(whole.header)
    sample = whole.samples[11]
    gap = DroppedTicks(11, "the disk was full")
    chunks.append(encoder.note(gap, sample.wall_ns, sample.monotonic_ns))
    chunks.append(encoder.tick(14, sample))
    result, _ = scanned(joined(chunks))
    assert numbers(result) == [*range(4), 14]
    (loss,) = losses(result)
    assert loss == RecordingLoss(10, 0, "the disk was full")
    assert loss.sentence == "10 ticks lost: the disk was full"


def test_a_growing_file_is_read_as_it_grows() -> None:
    whole = session()
    data = Bytes(b"")
    scan = Scan(data)
    result: list[ScanItem] = []
    rng = random.Random(3)
    while len(data.data) < len(whole.data):
        size = len(data.data) + rng.choice([1, 7, 500, 3000])
        data.data = whole.data[:size]
        while (row := scan.next()) is not None:
            result.append(row)
    assert numbers(result) == list(range(TICKS)) and scan.ended


def test_seek_points_are_detected_by_time_from_anywhere() -> None:
    whole = session()
    data = Bytes(whole.data)
    starts = [location for location in positions(data, 0) if not location.point.end]
    assert [location.point.number for location in starts] == [0, FRAME, 2 * FRAME]
    assert [location.point.events for location in starts] == [0, 1, 2]
    for number in (0, 1, FRAME - 1, FRAME, FRAME + 1, 2 * FRAME - 1, 2 * FRAME, TICKS - 1):
        wall_ns = whole.samples[number].wall_ns
        location = last_before(data, beyond(wall_ns))
        assert location == starts[number // FRAME]
    early = last_before(data, lambda _: True)
    assert early == starts[0]
    end = last_position(data)
    assert end is not None and end.point.end and end.point.number == TICKS
    assert last_before(Bytes(b"nothing" * 100), lambda _: False) is None


def test_many_seek_points_are_bisected() -> None:
    # Frames large enough that not all of the file can be looked at.
    point = session().chunks[0].after
    frame = b"\x28\xb5\x2f\xfd\x00\x58" + FRAME_END + b"x" * 50_000
    blocks = [
        packed(replace(point, number=at, wall_ns=at * 60, end=False)) + frame for at in range(200)
    ]
    data = Bytes(b"".join(blocks))
    reads = 0
    inner = data.read

    def counted(at: int, size: int) -> bytes:
        nonlocal reads
        reads += 1
        return inner(at, size)

    data.read = counted  # type: ignore[method-assign]
    for at in (0, 1, 77, 150, 199):
        location = last_before(data, beyond(at * 60 + 5))
        assert location is not None and location.point.number == at
    assert reads / 5 < 40


def test_a_seek_point_is_as_long_as_it_reports() -> None:
    assert len(packed(session().chunks[0].after)) == SIZE == 60


class Counted(Bytes):
    """Gives up where it is asked without end."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.reads = 0

    def read(self, at: int, size: int) -> bytes:
        self.reads += 1
        assert self.reads < 500
        return super().read(at, size)


def flipped(where: int, bit: int) -> bytes:
    spoilt = bytearray(session().data)
    spoilt[where] ^= 1 << bit
    return bytes(spoilt)


def test_a_flip_at_the_beginning_of_any_frame_ends_the_scan_all_the_same() -> None:
    whole = session()
    # FRAME_END and a seek point, then a zstd frame's head; the end has none.
    heads = [location.at - len(FRAME_END) for location in positions(Bytes(whole.data), 1)]
    assert len(heads) == 3
    near = {at + index for at in heads for index in range(90)} | set(range(200))
    for where in sorted(item for item in near if item < len(whole.data)):
        scan = Scan(Counted(flipped(where, where % 8)), samples=False)
        while scan.next() is not None:
            pass
        scan.tail_loss()


@pytest.mark.parametrize("frame", [0, 1, 2])
def test_a_frame_that_is_spoilt_at_its_beginning_is_counted(frame: int) -> None:
    whole = session()
    location = list(positions(Bytes(whole.data), 0))[frame]
    for at, bit in ((0, 0), (1, 3), (4, 2)):
        result, scan = scanned(flipped(location.at + SIZE + at, bit))
        kept = [number for number in range(TICKS) if number // FRAME != frame]
        assert numbers(result) == kept and scan.tail_loss() is None
        (loss,) = losses(result)
        assert (
            loss.ticks == TICKS - len(kept) and loss.size_bytes > 0 and "Zstandard" not in loss.why
        )


def test_zeros_that_a_file_system_left_are_a_loss() -> None:
    whole = session()
    result, scan = scanned(whole.data[: whole.ends[-1]] + bytes(1 << 16))
    rest = scan.tail_loss()
    assert numbers(result) == list(range(TICKS))
    assert rest is not None and rest.ticks is None and rest.size_bytes == 1 << 16


def test_nobody_counts_the_ticks_of_a_frame_that_does_not_begin() -> None:
    whole = session()
    last = [location for location in positions(Bytes(whole.data), 0) if not location.point.end][-1]
    result, scan = scanned(flipped(last.at + SIZE, 0)[:-100])
    rest = scan.tail_loss()
    assert not losses(result) and rest is not None and rest.ticks is None and rest.size_bytes > 0
