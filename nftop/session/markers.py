"""Markers of a recording, found without reading all of it."""

from __future__ import annotations

from nftop.store.readable import Readable
from nftop.store.records import Marker
from nftop.store.scan import Scan
from nftop.store.seek import last_before, next_place
from nftop.store.seekpoint import SIZE


def next_marker(data: Readable, wall_ns: int) -> Marker | None:
    """The first marker after this time; None where there is none. Raises OSError."""
    place = last_before(data, lambda point: point.wall_ns > wall_ns)
    if place is None:
        return None
    mine = _markers(data, place.at)
    later = [each for each in mine if each.wall_ns > wall_ns]
    if later:
        return later[0]
    # Seek points count events, so that frames without any are passed over.
    before = place.point.events + len(mine)
    place = last_before(data, lambda point: point.events > before)
    later = [] if place is None else _markers(data, place.at)
    return next((each for each in later if each.wall_ns > wall_ns), None)


def marker_before(data: Readable, wall_ns: int) -> Marker | None:
    """The last marker before this time; None where there is none. Raises OSError."""
    place = last_before(data, lambda point: point.wall_ns > wall_ns)
    if place is None:
        return None
    earlier = [each for each in _markers(data, place.at) if each.wall_ns < wall_ns]
    if earlier:
        return earlier[-1]
    events = place.point.events
    if not events:
        return None
    place = last_before(data, lambda point: point.events > events - 1)
    return None if place is None else next(reversed(_markers(data, place.at)), None)


def _markers(data: Readable, at: int) -> list[Marker]:
    """Those of one zstd frame."""
    after = next_place(data, at + SIZE)
    scan = Scan(data, at, samples=False)
    found = []
    while after is None or scan.at < after.at:
        each = scan.next()
        if each is None or (after is not None and scan.at > after.at):
            break
        if isinstance(each, Marker):
            found.append(each)
    return found
