"""The selected CPU: what it is, how its packets were counted, what is absent, and its history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from nftop.model.frame import CLOCK_TEXTS, CacheClass, CpuTable, Frame
from nftop.model.ids import Cpu, format_cpu_list
from nftop.model.metrics.catalogue import CPU_METRICS, cpu_metric
from nftop.model.metrics.cpu import FREQUENCY_METRICS, SIBLING_METRICS
from nftop.model.metrics.metric import Metric, Unit, is_bound
from nftop.model.missing import Missing, Reading
from nftop.model.sample import ProcessFacts
from nftop.model.struct import dataclass
from nftop.model.topology import CpuInfo
from nftop.render.base import format as fmt
from nftop.render.base.graph import graph_axis, graph_lines, scale_of, span_name
from nftop.render.base.line import Line, Span, Tone, crop, flow, line, paragraph
from nftop.render.base.table import by_reason, cut_lines, reason_lines, rule_line
from nftop.render.base.text import fit, printable
from nftop.render.cache.class_cells import group_name
from nftop.render.cores.columns import metric_of, shown_metrics
from nftop.render.cores.table import estimates, saturated_text
from nftop.render.power.settings import setting_facts

_AXIS = 13  # cells left of the graph: a label of eight, a number and the axis itself
_LEAST_GRAPH, _MOST_GRAPH = 3, 8  # lines, with the one that says the time

_SHOWN = tuple(metric for metric in CPU_METRICS if metric.priority is not None)
_SIBLING_WORDS = {"sibling_busy_ratio": "busy", "sibling_ipc": "IPC", "core_ipc": "IPC of the core"}
_SENT = "generator: its packets are those sent"


@dataclass(frozen=True, slots=True)
class Trend:
    """History of one metric of the selected CPU: float32 over `span_s`, NaN for gaps."""

    metric: Metric
    values: NDArray[np.float32]
    span_s: float


def graph_points(width: int) -> int:
    """Number of values a graph in a panel of so many cells has."""
    return 2 * max(0, width - _AXIS)


def trend_metric(cpus: CpuTable, row: int, sort: str) -> Metric:
    """Metric of the graph: that of the order, else CPP, else busy time."""
    chosen = metric_of(sort)
    if chosen and chosen.unit is not Unit.CHANGE:
        return chosen
    has_cpp = bool(cpus.columns["cpp"].present[row])
    polled = bool(cpus.nf[row])
    return cpu_metric("cpp" if has_cpp or polled else "busy_ratio")


def detail_lines(frame: Frame, row: int, trend: Trend, width: int, height: int) -> list[Line]:
    """The panel, in at most `height` lines."""
    head = [cpu_rule_line(frame.cpus, row, width)]
    # Absences come first where room is short.
    notes = [
        *absence_lines(frame.cpus, row, width),
        *attribution_lines(frame.cpus, row, width),
        *sibling_lines(frame.cpus, row, width),
        *location_lines(frame.cpus, row, width),
        *process_lines(frame, frame.cpus.topology.cpus[row].cpu, width),
    ]
    room = height - len(head)
    tall = min(_MOST_GRAPH, max(_LEAST_GRAPH, room - len(notes)))
    graph = _graph(frame.cpus, row, trend, width, tall) if room >= _LEAST_GRAPH + 2 else []
    return [*head, *cut_lines(notes, room - len(graph), width, "press x"), *graph][: max(0, height)]


_NOTHING: Mapping[str, float] = {}
_GAP = "  "


def detail_line(
    cpus: CpuTable, row: int, usual: Reading, width: int, before: Mapping[str, float] = _NOTHING
) -> Line:
    """What the cost of this CPU is made of, in one line, and the first number that is missing.

    `before`: values before the incident that it is a victim of: those that changed have both.
    """
    head = line(
        Span(f" cpu {cpus.topology.cpus[row].cpu} ", Tone.STRONG), f"{cpus.thread[row] or ''} "
    )
    columns = {name: cpus.columns[name][row] for name in _LINE_METRICS}
    cost = columns["cpp"]
    pieces: list[Line] = []
    bound = False
    if not isinstance(cost, Missing):
        bound = is_bound(
            cpu_metric("cpp"), saturated=cpus.saturated[row], clock=cpus.cpp_clock[row]
        )
        text = fmt.cell(cost, Unit.CYCLES, 7, bound=bound)
        terms = _cost_terms(cpus, row, cost) + (", empty polls included" if bound else "")
        pieces.append(_fact("CPP", text, terms))
    work = cpus.columns["busy_cpp"][row]
    if not isinstance(work, Missing) and not isinstance(cost, Missing) and bound:
        # What is usual is of the same cycles: those of work.
        pieces.append(_fact("bCPP", fmt.number(work, Unit.CYCLES, 6)))
    if not isinstance(usual, Missing):
        pieces.append(_fact("usual", fmt.number(usual, Unit.CYCLES, 6)))
    for name in _LINE_METRICS[3:]:
        reading = columns[name]
        if not isinstance(reading, Missing):
            metric = cpu_metric(name)
            now = fmt.number(reading, metric.unit, 6)
            was = fmt.number(before[name], metric.unit, 6) if name in before else now
            pieces.append(
                _fact(metric.label, now)
                if was == now
                else Line((Span(f"{metric.label} {was} → ", Tone.MUTED), Span(now, Tone.STRONG)))
            )
    gone = absences(cpus, row)
    if gone:
        why, labels = next(iter(gone.items()))
        text = f"{why.reason.mark} {', '.join(labels)}: {why.message}"
        pieces.append(line(Span(text, Tone.MISSING)))
    shown: list[Line | str] = [head]
    room = width - head.width
    for fact in pieces:
        needed = len(_GAP) + fact.width
        if needed <= room or fact is pieces[0]:
            shown += (_GAP, fact)
            room -= needed
    return crop(line(*shown), width)


def _fact(label: str, text: str, more: str = "") -> Line:
    return Line((Span(f"{label} ", Tone.MUTED), Span(text, Tone.PLAIN), Span(more, Tone.MUTED)))


def _cost_terms(cpus: CpuTable, row: int, cost: float) -> str:
    """` = 2.20 GHz x 70% RUN / 6.80 Mpps`; "" where these are not what the cost was computed of."""
    names = ("frequency_hz", "packets_per_s", "run_ratio")
    clock, rate, run = (cpus.columns[name][row] for name in names)
    if isinstance(clock, Missing) or isinstance(rate, Missing) or rate <= 0:
        return ""
    shared = (cpus.cpp_clock[row] or "").endswith("_by_run")
    own = 1.0 if not shared or isinstance(run, Missing) else run
    if abs(clock * own / rate / cost - 1) > _SAME_COST:
        return ""
    ghz, mpps = fmt.number(clock, Unit.HZ, 5), fmt.number(rate, Unit.PACKETS_PER_S, 6)
    factor = f" x {fmt.number(own, Unit.RATIO, 5)} RUN" if shared else ""
    return f" = {ghz} GHz{factor} / {mpps} Mpps"


_SAME_COST = 0.01  # digits as shown
_LINE_METRICS = (
    "cpp", "packets_per_s", "frequency_hz", "ipc", "llc_misses_per_packet", "tma.memory_bound",
    "wait_ratio",
)  # fmt: skip


def absences(
    cpus: CpuTable, row: int, metrics: Iterable[Metric] | None = None
) -> dict[Missing, list[str]]:
    """Reasons why values of this row are absent, with labels; of the table's columns by default."""
    shown = metrics or shown_metrics(_SHOWN, cpus)
    columns = ((metric.label, cpus.columns[metric.id]) for metric in shown)
    return by_reason((label, column[row]) for label, column in columns if column.reasons[row])


def absence_lines(
    cpus: CpuTable, row: int, width: int, metrics: Iterable[Metric] | None = None
) -> list[Line]:
    """`absences` as lines."""
    return reason_lines(absences(cpus, row, metrics), width)


def attribution_lines(cpus: CpuTable, row: int, width: int) -> list[Line]:
    """How packets were attributed to this CPU, and the clock of its cycles."""
    clock = CLOCK_TEXTS.get(cpus.cpp_clock[row] or "")
    facts = [
        cpus.attribution[row],
        _SENT if cpus.direction[row] == "tx" else "",
        f"CPP in {clock}" if clock else "",
        saturated_text(cpus.saturated_by.get(cpus.topology.cpus[row].cpu, ())),
    ]
    text = "; ".join(item for item in facts if item)
    return paragraph(text, width) if text else []


def sibling_lines(cpus: CpuTable, row: int, width: int) -> list[Line]:
    """Load of the core's other hyper-threads, and of the core."""
    siblings = cpus.topology.cpus[row].siblings
    if not siblings:
        return []
    facts = [
        f"{_SIBLING_WORDS[metric.id]} {_sibling_value(cpus, row, metric)}"
        for metric in SIBLING_METRICS
    ]
    return paragraph(f"sibling {format_cpu_list(siblings)}: {', '.join(facts)}", width)


def _sibling_value(cpus: CpuTable, row: int, metric: Metric) -> str:
    estimate = any(estimates(cpus, [row], metric))
    return fmt.cell(cpus.columns[metric.id][row], metric.unit, 8, estimate=estimate)


def process_lines(frame: Frame, cpu: Cpu, width: int) -> list[Line]:
    """A line for each process known to have a thread on this CPU; its command line is cut."""
    texts = process_texts(frame, cpu)
    return [crop(line(Span(text, Tone.MUTED)), width) for text in texts]


def process_texts(frame: Frame, cpu: Cpu) -> list[str]:
    """Each process known to have a thread on this CPU, with its whole command line."""
    return [_process_text(facts) for facts in frame.processes if facts.cpu == cpu]


def _process_text(facts: ProcessFacts) -> str:
    nice_text = "" if facts.nice_value is None else f"nice {facts.nice_value}"
    named = (facts.user, nice_text, facts.cgroup)
    text = " ".join(item for item in (f"pid {facts.pid}", *named) if item)
    return printable(f"{text}: {facts.command}" if facts.command else text)


def cpu_rule_line(cpus: CpuTable, row: int, width: int) -> Line:
    """A rule with the CPU, its thread and its NF."""
    names = (f"cpu {cpus.topology.cpus[row].cpu}", cpus.thread[row], cpus.nf[row])
    return rule_line(" · ".join(name for name in names if name), "", width)


def location_lines(cpus: CpuTable, row: int, width: int) -> tuple[Line, ...]:
    facts = tuple(
        setting_facts(
            cpus.settings[row], *(cpus.columns[metric.id][row] for metric in FREQUENCY_METRICS)
        )
    )
    return _flowing(cpus.topology.cpus[row], cpus.group[row], facts, width)


@lru_cache(maxsize=8)  # seldom changes
def _flowing(
    info: CpuInfo, group: CacheClass | Missing, set_to: tuple[str, ...], width: int
) -> tuple[Line, ...]:
    numbers = (("core", info.core), ("package", info.package), ("L3", info.l3), ("node", info.node))
    facts = [f"{name} {value}" for name, value in numbers if value is not None]
    flags = (("isolated", info.isolated), ("nohz_full", info.nohz_full))
    facts += [name for name, holds in flags if holds]
    if not isinstance(group, Missing):
        number = "" if group.clos is None else f" (COS{group.clos})"
        own = " of what polls here" if group.of == "task" else ""
        facts.append(f"class {group_name(group.name)}{number}{own}")
    facts += set_to
    if not info.online:
        facts.insert(0, "offline")
    return tuple(flow([line(Span(fact, Tone.MUTED)) for fact in facts], width, "  "))


def _graph(cpus: CpuTable, row: int, trend: Trend, width: int, height: int) -> list[Line]:
    if height < 2 or graph_points(width) < 8:
        return []
    metric = trend.metric
    if not np.isfinite(trend.values).any():
        reading = cpus.columns[metric.id][row]
        why = f": {reading.message}" if isinstance(reading, Missing) else ""
        text = f"no {metric.label} in the last {span_name(trend.span_s)}{why}"
        return paragraph(text, width, tone=Tone.MUTED)[:height]
    scale = scale_of(trend.values)
    blank = " " * (_AXIS - graph_axis())
    drawn = graph_lines(trend.values, scale, metric.unit, height - 1)
    label = Span(fit(metric.label, len(blank)), Tone.MUTED)
    lines = [line(blank if at else label, row) for at, row in enumerate(drawn)]
    return [*lines, _time_axis(trend.span_s, width, scale.note())]


@lru_cache(maxsize=8)
def _time_axis(span_s: float, width: int, note: str) -> Line:
    left, right = f"└ -{span_name(span_s)} ", f" {note}, now" if note else " now"
    dashes = "─" * (width - _AXIS + 1 - len(left) - len(right))
    return line(Span(f"{' ' * (_AXIS - 1)}{left}{dashes}{right}", Tone.FAINT))
