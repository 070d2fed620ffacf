"""Top-down by the kernel's own formulas, where the counters came with them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nftop.derive.cpu.counters import CounterRates
from nftop.derive.topdown.tma import ASLEEP_RATIO
from nftop.model.column import Bools, Column, column, missing, ratio, where
from nftop.model.metrics.tma import TMA_METRICS
from nftop.model.reading import Missing, Reason
from nftop.model.sample import CounterTable
from nftop.uarch.formula import Formula, compile_formula
from nftop.uarch.grammar import FormulaError
from nftop.uarch.topdown import RATIO_TOLERANCE

_CONTRADICT = Missing(Reason.ERROR, "its counts contradict each other: the share is not in 0..1")
_ASLEEP = Missing(Reason.IDLE, "the CPU slept for more than 95 % of the time")
_DEEPER = Missing(Reason.SOURCE, "only level 1 is counted by the kernel's own formulas")


def brings_topdown(table: CounterTable) -> bool:
    """Whether the table has formulas of top-down metrics, or says why it has none."""
    return any(
        metric.id in item for metric in TMA_METRICS for item in (table.formulas, table.details)
    )


def kernel_tma_columns(table: CounterTable, rates: CounterRates) -> Mapping[str, Column]:
    """Every `tma.` metric of the catalogue, ratios 0..1, rows as those of `rates`.

    The formulas are the table's own (`CounterTable.formulas`) over events per second of the time
    each was counted. They are of the logical CPU, as the kernel states them and `perf stat -A`
    shows them, not of the physical core. A share outside 0..1 by more than RATIO_TOLERANCE is
    ERROR, and so are then all of that row: which of the counts is wrong can't be seen. IDLE for a
    CPU that slept nearly all the time, where reference cycles tell.
    """
    rows = len(rates.coverage)
    formulas, unreadable = _compiled(table.formulas)
    nodes = {metric: formula(rates.per_s, rows) for metric, formula in formulas.items()}
    nodes |= {metric: missing(rows, why) for metric, why in unreadable.items()}
    odd = np.zeros(rows, dtype=np.bool_)
    for node in nodes.values():
        # NaN is in no interval, and compares as False.
        odd |= (node.values < -RATIO_TOLERANCE) | (node.values > 1 + RATIO_TOLERANCE)
    contradict, asleep = missing(rows, _CONTRADICT), missing(rows, _ASLEEP)
    slept = ratio(rates.rate("ref_cycles"), rates.rate("tsc")).values < ASLEEP_RATIO
    columns = {}
    for metric in (metric.id for metric in TMA_METRICS if metric.coverage):
        if metric in nodes:
            clipped = _clipped(nodes[metric])
            sound = where(odd & clipped.present, contradict, clipped)
            columns[metric] = where(slept & clipped.present, asleep, sound)
        else:
            columns[metric] = missing(rows, _why(table, metric))
    for coverage in (metric.id for metric in TMA_METRICS if not metric.coverage):
        ids = [metric.id for metric in TMA_METRICS if metric.coverage == coverage]
        columns[coverage] = _coverage(table, rates, {item: columns[item] for item in ids})
    return columns


def _compiled(texts: Mapping[str, str]) -> tuple[dict[str, Formula], dict[str, Missing]]:
    """The formulas, and why the others are none: a recording may hold any text."""
    formulas, unreadable = {}, {}
    for metric, text in texts.items():
        try:
            formulas[metric] = compile_formula(text)
        except FormulaError as error:
            unreadable[metric] = Missing(Reason.ERROR, f"its formula can't be read: {error}")
    return formulas, unreadable


def _clipped(node: Column) -> Column:
    return Column(np.clip(node.values, 0.0, 1.0), node.reasons, node.details, node.by_reason)


def _why(table: CounterTable, metric: str) -> Missing:
    said = table.details.get(metric, {})
    return next((Missing(Reason(reason), text) for reason, text in said.items()), _DEEPER)


def _coverage(table: CounterTable, rates: CounterRates, nodes: Mapping[str, Column]) -> Column:
    """The share of the interval of their least counted event; where no node is, the first's why."""
    rows = len(rates.coverage)
    share = np.full(rows, np.nan)
    formulas, _ = _compiled(table.formulas)
    for formula in (formula for metric, formula in formulas.items() if metric in nodes):
        for event in formula.names:
            share = np.fmin(share, rates.share(event).values)
    some: Bools = np.any([node.present for node in nodes.values()], axis=0)
    told = (nodes[metric] for metric in table.formulas if metric in nodes)
    return where(some, column(share), next(told, next(iter(nodes.values()))))
