"""Source `resctrl`: control groups, the ways they may use, and their monitors.

Values are raw, counters cumulative. Facts: the Linux kernel's
`Documentation/filesystems/resctrl.rst` (`ORIGIN`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias

from nftop.model.ids import Cpu, L3Domain
from nftop.model.missing import Missing, Reason
from nftop.model.rdt.masks import Cbm
from nftop.model.struct import dataclass, field

NFTOP = "nftop"
# What nftop's own groups begin with.
OWN_PREFIX = "nftop."

# Owner, and what its groups are called. Sources: libpqos (names seen of pqos 4.3: classes COS1 to
# COSn, monitors pqos-PID-n); libvirt, src/util/virresctrl.c (MACHINE-vcpus_LIST, the machine being
# qemu-ID-NAME); goresctrl and CRI Resource Manager, pkg/rdt (the prefixes they are set up with);
# runc (a container's id where the configuration names no class); Intel PCM, src/resctrl.h (a
# monitor for each CPU, pcmN).
_NAMES: tuple[tuple[str, re.Pattern[str]], ...] = (
    (NFTOP, re.compile(re.escape(OWN_PREFIX) + r".+")),
    ("pqos", re.compile(r"COS[1-9][0-9]*|pqos-[0-9]+-[0-9]+")),
    ("libvirt", re.compile(r"(qemu|lxc|ch)-[0-9]+-.+-vcpus_[0-9,^-]+")),
    ("PCM", re.compile(r"pcm[0-9]+")),
    ("Kubernetes", re.compile(r"(goresctrl|cri-resmgr)\..+|[0-9a-f]{64}")),
)


def owner_of(name: str) -> str | None:
    """Program that a group of this name probably belongs to, or None."""
    return next((owner for owner, names in _NAMES if names.fullmatch(name)), None)


ORIGIN = "Linux kernel, Documentation/filesystems/resctrl.rst"

# The root group as /proc/PID/cpu_resctrl_groups writes it: no directory can have this name.
ROOT = "/"
# The name of its class on screen, on command lines and in messages.
DEFAULT = "default"


def class_name(group: str, monitor: str = "") -> str:
    """Name of a class as shown: `default` for the root group, else its directory (untrusted text).

    A directory that is itself called `default` is `/default`. `monitor`: a monitoring group of it.
    """
    name = DEFAULT if group == ROOT else f"/{group}" if group == DEFAULT else group
    return f"{name}:{monitor}" if monitor else name


def class_directory(name: str) -> str:
    """The group of a name as `class_name` shows it or a command line gives it."""
    if name in (ROOT, DEFAULT):
        return ROOT
    return name.removeprefix("/") if name == f"/{DEFAULT}" else name


# From this many MBps on a limit is none. The kernel starts with 32 bits set, of which Linux 6.1
# makes 4 MBps when they are written, since it rounds up to tens in 32 bits.
UNLIMITED_MBPS = 0xFFFF_FFFA

# Modes of a group (`ORIGIN`).
SHAREABLE, EXCLUSIVE, PSEUDO_LOCKED = "shareable", "exclusive", "pseudo-locked"
LOCKED = (PSEUDO_LOCKED, "pseudo-locksetup")

MB = "MB"  # the line of schemata with limits on memory bandwidth
# Lines of schemata whose values are masks in hexadecimal; all others are decimal (`ORIGIN`).
MASK_LINES = frozenset({"L3", "L3CODE", "L3DATA", "L2", "L2CODE", "L2DATA"})


def group_path(group: str, monitor: str = "") -> str:
    """Value of a `cpu` or `task` cell.

    `vpp`, `vpp/m` for its monitoring group m, `/` and `/m` for the root group. Names have no slash.
    """
    if not monitor:
        return group
    return f"/{monitor}" if group == ROOT else f"{group}/{monitor}"


def split_path(where: str) -> tuple[str, str]:
    """Control group and monitoring group ("" for none) of a group path."""
    if where == ROOT:
        return ROOT, ""
    group, _, monitor = where.partition("/")
    return group or ROOT, monitor


def cache_of_line(line: str) -> str:
    """`L3` or `L2`, the cache of a line of masks: with CDP it has a line for code, one for data."""
    return line[:2]


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

# The letters of `bit_usage`, a way each, by the same documentation.
USAGE: Mapping[str, str] = MappingProxyType(
    {
        "0": "no class has it",
        "S": "software's, and may be shared",
        "H": "hardware's (I/O), and no class has it",
        "X": "software's and hardware's",
        "E": "one class's alone: its group is exclusive",
        "P": PSEUDO_LOCKED,
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
    """The ways that devices write into (DDIO), whichever class has them."""

    cbm: Cbm
    origin: IoOrigin

    @property
    def provenance(self) -> str:
        """How reliable it is, in few words; `shareable_bits` is only what CPUID says."""
        return IO_ORIGINS[self.origin]


# Why the ways of I/O can't be set. `io_alloc` is of Linux 6.19 (commit 9445c7059c1c), which offers
# it on AMD's processors with L3 SDCIAE only. The register of Intel's processors (IIO LLC WAYS) is
# in no manual of Intel's.
NO_IO_ALLOC = Missing(
    Reason.HARDWARE,
    "the kernel offers no io_alloc here (Linux 6.19 does on AMD's processors with SDCIAE); Intel's "
    "register IIO LLC WAYS is shown where it can be read, and never written",
)


@dataclass(frozen=True, slots=True)
class CacheDomain:
    """One last-level cache that can be allocated or monitored.

    Attributes:
        ways: bits of `info/L3/cbm_mask`; None if it can only be monitored.
        size_bytes: None if unknown.
        io: ways of I/O, or why they are unknown.
        usage: a letter of `USAGE` for every way, highest first; "" if unknown.
        parts: its nodes with sub-NUMA clusters, whose counters are summed.
        read_on: CPU on which the kernel reads its counters; None if it reads none, or unknown.
    """

    l3: L3Domain
    ways: int | None
    size_bytes: int | None
    io: IoWays | Missing
    usage: str = ""
    parts: tuple[int, ...] = ()
    read_on: Cpu | None = None

    def capacity_bytes(self, cbm: Cbm) -> float | Missing:
        """The size of the ways of a mask."""
        if self.size_bytes is None:
            return Missing(Reason.SOURCE, "the kernel does not report the size of this cache")
        return cbm.bytes(self.size_bytes)


@dataclass(frozen=True, slots=True)
class GroupCache:
    """One control group in one cache.

    Attributes:
        cbm: mask (with CDP the mask for data), or why there is none.
        code: with CDP the mask for code, else None.
        mba: memory bandwidth limit in the table's unit, or why there is none.
        values: by every name of `EVENTS`: bytes, or why there is none. `llc_occupancy` is a state,
            others are cumulative. Includes the group's monitoring groups. Empty if not asked for.
        read_at_ns: CLOCK_MONOTONIC when the values were read; 0 for the table's own time.
    """

    l3: L3Domain
    cbm: Cbm | Missing
    code: Cbm | None
    mba: int | Missing
    values: Mapping[Event, int | Missing]
    read_at_ns: int = 0

    @property
    def ways(self) -> Cbm | Missing:
        """All ways it may fill, with data or code."""
        if isinstance(self.cbm, Missing) or self.code is None:
            return self.cbm
        return self.cbm.union(self.code)


@dataclass(frozen=True, slots=True)
class L2Mask:
    """A control group's mask in one second-level cache; `code` as in `GroupCache`."""

    l2: int
    cbm: Cbm
    code: Cbm | None = None


@dataclass(frozen=True, slots=True)
class Metered:
    """One cache's monitor of a monitoring group; fields as in `GroupCache`."""

    l3: L3Domain
    values: Mapping[Event, int | Missing]
    read_at_ns: int = 0


@dataclass(frozen=True, slots=True)
class MonitoringGroup:
    """A group that is only monitored: part of a control group, whose class it has.

    Attributes:
        name, inode: of its directory; the name is untrusted text.
        rmid: the hardware's monitor; None if unknown.
        cpus: its `cpus` file: some of its control group's.
        caches: ascending by L3; empty if nothing is monitored.
        tasks: thread ids in it, ascending, as last read.
    """

    name: str
    inode: int
    rmid: int | None
    cpus: tuple[Cpu, ...]
    caches: tuple[Metered, ...]
    tasks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ResctrlGroup:
    """One control group; monitoring groups below it are part of it.

    Attributes:
        name: directory name (untrusted text), `ROOT` for the root group.
        inode: of its directory: a group created anew has another. Without resctrl the number of the
            class, lower than any inode.
        clos, rmid: the hardware's class and monitor; None if unknown.
        cpus: its `cpus` file; a CPU is in exactly one group. A task in another group than the root
            group has that group's class on any CPU.
        mode: `shareable`, `exclusive`, `pseudo-locked`, ...
        caches: ascending by L3, each one of the table's domains.
        tasks: thread ids in it, ascending, as last read; empty for the root group.
        l2: ascending; empty if second-level caches can't be allocated.
        monitors: its monitoring groups, by name.
    """

    name: str
    inode: int
    clos: int | None
    cpus: tuple[Cpu, ...]
    mode: str
    caches: tuple[GroupCache, ...]
    rmid: int | None = None
    tasks: tuple[int, ...] = ()
    l2: tuple[L2Mask, ...] = ()
    monitors: tuple[MonitoringGroup, ...] = ()

    @property
    def owner(self) -> str | None:
        """Program that its name belongs to; None for a class of the hardware."""
        return None if self.inode == self.clos else owner_of(self.name)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the hardware, from `info`; None if unknown.

    Attributes:
        closids: maximum number of control groups: the fewest classes of any resource.
        rmids: maximum number of groups of either kind with monitors.
        min_bits: least number of ways of an L3 mask.
        sparse: L3 masks need not be contiguous.
        cdp: the L3 has separate masks for code and data.
        mba_least, mba_step: least bandwidth limit and granularity.
        io_alloc: whether `io_alloc` sets the ways of I/O, which then have a class that no group can
            have; None: not offered (`NO_IO_ALLOC`).
    """

    closids: int | None = None
    rmids: int | None = None
    min_bits: int | None = None
    sparse: bool | None = None
    cdp: bool = False
    mba_least: int | None = None
    mba_step: int | None = None
    io_alloc: bool | None = None


@dataclass(frozen=True, slots=True)
class ResctrlTable:
    """Source `resctrl`: control groups and the caches they share, ascending by L3.

    `notes`: what could not be read or was invalid, sentences.
    """

    groups: tuple[ResctrlGroup, ...]
    domains: tuple[CacheDomain, ...]
    mba_unit: MbaUnit = "percent"
    limits: Limits = field(default_factory=Limits)
    notes: tuple[str, ...] = ()

    @property
    def gaps(self) -> str:
        """What no group has, why, and the notes; "" if nothing."""
        caches = [cache for group in self.groups for cache in group.caches]
        columns: dict[str, list[object]] = {"mask": [cache.cbm for cache in caches]}
        columns |= {
            event: [cache.values[event] for cache in caches if cache.values] for event in EVENTS
        }
        why: dict[str, list[str]] = {}
        for name, values in columns.items():
            absent = [value for value in values if isinstance(value, Missing)]
            if absent and len(absent) == len(values):
                why.setdefault(absent[0].message, []).append(name)
        absences = [f"no {', '.join(names)}: {text}" for text, names in why.items()]
        return "; ".join((*absences, *self.notes))
