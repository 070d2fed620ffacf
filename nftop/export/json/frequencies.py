"""Host-wide facts of cpufreq as plain dictionaries; those of CPUs are in their rows.

Without any the object is null, and `sources.cpufreq` has the reason.
"""

from __future__ import annotations

from typing import Any

from nftop.export.json.encode import picked
from nftop.model.missing import Missing
from nftop.model.sst import CpufreqTable, CpuSetting, SstPackage

_UNCORE = "package die min_hz max_hz initial_min_hz initial_max_hz"


def setting_values(setting: CpuSetting) -> dict[str, Any]:
    """Settings of a CPU by the names of `SETTING_METRICS`; values, or why they are absent."""
    return {
        "sst_priority": setting.priority,
        **picked(setting, "governor epp"),
        "sst_cp_class": setting.cp_class,
    }


def frequencies_object(table: CpufreqTable | Missing) -> dict[str, Any] | None:
    """Driver, turbo, limits of the mesh, SST by package, other programs that set frequencies."""
    if isinstance(table, Missing):
        return None
    pstate, sst = table.pstate, table.sst
    return {
        "pstate_status": None if pstate is None else pstate.status,
        "turbo": None if pstate is None else pstate.turbo,
        "min_perf_percent": None if pstate is None else pstate.min_percent,
        "max_perf_percent": None if pstate is None else pstate.max_percent,
        "uncore": [picked(limits, _UNCORE) for limits in table.uncore],
        "sst": None if isinstance(sst, Missing) else [_package(row) for row in sst.packages],
        **({"sst_missing": sst.reason.key} if isinstance(sst, Missing) else {}),
        "others": [picked(keeper, "name seen pid") for keeper in table.keepers],
    }


def _package(row: SstPackage) -> dict[str, Any]:
    return {
        **picked(row, "package die level bf tf cp bf_supported tf_supported cp_supported"),
        "bf_high_cpus": list(row.bf_high),
        **picked(row, "bf_high_hz bf_low_hz"),
    }
