"""Host-wide facts of cpufreq as plain dictionaries; those of CPUs are in their rows.

`null` with the source's state in `sources.cpufreq` where it tells nothing.
"""

from __future__ import annotations

from typing import Any

from nftop.model.reading import Missing
from nftop.model.sst import CpufreqTable, CpuSetting, SstPackage, SstState, UncoreLimits


def setting_values(setting: CpuSetting) -> dict[str, Any]:
    """What is set for a CPU, by the names of `SETTING_METRICS`; values or why they are absent."""
    return {
        "sst_priority": setting.priority,
        "governor": setting.governor,
        "epp": setting.epp,
        "sst_cp_class": setting.cp_class,
    }


def frequencies_object(table: CpufreqTable | Missing) -> dict[str, Any] | None:
    """Driver, turbo, limits of the mesh, SST by package, and who else sets frequencies."""
    if isinstance(table, Missing):
        return None
    pstate = table.pstate
    return {
        "pstate_status": None if pstate is None else pstate.status,
        "turbo": None if pstate is None else pstate.turbo,
        "min_perf_percent": None if pstate is None else pstate.min_percent,
        "max_perf_percent": None if pstate is None else pstate.max_percent,
        "uncore": [_uncore(item) for item in table.uncore],
        **_sst(table.sst),
        "others": [
            {"name": keeper.name, "seen": keeper.seen, "pid": keeper.pid}
            for keeper in table.keepers
        ],
    }


def _uncore(limits: UncoreLimits) -> dict[str, Any]:
    return {
        "package": limits.package,
        "die": limits.die,
        "min_hz": limits.min_hz,
        "max_hz": limits.max_hz,
        "initial_min_hz": limits.initial_min_hz,
        "initial_max_hz": limits.initial_max_hz,
    }


def _sst(state: SstState | Missing) -> dict[str, Any]:
    if isinstance(state, Missing):
        return {"sst": None, "sst_missing": state.reason.key}
    return {"sst": [_package(package) for package in state.packages]}


def _package(row: SstPackage) -> dict[str, Any]:
    return {
        "package": row.package,
        "die": row.die,
        "level": row.level,
        "bf": row.bf,
        "tf": row.tf,
        "cp": row.cp,
        "bf_supported": row.bf_supported,
        "tf_supported": row.tf_supported,
        "cp_supported": row.cp_supported,
        "bf_high_cpus": list(row.bf_high),
        "bf_high_hz": row.bf_high_hz,
        "bf_low_hz": row.bf_low_hz,
    }
