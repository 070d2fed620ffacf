"""Rows of tables as CSV and JSON Lines, written as they come."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Protocol

from nftop.export.csv import text_cell
from nftop.export.json.encode import json_bytes
from nftop.export.json.frame import rfc3339
from nftop.export.tables.fields import Columns, Field, Table


class Writer(Protocol):
    """Writes one table.

    Attributes:
        rows: how many it has taken.
    """

    rows: int

    def write(self, columns: Columns) -> None:
        """Some rows. Raises what its file does."""

    def close(self) -> None:
        """Write what it still holds; its file stays open."""


def text_writer(form: str, table: Table, out: Callable[[str], None]) -> Writer:
    """Of `csv` or `jsonl`."""
    return CsvWriter(table, out) if form == "csv" else JsonWriter(table, out)


class CsvWriter:
    """A header line, then a line per row; an empty cell where there is nothing."""

    def __init__(self, table: Table, out: Callable[[str], None]) -> None:
        self.rows = 0
        self._out = out
        self._fields = table.fields
        self._lines([[field.name for field in table.fields]])

    def write(self, columns: Columns) -> None:
        shown = [_cells(field, column) for field, column in zip(self._fields, columns, strict=True)]
        rows = list(zip(*shown, strict=True))
        self.rows += len(rows)
        if rows:
            self._lines(rows)

    def close(self) -> None:
        """Nothing is held."""

    def _lines(self, rows: list[Any]) -> None:
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerows(rows)
        self._out(buffer.getvalue())


class JsonWriter:
    """A flat object per row: null where there is nothing, `missing` an object of reasons."""

    def __init__(self, table: Table, out: Callable[[str], None]) -> None:
        self.rows = 0
        self._out = out
        self._names = [field.name for field in table.fields]
        self._times = [at for at, field in enumerate(table.fields) if field.kind == "time"]
        self._missing = self._names.index("missing") if "missing" in self._names else None

    def write(self, columns: Columns) -> None:
        shown = list(columns)
        for at in self._times:
            shown[at] = [rfc3339(value) for value in shown[at]]
        if self._missing is not None:
            shown[self._missing] = [_reasons(text) for text in shown[self._missing]]
        lines = [
            json_bytes(dict(zip(self._names, row, strict=True))) for row in zip(*shown, strict=True)
        ]
        self.rows += len(lines)
        if lines:
            self._out(b"\n".join((*lines, b"")).decode())

    def close(self) -> None:
        """Nothing is held."""


def _cells(field: Field, values: Any) -> Any:
    if field.kind == "time":
        return [rfc3339(value) for value in values]
    return [text_cell(value) for value in values] if field.kind == "text" else values


@lru_cache(maxsize=4096)
def _reasons(text: str) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in text.split())
