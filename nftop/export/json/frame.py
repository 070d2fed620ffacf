"""A frame as one JSON object, schema `nftop.frame/1`.

An absent number is null, its reason stands in `missing`. Ratios are 0..1.

- `self.counter_reads`, `self.counter_interrupts`: of counted CPUs, since the previous tick, over
  all sources; `self.by_source` has them by source.
- `memory.channels`, `upi.links` of a package: objects by the kernel's box number, as in
  `uncore_imc_3`.
- `devices`: PCIe root ports with network devices behind them, which are counted together; `name`
  is their interfaces, or addresses. `package`, `stack` and `port` are null if it is not counted.
  `devices_missing`: why there are none; null where there are.
- `origins` of a CPU or package: the source of numbers that are not from their metric's first
  choice, `{"ipc": "pcm"}`; `links` stands for the package's links.
- `sampled_s` of a CPU, package or network function: age in seconds of numbers that are read now
  and then.
- `findings`: facts beyond a limit, the most severe first, for all CPUs; see `nftop explain RULE`.
- `incidents`, `past_incidents`: findings by cause, the most harmful and the newest first, muted
  ones too. `severity` is `bad` (packets are lost), `warn` or `info`. `dropped_packets` is a lower
  bound if there are `dropped_uncounted` (`seconds` is null for an NF that never counts drops), or
  if it is counted from `dropped_since` on and began before; `dropped_is_bound` is true then.
  Costs of victims are of `cpp_metric`; an upper bound may have empty polls in it.
- `focus`: the core counted in detail (`--focus`), null without one; `tree` has its top-down nodes,
  each after its parent: `of` is `slots` or `cycles`, `beyond` whether it and all above it exceed
  the vendor's thresholds, `coverage` the share of time counted. `probes` are further metrics of
  the core.
- `lost`: gaps of a replay since the previous tick, `{"ticks", "bytes", "why"}` each; `ticks` is
  null if unknown or if another session begins. `interval_s` is then null, as in every first frame.
- `actions`: changes of cache classes first seen in this tick, by any program; `within_s` is the
  time between the reading that shows a change and the previous one.
- `groups`, `cache`: cache classes, by cache id.
- `nfs`: `classes` are the cache classes on the NF's CPUs, `classes_shared` the other NFs in them or
  null, `owner` the user whose socket provides the numbers. Ports, queues and nodes that an NF does
  not report are null.
- `xstats` of an NF: every counter, `estimate` of a rate that is by packet received.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nftop.derive.compare.baseline import baseline_of
from nftop.export.json.changes_of import change_object
from nftop.export.json.encode import json_bytes, nested, picked, rfc3339, with_missing
from nftop.export.json.frequencies import frequencies_object, setting_values
from nftop.model.baseline import BaselineLevel
from nftop.model.change import Noticed
from nftop.model.column import Block
from nftop.model.frame import (
    Accelerator,
    BoxTraffic,
    CoreDetail,
    CounterCost,
    CpuTable,
    DeviceRow,
    Frame,
    GroupCacheRow,
    GroupRow,
    MonitorRow,
    NfRow,
    PackageRow,
)
from nftop.model.incident import Incident, Party, Price, Victim
from nftop.model.metrics.catalogue import ALL_PACKAGE_METRICS, CPU_METRICS
from nftop.model.metrics.device import DEVICE_METRICS
from nftop.model.metrics.flow_tables import FLOW_TABLE_METRICS
from nftop.model.metrics.group import GROUP_METRICS
from nftop.model.metrics.nf import NF_METRICS
from nftop.model.metrics.probes import CORE_METRICS
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.nf.netdev import InterfaceRow
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import NO_IO_ALLOC, CacheDomain


def incident_object(incident: Incident) -> dict[str, Any]:
    """One incident; `until` is null while it is open."""
    return with_missing(
        {
            "id": incident.id,
            "kind": incident.kind,
            "severity": incident.severity.name.lower(),
            "title": incident.title,
            "culprit": None if incident.culprit is None else _party(incident.culprit),
            "likely": incident.likely,
            "basis": incident.basis,
            "victims": [_victim(item) for item in incident.victims],
            "since": rfc3339(incident.since_ns),
            "since_is_bound": incident.is_bound,
            "until": None if incident.until_ns is None else rfc3339(incident.until_ns),
            "price": _price(incident.price),
            "cost": incident.cost,
            "worst": {**_price(incident.worst), "at": rfc3339(incident.worst_ns)},
            "findings": [{"rule": rule, "where": where} for rule, where in incident.findings],
            "evidence": [
                {
                    "at": rfc3339(item.wall_ns),
                    "value_at": rfc3339(item.valued_ns or item.wall_ns),
                    "step": item.step,
                    "text": item.text + item.current,
                    "source": item.source,
                }
                for item in incident.chain
            ],
            "ruled_out": [
                {"name": item.name, "excluded": item.excluded, "text": item.text}
                for item in incident.ruled_out
            ],
            "dropped_uncounted": [
                {"nf": item.name, "seconds": item.seconds, "why": item.why}
                for item in incident.uncounted
            ],
            "dropped_is_bound": incident.is_dropped_bound,
            "dropped_since": rfc3339(incident.counted_from_ns or incident.since_ns),
            "muted": incident.muted,
            "acknowledged": incident.acknowledged,
        },
        {"dropped_packets": incident.dropped},
    )


def _party(party: Party) -> dict[str, Any]:
    return {
        "kind": party.kind,
        "name": party.name,
        "key": party.key or None,
        "pid": party.pid,
        "cpus": list(party.cpus),
        "class": party.group or None,
        "user": party.user or None,
        "container": party.container or None,
    }


def _victim(victim: Victim) -> dict[str, Any]:
    readings = {
        "before": victim.before,
        "now": victim.now,
        "change": victim.change,
        "drop_packets_per_s": victim.drops_per_s,
        "cpp_before": victim.cpp_before,
        "cpp_now": victim.cpp_now,
    }
    plain = {
        "party": _party(victim.party),
        "metric": victim.metric,
        "cpp_metric": victim.cost,
        "cpp_before_is_bound": victim.bounds[0],
        "cpp_now_is_bound": victim.bounds[1],
    }
    return with_missing(plain, readings)


def _price(price: Price) -> dict[str, Any]:
    return with_missing(
        {},
        {"drop_packets_per_s": price.drops_per_s, "lost_packets_per_s": price.lost_packets_per_s},
    )


_CPU_COLUMNS = "thread nf nf_pid direction saturated cpp_clock"


def nf_objects(frame: Frame) -> list[dict[str, Any]]:
    return [_nf(frame, nf) for nf in frame.nfs]


def _nf(frame: Frame, nf: NfRow) -> dict[str, Any]:
    named = {
        **picked(nf, "name kind pid"),
        "cpus": list(nf.cpus),
        **picked(nf, "direction saturated cpp_clock interval_s attribution"),
        "saturated_by": list(nf.saturated_by),
        "owner": None if nf.owner is None else picked(nf.owner, "user uid privileged reason"),
        "problem": None if nf.problem is None else nf.problem.message,
        "classes": [clos.name for clos in nf.classes],
        "classes_shared": nf.sharers or None,
        "baseline": _baseline(frame, nf),
        "sampled_s": dict(nf.sampled_s),
        "threads": _rows(
            nf.threads,
            "cpu name tid monitor",
            "packets_per_s busy_ratio run_ratio occupancy_bytes memory_local_bytes_per_s "
            "memory_remote_bytes_per_s",
        ),
    }
    readings: dict[str, Any] = {metric.id: nf.readings[metric.id] for metric in NF_METRICS}
    ports = (
        "rx_packets_per_s tx_packets_per_s missed_packets_per_s drop_packets_per_s frame_bytes "
        "line_packets_per_s"
    )
    readings["ports"] = _rows(nf.ports, "name", ports)
    readings["queues"] = _rows(
        nf.queues, "port queue cpu enabled", "packets_per_s used_ratio missed_packets_per_s"
    )
    nodes = "clocks_ratio clocks_per_packet packets_per_call"
    readings["nodes"] = _rows(nf.nodes, "name polls", nodes)
    readings["flow_tables"] = _rows(
        nf.flow_tables,
        "cpu name",
        " ".join(metric.id.removeprefix("ovs.") for metric in FLOW_TABLE_METRICS),
    )
    readings["drops"] = _rows(nf.drops, "where reason", "packets_per_s")
    if nf.xstats:
        readings["xstats"] = _rows(nf.xstats, "port name count drops estimate", "per_s")
    return with_missing(named, readings)


def _rows(rows: Sequence[object] | Missing, named: str, readings: str) -> list[Any] | Missing:
    """Rows of an NF, if it reports them; attributes as `picked` takes them."""
    if isinstance(rows, Missing):
        return rows
    return [with_missing(picked(row, named), picked(row, readings)) for row in rows]


def _baseline(frame: Frame, nf: NfRow) -> dict[str, Any] | None:
    """The baseline that the NF is compared with; null if there is none."""
    kept = baseline_of(frame.baselines, nf, frame.nfs)
    if kept is None or frame.baselines is None:
        return None
    return {
        "wall_ns": frame.baselines.wall_ns,
        **picked(kept, "pid ticks"),
        "metrics": _levels(kept.levels),
        "cores": [{"cpu": core.cpu, "metrics": _levels(core.levels)} for core in kept.cores],
    }


def _levels(levels: Mapping[str, BaselineLevel]) -> dict[str, Any]:
    return {name: picked(level, "median spread ticks") for name, level in levels.items()}


_UNKNOWN_OWNER = "unknown"


def group_object(group: GroupRow) -> dict[str, Any]:
    """A control group: its masks, occupancy and bandwidth in each cache."""
    values: dict[str, Any] = {**_known_of(group, "clos rmid"), "mba.unit": group.mba_unit}
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
        "monitors": list(map(_monitor, group.monitors)),
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
    """Limits of classes and monitors, how many are in use, and the caches themselves."""
    limits = frame.limits
    groups = len(frame.groups)
    metered = groups + sum(len(group.monitors) for group in frame.groups)
    values: dict[str, Any] = {
        "closids.of": _known(limits.closids),
        "rmids.of": _known(limits.rmids),
        "closids.used": groups,
        "rmids.used": _known(None if limits.rmids is None else metered),
        **_known_of(limits, "min_bits sparse mba_least mba_step"),
        "io_alloc": NO_IO_ALLOC if limits.io_alloc is None else limits.io_alloc,
    }
    for domain in frame.domains:
        values |= {f"l3.{domain.l3}.{name}": value for name, value in _domain(domain).items()}
    return with_missing({"cdp": limits.cdp, "l3": {}}, values)


def _domain(domain: CacheDomain) -> dict[str, Any]:
    io = domain.io
    return {
        **_known_of(domain, "ways size_bytes"),
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


def _known_of(row: object, names: str) -> dict[str, Any]:
    return {name: _known(value) for name, value in picked(row, names).items()}


def frame_json(frame: Frame) -> bytes:
    """The frame as one line of UTF-8 JSON, without the newline."""
    return json_bytes(frame_object(frame))


def frame_object(frame: Frame) -> dict[str, Any]:
    topology = frame.topology
    return {
        "schema": frame.schema,
        "time": rfc3339(frame.wall_ns),
        "interval_s": frame.interval_s,
        "simulated": frame.host.simulated,
        "host": {
            **picked(frame.host, "name lab"),
            "remote": frame.host.remote or None,
            **picked(frame.host, "model uarch"),
            "cpus": len(topology.cpus),
            "packages": len(topology.packages),
        },
        "sources": {
            name: {"state": state.reason.key, **picked(state, "detail age_s took_s")}
            for name, state in frame.sources.items()
        },
        "cpus": _cpus(frame.cpus),
        "groups": list(map(group_object, frame.groups)),
        "cache": cache_object(frame),
        "packages": list(map(_package, frame.packages)),
        "focus": None if frame.focus is None else _focus(frame.focus),
        "nfs": nf_objects(frame),
        "frequencies": frequencies_object(frame.frequencies),
        "interfaces": list(map(_interface, frame.interfaces)),
        **_devices(frame),
        "accelerators": [
            with_missing({"name": accelerator.name, "per_s": {}}, _per_s(accelerator))
            for accelerator in frame.accelerators
        ],
        "findings": [
            {
                **picked(item, "rule metric where text"),
                "since": rfc3339(item.since_ns),
                "since_is_bound": item.is_bound,
                "muted": item.is_muted,
            }
            for item in frame.findings
        ],
        "incidents": list(map(incident_object, frame.incidents)),
        "past_incidents": list(map(incident_object, frame.past_incidents)),
        "lost": [
            {"ticks": item.ticks, "bytes": item.size_bytes, "why": item.why} for item in frame.lost
        ],
        "actions": [_action(item) for item in frame.noticed if item.wall_ns == frame.wall_ns],
        "self": with_missing(
            {"affinity": list(frame.own.affinity), "warning": frame.own.warning},
            {
                "cpu_ratio": frame.own.cpu_ratio,
                **_cost("", frame.own.counters),
                **{
                    name: reading
                    for source, cost in frame.own.counters_by_source.items()
                    for name, reading in _cost(f"by_source.{source}.", cost).items()
                },
            },
        ),
    }


def _cost(prefix: str, cost: CounterCost) -> dict[str, Reading]:
    return {f"{prefix}counter_reads": cost.reads, f"{prefix}counter_interrupts": cost.interrupts}


def _action(noticed: Noticed) -> dict[str, Any]:
    return {
        "kind": "classes",
        "time": rfc3339(noticed.wall_ns),
        "within_s": (noticed.at_ns - noticed.since_ns) / 1e9,
        "changes": [change_object(change) for change in noticed.changes],
    }


def _interface(row: InterfaceRow) -> dict[str, Any]:
    named = {
        **picked(row, "name kind"),
        "driver": row.driver or None,
        "node": row.node,
        "owner_pid": row.owner,
    }
    return with_missing(
        named,
        picked(
            row, "rx_packets_per_s tx_packets_per_s missed_per_s frame_bytes line_packets_per_s"
        ),
    )


def _devices(frame: Frame) -> dict[str, Any]:
    why = frame.no_devices
    missing = None if why is None else {"reason": why.reason.key, "detail": why.message}
    return {"devices": list(map(_device, frame.devices)), "devices_missing": missing}


def _device(row: DeviceRow) -> dict[str, Any]:
    port = row.port
    named = {
        "name": row.name,
        "root_port": port.address,
        **port.location,
        "devices": [
            {
                **picked(item, "address"),
                "driver": item.driver or None,
                "interfaces": list(item.interfaces),
            }
            for item in port.devices
        ],
        "other_devices": port.others,
        "nfs": list(row.nfs),
        "estimates": sorted(row.estimates),
    }
    return with_missing(named, {metric.id: row.readings[metric.id] for metric in DEVICE_METRICS})


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
        **picked(info, "core package l3"),
        "siblings": list(info.siblings),
        **{name: column[row] for name, column in picked(table, _CPU_COLUMNS).items()},
        "saturated_by": list(table.saturated_by.get(info.cpu, ())),
        "attribution": table.attribution[row] or None,
        "origins": {name: of[row] for name, of in table.origins.items() if of[row] is not None},
        "sampled_s": table.sampled_of(row),
    }
    group = table.group[row]
    named["group_of"] = None if isinstance(group, Missing) else group.of
    named |= nested(dict(zip(_CPU_METRICS, numbers, strict=True)))
    readings: dict[str, Any] = {"group": group if isinstance(group, Missing) else group.name}
    result = with_missing(named, readings | setting_values(table.settings[row]))
    absent = zip(_CPU_METRICS, reasons, strict=True)
    result["missing"] = {n: _REASON_KEYS[code] for n, code in absent if code} | result["missing"]
    return result


def _focus(focus: CoreDetail) -> dict[str, Any]:
    return {
        "cpus": list(focus.cpus),
        "tree": [
            with_missing(
                picked(node, "name parent level of beyond"),
                {"ratio": node.reading, "coverage": node.coverage},
            )
            for node in focus.tree
        ],
        "probes": with_missing(
            {}, {metric.id: focus.readings[metric.id] for metric in CORE_METRICS}
        ),
        "coverage": with_missing({}, focus.coverage),
    }


def _package(row: PackageRow) -> dict[str, Any]:
    named = {
        "package": row.package,
        "estimates": sorted(row.estimates),
        "origins": dict(row.origins),
        "sampled_s": dict(row.sampled_s),
    }
    readings = {metric.id: row.readings[metric.id] for metric in ALL_PACKAGE_METRICS}
    readings |= _boxes("memory.channels", row.channels, ("memory.read", "memory.write"), readings)
    readings |= _boxes("upi.links", row.links, ("upi.received", "upi.sent"), readings)
    return with_missing(named, readings)


def _per_s(accelerator: Accelerator) -> Mapping[str, Reading]:
    """By counter; a dot in the server's name for it must not nest."""
    return {f"per_s.{name.replace('.', '_')}": rate for name, rate in accelerator.per_s.items()}


def _boxes(
    name: str, boxes: Iterable[BoxTraffic], ends: tuple[str, str], whole: Mapping[str, Reading]
) -> dict[str, Reading]:
    """Traffic by box number; without a box `name` itself, absent for the reason of the whole."""
    into, out_of = (f"{end.rpartition('.')[2]}_bytes_per_s" for end in ends)
    readings: dict[str, Reading] = {}
    for box in boxes:
        readings[f"{name}.{box.number}.{into}"] = box.in_bytes_per_s
        readings[f"{name}.{box.number}.{out_of}"] = box.out_bytes_per_s
    why = whole[f"{ends[0]}_bytes_per_s"]
    return readings or {name: why if isinstance(why, Missing) else Missing(Reason.SOURCE)}
