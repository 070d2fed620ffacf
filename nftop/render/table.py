"""The table of CPUs as lines. Text is made only for the rows asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from nftop.model.catalogue import cpu_metric
from nftop.model.frame import CpuTable
from nftop.model.ids import format_cpu_list
from nftop.model.metric import Metric, Unit
from nftop.model.reading import Missing, Reading, Reason
from nftop.render import cache
from nftop.render import format as fmt
from nftop.render.bars import bars
from nftop.render.columns import BAR, GROUP, Col, columns_for, sorts_down
from nftop.render.line import Line, Span, Tone, line
from nftop.render.rows import Rows, View, arrange
from nftop.render.text import fit


def table_lines(cpus: CpuTable, view: View, width: int) -> list[Line]:
    """The whole table: headers and every row."""
    rows, columns = arrange(cpus, view), columns_for(width, cpus)
    return [header_line(columns, view), *body_lines(cpus, rows, columns, 0, rows.lines)]


def header_line(columns: Iterable[Col], view: View) -> Line:
    """The column headers; an arrow stands by the one the rows are sorted by."""
    parts = []
    for col in columns:
        arrow = " "
        if col.key == view.sort:
            arrow = "▼" if sorts_down(col.key) != view.inverted else "▲"
        text = fit(col.label, col.width - 1, right=True) + arrow if col.right else col.label + arrow
        parts.append(Span(fit(text, col.width), Tone.HEADER))
    return line(*parts, fill=Tone.HEADER)


def body_lines(
    cpus: CpuTable, rows: Rows, columns: Iterable[Col], top: int, height: int
) -> list[Line]:
    """The lines of the table's body from `top` on, `height` at most, and no work for others."""
    shown = rows.shown[top : top + height]
    # Idle rows step back only where there are busy ones to step back from.
    bases = [
        Tone.DIM if 0 < rows.attached <= place else Tone.PLAIN
        for place in range(top, top + len(shown))
    ]
    spans = [_column_spans(cpus, shown, col, bases) for col in columns] if shown else []
    lines = [line(*row) for row in zip(*spans, strict=True)]
    if rows.folded and len(lines) < height:
        lines.append(fold_line(cpus, rows.folded))
    return lines


def fold_line(cpus: CpuTable, folded: Sequence[int]) -> Line:
    """What the folded rows come to, in one line; their busy time is the mean of those known."""
    busy = cpus.columns["busy_ratio"]
    rows = np.array(folded, np.intp)
    known = busy.values[rows][busy.present[rows]]
    mean: Reading = float(known.mean()) if len(known) else busy[folded[0]]
    offline = sum(not cpus.online[row] for row in folded)
    text = f"   + {len(folded)} other CPU{'s' * (len(folded) != 1)}"
    tail = f", {offline} offline" if offline else ""
    return line(Span(f"{text}, {fmt.worded(mean, Unit.RATIO)} busy{tail}", Tone.DIM))


def is_bound(metric: Metric, *, saturated: bool | None) -> bool:
    """Whether a value is an upper bound of a packet's cost: the core may have been polling idly."""
    return metric.bounded and saturated is not True


def value_tone(metric: Metric, value: float, base: Tone, *, saturated: bool | None) -> Tone:
    """`base`, unless the value says that something is wrong, or is mostly that of empty polls."""
    if metric.bad_above is not None and value > metric.bad_above:
        return Tone.BAD
    return Tone.DIM if metric.bounded and saturated is False else base


def estimates(cpus: CpuTable, rows: Sequence[int], metric: Metric) -> list[bool]:
    """Where a present value rests on multiplexed counters, or on another clock than the core's."""
    at = np.array(rows, np.intp)
    partial = np.zeros(len(at), np.bool_)
    if metric.coverage is not None:
        # A missing coverage is NaN, which is not below anything.
        partial = cpus.columns[metric.coverage].values[at] < 1.0
    other = [metric.per_clock and cpus.cpp_clock[row] not in (None, "core") for row in rows]
    there = cpus.columns[metric.id].present[at]
    return [bool(each) for each in (partial | np.array(other, np.bool_)) & there]


def _column_spans(
    cpus: CpuTable, shown: Sequence[int], col: Col, bases: Sequence[Tone]
) -> Sequence[Span | Line]:
    if col.key == BAR.key:
        return _bar_cells(cpus, shown, col.width - 1, bases)
    if col.metric:
        return _metric_spans(cpus, shown, col.width, col.metric, bases)
    if col.key == GROUP.key:
        return _group_cells(cpus, shown, col, bases)
    text_of = _LABEL_TEXTS[col.key]
    return [
        Span(_padded(text_of(cpus, row) or Reason.UNDEFINED.mark, col), base)
        for row, base in zip(shown, bases, strict=True)
    ]


def _padded(text: str, col: Col) -> str:
    return fit(text, col.width - 1, right=col.right) + " "


_LABEL_TEXTS: Mapping[str, Callable[[CpuTable, int], str | None]] = {
    "cpu": lambda cpus, row: str(cpus.topology.cpus[row].cpu),
    "smt": lambda cpus, row: format_cpu_list(cpus.topology.cpus[row].siblings),
    "thread": lambda cpus, row: cpus.thread[row] if cpus.online[row] else "offline",
    "nf": lambda cpus, row: cpus.nf[row],
}


def _metric_spans(
    cpus: CpuTable, shown: Sequence[int], width: int, metric: Metric, bases: Sequence[Tone]
) -> list[Span]:
    column, rows = cpus.columns[metric.id], np.array(shown, np.intp)
    cells = zip(
        column.values[rows].tolist(),
        column.reasons[rows].tolist(),
        [cpus.saturated[row] for row in shown],
        estimates(cpus, shown, metric),
        bases,
        strict=True,
    )
    return [_span(metric, width, _Cell(*cell)) for cell in cells]


def _group_cells(
    cpus: CpuTable, shown: Sequence[int], col: Col, bases: Sequence[Tone]
) -> list[Span]:
    """The class of each CPU: its number, and its name where the column has grown."""
    spans = []
    for row, base in zip(shown, bases, strict=True):
        group = cpus.group[row]
        if isinstance(group, Missing):
            spans.append(Span(_padded(fmt.mark(group.reason, col.width - 1), col), Tone.MISSING))
            continue
        name = cache.group_name(group.name)
        number = "" if group.clos is None else str(group.clos)
        text = f"{number:<2} {name}" if col.width > GROUP.width else number
        spans.append(Span(_padded(text.strip() or name, col), base))
    return spans


def _bar_cells(
    cpus: CpuTable, shown: Sequence[int], cells: int, bases: Sequence[Tone]
) -> list[Line]:
    """The bars, each with its `~` where it is an estimate."""
    parts = zip(
        bars(cpus, shown, cells, bases),
        estimates(cpus, shown, cpu_metric("tma.retiring")),
        strict=True,
    )
    return [line(bar, fmt.ESTIMATE if estimate else " ") for bar, estimate in parts]


_REASONS = tuple(Reason)  # by number; to call an enumeration for every cell costs more


class _Cell(NamedTuple):
    value: float
    reason: int
    saturated: bool | None
    estimate: bool
    base: Tone


def _span(metric: Metric, width: int, cell: _Cell) -> Span:
    if cell.reason:
        return Span(f"{fmt.mark(_REASONS[cell.reason], width - 1):>{width - 1}} ", Tone.MISSING)
    bound = is_bound(metric, saturated=cell.saturated)
    text = fmt.cell(cell.value, metric.unit, width - 1, bound=bound)
    # `~` stands in the cell between columns, so that digits stay under digits.
    text = f"{text:>{width - 1}}{fmt.ESTIMATE if cell.estimate else ' '}"
    return Span(text, value_tone(metric, cell.value, cell.base, saturated=cell.saturated))
