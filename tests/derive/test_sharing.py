"""What a number means where a core is shared, or not always its thread's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nftop.model.reading import Missing, Reason
from nftop.model.sample import Sample
from tests.derive.scene import (
    MPPS_10,
    START,
    TSC_HZ,
    cpu,
    forwarding,
    nf,
    spinning,
    tick,
    two_queues,
    without_perf,
)
from tests.samples import (
    S,
    counters,
    fold,
    lcore,
    main_thread,
    thread,
)


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


@pytest.mark.parametrize("has_tsc", [True, False])
def test_cores_that_count_by_different_clocks_add_up_by_the_tsc_alone(has_tsc: bool) -> None:
    def at(second: int) -> Sample:
        told = tuple(lcore(each, each, total=TSC_HZ * second, busy=0) for each in (1, 2))
        app = two_queues(second, lcores=told)
        whole = tick(second, app, workers=spinning(second))
        table = counters(
            dict.fromkeys(range(4), (3 * S * second, S, S, TSC_HZ * second, 0)),
            enabled_ns=second * S,
        )
        table.reasons[2, 0] = Reason.TAKEN
        if not has_tsc:
            table.reasons[:, 3] = Reason.TAKEN
        readings = {**whole.readings, "perf": replace(whole.readings["perf"], value=table)}
        return replace(whole, readings=readings)

    frame = fold(START, at(1), at(2))[-1]
    mixed = nf(frame, "cpp")
    if has_tsc:
        assert mixed == pytest.approx(2 * TSC_HZ / MPPS_10)
        assert frame.nfs[0].cpp_clock == "tsc"
    else:
        assert isinstance(mixed, Missing) and "different clocks" in mixed.sentence
        assert frame.nfs[0].cpp_clock is None
    assert "no cycles on CPU 2" in frame.sources["perf"].detail


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
