"""Probes: metrics counted for the selected core only."""

from __future__ import annotations

from nftop.model.metrics.metric import Metric, Unit

PAPER = 'FD.io, "Benchmarking Software Data Planes"'
_LATENCY = f"{PAPER}, 15.5; OFFCORE_REQUESTS_OUTSTANDING, OFFCORE_REQUESTS"
_SAME_SOCKET = (
    f"{PAPER}, 15.6; MEM_LOAD_L3_HIT_RETIRED, on Xeon E5 v3 and v4 MEM_LOAD_UOPS_L3_HIT_RETIRED"
)
_OTHER_SOCKET = (
    f"{PAPER}, 15.7; MEM_LOAD_L3_MISS_RETIRED, on Xeon E5 v3 and v4 OFFCORE_RESPONSE to demand "
    "reads of data"
)


def _probe(name: str, label: str, unit: Unit, meaning: str, origin: str) -> Metric:
    return Metric(
        id=name,
        label=label,
        unit=unit,
        scope="core",
        meaning=f"{meaning} Of the whole physical core.",
        formula=f"{name} of the CPU's table",
        origin=origin,
        good="low",
    )


CORE_METRICS: tuple[Metric, ...] = (
    _probe(
        "load_latency_cycles",
        "LAT",
        Unit.CYCLES,
        "Average time, in cycles of the core, that a read of data which missed the second-level "
        "cache was under way, whether the last-level cache had it or memory.",
        f"{_LATENCY}: cycles of reads under way / reads; TMA's Load_L2_Miss_Latency",
    ),
    _probe(
        "load_latency_ns",
        "LAT.ns",
        Unit.NS,
        "Average time that a read of data which missed the second-level cache was under way: "
        "load_latency_cycles by the core's frequency while not halted. It lies between what the "
        "last-level cache takes to answer and what memory does, near or far.",
        f"{_LATENCY}: load_latency_cycles / frequency",
    ),
    _probe(
        "snoop_hit_per_s",
        "XC.hit",
        Unit.PER_S,
        "Loads per second that the last-level cache served after another core of the package was "
        "asked, which had the line too, unmodified.",
        f"{_SAME_SOCKET} .XSNP_HIT, from Ice Lake on .XSNP_NO_FWD",
    ),
    _probe(
        "snoop_hitm_per_s",
        "XC.hitm",
        Unit.PER_S,
        "Loads per second that another core of the package served, which had modified the line: "
        "cores that write what others read, as rings and counters shared between threads. Often "
        "the dearest of all hits.",
        f"{_SAME_SOCKET} .XSNP_HITM, from Ice Lake on .XSNP_FWD",
    ),
    _probe(
        "snoop_miss_per_s",
        "XC.miss",
        Unit.PER_S,
        "Loads per second that the last-level cache served after another core of the package was "
        "asked in vain.",
        f"{_SAME_SOCKET} .XSNP_MISS",
    ),
    _probe(
        "local_dram_per_s",
        "MEM.near",
        Unit.PER_S,
        "Loads per second that the package's own memory served.",
        f"{_OTHER_SOCKET}, LOCAL_DRAM",
    ),
    _probe(
        "remote_dram_per_s",
        "MEM.far",
        Unit.PER_S,
        "Loads per second that another package's memory served: data or descriptors on the wrong "
        "NUMA node.",
        f"{_OTHER_SOCKET}, REMOTE_DRAM",
    ),
    _probe(
        "remote_forward_per_s",
        "FAR.fwd",
        Unit.PER_S,
        "Loads per second that a cache of another package served with an unmodified line.",
        f"{_OTHER_SOCKET}, REMOTE_FWD",
    ),
    _probe(
        "remote_hitm_per_s",
        "FAR.hitm",
        Unit.PER_S,
        "Loads per second that a cache of another package served with a line it had modified: "
        "threads on both packages write the same data.",
        f"{_OTHER_SOCKET}, REMOTE_HITM",
    ),
)
