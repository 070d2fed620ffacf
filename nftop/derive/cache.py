"""Cache classes: what each resctrl group may fill, has filled, and moves to and from memory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from nftop.derive.absence import after_absence
from nftop.model.catalogue_group import GROUP_METRICS
from nftop.model.frame import CacheClass, GroupCacheRow, GroupRow, MonitorRow
from nftop.model.ids import L3Domain
from nftop.model.rdt import (
    ROOT,
    CacheDomain,
    Event,
    GroupCache,
    Limits,
    MbaUnit,
    Metered,
    ResctrlGroup,
    ResctrlTable,
)
from nftop.model.rdt_owner import owner_of
from nftop.model.reading import Missing, Reading, Reason
from nftop.model.sample import SourceReading
from nftop.model.topology import Topology

_UNREAD = Missing(Reason.SOURCE, "nftop does not read resctrl here yet")
_NO_GROUP = Missing(Reason.UNDEFINED, "no resctrl group has this CPU: is it offline?")
_FIRST = Missing(Reason.WARMING, "its first reading: a rate needs two")
_MADE_ANEW = Missing(
    Reason.WARMING, "the group was removed and made anew: a rate needs two readings"
)
_STEPPED_BACK = Missing(Reason.RESET, "the group's counter restarted")
_NUMBER = re.compile(r"([0-9]{1,18})")
_RATES: Mapping[str, Event] = {
    "mbm_total_bytes_per_s": "mbm_total_bytes",
    "mbm_local_bytes_per_s": "mbm_local_bytes",
}


@dataclass(frozen=True, slots=True)
class Classes:
    """What a tick knows of cache classes.

    Attributes:
        groups, domains, limits: as in `Frame`.
        of_cpus: a row for every CPU of the topology: the group whose `cpus` file has it.
        of_tasks: the group of every thread that is in another than the root group.
    """

    groups: tuple[GroupRow, ...]
    domains: tuple[CacheDomain, ...]
    of_cpus: tuple[CacheClass | Missing, ...]
    of_tasks: Mapping[int, CacheClass] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class CacheState:
    """The last table that was rated, and the rows it gave."""

    table: ResctrlTable | None = None
    read_at_ns: int = 0
    rows: tuple[GroupRow, ...] = ()
    of_tasks: Mapping[int, CacheClass] = field(default_factory=dict)


def step_cache(
    state: CacheState, reading: SourceReading[ResctrlTable] | None, topology: Topology
) -> tuple[CacheState, Classes]:
    """Fold one reading of resctrl in: a row for every control group, the root group first.

    A reading seen before keeps the rows it gave. One that is too old keeps the groups but none of
    their values.
    """
    if reading is None:
        return CacheState(), _nothing(topology, _UNREAD)
    if isinstance(reading.value, Missing):
        why = reading.value
        state = after_absence(state, CacheState(), why)
        if state.table is None:
            return state, _nothing(topology, why)
        rows = tuple(_without_values(row, why) for row in state.rows)
        known = replace(_nothing(topology, why), groups=rows, domains=state.table.domains)
        return state, replace(known, limits=state.table.limits)
    table = reading.value
    if state.table is None or reading.read_at_ns != state.read_at_ns:
        elapsed_s = (reading.read_at_ns - state.read_at_ns) / 1e9
        rows = _rows(state.table, table, elapsed_s)
        state = CacheState(table, reading.read_at_ns, rows, _of_tasks(table))
    of_cpus = _of_cpus(table, topology)
    return state, Classes(state.rows, table.domains, of_cpus, state.of_tasks, table.limits)


def rate(before: int | Missing | None, after: int | Missing, elapsed_s: float) -> Reading:
    """A cumulative count's rate per second, or why it has none; `before` None: not counted then."""
    if isinstance(after, Missing):
        return after
    if before is None or isinstance(before, Missing) or elapsed_s <= 0:
        return _FIRST
    return (after - before) / elapsed_s if after >= before else _STEPPED_BACK


def _rows(
    before: ResctrlTable | None, after: ResctrlTable, elapsed_s: float
) -> tuple[GroupRow, ...]:
    known = {} if before is None else {group.name: group for group in before.groups}
    domains = {domain.l3: domain for domain in after.domains}
    ordered = sorted(after.groups, key=_order)
    return tuple(
        _row(known.get(group.name), group, after.mba_unit, domains, elapsed_s) for group in ordered
    )


def _order(group: ResctrlGroup) -> tuple[bool, bool, int, list[tuple[int, str]]]:
    """The root group, then by class, then those of unknown class by name: COS2 before COS10."""
    parts = _NUMBER.split(group.name)
    name = [(int(part) if part.isdecimal() else -1, part) for part in parts]
    return group.name != ROOT, group.clos is None, group.clos or 0, name


def _row(
    before: ResctrlGroup | None,
    after: ResctrlGroup,
    mba_unit: MbaUnit,
    domains: Mapping[L3Domain, CacheDomain],
    elapsed_s: float,
) -> GroupRow:
    known = before if before is not None and before.inode == after.inode else None
    none = _FIRST if before is None or known is not None else _MADE_ANEW
    old = {} if known is None else {cache.l3: cache for cache in known.caches}
    caches = tuple(
        _cache_row(old.get(cache.l3), cache, domains[cache.l3], elapsed_s, none)
        for cache in after.caches
    )
    return GroupRow(
        name=after.name,
        clos=after.clos,
        cpus=after.cpus,
        mode=after.mode,
        mba_unit=mba_unit,
        caches=caches,
        rmid=after.rmid,
        owner=owner_of(after.name),
        tasks=len(after.tasks),
        l2=after.l2,
        monitors=_monitor_rows(known, after, elapsed_s),
    )


def _cache_row(
    before: GroupCache | None,
    after: GroupCache,
    domain: CacheDomain,
    elapsed_s: float,
    none: Missing,
) -> GroupCacheRow:
    ways = after.ways
    capacity = ways if isinstance(ways, Missing) else domain.capacity_bytes(ways)
    metered = _metered(before, after, elapsed_s, none)
    mba: Reading = after.mba
    readings = {"capacity_bytes": capacity, **metered}
    return GroupCacheRow(after.l3, after.cbm, after.code, mba, readings)


def _monitor_rows(
    before: ResctrlGroup | None, after: ResctrlGroup, elapsed_s: float
) -> tuple[MonitorRow, ...]:
    known = {} if before is None else {each.name: each for each in before.monitors}
    rows = []
    for each in after.monitors:
        old = known.get(each.name)
        anew = old is not None and old.inode != each.inode
        counted = {} if old is None or anew else {cache.l3: cache for cache in old.caches}
        none = _MADE_ANEW if anew else _FIRST
        readings = {
            cache.l3: _metered(counted.get(cache.l3), cache, elapsed_s, none)
            for cache in each.caches
        }
        rows.append(MonitorRow(each.name, each.rmid, each.cpus, owner_of(each.name), readings))
    return tuple(rows)


def _metered(
    before: GroupCache | Metered | None,
    after: GroupCache | Metered,
    elapsed_s: float,
    none: Missing,
) -> dict[str, Reading]:
    """What was metered of a group in one cache; `none` is why nothing was counted before."""
    readings: dict[str, Reading] = {"occupancy_bytes": after.values["llc_occupancy"]}
    # Counters are read one after the other: their own time is truer than the table's.
    if before is not None and before.read_at_ns and after.read_at_ns:
        elapsed_s = (after.read_at_ns - before.read_at_ns) / 1e9
    for metric, event in _RATES.items():
        per_s = rate(
            None if before is None else before.values[event], after.values[event], elapsed_s
        )
        readings[metric] = none if per_s is _FIRST else per_s
    return readings


def _of_tasks(table: ResctrlTable) -> Mapping[int, CacheClass]:
    found: dict[int, CacheClass] = {}
    for group in table.groups:
        if group.name != ROOT:
            found |= dict.fromkeys(group.tasks, CacheClass(group.name, group.clos, "task"))
    return found


def _of_cpus(table: ResctrlTable, topology: Topology) -> tuple[CacheClass | Missing, ...]:
    # While a CPU moves, two files read one after the other may both have it: the root group is
    # where those come from that are in no other.
    found: dict[int, CacheClass] = {}
    for group in sorted(table.groups, key=_order):
        found |= dict.fromkeys(group.cpus, CacheClass(group.name, group.clos))
    return tuple(found.get(info.cpu, _NO_GROUP) for info in topology.cpus)


def _without_values(row: GroupRow, why: Missing) -> GroupRow:
    readings = {metric.id: why for metric in GROUP_METRICS}
    caches = tuple(GroupCacheRow(cache.l3, why, None, why, readings) for cache in row.caches)
    return replace(row, caches=caches)


def _nothing(topology: Topology, why: Missing) -> Classes:
    return Classes((), (), (why,) * len(topology.cpus))
