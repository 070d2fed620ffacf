"""What rules compare: on frames of the simulated host with numbers put in."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.derive.findings.cache_rules import memory_per_packet, noisy_neighbour
from nftop.derive.findings.engine import FindingState, step_findings
from nftop.derive.findings.inputs import FindingInputs
from nftop.derive.findings.poller_rules import core_ipc, foreign_sibling
from nftop.derive.findings.registry import rule_called
from nftop.derive.findings.rule import Measured
from nftop.derive.findings.uncore_rules import partial_writes, register_writes, uneven_channels
from nftop.model.column import Column, column, missing
from nftop.model.frame import BoxTraffic, CoreDetail, Frame, TmaNode
from nftop.model.ids import Cpu
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.rdt.masks import Cbm
from tests.sim.hosts import Frozen, S

GONE = Missing(Reason.TAKEN)


@lru_cache(maxsize=1)
def healthy() -> Frame:
    host = Frozen("healthy", 44)
    return [host.tick(S) for _ in range(6)][-1]


def seen(frame: Frame) -> FindingInputs:
    return FindingInputs(frame, {})


def with_column(frame: Frame, metric: str, values: dict[int, float]) -> Frame:
    old = frame.cpus.columns[metric]
    new = old.values.copy()
    new[list(values)] = list(values.values())
    columns = {**frame.cpus.columns, metric: column(new)}
    return replace(frame, cpus=replace(frame.cpus, columns=columns))


def with_package(frame: Frame, **readings: Reading) -> Frame:
    named = {name.replace("__", "."): reading for name, reading in readings.items()}
    first = frame.packages[0]
    row = replace(first, readings={**first.readings, **named})
    return replace(frame, packages=(row, *frame.packages[1:]))


def at(measured: Measured, where: str) -> Reading:
    subjects = [key.subject.where for key in measured.keys]
    return measured.values[subjects.index(where)]


def test_a_core_is_its_polling_threads_together() -> None:
    result = core_ipc(seen(healthy()))
    subjects = [key.subject.where for key in result.keys]
    assert subjects == [
        "cpu 1,23",
        "cpu 2,24",
        "cpu 3,25",
        "cpu 4,26",
        "cpu 12",
        "cpu 13,35",
        "cpu 14,36",
    ]
    assert at(result, "cpu 1,23") == pytest.approx(2.72, abs=0.05), "0.9 of 2.77, and empty polls"
    nfs = dict(zip(subjects, result.words["nf"], strict=True))
    assert nfs["cpu 12"] == "loop/testpmd"


def test_ipc_of_a_core_with_one_thread_is_its_own() -> None:
    frame = with_column(healthy(), "ipc", {12: 1.5})
    alone = frame.cpus.columns["core_ipc"]
    reasons = alone.reasons.copy()
    reasons[12] = Reason.UNDEFINED
    undefined = Column(np.where(reasons > 0, np.nan, alone.values), reasons)
    columns = {**frame.cpus.columns, "core_ipc": undefined}
    frame = replace(frame, cpus=replace(frame.cpus, columns=columns))
    assert at(core_ipc(seen(frame)), "cpu 12") == 1.5


def test_an_estimate_is_no_number() -> None:
    frame = with_column(healthy(), "coverage", {1: 0.7})
    assert isinstance(at(core_ipc(seen(frame)), "cpu 1,23"), Missing)
    assert not isinstance(at(core_ipc(seen(frame)), "cpu 2,24"), Missing)


def test_where_only_a_functions_sum_is_known_every_core_has_an_even_share() -> None:
    frame = healthy()
    nowhere = missing(len(frame.cpus), Missing(Reason.SOURCE))
    columns = {**frame.cpus.columns, "packets_per_s": nowhere}
    result = core_ipc(seen(replace(frame, cpus=replace(frame.cpus, columns=columns))))
    vpp = next(nf for nf in frame.nfs if nf.name == "vpp")
    whole = vpp.readings["rx_packets_per_s"]
    assert isinstance(whole, float)
    assert result.context["packets"][0] == pytest.approx(whole / 2)


def test_a_sibling_that_polls_for_the_same_function_is_none() -> None:
    frame = with_column(healthy(), "cpu_time_ratio", {34: 0.91})
    result = foreign_sibling(seen(frame))
    assert at(result, "cpu 12") == 0.91
    assert (
        dict(zip([k.subject.where for k in result.keys], result.words["sibling"], strict=True))[
            "cpu 12"
        ]
        == "34"
    )
    own = at(result, "cpu 1")
    assert isinstance(own, Missing) and own.reason is Reason.UNDEFINED


def test_channels_that_count_nothing_have_no_memory() -> None:
    # As on an Ice Lake server with half of its channels in use: every third box is none at all.
    used = {0: 1e9, 1: 0.0, 2: 0.0, 3: 1e9, 4: 0.0, 5: 0.0, 6: 1.1e9, 7: 0.0, 8: 0.0}
    boxes = tuple(BoxTraffic(number, moved, moved / 2) for number, moved in used.items())
    frame = healthy()
    first = replace(frame.packages[0], channels=boxes)
    result = uneven_channels(seen(replace(frame, packages=(first, *frame.packages[1:]))))
    assert result.values[0] == pytest.approx(1.1 / (3.1 / 3))
    assert result.words["channel"][0] == "6"
    assert result.context["traffic"][0] == pytest.approx(4.65e9)
    for channels in ((), boxes[:2], (BoxTraffic(0, GONE, 1.0), *boxes[1:])):
        first = replace(frame.packages[0], channels=channels)
        result = uneven_channels(seen(replace(frame, packages=(first, *frame.packages[1:]))))
        assert isinstance(result.values[0], Missing)


def test_partial_writes_are_rfo_and_itomcachenear_if_counted() -> None:
    no_event = Missing(Reason.HARDWARE)
    both: dict[str, Reading] = {"pcie__itom__total_per_s": 6e6, "pcie__rfo__total_per_s": 1e6}
    frame = with_package(healthy(), **both, pcie__itomcachenear__total_per_s=no_event)
    assert partial_writes(seen(frame)).values[0] == pytest.approx(1 / 7)
    frame = with_package(healthy(), **both, pcie__itomcachenear__total_per_s=5e6)
    assert partial_writes(seen(frame)).values[0] == pytest.approx(6 / 12)
    assert partial_writes(seen(frame)).context["writes"][0] == 12e6
    frame = with_package(healthy(), **both, pcie__itomcachenear__total_per_s=GONE)
    assert isinstance(partial_writes(seen(frame)).values[0], Missing), "a part is not the whole"


def test_register_writes_are_of_the_cores_that_poll() -> None:
    frame = with_package(healthy(), mmio__write_per_s=8e6)
    assert register_writes(seen(frame)).values[0] == pytest.approx(2e6), "four cores, eight threads"
    nobody = replace(frame.cpus, nf=(None,) * 44, nf_pid=(None,) * 44)
    result = register_writes(seen(replace(frame, cpus=nobody)))
    none = result.values[0]
    assert isinstance(none, Missing) and none.reason is Reason.UNDEFINED


def grouped(frame: Frame, name: str, *, mbm: Reading, cbm: int | None = None) -> Frame:
    groups = []
    for group in frame.groups:
        caches = []
        for cache in group.caches:
            mine = group.name == name and cache.l3 == 0
            readings = {**cache.readings, "mbm_total_bytes_per_s": mbm}
            mask = cache.cbm if cbm is None else Cbm(cbm, 11)
            caches.append(replace(cache, readings=readings, cbm=mask) if mine else cache)
        groups.append(replace(group, caches=tuple(caches)))
    return replace(frame, groups=tuple(groups))


def test_a_neighbour_is_a_class_in_the_same_ways(snapshot: SnapshotAssertion) -> None:
    disagreement = grouped(healthy(), "tenant", mbm=9e9)
    assert isinstance(at(noisy_neighbour(seen(disagreement)), "class vpp, L3 0"), Missing)
    near = noisy_neighbour(seen(grouped(healthy(), "tenant", mbm=9e9, cbm=0x007)))
    assert at(near, "class vpp, L3 0") == 9e9
    message = dict(
        zip([key.subject.where for key in near.keys], near.words["neighbour"], strict=True)
    )
    assert message["class vpp, L3 0"] == snapshot
    unknown = noisy_neighbour(seen(grouped(healthy(), "tenant", mbm=GONE, cbm=0x007)))
    assert isinstance(at(unknown, "class vpp, L3 0"), Missing)


def test_a_neighbour_may_be_a_busy_cpu_in_the_same_class(snapshot: SnapshotAssertion) -> None:
    frame = grouped(healthy(), "vpp", mbm=7e9)
    vpp = frame.cpus.group[1]
    groups = tuple(vpp if row == 10 else item for row, item in enumerate(frame.cpus.group))
    frame = replace(frame, cpus=replace(frame.cpus, group=groups))
    assert isinstance(at(noisy_neighbour(seen(frame)), "class vpp, L3 0"), Missing)
    busy = with_column(frame, "cpu_time_ratio", {10: 0.8})
    result = noisy_neighbour(seen(busy))
    assert at(result, "class vpp, L3 0") == 7e9
    assert result.words["neighbour"][0] == snapshot
    # Whose memory traffic it is can't be told then.
    mixed = at(memory_per_packet(seen(busy)), "class vpp, L3 0")
    assert isinstance(mixed, Missing) and mixed.reason is Reason.UNDEFINED


def test_memory_of_a_class_by_its_packets() -> None:
    frame = grouped(healthy(), "vpp", mbm=2.2e9)
    result = memory_per_packet(seen(frame))
    packets = result.context["packets"][0]
    assert isinstance(packets, float) and packets == pytest.approx(12.2e6 * 0.9 * 2, rel=0.06)
    assert at(result, "class vpp, L3 0") == pytest.approx(2.2e9 / packets)


def in_focus(frame: Frame, **nodes: float) -> Frame:
    """The core of CPU 1 in focus, with these nodes of the top-down tree."""
    tree = tuple(
        TmaNode(name, "core_bound", 3, "cycles", ratio, beyond=True, coverage=0.1)
        for name, ratio in nodes.items()
    )
    return replace(frame, focus=CoreDetail((Cpu(1), Cpu(23)), tree, {}, {}))


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("fetch_bandwidth", 0.10),
        ("branch_mispredicts", 0.05),
        ("ports_utilization", 0.25),
        ("itlb_misses", 0.0001),
    ],
)
def test_a_deep_node_is_that_of_the_core_in_focus(name: str, limit: float) -> None:
    rule = rule_called(name.replace("_", "-"))
    assert rule is not None and (rule.limit, rule.own) == (limit, "")
    result = rule.measure(seen(in_focus(healthy(), **{name: 1.1 * limit})))
    assert at(result, "cpu 1,23") == pytest.approx(1.1 * limit)
    elsewhere = at(result, "cpu 2,24")
    assert isinstance(elsewhere, Missing) and elsewhere.reason in (Reason.SOURCE, Reason.TAKEN)
    # Without such a node, and without a focus, nothing is known of any core.
    for frame in (in_focus(healthy(), lcp=0.5), healthy()):
        assert not rule.measure(seen(frame)).values.present.any()


@pytest.mark.parametrize(
    ("name", "ratio", "fires"),
    [
        ("fetch_bandwidth", 0.101, True),
        ("fetch_bandwidth", 0.099, False),
        ("branch_mispredicts", 0.051, True),
        ("branch_mispredicts", 0.049, False),
        ("ports_utilization", 0.251, True),
        ("ports_utilization", 0.249, False),
        ("itlb_misses", 0.00011, True),
        ("itlb_misses", 0.00009, False),
    ],
)
def test_a_deep_node_beyond_the_paper_s_limit_is_a_finding(
    name: str, ratio: float, fires: bool
) -> None:
    frame = in_focus(healthy(), **{name: ratio})
    state = FindingState()
    for second in range(7):
        passed_ns = second * S
        now = replace(
            frame,
            monotonic_ns=frame.monotonic_ns + passed_ns,
            wall_ns=frame.wall_ns + passed_ns,
        )
        state, findings = step_findings(state, now, {}, pace_s=1.0)
        rules = {(item.rule, item.where) for item in findings}
        assert ((name.replace("_", "-"), "cpu 1,23") in rules) == (fires and second >= 5)


def test_level_2_of_its_own_counters_is_that_of_every_core() -> None:
    frame = with_column(healthy(), "tma.level_2_coverage", dict.fromkeys(range(44), 1.0))
    rule = rule_called("branch-mispredicts")
    assert rule is not None
    result = rule.measure(seen(with_column(frame, "tma.branch_mispredicts", {2: 0.06, 24: 0.06})))
    assert at(result, "cpu 2,24") == 0.06
    assert result.values.present.all()
