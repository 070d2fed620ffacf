"""Frames with a core that is looked at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from nftop.model.frame import CoreDetail, Frame, TmaNode
from nftop.model.ids import Cpu
from nftop.model.metrics.metric import Unit
from nftop.model.metrics.probes import CORE_METRICS
from nftop.model.missing import Missing, Reading, Reason

NO_REMOTE = Missing(Reason.HARDWARE, "this CPU has no event for it")
FIRST_TURN = Missing(Reason.WARMING, "its group has not had its turn yet")

# Name, parent, share; what is of cycles and what is beyond its threshold are below.
_TREE: tuple[tuple[str, str | None, Reading], ...] = (
    ("frontend_bound", None, 0.11),
    ("fetch_latency", "frontend_bound", 0.06),
    ("icache_misses", "fetch_latency", 0.01),
    ("branch_resteers", "fetch_latency", FIRST_TURN),
    ("fetch_bandwidth", "frontend_bound", 0.05),
    ("bad_speculation", None, 0.03),
    ("branch_mispredicts", "bad_speculation", 0.02),
    ("machine_clears", "bad_speculation", 0.01),
    ("backend_bound", None, 0.61),
    ("memory_bound", "backend_bound", 0.48),
    ("l1_bound", "memory_bound", 0.02),
    ("l2_bound", "memory_bound", 0.03),
    ("l3_bound", "memory_bound", 0.07),
    ("dram_bound", "memory_bound", 0.33),
    ("store_bound", "memory_bound", 0.0004),
    ("core_bound", "backend_bound", 0.13),
    ("divider", "core_bound", 0.0),
    ("ports_utilization", "core_bound", 0.12),
    ("retiring", None, 0.25),
    ("light_operations", "retiring", 0.23),
    ("heavy_operations", "retiring", 0.02),
    ("microcode_sequencer", "heavy_operations", 0.01),
)
_BEYOND = ("backend_bound", "memory_bound", "dram_bound")
_PROBES: Mapping[Unit, Reading] = {Unit.CYCLES: 238.0, Unit.NS: 85.0, Unit.PER_S: 1.25e6}


def with_focus(base: Frame, cpu: int, deep: Reading = 0.09, level_1: Reading = 0.9) -> Frame:
    """`base` with level 3 and probes of this CPU's core; remote probes can't be had.

    `level_1` is its coverage, `deep` that of all else.
    """
    info = base.topology.cpus[base.topology.row_of[cpu]]
    level: dict[str | None, int] = {None: 0}
    nodes = []
    for name, parent, reading in _TREE:
        level[name] = level[parent] + 1
        of = "cycles" if level[name] == 3 and parent in ("memory_bound", "core_bound") else "slots"
        coverage = level_1 if parent is None else deep
        nodes.append(
            TmaNode(name, parent, level[name], of, reading, name in _BEYOND, coverage)  # type: ignore[arg-type]
        )
    readings: dict[str, Reading] = {
        metric.id: NO_REMOTE if "remote" in metric.id else _PROBES[metric.unit]
        for metric in CORE_METRICS
    }
    focus = CoreDetail(
        (Cpu(cpu), *info.siblings), tuple(nodes), readings, dict.fromkeys(readings, deep)
    )
    return replace(base, focus=focus)
