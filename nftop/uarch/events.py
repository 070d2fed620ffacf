"""Events as written in the tables, and as perf_event_attr takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from nftop.model.struct import dataclass

# enum perf_type_id of include/uapi/linux/perf_event.h
PERF_TYPES: Mapping[str, int] = {"hardware": 0, "software": 1, "cache": 3, "raw": 4}
CONFIG_WORDS = ("config", "config1", "config2", "config3")
# Field: the event counts for all threads of a core, on each of them.
OF_CORE = "of_core"
# Lowest bit and width of each field of a raw event's `config`: IA32_PERFEVTSELx, Intel SDM volume
# 3, "Performance Event Select Registers"; the same in sysfs, /sys/.../devices/cpu/format.
RAW_FIELDS: Mapping[str, tuple[int, int]] = {
    "event": (0, 8),
    "umask": (8, 8),
    "edge": (18, 1),
    "inv": (23, 1),
    "cmask": (24, 8),
}


@dataclass(frozen=True, slots=True)
class Encoding:
    """The PMU's type number and the configuration words of an event."""

    pmu_type: int
    config: int = 0
    config1: int = 0
    config2: int = 0
    config3: int = 0


@dataclass(frozen=True, slots=True)
class PmuTerms:
    """An event by terms of a PMU in sysfs, `msr/tsc/`; only the host knows its encoding."""

    pmu: str
    terms: str

    def __str__(self) -> str:
        return f"{self.pmu}/{self.terms}/"


EventSpec: TypeAlias = Encoding | PmuTerms


def parse_event(name: str, spec: Mapping[str, Any]) -> EventSpec:
    """An event from its table row; ValueError if it is invalid."""
    fields = {key: value for key, value in spec.items() if key not in ("vendor", OF_CORE)}
    if not isinstance(spec.get("vendor", ""), str):
        raise ValueError(f"event {name}: `vendor` is not a text")
    if type(spec.get(OF_CORE, True)) is not bool:
        raise ValueError(f"event {name}: `{OF_CORE}` is neither true nor false")
    if "pmu" in fields:
        if set(fields) != {"pmu", "terms"}:
            raise ValueError(f"event {name}: a PMU's event has `pmu` and `terms` only")
        return PmuTerms(fields["pmu"], fields["terms"])
    kind = fields.pop("type", None)
    if kind not in PERF_TYPES or set(fields) - {*CONFIG_WORDS, *RAW_FIELDS}:
        raise ValueError(f"event {name}: needs a `pmu` or a known `type`, and configs")
    if set(fields) & set(RAW_FIELDS):
        if kind != "raw" or "config" in fields:
            raise ValueError(f"event {name}: fields of a config go with `raw` and without `config`")
        fields = _compose(name, fields)
    if not all(type(value) is int and 0 <= value < 2**64 for value in fields.values()):
        raise ValueError(f"event {name}: a config is not an unsigned 64-bit number")
    return Encoding(PERF_TYPES[kind], **fields)


def _compose(name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The row with its fields combined into one `config`."""
    config = 0
    for field, (low, width) in RAW_FIELDS.items():
        value = fields.get(field, 0)
        if type(value) is not int or not 0 <= value < 2**width:
            raise ValueError(f"event {name}: {field} is not a number of {width} bits")
        config |= value << low
    return {"config": config} | {key: fields[key] for key in fields if key not in RAW_FIELDS}


def port_event(event: str, number: int) -> str:
    """Name of an event of one root port of a stack: `inbound_read_0`."""
    return f"{event}_{number}"
