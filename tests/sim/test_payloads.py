"""What the simulated sources hand over is what the real ones would."""

from __future__ import annotations

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.model.missing import Reason
from nftop.model.nf.vpp import VppErrors
from nftop.model.sample import CounterTable
from nftop.sim import network_functions, payloads, scenario, workloads
from nftop.sim.events import count
from nftop.sim.model import Model, model_of
from nftop.sources.process.scan import role_of
from nftop.sources.simulated import simulated_host
from nftop.uarch import table
from tests.sim.hosts import S


@pytest.fixture(scope="module")
def model() -> Model:
    return model_of(scenario.load("default"), 88)


def test_thread_names_report_their_roles(model: Model) -> None:
    rows = payloads.thread_table(model, S, S).threads
    assert len({row.tid for row in rows}) == len(rows)
    for row in rows:
        role = role_of(row.comm)
        # A DPDK main thread is known by its process, not its name.
        if row.role != "dpdk_main":
            assert (role.name, role.index) == (row.role, row.role_index)
        else:
            assert row.tid == row.pid
        assert len(row.comm.encode()) <= 15
        assert row.allowed == (row.last_cpu,)


def test_cpu_times_sum_to_the_time(model: Model) -> None:
    times = payloads.cpu_times(model, 1234 * S + 5_000_000)
    assert (times.ticks.sum(axis=1) == 123_400).all()


def test_an_event_the_host_lacks_has_a_reason(model: Model, snapshot: SnapshotAssertion) -> None:
    uarch = table.parse(
        'name = "BDX"\ntitle = "x"\n[events]\na = { type = "raw", config = 0x3c }\n'
        'b = { type = "raw", config = 0xffff }\n[plans.all]\nevents = ["a", "b"]\nneeds = []\n'
    )
    counted = payloads.counter_table(model, S, uarch)
    assert (counted.reasons[:, 1] == Reason.HARDWARE).all()
    assert not counted.reasons[:, 0].any()
    assert counted.gaps == snapshot


def test_quiet_cpus_are_not_counted(snapshot: SnapshotAssertion) -> None:
    host = simulated_host(not_counted=lambda _: {3, 5})
    counted = next(source for source in host.sources if source.name == "perf").read()
    assert isinstance(counted, CounterTable)
    quiet = np.flatnonzero(counted.reasons.any(axis=1))
    assert quiet.tolist() == [3, 5]
    assert not counted.values[quiet].any()
    assert counted.gaps == snapshot


def test_counter_groups_share_the_time_and_the_counts(model: Model) -> None:
    uarch = simulated_host().uarch
    t_ns = 7 * S + 1
    counted = payloads.counter_table(model, t_ns, uarch)
    groups = uarch.plans[0].groups
    assert len(groups) == 5
    assert counted.events == tuple(event for group in groups for event in group)
    assert (counted.enabled_ns == t_ns).all()
    assert (counted.running_ns.sum(axis=1) == t_ns).all()
    assert (counted.running_ns[:, 0] == t_ns - t_ns // 10).all()
    assert np.ptp(counted.running_ns[:, 1:]) <= 1
    for event in set(counted.events):
        columns = [index for index, name in enumerate(counted.events) if name == event]
        seen = counted.values[:, columns]
        spec = uarch.events[event]
        for cpu in (0, 1, 45):
            whole = count(model, spec, cpu, t_ns, uarch.name)
            if len(columns) == 5:
                assert int(seen[cpu].sum()) == whole
            else:
                least = whole - whole // 10 if counted.group[columns[0]] == 0 else whole // 40
                assert 0 <= int(seen[cpu, 0]) - least <= 1
            assert np.ptp(seen[cpu, -4:]) <= 1


def test_without_turns_the_main_group_has_all_the_time(
    model: Model, snapshot: SnapshotAssertion
) -> None:
    uarch = simulated_host().uarch
    counted = payloads.counter_table(model, S, uarch, turns=False)
    assert set(counted.events) == {e for group in uarch.plans[0].groups for e in group}
    assert (counted.running_ns == counted.enabled_ns).all()
    index = counted.events.index("llc_misses")
    assert (counted.reasons[:, index] == Reason.SOURCE).all()
    assert set(counted.details["llc_misses"]) == {Reason.SOURCE}
    assert counted.details["llc_misses"][Reason.SOURCE] == snapshot
    assert not counted.reasons[:, counted.events.index("uops_issued_any")].any()


def test_every_check_reports_simulated() -> None:
    checks = [check for source in simulated_host().sources for check in source.check()]
    assert len(checks) == 12
    assert all(check.text.startswith("SIMULATED: ") for check in checks)


def test_ovs_reports_what_its_interfaces_would(model: Model) -> None:
    (early,), (late,) = (network_functions.ovs_table(model, t, t).switches for t in (4 * S, 60 * S))
    assert [pmd.core for pmd in late.pmds] == [5, 6, 7, 8]
    assert [(pmd.queues[0].port, pmd.queues[0].queue) for pmd in late.pmds] == [
        ("dpdk0", 0),
        ("dpdk1", 0),
        ("dpdk0", 1),
        ("dpdk1", 1),
    ]
    for before, pmd in zip(early.pmds, late.pmds, strict=True):
        assert pmd.used_cycles == 60 * 2_200_000_000
        assert pmd.busy_cycles == pytest.approx(0.7 * pmd.used_cycles, rel=1e-6)
        # pmd-rxq-show has no shares until its window is full, and then the last seconds' only.
        assert before.queues[0].used_ratio is None and before.overhead_ratio is None
        assert pmd.queues[0].used_ratio == pytest.approx(0.7, abs=0.04)
    assert len({pmd.queues[0].used_ratio for pmd in late.pmds}) > 1


def test_dpdk_beneath_ovs_counts_the_same_packets(model: Model) -> None:
    (switch,) = network_functions.ovs_table(model, 9 * S, S).switches
    apps = {app.name: app for app in network_functions.dpdk_table(model, 9 * S, S).apps}
    beneath = apps[switch.name]
    assert (beneath.pid, beneath.start_ticks) == (switch.pid, switch.start_ticks)
    received = sum(pmd.rx_packets or 0 for pmd in switch.pmds)
    assert sum(port.rx_packets or 0 for port in beneath.ports) == received
    assert sum(port.tx_packets or 0 for port in beneath.ports) == received
    came_in = [port.rx_packets for port in beneath.ports]
    assert [sum(port.rx_queue_packets) for port in beneath.ports] == came_in
    assert [port.tx_packets for port in beneath.ports] == came_in[::-1]


def test_vpp_s_nodes_are_those_of_its_last_heartbeat(model: Model) -> None:
    (one,) = network_functions.vpp_table(model, 7 * S + S // 2, S).instances
    (then,) = network_functions.vpp_table(model, 7 * S, S).instances
    assert one.heartbeat == then.heartbeat == 7
    assert one.nodes is not None and then.nodes is not None
    np.testing.assert_array_equal(one.nodes.clocks, then.nodes.clocks)
    assert (one.interfaces.rx_packets > then.interfaces.rx_packets).sum() == 4
    # All of a saturated worker's time is in its nodes, and each brings what the interfaces count.
    assert one.nodes.clocks[1:].sum(axis=1) == pytest.approx(7 * 2.2e9, rel=1e-8)
    np.testing.assert_array_equal(
        then.nodes.vectors.max(axis=1), then.interfaces.rx_packets.sum(axis=1)
    )
    assert not one.nodes.clocks[0].any()
    # What comes in on one port goes out on the other.
    np.testing.assert_array_equal(one.interfaces.rx_packets[:, 1], one.interfaces.tx_packets[:, 2])
    np.testing.assert_array_equal(one.interfaces.rx_packets[:, 2], one.interfaces.tx_packets[:, 1])
    assert [thread.loops_per_s for thread in one.threads[1:]] == pytest.approx(
        [10.5e6 / 256] * 4, rel=0.004
    )


def test_a_vpp_s_errors_are_shares_of_its_packets_and_drops_do_not_go_out() -> None:
    noisy = model_of(scenario.load("noisy"), 88)
    (one,) = network_functions.vpp_table(noisy, 90 * S, S).instances
    assert isinstance(one.errors, VppErrors)
    assert (one.errors.nodes, one.errors.names) == (
        ("ip4-input", "ip4-icmp-input"),
        ("bad_checksum", "echo_replies_sent"),
    )
    received = one.interfaces.rx_packets.sum(axis=1)
    np.testing.assert_array_equal(one.errors.counts[:, 0], received // 20_000)
    np.testing.assert_array_equal(one.errors.counts[:, 1], received // 100_000)
    np.testing.assert_array_equal(one.interfaces.drops.sum(axis=1), one.errors.counts[:, 0])
    sent = one.interfaces.tx_packets.sum(axis=1)
    np.testing.assert_array_equal(received - sent, one.errors.counts[:, 0])
    assert one.errors.counts[1:, 0].all() and one.interfaces.rx_misses.any()


def test_a_vpp_without_errors_counts_none(model: Model) -> None:
    (one,) = network_functions.vpp_table(model, 9 * S, S).instances
    assert isinstance(one.errors, VppErrors)
    assert one.errors.names == () and one.errors.counts.shape == (5, 0)
    assert not one.interfaces.drops.any()


@pytest.mark.parametrize("name", workloads.names_of_vpp())
def test_shares_of_a_vpp_s_nodes_are_the_whole(name: str) -> None:
    shares = workloads.tables()[name]["nodes"]
    assert sum(shares.values()) == pytest.approx(1.0, abs=1e-12)
    assert 0 < shares["dpdk-input"] < 1


def test_every_vpp_workload_has_its_nodes() -> None:
    vpp = {name for name in workloads.names() if name.startswith("vpp")}
    assert set(workloads.names_of_vpp()) == vpp


def test_a_vpp_with_time_left_polls_in_vain() -> None:
    text = (
        'title = "x"\nassumes = "x"\nperiod_s = 10\nswing = 0.0\n[[tasks]]\nname = "vpp"\n'
        'kind = "vpp"\nworkload = "vpp_l2_patch"\npackage = 0\nthreads = 1\nload = 0.6\n'
    )
    loaded = model_of(scenario.parse("t", text), 8)
    (one,) = network_functions.vpp_table(loaded, 5 * S, S).instances
    assert one.nodes is not None
    clocks, calls, vectors = (
        item[1].tolist() for item in (one.nodes.clocks, one.nodes.calls, one.nodes.vectors)
    )
    assert sum(clocks) == pytest.approx(5 * 2.2e9, rel=1e-8)
    assert sum(clocks[1:]) == pytest.approx(0.6 * 0.6 * 5 * 2.2e9, rel=1e-6)
    assert calls[0] > 10 * calls[1] and vectors[0] == vectors[1]
