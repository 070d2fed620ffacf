"""Counts and what the vendors' formulas make of them, and the facts the tables restate.

Both come from public sources; the files say which.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from nftop.uarch import table
from nftop.uarch.table import Uarch

_FOLDER = Path(__file__).parents[1] / "data/uarch"
UARCHES = ("HSX", "BDX", "SKX", "CLX", "ICX", "SPR", "EMR", "GNR", "SRF")


@dataclass(frozen=True, slots=True)
class Vector:
    """`counts` by the vendor's names; `ratios` by ours, None where the vendor divides by zero."""

    smt: bool
    counts: Mapping[str, float]
    ratios: Mapping[str, float | None]


@cache
def loaded(uarch: str) -> Uarch:
    """The table, read once."""
    return table.load(uarch)


@cache
def of(uarch: str) -> dict[str, Vector]:
    """The vectors of a microarchitecture by name."""
    mine, deeper = (
        json.loads((_FOLDER / name).read_text())[uarch] for name in ("vectors.json", "deeper.json")
    )
    nodes = [name.lower() for name in mine["nodes"]]
    below = deeper["vectors"]
    return {
        item["name"]: Vector(
            item["smt"],
            {
                event: float(count)
                for event, count in zip(mine["events"], item["counts"], strict=True)
                if count is not None
            }
            | {event: float(count) for event, count in below[item["name"]]["counts"].items()},
            dict(zip(nodes, item["ratios"], strict=True))
            | {node.lower(): ratio for node, ratio in below[item["name"]]["ratios"].items()},
        )
        for item in mine["vectors"]
    }


def counts(uarch: str, vector: str) -> dict[str, float]:
    """A vector's counts by the table's event names."""
    given = of(uarch)[vector].counts
    names = {**loaded(uarch).vendor_names, "tsc": "TSC"}
    return {event: given[name] for event, name in names.items() if name in given}


@cache
def facts(uarch: str) -> Mapping[str, Any]:
    """What is known of a microarchitecture, of all files; they explain themselves."""
    known, more, deeper = (
        json.loads((_FOLDER / name).read_text())[uarch]
        for name in ("reference.json", "perfmon.json", "deeper.json")
    )
    thresholds = more.get("thresholds", {})
    nodes = {
        name: [level, parent, thresholds.get(name, threshold), *events]
        for name, (level, parent, threshold, *events) in known["nodes"].items()
    }
    events = {**known["events"], **_of_reads(more["events"]), **deeper["events"]}
    return {**known, "nodes": nodes | deeper["nodes"], "events": events}


def _of_reads(events: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """The events, and of responses to reads of any kind those to demand reads of data."""
    result = dict(events)
    for name, (config, kernel, counting, *register) in events.items():
        if "ALL_READS" in name:
            response = int(register[0], 0) & ~0xFFFF
            result[name.replace("ALL_READS", "DEMAND_DATA_RD")] = [
                config,
                kernel,
                counting,
                hex(response | 1),
            ]
    return result
