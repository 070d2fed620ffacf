"""A frame as one JSON object, schema `nftop.frame/1`.

An absent number is null and its reason stands in `missing`. Ratios are 0..1. `self.counter_reads`
and `self.counter_interrupts`, of the CPUs that are counted, are since the tick before, of all
sources; `self.by_source` has them of each.
`memory.channels` and `upi.links` of a package are objects by the kernel's number of the box, as in
`uncore_imc_3`. `origins` of a CPU or a package names the source of numbers that are not of their
metric's first choice: `{"ipc": "pcm"}`; as `links` it names that of a package's links.
`findings` are facts beyond a limit, the most severe first, whatever CPUs are shown: `nftop explain
RULE` says more of each.
`lost` is what a replay lacks between the tick before and this one, `{"ticks", "bytes", "why"}`
each; `ticks` is null where nobody can tell, and where another session begins: then `interval_s` is
null too, as in every first frame.
`actions` are the changes of cache classes that this tick was the first to show, by whomever they
were made; `within_s` is how long before the reading that shows a change the one without it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from nftop.export.json.changes_of import change_object
from nftop.export.json.classes import cache_object, group_object
from nftop.export.json.encode import json_bytes
from nftop.export.json.frequencies import frequencies_object, setting_values
from nftop.export.json.missing import with_missing
from nftop.export.json.nfs import nf_objects
from nftop.model.change import Noticed
from nftop.model.frame import (
    Accelerator,
    BoxTraffic,
    CounterCost,
    CpuTable,
    Finding,
    Frame,
    PackageRow,
    SourceState,
)
from nftop.model.metrics.catalogue import CPU_METRICS
from nftop.model.metrics.package import PACKAGE_METRICS
from nftop.model.metrics.pcm import PCM_PACKAGE_METRICS
from nftop.model.nf.netdev import InterfaceRow
from nftop.model.reading import Missing, Reading, Reason


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
        "cpus": [_cpu(frame.cpus, row) for row in range(len(frame.cpus))],
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


def rfc3339(wall_ns: int) -> str:
    """UTC with milliseconds: `2026-01-31T03:12:00.250Z`."""
    moment = datetime.fromtimestamp(wall_ns // 1_000_000_000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{wall_ns // 1_000_000 % 1000:03d}Z"


def _by_source(costs: Mapping[str, CounterCost]) -> dict[str, Reading]:
    """By dotted name, as `with_missing` takes them."""
    found: dict[str, Reading] = {}
    for name, cost in costs.items():
        found[f"by_source.{name}.counter_reads"] = cost.reads
        found[f"by_source.{name}.counter_interrupts"] = cost.interrupts
    return found


def _source(state: SourceState) -> dict[str, Any]:
    return {
        "state": state.reason.key,
        "detail": state.detail,
        "age_s": state.age_s,
        "took_s": state.took_s,
    }


def _finding(found: Finding) -> dict[str, Any]:
    return {
        "rule": found.rule,
        "metric": found.metric,
        "where": found.where,
        "text": found.text,
        "since": rfc3339(found.since_ns),
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


def _cpu(table: CpuTable, row: int) -> dict[str, Any]:
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
    readings: dict[str, Any] = {metric.id: table.columns[metric.id][row] for metric in CPU_METRICS}
    readings["group"] = group if isinstance(group, Missing) else group.name
    readings |= setting_values(table.settings[row])
    return with_missing(named, readings)


def _package(row: PackageRow) -> dict[str, Any]:
    named = {
        "package": row.package,
        "estimates": sorted(row.estimates),
        "origins": dict(row.origins),
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
    found: dict[str, Reading] = {}
    for box in boxes:
        found[f"{name}.{box.number}.{into}"] = box.in_bytes_per_s
        found[f"{name}.{box.number}.{out_of}"] = box.out_bytes_per_s
    why = whole[f"{ends[0]}_bytes_per_s"]
    return found or {name: why if isinstance(why, Missing) else Missing(Reason.SOURCE)}
