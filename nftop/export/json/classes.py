"""Cache classes as JSON objects: `groups` and `cache` of a frame.

What a class has in each cache is under the cache's id, absent values as everywhere.
"""

from __future__ import annotations

from typing import Any

from nftop.export.json.missing import with_missing
from nftop.model.frame import Frame, GroupCacheRow, GroupRow, MonitorRow
from nftop.model.metrics.group import GROUP_METRICS
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import CacheDomain
from nftop.model.reading import Missing, Reason

_UNKNOWN_OWNER = "unknown"


def group_object(group: GroupRow) -> dict[str, Any]:
    """A control group: what it may fill, has filled and moves, in each cache."""
    values: dict[str, Any] = {
        "clos": _known(group.clos),
        "rmid": _known(group.rmid),
        "mba.unit": group.mba_unit,
    }
    for cache in group.caches:
        values[f"mba.l3.{cache.l3}"] = cache.mba
        values[f"l3.{cache.l3}.cbm"] = _masks(cache)
        for metric in GROUP_METRICS:
            values[f"l3.{cache.l3}.{metric.id}"] = cache.readings[metric.id]
    named: dict[str, Any] = {
        "name": group.name,
        "clos": None,
        "cpus": list(group.cpus),
        "mode": group.mode,
        "owner": group.owner or _UNKNOWN_OWNER,
        "tasks": group.tasks,
        "l2": {str(mask.l2): _mask(mask.cbm, mask.code) for mask in group.l2},
        "monitors": [_monitor(monitor) for monitor in group.monitors],
        "l3": {},
    }
    return with_missing(named, values)


def _monitor(monitor: MonitorRow) -> dict[str, Any]:
    values: dict[str, Any] = {"rmid": _known(monitor.rmid)}
    for l3, readings in monitor.readings.items():
        values |= {f"l3.{l3}.{name}": reading for name, reading in readings.items()}
    named = {
        "name": monitor.name,
        "cpus": list(monitor.cpus),
        "owner": monitor.owner or _UNKNOWN_OWNER,
        "l3": {},
    }
    return with_missing(named, values)


def cache_object(frame: Frame) -> dict[str, Any]:
    """What there is of classes and monitors, how much is in use, and the caches themselves."""
    limits = frame.limits
    groups = len(frame.groups)
    metered = groups + sum(len(group.monitors) for group in frame.groups)
    values: dict[str, Any] = {
        "closids.of": _known(limits.closids),
        "rmids.of": _known(limits.rmids),
        "closids.used": groups,
        "rmids.used": _known(None if limits.rmids is None else metered),
        "min_bits": _known(limits.min_bits),
        "sparse": _known(limits.sparse),
        "mba_least": _known(limits.mba_least),
        "mba_step": _known(limits.mba_step),
    }
    for domain in frame.domains:
        values |= {f"l3.{domain.l3}.{name}": value for name, value in _domain(domain).items()}
    return with_missing({"cdp": limits.cdp, "l3": {}}, values)


def _domain(domain: CacheDomain) -> dict[str, Any]:
    io = domain.io
    return {
        "ways": _known(domain.ways),
        "size_bytes": _known(domain.size_bytes),
        "bit_usage": _known(domain.usage or None),
        "nodes": list(domain.parts),
        "read_on_cpu": _known(domain.read_on),
        "io": io if isinstance(io, Missing) else {"cbm": io.cbm.hex, "origin": io.origin},
    }


def _masks(cache: GroupCacheRow) -> str | Missing | dict[str, str]:
    if isinstance(cache.cbm, Missing):
        return cache.cbm
    return _mask(cache.cbm, cache.code)


def _mask(cbm: Cbm, code: Cbm | None) -> str | dict[str, str]:
    return cbm.hex if code is None else {"code": code.hex, "data": cbm.hex}


def _known(value: Any) -> Any:
    return Missing(Reason.SOURCE) if value is None else value
