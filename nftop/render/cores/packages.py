"""Panel of memory and PCIe traffic, a line per package."""

from __future__ import annotations

import re
from collections.abc import Sequence

from nftop.model.frame import Frame, PackageRow
from nftop.model.metrics.metric import Metric
from nftop.model.metrics.package import PACKAGE_METRICS
from nftop.model.reading import Missing, Reason
from nftop.render.base.line import Line, Span, Tone, crop, line
from nftop.render.base.table import TableColumn, fit_columns, header_line, number_cell
from nftop.render.base.text import fit

_SOCKET = TableColumn("socket", "SOCKET", 7, right=False)
_CELL = 9
_UNITS = " GB/s; M requests/s"
# Sums of hits and misses, and traffic unrelated to packets, are on the Traffic screen only.
_ELSEWHERE = re.compile(r".*\.total_per_s|.*\.[cd]rd\..*|mmio\..*|upi\..*")
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
