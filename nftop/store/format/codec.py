"""Encodes values of a shape as columns, and decodes them.

Every part of a shape becomes columns over all values at once, so that a thousand rows of a table
are a few columns. Parts without values have no column. Order: fields of a record; for lists, sets
and maps their lengths, then all values within; for `one_of` the index in the shape of each value,
then the values of the first, of the second, and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, fields
from itertools import accumulate, chain
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np

from nftop.model.missing import Missing, Reason
from nftop.model.struct import dataclass, field_names
from nftop.store.format.column_bytes import (
    NUMBER_BYTES,
    REFERENCE_BYTES,
    SHARED_NUMBERS,
    ColumnReader,
    ColumnWriter,
    DamagedRecordingError,
    FieldKey,
    Numbers,
    texts_bytes,
    values_bytes,
)
from nftop.store.format.schema import Fields, Shape, classes, described

WriteColumn: TypeAlias = Callable[[list[Any], ColumnWriter], None]
# Given a record's name, a field's, and the values.
CheckField: TypeAlias = Callable[[str, str, list[Any]], None]
ReadColumn: TypeAlias = Callable[[int, ColumnReader], list[Any]]

_INT = frozenset({int})
# How words are written, and what may be read: a whole number may stand where a float is promised.
_DTYPES = {"int": (int, "i8"), "float": (float, "f8")}
_KINDS: Mapping[str, frozenset[type]] = {
    "int": _INT,
    "float": frozenset({float, int}),
    "text": frozenset({str, bytes}),
    "bool": frozenset({bool}),
    "none": frozenset({type(None)}),
}


@dataclass(frozen=True, slots=True)
class _Memory:
    """Memory of a collection in bytes: empty, and for each of its values."""

    empty: int
    value: int

    def of(self, count: int, values: int) -> int:
        """`count` collections that have so many values together."""
        return self.empty * count + self.value * values


# sys.getsizeof of CPython 3.11, the largest by value; the garbage collector adds 16 bytes.
_MEMORY: Mapping[str, _Memory] = {
    "list": _Memory(64, REFERENCE_BYTES),
    "set": _Memory(240, 72),
    "map": _Memory(256, 104),
    "items": _Memory(64, REFERENCE_BYTES),
    "record": _Memory(48, REFERENCE_BYTES),
}
_COLLECTIONS: Mapping[str, Callable[[Any], Any]] = {"list": tuple, "set": frozenset}
_ORDERS: Mapping[str, Callable[[Any], list[Any]]] = {"list": list, "set": sorted}


class UnknownError(Exception):
    """A recording has a record that this nftop does not know; the text says which."""


class Codec:
    """Encodes and decodes values of the shapes that `records` describe.

    `records` are this nftop's to encode, the recording's own to decode. An unknown field is
    skipped, a missing one gets its default.
    """

    def __init__(
        self, records: Mapping[str, Fields] | None = None, *, check: CheckField | None = None
    ) -> None:
        """`check` is given all values read of a field of a record."""
        self._check = check
        self._records = described() if records is None else records
        self._writers: dict[Shape, WriteColumn] = {}
        self._readers: dict[Shape, ReadColumn] = {}

    def write(self, shape: Shape, values: list[Any], out: ColumnWriter) -> None:
        """Raises TypeError, ValueError, OverflowError: they are not of that shape."""
        if not values:
            return
        if shape not in self._writers:
            self._writers[shape] = self._writer(shape)
        self._writers[shape](values, out)

    def read(self, shape: Shape, count: int, reader: ColumnReader) -> list[Any]:
        """Decode `count` values. Raises DamagedRecordingError, UnknownError."""
        if not count:
            return []
        reader.visit()
        if shape not in self._readers:
            self._readers[shape] = self._reader(shape)
        return self._readers[shape](count, reader)

    # Writing

    def _writer(self, shape: Shape) -> WriteColumn:
        if isinstance(shape, str):
            return _word_writer(shape)
        word, *inner = shape
        by_word: Mapping[str, Callable[[str, list[Any]], WriteColumn]] = {
            "list": self._list_writer,
            "set": self._list_writer,
            "map": self._map_writer,
            "items": self._items_writer,
            "one_of": self._union_writer,
            "record": self._record_writer,
        }
        return by_word[word](word, inner)

    def _list_writer(self, word: str, inner_shapes: Sequence[Shape]) -> WriteColumn:
        [of], ordered = inner_shapes, _ORDERS[word]

        def write(values: list[Any], out: ColumnWriter) -> None:
            inner = list(chain.from_iterable(map(ordered, values)))
            _write_lengths(values, out)
            if of != "int":
                self.write(of, inner, out)
                out.spend(_MEMORY[word].of(len(values), len(inner)))
                return
            if inner:
                out.numbers(inner, *_DTYPES["int"])
            distinct = set({id(value): value for value in values}.values())
            small = _all_small(out.kept[-1] if inner else b"", inner)
            total = sum(map(len, distinct))
            out.spend(_int_lists_bytes(word, len(distinct), total, small=small))
            out.spend(2 * REFERENCE_BYTES * len(values))

        return write

    def _map_writer(self, _word: str, of: Sequence[Shape]) -> WriteColumn:
        def write(values: list[Any], out: ColumnWriter) -> None:
            _write_lengths(values, out)
            self.write(of[0], list(chain.from_iterable(values)), out)
            self.write(of[1], [inner for value in values for inner in value.values()], out)
            out.spend(_MEMORY["map"].of(len(values), sum(map(len, values))))

        return write

    def _items_writer(self, _word: str, of: Sequence[Shape]) -> WriteColumn:
        def write(values: list[Any], out: ColumnWriter) -> None:
            for inner_shape, column in zip(of, zip(*values, strict=True), strict=True):
                self.write(inner_shape, list(column), out)
            out.spend(_MEMORY["items"].of(len(values), len(values) * len(of)))

        return write

    def _union_writer(self, _word: str, of: Sequence[Shape]) -> WriteColumn:
        index_of = {name: at for at, item in enumerate(of) for name in _names(item)}
        # A whole number where a float is promised, and only there.
        index_of.setdefault("int", index_of.get("float", -1))

        def write(values: list[Any], out: ColumnWriter) -> None:
            which = [index_of.get(type(value).__name__, -1) for value in values]
            if -1 in which:
                odd = type(values[which.index(-1)]).__name__
                raise TypeError(f"a {odd} where {of} is promised")
            out.numbers(which, int, "i8")
            out.spend(values_bytes(len(which), _INT))
            if which.count(which[0]) == len(which):
                self.write(of[which[0]], values, out)
                return
            for at, inner_shape in enumerate(of):
                mine = [v for v, kind in zip(values, which, strict=True) if kind == at]
                self.write(inner_shape, mine, out)

        return write

    def _record_writer(self, _word: str, names: Sequence[str]) -> WriteColumn:
        [name] = names
        shapes = [(field, shape, attrgetter(field)) for field, shape in self._records[name]]
        kind = classes()[name]
        width = len(field_names(kind))

        def write(values: list[Any], out: ColumnWriter) -> None:
            if set(map(type, values)) != {kind}:
                raise TypeError(f"not each is a {name}")
            for field, shape, get in shapes:
                column = list(map(get, values))
                if len(column) > 1:
                    self.write(shape, column, out)
                    continue
                key: FieldKey = (len(out.kept), name, field)
                if not out.write_unchanged(key, column[0]):
                    spent_bytes = out.spent_bytes
                    self.write(shape, column, out)
                    out.remember(key, column[0], spent_bytes)
            out.spend(_MEMORY["record"].of(len(values), len(values) * width))

        return write

    # Reading

    def _reader(self, shape: Shape) -> ReadColumn:
        if isinstance(shape, str):
            return _word_reader(shape)
        word, *inner = shape
        by_word: Mapping[str, Callable[[str, list[Any]], ReadColumn]] = {
            "list": self._list_reader,
            "set": self._list_reader,
            "map": self._map_reader,
            "items": self._items_reader,
            "one_of": self._union_reader,
            "record": self._record_reader,
        }
        if word not in by_word:
            raise UnknownError(f"it has a {word}")
        return by_word[word](word, inner)

    def _list_reader(self, word: str, inner_shapes: Sequence[Shape]) -> ReadColumn:
        of = inner_shapes[0]
        create = _COLLECTIONS[word]
        if of == "int":
            return lambda count, reader: _read_int_lists(count, reader, word)

        def read(count: int, reader: ColumnReader) -> list[Any]:
            lengths = _lengths(count, reader)
            reader.spend(_MEMORY[word].of(count, sum(lengths)), fresh=True)
            whole = self.read(of, sum(lengths), reader)
            return [create(items) for items in _slices(whole, lengths)]

        return read

    def _map_reader(self, _word: str, of: Sequence[Shape]) -> ReadColumn:
        def read(count: int, reader: ColumnReader) -> list[Any]:
            lengths = _lengths(count, reader)
            reader.spend(_MEMORY["map"].of(count, sum(lengths)), fresh=True)
            keys = self.read(of[0], sum(lengths), reader)
            values = self.read(of[1], sum(lengths), reader)
            pairs = zip(_slices(keys, lengths), _slices(values, lengths), strict=True)
            return [dict(zip(mine, theirs, strict=True)) for mine, theirs in pairs]

        return read

    def _items_reader(self, _word: str, of: Sequence[Shape]) -> ReadColumn:
        def read(count: int, reader: ColumnReader) -> list[Any]:
            reader.spend(_MEMORY["items"].of(count, count * len(of)), fresh=True)
            return list(
                zip(*(self.read(inner_shape, count, reader) for inner_shape in of), strict=True)
            )

        return read

    def _union_reader(self, _word: str, of: Sequence[Shape]) -> ReadColumn:
        def read(count: int, reader: ColumnReader) -> list[Any]:
            which = reader.values(count, _INT)
            if any(not 0 <= item < len(of) for item in which):
                raise DamagedRecordingError("a value is of no kind")
            shapes = [
                iter(self.read(inner_shape, which.count(at), reader))
                for at, inner_shape in enumerate(of)
            ]
            return [next(shapes[item]) for item in which]

        return read

    def _record_reader(self, _word: str, names: Sequence[str]) -> ReadColumn:
        name = names[0]
        kind, written = classes().get(name), self._records.get(name)
        if kind is None or written is None:
            raise UnknownError(f"it has a {name}")
        known = {field.name: field for field in fields(kind)}
        lacking = [
            value.name
            for value in known.values()
            if value.name not in dict(written)
            and value.default is MISSING
            and value.default_factory is MISSING
        ]
        if lacking:
            raise UnknownError(f"its {name} has no {', '.join(lacking)}")
        taken = [field for field, _ in written if field in known]
        if not taken:
            raise UnknownError(f"nothing of its {name} is known")

        def read(count: int, reader: ColumnReader) -> list[Any]:
            reader.spend(_MEMORY["record"].of(count, count * len(known)), fresh=True)
            columns: dict[str, list[Any]] = {}
            for field, shape in written:
                if field in known:
                    columns[field] = self._read_field((name, field), shape, count, reader)
                else:
                    self._pass(shape, count, reader)
            rows = zip(*(columns[field] for field in taken), strict=True)
            try:
                return [kind(**_fixed(kind, zip(taken, row, strict=True))) for row in rows]
            except (TypeError, ValueError) as error:
                raise DamagedRecordingError(f"no {name}: {error}") from None

        return read

    def _read_field(
        self, record_field: tuple[str, str], shape: Shape, count: int, reader: ColumnReader
    ) -> list[Any]:
        key: FieldKey = (len(reader.kept), *record_field)
        unchanged = reader.take_unchanged(key) if count == 1 else None
        if unchanged is not None:
            return [unchanged.value]
        budget = reader.budget
        values = self.read(shape, count, reader)
        if self._check is not None:
            self._check(*record_field, values)
        if count == 1:
            reader.remember(key, values[0], budget)
        return values

    def _pass(self, shape: Shape, count: int, reader: ColumnReader) -> None:
        """Skip `count` values, also of records that only the recording knows."""
        if not count:
            return
        reader.visit()
        if isinstance(shape, str):
            _pass_word(shape, count, reader)
            return
        word, *of = shape
        if word == "one_of":
            which = reader.values(count, _INT)
            for at, inner_shape in enumerate(of):
                self._pass(inner_shape, which.count(at), reader)
            return
        if word == "record":
            if of[0] not in self._records:
                raise UnknownError(f"it has a {of[0]}")
            shapes: Sequence[Shape] = [inner for _, inner in self._records[of[0]]]
        elif word in ("list", "set", "map", "items"):
            shapes = of
        else:
            raise UnknownError(f"it has a {word}")
        inner_count = count if word in ("record", "items") else sum(_lengths(count, reader))
        for inner_shape in shapes:
            self._pass(inner_shape, inner_count, reader)


def _fixed(kind: type, pairs: Any) -> dict[str, Any]:
    reader = dict(pairs)
    if kind is Missing:
        reader["reason"] = Reason(reader["reason"])
    return reader


def _word_writer(word: str) -> WriteColumn:
    if word == "array":
        return _write_arrays
    kinds = _KINDS[word]

    def write(values: list[Any], out: ColumnWriter) -> None:
        if word in _DTYPES:
            out.numbers(values, *_DTYPES[word])
        else:
            out.values(values)
        out.spend(values_bytes(len(values), kinds))
        if word == "text":
            out.spend(texts_bytes(values))

    return write


def _write_arrays(values: list[Any], out: ColumnWriter) -> None:
    for value in values:
        out.array(value)


def _write_lengths(values: list[Any], out: ColumnWriter) -> None:
    out.numbers(list(map(len, values)), int, "i8")
    out.spend(values_bytes(len(values), _INT))


def _word_reader(word: str) -> ReadColumn:
    if word == "array":
        return lambda count, reader: [reader.array() for _ in range(count)]
    kinds = _KINDS.get(word)
    if kinds is None:
        raise UnknownError(f"it has a {word}")
    if word == "text":
        return _read_texts
    return lambda count, reader: reader.values(count, kinds)


def _read_texts(count: int, reader: ColumnReader) -> list[str]:
    texts = [_text(value) for value in reader.values(count, _KINDS["text"])]
    reader.spend(texts_bytes(texts))
    return texts


def _pass_word(word: str, count: int, reader: ColumnReader) -> None:
    if word == "array":
        for _ in range(count):
            reader.array()
    elif word in _KINDS:
        reader.column(count)
    else:
        raise UnknownError(f"it has a {word}")


def _read_int_lists(count: int, reader: ColumnReader, word: str) -> list[Any]:
    """Lists or sets of integers; equal ones are one object, as are small integers.

    Threads of a host often may run on the same CPUs: a thousand of them on all of 512.
    """
    lengths = _lengths(count, reader)
    total = sum(lengths)
    column = reader.column(total) if total else []
    _check_integers(column)
    small = _all_small(column, column)
    unique: dict[Any, Any] = {}
    lists, first = [], 0
    for length in lengths:
        items = column[first : first + length]
        key = tuple(items) if isinstance(items, list) else items.tobytes()
        if key not in unique:
            reader.spend(_int_lists_bytes(word, 1, length, small=small), fresh=True)
            values = items if isinstance(items, list) else items.tolist()
            shared = map(SHARED_NUMBERS.__getitem__, values) if small else values
            unique[key] = _COLLECTIONS[word](shared)
        lists.append(unique[key])
        first += length
    reader.spend(2 * REFERENCE_BYTES * count, fresh=True)
    return lists


def _check_integers(column: list[Any] | Numbers) -> None:
    whole = (
        _INT.issuperset(map(type, column))
        if isinstance(column, list)
        else column.dtype.kind in "iu"
    )
    if not whole:
        raise DamagedRecordingError("a column is not what its shape says")


def _all_small(column: list[Any] | bytes | Numbers, values: Collection[Any]) -> bool:
    """Whether all values of a column are in `SHARED_NUMBERS`."""
    if isinstance(column, np.ndarray):
        least, most = (column.min(), column.max()) if column.size else (0, 0)
    elif not _INT.issuperset(map(type, values)):
        return False
    else:
        least, most = min(values, default=0), max(values, default=0)
    return bool(least >= 0 and most < len(SHARED_NUMBERS))


def _int_lists_bytes(word: str, count: int, values: int, *, small: bool) -> int:
    """Memory of `count` different lists with so many integers, which are shared if `small`."""
    size = _MEMORY[word].of(count, values)
    return size if small else size + NUMBER_BYTES * values


def _text(value: str | bytes) -> str:
    if isinstance(value, str):
        return value
    try:
        return value.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise DamagedRecordingError(f"no text: {error}") from None


def _names(shape: Shape) -> tuple[str, ...]:
    if isinstance(shape, str):
        if shape == "array":
            return (np.ndarray.__name__,)
        python = {"text": "str", "none": "NoneType", "int": "int", "bool": "bool"}
        return ("float", "float64") if shape == "float" else (python[shape],)
    words = {"list": "tuple", "items": "tuple", "set": "frozenset", "map": "dict"}
    return (shape[1],) if shape[0] == "record" else (words[shape[0]],)


def _lengths(count: int, reader: ColumnReader) -> list[int]:
    lengths = reader.values(count, _INT)
    if any(length < 0 for length in lengths):
        raise DamagedRecordingError("a length below 0")
    return lengths


def _slices(whole: list[Any], lengths: list[int]) -> list[list[Any]]:
    ends = accumulate(lengths)
    return [whole[end - length : end] for length, end in zip(lengths, ends, strict=True)]
