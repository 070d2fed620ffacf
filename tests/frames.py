"""Deterministic frames for tests: what a host looks like, without a host."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from nftop.derive.nf.cores import MONITORED
from nftop.derive.nf.rates import NO_VECTORS
from nftop.derive.saturation import Room, room_of_all
from nftop.model.baseline import NO_BASELINE
from nftop.model.column import Column, column, from_readings, missing
from nftop.model.frame import CounterCost, CpuTable, Frame, NfRow, SelfCost, SourceState
from nftop.model.ids import Core, Cpu, L3Domain, Package, parse_cpu_list
from nftop.model.metrics.catalogue import CPU_METRICS
from nftop.model.metrics.flow_tables import FLOW_TABLE_METRICS
from nftop.model.metrics.nf import LATENCY_METRICS, NF_METRICS, NF_NODES
from nftop.model.metrics.pcm import PCM_CPU_METRICS
from nftop.model.metrics.ports import GRAPH_METRICS, PORT_METRICS
from nftop.model.metrics.power import COUNTED_POWER_CPU_METRICS
from nftop.model.metrics.saturation import SATURATION_CPU_METRICS, SATURATION_NF_METRICS
from nftop.model.metrics.tma import TMA_METRICS
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.nf.components import (
    NO_ERROR_DROPS,
    NO_LATENCY,
    NO_MONITOR,
    NO_PORT_LOSSES,
    ONLY_OVS,
    NfPort,
    NfQueue,
    NfThread,
)
from nftop.model.sst import CpuSetting
from nftop.model.subject import Subject, cpu_subject, package_subject
from nftop.model.topology import CpuInfo, Host, L3Cache, Topology

SECOND_NS = 1_000_000_000
START_NS = 100 * SECOND_NS
WALL_NS = 1_767_225_600 * SECOND_NS  # 2026-01-01T00:00:00Z

HOSTILE = (
    "[red]x[/] \x1b[2J",
    "漢字のスレッド名前",
    "e\u0301\u0323\u0301zalgo\u200d\u200b",
    "\u202egnp.exe \u05e9\u05dc\u05d5\u05dd",
    "tab\tnew\nline\x07\x9b31m",
)

SETTING = CpuSetting(
    priority=Missing(Reason.UNDEFINED, "all cores of its package have one base frequency"),
    driver="intel_pstate",
    governor="powersave",
    epp="balance_performance",
    cp_class=Missing(Reason.SOURCE, "intel-speed-select is not installed"),
)


def monotonic_of(wall_ns: int) -> int:
    """CLOCK_MONOTONIC of a wall time of `frame`."""
    return START_NS + wall_ns - WALL_NS


def about(where: str, key: str = "") -> Subject:
    """Subject of a finding by its text; of the NFs of `frame` the key is known."""
    kind, _, name = where.partition(" ")
    if kind == "cpu":
        return cpu_subject(*parse_cpu_list(name))
    if kind == "package":
        return package_subject(Package(int(name)))
    if kind == "class":
        return Subject("class", name.replace(", L3", ""), name)
    if kind == "nf":
        return Subject("nf", key or {"fwd": "4242:1", "vpp": "5151:1"}.get(name, name), name)
    return Subject("host", name, name)


REASONS = tuple(reason for reason in Reason if reason is not Reason.PRESENT)


def topology(n_cpus: int, packages: int = 1) -> Topology:
    """Half the CPUs are cores, the other half their siblings, as Linux numbers a Xeon."""
    cores = max(1, n_cpus // 2)
    per_package = max(1, cores // packages)

    def info(cpu: int) -> CpuInfo:
        core = cpu % cores
        package = min(packages - 1, core // per_package)
        sibling = core + cores if cpu < cores else core
        return CpuInfo(
            cpu=Cpu(cpu),
            online=True,
            core=Core(core),
            package=Package(package),
            die=0,
            l3=L3Domain(package),
            node=package,
            siblings=(Cpu(sibling),) if sibling != cpu and sibling < n_cpus else (),
            isolated=core > 0,
        )

    cpus = tuple(info(cpu) for cpu in range(n_cpus))
    caches = tuple(
        L3Cache(L3Domain(p), 48 << 20, 12, tuple(c.cpu for c in cpus if c.package == p))
        for p in range(packages)
    )
    return Topology(cpus, caches)


def frame(
    n_cpus: int = 8,
    tick: int = 0,
    *,
    packages: int = 1,
    simulated: bool = False,
    tma: bool = False,
) -> Frame:
    """A healthy host whose DPDK application polls on CPUs 1 and 2 and VPP on CPU 3.

    CPU 1 is saturated, CPU 2 is half busy, CPU 3 multiplexes its counters and waits for its CPU.
    With `tma` every CPU has top-down, except that CPU 4's can't be counted.
    """
    nf = {1: "fwd", 2: "fwd", 3: "vpp"}
    thread = {1: "dpdk-worker1", 2: "dpdk-worker2", 3: "vpp_wk_0"}
    wobble = 1 + 0.04 * np.sin(tick / 3.0)
    idle = Missing(Reason.UNDEFINED, "no network function polls on this CPU")
    no_misses = Missing(Reason.SOURCE, "no counter was spare for LLC misses")

    def polled(*values: float) -> Column:
        return from_readings(dict(list(enumerate(values, start=1))[: n_cpus - 1]), n_cpus, idle)

    everywhere = np.arange(n_cpus, dtype=np.float64)
    columns: dict[str, Column] = {
        "busy_ratio": column(np.where(everywhere < 4, 0.04, 0.002)),
        "packets_per_s": polled(14.88e6 * wobble, 0.012e6, 8.4e6),
        "ipc": column(0.8 + everywhere % 5 / 4),
        "cpp": polled(188.2 / wobble, 233_000.0, 333.3),
        "busy_cpp": polled(186.0 / wobble, 116_500.0, 326.6),
        "ipp": polled(302.0, 410_000.0, 599.0),
        "llc_misses_per_packet": missing(n_cpus, no_misses),
        "run_ratio": polled(1.0, 1.0, 0.93),
        "wait_ratio": polled(0.0, 0.0004, 0.07),
        "cpu_time_ratio": column(np.where((everywhere > 0) & (everywhere < 4), 1.0, 0.03)),
        "steal_ratio": column(np.zeros(n_cpus)),
        "softirq_ratio": column(np.where(everywhere == 0, 0.021, 0.0)),
        "kernel_packets_per_s": column(np.where(everywhere == 0, 1_500.0, 0.0)),
        "softnet_drops_per_s": column(np.zeros(n_cpus)),
        "softnet_squeezes_per_s": column(np.where(everywhere == 0, 2.0, 0.0)),
        "context_switches_per_s": column(np.where(everywhere == 0, 1234.0, 3.0)),
        "frequency_hz": column(np.full(n_cpus, 2.8e9)),
        "tsc_hz": column(np.full(n_cpus, 2.2e9)),
        "sibling_ipc": column(0.8 + (everywhere + 2) % 5 / 4),
        "core_ipc": column(1.5 + everywhere % 5 / 4),
        "cpp_vs_base": missing(n_cpus, NO_BASELINE),
        "base_frequency_hz": column(np.full(n_cpus, 2.2e9)),
        "min_frequency_hz": column(np.full(n_cpus, 0.8e9)),
        "max_frequency_hz": column(np.full(n_cpus, 3.5e9)),
        "coverage": column(np.where(everywhere == 3, 0.66, 1.0)),
        "llc_misses_per_s": missing(n_cpus, no_misses),
        "local_dram_per_s": missing(n_cpus, no_misses),
        "remote_dram_per_s": missing(n_cpus, no_misses),
        "llc_misses_coverage": missing(n_cpus, no_misses),
        "memory_loads_coverage": missing(n_cpus, no_misses),
    }
    columns["rx_packets_per_s"] = columns["packets_per_s"]
    no_table = Missing(Reason.SOURCE, "nftop has no top-down table for this CPU (generic)")
    columns |= {metric.id: missing(n_cpus, no_table) for metric in TMA_METRICS}
    no_server = Missing(Reason.SOURCE, "no pcm-sensor-server listens at 127.0.0.1:9738")
    of_power = (*COUNTED_POWER_CPU_METRICS, *PCM_CPU_METRICS)
    columns |= {metric.id: missing(n_cpus, no_server) for metric in of_power}
    columns |= {metric.id: missing(n_cpus, NO_VECTORS) for metric in SATURATION_CPU_METRICS}
    columns["missed_packets_per_s"] = column(np.zeros(n_cpus))
    if tma:
        columns |= _tma(everywhere, wobble)
    columns["busy_ratio"] = _with(columns["busy_ratio"], {1: 0.988, 2: 0.5, 3: 0.98})
    columns["sibling_busy_ratio"] = column(np.where(everywhere == 2, 0.91, 0.002))
    return Frame(
        wall_ns=WALL_NS + tick * SECOND_NS,
        monotonic_ns=START_NS + tick * SECOND_NS,
        interval_s=1.0 if tick else None,
        host=Host("edge-07", "Intel(R) Xeon(R) Gold 6338N CPU @ 2.20GHz", "ICX", simulated),
        topology=topology(n_cpus, packages),
        sources={name: _ok() for name in ("perf", "dpdk", "kernel", "processes", "cpufreq")},
        cpus=CpuTable(
            topology=topology(n_cpus, packages),
            online=(True,) * n_cpus,
            thread=tuple(thread.get(cpu) for cpu in range(n_cpus)),
            nf=tuple(nf.get(cpu) for cpu in range(n_cpus)),
            nf_pid=tuple({"fwd": 4242, "vpp": 5151}.get(nf.get(cpu, "")) for cpu in range(n_cpus)),
            direction=tuple("rx" if cpu in nf else None for cpu in range(n_cpus)),
            cpp_clock=tuple("core" if cpu in nf else None for cpu in range(n_cpus)),
            saturated=tuple({1: True, 2: False, 3: True}.get(cpu) for cpu in range(n_cpus)),
            attribution=tuple(
                f"rx queue {cpu - 1} of port 0, told by the NF" if cpu in nf else ""
                for cpu in range(n_cpus)
            ),
            group=(Missing(Reason.SOURCE, "resctrl is not mounted"),) * n_cpus,
            settings=(SETTING,) * n_cpus,
            columns=columns,
        ),
        nfs=(
            _with_components(
                replace(_nf("fwd", 4242, (1, 2), 14.892e6, 14.89e6, 0.0), saturated=False),
                columns,
                thread,
            ),
            _with_components(_nf("vpp", 5151, (3,), 8.4e6, 8.4e6, 12), columns, thread),
        ),
        packages=(),
        groups=(),
        domains=(),
        own=SelfCost(0.006, (Cpu(0),), CounterCost(float(n_cpus), float(n_cpus)), ""),
    )


def bare(n_cpus: int = 2) -> Frame:
    """A host with neither counters nor network functions."""
    none = Missing(Reason.HARDWARE, "no hardware counters: the hypervisor gives none")
    gone = {m.id: missing(n_cpus, none) for m in CPU_METRICS}
    gone["cpp_vs_base"] = missing(n_cpus, NO_BASELINE)
    gone["busy_ratio"] = column(np.linspace(0.1, 0.9, n_cpus))
    base = frame(n_cpus)
    cpus = replace(
        base.cpus,
        thread=(None,) * n_cpus,
        nf=(None,) * n_cpus,
        nf_pid=(None,) * n_cpus,
        direction=(None,) * n_cpus,
        cpp_clock=(None,) * n_cpus,
        saturated=(None,) * n_cpus,
        attribution=("",) * n_cpus,
        columns=gone,
    )
    absent = SourceState(Reason.SOURCE, "no DPDK runtime directory under /var/run/dpdk", None, None)
    perf = SourceState(Reason.HARDWARE, none.detail, 0.1, 0.0001)
    return replace(base, cpus=cpus, nfs=(), sources={**base.sources, "perf": perf, "dpdk": absent})


def all_missing(n_cpus: int = 12) -> Frame:
    """No number anywhere; every reason at least once, each with a sentence of its own."""
    base = frame(n_cpus)

    def why(index: int) -> Missing:
        reason = REASONS[index % len(REASONS)]
        return Missing(reason, f"{reason.key} of {index % len(REASONS)}: here is what to do")

    columns = {
        metric.id: from_readings({row: why(row + index) for row in range(n_cpus)}, n_cpus, why(0))
        for index, metric in enumerate(CPU_METRICS)
    }
    readings: Mapping[str, Reading] = {m.id: why(index) for index, m in enumerate(NF_METRICS)}
    problem = Missing(Reason.PERMISSION, "can't connect to its telemetry socket; run as root")
    return replace(
        base,
        interval_s=None,
        sources={
            name: SourceState(REASONS[index], f"{name} gives nothing", None, None)
            for index, name in enumerate(base.sources)
        },
        cpus=replace(
            base.cpus,
            columns=columns,
            cpp_clock=(None,) * n_cpus,
            saturated=(None,) * n_cpus,
        ),
        nfs=tuple(
            replace(nf, problem=problem, readings=readings, cpp_clock=None, saturated=None)
            for nf in base.nfs
        ),
        own=SelfCost(
            why(4), (), CounterCost(why(4), why(4)), "nftop runs on cpu 1, where fwd polls"
        ),
    )


def hostile() -> Frame:
    """Names nobody chose for our screen, in every field that holds text of others."""
    base = frame(8)
    names = tuple(HOSTILE[row % len(HOSTILE)] for row in range(8))
    nfs = tuple(
        replace(nf, name=name, problem=Missing(Reason.ERROR, f"it says {name}"))
        for nf, name in zip(base.nfs, HOSTILE, strict=False)
    )
    columns = dict(base.cpus.columns)
    columns["ipp"] = from_readings(
        {row: Missing(Reason.ERROR, name) for row, name in enumerate(names)},
        8,
        Missing(Reason.ERROR),
    )
    return replace(
        base,
        host=replace(base.host, name=HOSTILE[0], model=HOSTILE[4]),
        sources={**base.sources, "dpdk": SourceState(Reason.PRESENT, HOSTILE[0], 0.1, 0.1)},
        cpus=replace(base.cpus, thread=names, nf=names, attribution=names, columns=columns),
        nfs=nfs,
        own=replace(base.own, warning=HOSTILE[3]),
    )


def ticks(make: Callable[[int], Frame], count: int) -> Iterator[Frame]:
    """`count` frames, a second apart."""
    return (make(tick) for tick in range(count))


def with_cells(base: Frame, metric: str, cells: Mapping[int, Reading]) -> Frame:
    """`base` with other readings of one metric in some rows."""
    columns = dict(base.cpus.columns)
    columns[metric] = _with(columns[metric], cells)
    return replace(base, cpus=replace(base.cpus, columns=columns))


def _with(base: Column, cells: Mapping[int, Reading]) -> Column:
    readings = {row: base[row] for row in range(len(base))} | {
        row: value for row, value in cells.items() if row < len(base)
    }
    return from_readings(readings, len(base), Missing(Reason.UNDEFINED))


def _tma(cpus: NDArray[np.float64], wobble: float) -> dict[str, Column]:
    """Level 1 and the backend's level 2 of every CPU but 4, which has none."""
    frontend, speculation = 0.08 + cpus % 4 * 0.03, 0.02 + cpus % 3 * 0.01
    backend = 0.25 * wobble + cpus % 5 * 0.08
    components = {
        "frontend_bound": frontend,
        "bad_speculation": speculation,
        "backend_bound": backend,
        "retiring": 1.0 - frontend - speculation - backend,
        "memory_bound": backend * 0.7,
        "core_bound": backend * 0.3,
        "coverage": np.where(cpus == 3, 0.66, 1.0),
        "level_2_coverage": np.where(cpus == 3, 0.66, 1.0),
    }
    why = Missing(Reason.TAKEN, "the NMI watchdog holds a counter; sysctl kernel.nmi_watchdog=0")
    return {f"tma.{name}": column(values, cpus == 4, why) for name, values in components.items()}


def _ok() -> SourceState:
    return SourceState(Reason.PRESENT, "", 0.1, 0.0004)


R = TypeVar("R", bound=Reading)


def nic_drops(per_s: R) -> dict[str, R]:
    """Readings of a network function whose NICs drop so many packets."""
    return dict.fromkeys(("missed_packets_per_s", "drop_packets_per_s"), per_s)


def _nf(name: str, pid: int, cpus: tuple[int, ...], rx: float, tx: float, drop: float) -> NfRow:
    return NfRow(
        key=f"{pid}:1",
        name=name,
        kind="dpdk",
        pid=pid,
        cpus=tuple(Cpu(cpu) for cpu in cpus),
        direction="rx",
        cpp_clock="core",
        saturated=True,
        interval_s=1.0,
        attribution="told by the NF",
        problem=None,
        readings={
            "rx_packets_per_s": rx,
            "tx_packets_per_s": tx,
            **nic_drops(drop),
            "cpp": 376.0,
            "busy_cpp": 281.5,
            "ipp": 604.0,
        },
    )


def _with_components(nf: NfRow, columns: Mapping[str, Column], names: Mapping[int, str]) -> NfRow:
    """With what its cores have in the table of CPUs, a queue for each, and a port."""
    rows = [cpu for cpu in nf.cpus if cpu < len(columns["ipc"])]
    packets = [columns["packets_per_s"][row] for row in rows]
    known = [packet for packet in packets if not isinstance(packet, Missing)]
    even = Missing(Reason.UNDEFINED, "packets come to one core of it")
    spread = max(known) * len(known) / sum(known) - 1 if len(known) > 1 else even
    readings: dict[str, Reading] = {
        "ipc": 604.0 / 376.0,
        "cpp_vs_base": NO_BASELINE,
        "imbalance_ratio": spread,
        "llc_occupancy_bytes": Missing(Reason.SOURCE, "resctrl is not mounted"),
        **dict.fromkeys(MONITORED, NO_MONITOR),
        "llc_misses_per_packet": columns["llc_misses_per_packet"][0],
    }
    readings |= {metric.id: NO_VECTORS for metric in SATURATION_NF_METRICS}
    readings |= {metric.id: ONLY_OVS for metric in FLOW_TABLE_METRICS}
    readings |= {
        metric.id: NO_PORT_LOSSES for metric in PORT_METRICS if metric.id not in nf.readings
    }
    readings |= {metric.id: NO_ERROR_DROPS for metric in GRAPH_METRICS}
    readings |= {metric.id: NO_LATENCY for metric in LATENCY_METRICS}
    busy = max((columns["busy_ratio"].values[row] for row in rows), default=0.5)
    room = room_of_all([Room(1.0 - float(busy), 0.0)], nf.readings["rx_packets_per_s"])
    readings |= {"room_ratio": room.ratio, "room_packets_per_s": room.packets_per_s}
    readings |= {node.id: columns[node.id][rows[0] if rows else 0] for node in NF_NODES}
    no_drops = Missing(Reason.SOURCE, "what it drops only it knows")
    rx, tx = nf.readings["rx_packets_per_s"], nf.readings["tx_packets_per_s"]
    missed = nf.readings["missed_packets_per_s"]
    return replace(
        nf,
        readings={**nf.readings, **readings},
        threads=tuple(
            NfThread(Cpu(row), names[row], packet, columns["busy_ratio"][row], 1.0)
            for row, packet in zip(rows, packets, strict=True)
        ),
        ports=(NfPort(f"0 0000:3b:00.{nf.pid % 4}", rx, tx, missed, no_drops),),
        queues=tuple(
            NfQueue("0 0000:3b:00.0", number, Cpu(row), item, no_drops)
            for number, (row, item) in enumerate(zip(rows, packets, strict=True))
        ),
    )
