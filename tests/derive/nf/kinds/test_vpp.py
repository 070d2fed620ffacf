"""VPP's threads: packets, and what its graph nodes tell of how busy they were."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from nftop.derive.nf.kinds.vpp import rate_packets
from nftop.derive.nf.vpp_graph import NodeState, busy_ratio, clocks_per_packet, step_nodes
from nftop.model.frame import Frame
from nftop.model.ids import Cpu
from nftop.model.missing import Missing, Reason
from nftop.model.nf.vpp import VppNodes, VppTable, VppThread
from nftop.model.sample import Sample
from tests.derive.nf_scene import (
    PID,
    full_frames,
    host,
    instance,
    nodes,
    vpp,
    vpp_thread,
)
from tests.derive.scene import START, TSC_HZ, cpu, nf, reason, without_perf
from tests.samples import fold

MPPS_10 = 10_000_000


def forwarding(second: float, reported: VppNodes | None = None, **changes: Any) -> Sample:
    """Two workers of which the second has twice the packets."""
    packets = {1: int(MPPS_10 * second), 2: int(2 * MPPS_10 * second)}
    return vpp(second, instance(second, packets, reported, **changes))


def busy_nodes(second: float, *busy: float) -> VppNodes:
    return nodes(*(full_frames(second, n * MPPS_10, share) for n, share in enumerate(busy, 1)))


def test_a_reading_from_before_the_last_is_not_rated() -> None:
    first, second = (instance(t, {1: packets}) for t, packets in ((3, 5), (2, 15)))
    rated = rate_packets(rate_packets(None, first), second)
    assert isinstance(rated.per_s, Missing) and rated.per_s.reason is Reason.WARMING
    assert rated.interval_s is None
    again = rate_packets(rated, instance(4, {1: 35}))
    assert not isinstance(again.per_s, Missing)
    assert again.per_s["rx_packets"].sum() == 10.0


def test_every_thread_has_its_packets() -> None:
    frames = fold(START, *(forwarding(t, busy_nodes(t, 1.0, 1.0)) for t in (1, 2)))
    assert reason(cpu(frames[0], "rx_packets_per_s")) is Reason.WARMING
    frame = frames[1]
    assert frame.cpus.thread == (None, "vpp_wk_0", "vpp_wk_1", None)
    assert frame.cpus.nf[1] == "vpp" and frame.cpus.nf_pid[2] == PID
    assert cpu(frame, "rx_packets_per_s") == pytest.approx(MPPS_10)
    assert cpu(frame, "rx_packets_per_s", 2) == pytest.approx(2 * MPPS_10)
    assert cpu(frame, "cpp") == pytest.approx(TSC_HZ / MPPS_10)
    assert cpu(frame, "busy_ratio") == pytest.approx(1.0, abs=1e-5)
    assert frame.cpus.saturated[1:3] == (True, True)
    (row,) = frame.nfs
    assert (row.kind, row.cpus, row.saturated, row.interval_s) == ("vpp", (1, 2), True, 1.0)
    assert row.readings["rx_packets_per_s"] == pytest.approx(3 * MPPS_10)
    assert row.readings["tx_packets_per_s"] == pytest.approx(3 * MPPS_10)
    assert row.readings["drop_packets_per_s"] == 0.0
    assert row.readings["cpp"] == pytest.approx(2 * TSC_HZ / (3 * MPPS_10))


def test_vpp_has_no_cycles_of_its_own() -> None:
    frame = fold(START, *(without_perf(forwarding(t, busy_nodes(t, 1.0, 1.0))) for t in (1, 2)))[-1]
    assert cpu(frame, "rx_packets_per_s") == pytest.approx(MPPS_10)
    # Its nodes count by the TSC, whose rate is not known then.
    for metric in ("cpp", "busy_ratio"):
        assert isinstance(cpu(frame, metric), Missing)


@pytest.mark.parametrize("restarted", [False, True], ids=["cleared", "restarted"])
def test_counters_that_start_again_give_no_spike(restarted: bool) -> None:
    """`clear interfaces` of one interface: the other's go on."""
    new = {"start_ticks": 9000} if restarted else {}

    def at(second: int, *, since: int, **changes: Any) -> Sample:
        one = instance(second, {1: MPPS_10 * (second - since)}, **changes)
        sent = one.interfaces.tx_packets + np.uint64(MPPS_10 * second)
        return vpp(second, replace(one, interfaces=replace(one.interfaces, tx_packets=sent)))

    frames = fold(
        START, at(11, since=0), at(12, since=0), at(13, since=12, **new), at(14, since=12, **new)
    )
    why = Reason.WARMING if restarted else Reason.RESET
    for reading in (
        cpu(frames[2], "rx_packets_per_s"),
        cpu(frames[2], "cpp"),
        nf(frames[2], "tx_packets_per_s"),
    ):
        assert reason(reading) is why
    assert cpu(frames[3], "rx_packets_per_s") == pytest.approx(MPPS_10)


def test_without_counters_per_node_nobody_knows_how_busy_it_was() -> None:
    frame = fold(START, *(forwarding(t) for t in (1, 2)))[-1]
    unknown = cpu(frame, "busy_ratio")
    assert isinstance(unknown, Missing) and "per-node-counters on" in unknown.message
    assert frame.cpus.saturated[1] is None
    assert cpu(frame, "cpp") == pytest.approx(TSC_HZ / MPPS_10)


def test_between_two_refreshes_the_last_values_hold() -> None:
    def at(second: float, beat: int) -> Sample:
        return forwarding(second, busy_nodes(beat, 0.8, 0.8), heartbeat=beat)

    frames = fold(START, *(at(10 + n / 2, 10 + n // 4) for n in range(9)))
    readings = [cpu(frame, "busy_ratio") for frame in frames]
    assert [isinstance(reading, float) for reading in readings] == [False] * 4 + [True] * 5
    assert reason(readings[3]) is Reason.WARMING
    assert readings[4:] == [pytest.approx(0.8, abs=1e-5)] * 5


def test_cleared_nodes_and_new_ones_start_over() -> None:
    first, grown = busy_nodes(1, 1.0, 1.0), busy_nodes(2, 1.0, 1.0)
    state = step_nodes(step_nodes(None, 1, grown), 2, first)
    assert state is not None and isinstance(state.delta, Missing)
    assert state.delta.reason is Reason.RESET
    backwards = step_nodes(step_nodes(None, 2, first), 1, grown)
    assert backwards is not None and isinstance(backwards.delta, Missing)
    renamed = replace(grown, names=("a", "b", "c"))
    for other in (renamed, nodes(full_frames(2, 1, 1.0))):
        fresh = step_nodes(step_nodes(None, 1, first), 2, other)
        assert fresh is not None and isinstance(fresh.delta, Missing)
        assert fresh.delta.reason is Reason.WARMING
    assert step_nodes(state, 3, None) is None


def test_a_node_that_runs_for_the_first_time_was_left_out_before() -> None:
    def reported(*counts: tuple[str, int]) -> VppNodes:
        table = np.array([[count for _, count in counts]] * 2, dtype=np.uint64)
        return VppNodes(tuple(name for name, _ in counts), table, table, table)

    old = step_nodes(None, 1, reported(("a", 1), ("b", 2)))
    grown = step_nodes(old, 2, reported(("new", 5), ("b", 20), ("a", 10)))
    assert grown is not None and isinstance(grown.delta, VppNodes)
    assert grown.delta.names == ("new", "b", "a")
    assert grown.delta.clocks.tolist() == grown.delta.calls.tolist() == [[5, 18, 9]] * 2
    shrunk = step_nodes(grown, 3, reported(("a", 11), ("b", 22)))
    assert shrunk is not None and isinstance(shrunk.delta, Missing)
    assert shrunk.delta.reason is Reason.WARMING


def captured(counts: dict[str, tuple[int, int, int]]) -> NodeState:
    """A worker's nodes between two refreshes: clocks, vectors, calls."""
    table = np.array([list(counts.values())], dtype=np.uint64)
    return NodeState(
        2,
        VppNodes(tuple(counts), *(table[:, :, n] for n in range(3))),
        VppNodes(tuple(counts), *(table[:, :, n] for n in range(3))),
    )


# One worker of VPP 26.06 between two refreshes 2.001 s apart, on a TSC of 2.6 GHz, run for nftop:
# at 50 kpps from af-packet, and as many packets as pg makes.
LIGHT = captured({
    "af-packet-input": (1496854378, 100000, 22814156), "host-h4b1-tx": (163776072, 100000, 1830),
    "ethernet-input": (2321064, 100000, 1830), "ip4-input": (2249644, 100000, 1830),
    "ip4-lookup": (1850774, 100000, 1830), "ip4-rewrite": (1707770, 100000, 1830),
    "host-h4b1-output": (627452, 100000, 1830),
})  # fmt: skip
FULL = captured({
    "pg-input": (1891128608, 52855808, 206468), "ip4-lookup": (666753618, 52855808, 206468),
    "ip4-rewrite": (660464906, 52855808, 206468), "ethernet-input": (649611856, 52855808, 206468),
    "ip4-input": (636497266, 52855808, 206468), "pg1-tx": (458323524, 52855808, 206468),
    "pg1-output": (191131250, 52855808, 206468),
})  # fmt: skip


def test_bounds_of_a_real_vpp() -> None:
    bounds = clocks_per_packet(LIGHT, 0, 1)
    assert not isinstance(bounds, Missing)
    assert bounds[0] == pytest.approx(1725, rel=1e-3)  # in its graph nodes, empty polls left out
    assert bounds[1] == pytest.approx(16694, rel=1e-3)
    unknown = busy_ratio(bounds, 100000 / 2.001, 2.6e9)
    assert isinstance(unknown, Missing) and unknown.reason is Reason.SOURCE
    assert "3% to 32%" in unknown.message
    # Every call of the input node brought a whole frame: nothing in it was an empty poll.
    bounds = clocks_per_packet(FULL, 0, 1)
    assert not isinstance(bounds, Missing) and bounds[0] == pytest.approx(bounds[1])
    assert busy_ratio(bounds, 52855808 / 2.001, 2.6e9) == pytest.approx(0.99, abs=0.005)


def test_how_full_a_call_was_needs_its_queues() -> None:
    for queues in (None, 4):
        bounds = clocks_per_packet(FULL, 0, queues)
        assert not isinstance(bounds, Missing)
        work = 5153911028 - 1891128608 * (1 - (queues is not None) / 4)
        assert bounds[0] == pytest.approx(work / 52855808)
        assert bounds[1] == pytest.approx(5153911028 / 52855808)


@given(
    packets=st.integers(1, 10**9), polls=st.integers(0, 10**9), per_poll=st.integers(1, 500),
    per_packet=st.integers(1, 2000), input_share=st.floats(0.0, 1.0),
    fill=st.integers(1, 256), queues=st.sampled_from([None, 1, 2]),
)  # fmt: skip
def test_the_true_value_is_between_the_bounds(
    packets: int,
    polls: int,
    per_poll: int,
    per_packet: int,
    input_share: float,
    fill: int,
    queues: int | None,
) -> None:
    """A worker whose true work is known: some calls bring `fill` packets, others none."""
    work = packets * per_packet
    at_input = int(work * input_share)
    calls = -(-packets // fill)
    # An empty poll is no dearer than one that finds packets.
    empty = polls * min(per_poll, at_input // calls)
    state = captured(
        {
            "dpdk-input": (at_input + empty, packets, calls + polls),
            "ip4-lookup": (work - at_input, packets, calls),
        }
    )
    bounds = clocks_per_packet(state, 0, queues)
    assert not isinstance(bounds, Missing)
    assert bounds[0] <= per_packet * (1 + 1e-9) and bounds[1] >= per_packet * (1 - 1e-9)


def test_a_node_that_polls_is_known_by_its_empty_calls() -> None:
    state = captured({"dpdk-input": (100, 256, 1), "novel-input": (5000, 10, 900)})
    bounds = clocks_per_packet(state, 0, None)
    assert bounds == (0.0, 5100 / 256)


def test_a_worker_that_received_nothing_is_idle() -> None:
    def at(second: int) -> Sample:
        reported = nodes(
            full_frames(second, MPPS_10, 1.0), {"dpdk-input": (TSC_HZ * second, 0, 99)}
        )
        return vpp(second, instance(second, {1: MPPS_10 * second, 2: 0}, reported))

    frame = fold(START, at(1), at(2))[-1]
    assert cpu(frame, "rx_packets_per_s", 2) == 0.0
    for metric in ("busy_ratio", "cpp"):
        assert reason(cpu(frame, metric, 2)) is Reason.IDLE
    assert frame.nfs[0].cpus == (1, 2)


def test_the_main_thread_forwards_where_it_is_the_only_one() -> None:
    def at(second: int) -> Sample:
        return host(
            second,
            vpp_thread(0, second),
            vpp=VppTable((instance(second, {0: MPPS_10 * second}),)),
        )

    frame = fold(START, at(1), at(2))[-1]
    assert frame.cpus.thread[0] == "vpp_main"
    assert cpu(frame, "rx_packets_per_s", 0) == pytest.approx(MPPS_10)


def test_a_main_thread_that_spins_with_its_workers_receives_nothing(
    snapshot: SnapshotAssertion,
) -> None:
    def at(second: int) -> Sample:
        rows = (vpp_thread(n, second) for n in (0, 1))
        return host(second, *rows, vpp=VppTable((instance(second, {1: MPPS_10 * second}),)))

    frame = fold(START, at(1), at(2))[-1]
    assert frame.nfs[0].cpus == (1,)
    spare = cpu(frame, "rx_packets_per_s", 0)
    assert isinstance(spare, Missing) and spare.reason is Reason.IDLE
    assert spare.message == snapshot
    assert nf(frame, "cpp") == pytest.approx(TSC_HZ / MPPS_10)


def test_a_main_thread_that_receives_with_its_workers_forwards_too() -> None:
    def at(second: int, problem: Missing | None = None) -> Sample:
        rows = (vpp_thread(n, second) for n in (0, 1))
        one = instance(second, {0: 1000 * second, 1: MPPS_10 * second}, problem=problem)
        return host(second, *rows, vpp=VppTable((one,)))

    frame = fold(START, at(1), at(2))[-1]
    assert frame.nfs[0].cpus == (0, 1)
    assert cpu(frame, "rx_packets_per_s", 0) == pytest.approx(1000)
    assert nf(frame, "rx_packets_per_s") == pytest.approx(MPPS_10 + 1000)
    assert nf(frame, "cpp") == pytest.approx(2 * TSC_HZ / (MPPS_10 + 1000))


def test_a_poller_of_a_vpp_that_never_answered_reports_why() -> None:
    denied = Missing(Reason.PERMISSION, "can't open /run/vpp/stats.sock: run as root")
    one = instance(1, {}, problem=denied, threads=())
    samples = (host(t, vpp_thread(0, t), vpp=VppTable((one,))) for t in (1, 2))
    frame = fold(START, *samples)[-1]
    assert frame.cpus.thread[0] == "vpp_main"
    assert cpu(frame, "rx_packets_per_s", 0) == denied


def cpus_reported(frame: Frame) -> tuple[Any, ...]:
    return frame.nfs[0].cpus, frame.cpus.thread[1], frame.cpus.thread[3]


def test_hidden_threads_are_where_vpp_reports() -> None:
    def at(second: int, *cpus: int | None) -> Sample:
        one = instance(second, {1: MPPS_10 * second, 2: MPPS_10 * second})
        workers = (
            VppThread(n, None if cpu is None else Cpu(cpu), 1, None, None)
            for n, cpu in enumerate(cpus)
        )
        return host(second, vpp=VppTable((replace(one, threads=tuple(workers)),)))

    frame = fold(START, *(at(t, 0, 1, 3) for t in (1, 2)))[-1]
    assert cpus_reported(frame) == ((1, 3), "vpp_wk_0", "vpp_wk_1")
    assert nf(frame, "cpp") == pytest.approx(TSC_HZ / MPPS_10)
    # A part of its cores is not passed off as the whole.
    frame = fold(START, *(at(t, 0, 1, None) for t in (1, 2)))[-1]
    assert cpus_reported(frame) == ((1,), "vpp_wk_0", None)
    assert cpu(frame, "cpp") == pytest.approx(TSC_HZ / MPPS_10)
    assert reason(nf(frame, "cpp")) is Reason.SOURCE
    assert nf(frame, "rx_packets_per_s") == pytest.approx(2 * MPPS_10)


def test_a_new_interface_warms_up_under_its_own_name() -> None:
    def at(second: int, name: str) -> Sample:
        one = instance(second, {1: MPPS_10 * second})
        named = replace(one.interfaces, names=("local0", name, "eth1"))
        return vpp(second, replace(one, interfaces=named))

    frames = fold(START, at(1, "eth0"), at(2, "eth0"), at(3, "eth9"), at(4, "eth9"))
    assert reason(cpu(frames[2], "rx_packets_per_s")) is Reason.WARMING
    assert cpu(frames[3], "rx_packets_per_s") == pytest.approx(MPPS_10)


def test_a_frozen_vpp_keeps_its_cores() -> None:
    frozen = Missing(Reason.ERROR, "VPP's heartbeat has stopped")
    frames = fold(
        START,
        *(forwarding(t, busy_nodes(t, 1.0, 1.0)) for t in (1, 2)),
        forwarding(3, busy_nodes(2, 1.0, 1.0), problem=frozen),
        *(forwarding(t, busy_nodes(t, 1.0, 1.0)) for t in (4, 5)),
    )
    assert frames[2].nfs[0].problem == frozen and frames[2].nfs[0].cpus == (1, 2)
    for metric in ("rx_packets_per_s", "busy_ratio", "cpp"):
        assert cpu(frames[2], metric) == frozen
    assert "heartbeat" in frames[2].sources["vpp"].detail
    assert reason(cpu(frames[3], "busy_ratio")) is Reason.WARMING
    assert cpu(frames[4], "busy_ratio") == pytest.approx(1.0, abs=1e-5)


def test_a_vpp_that_never_answered_has_nothing() -> None:
    denied = Missing(Reason.PERMISSION, "can't open /run/vpp/stats.sock: run as root")
    one = instance(1, {}, problem=denied, threads=(), pid=0, start_ticks=0)
    frame = fold(START, *(host(t, vpp=VppTable((one,))) for t in (1, 2)))[-1]
    assert nf(frame, "rx_packets_per_s") == denied
    assert frame.nfs[0].cpus == () and frame.nfs[0].key == "/run/vpp/stats.sock"


def test_clocks_while_the_thread_was_off_its_cpu_are_not_work() -> None:
    def at(second: int, *, wait: float) -> Sample:
        one = instance(second, {1: MPPS_10 * second}, nodes(full_frames(second, MPPS_10, 1.0)))
        thread = vpp_thread(1, second, run=1 - wait, wait=wait)
        return host(second, thread, vpp=VppTable((one,)))

    robbed = fold(START, at(1, wait=0.25), at(2, wait=0.25))[-1]
    unknown = cpu(robbed, "busy_ratio")
    assert isinstance(unknown, Missing) and "75%" in unknown.message
    whole = fold(START, at(1, wait=0.0), at(2, wait=0.0))[-1]
    assert cpu(whole, "busy_ratio") == pytest.approx(1.0, abs=1e-5)


def test_names_distinguish_several() -> None:
    one = instance(1, {1: 1})
    other = replace(one, pid=PID + 1, socket="/run/edge/stats.sock")
    frame = fold(START, host(1, vpp=VppTable((one, other))))[-1]
    assert [row.name for row in frame.nfs] == ["vpp", "edge/vpp"]
