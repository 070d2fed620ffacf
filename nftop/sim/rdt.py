"""Cache classes of the simulated host: occupancy, memory traffic, cost of packets, and changes.

Everything is a closed form in time, as in the rest of the model. Assumptions:

Occupancy at rest (`settle`, `filled`):
- A CPU wants the working set of its thread: a virtual machine's in proportion to its load, because
  lines that are seldom used are evicted; all of a network function's.
- In ways that several groups may fill they grow together until each has what it wants or the ways
  are full. A thread grows at a rate of 1 while it runs, plus 1 for every byte of memory that it
  moves per cycle. The CPUs of a group share its bytes by the same rule.

Transitions and counts:
- When a scenario step or a change of classes alters what groups fill, occupancy approaches its new
  level exponentially with time constant `SETTLE_S`: lines leave only when others need the room.
- So does what a packet costs. A poller that drops meanwhile works all the time and fills its
  vectors, until it takes in all that is offered (`_course`).
- A CPU's lines are its group's: moved to another group it starts from nothing.
- Allocations by I/O are not metered and take no room. With ways of I/O that are set (io_alloc) and
  smaller than the pollers' buffers, their requests miss the cache (`io_misses_of`).
- MBM counts a group's CPUs' lines in both directions; all memory is local. The count of a removed
  monitoring group stays in its control group's.
- MBA slows memory testers only (`rates.slowed_by_limit`).

Cost of a packet by the cache that its poller keeps (`cost`, `costs`), after the RDT paper
("Deterministic Network Functions Virtualization with Intel Resource Director Technology"): OVS and
virtual machines on a Xeon E5-2658 v3, 20 ways of 1.5 MiB, with memtester as the noisy neighbour.
With `kept` the share (0..1) that pollers keep of what they fill undisturbed (Table 1), packets per
second fall to

    1 / (1 + sensitivity * (1 - kept))

of the undisturbed rate. The paper does not report `kept`: it is computed by `settle` for its cache,
occupancies and masks (Tables 8, 13 and 18). `SENSITIVITY` is fitted for each frame size to the row
with the largest loss, without cache allocation against without a neighbour:

     64 bytes   Table 9    -5.8 %  (printed under "WithCAT"; the text names the neighbour)
    256 bytes   Table 14   -7.2 %
   1024 bytes   Table 19  -33.7 %
   1518 bytes   Table 19  -30.6 %

Rows of the same sizes without loss (Tables 14 and 19 at 64 bytes, 9 and 14 from 1024 on) were
limited by something other than the pollers. With the masks of Tables 13 and 18 the formula recovers
nearly all of the loss, as in the paper: it measured 1.8 % left at 256 bytes, 3.1 % at 1024 and
7.6 % at 1518; the formula gives 0, 0 and 1.7 %. Simulated hosts forward 64-byte frames.

Beyond the initial occupancy the cost falls with the same slope, flattening towards the cost without
any wait for memory (`workloads.least_cost`): an assumption.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from nftop.model.column import Bools, Floats
from nftop.model.ids import Cpu
from nftop.model.rdt.rdt import (
    EVENTS,
    Event,
    ResctrlTable,
    split_path,
)
from nftop.model.sample import Counts
from nftop.model.struct import dataclass, replace
from nftop.sim import workloads
from nftop.sim.classes import ALL_PERCENT, SimulatedClasses, class_table, first_classes
from nftop.sim.frequency import CoreFrequencies
from nftop.sim.layout import Layout
from nftop.sim.model import SETTLE_S, Model, altered, phase_starts_ns, without
from nftop.sim.payloads import thread_table
from nftop.sim.rates import GOLDEN, Now, least_cost, phases, rates_of, slowed_by_limit
from nftop.sim.workloads import INDEX

SENSITIVITY: Mapping[int, float] = MappingProxyType(
    {64: 0.112, 256: 0.142, 1024: 0.638, 1518: 0.529}
)
_FRAME_BYTES = 64
# A scenario's slowdown is attributed to the cache if less than this share was kept.
_DISTURBED = 0.8


def cost(kept: float, sensitivity: float, *, at: float, measured: float, least: float) -> float:
    """Cost of a packet relative to the undisturbed cost.

    Args:
        kept: bytes held / bytes held undisturbed.
        sensitivity: decrease of the cost for a share of 1.
        at: a share whose cost is known.
        measured: that cost.
        least: lower limit.
    """
    if kept <= at:
        return measured + sensitivity * (at - kept)
    room = measured - least
    if room <= 0:
        return measured
    return measured - room * -math.expm1(-sensitivity * (kept - at) / room)


def costs(layout: Layout, now: Now, held: Floats, usual: Floats, first: Floats) -> dict[int, float]:
    """By CPU of a poller, cost of a packet in a phase with these bytes of cache.

    With the scenario's initial classes it is the scenario's: where it slows a task, that is the
    cost of the lost bytes.

    Args:
        layout: of the host.
        now: the phase.
        held: float64 (n,), bytes of each of n CPUs.
        usual: the same with the first classes, in this phase.
        first: and in the first phase.
    """
    result = {}
    for placed in layout.placed:
        if placed.task.kind == "vm":
            continue
        slowed = now.slowed.get(placed.task.name, 1.0)
        otherwise = workloads.cache_sensitivity(placed.task.workload, SENSITIVITY[_FRAME_BYTES])
        for cpu in placed.cpus:
            kept, at = float(held[cpu] / first[cpu]), float(usual[cpu] / first[cpu])
            least = least_cost(layout, placed, cpu)
            if slowed > 1.0 and at < _DISTURBED:
                sensitivity = (slowed - 1.0) / (1.0 - at)
                result[cpu] = cost(kept, sensitivity, at=1.0, measured=1.0, least=least)
            else:
                result[cpu] = cost(kept, otherwise, at=at, measured=slowed, least=least)
    return {int(cpu): item for cpu, item in result.items()}


# Share of time in which a CPU without pollers competes for cache; an assumption.
_SYSTEM_SHARE = 0.02


def appetites_of_cpus(layout: Layout, now: Now) -> Floats:
    """Bytes and pace of each of n CPUs: float64 (2, n)."""
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
    """Share of each of n CPUs in its group's bytes, by the rule of `settle`."""
    return settle(np.ones((len(wants), 1), dtype=np.bool_), wants, paces, level)


def settle(masks: Bools, wants: Floats, weights: Floats, way_bytes: float) -> Floats:
    """Bytes that groups fill: they grow together until they have enough or the ways are full.

    Args:
        masks: bool (g, w), which of w ways each of g groups may fill.
        wants: float64 (g,), bytes it would fill.
        weights: float64 (g,), relative pace, spread over its ways.
        way_bytes: size of a way.

    Returns:
        float64 (g,), bytes: at most those wanted, those of the mask, and in total those of the
            ways.
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


def filled(layout: Layout, classes: SimulatedClasses, now: Now) -> tuple[Floats, Floats]:
    """Bytes that groups fill, float64 (g, d), and of these each CPU, float64 (n,)."""
    one, groups = appetites_of_cpus(layout, now), classes.groups
    caches, members = layout.topology.l3, members_of(classes)
    rows = {where: row for row, where in enumerate(classes.paths)}
    levels, by_cpu = np.zeros((len(rows), len(caches))), np.zeros(one.shape[1])
    for column, cache in enumerate(caches):
        here = frozenset(cache.cpus)
        local_cpus = {where: [cpu for cpu in own if cpu in here] for where, own in members.items()}
        wants, paces = np.array([one[:, local_cpus[group]].sum(axis=1) for group in groups]).T
        of_groups = [classes.mask(group, cache.id) for group in groups]
        masks = np.array([[mask.has(way) for way in range(mask.width)] for mask in of_groups])
        settled = settle(masks, wants, paces, cache.size_bytes / classes.ways)
        for group, level in zip(groups, settled, strict=True):
            own = local_cpus[group]
            by_cpu[own] = shared_out(float(level), *one[:, own]) if own else 0.0
            levels[rows[group], column] = level
        for where in rows.keys() - set(groups):
            levels[rows[where], column] = by_cpu[local_cpus[where]].sum()
    return levels, by_cpu


def members_of(classes: SimulatedClasses) -> Mapping[str, list[int]]:
    """By group its CPUs; a control group's include its monitoring groups'."""
    result: dict[str, list[int]] = {where: [] for where in classes.paths}
    for cpu, where in sorted(classes.runs().items()):
        group = split_path(where)[0]
        result[group].append(cpu)
        if where != group:
            result[where].append(cpu)
    return result


def limits_of(layout: Layout, classes: SimulatedClasses) -> dict[int, float]:
    """By CPU the share of bandwidth that MBA allows its class, if limited."""
    l3_of = {int(info.cpu): info.l3 for info in layout.topology.cpus}
    result = {}
    for cpu, where in classes.runs().items():
        l3 = l3_of[cpu]
        percent = None if l3 is None else classes.mba_percent(split_path(where)[0], l3)
        if percent is not None and percent < ALL_PERCENT:
            result[cpu] = percent / 100
    return result


# Buffers that the devices of a polling thread write in turn; an assumption.
_BUFFER_BYTES = 576 * 1024


def io_misses_of(layout: Layout, classes: SimulatedClasses) -> dict[int, float]:
    """By CPU of a poller the share of its devices' requests that miss the cache.

    Empty unless ways of I/O are set (io_alloc): then lines are thrown out before they are read once
    the buffers of all pollers at a cache are larger than these ways.
    """
    if not classes.io_alloc:
        return {}
    pollers = [cpu for placed in layout.placed if placed.task.kind != "vm" for cpu in placed.cpus]
    result: dict[int, float] = {}
    for cache in layout.topology.l3:
        mine = [cpu for cpu in pollers if cpu in cache.cpus]
        room = classes.io(cache.id).cbm.bytes(cache.size_bytes)
        kept = min(room / (_BUFFER_BYTES * len(mine)), 1.0) if mine else 1.0
        ratio = 1.0 - kept * (1.0 - workloads.IO_MISS_RATIO)
        result |= {int(cpu): ratio for cpu in mine}
    return result


_LINE_BYTES = 64


@dataclass(frozen=True, slots=True)
class Stretch:
    """The classes in one stretch of the model.

    Attributes:
        cpus: of each of g groups (`SimulatedClasses.places`) the monitored CPUs.
        levels: float64 (g, d), bytes that each group finally fills of each of d caches.
        held: the same at the begin of the stretch. moved: bytes of memory since the group was
            created.
    """

    classes: SimulatedClasses
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
    def classes(self) -> SimulatedClasses:
        """After the last change."""
        return self.stretches[-1].classes

    @property
    def frequencies(self) -> CoreFrequencies:
        """After the last change."""
        return self.model.frequencies[-1]


def rdt_of(model: Model) -> Rdt:
    """The resctrl of a simulated host, with the classes of its scenario."""
    threads = thread_table(model, 0, 0).threads
    classes = first_classes(model.scenario, model.layout, threads)
    limits = limits_of(model.layout, classes)
    nows = [replace(now, limits=limits) for now in phases(model.scenario)]
    filled_phases = [filled(model.layout, classes, now) for now in nows]
    first = replace(_begun(classes, filled_phases[0][0]), held=filled_phases[0][0])
    rdt = Rdt(model, (first,), np.stack([by_cpu for _, by_cpu in filled_phases]))
    for start_ns, (levels, _) in zip(model.starts_ns[1:], filled_phases[1:], strict=True):
        rdt = _followed(rdt, classes, levels, start_ns)
    return rdt


def changed(
    rdt: Rdt, at_ns: int, classes: SimulatedClasses, frequencies: CoreFrequencies | None = None
) -> Rdt:
    """The same host with other classes, and optionally frequencies, from a time on.

    `at_ns`: since the start, not before the last change.
    """
    model, layout = rdt.model, rdt.model.layout
    frequencies = frequencies or rdt.frequencies
    begun = phase_starts_ns(model.scenario)
    first = sum(start <= at_ns for start in begun) - 1
    starts_ns = (at_ns, *begun[first + 1 :])
    levels, rates, nows = [], [], []
    for index, now in list(enumerate(phases(model.scenario)))[first:]:
        limited = replace(now, limits=limits_of(layout, classes))
        level, held = filled(layout, classes, limited)
        cost = costs(layout, now, held, rdt.usual[index], rdt.usual[0])
        levels.append(level)
        nows.append(
            replace(limited, costs=cost, hz=frequencies.hz, io_misses=io_misses_of(layout, classes))
        )
        rates.append(rates_of(model.scenario, layout, nows[-1]))
    kept = rdt.stretches[: model.stretch(at_ns) + 1]
    approaches = [_Approach(at_ns, rates[0])]
    if frequencies is rdt.frequencies:
        approaches = _course(model, at_ns, nows[0], rates[0])
    later_ns = starts_ns[1:]
    approaches = [item for item in approaches if not later_ns or item.start_ns < later_ns[0]]
    for item in approaches:
        own = (item.start_ns, *later_ns), [item.rates, *rates[1:]]
        model = altered(model, item.start_ns, *own, frequencies, at_once=item.crossing)
    rdt = replace(rdt, model=model, stretches=kept)
    for item in approaches:
        rdt = _followed(rdt, classes, levels[0], item.start_ns)
    for start_ns, level in zip(later_ns, levels[1:], strict=True):
        rdt = _followed(rdt, classes, level, start_ns)
    return rdt


@dataclass(frozen=True, slots=True)
class _Approach:
    """A time from which counts approach some rates.

    `crossing`: CPUs that become saturated then, or no longer are.
    """

    start_ns: int
    rates: tuple[Floats, Floats]
    crossing: tuple[int, ...] = ()


def _course(model: Model, at_ns: int, now: Now, rates: tuple[Floats, Floats]) -> list[_Approach]:
    """The way to new rates, so that a poller which drops has no time left, and only that one.

    One that drops at one end only approaches what it would do if it went on as before, until it
    drops nothing any more or has no time left.
    """
    before = model.rates(at_ns)[0]
    full, free = (
        rates_of(model.scenario, model.layout, replace(now, full=regime))
        for regime in (True, False)
    )
    missed, work = INDEX["missed"], INDEX["work_cycles"]
    times_ns: dict[int, int] = {}
    via = tuple(half.copy() for half in rates)
    for cpu in (cpu for placed in model.layout.placed for cpu in placed.cpus):
        dropped, drops = (table[cpu, missed] > _LEAST_MISSED_PER_S for table in (before, rates[0]))
        if dropped == drops:
            continue
        on, what, goal = (full, missed, 0.0) if dropped else (free, work, full[0][cpu, work])
        first, last = float(before[cpu, what]), float(on[0][cpu, what])
        left = (goal - last) / (first - last) if first != last else 1.0
        if 0.0 < left < 1.0:
            times_ns[cpu] = at_ns + round(-math.log(left) * SETTLE_S * 1e9)
            for half, tables in zip(via, on, strict=True):
                half[cpu] = tables[cpu]
    approaches = []
    for start_ns in sorted({at_ns, *times_ns.values()}):
        still = [cpu for cpu, time_ns in times_ns.items() if time_ns > start_ns]
        steady, swinging = (half.copy() for half in rates)
        steady[still], swinging[still] = via[0][still], via[1][still]
        crossing = tuple(cpu for cpu, time_ns in times_ns.items() if time_ns == start_ns)
        approaches.append(_Approach(start_ns, (steady, swinging), crossing))
    return approaches


_LEAST_MISSED_PER_S = 1.0


def forgetting(rdt: Rdt, before_ns: int) -> Rdt:
    """The same host without its history before a time."""
    gone = rdt.model.stretch(max(before_ns, rdt.model.starts_ns[0]))
    return replace(rdt, model=without(rdt.model, gone), stretches=rdt.stretches[gone:])


def value(rdt: Rdt, where: str, l3: int, event: Event, t_ns: int) -> int:
    """`event` of a group's `mon_data` for a cache at `t_ns` since the start, in bytes.

    Raises:
        KeyError: unknown group, cache or event; ValueError: the time is before the start.
    """
    at = rdt.model.stretch(t_ns)
    index = {item: row for row, item in enumerate(rdt.stretches[at].classes.paths)}[where]
    cache = {int(item.id): at for at, item in enumerate(rdt.model.layout.topology.l3)}[l3]
    if event not in EVENTS:
        raise KeyError(event)
    chosen = _occupancy_bytes if event == "llc_occupancy" else _traffic_bytes
    return int(chosen(rdt, at, t_ns)[index, cache])


def resctrl_table(rdt: Rdt, t_ns: int) -> ResctrlTable:
    at = rdt.model.stretch(t_ns)
    classes = rdt.stretches[at].classes
    occupancy, traffic = _occupancy_bytes(rdt, at, t_ns), _traffic_bytes(rdt, at, t_ns)
    rows = {where: row for row, where in enumerate(classes.paths)}

    def metered(where: str, column: int) -> Mapping[Event, int]:
        moved = int(traffic[rows[where], column])
        used = int(occupancy[rows[where], column])
        return {"llc_occupancy": used, "mbm_total_bytes": moved, "mbm_local_bytes": moved}

    return class_table(classes, rdt.model.layout.topology.l3, metered)


def _occupancy_bytes(rdt: Rdt, at: int, t_ns: int) -> Floats:
    """Whole lines, float64 (g, d)."""
    model, paths = rdt.model, rdt.stretches[at].classes.paths
    now = _held(rdt, at, t_ns)
    # It varies as the rates do, limited by the ways.
    period_ns = round(model.scenario.period_s * 1e9)
    phase = np.array([rdt.stretches[at].classes.rmids[item] for item in paths]) * GOLDEN * math.tau
    wave = np.sin(t_ns % period_ns / period_ns * math.tau + phase)
    breathing = now * (1.0 - model.scenario.swing * (1.0 + wave) / 2.0)[:, None]
    return np.asarray(np.floor(breathing / _LINE_BYTES) * _LINE_BYTES)


def _held(rdt: Rdt, at: int, t_ns: int) -> Floats:
    """Bytes that the groups of a stretch hold at a time, float64 (g, d)."""
    stretch = rdt.stretches[at]
    spent_s = (t_ns - rdt.model.starts_ns[at]) / 1e9
    left = math.exp(-spent_s / SETTLE_S)
    return np.asarray(stretch.levels + (stretch.held - stretch.levels) * left)


def _traffic_bytes(rdt: Rdt, at: int, t_ns: int) -> Floats:
    """Bytes since a group was created, float64 (g, d)."""
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


def _followed(rdt: Rdt, classes: SimulatedClasses, levels: Floats, start_ns: int) -> Rdt:
    """With another stretch, which continues from the end of the last."""
    at, last = len(rdt.stretches) - 1, rdt.stretches[-1]
    known = {last.classes.inode(where): row for row, where in enumerate(last.classes.paths)}
    held, moved = _held(rdt, at, start_ns), _traffic_bytes(rdt, at, start_ns)
    begun = _begun(classes, levels)
    for row, where in enumerate(classes.paths):
        before = known.get(classes.inode(where))
        if before is not None:
            begun.held[row], begun.moved[row] = held[before], moved[before]
    return replace(rdt, stretches=(*rdt.stretches, begun))


def _begun(classes: SimulatedClasses, levels: Floats) -> Stretch:
    """A stretch in which all groups are new and empty."""
    members = members_of(classes)
    cpus = tuple(tuple(map(Cpu, members[where])) for where in classes.paths)
    return Stretch(classes, cpus, levels, np.zeros_like(levels), np.zeros_like(levels))
