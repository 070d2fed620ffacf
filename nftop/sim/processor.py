"""The simulated host's processor and its frequencies."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from typing import Any

from nftop.model.data_files import data_file
from nftop.model.rdt.rdt import Limits
from nftop.model.struct import dataclass

# Percent, of Skylake-SP and Cascade Lake.
_MBA_STEP = 10
USUAL = "e5-2699v4"


@dataclass(frozen=True, slots=True)
class Processor:
    """One row of `processors.toml`; frequencies in Hz.

    Attributes:
        name, title: `gold-6230n`, `Xeon Gold 6230N`.
        uarch: nftop's name of its microarchitecture.
        tsc_hz: of the time stamp counter.
        min_hz, max_hz: range of a core.
        base_hz: guaranteed frequency without SST-BF.
        all_core_hz: turbo while all cores are busy.
        start_hz: initial limits of CPUs.
        cores: of a package. tdp_w: power of a package with every core busy at `base_hz`.
        ways, way_bytes: of the last-level cache of a package with all its cores.
        limits: of cache allocation, and of memory bandwidth where it has MBA.
        memory_clock: ticks of the memory's clock in so many ns, as a fraction.
        links, line_flits: links between packages, and flits of a line of data on one.
        has_epp: has an energy-performance preference (HWP).
        high: with SST-BF, indices of the high-priority cores of a package; else empty.
        high_base_hz, low_base_hz: base frequencies of these and the other cores.
        workloads: its own workloads by the name of the E5-2699 v4's.
    """

    name: str
    title: str
    uarch: str
    tsc_hz: float
    min_hz: int
    max_hz: int
    base_hz: int
    all_core_hz: int
    start_hz: tuple[int, int]
    high: frozenset[int]
    high_base_hz: int
    low_base_hz: int
    cores: int
    tdp_w: float
    ways: int
    way_bytes: int
    limits: Limits
    memory_clock: tuple[int, int]
    links: int
    line_flits: int
    has_epp: bool
    workloads: Mapping[str, str]

    @property
    def cpus(self) -> int:
        """Of a host of two packages with hyper-threading."""
        return 4 * self.cores

    def cache_bytes(self, cores: int) -> int:
        """Size of the last-level cache of a package with so many cores."""
        return self.way_bytes * cores // self.cores * self.ways

    def guaranteed_hz(self, index: int) -> int:
        """Base frequency of the core with this index in its package."""
        if not self.high:
            return self.base_hz
        return self.high_base_hz if index % self.cores in self.high else self.low_base_hz


@functools.cache
def _tables() -> Mapping[str, Mapping[str, Any]]:
    return tomllib.loads(data_file(__package__, "processors.toml").decode())


def names() -> tuple[str, ...]:
    return tuple(_tables())


@functools.cache
def load(name: str = USUAL) -> Processor:
    """The processor called `name`, or KeyError."""
    raw = _tables()[name]
    least, most = raw["start"]
    ticks, ns = raw["memory_clock"]
    mba_step = _MBA_STEP if raw["mba"] else None
    return Processor(
        name=name,
        title=raw["title"],
        uarch=raw["uarch"],
        tsc_hz=raw["tsc"],
        min_hz=round(raw["min"]),
        max_hz=round(raw["max"]),
        base_hz=round(raw["base"]),
        all_core_hz=round(raw["all_core"]),
        start_hz=(round(least), round(most)),
        high=frozenset(raw.get("high", ())),
        high_base_hz=round(raw.get("high_base", raw["base"])),
        low_base_hz=round(raw.get("low_base", raw["base"])),
        cores=raw["cores"],
        tdp_w=raw["tdp_w"],
        ways=raw["ways"],
        way_bytes=raw["way_bytes"],
        limits=Limits(
            raw["closids"],
            raw["rmids"],
            1,
            mba_least=mba_step,
            mba_step=mba_step,
            io_alloc=False if raw.get("io_alloc", False) else None,
        ),
        memory_clock=(ticks, ns),
        links=raw["links"],
        line_flits=raw["line_flits"],
        has_epp=raw["epp"],
        workloads=raw.get("workloads", {}),
    )
