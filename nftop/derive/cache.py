"""Cache classes: what each resctrl group may fill, has filled, and moves to and from memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from nftop.derive.absence import after_absence
from nftop.model.catalogue_group import GROUP_METRICS
from nftop.model.frame import CacheClass, GroupCacheRow, GroupRow
from nftop.model.ids import L3Domain
from nftop.model.rdt import (
    ROOT,
    CacheDomain,
    Event,
    GroupCache,
    MbaUnit,
    ResctrlGroup,
    ResctrlTable,
)
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
_RATES: Mapping[str, Event] = {
    "mbm_total_bytes_per_s": "mbm_total_bytes",
    "mbm_local_bytes_per_s": "mbm_local_bytes",
}


@dataclass(frozen=True, slots=True)
class Classes:
    """What a tick knows of cache classes; `of_cpus` has a row for every CPU of the topology."""

    groups: tuple[GroupRow, ...]
    domains: tuple[CacheDomain, ...]
    of_cpus: tuple[CacheClass | Missing, ...]


@dataclass(frozen=True, slots=True)
class CacheState:
    """The last table that was rated, and the rows it gave."""

    table: ResctrlTable | None = None
    read_at_ns: int = 0
    rows: tuple[GroupRow, ...] = ()


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
        return state, replace(_nothing(topology, why), groups=rows, domains=state.table.domains)
    table = reading.value
    if state.table is None or reading.read_at_ns != state.read_at_ns:
        elapsed_s = (reading.read_at_ns - state.read_at_ns) / 1e9
        state = CacheState(table, reading.read_at_ns, _rows(state.table, table, elapsed_s))
    return state, Classes(state.rows, table.domains, _of_cpus(table, topology))


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


def _order(group: ResctrlGroup) -> tuple[bool, bool, int, str]:
    """The root group, then by class, then those of unknown class by name."""
    return group.name != ROOT, group.clos is None, group.clos or 0, group.name


def _row(
    before: ResctrlGroup | None,
    after: ResctrlGroup,
    mba_unit: MbaUnit,
    domains: Mapping[L3Domain, CacheDomain],
    elapsed_s: float,
) -> GroupRow:
    anew = before is not None and before.inode != after.inode
    old = {} if before is None or anew else {cache.l3: cache for cache in before.caches}
    caches = tuple(
        _cache_row(old.get(cache.l3), cache, domains[cache.l3], elapsed_s, anew=anew)
        for cache in after.caches
    )
    return GroupRow(after.name, after.clos, after.cpus, after.mode, mba_unit, caches)


def _cache_row(
    before: GroupCache | None,
    after: GroupCache,
    domain: CacheDomain,
    elapsed_s: float,
    *,
    anew: bool,
) -> GroupCacheRow:
    ways = after.ways
    readings: dict[str, Reading] = {
        "capacity_bytes": ways if isinstance(ways, Missing) else domain.capacity_bytes(ways),
        "occupancy_bytes": after.values["llc_occupancy"],
    }
    for metric, event in _RATES.items():
        old = None if before is None else before.values[event]
        per_s = rate(old, after.values[event], elapsed_s)
        readings[metric] = _MADE_ANEW if anew and per_s is _FIRST else per_s
    mba: Reading = after.mba
    return GroupCacheRow(after.l3, after.cbm, after.code, mba, readings)


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
