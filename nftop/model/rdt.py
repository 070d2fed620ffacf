"""Source `resctrl`: control groups, the ways they may use and what the kernel meters for them.

A payload as those in `model.sample`: raw and cumulative. Facts: the Linux kernel's documentation,
`Documentation/filesystems/resctrl.rst`, called `ORIGIN` below.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

from nftop.model.allocation import Cbm
from nftop.model.ids import Cpu, L3Domain
from nftop.model.reading import Missing, Reason

ORIGIN = "Linux kernel, Documentation/filesystems/resctrl.rst"

# The root group as /proc/PID/cpu_resctrl_groups writes it: no directory can have this name.
ROOT = "/"

MbaUnit: TypeAlias = Literal["percent", "MBps", "GBps/8"]
IoOrigin: TypeAlias = Literal["cpuid", "register", "io_alloc"]
Event: TypeAlias = Literal["llc_occupancy", "mbm_total_bytes", "mbm_local_bytes"]
EVENTS: tuple[Event, ...] = ("llc_occupancy", "mbm_total_bytes", "mbm_local_bytes")

# What a file of mon_data may say instead of a number: bit 62 and bit 63 of IA32_QM_CTR (Intel SDM
# volume 3, "Reading Monitoring Data"), and a group that was given none of too few counters.
WORDS: Mapping[str, Missing] = MappingProxyType(
    {
        "Unavailable": Missing(Reason.HARDWARE, "the hardware has no value for this group now"),
        "Error": Missing(Reason.ERROR, "the hardware refused to read this group's monitor"),
        "Unassigned": Missing(
            Reason.TAKEN, "other groups have the hardware's counters: none is assigned to this one"
        ),
    }
)

IO_ORIGINS: Mapping[IoOrigin, str] = MappingProxyType(
    {
        "cpuid": "CPUID's hint, not register",
        "register": "as its register says",
        "io_alloc": "as io_alloc has it set",
    }
)


@dataclass(frozen=True, slots=True)
class IoWays:
    """The ways that devices write into (DDIO) beside whichever class has them."""

    cbm: Cbm
    origin: IoOrigin

    @property
    def provenance(self) -> str:
        """How far to trust it, in few words; `shareable_bits` is only what CPUID says."""
        return IO_ORIGINS[self.origin]


@dataclass(frozen=True, slots=True)
class CacheDomain:
    """One last-level cache that can be allocated or monitored.

    Attributes:
        ways: bits of `info/L3/cbm_mask`; None where only monitoring is there.
        size_bytes: all of it; None where the kernel does not tell.
        io: the ways of I/O, or why they are unknown.
    """

    l3: L3Domain
    ways: int | None
    size_bytes: int | None
    io: IoWays | Missing

    def capacity_bytes(self, cbm: Cbm) -> float | Missing:
        """The size of the ways of a mask."""
        if self.size_bytes is None:
            return Missing(Reason.SOURCE, "the kernel does not tell the size of this cache")
        return cbm.bytes(self.size_bytes)


@dataclass(frozen=True, slots=True)
class GroupCache:
    """One control group in one cache.

    Attributes:
        cbm: its mask, or why it has none; with CDP that of data.
        code: with CDP the mask of code; None without.
        mba: its limit on memory bandwidth in the table's unit, or why it has none.
        values: by every name of `EVENTS`: bytes, or why there is none. `llc_occupancy` is a state,
            the others are cumulative. What the group's monitoring groups count is included.
    """

    l3: L3Domain
    cbm: Cbm | Missing
    code: Cbm | None
    mba: int | Missing
    values: Mapping[Event, int | Missing]

    @property
    def ways(self) -> Cbm | Missing:
        """All ways it may fill, be it with data or code."""
        if isinstance(self.cbm, Missing) or self.code is None:
            return self.cbm
        return self.cbm.union(self.code)


@dataclass(frozen=True, slots=True)
class ResctrlGroup:
    """One control group; monitoring groups below it are part of it.

    Attributes:
        name: its directory's name (untrusted text), `ROOT` for the root group.
        inode: its directory's: a group that was made anew has another.
        clos: the hardware's class; None where the kernel does not show it.
        cpus: its `cpus` file; a CPU is in exactly one group. A task in a group other than the root
            has that group's class wherever it runs.
        mode: `shareable`, `exclusive`, `pseudo-locked`, ...
        caches: ascending by L3, each one of the table's domains.
    """

    name: str
    inode: int
    clos: int | None
    cpus: tuple[Cpu, ...]
    mode: str
    caches: tuple[GroupCache, ...]


@dataclass(frozen=True, slots=True)
class ResctrlTable:
    """Source `resctrl`: every control group, and the caches they share, ascending by L3."""

    groups: tuple[ResctrlGroup, ...]
    domains: tuple[CacheDomain, ...]
    mba_unit: MbaUnit = "percent"

    @property
    def gaps(self) -> str:
        """What no group has, and why, in words; "" when nothing is absent everywhere."""
        caches = [cache for group in self.groups for cache in group.caches]
        columns: dict[str, list[object]] = {"mask": [cache.cbm for cache in caches]}
        columns |= {event: [cache.values[event] for cache in caches] for event in EVENTS}
        why: dict[str, list[str]] = {}
        for name, values in columns.items():
            absent = [each for each in values if isinstance(each, Missing)]
            if absent and len(absent) == len(values):
                why.setdefault(absent[0].sentence, []).append(name)
        return "; ".join(f"no {', '.join(names)}: {text}" for text, names in why.items())
