"""From raw samples to what is shown: the arithmetic and the clocks."""

from __future__ import annotations

import gc
import sys
from dataclasses import fields, replace

import pytest

from nftop.derive.cpu_filter import only_cpus
from nftop.derive.fold import polling_cpus
from nftop.model.frame import CounterCost
from nftop.model.metrics.catalogue import CPU_METRICS
from nftop.model.metrics.nf import NF_METRICS
from nftop.model.missing import Reason
from nftop.model.sample import DpdkApp, Sample
from nftop.model.topology import Topology
from nftop.store.history.events import EventHistory
from nftop.store.history.rings import TickHistory
from tests.bench.scenes import SECOND_NS, Clocked
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
    with_topology,
    without_perf,
)
from tests.samples import (
    S,
    app,
    counters,
    cpu_times,
    fold,
    lcore,
    port,
    sample,
    table,
    thread,
    threads,
    topology,
    tsc_only,
)


def test_testpmd_without_a_pmu() -> None:
    first, second = fold(START, tick(1, forwarding(1)), tick(2, forwarding(2)))
    assert reason(cpu(first, "rx_packets_per_s")) in (Reason.WARMING, Reason.UNDEFINED)
    assert second.cpus.thread == (None, "rte-worker-1", None, None)
    assert second.cpus.nf[1] == "nfa/testpmd" and second.cpus.nf_pid[1] == 100
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
    assert second.own.counters_by_source == {
        "perf": CounterCost(4, 12),
        "uncore": CounterCost(7, 2),
    }
    assert second.own.counters == CounterCost(11, 14)
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


def test_cpp_is_a_ratio_of_rates_every_by_its_own_clock() -> None:
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
        reports = (lcore(0, 0), lcore(1, 1, total=cycles, busy=cycles // 4 * 3))
        return forwarding(second, lcores=reports, lcores_told=True)

    frame = fold(START, tick(1, usage(1)), tick(2, usage(2)))[-1]
    assert cpu(frame, "busy_ratio") == pytest.approx(0.75)
    assert cpu(frame, "busy_cpp") == pytest.approx(0.75 * 260)
    assert nf(frame, "busy_cpp") == pytest.approx(0.75 * 260)


def test_without_perf_the_nfs_own_cycles_serve_and_are_labelled() -> None:
    def at(second: int) -> Sample:
        reports = (lcore(1, 1, total=TSC_HZ * second, busy=0),)
        return without_perf(tick(second, forwarding(second, lcores=reports, lcores_told=True)))

    frame = fold(START, at(1), at(2))[-1]
    assert cpu(frame, "cpp") == pytest.approx(260.0)
    assert frame.cpus.cpp_clock[1] == "nf"
    assert reason(cpu(frame, "ipc")) is Reason.PERMISSION


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


def test_no_field_keeps_the_rows_of_cpus_not_shown() -> None:
    """`only_cpus` names every field, and a type checker does not see one that is forgotten."""
    whole = fold(START, tick(1, two_queues(1), workers=spinning(1)))[-1]
    whole = replace(whole, cpus=replace(whole.cpus, origins={"ipc": ("pcm", None, None, None)}))
    for cpus in ({1, 3}, {0}, frozenset[int]()):
        table = only_cpus(whole, cpus).cpus
        assert len(table) == len(cpus)
        per_row = {field.name: getattr(table, field.name) for field in fields(table)}
        assert type(per_row.pop("topology")) is Topology
        per_row |= per_row.pop("columns")
        del per_row["sampled_s"]  # by metric
        for by_cpu in ("shared", "saturated_by"):
            assert per_row.pop(by_cpu).keys() <= set(cpus)
        per_row |= {f"origin of {name}": rows for name, rows in per_row.pop("origins").items()}
        assert {name: len(rows) for name, rows in per_row.items()} == dict.fromkeys(
            per_row, len(cpus)
        )


def _with_offline(second: int, offline: frozenset[int]) -> Sample:
    """Four CPUs of two cores, each counting; those offline are missing in every table."""
    cycles = 2 * S * second
    whole = tick(second, forwarding(second))
    table = counters(
        {
            index: (cycles, 3 * cycles, cycles, TSC_HZ * second, 0)
            for index in range(4)
            if index not in offline
        },
        enabled_ns=second * S,
    )
    times = cpu_times(
        {index: {"idle": 100 * second, "user": 1} for index in range(4) if index not in offline}
    )
    infos = tuple(
        replace(info, online=False, core=None, package=None, l3=None, siblings=())
        if info.cpu in offline
        else replace(info, siblings=tuple(set(info.siblings) - offline))
        for info in topology(4).cpus
    )
    perf, kernel = (whole.readings[name] for name in ("perf", "kernel"))
    readings = {
        **whole.readings,
        "perf": replace(perf, value=table),
        "kernel": replace(kernel, value=times),
    }
    return with_topology(replace(whole, readings=readings), Topology(infos, topology(4).l3))


def test_a_cpu_that_goes_offline_costs_no_other_its_numbers() -> None:
    none: frozenset[int] = frozenset()
    states = (none, none, frozenset({3}), frozenset({3}), none, none)
    start = replace(START, topology=topology(4))
    frames = fold(start, *(_with_offline(at, state) for at, state in enumerate(states, 1)))
    for metric in ("ipc", "frequency_hz", "cpu_time_ratio"):
        of_frames = [frame.cpus.columns[metric] for frame in frames[1:]]
        assert [column.present[:3].all() for column in of_frames] == [True] * 5
        codes = [int(column.reasons[3]) for column in of_frames]
        gone, back = int(Reason.UNDEFINED), int(Reason.WARMING)
        assert codes == [0, gone, gone, back, 0]


def test_what_is_kept_between_ticks_is_small_and_does_not_grow() -> None:
    """Python's blocks of memory with 512 CPUs; ten seconds a tick, so that all spans are full."""
    clocked, history, events = Clocked(512), TickHistory(ticks=20), EventHistory()
    blocks = {}
    for tick_number in range(1, 101):
        clocked.now_ns += 9 * SECOND_NS
        frame = clocked.fold(clocked.sample())
        history.append(frame)
        events.append(frame)
        if tick_number in (10, 60, 100):
            del frame
            gc.collect()
            blocks[tick_number] = sys.getallocatedblocks()
    # The ticks of the baseline, of recent rates and of what is usual; a frame has 6,000.
    assert blocks[60] - blocks[10] < 50 * 500
    # A number a tick would be 40, a row of each network function 3,600.
    assert blocks[100] - blocks[60] < 1000
