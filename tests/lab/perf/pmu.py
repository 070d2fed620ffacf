"""The core PMU of a machine: which counters there are, and which of them an event may take."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.lab.machine import Machine
from tests.lab.perf.schedule import FIXED, METRIC

MSRS = ("tsc", "aperf", "mperf")
METRICS_OF_SLOTS = ("slots", "topdown-")
_FOLDER = Path(__file__).parent / "pmus"
# Bits of a raw code (X86_RAW_EVENT_MASK): event and umask, then edge, inv and cmask. AnyThread is
# taken where it is meaningless, too.
_EVENT = 0xFF
_CODE, _FILTERS, ANY_THREAD = 0xFFFF, 0xFF840000, 1 << 21
_FIXED_OF_GUESTS = 3
_FIRST_METRIC, _LAST_METRIC, _METRIC_STEP = 0x8000, 0x8700, 0x100


@dataclass(frozen=True, slots=True)
class Constraint:
    """Which counters a code takes; `ranges` of events, or None: exactly `code`, unfiltered.

    `bits`: or whatever umask has those of the code.
    """

    code: int
    ranges: tuple[tuple[int, int], ...] | None
    mask: int
    fixed: bool
    bits: bool

    def is_for(self, config: int) -> bool:
        if self.ranges is not None:
            return any(first <= config & 0xFF <= last for first, last in self.ranges)
        if self.bits:
            return config & (_EVENT | self.code) == self.code
        # A filtered event is another one to a fixed counter.
        return self.code == config & (_CODE | (_FILTERS if self.fixed else 0))


@dataclass(frozen=True, slots=True)
class Pmu:
    """A core PMU on a machine.

    Attributes:
        name: of its file in pmus/.
        uarch: whose raw codes it takes, as in nftop.sim.events.
        available: mask of its counters.
        any_thread: format has `any`.
        slots: code of the slots; None: there are no metrics of them.
        metrics: how many there are on this model.
        hidden: events that sysfs does not show, though it would on such a model.
        hardware, cache: codes of the kernel's generic events.
        registers: by code (event and umask), the valid bits of config1, which the kernel writes to
            a register beside the event.
        msr_type: number of the PMU `msr`; msrs: the names of its events.
        paranoid: kernel.perf_event_paranoid at boot.
        watchdog: the NMI watchdog runs at boot.
        mux_ns: how long a turn on the counters is.
    """

    name: str
    uarch: str
    smt: bool
    available: int
    constraints: tuple[Constraint, ...]
    any_thread: bool
    slots: int | None
    metrics: int
    hidden: frozenset[str]
    hardware: Mapping[int, int]
    cache: Mapping[int, int]
    registers: Mapping[int, int]
    msr_type: int
    msrs: tuple[str, ...]
    paranoid: int
    watchdog: bool
    mux_ns: int

    def held(self, *, watchdog: bool) -> tuple[int, ...]:
        """What the NMI watchdog asks for on every CPU while it runs: cycles."""
        return (self.mask_of(self.hardware[0]),) if watchdog and self.hardware else ()

    @property
    def general(self) -> int:
        """Mask of the general counters."""
        return self.available & ((1 << FIXED) - 1)

    def raw(self, config: int) -> int:
        """Of a raw event's config what the PMU looks at."""
        return config & (_CODE | _FILTERS | ANY_THREAD)

    def register_bits(self, config: int) -> int:
        """The bits of config1 that are valid for a raw event; 0: it has no register beside it."""
        return self.registers.get(config & _CODE, 0)

    def metric(self, config: int) -> int | None:
        """The number of the metric of the slots that this is; None if it is none here."""
        return None if self.slots is None else self._number(config)

    def _number(self, config: int) -> int | None:
        """Of the metric that the model has for this code, whether the register is there or not."""
        number = ((config & _CODE) - _FIRST_METRIC) // _METRIC_STEP
        return number if config & 0xFF == 0 and 0 <= number < self.metrics else None

    def topdown(self, config: int) -> bool:
        """It is the slots or in the range of their metrics, known or not: it takes no filter."""
        if self.slots is None or config & 0xFF:
            return False
        code = config & _CODE
        return code == self.slots or _FIRST_METRIC <= code <= _LAST_METRIC

    def mask_of(self, config: int) -> int:
        """The counters that an event may take; 0: there is none for it."""
        number = self._number(config)
        if number is not None:
            return 1 << METRIC + number & self.available
        for constraint in self.constraints:
            if constraint.is_for(config):
                return constraint.mask & self.available
        return self.general


def load(machine: Machine, *, smt: bool = True) -> Pmu:
    """The machine's core PMU with hyper-threading on or off."""
    own = machine.tables["perf"]
    raw = _raw(own["pmu"])
    counters = raw["counters"]
    general = (1 << counters["general"]["smt_on" if smt else "smt_off"]) - 1
    has_metrics = own.get("metrics", True)
    metrics = counters.get("metrics", 0)
    # Those of a guest begin with the three that every model has.
    fixed = counters["fixed"] if has_metrics else min(counters["fixed"], _FIXED_OF_GUESTS)
    return Pmu(
        name=own["pmu"],
        uarch=machine.uarch,
        smt=smt,
        available=general
        | ((1 << fixed) - 1) << FIXED
        | ((1 << metrics) - 1 if has_metrics else 0) << METRIC,
        constraints=tuple(_constraint(row) for row in raw["constraints"]),
        any_thread=counters["any"],
        slots=counters.get("slots") if has_metrics else None,
        metrics=metrics,
        hidden=frozenset() if own.get("metrics_shown", True) else _shown_metrics(raw),
        hardware=_codes(raw["hardware"]),
        cache=_codes(raw["cache"]),
        registers=_registers(raw, late=own.get("late_registers", True)),
        msr_type=own["msr_type"],
        msrs=tuple(own.get("msrs", MSRS)),
        paranoid=own["paranoid"],
        watchdog=own["nmi_watchdog"],
        mux_ns=int(raw["sysfs"].get("perf_event_mux_interval_ms", "4")) * 1_000_000,
    )


def sysfs_of(pmu: Pmu) -> Mapping[str, Any]:
    """The table `sysfs` of the PMU's file, with no names in it where there is no such PMU."""
    table: Mapping[str, Any] = _raw(pmu.name)["sysfs"]
    return table


def _shown_metrics(raw: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(item for item in raw["sysfs"]["events"] if item.startswith(METRICS_OF_SLOTS))


@functools.cache
def _raw(name: str) -> Mapping[str, Any]:
    return tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


def _codes(table: Mapping[str, int]) -> Mapping[int, int]:
    return MappingProxyType({int(number, 0): code for number, code in table.items()})


def _registers(raw: Mapping[str, Any], *, late: bool) -> Mapping[int, int]:
    rows = (row for row in raw.get("registers", ()) if late or not row.get("late", False))
    return MappingProxyType({row["code"]: row["bits"] for row in rows})


def _constraint(row: Mapping[str, Any]) -> Constraint:
    general_too = 0 if row.get("only", False) else (1 << FIXED) - 1
    fixed = "fixed" in row
    mask = general_too | 1 << FIXED + row["fixed"] if fixed else row["general"]
    ranges = tuple((first, last) for first, last in row["events"]) if "events" in row else None
    return Constraint(row.get("code", 0), ranges, mask, fixed, row.get("bits", False))
