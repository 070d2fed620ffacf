"""Measurements of papers as JSON Lines: one run or change a line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nftop.export.json.encode import json_bytes
from nftop.papers.changes import PaperChange
from nftop.papers.rows import Figure, PaperRow

SCHEMA, CHANGE_SCHEMA = "nftop.reference/1", "nftop.reference_change/1"


def references_json(rows: Sequence[PaperRow], changes: Sequence[PaperChange]) -> Iterator[str]:
    """Lines: the runs, then the changes. Values are in nftop's units, ratios 0..1."""
    for row in rows:
        yield json_bytes(_row(row)).decode()
    for change in changes:
        yield json_bytes(_change(change)).decode()


def _row(row: PaperRow) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "paper": row.paper_title,
        "workload": row.workload,
        "title": row.title,
        "kind": row.kind or None,
        "configuration": row.configuration,
        "software": row.software or None,
        "cpu": row.cpu,
        "cpu_note": row.cpu_note or None,
        "notes": list(row.notes),
        "uarch": row.uarch,
        "core_hz": row.core_hz,
        "smt": row.smt,
        "cores": row.cores,
        "threads": row.threads,
        "frame_bytes": row.frame_bytes,
        "figures": {name: _figure(figure) for name, figure in row.figures.items()},
        "missing": dict(row.absent),
    }


def _figure(figure: Figure) -> dict[str, object]:
    return {
        "value": figure.value,
        "tolerance": figure.tolerance,
        "printed": f"{figure.printed} {figure.unit}".strip() or None,
        "source": figure.source,
        "repair": figure.repair or None,
    }


def _change(change: PaperChange) -> dict[str, object]:
    return {
        "schema": CHANGE_SCHEMA,
        "metric": change.metric,
        "workloads": list(change.workloads),
        "smt": change.smt,
        "cpu": change.cpu,
        "uarch": change.uarch,
        "against": change.against,
        "low": change.low,
        "high": change.high,
        "points": change.points,
        "about": change.about,
        "source": change.source,
    }
