"""Search for a position in a recording, by time or marker, reading only a few blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nftop.model.struct import dataclass
from nftop.store.reading import seekpoint
from nftop.store.reading.bytes import Readable
from nftop.store.reading.seekpoint import SeekPoint

_AT_ONCE = 1 << 16
# Within this distance, seek points are read one after the other.
_NEAR = 1 << 19


@dataclass(frozen=True, slots=True)
class SeekPosition:
    """A seek point and its position."""

    at: int
    point: SeekPoint


def next_position(data: Readable, at: int, until: int | None = None) -> SeekPosition | None:
    """The first seek point from `at` on that begins before `until`; None if there is none.

    Raises OSError: the file can't be read.
    """
    at = max(at, data.first)
    while until is None or at < until:
        block = data.read(at, _AT_ONCE)
        offset = seekpoint.offset_in(block)
        if offset is not None:
            point = seekpoint.unpacked(block, offset)
            if point is None or (until is not None and at + offset >= until):
                return None
            return SeekPosition(at + offset, point)
        if len(block) < _AT_ONCE:
            return None
        at += len(block) - seekpoint.SIZE
    return None


def positions(data: Readable, at: int, until: int | None = None) -> Iterator[SeekPosition]:
    """Every seek point from `at` on, in order."""
    while (offset := next_position(data, at, until)) is not None:
        yield offset
        at = offset.at + seekpoint.SIZE


def last_before(data: Readable, beyond: Callable[[SeekPoint], bool]) -> SeekPosition | None:
    """The last seek point of a frame that is not `beyond`; the first if all are, None without any.

    `beyond` holds for all seek points after one for which it holds, so that few are read.
    """
    first = next_position(data, data.first)
    if first is None or first.point.end:
        return None
    low, high = first, data.size
    while high - low.at > _NEAR:
        middle = (low.at + high) // 2
        offset = next_position(data, middle, high)
        if offset is None or beyond(offset.point):
            high = middle
        elif offset.point.end:
            # Another recording may follow, beginning with a seek point.
            behind = next_position(data, offset.at + seekpoint.SIZE, high)
            if behind is None or beyond(behind.point):
                high = middle
            else:
                low = behind
        else:
            low = offset
    for offset in positions(data, low.at, high if high > low.at + seekpoint.SIZE else None):
        if beyond(offset.point):
            break
        if not offset.point.end:
            low = offset
    return low


def last_position(data: Readable) -> SeekPosition | None:
    """The last seek point of all, the end included; None if there is none."""
    at, size = data.size, _NEAR
    while True:
        start = max(at - size, data.first)
        block = None
        for block in positions(data, start):  # noqa: B007 - the last is wanted
            pass
        if block is not None or start == data.first:
            return block
        size *= 4
