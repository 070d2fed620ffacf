"""Two intervals of recordings compared, as one JSON object of schema `nftop.compare/1`.

`a`, `b`: the intervals. `test`: what words rest on. `nfs`, `classes`, `packages`: what is in both,
each with `metrics` by id of the catalogue: of `a` and `b` the median, `mad` (median absolute
deviation), `samples` and `blocks` that were tested; `change` (B / A - 1, null where undefined),
`word`, `why`, and `code`, which is `why` for programs (`derive.compare.Code`); `lacking`, how many
more samples `a` and `b` need (null: not known); with "no difference" `detectable`, the smallest
difference that would have been found in at least 4 of 5 cases, in the metric's unit. A number that
is not there is null, its reason is `missing`. `only_a`, `only_b`: what is in one interval alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nftop.derive.compare.intervals import RULE_BLOCKS, Entity, EntityKind, EntityRow
from nftop.derive.compare.intervals_report import Comparison, EntityReport
from nftop.derive.compare.metric import RULE
from nftop.export.json.encode import json_bytes
from nftop.export.json.frame import rfc3339
from nftop.model.reading import Missing, Reading
from nftop.session.compare import Side

SCHEMA = "nftop.compare/1"
_LISTS: tuple[tuple[str, EntityKind], ...] = (
    ("nfs", "nf"),
    ("classes", "class"),
    ("packages", "package"),
)


def comparison_json(a: Side, b: Side, found: Comparison, notes: Iterable[str]) -> bytes:
    """One line of UTF-8 JSON, without the newline; `notes` are sentences about all of it."""
    lists = {
        name: [_part(part) for part in found.parts if part.entity.kind == kind]
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
            "only_a": [_thing(item) for item in found.only_a],
            "only_b": [_thing(item) for item in found.only_b],
        }
    )


def _side(side: Side) -> dict[str, Any]:
    return {
        "file": side.file,
        "host": side.host,
        "simulated": side.simulated,
        "from": rfc3339(side.interval.first_ns),
        "to": rfc3339(side.interval.last_ns),
        "ticks": side.interval.ticks,
        "lost": list(side.lost),
    }


def _thing(thing: Entity) -> dict[str, Any]:
    return {"kind": thing.kind, "name": thing.name, "of": thing.of}


def _part(part: EntityReport) -> dict[str, Any]:
    told: dict[str, Any] = {"name": part.entity.name, "of": part.entity.of}
    if part.entity.kind == "nf":
        told |= {"word": part.word, "why": part.why}
    return {
        **told,
        "notes": list(part.notes),
        "metrics": {row.result.metric.id: _row(row) for row in part.rows},
    }


def _row(row: EntityRow) -> dict[str, Any]:
    found = row.result
    return {
        "unit": found.metric.unit.value,
        "a": _numbers(found.before, found.spread_before, found.n_before, row.blocks_a),
        "b": _numbers(found.after, found.spread_after, found.n_after, row.blocks_b),
        "change": _number(found.change_ratio),
        "word": found.word,
        "why": found.why,
        "code": found.code,
        "lacking": list(found.lacking),
        "detectable": _number(found.detectable),
    }


def _numbers(middle: Reading, spread: Reading, samples: int, blocks: int) -> dict[str, Any]:
    told = {
        "median": _number(middle),
        "mad": _number(spread),
        "samples": samples,
        "blocks": blocks,
    }
    return told | ({"missing": middle.reason.key} if isinstance(middle, Missing) else {})


def _number(reading: Reading) -> float | None:
    return None if isinstance(reading, Missing) else reading
