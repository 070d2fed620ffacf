"""The counters of mon_data: one read per group, cache and event, a cache at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TypeAlias

from nftop.model.ids import L3Domain
from nftop.model.rdt.rdt import EVENTS, Event, Metered
from nftop.model.reading import Missing, Reason
from nftop.model.topology import Topology
from nftop.sources.resctrl.cpu_choice import Place
from nftop.sources.resctrl.files import folders, inode, read_as
from nftop.sources.resctrl.parse import monitor_domain, monitor_part, parse_value
from nftop.sources.resctrl.tree import Found, Tree

_REPLACED = Missing(Reason.RESET, "the group was removed or made anew while it was read")

# By the inode of a group's directory, which no other group ever has, then by cache.
Counters: TypeAlias = Mapping[int, Mapping[L3Domain, Metered]]


@dataclass(frozen=True, slots=True)
class Monitored:
    """One cache's monitor: its directory's name, the nodes it is divided into, who reads it.

    `silent` is why it must not be read; None where it may.
    """

    l3: L3Domain
    directory: str
    parts: tuple[int, ...]
    place: Place
    silent: Missing | None = None


def find_monitors(
    mount: str, place: Callable[[L3Domain], tuple[Place, Missing | None]]
) -> tuple[Monitored, ...]:
    """The caches that are metered, ascending; every group has the same. Empty where none is."""
    try:
        named = [(monitor_domain(name), name, path) for name, path in folders(f"{mount}/mon_data")]
    except OSError:
        return ()
    found = [
        Monitored(l3, name, _parts(path), *place(l3)) for l3, name, path in named if l3 is not None
    ]
    return tuple(sorted(found, key=lambda item: item.l3))


def unmetered(why: Missing) -> Mapping[Event, Missing]:
    """No value for any event."""
    return dict.fromkeys(EVENTS, why)


def read_counters(
    tree: Tree,
    monitors: Sequence[Monitored],
    events: Sequence[Event],
    clock: Callable[[], int] = time.monotonic_ns,
    *,
    staying_on: Callable[[Collection[int]], AbstractContextManager[None]],
) -> Counters:
    """What every group's counters say now; a group that is another by then has none.

    `staying_on` keeps this thread on CPUs for a while, as `Affinity` does.

    The files of a divided cache sum its nodes, so that each event costs one read all the same.
    """
    groups = list(_everyone(tree))
    found: dict[int, dict[L3Domain, Metered]] = {group.inode: {} for group in groups}
    for monitor in monitors:
        stay_on = monitor.place.stay_on
        with staying_on(stay_on) if stay_on else nullcontext():
            for group in groups:
                found[group.inode][monitor.l3] = _read(group, monitor, events, clock)
    for group in groups:
        if inode(group.path) != group.inode:
            found[group.inode] = {
                l3: Metered(l3, unmetered(_REPLACED)) for l3 in found[group.inode]
            }
    return found


def costs(tree: Tree, monitors: Sequence[Monitored], events: Sequence[Event]) -> tuple[int, int]:
    """Reads that `read_counters` takes, and CPUs that are interrupted for it, each time counted.

    A CPU beside the cache reads it in any case; where that is the reader's own none is interrupted.
    """
    of_cache = sum(1 for _ in _everyone(tree)) * len(frozenset(events))
    read = [monitor for monitor in monitors if monitor.silent is None]
    return of_cache * len(read), of_cache * sum(not item.place.stay_on for item in read)


def divided_unawares(monitors: Sequence[Monitored], topology: Topology) -> tuple[str, ...]:
    """What to say of caches that sub-NUMA clusters divide without the kernel's monitors knowing.

    Clusters share out the monitors: who knows nothing of that reads one cluster's for another's.
    """
    nodes: dict[int, set[int]] = {}
    for info in topology.cpus:
        if info.l3 is not None and info.node is not None:
            nodes.setdefault(info.l3, set()).add(info.node)
    wrong = [
        str(monitor.l3)
        for monitor in monitors
        if not monitor.parts and len(nodes.get(monitor.l3, ())) > 1
    ]
    if not wrong:
        return ()
    what = "divided into sub-NUMA clusters, of which this kernel's monitors know nothing"
    return (f"L3 {', '.join(wrong)}: {what}: they may count only a part",)


def _read(
    group: Found, cache: Monitored, events: Sequence[Event], clock: Callable[[], int]
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


def _everyone(tree: Tree) -> Iterator[Found]:
    for group in tree.groups:
        yield group
        yield from group.monitors


def _parts(path: str) -> tuple[int, ...]:
    try:
        found = [monitor_part(name) for name, _ in folders(path)]
    except OSError:
        return ()
    return tuple(sorted(part for part in found if part is not None))
