"""What a number means where a core is shared, or not always its thread's."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.derive.cache.table import _of_nf, _summed
from nftop.derive.compare.baseline import BaselineState, keep, step_baselines
from nftop.derive.compare.verdict import _of_one_clock
from nftop.derive.compare.window import CLOCKS, NF_KEPT, core_values, sample_of
from nftop.derive.findings.inputs import FindingInputs
from nftop.derive.findings.poller_rules import core_ipc
from nftop.model.ids import Cpu
from nftop.model.metrics.catalogue import cpu_metric
from nftop.model.missing import Missing, Reason
from nftop.model.sample import Sample, SourceReading
from nftop.render.cores.table import estimates
from nftop.store.history.rings import SampleRings
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
    cpu_times,
    fold,
    lcore,
    main_thread,
    thread,
)


def test_busy_cycles_of_a_thread_that_did_not_run_are_not_work() -> None:
    """The NF counts by the TSC, which goes on while its thread is off its CPU."""

    def at(second: int) -> Sample:
        reports = (lcore(1, 1, total=TSC_HZ * second, busy=int(TSC_HZ * second * 0.97)),)
        half = second * S // 2
        return tick(
            second,
            forwarding(second, lcores=reports),
            workers=(main_thread(), thread(run_ns=half, wait_ns=half)),
        )

    frame = fold(START, at(1), at(2))[-1]
    for unknown in (cpu(frame, "busy_ratio"), cpu(frame, "busy_cpp"), nf(frame, "busy_cpp")):
        assert isinstance(unknown, Missing) and "50%" in unknown.message
    assert frame.cpus.saturated[1] is None and frame.nfs[0].saturated is None
    assert cpu(frame, "cpp") == pytest.approx(130.0)
    assert frame.cpus.cpp_clock[1] == frame.nfs[0].cpp_clock == "tsc_by_run"


class Host(NamedTuple):
    """A guest or host whose core 1 forwards 10 Mpps and is shared; shares of the time."""

    run: float
    wait: float
    cpu_time: float = 1.0
    steal: float = 0.0
    core_per_s: float | None = None  # cycles per second; None without a PMU
    expected_cpp: float = 0.0
    clock: str = ""
    shared: bool = True


# TSC_HZ / 10 Mpps = 260. Its thread takes 70 cycles for a packet.
HOSTS = {
    "a vCPU with three others": Host(70 / 260, 190 / 260, 1.0, 0.0, None, 70.0, "tsc_by_run"),
    "RUN 19 %": Host(0.19, 0.81, 1.0, 0.0, None, 0.19 * 260, "tsc_by_run"),
    "stolen time left out of RUN": Host(0.6, 0.4, 1.0, 0.4, None, 156.0, "tsc_by_run", False),
    "stolen time contained in RUN": Host(1.0, 0.0, 1.0, 0.4, None, 156.0, "tsc_by_run", False),
    "a core's own cycles": Host(0.5, 0.5, 1.0, 0.0, 3.0e9, 150.0, "core_by_run"),
    "a guest's core cycles, some stolen": Host(0.6, 0.4, 1.0, 0.4, 1.8e9, 180.0, "core", False),
    "sleep, then nothing runs": Host(0.6, 0.0, 0.62, 0.0, 1.8e9, 180.0, "core", False),
    # /proc/stat counts 1000 ticks a second here: 0.046 is within three standard deviations.
    "sleep, perhaps others": Host(0.6, 0.0, 0.64, 0.0, 1.8e9, 180.0, "core_by_run", False),
    "sleep, and some others": Host(0.55, 0.0, 0.63, 0.0, 1.89e9, 165.0, "core_by_run"),
    "sleep, then others run": Host(0.6, 0.0, 0.9, 0.0, 2.7e9, 180.0, "core_by_run"),
    "sleep by the TSC": Host(0.6, 0.0, 0.6, 0.0, None, 156.0, "tsc_by_run", False),
    "alone": Host(0.96, 0.04, 1.0, 0.0, 3.0e9, 300.0, "core", False),
}


def at_host(second: int, host: Host) -> Sample:
    workers = (
        main_thread(run_ns=0),
        thread(
            run_ns=round(host.run * second * S),
            wait_ns=round(host.wait * second * S),
            voluntary=second,  # it does not stay awake: WAIT is the kernel's
        ),
    )
    whole = tick(second, forwarding(second), workers=workers)
    ticks = {"idle": 1 - host.cpu_time, "steal": host.steal, "user": host.cpu_time - host.steal}
    kernel = cpu_times(
        {
            index: {name: round(1000 * second * component) for name, component in ticks.items()}
            for index in range(4)
        }
    )
    readings = {**whole.readings, "kernel": replace(whole.readings["kernel"], value=kernel)}
    if host.core_per_s is not None:
        cycles = int(host.core_per_s * second)
        counted = counters(
            dict.fromkeys(range(4), (cycles, cycles, cycles, TSC_HZ * second, 0)),
            enabled_ns=second * S,
        )
        readings["perf"] = replace(whole.readings["perf"], value=counted)
    return replace(whole, readings=readings)


@pytest.mark.parametrize("name", HOSTS)
def test_cycles_of_a_shared_cpu_are_its_share_by_time(name: str) -> None:
    host = HOSTS[name]
    frame = fold(START, *(at_host(second, host) for second in (1, 2)))[-1]
    assert cpu(frame, "run_ratio") == pytest.approx(host.run)
    for cpp in (cpu(frame, "cpp"), nf(frame, "cpp")):
        assert cpp == pytest.approx(host.expected_cpp, rel=1e-3)
    assert frame.cpus.cpp_clock[1] == frame.nfs[0].cpp_clock == host.clock
    assert (1 in frame.cpus.shared, frame.nfs[0].shared is not None) == (host.shared,) * 2
    for own in (cpu(frame, "ipp"), nf(frame, "ipp"), nf(frame, "ipc")):
        if host.core_per_s is not None:
            assert isinstance(own, Missing) == host.shared
    estimate = estimates(frame.cpus, [1], cpu_metric("cpp"))[0]
    assert estimate == (host.clock != "core")


def test_a_shared_cpu_has_no_ipc_to_compare_or_to_find_fault_with() -> None:
    """What verdicts, comparisons and findings take a network function's counts from."""
    shared, alone = HOSTS["a core's own cycles"], HOSTS["alone"]
    for host in (shared, alone):
        frame = fold(START, *(at_host(second, host) for second in (1, 2)))[-1]
        (cores,) = core_values(frame.cpus, frame.nfs[:1])
        numbers = dict(zip(NF_KEPT, sample_of(frame.nfs[0], cores), strict=False))
        assert np.isnan(numbers["ipc"]) == host.shared
        assert CLOCKS[int(numbers["clock"])] == host.clock
        values = core_ipc(FindingInputs(frame, {})).values
        assert values.reasons.tolist() == ([Reason.SOURCE] if host.shared else [0])


@pytest.mark.parametrize("run", [0.19, 0.25, 0.38])
def test_cpp_does_not_follow_the_share_of_the_cpu(run: float) -> None:
    """The same work per packet, at whatever share of a vCPU: RUN x CPP stays 70."""
    packets = int(TSC_HZ * run / 70)

    def at(second: int) -> Sample:
        whole = at_host(second, Host(run, 1 - run))
        return replace(
            whole,
            readings={
                **whole.readings,
                "dpdk": tick(second, forwarding(second, packets)).readings["dpdk"],
            },
        )

    assert cpu(fold(START, at(1), at(2))[-1], "cpp") == pytest.approx(70.0, rel=1e-3)


def test_a_stranger_on_the_polling_core_takes_its_share_of_the_cycles() -> None:
    def at(second: int) -> Sample:
        half = second * S // 2
        stranger = thread(
            pid=7,
            tid=7,
            comm="spin",
            program="spin",
            role="",
            role_index=None,
            run_ns=0,
            wait_ns=second * S,
        )
        worker = thread(run_ns=half, wait_ns=half)
        return tick(second, forwarding(second), workers=(worker, stranger))

    frame = fold(START, at(1), at(2))[-1]
    assert frame.cpus.thread[1] == "rte-worker-1 +1"
    # The NF's own thread, not the stranger's.
    assert cpu(frame, "run_ratio") == pytest.approx(0.5)
    assert cpu(frame, "wait_ratio") == pytest.approx(0.5)
    assert cpu(frame, "rx_packets_per_s") == pytest.approx(MPPS_10)
    for cpp in (cpu(frame, "cpp"), nf(frame, "cpp")):
        assert cpp == pytest.approx(130.0)
    for why in (frame.cpus.shared[Cpu(1)], frame.nfs[0].shared):
        assert why is not None and "spin (pid 7)" in why.message


def test_without_run_time_a_stranger_leaves_no_cpp() -> None:
    stranger = thread(
        pid=7, tid=7, comm="spin", program="spin", role="", role_index=None, run_ns=0, wait_ns=S
    )
    held = [
        tick(second, forwarding(second), workers=(thread(run_ns=second * S), stranger))
        for second in (1, 2)
    ]
    late = Missing(Reason.STALE, "late")
    third = tick(3, forwarding(3))
    processes = replace(third.readings["processes"], value=late)
    third = replace(third, readings={**third.readings, "processes": processes})
    polling = replace(stranger, wait_ns=2 * S)
    held[1] = tick(2, forwarding(2), workers=(thread(run_ns=2 * S), polling))
    frame = fold(START, *held, third)[-1]
    for cpp in (cpu(frame, "cpp"), nf(frame, "cpp")):
        assert isinstance(cpp, Missing) and cpp.reason is Reason.SOURCE


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
    assert frame.cpus.cpp_clock[1] == "tsc" and not frame.cpus.shared
    for row in frame.nfs:
        assert row.readings["cpp"] == pytest.approx(130.0)
        assert row.cpp_clock == "tsc_by_run"
        assert row.shared is not None and row.shared.reason is Reason.SOURCE


def test_two_nfs_on_one_core_that_count_their_own_cycles() -> None:
    def at(second: int) -> Sample:
        reports = (lcore(1, 1, total=TSC_HZ * second, busy=TSC_HZ * second // 2),)
        whole = tick(
            second,
            forwarding(second, lcores=reports),
            forwarding(second, pid=200, start_ticks=9000, prefix="nfb", lcores=reports),
            workers=(
                thread(run_ns=second * S // 2, wait_ns=second * S // 2),
                thread(pid=200, tid=201, run_ns=second * S // 2, wait_ns=second * S // 2),
            ),
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
def test_cores_that_count_by_different_clocks_add_up_by_the_tsc_alone(
    has_tsc: bool, snapshot: SnapshotAssertion
) -> None:
    def at(second: int) -> Sample:
        reports = tuple(lcore(item, item, total=TSC_HZ * second, busy=0) for item in (1, 2))
        app = two_queues(second, lcores=reports)
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
        assert isinstance(mixed, Missing) and "different clocks" in mixed.message
        assert frame.nfs[0].cpp_clock is None
    assert frame.sources["perf"].detail == snapshot


def test_saturation_is_known_only_where_the_nf_reports() -> None:
    def at(second: int, busy: float) -> Sample:
        cycles = TSC_HZ * second
        reports = (lcore(1, 1, total=cycles, busy=int(cycles * busy)),)
        return tick(second, forwarding(second, lcores=reports))

    for busy, verdict in ((0.99, True), (0.5, False)):
        frame = fold(START, at(1, busy), at(2, busy))[-1]
        assert frame.cpus.saturated == (None, verdict, None, None)
        assert frame.nfs[0].saturated is verdict
    silent = fold(START, tick(1, forwarding(1)), tick(2, forwarding(2)))[-1]
    assert silent.cpus.saturated[1] is None and silent.nfs[0].saturated is None


def test_run_time_near_one_whole_cpu_discards_no_sample() -> None:
    """`core` and `core_by_run` count by the same clock: one is an estimate of the other."""
    runs = [0.951, 0.949] * 12
    samples, total = [], 0.0
    for second, run in enumerate(runs, 1):
        total += run
        whole = at_host(second, Host(total / second, 0.05, 1.0, 0.0, 3.0e9))
        samples.append(whole)
    frames = fold(START, *samples)[1:]
    clocks = [frame.nfs[0].cpp_clock for frame in frames]
    assert {"core", "core_by_run"} == set(clocks)
    history, state = SampleRings(len(runs)), BaselineState()
    for number, frame in enumerate(frames):
        history.append(frame, S)
        readings: dict[str, SourceReading[object]] = {
            name: SourceReading(None, number, 0) for name in ("dpdk", "perf")
        }
        state, _, _ = step_baselines(state, frame.cpus, frame.nfs, readings, number)
    window = history.window(frames[-1])
    assert np.isfinite(_of_one_clock(window, frames[-1].nfs[0], "cpp")).sum() == len(frames)
    (kept,) = keep(state).nfs
    assert kept.levels["cpp"].ticks == kept.cores[0].levels["cpp"].ticks == kept.ticks
    for clock in ("core", "core_by_run"):
        frame = frames[clocks.index(clock)]
        other = replace(frame.nfs[0], key="other", cpp_clock="core", cpus=())
        mixed = _summed([_of_nf(frame.nfs[0]), _of_nf(other)])
        assert mixed.clock == clock and not isinstance(mixed.cpp, Missing)
