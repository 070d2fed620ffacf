"""Every table's top-down formulas against values the vendors' own formulas gave."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.model.column import column
from nftop.model.missing import Missing, Reading, Reason
from nftop.uarch.topdown import CHILD_TOLERANCE, RATIO_TOLERANCE, evaluate
from tests.uarch import vectors
from tests.uarch.vectors import UARCHES, loaded

NAMES = (
    "vpp_ip4_route_noHT",
    "testpmd_idle_poll",
    "dram_latency_bound",
    "mispredict_heavy_HT",
    "edge_all_zero",
    "edge_threshold_below",
)


def metrics(uarch: str, counts: dict[str, float], *, smt: bool) -> dict[str, Reading]:
    columns = {event: column(np.array([count])) for event, count in counts.items()}
    nodes = evaluate(loaded(uarch), columns, smt=smt)
    return {name.removeprefix("tma."): node[0] for name, node in nodes.items()}


@pytest.mark.parametrize("uarch", UARCHES)
def test_the_vectors_are_complete(uarch: str) -> None:
    assert tuple(vectors.of(uarch)) == NAMES
    with_smt = {name for name, vector in vectors.of(uarch).items() if vector.smt}
    assert with_smt == (set() if uarch == "SRF" else {"mispredict_heavy_HT"})


@pytest.mark.parametrize("name", [name for name in NAMES if name != "edge_all_zero"])
@pytest.mark.parametrize("uarch", UARCHES)
def test_a_vector_gives_the_vendor_s_values(uarch: str, name: str) -> None:
    vector = vectors.of(uarch)[name]
    got = metrics(uarch, vectors.counts(uarch, name), smt=vector.smt)
    assert set(got) == set(vector.ratios)
    topdown = loaded(uarch).topdown
    assert topdown
    for metric, ratio in vector.ratios.items():
        value = got[metric]
        if ratio is not None and ratio > 1:
            assert metric in topdown.of_cycles & topdown.estimated, metric
            assert isinstance(value, Missing) and value.reason is Reason.UNDEFINED, metric
            continue
        assert not isinstance(value, Missing), metric
        assert value == pytest.approx(ratio, rel=1e-9, abs=1e-15), metric


@pytest.mark.parametrize("uarch", UARCHES)
def test_no_cycle_is_no_ratio(uarch: str) -> None:
    got = metrics(uarch, vectors.counts(uarch, "edge_all_zero"), smt=False)
    values = {
        name: component for name, component in got.items() if not isinstance(component, Missing)
    }
    assert values == {}
    assert {component.reason for component in got.values() if isinstance(component, Missing)} == {
        Reason.IDLE
    }


@given(
    st.sampled_from(UARCHES),
    st.sampled_from([name for name in NAMES if name != "edge_all_zero"]),
    st.dictionaries(st.integers(0, 60), st.floats(0, 50), max_size=3),
)
def test_skewed_counts_never_pass_as_ratios(uarch: str, name: str, skew: dict[int, float]) -> None:
    counts = vectors.counts(uarch, name)
    events = sorted(counts)
    for index, factor in skew.items():
        counts[events[index % len(events)]] *= factor
    topdown = loaded(uarch).topdown
    assert topdown
    got = metrics(uarch, counts, smt=vectors.of(uarch)[name].smt)
    for metric, component in got.items():
        if isinstance(component, Missing):
            overlap = metric in topdown.of_cycles & topdown.estimated
            assert component.reason in (Reason.ERROR, Reason.IDLE) or overlap, metric
        else:
            assert 0 <= component <= 1, metric
            parent = topdown.parent.get(metric)
            if parent is not None:
                whole = got[parent]
                assert not isinstance(whole, Missing), metric
                # Shares of cycles are no parts of shares of slots.
                alone = metric in topdown.of_cycles | topdown.estimated
                most = 1 if alone else whole + CHILD_TOLERANCE
                assert component <= most, metric


@pytest.mark.parametrize("name", [name for name in NAMES if name != "edge_all_zero"])
@pytest.mark.parametrize("uarch", UARCHES)
def test_level_1_sums_to_one_and_children_to_their_parent(uarch: str, name: str) -> None:
    smt = vectors.of(uarch)[name].smt
    got = metrics(uarch, vectors.counts(uarch, name), smt=smt)
    numbers = {
        metric: component for metric, component in got.items() if not isinstance(component, Missing)
    }
    topdown = loaded(uarch).topdown
    assert topdown
    families: dict[str | None, list[float]] = {}
    for metric, value in numbers.items():
        if topdown.level[metric] <= 2:
            families.setdefault(topdown.parent.get(metric), []).append(value)
    for parent, components in families.items():
        whole = 1.0 if parent is None else numbers[parent]
        assert sum(components) == pytest.approx(whole, abs=2 * RATIO_TOLERANCE), parent


# By event of PERF_METRICS, what counts the same slots on a general counter.
STAND_INS = {
    "perf_metrics_frontend_bound": "undelivered_slots",
    "perf_metrics_backend_bound": "backend_bound_slots",
    "perf_metrics_retiring": "uops_retired_slots",
    "perf_metrics_branch_mispredicts": "br_mispredict_slots",
    "perf_metrics_memory_bound": "memory_bound_slots",
    "perf_metrics_heavy_operations": "uops_retired_heavy",
}


@pytest.mark.parametrize("name", [name for name in NAMES if name != "edge_all_zero"])
@pytest.mark.parametrize("uarch", ["ICX", "SPR", "EMR", "GNR"])
def test_general_counters_do_without_the_register(uarch: str, name: str) -> None:
    counts = vectors.counts(uarch, name)
    metrics_sum = sum(
        counts[f"perf_metrics_{component}"]
        for component in ("frontend_bound", "bad_speculation", "backend_bound", "retiring")
    )
    topdown = loaded(uarch).topdown
    assert topdown
    width = topdown.slots_per_cycle
    scale = counts["topdown_slots"] / metrics_sum
    counts |= {
        stand_in: counts[event] * scale for event, stand_in in STAND_INS.items() if event in counts
    }
    if "perf_metrics_fetch_latency" in counts:
        counts["undelivered_cycles"] = counts["perf_metrics_fetch_latency"] * scale / width
    counts["distributed_cycles"] = counts["topdown_slots"] / width
    smt = vectors.of(uarch)[name].smt
    wanted = metrics(uarch, counts, smt=smt)
    general = {
        event: count
        for event, count in counts.items()
        if event != "topdown_slots" and not event.startswith("perf_metrics_")
    }
    got = metrics(uarch, general, smt=smt)
    for metric, level in topdown.level.items():
        if level <= 2:
            assert got[metric] == pytest.approx(wanted[metric], abs=1e-12), metric
