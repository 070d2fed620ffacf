"""Columns: the parts of a sample in a recording, each encoded as its changes.

A column is written as nil if it equals that of the sample before, else as

- an array of values: texts, few numbers, or values of different kinds;
- ext 1, numbers: dtype (one byte, numpy's character), dimensions (one byte), each as u32, planes;
- ext 2, numbers of the dtype and shape they had before, as the difference to those: planes.

Numbers are in Fortran's order. Differences are those of their bits as unsigned integers, modulo
their size, so nothing is rounded. Planes are all lowest bytes, then all second lowest, and so on;
those left out at the end are 0. Byte order is little endian.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import msgspec
import numpy as np
from msgspec.msgpack import Ext
from numpy.typing import NDArray

from nftop.model.struct import dataclass

Numbers: TypeAlias = NDArray[Any]

RAW, DELTA = 1, 2
FEW = 16  # a shorter list of numbers is encoded as values
# Memory of a sample, by the charges below: 512 CPUs with every source and 1,500 threads take
# 13 MiB, 20,000 threads 20 MiB.
MOST_BYTES = 32 << 20
# Columns of one payload; the longest of ours has some 300.
MAX_COLUMNS = 1 << 12
# CPython 3.11 on a 64-bit host: a reference to a value in its column and one in its record or
# list; int and float objects (sys.getsizeof, rounded up to the allocator's 16 bytes); a str, ASCII
# or with the widest characters.
REFERENCE_BYTES, NUMBER_BYTES = 8, 32
_TEXT_BYTES, _WIDE_TEXT_BYTES, _WIDE_CHARACTER_BYTES = 64, 96, 4
# Small integers, such as CPU numbers, are shared by all lists.
SHARED_NUMBERS: tuple[int, ...] = tuple(range(1 << 14))
_NUMBERS = frozenset({int, float})
_MAX_DIMENSIONS, _MAX_ROWS = 2, 1 << 22
_TOO_LARGE = "a sample takes more memory than any host's"
_DTYPES = {char: np.dtype(char) for char in "?bBhHiIlLqQefd"}


class DamagedRecordingError(Exception):
    """Invalid content of a recording; the text says what."""


def values_bytes(count: int, kinds: frozenset[type]) -> int:
    """Memory of `count` values of these types, without the characters of texts."""
    return count * (2 * REFERENCE_BYTES + (NUMBER_BYTES if kinds & _NUMBERS else 0))


def texts_bytes(texts: Iterable[str]) -> int:
    """Memory of texts without the references to them."""
    return sum(
        _TEXT_BYTES + len(text)
        if text.isascii()
        else _WIDE_TEXT_BYTES + _WIDE_CHARACTER_BYTES * len(text)
        for text in texts
    )


@dataclass(frozen=True, slots=True)
class FieldValue:
    """Value of a field of a record that occurred once, in the sample before.

    Attributes:
        columns: their number.
        spent_bytes: memory that they take from a reader's budget.
    """

    value: Any
    columns: int
    spent_bytes: int


# Position of a field's first column, name of its record, its own name: these give its shape.
FieldKey: TypeAlias = tuple[int, str, str]


class ColumnWriter:
    """Takes a sample's columns in order. `kept` is what the next sample is encoded against.

    `spent_bytes`: memory that a `ColumnReader` of these columns takes from its budget. `fields`:
    what the next sample need not encode again if it has the same objects. Methods raise TypeError
    or OverflowError for values that a recording can't contain.
    """

    def __init__(
        self, before: list[bytes | Numbers], fields: Mapping[FieldKey, FieldValue] | None = None
    ) -> None:
        self._before, self._fields = before, fields or {}
        self.fields: dict[FieldKey, FieldValue] = {}
        self.kept: list[bytes | Numbers] = []
        self.out: list[msgspec.Raw | Ext | None] = []
        self.spent_bytes = 0

    def spend(self, size_bytes: int) -> None:
        """Count memory that the reader takes from its budget in addition to that of arrays."""
        self.spent_bytes += size_bytes

    def write_unchanged(self, key: FieldKey, value: Any) -> bool:
        """Write a field as unchanged if its value is the object of before, else return False."""
        field = self._fields.get(key)
        if field is None or field.value is not value:
            return False
        at = len(self.kept)
        self.kept += self._before[at : at + field.columns]
        self.out += [None] * field.columns
        self.spent_bytes += field.spent_bytes
        self.fields[key] = field
        return True

    def remember(self, key: FieldKey, value: Any, spent_before: int) -> None:
        """Keep a field that was written for the next sample. `spent_before`: bytes, before it."""
        columns, spent_bytes = len(self.kept) - key[0], self.spent_bytes - spent_before
        self.fields[key] = FieldValue(value, columns, spent_bytes)

    def values(self, values: list[Any]) -> None:
        """Values of any kind of msgpack."""
        packed = _pack(values)
        before = self._previous()
        same = isinstance(before, bytes) and before == packed
        self._keep(packed, None if same else msgspec.Raw(packed))

    def numbers(self, values: list[Any], kind: type, dtype: str) -> None:
        """Values as an array if they are many of this kind, else as they are."""
        if len(values) >= FEW and set(map(type, values)) == {kind}:
            try:
                column = np.array(values, dtype)
            except OverflowError:
                pass
            else:
                self.array(column)
                return
        self.values(values)

    def array(self, column: Numbers) -> None:
        if column.dtype.char not in _DTYPES or column.dtype.byteorder == ">":
            raise TypeError(f"a recording can't hold numbers of {column.dtype}")
        if column.ndim > _MAX_DIMENSIONS or max(column.shape, default=0) > _MAX_ROWS:
            raise OverflowError(f"a recording can't hold an array of {column.shape} numbers")
        self.spent_bytes += column.nbytes
        before = self._previous()
        if before is column:
            self._keep(column, None)
            return
        bits = _bits(column)
        if (
            isinstance(before, np.ndarray)
            and before.dtype == column.dtype
            and before.shape == column.shape
        ):
            change = bits - _bits(before)
            planes = _planes(change)
            self._keep(column, Ext(DELTA, planes) if planes else None)
            return
        head = struct.pack(
            f"<cB{column.ndim}I", column.dtype.char.encode(), column.ndim, *column.shape
        )
        self._keep(column, Ext(RAW, head + _planes(bits)))

    def _previous(self) -> bytes | Numbers | None:
        at = len(self.kept)
        return self._before[at] if at < len(self._before) else None

    def _keep(self, kept: bytes | Numbers, out: msgspec.Raw | Ext | None) -> None:
        self.kept.append(kept)
        self.out.append(out)


class ColumnReader:
    """Returns the columns in the same order. `kept` is what the next sample's are decoded against.

    Few bytes can describe many numbers: `budget` is the memory in bytes that all columns may still
    take, roughly; `fresh` is how much of it is not shared with the sample before. `fields`: what
    the next sample shares if their columns do not change. Methods raise DamagedRecordingError if
    there is no such column, or no budget for it.
    """

    def __init__(
        self,
        columns: list[Any],
        before: list[list[Any] | Numbers],
        budget: int = MOST_BYTES,
        fields: Mapping[FieldKey, FieldValue] | None = None,
    ) -> None:
        self._fields = fields or {}
        self.fields: dict[FieldKey, FieldValue] = {}
        self.budget = budget
        self.fresh = 0
        self._is_new = True
        self._visits = 0
        self._columns = columns
        self._before = before
        self.kept: list[list[Any] | Numbers] = []

    def visit(self) -> None:
        """Count a part of a shape: a recording's own shapes are arbitrary, some have no columns."""
        self._visits += 1
        if self._visits > 4 * MAX_COLUMNS:
            raise DamagedRecordingError("a sample has more parts than any")

    def take_unchanged(self, key: FieldKey) -> FieldValue | None:
        """The field of the sample before, if none of its columns has changed."""
        field, at = self._fields.get(key), len(self.kept)
        if field is None or self._columns[at : at + field.columns].count(None) < field.columns:
            return None
        self.kept += self._before[at : at + field.columns]
        self._is_new = False
        self.spend(field.spent_bytes)
        self.fields[key] = field
        return field

    def remember(self, key: FieldKey, value: Any, budget_before: int) -> None:
        """Keep a field that was read for the next sample."""
        columns, spent_bytes = len(self.kept) - key[0], budget_before - self.budget
        self.fields[key] = FieldValue(value, columns, spent_bytes)

    def values(self, count: int, kinds: frozenset[type]) -> list[Any]:
        """`count` values of these types; the characters of texts are not charged."""
        size = values_bytes(count, kinds)
        if not 0 <= size <= self.budget:  # before any list of that length is made
            raise DamagedRecordingError(_TOO_LARGE)
        column = self.column(count)
        columns = column if isinstance(column, list) else column.tolist()
        if not kinds.issuperset(map(type, columns)):
            raise DamagedRecordingError("a column is not what its shape says")
        self.spend(size)
        return columns

    def column(self, count: int) -> list[Any] | Numbers:
        """A column of `count` values as it was written; arrays are not converted to lists."""
        column = self._next()
        shape = (len(column),) if isinstance(column, list) else column.shape
        if shape != (count,):
            raise DamagedRecordingError("a column is not what its shape says")
        return column

    def array(self) -> Numbers:
        column = self._next()
        if isinstance(column, list):
            raise DamagedRecordingError("a column has no numbers")
        return column

    def end(self) -> None:
        """Check that no column is left."""
        if len(self.kept) != len(self._columns):
            raise DamagedRecordingError("there are more columns than the shape says")

    def _next(self) -> list[Any] | Numbers:
        at = len(self.kept)
        if at >= len(self._columns):
            raise DamagedRecordingError("there are fewer columns than the shape says")
        columns = self._columns[at]
        before = self._before[at] if at < len(self._before) else None
        self._is_new = columns is not None
        if columns is None:
            column = before
            self.spend(before.nbytes if isinstance(before, np.ndarray) else 0)
        elif isinstance(columns, list):
            column = columns
        elif isinstance(columns, Ext) and columns.code == RAW:
            column = _raw(bytes(columns.data), self.spend)
        elif isinstance(columns, Ext) and columns.code == DELTA and isinstance(before, np.ndarray):
            self.spend(before.nbytes)
            change = _unplaned(bytes(columns.data), before.size, before.dtype.itemsize)
            column = _column(_bits(before) + change, before.dtype, before.shape)
        else:
            column = None
        if column is None:
            raise DamagedRecordingError("a column lacks the one before it")
        self.kept.append(column)
        return column

    def spend(self, size_bytes: int, *, fresh: bool = False) -> None:
        """Take memory from the budget; `fresh`: of objects that no sample before shares."""
        self.budget -= size_bytes
        if self.budget < 0:
            raise DamagedRecordingError(_TOO_LARGE)
        if fresh or self._is_new:
            self.fresh += size_bytes


def _pack(values: list[Any]) -> bytes:
    try:
        return msgspec.msgpack.encode(values, enc_hook=_plain)
    except UnicodeEncodeError:  # a path or a name that is not UTF-8, as Python holds it
        return msgspec.msgpack.encode([_as_bytes(value) for value in values], enc_hook=_plain)


def _as_bytes(value: Any) -> Any:
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


def _plain(value: Any) -> Any:
    """A numpy scalar as a Python number."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a recording can't hold a {type(value).__name__}")


def _bits(column: Numbers) -> Numbers:
    """All numbers in Fortran's order, as unsigned integers of the same size."""
    return column.ravel(order="F").view(f"u{column.dtype.itemsize}")


def _planes(bits: Numbers) -> bytes:
    size = bits.dtype.itemsize
    used = (int(np.bitwise_or.reduce(bits)).bit_length() + 7) // 8 if bits.size else 0
    return bits.view(np.uint8).reshape(-1, size).T[:used].tobytes()


def _unplaned(planes: bytes, count: int, size: int) -> Numbers:
    used = len(planes) // count if count else 0
    if used * count != len(planes) or used > size:
        raise DamagedRecordingError("a column of numbers is cut off")
    whole = np.zeros((count, size), np.uint8)
    # One after the other: a matrix at once, transposed, takes twice the time.
    for at, plane in enumerate(np.frombuffer(planes, np.uint8).reshape(used, count)):
        whole[:, at] = plane
    return whole.view(f"u{size}").reshape(count)


def _raw(data: bytes, spend: Callable[[int], None]) -> Numbers:
    if len(data) < 2 or chr(data[0]) not in _DTYPES or len(data) < 2 + 4 * data[1]:
        raise DamagedRecordingError("a column has no numbers that are known")
    dtype, ends = _DTYPES[chr(data[0])], 2 + 4 * data[1]
    shape = struct.unpack(f"<{data[1]}I", data[2:ends])
    # Checked one by one: with a 0 among them the array is empty, whatever the others are.
    if len(shape) > _MAX_DIMENSIONS or max(shape, default=0) > _MAX_ROWS:
        raise DamagedRecordingError("a column has more numbers than any host's")
    spend(math.prod(shape) * dtype.itemsize)
    return _column(_unplaned(data[ends:], math.prod(shape), dtype.itemsize), dtype, shape)


def _column(bits: Numbers, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Numbers:
    column = bits.view(dtype).reshape(shape, order="F")
    return np.ascontiguousarray(column)
