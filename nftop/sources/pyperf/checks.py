"""What `nftop doctor` says of counting through the kernel's own module."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from nftop.model.ids import Cpu, format_cpu_list
from nftop.model.reading import Reason
from nftop.model.sample import CounterTable
from nftop.sources.base import Check
from nftop.sources.perf.problems import NO_CPU, QUIET, Problem, never_ran
from nftop.sources.pyperf.metrics import KernelMetrics

_TURNS = (
    "events take turns on the counters, the least counted had {share:.0%} of the time: the kernel "
    "changes them every few ms, which interrupts the CPUs"
)


def table_checks(
    name: str,
    table: CounterTable,
    absent: Mapping[str, Problem],
    metrics: KernelMetrics,
    root: Path,
) -> tuple[Check, ...]:
    """What is counted where at how many reads, what is not, and whose top-down it is."""
    rows = np.flatnonzero((table.reasons == Reason.PRESENT).any(axis=1))
    cpus = [Cpu(int(cpu)) for cpu in table.cpus[rows]]
    if not cpus:
        problem = QUIET if len(table.cpus) else NO_CPU
        return (Check(name, problem.reason, f"no CPU is counted: {problem.sentence}"),)
    counted = [_shown(event, metrics) for event in table.events if event not in absent]
    text = (
        f"the kernel's Python module counts {', '.join(counted)} on CPU {format_cpu_list(cpus)}, "
        f"{len(counted)} reads a tick each"
    )
    checks = [Check(name, Reason.PRESENT, text)]
    for event, problem in absent.items():
        what = f"{name} {_shown(event, metrics)}"
        checks.append(Check(what, problem.reason, problem.sentence, problem.fix))
    checks += _of_turns(name, table, rows.tolist(), metrics, root)
    if metrics.formulas:
        nodes = _nodes(metrics.formulas)
        text = f"{nodes}: the kernel's own formulas, by CPU as `perf stat -A` has them"
        checks.append(Check(f"{name} top-down", Reason.PRESENT, text))
    for problem in dict.fromkeys(metrics.absent.values()):
        lost = [node for node, why in metrics.absent.items() if why == problem]
        text = f"no {_nodes(lost)}: {problem.sentence}"
        checks.append(Check(f"{name} top-down", problem.reason, text, problem.fix))
    return tuple(checks)


def _shown(event: str, metrics: KernelMetrics) -> str:
    """An event by nftop's name, or as perf knows it."""
    return metrics.events.get(event, event).replace(",{}", "").replace("/{}/", "")


def _nodes(metrics: Iterable[str]) -> str:
    return ", ".join(metric.removeprefix("tma.") for metric in metrics)


def _of_turns(
    name: str, table: CounterTable, rows: Sequence[int], metrics: KernelMetrics, root: Path
) -> Iterator[Check]:
    """Of the events that were not on the counters all the time."""
    enabled, running = table.enabled_ns[rows], table.running_ns[rows]
    share = np.where(enabled > 0, running / np.maximum(enabled, 1), 1.0).min(axis=0)
    never = [event for event, part in zip(table.events, share, strict=True) if part == 0]
    if never:
        problem = never_ran(root)
        text = f"{', '.join(_shown(event, metrics) for event in never)}: {problem.sentence}"
        yield Check(f"{name} groups", problem.reason, text, problem.fix)
    partly = share[(share > 0) & (share < 1)]
    if partly.size:
        yield Check(f"{name} turns", Reason.PRESENT, _TURNS.format(share=partly.min()))
