"""Help page, and the pages that explain numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from nftop.model.frame import DeviceRow, Frame
from nftop.model.ids import Cpu
from nftop.model.metrics.catalogue import CPU_METRICS, cpu_metric
from nftop.model.metrics.device import DEVICE_METRICS
from nftop.model.metrics.group import GROUP_METRICS
from nftop.model.metrics.metric import ESTIMATE_BELOW, Metric, Unit, is_bound
from nftop.model.metrics.nf import NF_METRICS
from nftop.model.metrics.package import PACKAGE_METRICS
from nftop.model.metrics.pcm import PCM_PACKAGE_METRICS
from nftop.model.metrics.power import COUNTED_POWER_PACKAGE_METRICS
from nftop.model.metrics.probes import CORE_METRICS
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.number_text import MORE_THAN_0
from nftop.model.perf_tool import PerfTask
from nftop.render.base import format as fmt
from nftop.render.base.bars import COMPONENTS
from nftop.render.base.line import BLANK, Line, Span, Tone, crop, line, paragraph
from nftop.render.base.text import printable
from nftop.render.cache.class_cells import MARKS as CACHE_MARKS
from nftop.render.cache.class_cells import WAY_MARKS
from nftop.render.cache.table import MARKS as CLASS_MARKS
from nftop.render.cache.verdict import MARKS as VERDICT_MARKS
from nftop.render.cores.detail import (
    absence_lines,
    attribution_lines,
    location_lines,
    process_texts,
    sibling_lines,
)
from nftop.render.cores.table import SIBLING_BUSY_RATIO, SIBLING_MARK, estimates, saturated_text
from nftop.render.frame.findings import MARKS as FINDING_MARKS
from nftop.render.frame.header import badge_lines, time_of_day
from nftop.render.frame.provenance import caveat
from nftop.render.pages.explain import near_names
from nftop.render.power.page import POWER_PACKAGE_METRICS
from nftop.render.topdown.tree import MARKS as TREE_MARKS
from nftop.render.topdown.tree import focus_of, meaning_of, tree_of, words
from nftop.uarch.explain import definition
from nftop.uarch.table import load, names

_MARKS = (
    ("<", "upper bound: may include empty polls (core not saturated)"),
    (MORE_THAN_0, "above 0, too small to print"),
    (
        "~",
        f"estimate: counted less than {ESTIMATE_BELOW:.0%} of the time, or not of core cycles",
    ),
    (f"4{SIBLING_MARK}", f"the hyper-thread sibling is busy more than {SIBLING_BUSY_RATIO:.0%}"),
    ("perf~", "the source is incomplete"),
    ("perf+", "the source works"),
    ("#", "a number too long for its column"),
)  # fmt: skip


class HelpSection(NamedTuple):
    """A title and pairs: a key, mark or name, and its meaning."""

    title: str
    rows: Sequence[tuple[str, str]]


def mark_sections() -> tuple[HelpSection, ...]:
    """Marks that are on all screens."""
    reasons = [(item.mark, item.sentence) for item in Reason if item is not Reason.PRESENT]
    return (
        HelpSection("Where there is no number", reasons),
        HelpSection("Beside a number", _MARKS),
    )


def reference_sections() -> tuple[HelpSection, ...]:
    """Marks and columns of single screens; the help shows them only when searched."""
    return (
        HelpSection("Findings", FINDING_MARKS),
        HelpSection("In the bar of top-down", [(key, what) for key, _, what in COMPONENTS]),
        HelpSection("The ways of a cache class", WAY_MARKS),
        HelpSection("In the panel of cache classes", CACHE_MARKS),
        HelpSection("Columns of CPUs", _columns(CPU_METRICS)),
        HelpSection("Columns of cache classes", _columns(GROUP_METRICS)),
        HelpSection("Columns of network functions", _columns(NF_METRICS)),
        HelpSection("Memory, PCIe and links", _columns(PACKAGE_METRICS)),
        HelpSection("PCIe root ports with network devices", _columns(DEVICE_METRICS)),
        HelpSection("Power and C-states of packages", _columns(COUNTED_POWER_PACKAGE_METRICS)),
        HelpSection("From a sensor server, of packages", _columns(PCM_PACKAGE_METRICS)),
        HelpSection("Probes of the selected core", _columns(CORE_METRICS)),
    )


def help_lines(
    shown: Sequence[HelpSection], others: Sequence[HelpSection], search: str, width: int
) -> list[Line]:
    """Keys and marks.

    Args:
        shown: of the current screen.
        others: of all other screens; only rows that match the search are drawn.
        search: text that a row has in its name, its meaning or its section's title; "": no search.
        width: cells a line may take.
    """
    if not search:
        tail = paragraph(
            "/ searches this page, the keys of all screens, and the meaning of every column",
            width,
            tone=Tone.MUTED,
        )
        return [*(item for title, rows in shown for item in section(title, rows, width)), *tail]
    wanted = search.casefold()
    lines: list[Line] = []
    for title, rows in (*shown, *others):
        whole = wanted in title.casefold()
        matches = [row for row in rows if whole or wanted in " ".join(row).casefold()]
        lines += section(title, matches, width)
    if lines:
        return lines
    near = near_names(search)
    hint = f"; did you mean {', '.join(near)}?" if near else ""
    return paragraph(f"nothing is called {search!r}{hint}", width)


def explain_lines(frame: Frame, row: int, metric: Metric, width: int) -> list[Line]:
    """A metric of a CPU: definition, value or absence, other absences, sources."""
    cpus = frame.cpus
    cpu = cpus.topology.cpus[row].cpu
    facts = [
        *_definition(metric),
        (f"cpu {cpu}", f"{_value(frame, row, metric)}, at {time_of_day(frame)}"),
    ]
    absent = absence_lines(cpus, row, width, CPU_METRICS)
    located = [
        *sibling_lines(cpus, row, width),
        *location_lines(cpus, row, width),
        *(item for text in process_texts(frame, cpu) for item in paragraph(text, width)),
    ]
    return [
        *(crop(badge_line, width) for badge_line in badge_lines(frame.host)),
        *section(f"{metric.label} ({metric.id})", facts, width),
        *_titled("How its packets were counted", attribution_lines(cpus, row, width), width),
        *_titled(f"Absent on cpu {cpu}", absent, width),
        *_titled(f"Where cpu {cpu} is, and what runs there", located, width),
        *section("Sources", source_facts(frame), width),
        *_titled(
            "Topology",
            [item for note in frame.topology.notes for item in paragraph(note, width)],
            width,
        ),
    ]


def explain_package_lines(frame: Frame, metrics: Sequence[Metric], width: int) -> list[Line]:
    """Metrics of packages: definition and value or absence."""
    lines = [crop(badge_line, width) for badge_line in badge_lines(frame.host)]
    lines += _package_facts(frame, metrics, width)
    lines += _computed(frame, [metric.id for metric in metrics], width)
    return [*lines, *section("Sources", source_facts(frame), width)]


def explain_device_lines(frame: Frame, row: DeviceRow, width: int) -> list[Line]:
    """Devices behind a root port: where they are and what uses them, and their metrics."""
    port = row.port
    location = f"socket {port.package}, stack {port.stack} (uncore_iio_{port.stack}), port "
    devices = [
        (
            item.address,
            f"{', '.join(item.interfaces) or 'no interface'}, driver {item.driver or '-'}",
        )
        for item in port.devices
    ]
    if port.others:
        devices.append(("others", f"{port.others} that are no network devices, counted with them"))
    facts = [
        ("root port", port.address),
        ("counted", port.problem.message if port.problem else f"{location}{port.number}"),
        ("used by", ", ".join(row.nfs) or "no network function that nftop reads names them"),
        *devices,
    ]
    lines = [crop(badge_line, width) for badge_line in badge_lines(frame.host)]
    lines += section(printable(row.name), [(n, printable(text)) for n, text in facts], width)
    for metric in DEVICE_METRICS:
        value = _worded(row.readings[metric.id], metric, estimate=metric.id in row.estimates)
        shown = [*_definition(metric), ("now", f"{value}, at {time_of_day(frame)}")]
        lines += section(f"{metric.label} ({metric.id})", shown, width)
    return [*lines, *section("Sources", source_facts(frame), width)]


def explain_power_lines(frame: Frame, row: int | None, metric: Metric, width: int) -> list[Line]:
    """Metrics of the Power screen: packages, then the selected CPU."""
    facts = _package_facts(frame, POWER_PACKAGE_METRICS, width)
    if row is None:
        badge = [crop(badge_line, width) for badge_line in badge_lines(frame.host)]
        return [*badge, *facts, *section("Sources", source_facts(frame), width)]
    of_cpu = explain_lines(frame, row, metric, width)
    head = len(badge_lines(frame.host))
    return [*of_cpu[:head], *facts, *of_cpu[head:]]


def _package_facts(frame: Frame, metrics: Sequence[Metric], width: int) -> list[Line]:
    lines: list[Line] = []
    for metric in metrics:
        facts = _definition(metric)
        for row in frame.packages:
            reading = row.readings.get(metric.id, Missing(Reason.SOURCE))
            value = _worded(reading, metric, estimate=metric.id in row.estimates)
            text = f"{value}{caveat(row, metric.id)}{aged(row.sampled_s.get(metric.id))}"
            facts.append((f"socket {row.package}", f"{text}, at {time_of_day(frame)}"))
        lines += section(f"{metric.label} ({metric.id})", facts, width)
    return lines


def aged(age_s: float | None) -> str:
    """Age of a number that is read now and then; "" for others."""
    return "" if age_s is None else f"; read {age_s:.0f} s before"


def perf_lines(cpu: Cpu, tasks: Sequence[PerfTask], width: int) -> list[Line]:
    """Commands of perf for a core, by purpose. A command may be longer than a line."""
    lines = [line(Span(f"perf on CPU {cpu}", Tone.STRONG))]
    lines += paragraph(
        "Sampling interrupts the core: expect fewer packets while it records.",
        width,
        tone=Tone.MUTED,
    )
    lines += [] if tasks else paragraph("asking perf for its version", width)
    for task in tasks:
        lines += [BLANK, *paragraph(task.title, width, tone=Tone.ACCENT)]
        for command in task.commands:
            lines += paragraph(command, width, lead=line("  "))
        lines += paragraph(task.why, width, lead=line("  "), tone=Tone.MUTED) if task.why else []
    return lines


def explain_class_lines(frame: Frame, about: str, lines: Sequence[Line], width: int) -> list[Line]:
    """A cache class: its `lines`, then the meaning of metrics and marks."""
    rows = [
        (metric.label, f"{metric.meaning} {metric.formula} [{metric.origin}]")
        for metric in GROUP_METRICS
    ]
    return [
        *(crop(badge_line, width) for badge_line in badge_lines(frame.host)),
        *_titled(f"{about} at {time_of_day(frame)}", list(lines), width),
        *section("What the numbers mean", rows, width),
        *section("In the table", (*WAY_MARKS, *CLASS_MARKS), width),
        *section("In a verdict", VERDICT_MARKS, width),
        *section("Sources", source_facts(frame), width),
    ]


def explain_core_lines(frame: Frame, row: int, width: int) -> list[Line]:
    """Top-down nodes and probes of a core: value and meaning."""
    cpu = frame.cpus.topology.cpus[row].cpu
    focus = focus_of(frame, row)
    nodes = [
        (
            words(node.name),
            f"{_plainly(node.reading, Unit.RATIO)} of {node.of}. {meaning_of(node.name)}",
        )
        for node in tree_of(frame, row)
    ]
    probes = (
        []
        if focus is None
        else [
            (words(metric.id), _probe_words(metric, focus.readings[metric.id]))
            for metric in CORE_METRICS
        ]
    )
    computed = [f"tma.{node.name}" for node in tree_of(frame, row)]
    computed += [metric.id for metric in CORE_METRICS] if focus is not None else []
    return [
        *(crop(badge_line, width) for badge_line in badge_lines(frame.host)),
        *section(f"Top-down of cpu {cpu}'s core at {time_of_day(frame)}", nodes, width),
        *section("Probes of the same core", probes, width),
        *section("On the screen", TREE_MARKS, width),
        *section(
            "How it is computed",
            [
                ("formulas", cpu_metric("tma.retiring").formula),
                ("source", cpu_metric("tma.retiring").origin),
            ],
            width,
        ),
        *_computed(frame, computed, width),
        *section("Sources", source_facts(frame), width),
    ]


def _computed(frame: Frame, metrics: Iterable[str], width: int) -> list[Line]:
    """Formulas and events of the metrics, from the table of the host's CPU."""
    name = frame.host.uarch
    if name not in names():
        return []
    smt = any(info.siblings for info in frame.topology.cpus)
    pairs = dict(pair for metric in metrics for pair in definition(_table(name), metric, smt=smt))
    return section(f"Formulas and events of {name}", pairs.items(), width)


_table = lru_cache(maxsize=2)(load)


def _probe_words(metric: Metric, reading: Reading) -> str:
    return f"{_plainly(reading, metric.unit)}. {metric.meaning} [{metric.origin}]"


def _plainly(reading: Reading, unit: Unit) -> str:
    if isinstance(reading, Missing):
        return f"{reading.reason.mark} {reading.message}"
    return fmt.worded(reading, unit)


def _definition(metric: Metric) -> list[tuple[str, str]]:
    return [
        ("meaning", metric.meaning),
        ("formula", metric.formula),
        ("unit", metric.unit.value),
        ("origin", metric.origin),
        *([("better", metric.good)] if metric.good else []),
    ]


def _worded(reading: Reading, metric: Metric, *, estimate: bool) -> str:
    if isinstance(reading, Missing):
        return f"{reading.reason.mark} {reading.message}"
    note = "; estimate: its counters were multiplexed" if estimate else ""
    ratio = metric.unit is Unit.RATIO
    return (fmt.share(reading, 8) if ratio else fmt.worded(reading, metric.unit)) + note


def _value(frame: Frame, row: int, metric: Metric) -> str:
    reading = frame.cpus.columns[metric.id][row]
    if isinstance(reading, Missing):
        return f"{reading.reason.mark} {reading.message}"
    saturated = frame.cpus.saturated[row]
    bound = is_bound(metric, saturated=saturated, clock=frame.cpus.cpp_clock[row])
    texts = [fmt.worded(reading, metric.unit, bound=bound)]
    origin = frame.cpus.origins.get(metric.id)
    if origin is not None and origin[row] is not None:
        texts.append(f"from {origin[row]}")
    if bound:
        known = "known to be " if saturated is None else ""
        texts.append(f"an upper bound: the core is not {known}saturated")
    elif metric.bounded and saturated:
        by = frame.cpus.saturated_by.get(frame.cpus.topology.cpus[row].cpu, ())
        texts.append(saturated_text(by))
    if any(estimates(frame.cpus, [row], metric)):
        texts.append("an estimate: multiplexed counters, or another clock than the core's")
    return "; ".join(texts) + aged(frame.cpus.sampled_of(row).get(metric.id))


def _columns(metrics: Sequence[Metric]) -> list[tuple[str, str]]:
    return [(metric.label, f"{metric.meaning} [{metric.unit.value}]") for metric in metrics]


def source_facts(frame: Frame) -> list[tuple[str, str]]:
    pairs = []
    for name, state in frame.sources.items():
        if state.reason is Reason.PRESENT:
            texts = [f"works, but not all of it: {state.detail}" if state.detail else "works"]
        else:
            texts = [f"{state.reason.mark} {state.detail or state.reason.sentence}"]
        if state.age_s is not None:
            texts.append(f"{state.age_s:.1f} s old")
        if state.took_s is not None:
            texts.append(f"took {state.took_s * 1e3:.1f} ms")
        pairs.append((name, ", ".join(texts)))
    return pairs


def section(title: str, rows: Iterable[tuple[str, str]], width: int) -> list[Line]:
    rows = list(rows)
    column = min(max((len(name) for name, _ in rows), default=0) + 2, max(4, width // 3))
    lines = [
        item for name, text in rows for item in paragraph(text, width, lead=_lead(name, column))
    ]
    return _titled(title, lines, width)


def _lead(name: str, column: int) -> Line:
    return crop(line(Span(f"{name:<{column - 1}} ", Tone.ACCENT)), column)


def _titled(title: str, lines: list[Line], width: int) -> list[Line]:
    head = crop(line(Span(title, Tone.STRONG)), width)
    return [head, *(crop(item, width) for item in lines), BLANK] if lines else []
