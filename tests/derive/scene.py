"""A host without a PMU and a testpmd on it, tick by tick, for the tests of the fold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from nftop.derive.fold import FoldState
from nftop.model.frame import Frame
from nftop.model.ids import Cpu
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.sample import CounterUse, DpdkApp, Sample, SelfUse
from nftop.model.threads import ThreadRow
from nftop.model.topology import Topology
from tests.samples import (
    HOST,
    S,
    app,
    cpu_times,
    fold,
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


START = FoldState(HOST, topology(4, smt=False))


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
        self=SelfUse(
            int(0.01 * at_ns),
            (Cpu(0),),
            {
                "perf": CounterUse(int(4 * second), int(12 * second)),
                "uncore": CounterUse(int(7 * second), int(2 * second)),
            },
        ),
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


def with_topology(whole: Sample, value: Topology) -> Sample:
    reading = replace(whole.readings["kernel"], value=value)
    return replace(whole, readings={**whole.readings, "topology": reading})


def without_perf(whole: Sample) -> Sample:
    denied = Missing(Reason.PERMISSION, "perf_event_paranoid is 2")
    perf = replace(whole.readings["perf"], value=denied)
    return replace(whole, readings={**whole.readings, "perf": perf})
