"""One network function in detail: threads, queues, ports, nodes, baseline; and its `x` page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from nftop.derive.compare.baseline import KEPT, baseline_of
from nftop.derive.compare.metric import percent
from nftop.model.baseline import LEAST_TICKS, LOAD_MOVED_RATIO, MOST_TICKS, NfBaseline
from nftop.model.frame import CLOCK_TEXTS, Frame, NfRow, base_clock
from nftop.model.ids import Cpu, format_cpu_list
from nftop.model.metrics.catalogue import cpu_metric
from nftop.model.metrics.metric import Metric, Unit
from nftop.model.metrics.nf import NF_METRICS
from nftop.model.nf.parts import NfNode, NfPort, NfQueue, NfThread
from nftop.model.owner import suffix
from nftop.model.reading import Missing, Reading, Reason, quotient, total
from nftop.model.struct import dataclass
from nftop.render.base import format as fmt
from nftop.render.base.bars import bars
from nftop.render.base.line import BLANK, Line, Span, Tone, crop, line, paragraph
from nftop.render.base.text import fit
from nftop.render.cores.table import estimates, is_bound
from nftop.render.frame.header import badge_lines, clock_time, time_of_day
from nftop.render.nfs.papers import reference_lines
from nftop.render.nfs.table import MARKS, class_text
from nftop.render.pages.help import section, source_facts

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EntryColumn:
    """Attributes.

    label: its header. cells: with the one that keeps it off the next. right: numbers stand right.
    """

    label: str
    cells: int
    right: bool = True


@dataclass(frozen=True, slots=True)
class EntryTable(Generic[T]):
    """Attributes.

    name: of what there is a line each. row: the cells of one. readings: those of it, by label.
    """

    name: str
    columns: Sequence[EntryColumn]
    row: Callable[[T], list[Span]]
    readings: Sequence[tuple[str, Callable[[T], Reading]]]


def table_of(entries: Sequence[T] | Missing, shape: EntryTable[T], width: int) -> list[Line]:
    """Headers, a line each, and why numbers are absent; for what is not told only why."""
    name, columns, row, readings = shape.name, shape.columns, shape.row, shape.readings
    if isinstance(entries, Missing):
        if entries.reason is Reason.UNDEFINED:
            return []
        lead = line(Span(f"{entries.reason.mark:<4}", Tone.MISSING))
        return paragraph(f"{name}: {entries.message}", width, lead=lead, tone=Tone.DIM)
    if not entries:
        return []
    by_reason: dict[Missing, dict[str, None]] = {}
    for entry in entries:
        for label, of in readings:
            reading = of(entry)
            if isinstance(reading, Missing) and reading.reason is not Reason.IDLE:
                why = Missing(reading.reason, reading.message)
                by_reason.setdefault(why, {})[label] = None
    lines = [head_line(columns), *(Line(tuple(row(entry))) for entry in entries)]
    for why, labels in by_reason.items():
        lead = line(Span(f"{why.reason.mark:<4}", Tone.MISSING))
        lines += paragraph(f"{', '.join(labels)}: {why.message}", width, lead=lead, tone=Tone.DIM)
    return lines


def fitting(columns: Sequence[tuple[EntryColumn, T]], width: int) -> list[tuple[EntryColumn, T]]:
    """The first of them, as many as fit."""
    shown, room = [], width
    for column, cell in columns:
        if column.cells > room:
            break
        shown.append((column, cell))
        room -= column.cells
    return shown


def head_line(columns: Sequence[EntryColumn]) -> Line:
    """The headers."""
    text = "".join(
        fit(column.label, column.cells - 1, right=column.right) + " " for column in columns
    )
    return line(Span(text, Tone.HEADER), fill=Tone.HEADER)


def text_cell(text: str, cells: int, *, right: bool = False) -> Span:
    """A text in so many cells, with the one that keeps it off the next."""
    return Span(fit(text, cells - 1, right=right) + " ", Tone.PLAIN)


def number_cell(
    reading: Reading, unit: Unit, cells: int, *, bound: bool = False, estimate: bool = False
) -> Span:
    """With its `~` in the cell that keeps it off the next."""
    text = fmt.cell(reading, unit, cells - 1, bound=bound)
    after = fmt.ESTIMATE if estimate else " "
    tone = Tone.MISSING if isinstance(reading, Missing) else Tone.PLAIN
    return Span(f"{text:>{cells - 1}}{after}", tone)


def queue_lines(nf: NfRow, width: int) -> list[Line]:
    """Each receive queue: who polls it, what came, how much of its thread's time went into it."""

    def row(queue: NfQueue) -> list[Span]:
        state = "" if queue.enabled else " off"
        cpu = Reason.SOURCE.mark if queue.cpu is None else str(queue.cpu)
        return [
            text_cell(queue.port, 24),
            text_cell(f"{queue.queue}{state}", 8, right=True),
            text_cell(cpu, 5, right=True),
            number_cell(queue.packets_per_s, _MPPS, 8),
            number_cell(queue.used_ratio, Unit.RATIO, 8),
        ]

    columns = [
        EntryColumn("QUEUES: PORT", 24, right=False),
        EntryColumn("QUEUE", 8),
        EntryColumn("CPU", 5),
        EntryColumn("Mpps", 8),
        EntryColumn("USED", 8),
    ]
    parts = (("Mpps", lambda queue: queue.packets_per_s), ("USED", lambda queue: queue.used_ratio))
    return table_of(nf.queues, EntryTable("QUEUES", columns, row, parts), width)


def port_lines(nf: NfRow, width: int) -> list[Line]:
    """Each port or interface: packets in, out, missed by its NIC, dropped by the NF."""

    def row(port: NfPort) -> list[Span]:
        return [
            text_cell(port.name, 24),
            number_cell(port.rx_packets_per_s, _MPPS, 9),
            number_cell(port.tx_packets_per_s, _MPPS, 9),
            number_cell(port.missed_packets_per_s, Unit.PER_S, 9),
            number_cell(port.drop_packets_per_s, Unit.PER_S, 9),
        ]

    columns = [
        EntryColumn("PORTS", 24, right=False),
        EntryColumn("Mpps in", 9),
        EntryColumn("Mpps out", 9),
        EntryColumn("missed/s", 9),
        EntryColumn("drop/s", 9),
    ]
    parts = (
        ("Mpps in", lambda port: port.rx_packets_per_s),
        ("Mpps out", lambda port: port.tx_packets_per_s),
        ("missed/s", lambda port: port.missed_packets_per_s),
        ("drop/s", lambda port: port.drop_packets_per_s),
    )
    return table_of(nf.ports, EntryTable("PORTS", columns, row, parts), width)


def node_lines(nf: NfRow, width: int) -> list[Line]:
    """Each graph node, the dearest first."""

    def row(node: NfNode) -> list[Span]:
        return [
            text_cell(node.name, 24),
            number_cell(node.clocks_ratio, Unit.RATIO, 8),
            number_cell(node.clocks_per_packet, Unit.CYCLES, 10),
            number_cell(node.packets_per_call, Unit.PER_PACKET, 10),
            text_cell(" polls" if node.polls else "", 7),
        ]

    columns = [
        EntryColumn("NODES", 24, right=False),
        EntryColumn("CLOCKS", 8),
        EntryColumn("TSC/pkt", 10),
        EntryColumn("pkt/call", 10),
        EntryColumn("", 7),
    ]
    parts = (("TSC/pkt", lambda node: node.clocks_per_packet),)
    return table_of(nf.nodes, EntryTable("NODES", columns, row, parts), width)


_BAR, _LONG_BAR, _LONG_FROM = 10, 20, 120
_MPPS = Unit.PACKETS_PER_S


def nf_detail(frame: Frame, nf: NfRow, width: int, workload: str | None = None) -> list[list[Line]]:
    """Blocks with a header each; `workload` as in `reference_lines`."""
    blocks = [
        [_rule(nf, width), *_trouble(nf, width), *_threads(frame, nf, width)],
        _notes(nf, width),
        _baseline(frame, nf, width),
        queue_lines(nf, width),
        port_lines(nf, width),
        node_lines(nf, width),
        reference_lines(frame, nf, workload, width),
    ]
    return [[crop(item, width) for item in block] for block in blocks if block]


def joined(blocks: Sequence[Sequence[Line]], *, apart: bool) -> list[Line]:
    """The blocks below each other, `apart` by blank lines."""
    lines: list[Line] = []
    for block in blocks:
        lines += [BLANK] if apart and lines else []
        lines += block
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


def _notes(nf: NfRow, width: int) -> list[Line]:
    """Why numbers are absent, how packets were counted, whose its cache is."""
    lines: list[Line] = []
    for why, labels in _absences(nf).items():
        lead = line(Span(f"{why.reason.mark:<4}", Tone.MISSING))
        text = f"{', '.join(labels)}: {why.message}"
        lines += paragraph(text, width, lead=lead, tone=Tone.DIM)
    clock = CLOCK_TEXTS.get(nf.cpp_clock or "")
    facts = [
        nf.attribution,
        clock and f"CPP in {clock}",
        "it only generates: CPP is by packets sent",
    ]
    lines += paragraph("; ".join(filter(None, facts[: 2 + (nf.direction == "tx")])), width)
    if nf.classes:
        shared = f"; LLC is not all its own: {nf.beside}" if nf.beside else "; nobody else is in it"
        lines += paragraph(f"class {class_text(nf, names=True)}{shared}", width)
    return lines


def _absences(nf: NfRow) -> dict[Missing, list[str]]:
    """Each reason once, with what it is the reason of; top-down as one."""
    by_reason: dict[Missing, list[str]] = {}
    for metric in NF_METRICS:
        reading = nf.readings[metric.id]
        known = metric.priority is not None or metric.id == "tma.retiring"
        if not isinstance(reading, Missing) or not known or reading == nf.problem:
            continue
        if metric.id == "cpp_vs_base" and reading.reason is Reason.SOURCE and not reading.detail:
            continue
        label = metric.label if metric.priority is not None else "TMA"
        by_reason.setdefault(Missing(reading.reason, reading.message), []).append(label)
    return by_reason


def _threads(frame: Frame, nf: NfRow, width: int) -> list[Line]:
    """Its threads, and what the table of CPUs has of where each polls."""
    bar = _LONG_BAR if width >= _LONG_FROM else _BAR
    row_of = frame.cpus.topology.row_of
    fit_in: list[tuple[EntryColumn, Callable[[NfThread], Span] | None]] = [
        (EntryColumn("CPU", 5), lambda thread: text_cell(str(thread.cpu), 5, right=True)),
        (EntryColumn("THREAD", 16, right=False), lambda thread: text_cell(thread.name, 16)),
        (EntryColumn("Mpps", 7), lambda thread: number_cell(thread.packets_per_s, _MPPS, 7)),
        (EntryColumn("SHARE", 7), lambda thread: number_cell(_share(thread, nf), Unit.RATIO, 7)),
        (EntryColumn("BUSY", 6), lambda thread: number_cell(thread.busy_ratio, Unit.RATIO, 6)),
        (EntryColumn("CPP", 8), lambda thread: _of_cpu(frame, thread.cpu, "cpp", 8)),
        (EntryColumn("IPC", 6), lambda thread: _of_cpu(frame, thread.cpu, "ipc", 6)),
        (EntryColumn("FbMCR", bar + 1, right=False), None),
        (EntryColumn("vs.base", 8), lambda thread: _of_cpu(frame, thread.cpu, "cpp_vs_base", 8)),
        (EntryColumn("RUN", 6), lambda thread: number_cell(thread.run_ratio, Unit.RATIO, 6)),
        (EntryColumn("IPP", 8), lambda thread: _of_cpu(frame, thread.cpu, "ipp", 8)),
        (
            EntryColumn("MISS/pkt", 9),
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
    columns = [
        EntryColumn(f"BASELINE {clock_time(frame.baselines.wall_ns)}", 24, right=False),
        EntryColumn("then", 9),
        EntryColumn("spread", 8),
        EntryColumn("ticks", 6),
        EntryColumn("now", 9),
        EntryColumn("change", 9),
    ]
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


_KEEPS = (
    f"keeps the medians of the last {MOST_TICKS} ticks, of {LEAST_TICKS} at least, of every NF "
    "and each of its cores; b again keeps others in their place"
)
_SILENT = (
    f"says nothing where the load moved by more than {LOAD_MOVED_RATIO:.0%}, but for cores "
    "that were busy all the time both times: there CPP is what a packet costs"
)
_BASELINE = (
    ("b", _KEEPS),
    ("B", "forgets them. They end with nftop; nftop --baseline NAME keeps them in a file"),
    ("vs.base", _SILENT),
    ("spread", "the median absolute deviation from the median"),
)


def _meaning(metric: Metric) -> str:
    return f"{metric.meaning} {metric.formula} [{metric.origin}]"


def _value(reading: Reading, metric: Metric) -> str:
    if isinstance(reading, Missing):
        return f"{reading.reason.mark} {reading.message}"
    return fmt.worded(reading, metric.unit)


def explain_nf_lines(frame: Frame, nf: NfRow, width: int) -> list[Line]:
    """Each metric with its value or why it has none, what it means and where it comes from."""
    facts = [
        (metric.label, f"{_value(nf.readings[metric.id], metric)}. {_meaning(metric)}")
        for metric in NF_METRICS
    ]
    return [
        *(crop(line, width) for line in badge_lines(frame.host)),
        *section(f"{nf.name} at {time_of_day(frame)}", facts, width),
        *section("Baselines", _BASELINE, width),
        *section("On the NFs screen", MARKS, width),
        *joined(nf_detail(frame, nf, width), apart=True),
        *section("Sources", source_facts(frame), width),
    ]
