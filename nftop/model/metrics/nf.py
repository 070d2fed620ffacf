"""Metrics of network functions, over all their cores."""

from __future__ import annotations

from nftop.model.baseline import LOAD_MOVED_RATIO, MOST_TICKS
from nftop.model.metrics.flow_tables import FLOW_TABLE_METRICS
from nftop.model.metrics.metric import COVERAGE, LLC_COVERAGE, Metric, Unit
from nftop.model.metrics.ports import DROP_COMPONENTS, GRAPH_METRICS, OTHER_LOSSES, PORT_METRICS
from nftop.model.metrics.probes import PAPER
from nftop.model.metrics.saturation import SATURATION_NF_METRICS
from nftop.model.metrics.tma import TMA_METRICS
from nftop.model.struct import replace

EQ5 = f"{PAPER}, equation 5"
EQ6 = f"{PAPER}, equation 6"
RX = (
    "DPDK ethdev xstats rx_qN_packets, else rx_good_packets; OVS pmd-stats-show packets received; "
    "VPP /if/rx"
)
BUSY_CPP = (
    "DPDK /eal/lcore/usage busy_cycles, as testpmd --record-core-cycles divides them; OVS "
    "pmd-stats-show processing cycles; VPP /sys/node/clocks"
)
_PACKETS = "rx_packets_per_s (tx_packets_per_s where it only generates)"
_BOUND = "'<' before it: not all its cores are known to be saturated, so it is an upper bound."

# Of CPUs and of network functions alike.
VS_BASE = Metric(
    id="cpp_vs_base",
    label="vs.base",
    unit=Unit.CHANGE,
    scope="cpu",
    meaning="How much more (+) or less (-) a packet costs than in the baseline that b has kept. "
    "Where not both were busy all the time CPP has empty polls in it and follows the load: there "
    f"is no number then if the load is not within {LOAD_MOVED_RATIO:.0%} of the baseline's.",
    formula=f"cpp / its median over the up to {MOST_TICKS} ticks before b was pressed - 1; cycles "
    "of the same clock only",
    origin="nftop's own definition",
    good="low",
    priority=2.5,
    coverage=COVERAGE,
    optional=True,
    shows_reasons=True,
)

NF_NODES: tuple[Metric, ...] = tuple(
    replace(
        metric,
        scope="nf",
        priority=None,
        meaning=f"{metric.meaning} The mean of its physical cores, those that slept left out.",
    )
    for metric in TMA_METRICS
    if metric.coverage
)


def _monitored(
    name: str, label: str, unit: Unit, *, meaning: str, formula: str, priority: float
) -> Metric:
    return Metric(
        id=name,
        label=label,
        unit=unit,
        scope="nf",
        meaning=f"{meaning} Only where a monitoring group has its threads and nothing else: M on "
        "the NFs screen, or `nftop cat create --monitor`.",
        formula=formula,
        origin="resctrl mon_groups/NAME/mon_data",
        good="low" if name.startswith("memory_remote") else None,
        priority=priority,
    )


def _latency(name: str, label: str, meaning: str, counter: str) -> Metric:
    return Metric(
        id=f"latency_{name}_ns",
        label=label,
        unit=Unit.NS,
        scope="nf",
        meaning=f"{meaning} Of the packets that DPDK times, in its code alone: from rx_burst to "
        "tx_burst, without NIC and wire. Only where the application has latencystats on (testpmd "
        "--latencystats=LCORE). It is read after 10 s, 20 s, 40 s and so on, at last every 5 min, "
        "because DPDK loses about 1.4 KB of memory with each reply; sampled_s has its age.",
        formula=counter,
        origin="DPDK rte_latencystats, by global_stat_values of its legacy telemetry socket",
        good="low",
    )


LATENCY_METRICS: tuple[Metric, ...] = (
    _latency(
        "avg",
        "LATENCY",
        "Mean time of a packet in the application: a moving average in which the last counts 0.2.",
        "avg_latency_ns",
    ),
    _latency("min", "LAT.min", "Least latency since the application started.", "min_latency_ns"),
    _latency("max", "LAT.max", "Most latency since the application started.", "max_latency_ns"),
    _latency(
        "jitter",
        "LAT.jit",
        "Variation of the latency from packet to packet, a moving average (RFC 3550, 1/16).",
        "jitter_ns",
    ),
)
NF_METRICS: tuple[Metric, ...] = (
    Metric(
        id="rx_packets_per_s",
        label="Mpps in",
        unit=Unit.PACKETS_PER_S,
        scope="nf",
        meaning="Packets received per second on all ports.",
        formula="delta(rx packets) / delta(the NF's clock)",
        origin=RX,
        good="high",
        priority=1,
    ),
    Metric(
        id="tx_packets_per_s",
        label="Mpps out",
        unit=Unit.PACKETS_PER_S,
        scope="nf",
        meaning="Packets sent per second on all ports.",
        formula="delta(tx packets) / delta(the NF's clock)",
        origin="DPDK ethdev xstats tx_good_packets; OVS pmd-perf-show Tx packets; VPP /if/tx",
        good="high",
        priority=2,
    ),
    Metric(
        id="drop_packets_per_s",
        label="drop/s",
        unit=Unit.PER_S,
        scope="nf",
        meaning="Packets per second that it was given and lost: what it left its NICs no free "
        "descriptor for, and OVS' lost upcalls. Where the NICs' are not known it is the latter "
        "alone, if there are any. Errors and what a graph node drops are counted apart "
        f"({', '.join(OTHER_LOSSES)}).",
        formula=" + ".join(DROP_COMPONENTS),
        origin="DPDK ethdev xstats rx_missed_errors (imissed); VPP /if/rx-miss; OVS "
        "dpif-netdev/pmd-stats-show; /proc/net/softnet_stat",
        good="low",
        priority=3,
        bad_above=0.0,
    ),
    Metric(
        id="cpp",
        label="CPP",
        unit=Unit.CYCLES,
        scope="nf",
        meaning="Cycles of all its polling cores per packet received (sent, where it only "
        "generates), empty polls included. Of a CPU that it shares (RUN below 95 %) the share that "
        f"its own threads ran, an estimate ('~'; cpp_clock ends in _by_run). {_BOUND}",
        formula=f"sum(cycles per second of its cores) / {_PACKETS}",
        origin=EQ5,
        good="low",
        priority=4,
        coverage=COVERAGE,
        per_clock=True,
        bounded=True,
    ),
    replace(VS_BASE, scope="nf", priority=4.5),
    Metric(
        id="busy_cpp",
        label="bCPP",
        unit=Unit.CYCLES,
        scope="nf",
        meaning="Cycles of work of all its polling cores per packet: CPP without the empty polls.",
        formula=f"sum(cycles per second x busy_ratio of its cores) / {_PACKETS}",
        origin=BUSY_CPP,
        good="low",
        priority=5,
        coverage=COVERAGE,
        per_clock=True,
    ),
    Metric(
        id="ipp",
        label="IPP",
        unit=Unit.INSTRUCTIONS,
        scope="nf",
        meaning="Instructions of all its polling cores per packet, empty polls included. None "
        f"where it shares one of them with other threads (RUN below 95 %). {_BOUND}",
        formula=f"sum(instructions per second of its cores) / {_PACKETS}",
        origin=EQ6,
        good="low",
        priority=6,
        coverage=COVERAGE,
        bounded=True,
    ),
    Metric(
        id="ipc",
        label="IPC",
        unit=Unit.PER_CYCLE,
        scope="nf",
        meaning="Instructions of all its polling cores by their unhalted core cycles. Cores that "
        "find no packets have a high IPC too. None where it shares one of them (RUN below 95 %).",
        formula="sum(instructions per second of its cores) / sum(core cycles per second of them)",
        origin=EQ6,
        good="high",
        priority=7,
        coverage=COVERAGE,
    ),
    Metric(
        id="imbalance_ratio",
        label="IMBAL",
        unit=Unit.RATIO,
        scope="nf",
        meaning="How unevenly packets fall on the cores that receive: by how much the busiest "
        "has more than the mean of them. 0 is even; with n cores n-1 is all on one.",
        formula="max(packets_per_s of its cores) / mean(packets_per_s of its cores) - 1, of the "
        "cores that poll a queue",
        origin="percent imbalance, as in parallel computing: (largest load / mean load - 1)",
        good="low",
        priority=8,
    ),
    Metric(
        id="llc_occupancy_bytes",
        label="LLC",
        unit=Unit.BYTES,
        scope="nf",
        meaning="Last-level cache that its cache classes fill, in the caches beside its cores. It "
        "is of the class: '*' behind it where others are in that class too.",
        formula="sum(llc_occupancy of each class in each L3 its cores have)",
        origin="resctrl mon_data llc_occupancy; pqos",
        priority=9,
    ),
    Metric(
        id="llc_misses_per_packet",
        label="MISS/pkt",
        unit=Unit.PER_PACKET,
        scope="nf",
        meaning="Last-level cache misses per packet: the mean of its cores, weighted by packets.",
        formula="sum(llc_misses_per_packet x packets_per_s of its cores) / sum(packets_per_s)",
        origin="LONGEST_LAT_CACHE.MISS",
        good="low",
        priority=10,
        coverage=LLC_COVERAGE,
    ),
    *SATURATION_NF_METRICS,
    *FLOW_TABLE_METRICS,
    *PORT_METRICS,
    *GRAPH_METRICS,
    *LATENCY_METRICS,
    _monitored(
        "occupancy_bytes",
        "L3MiB",
        Unit.BYTES,
        meaning="Last-level cache that its threads fill: of them alone, unlike LLC.",
        formula="sum(llc_occupancy of its monitoring groups in each L3)",
        priority=11,
    ),
    _monitored(
        "memory_local_bytes_per_s",
        "MBL",
        Unit.BYTES_PER_S,
        meaning="Memory traffic of its threads with the packages they run on.",
        formula="sum(delta(mbm_local_bytes) / delta(time)) over its monitoring groups and L3",
        priority=12,
    ),
    _monitored(
        "memory_remote_bytes_per_s",
        "MBR",
        Unit.BYTES_PER_S,
        meaning="Memory traffic of its threads with other packages: data on the wrong NUMA node.",
        formula="sum(delta(mbm_total_bytes) / delta(time)) - memory_local_bytes_per_s",
        priority=13,
    ),
    *NF_NODES,
)
