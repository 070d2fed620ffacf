"""Top-down of every physical core, from the counter groups' rates."""

from __future__ import annotations

from collections.abc import Mapping

from nftop.derive.counters import CounterRates
from nftop.model.catalogue_tma import TMA_METRICS
from nftop.model.column import Column, missing
from nftop.model.reading import Missing, Reason
from nftop.model.topology import Topology
from nftop.uarch.siblings import sum_siblings
from nftop.uarch.table import Uarch
from nftop.uarch.topdown import evaluate


def tma_columns(
    uarch: Uarch | None, rates: CounterRates, topology: Topology
) -> Mapping[str, Column]:
    """Every `tma.` metric of the catalogue, ratios 0..1, rows as in the topology.

    The threads of a core share its slots, so they show the same numbers. SOURCE without a table
    for this CPU.
    """
    rows = len(topology.cpus)
    if uarch is None or uarch.topdown is None:
        name = "generic" if uarch is None else uarch.name
        why = Missing(Reason.SOURCE, f"nftop has no top-down table for this CPU ({name})")
        return {metric.id: missing(rows, why) for metric in TMA_METRICS}
    smt = any(info.siblings for info in topology.cpus)
    counts = {event: rates.rate(event) for event in uarch.counted}
    nodes = evaluate(uarch, sum_siblings(counts, topology), smt=smt)
    unknown = Missing(Reason.HARDWARE, f"not a node of {uarch.name}'s table")
    return {
        metric.id: nodes[metric.id] if metric.id in nodes else missing(rows, unknown)
        for metric in TMA_METRICS
    }
