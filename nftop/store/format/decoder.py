"""Decoding of record bodies."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta, Raw
from msgspec.msgpack import Decoder as MsgpackDecoder
from msgspec.msgpack import Ext

from nftop.model.missing import Missing, Reason
from nftop.model.sample import Sample, SourceReading
from nftop.model.sample_bounds import BoundsError, check
from nftop.model.struct import dataclass
from nftop.store.format.codec import Codec, UnknownError
from nftop.store.format.column_bytes import (
    MAX_COLUMNS,
    MOST_BYTES,
    ColumnReader,
    DamagedRecordingError,
    FieldKey,
    FieldValue,
    Numbers,
)
from nftop.store.format.records import (
    MOST_PLAIN_BYTES,
    MOST_TEXT,
    Header,
    Record,
    Tick,
    header_read,
    note_read,
)

# Times up to the year 2262, numbers as many.
_MOST = 1 << 63
# Everything is decoded level by level, of a known length: a record of a few MiB, decoded as plain
# lists, could take a hundred times its size in memory.
_RECORD = MsgpackDecoder(Annotated[list[Raw], Meta(min_length=2, max_length=6)])
_READINGS = MsgpackDecoder(Annotated[dict[str, Raw], Meta(max_length=64)])
_READING = MsgpackDecoder(Annotated[list[Raw], Meta(min_length=2, max_length=4)] | None)
_COLUMNS = MsgpackDecoder(Annotated[list[Raw], Meta(max_length=MAX_COLUMNS)])
_NUMBERS = MsgpackDecoder(Ext | None)
_VALUES = MsgpackDecoder(list[bool | int | float | str | None])
_BYTES = MsgpackDecoder(list[bool | int | float | bytes | None])
_TIME, _KIND = MsgpackDecoder(int), MsgpackDecoder(int | str)
_Column: TypeAlias = list[Any] | Ext | None
# The first byte of an array: fixarray, array 16, array 32.
_ARRAYS = frozenset(bytes([first]) for first in (*range(0x90, 0xA0), 0xDC, 0xDD))
_SAMPLE = b"\xa6sample"  # follows the byte of the array


@dataclass(frozen=True, slots=True)
class _Columns:
    """What the next sample of a source is decoded against; `size`: in memory, bytes."""

    kept: list[list[Any] | Numbers]
    fields: Mapping[FieldKey, FieldValue]
    size: int


_NO_COLUMNS = _Columns([], {}, 0)


@dataclass(slots=True)
class _Kept:
    reading: SourceReading[Any]
    columns: _Columns


class Decoder:
    """Decodes the records of one zstd frame after the other, in order."""

    def __init__(self, *, samples: bool = True) -> None:
        """Without `samples` these are skipped, which is fast."""
        self._samples = samples
        self._codec: Codec | None = None
        self._header: Header | None = None
        self._kept: dict[str, _Kept] = {}
        self._fresh_bytes = 0
        self._beyond = ""  # message on a field of the current payload beyond its bounds

    def begin(self) -> None:
        """Begin a frame: nothing in it refers to what came before."""
        self._kept.clear()

    def record(self, body: bytes) -> Record | None:
        """Decode a record; None for an unknown kind. Raises DamagedRecordingError."""
        if not self._samples and body[1:8] == _SAMPLE:
            return None
        try:
            kind, *fields = _RECORD.decode(body)
            word = msgspec.msgpack.decode(kind, type=str)
            if word == "sample":
                number, wall_ns, monotonic_ns, interval_ns = map(_TIME.decode, fields[:-1])
                readings = _READINGS.decode(fields[-1])
                return self._tick(number, wall_ns, monotonic_ns, interval_ns, readings)
            if len(body) > MOST_PLAIN_BYTES:
                raise DamagedRecordingError(f"a {word[:20]} longer than any")
            if word == "header":
                return self._begun(_header(bytes(fields[0])))
            return note_read(word, fields[0])
        except DamagedRecordingError:
            raise
        except Exception as error:
            # The checksum is right: invalid records are treated as damaged.
            raise DamagedRecordingError(
                f"a record makes no sense: {type(error).__name__}"
            ) from error

    def _begun(self, header: Header) -> Header:
        if self._header is None or header.records != self._header.records:
            self._codec = Codec(header.records, check=self._check)
            self._kept.clear()  # of other records
        self._header = header
        return header

    def _tick(
        self,
        number: int,
        wall_ns: int,
        monotonic_ns: int,
        interval_ns: int,
        fields: dict[str, msgspec.Raw],
    ) -> Tick:
        if any(not 0 <= item < _MOST for item in (number, wall_ns, monotonic_ns, interval_ns)):
            raise DamagedRecordingError("a sample has no number or no time")
        for name in self._kept.keys() - fields.keys():
            del self._kept[name]
        self._fresh_bytes = 0
        readings = {
            name: self._reading(name, written, monotonic_ns) for name, written in fields.items()
        }
        sample = Sample(wall_ns, monotonic_ns, interval_ns, readings)
        return Tick(number, sample, self._fresh_bytes)

    def _reading(self, name: str, raw: msgspec.Raw, now_ns: int) -> SourceReading[Any]:
        before = self._kept.get(name)
        written = _READING.decode(raw)
        if written is None or len(written) == 2:
            if before is None:
                raise DamagedRecordingError("a reading lacks the one before it")
            if written is None:
                return before.reading
            behind, took_ns = _whole(*map(_TIME.decode, written))
            before.reading = SourceReading(before.reading.value, now_ns + behind, took_ns)
            return before.reading
        behind, took_ns = _whole(*map(_TIME.decode, written[:2]))
        kind, payload = _KIND.decode(written[2]), written[3]
        columns = _NO_COLUMNS if before is None else before.columns
        if isinstance(kind, int):
            text = msgspec.msgpack.decode(payload, type=str)[:MOST_TEXT]
            value: Any = Missing(Reason(kind), text)
        else:
            others = sum(kept.columns.size for kept in self._kept.values()) - columns.size
            value, columns = self._payload(kind, payload, columns, MOST_BYTES - others)
        reading = SourceReading(value, now_ns + behind, took_ns)
        self._kept[name] = _Kept(reading, columns)
        return reading

    def _payload(
        self, kind: str, payload: msgspec.Raw, before: _Columns, budget: int
    ) -> tuple[Any, _Columns]:
        if self._codec is None:
            raise DamagedRecordingError("a sample before any header")
        columns = list(map(_column, _COLUMNS.decode(payload)))
        reader = ColumnReader(columns, before.kept, budget, before.fields)
        self._beyond = ""
        try:
            (value,) = self._codec.read(("record", kind), 1, reader)
        except UnknownError as error:
            why = f"this recording is of another nftop, whose numbers this one can't read: {error}"
            return Missing(Reason.ERROR, why), _NO_COLUMNS
        reader.end()
        # What is beyond its bounds is checked again in the next sample.
        fields = {} if self._beyond else reader.fields
        if self._beyond:
            # Later readings of this source, and other sources, can still be decoded.
            value = Missing(Reason.ERROR, f"what was recorded can't be: {self._beyond}")
        self._fresh_bytes += reader.fresh
        return value, _Columns(reader.kept, fields, budget - reader.budget)

    def _check(self, record: str, field: str, values: list[Any]) -> None:
        try:
            check(record, field, values)
        except BoundsError as error:
            self._beyond = self._beyond or str(error)


@lru_cache(maxsize=1)
def _header(raw: bytes) -> Header:
    """Decode a header. Frames of a recording have the same, and each seek begins a scan."""
    return header_read(msgspec.msgpack.decode(raw))


def _column(raw: msgspec.Raw) -> _Column:
    """Decode a column; only one level of an array is accepted.

    A list of lists takes some 70 bytes of memory a byte.
    """
    column: _Column
    if bytes(memoryview(raw)[:1]) not in _ARRAYS:
        column = _NUMBERS.decode(raw)
        return column
    try:
        column = _VALUES.decode(raw)
    except msgspec.ValidationError:
        column = _BYTES.decode(raw)  # texts that are not UTF-8
    return column


def _whole(behind: int, took_ns: int) -> tuple[int, int]:
    """Start of a reading relative to the sample's time, and its duration, both in ns."""
    if any(abs(item) >= _MOST for item in (behind, took_ns)):
        raise DamagedRecordingError("a reading has no time")
    return behind, took_ns
