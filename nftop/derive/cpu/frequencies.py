"""Frequency limits and SST-BF priority of each CPU, from cpufreq."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from nftop.derive.fold_stage import FoldStage, FoldTick
from nftop.model.column import Column, column, from_readings, missing
from nftop.model.ids import Cpu
from nftop.model.metrics.cpu import FREQUENCY_METRICS
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.sample import SourceReading
from nftop.model.sst import NOT_READ, CpufreqTable, CpuFrequency, CpuSetting, Priority, priorities
from nftop.model.struct import dataclass, field
from nftop.model.topology import Topology

_HZ: Mapping[str, Callable[[CpuFrequency], int | None]] = {
    "base_frequency_hz": lambda row: row.base_hz,
    "min_frequency_hz": lambda row: row.min_hz,
    "max_frequency_hz": lambda row: row.max_hz,
}
_NO_POLICY = Missing(Reason.SOURCE, "this CPU has no cpufreq")
_OFFLINE = Missing(Reason.UNDEFINED, "offline")
_ALIKE = Missing(
    Reason.UNDEFINED, "all cores of its package have one base frequency: no SST-BF, or it is off"
)
_HYBRID = Missing(
    Reason.UNDEFINED, "cores of two kinds have base frequencies of their own, without SST-BF"
)
_CP_OFF = Missing(Reason.UNDEFINED, "SST-CP is off")
_CP_NEVER = Missing(Reason.HARDWARE, "this platform has no SST-CP")
_CP_UNREPORTED = Missing(Reason.SOURCE, "intel-speed-select did not tell its class")


@dataclass(frozen=True, slots=True)
class FrequencyState:
    """Result for a table and a topology."""

    table: CpufreqTable | Missing = NOT_READ
    topology: Topology | None = None
    columns: Mapping[str, Column] = field(default_factory=dict)
    settings: tuple[CpuSetting, ...] = ()


def step_frequencies(
    state: FrequencyState, reading: SourceReading[CpufreqTable] | None, topology: Topology
) -> FrequencyState:
    """The columns of `FREQUENCY_METRICS` and a setting for every row of the topology."""
    table = NOT_READ if reading is None else reading.value
    if state.topology is topology and (state.table is table or state.table == table):
        return state
    if isinstance(table, Missing):
        return FrequencyState(table, topology, *_unavailable(table, topology))
    rows = [_row(table, info.cpu, online=info.online) for info in topology.cpus]
    columns = {metric.id: _column(metric.id, rows) for metric in FREQUENCY_METRICS}
    kinds = _priorities(table, topology)
    settings = tuple(
        _setting(table, info.cpu, row, kinds) for info, row in zip(topology.cpus, rows, strict=True)
    )
    return FrequencyState(table, topology, columns, settings)


def _unavailable(
    why: Missing, topology: Topology
) -> tuple[Mapping[str, Column], tuple[CpuSetting, ...]]:
    """Reasons for all rows; base frequencies may be in an older recording's topology."""
    rows = len(topology.cpus)
    columns = {metric.id: missing(rows, why) for metric in FREQUENCY_METRICS}
    base = [(info.cpu, info.package, info.base_frequency_hz) for info in topology.cpus]
    known = np.array([np.nan if hz is None else hz for _, _, hz in base], np.float64)
    columns["base_frequency_hz"] = column(known, why=why)
    kinds = priorities(base)
    settings = []
    for cpu, _, hz in base:
        priority = kinds.get(cpu, why if hz is None else _ALIKE)
        settings.append(CpuSetting(priority, why, why, why, why))
    return columns, tuple(settings)


def _row(table: CpufreqTable, cpu: Cpu, *, online: bool) -> CpuFrequency | Missing:
    policy = table.row_of.get(cpu)
    if policy is not None:
        return policy
    return _NO_POLICY if online else _OFFLINE


def _column(metric: str, rows: list[CpuFrequency | Missing]) -> Column:
    readings: dict[int, Reading] = {}
    for at, row in enumerate(rows):
        if isinstance(row, Missing):
            readings[at] = row
            continue
        hz = _HZ[metric](row)
        readings[at] = _absent(metric, row) if hz is None else float(hz)
    return from_readings(readings, len(rows), _NO_POLICY)


def _absent(metric: str, row: CpuFrequency) -> Missing:
    driver = row.driver or "its driver"
    if metric == "base_frequency_hz":
        without = "" if driver.startswith("intel_") else ": intel_pstate with HWP does"
        with_hwp = (
            "" if without else " here: it does where the CPU has HWP and firmware leaves it on"
        )
        return Missing(Reason.HARDWARE, f"{driver} reports no base frequency{without}{with_hwp}")
    return Missing(Reason.SOURCE, f"{driver} does not report it")


def _priorities(table: CpufreqTable, topology: Topology) -> Mapping[Cpu, Priority]:
    if table.hybrid:
        return {}
    package_of = {info.cpu: info.package for info in topology.cpus}
    return priorities((row.cpu, package_of.get(row.cpu), row.base_hz) for row in table.cpus)


def _setting(
    table: CpufreqTable, cpu: Cpu, row: CpuFrequency | Missing, kinds: Mapping[Cpu, Priority]
) -> CpuSetting:
    if isinstance(row, Missing):
        return CpuSetting(row, row, row, row, row)
    none = _HYBRID if table.hybrid else _ALIKE
    if row.base_hz is None:
        none = _absent("base_frequency_hz", row)
    unreported = Missing(Reason.SOURCE, f"{row.driver or 'its driver'} does not report it")
    no_epp = Missing(Reason.HARDWARE, f"{row.driver or 'its driver'} has no preference here")
    return CpuSetting(
        priority=kinds.get(cpu, none),
        driver=row.driver or unreported,
        governor=row.governor or unreported,
        epp=row.epp or no_epp,
        cp_class=_cp_class(table, cpu),
        together=tuple(item for item in row.together if item != cpu),
    )


def _cp_class(table: CpufreqTable, cpu: Cpu) -> int | Missing:
    if isinstance(table.sst, Missing):
        return table.sst
    known = table.sst.cp_class.get(cpu)
    if known is not None:
        return known
    if any(package.cp for package in table.sst.packages):
        return _CP_UNREPORTED
    return _CP_OFF if any(package.cp_supported for package in table.sst.packages) else _CP_NEVER


def _run(state: FrequencyState, tick: FoldTick) -> tuple[FrequencyState, FrequencyState]:
    state = step_frequencies(state, tick.sample.readings.get("cpufreq"), tick.topology)
    return state, state


FREQUENCIES: FoldStage[FrequencyState, FrequencyState] = FoldStage(
    "frequencies", FrequencyState, _run, columns=lambda state: state.columns
)
