"""A frame as one JSON object, schema `nftop.frame/1`.

An absent number is null, its reason stands in `missing`. Ratios are 0..1.

- `self.counter_reads`, `self.counter_interrupts`: of counted CPUs, since the previous tick, over
  all sources; `self.by_source` has them by source.
- `memory.channels`, `upi.links` of a package: objects by the kernel's box number, as in
  `uncore_imc_3`.
- `origins` of a CPU or package: the source of numbers that are not from their metric's first
  choice, `{"ipc": "pcm"}`; `links` stands for the package's links.
- `findings`: facts beyond a limit, the most severe first, for all CPUs; see `nftop explain RULE`.
- `incidents`, `past_incidents`: findings by cause, the most harmful and the newest first, muted
  ones too. `severity` is `bad` (packets are lost), `warn` or `info`.
- `lost`: gaps of a replay since the previous tick, `{"ticks", "bytes", "why"}` each; `ticks` is
  null if unknown or if another session begins. `interval_s` is then null, as in every first frame.
- `actions`: changes of cache classes first seen in this tick, by any program; `within_s` is the
  time between the reading that shows a change and the previous one.
- `groups`, `cache`: cache classes, by cache id.
- `nfs`: `classes` are the cache classes on the NF's CPUs, `classes_shared` the other NFs in them or
  null. Ports, queues and nodes that an NF does not report are null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from nftop.derive.compare.baseline import baseline_of
from nftop.export.json.changes_of import change_object
from nftop.export.json.encode import json_bytes, nested, rfc3339, with_missing
from nftop.export.json.frequencies import frequencies_object, setting_values
from nftop.export.json.incidents import incident_object
from nftop.model.baseline import BaselineLevel
from nftop.model.change import Noticed
from nftop.model.column import Block
from nftop.model.frame import (
    Accelerator,
    BoxTraffic,
    CounterCost,
    CpuTable,
    Finding,
    Frame,
    GroupCacheRow,
    GroupRow,
    MonitorRow,
    NfRow,
    PackageRow,
    SourceState,
)
from nftop.model.metrics.catalogue import CPU_METRICS
from nftop.model.metrics.group import GROUP_METRICS
from nftop.model.metrics.nf import NF_METRICS
from nftop.model.metrics.package import PACKAGE_METRICS
from nftop.model.metrics.pcm import PCM_PACKAGE_METRICS
from nftop.model.nf.netdev import InterfaceRow
from nftop.model.nf.parts import NfNode, NfPort, NfQueue, NfThread
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import CacheDomain
from nftop.model.reading import Missing, Reading, Reason

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
        "classes_shared": nf.sharers or None,
        "baseline": _baseline(frame, nf),
        "threads": [_thread(thread) for thread in nf.threads],
    }
    readings: dict[str, Any] = {metric.id: nf.readings[metric.id] for metric in NF_METRICS}
    readings["ports"] = _reported(nf.ports, _port)
    readings["queues"] = _reported(nf.queues, _queue)
    readings["nodes"] = _reported(nf.nodes, _node)
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


def _reported(parts: Sequence[T] | Missing, how: Callable[[T], Any]) -> list[Any] | Missing:
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


def _level(level: BaselineLevel) -> dict[str, Any]:
    return {"median": level.median, "spread": level.spread, "ticks": level.ticks}


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


def frame_json(frame: Frame) -> bytes:
    """The frame as one line of UTF-8 JSON, without the newline."""
    return json_bytes(frame_object(frame))


def frame_object(frame: Frame) -> dict[str, Any]:
    """The frame as plain dictionaries and lists."""
    topology = frame.topology
    return {
        "schema": frame.schema,
        "time": rfc3339(frame.wall_ns),
        "interval_s": frame.interval_s,
        "simulated": frame.host.simulated,
        "host": {
            "name": frame.host.name,
            "lab": frame.host.lab,
            "remote": frame.host.remote or None,
            "model": frame.host.model,
            "uarch": frame.host.uarch,
            "cpus": len(topology.cpus),
            "packages": len(topology.packages),
        },
        "sources": {name: _source(state) for name, state in frame.sources.items()},
        "cpus": _cpus(frame.cpus),
        "groups": [group_object(group) for group in frame.groups],
        "cache": cache_object(frame),
        "packages": [_package(package) for package in frame.packages],
        "nfs": nf_objects(frame),
        "frequencies": frequencies_object(frame.frequencies),
        "interfaces": [_interface(interface) for interface in frame.interfaces],
        "accelerators": [
            with_missing({"name": accelerator.name, "per_s": {}}, _per_s(accelerator))
            for accelerator in frame.accelerators
        ],
        "findings": [_finding(finding) for finding in frame.findings],
        "incidents": [incident_object(item) for item in frame.incidents],
        "past_incidents": [incident_object(item) for item in frame.past_incidents],
        "lost": [
            {"ticks": item.ticks, "bytes": item.size_bytes, "why": item.why} for item in frame.lost
        ],
        "actions": [_action(item) for item in frame.noticed if item.wall_ns == frame.wall_ns],
        "self": with_missing(
            {"affinity": list(frame.own.affinity), "warning": frame.own.warning},
            {
                "cpu_ratio": frame.own.cpu_ratio,
                "counter_reads": frame.own.counters.reads,
                "counter_interrupts": frame.own.counters.interrupts,
                **_by_source(frame.own.counters_by_source),
            },
        ),
    }


def _by_source(costs: Mapping[str, CounterCost]) -> dict[str, Reading]:
    """By dotted name, as `with_missing` takes them."""
    readings: dict[str, Reading] = {}
    for name, cost in costs.items():
        readings[f"by_source.{name}.counter_reads"] = cost.reads
        readings[f"by_source.{name}.counter_interrupts"] = cost.interrupts
    return readings


def _source(state: SourceState) -> dict[str, Any]:
    return {
        "state": state.reason.key,
        "detail": state.detail,
        "age_s": state.age_s,
        "took_s": state.took_s,
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "metric": finding.metric,
        "where": finding.where,
        "text": finding.text,
        "since": rfc3339(finding.since_ns),
    }


def _action(noticed: Noticed) -> dict[str, Any]:
    return {
        "kind": "classes",
        "time": rfc3339(noticed.wall_ns),
        "within_s": (noticed.at_ns - noticed.since_ns) / 1e9,
        "changes": [change_object(change) for change in noticed.changes],
    }


def _interface(row: InterfaceRow) -> dict[str, Any]:
    named = {
        "name": row.name,
        "kind": row.kind,
        "driver": row.driver or None,
        "node": row.node,
        "owner_pid": row.owner,
    }
    rates = {
        "rx_packets_per_s": row.rx_packets_per_s,
        "tx_packets_per_s": row.tx_packets_per_s,
        "missed_per_s": row.missed_per_s,
    }
    return with_missing(named, rates)


_CPU_METRICS = tuple(metric.id for metric in CPU_METRICS)
_REASON_KEYS = {int(reason): reason.key for reason in Reason}


def _cpus(table: CpuTable) -> list[dict[str, Any]]:
    block = Block.of(table.columns)
    numbers = block.numbers(_CPU_METRICS).T.tolist()
    reasons = block.reasons[block.rows_of(_CPU_METRICS)].T.tolist()
    rows = zip(range(len(table)), numbers, reasons, strict=True)
    return [_cpu(table, *row) for row in rows]


def _cpu(
    table: CpuTable, row: int, numbers: list[float | None], reasons: list[int]
) -> dict[str, Any]:
    info = table.topology.cpus[row]
    named: dict[str, Any] = {
        "cpu": info.cpu,
        "online": table.online[row],
        "core": info.core,
        "package": info.package,
        "l3": info.l3,
        "siblings": list(info.siblings),
        "thread": table.thread[row],
        "nf": table.nf[row],
        "nf_pid": table.nf_pid[row],
        "direction": table.direction[row],
        "saturated": table.saturated[row],
        "cpp_clock": table.cpp_clock[row],
        "attribution": table.attribution[row] or None,
        "origins": {name: of[row] for name, of in table.origins.items() if of[row] is not None},
    }
    group = table.group[row]
    named["group_of"] = None if isinstance(group, Missing) else group.of
    named |= nested(dict(zip(_CPU_METRICS, numbers, strict=True)))
    readings: dict[str, Any] = {"group": group if isinstance(group, Missing) else group.name}
    result = with_missing(named, readings | setting_values(table.settings[row]))
    absent = zip(_CPU_METRICS, reasons, strict=True)
    result["missing"] = {n: _REASON_KEYS[code] for n, code in absent if code} | result["missing"]
    return result


def _package(row: PackageRow) -> dict[str, Any]:
    named = {
        "package": row.package,
        "estimates": sorted(row.estimates),
        "origins": dict(row.origins),
        "sampled_s": dict(row.sampled_s),
    }
    metrics = (*PACKAGE_METRICS, *PCM_PACKAGE_METRICS)
    readings = {metric.id: row.readings[metric.id] for metric in metrics}
    readings |= _boxes("memory.channels", row.channels, ("memory.read", "memory.write"), readings)
    readings |= _boxes("upi.links", row.links, ("upi.received", "upi.sent"), readings)
    return with_missing(named, readings)


def _per_s(accelerator: Accelerator) -> Mapping[str, Reading]:
    """By counter; a dot in the server's name of one must not nest."""
    return {f"per_s.{name.replace('.', '_')}": rate for name, rate in accelerator.per_s.items()}


def _boxes(
    name: str, boxes: Iterable[BoxTraffic], ends: tuple[str, str], whole: Mapping[str, Reading]
) -> dict[str, Reading]:
    """Each box under its number; where there is none, the name itself, as absent as the whole."""
    into, out_of = (f"{end.rpartition('.')[2]}_bytes_per_s" for end in ends)
    readings: dict[str, Reading] = {}
    for box in boxes:
        readings[f"{name}.{box.number}.{into}"] = box.in_bytes_per_s
        readings[f"{name}.{box.number}.{out_of}"] = box.out_bytes_per_s
    why = whole[f"{ends[0]}_bytes_per_s"]
    return readings or {name: why if isinstance(why, Missing) else Missing(Reason.SOURCE)}
