"""The groups of the core looked at: they fit the counters, and count what is read of it."""

from __future__ import annotations

import pytest

from nftop.model.metrics.probes import CORE_METRICS
from nftop.model.missing import Missing, Reason
from nftop.uarch.focus import evaluate_focus
from tests.uarch.counters import assigned, core_encoding, counting_mask, on_core
from tests.uarch.test_plans import HOSTS, topdown_plans
from tests.uarch.vectors import UARCHES, loaded

CLOCKS = {"instructions", "ref_cycles", "tsc", "context_switches"}
# What no event of the E-cores tells.
UNKNOWN = {"SRF": {"load_latency_cycles", "load_latency_ns", "snoop_miss_per_s"}}


@pytest.mark.parametrize("watchdog", [False, True])
@pytest.mark.parametrize(("uarch", "smt", "general"), HOSTS)
def test_every_group_fits_on_counters_that_can_count_it(
    uarch: str, smt: bool, general: int, watchdog: bool
) -> None:
    assert loaded(uarch).deep_groups
    for group in loaded(uarch).deep_groups:
        given = assigned(uarch, group, general=general, watchdog=watchdog)
        assert given is not None, group
        for event, counter in given.items():
            assert counting_mask(uarch, event) >> counter & 1, event


@pytest.mark.parametrize("watchdog", [False, True])
def test_what_errs_with_hyper_threading_takes_half_the_counters(watchdog: bool) -> None:
    """Kernels leave a thread of Haswell two counters beside one of these events, erratum HSD29."""
    halved = 0
    for group in loaded("HSX").deep_groups:
        given = assigned("HSX", group, general=4, watchdog=watchdog)
        assert given
        specs = [loaded("HSX").events[event] for event in given]
        if any(0xD0 <= core_encoding(spec).config & 0xFF <= 0xD3 for spec in specs):
            halved += 1
            assert len(given) <= 2, group
    assert halved


@pytest.mark.parametrize("uarch", UARCHES)
def test_a_core_has_two_registers_for_responses_of_the_uncore(uarch: str) -> None:
    known = loaded(uarch)
    for group in known.deep_groups:
        specs = [known.events[event] for event in group if on_core(known.events[event])]
        registers = {core_encoding(spec).config1 for spec in specs} - {0}
        assert len(registers) <= 2


@pytest.mark.parametrize("uarch", UARCHES)
def test_every_group_begins_with_its_own_clocks(uarch: str) -> None:
    known = loaded(uarch)
    for group in known.deep_groups:
        clocks = CLOCKS | ({"cycles"} if "cycles" in group else {"aperf"})
        assert set(group[: len(clocks)]) == clocks
    # Each of their events once, or its rate would be a mean over groups.
    counted = [event for group in known.deep_groups for event in group]
    assert all(
        counted.count(event) == 1 for event in counted if event not in CLOCKS | {"cycles", "aperf"}
    )


@pytest.mark.parametrize("smt", [True, False])
@pytest.mark.parametrize("uarch", UARCHES)
def test_with_a_plan_and_its_turns_they_count_all_that_is_read(uarch: str, smt: bool) -> None:
    known = loaded(uarch)
    for plan in topdown_plans(uarch, smt=smt):
        groups = (*plan.groups, *known.deep_groups)
        ones = {event: 1.0 for group in groups for event in group}
        ones |= {f"busiest_{clock}": 1.0 for clock in ("cycles", "aperf") if clock in ones}
        tree, probes = evaluate_focus(known, ones, smt=smt)
        uncounted = {
            name
            for name, reading in ({node.name: node.reading for node in tree} | probes).items()
            if isinstance(reading, Missing) and reading.reason is Reason.SOURCE
        }
        assert uncounted == set()
        assert known.topdown and {node.name for node in tree} == set(known.topdown.level)
        missing = {name for name, reading in probes.items() if isinstance(reading, Missing)}
        assert missing == UNKNOWN.get(uarch, set())
        assert probes.keys() == {metric.id for metric in CORE_METRICS}


@pytest.mark.parametrize("uarch", UARCHES)
def test_they_count_nothing_that_a_plan_does_already(uarch: str) -> None:
    known = loaded(uarch)
    for smt in (True, False):
        for plan in topdown_plans(uarch, smt=smt):
            planned = {event for group in plan.groups for event in group}
            also = planned & {event for group in known.deep_groups for event in group}
            assert also <= CLOCKS | {"cycles", "aperf"}
