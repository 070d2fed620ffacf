"""A workload's shares of slots come back from the raw codes and formulas of every table."""

from __future__ import annotations

import numpy as np
import pytest

from nftop.model.column import Column, column
from nftop.sim import scenario, workloads
from nftop.sim.events import factors_of
from nftop.sim.model import model_of
from nftop.sim.rates import rates_alone
from nftop.sim.workloads import INDEX
from nftop.uarch import table
from nftop.uarch.table import EventSpec
from nftop.uarch.topdown import evaluate
from tests.uarch.counters import core_encoding, on_core

UARCHS = ("BDX", "SKX", "CLX", "ICX", "SPR")
WORKLOADS = (*workloads.names(), "poll", "system", "memtester")
# Nodes of the tables, and what the workloads call the same shares.
SHARES = {
    "frontend_bound": "frontend_bound",
    "bad_speculation": "bad_speculation",
    "backend_bound": "backend_bound",
    "retiring": "retiring",
    "fetch_latency": "fetch_latency",
    "branch_mispredicts": "mispredicts",
    "memory_bound": "memory_bound",
    "heavy_operations": "heavy",
}


def counted(event: EventSpec) -> EventSpec:
    """As a counter gets it."""
    return core_encoding(event) if on_core(event) else event


def levels(
    uarch: str, workload: str, *, lacking: str | None = None, depth: int = 2
) -> dict[str, Column]:
    """By the table's formulas, of what a thread alone on its core counts in a second.

    `lacking`: what the names of events begin with that there are none of.
    """
    rates = rates_alone(workloads.load(workload))
    known = table.load(uarch).with_smt(on=False)
    columns = {}
    for name, spec in known.events.items():
        quantities = factors_of(counted(spec), uarch)
        if quantities is not None and not (lacking and name.startswith(lacking)):
            rate = sum(factor * rates[INDEX[key]] for key, factor in quantities.items())
            columns[name] = column(np.array([rate]))
    return evaluate(known, columns, smt=False, levels=depth)


def check(uarch: str, workload: str, result: dict[str, Column]) -> None:
    slots = workloads.load(workload).slots
    # Slots lost to clears count as backend on Ice Lake, a fortieth of all bad speculation.
    moved = slots["bad_speculation"] / 40 if uarch == "ICX" else 0.0
    for node, name in SHARES.items():
        assert result[f"tma.{node}"][0] == pytest.approx(slots[name], abs=moved + 1e-12), node


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("uarch", UARCHS)
def test_shares_are_the_workloads(uarch: str, workload: str) -> None:
    check(uarch, workload, levels(uarch, workload))


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("uarch", ["ICX", "SPR"])
def test_without_perf_metrics_shares_are_the_same(uarch: str, workload: str) -> None:
    check(uarch, workload, levels(uarch, workload, lacking="perf_metrics"))


@pytest.mark.parametrize("smt", [True, False])
@pytest.mark.parametrize("uarch", UARCHS)
def test_every_event_of_a_group_is_counted(uarch: str, smt: bool) -> None:
    known = table.load(uarch).with_smt(on=smt)
    groups = [*known.deep_groups, *(group for plan in known.plans for group in plan.groups)]
    names = {name for group in groups for name in group}
    lacking = [
        name for name in sorted(names) if factors_of(counted(known.events[name]), uarch) is None
    ]
    assert not lacking


@pytest.mark.parametrize("uarch", UARCHS)
def test_no_code_of_a_table_counts_backwards(uarch: str) -> None:
    model = model_of(scenario.load("default"), 88)
    for name, spec in table.load(uarch).events.items():
        for factors in filter(None, [factors_of(counted(spec), uarch)]):
            weights = np.zeros(len(INDEX))
            for key, factor in factors.items():
                weights[INDEX[key]] = factor
            slowest = model.steady @ weights - np.abs(model.swinging @ weights)
            assert (slowest >= -1e-3).all(), name
