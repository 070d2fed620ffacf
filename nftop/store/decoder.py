"""The bodies of records back to what they were."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from nftop.model.reading import Missing, Reason
from nftop.model.sample import Sample, SourceReading
from nftop.store.codec import Codec, UnknownError
from nftop.store.columns import MOST_BYTES, DamagedError, Numbers, Reader
from nftop.store.records import Header, Record, Tick, header_read, note_read

# Times up to the year 2262, numbers as many.
_MOST = 1 << 63
_SAMPLE = b"\xa6sample"  # as msgpack has it: what stands behind the byte for an array


@dataclass(slots=True)
class _Kept:
    reading: SourceReading[Any]
    columns: list[list[Any] | Numbers]
    size: int  # of the columns in memory, bytes


class Decoder:
    """Reads the records of one zstd frame after the other, in order."""

    def __init__(self, *, samples: bool = True) -> None:
        """Without `samples` those are passed over, which is fast."""
        self._samples = samples
        self._codec: Codec | None = None
        self._header: Header | None = None
        self._kept: dict[str, _Kept] = {}

    def begin(self) -> None:
        """A frame begins: nothing is written against what came before."""
        self._kept.clear()

    def record(self, body: bytes) -> Record | None:
        """What a record says; None for one of a kind that this nftop does not know.

        Raises:
            DamagedError: it makes no sense.
        """
        if not self._samples and body[1:8] == _SAMPLE:
            return None
        try:
            kind, *found = msgspec.msgpack.decode(body)
            if kind == "header":
                return self._begun(header_read(found[0]))
            if kind == "sample":
                return self._tick(*found)
            return note_read(kind, found[0])
        except DamagedError:
            raise
        except Exception as error:
            # The checksum was right, so somebody wrote it so: that is as good as damaged.
            raise DamagedError(f"a record makes no sense: {type(error).__name__}") from error

    def _begun(self, header: Header) -> Header:
        if self._header is None or header.records != self._header.records:
            self._codec = Codec(header.records)
        self._header = header
        return header

    def _tick(
        self, number: int, wall_ns: int, monotonic_ns: int, interval_ns: int, found: dict[str, Any]
    ) -> Tick:
        times = (number, wall_ns, monotonic_ns, interval_ns)
        if any(type(each) is not int or not 0 <= each < _MOST for each in times):
            raise DamagedError("a sample has no number or no time")
        for name in self._kept.keys() - found.keys():
            del self._kept[name]
        readings = {
            name: self._reading(name, written, monotonic_ns) for name, written in found.items()
        }
        return Tick(number, Sample(wall_ns, monotonic_ns, interval_ns, readings))

    def _reading(self, name: str, written: list[Any] | None, now_ns: int) -> SourceReading[Any]:
        before = self._kept.get(name)
        if written is None or len(written) == 2:
            if before is None:
                raise DamagedError("a reading lacks the one before it")
            if written is None:
                return before.reading
            behind, took_ns = _whole(*written)
            before.reading = SourceReading(before.reading.value, now_ns + behind, took_ns)
            return before.reading
        behind, took_ns, kind, said = written
        _whole(behind, took_ns)
        columns: list[list[Any] | Numbers] = [] if before is None else before.columns
        size = 0 if before is None else before.size
        value: Any
        if isinstance(kind, int):
            if not isinstance(said, str):
                raise DamagedError("why a reading is missing is no text")
            value = Missing(Reason(kind), said)
        else:
            others = sum(kept.size for other, kept in self._kept.items() if other != name)
            value, columns, size = self._payload(kind, said, columns, MOST_BYTES - others)
        reading = SourceReading(value, now_ns + behind, took_ns)
        self._kept[name] = _Kept(reading, columns, size)
        return reading

    def _payload(
        self, kind: str, found: list[Any], before: list[list[Any] | Numbers], budget: int
    ) -> tuple[Any, list[list[Any] | Numbers], int]:
        """A value, its columns, and their size in memory."""
        if self._codec is None:
            raise DamagedError("a sample before any header")
        reader = Reader(found, before, budget)
        try:
            (value,) = self._codec.read(("record", kind), 1, reader)
        except UnknownError as error:
            why = f"this recording is of another nftop, whose numbers this one can't read: {error}"
            return Missing(Reason.ERROR, why), [], 0
        reader.end()
        return value, reader.kept, budget - reader.budget


def _whole(behind: Any, took_ns: Any) -> tuple[int, int]:
    """When a source was read, against the sample's time, and how long that took, both in ns."""
    if any(type(each) is not int or abs(each) >= _MOST for each in (behind, took_ns)):
        raise DamagedError("a reading has no time")
    return behind, took_ns
