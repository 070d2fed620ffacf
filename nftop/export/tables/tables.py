"""Frames and events of a recording as tidy tables, with the catalogue's names as columns.

`missing` names every absent number of a row with its reason: `cpp=idle ipc=source`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from nftop.export.csv import CPU_NAMES, reasons_of, reasons_of_cpus
from nftop.export.json.encode import picked
from nftop.export.json.frequencies import setting_values
from nftop.model.clock import NS_PER_S
from nftop.model.column import Block
from nftop.model.frame import DeviceRow, Frame, GroupCacheRow, GroupRow, NfRow, PackageRow
from nftop.model.ids import format_cpu_list
from nftop.model.incident import Incident
from nftop.model.metrics.catalogue import ALL_PACKAGE_METRICS, CPU_METRICS
from nftop.model.metrics.device import DEVICE_METRICS
from nftop.model.metrics.group import GROUP_METRICS
from nftop.model.metrics.metric import Metric
from nftop.model.metrics.nf import NF_METRICS
from nftop.model.missing import Missing
from nftop.model.rdt.masks import Cbm
from nftop.model.recording_loss import RecordingLoss
from nftop.model.struct import dataclass
from nftop.model.topology import Host
from nftop.store.format.records import BASELINE, Marker

# `time` is a wall clock in ns; `text` may be untrusted.
FieldType: TypeAlias = Literal["int", "float", "bool", "text", "time"]
# One sequence for each field of a table, all of the same length; None where there is nothing.
Columns: TypeAlias = Sequence[Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Field:
    """A column; `unit` of a number, "" where it has none or its name says it."""

    name: str
    kind: FieldType
    unit: str = ""


@dataclass(frozen=True, slots=True)
class ExportTable:
    """Its columns, and the rows that a frame has; `rows` None: not of frames."""

    fields: tuple[Field, ...]
    rows: Callable[[int, Frame], Columns] | None = None


def fields_of(kind: FieldType, names: str) -> tuple[Field, ...]:
    return tuple(Field(name, kind) for name in names.split())


_RECORDED = (Field("time", "time"), Field("host", "text"), Field("simulated", "bool"))
EVENT = (*_RECORDED, *fields_of("text", "kind text detail"))
GAP = (*_RECORDED, *fields_of("int", "lost_ticks lost_bytes"), Field("why", "text"))


def table_of(marker: Marker) -> str:
    """Table of a marker: changes of the host are `actions`."""
    return "markers" if marker.kind in ("marker", "finding", BASELINE) else "actions"


def event_columns(host: Host, marker: Marker) -> Columns:
    """One row of `actions` or `markers`."""
    detail = json.dumps(marker.detail, default=str) if marker.detail else None
    row = (marker.wall_ns, host.name, host.simulated, marker.kind, marker.text, detail)
    return turned(EVENT, [row])


def gap_columns(host: Host, losses: Iterable[tuple[int, RecordingLoss]]) -> Columns:
    """Rows of `gaps`; `time` is that of the next tick, at the end that of the last one."""
    own = (host.name, host.simulated)
    rows = [(wall_ns, *own, loss.ticks, loss.size_bytes, loss.why) for wall_ns, loss in losses]
    return turned(GAP, rows)


def numbers(metrics: Iterable[Metric]) -> tuple[Field, ...]:
    return tuple(Field(metric.id, "float", metric.unit.value) for metric in metrics)


TICK = (
    Field("tick", "int"),
    Field("time", "time"),
    Field("interval_s", "float", "s"),
    Field("host", "text"),
    *fields_of("bool", "simulated lab remote"),
)
MISSING = Field("missing", "text")


def of_tick(number: int, frame: Frame, rows: int) -> list[Sequence[Any]]:
    """`TICK`, the same in each row."""
    host = frame.host
    same = (number, frame.wall_ns, frame.interval_s, host.name, host.simulated, host.lab)
    return [[item] * rows for item in (*same, host.remote != "")]


def plain(value: Any) -> Any:
    return None if isinstance(value, Missing) else value


def turned(fields: tuple[Field, ...], rows: Sequence[Sequence[Any]]) -> list[Sequence[Any]]:
    return list(zip(*rows, strict=True)) if rows else [()] * len(fields)


# CPUs

_SETTING = (*fields_of("text", "sst_priority governor epp"), Field("sst_cp_class", "int"))
_CPU = (
    *fields_of("int", "cpu core package l3"),
    Field("online", "bool"),
    *fields_of("text", "thread nf"),
    Field("nf_pid", "int"),
    Field("direction", "text"),
    Field("saturated", "bool"),
    *fields_of("text", "saturated_by cpp_clock attribution group"),
    *_SETTING,
    *numbers(CPU_METRICS),
    MISSING,
)


def _cpus(number: int, frame: Frame) -> Columns:
    table = frame.cpus
    infos = table.topology.cpus
    groups = [None if isinstance(item, Missing) else item.name for item in table.group]
    return [
        *of_tick(number, frame, len(table)),
        [info.cpu for info in infos],
        [info.core for info in infos],
        [info.package for info in infos],
        [info.l3 for info in infos],
        *picked(table, "online thread nf nf_pid direction saturated").values(),
        [" ".join(table.saturated_by.get(info.cpu, ())) or None for info in infos],
        table.cpp_clock,
        [text or None for text in table.attribution],
        groups,
        *turned(
            _SETTING, [[*map(plain, setting_values(item).values())] for item in table.settings]
        ),
        *Block.of(table.columns).numbers(CPU_NAMES).tolist(),
        reasons_of_cpus(table),
    ]


# Network functions

_NF = (
    *fields_of("text", "nf kind"),
    Field("pid", "int"),
    *fields_of("text", "cpus direction"),
    Field("saturated", "bool"),
    *fields_of("text", "saturated_by cpp_clock"),
    Field("nf_interval_s", "float", "s"),
    *fields_of("text", "attribution problem classes classes_shared"),
    *numbers(NF_METRICS),
    MISSING,
)


def _nf(nf: NfRow) -> list[Any]:
    readings = {metric.id: nf.readings[metric.id] for metric in NF_METRICS}
    return [
        *picked(nf, "name kind pid").values(),
        format_cpu_list(nf.cpus),
        *picked(nf, "direction saturated").values(),
        " ".join(nf.saturated_by) or None,
        *picked(nf, "cpp_clock interval_s attribution").values(),
        None if nf.problem is None else nf.problem.message,
        " ".join(clos.name for clos in nf.classes) or None,
        nf.sharers or None,
        *map(plain, readings.values()),
        reasons_of(readings),
    ]


# Classes, and their monitoring groups

_MONITOR_METRICS = tuple(metric for metric in GROUP_METRICS if metric.id != "capacity_bytes")
_GROUP = (
    Field("group", "text"),
    *fields_of("int", "clos rmid"),
    *fields_of("text", "mode owner"),
    Field("tasks", "int"),
    Field("cpus", "text"),
    Field("l3", "int"),
    *fields_of("text", "cbm code_cbm"),
    Field("mba", "float"),
    Field("mba_unit", "text"),
    *numbers(GROUP_METRICS),
    MISSING,
)
_MONITOR = (
    *fields_of("text", "group monitor"),
    Field("rmid", "int"),
    *fields_of("text", "owner cpus"),
    Field("l3", "int"),
    *numbers(_MONITOR_METRICS),
    MISSING,
)


def _group(group: GroupRow, cache: GroupCacheRow) -> list[Any]:
    readings = {metric.id: cache.readings[metric.id] for metric in GROUP_METRICS}
    return [
        *picked(group, "name clos rmid mode owner tasks").values(),
        format_cpu_list(group.cpus),
        cache.l3,
        cache.cbm.hex if isinstance(cache.cbm, Cbm) else None,
        None if cache.code is None else cache.code.hex,
        plain(cache.mba),
        group.mba_unit,
        *map(plain, readings.values()),
        reasons_of({"cbm": cache.cbm, "mba": cache.mba, **readings}),
    ]


def _monitors(frame: Frame) -> list[list[Any]]:
    return [
        [
            group.name,
            *picked(monitor, "name rmid owner").values(),
            format_cpu_list(monitor.cpus),
            l3,
            *(plain(readings[metric.id]) for metric in _MONITOR_METRICS),
            reasons_of({metric.id: readings[metric.id] for metric in _MONITOR_METRICS}),
        ]
        for group in frame.groups
        for monitor in group.monitors
        for l3, readings in monitor.readings.items()
    ]


# Packages

_PACKAGE = (Field("package", "int"), Field("estimates", "text"),
            *numbers(ALL_PACKAGE_METRICS), MISSING)  # fmt: skip


def _package(row: PackageRow) -> list[Any]:
    readings = {metric.id: row.readings[metric.id] for metric in ALL_PACKAGE_METRICS}
    estimates = " ".join(sorted(row.estimates))
    return [row.package, estimates, *map(plain, readings.values()), reasons_of(readings)]


# Devices

_DEVICE = (*fields_of("text", "name root_port"), *fields_of("int", "package stack port"),
           *fields_of("text", "addresses drivers nfs estimates"),
           *numbers(DEVICE_METRICS), MISSING)  # fmt: skip


def _device(row: DeviceRow) -> list[Any]:
    port = row.port
    readings = {metric.id: row.readings[metric.id] for metric in DEVICE_METRICS}
    return [
        row.name,
        port.address,
        *port.location.values(),
        " ".join(item.address for item in port.devices),
        " ".join(dict.fromkeys(item.driver for item in port.devices if item.driver)),
        " ".join(row.nfs),
        " ".join(sorted(row.estimates)),
        *map(plain, readings.values()),
        reasons_of(readings),
    ]


# Findings, incidents and changes

_INCIDENT = (
    *fields_of("text", "incident kind severity title culprit culprit_kind group"),
    *fields_of("int", "l3"),
    *fields_of("text", "victims basis"),
    Field("since", "time"),
    *fields_of("bool", "since_is_bound muted"),
    Field("drop_packets_per_s", "float", "/s"),
    Field("lost_packets_per_s", "float", "/s"),
    Field("dropped_packets", "float", "packets"),
    Field("dropped_is_bound", "bool"),
    MISSING,
)
_CHANGE = (
    *fields_of("text", "kind group name"),
    Field("number", "int"),
    *fields_of("text", "old new"),
    Field("within_s", "float", "s"),
)


def _incident(item: Incident) -> list[Any]:
    culprit = item.culprit
    readings = {
        "drop_packets_per_s": item.price.drops_per_s,
        "lost_packets_per_s": item.price.lost_packets_per_s,
        "dropped_packets": item.dropped,
    }
    return [
        *(item.id, item.kind, item.severity.name.lower(), item.title),
        *((None, None) if culprit is None else (culprit.name, culprit.kind)),
        *(item.group or None, item.l3),
        " ".join(victim.party.name for victim in item.victims) or None,
        *(item.basis or None, item.since_ns, item.is_bound, item.muted),
        *(*map(plain, readings.values()), item.is_dropped_bound),
        reasons_of(readings),
    ]


def _changes(frame: Frame) -> list[list[Any]]:
    return [
        [
            *(cell.kind, cell.group or None, cell.name or None),
            None if cell.number < 0 else cell.number,
            *(change.old, change.new, (noticed.at_ns - noticed.since_ns) / NS_PER_S),
        ]
        for noticed in frame.noticed
        if noticed.wall_ns == frame.wall_ns
        for change in noticed.changes
        for cell in (change.cell,)
    ]


_FINDING = (
    *fields_of("text", "rule metric where text"),
    Field("since", "time"),
    Field("since_is_bound", "bool"),
)
_OF_FINDING = "rule metric where text since_ns is_bound"


def _of_frames(
    fields: tuple[Field, ...], rows_of: Callable[[Frame], Iterable[Sequence[Any]]]
) -> ExportTable:
    """A table of frames with `TICK` before the fields of its rows."""

    def columns(number: int, frame: Frame) -> Columns:
        rows = list(rows_of(frame))
        return [*of_tick(number, frame, len(rows)), *turned(fields, rows)]

    return ExportTable((*TICK, *fields), columns)


TABLES: Mapping[str, ExportTable] = MappingProxyType(
    {
        "cpus": ExportTable((*TICK, *_CPU), _cpus),
        "nfs": _of_frames(_NF, lambda frame: map(_nf, frame.nfs)),
        "groups": _of_frames(
            _GROUP,
            lambda frame: (_group(row, cache) for row in frame.groups for cache in row.caches),
        ),
        "monitors": _of_frames(_MONITOR, _monitors),
        "packages": _of_frames(_PACKAGE, lambda frame: map(_package, frame.packages)),
        "devices": _of_frames(_DEVICE, lambda frame: map(_device, frame.devices)),
        "findings": _of_frames(
            _FINDING,
            lambda frame: ([*picked(item, _OF_FINDING).values()] for item in frame.findings),
        ),
        "incidents": _of_frames(_INCIDENT, lambda frame: map(_incident, frame.incidents)),
        "changes": _of_frames(_CHANGE, _changes),
        "actions": ExportTable(EVENT),
        "markers": ExportTable(EVENT),
        "gaps": ExportTable(GAP),
    }
)
