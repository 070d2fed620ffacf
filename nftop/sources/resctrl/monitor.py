"""Counters of mon_data, one read per group, cache and event, and the table built from all files."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TypeAlias

from nftop.model.ids import Cpu, L3Domain
from nftop.model.missing import Missing, Reason
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import (
    EVENTS,
    UNLIMITED_MBPS,
    CacheDomain,
    Event,
    GroupCache,
    L2Mask,
    MbaUnit,
    Metered,
    MonitoringGroup,
    ResctrlGroup,
    ResctrlTable,
    group_path,
)
from nftop.model.struct import dataclass
from nftop.model.topology import Topology
from nftop.sources.resctrl.files import folders, inode, read_as, read_text
from nftop.sources.resctrl.tree import (
    GroupFiles,
    Info,
    Schemata,
    Tree,
    monitor_domain,
    parse_value,
    sub_monitor,
)

# Only a CPU of the cache can read its counters. Up to Linux 6.8 the kernel interrupts the first CPU
# of the cache, or none if the reading thread runs on one. From 6.9 on a kernel worker reads on the
# first CPU that is not nohz_full (if all are nohz_full, as before 6.9), after the real-time tasks
# of that CPU. Sources: `mon_event_read` of arch/x86/kernel/cpu/resctrl in 6.1 and of fs/resctrl in
# 7.2; `smp_call_function_any` and `cpumask_any_housekeeping`.
_RELEASE = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})\b")
_QUEUES_SINCE = (6, 9)


@dataclass(frozen=True, slots=True)
class CacheReader:
    """Where a cache's counters are read."""

    cpu: Cpu | None  # the CPU that reads them; None if the cache's CPUs are unknown
    stay_on: frozenset[Cpu] = frozenset()  # CPUs for the reading thread; empty if any


def queues(root: Path) -> bool:
    """Whether this kernel reads counters in a worker; true if its release is unknown."""
    try:
        match = _RELEASE.match(read_text(os.fspath(root / "proc/sys/kernel/osrelease")))
    except OSError:
        return True
    return match is None or (int(match[1]), int(match[2])) >= _QUEUES_SINCE


def choose_reader(
    l3: int, topology: Topology, usable: Collection[int], *, queued: bool
) -> CacheReader:
    """Where the counters of a cache are read by a thread that may use the `usable` CPUs."""
    members = [info for info in topology.cpus if info.l3 == l3 and info.online]
    if not members:
        return CacheReader(None)
    if queued:
        first = next((info.cpu for info in members if not info.nohz_full), None)
        if first is not None:
            return CacheReader(first)
    own = frozenset(info.cpu for info in members if info.cpu in usable)
    return CacheReader(min(own), own) if own else CacheReader(members[0].cpu)


_REPLACED = Missing(Reason.RESET, "the group was removed or replaced while it was read")

# By the inode of a group's directory, which no other group ever has, then by cache.
MonitorCounters: TypeAlias = Mapping[int, Mapping[L3Domain, Metered]]


@dataclass(frozen=True, slots=True)
class Monitored:
    """One cache's monitor: its directory, the nodes it is divided into, its reader.

    `silent` is why it must not be read; None if it may.
    """

    l3: L3Domain
    directory: str
    numbers: tuple[int, ...]
    reader: CacheReader
    silent: Missing | None = None


def find_monitors(
    mount: str, reader: Callable[[L3Domain], tuple[CacheReader, Missing | None]]
) -> tuple[Monitored, ...]:
    """The metered caches, ascending; every group has the same."""
    try:
        named = [(monitor_domain(name), name, path) for name, path in folders(f"{mount}/mon_data")]
    except OSError:
        return ()
    monitors = [
        Monitored(l3, name, _nodes(path), *reader(l3)) for l3, name, path in named if l3 is not None
    ]
    return tuple(sorted(monitors, key=lambda item: item.l3))


def unmetered(why: Missing) -> Mapping[Event, Missing]:
    return dict.fromkeys(EVENTS, why)


def read_counters(
    tree: Tree,
    monitors: Sequence[Monitored],
    events: Sequence[Event],
    clock: Callable[[], int] = time.monotonic_ns,
    *,
    staying_on: Callable[[Collection[int]], AbstractContextManager[None]],
) -> MonitorCounters:
    """Every group's counters now; a group that was replaced meanwhile has none.

    `staying_on` keeps this thread on CPUs for a while, as `Affinity` does. The files of a divided
    cache sum its nodes, so each event costs one read.
    """
    groups = list(_everyone(tree))
    counters: dict[int, dict[L3Domain, Metered]] = {group.inode: {} for group in groups}
    for monitor in monitors:
        stay_on = monitor.reader.stay_on
        with staying_on(stay_on) if stay_on else nullcontext():
            for group in groups:
                counters[group.inode][monitor.l3] = _read(group, monitor, events, clock)
    for group in groups:
        if inode(group.path) != group.inode:
            counters[group.inode] = {
                l3: Metered(l3, unmetered(_REPLACED)) for l3 in counters[group.inode]
            }
    return counters


def costs(tree: Tree, monitors: Sequence[Monitored], events: Sequence[Event]) -> tuple[int, int]:
    """Reads that `read_counters` takes, and interrupts of CPUs for it.

    A cache is read by one of its CPUs; if that is the reader's own none is interrupted.
    """
    of_cache = sum(1 for _ in _everyone(tree)) * len(frozenset(events))
    read = [monitor for monitor in monitors if monitor.silent is None]
    return of_cache * len(read), of_cache * sum(not item.reader.stay_on for item in read)


def divided_unawares(monitors: Sequence[Monitored], topology: Topology) -> tuple[str, ...]:
    """Notes on caches that sub-NUMA clusters divide without the kernel's monitors knowing.

    Clusters share out the monitors: software unaware of them reads one cluster's for another's.
    """
    nodes: dict[int, set[int]] = {}
    for info in topology.cpus:
        if info.l3 is not None and info.node is not None:
            nodes.setdefault(info.l3, set()).add(info.node)
    wrong = [
        str(monitor.l3)
        for monitor in monitors
        if not monitor.numbers and len(nodes.get(monitor.l3, ())) > 1
    ]
    if not wrong:
        return ()
    what = "divided into sub-NUMA clusters, which this kernel's monitors do not support"
    return (f"L3 {', '.join(wrong)}: {what}: they may count only a part",)


def _read(
    group: GroupFiles, cache: Monitored, events: Sequence[Event], clock: Callable[[], int]
) -> Metered:
    if cache.silent is not None:
        return Metered(cache.l3, unmetered(cache.silent))
    values: dict[Event, int | Missing] = {}
    began_ns = clock()
    for event in EVENTS:
        if event in events:
            path = f"{group.path}/mon_data/{cache.directory}/{event}"
            values[event] = read_as(path, parse_value)
        else:
            values[event] = Missing(Reason.HARDWARE, f"the kernel meters no {event} here")
    return Metered(cache.l3, values, (began_ns + clock()) // 2)


def _everyone(tree: Tree) -> Iterator[GroupFiles]:
    for group in tree.groups:
        yield group
        yield from group.monitors


def _nodes(path: str) -> tuple[int, ...]:
    try:
        numbers = [sub_monitor(name) for name, _ in folders(path)]
    except OSError:
        return ()
    return tuple(sorted(number for number in numbers if number is not None))


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
    """Every last-level cache in a line of schemata or with a monitor, ascending."""
    ids = {int(monitor.l3) for monitor in monitors}
    for group in tree.groups:
        if not isinstance(group.schemata, Missing):
            lines = (group.schemata.get(name, {}) for name in ("L3", "L3DATA", "L3CODE", "MB"))
            ids.update(domain for line in lines for domain in line)
    return tuple(map(L3Domain, sorted(ids)))


@dataclass(frozen=True, slots=True)
class Gathered:
    """Everything that was read."""

    tree: Tree  # the groups
    info: Info  # what the hardware has
    mba_unit: MbaUnit  # of limits on bandwidth
    monitors: tuple[Monitored, ...]  # the metered caches
    counters: MonitorCounters  # their latest values
    tasks: Mapping[str, tuple[int, ...]]  # by group path
    registers: Mapping[L3Domain, Cbm]  # IIO LLC WAYS by cache, where it could be read
    notes: tuple[str, ...]  # besides those of tree and info


def table_of(read: Gathered, topology: Topology) -> ResctrlTable:
    """The table; what could not be read is a reason in it. The topology has the caches' sizes."""
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
            parts=() if monitor is None else monitor.numbers,
            read_on=None if monitor is None or monitor.silent else monitor.reader.cpu,
        )

    return ResctrlTable(
        groups=tuple(_group(group, ids, read) for group in read.tree.groups),
        domains=tuple(domain(l3) for l3 in ids),
        mba_unit=read.mba_unit,
        limits=info.limits,
        notes=(*read.notes, *info.notes, *read.tree.notes),
    )


def _group(group: GroupFiles, ids: tuple[L3Domain, ...], read: Gathered) -> ResctrlGroup:
    own = read.counters.get(group.inode)
    schemata = group.schemata
    return ResctrlGroup(
        name=group.name,
        inode=group.inode,
        clos=group.clos,
        cpus=group.cpus,
        mode=group.mode,
        caches=tuple(_cache(l3, schemata, read, _metered(l3, read, own)) for l3 in ids),
        rmid=group.rmid,
        tasks=read.tasks.get(group.name, ()),
        l2=() if isinstance(schemata, Missing) else _l2(schemata, read.info.l2_ways),
        monitors=tuple(
            MonitoringGroup(
                name=monitor.name,
                inode=monitor.inode,
                rmid=monitor.rmid,
                cpus=monitor.cpus,
                caches=tuple(
                    _metered(item.l3, read, read.counters.get(monitor.inode))
                    for item in read.monitors
                ),
                tasks=read.tasks.get(group_path(group.name, monitor.name), ()),
            )
            for monitor in group.monitors
        ),
    )


def _metered(l3: L3Domain, read: Gathered, own: Mapping[L3Domain, Metered] | None) -> Metered:
    """Values of a group's monitor of a cache, or why there are none."""
    if own is None and any(monitor.l3 == l3 for monitor in read.monitors):
        return Metered(l3, unmetered(_NOT_YET))
    value = None if own is None else own.get(l3)
    return Metered(l3, unmetered(_NO_CMT)) if value is None else value


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

    caches = ((l2, mask(bits), mask(code.get(l2))) for l2, bits in sorted(whole.items()))
    return tuple(L2Mask(l2, cbm, own) for l2, cbm, own in caches if cbm is not None)
