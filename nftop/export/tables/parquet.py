"""Rows of tables as Parquet: typed columns, null where there is nothing. Needs pyarrow."""

from __future__ import annotations

from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from nftop import __version__
from nftop.export.tables.tables import Columns, ExportTable, Field

# Rows of a row group.
_HELD = 1 << 16
_TYPES = {
    "int": pa.int64(),
    "float": pa.float64(),
    "bool": pa.bool_(),
    "text": pa.string(),
    "time": pa.timestamp("ns", tz="UTC"),
}


class ParquetWriter:
    """A `TableWriter`. A field's metadata has its unit, the file's the table's name."""

    def __init__(self, name: str, table: ExportTable, file: IO[bytes]) -> None:
        self.rows = 0
        self._fields = table.fields
        about = {"nftop.table": name, "nftop.version": __version__}
        self._schema = pa.schema([_field(field) for field in table.fields], metadata=about)
        self._held: list[list[Any]] = [[] for _ in table.fields]
        self._writer = pq.ParquetWriter(file, self._schema, compression="zstd")

    def write(self, columns: Columns) -> None:
        for held, values in zip(self._held, columns, strict=True):
            held.extend(values)
        self.rows += len(columns[0])
        if len(self._held[0]) >= _HELD:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if self._held[0]:
            arrays = [
                pa.array(map(_whole, held) if field.kind == "text" else held, _TYPES[field.kind])
                for field, held in zip(self._fields, self._held, strict=True)
            ]
            self._writer.write_batch(pa.record_batch(arrays, schema=self._schema))
        self._held = [[] for _ in self._fields]


def _field(field: Field) -> Any:
    return pa.field(field.name, _TYPES[field.kind], metadata={"unit": field.unit})


def _whole(text: str | None) -> str | None:
    """Names of processes may have bytes that are not UTF-8."""
    return None if text is None else text.encode("utf-8", "replace").decode()
