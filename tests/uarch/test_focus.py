"""The core looked at: its tree against values the vendors' formulas gave, and its probes."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from nftop.model.frame import TmaNode
from nftop.model.metrics.catalogue import EXPLAINED
from nftop.model.metrics.probes import CORE_METRICS
from nftop.model.missing import Missing, Reading, Reason
from nftop.uarch import table
from nftop.uarch.focus import evaluate_focus, tree
from nftop.uarch.topdown import OVERLAP
from tests.uarch import vectors
from tests.uarch.vectors import UARCHES, loaded

NAMES = [name for name in vectors.of("SKX") if name != "edge_all_zero"]
HELD = Missing(Reason.TAKEN, "another program holds the counter")


def tree_of(uarch: str, vector: str) -> tuple[TmaNode, ...]:
    smt = vectors.of(uarch)[vector].smt
    return evaluate_focus(loaded(uarch), vectors.counts(uarch, vector), smt=smt)[0]


def probes_of(uarch: str, counts: Mapping[str, Reading], *, smt: bool) -> dict[str, Reading]:
    return evaluate_focus(loaded(uarch), counts, smt=smt)[1]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("uarch", UARCHES)
def test_the_tree_has_the_vendor_s_values(uarch: str, name: str) -> None:
    ratios = vectors.of(uarch)[name].ratios
    nodes = tree_of(uarch, name)
    assert {node.name for node in nodes} == ratios.keys()
    assert len(nodes) == len(ratios)
    for node in nodes:
        ratio = ratios[node.name]
        if ratio is not None and ratio > 1:
            assert node.reading == OVERLAP, node.name
        else:
            assert node.reading == pytest.approx(ratio, rel=1e-9, abs=1e-15), node.name


@pytest.mark.parametrize("uarch", UARCHES)
def test_a_node_stands_behind_its_parent_with_all_that_is_below_it(uarch: str) -> None:
    topdown = loaded(uarch).topdown
    assert topdown
    path: list[TmaNode] = []
    for node in tree_of(uarch, NAMES[0]):
        del path[node.level - 1 :]
        assert node.parent == (path[-1].name if path else None)
        assert node.level == len(path) + 1
        assert node.of == ("cycles" if node.name in topdown.of_cycles else "slots")
        path.append(node)
    order = list(topdown.level)
    roots = [node.name for node in tree_of(uarch, NAMES[0]) if node.parent is None]
    assert roots == sorted(roots, key=order.index)
    assert roots == ["frontend_bound", "bad_speculation", "backend_bound", "retiring"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("uarch", UARCHES)
def test_beyond_is_above_the_threshold_and_so_is_all_above(uarch: str, name: str) -> None:
    threshold = {
        node.lower(): limit for node, (_, _, limit, *_) in vectors.facts(uarch)["nodes"].items()
    }
    beyond: dict[str | None, bool] = {None: True}
    nodes = tree_of(uarch, name)
    over = {
        node.name
        for node in nodes
        for limit in (threshold[node.name],)
        if isinstance(node.reading, float) and limit is not None and node.reading > limit
    }
    if "heavy_operations" in over:
        over.add("retiring")
    for node in nodes:
        expected = node.name in over and beyond[node.parent]
        assert node.beyond is expected, node.name
        beyond[node.name] = node.beyond


def test_waiting_for_memory_is_beyond_down_to_the_memory() -> None:
    for uarch in UARCHES[:-1]:
        beyond = {node.name for node in tree_of(uarch, "dram_latency_bound") if node.beyond}
        assert beyond >= {"backend_bound", "memory_bound", "dram_bound"}, uarch
    beyond = {node.name for node in tree_of("SRF", "dram_latency_bound") if node.beyond}
    assert beyond >= {"backend_bound", "resource_bound"}


def test_microcode_is_beyond_however_little_is_retired() -> None:
    """Heavy operations are notable by themselves, and make what they are a part of so."""
    topdown = loaded("SKX").topdown
    assert topdown
    ratios = {"retiring": 0.4, "heavy_operations": 0.15, "light_operations": 0.25}
    ratios |= {"microcode_sequencer": 0.12, "few_uops_instructions": 0.03}
    beyond = {node.name for node in tree(topdown, ratios) if node.beyond}
    assert beyond == {"retiring", "heavy_operations", "microcode_sequencer"}
    none = {node.name for node in tree(topdown, ratios | {"heavy_operations": HELD}) if node.beyond}
    assert none == set()


def test_what_is_missing_is_not_beyond_nor_is_what_is_below_it() -> None:
    full: dict[str, Reading] = dict(vectors.counts("SKX", "dram_latency_bound"))
    lacking = {**full, "cycle_activity_stalls_mem_any": HELD}
    nodes = {node.name: node for node in evaluate_focus(loaded("SKX"), lacking, smt=False)[0]}
    assert nodes["backend_bound"].beyond
    for name in ("memory_bound", "dram_bound", "l1_bound", "core_bound"):
        assert nodes[name].reading == HELD
        assert nodes[name].beyond is False


@given(
    st.sampled_from(UARCHES),
    st.sampled_from(NAMES),
    st.dictionaries(
        st.integers(0, 80), st.one_of(st.floats(0, 50), st.sampled_from([None, HELD])), max_size=4
    ),
)
def test_no_counts_make_a_number_that_is_no_ratio(
    uarch: str, name: str, changes: dict[int, float | Missing | None]
) -> None:
    known = loaded(uarch)
    counts: dict[str, Reading] = dict.fromkeys(known.events, 1000000.0)
    counts |= vectors.counts(uarch, name)
    events = sorted(counts)
    for index, change in changes.items():
        event = events[index % len(events)]
        count = counts.get(event)
        if change is None:
            counts.pop(event, None)
        elif isinstance(change, Missing):
            counts[event] = change
        elif isinstance(count, float):
            counts[event] = count * change
    nodes, probes = evaluate_focus(known, counts, smt=vectors.of(uarch)[name].smt)
    readings = {node.name: node.reading for node in nodes}
    for node in nodes:
        if isinstance(node.reading, Missing):
            assert node.beyond is False
            assert node.reading.message
        else:
            assert 0 <= node.reading <= 1, node.name
            assert node.parent is None or not isinstance(readings[node.parent], Missing)
    assert probes.keys() == {metric.id for metric in CORE_METRICS}
    for probe, reading in probes.items():
        assert isinstance(reading, Missing) or 0 <= reading < float("inf"), probe


@pytest.mark.parametrize("uarch", [name for name in UARCHES if name != "SRF"])
@pytest.mark.parametrize("threads", [1, 2])
def test_latency_is_that_of_a_read_whatever_the_threads(uarch: str, threads: int) -> None:
    """Each thread at 3 instead of 2 GHz, halted half of the time; 10 M reads of 240 cycles."""
    of_thread = {
        "cycles": 1.5e9,
        "ref_cycles": 1e9,
        "tsc": 2e9,
        "offcore_requests_outstanding_demand_data_rd": 2.4e9,
        "offcore_requests_demand_data_rd": 1e7,
    }
    summed: dict[str, Reading] = {event: threads * count for event, count in of_thread.items()}
    got = probes_of(uarch, {**summed, "threads": float(threads)}, smt=threads == 2)
    assert got["load_latency_cycles"] == pytest.approx(240)
    assert got["load_latency_ns"] == pytest.approx(80)
    # Without their number there are as many as hyper-threading says.
    assert probes_of(uarch, summed, smt=threads == 2) == got


def test_latency_without_reads_or_clocks() -> None:
    counts: dict[str, Reading] = {
        "offcore_requests_outstanding_demand_data_rd": 0.0,
        "offcore_requests_demand_data_rd": 0.0,
    }
    idle = probes_of("SKX", counts, smt=True)
    assert (
        idle["load_latency_cycles"]
        == idle["load_latency_ns"]
        == Missing(Reason.IDLE, Reason.IDLE.sentence)
    )
    counts["offcore_requests_demand_data_rd"] = 5.0
    clockless = probes_of(
        "SKX", {**counts, "tsc": HELD, "cycles": 1.0, "ref_cycles": 1.0}, smt=True
    )
    assert (clockless["load_latency_cycles"], clockless["load_latency_ns"]) == (0.0, HELD)
    # APERF stands in for the cycles that the NMI watchdog has.
    clocks = {"tsc": 4e9, "aperf": 3e9, "ref_cycles": 2e9}
    counts["offcore_requests_outstanding_demand_data_rd"] = 1500.0
    assert probes_of("BDX", {**counts, **clocks}, smt=True)["load_latency_ns"] == pytest.approx(100)


@pytest.mark.parametrize(
    ("uarch", "events"),
    [
        ("BDX", ("mem_load_uops_l3_hit_retired_xsnp_hitm", "offcore_response_remote_hitm")),
        ("CLX", ("mem_load_l3_hit_retired_xsnp_hitm", "mem_load_l3_miss_retired_remote_hitm")),
        ("GNR", ("mem_load_l3_hit_retired_xsnp_fwd", "mem_load_l3_miss_retired_remote_hitm")),
        (
            "SRF",
            (
                "mem_load_uops_misc_retired_l3_hit_snoop_hitm",
                "mem_load_uops_l3_miss_retired_remote_fwd_hitm",
            ),
        ),
    ],
)
def test_loads_of_modified_lines_are_counted_near_and_far(
    uarch: str, events: tuple[str, str], snapshot: SnapshotAssertion
) -> None:
    got = probes_of(uarch, dict(zip(events, (7.0, 9.0), strict=True)), smt=False)
    assert (got["snoop_hitm_per_s"], got["remote_hitm_per_s"]) == (7.0, 9.0)
    uncounted = got["local_dram_per_s"]
    assert isinstance(uncounted, Missing) and uncounted.reason is Reason.SOURCE
    assert uncounted.message == snapshot


@pytest.mark.parametrize("uarch", UARCHES)
def test_every_node_and_probe_has_its_sentence(uarch: str) -> None:
    known, explained = loaded(uarch), {(metric.scope, metric.id) for metric in EXPLAINED}
    assert known.topdown
    for node in known.topdown.nodes:
        assert {("cpu", f"tma.{node}"), ("core", f"tma.{node}")} & explained, node
    assert {("core", probe) for probe in known.probes} <= explained


def test_no_counts_are_reasons_and_a_table_without_any_has_no_tree(
    snapshot: SnapshotAssertion,
) -> None:
    for uarch in UARCHES:
        nodes, probes = evaluate_focus(loaded(uarch), {}, smt=True)
        assert nodes and probes
        for reading in (*(node.reading for node in nodes), *probes.values()):
            assert isinstance(reading, Missing)
            assert reading.reason in (Reason.SOURCE, Reason.HARDWARE)
    nodes, probes = evaluate_focus(table.load(), {"cycles": 1.0}, smt=False)
    assert nodes == ()
    assert {str(reading) for reading in probes.values()} == snapshot
    latency = probes_of("SRF", {"cycles": 1.0}, smt=False)["load_latency_ns"]
    assert isinstance(latency, Missing) and latency.reason is Reason.HARDWARE
    assert latency.message == snapshot
