"""Memory and PCIe, a line for each package that has a value of them."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice

from nftop.model.frame import Frame, PackageRow
from nftop.model.metrics.metric import Metric, Unit
from nftop.model.metrics.package import PACKAGE_METRICS
from nftop.model.reading import Missing, Reason
from nftop.render.base import format as fmt
from nftop.render.base.line import Line, Span, Tone, crop, line
from nftop.render.base.text import fit

_NAME, _CELL = 7, 8
_WIDTH_LEAST = 60
# Hits and misses say what their sum says, so that is for exports; and what has little to do with
# packets that devices write and read is for who looks closer.
_ELSEWHERE = re.compile(r".*\.total_per_s|.*\.[cd]rd\..*|mmio\..*|upi\..*")
_SHOWN = tuple(metric for metric in PACKAGE_METRICS if not _ELSEWHERE.fullmatch(metric.id))


def package_lines(frame: Frame, width: int, limit: int | None = None) -> list[Line]:
    """Headers and a line per package; nothing where no package has any value.

    As many columns as fit, from the left. Nothing where that is more than `limit` lines, or where
    there is no room for half of the columns: what is left out would be missed.
    """
    if not any(_has_value(row) for row in frame.packages):
        return []
    if limit is not None and (limit < 1 + len(frame.packages) or width < _WIDTH_LEAST):
        return []
    here = (metric for metric in _SHOWN if _can_tell(frame, metric))
    metrics = tuple(islice(here, max(0, (width - _NAME) // (_CELL + 1))))
    return [_headers(metrics, width), *(_row(row, metrics, width) for row in frame.packages)]


def _can_tell(frame: Frame, metric: Metric) -> bool:
    """Whether some package's hardware counts it."""
    readings = (row.readings[metric.id] for row in frame.packages)
    return any(not isinstance(r, Missing) or r.reason is not Reason.HARDWARE for r in readings)


@lru_cache(maxsize=8)
def _headers(metrics: tuple[Metric, ...], width: int) -> Line:
    labels = "".join(f"{metric.label:>{_CELL}} " for metric in metrics)
    text = f"{fit('SOCKET', _NAME)}{labels}"
    note = " GB/s; M requests/s"
    head = line(Span(text, Tone.HEADER), Span(note, Tone.HEADER), fill=Tone.HEADER)
    if head.width > width:
        head = line(Span(text, Tone.HEADER), fill=Tone.HEADER)
    return crop(head, width)


def _has_value(row: PackageRow) -> bool:
    return any(not isinstance(reading, Missing) for reading in row.readings.values())


def _row(row: PackageRow, metrics: tuple[Metric, ...], width: int) -> Line:
    cells = [_cell(row, metric) for metric in metrics]
    return crop(Line((Span(fit(f"s{row.package}", _NAME), Tone.PLAIN), *cells)), width)


def _cell(row: PackageRow, metric: Metric) -> Span:
    reading = row.readings[metric.id]
    if isinstance(reading, Missing):
        return Span(f"{fmt.mark(reading.reason, _CELL):>{_CELL}} ", Tone.MISSING)
    after = fmt.ESTIMATE if metric.id in row.estimates else " "
    width = _CELL - 1
    ratio = metric.unit is Unit.RATIO
    text = fmt.share(reading, width) if ratio else fmt.printer(metric.unit, width)(reading)
    return Span(text.rjust(_CELL) + after, Tone.PLAIN)
