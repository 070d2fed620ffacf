"""A poller that sleeps: what a packet costs it is the same by whatever clock cycles are counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.derive.nf.rates import WHOLE_RATIO
from nftop.model.nf.ovs import OvsTable
from nftop.model.nf.vpp import VppTable
from nftop.model.sample import Sample
from tests.derive.nf_scene import (
    full_frames,
    host,
    instance,
    nodes,
    pmd_thread,
    switch,
    vpp_thread,
    working,
)
from tests.derive.scene import START, TSC_HZ, cpu, nf, without_perf
from tests.samples import S, counters, fold

MPPS = 1_000_000


def counting(whole: Sample, second: float, awake: float) -> Sample:
    """The sample with core cycles too, at the TSC's frequency: a halted core counts none."""
    tsc = int(TSC_HZ * second)
    cycles = int(tsc * awake)
    table = counters(
        dict.fromkeys(range(4), (cycles, cycles, cycles, tsc, 0)), enabled_ns=int(second * S)
    )
    perf = replace(whole.readings["perf"], value=table)
    return replace(whole, readings={**whole.readings, "perf": perf})


def ovs(second: float, awake: float, busy: float) -> Sample:
    """One PMD thread, awake for that share of the time and at work for `busy` of all time."""
    pmd = working(
        1,
        second,
        MPPS,
        busy,
        used_cycles=int(TSC_HZ * second * awake),
        sleep_us=int((1 - awake) * second * 1e6),
    )
    return host(second, pmd_thread(1, second, run=awake), ovs=OvsTable((switch(second, pmd),)))


def vpp(second: float, awake: float, busy: float) -> Sample:
    """One worker in interrupt mode."""
    one = instance(second, {1: int(MPPS * second)}, nodes(full_frames(second, MPPS, busy)))
    rows = (vpp_thread(0, second, run=0.01), vpp_thread(1, second, run=awake))
    return host(second, *rows, vpp=VppTable((one,)))


NFS = pytest.mark.parametrize("nf_at", [ovs, vpp])


@NFS
@given(st.floats(0.1, 1.0), st.floats(0.05, 1.0))
def test_busy_cpp_is_the_work_for_a_packet_by_every_clock(
    nf_at: Callable[[float, float, float], Sample], awake: float, component: float
) -> None:
    busy = awake * component
    whole = [nf_at(t, awake, busy) for t in (1, 2)]
    by_clock = {
        "tsc": whole,
        "core": [counting(one, t, awake) for t, one in enumerate(whole, 1)],
        "nf": [without_perf(one) for one in whole],
    }
    if nf_at is vpp:  # it counts no cycles itself, and its clocks need the TSC's frequency
        del by_clock["nf"]
    for clock, samples in by_clock.items():
        frame = fold(START, *samples)[-1]
        by_run = clock == "tsc" and awake < WHOLE_RATIO
        assert frame.cpus.cpp_clock[1] == ("tsc_by_run" if by_run else clock)
        assert cpu(frame, "busy_ratio") == pytest.approx(busy, rel=1e-3)
        assert cpu(frame, "busy_cpp") == pytest.approx(busy * TSC_HZ / MPPS, rel=1e-3)
        assert nf(frame, "busy_cpp") == pytest.approx(busy * TSC_HZ / MPPS, rel=1e-3)
        spent = 1.0 if clock == "tsc" and not by_run else awake
        assert cpu(frame, "cpp") == pytest.approx(spent * TSC_HZ / MPPS, rel=1e-3)
