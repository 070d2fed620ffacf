"""Every way a number can be absent, and how it comes back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nftop.model.ids import Cpu
from nftop.model.missing import Missing, Reason
from nftop.model.sample import Sample, SelfUse, SourceReading
from tests.derive.scene import (
    MPPS_10,
    START,
    TSC_HZ,
    cpu,
    forwarding,
    nf,
    reason,
    tick,
    with_topology,
)
from tests.samples import (
    S,
    app,
    fold,
    main_thread,
    port,
    table,
    thread,
    topology,
    tsc_only,
)


def test_zero_packets_is_idle_and_not_infinite() -> None:
    stopped = app(2 * S, port(rx=MPPS_10), port(1, tx=MPPS_10))
    frame = fold(START, tick(1, forwarding(1)), tick(2, stopped))[-1]
    assert cpu(frame, "rx_packets_per_s") == 0.0
    assert reason(cpu(frame, "cpp")) is Reason.IDLE


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


@pytest.mark.parametrize("reason_given", [Reason.STALE, Reason.ERROR])
def test_an_application_that_hangs_gives_its_reason(reason_given: Reason) -> None:
    """One that is late is rated across the gap; one that failed starts over."""
    hung = Missing(reason_given, "has not answered for 3 s")
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
    back = nf(frames[3], "rx_packets_per_s")
    assert back == MPPS_10 if reason_given is Reason.STALE else reason(back) is Reason.WARMING
    assert nf(frames[4], "rx_packets_per_s") == pytest.approx(MPPS_10)


def test_an_application_that_is_gone_leaves_at_once() -> None:
    frame = fold(START, tick(1, forwarding(1)), tick(2, forwarding(2)), tick(3, workers=()))[-1]
    assert frame.nfs == ()
    assert frame.cpus.thread[1] is None
    assert reason(cpu(frame, "rx_packets_per_s")) is Reason.UNDEFINED


def test_a_poller_without_statistics_reports_it() -> None:
    frame = fold(START, tick(1), tick(2))[-1]
    assert frame.cpus.thread[1] == "rte-worker-1"
    assert frame.cpus.nf[1] == "dpdk-testpmd"
    assert reason(cpu(frame, "rx_packets_per_s")) is Reason.SOURCE

    def hidden(second: int) -> Sample:
        whole = tick(second, workers=(thread(run_ns=second * S, container=False),))
        reports = table(hidden=("can't open /run/dpdk/nfa: run as root",))
        readings = {**whole.readings, "dpdk": replace(whole.readings["dpdk"], value=reports)}
        return replace(whole, readings=readings)

    frame = fold(START, hidden(1), hidden(2))[-1]
    denied = cpu(frame, "rx_packets_per_s")
    assert isinstance(denied, Missing) and denied.reason is Reason.PERMISSION
    assert "run as root" in denied.message
    source = frame.sources["dpdk"]
    assert source.reason is Reason.PERMISSION and "dpdk-testpmd, pid 100" in source.detail
    # One that polls and one that is read: the source is there.
    own = fold(START, *(tick(second, forwarding(second)) for second in (1, 2)))[-1]
    assert own.sources["dpdk"].reason is Reason.PRESENT


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


def test_at_the_first_tick_nobody_is_reported_not_to_poll() -> None:
    first = fold(START, tick(1, forwarding(1)))[-1]
    assert reason(cpu(first, "rx_packets_per_s", 1)) is Reason.WARMING
    assert reason(cpu(first, "cpp", 1)) is Reason.WARMING
    assert reason(cpu(first, "rx_packets_per_s", 3)) is Reason.UNDEFINED


def test_a_hung_application_keeps_its_core_and_its_threads_present_shares() -> None:
    hung = Missing(Reason.STALE, "has not answered for 3 s")

    def stopped(second: int) -> Sample:
        asleep = thread(run_ns=2 * S, voluntary=1)
        return tick(second, forwarding(2, problem=hung), workers=(main_thread(), asleep))

    frames = fold(
        START, tick(1, forwarding(1)), tick(2, forwarding(2)), *(stopped(n) for n in range(3, 9))
    )
    last = frames[-1]
    assert last.cpus.thread[1] == "rte-worker-1" and last.cpus.nf[1] == "nfa/testpmd"
    assert cpu(last, "rx_packets_per_s") == hung
    assert cpu(last, "run_ratio") == 0.0


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


def test_a_warning_of_where_nftop_runs_is_passed_on() -> None:
    def at(second: int) -> Sample:
        whole = tick(second, forwarding(second))
        own = SelfUse(0, (Cpu(1),), warning="nftop runs on CPU 1, all polled")
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


def test_a_poller_of_another_kind_is_not_blamed_on_dpdk() -> None:
    def at(second: int) -> Sample:
        worker = thread(comm="vpp_wk_0", program="vpp_main", role="vpp_worker", run_ns=second * S)
        whole = tick(second, workers=(worker,))
        broken = replace(whole.readings["dpdk"], value=Missing(Reason.ERROR, "dpdk: boom"))
        return replace(whole, readings={**whole.readings, "dpdk": broken})

    frame = fold(START, at(1), at(2))[-1]
    assert frame.cpus.nf[1] == "vpp_main"
    unknown = cpu(frame, "rx_packets_per_s")
    assert isinstance(unknown, Missing) and "vpp" in unknown.message
    assert "boom" not in unknown.message


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
    assert frames[-1].cpus.nf[1] == "nfa/testpmd"  # its cores stay its own
    assert reason(nf(frames[-1], "rx_packets_per_s")) is Reason.STALE


def test_a_source_that_never_answers_is_not_warming_for_ever() -> None:
    whole = tick(600, forwarding(1))
    warming: SourceReading[Any] = SourceReading(Missing(Reason.WARMING), S, 0)
    readings = {**whole.readings, "dpdk": warming}
    frame = fold(START, replace(whole, readings=readings))[-1]
    assert frame.sources["dpdk"].reason is Reason.STALE


def test_an_application_with_a_driver_without_counters() -> None:
    def at(second: int) -> Sample:
        return tick(second, app(second * S, port(rx=None, tx=None, rx_missed=None)))

    frame = fold(START, at(1), at(2))[-1]
    assert reason(nf(frame, "rx_packets_per_s")) is Reason.SOURCE
    assert reason(cpu(frame, "cpp")) is Reason.SOURCE
