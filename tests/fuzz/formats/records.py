"""Records within a recording, behind its checksums: headers, samples, notes in MessagePack.

An input is a sequence of records, each behind its length (u32); what is read is a whole recording.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cache
from zlib import crc32

from nftop.export.json.frame import frame_json
from nftop.model.frame import Frame
from nftop.session.reader import Tape
from nftop.store.format.encoder import Chunk, Encoder
from nftop.store.format.records import MARKERS, DroppedTicks, Marker, Tick, framed
from nftop.store.format.zstd import FRAME_END, ZstdCompressor, ZstdDecompressor
from nftop.store.reading.scan import Scan
from nftop.store.reading.seekpoint import SIZE, SeekPoint, packed
from tests.recordings import Taken, taken
from tests.store.reading.test_scan import Bytes

_LENGTH = struct.Struct("<I")
_HEAD = struct.Struct("<II")
_TICKS, _FOLDED = 2, 32
MOST_FRAMES = 6
WORDS = (
    *(bytes([0xA0 + len(word)]) + word.encode() for word in ("header", "sample", "gap", *MARKERS)),
    b"\x90", b"\x80", b"\xc0", b"\xcb\x7f\xf8" + bytes(6), b"\xcf" + b"\xff" * 8,
    b"\xd3\x80" + bytes(7), b"\xdd\x00\x10\x00\x00", b"\xa7nothing", b"\xd9\x20" + b"x" * 32,
)  # fmt: skip


@cache
def sessions() -> tuple[Taken, ...]:
    """Short recordings, each of a few sources."""
    names = taken(1, cpus=2).samples[0].readings.keys()
    groups = [tuple(names)[at : at + 3] for at in range(0, len(names), 3)]
    return tuple(taken(_TICKS, cpus=2, sources=group) for group in groups)


def seeds() -> list[bytes]:
    result = []
    for session in sessions():
        encoder = Encoder(session.header)
        chunks: list[Chunk] = []
        for number, sample in enumerate(session.samples):
            times = sample.wall_ns, sample.monotonic_ns
            chunks.append(encoder.tick(number, sample))
            if number == 0:
                chunks.append(encoder.note(Marker("marker", *times, "a mark", {"a": 1}), *times))
                chunks.append(encoder.note(DroppedTicks(1, "why"), *times))
        result.append(packed_bodies(_bodies(chunks)))
    return result


def _bodies(chunks: list[Chunk]) -> Iterator[bytes]:
    """Records of the first frame, without their heads."""
    plain = ZstdDecompressor().decompress(
        b"".join(chunk.data for chunk in chunks)[SIZE:] + FRAME_END
    )
    at = 0
    while at < len(plain):
        (length, _) = _HEAD.unpack_from(plain, at)
        at += _HEAD.size + length
        yield bytes(plain[at - length : at])


def packed_bodies(bodies: Iterator[bytes]) -> bytes:
    return b"".join(_LENGTH.pack(len(body)) + body for body in bodies)


def recording_of(data: bytes) -> bytes:
    """A recording of the records in an input; a length beyond its end is cut."""
    compressor = ZstdCompressor(level=1)
    result, at = packed(SeekPoint(10**18, 10**9, 0, 0)), 0
    while at + _LENGTH.size <= len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        body = data[at : at + length]
        at += len(body)
        result += compressor.compress(framed(body), ZstdCompressor.FLUSH_BLOCK)
    return result + FRAME_END + packed(SeekPoint(10**18, 10**9, 0, 0, end=True))


def frames_of(data: bytes) -> list[Frame]:
    """The frames of an input, folded as a replay does."""
    tape = Tape(Bytes(recording_of(data)))
    frames: list[Frame] = []
    while len(frames) < MOST_FRAMES and (shown := tape.forward()) is not None:
        frames.append(shown.frame)
    tape.tail_loss()
    tape.unfinished()
    return frames


def play(data: bytes) -> None:
    """Decode every record; fold and write one in `_FOLDED` inputs; `openmetrics` folds all."""
    scan = Scan(Bytes(recording_of(data)))
    while (item := scan.next()) is not None:
        if isinstance(item, Tick):
            assert item.sample.readings is not None
    if crc32(data) % _FOLDED == 0:
        for frame in frames_of(data)[-1:]:
            assert frame_json(frame).startswith(b"{")
