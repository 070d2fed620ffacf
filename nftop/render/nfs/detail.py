"""One network function: why numbers are absent, its threads, queues, ports, nodes, its baseline."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nftop.derive.compare.baseline import KEPT, baseline_of
from nftop.derive.compare.metric import percent
from nftop.model.baseline import NfBaseline
from nftop.model.frame import CLOCK_TEXTS, Frame, NfRow, base_clock
from nftop.model.ids import Cpu, format_cpu_list
from nftop.model.metrics.catalogue import cpu_metric
from nftop.model.metrics.metric import Metric, Unit
from nftop.model.metrics.nf import NF_METRICS
from nftop.model.nf.parts import NfThread
from nftop.model.owner import suffix
from nftop.model.reading import Missing, Reading, Reason, quotient, total
from nftop.render.base import format as fmt
from nftop.render.base.bars import bars
from nftop.render.base.line import BLANK, Line, Span, Tone, crop, line, paragraph
from nftop.render.cores.table import estimates, is_bound
from nftop.render.frame.header import clock_time
from nftop.render.nfs.cells import Column, fitting, head_line, number_cell, text_cell
from nftop.render.nfs.papers import reference_lines
from nftop.render.nfs.parts import node_lines, port_lines, queue_lines
from nftop.render.nfs.table import class_text

_BAR, _LONG_BAR, _LONG_FROM = 10, 20, 120
_MPPS = Unit.PACKETS_PER_S


def nf_detail(frame: Frame, nf: NfRow, width: int, workload: str | None = None) -> list[list[Line]]:
    """The parts, each with a header of its own; `workload` as `reference_lines` has it."""
    parts = [
        [_rule(nf, width), *_trouble(nf, width), *_threads(frame, nf, width)],
        _said(nf, width),
        _baseline(frame, nf, width),
        queue_lines(nf, width),
        port_lines(nf, width),
        node_lines(nf, width),
        reference_lines(frame, nf, workload, width),
    ]
    return [[crop(item, width) for item in part] for part in parts if part]


def joined(parts: Sequence[Sequence[Line]], *, apart: bool) -> list[Line]:
    """One below the other, with a blank line between them where there is room."""
    lines: list[Line] = []
    for part in parts:
        lines += [BLANK] if apart and lines else []
        lines += part
    return lines


def _rule(nf: NfRow, width: int) -> Line:
    where = f"cpus {format_cpu_list(nf.cpus)}" if nf.cpus else "no CPU known"
    title = f"{nf.name} · {nf.kind} {nf.pid or ''}".rstrip() + f"{suffix(nf.owner)} · {where}"
    head = crop(line(Span("── ", Tone.DIM), Span(title, Tone.TITLE), " "), width)
    return line(head, Span("─" * (width - head.width), Tone.DIM))


def _trouble(nf: NfRow, width: int) -> list[Line]:
    """Why nothing of it is current; so it stands before its numbers."""
    if nf.problem is None:
        return []
    lead = line(Span(f"{nf.problem.reason.mark} ", Tone.BAD))
    return paragraph(nf.problem.message, width, lead=lead)


def _said(nf: NfRow, width: int) -> list[Line]:
    """Why numbers are absent, how packets were counted, whose its cache is."""
    lines: list[Line] = []
    for why, labels in _absences(nf).items():
        lead = line(Span(f"{why.reason.mark:<4}", Tone.MISSING))
        text = f"{', '.join(labels)}: {why.message}"
        lines += paragraph(text, width, lead=lead, tone=Tone.DIM)
    clock = CLOCK_TEXTS.get(nf.cpp_clock or "")
    said = [
        nf.attribution,
        clock and f"CPP in {clock}",
        "it only generates: CPP is by packets sent",
    ]
    lines += paragraph("; ".join(filter(None, said[: 2 + (nf.direction == "tx")])), width)
    if nf.classes:
        beside = f"; LLC is not all its own: {nf.beside}" if nf.beside else "; nobody else is in it"
        lines += paragraph(f"class {class_text(nf, names=True)}{beside}", width)
    return lines


def _absences(nf: NfRow) -> dict[Missing, list[str]]:
    """Each reason once, with what it is the reason of; top-down as one."""
    found: dict[Missing, list[str]] = {}
    for metric in NF_METRICS:
        reading = nf.readings[metric.id]
        known = metric.priority is not None or metric.id == "tma.retiring"
        if not isinstance(reading, Missing) or not known or reading == nf.problem:
            continue
        if metric.id == "cpp_vs_base" and reading.reason is Reason.SOURCE and not reading.detail:
            continue
        label = metric.label if metric.priority is not None else "TMA"
        found.setdefault(Missing(reading.reason, reading.message), []).append(label)
    return found


def _threads(frame: Frame, nf: NfRow, width: int) -> list[Line]:
    """Its threads, and what the table of CPUs has of where each polls."""
    bar = _LONG_BAR if width >= _LONG_FROM else _BAR
    row_of = frame.cpus.topology.row_of
    fit_in: list[tuple[Column, Callable[[NfThread], Span] | None]] = [
        (Column("CPU", 5), lambda thread: text_cell(str(thread.cpu), 5, right=True)),
        (Column("THREAD", 16, right=False), lambda thread: text_cell(thread.name, 16)),
        (Column("Mpps", 7), lambda thread: number_cell(thread.packets_per_s, _MPPS, 7)),
        (Column("SHARE", 7), lambda thread: number_cell(_share(thread, nf), Unit.RATIO, 7)),
        (Column("BUSY", 6), lambda thread: number_cell(thread.busy_ratio, Unit.RATIO, 6)),
        (Column("CPP", 8), lambda thread: _of_cpu(frame, thread.cpu, "cpp", 8)),
        (Column("IPC", 6), lambda thread: _of_cpu(frame, thread.cpu, "ipc", 6)),
        (Column("FbMCR", bar + 1, right=False), None),
        (Column("vs.base", 8), lambda thread: _of_cpu(frame, thread.cpu, "cpp_vs_base", 8)),
        (Column("RUN", 6), lambda thread: number_cell(thread.run_ratio, Unit.RATIO, 6)),
        (Column("IPP", 8), lambda thread: _of_cpu(frame, thread.cpu, "ipp", 8)),
        (
            Column("MISS/pkt", 9),
            lambda thread: _of_cpu(frame, thread.cpu, "llc_misses_per_packet", 9),
        ),
    ]
    if frame.baselines is None:
        fit_in = [item for item in fit_in if item[0].label != "vs.base"]
    shown = fitting(fit_in, width)
    lines = [head_line([column for column, _ in shown])]
    for thread in nf.threads:
        spans: list[Span] = []
        for _, cell in shown:
            if cell is None:
                spans += _bar_of(frame, row_of.get(thread.cpu), bar)
            else:
                spans.append(cell(thread))
        lines.append(Line(tuple(spans)))
    return lines if nf.threads else []


def _share(thread: NfThread, nf: NfRow) -> Reading:
    """Of all threads' packets: of none where one has no number, since it may have most of them."""
    return quotient(thread.packets_per_s, total(item.packets_per_s for item in nf.threads))


def _bar_of(frame: Frame, row: int | None, cells: int) -> list[Span]:
    if row is None:
        return [Span(" " * (cells + 1), Tone.PLAIN)]
    doubt = estimates(frame.cpus, [row], cpu_metric("tma.retiring"))[0]
    drawn = bars(frame.cpus, [row], cells, [Tone.PLAIN])[0]
    return [*drawn.spans, Span(fmt.ESTIMATE if doubt else " ", Tone.PLAIN)]


def _of_cpu(frame: Frame, cpu: Cpu, name: str, cells: int) -> Span:
    cpus = frame.cpus
    row = cpus.topology.row_of.get(cpu)
    if row is None:
        return text_cell(Reason.UNDEFINED.mark, cells, right=True)
    metric: Metric = cpu_metric(name)
    bound = is_bound(metric, saturated=cpus.saturated[row], clock=cpus.cpp_clock[row])
    estimate = estimates(cpus, [row], metric)[0]
    return number_cell(cpus.columns[name][row], metric.unit, cells, bound=bound, estimate=estimate)


def _baseline(frame: Frame, nf: NfRow, width: int) -> list[Line]:
    """Each metric's median then, with its spread and count, and what it is now."""
    base = baseline_of(frame.baselines, nf, frame.nfs)
    if base is None or frame.baselines is None:
        return []
    columns = [Column(f"BASELINE {clock_time(frame.baselines.wall_ns)}", 24, right=False),
               Column("then", 9), Column("spread", 8), Column("ticks", 6), Column("now", 9),
               Column("change", 9)]  # fmt: skip
    lines = [head_line(columns)]
    lines += [_level_line(nf, base, name) for name in KEPT if name in base.levels]
    if base.pid != nf.pid:
        lines += paragraph(f"kept of another process, pid {base.pid}", width, tone=Tone.DIM)
    return lines


def _level_line(nf: NfRow, base: NfBaseline, name: str) -> Line:
    own = name if name != "packets_per_s" else f"{nf.direction}_packets_per_s"
    metric = next(nf_metric for nf_metric in NF_METRICS if nf_metric.id == own)
    level, now = base.levels[name], nf.readings[own]
    change = Reason.UNDEFINED.mark
    same_clock = not metric.per_clock or base_clock(nf.cpp_clock) == base_clock(base.clock)
    if not isinstance(now, Missing) and level.median and same_clock:
        change = percent(now / level.median - 1)
    return line(
        text_cell(f"  {metric.label}", 24),
        number_cell(level.median, metric.unit, 9),
        number_cell(level.spread, metric.unit, 8),
        text_cell(str(level.ticks), 6, right=True),
        number_cell(now, metric.unit, 9),
        text_cell(change, 9, right=True),
    )
