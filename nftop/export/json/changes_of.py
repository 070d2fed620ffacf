"""One changed cell of the host as a plain dictionary."""

from __future__ import annotations

from typing import Any

from nftop.model.change import IO_KINDS, POLICY_KINDS, Change
from nftop.model.ids import parse_cpu_list
from nftop.model.rdt.rdt import split_path


def change_object(change: Change) -> dict[str, Any]:
    """One cell: what it is, `old` and `new`; null where it was or is not there."""
    cell = change.cell
    result: dict[str, Any] = {"kind": cell.kind, "old": change.old, "new": change.new}
    if cell.kind in ("schemata", *IO_KINDS):
        result |= {"group": cell.group or None, "resource": cell.name}
        result |= {"domain": cell.number if cell.number >= 0 else None}
    elif cell.kind == "cpu":
        result |= {"cpu": cell.number}
    elif cell.kind in POLICY_KINDS:
        result |= {"policy": cell.number, "cpus": list(parse_cpu_list(cell.name))}
        if cell.kind in ("min_khz", "max_khz"):
            result |= {side: int(result[side]) for side in ("old", "new") if result[side]}
    elif cell.kind in ("bf", "cp_class"):
        result |= _of_sst(change)
    elif cell.kind == "task":
        result |= {"thread": int(cell.name.partition("@")[0])}
    else:
        result |= {"group": cell.group, "name": cell.name or None}
    if cell.kind in ("cpu", "task"):
        for side in ("old", "new"):
            if result[side] is not None:
                group, monitor = split_path(result[side])
                result[side] = {"group": group, "monitor": monitor or None}
    return result


def _of_sst(change: Change) -> dict[str, Any]:
    cell = change.cell
    if cell.kind == "cp_class":
        sides = {"old": change.old, "new": change.new}
        return {"cpu": cell.number} | {side: int(value) for side, value in sides.items() if value}
    where, _, level = cell.name.partition("@")
    die, domain = map(int, where.split("."))
    return {"package": cell.number, "die": die, "power_domain": domain, "level": int(level)}
