"""The CPU table as lines; text is built only for the rows in view."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nftop.model.frame import CacheClass, Clock, CpuTable
from nftop.model.ids import format_cpu_list
from nftop.model.metrics.catalogue import CPU_METRICS, cpu_metric
from nftop.model.metrics.metric import ESTIMATE_BELOW, Metric, Unit, is_bound, is_other
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.number_text import counted
from nftop.model.usual import NEAR
from nftop.render.base import format as fmt
from nftop.render.base import table
from nftop.render.base.bars import bars
from nftop.render.base.line import Click, Line, Span, Tone, line
from nftop.render.base.table import TableCell, TableColumn, text_cell
from nftop.render.base.text import cells as text_cells
from nftop.render.base.text import fit, printable
from nftop.render.cache import class_cells
from nftop.render.cache.way_cells import ClassStyle
from nftop.render.cores.columns import BAR, GROUP, TREND, USUAL, columns_for, sorts_down
from nftop.render.cores.harm import SICK, RowFacts, change_tone
from nftop.render.cores.rows import CpuRows, CpuView, arrange, rows_in_view
from nftop.render.power.settings import TEXTS, fitted

# Siblings busier than this are marked.
SIBLING_BUSY_RATIO, SIBLING_MARK = 0.5, "!"
NO_FACTS = RowFacts()
_COVERAGES = tuple(dict.fromkeys((None, *(metric.coverage for metric in CPU_METRICS))))


def table_lines(cpus: CpuTable, view: CpuView, width: int) -> list[Line]:
    """The whole table: headers and every row."""
    rows, columns = arrange(cpus, view), columns_for(width + table.EDGE, cpus)
    return [header_line(columns, view), *body_lines(cpus, rows, columns, 0, rows.lines)]


def header_line(columns: Sequence[TableColumn], view: CpuView) -> Line:
    """The column headers; an arrow stands by the one the rows are sorted by."""
    descending = sorts_down(view.sort) != view.inverted
    return table.header_line(columns, view.sort, descending=descending)


def body_lines(
    cpus: CpuTable,
    rows: CpuRows,
    columns: Iterable[TableColumn],
    top: int,
    height: int,
    *,
    facts: RowFacts = NO_FACTS,
    width: int | None = None,
) -> list[Line]:
    """Lines of the body from `top` on, at most `height`; the last counts what is not shown.

    `width`: cells of that last line; None: any.
    """
    room = rows_in_view(rows, height)
    columns = tuple(columns)
    nf_cells = next((col.width - 1 for col in columns if col.key == "nf"), 0)
    marked = any(col.key == TREND.key for col in columns)
    shown = _shown(cpus, rows, top, room, facts)._replace(nf_cells=nf_cells, is_marked=marked)
    lines = table.body_lines(columns, lambda col: _cells(cpus, shown, col)) if shown.rows else []
    hidden = rows.shown[:top] + rows.shown[top + room :]
    if (rows.folded or hidden) and len(lines) < height:
        rest = rest_line(cpus, rows, hidden, facts, width, above=top)
        blank = 0 if width is None else width - table.EDGE - rest.width - _UNFOLD.width
        lines.append(line(rest, " " * blank, _UNFOLD) if rows.folded and blank > 1 else rest)
    return lines


_UNFOLD = Line((Span("i", Tone.ACCENT, Click("fold")), Span(" unfold", Tone.MUTED, Click("fold"))))


def rest_line(
    cpus: CpuTable,
    rows: CpuRows,
    hidden: Sequence[int],
    facts: RowFacts,
    width: int | None = None,
    *,
    above: int = 0,
) -> Line:
    """Counts of the rows out of view, sick and well, and of the folded ones.

    In `width` cells: first without what the words mean, then without names, then without words.
    The first `above` of the hidden rows are above those in view: if one is sick, the key is named
    that goes to them.
    """
    sick: list[int] = []
    well = 0
    if facts.harm is not None and hidden:
        rows_out = np.array(hidden)
        is_sick = facts.harm[rows_out] >= SICK
        sick = rows_out[is_sick].tolist()
        if facts.trends.cpu_change is not None:
            well = int((np.isfinite(facts.trends.cpu_change[rows_out]) & ~is_sick).sum())
    is_above = not set(sick).isdisjoint(hidden[:above])
    others = len(hidden) - len(sick) - well
    named = dict.fromkeys(cpus.nf[row] or cpus.thread[row] or "" for row in sick)
    names = printable(" ".join(filter(None, named)))
    polled = any(cpus.nf[row] is not None for row in hidden)
    noun = "poller" if polled else "CPU"
    more = "more, not compared" if facts.harm is not None and polled else "more"

    def counts(*, brief: bool, named: bool) -> Line:
        pieces: list[Span | Line] = []
        if sick:
            text = f"{len(sick)} sick" if brief else f"{len(sick)} more sick"
            text += " (g)" if is_above and brief else " (g: go to them)" if is_above else ""
            pieces.append(Span(f"   + {text}{f': {names}' if named else ''}", Tone.WARN))
        for count, what, short in (
            (well, f"well: within {NEAR:.0%} of usual", "well"),
            (others, more, "more"),
        ):
            if count:
                text = f"{counted(count, noun)} {what}"
                pieces.append(Span(f"   + {f'{count} {short}' if brief else text}", Tone.MUTED))
        if rows.folded:
            pieces.append(fold_line(cpus, rows.folded, brief=brief and not named))
        return line(*pieces)

    forms = (counts(brief=brief, named=named) for brief, named in _REST_FORMS)
    whole = next(forms)
    if width is None or whole.width <= width:
        return whole
    return next((form for form in forms if form.width <= width), counts(brief=True, named=False))


_REST_FORMS = ((False, True), (True, True), (True, False))


def fold_line(cpus: CpuTable, folded: Sequence[int], *, brief: bool = False) -> Line:
    """One line for the folded rows, with the mean of their known busy times unless `brief`."""
    busy = cpus.columns["busy_ratio"]
    rows = np.array(folded, np.intp)
    known = busy.values[rows][busy.present[rows]]
    mean: Reading = float(known.mean()) if len(known) else busy[folded[0]]
    offline = sum(not cpus.online[row] for row in folded)
    text = f"   + {counted(len(folded), 'other CPU')}"
    tail = f", {offline} offline" if offline else ""
    text += "" if brief else f", {fmt.worded(mean, Unit.RATIO)} busy{tail}"
    return line(Span(text, Tone.MUTED))


def saturated_text(by: Sequence[str]) -> str:
    """What shows that CPP has no empty polls in it, or ""."""
    return f"saturated ({', '.join(by)})" if by else ""


def value_tone(metric: Metric, value: float, base: Tone, *, saturated: bool | None) -> Tone:
    """`base`, unless the value is beyond its limit or is mostly of empty polls."""
    if metric.bad_above is not None and value > metric.bad_above:
        return Tone.BAD
    return Tone.MUTED if metric.bounded and saturated is False else base


def estimates(cpus: CpuTable, rows: Sequence[int], metric: Metric) -> list[bool]:
    """Where a value was counted only part of the time, or not by the core's clock."""
    at = np.array(rows, np.intp)
    present = cpus.columns[metric.id].present[at].tolist()
    return [
        here and (partial or (metric.per_clock and other))
        for here, partial, other in zip(
            present, _partial(cpus, at, metric.coverage), _other_clock(cpus, rows), strict=True
        )
    ]


def _partial(cpus: CpuTable, at: NDArray[np.intp], coverage: str | None) -> list[bool]:
    """Where the coverage is too low."""
    if coverage is None:
        return [False] * len(at)
    partial: list[bool] = (cpus.columns[coverage].values[at] < ESTIMATE_BELOW).tolist()
    return partial


def _other_clock(cpus: CpuTable, rows: Sequence[int]) -> list[bool]:
    return [is_other(cpus.cpp_clock[row]) for row in rows]


class _Shown(NamedTuple):
    """Facts of the rows in view that all columns need."""

    rows: Sequence[int]
    at: NDArray[np.intp]
    bases: Sequence[Tone]
    saturated: Sequence[bool | None]
    clocks: Sequence[Clock | None]
    # Which values are estimates, by (coverage, per_clock) of their metric.
    doubted: Mapping[tuple[str | None, bool], Sequence[bool]]
    facts: RowFacts
    nf_cells: int = 0  # of the column of network functions
    is_marked: bool = True  # another column marks culprits


def _shown(cpus: CpuTable, rows: CpuRows, top: int, height: int, facts: RowFacts) -> _Shown:
    shown = rows.shown[top : top + height]
    at = np.array(shown, np.intp)
    other = _other_clock(cpus, shown)
    doubted: dict[tuple[str | None, bool], Sequence[bool]] = {}
    for coverage in _COVERAGES:
        partial = _partial(cpus, at, coverage)
        doubted[coverage, False] = partial
        doubted[coverage, True] = [one or two for one, two in zip(partial, other, strict=True)]
    return _Shown(
        shown,
        at,
        [Tone.MUTED if row in rows.idle else Tone.PLAIN for row in shown],
        [cpus.saturated[row] for row in shown],
        [cpus.cpp_clock[row] for row in shown],
        doubted,
        facts,
    )


def _cells(cpus: CpuTable, shown: _Shown, col: TableColumn) -> list[TableCell]:
    if col.key == BAR.key:
        return _bar_cells(cpus, shown, col.width - 1)
    if col.key in TEXTS:
        return _text_cells(cpus, shown, col)
    if col.metric:
        return _metric_cells(cpus, shown, col.width - 1, col.metric)
    return _CELLS[col.key](cpus, shown, col)


_cpu_list = lru_cache(maxsize=1024)(format_cpu_list)

_NAMES: Mapping[str, Callable[[CpuTable, int], str | None]] = {
    "thread": lambda cpus, row: cpus.thread[row] if cpus.online[row] else "offline",
    "nf": lambda cpus, row: cpus.nf[row],
}


def _metric_cells(cpus: CpuTable, shown: _Shown, width: int, metric: Metric) -> list[TableCell]:
    column = cpus.columns[metric.id]
    return marked_cells(
        metric,
        width,
        zip(
            column.values[shown.at].tolist(),
            column.reasons[shown.at].tolist(),
            shown.saturated,
            shown.clocks,
            shown.doubted[metric.coverage, metric.per_clock],
            shown.bases,
            strict=True,
        ),
    )


# Value, its reason, whether the core is saturated, clock, whether it is an estimate, tone.
MarkedValue: TypeAlias = tuple[float, int, bool | None, Clock | None, bool, Tone]


def marked_cells(metric: Metric, width: int, values: Iterable[MarkedValue]) -> list[TableCell]:
    """Numbers in `width` cells, each with its mark behind it, or marks of why there is none."""
    exact, bound = (fmt.printer(metric.unit, width, bound=item) for item in (False, True))
    plain = not metric.bounded and metric.bad_above is None
    spans: list[TableCell] = []
    for value, reason, saturated, clock, estimate, base in values:
        if reason:
            spans.append(_marks(width)[reason])
            continue
        after = fmt.ESTIMATE if estimate else " "
        if plain:
            spans.append((Span(exact(value).rjust(width) + after, base),))
            continue
        text = (bound if is_bound(metric, saturated=saturated, clock=clock) else exact)(value)
        tone = value_tone(metric, value, base, saturated=saturated)
        spans.append((Span(text.rjust(width) + after, tone),))
    return spans


def _sibling_cells(cpus: CpuTable, shown: _Shown, col: TableColumn) -> list[TableCell]:
    """The siblings, marked where they are busy."""
    busy = cpus.columns["sibling_busy_ratio"].values[shown.at] > SIBLING_BUSY_RATIO
    cells: list[TableCell] = []
    for row, takes, base in zip(shown.rows, busy.tolist(), shown.bases, strict=True):
        text = _cpu_list(cpus.topology.cpus[row].siblings) or Reason.UNDEFINED.mark
        cell = text_cell(text, col.width, right=col.right, tone=base)
        cells.append((Span(cell.text[:-1] + SIBLING_MARK, base) if takes else cell,))
    return cells


def _group_cells(cpus: CpuTable, shown: _Shown, col: TableColumn) -> list[TableCell]:
    """The class of each CPU: its hue and its name."""
    return [
        _class_cell(cpus.group[row], shown.facts.styles, base, col.width)
        for row, base in zip(shown.rows, shown.bases, strict=True)
    ]


def _class_cell(
    group: CacheClass | Missing, styles: Mapping[str, ClassStyle], base: Tone, width: int
) -> TableCell:
    if isinstance(group, Missing):
        return (text_cell(fmt.mark(group.reason, width - 1), width, tone=base),)
    number = styles[group.name].number if group.name in styles else group.clos
    return class_cells.class_spans(group.name, number, width, base)


def _cpu_cells(cpus: CpuTable, shown: _Shown, col: TableColumn) -> list[TableCell]:
    """Numbers of the CPUs, of a culprit all in one row."""
    cells: list[TableCell] = []
    listed = {cpus.topology.cpus[row].cpu for row in shown.rows}
    for row, base in zip(shown.rows, shown.bases, strict=True):
        cpu = cpus.topology.cpus[row].cpu
        own = shown.facts.merged.get(cpu, (cpu,))
        text = str(cpu) if len(own) == 1 or own[1] in listed else _cpu_list(own)
        cells.append((text_cell(text, col.width, right=col.right, tone=base),))
    return cells


_CULPRIT = "▲"
_DIGITS = re.compile(r"(\d+)")


def common_name(names: Sequence[str]) -> str:
    """`CPU 0-3/KVM` of names that differ in one number; "" of others."""
    columns = [
        list(dict.fromkeys(texts)) for texts in zip(*map(_DIGITS.split, names), strict=False)
    ]
    varied = [texts for texts in columns if len(texts) > 1]
    same_length = len({len(_DIGITS.split(name)) for name in names}) == 1
    if not same_length or len(varied) != 1 or not all(map(str.isdecimal, varied[0])):
        return ""
    return "".join(
        texts[0] if len(texts) == 1 else format_cpu_list(sorted(map(int, texts)))
        for texts in columns
    )


def _name_cells(cpus: CpuTable, shown: _Shown, col: TableColumn) -> list[TableCell]:
    """Thread and network function; of a culprit its container or process, in its class's hue.

    The name stands for the network function where it fits there, else for the thread.
    """
    text_of = _NAMES[col.key]
    harm = shown.facts.harm
    cells: list[TableCell] = []
    for row, base in zip(shown.rows, shown.bases, strict=True):
        name = shown.facts.names.get(cpus.topology.cpus[row].cpu)
        text, tone = text_of(cpus, row) or Reason.UNDEFINED.mark, base
        own = shown.facts.merged.get(cpus.topology.cpus[row].cpu, ())
        if len(own) > 1:
            rows = (cpus.topology.row_of[cpu] for cpu in own)
            text = common_name([text_of(cpus, at) or "" for at in rows]) or text
        if col.key == "nf" and harm is not None and harm[row] >= SICK:
            tone = Tone.STRONG
        if name is not None:
            group = cpus.group[row]
            style = None if isinstance(group, Missing) else shown.facts.styles.get(group.name)
            tone = Tone.STRONG if style is None else style.hue
            if (col.key == "nf") == (text_cells(name) <= shown.nf_cells):
                text = name if shown.is_marked else f"{_CULPRIT}{name}"
        cells.append((text_cell(printable(text), col.width, right=col.right, tone=tone),))
    return cells


def _usual_cells(cpus: CpuTable, shown: _Shown, col: TableColumn) -> list[TableCell]:
    """CPP against its median of the last minutes."""
    cells: list[TableCell] = []
    for row in shown.rows:
        cpu = cpus.topology.cpus[row].cpu
        change = shown.facts.trends.cpus.change(cpu)
        cells.append((change_cell(change, col.width, loses=cpu in shown.facts.losing),))
    return cells


def change_cell(change: Reading, width: int, *, loses: bool) -> Span:
    """A cost against its median of the last minutes; `loses`: of a row that drops packets."""
    if isinstance(change, Missing):
        return text_cell(Reason.UNDEFINED.mark, width, right=True, tone=Tone.MISSING)
    tone = change_tone(change, costs=True, loses=loses)
    return table.number_cell(change, Unit.CHANGE, width, tone=tone)


def _trend_cells(cpus: CpuTable, shown: _Shown, col: TableColumn) -> list[TableCell]:
    """History of CPP, the newest at the right; culprits are named instead."""
    room = col.width - 1
    cells: list[TableCell] = []
    for row in shown.rows:
        cpu = cpus.topology.cpus[row].cpu
        if cpu in shown.facts.culprits:
            cells.append((Span(fit(f"{_CULPRIT}culprit", room) + " ", Tone.BAD),))
            continue
        spans = shown.facts.trends.cpus.spans(cpu)
        drawn = sum(len(span.text) for span in spans)
        cells.append((Span(" " * max(0, room - drawn), Tone.PLAIN), *spans, Span(" ", Tone.PLAIN)))
    return cells


_CELLS: Mapping[str, Callable[[CpuTable, _Shown, TableColumn], list[TableCell]]] = {
    GROUP.key: _group_cells,
    USUAL.key: _usual_cells,
    TREND.key: _trend_cells,
    "smt": _sibling_cells,
    "cpu": _cpu_cells,
    "thread": _name_cells,
    "nf": _name_cells,
}


def _text_cells(cpus: CpuTable, shown: _Shown, col: TableColumn) -> list[TableCell]:
    """Settings of each CPU, or the mark of why they are unknown."""
    text_of, width = TEXTS[col.key], col.width - 1
    cells: list[TableCell] = []
    for row, base in zip(shown.rows, shown.bases, strict=True):
        text = text_of(cpus, row)
        drawn = fmt.mark(text.reason, width) if isinstance(text, Missing) else fitted(text, width)
        tone = Tone.MISSING if isinstance(text, Missing) else base
        cells.append((text_cell(drawn, col.width, right=col.right, tone=tone),))
    return cells


@lru_cache(maxsize=16)
def _marks(width: int) -> tuple[TableCell, ...]:
    """The cell of each reason, by its number."""
    return tuple((table.mark_cell(item, width + 1),) for item in Reason)


_NOTHING: Mapping[str, float] = {}


def _bar_cells(cpus: CpuTable, shown: _Shown, cells: int) -> list[TableCell]:
    """The bars, each with its `~` where it is an estimate."""
    after = [
        Span(fmt.ESTIMATE if estimate else " ", Tone.PLAIN)
        for estimate in estimates(cpus, shown.rows, cpu_metric("tma.retiring"))
    ]
    values = shown.facts.before
    infos = cpus.topology.cpus
    before = [values.get(infos[row].cpu, _NOTHING) for row in shown.rows] if values else ()
    drawn = bars(cpus, shown.rows, cells, shown.bases, before)
    return [(*bar.spans, mark) for bar, mark in zip(drawn, after, strict=True)]
