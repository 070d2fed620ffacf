"""The kernel's top-down metrics for this CPU: formulas, and the events they read."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from nftop.model.ids import Cpu, format_cpu_list
from nftop.model.missing import Reason
from nftop.model.struct import dataclass, field
from nftop.sources.perf.problems import CounterProblem, explain
from nftop.sources.pyperf.module import Evlist, Evsel, PerfModule
from nftop.uarch.grammar import FormulaError
from nftop.uarch.kernel_metrics import Translated, event_key, nodes, same, translate

# By our name, perf's terms on CPUs of a list: `cpu` terms, since the module opens an event on every
# CPU of its PMU whatever map of CPUs it is given (seen with Linux 7.2).
_GENERIC = {
    "cycles": "cycles/{}/",
    "instructions": "instructions/{}/",
    "ref_cycles": "ref-cycles/{}/",
    "context_switches": "context-switches/{}/",
}
# What the PMU `msr` has of them takes no counter (arch/x86/events/msr.c). MPERF advances at the
# rate of the TSC while the CPU is not halted, as reference cycles do: Intel SDM volume 3,
# "Hardware Coordination Feedback"; AMD64 APM volume 2, "MPERF".
_OF_MSR = {"tsc": "tsc", "ref_cycles": "mperf"}
_MSR = "sys/bus/event_source/devices/msr/events"
_ON_CORE = ("cycles", "instructions")
# PERF_FORMAT_TOTAL_TIME_ENABLED and _RUNNING; without them the module gives times of 0.
_WITH_TIMES = 3
_UNKNOWN_EVENT = CounterProblem(
    Reason.HARDWARE, "the kernel's perf knows no such event on this CPU"
)
_HYBRID = CounterProblem(
    Reason.SOURCE, "cores of several kinds are not counted through the kernel's perf"
)
_ELSEWHERE = CounterProblem(
    Reason.SOURCE, "this perf would count it on other CPUs: it knows no `cpu` term"
)

MetricNames = tuple[str, ...]


@dataclass(slots=True)
class Opened:
    """Groups that count on some CPUs.

    `reads`: (CPU, event name, reader) of everything that counts, sorted by CPU.
    """

    lists: list[Evlist] = field(default_factory=list)
    reads: list[tuple[Cpu, str, Evsel]] = field(default_factory=list)

    def close(self) -> None:
        """Stop counting. Safe to call twice."""
        self.reads = []
        lists, self.lists = self.lists, []
        for events in lists:
            events.disable()
            events.close()


def open_groups(
    module: PerfModule,
    groups: Iterable[MetricNames],
    requested: Mapping[str, str],
    cpus: Sequence[Cpu],
) -> Opened | CounterProblem:
    """Open and start groups on all of the CPUs, or none of it and why."""
    opened = Opened()
    for group in groups:
        problem = _open(module, group, requested, cpus, opened)
        if problem is not None:
            opened.close()
            return problem
    opened.reads.sort(key=lambda read: read[0])
    return opened


def basic_events(root: Path) -> Mapping[str, str]:
    """The events of every host, with perf's terms."""
    events = dict(_GENERIC)
    for name, event in _OF_MSR.items():
        if (root / _MSR / event).exists():
            events[name] = f"msr/{event},{{}}/"
    return events


def grouped(names: Iterable[str], of_metrics: Collection[str]) -> tuple[MetricNames, ...]:
    """Groups to count: the core's events in one group.

    `of_metrics` are in perf's order, and lead.
    """
    on_core = (*of_metrics, *_ON_CORE)
    return (on_core, *((name,) for name in names if name not in on_core))


def fitting(
    module: PerfModule, groups: Iterable[MetricNames], requested: Mapping[str, str], cpu: Cpu
) -> tuple[tuple[MetricNames, ...], Mapping[str, CounterProblem]]:
    """Of these groups what opens on a CPU, in as few groups as possible, and why the rest fails."""
    usable: list[MetricNames] = []
    absent: dict[str, CounterProblem] = {}
    for group in groups:
        opened = open_groups(module, (group,), requested, (cpu,))
        smaller = subgroups(group)
        if isinstance(opened, Opened):
            opened.close()
            usable.append(group)
        elif len(smaller) == 1:
            absent |= dict.fromkeys(group, opened)
        else:
            fit, lacks = fitting(module, smaller, requested, cpu)
            usable += fit
            absent |= lacks
    return tuple(usable), absent


def subgroups(group: MetricNames) -> tuple[MetricNames, ...]:
    """The group split for counting in parts; the group itself if it can't be split.

    Intel's top-down counts are one register, read after `slots`.
    """
    basic = tuple(name for name in group if name in _ON_CORE)
    others = tuple(name for name in group if name not in _ON_CORE)
    if basic and others:
        return others, basic
    slots = tuple(name for name in others if "_topdown_" in name or name.endswith("_slots"))
    singles = tuple((name,) for name in group if name not in slots)
    return (slots, *singles) if slots else singles


def _open(
    module: PerfModule,
    group: MetricNames,
    requested: Mapping[str, str],
    cpus: Sequence[Cpu],
    opened: Opened,
) -> CounterProblem | None:
    where = ",".join(f"cpu={span}" for span in format_cpu_list(cpus).split(","))
    names = {requested[name].format(where): name for name in group}
    terms = ",".join(names)
    try:
        events = module.parse_events(terms if len(group) == 1 else f"{{{terms}}}")
    except OSError:
        return _UNKNOWN_EVENT  # its errno is of another call
    # perf may put them in another order, top-down events side by side.
    # An event prints as PMU/TERM/ or as TERM.
    named = [
        (names.get(shown) or names.get(shown.partition("/")[2].removesuffix("/"), ""), event)
        for event in events
        for shown in (shown_as(event),)
    ]
    if sorted(name for name, _ in named) != sorted(group):
        return _HYBRID
    if not all(set(event.cpus()) <= set(cpus) for _, event in named):
        return _ELSEWHERE
    for _, event in named:
        event.read_format = _WITH_TIMES
    try:
        events.open()
    except OSError as error:
        return explain(error.errno or 0)
    opened.lists.append(events)
    events.enable()
    for name, event in named:
        opened.reads += [(Cpu(cpu), name, event) for cpu in event.cpus()]
    return None


def shown_as(event: Evsel) -> str:
    """The text in `evsel(...)`."""
    return str(event).removeprefix("evsel(").removesuffix(")")


# An event as it shows itself: cpu/TOPDOWN.SLOTS/, cpu/cpu/event=0x3c,cmask=1//, TOPDOWN.SLOTS.
_SHOWN = re.compile(r"(?P<pmu>[^/:]+)/(?:(?P=pmu)/(?P<terms>[^/:]+)/|(?P<name>[^/:]+))/")
_BARE = re.compile(r"[^/:]+")
_UNKNOWN_METRIC = CounterProblem(Reason.HARDWARE, "perf has no such metric for this CPU")
_UNRESOLVED = "perf has {metric} for this CPU, but this kernel lacks an event of it ({event})"


@dataclass(frozen=True, slots=True)
class KernelMetrics:
    """Top-down of the kernel's tables.

    Attributes:
        formulas: by nftop's metric id, the formula over `events`.
        events: by name in the formulas, perf's terms with a placeholder for CPUs:
            `cpu/TOPDOWN.SLOTS,{}/`. In perf's order: group leaders first. Without those that nftop
            counts under its own names.
        absent: by metric id, why it has no formula.
    """

    formulas: Mapping[str, str]
    events: Mapping[str, str]
    absent: Mapping[str, CounterProblem]


def without_metrics(problem: CounterProblem) -> KernelMetrics:
    return KernelMetrics({}, {}, dict.fromkeys(nodes(), problem))


def find_metrics(module: PerfModule, root: Path = Path("/")) -> KernelMetrics:
    """The kernel's formulas of top-down level 1. Never raises for perf's answers."""
    rows = [row for row in module.metrics() if "MetricName" in row and "MetricExpr" in row]
    absent: dict[str, CounterProblem] = {}
    names: dict[str, str] = {}
    for node, spellings in nodes().items():
        known = next((name for name in spellings if _row(rows, name)), None)
        if known is None:
            absent[node] = _UNKNOWN_METRIC
        else:
            names[node] = known
    if not names:
        return KernelMetrics({}, {}, absent)
    shown = _shown(module, names.values())
    formulas: dict[str, str] = {}
    read: dict[str, str] = {}
    for node, metric in names.items():
        try:
            translated = _translated(rows, metric, root)
        except FormulaError as error:
            absent[node] = CounterProblem(
                Reason.SOURCE, f"perf's formula can't be computed: {error}"
            )
            continue
        counted = {name: key for name, key in translated.events.items() if key not in same()}
        lost = [key for key in counted.values() if key not in shown]
        if lost:
            sentence = _UNRESOLVED.format(metric=metric, event=lost[0])
            absent[node] = CounterProblem(Reason.HARDWARE, sentence)
            continue
        formulas[node] = translated.formula
        read |= counted
    order = list(shown)
    in_order = sorted(read.items(), key=lambda item: order.index(item[1]))
    return KernelMetrics(formulas, {name: shown[key] for name, key in in_order}, absent)


def _row(rows: Iterable[Mapping[str, Any]], metric: str) -> Mapping[str, Any] | None:
    return next((row for row in rows if row["MetricName"] == metric), None)


def _translated(rows: Iterable[Mapping[str, Any]], metric: str, root: Path) -> Translated:
    """Raises FormulaError."""
    row = _row(rows, metric)
    if row is None:
        raise FormulaError("there is none of that name")
    # Hybrid CPUs have one formula for each kind of core.
    pmu = row.get("PMU")
    formulas = {
        item["MetricName"]: str(item["MetricExpr"]) for item in rows if item.get("PMU") == pmu
    }
    return translate(metric, formulas, _literals(root), str(row.get("ScaleUnit", "")))


def _shown(module: PerfModule, metrics: Iterable[str]) -> Mapping[str, str]:
    """By key, perf's terms for each event that these metrics read; nothing is opened.

    Empty if this kernel or CPU lacks one of them.
    """
    try:
        events: Evlist = module.parse_metrics(",".join(metrics))
    except OSError:  # its errno is of another call
        return {}
    result: dict[str, str] = {}
    for event in events:
        shown = shown_as(event)
        smaller = _SHOWN.fullmatch(shown)
        if smaller is not None:
            name = smaller["terms"] or smaller["name"]
            result.setdefault(event_key(name), f"{smaller['pmu']}/{name},{{}}/")
        elif _BARE.fullmatch(shown):
            result.setdefault(event_key(shown), f"{shown}/{{}}/")
    return result


def _literals(root: Path) -> Mapping[str, float]:
    """Values of the host that formulas may use, as in tools/perf/util/expr.c."""
    files = {
        "#smt_on": root / "sys/devices/system/cpu/smt/active",
        "#slots": root / "sys/bus/event_source/devices/armv8_pmuv3_0/caps/slots",
    }
    result: dict[str, float] = {}
    for name, file in files.items():
        with suppress(OSError, ValueError):  # a formula that uses it reports it as unknown
            result[name] = float(int(file.read_text(encoding="ascii"), 0))
    return result
