"""Samples with known numbers, and hosts to read them on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nftop.derive.fold import FoldState, step
from nftop.model.frame import Frame
from nftop.model.ids import Core, Cpu, L3Domain, Lcore, Package
from nftop.model.missing import Missing, Reason
from nftop.model.sample import (
    CounterTable,
    CpuTimes,
    DpdkApp,
    DpdkLcore,
    DpdkPort,
    DpdkTable,
    Sample,
    SourceReading,
    ThreadTable,
)
from nftop.model.threads import ThreadRow
from nftop.model.topology import CpuInfo, Host, L3Cache, Topology

S = 1_000_000_000  # one second in ns
HOST = Host("edge-07", "a test's CPU", "generic")
EVENTS = ("cycles", "instructions", "ref_cycles", "tsc", "context_switches")
FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


def topology(cpus: int = 4, *, smt: bool = True) -> Topology:
    """One package; with SMT, CPU n and n + cpus/2 are siblings."""
    half = cpus // 2
    rows = []
    for cpu in range(cpus):
        core = cpu % half if smt else cpu
        sibling = (Cpu((cpu + half) % cpus),) if smt else ()
        rows.append(
            CpuInfo(Cpu(cpu), True, Core(core), Package(0), 0, L3Domain(0), 0, siblings=sibling)
        )
    cache = L3Cache(L3Domain(0), 32 << 20, 16, tuple(Cpu(cpu) for cpu in range(cpus)))
    return Topology(tuple(rows), (cache,))


def counters(
    rows: Mapping[int, Sequence[int]],
    *,
    enabled_ns: int,
    running_ns: int | None = None,
    events: tuple[str, ...] = EVENTS,
    absent: Mapping[str, Missing] | None = None,
) -> CounterTable:
    """A counter table of one group, with one row of raw values per CPU."""
    reasons = np.zeros((len(rows), len(events)), dtype=np.uint8)
    for event, why in (absent or {}).items():
        reasons[:, events.index(event)] = why.reason
    running_ns = enabled_ns if running_ns is None else running_ns
    return CounterTable(
        cpus=np.array(list(rows), dtype=np.int32),
        events=events,
        group=np.zeros(len(events), dtype=np.int32),
        values=np.array(list(rows.values()), dtype=np.uint64),
        reasons=reasons,
        enabled_ns=np.full((len(rows), 1), enabled_ns, dtype=np.uint64),
        running_ns=np.full((len(rows), 1), running_ns, dtype=np.uint64),
        details={event: {int(why.reason): why.detail} for event, why in (absent or {}).items()},
    )


NO_PMU = Missing(Reason.HARDWARE, "no PMU: a guest?")
ONLY_TSC = {"cycles": NO_PMU, "instructions": NO_PMU, "ref_cycles": NO_PMU}


def tsc_only(rows: Mapping[int, int], *, enabled_ns: int) -> CounterTable:
    """A host without a PMU: `rows` is the TSC of each CPU."""
    return counters(
        {cpu: (0, 0, 0, tsc, 0) for cpu, tsc in rows.items()},
        enabled_ns=enabled_ns,
        absent=ONLY_TSC,
    )


def cpu_times(rows: Mapping[int, Mapping[str, int]]) -> CpuTimes:
    """/proc/stat: the fields that are not named are 0."""
    ticks = [[fields.get(name, 0) for name in FIELDS] for fields in rows.values()]
    return CpuTimes(
        np.array(list(rows), dtype=np.int32), FIELDS, np.array(ticks, dtype=np.uint64), 100
    )


def thread(**changes: Any) -> ThreadRow:
    """A testpmd worker on CPU 1."""
    row = ThreadRow(
        pid=100,
        tid=101,
        start_ticks=5000,
        comm="rte-worker-1",
        program="dpdk-testpmd",
        role="dpdk_lcore",
        role_index=1,
        allowed=(Cpu(1),),
        last_cpu=Cpu(1),
        run_ns=0,
        wait_ns=0,
        voluntary=0,
        involuntary=0,
        container=False,
        read_at_ns=0,
    )
    return replace(row, **changes)


def main_thread(**changes: Any) -> ThreadRow:
    """Its main thread on CPU 0."""
    return thread(
        tid=100,
        comm="dpdk-testpmd",
        role="dpdk_main",
        role_index=None,
        allowed=(Cpu(0),),
        last_cpu=Cpu(0),
        **changes,
    )


def threads(*rows: ThreadRow, hidden: int = 0) -> ThreadTable:
    return ThreadTable(rows, hidden, 0)


def port(number: int = 0, *, rx: int | None = 0, tx: int | None = 0, **changes: Any) -> DpdkPort:
    row = DpdkPort(number, f"net_null{number}", 1, rx, tx, 0, (rx,) if rx is not None else ())
    return replace(row, **changes)


def app(read_at_ns: int, *ports: DpdkPort, **changes: Any) -> DpdkApp:
    """A DPDK 22.11 testpmd with `-l 0-1`, polled at `read_at_ns`."""
    row = DpdkApp(
        pid=100,
        start_ticks=4000,
        name="dpdk-testpmd",
        prefix="nfa",
        socket="/run/x",
        problem=None,
        version="DPDK 22.11.11",
        ports=ports or (port(),),
        lcores=(),
        lcores_told=False,
        eal_params=("dpdk-testpmd", "-l", "0-1"),
        app_params=(),
        read_at_ns=read_at_ns,
        took_ns=1000,
    )
    return replace(row, **changes)


def lcore(number: int, cpu: int, total: int | None = None, busy: int | None = None) -> DpdkLcore:
    return DpdkLcore(Lcore(number), (Cpu(cpu),), "RTE", total, busy)


def sample(at_ns: int, **payloads: Any) -> Sample:
    """A sample whose every source and thread was read at `at_ns`."""
    if "processes" in payloads:
        rows = payloads["processes"].threads
        payloads["processes"] = threads(*(replace(row, read_at_ns=at_ns) for row in rows))
    readings = {name: SourceReading(value, at_ns, 1000) for name, value in payloads.items()}
    return Sample(1_790_000_000 * S + at_ns, at_ns, S, readings)


def table(*apps: DpdkApp, hidden: tuple[str, ...] = ()) -> DpdkTable:
    return DpdkTable(apps, hidden)


def fold(state: FoldState, *samples: Sample) -> list[Frame]:
    """The frames of these samples."""
    frames = []
    for one in samples:
        state, frame = step(state, one)
        frames.append(frame)
    return frames
