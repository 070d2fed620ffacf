"""The top-down method's metrics: where the issue slots of a physical core went.

Ids are the vendor's node names behind `tma.`. Siblings share a core's slots, so both show the same.
"""

from __future__ import annotations

from nftop.model.catalogue_coverage import SHARE_OF_TIME, TIMES
from nftop.model.metric import Metric, Unit

TMA_COVERAGE = "tma.coverage"
ORIGIN = (
    'Yasin, "A Top-Down method for performance analysis", ISPASS 2014; '
    "formulas in nftop/uarch, by microarchitecture"
)


def _node(name: str, label: str, meaning: str, priority: int | None = None) -> Metric:
    return Metric(
        id=f"tma.{name}",
        label=label,
        unit=Unit.RATIO,
        scope="cpu",
        meaning=f"{meaning} Of the whole physical core; by the kernel's own formulas, of the CPU.",
        formula=f"{name} of the CPU's table, each event by the cycles of its own counter group",
        origin=ORIGIN,
        priority=priority,
        coverage=TMA_COVERAGE,
        optional=True,
    )


TMA_METRICS: tuple[Metric, ...] = (
    _node(
        "frontend_bound",
        "FE",
        "Share of issue slots that stayed empty because no instruction was delivered: instruction "
        "cache, decoding.",
        priority=41,
    ),
    _node(
        "bad_speculation",
        "BS",
        "Share of slots spent on instructions that were thrown away, or lost while recovering.",
        priority=42,
    ),
    _node(
        "backend_bound",
        "BE",
        "Share of slots that stayed empty because the core could take no more: waiting for data, "
        "or for its own units.",
        priority=43,
    ),
    _node(
        "retiring",
        "RET",
        "Share of slots that did useful work.",
        priority=44,
    ),
    _node("fetch_latency", "FE.lat", "Empty slots because the next instructions were late."),
    _node("fetch_bandwidth", "FE.bw", "Empty slots because too few instructions came at a time."),
    _node("branch_mispredicts", "BS.misp", "Slots lost to mispredicted branches."),
    _node("machine_clears", "BS.clr", "Slots lost to machine clears, as by memory ordering."),
    _node("memory_bound", "BE.mem", "Empty slots while waiting for memory or a cache."),
    _node("core_bound", "BE.core", "Empty slots while waiting for the core's own units."),
    _node(
        "heavy_operations",
        "RET.hvy",
        "Useful slots of instructions that take several micro-operations.",
    ),
    _node("light_operations", "RET.lgt", "Useful slots of all other instructions."),
    Metric(
        id=TMA_COVERAGE,
        label="TMA.cov",
        unit=Unit.RATIO,
        scope="cpu",
        meaning="Share of the interval in which the least counted of the top-down events was "
        "counted, on any thread of the core. Below 100 % top-down is an estimate, shown with '~'.",
        formula=f"min over its events({SHARE_OF_TIME})",
        origin=TIMES,
        good="high",
        optional=True,
    ),
)
