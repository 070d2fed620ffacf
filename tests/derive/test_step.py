"""From raw samples to what is shown: the numbers, and every reason there can be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from nftop.derive.select import only_cpus
from nftop.derive.step import State, polling_cpus
from nftop.model.catalogue import CPU_METRICS, NF_METRICS
from nftop.model.frame import Frame
from nftop.model.ids import Cpu
from nftop.model.queue_map import parse_queue_map
from nftop.model.reading import Missing, Reading, Reason
from nftop.model.sample import DpdkApp, Sample, SelfUse, SourceReading, ThreadRow
from nftop.model.topology import Topology
from tests.samples import (
    HOST,
    S,
    app,
    counters,
    cpu_times,
    fold,
    lcore,
    main_thread,
    port,
    sample,
    table,
    thread,
    threads,
    topology,
    tsc_only,
)

TSC_HZ = 2_600_000_000
MPPS_10 = 10_000_000
START = State(HOST, topology(4, smt=False))


def tick(second: float, *apps: DpdkApp, workers: tuple[ThreadRow, ...] | None = None) -> Sample:
    """A host without a PMU at `second`: one worker spinning on CPU 1, its main thread asleep."""
    at_ns = int(second * S)
    if workers is None:
        workers = (main_thread(run_ns=0), thread(run_ns=at_ns))
    return sample(
        at_ns,
        perf=tsc_only({cpu: int(TSC_HZ * second) for cpu in range(4)}, enabled_ns=at_ns),
        kernel=cpu_times({cpu: {"idle": int(100 * second)} for cpu in range(4)}),
        processes=threads(*workers),
        dpdk=table(*apps),
        self=SelfUse(int(0.01 * at_ns), (Cpu(0),), int(4 * second)),
    )


def forwarding(second: float, rate: int = MPPS_10, **changes: Any) -> DpdkApp:
    """It has received and sent `rate` packets a second since 0."""
    packets = int(rate * second)
    return app(int(second * S), port(0, rx=packets), port(1, tx=packets), **changes)


def cpu(frame: Frame, metric: str, row: int = 1) -> Reading:
    return frame.cpus.columns[metric][row]


def nf(frame: Frame, metric: str) -> Reading:
    (row,) = frame.nfs
    return row.readings[metric]


def reason(reading: Reading) -> Reason:
    assert isinstance(reading, Missing), reading
    return reading.reason


def test_testpmd_without_a_pmu() -> None:
    first, second = fold(START, tick(1, forwarding(1)), tick(2, forwarding(2)))
    assert reason(cpu(first, "rx_packets_per_s")) in (Reason.WARMING, Reason.UNDEFINED)
    assert second.cpus.thread == (None, "rte-worker-1", None, None)
    assert second.cpus.nf[1] == "nfa/dpdk-testpmd" and second.cpus.nf_pid[1] == 100
    assert second.cpus.direction[1] == "rx" and second.nfs[0].cpp_clock == "tsc"
    assert cpu(second, "rx_packets_per_s") == pytest.approx(MPPS_10)
    assert cpu(second, "cpp") == pytest.approx(TSC_HZ / MPPS_10)
    assert second.cpus.cpp_clock[1] == "tsc"
    assert cpu(second, "run_ratio") == 1.0
    assert reason(cpu(second, "ipc")) is Reason.HARDWARE
    assert reason(cpu(second, "ipp")) is Reason.HARDWARE
    assert reason(cpu(second, "busy_ratio")) is Reason.SOURCE
    assert reason(cpu(second, "busy_cpp")) is Reason.SOURCE
    assert nf(second, "tx_packets_per_s") == pytest.approx(MPPS_10)
    assert nf(second, "drop_packets_per_s") == 0.0
    assert nf(second, "cpp") == pytest.approx(TSC_HZ / MPPS_10)
    assert polling_cpus(second) == {1}
    assert second.own.cpu_ratio == pytest.approx(0.01)
    assert second.own.counter_reads == 4
    # A CPU where nothing polls has no packets, which is not zero packets.
    assert reason(cpu(second, "cpp", 0)) is Reason.UNDEFINED
    assert reason(cpu(second, "rx_packets_per_s", 0)) is Reason.UNDEFINED
    assert cpu(second, "busy_ratio", 0) == 0.0


def test_every_metric_of_the_catalogue_is_in_every_frame() -> None:
    empty = Sample(S, S, S, {})
    for frame in fold(START, empty, tick(1), tick(2, forwarding(2)), empty):
        assert frame.cpus.columns.keys() == {metric.id for metric in CPU_METRICS}
        assert all(len(column) == 4 for column in frame.cpus.columns.values())
        for row in frame.nfs:
            assert row.readings.keys() == {metric.id for metric in NF_METRICS}


def test_cpp_is_a_ratio_of_rates_each_by_its_own_clock() -> None:
    # The application was polled 1.02 s apart and perf 1.00 s: 205.9 would be the ratio of deltas.
    rate = 10_000_000
    before = sample(
        S,
        perf=tsc_only(dict.fromkeys(range(4), 0), enabled_ns=S),
        processes=threads(thread(run_ns=S)),
        dpdk=table(app(S, port(rx=0))),
    )
    after = sample(
        2 * S,
        perf=tsc_only(dict.fromkeys(range(4), 2100000000), enabled_ns=2 * S),
        processes=threads(thread(run_ns=2 * S)),
        dpdk=table(app(int(2.02 * S), port(rx=int(rate * 1.02)))),
    )
    frame = fold(START, before, after)[-1]
    assert cpu(frame, "cpp") == pytest.approx(210.0)


def test_core_cycles_are_preferred_and_ipc_times_cpp_is_ipp() -> None:
    def at(second: int) -> Sample:
        once = (3_000_000_000, 6_000_000_000, 2_600_000_000, TSC_HZ, 10)
        values = dict.fromkeys(range(4), tuple(count * second for count in once))
        return sample(
            second * S,
            perf=counters(values, enabled_ns=second * S),
            processes=threads(thread(run_ns=second * S)),
            dpdk=table(forwarding(second)),
        )

    frame = fold(START, at(1), at(2))[-1]
    ipc, cpp, ipp = (cpu(frame, metric) for metric in ("ipc", "cpp", "ipp"))
    assert isinstance(ipc, float) and isinstance(cpp, float)
    assert frame.cpus.cpp_clock[1] == "core"
    assert ipc == 2.0 and cpp == 300.0 and ipp == ipc * cpp
    assert cpu(frame, "frequency_hz") == pytest.approx(3e9)
    assert cpu(frame, "context_switches_per_s") == 10.0
    assert nf(frame, "ipp") == pytest.approx(600.0)


def test_busy_cycles_of_the_nf_give_busy_cpp() -> None:
    def usage(second: int) -> DpdkApp:
        cycles = TSC_HZ * second
        told = (lcore(0, 0), lcore(1, 1, total=cycles, busy=cycles // 4 * 3))
        return forwarding(second, lcores=told, lcores_told=True)

    frame = fold(START, tick(1, usage(1)), tick(2, usage(2)))[-1]
    assert cpu(frame, "busy_ratio") == pytest.approx(0.75)
    assert cpu(frame, "busy_cpp") == pytest.approx(0.75 * 260)
    assert nf(frame, "busy_cpp") == pytest.approx(0.75 * 260)


def test_without_perf_the_nfs_own_cycles_serve_and_are_labelled() -> None:
    def at(second: int) -> Sample:
        told = (lcore(1, 1, total=TSC_HZ * second, busy=0),)
        return without_perf(tick(second, forwarding(second, lcores=told, lcores_told=True)))

    frame = fold(START, at(1), at(2))[-1]
    assert cpu(frame, "cpp") == pytest.approx(260.0)
    assert frame.cpus.cpp_clock[1] == "nf"
    assert reason(cpu(frame, "ipc")) is Reason.PERMISSION


def test_zero_packets_is_idle_and_not_infinite() -> None:
    stopped = app(2 * S, port(rx=MPPS_10), port(1, tx=MPPS_10))
    frame = fold(START, tick(1, forwarding(1)), tick(2, stopped))[-1]
    assert cpu(frame, "rx_packets_per_s") == 0.0
    assert reason(cpu(frame, "cpp")) is Reason.IDLE


def test_a_generator_counts_what_it_sends() -> None:
    def generator(second: int) -> DpdkApp:
        return app(second * S, port(rx=0, tx=MPPS_10 * second))

    frame = fold(START, tick(1, generator(1)), tick(2, generator(2)))[-1]
    assert cpu(frame, "rx_packets_per_s") == MPPS_10
    assert "sent" in frame.cpus.attribution[1]
    assert nf(frame, "rx_packets_per_s") == 0.0
    assert nf(frame, "cpp") == pytest.approx(260.0)


@pytest.mark.parametrize("restarted", [True, False], ids=["restarted", "cleared"])
def test_counters_that_start_again_give_no_spike(restarted: bool) -> None:
    new = {"pid": 200, "start_ticks": 9000} if restarted else {}
    pid = 200 if restarted else 100
    workers = (main_thread(pid=pid), thread(pid=pid, run_ns=3 * S))
    samples = [
        tick(1, forwarding(1)),
        tick(2, forwarding(2)),
        tick(3, app(3 * S, port(rx=50), port(1, tx=5 * MPPS_10), **new), workers=workers),
        tick(4, app(4 * S, port(rx=50 + MPPS_10), port(1, tx=6 * MPPS_10), **new), workers=workers),
        tick(5, app(5 * S, port(rx=50 + 2 * MPPS_10), port(1, tx=7 * MPPS_10), **new)),
    ]
    frames = fold(START, *samples)
    # tx went up all the while, but what restarted with it is not known.
    broken = frames[2].nfs[0].readings
    for metric in ("rx_packets_per_s", "tx_packets_per_s", "cpp"):
        assert reason(broken[metric]) in (Reason.RESET, Reason.WARMING)
    assert frames[3].nfs[0].readings["rx_packets_per_s"] == MPPS_10


def test_an_application_that_hangs_gives_its_reason_and_comes_back_warming() -> None:
    hung = Missing(Reason.STALE, "has not answered for 3 s")
    frames = fold(
        START,
        tick(1, forwarding(1)),
        tick(2, forwarding(2)),
        tick(3, forwarding(2, problem=hung)),
        tick(9, forwarding(9)),
        tick(10, forwarding(10)),
    )
    assert nf(frames[2], "rx_packets_per_s") == hung
    assert cpu(frames[2], "rx_packets_per_s") == hung
    assert cpu(frames[2], "cpp") == hung
    assert frames[2].nfs[0].problem == hung
    assert reason(nf(frames[3], "rx_packets_per_s")) is Reason.WARMING
    assert nf(frames[4], "rx_packets_per_s") == pytest.approx(MPPS_10)


def test_an_application_that_is_gone_leaves_at_once() -> None:
    frame = fold(START, tick(1, forwarding(1)), tick(2, forwarding(2)), tick(3, workers=()))[-1]
    assert frame.nfs == ()
    assert frame.cpus.thread[1] is None
    assert reason(cpu(frame, "rx_packets_per_s")) is Reason.UNDEFINED


def test_a_poller_without_statistics_says_so() -> None:
    frame = fold(START, tick(1), tick(2))[-1]
    assert frame.cpus.thread[1] == "rte-worker-1"
    assert frame.cpus.nf[1] == "dpdk-testpmd"
    assert reason(cpu(frame, "rx_packets_per_s")) is Reason.SOURCE

    def hidden(second: int) -> Sample:
        whole = tick(second, workers=(thread(run_ns=second * S, container=True),))
        told = table(hidden=("can't open /run/dpdk/nfa: run as root",))
        readings = {**whole.readings, "dpdk": replace(whole.readings["dpdk"], value=told)}
        return replace(whole, readings=readings)

    frame = fold(START, hidden(1), hidden(2))[-1]
    denied = cpu(frame, "rx_packets_per_s")
    assert isinstance(denied, Missing) and denied.reason is Reason.PERMISSION
    assert "run as root" in denied.sentence


def test_a_source_that_stops_answering_is_stale_and_stops_nothing_else() -> None:
    def late(second: int) -> Sample:
        whole = tick(second, forwarding(2))
        readings = {**whole.readings, "dpdk": replace(whole.readings["dpdk"], read_at_ns=2 * S)}
        return replace(whole, readings=readings)

    frames = fold(START, tick(1, forwarding(1)), tick(2, forwarding(2)), late(3), late(4), late(5))
    assert cpu(frames[2], "rx_packets_per_s") == pytest.approx(MPPS_10)  # held, not rated again
    assert cpu(frames[2], "cpp") == pytest.approx(260.0)
    assert frames[2].sources["dpdk"].age_s == pytest.approx(1.0)
    assert frames[4].sources["dpdk"].reason is Reason.STALE
    stale = cpu(frames[4], "rx_packets_per_s")
    assert isinstance(stale, Missing) and stale.reason is Reason.STALE
    assert cpu(frames[4], "tsc_hz") == pytest.approx(TSC_HZ)


TWO_WORKERS = (
    main_thread(),
    thread(tid=101, role_index=1, allowed=(Cpu(1),)),
    thread(tid=102, comm="rte-worker-2", role_index=2, allowed=(Cpu(2),)),
)


def spinning(second: int) -> tuple[ThreadRow, ...]:
    return tuple(
        replace(row, run_ns=second * S if row.role == "dpdk_lcore" else 0) for row in TWO_WORKERS
    )


def two_queues(second: int, **changes: Any) -> DpdkApp:
    queues = (6_000_000 * second, 4_000_000 * second)
    return app(second * S, port(rx=sum(queues), rx_queues=2, rx_queue_packets=queues), **changes)


def two_worker_frame(queue_map: Mapping[Any, Any] | None = None, **changes: Any) -> Frame:
    start = replace(START, queue_map=queue_map or {})
    return fold(
        start,
        tick(1, two_queues(1, **changes), workers=spinning(1)),
        tick(2, two_queues(2, **changes), workers=spinning(2)),
    )[-1]


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


def test_the_applications_own_config_comes_first() -> None:
    config = ("--config=(0,0,1),(0,1,2)",)
    frame = two_worker_frame(parse_queue_map(["nfa:(0,0,2),(0,1,1)"]), app_params=config)
    assert cpu(frame, "rx_packets_per_s", 1) == 6_000_000
    assert cpu(frame, "rx_packets_per_s", 2) == 4_000_000


def test_a_config_that_names_a_lcore_nobody_has_gives_no_sum() -> None:
    frame = two_worker_frame(app_params=("--config=(0,0,1),(0,1,9)",))
    assert cpu(frame, "rx_packets_per_s", 1) == 6_000_000
    assert "lcores 9 were not found" in frame.nfs[0].attribution
    unknown = nf(frame, "cpp")
    assert isinstance(unknown, Missing) and "not found" in unknown.sentence


def test_a_pipeline_counts_the_cores_that_poll_no_queue() -> None:
    frame = two_worker_frame(app_params=("--config=(0,0,1),(0,1,1)",))
    assert cpu(frame, "rx_packets_per_s", 1) == MPPS_10
    worker = cpu(frame, "rx_packets_per_s", 2)
    assert isinstance(worker, Missing) and "no queue" in worker.sentence
    assert frame.nfs[0].cpus == (1, 2)
    assert nf(frame, "cpp") == pytest.approx(2 * TSC_HZ / MPPS_10)


def test_a_floating_worker_leaves_no_sum() -> None:
    def at(second: int) -> Sample:
        first, *rest = spinning(second)[1:]
        return tick(
            second,
            two_queues(second),
            workers=(first, *(replace(each, allowed=(Cpu(2), Cpu(3))) for each in rest)),
        )

    frame = fold(START, at(1), at(2))[-1]
    unknown = nf(frame, "cpp")
    assert isinstance(unknown, Missing) and "may run on CPU 2-3" in unknown.sentence


def test_a_worker_whose_name_was_cut_is_still_a_poller() -> None:
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


def test_a_driver_without_queue_counters() -> None:
    config = ("--config=(0,0,1),(0,1,2)",)
    frame = two_worker_frame(app_params=config)
    without = [
        tick(s, replace(two_queues(s, app_params=config), ports=(port(rx=s, rx_queues=2,
             rx_queue_packets=()),)), workers=spinning(s))
        for s in (1, 2)
    ]  # fmt: skip
    frame = fold(START, *without)[-1]
    unknown = cpu(frame, "rx_packets_per_s", 1)
    assert isinstance(unknown, Missing) and "no counter for each queue" in unknown.sentence


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
        loose = replace(thread(run_ns=second * S), allowed=(Cpu(1), Cpu(2)), last_cpu=Cpu(2))
        return tick(second, forwarding(second), workers=(loose,))

    frame = fold(START, at(1), at(2))[-1]
    assert frame.cpus.thread == (None, None, "rte-worker-1", None)
    assert frame.nfs[0].cpus == (2,)
    assert cpu(frame, "rx_packets_per_s", 2) == pytest.approx(MPPS_10)
    for unknown in (cpu(frame, "cpp", 2), nf(frame, "cpp")):
        assert isinstance(unknown, Missing) and "pin it" in unknown.sentence


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


def test_at_the_first_tick_nobody_is_said_not_to_poll() -> None:
    first = fold(START, tick(1, forwarding(1)))[-1]
    assert reason(cpu(first, "rx_packets_per_s", 1)) is Reason.WARMING
    assert reason(cpu(first, "cpp", 1)) is Reason.WARMING
    assert reason(cpu(first, "rx_packets_per_s", 3)) is Reason.UNDEFINED


def test_busy_cycles_of_a_thread_that_did_not_run_are_not_work() -> None:
    """The NF counts by the TSC, which goes on while its thread is off its CPU."""

    def at(second: int) -> Sample:
        told = (lcore(1, 1, total=TSC_HZ * second, busy=int(TSC_HZ * second * 0.97)),)
        half = second * S // 2
        return tick(
            second,
            forwarding(second, lcores=told),
            workers=(main_thread(), thread(run_ns=half, wait_ns=half)),
        )

    frame = fold(START, at(1), at(2))[-1]
    for unknown in (cpu(frame, "busy_ratio"), cpu(frame, "busy_cpp"), nf(frame, "busy_cpp")):
        assert isinstance(unknown, Missing) and "50%" in unknown.sentence
    assert frame.cpus.saturated[1] is None and frame.nfs[0].saturated is None
    assert cpu(frame, "cpp") == pytest.approx(260.0)  # shown as an upper bound


def test_a_hung_application_keeps_its_core_and_its_threads_present_shares() -> None:
    hung = Missing(Reason.STALE, "has not answered for 3 s")

    def stopped(second: int) -> Sample:
        asleep = thread(run_ns=2 * S, voluntary=1)
        return tick(second, forwarding(2, problem=hung), workers=(main_thread(), asleep))

    frames = fold(
        START, tick(1, forwarding(1)), tick(2, forwarding(2)), *(stopped(n) for n in range(3, 9))
    )
    last = frames[-1]
    assert last.cpus.thread[1] == "rte-worker-1" and last.cpus.nf[1] == "nfa/dpdk-testpmd"
    assert cpu(last, "rx_packets_per_s") == hung
    assert cpu(last, "run_ratio") == 0.0


def test_a_queue_map_that_does_not_fit_says_so() -> None:
    frame = two_worker_frame(parse_queue_map(["nfa:(0,0,1),(0,7,2)"]))
    how = frame.nfs[0].attribution
    assert "queue 1 of port 0 is on no lcore" in how
    assert "queue 7 of port 0 does not exist" in how
    nobody = two_worker_frame(parse_queue_map(["nosuch:(0,0,1)"]))
    assert "names nosuch" in nobody.sources["dpdk"].detail
    idle = two_worker_frame(parse_queue_map(["nfa:(0,0,0),(0,1,1)"]))
    assert "lcore 0 does not poll" in idle.nfs[0].attribution


def test_a_cpu_that_is_not_read_takes_the_tsc_of_the_others() -> None:
    def at(second: int) -> Sample:
        whole = tick(second, forwarding(second))
        quiet = tsc_only(dict.fromkeys(range(4), TSC_HZ * second), enabled_ns=second * S)
        quiet.reasons[1, :] = Reason.SOURCE
        quiet.values[1, :] = quiet.enabled_ns[1] = quiet.running_ns[1] = 0
        return replace(
            whole,
            readings={**whole.readings, "perf": replace(whole.readings["perf"], value=quiet)},
        )

    frame = fold(START, at(1), at(2))[-1]
    assert reason(cpu(frame, "tsc_hz")) is Reason.SOURCE
    assert cpu(frame, "cpp") == pytest.approx(260.0)
    assert frame.cpus.cpp_clock[1] == "tsc"


def test_a_stranger_on_the_polling_core_takes_cycles_that_are_nobodys() -> None:
    def at(second: int) -> Sample:
        half = second * S // 2
        stranger = thread(
            pid=7, tid=7, comm="spin", program="spin", role="", role_index=None,
            run_ns=0, wait_ns=second * S,
        )  # fmt: skip
        worker = thread(run_ns=half, wait_ns=half)
        return tick(second, forwarding(second), workers=(worker, stranger))

    frame = fold(START, at(1), at(2))[-1]
    assert frame.cpus.thread[1] == "rte-worker-1 +1"
    # The NF's own thread, not the stranger's.
    assert cpu(frame, "run_ratio") == pytest.approx(0.5)
    assert cpu(frame, "wait_ratio") == pytest.approx(0.5)
    assert cpu(frame, "rx_packets_per_s") == pytest.approx(MPPS_10)
    for shared in (cpu(frame, "cpp"), nf(frame, "cpp")):
        assert isinstance(shared, Missing) and "spin (pid 7)" in shared.sentence


def test_two_nfs_on_one_core() -> None:
    def at(second: int) -> Sample:
        half = second * S // 2
        other = thread(pid=200, tid=201, run_ns=half, wait_ns=half)
        return tick(
            second,
            forwarding(second),
            forwarding(second, pid=200, start_ticks=9000, prefix="nfb"),
            workers=(thread(run_ns=half, wait_ns=half), other),
        )

    frame = fold(START, at(1), at(2))[-1]
    assert cpu(frame, "rx_packets_per_s") == pytest.approx(2 * MPPS_10)
    assert cpu(frame, "cpp") == pytest.approx(130.0)
    for row in frame.nfs:
        shared = row.readings["cpp"]
        assert isinstance(shared, Missing) and "shares a CPU" in shared.sentence


def test_two_nfs_on_one_core_that_count_their_own_cycles() -> None:
    def at(second: int) -> Sample:
        told = (lcore(1, 1, total=TSC_HZ * second, busy=TSC_HZ * second // 2),)
        whole = tick(
            second,
            forwarding(second, lcores=told),
            forwarding(second, pid=200, start_ticks=9000, prefix="nfb", lcores=told),
            workers=(thread(run_ns=0), thread(pid=200, tid=201)),
        )
        return without_perf(whole)

    frame = fold(START, at(1), at(2))[-1]
    assert frame.cpus.cpp_clock[1] == "nf"
    assert cpu(frame, "cpp") == pytest.approx(130.0)


def test_two_lcores_of_one_nf_on_one_cpu_share_its_cycles() -> None:
    def at(second: int) -> Sample:
        half = second * S // 2
        second_worker = thread(tid=102, role_index=2, run_ns=half, wait_ns=half)
        return tick(
            second, two_queues(second), workers=(thread(run_ns=half, wait_ns=half), second_worker)
        )

    frame = fold(START, at(1), at(2))[-1]
    assert frame.nfs[0].cpus == (1,)
    assert nf(frame, "cpp") == pytest.approx(260.0)


def test_cores_that_count_by_different_clocks_do_not_add_up() -> None:
    def at(second: int) -> Sample:
        whole = tick(second, two_queues(second), workers=spinning(second))
        table = counters(
            dict.fromkeys(range(4), (3 * S * second, S, S, TSC_HZ * second, 0)),
            enabled_ns=second * S,
        )
        table.reasons[2, 0] = Reason.TAKEN
        readings = {**whole.readings, "perf": replace(whole.readings["perf"], value=table)}
        return replace(whole, readings=readings)

    frame = fold(START, at(1), at(2))[-1]
    mixed = nf(frame, "cpp")
    assert isinstance(mixed, Missing) and "different clocks" in mixed.sentence
    assert frame.nfs[0].cpp_clock is None
    assert "no cycles on CPU 2" in frame.sources["perf"].detail


def test_showing_some_cpus_changes_nothing_else() -> None:
    whole = fold(
        START,
        tick(1, two_queues(1), workers=spinning(1)),
        tick(2, two_queues(2), workers=spinning(2)),
    )[-1]
    shown = only_cpus(whole, {1, 3})
    assert [info.cpu for info in shown.cpus.topology.cpus] == [1, 3]
    assert shown.cpus.thread == ("rte-worker-1", None)
    for metric, column in shown.cpus.columns.items():
        assert [column[0], column[1]] == [cpu(whole, metric, 1), cpu(whole, metric, 3)]
    assert shown.nfs == whole.nfs and shown.topology == whole.topology


def test_a_warning_of_where_nftop_runs_is_passed_on() -> None:
    def at(second: int) -> Sample:
        whole = tick(second, forwarding(second))
        own = SelfUse(0, (Cpu(1),), 0, "nftop runs on CPU 1, all polled")
        readings = {**whole.readings, "self": replace(whole.readings["self"], value=own)}
        return replace(whole, readings=readings)

    assert "CPU 1" in fold(START, at(1), at(2))[-1].own.warning


def test_a_new_topology_is_taken_over_and_rows_start_again() -> None:
    small = topology(2, smt=False)
    frames = fold(
        replace(START, topology=small),
        tick(1, forwarding(1)),
        tick(2, forwarding(2)),
        with_topology(tick(3, forwarding(3)), topology(4, smt=False)),
        with_topology(tick(4, forwarding(4)), topology(4, smt=False)),
    )
    assert [len(frame.cpus) for frame in frames] == [2, 2, 4, 4]
    assert reason(cpu(frames[2], "tsc_hz", 3)) is Reason.WARMING
    assert cpu(frames[3], "tsc_hz", 3) == pytest.approx(TSC_HZ)
    assert cpu(frames[3], "cpp") == pytest.approx(260.0)


def with_topology(whole: Sample, value: Topology) -> Sample:
    reading = replace(whole.readings["kernel"], value=value)
    return replace(whole, readings={**whole.readings, "topology": reading})


def without_perf(whole: Sample) -> Sample:
    denied = Missing(Reason.PERMISSION, "perf_event_paranoid is 2")
    perf = replace(whole.readings["perf"], value=denied)
    return replace(whole, readings={**whole.readings, "perf": perf})


def test_saturation_is_known_only_where_the_nf_tells() -> None:
    def at(second: int, busy: float) -> Sample:
        cycles = TSC_HZ * second
        told = (lcore(1, 1, total=cycles, busy=int(cycles * busy)),)
        return tick(second, forwarding(second, lcores=told))

    for busy, verdict in ((0.99, True), (0.5, False)):
        frame = fold(START, at(1, busy), at(2, busy))[-1]
        assert frame.cpus.saturated == (None, verdict, None, None)
        assert frame.nfs[0].saturated is verdict
    silent = fold(START, tick(1, forwarding(1)), tick(2, forwarding(2)))[-1]
    assert silent.cpus.saturated[1] is None and silent.nfs[0].saturated is None


def test_a_driver_that_does_not_count_receives_something_all_the_same() -> None:
    def at(second: int) -> Sample:
        return tick(second, app(second * S, port(rx=None, tx=MPPS_10 * second)))

    frame = fold(START, at(1), at(2))[-1]
    assert frame.nfs[0].direction == "rx"
    assert reason(cpu(frame, "cpp")) is Reason.SOURCE


def test_a_stray_packet_makes_no_forwarder_of_a_generator() -> None:
    def at(second: int) -> Sample:
        return tick(second, app(second * S, port(rx=3, tx=MPPS_10 * second)))

    frame = fold(START, at(1), at(2))[-1]
    assert frame.cpus.direction[1] == "tx"
    assert cpu(frame, "cpp") == pytest.approx(260.0)


def test_a_port_number_given_to_another_device_is_another_port() -> None:
    def at(second: int, name: str, rx: int) -> Sample:
        return tick(second, app(second * S, replace(port(rx=rx), name=name)))

    frame = fold(START, at(1, "0000:01:00.0", 100), at(2, "0000:02:00.0", 4_000_000))[-1]
    assert reason(nf(frame, "rx_packets_per_s")) is Reason.WARMING


def test_a_poller_of_another_kind_is_not_blamed_on_dpdk() -> None:
    def at(second: int) -> Sample:
        worker = thread(comm="vpp_wk_0", program="vpp_main", role="vpp_worker", run_ns=second * S)
        whole = tick(second, workers=(worker,))
        broken = replace(whole.readings["dpdk"], value=Missing(Reason.ERROR, "dpdk: boom"))
        return replace(whole, readings={**whole.readings, "dpdk": broken})

    frame = fold(START, at(1), at(2))[-1]
    assert frame.cpus.nf[1] == "vpp_main"
    unknown = cpu(frame, "rx_packets_per_s")
    assert isinstance(unknown, Missing) and "vpp" in unknown.sentence
    assert "boom" not in unknown.sentence


def test_a_long_pause_makes_an_old_reading_no_fresher() -> None:
    late = tick(602, forwarding(2))
    readings = {**late.readings, "dpdk": replace(late.readings["dpdk"], read_at_ns=2 * S)}
    frames = fold(
        START,
        tick(1, forwarding(1)),
        tick(2, forwarding(2)),
        replace(late, readings=readings),
    )
    assert frames[-1].sources["dpdk"].reason is Reason.STALE
    assert frames[-1].nfs == ()


def test_a_source_that_never_answers_is_not_warming_for_ever() -> None:
    whole = tick(600, forwarding(1))
    warming: SourceReading[Any] = SourceReading(Missing(Reason.WARMING), S, 0)
    readings = {**whole.readings, "dpdk": warming}
    frame = fold(START, replace(whole, readings=readings))[-1]
    assert frame.sources["dpdk"].reason is Reason.STALE


def test_an_application_whose_driver_counts_nothing() -> None:
    def at(second: int) -> Sample:
        return tick(second, app(second * S, port(rx=None, tx=None, rx_missed=None)))

    frame = fold(START, at(1), at(2))[-1]
    assert reason(nf(frame, "rx_packets_per_s")) is Reason.SOURCE
    assert reason(cpu(frame, "cpp")) is Reason.SOURCE
