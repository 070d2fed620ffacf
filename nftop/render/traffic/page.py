"""Traffic screen: traffic of each package (memory, devices, other packages) side by side.

Rows come from the catalogue's ids: `memory.read_bytes_per_s` is row `read` of section `memory`,
`pcie.itom.hit_per_s` the cell `hit` of row `itom` of a table.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from nftop.derive.package.relative import class_memory
from nftop.model.frame import BoxTraffic, DeviceRow, Frame, PackageRow
from nftop.model.ids import Package
from nftop.model.metrics.device import DEVICE_METRICS
from nftop.model.metrics.metric import Metric, Unit
from nftop.model.metrics.package import PACKAGE_METRICS
from nftop.model.metrics.pcm import PCM_PACKAGE_METRICS
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.rdt.rdt import class_name
from nftop.model.struct import dataclass, replace
from nftop.papers.rows import rows
from nftop.papers.table import pcie_bytes
from nftop.render.base import format as fmt
from nftop.render.base.graph import scale_top, span_for, span_name, spark_text
from nftop.render.base.line import BLANK, Line, Span, Tone, crop, line, paragraph
from nftop.render.base.table import (
    TableColumn,
    body_lines,
    fit_columns,
    header_line,
    number_cell,
    text_cell,
)
from nftop.render.base.text import fit, printable
from nftop.render.cores.resources import PackagePast
from nftop.render.frame.provenance import origin_lines, reason_lines

HIT_RATIO = "hit%"
_MEMORY_PER_PACKET = "per_packet.memory_bytes"
_TITLES = {
    "memory": "Memory",
    "pcie": "PCIe",
    "mmio": "MMIO",
    "upi": "UPI",
    "llc": "Cores",
    "per_packet": "Per packet",
    "utilisation": "Share of peak",
}
_NAMES = {
    "itom": "ItoM",
    "itomcachenear": "ItoMCacheNear",
    "rfo": "RFO",
    "pcirdcur": "PCIRdCur",
    "prd": "PRd",
    "crd": "CRd",
    "drd": "DRd",
    "upi_received_ratio": "UPI received",
    "upi_sent_ratio": "UPI sent",
    "pcie_read_ratio": "PCIe read",
    "pcie_write_ratio": "PCIe write",
    "pcie_writes": "write lines",
    "pcie_partial_writes": "partial writes",
    "pcie_reads": "read lines",
    "mmio_writes": "MMIO writes",
    "memory_read_bytes": "mem read B",
    "memory_write_bytes": "mem written B",
    "memory_bytes": "memory B",
    "nf_memory_bytes": "NF classes B",
    "other_memory_bytes": "other classes B",
    "upi_received_bytes": "UPI received B",
    "upi_sent_bytes": "UPI sent B",
}


@dataclass(frozen=True, slots=True)
class TrafficRow:
    """A row: its label and the metrics of its cells."""

    label: str
    metrics: tuple[Metric, ...]

    @property
    def main(self) -> Metric:
        """Metric of its graph: the sum of hits and misses, if any."""
        return self.metrics[-1]


@dataclass(frozen=True, slots=True)
class Boxes:
    """Channels or links: attribute of a package, labels of the two numbers."""

    attribute: str
    title: str
    ways: tuple[str, str]
    metrics: tuple[Metric, ...]

    def row(self, number: int) -> TrafficRow:
        """Row of one of them; its metrics are those of its package."""
        return TrafficRow(f"{self.title} {number}", self.metrics)


@dataclass(frozen=True, slots=True)
class Section:
    """Rows below a header; `cells`: labels of its columns."""

    title: str
    cells: tuple[str, ...]
    rows: tuple[TrafficRow, ...]


# Metrics that only a sensor server provides.
OF_SERVER: tuple[Metric, ...] = tuple(
    package_metric for package_metric in PCM_PACKAGE_METRICS if "." in package_metric.id
)
TRAFFIC_METRICS: tuple[Metric, ...] = (*PACKAGE_METRICS, *OF_SERVER)
_MEMORY, _LINKS = (
    tuple(metric for metric in PACKAGE_METRICS if metric.id.startswith(head))
    for head in ("memory.", "upi.")
)
BOXES = (
    Boxes("channels", "Channels", ("read", "write"), _MEMORY),
    Boxes("links", "Links", ("in", "out"), _LINKS),
)


def sections(metrics: Sequence[Metric] = TRAFFIC_METRICS) -> tuple[Section, ...]:
    """The catalogue's metrics as sections of the screen."""
    single: dict[str, list[TrafficRow]] = {}
    tables: dict[str, dict[str, list[Metric]]] = {}
    for metric in metrics:
        head, *rest = metric.id.split(".")
        if len(rest) == 2:
            tables.setdefault(head, {}).setdefault(rest[0], []).append(metric)
        else:
            last = rest[-1] if rest else head
            name = _NAMES.get(last, _bare(last))
            single.setdefault(head if rest else "package", []).append(TrafficRow(name, (metric,)))
    result = []
    for head in dict.fromkeys((*single, *tables)):
        title = _TITLES.get(head, head)
        if head in single:
            result.append(Section(title, ("",), tuple(single[head])))
        if head in tables:
            rows = tables[head]
            cells = [_bare(metric.id.split(".")[-1]) for metric in next(iter(rows.values()))]
            ratio = [HIT_RATIO] if {"hit", "all"} <= set(cells) else []
            named = (TrafficRow(_NAMES.get(name, name), tuple(row)) for name, row in rows.items())
            result.append(Section(title, (*cells, *ratio), tuple(named)))
    return tuple(result)


@lru_cache(maxsize=8)
def paper_lines(width: int) -> tuple[Line, ...]:
    """The papers' rows of lines per packet, and what equations 23 and 24 give."""
    runs = [run.figures for run in rows() if "per_packet.pcie_writes" in run.figures]
    wrote, read, memory = (
        [figures[f"per_packet.{name}"].value for figures in runs]
        for name in ("pcie_writes", "pcie_reads", "memory_bytes")
    )
    equations = [size / 64 for size in pcie_bytes(64)]
    text = (
        f"papers, 64-byte frames: PCIe writes {min(wrote):.2f}-{max(wrote):.2f}, reads "
        f"{min(read):.2f}-{max(read):.2f} lines, memory {min(memory):.1f}-{max(memory):.1f} bytes; "
        f"equations 23, 24: {equations[0]:.2f}, {equations[1]:.2f} lines"
    )
    return tuple(paragraph(text, width, tone=Tone.MUTED))


def _others(frame: Frame, width: int) -> list[Line]:
    """What memory per packet has of classes without network functions, where it is marked."""
    texts = []
    for package, memory in class_memory(frame.groups, frame.cpus, frame.topology).items():
        row = next((row for row in frame.packages if row.package == package), None)
        if row is None or _MEMORY_PER_PACKET not in row.estimates or not memory.by_class:
            continue
        classes = ", ".join(
            f"{moved / 1e9:.2f} GB/s of class {printable(class_name(name))}"
            for name, moved in memory.by_class.items()
        )
        texts.append(f"s{package}: memory B includes {classes}")
    return paragraph("; ".join(texts), width, tone=Tone.WARN) if texts else []


def hit_ratio(row: PackageRow, metrics: Sequence[Metric]) -> Reading:
    """hits / (hits + misses) of an opcode; IDLE without any."""
    by_end = {metric.id.split(".")[-1]: row.readings[metric.id] for metric in metrics}
    hit, total = by_end["hit_per_s"], by_end["total_per_s"]
    if isinstance(hit, Missing):
        return hit
    if isinstance(total, Missing):
        return total
    return min(hit / total, 1.0) if total > 0 else Missing(Reason.IDLE)


def _bare(name: str) -> str:
    """A metric's name without its unit, in words."""
    bare = re.sub(r"(_bytes)?_per_s$|_ratio$", "", name).replace("_", " ")
    return "all" if bare == "total" else bare


def boxes_of(row: PackageRow, attribute: str) -> tuple[BoxTraffic, ...]:
    """Memory channels or links of a package."""
    return row.channels if attribute == "channels" else row.links


def absence_lines(frame: Frame, width: int) -> list[Line]:
    """Reasons of absences, with labels and sockets."""
    named: list[tuple[str, Reading, str]] = []
    for row in frame.packages:
        socket = f"s{row.package}"
        named += [(metric.label, row.readings[metric.id], socket) for metric in PACKAGE_METRICS]
        for boxes in BOXES:
            for box in boxes_of(row, boxes.attribute):
                both = (box.in_bytes_per_s, box.out_bytes_per_s)
                gone = next((item for item in both if isinstance(item, Missing)), 0.0)
                named.append((f"{boxes.title.lower()[:-1]} {box.number}", gone, socket))
    devices, others = device_absences(frame, width), reason_lines(named, len(frame.packages), width)
    lines = [*others, *devices] if frame.devices else [*devices, *others]
    return [BLANK, *lines] if lines else []


def accelerator_lines(frame: Frame, width: int) -> list[Line]:
    """Counts of each accelerator, by the server's names."""
    if not frame.accelerators:
        return []
    lines = [BLANK, line(Span("Accelerators, counts per second", Tone.HEADER), fill=Tone.HEADER)]
    for accelerator in frame.accelerators:
        counts = [
            f"{name} {fmt.cell(reading, Unit.PER_S, 8)}"
            for name, reading in accelerator.per_s.items()
        ]
        lines += paragraph(", ".join(counts), width, lead=line(f" {accelerator.name}: "))
    return lines


# Devices: metrics, then who uses them and where they are; the first stay longest.
_DEVICE_COLUMNS = (
    TableColumn("name", "Devices GB/s", 16, right=False, grows=24),
    *(
        TableColumn(metric.id, metric.label, 8, priority=rank)
        for metric, rank in zip(DEVICE_METRICS, (1, 2, 4, 6, 5), strict=True)
    ),
    TableColumn("nfs", "NF", 15, right=False, priority=3, grows=16),
    TableColumn("location", "stack", 8, right=False, priority=7),
    TableColumn("port", "root port", 13, right=False, priority=8),
    TableColumn("drivers", "driver", 10, right=False, priority=9, grows=8),
)
# Below this GB/s with two decimals would have one digit or none.
_AS_BYTES, _MB = 0.0995e9, 1e6


def by_traffic(devices: Sequence[DeviceRow]) -> tuple[DeviceRow, ...]:
    """Those with most traffic first, by steps of two: small changes do not swap rows."""

    def size(row: DeviceRow) -> int:
        moved = (row.readings[metric.id] for metric in DEVICE_METRICS[:2])
        whole = sum(item for item in moved if not isinstance(item, Missing))
        return math.frexp(whole)[1] if whole >= 1 else 0

    return tuple(sorted(devices, key=size, reverse=True))


def device_lines(devices: Sequence[DeviceRow], width: int) -> list[Line]:
    """Header and a line for each root port with network devices."""
    if not devices:
        return []
    columns = fit_columns(_DEVICE_COLUMNS, width, skip=True)
    lines = body_lines(columns, lambda column: [(_device_cell(row, column),) for row in devices])
    return [header_line(columns), *lines]


def _device_cell(row: DeviceRow, column: TableColumn) -> Span:
    if column.key in row.readings:
        metric = next(item for item in DEVICE_METRICS if item.id == column.key)
        estimate, reading = metric.id in row.estimates, row.readings[metric.id]
        if not isinstance(reading, Missing) and 0 < reading < _AS_BYTES:
            size, word = (1e6, "MB/s") if reading >= _MB else (1e3, "kB/s")
            text = f"{reading / size:.{int(reading < 9.95 * size)}f}{word}"
            end = fmt.ESTIMATE if estimate else " "
            return Span(text.rjust(column.width - 1) + end, Tone.PLAIN)
        return number_cell(reading, metric.unit, column.width, estimate=estimate)
    port = row.port
    text = {
        "name": f" {row.name}",
        "nfs": ", ".join(row.nfs) or "-",
        "location": f"s{port.package} {port.stack}.{port.number}" if not port.problem else "-",
        "port": port.address,
        "drivers": ", ".join(dict.fromkeys(item.driver for item in port.devices if item.driver)),
    }[column.key]
    return text_cell(printable(text), column.width)


def device_absences(frame: Frame, width: int) -> list[Line]:
    """Reasons of absences of devices, by label and device."""
    if (why := frame.no_devices) is not None:
        return reason_lines([("Devices", why, "")], 1, width)
    named = [
        (f"device {metric.label}", row.readings[metric.id], printable(row.name))
        for metric in DEVICE_METRICS
        for row in frame.devices
    ]
    return reason_lines(named, len(frame.devices), width)


_UNREPORTED = Missing(Reason.SOURCE)

_LABEL, _CELL, _LEAST_SPARK, _MOST_SPARK = 16, 8, 8, 60
MARKS: tuple[tuple[str, str], ...] = (
    ("all, hit%", "hits and misses, and the share of hits"),
    ("0-200, 5 min", "scale and span of the graphs of a section"),
    ("0-20, both", "scale of the bars below: in and out together"),
    ("s0 1.2", "of a device: socket 0, stack 1, root port 2 of it"),
)
# Cells kept where room is short.
_RANK = ("all", HIT_RATIO, "miss", "hit")
_UNITS = {
    Unit.BYTES_PER_S: "GB/s",
    Unit.REQUESTS_PER_S: "M/s",
    Unit.PER_S: "1/s",
    Unit.RATIO: "",
    Unit.PER_PACKET: "/pkt",
}


@dataclass(frozen=True, slots=True)
class TrafficShape:
    """Packages side by side, cells of each, and columns of a table.

    Cells that `columns` leave of a package's span are those of its graph.
    """

    abreast: int
    span: int
    columns: int


@dataclass(frozen=True, slots=True)
class TrafficLines:
    """Lines of the screen, and the row of each; None for others."""

    lines: tuple[Line, ...]
    rows: tuple[TrafficRow | DeviceRow | None, ...]


def traffic(frame: Frame, width: int, past: PackagePast, interval_s: float) -> TrafficLines:
    """All lines: origins, packages side by side as far as they fit, absences.

    Rows that this hardware cannot fill are left out.

    Args:
        frame: with `packages`.
        width: cells of a line.
        past: history for the graphs.
        interval_s: of the feed; sets the span of the graphs.
    """
    shape = _shape(len(frame.packages), width)
    shown = _that_can_be(frame)
    # Devices stand behind what is counted of all of a package.
    behind = [item for item in shown if item.title == _TITLES["pcie"]][-1:] or shown[-1:]
    notes = origin_lines(frame, TRAFFIC_METRICS, width)
    drawn: list[tuple[Line, TrafficRow | DeviceRow | None]] = [(item, None) for item in notes]
    for at in range(0, len(frame.packages), shape.abreast):
        band = frame.packages[at : at + shape.abreast]
        if at:
            drawn.append((BLANK, None))
        for section in shown:
            lines = _section(section, band, shape, past, interval_s)
            drawn += zip(lines, (None, *section.rows), strict=True)
            if section in behind and not at:
                rows = by_traffic(frame.devices)
                devices = device_lines(rows, width)
                drawn += zip(devices, (None, *rows), strict=bool(devices))
            if section.title == _TITLES["per_packet"] and not at:
                drawn += [(item, None) for item in (*_others(frame, width), *paper_lines(width))]
        for boxes in BOXES:
            numbers = _numbers(frame, boxes.attribute)
            lines = _box_lines(band, boxes, numbers, shape)
            drawn += zip(lines, (None, *[boxes.row(number) for number in numbers]), strict=False)
    if not frame.packages:
        drawn.append((line(Span("the topology names no package", Tone.MUTED)), None))
    below = (*accelerator_lines(frame, width), *absence_lines(frame, width))
    drawn += [(item, None) for item in below]
    return TrafficLines(
        tuple(crop(entry, width) for entry, _ in drawn), tuple(row for _, row in drawn)
    )


_SECTIONS, _OF_PERF = sections(), sections(PACKAGE_METRICS)
_MOST_CELLS = max(len(section.cells) for section in _SECTIONS)


def _that_can_be(frame: Frame) -> tuple[Section, ...]:
    """Sections with the rows that this hardware or a sensor server fills; all if there are none."""
    never = {
        metric.id
        for metric in PACKAGE_METRICS
        if all(_is_never(row.readings[metric.id]) for row in frame.packages)
    }
    never |= {
        metric.id
        for metric in OF_SERVER
        if not any(isinstance(row.readings.get(metric.id), float) for row in frame.packages)
    }
    sections = (
        replace(
            section,
            rows=tuple(
                row for row in section.rows if any(metric.id not in never for metric in row.metrics)
            ),
        )
        for section in _SECTIONS
    )
    return tuple(section for section in sections if section.rows) or _OF_PERF


def _is_never(reading: Reading) -> bool:
    return isinstance(reading, Missing) and reading.reason is Reason.HARDWARE


@lru_cache(maxsize=8)
def _shape(packages: int, width: int) -> TrafficShape:
    """All packages abreast, if necessary with fewer columns; else bands of them."""
    room = max(_CELL, width - _LABEL)
    for columns in range(_MOST_CELLS, 1, -1):
        if packages * columns * _CELL <= room:
            return TrafficShape(max(1, packages), room // max(1, packages), columns)
    abreast = max(1, room // (2 * _CELL))
    return TrafficShape(
        abreast, room // abreast, max(1, min(_MOST_CELLS, room // abreast // _CELL))
    )


def _kept(cells: Sequence[str], columns: int) -> list[int]:
    """Indexes of the cells shown in so many columns."""
    rank = {cell: index for index, cell in enumerate(_RANK)}
    wanted = [
        TableColumn(str(index), cell, _CELL, priority=rank.get(cell, len(_RANK)))
        for index, cell in enumerate(cells)
    ]
    return [int(column.key) for column in fit_columns(wanted, columns * _CELL, least=0)]


def _section(
    section: Section,
    band: Sequence[PackageRow],
    shape: TrafficShape,
    past: PackagePast,
    interval_s: float,
) -> list[Line]:
    """Header and rows of a section, packages side by side."""
    kept = _kept(section.cells, shape.columns)
    points = _points(shape, len(kept))
    span_s = span_for(2 * points, interval_s) if points else 0.0
    series = {
        (row.label, package.package): past(row.main.id, package.package, 2 * points, span_s)
        for row in section.rows
        if points
        for package in band
    }
    tops = _tops(section, band, series)
    unit = _UNITS.get(section.rows[0].main.unit, section.rows[0].main.unit.value)
    cells = [section.cells[at] or unit for at in kept]
    lines = [_header(section, band, cells, shape, _scale(tops, span_s))]
    for row in section.rows:
        spans: list[Span | Line] = [Span(fit(f" {row.label}", _LABEL), Tone.PLAIN)]
        for package in band:
            drawn = [_cell(package, row, at) for at in kept]
            graph = series.get((row.label, package.package))
            spans += drawn
            spans.append(_graph(graph, tops.get(row.main.unit, 1.0), shape, len(kept)))
        lines.append(line(*spans))
    return lines


def _points(shape: TrafficShape, cells: int) -> int:
    """Cells of a graph next to so many numbers; 0 if too few."""
    left = min(_MOST_SPARK, shape.span - cells * _CELL - 3)
    return left if left >= _LEAST_SPARK else 0


def _tops(
    section: Section,
    band: Sequence[PackageRow],
    series: Mapping[tuple[str, Package], NDArray[np.float32]],
) -> dict[Unit, float]:
    """End of the scale by unit, for all graphs of a section."""
    values: dict[Unit, list[NDArray[np.float32]]] = {}
    for row in section.rows:
        for package in band:
            graph = series.get((row.label, package.package))
            if graph is not None and np.isfinite(graph).any():
                values.setdefault(row.main.unit, []).append(graph)
    return {unit: scale_top(np.concatenate(value), unit) for unit, value in values.items()}


def _scale(tops: Mapping[Unit, float], span_s: float) -> str:
    texts = [_to(top, unit) for unit, top in tops.items()]
    return f"{', '.join(texts)}, {span_name(span_s)}" if texts else ""


def _to(top: float, unit: Unit) -> str:
    """A scale: `0-200`."""
    return f"0-{fmt.number(top, unit, 6).removesuffix('.0')}"


def _header(
    section: Section,
    band: Sequence[PackageRow],
    cells: Sequence[str],
    shape: TrafficShape,
    scale: str,
) -> Line:
    unit = "M req/s" if section.cells[0] else ""
    return _titles(f"{section.title} {unit}", band, cells, shape, scale)


def _titles(
    title: str, band: Sequence[PackageRow], cells: Sequence[str], shape: TrafficShape, scale: str
) -> Line:
    """Header: title, then number, cells and scale of each package."""
    text = fit(title, _LABEL)
    for package in band:
        name = f"s{package.package} "
        first, *others = cells
        labels = name + fit(first, _CELL - 1 - len(name), right=True) + " "
        labels += header_line([TableColumn(other, other, _CELL) for other in others]).text
        left = shape.span - len(labels)
        text += labels + fit(scale if len(scale) + 2 <= left else "", left)
    return line(Span(text, Tone.HEADER), fill=Tone.HEADER)


def _cell(package: PackageRow, row: TrafficRow, at: int) -> Span:
    if at < len(row.metrics):
        metric = row.metrics[at]
        reading = package.readings.get(metric.id, _UNREPORTED)
        return number_cell(
            reading, metric.unit, _CELL, estimate=metric.id in package.estimates, fine=True
        )
    estimate = any(metric.id in package.estimates for metric in row.metrics)
    return number_cell(
        hit_ratio(package, row.metrics), Unit.RATIO, _CELL, estimate=estimate, fine=True
    )


def _graph(values: NDArray[np.float32] | None, top: float, shape: TrafficShape, cells: int) -> Span:
    left = max(0, shape.span - cells * _CELL)
    text = "" if values is None else " " + spark_text(values, top)
    return Span(fit(text, left), Tone.AREA)


def _numbers(frame: Frame, attribute: str) -> list[int]:
    """Numbers of the boxes of all packages."""
    boxes = (box for row in frame.packages for box in boxes_of(row, attribute))
    return sorted({box.number for box in boxes})


def _box_lines(
    band: Sequence[PackageRow], boxes: Boxes, numbers: Sequence[int], shape: TrafficShape
) -> list[Line]:
    """Header and rows of channels or links; the bar is the sum of both directions."""
    if not numbers:
        return []
    cells = min(2, shape.columns)
    points = _points(shape, cells)
    by_number = [{box.number: box for box in boxes_of(row, boxes.attribute)} for row in band]
    sums = [_both(box) for mine in by_number for box in mine.values()]
    top = scale_top(np.array([item for item in sums if item], np.float32), Unit.BYTES_PER_S)
    scale = f"{_to(top, Unit.BYTES_PER_S)}, both" if points else ""
    lines = [_titles(f"{boxes.title} GB/s", band, boxes.ways[:cells], shape, scale)]
    for number in numbers:
        spans: list[Span] = [Span(fit(f" {number}", _LABEL), Tone.PLAIN)]
        for mine in by_number:
            box = mine.get(number)
            none = Missing(Reason.UNDEFINED)
            both = (box.in_bytes_per_s, box.out_bytes_per_s) if box else (none, none)
            spans += [number_cell(item, Unit.BYTES_PER_S, _CELL) for item in both[:cells]]
            length = round(_both(box) / top * points) if box else 0
            spans.append(Span(fit(" " + "━" * length, shape.span - cells * _CELL), Tone.AREA))
        lines.append(line(*spans))
    return lines


def _both(box: BoxTraffic) -> float:
    """Sum of the known directions."""
    return sum(
        item for item in (box.in_bytes_per_s, box.out_bytes_per_s) if not isinstance(item, Missing)
    )
