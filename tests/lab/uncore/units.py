"""Which uncore PMUs a machine has: their boxes, counters, filters, and numbers."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from nftop.sim import uncore
from nftop.sim.model import Model
from nftop.sources.perf.pmu import parse_format
from tests.lab.machine import Machine
from tests.lab.perf.schedule import FIXED

_FOLDER = Path(__file__).parent
MUX_MS = 4  # PERF_CPU_HRTIMER of kernel/events/core.c
_UMASK = 8
# SNBEP's free-running bandwidth counters tick once for four bytes.
_PORT_UNIT: Mapping[str, str] = MappingProxyType({"scale": "3.814697266e-6", "unit": "MiB"})


@dataclass(frozen=True, slots=True)
class Filter:
    """Events with one of these codes in these bits of their config use `mask` of config1."""

    bits: int
    codes: frozenset[int]
    fields: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Unit:
    """One kind of box.

    Attributes:
        name: of its PMU without a number: `uncore_cha`.
        uarch: whose boxes these are in nftop.sim.uncore.
        numbers: of its boxes.
        first_type: the number of the first box's PMU, which the others' follow.
        available: mask of a box's counters, as in `perf.schedule`.
        formats, events: texts of its folders.
        constraints: by an event's code, the counters it takes.
        filters: parts of the box's filter register that events use.
        free_running: it has no counters but those of its `events`.
        discovery: its type in the CPU's own table; None: it is in none.
        buses: root bus of each box on package 0; empty if the kernel shows none.
    """

    name: str
    uarch: str
    numbers: tuple[int, ...]
    first_type: int
    available: int
    formats: Mapping[str, str]
    events: Mapping[str, str]
    constraints: Mapping[int, int]
    filters: tuple[Filter, ...]
    free_running: bool
    discovery: int | None
    buses: tuple[int, ...] = ()

    @property
    def pmus(self) -> tuple[str, ...]:
        """The names of its PMUs, by box: without a number where there is one box only."""
        if len(self.numbers) == 1:
            return (self.name,)
        return tuple(f"{self.name}_{number}" for number in self.numbers)

    @property
    def general(self) -> int:
        """The mask of a box's general counters."""
        return self.available & (1 << FIXED) - 1

    @property
    def mux_ns(self) -> int:
        """How long a turn on the counters is."""
        return MUX_MS * 1_000_000

    @property
    def types(self) -> range:
        """The numbers of its PMUs, by box."""
        return range(self.first_type, self.first_type + len(self.numbers))

    def bits(self, term: str) -> tuple[str, tuple[int, ...]]:
        """Where the value of a term goes: the word and its bits, lowest first."""
        return parse_format(self.formats[term])


def units_of(machine: Machine, model: Model) -> tuple[Unit, ...]:
    """The machine's, numbered from behind its PMU `msr`."""
    return tuple(_units(machine, model))


def _units(machine: Machine, model: Model) -> Iterator[Unit]:
    own = machine.tables["perf"]
    shared = _raw("shared")
    number = own["msr_type"] + 1
    for name, row in _raw(own["uncore"]).items():
        pmu = f"uncore_{name}"
        numbers = range(row["boxes"]) if "boxes" in row else uncore.boxes(model, pmu, machine.uarch)
        unit = Unit(
            name=pmu,
            uarch=machine.uarch,
            numbers=tuple(numbers),
            first_type=number,
            available=(1 << row["counters"]) - 1 | row.get("fixed", False) << FIXED,
            formats=shared["formats"][row["format"]],
            events=_events(shared["events"][row["events"]]) if "events" in row else {},
            constraints=dict(row.get("constraints", ())),
            filters=tuple(_filter(raw, row["fields"]) for raw in row.get("filtered", ())),
            free_running=row.get("free_running", False),
            discovery=row.get("discovery"),
            buses=tuple(row.get("buses", ())),
        )
        yield unit
        number += len(unit.numbers)


def _filter(row: Mapping[str, Any], fields: Mapping[str, str]) -> Filter:
    bit_ranges = [parse_format(f"config1:{fields[name]}")[1] for name in row["fields"]]
    masks = tuple(sum(1 << bit for bit in bits) for bits in bit_ranges)
    return Filter(row["bits"], frozenset(row["codes"]), masks)


def _events(row: Mapping[str, Any]) -> Mapping[str, str]:
    texts = {name: text for name, text in row.items() if name != "ports"}
    for name, (first, count, step) in row.get("ports", {}).items():
        for port in range(count):
            texts[f"{name}{port}"] = f"event=0xff,umask=0x{first + port * step:02x}"
            if name.startswith("bw_"):
                texts |= {f"{name}{port}.{what}": text for what, text in _PORT_UNIT.items()}
    return texts


@functools.cache
def _raw(name: str) -> Mapping[str, Any]:
    return tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
