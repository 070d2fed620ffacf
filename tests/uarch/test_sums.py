"""Parts whose sum contradicts their whole: Sierra Forest has an event for each of them."""

from __future__ import annotations

import numpy as np
import pytest

from nftop.model.column import column
from nftop.model.missing import Missing, Reading, Reason
from nftop.uarch.topdown import CHILD_TOLERANCE, DEFICIT_TOLERANCE, evaluate
from tests.uarch.vectors import loaded

LEVEL_1 = ("frontend_bound", "bad_speculation", "backend_bound", "retiring")
CYCLES = 1_000_000.0
SLOTS = 6 * CYCLES


def shares(**changes: float) -> dict[str, Reading]:
    """Top-down of a core from shares of its slots by event, without `topdown_`."""
    of_slots = {
        "fe_bound_all_p": 0.3,
        "bad_speculation_all_p": 0.1,
        "be_bound_all_p": 0.2,
        "retiring_all_p": 0.4,
        "fe_bound_frontend_latency": 0.2,
        "fe_bound_frontend_bandwidth": 0.1,
        "bad_speculation_mispredict": 0.07,
        "bad_speculation_machine_clears": 0.03,
        "be_bound_alloc_restrictions": 0.05,
        "be_bound_mem_scheduler": 0.02,
        "be_bound_non_mem_scheduler": 0.02,
        "be_bound_register": 0.02,
        "be_bound_reorder_buffer": 0.02,
        "be_bound_serialization": 0.02,
    } | changes
    counts = {
        f"topdown_{name}": column(np.array([share * SLOTS])) for name, share in of_slots.items()
    }
    nodes = evaluate(loaded("SRF"), {"cycles": column(np.array([CYCLES])), **counts}, smt=False)
    return {name.removeprefix("tma."): component[0] for name, component in nodes.items()}


def refused(nodes: dict[str, Reading]) -> set[str]:
    return {
        name
        for name, component in nodes.items()
        if isinstance(component, Missing) and component.reason is Reason.ERROR
    }


@pytest.mark.parametrize(
    ("retiring", "shown"),
    [
        (0.4, True),
        (0.4 - DEFICIT_TOLERANCE + 0.001, True),
        (0.4 - DEFICIT_TOLERANCE - 0.001, False),
        (0.4 + CHILD_TOLERANCE - 0.001, True),
        (0.4 + CHILD_TOLERANCE + 0.001, False),
    ],
)
def test_level_1_is_all_slots_or_none(retiring: float, shown: bool) -> None:
    nodes = shares(retiring_all_p=retiring)
    assert set(LEVEL_1).isdisjoint(refused(nodes)) is shown
    assert shown or set(LEVEL_1) <= refused(nodes)


def test_half_of_the_slots_is_no_level_1() -> None:
    """Two events that did not count: each node alone would pass for a ratio."""
    nodes = shares(bad_speculation_all_p=0.0, retiring_all_p=0.0)
    assert set(LEVEL_1) <= refused(nodes)
    assert all(isinstance(component, Missing) for component in nodes.values()), (
        "and nothing below it"
    )


def test_components_that_together_exceed_their_whole_are_none() -> None:
    nodes = shares(fe_bound_frontend_latency=0.18, fe_bound_frontend_bandwidth=0.18)
    assert refused(nodes) >= {"ifetch_latency", "ifetch_bandwidth"}
    assert nodes["frontend_bound"] == pytest.approx(0.3)
    assert nodes["branch_mispredicts"] == pytest.approx(0.07)


def test_children_that_are_exhaustive_sum_to_their_parent() -> None:
    nodes = shares(fe_bound_frontend_latency=0.05, fe_bound_frontend_bandwidth=0.1)
    assert refused(nodes) >= {"ifetch_latency", "ifetch_bandwidth"}


def test_level_3_may_leave_something_out_and_exceed_nothing() -> None:
    resource = ("mem_scheduler", "non_mem_scheduler", "register", "reorder_buffer", "serialization")
    nodes = shares()  # 0.10 of 0.15
    assert refused(nodes).isdisjoint(resource)
    nodes = shares(be_bound_register=0.08, be_bound_reorder_buffer=0.08)  # 0.22 of 0.15
    assert refused(nodes) >= set(resource)
    assert nodes["resource_bound"] == pytest.approx(0.15)


@pytest.mark.parametrize("uarch", ["ICX", "SPR", "EMR", "GNR"])
def test_perf_metrics_that_lack_half_are_no_level_1(uarch: str) -> None:
    """Their sum is held against the slots: shares of themselves always add up."""
    counts = {
        "topdown_slots": 1000.0,
        "perf_metrics_retiring": 250.0,
        "perf_metrics_bad_speculation": 50.0,
        "perf_metrics_frontend_bound": 100.0,
        "perf_metrics_backend_bound": 100.0,
        "int_misc_uop_dropping": 0.0,
        "int_misc_clears_count": 0.0,
        "cycles": 200.0,
    }
    columns = {name: column(np.array([count])) for name, count in counts.items()}
    nodes = evaluate(loaded(uarch), columns, smt=True, levels=1)
    assert {name.removeprefix("tma.") for name in nodes} == set(LEVEL_1)
    assert {Reason(int(component.reasons[0])) for component in nodes.values()} == {Reason.ERROR}
