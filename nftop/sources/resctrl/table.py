"""The table put together of what the files said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nftop.model.ids import L3Domain
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import (
    UNLIMITED_MBPS,
    CacheDomain,
    GroupCache,
    L2Mask,
    MbaUnit,
    Metered,
    MonitoringGroup,
    ResctrlGroup,
    ResctrlTable,
)
from nftop.model.reading import Missing, Reason
from nftop.model.topology import Topology
from nftop.sources.resctrl.info import Info
from nftop.sources.resctrl.monitor import Counters, Monitored, unmetered
from nftop.sources.resctrl.parse import Schemata
from nftop.sources.resctrl.tree import Found, Tree

_UNLIMITED = Missing(Reason.UNDEFINED, "not limited")
_NO_MBA = Missing(Reason.HARDWARE, "the kernel offers no limits on memory bandwidth here")
_NO_CAT = Missing(
    Reason.HARDWARE, "the kernel offers no allocation of this cache: see nftop doctor"
)
_NO_CMT = Missing(Reason.HARDWARE, "the kernel meters nothing here: see nftop doctor")
_NOT_YET = Missing(Reason.WARMING, "a new group: counters are read once a second at most")
_NO_MASK = Missing(Reason.UNDEFINED, "this class has no ways of its own in this cache")
_NO_LIMIT = Missing(Reason.UNDEFINED, "this class has no limit on memory bandwidth")


def cache_ids(tree: Tree, monitors: Iterable[Monitored]) -> tuple[L3Domain, ...]:
    """Every last-level cache that some line of schemata or a monitor is about, ascending."""
    ids = {int(monitor.l3) for monitor in monitors}
    for group in tree.groups:
        if not isinstance(group.schemata, Missing):
            lines = (group.schemata.get(name, {}) for name in ("L3", "L3DATA", "L3CODE", "MB"))
            ids.update(domain for line in lines for domain in line)
    return tuple(map(L3Domain, sorted(ids)))


@dataclass(frozen=True, slots=True)
class Gathered:
    """What was read, piece by piece.

    Attributes:
        tree: the groups. info: what the hardware has. mba_unit: of limits on bandwidth.
        monitors: the caches that are metered. counters: what they said when they were read last.
        tasks: by control group.
        registers: IIO LLC WAYS by cache, where it could be read.
        notes: what is to be said besides what tree and info noted.
    """

    tree: Tree
    info: Info
    mba_unit: MbaUnit
    monitors: tuple[Monitored, ...]
    counters: Counters
    tasks: Mapping[str, tuple[int, ...]]
    registers: Mapping[L3Domain, Cbm]
    notes: tuple[str, ...]


def table_of(read: Gathered, topology: Topology) -> ResctrlTable:
    """All of it as `model.rdt` has it; what could not be read is a reason there.

    The topology gives the caches' sizes.
    """
    ids = cache_ids(read.tree, read.monitors)
    sizes = {cache.id: cache.size_bytes for cache in topology.l3}
    of_monitor = {item.l3: item for item in read.monitors}
    info = read.info

    def domain(l3: L3Domain) -> CacheDomain:
        monitor = of_monitor.get(l3)
        return CacheDomain(
            l3=l3,
            ways=info.ways,
            size_bytes=sizes.get(l3),
            io=info.io(l3, read.registers.get(l3)),
            usage=info.usage.get(l3, ""),
            parts=() if monitor is None else monitor.parts,
            read_on=None if monitor is None or monitor.silent else monitor.place.cpu,
        )

    return ResctrlTable(
        groups=tuple(_group(found, ids, read) for found in read.tree.groups),
        domains=tuple(domain(l3) for l3 in ids),
        mba_unit=read.mba_unit,
        limits=info.limits,
        notes=(*read.notes, *info.notes, *read.tree.notes),
    )


def _group(found: Found, ids: tuple[L3Domain, ...], read: Gathered) -> ResctrlGroup:
    own = read.counters.get(found.inode)
    schemata = found.schemata
    return ResctrlGroup(
        name=found.name,
        inode=found.inode,
        clos=found.clos,
        cpus=found.cpus,
        mode=found.mode,
        caches=tuple(_cache(l3, schemata, read, _metered(l3, read, own)) for l3 in ids),
        rmid=found.rmid,
        tasks=read.tasks.get(found.name, ()),
        l2=() if isinstance(schemata, Missing) else _l2(schemata, read.info.l2_ways),
        monitors=tuple(
            MonitoringGroup(
                name=monitor.name,
                inode=monitor.inode,
                rmid=monitor.rmid,
                cpus=monitor.cpus,
                caches=_monitor_caches(read, read.counters.get(monitor.inode)),
            )
            for monitor in found.monitors
        ),
    )


def _metered(l3: L3Domain, read: Gathered, own: Mapping[L3Domain, Metered] | None) -> Metered:
    """What a group's monitor says of a cache, or why there is nothing."""
    if own is None and any(monitor.l3 == l3 for monitor in read.monitors):
        return Metered(l3, unmetered(_NOT_YET))
    found = None if own is None else own.get(l3)
    return Metered(l3, unmetered(_NO_CMT)) if found is None else found


def _monitor_caches(read: Gathered, own: Mapping[L3Domain, Metered] | None) -> tuple[Metered, ...]:
    return tuple(_metered(monitor.l3, read, own) for monitor in read.monitors)


def _cache(
    l3: L3Domain, schemata: Schemata | Missing, read: Gathered, metered: Metered
) -> GroupCache:
    info = read.info
    cdp = info.limits.cdp
    code = _mask(l3, schemata, "L3CODE", info.ways) if cdp else None
    return GroupCache(
        l3=l3,
        cbm=_mask(l3, schemata, "L3DATA" if cdp else "L3", info.ways),
        code=None if isinstance(code, Missing) else code,
        mba=_limit(l3, schemata, info, read.mba_unit),
        values=metered.values,
        read_at_ns=metered.read_at_ns,
    )


def _mask(l3: int, schemata: Schemata | Missing, line: str, ways: int | None) -> Cbm | Missing:
    if ways is None:
        return _NO_CAT
    if isinstance(schemata, Missing):
        return schemata
    bits = schemata.get(line, {}).get(l3)
    if bits is None:
        return _NO_MASK
    try:
        return Cbm(bits, ways)
    except ValueError as error:
        return Missing(Reason.ERROR, f"schemata says {error}")


def _limit(l3: int, schemata: Schemata | Missing, info: Info, mba_unit: MbaUnit) -> int | Missing:
    if "MB" not in info.resources:
        return _NO_MBA
    if isinstance(schemata, Missing):
        return schemata
    value = schemata.get("MB", {}).get(l3)
    if value is None:
        return _NO_LIMIT
    return _UNLIMITED if mba_unit == "MBps" and value >= UNLIMITED_MBPS else value


def _l2(schemata: Schemata, ways: int | None) -> tuple[L2Mask, ...]:
    if ways is None:
        return ()
    whole = schemata.get("L2DATA") or schemata.get("L2") or {}
    code = schemata.get("L2CODE", {})

    def mask(bits: int | None) -> Cbm | None:
        return Cbm(bits, ways) if bits is not None and bits < 1 << ways else None

    each = ((l2, mask(bits), mask(code.get(l2))) for l2, bits in sorted(whole.items()))
    return tuple(L2Mask(l2, cbm, own) for l2, cbm, own in each if cbm is not None)
