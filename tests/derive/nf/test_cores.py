"""What the cores of a network function show together, and what it is made of."""

from __future__ import annotations

from functools import lru_cache

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.derive.nf.cores import dropped, imbalance_ratio
from nftop.derive.nf.rates import NfCore
from nftop.model.frame import CacheClass, Frame, NfRow
from nftop.model.ids import Cpu
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.nf.components import ONLY_OVS
from nftop.model.rdt.rdt import ROOT
from tests.sim.hosts import Frozen, S


def core(cpu: int, packets: Reading) -> NfCore:
    none = Missing(Reason.SOURCE)
    return NfCore(Cpu(cpu), f"lcore {cpu}", packets, none, none, none, none, none)


def number(reading: Reading) -> float:
    assert not isinstance(reading, Missing), reading
    return reading


@lru_cache(maxsize=1)
def seen() -> Frame:
    host = Frozen(traffic=False)
    return [host.tick(S) for _ in range(12)][-1]


def nf(kind: str) -> NfRow:
    return next(item for item in seen().nfs if item.kind == kind)


@pytest.mark.parametrize(
    ("cores", "ratio"),
    [
        ([core(1, 5.0), core(2, 5.0)], 0.0),
        ([core(1, 9.0), core(2, 3.0), core(3, 0.0)], 1.25),
        ([core(1, 8.0), core(2, 0.0), core(3, 0.0), core(4, 0.0)], 3.0),
        # Two lcores on one CPU are one core.
        ([core(1, 2.0), core(1, 2.0), core(2, 4.0)], 0.0),
        # One that only works on what others received has none to compare.
        ([core(1, 6.0), core(2, 2.0), core(3, Missing(Reason.UNDEFINED))], 0.5),
    ],
)
def test_imbalance_is_the_busiest_by_the_mean_less_one(cores: list[NfCore], ratio: float) -> None:
    assert number(imbalance_ratio(cores)) == pytest.approx(ratio)


@pytest.mark.parametrize(
    ("cores", "reason"),
    [
        ([], Reason.UNDEFINED),
        ([core(1, 5.0)], Reason.UNDEFINED),
        ([core(1, 5.0), core(2, Missing(Reason.UNDEFINED))], Reason.UNDEFINED),
        ([core(1, 5.0), core(2, Missing(Reason.SOURCE))], Reason.SOURCE),
        ([core(1, 0.0), core(2, 0.0)], Reason.IDLE),
    ],
)
def test_where_nothing_is_shown_to_compare_it_reports_why(
    cores: list[NfCore], reason: Reason
) -> None:
    result = imbalance_ratio(cores)
    assert isinstance(result, Missing) and result.reason is reason


def test_its_numbers_are_those_of_its_cores() -> None:
    frame = seen()
    assert frame.nfs
    shared = [entry for entry in frame.nfs if entry.shared is not None]
    # One of the demo's pollers is kept from its CPU for 12 % of the time.
    assert [frame.topology.cpus[cpu].cpu for cpu in frame.cpus.shared] == [25]
    assert [25 in entry.cpus for entry in shared] == [True]
    for name in ("ipc", "ipp", "llc_misses_per_packet", "tma.retiring"):
        assert isinstance(shared[0].readings[name], Missing)
    assert shared[0].cpp_clock == "core_by_run"
    for item in frame.nfs:
        if item.shared is not None:
            continue
        columns = {
            name: frame.cpus.columns[name].values[list(item.cpus)]
            for name in ("packets_per_s", "cpp", "ipp", "tma.retiring", "ipc")
        }
        packets = columns["packets_per_s"]
        if len(item.cpus) > 1:
            spread = packets.max() / packets.mean() - 1
            assert number(item.readings["imbalance_ratio"]) == pytest.approx(spread)
        cycles = columns["cpp"] * packets
        instructions = columns["ipp"] * packets
        assert number(item.readings["ipc"]) == pytest.approx(instructions.sum() / cycles.sum())
        low, high = columns["tma.retiring"].min(), columns["tma.retiring"].max()
        assert low - 1e-9 <= number(item.readings["tma.retiring"]) <= high + 1e-9
        components = ("frontend_bound", "bad_speculation", "backend_bound", "retiring")
        assert sum(
            number(item.readings[f"tma.{component}"]) for component in components
        ) == pytest.approx(1, abs=0.02)
        assert [thread.cpu for thread in item.threads] == list(item.cpus)
        reports = sum(number(thread.packets_per_s) for thread in item.threads)
        assert reports == pytest.approx(number(item.readings["rx_packets_per_s"]))


def test_two_threads_of_a_core_count_once_in_its_top_down() -> None:
    frame = seen()
    paired = [
        entry
        for entry in frame.nfs
        if len(entry.cpus) == 4 and frame.topology.cpus[entry.cpus[0]].siblings[0] in entry.cpus
    ]
    assert paired
    for item in paired:
        firsts = [cpu for cpu in item.cpus if cpu < min(frame.topology.cpus[cpu].siblings)]
        column = frame.cpus.columns["tma.retiring"].values[firsts]
        assert number(item.readings["tma.retiring"]) == pytest.approx(column.mean())


def test_its_cache_is_that_of_its_classes_with_their_other_users(
    snapshot: SnapshotAssertion,
) -> None:
    frame = seen()
    for item in frame.nfs:
        assert item.classes and all(isinstance(one, CacheClass) for one in item.classes)
        l3 = {frame.topology.cpus[cpu].l3 for cpu in item.cpus}
        filled = sum(
            number(cache.readings["occupancy_bytes"])
            for group in frame.groups
            if group.name in {one.name for one in item.classes}
            for cache in group.caches
            if cache.l3 in l3
        )
        assert number(item.readings["llc_occupancy_bytes"]) == pytest.approx(filled)
    other = {entry.name: entry.sharers for entry in frame.nfs}
    assert other["vpp"] == other["ovs-vswitchd"] == ""
    assert other["loop/testpmd"] == snapshot


def test_the_default_class_is_everybodys() -> None:
    host = Frozen("noisy", cpus=32, traffic=False)
    frame = [host.tick(S) for _ in range(3)][-1]
    default = [item for item in frame.nfs if item.classes[0].name == ROOT]
    assert default and all("everybody's" in item.sharers for item in default)


def test_queues_ports_and_nodes_add_up_to_the_whole() -> None:
    ovs, vpp, dpdk = nf("ovs"), nf("vpp"), nf("dpdk")
    assert not isinstance(ovs.queues, Missing) and not isinstance(dpdk.queues, Missing)
    for item in (ovs, dpdk):
        assert not isinstance(item.queues, Missing)
        reports = sum(number(queue.packets_per_s) for queue in item.queues)
        assert reports == pytest.approx(number(item.readings["rx_packets_per_s"]))
        assert {queue.cpu for queue in item.queues} <= set(item.cpus)
    assert all(0 < number(queue.used_ratio) <= 1 for queue in ovs.queues)
    assert isinstance(vpp.queues, Missing)
    assert not isinstance(ovs.ports, Missing), "as the telemetry of its DPDK has them"
    received = sum(number(item.rx_packets_per_s) for item in ovs.ports)
    assert received == pytest.approx(number(ovs.readings["rx_packets_per_s"]), rel=1e-3)
    assert not isinstance(vpp.ports, Missing) and not isinstance(vpp.nodes, Missing)
    assert sum(number(port.rx_packets_per_s) for port in vpp.ports) == pytest.approx(
        number(vpp.readings["rx_packets_per_s"])
    )
    assert sum(number(node.clocks_ratio) for node in vpp.nodes) == pytest.approx(1)
    assert [node.name for node in vpp.nodes if node.polls] == ["dpdk-input"]
    assert not isinstance(dpdk.ports, Missing)
    assert sum(number(port.tx_packets_per_s) for port in dpdk.ports) == pytest.approx(
        number(dpdk.readings["tx_packets_per_s"])
    )


def test_what_it_lost_is_what_its_nics_missed_and_upcalls_that_failed() -> None:
    """One number for the tables, comparisons, verdicts and exports."""
    why = Missing(Reason.SOURCE)
    assert dropped(100.0, 3900.0) == 4000.0
    assert dropped(why, 3900.0) == 3900.0, "what is known of it"
    assert dropped(why, 0.0) == why == dropped(why, why)
    assert dropped(100.0, ONLY_OVS) == 100.0
