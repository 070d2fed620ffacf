"""Markers of a recording: all, or one without reading the whole file; the next event.

A seek point has the time of the first sample after it. A marker that was set while that sample was
taken may be before the seek point, and one after the last sample of a frame may be in the next. So
a search includes the adjacent frames.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TypeAlias

from nftop.model.recording_loss import RecordingLoss
from nftop.model.replay_position import Position
from nftop.model.struct import replace
from nftop.store.format.records import Marker
from nftop.store.history.events import EventHistory
from nftop.store.reading.bytes import Readable
from nftop.store.reading.scan import Scan, ScanItem
from nftop.store.reading.seek import SeekPosition, last_before, next_position
from nftop.store.reading.seekpoint import SIZE

_POLL_S = 0.25
_FRAMES_BACK = 16


def all_markers(data: Readable, news: threading.Event) -> Iterator[Marker | RecordingLoss]:
    """Every marker in order, and losses between them. Raises OSError.

    A pipe is read until its other end is closed; `news` is set when more data are available.
    """
    scan = Scan(data, samples=False)
    while True:
        news.clear()
        open_end = data.piped and data.grows
        item = scan.next()
        data.passed(scan.passed)
        if item is None and open_end:
            news.wait(_POLL_S)
        elif item is None:
            tail_loss = scan.tail_loss()
            if tail_loss is not None and tail_loss.damage:
                yield tail_loss
            return
        elif isinstance(item, Marker):
            yield item
        elif isinstance(item, RecordingLoss) and item.size_bytes:
            yield replace(item, ticks=None)  # samples are passed over, not counted


def next_marker(data: Readable, wall_ns: int) -> Marker | None:
    """The first marker after this time; None where there is none. Raises OSError."""
    here = last_before(data, lambda point: point.wall_ns > wall_ns)
    if here is None:
        return None
    near = _near(data, here)
    later = [marker for marker in _markers_of(data, near) if marker.wall_ns > wall_ns]
    if later:
        return min(later, key=lambda item: item.wall_ns)
    # Seek points count events, so that frames without any are passed over.
    last = near[-1]
    before = last.point.events + len(_markers(data, last.at))
    position = last_before(data, lambda point: point.events > before)
    markers = [] if position is None else _markers(data, position.at)
    return next((item for item in markers if item.wall_ns > wall_ns), None)


def marker_before(data: Readable, wall_ns: int) -> Marker | None:
    """The last marker before this time; None where there is none. Raises OSError."""
    here = last_before(data, lambda point: point.wall_ns > wall_ns)
    near = [] if here is None else _near(data, here)
    while near:
        earlier = [marker for marker in _markers_of(data, near) if marker.wall_ns < wall_ns]
        if earlier:
            return max(earlier, key=lambda item: item.wall_ns)
        near = _earlier(data, near)
    return None


FindingBegins: TypeAlias = dict[tuple[str, str], tuple[tuple[int, int], ...]]


def finding_begins(data: Readable, wall_ns: int) -> tuple[FindingBegins, bool]:
    """Wall time and CLOCK_MONOTONIC of noted begins of findings up to a time.

    By rule and subject (untrusted), the newest first, and whether these are all. Only the last
    frames with events are read, so that a jump is not slow. Raises OSError.
    """
    begins: FindingBegins = {}
    here = last_before(data, lambda point: point.wall_ns > wall_ns)
    positions = [] if here is None else _near(data, here)
    for _ in range(_FRAMES_BACK):
        # A finding is noted when it has lasted for some seconds, and may be in the next frame.
        for item in sorted(_markers_of(data, positions), key=lambda item: -item.wall_ns):
            noted = noted_begin(item)
            if noted is not None and noted[1][0] <= wall_ns:
                key, begin = noted
                known = begins.get(key, ())
                if not known or known[-1][0] > begin[0]:
                    begins[key] = (*known, begin)
        positions = _earlier(data, positions)
    return begins, not positions


def noted_begin(item: ScanItem) -> tuple[tuple[str, str], tuple[int, int]] | None:
    """Rule and subject of a noted finding, with its begin as `finding_begins` has it; else None."""
    if isinstance(item, Marker) and item.kind == "finding":
        match item.detail:
            case {"rule": str(rule), "where": str(where), "since_ns": int(since_ns)}:
                if 0 < since_ns <= item.wall_ns:
                    began_ns = item.monotonic_ns - (item.wall_ns - since_ns)
                    return (rule, where), (since_ns, began_ns)
    return None


def _earlier(data: Readable, positions: list[SeekPosition]) -> list[SeekPosition]:
    """The last frame with an event before the given ones; empty if there is none."""
    events = positions[0].point.events if positions else 0
    position = last_before(data, lambda point: point.events >= events) if events else None
    return [] if position is None or position.point.events >= events else [position]


def _near(data: Readable, here: SeekPosition) -> list[SeekPosition]:
    """A frame and those beside it, in order."""
    before = last_before(data, lambda point: point.wall_ns >= here.point.wall_ns)
    after = next_position(data, here.at + SIZE)
    return [
        *([before] if before is not None and before.at < here.at else []),
        here,
        *([after] if after is not None and not after.point.end else []),
    ]


def _markers_of(data: Readable, positions: list[SeekPosition]) -> list[Marker]:
    return [marker for position in positions for marker in _markers(data, position.at)]


def _markers(data: Readable, at: int) -> list[Marker]:
    """Those of one zstd frame."""
    after = next_position(data, at + SIZE)
    scan = Scan(data, at, samples=False)
    markers = []
    while after is None or scan.at < after.at:
        item = scan.next()
        if item is None or (after is not None and scan.at > after.at):
            break
        if isinstance(item, Marker):
            markers.append(item)
    return markers


def next_event(
    data: Readable, events: EventHistory | None, position: Position, wall_ns: int, step: int
) -> Marker | None:
    """The next marker or known event after this time (`step` 1), or the last before it (-1).

    `events`: of the recording, as far as they are known; those outside of it do not count.
    Raises OSError.
    """
    candidates = [(next_marker if step > 0 else marker_before)(data, wall_ns)]
    event = None if events is None else events.next_event(wall_ns, step)
    if event is not None and position.first_ns <= event.begin_ns <= position.last_ns:
        text = event.text or ("" if event.incident is None else event.incident.title)
        candidates.append(Marker(event.kind, event.begin_ns, 0, text))
    known = [item for item in candidates if item is not None]
    return min(known, key=lambda item: step * item.wall_ns, default=None)
