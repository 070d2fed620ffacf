"""Rows of tables as Parquet: typed columns, null where there is nothing. Needs pyarrow."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nftop import __version__
from nftop.export.tables.tables import Columns, ExportTable

# Values of a row group, of all columns; as Python's objects they take some 40 MiB of memory.
_MOST_VALUES = 1 << 20
_TYPES = {
    "int": pa.int64(),
    "float": pa.float64(),
    "bool": pa.bool_(),
    "text": pa.string(),
    "time": pa.timestamp("ns", tz="UTC"),
}


# A mask of some rows, by their times.
_Mask: TypeAlias = Callable[[Any], Any]
# First and last, wall clock in ns.
_Times: TypeAlias = tuple[int, int]


class ParquetWriter:
    """A `TableWriter`. A field's metadata has its unit, the file's the table's name."""

    def __init__(self, name: str, table: ExportTable, file: IO[bytes]) -> None:
        self.rows = 0
        self._fields = table.fields
        about = {"nftop.table": name, "nftop.version": __version__}
        fields = (pa.field(f.name, _TYPES[f.kind], metadata={"unit": f.unit}) for f in table.fields)
        self._schema = pa.schema(fields, metadata=about)
        self._held: list[list[Any]] = [[] for _ in table.fields]
        self._writer = _opened(file, self._schema)

    def write(self, columns: Columns) -> None:
        for held, values in zip(self._held, columns, strict=True):
            held.extend(values)
        self.rows += len(columns[0])
        if len(self._held[0]) * len(self._fields) >= _MOST_VALUES:
            self.flush()

    def close(self) -> None:
        self.flush()
        self._writer.close()

    def flush(self) -> None:
        """Write what is held as a row group."""
        if self._held[0]:
            arrays = [
                pa.array(map(_whole, held) if field.kind == "text" else held, _TYPES[field.kind])
                for field, held in zip(self._fields, self._held, strict=True)
            ]
            self._writer.write_batch(pa.record_batch(arrays, schema=self._schema))
        self._held = [[] for _ in self._fields]


def _whole(text: str | None) -> str | None:
    """Names of processes may have bytes that are not UTF-8."""
    return None if text is None else text.encode("utf-8", "replace").decode()


class _UncollectedWriter(pq.ParquetWriter):  # type: ignore[misc]
    def __del__(self) -> None:
        """Not closed when collected: writing to a full disk would fail again, with a traceback."""


def _opened(file: IO[bytes], schema: Any) -> Any:
    return _UncollectedWriter(file, schema, compression="zstd")


def _others(file: IO[bytes], replaced: Sequence[_Times]) -> _Mask:
    """Of rows that stay beside those of `file`: they have other times, none of `replaced`."""
    own = _times(file)

    def mask(at: Any) -> Any:
        gone = pc.is_in(at, value_set=own)
        for first_ns, last_ns in replaced:
            inside = pc.and_(
                pc.greater_equal(at, _time(first_ns)), pc.less_equal(at, _time(last_ns))
            )
            gone = pc.or_(gone, inside)
        return pc.invert(gone)

    return mask


def has_others(old: IO[bytes], new: IO[bytes], replaced: Sequence[_Times]) -> bool:
    """Whether `old` has rows that `merged` takes over. Raises OSError."""
    return any(True for _ in _rows(old, ["time"], _others(new, replaced)))


def has_replaced(old: IO[bytes], new: IO[bytes], replaced: Sequence[_Times]) -> bool:
    """Whether `old` has rows that `merged` leaves out. Raises OSError."""
    others = _others(new, replaced)
    return any(True for _ in _rows(old, ["time"], lambda at: pc.invert(others(at))))


def row_count(file: IO[bytes]) -> int:
    """Rows of a file that this module has written."""
    return int(pq.read_metadata(file).num_rows)


def row_times(file: IO[bytes]) -> set[int]:
    """Wall clock of the rows in ns. Raises OSError."""
    return set(_times(file).cast(pa.int64()).to_pylist())


def merged(old: IO[bytes], new: IO[bytes], replaced: Sequence[_Times], out: IO[bytes]) -> None:
    """Rows of `new`, and those of `old` at other times that are not within `replaced`.

    A column that only one of the files has is null in rows of the other. Raises OSError.
    """
    try:
        schema = pa.unify_schemas([pq.ParquetFile(file).schema_arrow for file in (new, old)])
    except pa.ArrowException as error:
        raise _not_ours(error) from None
    others = _others(new, replaced)
    first = _time(min((first_ns for first_ns, _ in replaced), default=0))

    def before(at: Any) -> Any:
        return pc.and_(others(at), pc.less(at, first))

    def behind(at: Any) -> Any:
        return pc.and_(others(at), pc.greater_equal(at, first))

    with _opened(out, schema) as writer:
        for file, wanted in ((old, before), (new, None), (old, behind)):
            for batch in _rows(file, None, wanted):
                writer.write_table(_with_columns(batch, schema))


def _times(file: IO[bytes]) -> Any:
    """Times of the rows, each once at least."""
    times = [batch["time"].unique() for batch in _rows(file, ["time"], None)]
    return pa.concat_arrays(times) if times else pa.array([], _TYPES["time"])


def _rows(file: IO[bytes], columns: list[str] | None, wanted: _Mask | None) -> Iterator[Any]:
    """Rows by row group; `wanted` gives a mask of their times. Raises OSError."""
    try:
        opened = pq.ParquetFile(file)
        for number in range(opened.num_row_groups):
            table = opened.read_row_group(number, columns=columns)
            table = table if wanted is None else table.filter(wanted(table["time"]))
            if table.num_rows:
                yield table
    except (pa.ArrowException, KeyError) as error:
        raise _not_ours(error) from None


def _with_columns(table: Any, schema: Any) -> Any:
    """The table with all columns of a schema; null where it has none."""
    return pa.table(
        [
            table[field.name]
            if field.name in table.column_names
            else pa.nulls(len(table), field.type)
            for field in schema
        ],
        schema=schema,
    )


def _time(wall_ns: int) -> Any:
    return pa.scalar(wall_ns, _TYPES["time"])


def _not_ours(error: Exception) -> OSError:
    return OSError(errno.EINVAL, f"a file that is there is not one of this table: {error}")
