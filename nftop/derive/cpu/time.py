"""Shares of CPU time by the kernel's accounting."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nftop.derive.absence import after_absence
from nftop.derive.cpu.counters import OFFLINE
from nftop.derive.fold_stage import FoldStage, TopologyChange
from nftop.model.column import Column, column, missing, withhold
from nftop.model.missing import Missing, Reason
from nftop.model.sample import CpuTimes, SourceReading
from nftop.model.struct import dataclass, field
from nftop.model.topology import Topology

# Fields of /proc/stat by metric. cpu_time_ratio is the complement of idle and iowait, so that
# fields of newer kernels count as busy.
_SHARES: Mapping[str, tuple[str, ...]] = {
    "steal_ratio": ("steal",),
    "softirq_ratio": ("irq", "softirq"),
}
_IDLE = ("idle", "iowait")
METRICS = ("cpu_time_ratio", *_SHARES)
# Number of USER_HZ ticks in the interval.
TICKS = "cpu_time_ticks"


@dataclass(frozen=True, slots=True)
class CpuTimeState:
    reading: SourceReading[CpuTimes] | None = None
    columns: Mapping[str, Column] = field(default_factory=dict)


def step_cpu_times(
    state: CpuTimeState, reading: SourceReading[CpuTimes] | None, topology: Topology
) -> tuple[CpuTimeState, Mapping[str, Column]]:
    """Fold one /proc/stat reading in; returns the columns of `METRICS` and `TICKS`."""
    rows = len(topology.cpus)
    if reading is None:
        return CpuTimeState(), _nothing(rows, Missing(Reason.SOURCE, "/proc/stat is not read here"))
    if isinstance(reading.value, Missing):
        kept = after_absence(state, CpuTimeState(), reading.value)
        return kept, _nothing(rows, reading.value)
    if state.reading is not None and state.reading.read_at_ns == reading.read_at_ns:
        return state, state.columns
    before = None if state.reading is None else state.reading.value
    old = before if isinstance(before, CpuTimes) else None
    columns = _columns(old, reading.value, topology)
    return CpuTimeState(reading, columns), columns


def online_rows(reading: SourceReading[CpuTimes] | None, topology: Topology) -> tuple[bool, ...]:
    """Which CPUs run: those /proc/stat lists, else what the topology said at start."""
    if reading is None or isinstance(reading.value, Missing):
        return tuple(info.online for info in topology.cpus)
    listed = {int(cpu) for cpu in reading.value.cpus}
    return tuple(info.cpu in listed for info in topology.cpus)


def _columns(before: CpuTimes | None, after: CpuTimes, topology: Topology) -> Mapping[str, Column]:
    rows = len(topology.cpus)
    cpus = np.array([info.cpu for info in topology.cpus])
    spent = np.full((rows, len(after.fields)), np.nan)
    here = np.isin(cpus, after.cpus)
    if before is not None and before.fields == after.fields:
        both = here & np.isin(cpus, before.cpus)
        new, old = (
            item.ticks[np.searchsorted(item.cpus, cpus[both])].astype(np.int64)
            for item in (after, before)
        )
        # idle and iowait may step back by a few ticks (proc(5)).
        spent[both] = np.maximum(new - old, 0)
    total = spent.sum(axis=1)
    total = np.where(total > 0, total, np.nan)

    def share(fields: tuple[str, ...]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        wanted = [after.fields.index(name) for name in fields if name in after.fields]
        return np.asarray(spent[:, wanted].sum(axis=1) / total, dtype=np.float64)

    def labelled(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Column:
        return withhold(column(values, why=Missing(Reason.WARMING)), ~here, OFFLINE)

    columns = {"cpu_time_ratio": labelled(1.0 - share(_IDLE)), TICKS: labelled(total)}
    return columns | {metric: labelled(share(fields)) for metric, fields in _SHARES.items()}


def _nothing(rows: int, why: Missing) -> Mapping[str, Column]:
    return {metric: missing(rows, why) for metric in (*METRICS, TICKS)}


CPU_TIMES: FoldStage[CpuTimeState, Mapping[str, Column]] = FoldStage(
    "cpu_times",
    CpuTimeState,
    lambda state, tick: step_cpu_times(state, tick.sample.readings.get("kernel"), tick.topology),
    reset_on=TopologyChange.ROWS,
    columns=lambda columns: columns,
)
