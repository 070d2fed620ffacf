"""Counts per second of a CPU: of every task's threads, and of a CPU left to the system.

A quantity grows at the rate a + b sin(...), see `model`; here are a and b of one phase.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from nftop.model.clock import NS_PER_S
from nftop.model.column import Floats
from nftop.model.ids import Cpu
from nftop.model.struct import dataclass, field, replace
from nftop.sim import processor as processors
from nftop.sim import workloads
from nftop.sim.layout import Layout, Placed
from nftop.sim.scenario import Lookups, Scenario, Stolen, Task
from nftop.sim.workloads import INDEX, IO_REQUESTS, QUANTITIES, SWINGING, Workload

_SWINGS = np.array([name in SWINGING for name in QUANTITIES], dtype=np.float64)
# Busy share of a CPU that runs the system, of others, and of isolated siblings of pollers.
# Assumptions, as are the context switches per second.
_HOUSE_RATIO, _ALONE_RATIO, _ISOLATED_RATIO = 0.04, 0.012, 0.0002
_SWITCHES_PER_BUSY_S, _SWITCHES_OF_POLLER, _SWITCHES_OF_THIEF = 9000.0, 0.2, 250.0
# Reads of device registers per second by a poller, for its statistics; an assumption.
_MMIO_READS_OF_POLLER = 100.0
# Shares of user, system and softirq time of other programs.
_USER_SHARE, _SYSTEM_SHARE, _SOFTIRQ_SHARE = 0.6, 0.3, 0.1
# Packets that a VPP worker takes at a time: all that it can (VLIB_FRAME_SIZE) if it is saturated,
# else an assumption.
_WHOLE_FRAME, _SMALL_FRAME = 256, 32
_ROUNDING = 1e-9
# Cycles that a packet waits if its header is not in the cache: an eighth of a read of memory, since
# pollers prefetch; an assumption.
_IO_MISS_CYCLES = 25.0
# Multiples of the golden ratio spread evenly.
GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True, slots=True)
class Now:
    """State of one phase.

    Attributes:
        load, slowed, stolen, times, lookups: by task, as in `ScenarioStep`.
        costs: by CPU, in place of `slowed`.
        limits: by CPU, the share (0..1) of bandwidth that MBA allows, if limited.
        hz: float64 (n,), each CPU's frequency; None: as the workloads were measured.
        io_misses: by CPU, share of its devices' requests that miss the cache, if ways of I/O are
            set.
        full: whether pollers are saturated, where their load does not decide that: more than the
            load may then be taken in, or more time be used than there is.
    """

    load: Mapping[str, float]
    slowed: Mapping[str, float]
    stolen: Mapping[str, float] = field(default_factory=dict)
    times: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    lookups: Mapping[str, Lookups] = field(default_factory=dict)
    costs: Mapping[int, float] = field(default_factory=dict)
    limits: Mapping[int, float] = field(default_factory=dict)
    hz: Floats | None = None
    io_misses: Mapping[int, float] = field(default_factory=dict)
    full: bool | None = None


def phases(scenario: Scenario) -> list[Now]:
    """The phases of a scenario: its start and every step."""
    phases = [Now({}, {})]
    for step in scenario.steps:
        before = phases[-1]
        phases.append(
            Now(
                {**before.load, **step.load},
                {**before.slowed, **step.slowed},
                {**before.stolen, **step.stolen},
                {**before.times, **step.times},
                {**before.lookups, **step.lookups},
            )
        )
    return phases


def stolen_ns(scenario: Scenario, task: Task, t_ns: int) -> int:
    """Time until `t_ns` in which part of a CPU of the task was stolen."""
    total, start_ns = 0, 0
    share = 0.0 if task.stolen is None else task.stolen.share
    for step in scenario.steps:
        end_ns = min(round(step.at_s * NS_PER_S), t_ns)
        total += end_ns - start_ns if share else 0
        start_ns, share = end_ns, step.stolen.get(task.name, share)
    return total + (t_ns - start_ns if share else 0)


def stolen_share(scenario: Scenario, task: Task, t_ns: int) -> float:
    """Share of a CPU of the task that something else takes at a time."""
    share = 0.0 if task.stolen is None else task.stolen.share
    for step in scenario.steps:
        if step.at_s * NS_PER_S <= t_ns:
            share = step.stolen.get(task.name, share)
    return share


def server_factor(scenario: Scenario, t_ns: int) -> float:
    """Factor on the sensor server's memory reads at a time."""
    states = [step.server for step in scenario.steps if round(step.at_s * NS_PER_S) < t_ns]
    return next((item for item in reversed(states) if item is not None), 1.0)


def first_limits(scenario: Scenario, layout: Layout) -> Mapping[int, float]:
    """`Now.limits` of the scenario's initial classes."""
    of_task = {task: group.mba_percent for group in scenario.groups for task in group.tasks}
    return {
        cpu: of_task[placed.task.name] / 100
        for placed in layout.placed
        if placed.task.name in of_task
        for cpu in placed.cpus
    }


@dataclass(slots=True)
class _Rates:
    """One CPU's a and b, summed over its work; `hz` is its frequency."""

    steady: Floats
    swinging: Floats
    hz: float

    def add(
        self, cycles_per_s: float, work: Floats, *, swing: float = 0.0, cycle_swing: float = 0.0
    ) -> None:
        """Cycles spent on a workload: `swing` of its work, `cycle_swing` of its cycles."""
        self.steady += cycles_per_s * work
        moving = work * _SWINGS
        moving[INDEX["macro_fused"]] = moving[INDEX["instructions"]]
        self.swinging += cycles_per_s * (swing * moving + cycle_swing * work)

    def book(self, **per_s: float) -> None:
        for name, rate in per_s.items():
            self.steady[INDEX[name]] += rate


def rates_of(scenario: Scenario, layout: Layout, now: Now) -> tuple[Floats, Floats]:
    """a and b per second of every CPU in one phase, float64 (n, k); k as in `QUANTITIES`."""
    rows = len(layout.topology.cpus)
    steady, swinging = np.zeros((rows, len(QUANTITIES))), np.zeros((rows, len(QUANTITIES)))
    hz = np.full(rows, workloads.core_hz()) if now.hz is None else now.hz
    polled = frozenset(cpu for placed in layout.placed for cpu in placed.cpus)
    polling_cores = layout.topology.with_siblings(polled)
    for placed in layout.placed:
        for cpu in placed.cpus:
            rates = _Rates(steady[cpu], swinging[cpu], float(hz[cpu]))
            _run_task(rates, cpu, (scenario, layout), placed, now)
    for cpu in (info.cpu for info in layout.topology.cpus if info.cpu not in polled):
        busy = _ISOLATED_RATIO if cpu in polling_cores else _ALONE_RATIO
        busy = _HOUSE_RATIO if cpu in layout.housekeeping.values() else busy
        rates = _Rates(steady[cpu], swinging[cpu], float(hz[cpu]))
        _run_system(rates, busy * (0.5 + cpu * GOLDEN % 1.0))
    cores = [(info.cpu, *info.siblings) for info in layout.topology.cpus]
    _count_clocks(steady, swinging, cores, hz, scenario.processor.tsc_hz)
    return steady, swinging


def rates_alone(workload: Workload) -> Floats:
    """Float64 (k,): counts per second of a thread alone on its core; k as in `QUANTITIES`."""
    steady, swinging = np.zeros((1, len(QUANTITIES))), np.zeros((1, len(QUANTITIES)))
    hz = workloads.core_hz()
    _Rates(steady[0], swinging[0], hz).add(hz, workloads.per_cycle(workload))
    _count_clocks(steady, swinging, [(0,)], np.full(1, hz), processors.load().tsc_hz)
    return np.asarray(steady[0])


def _count_clocks(
    steady: Floats, swinging: Floats, cores: Sequence[tuple[int, ...]], hz: Floats, tsc_hz: float
) -> None:
    """Fill clocks into a and b, float64 (n, k), from the cycles of each core's threads."""
    unhalted = steady[:, INDEX["cycles"]] / hz
    steady[:, INDEX["tsc"]] = tsc_hz
    steady[:, INDEX["ref_cycles"]] = unhalted * tsc_hz
    for cpu, threads in enumerate(cores):
        core = list(threads)
        halted = math.prod(1.0 - unhalted[core])
        steady[cpu, INDEX["core_clocks"]] = (1.0 - halted) * hz[cpu]
        # The clocks of a core are distributed to its threads in proportion to their own.
        share = unhalted[cpu] / max(unhalted[core].sum(), 1e-9)
        steady[cpu, INDEX["distributed_clocks"]] = steady[cpu, INDEX["core_clocks"]] * share
        alone = math.prod(1.0 - unhalted[core[1:]])
        steady[cpu, INDEX["lone_ref_cycles"]] = unhalted[cpu] * alone * tsc_hz
        for array in (steady, swinging):
            recovery = array[core, INDEX["recovery_cycles"]].sum()
            array[cpu, INDEX["core_recovery_cycles"]] = recovery


def _run_task(
    rates: _Rates, cpu: Cpu, host: tuple[Scenario, Layout], placed: Placed, now: Now
) -> None:
    task = placed.task
    if task.kind == "vm":
        load = now.load.get(task.name, task.load)
        _run_vm(rates, task.workload, load, now.limits.get(cpu, 1.0))
        return
    _forward(rates, cpu, host, placed, now)
    if cpu in now.io_misses:
        _miss(rates, now.io_misses[cpu])
    if task.kind == "ovs":
        _count_lookups(rates, now.lookups.get(task.name, Lookups()))
    for name, factor in now.times.get(task.name, {}).items():
        rates.steady[INDEX[name]] *= factor
        rates.swinging[INDEX[name]] *= factor


def _miss(rates: _Rates, ratio: float) -> None:
    """This share of the devices' requests misses the last-level cache."""
    for array in (rates.steady, rates.swinging):
        for kind in IO_REQUESTS:
            hit, miss = INDEX[f"{kind}_hit"], INDEX[f"{kind}_miss"]
            total = array[hit] + array[miss]
            array[hit], array[miss] = total * (1.0 - ratio), total * ratio


def _forward(
    rates: _Rates, cpu: Cpu, host: tuple[Scenario, Layout], placed: Placed, now: Now
) -> None:
    (scenario, layout), task = host, placed.task
    load = now.load.get(task.name, task.load)
    paired = _paired(layout, placed, cpu)
    offered = workloads.load(task.workload, ht=paired)
    if task.frame_bytes is not None:
        offered = workloads.with_frames(offered, task.frame_bytes)
    cost = now.costs.get(cpu, now.slowed.get(task.name, 1.0))
    cost *= 1.0 + now.io_misses.get(cpu, 0.0) * _IO_MISS_CYCLES * offered.packets_per_cycle
    actual = workloads.slowed(offered, cost)
    index = placed.cpus.index(cpu)
    stolen = task.stolen if task.stolen is not None and task.stolen.thread == index else None
    if stolen is not None:
        stolen = replace(stolen, share=now.stolen.get(task.name, stolen.share))
    # The offered load is that for `offered_hz`, at any frequency.
    load *= scenario.offered_hz / rates.hz
    _poll(rates, scenario, task, _Offer(load, offered, actual, paired, stolen, now.full))


def _count_lookups(rates: _Rates, shares: Lookups) -> None:
    """Each packet is one lookup in OVS' flow tables."""
    of_packets = {
        "emc_hits": shares.emc,
        "megaflow_hits": 1.0 - shares.emc - shares.upcalls,
        "upcalls": shares.upcalls,
        "lost_upcalls": shares.lost,
    }
    for name, share in of_packets.items():
        for array in (rates.steady, rates.swinging):
            array[INDEX[name]] = share * array[INDEX["packets"]]


def least_cost(layout: Layout, placed: Placed, cpu: Cpu) -> float:
    """Least cost of a packet for a poller, relative to the undisturbed cost."""
    work = workloads.load(placed.task.workload, ht=_paired(layout, placed, cpu))
    return workloads.least_cost(work)


def _paired(layout: Layout, placed: Placed, cpu: Cpu) -> bool:
    siblings = layout.topology.cpus[cpu].siblings
    return placed.task.ht and any(other in placed.cpus for other in siblings)


@dataclass(frozen=True, slots=True)
class _Offer:
    """Load offered to a poller relative to `offered`, and its present workload; `Now.full`."""

    load: float
    offered: Workload
    actual: Workload
    paired: bool
    stolen: Stolen | None
    full: bool | None


def _poll(rates: _Rates, scenario: Scenario, task: Task, offer: _Offer) -> None:
    """A poller: busy while there are packets, else empty polls."""
    hz, tsc_hz = rates.hz, scenario.processor.tsc_hz
    lost = offer.stolen.share if offer.stolen is not None else 0.0
    wanted = offer.load * offer.offered.packets_per_cycle / offer.actual.packets_per_cycle
    mine = 1.0 - lost
    saturated = wanted >= mine if offer.full is None else offer.full
    busy = mine if saturated else wanted
    work = _of_thread(workloads.per_cycle(offer.actual), paired=offer.paired)
    work[INDEX["work_cycles"]] = tsc_hz / hz
    whole = wanted >= mine * (1 - _ROUNDING) if offer.full is None else saturated
    frame = _WHOLE_FRAME if whole else _SMALL_FRAME
    work[INDEX["frames"]] = work[INDEX["packets"]] / frame
    if saturated:
        rates.add(hz * busy, work, swing=scenario.swing)
    else:
        empty = _of_thread(workloads.per_cycle(workloads.load("poll")), paired=offer.paired)
        # A varying load uses cycles of empty polls, if there are any.
        swing = max(min(task.load_swing, mine / wanted - 1.0), 0.0) if wanted > 0 else 0.0
        rates.add(hz * busy, work, cycle_swing=swing)
        rates.add(hz * (mine - busy), empty)
        rates.swinging -= hz * busy * swing * empty
    packets_per_s = hz * work[INDEX["packets"]]
    rates.book(
        missed=(wanted - busy) * packets_per_s,
        run_ns=mine * NS_PER_S,
        wait_ns=lost * NS_PER_S,
        involuntary=_SWITCHES_OF_THIEF * lost,
        mmio_reads=_MMIO_READS_OF_POLLER,
        context_switches=_SWITCHES_OF_POLLER + 2 * _SWITCHES_OF_THIEF * lost,
        user_s=1.0,
    )
    if lost:
        system = workloads.per_cycle(workloads.load("system"))
        rates.add(hz * lost, _of_thread(system, paired=offer.paired))


def slowed_by_limit(busy: float, limit: float) -> float:
    """Factor by which MBA slows a memory tester that runs for `busy` of its time.

    100 % are what it streams at most (12 or 13 GB/s), an assumption. Network functions need less
    than the least limit of 10 %, so none is slowed.
    """
    return max(busy / limit, 1.0)


def _run_vm(rates: _Rates, workload: str, busy: float, limit: float) -> None:
    """A memory tester that runs for `busy` of its time, with a share of its bandwidth."""
    slower = slowed_by_limit(busy, limit)
    work = workloads.per_cycle(workloads.throttled(workloads.load(workload), slower))
    rates.add(rates.hz * busy, work)
    rates.book(run_ns=busy * NS_PER_S, user_s=busy, context_switches=40.0)


def _run_system(rates: _Rates, busy: float) -> None:
    """A CPU without pollers: the rest of the system."""
    rates.add(rates.hz * busy, workloads.per_cycle(workloads.load("system")))
    rates.book(
        run_ns=busy * NS_PER_S / 4,  # an application's main thread, where one lives here
        context_switches=busy * _SWITCHES_PER_BUSY_S,
        user_s=busy * _USER_SHARE,
        system_s=busy * _SYSTEM_SHARE,
        softirq_s=busy * _SOFTIRQ_SHARE,
    )


def _of_thread(work: Floats, *, paired: bool) -> Floats:
    """A core's workload per cycle of one thread: each of two does half."""
    thread = work * (0.5 if paired else 1.0)
    thread[INDEX["cycles"]] = 1.0
    return thread
