"""Network functions, a line each, with the problem of those whose numbers are not current."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from nftop.model.column import Block
from nftop.model.frame import CacheClass, CpuTable, Frame, NfRow
from nftop.model.ids import format_cpu_list
from nftop.model.metrics.metric import ESTIMATE_BELOW, Metric, Unit, is_other
from nftop.model.metrics.nf import NF_METRICS
from nftop.model.missing import Missing, Reason
from nftop.model.nf.kinds import NF_ADDRESSES
from nftop.model.number_text import counted
from nftop.model.struct import replace
from nftop.render.base.line import Line, Span, Tone, crop, line, paragraph
from nftop.render.base.table import (
    EDGE,
    TableCell,
    TableColumn,
    body_lines,
    fit_columns,
    header_line,
    number_cell,
    text_cell,
)
from nftop.render.base.text import cells as text_cells
from nftop.render.cache.class_cells import class_spans
from nftop.render.cache.way_cells import styles_of
from nftop.render.cores.columns import GROUP, columns_for
from nftop.render.cores.harm import (
    FEW_CELLS,
    NF_CELLS,
    SICK,
    RowTrends,
    drops_of,
    nfs_by_harm,
    rate_cell,
)
from nftop.render.cores.rows import matching
from nftop.render.cores.table import MarkedValue, change_cell, marked_cells

_METRICS = {metric.id: metric for metric in NF_METRICS}


def _of_metric(key: str, label: str, width: int, priority: float) -> TableColumn:
    return TableColumn(key, label, width, priority=priority, metric=_METRICS[key])


_SHORT_NAME, _LONG_LIST = 12, 16
_NAME = TableColumn("name", "NF", 17, right=False, priority=0, grows=0)
_CPUS = TableColumn("cpus", "CPUS", 6, right=False, priority=0.5, grows=10)
# Two values a cell, of ten minutes at 1 Hz.
TREND = TableColumn("trend", "Mpps 10m -10..+5%", NF_CELLS + 1, priority=6, grows=300 - NF_CELLS)
_CLASS = replace(GROUP, key="class", priority=4.5, grows=0)
USUAL = TableColumn("usual", "vs.10m", 7, priority=4)
_ROOM = TableColumn("room_ratio", "ROOM", 6, priority=5)
_ROOM_RATE = TableColumn("room_packets_per_s", "Mpps", 6, priority=10)
_COLUMNS = (
    _NAME,
    _CPUS,
    _of_metric("rx_packets_per_s", "IN Mpps", 8, 7),
    _of_metric("tx_packets_per_s", "OUT", 7, 1),
    _of_metric("drop_packets_per_s", "DROP/s", 8, 2),
    _of_metric("cpp", "CPP", 7, 3),
    USUAL,
    _ROOM,
    _ROOM_RATE,
    _of_metric("busy_cpp", "bCPP", 7, 11),
    _of_metric("ipp", "IPP", 7, 12),
    _of_metric("ipc", "IPC", 6, 8),
    _of_metric("llc_misses_per_packet", "MISS/pkt", 9, 9),
    TREND,
    _CLASS,
)
_MISSES = "llc_misses_per_packet"
_SENT, _DROPS = "tx_packets_per_s", "drop_packets_per_s"
_LONG_FROM = 100  # cells from which trends and lists of CPUs are long
_COVERAGES = tuple(
    dict.fromkeys(nf_metric.coverage for nf_metric in NF_METRICS if nf_metric.coverage)
)


def nf_lines(
    frame: Frame,
    width: int,
    limit: int | None = None,
    search: str = "",
    trends: RowTrends | None = None,
) -> list[Line]:
    """Headers and the network functions, those in trouble first.

    `search`, if given, leaves those with this in their name or on CPUs that match it. Without any
    network function at all, a sentence that says so and why none could be seen. The last of
    `limit` lines counts those left out. `trends`: histories, of screens that have them.
    """
    if not frame.nfs:
        return nobody(frame, width)[:limit]
    columns = nf_columns_of(frame, width, trends=trends is not None)
    lines = [crop(header_line(columns), width)]
    known = trends or RowTrends()
    ranked = nfs_by_harm(frame, known)
    if search:
        wanted = matching_nfs(frame, search)
        ranked = [item for item in ranked if item[0] in wanted]
    notes: list[list[Line]] = []
    taken = len(lines)
    more: list[Line] = []
    for index, (nf, _) in enumerate(ranked):
        note = _problem(nf, width)
        left = len(ranked) - index
        taken += 1 + len(note)
        if limit is not None and taken + (left > 1) > limit:
            text = f"  + {counted(left, 'more network function')}"
            more = [crop(line(Span(text, Tone.MUTED)), width)]
            break
        notes.append(note)
    rows = _rows(frame, ranked[: len(notes)], columns, known)
    for row, note in zip(rows, notes, strict=True):
        lines += [row, *note]
    return [*lines, *more][:limit]


def nf_columns_of(frame: Frame, width: int, *, trends: bool = True) -> tuple[TableColumn, ...]:
    """Columns of the table in `width` cells; `trends`: with those of the history."""
    misses = any(not isinstance(nf.readings[_MISSES], Missing) for nf in frame.nfs)
    names = max(text_cells(nf.name) for nf in frame.nfs) + 1
    lists = max(len(_cpu_list(nf.cpus)) for nf in frame.nfs) + 1 if width >= _LONG_FROM else 0
    # As wide as in the table of CPUs, so that both are one column at the edge.
    of_cpus = columns_for(width + EDGE, frame.cpus, trends=trends)
    cells = (
        ("name", min(max(names, _SHORT_NAME), _NAME.width)),
        ("cpus", min(max(lists, _CPUS.width), _LONG_LIST)),
        ("class", next((col.width for col in of_cpus if col.key == GROUP.key), _CLASS.width)),
    )
    return _columns_for(width, cells, trends=trends, misses=misses)


def matching_nfs(frame: Frame, search: str) -> Sequence[NfRow]:
    """Network functions with this in their name or on CPUs that match; all if empty."""
    if not search:
        return frame.nfs
    row_of, matches = frame.cpus.topology.row_of, matching(frame.cpus, search)
    return [
        nf
        for nf in frame.nfs
        if search.casefold() in nf.name.casefold()
        or any(matches[row_of[cpu]] for cpu in nf.cpus if cpu in row_of)
    ]


def nobody(frame: Frame, width: int) -> list[Line]:
    """Message that there is no network function, with the reasons of the sources."""
    states = [
        (f"{name} ({address})", frame.sources[name])
        for name, address in NF_ADDRESSES.items()
        if name in frame.sources
    ]
    whys = "; ".join(
        f"{source}: {state.detail or state.reason.sentence}"
        for source, state in states
        if state.reason or state.detail
    )
    text = "no network function with statistics" + (f": {whys}" if whys else "")
    return paragraph(text, width, tone=Tone.MUTED)


@lru_cache(maxsize=8)  # drawn every tick
def _columns_for(
    width: int, cells: tuple[tuple[str, int], ...], *, trends: bool, misses: bool
) -> tuple[TableColumn, ...]:
    """Name and CPUs, then what fits, by priority.

    `cells`: of columns with a width of their own; `misses`: some function has a number for them.
    """
    columns = [
        replace(col, width=dict(cells).get(col.key, col.width))
        for col in _COLUMNS
        if (trends or col.key not in (TREND.key, USUAL.key)) and (misses or col.key != _MISSES)
    ]
    if width < _LONG_FROM:
        short = replace(TREND, label="Mpps 5 min", width=FEW_CELLS + 1, grows=0)
        columns = [short if col.key == TREND.key else col for col in columns]
    return fit_columns(columns, width, least=2)


def _rows(
    frame: Frame,
    ranked: Sequence[tuple[NfRow, float]],
    columns: Sequence[TableColumn],
    trends: RowTrends,
) -> list[Line]:
    """A line of each, made column by column."""
    nfs = [nf for nf, _ in ranked]
    low = low_coverages(frame.cpus)
    partial = [partial_coverages(low, frame.cpus.topology.row_of, nf) for nf in nfs]

    def cells(col: TableColumn) -> Sequence[TableCell]:
        if col.metric is not None:
            return [(cell,) for cell in _metric_cells(nfs, col, col.metric, partial)]
        if col.key == _CLASS.key:
            return _class_cells(frame, nfs, col)
        drawn = [_CELLS[col.key](frame, nf, col, trends) for nf in nfs]
        if col is columns[0]:
            return [
                (Span(cell[0].text, Tone.STRONG), *cell[1:]) if harm >= SICK else cell
                for cell, (_, harm) in zip(drawn, ranked, strict=True)
            ]
        return drawn

    return body_lines(columns, cells)


def _metric_cells(
    nfs: Sequence[NfRow], col: TableColumn, metric: Metric, partial: Sequence[frozenset[str]]
) -> list[Span]:
    spans = metric_cells(nfs, metric, col.width, partial)
    if col.key not in (_SENT, _DROPS):
        return spans
    return [
        Span(span.text, Tone.BAD if drops else Tone.MUTED)
        if span.tone is Tone.PLAIN and bool(drops) is (col.key == _SENT)
        else span
        for span, drops in zip(spans, map(drops_of, nfs), strict=True)
    ]


_cpu_list = lru_cache(maxsize=256)(format_cpu_list)


def usual_cell(nf: NfRow, col: TableColumn, trends: RowTrends) -> Span:
    """Cost against its median of the last minutes."""
    return change_cell(trends.nf_costs.change(nf.key), col.width, loses=drops_of(nf) > 0)


def _room_cells(_frame: Frame, nf: NfRow, col: TableColumn, _trends: RowTrends) -> TableCell:
    share, rate = nf.readings[_ROOM.key], nf.readings[_ROOM_RATE.key]
    if col.key == _ROOM_RATE.key:
        blank = isinstance(rate, Missing) or rate < _LEAST_ROOM_PER_S
        if blank:
            return (Span(" " * col.width, Tone.PLAIN),)
        return (number_cell(rate, Unit.PACKETS_PER_S, col.width, tone=Tone.MUTED),)
    little = not isinstance(share, Missing) and share < _LITTLE_ROOM
    tone = Tone.BAD if little and drops_of(nf) else Tone.PLAIN
    return (number_cell(share, Unit.RATIO, col.width, tone=tone),)


_LITTLE_ROOM, _LEAST_ROOM_PER_S = 0.01, 1e4


def _class_cells(frame: Frame, nfs: Sequence[NfRow], col: TableColumn) -> list[TableCell]:
    styles = styles_of(frame.groups)

    def cell(own: CacheClass) -> TableCell:
        number = styles[own.name].number if own.name in styles else own.clos
        return class_spans(own.name, number, col.width, Tone.PLAIN)

    blank = (Span(" " * col.width, Tone.PLAIN),)
    return [cell(nf.classes[0]) if nf.classes else blank for nf in nfs]


_CELLS: Mapping[str, Callable[[Frame, NfRow, TableColumn, RowTrends], TableCell]] = {
    _NAME.key: lambda _frame, nf, col, _trends: (text_cell(nf.name, col.width),),
    _CPUS.key: lambda _frame, nf, col, _trends: (
        text_cell(_cpu_list(nf.cpus) or Reason.UNDEFINED.mark, col.width),
    ),
    USUAL.key: lambda _frame, nf, col, trends: (usual_cell(nf, col, trends),),
    _ROOM.key: _room_cells,
    _ROOM_RATE.key: _room_cells,
    TREND.key: lambda _frame, nf, col, trends: rate_cell(trends, nf, col.width - 1),
}


def metric_cells(
    nfs: Sequence[NfRow], metric: Metric, width: int, partial: Sequence[frozenset[str]]
) -> list[Span]:
    """A number of each network function with its mark, as `cores.table` has those of CPUs.

    A sum is an estimate where one of its cores is: `partial` has `partial_coverages` of each.
    """
    values: list[MarkedValue] = []
    for nf, own in zip(nfs, partial, strict=True):
        reading = nf.readings[metric.id]
        known = (0.0, reading.reason) if isinstance(reading, Missing) else (reading, 0)
        estimate = (metric.per_clock and is_other(nf.cpp_clock)) or metric.coverage in own
        values.append((*known, nf.saturated, nf.cpp_clock, estimate, Tone.PLAIN))
    return [cell for (cell,) in marked_cells(metric, width - 1, values)]


def low_coverages(cpus: CpuTable) -> dict[str, list[bool]]:
    """By coverage, whether it is partial on each row of the table; only those that are on some."""
    block = Block.of(cpus.columns)
    low = (block.floats[block.rows_of(_COVERAGES)] < ESTIMATE_BELOW).tolist()
    return {name: rows for name, rows in zip(_COVERAGES, low, strict=True) if True in rows}


def partial_coverages(
    low: Mapping[str, Sequence[bool]], row_of: Mapping[int, int], nf: NfRow
) -> frozenset[str]:
    """Coverages that are partial on one of its cores, which makes its sums estimates.

    `low`: of `low_coverages`. `row_of`: of the table's topology.
    """
    rows = [row_of[cpu] for cpu in nf.cpus if cpu in row_of] if low else []
    return frozenset(name for name, partial in low.items() if any(partial[row] for row in rows))


def _problem(nf: NfRow, width: int) -> list[Line]:
    if nf.problem is None:
        # It is not in the table below: say why here.
        return [] if nf.cpus else paragraph(f"  {nf.attribution}", width, tone=Tone.MUTED)
    lead = line("  ", Span(f"{nf.problem.reason.mark} ", Tone.BAD))
    return paragraph(nf.problem.message, width, lead=lead)
