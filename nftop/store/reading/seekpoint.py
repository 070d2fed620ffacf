"""Seek points: uncompressed blocks before every zstd frame of a recording.

They are skippable frames of zstd (RFC 8878), which `zstd -dc` ignores. They can be found from any
position in the file, and contain the time and number of the first sample of the next frame.
"""

from __future__ import annotations

import struct
from zlib import crc32

from nftop.model.struct import dataclass

_SIGNATURE = struct.pack("<II8s", 0x184D2A5E, 52, b"nftopREC")
# Version of the layout, kind, wall and monotonic time, number, events; then a CRC-32 of all that.
_FIELDS = struct.Struct("<IIQQQQ")
_CRC = struct.Struct("<I")
SIZE = len(_SIGNATURE) + _FIELDS.size + _CRC.size
_VERSION = 1
_FRAME, _END = 0, 1
_KIND_AT = len(_SIGNATURE) + 4


@dataclass(frozen=True, slots=True)
class SeekPoint:
    """Position in a recording at which reading can start.

    Attributes:
        wall_ns, monotonic_ns, number: of the first sample after it.
        events: number of markers, actions and changes before it.
        end: nothing follows: the recording was finished here.
    """

    wall_ns: int
    monotonic_ns: int
    number: int
    events: int
    end: bool = False


def packed(point: SeekPoint) -> bytes:
    kind = _END if point.end else _FRAME
    fields = _FIELDS.pack(
        _VERSION, kind, point.wall_ns, point.monotonic_ns, point.number, point.events
    )
    return _SIGNATURE + fields + _CRC.pack(crc32(fields))


def unpacked(data: bytes, at: int = 0) -> SeekPoint | None:
    """The seek point at a position in `data`; None if there is no whole one."""
    if data[at : at + len(_SIGNATURE)] != _SIGNATURE or len(data) < at + SIZE:
        return None
    fields = data[at + len(_SIGNATURE) : at + SIZE - _CRC.size]
    if crc32(fields) != _CRC.unpack_from(data, at + SIZE - _CRC.size)[0]:
        return None
    version, kind, wall_ns, monotonic_ns, number, events = _FIELDS.unpack(fields)
    if version != _VERSION:
        return None
    return SeekPoint(wall_ns, monotonic_ns, number, events, end=kind == _END)


def is_end(data: bytes) -> bool | None:
    """Whether a seek point, possibly cut off, is that of an end; None if too little is left."""
    kind = data[_KIND_AT : _KIND_AT + 4]
    return None if len(kind) < 4 else int.from_bytes(kind, "little") == _END


def begins(data: bytes) -> bool:
    """Whether this may be the beginning of a seek point that is cut off."""
    return len(data) < SIZE and _SIGNATURE.startswith(data[: len(_SIGNATURE)])


def offset_in(data: bytes, start: int = 0) -> int | None:
    """Offset of the first whole seek point in `data`; None if there is none."""
    at = data.find(_SIGNATURE, start)
    while at >= 0:
        if unpacked(data, at) is not None:
            return at
        at = data.find(_SIGNATURE, at + 1)
    return None
