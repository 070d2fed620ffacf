"""Whose packets they are: which core polls which queue, and what is not known."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from nftop.derive.fold import polling_cpus
from nftop.derive.nf.kinds.dpdk_queues import config_queues, enabled_lcores
from nftop.export.json.frame import frame_json
from nftop.model.frame import Frame
from nftop.model.ids import Cpu
from nftop.model.missing import Missing, Reason
from nftop.model.nf.queue_map import parse_queue_map
from nftop.model.owner import ROOT, UNPRIVILEGED, Owner
from nftop.model.sample import DpdkApp, Sample
from tests.derive.scene import (
    MPPS_10,
    START,
    TSC_HZ,
    cpu,
    forwarding,
    nf,
    reason,
    spinning,
    tick,
    two_queues,
    two_worker_frame,
)
from tests.samples import (
    S,
    app,
    cpu_times,
    fold,
    lcore,
    main_thread,
    port,
    thread,
)


def test_a_generator_counts_what_it_sends() -> None:
    def generator(second: int) -> DpdkApp:
        return app(second * S, port(rx=0, tx=MPPS_10 * second))

    frame = fold(START, tick(1, generator(1)), tick(2, generator(2)))[-1]
    assert cpu(frame, "packets_per_s") == MPPS_10
    sent = cpu(frame, "rx_packets_per_s")
    assert isinstance(sent, Missing) and sent.reason is Reason.UNDEFINED
    assert "only sends" in sent.message
    assert "sent" in frame.cpus.attribution[1]
    assert nf(frame, "rx_packets_per_s") == 0.0
    assert nf(frame, "cpp") == pytest.approx(260.0)


def test_two_pollers_and_no_word_on_queues_give_the_total_only() -> None:
    frame = two_worker_frame()
    for row in (1, 2):
        unknown = cpu(frame, "rx_packets_per_s", row)
        assert isinstance(unknown, Missing) and unknown.reason is Reason.SOURCE
    assert "--queue-map 'nfa:" in frame.nfs[0].attribution
    assert frame.nfs[0].cpus == (1, 2)
    assert nf(frame, "rx_packets_per_s") == MPPS_10
    assert nf(frame, "cpp") == pytest.approx(2 * TSC_HZ / MPPS_10)


def test_the_operators_map() -> None:
    frame = two_worker_frame(parse_queue_map(["nfa:(0,0,2),(0,1,1)"]))
    assert cpu(frame, "rx_packets_per_s", 1) == 4_000_000
    assert cpu(frame, "rx_packets_per_s", 2) == 6_000_000
    assert frame.nfs[0].attribution == "--queue-map"


USER = Owner(1000, "mallory", privileged=False, reason=UNPRIVILEGED)


def with_an_unprivileged_one(*, counts: bool = False, **changes: Any) -> Frame:
    """Root's application, and one of mallory's that calls itself the same and says the same.

    With `counts` it says that its lcores on the same CPUs count cycles.
    """

    def users(second: int) -> DpdkApp:
        lcores = tuple(lcore(item, item, 1000 * second, second) for item in (1, 2) if counts)
        return two_queues(
            second,
            pid=7,
            start_ticks=1,
            socket="/tmp/x",
            owner=USER,
            lcores=lcores,
            lcores_told=counts,
            **changes,
        )

    root = Owner(0, "root", privileged=True, reason=ROOT)
    start = replace(START, queue_map=parse_queue_map(["nfa:(0,0,2),(0,1,1)"]))
    frames = fold(
        start,
        *(
            tick(
                second,
                users(second),
                two_queues(second, owner=root),
                workers=spinning(second),
            )
            for second in (1, 2)
        ),
    )
    return frames[-1]


def test_an_unprivileged_application_takes_nothing_of_roots() -> None:
    for frame in (
        with_an_unprivileged_one(),
        with_an_unprivileged_one(counts=True),
        with_an_unprivileged_one(app_params=("--config=(0,0,1),(0,1,2)",)),
    ):
        alone = two_worker_frame(parse_queue_map(["nfa:(0,0,2),(0,1,1)"]))
        root, user = frame.nfs
        assert (root.name, user.name) == ("nfa/testpmd", "mallory:nfa/testpmd")
        assert (root.attribution, root.readings) == ("--queue-map", alone.nfs[0].readings)
        assert user.attribution != "--queue-map" and user.cpus == ()
        assert reason(user.readings["cpp"]) in (Reason.SOURCE, Reason.WARMING, Reason.IDLE)
        assert frame.cpus.nf == alone.cpus.nf
        for metric in ("rx_packets_per_s", "cpp"):
            assert cpu(frame, metric, 1) == cpu(alone, metric, 1)
        named = [load["owner"] for load in json.loads(frame_json(frame))["nfs"]]
        assert named == [
            {"user": "root", "uid": 0, "privileged": True, "reason": "root"},
            {"user": "mallory", "uid": 1000, "privileged": False, "reason": "unprivileged"},
        ]


def test_an_unprivileged_application_alone_has_the_operators_map() -> None:
    frame = two_worker_frame(parse_queue_map(["nfa:(0,0,2),(0,1,1)"]), owner=USER)
    assert frame.nfs[0].attribution == "--queue-map"
    assert frame.cpus.nf[1] == frame.cpus.nf[2] == "mallory:nfa/testpmd"


def test_the_applications_own_config_comes_first() -> None:
    config = ("--config=(0,0,1),(0,1,2)",)
    frame = two_worker_frame(parse_queue_map(["nfa:(0,0,2),(0,1,1)"]), app_params=config)
    assert cpu(frame, "rx_packets_per_s", 1) == 6_000_000
    assert cpu(frame, "rx_packets_per_s", 2) == 4_000_000


def test_a_config_that_names_a_lcore_nobody_has_gives_no_sum(snapshot: SnapshotAssertion) -> None:
    frame = two_worker_frame(app_params=("--config=(0,0,1),(0,1,9)",))
    assert cpu(frame, "rx_packets_per_s", 1) == 6_000_000
    assert frame.nfs[0].attribution == snapshot
    unknown = nf(frame, "cpp")
    assert isinstance(unknown, Missing) and "not found" in unknown.message


def test_a_pipeline_counts_the_cores_that_poll_no_queue() -> None:
    frame = two_worker_frame(app_params=("--config=(0,0,1),(0,1,1)",))
    assert cpu(frame, "rx_packets_per_s", 1) == MPPS_10
    worker = cpu(frame, "rx_packets_per_s", 2)
    assert isinstance(worker, Missing) and "no queue" in worker.message
    assert frame.nfs[0].cpus == (1, 2)
    assert nf(frame, "cpp") == pytest.approx(2 * TSC_HZ / MPPS_10)


def test_a_floating_worker_leaves_no_sum(snapshot: SnapshotAssertion) -> None:
    def at(second: int) -> Sample:
        first, *rest = spinning(second)[1:]
        return tick(
            second,
            two_queues(second),
            workers=(first, *(replace(item, allowed=(Cpu(2), Cpu(3))) for item in rest)),
        )

    frame = fold(START, at(1), at(2))[-1]
    unknown = nf(frame, "cpp")
    assert isinstance(unknown, Missing)
    assert unknown.message == snapshot


def test_a_worker_with_a_cut_name_is_still_a_poller() -> None:
    """`lcore-worker-10` on CPU 104: its lcore is not known, but it is not nobody."""

    def at(second: int) -> Sample:
        cut = thread(
            tid=105, comm="lcore-worker-10", role_index=None, allowed=(Cpu(3),), run_ns=second * S
        )
        params = ("app", "-l", "0,1,104")
        return tick(
            second,
            two_queues(second, eal_params=params),
            workers=(main_thread(), thread(run_ns=second * S), cut),
        )

    frame = fold(START, at(1), at(2))[-1]
    assert frame.nfs[0].cpus == (1, 3)
    assert "2 lcores poll" in frame.nfs[0].attribution
    assert reason(cpu(frame, "rx_packets_per_s", 1)) is Reason.SOURCE
    assert nf(frame, "cpp") == pytest.approx(2 * TSC_HZ / MPPS_10)


def test_a_driver_without_queue_counters(snapshot: SnapshotAssertion) -> None:
    config = ("--config=(0,0,1),(0,1,2)",)
    frame = two_worker_frame(app_params=config)
    without = [
        tick(
            s,
            replace(
                two_queues(s, app_params=config),
                ports=(port(rx=s, rx_queues=2, rx_queue_packets=()),),
            ),
            workers=spinning(s),
        )
        for s in (1, 2)
    ]
    frame = fold(START, *without)[-1]
    unknown = cpu(frame, "rx_packets_per_s", 1)
    assert isinstance(unknown, Missing)
    assert unknown.message == snapshot


def test_the_main_lcore_polls_too_in_l3fwd() -> None:
    def at(second: int) -> Sample:
        alone = app(
            second * S,
            port(rx=MPPS_10 * second),
            eal_params=("l3fwd", "-l", "1"),
            app_params=("--config=(0,0,1)",),
        )
        main = replace(main_thread(run_ns=second * S), allowed=(Cpu(1),))
        return tick(second, alone, workers=(main,))

    frame = fold(START, at(1), at(2))[-1]
    assert cpu(frame, "rx_packets_per_s") == MPPS_10
    assert frame.cpus.thread[1] == "dpdk-testpmd"


def test_a_lcore_that_may_move_is_where_it_ran_last_but_costs_no_cpu() -> None:
    def at(second: int) -> Sample:
        unpinned = replace(thread(run_ns=second * S), allowed=(Cpu(1), Cpu(2)), last_cpu=Cpu(2))
        return tick(second, forwarding(second), workers=(unpinned,))

    frame = fold(START, at(1), at(2))[-1]
    assert frame.cpus.thread == (None, None, "rte-worker-1", None)
    assert frame.nfs[0].cpus == (2,)
    assert cpu(frame, "rx_packets_per_s", 2) == pytest.approx(MPPS_10)
    for unknown in (cpu(frame, "cpp", 2), nf(frame, "cpp")):
        assert isinstance(unknown, Missing) and "pin it" in unknown.message


def test_a_program_that_spins_is_no_network_function() -> None:
    def at(second: int) -> Sample:
        spin = thread(
            pid=7, tid=7, comm="spin", program="spin", role="", role_index=None, run_ns=second * S
        )
        whole = tick(second, workers=(spin,))
        busy = cpu_times({n: {"user": 100 * second if n == 1 else 0, "idle": 1} for n in range(4)})
        kernel = replace(whole.readings["kernel"], value=busy)
        return replace(whole, readings={**whole.readings, "kernel": kernel})

    frame = fold(START, at(1), at(2))[-1]
    assert frame.cpus.thread[1] == "spin" and frame.cpus.nf[1] is None
    assert cpu(frame, "busy_ratio") == 1.0
    assert reason(cpu(frame, "rx_packets_per_s")) is Reason.UNDEFINED
    assert polling_cpus(frame) == frozenset()


def test_a_queue_map_that_does_not_fit_reports_it(snapshot: SnapshotAssertion) -> None:
    frame = two_worker_frame(parse_queue_map(["nfa:(0,0,1),(0,7,2)"]))
    how = frame.nfs[0].attribution
    assert how == snapshot
    nobody = two_worker_frame(parse_queue_map(["nosuch:(0,0,1)"]))
    assert "names nosuch" in nobody.sources["dpdk"].detail
    idle = two_worker_frame(parse_queue_map(["nfa:(0,0,0),(0,1,1)"]))
    assert idle.nfs[0].attribution == snapshot


def test_a_driver_that_does_not_count_receives_something_all_the_same() -> None:
    def at(second: int) -> Sample:
        return tick(second, app(second * S, port(rx=None, tx=MPPS_10 * second)))

    frame = fold(START, at(1), at(2))[-1]
    assert frame.nfs[0].direction == "rx"
    assert reason(cpu(frame, "cpp")) is Reason.SOURCE


def test_a_stray_packet_makes_no_forwarder_of_a_generator() -> None:
    def at(second: int) -> Sample:
        return tick(second, app(second * S, port(rx=3 * second, tx=MPPS_10 * second)))

    frame = fold(START, at(1), at(2))[-1]
    assert frame.cpus.direction[1] == "tx"
    assert cpu(frame, "cpp") == pytest.approx(260.0)


def test_a_port_number_given_to_another_device_is_another_port() -> None:
    def at(second: int, name: str, rx: int) -> Sample:
        return tick(second, app(second * S, replace(port(rx=rx), name=name)))

    frame = fold(START, at(1, "0000:01:00.0", 100), at(2, "0000:02:00.0", 4_000_000))[-1]
    assert reason(nf(frame, "rx_packets_per_s")) is Reason.WARMING


def test_what_once_generated_and_now_receives_is_rated_by_what_it_receives() -> None:
    """Its totals would call it a generator for weeks."""

    def phases(second: int) -> DpdkApp:
        sent, received = min(second, 2), max(second - 2, 0)
        quiet = min(received, 1)  # a second of nothing before it receives
        return app(
            second * S,
            port(0, rx=(received - quiet) * MPPS_10),
            port(1, tx=sent * 1000 * MPPS_10),
        )

    frames = fold(START, *(tick(second, phases(second)) for second in (1, 2, 3, 4)))
    assert [frame.nfs[0].direction for frame in frames] == ["rx", "tx", "tx", "rx"]
    assert frames[2].cpus.direction[1] == "tx"
    assert cpu(frames[3], "rx_packets_per_s") == pytest.approx(MPPS_10)
    assert nf(frames[3], "cpp") == pytest.approx(TSC_HZ / MPPS_10)


def test_of_many_odd_queues_only_some_are_named(snapshot: SnapshotAssertion) -> None:
    config = ",".join(f"(0,{queue},1)" for queue in range(4, 304))
    many = app(S, port(rx=1, rx_queues=1024), app_params=(f"--config={config}",))
    how = fold(START, tick(1, many))[-1].nfs[0].attribution
    assert how == snapshot
    beyond = app(S, port(rx=1, rx_queues=4), app_params=(f"--config={config}",))
    how = fold(START, tick(1, beyond))[-1].nfs[0].attribution
    assert how == snapshot


def test_a_bonds_members_are_not_polled_for_themselves() -> None:
    member = replace(port(0, rx=1), bond_member=True)
    bond = replace(port(1, rx=1), name="net_bonding0", bond_member=False)
    one = app(S, member, bond, app_params=("--config=(1,0,1)",))
    assert fold(START, tick(1, one))[-1].nfs[0].attribution == "its own --config"


def test_a_core_that_the_topology_lacks_leaves_no_sum() -> None:
    def at(second: int) -> Sample:
        rows = spinning(second)
        present = (rows[0], rows[1], replace(rows[2], allowed=(Cpu(9),), last_cpu=Cpu(9)))
        return tick(second, two_queues(second), workers=present)

    frame = fold(START, at(1), at(2))[-1]
    assert frame.nfs[0].cpus == (1, 9) and nf(frame, "rx_packets_per_s") == MPPS_10
    for metric in ("cpp", "busy_cpp", "ipp"):
        unknown = nf(frame, metric)
        assert isinstance(unknown, Missing) and unknown.reason is Reason.SOURCE
        assert "CPU 9" in unknown.message
    assert frame.nfs[0].saturated is None


def test_packets_of_threads_that_cant_be_seen_are_nobodys_cores(
    snapshot: SnapshotAssertion,
) -> None:
    # As from a pid namespace of its own: no thread has the pid that telemetry tells.
    def unseen(second: int, rate: int) -> Sample:
        return tick(second, forwarding(second, rate), workers=())

    frame = fold(START, unseen(1, MPPS_10), unseen(2, MPPS_10))[-1]
    assert nf(frame, "rx_packets_per_s") == MPPS_10
    for metric in ("cpp", "busy_cpp", "ipp", "ipc", "imbalance_ratio", "llc_occupancy_bytes"):
        missing = nf(frame, metric)
        assert reason(missing) is Reason.SOURCE, metric
        assert isinstance(missing, Missing)
        assert missing.message == snapshot
    assert "is it started" not in frame.nfs[0].attribution
    idle = fold(START, unseen(1, 0), unseen(2, 0))[-1]
    assert "is it started" in idle.nfs[0].attribution, "without packets it may not be"


def test_packets_of_threads_that_sleep_in_between(snapshot: SnapshotAssertion) -> None:
    def asleep(second: int) -> Sample:
        return tick(second, forwarding(second), workers=(main_thread(), thread(run_ns=0)))

    frame = fold(START, asleep(1), asleep(2), asleep(3))[-1]
    missing = nf(frame, "cpp")
    assert isinstance(missing, Missing) and missing.reason is Reason.SOURCE
    assert missing.message == snapshot


@pytest.mark.parametrize(
    ("params", "lcores"),
    [
        (["app", "-l", "0-1"], {0, 1}),
        (["app", "-l0,3"], {0, 3}),
        (["app", "-c", "0x5"], {0, 2}),
        (["app", "-c", "f0"], {4, 5, 6, 7}),
        (["app", "--lcores=1,2@(5-7),(3-5)@(0,2)"], {1, 2, 3, 4, 5}),
        (["app", "--lcores", "0@3,1@4"], {0, 1}),
        (["app", "--lcores", "(0,6)"], {0, 6}),
        (["app", "--no-huge", "-m", "512"], set()),
        (["app", "-l", "x"], set()),
        (["app", "-c", "lcores"], set()),
        (["app", "-l"], set()),
        ([], set()),
    ],
)
def test_enabled_lcores(params: list[str], lcores: set[int]) -> None:
    assert enabled_lcores(params) == lcores


def test_config_of_l3fwd() -> None:
    queues = {(0, 0): 1, (1, 0): 1}
    assert config_queues(["-P", "-p", "0x3", "--config=(0,0,1),(1,0,1)"]) == queues
    assert config_queues(["--config", "(0,0,1),(1,0,1)"]) == queues
    assert config_queues(["-p", "0x3"]) == {}
    assert config_queues(["--config=file.cfg"]) == {}


@given(st.lists(st.text(max_size=12), max_size=6))
def test_no_command_line_raises(params: list[str]) -> None:
    enabled_lcores([*params, "-l", *params, "--lcores", *params, "-c", *params])
    config_queues([*params, "--config", *params])
