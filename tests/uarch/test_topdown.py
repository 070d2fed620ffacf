"""The top-down formulas against values the vendor's own formulas gave, and their edges."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from nftop.model.column import Column, column, from_readings
from nftop.model.missing import Missing, Reading, Reason
from nftop.uarch import table
from nftop.uarch.topdown import RATIO_TOLERANCE, evaluate, evaluate_traffic
from tests.uarch import vectors

LEVEL_1 = ("frontend_bound", "bad_speculation", "backend_bound", "retiring")
LEVEL_2 = {
    "frontend_bound": ("fetch_latency", "fetch_bandwidth"),
    "bad_speculation": ("branch_mispredicts", "machine_clears"),
    "backend_bound": ("memory_bound", "core_bound"),
    "retiring": ("heavy_operations", "light_operations"),
}
METRICS = (*LEVEL_1, *(component for components in LEVEL_2.values() for component in components))
SKX = table.load("SKX")


def counts(vector: str, **changes: float) -> dict[str, float]:
    """The counts of one of SKX's vectors by our event names."""
    return {**vectors.counts("SKX", vector), **changes}


def one_row(numbers: Mapping[str, Reading]) -> dict[str, Column]:
    why = Missing(Reason.UNDEFINED)
    return {name: from_readings({0: number}, 1, why) for name, number in numbers.items()}


def metrics(numbers: Mapping[str, Reading], *, smt: bool = False) -> dict[str, Reading]:
    result = evaluate(SKX, one_row(numbers), smt=smt, levels=2)
    return {name.removeprefix("tma."): component[0] for name, component in result.items()}


def numbers(components: Mapping[str, Reading]) -> dict[str, float]:
    assert not [component for component in components.values() if isinstance(component, Missing)]
    return {
        name: component
        for name, component in components.items()
        if not isinstance(component, Missing)
    }


def test_rows_are_computed_side_by_side_as_alone() -> None:
    names = [name for name, vector in vectors.of("SKX").items() if not vector.smt]
    together = {
        event: column(np.array([counts(name)[event] for name in names]))
        for event in counts(names[0])
    }
    result = evaluate(SKX, together, smt=False)
    for row, name in enumerate(names):
        alone = metrics(counts(name))
        assert {metric: result[f"tma.{metric}"][row] for metric in METRICS} == alone


def test_no_cycle_is_no_ratio() -> None:
    for component in metrics(counts("edge_all_zero")).values():
        assert component == Missing(Reason.IDLE, Reason.IDLE.sentence)


def test_a_core_that_never_mispredicts_has_a_first_level_all_the_same() -> None:
    quiet = {"br_misp_retired_all_branches": 0.0, "machine_clears_count": 0.0}
    got = metrics(counts("vpp_ip4_route_noHT", **quiet))
    for component in ("branch_mispredicts", "machine_clears"):
        reading = got.pop(component)
        assert isinstance(reading, Missing) and reading.reason is Reason.IDLE
    assert len(numbers(got)) == len(METRICS) - 2


def test_what_is_not_counted_is_named_and_spares_the_rest() -> None:
    some = counts("vpp_ip4_route_noHT")
    del some["uops_retired_macro_fused"]
    held = Missing(Reason.TAKEN, "another program holds the counter")
    got = metrics({**some, "cycle_activity_stalls_mem_any": held})
    not_counted = Missing(Reason.SOURCE, "UOPS_RETIRED.MACRO_FUSED is not counted here")
    assert got["heavy_operations"] == got["light_operations"] == not_counted
    assert got["memory_bound"] == got["core_bound"] == held
    del got["heavy_operations"], got["light_operations"], got["memory_bound"], got["core_bound"]
    assert len(numbers(got)) == len(METRICS) - 4


def test_the_cycles_of_a_core_come_from_the_best_clock(snapshot: SnapshotAssertion) -> None:
    full = counts("mispredict_heavy_HT")
    expected = numbers(metrics(full, smt=True))
    core_cycles = full.pop("cycles_any") / 2
    for stand_in in ("busiest_cycles", "busiest_aperf"):
        got = numbers(metrics({**full, stand_in: core_cycles}, smt=True))
        assert got == pytest.approx(expected, rel=1e-12)
    without = metrics(full, smt=True)["retiring"]
    assert isinstance(without, Missing) and without.reason is Reason.SOURCE
    assert without.message == snapshot

    full = counts("vpp_ip4_route_noHT")
    expected = numbers(metrics(full))
    cycles = full.pop("cycles")
    assert numbers(metrics({**full, "aperf": cycles})) == pytest.approx(expected)


def test_a_core_with_an_offline_sibling_is_not_halved() -> None:
    """One thread counts ANY events once: the mean over threads is then that one count."""
    full = counts("vpp_ip4_route_noHT")
    expected = numbers(metrics(full))
    full["cycles_any"] = full["cycles"]
    full["int_misc_recovery_cycles_any"] = full.pop("int_misc_recovery_cycles")
    assert numbers(metrics({**full, "threads": 1.0}, smt=True)) == pytest.approx(expected)


def consistent() -> st.SearchStrategy[dict[str, float]]:
    """Counts as hardware could give them: parts that are no larger than their wholes."""

    def build(cycles: int, shares: list[float]) -> dict[str, float]:
        slots = 4.0 * cycles
        undelivered, recovery, issued = (share / 3 * slots for share in shares[:3])
        retired = issued * shares[3]
        fused = retired * shares[4]
        stalls, one, two, stores = (share * cycles / 4 for share in shares[5:9])
        return {
            "cycles": float(cycles),
            "idq_uops_not_delivered_core": undelivered,
            "int_misc_recovery_cycles": recovery / 4,
            "uops_issued_any": issued,
            "uops_retired_retire_slots": retired,
            "uops_retired_macro_fused": fused,
            "instructions": fused + retired * shares[9],
            "idq_uops_not_delivered_cycles_0_uops_deliv_core": undelivered / 4 * shares[10],
            "br_misp_retired_all_branches": 1e6 * shares[11],
            "machine_clears_count": 1e5,
            "cycle_activity_stalls_total": stalls,
            "cycle_activity_stalls_mem_any": stalls * shares[12],
            "exe_activity_1_ports_util": one,
            "exe_activity_2_ports_util": two,
            "exe_activity_bound_on_stores": 1.0 + stores,
        }

    shares = st.lists(st.floats(0, 1), min_size=13, max_size=13)
    return st.builds(build, st.integers(1000, 10**10), shares)


@given(consistent())
def test_ratios_are_ratios_and_components_add_up(given_counts: dict[str, float]) -> None:
    got = numbers(metrics(given_counts))
    assert all(0 <= value <= 1 for value in got.values())
    assert sum(got[name] for name in LEVEL_1) == pytest.approx(1, abs=1e-9)
    for parent, components in LEVEL_2.items():
        assert sum(got[component] for component in components) == pytest.approx(
            got[parent], abs=1e-9
        )


@given(consistent(), st.sampled_from(sorted(set(counts("vpp_ip4_route_noHT")))), st.floats(0, 50))
def test_skewed_counts_never_pass_as_ratios(
    given_counts: dict[str, float], event: str, factor: float
) -> None:
    if event in given_counts:
        given_counts[event] *= factor
    got = metrics(given_counts)
    for name, component in got.items():
        if isinstance(component, Missing):
            assert component.reason in (Reason.ERROR, Reason.IDLE), name
            continue
        assert 0 <= component <= 1
    for parent, components in LEVEL_2.items():
        family = {name: got[name] for name in components}
        if isinstance(got[parent], Missing):
            assert all(isinstance(component, Missing) for component in family.values())
        elif not any(isinstance(component, Missing) for component in family.values()):
            total = sum(numbers(family).values())
            assert total == pytest.approx(got[parent], abs=2 * RATIO_TOLERANCE)


def test_contradicting_nodes_are_all_withheld(snapshot: SnapshotAssertion) -> None:
    full = counts("vpp_ip4_route_noHT")
    twice = metrics({**full, "cycles": full["cycles"] / 2})
    for component in twice.values():
        assert isinstance(component, Missing) and component.reason is Reason.ERROR
        assert component.detail == snapshot
    # A part larger than its whole spoils its own family and no other.
    latency = full["idq_uops_not_delivered_cycles_0_uops_deliv_core"] * 4
    got = metrics({**full, "idq_uops_not_delivered_cycles_0_uops_deliv_core": latency})
    for name in LEVEL_2["frontend_bound"]:
        component = got.pop(name)
        wanted = "fetch_latency came out as 5.6%, but its whole as 2.5%"
        assert isinstance(component, Missing) and component.detail.startswith(wanted)
    assert len(numbers(got)) == len(METRICS) - 2


def of_register(**changes: float) -> dict[str, Reading]:
    """Level 1 and 2 of Sapphire Rapids from its register's counts, some of them changed."""
    spr = table.load("SPR")
    full = vectors.counts("SPR", "dram_latency_bound") | changes
    result = evaluate(spr, one_row(full), smt=False, levels=2)
    return {name.removeprefix("tma."): component[0] for name, component in result.items()}


def test_a_child_above_its_parent_is_seen_where_the_formulas_bound_the_rest(
    snapshot: SnapshotAssertion,
) -> None:
    full = vectors.counts("SPR", "dram_latency_bound")
    got = of_register(perf_metrics_memory_bound=full["topdown_slots"] * 0.97)
    for name in LEVEL_2["backend_bound"]:
        component = got.pop(name)
        assert isinstance(component, Missing) and component.reason is Reason.ERROR
        assert component.detail == snapshot
    assert len(numbers(got)) == len(METRICS) - 2


@pytest.mark.parametrize(("factor", "passes"), [(1.04, True), (1.06, False), (0.94, False)])
def test_the_register_shares_out_the_slots(factor: float, passes: bool) -> None:
    slots = vectors.counts("SPR", "dram_latency_bound")["topdown_slots"]
    got = of_register(topdown_slots=slots / factor)
    if passes:
        assert len(numbers(got)) == len(METRICS)
    for component in got.values() if not passes else ():
        assert isinstance(component, Missing) and component.reason is Reason.ERROR
        printed = f"the sum of the metrics came out as {factor:.1%} of TOPDOWN.SLOTS"
        assert component.detail.startswith(printed)


def test_more_than_all_slots_is_none_where_the_formulas_bound_the_rest() -> None:
    spr = vectors.counts("SPR", "dram_latency_bound")
    slots = spr["topdown_slots"]
    general = {
        "cycles": spr["cycles"],
        "distributed_cycles": slots / 6,
        "undelivered_slots": slots * 0.5,
        "backend_bound_slots": slots * 0.5,
        "uops_retired_slots": slots * 0.3,
        "int_misc_uop_dropping": 0.0,
    }
    result = evaluate(table.load("SPR"), one_row(general), smt=False, levels=1)
    for component in (node[0] for node in result.values()):
        assert isinstance(component, Missing) and component.reason is Reason.ERROR
        assert " came out as 130.0%" in component.detail


def test_a_node_that_is_not_counted_stays_so_next_to_a_contradiction() -> None:
    full: dict[str, Reading] = dict(counts("vpp_ip4_route_noHT"))
    held = Missing(Reason.TAKEN, "another program holds the counter")
    got = metrics({**full, "cycles": 1e9, "idq_uops_not_delivered_core": held})
    assert got["frontend_bound"] == got["backend_bound"] == held
    retiring = got["retiring"]
    assert isinstance(retiring, Missing) and retiring.reason is Reason.ERROR


@pytest.mark.parametrize(("beyond", "passes"), [(0.9, True), (1.1, False)])
def test_a_negative_from_skew_is_zero_up_to_the_tolerance(beyond: float, passes: bool) -> None:
    full = counts("vpp_ip4_route_noHT")
    excess = full["uops_issued_any"] + 4 * full["int_misc_recovery_cycles"]
    skewed = excess + beyond * RATIO_TOLERANCE * 4 * full["cycles"]
    got = metrics({**full, "uops_retired_retire_slots": skewed})["bad_speculation"]
    if passes:
        assert got == 0.0
    else:
        assert isinstance(got, Missing) and got.reason is Reason.ERROR


def test_one_bad_row_leaves_the_others_alone() -> None:
    full = counts("vpp_ip4_route_noHT")
    columns = {event: column(np.array([value] * 3)) for event, value in full.items()}
    columns["cycles"] = column(np.array([full["cycles"], 1.0, full["cycles"]]))
    retiring = evaluate(SKX, columns, smt=False)["tma.retiring"]
    assert retiring[0] == retiring[2] == pytest.approx(0.574, abs=1e-9)
    assert retiring.reasons.tolist() == [Reason.PRESENT, Reason.ERROR, Reason.PRESENT]


def test_a_table_without_topdown_has_none_and_no_counts_are_no_rows() -> None:
    assert evaluate(table.load(), one_row({"cycles": 1.0}), smt=False) == {}
    assert [len(component) for component in evaluate(SKX, {}, smt=True, levels=2).values()] == [
        0
    ] * len(METRICS)


def test_traffic_is_lines_of_64_bytes() -> None:
    held = Missing(Reason.PERMISSION, "needs CAP_PERFMON")
    rates: dict[str, Reading] = {
        "itom_hit": 7e6,
        "itom_miss": 3e6,
        "rfo_hit": 1e6,
        "rfo_miss": 5e5,
        "pcirdcur_hit": 2e6,
        "pcirdcur_miss": held,
        "cas_read": 1e9,
    }
    got = {name: component[0] for name, component in evaluate_traffic(SKX, one_row(rates)).items()}
    reported = {name for name in got if re.match(r"memory|pcie\.(?!.rd)", name)}
    assert {name: got[name] for name in reported} == {
        "pcie.pcirdcur.hit_per_s": 2e6,
        "pcie.pcirdcur.miss_per_s": held,
        "pcie.pcirdcur.total_per_s": held,
        "pcie.rfo.hit_per_s": 1e6,
        "pcie.rfo.miss_per_s": 5e5,
        "pcie.rfo.total_per_s": 1.5e6,
        "pcie.itom.hit_per_s": 7e6,
        "pcie.itom.miss_per_s": 3e6,
        "pcie.itom.total_per_s": 1e7,
        "pcie.ddio_hit_ratio": 8e6 / 11.5e6,
        "pcie.read_bytes_per_s": held,
        "pcie.write_bytes_per_s": 736e6,
        "memory.read_bytes_per_s": 64e9,
        "memory.write_bytes_per_s": Missing(
            Reason.SOURCE, "UNC_M_CAS_COUNT.WR is not counted here"
        ),
    }
