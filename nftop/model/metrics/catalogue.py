"""Every metric nftop knows: the one place that says what a number means and how far to trust it.

Screens, exports and `nftop explain` read these rows; nothing else keeps a table by metric. A new
metric is one row here and the function in `derive` that computes it. How a unit is printed is
`render.format`'s.
"""

from __future__ import annotations

from nftop.model.metrics.core import CORE_METRICS, NODE_METRICS
from nftop.model.metrics.coverage import COVERAGE, COVERAGE_METRICS, LLC_COVERAGE
from nftop.model.metrics.frequency import FREQUENCY_METRICS, SETTING_METRICS
from nftop.model.metrics.group import GROUP_METRICS
from nftop.model.metrics.metric import Metric, Unit
from nftop.model.metrics.nf import BUSY_CPP, EQ5, EQ6, NF_METRICS, RX, VS_BASE
from nftop.model.metrics.package import PACKAGE_METRICS
from nftop.model.metrics.pcm import PCM_CPU_METRICS, PCM_PACKAGE_METRICS
from nftop.model.metrics.sibling import SIBLING_METRICS
from nftop.model.metrics.tma import TMA_METRICS

_PERF = "perf_event_open(2), generic hardware events"
_BOUND = "'<' before it: the core is not known to be saturated, so it is an upper bound."

_CORE_METRICS: tuple[Metric, ...] = (
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
        bad_above=0.05,
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
    ),
)

CPU_METRICS: tuple[Metric, ...] = (
    *_CORE_METRICS,
    VS_BASE,
    *SIBLING_METRICS,
    *COVERAGE_METRICS,
    *TMA_METRICS,
    *PCM_CPU_METRICS,
    *FREQUENCY_METRICS,
)

METRICS: tuple[Metric, ...] = (
    CPU_METRICS + NF_METRICS + PACKAGE_METRICS + PCM_PACKAGE_METRICS + GROUP_METRICS + CORE_METRICS
)
# With what is no number: a node of the tree of the core looked at, and words.
EXPLAINED: tuple[Metric, ...] = METRICS + NODE_METRICS + SETTING_METRICS


def cpu_metric(metric_id: str) -> Metric:
    """The catalogue's row of a per-CPU metric.

    Raises:
        KeyError: there is no such metric.
    """
    return _BY_ID["cpu", metric_id]


_BY_ID = {(metric.scope, metric.id): metric for metric in METRICS}
