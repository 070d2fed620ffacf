"""Metrics over the cores of a network function, of its cache, and of its monitoring groups.

A thread in a monitoring group is counted there on every CPU; one in no group, or in the root group,
is counted where its CPU is (resctrl.rst, "Resource monitoring rules").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from nftop.derive.cache.table import ClassTables
from nftop.derive.nf.line_rate import lines_of
from nftop.derive.nf.rates import NfCore, NfRates
from nftop.derive.saturation import room_of, room_of_all
from nftop.derive.threads import ThreadRate
from nftop.model.column import Column
from nftop.model.frame import CacheClass, CpuTable, GroupRow, MonitorRow, NfRow
from nftop.model.ids import Cpu, L3Domain, format_cpu_list
from nftop.model.metrics.flow_tables import FLOW_TABLE_METRICS
from nftop.model.metrics.nf import LATENCY_METRICS, NF_NODES
from nftop.model.metrics.ports import GRAPH_METRICS, PORT_METRICS
from nftop.model.missing import Missing, Reading, Reason, number_or, product, quotient, total
from nftop.model.nf.components import (
    NO_ERROR_DROPS,
    NO_LATENCY,
    NO_MONITOR,
    NO_PORT_LOSSES,
    ONLY_OVS,
    NfThread,
)
from nftop.model.rdt.rdt import ROOT, group_path
from nftop.model.struct import dataclass, field, replace

_ALONE = Missing(Reason.UNDEFINED, "packets come to one core of it, so there is nothing to compare")
_NO_POLLER = Missing(Reason.IDLE, "no thread of it polls; it may not have been started")
_NO_PACKETS = Missing(Reason.IDLE, "no packets, so none that missed anything")
_NO_OCCUPANCY = Missing(Reason.SOURCE, "what its class fills is not metered")


@dataclass(frozen=True, slots=True)
class NfHostContext:
    """Data of the host for the rows of network functions.

    Attributes:
        cpus: the frame's table.
        threads: every watched thread, by the pid of its process.
    """

    cpus: CpuTable
    classes: ClassTables
    threads: Mapping[int, Sequence[ThreadRate]]


def with_cores(row: NfRow, nf: NfRates, context: NfHostContext) -> NfRow:
    """The row with the metrics of its threads and their CPUs."""
    row_of = context.cpus.topology.row_of
    rows = [row_of[cpu] for cpu in row.cpus if cpu in row_of]
    classes = _classes(context.cpus, rows)
    rooms = [room_of(core, nf.direction) for core in nf.cores]
    room = room_of_all(rooms, nf.packets_per_s)
    line, fullest = lines_of(nf.ports)
    cores = sorted(nf.cores, key=lambda core: (core.cpu, core.thread))
    own = context.threads.get(row.pid, ())
    counted, monitors = monitored(own, cores, context.classes.groups)
    withheld = nf.uncounted or row.shared
    physical = _one_per_core(context.cpus, rows)
    return replace(
        row,
        readings={
            **row.readings,
            **_reported(nf),
            "imbalance_ratio": nf.uncounted or imbalance_ratio(nf.cores),
            "room_ratio": nf.uncounted or room.ratio,
            "room_packets_per_s": nf.uncounted or room.packets_per_s,
            "line_packets_per_s": line,
            "line_ratio": fullest,
            "vector_fill_ratio": nf.uncounted or _fullest(nf.cores),
            "llc_misses_per_packet": withheld or _misses(context.cpus, rows),
            "llc_occupancy_bytes": (None if rows else nf.uncounted) or _occupancy(context, rows),
            **counted,
            **{
                node.id: withheld or _node(context.cpus.columns[node.id], physical)
                for node in NF_NODES
            },
        },
        threads=tuple(
            NfThread(
                core.cpu,
                core.thread,
                core.packets_per_s,
                core.busy_ratio,
                core.run_ratio,
                item.tid,
                item.path,
                *(item.readings[name] for name in MONITORED),
            )
            for core, item in zip(cores, monitors, strict=True)
        ),
        ports=nf.ports,
        queues=nf.queues,
        nodes=nf.nodes,
        flow_tables=nf.flow_tables,
        drops=nf.drops,
        xstats=nf.xstats,
        classes=classes,
        sharers="; ".join(filter(None, (_others(clos, row, context) for clos in classes))),
    )


def _reported(nf: NfRates) -> dict[str, Reading]:
    """What only some kinds report, or why its kind does not, and what it loses."""
    return {
        **{metric.id: nf.problem or ONLY_OVS for metric in FLOW_TABLE_METRICS},
        **{metric.id: nf.problem or NO_PORT_LOSSES for metric in PORT_METRICS},
        **{metric.id: nf.problem or NO_ERROR_DROPS for metric in GRAPH_METRICS},
        **{metric.id: nf.problem or NO_LATENCY for metric in LATENCY_METRICS},
        **nf.readings,
        "missed_packets_per_s": nf.missed_packets_per_s,
        "drop_packets_per_s": dropped(
            nf.missed_packets_per_s, nf.readings.get("ovs.lost_upcalls_per_s", 0.0)
        ),
    }


def dropped(missed: Reading, lost_upcalls: Reading) -> Reading:
    """Packets per second lost: by NICs and by failed upcalls; the known part if that is not 0."""
    if isinstance(lost_upcalls, Missing) or lost_upcalls == 0:
        return missed
    return lost_upcalls + number_or(missed, 0.0)


def imbalance_ratio(cores: Iterable[NfCore]) -> Reading:
    """Largest packets per second of a CPU / their mean - 1; 0 if all are equal.

    Only of cores that poll a queue, not of later stages of a pipeline. Lcores of one CPU count as
    one.
    """
    by_cpu: dict[Cpu, list[Reading]] = {}
    for core in cores:
        packets = core.packets_per_s
        if not (isinstance(packets, Missing) and packets.reason is Reason.UNDEFINED):
            by_cpu.setdefault(core.cpu, []).append(packets)
    return spread_of([total(value) for value in by_cpu.values()])


def spread_of(of_cores: Sequence[Reading]) -> Reading:
    """Largest / mean - 1; undefined for a single one."""
    if len(of_cores) < 2:
        return _ALONE
    summed = total(of_cores)
    if isinstance(summed, Missing):
        return summed
    mean = summed / len(of_cores)
    largest = max(core for core in of_cores if not isinstance(core, Missing))
    of_mean = quotient(largest, mean)
    return of_mean if isinstance(of_mean, Missing) else max(of_mean - 1.0, 0.0)


def _fullest(cores: Iterable[NfCore]) -> Reading:
    """Fill of the fullest vectors, or why one is unknown."""
    fills = [core.vector_fill_ratio for core in cores]
    known = [fill for fill in fills if not isinstance(fill, Missing)]
    absent = next((fill for fill in fills if isinstance(fill, Missing)), _NO_POLLER)
    return max(known) if known and len(known) == len(fills) else absent


def _misses(cpus: CpuTable, rows: Sequence[int]) -> Reading:
    """Misses of all / packets of all; cores without packets do not count."""
    packets = {row: cpus.columns["packets_per_s"][row] for row in rows}
    some = [row for row, packet in packets.items() if packet != 0]
    misses = total(
        (product(cpus.columns["llc_misses_per_packet"][row], packets[row]) for row in some),
        _NO_PACKETS if rows else _NO_POLLER,
    )
    return quotient(misses, total((packets[row] for row in some), _NO_PACKETS))


def _one_per_core(cpus: CpuTable, rows: Sequence[int]) -> list[int]:
    """The first of `rows` on each physical core."""
    first: dict[object, int] = {}
    for row in rows:
        info = cpus.topology.cpus[row]
        first.setdefault(("cpu", info.cpu) if info.core is None else info.core, row)
    return list(first.values())


def _node(column: Column, rows: Sequence[int]) -> Reading:
    """Mean of a top-down share over the physical cores that did not sleep, one of `rows` each."""
    readings = [column[row] for row in rows]
    awake = [
        reading
        for reading in readings
        if not (isinstance(reading, Missing) and reading.reason is Reason.IDLE)
    ]
    if not awake:
        return readings[0] if readings else _NO_POLLER
    summed = total(awake)
    return summed if isinstance(summed, Missing) else summed / len(awake)


def _classes(cpus: CpuTable, rows: Sequence[int]) -> tuple[CacheClass, ...]:
    groups = (cpus.group[row] for row in rows)
    named = {item.name: item for item in groups if not isinstance(item, Missing)}
    return tuple(named.values())


def _occupancy(context: NfHostContext, rows: Sequence[int]) -> Reading:
    """Occupancy of the classes of these rows in their caches, each counted once."""
    cpus = context.cpus
    wanted: dict[tuple[str, L3Domain | None], None] = {}
    for row in rows:
        group_of_cpu = cpus.group[row]
        if isinstance(group_of_cpu, Missing):
            return group_of_cpu
        wanted[group_of_cpu.name, cpus.topology.cpus[row].l3] = None
    known: Mapping[tuple[str, L3Domain | None], Reading] = {
        (group.name, cache.l3): cache.readings["occupancy_bytes"]
        for group in context.classes.groups
        for cache in group.caches
    }
    return total((known.get(key, _NO_OCCUPANCY) for key in wanted), _NO_POLLER)


def _others(of: CacheClass, row: NfRow, context: NfHostContext) -> str:
    """Other known members of a class; "" for none."""
    group = next((item for item in context.classes.groups if item.name == of.name), None)
    if group is None:
        return ""
    if group.name == ROOT:
        return "the default class is everybody's who is in no other"
    others = [*_cpus_of_others(group, row), *_tasks_of_others(group, row, context)]
    return f"in {group.name} too: {', '.join(others)}" if others else ""


def _cpus_of_others(group: GroupRow, row: NfRow) -> list[str]:
    others = [cpu for cpu in group.cpus if cpu not in row.cpus]
    return [f"CPU {format_cpu_list(others)}"] if others else []


def _tasks_of_others(group: GroupRow, row: NfRow, context: NfHostContext) -> list[str]:
    """Number of a class' other tasks, and names of the watched ones."""
    tasks = context.classes.of_tasks
    own = sum(
        group_of_task is not None and group_of_task.name == group.name
        for group_of_task in (
            tasks.get(rate.thread.tid) for rate in context.threads.get(row.pid, ())
        )
    )
    others = max(group.tasks - own, 0)
    return [f"{others} other thread{'s' * (others != 1)}"] if others else []


_OTHERS = Missing(
    Reason.UNDEFINED,
    "its monitoring group counts other threads too: 'nftop cat create --monitor' makes one alone",
)
_SOME = Missing(Reason.UNDEFINED, "some of its threads are in no monitoring group: M takes all")
_NOTHING = Missing(Reason.HARDWARE, "its monitoring group is not metered here")
OCCUPANCY, LOCAL, REMOTE = (
    "occupancy_bytes",
    "memory_local_bytes_per_s",
    "memory_remote_bytes_per_s",
)
MONITORED = (OCCUPANCY, LOCAL, REMOTE)
_NONE: dict[str, Reading] = dict.fromkeys(MONITORED, NO_MONITOR)


@dataclass(frozen=True, slots=True)
class MonitoredThread:
    """A polling thread and its monitoring group.

    Attributes:
        tid: None if unknown.
        path: of its monitoring group (`model.change.group_path`), "" for none.
        readings: by the names of `MONITORED`, of the thread alone.
    """

    tid: int | None = None
    path: str = ""
    readings: dict[str, Reading] = field(default_factory=lambda: dict(_NONE))


def monitored(
    own: Sequence[ThreadRate], cores: Sequence[NfCore], groups: Iterable[GroupRow]
) -> tuple[dict[str, Reading], tuple[MonitoredThread, ...]]:
    """Readings of a network function by `MONITORED`, and of the thread of each core.

    A group's counters are a thread's, or the NF's, if nothing else is in the group. `own`: the
    watched threads of its process.
    """
    tids = frozenset(rate.thread.tid for rate in own)
    cpus = frozenset(core.cpu for core in cores)
    of_tid: dict[int, tuple[str, MonitorRow]] = {}
    of_cpu: dict[Cpu, tuple[str, MonitorRow]] = {}
    for group in groups:
        for monitor in group.monitors:
            counter = group_path(group.name, monitor.name), monitor
            of_tid |= dict.fromkeys(monitor.tids, counter)
            of_cpu |= dict.fromkeys(monitor.cpus, counter)
    counted: list[tuple[int | None, str, MonitorRow | None]] = []
    for core in cores:
        tid = _tid_of(core, own)
        hit = (of_tid.get(tid) if tid is not None else None) or of_cpu.get(core.cpu)
        counted.append((tid, *hit) if hit is not None else (tid, "", None))
    rows = tuple(
        MonitoredThread(tid, path, _readings(monitor, frozenset({tid}), frozenset({core.cpu})))
        for core, (tid, path, monitor) in zip(cores, counted, strict=True)
    )
    monitors = {path: monitor for _, path, monitor in counted if monitor is not None}
    if not monitors:
        return dict(_NONE), rows
    if any(monitor is None for _, _, monitor in counted):
        return dict.fromkeys(MONITORED, _SOME), rows
    of_monitors = [_readings(monitor, tids, cpus) for monitor in monitors.values()]
    return {name: total(item[name] for item in of_monitors) for name in MONITORED}, rows


def _tid_of(core: NfCore, own: Sequence[ThreadRate]) -> int | None:
    """The thread of a core: the one pinned there, by its name if there are more."""
    here = [rate.thread for rate in own if rate.cpu == core.cpu]
    named = [row for row in here if core.thread in (row.comm, row.label)]
    chosen = named or here
    return chosen[0].tid if len(chosen) == 1 else None


def _readings(
    monitor: MonitorRow | None, tids: frozenset[int | None], cpus: frozenset[Cpu]
) -> dict[str, Reading]:
    """Counters of a monitoring group that has nothing but these threads and CPUs."""
    if monitor is None:
        return dict(_NONE)
    if not tids.issuperset(monitor.tids) or not cpus.issuperset(monitor.cpus):
        return dict.fromkeys(MONITORED, _OTHERS)
    caches = monitor.readings.values()
    used, moved, near = (
        total((cache[name] for cache in caches), _NOTHING)
        for name in ("occupancy_bytes", "mbm_total_bytes_per_s", "mbm_local_bytes_per_s")
    )
    far: Reading
    if isinstance(moved, Missing):
        far = moved
    elif isinstance(near, Missing):
        far = near
    else:
        far = max(moved - near, 0.0)
    return {OCCUPANCY: used, LOCAL: near, REMOTE: far}
