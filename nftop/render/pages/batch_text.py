"""A frame as plain text, for pipes and logs: all of it, or its monitors as `pqos -T`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from nftop.model.frame import Frame, MonitorRow, PackageRow
from nftop.model.ids import Cpu, format_cpu_list
from nftop.model.metrics.metric import Metric, Unit
from nftop.model.metrics.package import PACKAGE_METRICS
from nftop.model.missing import Missing, Reading, Reason, total
from nftop.model.nf.components import NO_MONITOR, NfThread
from nftop.model.number_text import counted
from nftop.model.rdt.rdt import class_name
from nftop.render.base.line import BLANK, Line, Span, Tone, crop, line, paragraph
from nftop.render.base.table import TableColumn, fit_columns, header_line, number_cell, text_cell
from nftop.render.base.text import ascii_only as to_ascii
from nftop.render.base.text import fit
from nftop.render.cache.class_cells import cache_absences
from nftop.render.cache.table import cache_lines
from nftop.render.cores.detail import absences
from nftop.render.cores.nfs import nf_lines
from nftop.render.cores.rows import CpuView
from nftop.render.cores.table import table_lines
from nftop.render.frame.findings import finding_text_lines
from nftop.render.frame.header import ViewStatus, badge_lines, header_lines
from nftop.render.incidents.line import incident_text_lines
from nftop.render.topdown.tree import core_lines
from nftop.render.traffic.page import by_traffic, device_lines

_SOCKET = TableColumn("socket", "SOCKET", 7, right=False)
_CELL = 9
_UNITS = " GB/s; M requests/s"
# Sums of hits and misses, and traffic unrelated to packets, are on the Traffic screen only.
_ELSEWHERE = re.compile(
    r".*\.total_per_s|.*\.[cd]rd\..*|mmio\..*|upi\..*|(per_packet|utilisation)\..*"
)
_COLUMNS = tuple(
    TableColumn(metric.id, metric.label, _CELL, priority=index, metric=metric)
    for index, metric in enumerate(PACKAGE_METRICS)
    if not _ELSEWHERE.fullmatch(metric.id)
)


def package_lines(frame: Frame, width: int) -> list[Line]:
    """Header and a line per package; nothing without values."""
    readings = (reading for row in frame.packages for reading in row.readings.values())
    if all(isinstance(reading, Missing) for reading in readings):
        return []
    shown = [column for column in _COLUMNS if column.metric and _is_countable(frame, column.metric)]
    columns = (_SOCKET, *fit_columns(shown, width - _SOCKET.width, least=0))
    head = header_line(columns)
    with_units = line(head, Span(_UNITS, Tone.HEADER), fill=Tone.HEADER)
    head = with_units if with_units.width <= width else head
    return [crop(head, width), *(_row(row, columns[1:], width) for row in frame.packages)]


def _is_countable(frame: Frame, metric: Metric) -> bool:
    """Whether some package's hardware can count it."""
    readings = (row.readings[metric.id] for row in frame.packages)
    return any(not isinstance(r, Missing) or r.reason is not Reason.HARDWARE for r in readings)


def _row(row: PackageRow, columns: Sequence[TableColumn], width: int) -> Line:
    cells = [
        number_cell(
            row.readings[column.key],
            column.metric.unit,
            column.width,
            estimate=column.key in row.estimates,
            fine=True,
        )
        for column in columns
        if column.metric is not None
    ]
    return crop(Line((Span(fit(f"s{row.package}", _SOCKET.width), Tone.PLAIN), *cells)), width)


_EVERYTHING = CpuView(folded=False)


def frame_text(
    frame: Frame,
    width: int,
    ascii_only: bool,  # noqa: FBT001 - a contract
    mode: str = "LIVE",
) -> str:
    """One frame as lines of at most `width` cells, ending with an empty line.

    Time (UTC), header (`mode`: `LIVE`, `REPLAY`), incidents, findings, network functions, packages,
    devices, cache classes, all CPUs, the reasons of absences, and the core counted in detail.
    """
    time = datetime.fromtimestamp(frame.wall_ns / 1e9, tz=UTC)
    interval_s = None if frame.interval_s is None else round(frame.interval_s, 1)
    packages = package_lines(frame, width)
    devices = device_lines(by_traffic(frame.devices), width)
    classes = cache_lines(frame, width)
    lines = [
        line(time.strftime("%Y-%m-%dT%H:%M:%SZ")),
        *header_lines(frame, ViewStatus(mode, interval_s, notice=frame.notice), width),
        *incident_text_lines(frame, width),
        *finding_text_lines(frame, width),
        BLANK,
        *nf_lines(frame, width),
        BLANK,
        *([*packages, BLANK] if packages else []),
        *([*devices, BLANK] if devices else []),
        *([*classes, BLANK] if classes else []),
        *table_lines(frame.cpus, _EVERYTHING, width),
        BLANK,
        *_reasons(frame, width),
        *_focus(frame, width),
    ]
    text = "".join(f"{crop(item, width).text.rstrip()}\n" for item in lines) + "\n"
    return to_ascii(text) if ascii_only else text


def _focus(frame: Frame, width: int) -> list[Line]:
    rows = frame.cpus.topology.row_of
    cpu = None if frame.focus is None else next((c for c in frame.focus.cpus if c in rows), None)
    return [] if cpu is None else [BLANK, *core_lines(frame, rows[cpu], width, waited_s=0.0)]


def _reasons(frame: Frame, width: int) -> list[Line]:
    """Each reason once; with the CPU if it is of one CPU only."""
    labels: dict[tuple[str, str], dict[str, None]] = {}
    owners: dict[tuple[str, str], set[str]] = {}
    infos = frame.cpus.topology.cpus
    of_cpus = (
        (f"cpu {infos[row].cpu}: ", *absence)
        for row in range(len(frame.cpus))
        for absence in absences(frame.cpus, row).items()
    )
    for owner, why, absent in (
        *of_cpus,
        *(("", *absence) for absence in cache_absences(frame).items()),
    ):
        key = why.reason.mark, why.message
        labels.setdefault(key, {}).update(dict.fromkeys(absent))
        owners.setdefault(key, set()).add(owner)
    return [
        item
        for key, names in labels.items()
        for owner in (next(iter(owners[key])) if len(owners[key]) == 1 < len(frame.cpus) else "",)
        for item in paragraph(
            f"{owner}{', '.join(names)}: {key[1]}",
            width,
            lead=line(Span(f"{key[0]:<4}", Tone.MISSING)),
        )
    ]


_NUMBERS: tuple[tuple[str, Unit, int], ...] = (
    ("IPC", Unit.PER_CYCLE, 7),
    ("LLCM/s", Unit.PER_S, 8),
    ("L3MiB", Unit.BYTES, 8),
    ("MBL", Unit.BYTES_PER_S, 7),
    ("MBR", Unit.BYTES_PER_S, 7),
)
_LABELS = (
    TableColumn("by", "BY", 9, right=False, priority=0),
    TableColumn("id", "ID", 10, right=False, priority=0),
    TableColumn("name", "NAME", 26, right=False, priority=0),
    TableColumn("group", "MONITORING GROUP", 32, right=False, priority=0),
)
_HEAD = (*_LABELS, *(TableColumn(label, label, width, priority=0) for label, _, width in _NUMBERS))
_OF_CORES = Missing(Reason.UNDEFINED, "counted of cores, not of groups")
_COUNTED = ("ipc", "llc_misses_per_s")
_MONITORED = ("occupancy_bytes", "memory_local_bytes_per_s", "memory_remote_bytes_per_s")
# Of a pcm-sensor-server, which has a monitor for each CPU.
_OF_SERVER = ("llc_occupancy_bytes", *_MONITORED[1:])


def monitor_text(frame: Frame, width: int) -> list[Line]:
    """A line for each polling core, its thread, its process, and each monitoring group."""
    time = datetime.fromtimestamp(frame.wall_ns / 1e9, UTC).strftime("%H:%M:%SZ")
    head = line(Span(f"{time} {frame.host.name}", Tone.STRONG))
    lines = [*badge_lines(frame.host), head, header_line(_HEAD)]
    absent: dict[str, None] = {}
    for labels, readings in _rows(frame):
        cells = [
            number_cell(reading, unit, columns)
            for reading, (_, unit, columns) in zip(readings, _NUMBERS, strict=True)
        ]
        texts = (text_cell(text, col.width) for text, col in zip(labels, _LABELS, strict=True))
        lines.append(Line((*texts, *cells)))
        for item in readings:
            if isinstance(item, Missing):
                absent[f"{item.reason.mark:<4}{item.message}"] = None
    notes = (paragraph(text, width) for text in absent)
    return [*(crop(item, width) for item in lines), *(row for note in notes for row in note), BLANK]


def _rows(frame: Frame) -> Iterator[tuple[tuple[str, str, str, str], Sequence[Reading]]]:
    pairs = [(nf, thread) for nf in frame.nfs for thread in nf.threads]
    cores = {thread.cpu: thread for _, thread in pairs}
    for cpu, thread in sorted(cores.items()):
        alone = sum(item.cpu == cpu for _, item in pairs) == 1
        yield (
            ("core", str(cpu), "", thread.monitor),
            (*_of_cpu(frame, cpu, _COUNTED), *_of_core(frame, cpu, thread, alone=alone)),
        )
    for _, thread in pairs:
        tid = "?" if thread.tid is None else str(thread.tid)
        yield (
            ("thread", tid, thread.name, thread.monitor),
            (*_of_cpu(frame, thread.cpu, _COUNTED), *_of_thread(thread)),
        )
    for nf in frame.nfs:
        misses = total(_of_cpu(frame, cpu, ("llc_misses_per_s",))[0] for cpu in nf.cpus)
        yield (
            (
                "process",
                str(nf.pid),
                nf.name,
                ", ".join(dict.fromkeys(item.monitor for item in nf.threads if item.monitor)),
            ),
            (nf.readings["ipc"], misses, *(nf.readings[name] for name in _MONITORED)),
        )
    for group in frame.groups:
        for monitor in group.monitors:
            members = [f"CPU {format_cpu_list(monitor.cpus)}"] if monitor.cpus else []
            members += [counted(len(monitor.tids), "thread")] if monitor.tids else []
            rmid = "" if monitor.rmid is None else f"RMID {monitor.rmid}"
            name = class_name(group.name, monitor.name)
            yield (
                ("group", rmid, ", ".join(members), name),
                (_OF_CORES, _OF_CORES, *_of_group(monitor)),
            )


def _of_cpu(frame: Frame, cpu: Cpu, metrics: Sequence[str]) -> list[Reading]:
    row = frame.cpus.topology.row_of.get(cpu)
    return [NO_MONITOR if row is None else frame.cpus.columns[name][row] for name in metrics]


def _of_core(frame: Frame, cpu: Cpu, thread: NfThread, *, alone: bool) -> list[Reading]:
    """Readings of a core: its only thread's monitoring group, else the sensor server's monitor."""
    own = _of_thread(thread) if alone else [NO_MONITOR] * len(_MONITORED)
    other = _of_cpu(frame, cpu, _OF_SERVER)
    return [
        server if isinstance(mine, Missing) and not isinstance(server, Missing) else mine
        for mine, server in zip(own, other, strict=True)
    ]


def _of_thread(thread: NfThread) -> list[Reading]:
    return [
        thread.occupancy_bytes,
        thread.memory_local_bytes_per_s,
        thread.memory_remote_bytes_per_s,
    ]


def _of_group(monitor: MonitorRow) -> list[Reading]:
    caches = monitor.readings.values()
    used, moved, near = (
        total((cache[name] for cache in caches), NO_MONITOR)
        for name in ("occupancy_bytes", "mbm_total_bytes_per_s", "mbm_local_bytes_per_s")
    )
    if isinstance(moved, Missing) or isinstance(near, Missing):
        return [used, near, moved if isinstance(moved, Missing) else near]
    return [used, near, max(moved - near, 0.0)]
