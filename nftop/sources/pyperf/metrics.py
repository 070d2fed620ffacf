"""The kernel's top-down metrics for this CPU: their formulas, and the events these read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nftop.model.reading import Reason
from nftop.sources.perf.problems import Problem
from nftop.sources.pyperf.groups import shown_as
from nftop.sources.pyperf.module import Evlist, PerfModule
from nftop.uarch.grammar import FormulaError
from nftop.uarch.kernel_metrics import Translated, event_key, nodes, same, translate

# An event as it shows itself: cpu/TOPDOWN.SLOTS/, cpu/cpu/event=0x3c,cmask=1//, TOPDOWN.SLOTS.
_SHOWN = re.compile(r"(?P<pmu>[^/:]+)/(?:(?P=pmu)/(?P<terms>[^/:]+)/|(?P<name>[^/:]+))/")
_BARE = re.compile(r"[^/:]+")
_UNKNOWN = Problem(Reason.HARDWARE, "perf has no such metric for this CPU")
_UNRESOLVED = "perf has {metric} for this CPU, but the kernel here has not all it counts ({event})"


@dataclass(frozen=True, slots=True)
class KernelMetrics:
    """What top-down the kernel's tables give here.

    Attributes:
        formulas: by nftop's metric id, the formula over `events`.
        events: by name in the formulas, how perf is asked for it, a place left for the CPUs:
            `cpu/TOPDOWN.SLOTS,{}/`. In perf's order: what must lead a group comes first. Not those
            that nftop counts under names of its own.
        absent: by metric id, why it has no formula.
    """

    formulas: Mapping[str, str]
    events: Mapping[str, str]
    absent: Mapping[str, Problem]


def without_metrics(problem: Problem) -> KernelMetrics:
    """No metric, for one reason."""
    return KernelMetrics({}, {}, dict.fromkeys(nodes(), problem))


def find_metrics(module: PerfModule, root: Path = Path("/")) -> KernelMetrics:
    """The kernel's formulas of the top-down's first level. Never raises for what perf answers."""
    rows = [row for row in module.metrics() if "MetricName" in row and "MetricExpr" in row]
    absent: dict[str, Problem] = {}
    names: dict[str, str] = {}
    for node, spellings in nodes().items():
        known = next((name for name in spellings if _row(rows, name)), None)
        if known is None:
            absent[node] = _UNKNOWN
        else:
            names[node] = known
    if not names:
        return KernelMetrics({}, {}, absent)
    shown = _shown(module, names.values())
    formulas: dict[str, str] = {}
    read: dict[str, str] = {}
    for node, metric in names.items():
        try:
            found = _translated(rows, metric, root)
        except FormulaError as error:
            absent[node] = Problem(Reason.SOURCE, f"perf's formula can't be computed: {error}")
            continue
        counted = {name: key for name, key in found.events.items() if key not in same()}
        lost = [key for key in counted.values() if key not in shown]
        if lost:
            sentence = _UNRESOLVED.format(metric=metric, event=lost[0])
            absent[node] = Problem(Reason.HARDWARE, sentence)
            continue
        formulas[node] = found.formula
        read |= counted
    order = list(shown)
    in_order = sorted(read.items(), key=lambda item: order.index(item[1]))
    return KernelMetrics(formulas, {name: shown[key] for name, key in in_order}, absent)


def _row(rows: Iterable[Mapping[str, Any]], metric: str) -> Mapping[str, Any] | None:
    return next((row for row in rows if row["MetricName"] == metric), None)


def _translated(rows: Iterable[Mapping[str, Any]], metric: str, root: Path) -> Translated:
    """FormulaError where the formula is not for nftop."""
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
    """By key, how to ask for each event that these metrics read; nothing is opened.

    Empty where this kernel or CPU lacks one of them.
    """
    try:
        events: Evlist = module.parse_metrics(",".join(metrics))
    except OSError:
        # Its errno is what some other call left behind.
        return {}
    found: dict[str, str] = {}
    for event in events:
        shown = shown_as(event)
        parts = _SHOWN.fullmatch(shown)
        if parts is not None:
            name = parts["terms"] or parts["name"]
            found.setdefault(event_key(name), f"{parts['pmu']}/{name},{{}}/")
        elif _BARE.fullmatch(shown):
            found.setdefault(event_key(shown), f"{shown}/{{}}/")
    return found


def _literals(root: Path) -> Mapping[str, float]:
    """What formulas may ask of the host, as tools/perf/util/expr.c reads it."""
    files = {
        "#smt_on": root / "sys/devices/system/cpu/smt/active",
        "#slots": root / "sys/bus/event_source/devices/armv8_pmuv3_0/caps/slots",
    }
    found: dict[str, float] = {}
    for name, file in files.items():
        try:
            found[name] = float(int(file.read_text(encoding="ascii"), 0))
        except (OSError, ValueError):
            continue  # the formula that asks for it says that it is not known
    return found
