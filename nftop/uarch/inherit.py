"""Tables that say only in what they differ from another: `base` and `without`.

    base = "SKX"                             everything is as in skx.toml, except
    without = ["topdown.nodes.l1_bound"]     what is left out, and
    [events]                                 what stands in the file itself
    cycles = { vendor = "..." }

Tables are merged key by key, so that a row may name but the field that differs; a list takes the
other's place. A CPU's own name, title and CPUID are never inherited.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_OWN = ("name", "title", "cpuid")


def whole(raw: Mapping[str, Any], load: Callable[[str], Mapping[str, Any]]) -> dict[str, Any]:
    """The table `raw` with all that it takes over from its bases.

    `load` gives the raw table of a name, with a ValueError where there is none.

    Raises:
        ValueError: the bases go round in a circle, or `without` names what is not there.
    """
    return _whole(raw, load, ())


def _whole(
    raw: Mapping[str, Any], load: Callable[[str], Mapping[str, Any]], above: tuple[str, ...]
) -> dict[str, Any]:
    own = {key: value for key, value in raw.items() if key not in ("base", "without")}
    if "base" not in raw:
        if "without" in raw:
            raise ValueError("`without` is for a table with a base")
        return own
    base = raw["base"]
    if base in above:
        raise ValueError(f"{base} is based on itself")
    inherited = _whole(load(base), load, (*above, base))
    inherited = {key: value for key, value in inherited.items() if key not in _OWN}
    for path in raw.get("without", ()):
        inherited = _without(inherited, path, path.split("."))
    return _merged(inherited, own)


def _without(table: Any, path: str, keys: list[str]) -> dict[str, Any]:
    first, *rest = keys
    if not isinstance(table, Mapping) or first not in table:
        raise ValueError(f"`without` names what the base has not: {path}")
    kept = dict(table)
    if rest:
        kept[first] = _without(kept[first], path, rest)
    else:
        del kept[first]
    return kept


def _merged(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of the base first, in its order."""
    merged = dict(base)
    for key, value in own.items():
        both = isinstance(value, Mapping) and isinstance(base.get(key), Mapping)
        merged[key] = _merged(base[key], value) if both else value
    return merged
