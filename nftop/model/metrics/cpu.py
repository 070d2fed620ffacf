"""Metrics of CPUs: counters, kernel times, hyper-thread siblings, frequencies and settings."""

from __future__ import annotations

from typing import Literal

from nftop.model.column import Column, product, ratio
from nftop.model.metrics.metric import (
    COVERAGE,
    FAR_LOADS,
    LLC_COVERAGE,
    LOADS_COVERAGE,
    NEAR_LOADS,
    CountedRates,
    Metric,
    Unit,
    counted_event,
)
from nftop.model.metrics.nf import BUSY_CPP, EQ5, EQ6, RX
from nftop.model.metrics.probes import PAPER

_PERF = "perf_event_open(2), generic hardware events"
_BOUND = "'<' before it: the core is not known to be saturated, so it is an upper bound."


# A poller that waits longer for its CPU shares it.
WAIT_RATIO_MOST = 0.05


def _frequency_hz(counted: CountedRates) -> Column:
    """Average frequency while not halted: cycles / ref_cycles x tsc per second.

    ref_cycles advances at the TSC's rate while the core is not halted (Intel SDM volume 3,
    CPU_CLK_UNHALTED.REF_TSC), so the quotient is the turbo or throttle factor.
    """
    return product(ratio(counted.core_cycles, counted.rate("ref_cycles")), counted.rate("tsc"))


def _memory_loads(
    name: str,
    label: str,
    meaning: str,
    events: tuple[str, ...],
    *,
    priority: float,
    good: Literal["high", "low"] | None = None,
) -> Metric:
    return Metric(
        id=name,
        label=label,
        unit=Unit.PER_S,
        scope="cpu",
        meaning=meaning,
        formula="loads / cycles of the same group x cycles per second; where groups take turns, of "
        "the last turn",
        origin=f"{PAPER}, 15.7; MEM_LOAD_L3_MISS_RETIRED, on Xeon E5 v3 and v4 OFFCORE_RESPONSE to "
        "demand reads of data",
        good=good,
        priority=priority,
        coverage=LOADS_COVERAGE,
        optional=True,
        compute=lambda counted: counted.rate_by_cycles(counted_event(counted, events)),
    )


COUNTED_CPU_METRICS: tuple[Metric, ...] = (
    Metric(
        id="busy_ratio",
        label="BUSY",
        unit=Unit.RATIO,
        scope="cpu",
        meaning="Share of time doing work. On a polling core only the NF knows it, because the "
        "kernel sees a poller as always busy; elsewhere it is the kernel's busy time.",
        formula="busy_cycles / total_cycles of the NF (VPP: clocks of its nodes, where input nodes "
        "had no empty polls); else 1 - (idle + iowait) / all, /proc/stat",
        origin="DPDK /eal/lcore/usage; OVS pmd-stats-show, from 4.0 on pmd-rxq-show; VPP "
        "/sys/node/*; proc(5)",
        priority=3,
    ),
    Metric(
        id="packets_per_s",
        label="Mpps",
        unit=Unit.PACKETS_PER_S,
        scope="cpu",
        meaning="Packets received per second by the queues this core polls; packets sent where "
        "the NF only generates. CPP and IPP divide by it.",
        formula="delta(rx packets of its queues, or tx packets) / delta(the NF's clock)",
        origin=RX,
        good="high",
        priority=1,
    ),
    Metric(
        id="rx_packets_per_s",
        label="Mpps rx",
        unit=Unit.PACKETS_PER_S,
        scope="cpu",
        meaning="Packets received per second by the queues this core polls; undefined where the "
        "NF only generates.",
        formula="delta(rx packets of its queues) / delta(the NF's clock)",
        origin=RX,
        good="high",
    ),
    Metric(
        id="ipc",
        label="IPC",
        unit=Unit.PER_CYCLE,
        scope="cpu",
        meaning="Instructions retired per unhalted core cycle, of all that ran on the CPU. A "
        "poller that finds no packets has a high IPC too: read it beside busy and CPP.",
        formula="instructions / cycles, counted by the same groups",
        origin=f"{_PERF}; {EQ6}",
        good="high",
        priority=4,
        coverage=COVERAGE,
        compute=lambda counted: ratio(counted.rate("instructions"), counted.core_cycles),
    ),
    Metric(
        id="cpp",
        label="CPP",
        unit=Unit.CYCLES,
        scope="cpu",
        meaning="Cycles per packet, empty polls included. Where the threads that poll here had "
        "their CPU for less than 95 % of the time (RUN), its cycles are not theirs alone: only "
        "their share by time counts, an estimate ('~'; cpp_clock ends in _by_run). "
        f"{_BOUND}",
        formula="cycles per second / packets_per_s. core_by_run: cycles x RUN / share of time that "
        "the CPU was not halted, of which stolen time is none; tsc_by_run: TSC x RUN, where RUN is "
        "at most 1 - STEAL; nf_by_run: the NF's own x RUN / (RUN + WAIT)",
        origin=EQ5,
        good="low",
        priority=2,
        coverage=COVERAGE,
        per_clock=True,
        bounded=True,
    ),
    Metric(
        id="busy_cpp",
        label="bCPP",
        unit=Unit.CYCLES,
        scope="cpu",
        meaning="Cycles per packet spent on work: CPP without the empty polls.",
        formula="cpp x busy_ratio of the NF",
        origin=BUSY_CPP,
        good="low",
        priority=6,
        coverage=COVERAGE,
        per_clock=True,
    ),
    Metric(
        id="ipp",
        label="IPP",
        unit=Unit.INSTRUCTIONS,
        scope="cpu",
        meaning="Instructions per packet, empty polls included. None where other threads ran on "
        "the CPU too (RUN below 95 %): it counts the instructions of all. "
        f"{_BOUND}",
        formula="instructions per second / packets_per_s",
        origin=EQ6,
        good="low",
        priority=7,
        coverage=COVERAGE,
        bounded=True,
    ),
    Metric(
        id="llc_misses_per_packet",
        label="MISS/pkt",
        unit=Unit.PER_PACKET,
        scope="cpu",
        meaning="Last-level cache misses per packet. None where other threads ran on the CPU too "
        "(RUN below 95 %).",
        formula="LLC misses / cycles of the same group x cycles per second / packets_per_s, "
        "all of the tick in which they were counted last",
        origin="LONGEST_LAT_CACHE.MISS",
        good="low",
        priority=7.5,
        coverage=LLC_COVERAGE,
        optional=True,
    ),
    Metric(
        id="llc_misses_per_s",
        label="LLCM/s",
        unit=Unit.PER_S,
        scope="cpu",
        meaning="Last-level cache misses per second of all that ran on the CPU, polling or not: "
        "what it takes from memory by demand.",
        formula="LLC misses / cycles of the same group x cycles per second; where groups take "
        "turns, of the last turn",
        origin="LONGEST_LAT_CACHE.MISS",
        good="low",
        priority=18,
        coverage=LLC_COVERAGE,
        optional=True,
        compute=lambda counted: counted.rate_by_cycles("llc_misses"),
    ),
    _memory_loads(
        "local_dram_per_s",
        "MEM.near",
        "Loads per second, of all that ran on the CPU, that the package's own memory served. "
        "Prefetches and stores are not in it: see MBL.",
        NEAR_LOADS,
        priority=19,
    ),
    _memory_loads(
        "remote_dram_per_s",
        "MEM.far",
        "Loads per second, of all that ran on the CPU, that another package's memory served: data "
        "or descriptors on the wrong NUMA node. Prefetches and stores are not in it: see MBR.",
        FAR_LOADS,
        priority=19.5,
        good="low",
    ),
    Metric(
        id="run_ratio",
        label="RUN",
        unit=Unit.RATIO,
        scope="cpu",
        meaning="Share of time the NF's thread was on a CPU. A poller should show 100 %.",
        formula="delta(run time) / delta(time)",
        origin="/proc/PID/task/TID/schedstat, first field",
        good="high",
        priority=8,
    ),
    Metric(
        id="wait_ratio",
        label="WAIT",
        unit=Unit.RATIO,
        scope="cpu",
        meaning="Share of time the NF's thread was ready to run and had no CPU: what else runs "
        "there took it.",
        formula="delta(wait time) / delta(time)",
        origin="/proc/PID/task/TID/schedstat, second field",
        good="low",
        priority=5,
        bad_above=WAIT_RATIO_MOST,
    ),
    Metric(
        id="cpu_time_ratio",
        label="CPU%",
        unit=Unit.RATIO,
        scope="cpu",
        meaning="Share of time the kernel saw this CPU not idle; always about 100 % on a poller.",
        formula="1 - (idle + iowait) / all",
        origin="/proc/stat; proc(5)",
        priority=9,
    ),
    Metric(
        id="steal_ratio",
        label="STEAL",
        unit=Unit.RATIO,
        scope="cpu",
        meaning="Share of time the hypervisor gave this virtual CPU to somebody else.",
        formula="steal / all",
        origin="/proc/stat; proc(5)",
        good="low",
        priority=13,
    ),
    Metric(
        id="softirq_ratio",
        label="SOFTIRQ",
        unit=Unit.RATIO,
        scope="cpu",
        meaning="Share of time in interrupts, hard and soft: kernel networking and disturbance.",
        formula="(irq + softirq) / all",
        origin="/proc/stat; proc(5)",
        good="low",
        priority=12,
    ),
    Metric(
        id="kernel_packets_per_s",
        label="KERN",
        unit=Unit.PACKETS_PER_S,
        scope="cpu",
        meaning="Packets per second that the kernel's own network stack took in on this CPU, from "
        "every interface; a packet that crosses a veth pair or a bridge is taken in again.",
        formula="delta(first number, modulo 2^32) / delta(time)",
        origin="/proc/net/softnet_stat; softnet_seq_show in net/core/net-procfs.c",
        priority=12.5,
        optional=True,
    ),
    Metric(
        id="softnet_drops_per_s",
        label="BACKLOG",
        unit=Unit.PER_S,
        scope="cpu",
        meaning="Packets per second that the kernel dropped because this CPU's backlog was full "
        "(net.core.netdev_max_backlog).",
        formula="delta(second number, modulo 2^32) / delta(time)",
        origin="/proc/net/softnet_stat; softnet_seq_show in net/core/net-procfs.c",
        good="low",
        bad_above=0.0,
    ),
    Metric(
        id="softnet_squeezes_per_s",
        label="SQUEEZE",
        unit=Unit.PER_S,
        scope="cpu",
        meaning="How often per second the kernel stopped polling its NICs on this CPU with packets "
        "left, its budget or time used up (net.core.netdev_budget, netdev_budget_usecs).",
        formula="delta(third number, modulo 2^32) / delta(time)",
        origin="/proc/net/softnet_stat; softnet_seq_show in net/core/net-procfs.c",
        good="low",
    ),
    Metric(
        id="context_switches_per_s",
        label="CSW/s",
        unit=Unit.PER_S,
        scope="cpu",
        meaning="Context switches on this CPU. On an isolated polling core it should be near 0.",
        formula="delta(context switches) / delta(time running)",
        origin="perf PERF_COUNT_SW_CONTEXT_SWITCHES",
        good="low",
        priority=11,
        coverage=COVERAGE,
        compute=lambda counted: counted.rate("context_switches"),
    ),
    Metric(
        id="frequency_hz",
        label="GHz",
        unit=Unit.HZ,
        scope="cpu",
        meaning="Average core frequency while not halted.",
        formula="cycles / ref_cycles x tsc per second",
        origin=f"{_PERF}; msr/tsc/",
        priority=10,
        coverage=COVERAGE,
        compute=_frequency_hz,
    ),
    Metric(
        id="tsc_hz",
        label="TSC",
        unit=Unit.HZ,
        scope="cpu",
        meaning="Rate of the time stamp counter: the clock of CPP where core cycles can't be had.",
        formula="delta(tsc) / delta(time running)",
        origin="perf msr/tsc/",
        coverage=COVERAGE,
        compute=lambda counted: counted.rate("tsc"),
    ),
)


_ALONE = "Undefined without hyper-threading."

SIBLING_METRICS: tuple[Metric, ...] = (
    Metric(
        id="sibling_busy_ratio",
        label="SMT.busy",
        unit=Unit.RATIO,
        scope="cpu",
        meaning="BUSY of the other hyper-thread of its core, the busiest where there are more. A "
        f"sibling that polls in vain is not busy, but takes slots all the same: see SMT.ipc. "
        f"{_ALONE}",
        formula="max(busy_ratio of its siblings)",
        origin="busy_ratio; /sys/devices/system/cpu/cpuN/topology/thread_siblings_list",
        priority=15,
        optional=True,
    ),
    Metric(
        id="sibling_ipc",
        label="SMT.ipc",
        unit=Unit.PER_CYCLE,
        scope="cpu",
        meaning="Instructions per unhalted cycle of the other hyper-thread of its core, of all "
        f"where there are more. {_ALONE}",
        formula="sum(instructions of its siblings) / sum(cycles of its siblings)",
        origin="ipc; /sys/devices/system/cpu/cpuN/topology/thread_siblings_list",
        priority=16,
        coverage=COVERAGE,
        optional=True,
    ),
    Metric(
        id="core_ipc",
        label="IPC.core",
        unit=Unit.PER_CYCLE,
        scope="cpu",
        meaning="Instructions of all hyper-threads of its core per cycle in which any of them ran: "
        f"what the core gets done. Its siblings show the same. {_ALONE}",
        formula="sum(instructions of the core's threads) / core clocks: cycles_any where the CPU's "
        "table counts it, else the cycles of the busiest thread, which are fewer where the threads "
        "run in turn",
        origin="Intel SDM volume 3, CPU_CLK_UNHALTED.THREAD and its AnyThread bit",
        good="high",
        priority=17,
        coverage=COVERAGE,
        optional=True,
    ),
)


_CPUFREQ = "sysfs, cpufreq/{}"
_SELDOM = (
    "Read at the start, every ten minutes, and when this CPU's limits change: the kernel "
    "interrupts the CPU for it."
)

FREQUENCY_METRICS: tuple[Metric, ...] = (
    Metric(
        id="base_frequency_hz",
        label="BASE",
        unit=Unit.HZ,
        scope="cpu",
        meaning="The frequency that the hardware guarantees this core when all are busy: with "
        f"SST-BF higher on some and lower on the others. {_SELDOM}",
        formula="base_frequency x 1000",
        origin=_CPUFREQ.format("base_frequency (intel_pstate with HWP)"),
    ),
    Metric(
        id="min_frequency_hz",
        label="MIN",
        unit=Unit.HZ,
        scope="cpu",
        meaning="The lowest frequency that this CPU may be given, as the kernel has it in effect. "
        "Where it is the highest too, the CPU is pinned to it.",
        formula="scaling_min_freq x 1000",
        origin=_CPUFREQ.format("scaling_min_freq"),
    ),
    Metric(
        id="max_frequency_hz",
        label="MAX",
        unit=Unit.HZ,
        scope="cpu",
        meaning="The highest frequency that this CPU may be given, as the kernel has it in effect.",
        formula="scaling_max_freq x 1000",
        origin=_CPUFREQ.format("scaling_max_freq"),
    ),
)

# Words, of `CpuTable.settings`.
SETTING_METRICS: tuple[Metric, ...] = (
    Metric(
        id="sst_priority",
        label="SST",
        unit=Unit.TEXT,
        scope="cpu",
        meaning="H on SST-BF's high-priority cores, whose base frequency is higher than that of "
        "others in their package, L on the others. Which they are is fixed in silicon: a workload "
        "can be moved, a core can't be made another.",
        formula="high where base_frequency_hz is the highest of its package, low elsewhere; none "
        "where all are alike",
        origin=_CPUFREQ.format("base_frequency"),
    ),
    Metric(
        id="governor",
        label="GOVERNOR",
        unit=Unit.TEXT,
        scope="cpu",
        meaning="Who chooses the frequency between the limits. With intel_pstate, powersave is the "
        "driver's own choice by load and no low speed; performance stays at the highest.",
        formula="as it stands",
        origin=_CPUFREQ.format("scaling_governor"),
    ),
    Metric(
        id="epp",
        label="EPP",
        unit=Unit.TEXT,
        scope="cpu",
        meaning="Energy-performance preference: what the hardware is to favour while it chooses "
        "the frequency. What was set last is shown; under the governor performance the kernel "
        "uses performance whatever it is.",
        formula="as it stands",
        origin=_CPUFREQ.format("energy_performance_preference"),
    ),
    Metric(
        id="sst_cp_class",
        label="CP",
        unit=Unit.TEXT,
        scope="cpu",
        meaning="SST-CP class of this core, 0 to 3: whose power counts first where it is short. "
        "Nothing to do with cache classes (COS).",
        formula="as it stands",
        origin="intel-speed-select core-power get-assoc",
    ),
)
