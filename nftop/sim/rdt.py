"""The model's cache classes: what each resctrl group of the scenario fills, and its memory traffic.

Assumptions, all of them closed forms in time as the rest of the model is:

- A group wants the working sets of its threads: of a virtual machine in proportion to its load,
  since what is used seldom is evicted; of a network function all of it.
- In ways that several groups may fill they grow side by side until they have what they want or the
  ways are full: each thread at a pace of 1 while it runs, and of 1 more for every byte of memory
  that it moves per cycle.
- When a step of the scenario changes what they want, occupancy moves to its new level
  exponentially, with the time constant `SETTLE_S`: lines leave only when others need their place.
- What I/O allocates is metered for nobody and takes no room here.
- MBM counts a group's CPUs' lines in both directions, and all memory is local.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nftop.model.allocation import Cbm
from nftop.model.column import Bools, Floats
from nftop.model.ids import Cpu
from nftop.model.rdt import (
    EVENTS,
    ROOT,
    CacheDomain,
    Event,
    GroupCache,
    IoWays,
    Limits,
    ResctrlGroup,
    ResctrlTable,
)
from nftop.model.topology import L3Cache
from nftop.sim import workloads
from nftop.sim.layout import Layout
from nftop.sim.model import Model, Now, phases
from nftop.sim.scenario import CLASSES, L3_WAYS, Group
from nftop.sim.workloads import INDEX

SETTLE_S = 4.0
# What CPUID says of Skylake-SP's I/O: the two highest ways, as the register's default has it too.
IO_WAYS = Cbm(0x600, L3_WAYS)
# As a Xeon Gold 6152 has them, RMIDs 8 a core; but MBA, of 8 classes there, has as many as CAT.
LIMITS = Limits(closids=CLASSES, rmids=176, min_bits=1, mba_least=10, mba_step=10)
_LINE_BYTES = 64
# How much of its time a CPU that nobody polls on competes for cache; an assumption.
_SYSTEM_SHARE = 0.02
_FIRST_INODE = 2
_GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True, slots=True)
class Rdt:
    """The simulated host's resctrl.

    Attributes:
        model: what runs.
        groups: of the scenario, the root group first. cpus: those of each.
        levels: float64 (p, g, d), bytes that each of g groups comes to fill of each of d caches in
            each of p phases.
    """

    model: Model
    groups: tuple[Group, ...]
    cpus: tuple[tuple[Cpu, ...], ...]
    levels: Floats


def rdt_of(model: Model) -> Rdt:
    """The resctrl of a simulated host."""
    groups = model.scenario.groups
    cpus = _cpus(groups, model.layout)
    levels = np.zeros((len(model.starts_ns), len(groups), len(model.layout.topology.l3)))
    for at, now in enumerate(phases(model.scenario)):
        for column, cache in enumerate(model.layout.topology.l3):
            beside = [[cpu for cpu in own if cpu in cache.cpus] for own in cpus]
            wants, weights = appetites(beside, model.layout, now)
            masks = np.array([_bits(mask_of(group, column)) for group in groups])
            levels[at, :, column] = settle(masks, wants, weights, cache.size_bytes / L3_WAYS)
    return Rdt(model, groups, cpus, levels)


def mask_of(group: Group, package: int) -> Cbm:
    """The group's mask in the cache of a package."""
    return group.ways[min(package, len(group.ways) - 1)]


def value(rdt: Rdt, group: str, l3: int, event: Event, t_ns: int) -> int:
    """What `event` of a group's `mon_data` says of a cache at `t_ns` since the start, in bytes.

    Raises:
        KeyError: there is no such group, cache or event; ValueError: the time is before the start.
    """
    index = {each.name: at for at, each in enumerate(rdt.groups)}[group]
    cache = {int(each.id): at for at, each in enumerate(rdt.model.layout.topology.l3)}[l3]
    if event not in EVENTS:
        raise KeyError(event)
    chosen = _occupancy_bytes if event == "llc_occupancy" else _traffic_bytes
    return int(chosen(rdt, t_ns)[index, cache])


def resctrl_table(rdt: Rdt, t_ns: int) -> ResctrlTable:
    """Every group as a source hands it over."""
    occupancy, traffic = _occupancy_bytes(rdt, t_ns), _traffic_bytes(rdt, t_ns)
    caches = rdt.model.layout.topology.l3

    def in_cache(index: int, column: int, cache: L3Cache) -> GroupCache:
        group, moved = rdt.groups[index], int(traffic[index, column])
        return GroupCache(
            l3=cache.id,
            cbm=mask_of(group, column),
            code=None,
            mba=group.mba_percent,
            values={
                "llc_occupancy": int(occupancy[index, column]),
                "mbm_total_bytes": moved,
                "mbm_local_bytes": moved,
            },
        )

    return ResctrlTable(
        groups=tuple(
            ResctrlGroup(
                name=group.name,
                inode=_FIRST_INODE + index,
                clos=group.clos,
                cpus=rdt.cpus[index],
                mode="shareable",
                caches=tuple(in_cache(index, at, cache) for at, cache in enumerate(caches)),
                rmid=index,
            )
            for index, group in enumerate(rdt.groups)
        ),
        domains=tuple(
            CacheDomain(
                l3=cache.id,
                ways=L3_WAYS,
                size_bytes=cache.size_bytes,
                io=IoWays(IO_WAYS, "cpuid"),
                usage=_usage([mask_of(group, at) for group in rdt.groups]),
                read_on=cache.cpus[0],
            )
            for at, cache in enumerate(caches)
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


def appetites(cpus: Sequence[Sequence[int]], layout: Layout, now: Now) -> tuple[Floats, Floats]:
    """What each of g groups of CPUs would fill of the cache beside them, and at which pace.

    Returns:
        float64 (g,), bytes; float64 (g,), the pace as `settle` takes it.
    """
    system = workloads.working_set_bytes("system")
    one = {int(info.cpu): (system, _SYSTEM_SHARE) for info in layout.topology.cpus}
    for placed in layout.placed:
        load = now.load.get(placed.task.name, placed.task.load)
        kept = workloads.working_set_bytes(placed.task.workload)
        share = load if placed.task.kind == "vm" else 1.0
        pace = 1.0 + workloads.load(placed.task.workload, ht=placed.task.ht).bytes_per_cycle
        one |= dict.fromkeys(placed.cpus, (kept * share, pace * share))
    sums = [np.sum([one[cpu] for cpu in own] or [(0.0, 0.0)], axis=0) for own in cpus]
    wants, weights = np.array(sums).T
    return wants, weights


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


def _occupancy_bytes(rdt: Rdt, t_ns: int) -> Floats:
    """Whole lines, float64 (g, d)."""
    model = rdt.model
    if t_ns < 0:
        raise ValueError(f"the simulated host starts at 0 ns, not at {t_ns}")
    now = rdt.levels[0]
    ends = (*model.starts_ns[1:], t_ns)
    for level, start, end in zip(rdt.levels, model.starts_ns, ends, strict=True):
        spent_s = max(min(end, t_ns) - start, 0) / 1e9
        now = level + (now - level) * math.exp(-spent_s / SETTLE_S)
    # It breathes as the rates do, and never beyond what it could fill.
    period_ns = round(model.scenario.period_s * 1e9)
    phase = np.arange(len(rdt.groups)) * _GOLDEN * math.tau
    wave = np.sin(t_ns % period_ns / period_ns * math.tau + phase)
    breathing = now * (1.0 - model.scenario.swing * (1.0 + wave) / 2.0)[:, None]
    return np.asarray(np.floor(breathing / _LINE_BYTES) * _LINE_BYTES)


def _traffic_bytes(rdt: Rdt, t_ns: int) -> Floats:
    """Bytes since the start, float64 (g, d)."""
    counts = rdt.model.counts(t_ns)
    lines = counts[:, INDEX["cas_reads"]] + counts[:, INDEX["cas_writes"]]
    moved = np.zeros(rdt.levels.shape[1:])
    for column, cache in enumerate(rdt.model.layout.topology.l3):
        here = frozenset(cache.cpus)
        for index, cpus in enumerate(rdt.cpus):
            moved[index, column] = lines[[cpu for cpu in cpus if cpu in here]].sum() * _LINE_BYTES
    return moved


def _cpus(groups: tuple[Group, ...], layout: Layout) -> tuple[tuple[Cpu, ...], ...]:
    """The CPUs of each group; the root group, which is the first, has those no other has."""
    of_task: dict[str, list[Cpu]] = {}
    for placed in layout.placed:
        of_task.setdefault(placed.task.name, []).extend(placed.cpus)
    named = [
        tuple(sorted(cpu for task in group.tasks for cpu in of_task.get(task, ())))
        for group in groups
        if group.name != ROOT
    ]
    taken = frozenset(cpu for cpus in named for cpu in cpus)
    rest = tuple(info.cpu for info in layout.topology.cpus if info.cpu not in taken)
    return (rest, *named)


def _bits(mask: Cbm) -> list[bool]:
    return [mask.has(way) for way in range(mask.width)]
