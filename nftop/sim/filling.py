"""What groups of CPUs come to fill of the ways of a last-level cache.

Assumptions:

- A CPU wants the working set of its thread: of a virtual machine in proportion to its load, since
  what is used seldom is evicted; of a network function all of it.
- In ways that several groups may fill they grow side by side until they have what they want or the
  ways are full: each thread at a pace of 1 while it runs, and of 1 more for every byte of memory
  that it moves per cycle. The CPUs of a group share its bytes by the same rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from nftop.model.change import parts
from nftop.model.column import Bools, Floats
from nftop.model.rdt.masks import Cbm
from nftop.sim import workloads
from nftop.sim.classes import ALL_PERCENT, Classes
from nftop.sim.layout import Layout
from nftop.sim.rates import Now, slowed_by_limit
from nftop.sim.scenario import L3_WAYS

# How much of its time a CPU that nobody polls on competes for cache; an assumption.
_SYSTEM_SHARE = 0.02


def appetites(cpus: Sequence[Sequence[int]], layout: Layout, now: Now) -> tuple[Floats, Floats]:
    """What each of g groups of CPUs would fill of the cache beside them, and at which pace.

    Returns:
        float64 (g,), bytes; float64 (g,), the pace as `settle` takes it.
    """
    one = appetites_of_cpus(layout, now)
    sums = [one[:, list(own)].sum(axis=1) for own in cpus]
    wants, weights = np.array(sums).T
    return wants, weights


def appetites_of_cpus(layout: Layout, now: Now) -> Floats:
    """The same of each of n CPUs: float64 (2, n), bytes and pace."""
    one = np.empty((2, len(layout.topology.cpus)))
    one[0], one[1] = workloads.working_set_bytes("system"), _SYSTEM_SHARE
    for placed in layout.placed:
        task = placed.task
        load, wanted = (
            now.load.get(task.name, task.load),
            workloads.working_set_bytes(task.workload),
        )
        share = load if task.kind == "vm" else 1.0
        moved = workloads.load(task.workload, ht=task.ht).bytes_per_cycle
        for cpu in placed.cpus:
            slower = slowed_by_limit(load, now.limits.get(cpu, 1.0)) if task.kind == "vm" else 1.0
            one[:, cpu] = wanted * share, (1.0 + moved / slower) * share
    return one


def shared_out(level: float, wants: Floats, paces: Floats) -> Floats:
    """What each of n CPUs has of its group's bytes: side by side, as groups have of the ways."""
    return settle(np.ones((len(wants), 1), dtype=np.bool_), wants, paces, level)


def settle(masks: Bools, wants: Floats, weights: Floats, way_bytes: float) -> Floats:
    """What groups come to fill: they grow side by side until they have enough or the ways are full.

    Args:
        masks: bool (g, w), which of w ways each of g groups may fill.
        wants: float64 (g,), bytes it would fill if it could.
        weights: float64 (g,), its pace beside the others; it spreads over its ways.
        way_bytes: size of a way.

    Returns:
        float64 (g,), bytes: never more than wanted, than the mask has, or in all than the ways are.
    """
    got, used = np.zeros(len(wants)), np.zeros(masks.shape[1])
    for _ in range(masks.size + 1):
        room = masks & (used < way_bytes * (1 - 1e-12))
        growing = (got < wants * (1 - 1e-12)) & (weights > 0) & room.any(axis=1)
        if not growing.any():
            break
        share = np.where(growing, weights, 0.0) / np.maximum(1, room.sum(axis=1))
        speed = share[:, None] * room
        with np.errstate(divide="ignore", invalid="ignore"):
            full = np.where(speed.any(axis=0), (way_bytes - used) / speed.sum(axis=0), np.inf)
            enough = np.where(growing, (wants - got) / speed.sum(axis=1), np.inf)
        until = min(full.min(), enough.min())
        got, used = got + until * speed.sum(axis=1), used + until * speed.sum(axis=0)
    limits: Floats = np.minimum(wants, masks.sum(axis=1) * way_bytes)
    return np.minimum(got, limits)


def filled(layout: Layout, classes: Classes, now: Now) -> tuple[Floats, Floats]:
    """What places come to fill, float64 (g, d), and of that each CPU, float64 (n,)."""
    one, groups = appetites_of_cpus(layout, now), classes.groups
    caches, members = layout.topology.l3, members_of(classes)
    rows = {where: row for row, where in enumerate(classes.places)}
    levels, by_cpu = np.zeros((len(rows), len(caches))), np.zeros(one.shape[1])
    for column, cache in enumerate(caches):
        here = frozenset(cache.cpus)
        local_cpus = {where: [cpu for cpu in own if cpu in here] for where, own in members.items()}
        wants, paces = np.array([one[:, local_cpus[group]].sum(axis=1) for group in groups]).T
        masks = np.array([_bits(classes.mask(group, cache.id)) for group in groups])
        settled = settle(masks, wants, paces, cache.size_bytes / L3_WAYS)
        for group, level in zip(groups, settled, strict=True):
            own = local_cpus[group]
            by_cpu[own] = shared_out(float(level), *one[:, own]) if own else 0.0
            levels[rows[group], column] = level
        for where in rows.keys() - set(groups):
            levels[rows[where], column] = by_cpu[local_cpus[where]].sum()
    return levels, by_cpu


def members_of(classes: Classes) -> Mapping[str, list[int]]:
    """By place the CPUs whose work is its; a control group's with its monitoring groups'."""
    result: dict[str, list[int]] = {where: [] for where in classes.places}
    for cpu, where in sorted(classes.runs().items()):
        group = parts(where)[0]
        result[group].append(cpu)
        if where != group:
            result[where].append(cpu)
    return result


def limits_of(layout: Layout, classes: Classes) -> dict[int, float]:
    """By CPU the share of bandwidth that its class's MBA leaves it, where that is not all."""
    l3_of = {int(info.cpu): info.l3 for info in layout.topology.cpus}
    result = {}
    for cpu, where in classes.runs().items():
        l3 = l3_of[cpu]
        percent = ALL_PERCENT if l3 is None else classes.mba_percent(parts(where)[0], l3)
        if percent < ALL_PERCENT:
            result[cpu] = percent / 100
    return result


def _bits(mask: Cbm) -> list[bool]:
    return [mask.has(way) for way in range(mask.width)]
