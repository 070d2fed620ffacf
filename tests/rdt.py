"""Tables of resctrl for tests: two caches of 12 ways of 4 MiB, and the frame made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from nftop.derive.cache.table import CacheState, step_cache
from nftop.model.frame import Frame
from nftop.model.ids import Cpu, L3Domain
from nftop.model.missing import Missing
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import (
    ROOT,
    CacheDomain,
    Event,
    GroupCache,
    IoWays,
    ResctrlGroup,
    ResctrlTable,
)
from nftop.model.sample import SourceReading
from tests.frames import SECOND_NS, frame

MIB = 1 << 20
WAYS, SIZE = 12, 48 * MIB
DOMAINS = tuple(
    CacheDomain(L3Domain(l3), WAYS, SIZE, IoWays(Cbm(0xC00, WAYS), "cpuid")) for l3 in (0, 1)
)


def values(
    used: int | Missing = 0, total: int | Missing = 0, local: int | Missing = 0
) -> Mapping[Event, int | Missing]:
    return {"llc_occupancy": used, "mbm_total_bytes": total, "mbm_local_bytes": local}


def in_cache(l3: int, bits: int, used: int = 0, total: int = 0, **changes: Any) -> GroupCache:
    mask = Cbm(bits, WAYS)
    plain = GroupCache(L3Domain(l3), mask, None, 100, values(used, total, total))
    return replace(plain, **changes)


def group(name: str, clos: int | None, cpus: tuple[int, ...], *caches: GroupCache) -> ResctrlGroup:
    inode = 100 + (clos or 0)
    return ResctrlGroup(name, inode, clos, tuple(map(Cpu, cpus)), "shareable", caches)


def table(total: int = 0, **changes: Any) -> ResctrlTable:
    """Classes as in the mock-up of the screen: VPP's is full, OVS' overlaps it in one way."""
    groups = (
        group("ovs", 2, (3,), in_cache(0, 0x380, 3 * MIB, total), in_cache(1, 0x380)),
        group(
            ROOT,
            0,
            (0, 4, 5, 6, 7),
            in_cache(0, 0x00F, int(11.2 * MIB), total // 2),
            in_cache(1, 0x3FF, 9 * MIB, total),
        ),
        group("vpp", 1, (1, 2), in_cache(0, 0x0F0, int(15.8 * MIB), 2 * total), in_cache(1, 0xF0)),
    )
    return replace(ResctrlTable(groups, DOMAINS), **changes)


def frame_of(*tables: ResctrlTable | Missing, **changes: Any) -> Frame:
    """A frame of 8 CPUs in two packages, after readings of resctrl a second apart."""
    base = frame(8, len(tables), packages=2)
    state, classes = step_cache(CacheState(), None, base.topology)
    for second, item in enumerate(tables, start=1):
        reading = SourceReading(item, second * SECOND_NS, 0)
        state, classes = step_cache(state, reading, base.topology)
    shown = replace(base, cpus=replace(base.cpus, group=classes.of_cpus))
    return replace(
        shown, groups=classes.groups, domains=classes.domains, limits=classes.limits, **changes
    )
