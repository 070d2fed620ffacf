"""The loader of the papers' tables; `papers.toml` explains their notation."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from typing import Any

from nftop.model.data_files import data_file
from nftop.model.struct import dataclass

# How many of nftop's own one of a unit as printed is, as a power of ten.
UNITS: Mapping[str, int] = {"": 0, "Mpps": 6, "MB/s": 6, "%": -2}
NOT_APPLICABLE = "n/a"


@dataclass(frozen=True, slots=True)
class PaperColumn:
    """A column of a table.

    Attributes:
        metric: nftop's id, if there is one (`ipc`, `tma.retiring`).
        printed: its header in the paper.
        unit: of its cells as printed: one of UNITS.
        smt: hyper-threading was on.
    """

    metric: str
    printed: str
    unit: str
    smt: bool


@dataclass(frozen=True, slots=True)
class PaperCell:
    """A cell as printed.

    Attributes:
        printed: its digits, `13,397`; or `n/a`.
        metric: the column's, unless the row has another quantity in it.
        scanned: the text of the scan, "" if it is the same.
        why: why the scan is wrong.
    """

    printed: str
    metric: str
    column: PaperColumn
    scanned: str = ""
    why: str = ""

    @property
    def value(self) -> float | None:
        """In nftop's units: packets and bytes per second, ratios 0..1. None if not applicable."""
        return None if self.printed == NOT_APPLICABLE else in_own_units(self.printed, self.unit)

    @property
    def tolerance(self) -> float:
        """Half of the last printed digit, in the same unit."""
        return tolerance(self.printed, self.unit)

    @property
    def unit(self) -> str:
        """Unit of `printed`: the column's, unless the row has another quantity in it."""
        return self.column.unit if self.metric == self.column.metric else ""


def in_own_units(printed: str, unit: str) -> float:
    """Digits as printed (`13,397`, `34.1`) in nftop's unit. Raises ValueError."""
    return float(f"{printed.replace(',', '')}e{UNITS[unit]}")  # rounds once


def tolerance(printed: str, unit: str) -> float:
    """Half of the last printed digit, in nftop's unit."""
    decimals = len(printed.partition(".")[2])
    return float(f"5e{UNITS[unit] - decimals - 1}")


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row: workload, name as printed, number from 1, and cells."""

    workload: str
    printed: str
    number: int
    cells: tuple[PaperCell, ...]


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A table of numbers.

    Attributes:
        paper: the paper's key in `papers.toml`.
        cpu: the CPU's key there; `cpu_note`: its origin if not the table.
        cores: physical cores of the workload.
        note: caveat of a comparison.
    """

    paper: str
    number: int
    title: str
    section: str
    cpu: str
    cores: int
    columns: tuple[PaperColumn, ...]
    rows: tuple[TableRow, ...]
    cpu_note: str = ""
    note: str = ""

    def source(self, row: TableRow) -> str:
        return f"Table {self.number}, row {row.number}"


@dataclass(frozen=True, slots=True)
class ToolTable:
    """The table of tools and their purposes."""

    paper: str
    number: int
    title: str
    section: str
    tools: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class FrameTable:
    """A table of numbers by the size of Ethernet frames, with their checksum.

    `rows`: bytes of the frames, and cells as in `columns`.
    """

    paper: str
    number: int
    title: str
    section: str
    columns: tuple[PaperColumn, ...]
    rows: tuple[tuple[int, tuple[PaperCell, ...]], ...]


@functools.cache
def papers() -> Mapping[str, Any]:
    """Content of `papers.toml`: papers, CPUs, workloads and software, by their keys."""
    return _toml("papers.toml")


@functools.cache
def tables() -> tuple[PaperTable, ...]:
    """Every table of numbers, in the papers' order. Raises ValueError: a file is invalid."""
    return tuple(_table(paper, raw) for paper, raw in _raw_tables() if "columns" in raw)


@functools.cache
def tool_tables() -> tuple[ToolTable, ...]:
    return tuple(
        ToolTable(paper, raw["number"], raw["title"], raw["section"], raw["tools"])
        for paper, raw in _raw_tables()
        if "tools" in raw
    )


@functools.cache
def frame_tables() -> tuple[FrameTable, ...]:
    """Tables by frame size. Raises ValueError: a file is invalid."""
    return tuple(_frame_table(paper, raw) for paper, raw in _raw_tables() if "frame_columns" in raw)


# Equations 23 and 24, legacy descriptors: bytes for a packet beside its frame. One of 16 transmit
# descriptors is written back. Reads have whole frames, as in Table 16: see the catalogue.
_WRITTEN_BYTES, _READ_BYTES = 16 + 16 / 16, 16 + 16


def pcie_bytes(frame_bytes: int) -> tuple[float, float]:
    """Bytes that a NIC writes and reads for a packet that it receives and sends."""
    return frame_bytes + _WRITTEN_BYTES, frame_bytes + _READ_BYTES


@functools.cache
def changes_raw(paper: str) -> Mapping[str, Any]:
    """Content of a paper's `changes.toml`."""
    return _toml(f"{paper}/changes.toml")


def _raw_tables() -> tuple[tuple[str, Mapping[str, Any]], ...]:
    return tuple(
        (paper, _toml(f"{paper}/table_{number:02}.toml"))
        for paper, about in papers()["papers"].items()
        for number in about["tables"]
    )


def _toml(path: str) -> Mapping[str, Any]:
    return tomllib.loads(data_file(__package__, path).decode())


def _table(paper: str, raw: Mapping[str, Any]) -> PaperTable:
    columns = tuple(
        PaperColumn(item["metric"], item["printed"], item["unit"], smt)
        for item in raw["columns"]
        for smt in raw["smt"]
    )
    repairs = {
        (repair["workload"], repair["metric"], repair["smt"]): repair
        for repair in raw.get("repairs", ())
    }
    rows = tuple(_row(number, item, columns, repairs) for number, item in enumerate(raw["rows"], 1))
    if repairs:
        raise ValueError(f"table {raw['number']} repairs a cell that it has not: {[*repairs]}")
    return PaperTable(
        paper=paper,
        number=raw["number"],
        title=raw["title"],
        section=raw["section"],
        cpu=raw["cpu"],
        cores=raw["cores"],
        columns=columns,
        rows=rows,
        cpu_note=raw.get("cpu_note", ""),
        note=raw.get("note", ""),
    )


def _frame_table(paper: str, raw: Mapping[str, Any]) -> FrameTable:
    columns = tuple(
        PaperColumn(item["metric"], item["printed"], item["unit"], smt=False)
        for item in raw["frame_columns"]
    )
    rows = tuple(
        (
            item["frame_bytes"],
            tuple(
                PaperCell(text, column.metric, column)
                for text, column in zip(item["cells"].split(), columns, strict=True)
            ),
        )
        for item in raw["rows"]
    )
    return FrameTable(paper, raw["number"], raw["title"], raw["section"], columns, rows)


def _row(
    number: int,
    raw: Mapping[str, Any],
    columns: tuple[PaperColumn, ...],
    repairs: dict[tuple[str, str, bool], Mapping[str, Any]],
) -> TableRow:
    workload, instead = raw["workload"], raw.get("instead", {})
    cells = []
    for text, column in zip(raw["cells"].split(), columns, strict=True):
        repair = repairs.pop((workload, column.metric, column.smt), {"printed": text})
        if repair["printed"] != text:
            raise ValueError(
                f"{workload} {column.metric} is {text}, repaired to {repair['printed']}"
            )
        metric = instead.get(column.metric, column.metric)
        cells.append(
            PaperCell(text, metric, column, repair.get("scanned", ""), repair.get("why", ""))
        )
    return TableRow(workload, raw["printed"], number, tuple(cells))
