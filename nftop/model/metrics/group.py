"""Metrics of a cache class: a resctrl group in one last-level cache."""

from __future__ import annotations

from nftop.model.metrics.metric import Metric, Unit
from nftop.model.rdt.rdt import ORIGIN


def _metric(name: str, label: str, unit: Unit, meaning: str, formula: str) -> Metric:
    return Metric(
        id=name,
        label=label,
        unit=unit,
        scope="group",
        meaning=meaning,
        formula=formula,
        origin=ORIGIN,
    )


_INCLUDED = "Tasks and CPUs of the group, those of its monitoring groups included."
GROUP_METRICS: tuple[Metric, ...] = (
    _metric(
        "capacity_bytes",
        "CAP",
        Unit.BYTES,
        "Size of the cache ways the class may fill. Ways in other classes' masks are shared with "
        "them, and those of I/O with devices.",
        "ways in the mask x size of the cache / its ways; with CDP the ways of code or data",
    ),
    _metric(
        "occupancy_bytes",
        "USED",
        Unit.BYTES,
        "Bytes of the cache that the class has filled. Lines stay where they are when a mask "
        f"shrinks, so it follows slowly and may exceed the capacity. {_INCLUDED}",
        "mon_data/mon_L3_XX/llc_occupancy",
    ),
    _metric(
        "mbm_total_bytes_per_s",
        "MBM",
        Unit.BYTES_PER_S,
        f"Memory traffic of the class through this cache, to any memory. {_INCLUDED}",
        "delta(mon_data/mon_L3_XX/mbm_total_bytes) / delta(the source's clock)",
    ),
    _metric(
        "mbm_local_bytes_per_s",
        "MBM.loc",
        Unit.BYTES_PER_S,
        f"Memory traffic of the class through this cache, to its own node's memory. {_INCLUDED}",
        "delta(mon_data/mon_L3_XX/mbm_local_bytes) / delta(the source's clock)",
    ),
)
