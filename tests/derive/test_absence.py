"""A source that is late is rated across the gap; any other absence ends what was known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from nftop.derive.fold import polling_cpus
from nftop.derive.package.table import PackageState, step_packages
from nftop.model.frame import Frame
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.sample import Sample, SourceReading
from tests.derive.nf_scene import instance, ovs, vpp, working
from tests.derive.package.test_table import HOST, SKX, ZERO, reads
from tests.derive.scene import MPPS_10, START, TSC_HZ, cpu, forwarding, nf, reason, tick
from tests.samples import S, cpu_times, fold

LATE = Missing(Reason.STALE, "has not answered for 9 s")
FAILED = Missing(Reason.ERROR, "boom")


def without(whole: Sample, source: str, why: Missing) -> Sample:
    reading = replace(whole.readings[source], value=why)
    return replace(whole, readings={**whole.readings, source: reading})


def of_dpdk(second: int) -> Sample:
    return tick(second, forwarding(second))


def of_ovs(second: int) -> Sample:
    return ovs(second, working(1, second, MPPS_10, 0.7))


def of_vpp(second: int) -> Sample:
    return vpp(second, instance(second, {1: MPPS_10 * second}))


NFS = pytest.mark.parametrize(
    ("source", "at"), [("dpdk", of_dpdk), ("ovs", of_ovs), ("vpp", of_vpp)]
)


@NFS
def test_nfs_of_a_late_source_keep_their_rows_and_cores(
    source: str, at: Callable[[int], Sample]
) -> None:
    frames = fold(
        START, at(1), at(2), without(at(3), source, LATE), without(at(4), source, LATE), at(5)
    )
    for frame in frames[2:4]:
        assert frame.nfs[0].cpus == frames[1].nfs[0].cpus == (1,)
        assert frame.nfs[0].problem == LATE
        assert frame.cpus.nf[1] == frames[1].cpus.nf[1]
        assert polling_cpus(frame) == {1}
        for metric in ("rx_packets_per_s", "tx_packets_per_s", "drop_packets_per_s", "cpp"):
            assert nf(frame, metric) == LATE
        assert cpu(frame, "rx_packets_per_s") == LATE
        assert cpu(frame, "run_ratio") == 1.0  # which is another source's
    assert frames[4].nfs[0].interval_s == 3.0
    assert nf(frames[4], "rx_packets_per_s") == MPPS_10


@NFS
def test_nfs_of_a_failed_source_are_not_known(source: str, at: Callable[[int], Sample]) -> None:
    frames = fold(START, at(1), at(2), without(at(3), source, FAILED), at(4))
    assert frames[2].nfs == ()
    assert cpu(frames[2], "rx_packets_per_s") == FAILED
    assert reason(nf(frames[3], "rx_packets_per_s")) is Reason.WARMING


def busy_kernel(second: int) -> Sample:
    """A CPU that was busy for 1/4 of the first two seconds and for 3/4 of the time since."""
    whole = of_dpdk(second)
    busy = 25 * min(second, 2) + 75 * max(second - 2, 0)
    rows = {index: {"user": busy, "idle": 100 * second - busy} for index in range(4)}
    reading = replace(whole.readings["kernel"], value=cpu_times(rows))
    return replace(whole, readings={**whole.readings, "kernel": reading})


def of_cpu(metric: str) -> Callable[[Frame], Reading]:
    return lambda frame: cpu(frame, metric)


@pytest.mark.parametrize(
    ("source", "read", "number"),
    [
        ("perf", of_cpu("tsc_hz"), TSC_HZ),
        ("kernel", of_cpu("cpu_time_ratio"), 0.75),
        ("processes", of_cpu("run_ratio"), 1.0),
        ("self", lambda frame: frame.own.cpu_ratio, 0.01),
    ],
)
@pytest.mark.parametrize("why", [LATE, FAILED])
def test_every_source_comes_back_the_same_way(
    source: str, read: Callable[[Frame], Reading], number: float, why: Missing
) -> None:
    gap = (without(busy_kernel(second), source, why) for second in (3, 4))
    frames = fold(START, busy_kernel(1), busy_kernel(2), *gap, busy_kernel(5))
    for frame in frames[2:4]:
        unknown = read(frame)
        assert isinstance(unknown, Missing)
    back = read(frames[4])
    if why is LATE:
        assert back == pytest.approx(number)
    else:
        assert reason(back) is Reason.WARMING


def test_pollers_of_a_late_kernel_stay_where_they_were() -> None:
    frames = fold(START, of_ovs(1), of_ovs(2), without(of_ovs(3), "processes", LATE))
    assert frames[2].cpus.thread == frames[1].cpus.thread
    assert cpu(frames[2], "run_ratio") == LATE


@pytest.mark.parametrize("why", [LATE, FAILED])
def test_packages_come_back_the_same_way(why: Missing) -> None:
    def reading(second: int, value: Any) -> SourceReading[Any]:
        return SourceReading(value, second * S, 0)

    state, _ = step_packages(PackageState(), reading(1, ZERO), SKX, HOST)
    state, rows = step_packages(state, reading(2, why), SKX, HOST)
    assert rows[0].readings["memory.read_bytes_per_s"] == why
    counted = reads([300] * 4, [3 * 10**9] * 4, 3 * 10**9)
    _, rows = step_packages(state, reading(4, counted), SKX, HOST)
    back = rows[0].readings["memory.read_bytes_per_s"]
    assert back == 64 * 200 if why is LATE else reason(back) is Reason.WARMING
