"""Classes and the history of changes as JSON."""

from __future__ import annotations

from typing import Any

from nftop.control.journal_entry import Entry
from nftop.export.json.changes_of import change_object
from nftop.export.json.encode import json_bytes
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import GroupCache, ResctrlGroup, ResctrlTable
from nftop.model.reading import Missing

CLASSES_SCHEMA, CHANGE_SCHEMA = "nftop.cat/1", "nftop.change/1"


def classes_json(table: ResctrlTable, *, simulated: bool = False, unfinished: str = "") -> str:
    """One object: `groups`, `domains` (the caches and their ways of I/O), `mba_unit`, `notes`.

    Masks are hexadecimal texts; what is absent is null. `unfinished`: of a change that is under
    way or was cut off, a sentence.
    """
    return json_bytes(
        {
            "schema": CLASSES_SCHEMA,
            "simulated": simulated,
            "mba_unit": table.mba_unit,
            "groups": [_group(group) for group in table.groups],
            "domains": [
                {
                    "l3": domain.l3,
                    "ways": domain.ways,
                    "size_bytes": domain.size_bytes,
                    "io": None if isinstance(domain.io, Missing) else domain.io.cbm.hex,
                    "io_provenance": (
                        domain.io.message
                        if isinstance(domain.io, Missing)
                        else domain.io.provenance
                    ),
                }
                for domain in table.domains
            ],
            "notes": table.gaps or None,
            "unfinished": unfinished or None,
        }
    ).decode()


def change_json(entry: Entry, *, simulated: bool = False, unfinished: str = "") -> str:
    """One object for one change of the history.

    `unfinished`: what is to be known of one that is under way or was cut off, a sentence; its
    `outcome` is null unless all of it but to close it is done.
    """
    return json_bytes(
        {
            "schema": CHANGE_SCHEMA,
            "simulated": simulated,
            "number": entry.number,
            "time": entry.time,
            "operator": entry.operator,
            "command": entry.command or None,
            "outcome": entry.outcome,
            "unfinished": unfinished or None,
            "verified": entry.verified,
            "undoes": list(entry.undoes),
            "leaves": list(entry.leaves),
            "left": list(entry.left),
            "changes": [change_object(change) for change in entry.changes],
        }
    ).decode()


def _group(group: ResctrlGroup) -> dict[str, Any]:
    return {
        "name": group.name,
        "owner": group.owner,
        "clos": group.clos,
        "mode": group.mode or None,
        "cpus": list(group.cpus),
        "threads": list(group.tasks),
        "l3": {str(cache.l3): _cache(cache) for cache in group.caches},
        "l2": {str(item.l2): {"cbm": item.cbm.hex, "code": _hex(item.code)} for item in group.l2},
        "monitors": [
            {"name": monitor.name, "cpus": list(monitor.cpus)} for monitor in group.monitors
        ],
    }


def _cache(cache: GroupCache) -> dict[str, Any]:
    return {
        "cbm": None if isinstance(cache.cbm, Missing) else cache.cbm.hex,
        "code": _hex(cache.code),
        "mba": None if isinstance(cache.mba, Missing) else cache.mba,
    }


def _hex(mask: Cbm | None) -> str | None:
    return None if mask is None else mask.hex
