"""A frame as plain text, for pipes and logs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from nftop.model.frame import Frame, PackageRow
from nftop.model.metrics.metric import Metric
from nftop.model.metrics.package import PACKAGE_METRICS
from nftop.model.missing import Missing, Reason
from nftop.render.base.line import BLANK, Line, Span, Tone, crop, line, paragraph
from nftop.render.base.table import TableColumn, fit_columns, header_line, number_cell
from nftop.render.base.text import ascii_only as to_ascii
from nftop.render.base.text import fit
from nftop.render.cache.panel import cache_absences, cache_lines
from nftop.render.cores.detail import absences
from nftop.render.cores.nfs import nf_lines
from nftop.render.cores.rows import CpuView
from nftop.render.cores.table import table_lines
from nftop.render.frame.findings import finding_text_lines
from nftop.render.frame.header import ViewStatus, header_lines
from nftop.render.incidents.line import incident_text_lines
from nftop.render.topdown.tree import core_lines

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
    if not any(_has_value(row) for row in frame.packages):
        return []
    shown = [column for column in _COLUMNS if column.metric and _can_tell(frame, column.metric)]
    columns = (_SOCKET, *fit_columns(shown, width - _SOCKET.width, least=0))
    head = header_line(columns)
    with_units = line(head, Span(_UNITS, Tone.HEADER), fill=Tone.HEADER)
    head = with_units if with_units.width <= width else head
    return [crop(head, width), *(_row(row, columns[1:], width) for row in frame.packages)]


def _can_tell(frame: Frame, metric: Metric) -> bool:
    """Whether some package's hardware can count it."""
    readings = (row.readings[metric.id] for row in frame.packages)
    return any(not isinstance(r, Missing) or r.reason is not Reason.HARDWARE for r in readings)


def _has_value(row: PackageRow) -> bool:
    return any(not isinstance(reading, Missing) for reading in row.readings.values())


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
    cache classes, all CPUs, the reasons of absences, and the core counted in detail.
    """
    time = datetime.fromtimestamp(frame.wall_ns / 1e9, tz=UTC)
    packages = package_lines(frame, width)
    classes = cache_lines(frame, width)
    lines = [
        line(time.strftime("%Y-%m-%dT%H:%M:%SZ")),
        *header_lines(frame, ViewStatus(mode, _interval_s(frame), notice=frame.notice), width),
        *incident_text_lines(frame, width),
        *finding_text_lines(frame, width),
        BLANK,
        *nf_lines(frame, width),
        BLANK,
        *([*packages, BLANK] if packages else []),
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


def _interval_s(frame: Frame) -> float | None:
    return None if frame.interval_s is None else round(frame.interval_s, 1)


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
