"""Classes and the history of changes as JSON."""

from __future__ import annotations

from typing import Any

from nftop.control.journal_entry import Entry
from nftop.export.json.changes_of import change_object
from nftop.export.json.encode import json_bytes, picked
from nftop.model.missing import Missing
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import CacheDomain, GroupCache, ResctrlGroup, ResctrlTable

CLASSES_SCHEMA, CHANGE_SCHEMA = "nftop.cat/1", "nftop.change/1"


def classes_json(table: ResctrlTable, *, simulated: bool = False, unfinished: str = "") -> str:
    """One object: `groups`, `domains` (the caches and their ways of I/O), `mba_unit`, `notes`.

    Masks are hexadecimal texts; what is absent is null. `unfinished`: message on a pending change.
    """
    return json_bytes(
        {
            "schema": CLASSES_SCHEMA,
            "simulated": simulated,
            "mba_unit": table.mba_unit,
            "groups": list(map(_group, table.groups)),
            "domains": list(map(_domain, table.domains)),
            "notes": table.gaps or None,
            "unfinished": unfinished or None,
        }
    ).decode()


def change_json(entry: Entry, *, simulated: bool = False, unfinished: str = "") -> str:
    """One object for one change of the history.

    `unfinished`: message on a pending change; its `outcome` is null unless it is complete.
    """
    return json_bytes(
        {
            "schema": CHANGE_SCHEMA,
            "simulated": simulated,
            **picked(entry, "number time operator"),
            "command": entry.command or None,
            "outcome": entry.outcome,
            "unfinished": unfinished or None,
            **picked(entry, "verified undoes leaves left"),
            "changes": [change_object(change) for change in entry.changes],
        }
    ).decode()


def _domain(domain: CacheDomain) -> dict[str, Any]:
    io = domain.io
    return {
        **picked(domain, "l3 ways size_bytes"),
        "io": None if isinstance(io, Missing) else io.cbm.hex,
        "io_provenance": io.message if isinstance(io, Missing) else io.provenance,
    }


def _group(group: ResctrlGroup) -> dict[str, Any]:
    return {
        **picked(group, "name owner clos"),
        "mode": group.mode or None,
        "cpus": list(group.cpus),
        "threads": list(group.tasks),
        "l3": {str(cache.l3): _cache(cache) for cache in group.caches},
        "l2": {str(item.l2): {"cbm": item.cbm.hex, "code": _hex(item.code)} for item in group.l2},
        "monitors": [picked(monitor, "name cpus") for monitor in group.monitors],
    }


def _cache(cache: GroupCache) -> dict[str, Any]:
    return {
        "cbm": None if isinstance(cache.cbm, Missing) else cache.cbm.hex,
        "code": _hex(cache.code),
        "mba": None if isinstance(cache.mba, Missing) else cache.mba,
    }


def _hex(mask: Cbm | None) -> str | None:
    return None if mask is None else mask.hex
