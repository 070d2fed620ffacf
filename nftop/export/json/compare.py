"""Comparisons as one JSON object: of two intervals `nftop.compare/1`, of hosts `nftop.hosts/1`.

`nftop.hosts/1` is docs/schema/nftop.hosts-1.json. `nftop.compare/1`:

`a`, `b`: the intervals. `test`: the statistical test. `nfs`, `classes`, `packages`: what both have,
each with `metrics` by id of the catalogue: of `a` and `b` the median, `mad` (median absolute
deviation), `samples` and `blocks` that were tested; `change` (B / A - 1, null if undefined),
`word`, `why`, and `code`, which is `why` for programs (`derive.compare.Code`); `lacking`, how many
more samples `a` and `b` need (null: unknown); with "no difference" `detectable`, the smallest
difference that would have been detected in at least 4 of 5 cases, in the metric's unit. An absent
number is null, its reason is `missing`. Losses beside `drop_packets_per_s` are there only where an
interval has any. `only_a`, `only_b`: what only one interval has.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from nftop.derive.compare.hosts import (
    HOSTS_NEEDED,
    RULE_HOSTS,
    HostsComparison,
    HostsReport,
    HostsRow,
    LeftOut,
)
from nftop.derive.compare.intervals import RULE_BLOCKS, EntityKind, EntityRow
from nftop.derive.compare.intervals_report import Comparison, EntityReport
from nftop.derive.compare.metric import RULE
from nftop.export.json.encode import json_bytes, picked, rfc3339
from nftop.model.missing import Missing, Reading
from nftop.session.compare import HostRun, Side

SCHEMA, HOSTS_SCHEMA = "nftop.compare/1", "nftop.hosts/1"
_LISTS: tuple[tuple[str, EntityKind], ...] = (
    ("nfs", "nf"),
    ("classes", "class"),
    ("packages", "package"),
)


def comparison_json(a: Side, b: Side, comparison: Comparison, notes: Iterable[str]) -> bytes:
    """One line of UTF-8 JSON, without the newline; `notes` are sentences about all of it."""
    lists = {
        name: [_report(item) for item in comparison.reports if item.entity.kind == kind]
        for name, kind in _LISTS
    }
    return json_bytes(
        {
            "schema": SCHEMA,
            "a": _side(a),
            "b": _side(b),
            "test": f"{RULE}; {RULE_BLOCKS}",
            "notes": list(notes),
            **lists,
            "only_a": [picked(item, "kind name of") for item in comparison.only_a],
            "only_b": [picked(item, "kind name of") for item in comparison.only_b],
        }
    )


def _side(side: Side) -> dict[str, Any]:
    return {
        **picked(side, "file host simulated"),
        "from": rfc3339(side.interval.first_ns),
        "to": rfc3339(side.interval.last_ns),
        "ticks": side.interval.ticks,
        "lost": list(side.lost),
    }


def _head(report: EntityReport | HostsReport) -> dict[str, Any]:
    """Name of the entity, and the overall result of a network function."""
    own = picked(report, "word why") if report.entity.kind == "nf" else {}
    return {**picked(report.entity, "name of"), **own}


def _report(report: EntityReport) -> dict[str, Any]:
    return {
        **_head(report),
        "notes": list(report.notes),
        "metrics": {row.result.metric.id: _row(row) for row in report.rows},
    }


def _row(row: EntityRow) -> dict[str, Any]:
    result = row.result
    return {
        "unit": result.metric.unit.value,
        "a": _numbers(result.before, result.spread_before, result.n_before, row.blocks_a),
        "b": _numbers(result.after, result.spread_after, result.n_after, row.blocks_b),
        "change": _number(result.change_ratio),
        **picked(result, "word why code"),
        "lacking": list(result.lacking),
        "detectable": _number(result.detectable),
    }


def _numbers(middle: Reading, spread: Reading, samples: int, blocks: int) -> dict[str, Any]:
    result = {"median": _number(middle), "mad": _number(spread)}
    absent = {"missing": middle.reason.key} if isinstance(middle, Missing) else {}
    return {**result, "samples": samples, "blocks": blocks, **absent}


def _number(reading: Reading) -> float | None:
    return None if isinstance(reading, Missing) or math.isinf(reading) else reading


def hosts_json(
    runs: Sequence[HostRun],
    left_out: Sequence[LeftOut],
    files_left_out: Iterable[tuple[str, str]],
    result: HostsComparison,
) -> bytes:
    """Hosts before and after a change: one line of UTF-8 JSON, without the newline.

    `files_left_out`: recordings that can't be read, each with the reason.
    """
    lists = {
        name: [_hosts_report(report) for report in result.reports if report.entity.kind == kind]
        for name, kind in _LISTS
    }
    hosts = [
        {
            "host": run.pair.host,
            "before": _side(run.before),
            "after": _side(run.after),
            "notes": list(run.notes),
        }
        for run in runs
    ]
    return json_bytes(
        {
            "schema": HOSTS_SCHEMA,
            "test": RULE_HOSTS,
            **picked(result, "tested needed"),
            "least": HOSTS_NEEDED,
            "hosts": hosts,
            "left_out": _left_out(left_out),
            "files_left_out": [{"file": file, "why": why} for file, why in files_left_out],
            **lists,
        }
    )


def _left_out(items: Iterable[LeftOut]) -> list[dict[str, Any]]:
    return [picked(item, "host why code") for item in items]


def _hosts_report(report: HostsReport) -> dict[str, Any]:
    return {
        **_head(report),
        "left_out": _left_out(report.left_out),
        "notes": list(report.notes),
        "metrics": {row.result.metric.id: _hosts_row(row) for row in report.rows},
    }


def _hosts_row(row: HostsRow) -> dict[str, Any]:
    result = row.result
    return {
        "unit": result.metric.unit.value,
        "before": _number(result.before),
        "after": _number(result.after),
        "change": _number(row.change),
        "low": _number(row.low),
        "high": _number(row.high),
        **picked(row, "relative p q"),
        **picked(result, "word why code"),
        "lacking": result.lacking[0],
        "hosts": [picked(item, "host before after word") for item in row.changes],
        "against": list(row.against),
        "left_out": _left_out(row.left_out),
    }
