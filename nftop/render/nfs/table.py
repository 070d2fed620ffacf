"""Table of network functions: a line each, in the columns that fit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from nftop.model.frame import Frame, NfRow
from nftop.model.ids import format_cpu_list
from nftop.model.metrics.metric import Metric
from nftop.model.metrics.nf import NF_METRICS
from nftop.model.missing import Missing, Reason
from nftop.model.struct import dataclass, replace
from nftop.render.base import format as fmt
from nftop.render.base.bars import bar
from nftop.render.base.line import Line, Span, Tone, crop
from nftop.render.base.table import TableColumn, chosen_columns, fit_columns, header_line, text_cell
from nftop.render.base.text import cells as text_cells
from nftop.render.cache.class_cells import class_spans, group_name
from nftop.render.cache.way_cells import styles_of
from nftop.render.cores.harm import RowTrends, nfs_by_harm, rate_cell
from nftop.render.cores.nfs import (
    TREND,
    USUAL,
    low_coverages,
    matching_nfs,
    metric_cells,
    partial_coverages,
    usual_cell,
)

SHARED = "*"
MARKS: tuple[tuple[str, str], ...] = (
    (SHARED, "after LLC: its cache class is shared with others"),
    ("IMBAL", "packets of its busiest core above the mean of its cores"),
    ("polls", "of a graph node: its clocks include empty calls"),
    ("paper", "published numbers for the workload chosen with w; not a target"),
)

_METRICS = {metric.id: metric for metric in NF_METRICS}
_BAR = "tma"
# From left to right, each with its cells (one of them is between columns) and its priority.
_LABELS = (
    TableColumn("name", "NF", 18, right=False, priority=0, grows=13),
    TableColumn("kind", "KIND", 5, right=False, priority=1.5),
    TableColumn("cpus", "CPUS", 8, right=False, priority=1.2, grows=6),
)
_NUMBERS: tuple[tuple[str, int, float], ...] = (
    ("rx_packets_per_s", 8, 1),
    ("tx_packets_per_s", 9, 4),
    ("drop_packets_per_s", 8, 2),
    ("cpp", 7, 1.1),
    ("cpp_vs_base", 8, 1.3),
    (USUAL.key, 7, 6.05),
    ("busy_cpp", 7, 5),
    ("ipp", 7, 5.5),
    ("ipc", 5, 3),
    (_BAR, 11, 3.5),
    ("imbalance_ratio", 6, 6),
    ("classes", 4, 6.5),
    ("llc_occupancy_bytes", 7, 6.6),
    ("llc_misses_per_packet", 9, 7),
    ("occupancy_bytes", 6, 8),
    ("memory_local_bytes_per_s", 6, 8.1),
    ("memory_remote_bytes_per_s", 6, 8.2),
    (TREND.key, 12, 8.5),
)
_NAMED = {
    USUAL.key: USUAL,
    _BAR: TableColumn(
        _BAR, "TOPDN 10%", 11, right=False, priority=3.5, metric=_METRICS["tma.retiring"]
    ),
    TREND.key: replace(TREND, label="Mpps 10m", width=12, right=False, priority=8.5),
    "classes": TableColumn("classes", "CLASS", 10, right=False, priority=3.6, grows=6),
}
_COLS: tuple[TableColumn, ...] = (
    *_LABELS,
    *(
        _NAMED.get(key)
        or TableColumn(
            key, _METRICS[key].label, width, right=True, priority=rank, metric=_METRICS[key]
        )
        for key, width, rank in _NUMBERS
    ),
)
_LONG_BAR_FROM = 170
_MORE_CPUS = 4
NO_TRENDS = RowTrends()
# Columns that are sorted low to high: labels.
NAMES = tuple(col.key for col in _COLS if col.metric is None and col.key != USUAL.key)
SORTS: tuple[str, ...] = tuple(col.key for col in _COLS)


@dataclass(frozen=True, slots=True)
class NfOrder:
    """Order and filter of network functions.

    Attributes:
        sort: the key of a column, "" for the order by harm.
        inverted: against the column's own direction: numbers high first, names low first.
        search: filter of names; all if empty.
    """

    sort: str = ""
    inverted: bool = False
    search: str = ""


def in_order(frame: Frame, order: NfOrder, trends: RowTrends = NO_TRENDS) -> tuple[NfRow, ...]:
    """Network functions shown, in order; those without a value last. `trends`: their histories."""
    rows = list(matching_nfs(frame, order.search))
    if not order.sort:
        keys = {nf.key for nf in rows}
        return tuple(nf for nf, _ in nfs_by_harm(frame, trends) if nf.key in keys)
    col = next(item for item in _COLS if item.key == order.sort)
    if col.metric is None and col.key in NAMES:
        return tuple(sorted(rows, key=lambda nf: _label(nf, col), reverse=order.inverted))
    known, rest = [], []
    for nf in rows:
        reading = (
            trends.nf_costs.change(nf.key) if col.metric is None else nf.readings[col.metric.id]
        )
        if isinstance(reading, Missing):
            rest.append(nf)
        else:
            known.append((reading, nf))
    known.sort(key=lambda pair: pair[0], reverse=not order.inverted)
    return (*(nf for _, nf in known), *rest)


@lru_cache(maxsize=8)
def nf_columns(
    width: int, *, compared: bool, chosen: tuple[str, ...] = ()
) -> tuple[TableColumn, ...]:
    """Columns for a width; `compared`: there is a baseline; `chosen`: keys in their order."""
    columns = [_at_width(col, width) for col in _COLS if compared or col.key != "cpp_vs_base"]
    if chosen:
        return chosen_columns(columns, chosen, width)
    shown = fit_columns(columns, width)
    # What the names could have is the CPUs' first: two ranges are as long as a usual name is whole.
    more = min(shown[0].width - _LABELS[0].width, _MORE_CPUS)
    wider = {"name": -more, "cpus": more} if any(col.key == "cpus" for col in shown) else {}
    return tuple(replace(col, width=col.width + wider.get(col.key, 0)) for col in shown)


def _at_width(col: TableColumn, width: int) -> TableColumn:
    """A column as it is on a screen of so many cells."""
    if col.key == _BAR and width >= _LONG_BAR_FROM:
        return replace(col, label="TOPDOWN 5% a letter", width=21)
    return col


def order_header(columns: Sequence[TableColumn], order: NfOrder, width: int) -> Line:
    """The column headers; an arrow marks the one that rows are sorted by."""
    numeric = bool(order.sort) and order.sort not in NAMES
    return crop(header_line(columns, order.sort, descending=numeric != order.inverted), width)


def nf_line(
    frame: Frame,
    nf: NfRow,
    columns: Sequence[TableColumn],
    width: int,
    trends: RowTrends = NO_TRENDS,
) -> Line:
    """One network function."""
    cpus = frame.cpus
    partial = partial_coverages(low_coverages(cpus), cpus.topology.row_of, nf)
    spans: list[Span] = []
    for col in columns:
        if col.key == _BAR:
            retiring = nf.readings["tma.retiring"]
            doubt = (
                not isinstance(retiring, Missing) and _METRICS["tma.retiring"].coverage in partial
            )
            drawn = bar(nf.readings, col.width - 1)
            spans += [*drawn.spans, Span(fmt.ESTIMATE if doubt else " ", Tone.PLAIN)]
        elif col.key == USUAL.key:
            spans.append(usual_cell(nf, col, trends))
        elif col.key == TREND.key:
            spans += rate_cell(trends, nf, col.width - 1)
        elif col.key == "classes":
            spans += _class_cell(frame, nf, col.width)
        elif col.metric is not None:
            spans.append(_metric_cell(nf, col.metric, col.width, partial))
        else:
            text = _label(nf, col)
            # A part of its process id is none.
            whole = col.key != "name" or text_cells(text) < col.width
            spans.append(text_cell(text if whole else nf.name, col.width))
    return crop(Line(tuple(spans)), width)


def _metric_cell(nf: NfRow, metric: Metric, width: int, partial: frozenset[str]) -> Span:
    (cell,) = metric_cells((nf,), metric, width, (partial,))
    shared = metric.id == "llc_occupancy_bytes" and nf.sharers and cell.tone is not Tone.MISSING
    return Span(cell.text[:-1] + SHARED, cell.tone) if shared else cell


def _label(nf: NfRow, col: TableColumn) -> str:
    if col.key == "name":
        return f"{nf.name} {nf.pid or ''}".rstrip()
    if col.key == "kind":
        return nf.kind
    if col.key == "cpus":
        return format_cpu_list(nf.cpus) or Reason.UNDEFINED.mark
    return class_text(nf) or Reason.UNDEFINED.mark


def _class_cell(frame: Frame, nf: NfRow, width: int) -> tuple[Span, ...]:
    """Its cache class by hue and name, or the names of several."""
    if len(nf.classes) != 1:
        text = ",".join(group_name(item.name) for item in nf.classes)
        return (text_cell(text or Reason.UNDEFINED.mark, width),)
    own, styles = nf.classes[0], styles_of(frame.groups)
    number = styles[own.name].number if own.name in styles else own.clos
    return class_spans(own.name, number, width, Tone.PLAIN)


def class_text(nf: NfRow) -> str:
    """Numbers and names of its cache classes; "" if unknown."""
    return ", ".join(
        f"{'' if clos.clos is None else clos.clos} {group_name(clos.name)}".strip()
        for clos in nf.classes
    )
