"""The model's cache classes: what each resctrl group fills, its memory traffic, and its changes.

Assumptions, all of them closed forms in time as the rest of the model is:

- What groups come to fill is `filling`'s, what that does to packets `response`'s.
- When a step of the scenario or a change of classes gives groups something else to fill, occupancy
  moves to its new level exponentially, with the time constant `SETTLE_S`: lines leave only when
  others need their place.
- A CPU's lines are its group's: moved to another it fills that one's from nothing.
- What I/O allocates is metered for nobody and takes no room here.
- MBM counts a group's CPUs' lines in both directions, and all memory is local. What a monitoring
  group counted stays in its control group's count when it is removed.
- MBA slows nothing but memory testers (`rates.slowed_by_limit`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from nftop.model.change import group_path
from nftop.model.column import Floats
from nftop.model.ids import Cpu
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import (
    EVENTS,
    CacheDomain,
    Event,
    GroupCache,
    IoWays,
    Metered,
    MonitoringGroup,
    ResctrlGroup,
    ResctrlTable,
)
from nftop.model.sample import Counts
from nftop.model.struct import dataclass, replace
from nftop.model.topology import L3Cache
from nftop.sim.classes import IO_WAYS, LIMITS, Classes, first_classes
from nftop.sim.filling import filled, limits_of, members_of
from nftop.sim.frequency import Frequencies
from nftop.sim.model import SETTLE_S, Model, altered, phase_starts_ns, without
from nftop.sim.rates import GOLDEN, phases, rates_of
from nftop.sim.response import costs
from nftop.sim.scenario import L3_WAYS
from nftop.sim.workloads import INDEX

_LINE_BYTES = 64


@dataclass(frozen=True, slots=True)
class Stretch:
    """The classes in one stretch of the model.

    Attributes:
        classes: as they are.
        cpus: of each of g places (`Classes.places`) the CPUs whose work is metered there.
        levels: float64 (g, d), bytes that each place comes to fill of each of d caches.
        held: the same when the stretch begins. moved: bytes of memory since the place was made.
    """

    classes: Classes
    cpus: tuple[tuple[Cpu, ...], ...]
    levels: Floats
    held: Floats
    moved: Floats


@dataclass(frozen=True, slots=True)
class Rdt:
    """The simulated host with its resctrl.

    Attributes:
        model: what runs.
        stretches: one for each of the model's.
        usual: float64 (p, n), bytes that each of n CPUs holds with the first classes in each of p
            phases of the scenario.
    """

    model: Model
    stretches: tuple[Stretch, ...]
    usual: Floats

    @property
    def classes(self) -> Classes:
        """As they are after the last change."""
        return self.stretches[-1].classes

    @property
    def frequencies(self) -> Frequencies:
        """As they are after the last change."""
        return self.model.frequencies[-1]


def rdt_of(model: Model) -> Rdt:
    """The resctrl of a simulated host, with the classes of its scenario."""
    classes = first_classes(model)
    limits = limits_of(model.layout, classes)
    nows = [replace(now, limits=limits) for now in phases(model.scenario)]
    filled_phases = [filled(model.layout, classes, now) for now in nows]
    first = replace(_begun(classes, filled_phases[0][0]), held=filled_phases[0][0])
    rdt = Rdt(model, (first,), np.stack([by_cpu for _, by_cpu in filled_phases]))
    for start_ns, (levels, _) in zip(model.starts_ns[1:], filled_phases[1:], strict=True):
        rdt = _followed(rdt, classes, levels, start_ns)
    return rdt


def changed(rdt: Rdt, at_ns: int, classes: Classes, frequencies: Frequencies | None = None) -> Rdt:
    """The same host, whose classes are others from a time on; all before is as it was.

    `at_ns`: since the start, not before the last change. `frequencies`: of its cores from then on;
    None: as they are.
    """
    model, layout = rdt.model, rdt.model.layout
    frequencies = frequencies or rdt.frequencies
    begun = phase_starts_ns(model.scenario)
    first = sum(start <= at_ns for start in begun) - 1
    starts_ns = (at_ns, *begun[first + 1 :])
    levels, rates = [], []
    for index, now in list(enumerate(phases(model.scenario)))[first:]:
        limited = replace(now, limits=limits_of(layout, classes))
        level, held = filled(layout, classes, limited)
        cost = costs(layout, now, held, rdt.usual[index], rdt.usual[0])
        levels.append(level)
        limited = replace(limited, costs=cost, hz=frequencies.hz)
        rates.append(rates_of(model.scenario, layout, limited))
    kept = rdt.stretches[: model.stretch(at_ns) + 1]
    model = altered(model, at_ns, starts_ns, rates, frequencies)
    rdt = replace(rdt, model=model, stretches=kept)
    for start_ns, level in zip(starts_ns, levels, strict=True):
        rdt = _followed(rdt, classes, level, start_ns)
    return rdt


def forgetting(rdt: Rdt, before_ns: int) -> Rdt:
    """The same host, of which it is no longer known what it was before a time."""
    gone = rdt.model.stretch(max(before_ns, rdt.model.starts_ns[0]))
    return replace(rdt, model=without(rdt.model, gone), stretches=rdt.stretches[gone:])


def value(rdt: Rdt, where: str, l3: int, event: Event, t_ns: int) -> int:
    """What `event` of a place's `mon_data` says of a cache at `t_ns` since the start, in bytes.

    Raises:
        KeyError: there is no such place, cache or event; ValueError: the time is before the start.
    """
    at = rdt.model.stretch(t_ns)
    index = {item: row for row, item in enumerate(rdt.stretches[at].classes.places)}[where]
    cache = {int(item.id): at for at, item in enumerate(rdt.model.layout.topology.l3)}[l3]
    if event not in EVENTS:
        raise KeyError(event)
    chosen = _occupancy_bytes if event == "llc_occupancy" else _traffic_bytes
    return int(chosen(rdt, at, t_ns)[index, cache])


def resctrl_table(rdt: Rdt, t_ns: int) -> ResctrlTable:
    """Every group as a source hands it over."""
    at = rdt.model.stretch(t_ns)
    classes, caches = rdt.stretches[at].classes, rdt.model.layout.topology.l3
    occupancy, traffic = _occupancy_bytes(rdt, at, t_ns), _traffic_bytes(rdt, at, t_ns)
    rows = {where: row for row, where in enumerate(classes.places)}

    def metered(where: str, column: int) -> Mapping[Event, int]:
        moved = int(traffic[rows[where], column])
        used = int(occupancy[rows[where], column])
        return {"llc_occupancy": used, "mbm_total_bytes": moved, "mbm_local_bytes": moved}

    def in_cache(group: str, column: int, cache: L3Cache) -> GroupCache:
        return GroupCache(
            l3=cache.id,
            cbm=classes.mask(group, cache.id),
            code=None,
            mba=classes.mba_percent(group, cache.id),
            values=metered(group, column),
        )

    def monitor(group: str, name: str) -> MonitoringGroup:
        where = group_path(group, name)
        every = tuple(Metered(cache.id, metered(where, at)) for at, cache in enumerate(caches))
        return MonitoringGroup(
            name, classes.inode(where), classes.rmids[where], classes.cpus(where), every
        )

    return ResctrlTable(
        groups=tuple(
            ResctrlGroup(
                name=group,
                inode=classes.inode(group),
                clos=classes.clos[group],
                cpus=classes.cpus(group),
                mode="shareable",
                caches=tuple(in_cache(group, at, cache) for at, cache in enumerate(caches)),
                rmid=classes.rmids[group],
                tasks=classes.tasks(group),
                monitors=tuple(monitor(group, name) for name in classes.monitors(group)),
            )
            for group in classes.groups
        ),
        domains=tuple(
            CacheDomain(
                l3=cache.id,
                ways=L3_WAYS,
                size_bytes=cache.size_bytes,
                io=IoWays(IO_WAYS, "cpuid"),
                usage=_usage([classes.mask(group, cache.id) for group in classes.groups]),
                read_on=cache.cpus[0],
            )
            for cache in caches
        ),
        limits=LIMITS,
    )


def _usage(masks: Sequence[Cbm]) -> str:
    """`bit_usage` of a cache whose groups are all shareable."""
    letters = {(False, False): "0", (True, False): "S", (False, True): "H", (True, True): "X"}
    return "".join(
        letters[any(mask.has(way) for mask in masks), IO_WAYS.has(way)]
        for way in reversed(range(L3_WAYS))
    )


def _occupancy_bytes(rdt: Rdt, at: int, t_ns: int) -> Floats:
    """Whole lines, float64 (g, d)."""
    model, places = rdt.model, rdt.stretches[at].classes.places
    now = _held(rdt, at, t_ns)
    # It breathes as the rates do, and never beyond what it could fill.
    period_ns = round(model.scenario.period_s * 1e9)
    phase = np.array([rdt.stretches[at].classes.rmids[item] for item in places]) * GOLDEN * math.tau
    wave = np.sin(t_ns % period_ns / period_ns * math.tau + phase)
    breathing = now * (1.0 - model.scenario.swing * (1.0 + wave) / 2.0)[:, None]
    return np.asarray(np.floor(breathing / _LINE_BYTES) * _LINE_BYTES)


def _held(rdt: Rdt, at: int, t_ns: int) -> Floats:
    """What the places of a stretch fill at a time of it, float64 (g, d)."""
    stretch = rdt.stretches[at]
    spent_s = (t_ns - rdt.model.starts_ns[at]) / 1e9
    left = math.exp(-spent_s / SETTLE_S)
    return np.asarray(stretch.levels + (stretch.held - stretch.levels) * left)


def _traffic_bytes(rdt: Rdt, at: int, t_ns: int) -> Floats:
    """Bytes since a place was made, float64 (g, d)."""
    stretch = rdt.stretches[at]
    lines = _lines(rdt.model, t_ns) - _lines(rdt.model, rdt.model.starts_ns[at])
    moved = stretch.moved.copy()
    for column, cache in enumerate(rdt.model.layout.topology.l3):
        here = frozenset(cache.cpus)
        for row, cpus in enumerate(stretch.cpus):
            own = [cpu for cpu in cpus if cpu in here]
            moved[row, column] += float(lines[own].sum()) * _LINE_BYTES
    return moved


def _lines(model: Model, t_ns: int) -> Counts:
    counts = model.counts(t_ns)
    return counts[:, INDEX["cas_reads"]] + counts[:, INDEX["cas_writes"]]


def _followed(rdt: Rdt, classes: Classes, levels: Floats, start_ns: int) -> Rdt:
    """With another stretch, which goes on from what the last one came to by its begin."""
    at, last = len(rdt.stretches) - 1, rdt.stretches[-1]
    known = {last.classes.inode(where): row for row, where in enumerate(last.classes.places)}
    held, moved = _held(rdt, at, start_ns), _traffic_bytes(rdt, at, start_ns)
    begun = _begun(classes, levels)
    for row, where in enumerate(classes.places):
        before = known.get(classes.inode(where))
        if before is not None:
            begun.held[row], begun.moved[row] = held[before], moved[before]
    return replace(rdt, stretches=(*rdt.stretches, begun))


def _begun(classes: Classes, levels: Floats) -> Stretch:
    """One in which every place is new, and empty."""
    members = members_of(classes)
    cpus = tuple(tuple(map(Cpu, members[where])) for where in classes.places)
    return Stretch(classes, cpus, levels, np.zeros_like(levels), np.zeros_like(levels))
