"""Encoding of samples and notes into the chunks of a recording."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from nftop.model.baseline import Baselines
from nftop.model.missing import Missing, Reason
from nftop.model.sample import Sample, SourceReading
from nftop.model.struct import dataclass, field, replace
from nftop.store.format.codec import Codec
from nftop.store.format.column_bytes import MAX_COLUMNS, ColumnWriter, FieldKey, FieldValue, Numbers
from nftop.store.format.column_bytes import MOST_BYTES as MOST_UNPACKED_BYTES
from nftop.store.format.records import (
    MOST_BYTES,
    DroppedTicks,
    Header,
    Note,
    framed,
    header_body,
    note_body,
)
from nftop.store.format.zstd import ZstdCompressor
from nftop.store.reading.seekpoint import SeekPoint, packed

FRAME_NS = 60_000_000_000  # interval of seek points


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some whole blocks of zstd.

    Attributes:
        data: to be appended; if it `starts` a frame, after `FRAME_END` if a frame is open.
        starts: it begins with a seek point, so that nothing before it is needed.
        ticks: number of samples in it.
        after: seek point of what follows, the end of the recording if nothing does.
    """

    data: bytes
    starts: bool
    ticks: int
    after: SeekPoint


@dataclass(slots=True)
class _Kept:
    """The reading of a source that the next one is encoded against."""

    reading: SourceReading[Any]
    columns: list[bytes | Numbers]
    fields: Mapping[FieldKey, FieldValue] = field(default_factory=dict)
    size: int = 0  # memory that the columns take from a reader's budget, bytes


class Encoder:
    """Encodes one recording. A frame begins once a minute, and after `restart`."""

    def __init__(self, header: Header) -> None:
        self._about = header
        self._header = framed(header_body(header))
        self._codec = Codec()
        self._pack = msgspec.msgpack.Encoder().encode
        self._compressor: ZstdCompressor | None = None
        self._began_ns = 0
        self._kept: dict[str, _Kept] = {}
        self._after = SeekPoint(0, 0, 0, 0)

    def fork(self) -> Encoder:
        """Another encoder that goes on from here, with a frame of its own."""
        other = Encoder(self._about)
        other._after = self._after
        return other

    def restart(self) -> None:
        """Begin a frame with the next record."""
        self._compressor = None

    def kept(self, baselines: Baselines | None) -> None:
        """Set the baselines in the headers of later frames."""
        self._about = replace(self._about, baselines=baselines)
        self._header = framed(header_body(self._about))

    def tick(self, number: int, sample: Sample) -> Chunk:
        """Encode a sample. Values that can't be encoded become absent, with the reason."""
        if sample.monotonic_ns - self._began_ns >= FRAME_NS:
            self.restart()
        starts = self._begin(sample.wall_ns, sample.monotonic_ns, number)
        sizes = {name: kept.size for name, kept in self._kept.items()}
        body = self._pack(
            [
                "sample",
                number,
                sample.wall_ns,
                sample.monotonic_ns,
                sample.interval_ns,
                self._readings(sample),
            ]
        )
        if len(body) > MOST_BYTES:
            body = self._pack(
                [
                    "sample",
                    number,
                    sample.wall_ns,
                    sample.monotonic_ns,
                    sample.interval_ns,
                    self._too_long(sample, sizes),
                ]
            )
        self._after = SeekPoint(
            sample.wall_ns, sample.monotonic_ns, number + 1, self._after.events, end=True
        )
        return self._chunk(starts, framed(body), 1)

    def note(self, note: Note, wall_ns: int, monotonic_ns: int) -> Chunk:
        starts = self._begin(wall_ns, monotonic_ns, self._after.number)
        if not isinstance(note, DroppedTicks):
            self._after = replace(self._after, events=self._after.events + 1)
        return self._chunk(starts, framed(note_body(note)), 0)

    def _begin(self, wall_ns: int, monotonic_ns: int, number: int) -> bytes:
        """Begin a frame if none is open; the bytes before its first block."""
        if self._compressor is not None:
            return b""
        self._compressor = ZstdCompressor()
        self._began_ns = monotonic_ns
        self._kept.clear()
        point = SeekPoint(wall_ns, monotonic_ns, number, self._after.events)
        self._after = replace(point, end=True)
        return packed(point)

    def _chunk(self, point: bytes, record: bytes, ticks: int) -> Chunk:
        compressor = self._compressor
        if compressor is None:
            raise AssertionError("no frame was begun")
        plain = self._header + record if point else record
        data = compressor.compress(plain, ZstdCompressor.FLUSH_BLOCK)
        return Chunk(point + data, bool(point), ticks, self._after)

    def _readings(self, sample: Sample) -> Mapping[str, Any]:
        gone = self._kept.keys() - sample.readings.keys()
        for name in gone:
            del self._kept[name]
        return {
            name: self._reading(name, reading, sample.monotonic_ns)
            for name, reading in sample.readings.items()
        }

    def _too_long(self, sample: Sample, sizes: Mapping[str, int]) -> Mapping[str, Any]:
        """Every reading as absent: readers would refuse the sample.

        `sizes` are those of the sample before, which readers keep.
        """
        why = f"it could not be recorded: all of the sample takes more than {MOST_BYTES >> 20} MiB"
        self._kept = {
            name: _Kept(reading, [], size=sizes.get(name, 0))
            for name, reading in sample.readings.items()
        }
        return {
            name: [
                reading.read_at_ns - sample.monotonic_ns,
                reading.took_ns,
                int(Reason.ERROR),
                why,
            ]
            for name, reading in sample.readings.items()
        }

    def _reading(self, name: str, reading: SourceReading[Any], now_ns: int) -> list[Any] | None:
        """Encode a source: nil if unchanged, else its times and what has changed."""
        before = self._kept.get(name)
        if before is not None and before.reading is reading:
            return None
        times = [reading.read_at_ns - now_ns, reading.took_ns]
        value = reading.value
        if before is not None and before.reading.value is value:
            before.reading = reading
            return times
        if not isinstance(value, Missing):
            writer = self._written(name, value, before)
            if isinstance(writer, ColumnWriter):
                kept = _Kept(reading, writer.kept, writer.fields, writer.spent_bytes)
                self._kept[name] = kept
                return [*times, type(value).__name__, writer.out]
            value = writer
        if before is None:
            self._kept[name] = _Kept(reading, [])
        else:
            before.reading = reading
        detail = value.detail.encode("utf-8", "replace").decode()
        return [*times, int(value.reason), detail]

    def _written(self, name: str, value: Any, before: _Kept | None) -> ColumnWriter | Missing:
        """The columns of a source's value, or why no reader could decode them."""
        writer = ColumnWriter([]) if before is None else ColumnWriter(before.columns, before.fields)
        try:
            self._codec.write(("record", type(value).__name__), [value], writer)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            return Missing(Reason.ERROR, f"it could not be recorded: {error}")
        others = sum(kept.size for other, kept in self._kept.items() if other != name)
        if len(writer.out) > MAX_COLUMNS or writer.spent_bytes > MOST_UNPACKED_BYTES - others:
            why = f"with it the sample takes more than {MOST_UNPACKED_BYTES >> 20} MiB of memory"
            return Missing(Reason.ERROR, f"it could not be recorded: {why}")
        return writer
