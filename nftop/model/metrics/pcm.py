"""Metrics that only a pcm-sensor-server gives: temperatures, RDT monitors of CPUs.

Definitions: Intel PCM, src/pcm-sensor-server.cpp and src/cpucounters.h (June 2026).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from nftop.model.metrics.metric import Metric, Unit

_ORIGIN = "pcm-sensor-server: {}"
_LAST_SECOND = "of the server's last second"
_Good = Literal["high", "low"] | None


def _cpu(
    name: str,
    label: str,
    unit: Unit,
    meaning: str,
    *,
    field: str,
    formula: str = _LAST_SECOND,
    good: _Good = None,
    priority: float | None = None,
) -> Metric:
    return Metric(
        id=name,
        label=label,
        unit=unit,
        scope="cpu",
        meaning=meaning,
        formula=formula,
        origin=_ORIGIN.format(field),
        good=good,
        priority=priority,
        optional=True,
    )


def _package(
    name: str,
    label: str,
    unit: Unit,
    meaning: str,
    *,
    field: str,
    formula: str = _LAST_SECOND,
    good: _Good = None,
) -> Metric:
    return Metric(
        id=name,
        label=label,
        unit=unit,
        scope="package",
        meaning=meaning,
        formula=formula,
        origin=_ORIGIN.format(field),
        good=good,
    )


PCM_CPU_METRICS: tuple[Metric, ...] = (
    _cpu(
        "l2_hit_ratio", "L2hit", Unit.RATIO,
        "Share of requests to the second-level cache that found their line there.",
        field="L2 Cache Hits, L2 Cache Misses", formula="hits / (hits + misses)", good="high",
        priority=52,
    ),
    _cpu(
        "l3_hit_ratio", "L3hit", Unit.RATIO,
        "Share of this CPU's requests to the last-level cache that found their line there.",
        field="L3 Cache Hits, L3 Cache Misses", formula="hits / (hits + misses)", good="high",
        priority=51,
    ),
    _cpu(
        "llc_occupancy_bytes", "L3 MiB", Unit.BYTES,
        "What this CPU's RDT monitor has in the last-level cache.",
        field="L3 Cache Occupancy", formula="KiB x 1024, as it is now",
    ),
    _cpu(
        "memory_local_bytes_per_s", "MBL", Unit.BYTES_PER_S,
        "Memory traffic of this CPU's RDT monitor with its own package.",
        field="Local Memory Bandwidth", formula="MiB x 2**20 / interval",
    ),
    _cpu(
        "memory_remote_bytes_per_s", "MBR", Unit.BYTES_PER_S,
        "Memory traffic of this CPU's RDT monitor with other packages.",
        field="Remote Memory Bandwidth", formula="MiB x 2**20 / interval", good="low",
    ),
    _cpu(
        "thermal_headroom_c", "HEADROOM", Unit.DEGREES_C,
        "How much warmer this core may get before it is throttled.",
        field="Thermal Headroom", formula="as it is now", good="high", priority=53,
    ),
    _cpu(
        "smi_per_s", "SMI/s", Unit.PER_S,
        "System management interrupts per second: firmware that took the CPU away from all else.",
        field="SMI Count", formula="SMIs / interval", good="low",
    ),
)  # fmt: skip

PCM_PACKAGE_METRICS: tuple[Metric, ...] = (
    _package(
        "uncore_frequency_hz", "UNC.GHz", Unit.HZ,
        "Average frequency of the mesh with the last-level cache; of die 0 where there are more.",
        field="Uncore Frequency Die 0",
    ),
    _package(
        "thermal_headroom_c", "HEADROOM", Unit.DEGREES_C,
        "How much warmer the package's hottest core may get before it is throttled.",
        field="Thermal Headroom of its cores, the least", good="high",
    ),
    _package(
        "memory.local_ratio", "MEM.loc", Unit.RATIO,
        "Share of requests to this package's memory that came from the package itself.",
        field="Local Memory Request Ratio", good="high",
    ),
    _package(
        "memory.persistent_read_bytes_per_s", "PMM.rd", Unit.BYTES_PER_S,
        "Bytes read from persistent memory per second.", field="Persistent Memory Reads",
    ),
    _package(
        "memory.persistent_write_bytes_per_s", "PMM.wr", Unit.BYTES_PER_S,
        "Bytes written to persistent memory per second.", field="Persistent Memory Writes",
    ),
    _package(
        "upi.outgoing_bytes_per_s", "UPI.all", Unit.BYTES_PER_S,
        "Bytes that went to other packages per second, over all links: data, and what is none "
        "(requests, responses, snoops). More than upi.sent_bytes_per_s, which is data alone.",
        field="Outgoing Data And Non-Data Traffic",
    ),
)  # fmt: skip

_SAMPLED = (
    "as pcm-sensor-server reports it, from samples: its collector counts for 1 s (the events by "
    "turns, scaled up to it), adds that to its totals and rests for 2 s, so that totals grow by a "
    "third of what there is; /persecond has the same totals. They are divided by the seconds that "
    "were counted where the pace of their steps shows that the server rests, else by all (Intel "
    "PCM, src/pcm-pcie-collector.h: PCIeCollector, and src/pcm-pcie.h: LegacyPlatform; March to "
    "June 2026)"
)
# Caveats for values from the server, by the head of the metric's id.
CAVEATS: Mapping[str, str] = MappingProxyType({"pcie.": _SAMPLED, "mmio.": _SAMPLED})


def caveat_of(metric: str) -> str:
    """Restriction of a package's metric if the server gave it; "" for none."""
    return next((caveat for head, caveat in CAVEATS.items() if metric.startswith(head)), "")
