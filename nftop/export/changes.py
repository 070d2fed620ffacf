"""Classes and the history of changes as JSON."""

from __future__ import annotations

from typing import Any

from nftop.control.entry import Entry
from nftop.export.encode import json_bytes
from nftop.model.action import Change, parts
from nftop.model.allocation import Cbm
from nftop.model.rdt import GroupCache, ResctrlGroup, ResctrlTable
from nftop.model.rdt_owner import owner_of
from nftop.model.reading import Missing

CLASSES_SCHEMA, CHANGE_SCHEMA = "nftop.cat/1", "nftop.change/1"


def classes_json(table: ResctrlTable) -> str:
    """One object: `groups`, `domains` (the caches and their ways of I/O), `mba_unit`, `notes`.

    Masks are hexadecimal texts; what is absent is null.
    """
    return json_bytes(
        {
            "schema": CLASSES_SCHEMA,
            "mba_unit": table.mba_unit,
            "groups": [_group(group) for group in table.groups],
            "domains": [
                {
                    "l3": domain.l3,
                    "ways": domain.ways,
                    "size_bytes": domain.size_bytes,
                    "io": None if isinstance(domain.io, Missing) else domain.io.cbm.hex,
                    "io_provenance": (
                        domain.io.sentence
                        if isinstance(domain.io, Missing)
                        else domain.io.provenance
                    ),
                }
                for domain in table.domains
            ],
            "notes": table.gaps or None,
        }
    ).decode()


def change_json(entry: Entry) -> str:
    """One object for one change of the history."""
    return json_bytes(
        {
            "schema": CHANGE_SCHEMA,
            "number": entry.number,
            "time": entry.time,
            "operator": entry.operator,
            "command": entry.command or None,
            "outcome": entry.outcome,
            "undoes": list(entry.undoes),
            "left": list(entry.left),
            "changes": [_change(each) for each in entry.changes],
        }
    ).decode()


def _change(change: Change) -> dict[str, Any]:
    cell = change.cell
    found: dict[str, Any] = {"kind": cell.kind, "old": change.old, "new": change.new}
    if cell.kind == "schemata":
        found |= {"group": cell.group, "resource": cell.name, "domain": cell.number}
    elif cell.kind == "cpu":
        found |= {"cpu": cell.number}
    elif cell.kind == "task":
        found |= {"thread": int(cell.name.partition("@")[0])}
    else:
        found |= {"group": cell.group, "name": cell.name or None}
    if cell.kind in ("cpu", "task"):
        for side in ("old", "new"):
            if found[side] is not None:
                group, monitor = parts(found[side])
                found[side] = {"group": group, "monitor": monitor or None}
    return found


def _group(group: ResctrlGroup) -> dict[str, Any]:
    return {
        "name": group.name,
        "owner": owner_of(group.name),
        "clos": group.clos,
        "mode": group.mode or None,
        "cpus": list(group.cpus),
        "threads": list(group.tasks),
        "l3": {str(cache.l3): _cache(cache) for cache in group.caches},
        "l2": {str(each.l2): {"cbm": each.cbm.hex, "code": _hex(each.code)} for each in group.l2},
        "monitors": [{"name": each.name, "cpus": list(each.cpus)} for each in group.monitors],
    }


def _cache(cache: GroupCache) -> dict[str, Any]:
    return {
        "cbm": None if isinstance(cache.cbm, Missing) else cache.cbm.hex,
        "code": _hex(cache.code),
        "mba": None if isinstance(cache.mba, Missing) else cache.mba,
    }


def _hex(mask: Cbm | None) -> str | None:
    return None if mask is None else mask.hex
