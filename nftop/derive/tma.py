"""Top-down of every physical core, from the counter groups' rates."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nftop.derive.counters import CounterRates
from nftop.model.catalogue_tma import TMA_COVERAGE, TMA_METRICS
from nftop.model.column import Column, Floats, missing
from nftop.model.reading import Missing, Reason
from nftop.model.topology import Topology
from nftop.uarch.formula import compile_formula
from nftop.uarch.parts import BUSIEST, Topdown
from nftop.uarch.siblings import core_index, sum_siblings
from nftop.uarch.table import Uarch
from nftop.uarch.topdown import evaluate

# Those that every core is counted for all the time; the catalogue's metrics are theirs.
_LEVELS = 2


def tma_columns(
    uarch: Uarch | None, rates: CounterRates, topology: Topology
) -> Mapping[str, Column]:
    """Every `tma.` metric of the catalogue, ratios 0..1, rows as in the topology.

    The threads of a core share its slots, so they show the same numbers. SOURCE without a table
    for this CPU.

    Events of groups that took turns are put in proportion to the cycles their own groups saw:
    count / own cycles x cycles of the CPU. Those that count for the whole core are taken by time:
    they go on while the CPU's own thread is halted, and are in no proportion to its cycles.
    """
    rows = len(topology.cpus)
    if uarch is None or uarch.topdown is None:
        name = "generic" if uarch is None else uarch.name
        why = Missing(Reason.SOURCE, f"nftop has no top-down table for this CPU ({name})")
        return {metric.id: missing(rows, why) for metric in TMA_METRICS}
    smt = any(info.siblings for info in topology.cpus)
    events = {*uarch.counted, *(event for event in rates.per_s if event in uarch.events)}
    counts = {
        event: rates.rate(event) if event in uarch.of_core else rates.rate_by_cycles(event)
        for event in events
    }
    nodes = evaluate(uarch, sum_siblings(counts, topology), smt=smt, levels=_LEVELS)
    unknown = Missing(Reason.HARDWARE, f"not a node of {uarch.name}'s table")
    columns = {
        metric.id: nodes[metric.id] if metric.id in nodes else missing(rows, unknown)
        for metric in TMA_METRICS
    }
    share = _share(_events_read(uarch.topdown, smt=smt), rates, topology)
    columns[TMA_COVERAGE] = _coverage(share, nodes)
    return columns


def _events_read(topdown: Topdown, *, smt: bool) -> frozenset[str]:
    """Every event that a formula of these levels reads."""
    terms = topdown.terms_smt_on if smt else topdown.terms_smt_off
    nodes = (text for name, text in topdown.nodes.items() if topdown.level[name] <= _LEVELS)
    formulas = (*terms.values(), *nodes)
    names = (name for text in formulas for name in compile_formula(text).names)
    return frozenset(name.removeprefix(BUSIEST) for name in names)


def _share(events: frozenset[str], rates: CounterRates, topology: Topology) -> Floats:
    """float64 (rows,): of the events that were counted on a core, the smallest share of time."""
    share = np.full(len(topology.cpus), np.nan)
    for event in events & rates.shares.keys():
        share = np.fmin(share, rates.shares[event])
    cores = core_index(topology)
    smallest = np.full(int(cores.max(initial=0)) + 1, np.nan)
    np.fmin.at(smallest, cores, share)
    return smallest[cores]


def _coverage(share: Floats, nodes: Mapping[str, Column]) -> Column:
    """`share` where some node has a number; where none has, why the first has none."""
    some = np.any([node.present for node in nodes.values()], axis=0)
    values = np.where(some, share, np.nan)
    why = next(iter(nodes.values()))
    reasons = np.where(some, np.uint8(Reason.PRESENT), why.reasons)
    return Column(values, reasons, why.details, why.by_reason)
