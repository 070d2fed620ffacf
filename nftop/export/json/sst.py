"""Frequencies and priority of cores as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nftop.control.cpufreq.policies import CoreSettings
from nftop.export.json.encode import json_bytes, picked
from nftop.model.missing import Missing
from nftop.model.sst import SstPackage, SstState

SST_SCHEMA = "nftop.sst/1"


def cores_json(
    cores: Sequence[CoreSettings],
    keepers: Sequence[str],
    state: SstState | Missing,
    *,
    simulated: bool = False,
    unfinished: str = "",
) -> str:
    """One object: `cpus`, `packages`, `others` (programs that set frequencies here).

    What is absent is null; `missing` says why `packages` of intel-speed-select are.
    """
    classes = {} if isinstance(state, Missing) else state.cp_class
    return json_bytes(
        {
            "schema": SST_SCHEMA,
            "simulated": simulated,
            "cpus": [_core(core, classes.get(core.cpu)) for core in cores],
            "packages": None if isinstance(state, Missing) else list(map(_package, state.packages)),
            "missing": {"packages": state.message} if isinstance(state, Missing) else {},
            "others": list(keepers),
            "unfinished": unfinished or None,
        }
    ).decode()


def _core(core: CoreSettings, cp_class: int | None) -> dict[str, Any]:
    return {
        "cpu": core.cpu,
        "siblings": list(core.siblings),
        "together": list(core.together),
        "driver": core.driver or None,
        "sst_priority": core.priority,
        "base_frequency_hz": _hz(core.base_khz),
        "min_hz": _hz(core.min_khz),
        "max_hz": _hz(core.max_khz),
        "hardware_min_hz": _hz(core.least_khz),
        "hardware_max_hz": _hz(core.most_khz),
        **picked(core, "governor epp pinned"),
        "sst_cp_class": cp_class,
    }


def _package(row: SstPackage) -> dict[str, Any]:
    return {
        **picked(row, "package die level"),
        "sst_bf": row.bf,
        "sst_bf_supported": row.bf_supported,
        "sst_cp": row.cp,
        "sst_cp_supported": row.cp_supported,
    }


def _hz(khz: int | None) -> int | None:
    return None if khz is None else khz * 1000
