"""Markers of a recording: one found without reading all of it, or all of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

from nftop.store.readable import Readable
from nftop.store.records import Marker
from nftop.store.scan import Loss, Scan
from nftop.store.seek import last_before, next_place
from nftop.store.seekpoint import SIZE

_LOOK_S = 0.25


def all_markers(data: Readable, news: threading.Event) -> Iterator[Marker | Loss]:
    """Every marker there is, in order, and bytes between them that can't be read. Raises OSError.

    Of a pipe until its other end is closed: `news` is set when there is more of it.
    """
    scan = Scan(data, samples=False)
    while True:
        news.clear()
        open_end = data.piped and data.grows
        each = scan.next()
        if each is None and open_end:
            news.wait(_LOOK_S)
        elif each is None:
            rest = scan.rest()
            if rest is not None and rest.damage:
                yield rest
            return
        elif isinstance(each, Marker):
            yield each
        elif isinstance(each, Loss) and each.size:
            yield replace(each, ticks=None)  # samples are passed over, not counted


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
