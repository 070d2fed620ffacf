"""Network functions, a line each, with the problem of those whose numbers are not current."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from nftop.model.frame import CpuTable, Frame, NfRow
from nftop.model.ids import Cpu, format_cpu_list
from nftop.model.metrics.metric import ESTIMATE_BELOW, Metric
from nftop.model.metrics.nf import NF_METRICS
from nftop.model.nf.kinds import NF_ADDRESSES
from nftop.model.reading import Missing, Reason
from nftop.render.base.line import Line, Span, Tone, crop, line, paragraph
from nftop.render.base.table import (
    TableColumn,
    fit_columns,
    header_line,
    mark_cell,
    number_cell,
)
from nftop.render.base.text import fit
from nftop.render.cores.rows import matching
from nftop.render.cores.table import is_bound, is_other, value_tone

_NAME, _CPUS, _CELL = 18, 10, 8  # cells
_MOST_PRIORITY = 6
# The NFs screen has the other metrics.
_COLUMNS = tuple(
    TableColumn(metric.id, metric.label, _CELL + 1, priority=metric.priority, metric=metric)
    for metric in sorted(NF_METRICS, key=lambda metric: metric.priority or 0)
    if metric.priority is not None and metric.priority <= _MOST_PRIORITY and not metric.optional
)
_COVERAGES = tuple(
    dict.fromkeys(nf_metric.coverage for nf_metric in NF_METRICS if nf_metric.coverage)
)


def nf_lines(frame: Frame, width: int, limit: int | None = None, search: str = "") -> list[Line]:
    """Headers and the network functions; where they need more than `limit`, those in trouble first.

    `sought`, if given, leaves those with this in their name or on CPUs that match it. Without any
    network function at all, a sentence that says so and why none could be seen.
    """
    if not frame.nfs:
        return nobody(frame, width)[:limit]
    columns = _columns_for(width)
    lines = [crop(header_line(columns), width)]
    blocks = [
        (nf, [_row(frame, nf, columns, width), *_problem(nf, width)])
        for nf in matching_nfs(frame, search)
    ]
    if limit is not None and len(lines) + sum(len(rows) for _, rows in blocks) > limit:
        blocks.sort(key=lambda block: _is_well(block[0]))
    for index, (_, rows) in enumerate(blocks):
        left = len(blocks) - index
        # The last line counts those left out.
        if limit is not None and len(lines) + len(rows) + (left > 1) > limit:
            more = f"  + {left} more network function{'s' * (left != 1)}"
            return [*lines, crop(line(Span(more, Tone.DIM)), width)][:limit]
        lines += rows
    return lines


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


def _is_well(nf: NfRow) -> bool:
    drops = nf.readings["drop_packets_per_s"]
    return nf.problem is None and (isinstance(drops, Missing) or drops <= 0)


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
    return paragraph(text, width, tone=Tone.DIM)


@lru_cache(maxsize=8)  # drawn every tick
def _columns_for(width: int) -> tuple[TableColumn, ...]:
    """Name and CPUs, then the metrics that fit, by their priority."""
    shown = fit_columns(_COLUMNS, width - _NAME - _CPUS - 2, least=0)
    names = max(1, min(_NAME + 14, width - _CPUS - 1 - (_CELL + 1) * len(shown)))
    return (
        TableColumn("name", "NF", names + 1, right=False),
        TableColumn("cpus", "CPUS", _CPUS, right=False),
        *shown,
    )


def _row(frame: Frame, nf: NfRow, columns: Sequence[TableColumn], width: int) -> Line:
    partial = partial_coverages(frame.cpus, nf)
    name, cpus, *metrics = columns
    cells = [
        metric_cell(nf, column.metric, column.width, partial)
        for column in metrics
        if column.metric is not None
    ]
    label = f"{nf.name} {nf.pid}" if nf.pid else nf.name
    return crop(Line((_lead(label, nf.cpus, name.width, cpus.width), *cells)), width)


@lru_cache(maxsize=256)  # name and CPUs stay while numbers change
def _lead(name: str, cpus: tuple[Cpu, ...], name_width: int, cpus_width: int) -> Span:
    where = format_cpu_list(cpus) or Reason.UNDEFINED.mark
    return Span(f"{fit(name, name_width - 1)} {fit(where, cpus_width)}", Tone.PLAIN)


def metric_cell(nf: NfRow, metric: Metric, width: int, partial: frozenset[str]) -> Span:
    """A number of a network function with its mark, as `cores.table` has those of CPUs.

    A sum is an estimate where one of its cores is: `partial` is of `partial_coverages`.
    """
    reading = nf.readings[metric.id]
    if isinstance(reading, Missing):
        return mark_cell(reading.reason, width)
    return number_cell(
        reading,
        metric.unit,
        width,
        bound=is_bound(metric, saturated=nf.saturated, clock=nf.cpp_clock),
        estimate=(metric.per_clock and is_other(nf.cpp_clock)) or metric.coverage in partial,
        tone=value_tone(metric, reading, Tone.PLAIN, saturated=nf.saturated),
    )


def partial_coverages(cpus: CpuTable, nf: NfRow) -> frozenset[str]:
    """Coverages that are partial on one of its cores, which makes its sums estimates."""
    rows = [cpus.topology.row_of[cpu] for cpu in nf.cpus if cpu in cpus.topology.row_of]
    return frozenset(
        coverage
        for coverage in _COVERAGES
        if any(cpus.columns[coverage].values[row] < ESTIMATE_BELOW for row in rows)
    )


def _problem(nf: NfRow, width: int) -> list[Line]:
    if nf.problem is None:
        # It is not in the table below: say why here.
        return [] if nf.cpus else paragraph(f"  {nf.attribution}", width, tone=Tone.DIM)
    lead = line("  ", Span(f"{nf.problem.reason.mark} ", Tone.BAD))
    return paragraph(nf.problem.message, width, lead=lead)
