"""The core that somebody looks at: its top-down tree down to level 3, and its probes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from nftop.derive.cpu.counters import CounterState, step_counters
from nftop.derive.topdown.group_ratios import ShareState, settling
from nftop.derive.topdown.tma import (
    ASLEEP,
    BEFORE_ASLEEP,
    asleep_rows,
    core_shares,
    counted_with_smt,
    counts_of_cores,
)
from nftop.model.frame import CoreFocus, TmaNode
from nftop.model.metrics.core import CORE_METRICS, NODE_METRICS
from nftop.model.reading import Missing, Reading, Reason
from nftop.model.sample import CounterTable, SourceReading
from nftop.model.topology import Topology
from nftop.uarch.focus import evaluate_focus
from nftop.uarch.table import Uarch
from nftop.uarch.topdown import Settle, Usage, consistent, events_read


@dataclass(frozen=True, slots=True)
class FocusState:
    """As for all CPUs, of the core's own counter groups."""

    counters: CounterState = field(default_factory=CounterState)
    shares: ShareState = field(default_factory=ShareState)


def step_focus(
    state: FocusState,
    reading: SourceReading[CounterTable] | None,
    uarch: Uarch | None,
    topology: Topology,
) -> tuple[FocusState, CoreFocus | None]:
    """Fold one perf reading in; None where it tells of no core more than of all.

    What depends on a group that has not had its turn yet is WARMING.
    """
    table = None if reading is None or isinstance(reading.value, Missing) else reading.value.focus
    if reading is None or table is None or uarch is None or not len(table.cpus):
        return FocusState(), None
    core = _only(topology, table)
    counters, rates = step_counters(state.counters, replace(reading, value=table), core)
    counts = {name: part[0] for name, part in counts_of_cores(uarch, rates, core).items()}
    smt = uarch.topdown is not None and counted_with_smt(uarch.topdown, rates.per_s.keys(), core)
    settle: Settle = consistent
    divided = ShareState()
    if uarch.topdown is not None:
        settle, divided = settling(state.shares, rates, uarch.topdown, core, rows=slice(1))
    tree, probes = evaluate_focus(uarch, counts, smt=smt, settle=settle)

    def coverage(usage: Usage) -> Reading:
        share = float(core_shares(usage, rates, core)[0])
        return Missing(Reason.SOURCE) if math.isnan(share) else share

    if uarch.topdown is not None:
        tree = tuple(
            replace(node, coverage=coverage(divided.usage.get(node.name, {}))) for node in tree
        )
    if asleep_rows(rates, core).any():
        tree = tuple(_asleep(node) for node in tree)
    nodes = {f"tma.{node.name}": node.reading for node in tree}
    unknown = Missing(Reason.HARDWARE, f"{uarch.name}'s table has no such number")
    readings = {
        metric.id: probes.get(metric.id, nodes.get(metric.id, unknown))
        for metric in (*CORE_METRICS, *NODE_METRICS)
    }
    cpus = tuple(info.cpu for info in core.cpus)
    of_probes = events_read(uarch.probes)
    everywhere = np.ones((), np.bool_)
    shares = {
        metric.id: coverage(dict.fromkeys(of_probes.get(metric.id, ()), everywhere))
        for metric in CORE_METRICS
    }
    return FocusState(counters, divided), CoreFocus(cpus, tree, readings, shares)


def _only(topology: Topology, table: CounterTable) -> Topology:
    cpus = {int(cpu) for cpu in table.cpus}
    return replace(topology, cpus=tuple(info for info in topology.cpus if info.cpu in cpus))


def _asleep(node: TmaNode) -> TmaNode:
    if isinstance(node.reading, Missing) and node.reading.reason in BEFORE_ASLEEP:
        return node
    return replace(node, reading=ASLEEP, beyond=False)
