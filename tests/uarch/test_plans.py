"""The plans of every table: they fit the counters, and count what the formulas read."""

from __future__ import annotations

import numpy as np
import pytest

from nftop.model.column import column
from nftop.model.missing import Missing, Reason
from nftop.uarch import table
from nftop.uarch.events import PmuTerms
from nftop.uarch.table import Plan
from nftop.uarch.topdown import evaluate
from tests.uarch.counters import assigned, counting_mask
from tests.uarch.vectors import UARCHES, loaded

OLD = tuple(name for name in ("HSX", "BDX", "SKX", "CLX") if name in UARCHES)
NEW = tuple(name for name in UARCHES if name not in OLD)
# Hyper-threading, general counters: on Skylake and before a thread has half of them with it, and
# keeps to that when its sibling is offline.
HOSTS = [(name, *host) for name in OLD for host in ((True, 4), (False, 8), (False, 4))] + [
    (name, smt, 8) for name in NEW for smt in (True, False)
]


def topdown_plans(uarch: str, *, smt: bool) -> list[Plan]:
    """Those that count level 1."""
    return [plan for plan in loaded(uarch).with_smt(on=smt).plans if len(plan.needs) > 2]


def uncounted(uarch: str, events: set[str], *, smt: bool, levels: int) -> set[str]:
    """The nodes that lack an event, when these are counted."""
    ones = {event: column(np.ones(1)) for event in events}
    ones |= {f"busiest_{clock}": ones[clock] for clock in ("cycles", "aperf") if clock in ones}
    nodes = evaluate(loaded(uarch), ones, smt=smt, levels=levels)
    readings = {name: node[0] for name, node in nodes.items()}
    return {
        name
        for name, reading in readings.items()
        if isinstance(reading, Missing) and reading.reason is Reason.SOURCE
    }


@pytest.mark.parametrize("watchdog", [False, True])
@pytest.mark.parametrize(("uarch", "smt", "general"), HOSTS)
def test_some_topdown_plan_fits_any_number_of_counters(
    uarch: str, smt: bool, general: int, watchdog: bool
) -> None:
    for plan in topdown_plans(uarch, smt=smt):
        given = [assigned(uarch, g, general=general, watchdog=watchdog) for g in plan.groups]
        if None not in given:
            break
    else:
        pytest.fail("no plan fits")
    # Cycles of the core are counted without the watchdog's counter, and IPC with them.
    assert {"cycles", "aperf"} & set(plan.events)


@pytest.mark.parametrize("watchdog", [False, True])
@pytest.mark.parametrize(("uarch", "smt", "general"), HOSTS)
def test_every_event_is_on_a_counter_that_can_count_it(
    uarch: str, smt: bool, general: int, watchdog: bool
) -> None:
    wrong = []
    for plan in topdown_plans(uarch, smt=smt):
        for group in plan.groups:
            given = assigned(uarch, group, general=general, watchdog=watchdog)
            wrong += [
                (event, counter)
                for event, counter in (given or {}).items()
                if not counting_mask(uarch, event) >> counter & 1
            ]
    assert wrong == []


@pytest.mark.parametrize("watchdog", [False, True])
@pytest.mark.parametrize(("uarch", "smt", "general"), HOSTS)
def test_a_turn_fits_wherever_the_plan_s_own_group_does(
    uarch: str, smt: bool, general: int, watchdog: bool
) -> None:
    for plan in topdown_plans(uarch, smt=smt):
        fits = [
            assigned(uarch, group, general=general, watchdog=watchdog) is not None
            for group in plan.groups
        ]
        assert all(fits) or not fits[0]


@pytest.mark.parametrize("smt", [True, False])
@pytest.mark.parametrize("uarch", UARCHES)
def test_a_plan_counts_level_1_at_a_time_and_level_2_in_turns(uarch: str, smt: bool) -> None:
    assert topdown_plans(uarch, smt=smt)
    for plan in topdown_plans(uarch, smt=smt):
        assert uncounted(uarch, set(plan.events), smt=smt, levels=1) == set()
        counted = {event for group in plan.groups for event in group}
        assert uncounted(uarch, counted, smt=smt, levels=2) == set()
        assert "llc_misses" in counted
        assert uncounted(uarch, set(plan.needs), smt=smt, levels=1) == set(), (
            "nor less than level 1"
        )
        for group in plan.groups:
            # So that IPC, frequency and context switches are counted all the time.
            assert {"instructions", "ref_cycles", "tsc", "context_switches"} <= set(group)
            assert {"cycles", "aperf"} & set(group)


@pytest.mark.parametrize("uarch", [name for name in NEW if name != "SRF"])
def test_slots_lead_the_group_that_has_shares_of_them(uarch: str) -> None:
    known = loaded(uarch)
    holders = [
        group
        for plan in known.plans
        for group in plan.groups
        if any(event.startswith("perf_metrics_") for event in group)
    ]
    assert holders
    assert {group[0] for group in holders} == {"topdown_slots"}


@pytest.mark.parametrize("uarch", UARCHES)
def test_a_host_s_hyper_threading_chooses_the_plans(uarch: str) -> None:
    known = loaded(uarch)
    for smt in (True, False):
        chosen = known.with_smt(on=smt)
        assert {plan.smt for plan in chosen.plans} <= {smt, None}
        # What every table gives, so that IPC, CPP and frequency need not know the CPU.
        generic = table.load()
        assert set(generic.main_events) <= set(chosen.main_events)
        assert chosen.plans[-1] == generic.plans[-1]


@pytest.mark.parametrize("smt", [True, False])
@pytest.mark.parametrize("uarch", UARCHES)
def test_what_the_best_plan_does_without_is_no_gap(uarch: str, smt: bool) -> None:
    chosen = loaded(uarch).with_smt(on=smt)
    assert set(chosen.main_events) - set(chosen.plans[0].events) <= chosen.extras


@pytest.mark.parametrize("uarch", UARCHES)
def test_what_counts_for_the_whole_core_is_known(uarch: str) -> None:
    whole = {"cycles_any", "int_misc_recovery_cycles_any"} if uarch in OLD else set()
    if uarch == "HSX":  # UOPS_EXECUTED.CORE
        whole |= {f"uops_executed_cycles_ge_{few}" for few in (1, 2, 3)} | {"uops_executed_core_0"}
    elif uarch == "BDX":
        whole |= {f"uops_executed_core_{few}" for few in (0, 1, 2, 3)}
    elif uarch in OLD:
        whole |= {f"uops_executed_core_cycles_ge_{few}" for few in (1, 2, 3)}
    if uarch in OLD:
        whole.add("offcore_requests_buffer_sq_full")
    any_thread = {
        name
        for name, spec in loaded(uarch).events.items()
        if isinstance(spec, PmuTerms) and "any=1" in spec.terms.split(",")
    }
    assert any_thread <= loaded(uarch).of_core
    assert loaded(uarch).of_core == whole
    for smt in (True, False):
        counted = set(loaded(uarch).with_smt(on=smt).main_events)
        recovery = {event for event in counted if event.startswith("int_misc_recovery")}
        wanted = "int_misc_recovery_cycles_any" if smt else "int_misc_recovery_cycles"
        assert recovery == ({wanted} if uarch in OLD else set())
