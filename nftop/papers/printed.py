"""Tables of papers as printed: latency, cache occupancy, classes, processors.

A file has the paper's title, its `cpu` ("" if it names none) and its `tables`. In these:
    label, title, section   as in the paper
    columns   headers, separated by " | "; the first `keys` (default 1) name a row
    rows      cells as printed, separated likewise; "-" is an empty one, "~" about, "+" or more
    metric, unit     of all other columns: nftop's own id where it has one, and the printed unit
    metrics, units   of each column instead
    cpu       of this table, if not the paper's
    note      what contradicts itself or is left open
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from nftop.model.data_files import data_file
from nftop.model.struct import dataclass

# Keys of the papers, which are names of files.
_FILES = ("fdio_latency", "nfv_rdt", "packet_processing", "stable_dpdk")
_NUMBER = re.compile(r"~?([0-9][0-9,]*(?:\.[0-9]+)?)(k?)\+?")


@dataclass(frozen=True, slots=True)
class PrintedColumn:
    """A column: header, nftop's metric or "", unit of its cells or ""."""

    printed: str
    metric: str = ""
    unit: str = ""


@dataclass(frozen=True, slots=True)
class PrintedTable:
    """A table.

    Attributes:
        paper: name of the paper's file; `paper_title`: for people.
        label: `Table 4`, or the heading of a slide.
        cpu: name for people, "" if unknown; `uarch`: nftop's name of it, likewise.
        keys: how many columns name the row.
        rows: cells as printed.
        note: contradictions in the table; may be "".
    """

    paper: str
    paper_title: str
    label: str
    title: str
    section: str
    cpu: str
    uarch: str
    keys: int
    columns: tuple[PrintedColumn, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    @property
    def metrics(self) -> frozenset[str]:
        """Metrics of its columns."""
        return frozenset(column.metric for column in self.columns) - {""}


def number(cell: str) -> float | None:
    """A cell's number, in the unit of its column; None if it is text or empty."""
    match = _NUMBER.fullmatch(cell)
    if match is None:
        return None
    return float(match[1].replace(",", "")) * (1000 if match[2] else 1)


def printed_tables(
    *, paper: str | None = None, metric: str | None = None, uarch: str | None = None
) -> tuple[PrintedTable, ...]:
    """The tables with all of these, in the papers' order; a filter that is None is ignored."""
    return tuple(
        table
        for table in _all()
        if paper in (None, table.paper)
        and uarch in (None, table.uarch)
        and (metric is None or metric in table.metrics)
    )


@functools.cache
def _all() -> tuple[PrintedTable, ...]:
    return tuple(table for paper in _FILES for table in _of(paper))


def _of(paper: str) -> tuple[PrintedTable, ...]:
    raw = tomllib.loads(data_file(__package__, f"{paper}.toml").decode())
    return tuple(_table(paper, raw, item) for item in raw["tables"])


def _table(paper: str, about: Mapping[str, Any], raw: Mapping[str, Any]) -> PrintedTable:
    keys, headers = raw.get("keys", 1), _cells(raw["columns"])
    own = len(headers) - keys
    metrics = _cells(raw["metrics"]) if "metrics" in raw else [raw.get("metric", "")] * own
    units = _cells(raw["units"]) if "units" in raw else [raw.get("unit", "")] * own
    metrics = [""] * (len(headers) - len(metrics)) + metrics
    units = [""] * (len(headers) - len(units)) + units
    rows = tuple(tuple(_cells(row)) for row in raw["rows"])
    if any(len(row) != len(headers) for row in rows):
        raise ValueError(f"{paper}, {raw['label']}: a row has not {len(headers)} cells")
    return PrintedTable(
        paper=paper,
        paper_title=about["title"],
        label=raw["label"],
        title=raw["title"],
        section=raw["section"],
        cpu=raw.get("cpu", about["cpu"]),
        uarch=about["uarch"],
        keys=keys,
        columns=tuple(map(PrintedColumn, headers, metrics, units)),
        rows=rows,
        note=raw.get("note", ""),
    )


def _cells(text: str) -> list[str]:
    return [cell.strip() for cell in text.split("|")]
