"""What the other hyper-threads of a core do: they share its slots, its caches and its clock."""

from __future__ import annotations

from nftop.model.metrics.coverage import COVERAGE
from nftop.model.metrics.metric import Metric, Unit

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
