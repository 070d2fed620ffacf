"""One network function in detail: threads, queues, ports, nodes, baseline; and its `x` page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Generic, TypeVar

from nftop.derive.cache.ways import shares_of
from nftop.derive.compare.baseline import KEPT, baseline_of
from nftop.derive.compare.metric import percent
from nftop.derive.nf.cores import MONITORED
from nftop.model.baseline import LEAST_TICKS, LOAD_MOVED_RATIO, MOST_TICKS, NfBaseline
from nftop.model.clock import clock_of
from nftop.model.frame import CLOCK_TEXTS, Frame, NfRow, base_clock
from nftop.model.ids import Cpu, format_cpu_list
from nftop.model.metrics.catalogue import cpu_metric
from nftop.model.metrics.metric import BOUND, Metric, Unit, is_bound
from nftop.model.metrics.nf import LATENCY_METRICS, NF_METRICS
from nftop.model.missing import Missing, Reading, Reason, quotient, total
from nftop.model.nf.components import (
    NfDrop,
    NfFlowTables,
    NfNode,
    NfPort,
    NfQueue,
    NfThread,
    NfXstat,
)
from nftop.model.owner import suffix
from nftop.model.struct import dataclass
from nftop.model.topology import Host
from nftop.render.base import format as fmt
from nftop.render.base.bars import bars
from nftop.render.base.line import BLANK, Line, Span, Tone, crop, line, paragraph
from nftop.render.base.table import (
    EDGE,
    TableColumn,
    by_reason,
    fit_columns,
    header_line,
    number_cell,
    reason_lines,
    rule_line,
    text_cell,
)
from nftop.render.cache.class_cells import group_name
from nftop.render.cores.table import estimates, saturated_text
from nftop.render.frame.header import badge_lines, time_of_day
from nftop.render.nfs.papers import reference_lines
from nftop.render.nfs.table import MARKS, class_text
from nftop.render.pages.help import aged, section, source_facts

T = TypeVar("T")
_BAR, _LONG_BAR, _LONG_FROM = 10, 20, 120 - EDGE
_MPPS = Unit.PACKETS_PER_S


@dataclass(frozen=True, slots=True)
class EntryColumn(Generic[T]):
    """A column of a table of queues, ports or nodes.

    Attributes:
        head: label, width and alignment.
        value: of an entry; a text as it is, a number by `unit`.
        explained: why numbers are absent is listed below the table.
    """

    head: TableColumn
    value: Callable[[T], str | Reading]
    unit: Unit = _MPPS
    explained: bool = True

    def cell(self, entry: T) -> Span:
        value, head = self.value(entry), self.head
        if isinstance(value, str):
            return text_cell(value, head.width, right=head.right)
        return number_cell(value, self.unit, head.width)


def _name(label: str) -> TableColumn:
    return TableColumn(label, label, 24, right=False)


def _head(label: str, width: int) -> TableColumn:
    return TableColumn(label, label, width)


_QUEUES: tuple[EntryColumn[NfQueue], ...] = (
    EntryColumn(_name("QUEUES: PORT"), lambda queue: queue.port),
    EntryColumn(_head("QUEUE", 8), lambda queue: f"{queue.queue}{'' if queue.enabled else ' off'}"),
    EntryColumn(
        _head("CPU", 5), lambda queue: str(Reason.SOURCE.mark if queue.cpu is None else queue.cpu)
    ),
    EntryColumn(_head("Mpps", 8), lambda queue: queue.packets_per_s),
    EntryColumn(_head("USED", 8), lambda queue: queue.used_ratio, Unit.RATIO),
    EntryColumn(_head("missed/s", 9), lambda queue: queue.missed_packets_per_s, Unit.PER_S),
)
_PORTS: tuple[EntryColumn[NfPort], ...] = (
    EntryColumn(_name("PORTS"), lambda port: port.name),
    EntryColumn(_head("Mpps in", 9), lambda port: port.rx_packets_per_s),
    EntryColumn(_head("Mpps out", 9), lambda port: port.tx_packets_per_s),
    EntryColumn(_head("missed/s", 9), lambda port: port.missed_packets_per_s, Unit.PER_S),
    EntryColumn(_head("drop/s", 9), lambda port: port.drop_packets_per_s, Unit.PER_S),
    EntryColumn(_head("FRAME", 7), lambda port: port.frame_bytes, Unit.PER_PACKET, explained=False),
    EntryColumn(_head("LINE", 8), lambda port: port.line_packets_per_s),
)
_NODES: tuple[EntryColumn[NfNode], ...] = (
    EntryColumn(_name("NODES"), lambda node: node.name),
    EntryColumn(_head("CLOCKS", 8), lambda node: node.clocks_ratio, Unit.RATIO, explained=False),
    EntryColumn(_head("TSC/pkt", 10), lambda node: node.clocks_per_packet, Unit.CYCLES),
    EntryColumn(
        _head("pkt/call", 10), lambda node: node.packets_per_call, Unit.PER_PACKET, explained=False
    ),
    EntryColumn(TableColumn("polls", "", 7, right=False), lambda n: " polls" if n.polls else ""),
)
_FLOW_TABLES: tuple[EntryColumn[NfFlowTables], ...] = (
    EntryColumn(TableColumn("FLOW TABLES", "FLOW TABLES", 16, right=False), lambda row: row.name),
    EntryColumn(_head("CACHED", 8), lambda row: row.cache_hit_ratio, Unit.RATIO),
    EntryColumn(_head("EMC", 7), lambda row: row.emc_hits_per_s, explained=False),
    EntryColumn(_head("SIMPLE", 8), lambda row: row.simple_hits_per_s, explained=False),
    EntryColumn(_head("SMC", 7), lambda row: row.smc_hits_per_s, explained=False),
    EntryColumn(_head("MEGAFLW", 9), lambda row: row.megaflow_hits_per_s),
    EntryColumn(_head("UPCALL/s", 9), lambda row: row.upcalls_per_s, Unit.PER_S),
    EntryColumn(_head("LOST/s", 8), lambda row: row.lost_upcalls_per_s, Unit.PER_S),
    EntryColumn(_head("PKT/bat", 8), lambda row: row.packets_per_batch, Unit.PACKETS),
)
_DROPS: tuple[EntryColumn[NfDrop], ...] = (
    EntryColumn(_name("DROPS"), lambda drop: drop.where),
    EntryColumn(TableColumn("REASON", "REASON", 32, right=False), lambda drop: drop.reason),
    EntryColumn(_head("drop/s", 9), lambda drop: drop.packets_per_s, Unit.PER_S),
)
_MOST_DROPS = 12


def entry_lines(
    title: str, entries: Sequence[T] | Missing, columns: Sequence[EntryColumn[T]], width: int
) -> list[Line]:
    """Header, a line per entry and why numbers are absent; why there is no entry if known."""
    if isinstance(entries, Missing):
        known = entries.reason is not Reason.UNDEFINED
        return reason_lines({entries: [title]}, width) if known else []
    if not entries:
        return []
    absent = (
        (column.head.label, value)
        for entry in entries
        for column in columns
        for value in (column.value(entry),)
        if column.explained and isinstance(value, Missing) and value.reason is not Reason.IDLE
    )
    lines = [header_line([column.head for column in columns])]
    lines += [Line(tuple(column.cell(entry) for column in columns)) for entry in entries]
    return lines + reason_lines(by_reason(absent), width)


def nf_detail(frame: Frame, nf: NfRow, width: int, workload: str | None = None) -> list[list[Line]]:
    """Blocks with a header each; `workload` as in `reference_lines`."""
    blocks = [
        [_rule(nf, width), *_trouble(nf, width), *_threads(frame, nf, width)],
        _notes(frame, nf, width),
        _baseline(frame, nf, width),
        entry_lines("QUEUES", nf.queues, _QUEUES, width),
        entry_lines("PORTS", nf.ports, _PORTS, width),
        entry_lines("FLOW TABLES", nf.flow_tables, _FLOW_TABLES, width),
        entry_lines("DROPS", _dropping(nf), _DROPS, width),
        entry_lines("NODES", nf.nodes, _NODES, width),
        reference_lines(frame, nf, workload, width),
    ]
    return [[crop(item, width) for item in block] for block in blocks if block]


def _dropping(nf: NfRow) -> Sequence[NfDrop]:
    """Its drops that are not 0, most first."""
    rates = {
        drop: drop.packets_per_s
        for drop in (() if isinstance(nf.drops, Missing) else nf.drops)
        if not isinstance(drop.packets_per_s, Missing) and drop.packets_per_s > 0
    }
    return sorted(rates, key=lambda drop: -rates[drop])[:_MOST_DROPS]


def joined(blocks: Sequence[Sequence[Line]], *, spaced: bool) -> list[Line]:
    """The blocks below each other, `spaced` by blank lines."""
    lines: list[Line] = []
    for block in blocks:
        lines += [BLANK] if spaced and lines else []
        lines += block
    return lines


def _rule(nf: NfRow, width: int) -> Line:
    where = f"cpus {format_cpu_list(nf.cpus)}" if nf.cpus else "no CPU known"
    title = f"{nf.name} · {nf.kind} {nf.pid or ''}".rstrip() + f"{suffix(nf.owner)} · {where}"
    return rule_line(title, "", width)


def _trouble(nf: NfRow, width: int) -> list[Line]:
    """Why its numbers are not current."""
    if nf.problem is None:
        return []
    lead = line(Span(f"{nf.problem.reason.mark} ", Tone.BAD))
    return paragraph(nf.problem.message, width, lead=lead)


def _notes(frame: Frame, nf: NfRow, width: int) -> list[Line]:
    """Absences, attribution of packets, sharing of its cache."""
    lines = reason_lines(_absences(nf), width)
    clock = CLOCK_TEXTS.get(nf.cpp_clock or "")
    facts = [
        nf.attribution,
        clock and f"CPP in {clock}",
        saturated_text(nf.saturated_by),
        _room_text(nf),
        _latency_text(nf),
        "generator: CPP is by packets sent",
    ]
    lines += paragraph("; ".join(filter(None, facts[: 5 + (nf.direction == "tx")])), width)
    if nf.classes:
        lines += paragraph(f"class {class_text(nf)}{_sharing_text(frame, nf)}", width)
    return lines


def _sharing_text(frame: Frame, nf: NfRow) -> str:
    """Other members of its classes, and other classes that fill their ways."""
    text = f"; {nf.sharers}" if nf.sharers else ", without another known member"
    l3s = {info.l3 for info in frame.topology.cpus if info.cpu in nf.cpus}
    ways = dict[str, int]()
    known = False
    for domain in frame.domains:
        shares = shares_of(frame.groups, domain) if domain.l3 in l3s else {}
        for item in nf.classes:
            own = shares.get(item.name)
            known = known or own is not None
            for other, mask in () if own is None else own.others.items():
                ways[other] = max(ways.get(other, 0), mask.ways)
    if not known:
        return f"{text}; whether other classes fill its ways is not known"
    if not ways:
        return f"{text}; no other class fills its ways"
    names = ", ".join(f"{group_name(name)} ({count})" for name, count in ways.items())
    return f"{text}; ways that other classes fill: {names}"


def _room_text(nf: NfRow) -> str:
    """How much more it can take if anything, and its links; "" if neither is known."""
    texts = []
    for share, rate, form in (
        ("room_ratio", "room_packets_per_s", "room {}: {} Mpps more at today's cost"),
        ("line_ratio", "line_packets_per_s", "{} of its fullest link used, line rate {} Mpps"),
    ):
        ratio, packets = nf.readings[share], nf.readings[rate]
        if not isinstance(ratio, Missing) and not isinstance(packets, Missing) and ratio:
            texts.append(form.format(fmt.worded(ratio, Unit.RATIO), fmt.number(packets, _MPPS, 5)))
    return ", ".join(texts)


def _latency_text(nf: NfRow) -> str:
    """Latency by DPDK's latencystats and its age; "" if it is not known."""
    values = [nf.readings[metric.id] for metric in LATENCY_METRICS]
    if any(isinstance(value, Missing) for value in values):
        return ""
    mean, least, most, jitter = (fmt.worded(value, Unit.NS) for value in values)
    age_s = nf.sampled_s.get(LATENCY_METRICS[0].id, 0.0)
    since = f"{least} to {most} since its start (read {age_s:.0f} s before)"
    return f"latency {mean}, jitter {jitter}, {since}"


def _absences(nf: NfRow) -> dict[Missing, list[str]]:
    """Reasons of absences with labels; top-down as one."""
    absent = []
    for metric in NF_METRICS:
        reading = nf.readings[metric.id]
        known = metric.priority is not None or metric.id == "tma.retiring"
        if not isinstance(reading, Missing) or not known or reading == nf.problem:
            continue
        if metric.id == "cpp_vs_base" and reading.reason is Reason.SOURCE and not reading.detail:
            continue
        absent.append((metric.label if metric.priority is not None else "TMA", reading))
    return by_reason(absent)


def _threads(frame: Frame, nf: NfRow, width: int) -> list[Line]:
    """Its threads, with what the table of CPUs has of the CPU of each."""
    bar = (_LONG_BAR if width >= _LONG_FROM else _BAR) + 1
    labels = [
        label for label in _THREAD_WIDTHS if label != "vs.base" or frame.baselines is not None
    ]
    # What the operator asked to be monitored is among the last columns to go.
    first = _BEFORE_OTHERS if any(thread.monitor for thread in nf.threads) else ()
    columns = [
        TableColumn(
            label,
            label,
            _THREAD_WIDTHS[label] or bar,
            right=label not in ("THREAD", "TOPDOWN"),
            priority=first.index(label) - len(first) if label in first else rank,
        )
        for rank, label in enumerate(labels)
    ]
    shown = fit_columns(columns, width, least=0)
    lines = [header_line(shown)]
    for thread in nf.threads:
        cells = (_thread_cells(frame, nf, thread, column) for column in shown)
        lines.append(Line(tuple(chain.from_iterable(cells))))
    return [*lines, *_monitored_together(nf, shown, width)] if nf.threads else []


def _monitored_together(nf: NfRow, columns: Sequence[TableColumn], width: int) -> list[Line]:
    """What a monitoring group of several of its threads counts, and why these have no numbers."""
    labels = [column.label for column in columns if column.label in _MONITORED]
    absent = [
        (label, reading)
        for thread in nf.threads
        if thread.monitor
        for label in labels
        if isinstance(reading := _MONITORED[label][1](thread), Missing)
    ]
    if not absent:
        return []
    of_all = {label: nf.readings[_OF_NF[label]] for label in labels}
    if all(isinstance(reading, Missing) for reading in of_all.values()):
        return reason_lines(by_reason(absent), width)
    texts = {"CPU": "all", "THREAD": "together"}
    cells = (
        number_cell(of_all[column.label], _MONITORED[column.label][0], column.width)
        if column.label in of_all
        else text_cell(texts.get(column.label, ""), column.width, right=column.right)
        for column in columns
    )
    return [Line(tuple(cells)), *reason_lines(by_reason(absent), width)]


# Cells of the columns by label; 0: those of a bar.
_THREAD_WIDTHS: Mapping[str, int] = {
    "CPU": 5, "THREAD": 16, "Mpps": 7, "SHARE": 7, "BUSY": 6, "CPP": 8, "IPC": 6, "TOPDOWN": 0,
    "vs.base": 8, "RUN": 6, "IPP": 8, "MISS/pkt": 9, "L3MiB": 7, "MBL": 6, "MBR": 6,
}  # fmt: skip
_MONITORED: Mapping[str, tuple[Unit, Callable[[NfThread], Reading]]] = {
    "L3MiB": (Unit.BYTES, lambda thread: thread.occupancy_bytes),
    "MBL": (Unit.BYTES_PER_S, lambda thread: thread.memory_local_bytes_per_s),
    "MBR": (Unit.BYTES_PER_S, lambda thread: thread.memory_remote_bytes_per_s),
}
_OF_NF = dict(zip(_MONITORED, MONITORED, strict=True))
_BEFORE_OTHERS = ("CPU", "THREAD", "Mpps", "CPP", *_MONITORED, "BUSY", "IPC")
_OF_CPU: Mapping[str, str] = {
    "CPP": "cpp", "IPC": "ipc", "vs.base": "cpp_vs_base", "IPP": "ipp",
    "MISS/pkt": "llc_misses_per_packet",
}  # fmt: skip


def _thread_cells(frame: Frame, nf: NfRow, thread: NfThread, column: TableColumn) -> Sequence[Span]:
    label, width = column.label, column.width
    if label == "TOPDOWN":
        return _bar_of(frame, frame.cpus.topology.row_of.get(thread.cpu), width - 1)
    if label in _OF_CPU:
        return [_of_cpu(frame, thread.cpu, _OF_CPU[label], width)]
    if label in ("CPU", "THREAD"):
        text = str(thread.cpu) if label == "CPU" else thread.name
        return [text_cell(text, width, right=column.right)]
    if label == "Mpps":
        return [number_cell(thread.packets_per_s, _MPPS, width)]
    if label in _MONITORED:
        unit, reading_of = _MONITORED[label]
        return [number_cell(reading_of(thread), unit, width)]
    share = quotient(thread.packets_per_s, total(item.packets_per_s for item in nf.threads))
    ratios = {"SHARE": share, "BUSY": thread.busy_ratio, "RUN": thread.run_ratio}
    return [number_cell(ratios[label], Unit.RATIO, width)]


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
    """Median, spread and count of each metric in the baseline, and its current value."""
    base = baseline_of(frame.baselines, nf, frame.nfs)
    if base is None or frame.baselines is None:
        return []
    since = f"BASELINE {clock_of(frame.baselines.wall_ns)}"
    widths = {"then": 9, "spread": 8, "ticks": 6, "now": 9, "change": 9}
    lines = [header_line([_name(since), *(_head(label, cells) for label, cells in widths.items())])]
    lines += [_level_line(nf, base, name) for name in KEPT if name in base.levels]
    if base.pid != nf.pid:
        lines += paragraph(f"of another process, pid {base.pid}", width, tone=Tone.MUTED)
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
    f"keeps medians of the last {MOST_TICKS} ticks ({LEAST_TICKS} at least) of every NF and "
    "its cores; b again replaces them"
)
_SILENT = (
    f"withheld if the load changed by more than {LOAD_MOVED_RATIO:.0%}, except for cores "
    "that were saturated both times"
)
_BASELINE = (
    ("b", _KEEPS),
    ("B", "forgets them; they end with nftop unless --baseline NAME keeps them in a file"),
    ("vs.base", _SILENT),
    ("spread", "the median absolute deviation from the median"),
)


def _meaning(metric: Metric) -> str:
    return f"{metric.meaning} {metric.formula} [{metric.origin}]"


def _value(reading: Reading, metric: Metric) -> str:
    if isinstance(reading, Missing):
        return f"{reading.reason.mark} {reading.message}"
    return fmt.worded(reading, metric.unit)


def _own_value(nf: NfRow, metric: Metric) -> str:
    reading = nf.readings[metric.id]
    bound = is_bound(metric, saturated=nf.saturated, clock=nf.cpp_clock)
    before = BOUND if bound and not isinstance(reading, Missing) else ""
    age_s = nf.sampled_s.get(metric.id) if not isinstance(reading, Missing) else None
    return f"{before}{_value(reading, metric)}{aged(age_s)}"


def explain_nf_lines(frame: Frame, nf: NfRow, width: int) -> list[Line]:
    """Each metric with its value or absence, meaning and origin."""
    facts = [
        (metric.label, f"{_own_value(nf, metric)}. {_meaning(metric)}") for metric in NF_METRICS
    ]
    return [
        *(crop(line, width) for line in badge_lines(frame.host)),
        *section(f"{nf.name} at {time_of_day(frame)}", facts, width),
        *section("Baselines", _BASELINE, width),
        *section("On the NFs screen", MARKS, width),
        *joined(nf_detail(frame, nf, width), spaced=True),
        *section("Sources", source_facts(frame), width),
    ]


_NAME, _COUNT, _RATE, _MARK = 44, 22, 12, 7
_DPDK = (
    "No counters yet: they are read with the next tick, of DPDK's telemetry (/ethdev/xstats), "
    "while this page is open. Recordings have them of the times at which it was."
)
_NONE = (
    "It has no such counters: DPDK's telemetry has those of ports (/ethdev/xstats), VPP's stats "
    "segment those of graph nodes."
)

_BY_PACKET = (
    f"{fmt.ESTIMATE}: VPP counts its nodes at its own pace, 10 s by default, and does not report "
    "when: what they counted last for each packet received, times the packets per second of now"
)


def xstat_lines(host: Host, nf: NfRow, width: int) -> list[Line]:
    """Counters by port or node, in the application's order, and why some are absent."""
    badges = (crop(badge, width) for badge in badge_lines(host))
    title = text_cell(f"{nf.name} · {nf.kind} {nf.pid or ''}".rstrip(), width, tone=Tone.STRONG)
    return [*badges, line(title), *_counter_lines(nf, width)]


def _counter_lines(nf: NfRow, width: int) -> list[Line]:
    if isinstance(nf.problem, Missing):
        return paragraph(nf.problem.message, width, tone=Tone.BAD)
    absent = reason_lines(by_reason(_absent(nf)), width)
    if not nf.xstats:
        text = _DPDK if _has_telemetry(nf) else _NONE
        return absent or paragraph(text, width, tone=Tone.MUTED)
    by_port: dict[str, list[NfXstat]] = {}
    for item in nf.xstats:
        by_port.setdefault(item.port, []).append(item)
    name = max(16, min(_NAME, width - _COUNT - _RATE - _MARK))
    heads = [
        TableColumn("COUNTER", "PORT" if nf.kind != "vpp" else "NODE", name, right=False),
        TableColumn("COUNT", "COUNT", _COUNT),
        TableColumn("per s", "per s", _RATE),
    ]
    if any(item.estimate and not isinstance(item.per_s, Missing) for item in nf.xstats):
        absent += paragraph(_BY_PACKET, width, tone=Tone.MUTED)
    lines = [*absent, header_line(heads)]
    for port, items in by_port.items():
        lines += [BLANK] if len(lines) > len(absent) + 1 else []
        lines += [line(text_cell(port, width, tone=Tone.STRONG))]
        lines += [*(_line(item, name) for item in items)]
    return lines


def _has_telemetry(nf: NfRow) -> bool:
    """Whether a DPDK's telemetry counts its ports, of OVS and VPP too."""
    errors = nf.readings["rx_errors_per_s"]
    return not isinstance(errors, Missing) or errors.reason is not Reason.UNDEFINED


def _absent(nf: NfRow) -> list[tuple[str, object]]:
    """What the page lacks, with reasons; kinds that have no such counters give none."""
    groups = [("errors", nf.readings["error_drops_per_s"]), ("nodes", nf.nodes)]
    rates = [("per s", item.per_s) for item in nf.xstats]
    return [
        (label, value)
        for label, value in (*groups, *rates)
        if isinstance(value, Missing) and value.reason not in (Reason.UNDEFINED, Reason.WARMING)
    ]


def _line(item: NfXstat, name: int) -> Line:
    dropping = item.drops and not isinstance(item.per_s, Missing) and item.per_s > 0
    return line(
        text_cell(f"  {item.name}", name),
        text_cell(f"{item.count:,}", _COUNT, right=True),
        number_cell(item.per_s, Unit.PER_S, _RATE, estimate=item.estimate),
        text_cell("  drop" if item.drops else "", _MARK, tone=Tone.BAD if dropping else Tone.MUTED),
    )
