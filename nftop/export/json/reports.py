"""JSON of `nftop references` (one run, change or table a line) and of `nftop tma`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from nftop.export.json.encode import json_bytes, picked
from nftop.model.missing import Missing, Reading
from nftop.papers.changes import PaperChange
from nftop.papers.printed import PrintedTable, number
from nftop.papers.rows import Figure, PaperRow

SCHEMA, CHANGE_SCHEMA = "nftop.reference/1", "nftop.reference_change/1"
TABLE_SCHEMA = "nftop.reference_table/1"
_CHANGE = "metric workloads smt cpu uarch against low high points about source"


def references_json(
    rows: Sequence[PaperRow], changes: Sequence[PaperChange], tables: Sequence[PrintedTable] = ()
) -> Iterator[str]:
    """Lines: the runs, the changes, the tables as printed.

    Values of runs and changes are in nftop's units, ratios 0..1; those of tables in their columns'
    units, null for a cell without a number.
    """
    for row in rows:
        yield json_bytes(_row(row)).decode()
    for change in changes:
        yield json_bytes({"schema": CHANGE_SCHEMA, **picked(change, _CHANGE)}).decode()
    for table in tables:
        yield json_bytes(_table(table)).decode()


def _row(row: PaperRow) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "paper": row.paper_title,
        **picked(row, "workload title"),
        "kind": row.kind or None,
        "configuration": row.configuration,
        "software": row.software or None,
        "cpu": row.cpu,
        "cpu_note": row.cpu_note or None,
        **picked(row, "notes uarch core_hz smt cores threads frame_bytes"),
        "figures": {name: _figure(figure) for name, figure in row.figures.items()},
        "missing": dict(row.absent),
    }


def _figure(figure: Figure) -> dict[str, object]:
    return {
        **picked(figure, "value tolerance"),
        "printed": f"{figure.printed} {figure.unit}".strip() or None,
        "source": figure.source,
        "repair": figure.repair or None,
    }


def _table(table: PrintedTable) -> dict[str, object]:
    return {
        "schema": TABLE_SCHEMA,
        "paper": table.paper_title,
        "name": table.paper,
        **picked(table, "label title section"),
        "cpu": table.cpu or None,
        "uarch": table.uarch or None,
        "note": table.note or None,
        "keys": table.keys,
        "columns": [
            {"printed": item.printed, "metric": item.metric or None, "unit": item.unit or None}
            for item in table.columns
        ],
        "rows": [[*row] for row in table.rows],
        "values": [[*map(number, row[table.keys :])] for row in table.rows],
    }


TMA_SCHEMA = "nftop.tma/1"


def tma_json(
    uarch: str,
    ratios: Mapping[str, Reading],
    *,
    smt: bool,
    notes: Sequence[str],
    ignored: Sequence[str],
) -> str:
    """`uarch`, `smt` (bool), `metrics`: ratios 0..1 by node, null if absent.

    `missing`: reason key of each absent one, `details`: the reason in a sentence, `notes`: on how
    the counts were combined, `ignored`: events of the file that the table does not have.
    """
    absent = {name: ratio for name, ratio in ratios.items() if isinstance(ratio, Missing)}
    return msgspec.json.encode(
        {
            "schema": TMA_SCHEMA,
            "uarch": uarch,
            "smt": smt,
            "metrics": {
                name: None if isinstance(ratio, Missing) else ratio
                for name, ratio in ratios.items()
            },
            "missing": {name: item.reason.key for name, item in absent.items()},
            "details": {name: item.message for name, item in absent.items()},
            "notes": list(notes),
            "ignored": list(ignored),
        }
    ).decode()
