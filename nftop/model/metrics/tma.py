"""Top-down metrics: how the issue slots of a physical core were used.

Ids are the vendor's node names after `tma.`. Siblings share a core's slots and numbers.
"""

from __future__ import annotations

from nftop.model.metrics.metric import ESTIMATE_SENTENCE, SHARE_OF_TIME, TIMES, Metric, Unit

TMA_COVERAGE = "tma.coverage"
TMA_LEVEL_2_COVERAGE = "tma.level_2_coverage"
ORIGIN = (
    'Yasin, "A Top-Down method for performance analysis", ISPASS 2014; '
    "formulas in nftop/uarch, by microarchitecture"
)
_OF_PARENT = "; where groups take turns, its share of its parent in the tick of the turn x parent"


def _node(name: str, label: str, meaning: str, *, priority: int | None = None) -> Metric:
    """A level 1 metric, which has a column, or a level 2 metric, which has none."""
    return Metric(
        id=f"tma.{name}",
        label=label,
        unit=Unit.RATIO,
        scope="cpu",
        meaning=f"{meaning} Of the whole physical core; by the kernel's own formulas, of the CPU.",
        formula=f"{name} of the CPU's table, each event by the cycles of its own counter group"
        + (_OF_PARENT if priority is None else ""),
        origin=ORIGIN,
        priority=priority,
        coverage=TMA_LEVEL_2_COVERAGE if priority is None else TMA_COVERAGE,
        optional=True,
    )


def _coverage(name: str, label: str, level: int) -> Metric:
    return Metric(
        id=name,
        label=label,
        unit=Unit.RATIO,
        scope="cpu",
        meaning=f"Share of the interval in which the least counted of the events was counted that "
        f"top-down level {level} is computed from, on any thread of the core; of groups that take "
        f"turns, from one turn to the next. {ESTIMATE_SENTENCE}",
        formula=f"min over its events({SHARE_OF_TIME})",
        origin=TIMES,
        good="high",
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
    _node("retiring", "RET", "Share of slots that did useful work.", priority=44),
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
    _coverage(TMA_COVERAGE, "TMA.cov", 1),
    _coverage(TMA_LEVEL_2_COVERAGE, "TMA2.cov", 2),
)
