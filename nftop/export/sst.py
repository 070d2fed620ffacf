"""Frequencies and priority of cores as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nftop.control.sst.shown import Core
from nftop.export.encode import json_bytes

SST_SCHEMA = "nftop.sst/1"


def cores_json(
    cores: Sequence[Core],
    keepers: Sequence[str],
    *,
    simulated: bool = False,
    unfinished: str = "",
) -> str:
    """One object: `cpus`, and who else sets frequencies here; what is absent is null."""
    return json_bytes(
        {
            "schema": SST_SCHEMA,
            "simulated": simulated,
            "cpus": [_core(each) for each in cores],
            "others": list(keepers),
            "unfinished": unfinished or None,
        }
    ).decode()


def _core(core: Core) -> dict[str, Any]:
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
        "governor": core.governor,
        "epp": core.epp,
        "pinned": core.pinned,
    }


def _hz(khz: int | None) -> int | None:
    return None if khz is None else khz * 1000
