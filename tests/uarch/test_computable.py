"""Which top-down metrics can be computed of which events."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.model.column import column, missing
from nftop.model.missing import Missing, Reason
from nftop.uarch.formula import compile_formula, has_inputs
from nftop.uarch.table import load
from nftop.uarch.topdown import computable, events_read

NAMES = ("a", "b", "c")
FORMULAS = (
    "a + b / c",
    "first(a, b)",
    "first(a / c, b) + 1",
    "max(a, b)",
    "a if b < c else 2",
    "7",
)


@given(known=st.frozensets(st.sampled_from(NAMES)), text=st.sampled_from(FORMULAS))
def test_a_formula_has_its_inputs_where_it_has_a_value(known: frozenset[str], text: str) -> None:
    absent = missing(1, Missing(Reason.SOURCE))
    columns = {
        name: column(np.array([1.5 + index])) if name in known else absent
        for index, name in enumerate(NAMES)
    }
    value = compile_formula(text)(columns, 1)[0]
    assert has_inputs(text, known) is not isinstance(value, Missing)


@pytest.mark.parametrize("uarch", ["ICX", "SPR", "EMR", "GNR"])
def test_other_events_report_what_perf_metrics_do(uarch: str) -> None:
    known = load(uarch)
    metrics, by_slots = known.plans[0], known.plans[2]
    events = [{name for group in plan.groups for name in group} for plan in (metrics, by_slots)]
    assert any(name.startswith("perf_metrics_") for name in events[0])
    assert not any(name.startswith("perf_metrics_") for name in events[1])
    best, other = (computable(known, event, smt=True) for event in events)
    assert best == other
    assert {"retiring", "memory_bound"} <= best
    assert not computable(known, known.plans[-1].events, smt=True)
    assert "retiring" not in computable(known, events[1] - {"uops_retired_slots"}, smt=True)


# Any of them may be absent.
CLOCKS = {"cycles", "aperf", "cycles_any", "one_thread_active", "ref_xclk"}


@pytest.mark.parametrize("smt", [True, False])
def test_the_events_behind_a_node_are_those_it_can_t_do_without(smt: bool) -> None:
    known = load("SKX").with_smt(on=smt)
    assert known.topdown is not None
    read = events_read(known.topdown.formulas(smt=smt))
    assert read["retiring"] >= {"cycles", "uops_retired_retire_slots"}
    assert "cycle_activity_stalls_mem_any" not in read["retiring"]
    assert read["core_bound"] >= read["memory_bound"] | read["backend_bound"]
    every = frozenset().union(*read.values())
    assert every <= known.events.keys()
    for node in ("retiring", "fetch_latency", "memory_bound", "machine_clears"):
        # An event that is the node's own may not be absent.
        for event in read[node] - CLOCKS:
            assert node not in computable(known, every - {event}, smt=smt), event
