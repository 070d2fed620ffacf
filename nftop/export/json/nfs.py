"""A network function as plain dictionaries and lists, with its threads, ports, queues and nodes.

What it does not tell of ports, queues or nodes is null, with its reason in `missing`. `classes` are
the cache classes on its CPUs; `classes_shared` says who else is in them, null where nobody is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from nftop.derive.compare.baseline import baseline_of
from nftop.export.json.missing import with_missing
from nftop.model.baseline import Level
from nftop.model.frame import Frame, NfRow
from nftop.model.metrics.nf import NF_METRICS
from nftop.model.nf.parts import NfNode, NfPort, NfQueue, NfThread
from nftop.model.reading import Missing

T = TypeVar("T")


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
        "owner": _owner(nf),
        "problem": None if nf.problem is None else nf.problem.message,
        "classes": [clos.name for clos in nf.classes],
        "classes_shared": nf.beside or None,
        "baseline": _baseline(frame, nf),
        "threads": [_thread(thread) for thread in nf.threads],
    }
    readings: dict[str, Any] = {metric.id: nf.readings[metric.id] for metric in NF_METRICS}
    readings["ports"] = _told(nf.ports, _port)
    readings["queues"] = _told(nf.queues, _queue)
    readings["nodes"] = _told(nf.nodes, _node)
    return with_missing(named, readings)


def _owner(nf: NfRow) -> dict[str, Any] | None:
    """User whose socket tells the numbers; null if there is none, or it is not known."""
    owner = nf.owner
    if owner is None:
        return None
    return {
        "user": owner.user,
        "uid": owner.uid,
        "privileged": owner.privileged,
        "reason": owner.reason,
    }


def _told(parts: Sequence[T] | Missing, how: Callable[[T], Any]) -> list[Any] | Missing:
    return parts if isinstance(parts, Missing) else [how(item) for item in parts]


def _thread(thread: NfThread) -> dict[str, Any]:
    return with_missing(
        {"cpu": thread.cpu, "name": thread.name},
        {
            "packets_per_s": thread.packets_per_s,
            "busy_ratio": thread.busy_ratio,
            "run_ratio": thread.run_ratio,
        },
    )


def _port(port: NfPort) -> dict[str, Any]:
    return with_missing(
        {"name": port.name},
        {
            "rx_packets_per_s": port.rx_packets_per_s,
            "tx_packets_per_s": port.tx_packets_per_s,
            "missed_packets_per_s": port.missed_packets_per_s,
            "drop_packets_per_s": port.drop_packets_per_s,
        },
    )


def _queue(queue: NfQueue) -> dict[str, Any]:
    return with_missing(
        {"port": queue.port, "queue": queue.queue, "cpu": queue.cpu, "enabled": queue.enabled},
        {"packets_per_s": queue.packets_per_s, "used_ratio": queue.used_ratio},
    )


def _node(node: NfNode) -> dict[str, Any]:
    return with_missing(
        {"name": node.name, "polls": node.polls},
        {
            "clocks_ratio": node.clocks_ratio,
            "clocks_per_packet": node.clocks_per_packet,
            "packets_per_call": node.packets_per_call,
        },
    )


def _baseline(frame: Frame, nf: NfRow) -> dict[str, Any] | None:
    """What it is compared with; null where nothing was kept."""
    kept = baseline_of(frame.baselines, nf, frame.nfs)
    if kept is None or frame.baselines is None:
        return None
    return {
        "wall_ns": frame.baselines.wall_ns,
        "pid": kept.pid,
        "ticks": kept.ticks,
        "metrics": {name: _level(level) for name, level in kept.levels.items()},
        "cores": [
            {
                "cpu": core.cpu,
                "metrics": {name: _level(level) for name, level in core.levels.items()},
            }
            for core in kept.cores
        ],
    }


def _level(level: Level) -> dict[str, Any]:
    return {"median": level.median, "spread": level.spread, "ticks": level.ticks}
