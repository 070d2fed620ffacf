"""A network function as plain dictionaries and lists, with its threads, ports, queues and nodes.

What it does not tell of ports, queues or nodes is null, with its reason in `missing`. `classes` are
the cache classes on its CPUs; `classes_shared` says who else is in them, null where nobody is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from nftop.derive.baseline import baseline_of
from nftop.export.missing import with_missing
from nftop.model.baseline import Level
from nftop.model.catalogue_nf import NF_METRICS
from nftop.model.frame import Frame, NfRow
from nftop.model.reading import Missing

_PARTS = ("ports", "queues", "nodes")


def nf_objects(frame: Frame) -> list[dict[str, Any]]:
    """Every network function of a frame."""
    return [_nf(frame, nf) for nf in frame.nfs]


def _nf(frame: Frame, nf: NfRow) -> dict[str, Any]:
    named = {
        "name": nf.name,
        "kind": nf.kind,
        "pid": nf.pid,
        "cpus": list(nf.cpus),
        "direction": nf.direction,
        "saturated": nf.saturated,
        "cpp_clock": nf.cpp_clock,
        "interval_s": nf.interval_s,
        "attribution": nf.attribution,
        "problem": None if nf.problem is None else nf.problem.sentence,
        "classes": [each.name for each in nf.classes],
        "classes_shared": nf.beside or None,
        "baseline": _baseline(frame, nf),
        "threads": _objects(nf.threads),
    }
    readings: dict[str, Any] = {metric.id: nf.readings[metric.id] for metric in NF_METRICS}
    for name in _PARTS:
        told = getattr(nf, name)
        readings[name] = told if isinstance(told, Missing) else _objects(told)
    return with_missing(named, readings)


def _objects(parts: Iterable[Any]) -> list[dict[str, Any]]:
    """Each with its readings by the names of its fields."""
    found = []
    for part in parts:
        values = {each.name: getattr(part, each.name) for each in fields(part)}
        found.append(with_missing({}, values))
    return found


def _baseline(frame: Frame, nf: NfRow) -> dict[str, Any] | None:
    """What it is compared with; null where nothing was kept."""
    kept = baseline_of(frame.baselines, nf, frame.nfs)
    if kept is None or frame.baselines is None:
        return None
    return {
        "wall_ns": frame.baselines.wall_ns,
        "pid": kept.pid,
        "ticks": kept.ticks,
        "metrics": {name: _level(each) for name, each in kept.levels.items()},
        "cores": [
            {"cpu": core.cpu, "metrics": {name: _level(each) for name, each in core.levels.items()}}
            for core in kept.cores
        ],
    }


def _level(level: Level) -> dict[str, Any]:
    return {"median": level.median, "spread": level.spread, "ticks": level.ticks}
