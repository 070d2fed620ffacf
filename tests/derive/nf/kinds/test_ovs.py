"""OVS' PMD threads: packets, how busy they were, and why that is not known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from nftop.model.ids import Cpu
from nftop.model.missing import Missing, Reason
from nftop.model.nf.ovs import OvsPmd, OvsQueue, OvsTable
from nftop.model.sample import DpdkApp, Sample
from tests.derive.nf_scene import PID, host, ovs, pmd, pmd_thread, switch, working
from tests.derive.scene import START, TSC_HZ, cpu, nf, reason, without_perf
from tests.samples import S, app, fold, port, table

MPPS_5 = 5_000_000


def test_a_pmd_thread_reports_its_packets_and_its_busy_share() -> None:
    frames = fold(
        START, *(ovs(t, working(1, t, MPPS_5, 0.7), working(2, t, MPPS_5, 1.0)) for t in (1, 2))
    )
    assert reason(cpu(frames[0], "rx_packets_per_s")) is Reason.WARMING
    frame = frames[1]
    assert frame.cpus.thread[1:3] == ("pmd-c01/id:8", "pmd-c02/id:8")
    assert frame.cpus.nf[1] == "ovs-vswitchd" and frame.cpus.nf_pid[1] == PID
    assert cpu(frame, "rx_packets_per_s") == pytest.approx(MPPS_5)
    assert cpu(frame, "busy_ratio") == pytest.approx(0.7)
    assert cpu(frame, "cpp") == pytest.approx(TSC_HZ / MPPS_5)
    assert cpu(frame, "busy_cpp") == pytest.approx(0.7 * TSC_HZ / MPPS_5)
    assert frame.cpus.saturated[1:3] == (False, True)
    (row,) = frame.nfs
    assert (row.kind, row.cpus, row.saturated, row.interval_s) == ("ovs", (1, 2), False, 1.0)
    assert row.readings["rx_packets_per_s"] == pytest.approx(2 * MPPS_5)
    assert row.readings["tx_packets_per_s"] == pytest.approx(2 * MPPS_5)
    assert row.readings["cpp"] == pytest.approx(TSC_HZ / MPPS_5)
    assert row.readings["busy_cpp"] == pytest.approx(0.85 * TSC_HZ / MPPS_5)
    assert reason(row.readings["drop_packets_per_s"]) is Reason.SOURCE


def test_without_perf_the_cycles_are_its_own() -> None:
    frame = fold(START, *(without_perf(ovs(t, working(1, t, MPPS_5, 0.7))) for t in (1, 2)))[-1]
    assert frame.cpus.cpp_clock[1] == "nf"
    assert cpu(frame, "cpp") == pytest.approx(TSC_HZ / MPPS_5)
    assert cpu(frame, "busy_ratio") == pytest.approx(0.7)


@given(st.integers(1, 100_000_000), st.floats(0.0, 1.0), st.floats(0.0, 0.9), st.integers(2, 50))
def test_busy_is_the_share_of_all_its_time(
    pps: int, busy: float, asleep: float, tenths: int
) -> None:
    """Sleep is time too, though OVS leaves it out of its cycles."""

    def at(second: float) -> OvsPmd:
        used = int(TSC_HZ * second * (1 - asleep))
        return working(
            1,
            second,
            pps,
            busy,
            used_cycles=used,
            busy_cycles=int(used * busy),
            sleep_us=int(asleep * second * 1e6),
        )

    frame = fold(START, ovs(1, at(1)), ovs(1 + tenths / 10, at(1 + tenths / 10)))[-1]
    assert cpu(frame, "busy_ratio") == pytest.approx(busy * (1 - asleep), abs=1e-5)
    assert frame.cpus.saturated[1] is (busy * (1 - asleep) >= 0.95)


def reset(second: int, first: int, **changes: Any) -> Sample:
    """Another start time, or counters that begin at `first` seconds."""
    return ovs(second, working(1, second - first, MPPS_5, 0.7), **changes)


@pytest.mark.parametrize("restarted", [False, True], ids=["cleared", "restarted"])
def test_counters_that_start_again_give_no_spike(restarted: bool) -> None:
    new = {"start_ticks": 9000} if restarted else {}
    frames = fold(START, reset(11, 0), reset(12, 0), reset(13, 12, **new), reset(14, 12, **new))
    why = Reason.WARMING if restarted else Reason.RESET
    for metric in ("rx_packets_per_s", "cpp", "busy_ratio"):
        assert reason(cpu(frames[2], metric)) is why
    assert frames[2].nfs[0].saturated is None
    assert cpu(frames[3], "rx_packets_per_s") == pytest.approx(MPPS_5)
    assert cpu(frames[3], "busy_ratio") == pytest.approx(0.7)


def cleared_every(period: float, second: float) -> Sample:
    """Statistics that somebody clears so often that they look the same, or higher, each time."""
    counted = second % period
    return ovs(second, working(1, counted, MPPS_5, 0.7, counted_s=counted))


@pytest.mark.parametrize("lag", [0.0, 0.2])
def test_a_clear_shows_even_where_the_counters_are_higher_again(lag: float) -> None:
    frames = fold(START, *(cleared_every(1.0, t) for t in (0.3, 1.3 + lag, 2.3, 2.8)))
    for frame in frames[1:3]:
        assert reason(cpu(frame, "rx_packets_per_s")) is Reason.RESET
    # Of what was counted without a clear in between the rate is known.
    assert cpu(frames[3], "rx_packets_per_s") == pytest.approx(MPPS_5)


@given(st.floats(0.1, 5.0), st.floats(-0.1, 0.1))
def test_a_slow_answer_is_no_clear(interval_s: float, lag_s: float) -> None:
    """What is answered late was read a little before or after the middle of the question."""

    def at(second: float, counted: float) -> Sample:
        return ovs(second, working(1, counted, MPPS_5, 0.7, counted_s=max(counted, 0.0)))

    frame = fold(START, at(10, 10), at(10 + interval_s, 10 + interval_s + lag_s * interval_s))[-1]
    assert not isinstance(cpu(frame, "rx_packets_per_s"), Missing)


def test_before_2_10_cycles_are_reported_and_packets_are_not() -> None:
    def at(second: int) -> Sample:
        return ovs(
            second, working(1, second, 0, 0.7, rx_packets=None, tx_packets=None, sleep_us=None)
        )

    frame = fold(START, at(1), at(2))[-1]
    assert cpu(frame, "busy_ratio") == pytest.approx(0.7)
    unreported = cpu(frame, "rx_packets_per_s")
    assert isinstance(unreported, Missing) and "before 2.10" in unreported.message
    assert reason(cpu(frame, "cpp")) is Reason.SOURCE


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(2, 30), st.booleans()), min_size=3, max_size=10))
def test_what_came_in_is_in_one_frame_and_in_no_other(ticks: list[tuple[int, bool]]) -> None:
    """A tick brings the reading of its own time or, where that is late, the one before."""
    second = read_at = 1.0
    samples = [ovs(second, working(1, read_at, MPPS_5, 0.7))]
    for tenths, late in ticks:
        second += tenths / 10
        read_at = read_at if late else second
        reading = ovs(read_at, working(1, read_at, MPPS_5, 0.7)).readings["ovs"]
        sample = ovs(second, working(1, second, MPPS_5, 0.7))
        samples.append(replace(sample, readings={**sample.readings, "ovs": reading}))
    total = 0.0
    for frame in fold(START, *samples):
        (row,) = frame.nfs
        rate = row.readings["rx_packets_per_s"]
        if not isinstance(rate, Missing):
            assert row.interval_s is not None
            total += rate * row.interval_s
    # Too old a reading is shown no more, but those after it are rated from there on.
    assert total == pytest.approx(int(MPPS_5 * read_at) - MPPS_5, abs=1)


def test_right_after_a_clear_a_pmd_reports_nothing() -> None:
    frames = fold(
        START,
        ovs(1, working(1, 1, MPPS_5, 0.7)),
        ovs(2, pmd(1)),
        ovs(3, working(1, 1, MPPS_5, 0.7)),
        ovs(4, working(1, 2, MPPS_5, 0.7)),
    )
    empty = cpu(frames[1], "rx_packets_per_s")
    assert isinstance(empty, Missing) and empty.reason is Reason.RESET
    assert "cleared" in empty.message
    assert reason(cpu(frames[2], "rx_packets_per_s")) is Reason.WARMING
    assert cpu(frames[3], "rx_packets_per_s") == pytest.approx(MPPS_5)


def test_a_pmd_without_a_packet_is_idle() -> None:
    """It prints no cycles then."""

    def at(second: int) -> Sample:
        return ovs(second, pmd(1, rx_packets=0), working(2, second, MPPS_5, 0.5))

    frame = fold(START, at(1), at(2))[-1]
    assert cpu(frame, "rx_packets_per_s") == 0.0
    for metric in ("busy_ratio", "cpp", "busy_cpp"):
        assert reason(cpu(frame, metric)) is Reason.IDLE
    assert nf(frame, "rx_packets_per_s") == pytest.approx(MPPS_5)
    # One polls for nothing, so its cycles count too.
    assert nf(frame, "cpp") == pytest.approx(2 * TSC_HZ / MPPS_5)


def test_an_idle_pmd_works_none_of_its_time() -> None:
    def at(second: int) -> Sample:
        quiet = working(1, second, MPPS_5, 0.0, rx_packets=572_480, busy_cycles=51_063_592)
        return ovs(second, quiet)

    frame = fold(START, at(1), at(2))[-1]
    assert cpu(frame, "busy_ratio") == 0.0
    assert reason(cpu(frame, "cpp")) is Reason.IDLE


def shares_of_4_0(second: int, *used: float | None, overhead: float | None) -> Sample:
    queues = tuple(OvsQueue("n0", queue, True, ratio) for queue, ratio in enumerate(used))
    return ovs(
        second,
        working(1, second, MPPS_5, 0, busy_cycles=None, queues=queues, overhead_ratio=overhead),
    )


def test_without_busy_cycles_the_queues_shares_are_reported(snapshot: SnapshotAssertion) -> None:
    frame = fold(START, *(shares_of_4_0(t, 0.5, 0.25, overhead=0.12) for t in (1, 2)))[-1]
    assert cpu(frame, "busy_ratio") == pytest.approx(0.87)
    assert frame.nfs[0].attribution == snapshot
    # Each is rounded for itself, so together they can be more than all.
    frame = fold(START, *(shares_of_4_0(t, 0.9, 0.07, overhead=0.04) for t in (1, 2)))[-1]
    assert cpu(frame, "busy_ratio") == 1.0
    frame = fold(START, *(shares_of_4_0(t, 0.9, None, overhead=0.04) for t in (1, 2)))[-1]
    unknown = cpu(frame, "busy_ratio")
    assert isinstance(unknown, Missing) and "pmd-rxq-show" in unknown.message
    assert cpu(frame, "rx_packets_per_s") == pytest.approx(MPPS_5)


def test_cycles_while_the_thread_was_off_its_cpu_are_not_work() -> None:
    def at(second: int, *, wait: float) -> Sample:
        thread = pmd_thread(1, second, run=0.5, wait=wait)
        one = switch(second, working(1, second, MPPS_5, 0.97))
        return host(second, thread, ovs=OvsTable((one,)))

    robbed = fold(START, at(1, wait=0.5), at(2, wait=0.5))[-1]
    unknown = cpu(robbed, "busy_ratio")
    assert isinstance(unknown, Missing) and "50%" in unknown.message
    # One that sleeps of its own accord is not robbed.
    asleep = fold(START, at(1, wait=0.0), at(2, wait=0.0))[-1]
    assert cpu(asleep, "busy_ratio") == pytest.approx(0.97)
    assert asleep.cpus.saturated[1] is False


def test_a_finding_on_one_core_of_several_names_it(snapshot: SnapshotAssertion) -> None:
    def half(second: int, *runs: float) -> Sample:
        pmds = tuple(working(core, second, MPPS_5, 0.7) for core in (1, 2))
        rows = (pmd_thread(core, second, run=run, wait=1 - run) for core, run in enumerate(runs, 1))
        return host(second, *rows, ovs=OvsTable((switch(second, *pmds),)))

    one = nf(fold(START, half(1, 1.0, 0.6), half(2, 1.0, 0.6))[-1], "busy_cpp")
    assert isinstance(one, Missing) and one.reason is Reason.SOURCE
    assert one.message == snapshot
    both = nf(fold(START, half(1, 0.6, 0.6), half(2, 0.6, 0.6))[-1], "busy_cpp")
    assert isinstance(both, Missing) and both.message.startswith("its thread had")


def test_a_pmd_that_may_move_has_no_cycles_of_its_own() -> None:
    def at(second: int) -> Sample:
        unpinned = replace(pmd_thread(1, second), allowed=(Cpu(1), Cpu(2)), last_cpu=Cpu(2))
        return host(
            second, unpinned, ovs=OvsTable((switch(second, working(1, second, MPPS_5, 1)),))
        )

    frame = fold(START, at(1), at(2))[-1]
    assert frame.nfs[0].cpus == (2,)
    why = cpu(frame, "cpp", 2)
    assert isinstance(why, Missing) and "pin it" in why.message


def test_hidden_threads_leave_the_core_ovs_names() -> None:
    frame = fold(
        START,
        *(host(t, ovs=OvsTable((switch(t, working(1, t, MPPS_5, 0.7)),))) for t in (1, 2)),
    )[-1]
    assert frame.cpus.thread[1] == "pmd on core 1"
    assert cpu(frame, "rx_packets_per_s") == pytest.approx(MPPS_5)
    assert cpu(frame, "busy_ratio") == pytest.approx(0.7)
    assert reason(cpu(frame, "run_ratio")) is Reason.SOURCE


def test_a_vswitchd_that_does_not_answer_keeps_its_cores() -> None:
    dead = Missing(Reason.ERROR, "ovs-vswitchd does not answer")
    frames = fold(
        START,
        ovs(1, working(1, 1, MPPS_5, 0.7)),
        ovs(2, working(1, 2, MPPS_5, 0.7)),
        ovs(3, working(1, 2, MPPS_5, 0.7), problem=dead),
        ovs(4, working(1, 4, MPPS_5, 0.7)),
        ovs(5, working(1, 5, MPPS_5, 0.7)),
    )
    assert frames[2].nfs[0].problem == dead and frames[2].nfs[0].cpus == (1,)
    for metric in ("rx_packets_per_s", "busy_ratio", "cpp"):
        assert cpu(frames[2], metric) == dead
    assert nf(frames[2], "drop_packets_per_s") == dead
    assert "does not answer" in frames[2].sources["ovs"].detail
    assert reason(cpu(frames[3], "rx_packets_per_s")) is Reason.WARMING
    assert cpu(frames[4], "rx_packets_per_s") == pytest.approx(MPPS_5)


def test_a_source_that_stops_answering_is_stale() -> None:
    def late(second: int) -> Sample:
        whole = ovs(second, working(1, second, MPPS_5, 0.7))
        old = ovs(2, working(1, 2, MPPS_5, 0.7)).readings["ovs"]
        return replace(whole, readings={**whole.readings, "ovs": old})

    frames = fold(START, ovs(1, working(1, 1, MPPS_5, 0.7)), *(late(t) for t in (2, 3, 4, 5)))
    assert cpu(frames[2], "rx_packets_per_s") == pytest.approx(MPPS_5)  # held, not rated again
    assert (frames[1].sources["ovs"].late_s, frames[1].sources["ovs"].detail) == (0.0, "")
    assert frames[2].sources["ovs"].late_s == pytest.approx(1.0, abs=0.01)
    printed = "no answer in time: its numbers are up to 1.0 s old"
    assert frames[2].sources["ovs"].detail.startswith(printed)
    assert frames[4].sources["ovs"].reason is Reason.STALE
    assert reason(cpu(frames[4], "rx_packets_per_s")) is Reason.STALE


def test_its_dpdk_socket_is_the_same_process_and_knows_what_the_nic_dropped() -> None:
    def dpdk(second: int, **changes: Any) -> DpdkApp:
        one = port(rx=MPPS_5 * second, tx=0, rx_missed=300 * second)
        return app(second * S, one, pid=PID, name="ovs-vswitchd", prefix="rte", **changes)

    def at(second: int, *apps: DpdkApp) -> Sample:
        return host(
            second,
            pmd_thread(1, second),
            ovs=OvsTable((switch(second, working(1, second, MPPS_5, 0.7)),)),
            dpdk=table(*apps),
        )

    frame = fold(START, at(1, dpdk(1)), at(2, dpdk(2)))[-1]
    (row,) = frame.nfs
    assert row.kind == "ovs" and row.readings["drop_packets_per_s"] == pytest.approx(300)
    assert cpu(frame, "rx_packets_per_s") == pytest.approx(MPPS_5)
    # It goes on counting drops where the control socket hangs.
    hung = Missing(Reason.ERROR, "ovs-vswitchd does not answer")
    late = OvsTable((switch(3, working(1, 2, MPPS_5, 0.7), problem=hung),))
    three = host(3, pmd_thread(1, 3), ovs=late, dpdk=table(dpdk(3)))
    frame = fold(START, at(1, dpdk(1)), at(2, dpdk(2)), three)[-1]
    (row,) = frame.nfs
    assert row.problem == hung and row.readings["rx_packets_per_s"] == hung
    assert row.readings["drop_packets_per_s"] == pytest.approx(300)
    # Another's is another's.
    other = app(S, pid=1), app(2 * S, pid=1)
    frame = fold(START, at(1, other[0]), at(2, other[1]))[-1]
    assert {item.kind for item in frame.nfs} == {"ovs", "dpdk"}


def test_those_that_never_answered_are_not_one() -> None:
    """Neither has a pid yet."""
    denied = Missing(Reason.PERMISSION, "run as root")
    unknown = switch(1, pid=0, start_ticks=0, problem=denied)
    other = app(S, pid=0, start_ticks=0, problem=denied)
    frame = fold(START, host(1, ovs=OvsTable((unknown,)), dpdk=table(other)))[-1]
    assert {row.kind for row in frame.nfs} == {"ovs", "dpdk"}


def test_names_distinguish_several() -> None:
    one = switch(1, working(1, 1, 1, 1))
    other = replace(one, pid=PID + 1, rundir="/run/tenant/")
    frame = fold(START, host(1, ovs=OvsTable((one, other))))[-1]
    assert [row.name for row in frame.nfs] == ["ovs-vswitchd", "tenant/ovs-vswitchd"]


def test_a_kernel_datapath_has_no_pmd_threads() -> None:
    frame = fold(START, *(ovs(t) for t in (1, 2)))[-1]
    assert reason(nf(frame, "rx_packets_per_s")) is Reason.UNDEFINED
    assert frame.nfs[0].cpus == () and "dpdk-init" in frame.nfs[0].attribution


def test_a_source_that_is_not_read_is_the_reason(snapshot: SnapshotAssertion) -> None:
    frame = fold(START, *(host(t, pmd_thread(1, t)) for t in (1, 2)))[-1]
    unread = cpu(frame, "rx_packets_per_s")
    assert isinstance(unread, Missing) and unread.reason is Reason.SOURCE
    assert unread.message == snapshot
    denied = OvsTable((), ("can't open /var/run/openvswitch: run as root",))
    hidden = [replace(pmd_thread(1, t), container=None) for t in (1, 2)]
    frame = fold(START, *(host(t, row, ovs=denied) for t, row in enumerate(hidden, 1)))[-1]
    assert reason(cpu(frame, "rx_packets_per_s")) is Reason.PERMISSION
    state = frame.sources["ovs"]
    assert state.reason is Reason.PERMISSION and state.detail.endswith(denied.gaps)
