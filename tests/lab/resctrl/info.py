"""The files of info: what they say, and the few that can be written."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from types import MappingProxyType

from tests.lab.resctrl.hardware import BandwidthAllocation, CacheAllocation, Monitoring
from tests.lab.resctrl.numbers import unsigned
from tests.lab.resctrl.schemata import bit_usage
from tests.lab.resctrl.state import (
    Resctrl,
    Schema,
    begin,
    closids,
    full_mask,
    refused,
    rmid_count,
    whole_line,
)
from tests.lab.tree import failed


def show_schema(state: Resctrl, schema: Schema, name: str) -> str:
    """A file of info/L3, L3CODE, L3DATA or MB."""
    return f"{_SCHEMA_FILES[name](state, schema)}\n"


def show_monitoring(state: Resctrl, name: str) -> str:
    """A file of info/L3_MON."""
    return f"{_MONITORING_FILES[name](state)}\n"


def write_threshold(state: Resctrl, text: str) -> None:
    """A write to max_threshold_occupancy: bytes, at most a whole cache, down to a whole step."""
    value = unsigned(text.partition("\0")[0], 0, 32)
    if value is None or value > max(state.hardware.size_bytes.values()):
        raise failed(errno.EINVAL)
    scale = _monitoring(state).scale_bytes
    state.threshold_bytes = value // scale * scale


def write_assign_mode(state: Resctrl, text: str) -> None:
    """A write to mbm_assign_mode: Intel's CPUs have a counter for every RMID, and only that."""
    mode = whole_line(text)
    begin(state, "assign")
    if mode == "mbm_event":
        raise refused(state, "no_mbm_event_mode")
    if mode != "default":
        raise refused(state, "unknown_assign_mode")


def _cat(state: Resctrl) -> CacheAllocation:
    assert state.hardware.allocation is not None
    return state.hardware.allocation


def _mba(state: Resctrl) -> BandwidthAllocation:
    assert state.hardware.bandwidth is not None
    return state.hardware.bandwidth


def _monitoring(state: Resctrl) -> Monitoring:
    assert state.hardware.monitoring is not None
    return state.hardware.monitoring


_SCHEMA_FILES: Mapping[str, Callable[[Resctrl, Schema], object]] = MappingProxyType(
    {
        "bit_usage": bit_usage,
        "cbm_mask": lambda state, _: f"{full_mask(state):x}",
        "min_cbm_bits": lambda state, _: _cat(state).min_bits,
        "num_closids": closids,
        "shareable_bits": lambda state, _: f"{_cat(state).shareable_bits:x}",
        "sparse_masks": lambda *_: 0,
        "bandwidth_gran": lambda state, _: _mba(state).granularity,
        "delay_linear": lambda *_: 1,
        "min_bandwidth": lambda state, _: _mba(state).minimum,
        "thread_throttle_mode": lambda state, _: _mba(state).throttle,
    }
)
_MONITORING_FILES: Mapping[str, Callable[[Resctrl], object]] = MappingProxyType(
    {
        "max_threshold_occupancy": lambda state: state.threshold_bytes,
        "mbm_assign_mode": lambda _: "[default]",
        "mon_features": lambda state: "\n".join(_monitoring(state).events),
        "num_rmids": lambda state: rmid_count(state.hardware),
    }
)
