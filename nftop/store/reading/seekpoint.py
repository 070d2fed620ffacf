"""Seek points: uncompressed blocks before every zstd frame of a recording.

Skippable frames of zstd (RFC 8878), so that `zstd -dc` passes over them. They can be found from any
place in the file, and say when and with which sample the frame behind them begins.
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
    """Attributes.

    wall_ns, monotonic_ns: of the first sample behind it.
    number: of that sample.
    events: how many markers, actions and changes are before it.
    end: nothing is behind it: the recording was finished here.
    """

    wall_ns: int
    monotonic_ns: int
    number: int
    events: int
    end: bool = False


def packed(point: SeekPoint) -> bytes:
    """As it is written."""
    kind = _END if point.end else _FRAME
    fields = _FIELDS.pack(
        _VERSION, kind, point.wall_ns, point.monotonic_ns, point.number, point.events
    )
    return _SIGNATURE + fields + _CRC.pack(crc32(fields))


def unpacked(data: bytes, at: int = 0) -> SeekPoint | None:
    """What stands at a place in `data`; None where that is no seek point, or not all of one."""
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
    """Whether a seek point, cut off or not, is that of an end; None: too little of it is left."""
    kind = data[_KIND_AT : _KIND_AT + 4]
    return None if len(kind) < 4 else int.from_bytes(kind, "little") == _END


def begins(data: bytes) -> bool:
    """Whether this may be the beginning of a seek point that is cut off."""
    return len(data) < SIZE and _SIGNATURE.startswith(data[: len(_SIGNATURE)])


def offset_in(data: bytes, start: int = 0) -> int | None:
    """The place of the first whole seek point in `data`; None where there is none."""
    at = data.find(_SIGNATURE, start)
    while at >= 0:
        if unpacked(data, at) is not None:
            return at
        at = data.find(_SIGNATURE, at + 1)
    return None
