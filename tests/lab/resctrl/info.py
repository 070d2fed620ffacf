"""The files of info: what they say, and the few that can be written."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from types import MappingProxyType

from tests.lab.resctrl.hardware import BandwidthAllocation, CacheAllocation, Monitoring
from tests.lab.resctrl.numbers import unsigned
from tests.lab.resctrl.schemata import bit_usage, new_mask, overlaps, parse_mask
from tests.lab.resctrl.state import (
    Resctrl,
    Schema,
    begin,
    closids,
    controls,
    full_mask,
    io_closid,
    refused,
    rmid_count,
    value_width,
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


def show_io_alloc(state: Resctrl) -> str:
    """info/L3/io_alloc."""
    return f"{'disabled' if state.io is None else 'enabled'}\n"


def write_io_alloc(state: Resctrl, text: str) -> None:
    """A write to info/L3/io_alloc, as kstrtobool reads it: it takes a class, or gives it back."""
    enable = _boolean(text)
    begin(state, "io")
    if enable == (state.io is not None):
        return
    closid = io_closid(state)
    if closid >= min(closids(state, schema) for schema in state.schemas):
        raise refused(state, "io_no_class", closid=closid)
    if not enable:
        state.io = None
        return
    holder = next((group for group in controls(state) if group.closid == closid), None)
    if holder is not None:
        raise refused(state, "io_class_taken", errno.ENOSPC, closid=closid, group=holder.name)
    schema = next(item for item in state.schemas if item.cache)
    masks = {domain: new_mask(state, schema, domain) for domain in state.hardware.domains}
    if any(mask.bit_count() < _cat(state).min_bits for mask in masks.values()):
        raise refused(state, "io_failed", errno.ENOSPC)
    state.io = masks


def show_io_cbm(state: Resctrl, schema: Schema) -> str:
    """info/L3/io_alloc_cbm; EINVAL while it is off."""
    begin(state, "io")
    if state.io is None:
        raise refused(state, "io_off", name=schema.name)
    form, width = state.profile.cbm_format, value_width(state)
    values = (
        f"{domain}=" + form.format(value=bits, width=width) for domain, bits in state.io.items()
    )
    return ";".join(values) + "\n"


def write_io_cbm(state: Resctrl, schema: Schema, text: str) -> None:
    """A write to info/L3/io_alloc_cbm: `0=f;1=ff`, or `*=f` for all."""
    rest = whole_line(text)
    begin(state, "io")
    if state.io is None:
        raise refused(state, "io_off", name=schema.name)
    staged: dict[int, int] = {}
    while rest:
        word, _, rest = rest.partition(";")
        left, equals, right = word.partition("=")
        domain = unsigned(left, 10)
        if not equals or (domain is None and left != "*"):
            raise refused(state, "missing_equals")
        those = state.hardware.domains if domain is None else (domain,)
        for item in those:
            if item not in state.io:
                raise refused(state, "invalid_domain", domain=item)
            if item in staged:
                raise refused(state, "duplicate_domain", domain=item)
            bits = parse_mask(state, right.strip())
            if overlaps(state, None, schema, item, bits, exclusive=True):
                raise refused(state, "overlaps_exclusive")
            staged[item] = bits
    state.io |= staged


def _boolean(text: str) -> bool:
    word = text.partition("\0")[0][:2].lower()
    if word[:1] in ("y", "t", "1") or word == "on":
        return True
    if word[:1] in ("n", "f", "0") or word == "of":
        return False
    raise failed(errno.EINVAL)


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
