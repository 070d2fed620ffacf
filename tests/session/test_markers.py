"""Keys that go to the next marker or event, or the one before."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nftop.session.markers import marker_before, next_marker
from nftop.store.format.encoder import Chunk, Encoder
from nftop.store.format.records import Marker
from nftop.store.history.events import EventHistory
from nftop.store.reading.bytes import Readable
from tests.recordings import joined
from tests.samples import S
from tests.session.replays import number, replaying, session
from tests.store.reading.test_scan import Bytes


def test_markers_are_gone_to_in_both_directions() -> None:
    feed = replaying(paced=False)
    frames = feed.frames()
    next(frames)
    reports = []
    for step in (1, 1, 1, 1, -1, -1, -1):
        feed.to_marker(step)
        next(frames)
        here = feed.position
        assert here is not None and here.paused
        reports.append((here.number, here.remark))
    # A marker set within a tick belongs to the one that was on screen.
    assert reports == [
        (29, "mark 30"),
        (30, "mark 31"),
        (84, "mark 85"),
        (84, "no later event"),
        (30, "mark 31"),
        (29, "mark 30"),
        (29, "no earlier event"),
    ]


def test_events_that_are_no_markers_of_the_recording_are_gone_to_too() -> None:
    events, walls = EventHistory(), [sample.wall_ns for sample in session().samples]
    for wall_ns in (walls[50] + S // 4, walls[60], walls[0] - S, walls[-1] + S):
        events.mark(f"at {wall_ns}", wall_ns)
    feed = replaying(paced=False)
    feed.set_events(events)
    frames = feed.frames()
    next(frames)
    numbers = []
    for step in (1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1):
        feed.to_marker(step)
        next(frames)
        numbers.append(number(feed))
    assert numbers == [29, 30, 50, 60, 84, 84, 60, 50, 30, 29, 29]


def at_borders() -> tuple[bytes, list[int]]:
    """Three zstd frames of ten ticks, and markers around both borders; the times of these.

    Some are set while the first tick of a frame is taken, so that they are in the one before, and
    some behind the last tick of a frame, but written into the next.
    """
    few = session()
    encoder, chunks, walls = Encoder(few.header), list[Chunk](), list[int]()

    def mark(wall_ns: int) -> None:
        walls.append(wall_ns)
        note = Marker("marker", wall_ns, 0, f"mark {len(walls)}")
        chunks.append(encoder.note(note, wall_ns, 0))

    for at, sample in enumerate(few.samples[:30]):
        if at and at % 10 == 0:
            mark(sample.wall_ns - 3)
            if at == 10:
                mark(sample.wall_ns + 2)
            encoder.restart()
            if at == 20:
                mark(sample.wall_ns - 2)
                mark(sample.wall_ns - 1)
        chunks.append(encoder.tick(at, sample))
    return joined(chunks), walls


def test_all_markers_at_the_border_of_two_frames_are_reached() -> None:
    data, walls = at_borders()
    feed = replaying(data, paced=False)
    frames = feed.frames()
    next(frames)
    reports = []
    steps = [1] * (len(walls) + 1) + [-1] * len(walls)
    for step in steps:
        feed.to_marker(step)
        next(frames)
        here = feed.position
        assert here is not None
        reports.append((here.number, here.remark))
    present = [(9, "mark 1"), (10, "mark 2"), (19, "mark 3"), (19, "mark 4"), (19, "mark 5")]
    back = [*reversed(present[:-1]), (9, "no earlier event")]
    assert reports == [*present, (19, "no later event"), *back]


@pytest.mark.parametrize("direction", [next_marker, marker_before])
def test_markers_are_detected_from_any_time(
    direction: Callable[[Readable, int], Marker | None],
) -> None:
    data, walls = at_borders()
    source, first = Bytes(data), session().samples[0].wall_ns
    ticks = [sample.wall_ns for sample in session().samples[:30]]
    for wall_ns in sorted(
        [first - 1, *(wall + by for wall in (*walls, *ticks) for by in (-1, 0, 1))]
    ):
        result = direction(source, wall_ns)
        if direction is next_marker:
            expected = min((wall for wall in walls if wall > wall_ns), default=None)
        else:
            expected = max((item for item in walls if item < wall_ns), default=None)
        assert (None if result is None else result.wall_ns) == expected, wall_ns - first
