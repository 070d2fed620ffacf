"""Last-level cache and memory traffic by core, thread, process and group, as `pqos -T`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from nftop.model.frame import Frame, MonitorRow, NfRow
from nftop.model.ids import Cpu, format_cpu_list
from nftop.model.metrics.metric import Unit
from nftop.model.missing import Missing, Reading, Reason, total
from nftop.model.nf.parts import NO_MONITOR, NfThread
from nftop.model.rdt.rdt import class_name
from nftop.render.base.line import BLANK, Line, Span, Tone, crop, line, paragraph
from nftop.render.base.table import TableColumn, header_line, number_cell, text_cell
from nftop.render.frame.header import badge_lines

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
            ("process", str(nf.pid), nf.name, _groups_of(nf)),
            (nf.readings["ipc"], misses, *(nf.readings[name] for name in _MONITORED)),
        )
    for group in frame.groups:
        for monitor in group.monitors:
            members = [f"CPU {format_cpu_list(monitor.cpus)}"] if monitor.cpus else []
            members += [f"{len(monitor.tids)} threads"] if monitor.tids else []
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


def _groups_of(nf: NfRow) -> str:
    return ", ".join(dict.fromkeys(item.monitor for item in nf.threads if item.monitor))
