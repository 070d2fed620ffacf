"""What shows that a core is saturated: busy time, vectors, drops; and whose drops are whose."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nftop.derive.nf.kinds.vpp import rate_packets
from nftop.derive.nf.rates import NfCore
from nftop.derive.nf.vpp_graph import fills, step_nodes
from nftop.derive.saturation import (
    Room,
    Saturation,
    room_of,
    room_of_all,
    saturation_of,
    saturation_of_all,
)
from nftop.model.frame import Frame
from nftop.model.ids import Cpu, Lcore
from nftop.model.metrics.saturation import DROPPING_RATIO, SATURATED_RATIO, VPP_FRAME
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.nf.queue_map import Prefix, QueueMap
from nftop.model.sample import DpdkApp
from tests.derive.nf_scene import (
    PID,
    full_frames,
    instance,
    nodes,
    ovs,
    switch,
    vpp,
    working,
)
from tests.derive.scene import START, cpu, forwarding, nf, reason, spinning, tick, two_queues
from tests.samples import S, app, fold, port, table

UNREPORTED = Missing(Reason.SOURCE)
MAP: QueueMap = {Prefix("nfa"): {(0, 0): Lcore(1), (0, 1): Lcore(2)}}


def core(**changes: Any) -> NfCore:
    """It takes a million packets per second and tells nothing else."""
    row = NfCore(
        cpu=Cpu(1),
        thread="one",
        packets_per_s=1e6,
        run_ratio=1.0,
        wait_ratio=0.0,
        busy_ratio=UNREPORTED,
        awake_busy_ratio=UNREPORTED,
        nf_cycles_per_s=UNREPORTED,
    )
    return replace(row, **changes)


MANY = 2e6 * DROPPING_RATIO  # per second: more than the limit of a million and these


@pytest.mark.parametrize(
    ("reported", "verdict", "by"),
    [
        ({}, None, ()),
        ({"busy_ratio": SATURATED_RATIO}, True, ("busy",)),
        ({"busy_ratio": 1.0, "run_ratio": 0.94}, False, ()),
        ({"missed_packets_per_s": MANY}, True, ("drops",)),
        ({"missed_packets_per_s": MANY / 3}, None, ()),
        ({"missed_packets_per_s": MANY, "busy_ratio": 0.9}, False, ()),
        ({"missed_packets_per_s": MANY, "busy_ratio": 0.96}, True, ("busy", "drops")),
        ({"missed_packets_per_s": MANY, "run_ratio": 0.9}, None, ()),
        ({"missed_packets_per_s": MANY, "run_ratio": UNREPORTED}, None, ()),
        ({"missed_packets_per_s": MANY, "packets_per_s": UNREPORTED}, None, ()),
        ({"vector_fill_ratio": 0.96}, True, ("vectors",)),
        ({"vector_fill_ratio": 0.94}, None, ()),
        ({"vector_fill_ratio": 1.0, "poll_fill_ratio": 0.5}, None, ()),
        ({"vector_fill_ratio": 1.0, "poll_fill_ratio": 0.96}, True, ("vectors",)),
    ],
)
def test_evidence_shows_that_a_core_is_saturated_and_only_busy_time_that_it_is_not(
    reported: dict[str, Reading], verdict: bool | None, by: tuple[str, ...]
) -> None:
    assert saturation_of(core(**reported)) == Saturation(verdict, by)


def test_drops_are_no_evidence_of_a_core_that_only_sends() -> None:
    assert saturation_of(core(missed_packets_per_s=MANY), "tx").verdict is None


def test_an_nf_is_saturated_if_all_its_cores_are() -> None:
    full, drops = Saturation(True, ("busy",)), Saturation(True, ("vectors", "drops"))
    assert saturation_of_all([drops, full]) == Saturation(True, ("busy", "vectors", "drops"))
    assert saturation_of_all([full, Saturation(None)]).verdict is None
    assert saturation_of_all([full, Saturation(False)]) == Saturation(False)
    assert saturation_of_all([]).verdict is None


def dropping(second: float, missed: int, **changes: Any) -> DpdkApp:
    """testpmd of DPDK 22.11, without busy cycles, that takes 10 Mpps; port 1 only sends."""
    whole = forwarding(second, **changes)
    first = replace(whole.ports[0], rx_missed=int(missed * second))
    return replace(whole, ports=(first, *whole.ports[1:]))


def test_the_only_core_of_a_port_that_drops_is_saturated() -> None:
    frame = fold(START, *(tick(t, dropping(t, 1_000_000)) for t in (1, 2)))[-1]
    assert cpu(frame, "missed_packets_per_s") == 1e6
    assert reason(cpu(frame, "busy_ratio")) is Reason.SOURCE
    assert frame.cpus.saturated[1] is True and frame.cpus.saturated_by == {1: ("drops",)}
    (row,) = frame.nfs
    assert (row.saturated, row.saturated_by) == (True, ("drops",))
    assert not isinstance(row.queues, Missing)
    assert [queue.missed_packets_per_s for queue in row.queues] == [1e6, 0.0]
    few = fold(START, *(tick(t, dropping(t, 10_000)) for t in (1, 2)))[-1]
    assert few.cpus.saturated[1] is None and few.cpus.saturated_by == {}
    assert reason(cpu(frame, "missed_packets_per_s", 0)) is Reason.UNDEFINED


def of_two_workers(missed: int, *of_queues: int, queue_map: QueueMap | None = None) -> Frame:
    """Two workers with a queue each of one port, which drops so many packets per second."""

    def at(second: int) -> DpdkApp:
        whole = two_queues(second)
        queues = tuple(item * second for item in of_queues)
        first = replace(whole.ports[0], rx_missed=missed * second, rx_queue_missed=queues)
        return replace(whole, ports=(first,))

    start = replace(START, queue_map=MAP if queue_map is None else queue_map)
    return fold(start, *(tick(t, at(t), workers=spinning(t)) for t in (1, 2)))[-1]


def test_drops_of_a_port_with_several_cores_are_of_none_unless_its_queues_are_counted() -> None:
    frame = of_two_workers(1_000_000)
    assert [reason(cpu(frame, "missed_packets_per_s", row)) for row in (1, 2)] == [
        Reason.SOURCE
    ] * 2
    assert frame.cpus.saturated[1:3] == (None, None) and frame.nfs[0].saturated is None
    assert nf(frame, "drop_packets_per_s") == 1e6
    none = of_two_workers(0)
    assert [cpu(none, "missed_packets_per_s", row) for row in (1, 2)] == [0.0, 0.0]
    unmapped = of_two_workers(1_000_000, queue_map={})
    assert reason(cpu(unmapped, "missed_packets_per_s")) is Reason.SOURCE
    assert cpu(of_two_workers(0, queue_map={}), "missed_packets_per_s") == 0.0


def test_drops_of_queues_count_where_they_add_up_to_those_of_the_port() -> None:
    frame = of_two_workers(1_000_000, 970_000, 30_000)
    assert [cpu(frame, "missed_packets_per_s", row) for row in (1, 2)] == [970_000.0, 30_000.0]
    assert frame.cpus.saturated[1:3] == (True, None)
    assert frame.nfs[0].saturated is None
    errors = of_two_workers(1_000_000, 970_000, 300_000)
    assert reason(cpu(errors, "missed_packets_per_s")) is Reason.SOURCE


def worker(second: float, **changes: Any) -> Frame:
    """A VPP without counters per node that takes 10 Mpps; `changes` of its worker."""

    def at(t: float) -> Any:
        one = instance(t, {1: int(1e7 * t)})
        threads = (one.threads[0], replace(one.threads[1], **changes))
        return vpp(t, replace(one, threads=threads))

    return fold(START, at(second), at(second + 1))[-1]


def test_without_counters_per_node_vpps_own_vector_rate_counts() -> None:
    loops = 1e7 / VPP_FRAME
    frame = worker(1, vector_rate=256.0, loops_per_s=loops)
    assert cpu(frame, "vector_fill_ratio") == 1.0
    assert frame.cpus.saturated[1] is True and frame.cpus.saturated_by == {1: ("vectors",)}
    assert nf(frame, "vector_fill_ratio") == 1.0 and frame.nfs[0].saturated_by == ("vectors",)
    bursts = worker(1, vector_rate=256.0, loops_per_s=4 * loops)
    assert bursts.cpus.saturated[1] is None, "three of four polls were empty"
    half = worker(1, vector_rate=128.0, loops_per_s=2 * loops)
    assert cpu(half, "vector_fill_ratio") == 0.5 and half.cpus.saturated[1] is None
    unknown = worker(1)
    assert reason(cpu(unknown, "vector_fill_ratio")) is Reason.SOURCE


def test_the_fill_of_vectors_is_that_of_the_node_that_most_packets_pass() -> None:
    def reported(second: int, calls: int) -> Any:
        frames = full_frames(second, 10_000, 0.9)
        clocks, packets, own = frames["dpdk-input"]
        return nodes({**frames, "dpdk-input": (clocks, packets, own + calls * second)})

    state = step_nodes(step_nodes(None, 1, reported(1, 0)), 2, reported(2, 0))
    vectors, polls = fills(state, 1)
    assert vectors == polls == pytest.approx(10_000 / 39 / 256, abs=0.02)
    state = step_nodes(step_nodes(None, 1, reported(1, 40)), 2, reported(2, 40))
    vectors, polls = fills(state, 1)
    assert vectors == pytest.approx(1.0, abs=0.02) and polls == pytest.approx(0.5, abs=0.02)
    assert [reason(fill) for fill in fills(state, 0)] == [Reason.IDLE] * 2
    assert [reason(fill) for fill in fills(None, 1)] == [Reason.SOURCE] * 2


def test_drops_that_vpps_main_thread_books_are_those_of_the_only_receiver() -> None:
    def at(second: int, receivers: tuple[int, ...], books: int = 0) -> Any:
        one = instance(second, dict.fromkeys((0, 1, 2), 0))
        counted = one.interfaces
        for thread in receivers:
            counted.rx_packets[thread, 1] = 10**7 * second
        counted.rx_misses[books, 1] = 10**6 * second
        return one

    def missed(*receivers: int, books: int = 0) -> list[float]:
        rated = rate_packets(rate_packets(None, at(1, receivers, books)), at(2, receivers, books))
        assert not isinstance(rated.missed_per_s, Missing)
        return [float(item) for item in rated.missed_per_s]

    assert missed(2) == [0.0, 0.0, 1e6]
    both = missed(1, 2)
    assert both[0] == 0.0 and np.isnan(both[1:]).all()
    assert missed(1, 2, books=1) == [0.0, 1e6, 0.0], "a worker that books drops has them"


def test_drops_of_a_switchs_ports_are_its_only_pmds() -> None:
    def at(second: int, *pmds: int, missed: int) -> Any:
        sample = ovs(second, *(working(item, second, 10**7, 1.0) for item in pmds))
        duplicate = app(
            second * S,
            port(rx=10**7 * second, rx_missed=missed * second),
            pid=PID,
            start_ticks=switch(second).start_ticks,
            prefix="ovs",
        )
        reading = replace(sample.readings["ovs"], value=table(duplicate))
        return replace(sample, readings={**sample.readings, "dpdk": reading})

    alone = fold(START, at(1, 1, missed=10**6), at(2, 1, missed=10**6))[-1]
    assert cpu(alone, "missed_packets_per_s") == 1e6
    assert alone.cpus.saturated_by == {1: ("busy", "drops")}
    two = fold(START, at(1, 1, 2, missed=10**6), at(2, 1, 2, missed=10**6))[-1]
    assert reason(cpu(two, "missed_packets_per_s")) is Reason.SOURCE
    assert two.nfs[0].saturated_by == ("busy",)
    none = fold(START, at(1, 1, 2, missed=0), at(2, 1, 2, missed=0))[-1]
    assert cpu(none, "missed_packets_per_s") == 0.0


@pytest.mark.parametrize(
    ("reported", "share", "packets_per_s"),
    [
        ({"busy_ratio": 0.25}, 0.75, 3e6),
        ({"busy_ratio": 0.8}, 0.2, 0.25e6),
        ({"busy_ratio": 1.001}, 0.0, 0.0),
        ({"missed_packets_per_s": MANY}, 0.0, 0.0),
        ({"missed_packets_per_s": MANY, "busy_ratio": 0.96}, 0.0, 0.0),
        ({"missed_packets_per_s": MANY, "busy_ratio": 0.5}, 0.5, 1e6),
        ({"vector_fill_ratio": 1.0}, 0.0, 0.0),
        ({}, Reason.SOURCE, Reason.SOURCE),
        ({"busy_ratio": 0.5, "packets_per_s": Missing(Reason.RESET)}, 0.5, Reason.RESET),
        ({"busy_ratio": 0.0, "packets_per_s": 0.0}, 1.0, Reason.IDLE),
        ({"busy_ratio": 0.01, "packets_per_s": 0.0}, 0.99, Reason.IDLE),
    ],
)
def test_the_room_of_a_core_is_what_it_does_not_use_at_todays_cost(
    reported: dict[str, Reading], share: float | Reason, packets_per_s: float | Reason
) -> None:
    room = room_of(core(**reported))
    for reading, wanted in ((room.ratio, share), (room.packets_per_s, packets_per_s)):
        if isinstance(wanted, Reason):
            assert reason(reading) is wanted
        else:
            assert reading == pytest.approx(wanted)


def test_the_room_of_an_nf_is_that_of_its_busiest_core() -> None:
    cores = [Room(0.5, 1e6), Room(0.2, 1e5)]
    room = room_of_all(cores, 4e6)
    assert room.ratio == 0.2 and room.packets_per_s == pytest.approx(1e6)
    unknown = Room(UNREPORTED, UNREPORTED)
    assert reason(room_of_all([*cores, unknown], 4e6).ratio) is Reason.SOURCE
    assert room_of_all([*cores, unknown, Room(0.0, 0.0)], 4e6) == Room(0.0, 0.0)
    assert reason(room_of_all([], 4e6).ratio) is Reason.IDLE


def test_room_is_by_cpu_and_by_nf() -> None:
    frames = fold(
        START, *(ovs(t, working(1, t, 6 * 10**6, 0.6), working(2, t, 10**6, 0.2)) for t in (1, 2))
    )
    frame = frames[-1]
    assert [cpu(frame, "room_ratio", row) for row in (1, 2)] == pytest.approx([0.4, 0.8])
    rooms = [cpu(frame, "room_packets_per_s", row) for row in (1, 2)]
    assert rooms == pytest.approx([4e6, 4e6])
    assert nf(frame, "room_ratio") == pytest.approx(0.4)
    assert nf(frame, "room_packets_per_s") == pytest.approx(7e6 * (1 / 0.6 - 1))
    assert reason(cpu(frame, "room_ratio", 0)) is Reason.UNDEFINED
    clock = cpu(frame, "tsc_hz")
    cost, packets = cpu(frame, "busy_cpp"), cpu(frame, "packets_per_s")
    assert not isinstance(clock, Missing) and not isinstance(cost, Missing)
    assert not isinstance(packets, Missing)
    assert rooms[0] == pytest.approx(clock / cost - packets), "equation 5"
