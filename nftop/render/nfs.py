"""The network functions, a line each, with a sentence below those whose numbers are not current."""

from __future__ import annotations

from nftop.model.catalogue import NF_METRICS
from nftop.model.frame import CpuTable, Frame, NfRow
from nftop.model.ids import format_cpu_list
from nftop.model.metric import Metric
from nftop.model.reading import Missing, Reason
from nftop.model.roles import NF_KINDS
from nftop.render import format as fmt
from nftop.render.line import Line, Span, Tone, crop, line, paragraph
from nftop.render.table import is_bound, value_tone
from nftop.render.text import fit

_NAME, _CPUS = 18, 10


def nf_lines(frame: Frame, width: int, limit: int | None = None) -> list[Line]:
    """Headers and the network functions, in at most `limit` lines.

    Without any, a sentence that says so and why none could be seen.
    """
    if not frame.nfs:
        return _nobody(frame, width)[:limit]
    metrics = _metrics_for(width)
    lines = [_headers(metrics, width)]
    for place, nf in enumerate(frame.nfs):
        rows = [_row(frame, nf, metrics, width), *_problem(nf, width)]
        left = len(frame.nfs) - place
        # The last line is kept for saying how many more there are.
        if limit is not None and len(lines) + len(rows) + (left > 1) > limit:
            more = f"  + {left} more network function{'s' * (left != 1)}"
            return [*lines, crop(line(Span(more, Tone.DIM)), width)][:limit]
        lines += rows
    return lines


def _nobody(frame: Frame, width: int) -> list[Line]:
    kinds = dict.fromkeys(NF_KINDS.values())
    states = (frame.sources[kind] for kind in kinds if kind in frame.sources)
    whys = "; ".join(state.detail or state.reason.sentence for state in states if state.reason)
    text = "no statistics of a network function found" + (f": {whys}" if whys else "")
    return paragraph(text, width, tone=Tone.DIM)


def _metrics_for(width: int) -> list[Metric]:
    room = (width - _NAME - _CPUS - 2) // 9
    ranked = sorted(NF_METRICS, key=lambda metric: metric.priority or 0)
    return ranked[: max(0, room)]


def _names_width(metrics: list[Metric], width: int) -> int:
    return max(1, min(_NAME + 14, width - _CPUS - 1 - 9 * len(metrics)))


def _headers(metrics: list[Metric], width: int) -> Line:
    name = fit("NF", _names_width(metrics, width))
    cells = "".join(f"{metric.label:>8} " for metric in metrics)
    text = f"{name} {fit('CPUS', _CPUS)}{cells}"
    return crop(line(Span(text, Tone.HEADER), fill=Tone.HEADER), width)


def _row(frame: Frame, nf: NfRow, metrics: list[Metric], width: int) -> Line:
    name = fit(f"{nf.name} {nf.pid}" if nf.pid else nf.name, _names_width(metrics, width))
    cpus = fit(format_cpu_list(nf.cpus) or Reason.UNDEFINED.mark, _CPUS)
    cells = [_cell(frame.cpus, nf, metric) for metric in metrics]
    return crop(line(name, " ", cpus, *cells), width)


def _cell(cpus: CpuTable, nf: NfRow, metric: Metric) -> Span:
    reading = nf.readings[metric.id]
    if isinstance(reading, Missing):
        return Span(f"{fmt.mark(reading.reason, 8):>8} ", Tone.MISSING)
    text = fmt.cell(reading, metric.unit, 8, bound=is_bound(metric, saturated=nf.saturated))
    after = fmt.ESTIMATE if _estimate(cpus, nf, metric) else " "
    tone = value_tone(metric, reading, Tone.PLAIN, saturated=nf.saturated)
    return Span(f"{text:>8}{after}", tone)


def _estimate(cpus: CpuTable, nf: NfRow, metric: Metric) -> bool:
    """As `table.estimates`, but a sum is one already where one of its cores is."""
    if metric.per_clock and nf.cpp_clock not in (None, "core"):
        return True
    if metric.coverage is None:
        return False
    coverage, row_of = cpus.columns[metric.coverage].values, cpus.topology.row_of
    return any(coverage[row_of[cpu]] < 1.0 for cpu in nf.cpus if cpu in row_of)


def _problem(nf: NfRow, width: int) -> list[Line]:
    if nf.problem is None:
        # Nothing of it is in the table below, so why is said here.
        return [] if nf.cpus else paragraph(f"  {nf.attribution}", width, tone=Tone.DIM)
    lead = line("  ", Span(f"{nf.problem.reason.mark} ", Tone.BAD))
    return paragraph(nf.problem.sentence, width, lead=lead)
