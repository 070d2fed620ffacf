"""Output files of an export, as CSV, JSON Lines or Parquet; all are new, and removed on failure."""

from __future__ import annotations

import contextlib
import csv
import io
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, Protocol, TypeAlias

from nftop.export.csv import text_cell
from nftop.export.json.encode import json_bytes, rfc3339
from nftop.export.output import put
from nftop.export.tables.tables import (
    TABLES,
    Columns,
    ExportTable,
    Field,
    event_columns,
    gap_columns,
    table_of,
)
from nftop.model.frame import Frame
from nftop.model.recording_loss import RecordingLoss
from nftop.model.topology import Host
from nftop.store.folders import Folder, Person, open_folder
from nftop.store.format.records import Marker


class TableWriter(Protocol):
    """Writes one table. `rows`: the number of rows written."""

    rows: int

    def write(self, columns: Columns) -> None:
        """Write some rows. Raises errors of its file."""

    def flush(self) -> None:
        """Write buffered rows."""

    def close(self) -> None:
        """Write buffered rows, and what ends the file; it stays open."""


WriterFactory: TypeAlias = Callable[[str, IO[bytes]], TableWriter]


class CsvWriter:
    """A header line, then a line per row; an empty cell for an absent value."""

    def __init__(self, table: ExportTable, out: Callable[[str], object]) -> None:
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

    def flush(self) -> None:
        """No rows are buffered."""

    def close(self) -> None:
        """Nothing ends the file."""

    def _lines(self, rows: list[Any]) -> None:
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerows(rows)
        self._out(buffer.getvalue())


class JsonWriter:
    """A flat object per row: null for an absent value, `missing` an object of reasons."""

    def __init__(self, table: ExportTable, out: Callable[[str], object]) -> None:
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

    def flush(self) -> None:
        """No rows are buffered."""

    def close(self) -> None:
        """Nothing ends the file."""


def _cells(field: Field, values: Any) -> Any:
    if field.kind == "time":
        return [rfc3339(value) for value in values]
    return [text_cell(value) for value in values] if field.kind == "text" else values


@lru_cache(maxsize=4096)
def _reasons(text: str) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in text.split())


class OutputsError(Exception):
    """Nothing was exported; the text says why. File names in it are as they were typed."""


class OutputExistsError(OutputsError):
    """A file of that name exists."""


class Outputs:
    def __init__(
        self,
        path: Path | None,
        form: str,
        tables: Sequence[str],
        *,
        folder: bool,
        owner: Person | None,
        host: Host,
    ) -> None:
        """Create the files. Raises OutputsError: one exists or can't be created, or no Parquet.

        Args:
            path: the folder, or without `folder` the file of the only table; None: standard output.
            form: `csv`, `jsonl` or `parquet`.
            tables: of `TABLES`.
            folder: see `path`; it is created if needed.
            owner: their owner, as in `Folder.create`.
            host: which was recorded.
        """
        make = writer_factory(form)
        self._host = host
        self._writers: dict[str, TableWriter] = {}
        self._files: dict[str, IO[bytes]] = {}
        self._paths: dict[str, Path] = {}
        self._folder: Folder | None = None
        try:
            if path is None:
                writer = TEXT_WRITERS[form]
                self._writers[tables[0]] = writer(
                    TABLES[tables[0]], lambda text: put(sys.stdout, text)
                )
                return
            for name in tables:
                self._paths[name] = path / f"{name}.{form}" if folder else path
            self._folder = (
                open_folder(path, make_for=owner, make=True) if folder else open_folder(path.parent)
            )
            names = [entry.name for entry in self._paths.values()]
            taken = [entry for entry in names if self._folder.status(entry) is not None]
            if taken:
                self._folder.close()
                raise OutputExistsError(
                    f"{path / taken[0] if folder else path} exists, and nothing is written over"
                )
            for name, item in self._paths.items():
                self._files[name] = os.fdopen(self._folder.create(item.name, owner), "wb")
                self._writers[name] = make(name, self._files[name])
        except OSError as error:
            self.discard()
            raise unwritable(error, path) from None

    def tick(self, number: int, frame: Frame) -> None:
        """Write every row of a frame. Raises OutputsError, and OutputError of standard output."""
        for name, writer in self._writers.items():
            rows = TABLES[name].rows
            if rows is not None:
                self._write(name, writer, rows(number, frame))

    def marker(self, marker: Marker) -> None:
        """Write a marker. Raises as `tick`."""
        name = table_of(marker)
        if name in self._writers:
            self._write(name, self._writers[name], event_columns(self._host, marker))

    def losses(self, losses: Sequence[tuple[int, RecordingLoss]]) -> None:
        """Write what is missing. Raises as `tick`."""
        if "gaps" in self._writers:
            self._write("gaps", self._writers["gaps"], gap_columns(self._host, losses))

    def close(self) -> dict[str, int]:
        """Finish the files; number of rows by file name. Raises as `tick`."""
        opened = {}
        for name, writer in self._writers.items():
            path = self._paths.get(name)
            try:
                writer.close()
                if name in self._files:
                    self._files[name].close()
            except OSError as error:
                raise unwritable(error, path) from None
            if path is not None:
                opened[str(path)] = writer.rows
        if self._folder is not None:
            self._folder.close()
        return opened

    def discard(self) -> None:
        for name, file in self._files.items():
            # What can't be flushed is removed next.
            with contextlib.suppress(OSError):
                file.close()
            if self._folder is not None:
                with contextlib.suppress(OSError):
                    self._folder.remove(self._paths[name].name)
        if self._folder is not None:
            self._folder.close()

    def _write(self, name: str, writer: TableWriter, columns: Columns) -> None:
        try:
            writer.write(columns)
        except OSError as error:
            raise unwritable(error, self._paths.get(name)) from None


def unwritable(error: OSError, path: Path | None) -> OutputsError:
    """The error of a file; `path` if it does not name one."""
    where = error.filename or path or "standard output"
    return OutputsError(f"{where}: {error.strerror or error}")


def writer_factory(form: str) -> WriterFactory:
    """A function that creates the writer of a table's file. Raises OutputsError."""
    if form != "parquet":
        return lambda name, file: TEXT_WRITERS[form](
            TABLES[name], lambda text: file.write(text.encode())
        )
    try:
        from nftop.export.tables.parquet import ParquetWriter  # noqa: PLC0415 - an extra, and slow
    except ImportError:
        raise OutputsError(
            "Parquet needs pyarrow: pip install pyarrow, or export csv or jsonl"
        ) from None
    return lambda name, file: ParquetWriter(name, TABLES[name], file)


TEXT_WRITERS: Mapping[str, Callable[[ExportTable, Callable[[str], object]], TableWriter]] = {
    "csv": CsvWriter,
    "jsonl": JsonWriter,
}
