"""The model: every count of every CPU at any time, in closed form.

Between two steps of the scenario a quantity q of a CPU grows at the rate

    a + b sin(2 pi t / period + phase of the CPU)

so its count is the sum over the steps of `a` times the time spent there and `b` times the sine's
integral. Nothing is accumulated: the same time gives the same counts, whatever was asked before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nftop.model.column import Floats
from nftop.model.ids import Cpu
from nftop.model.sample import Counts
from nftop.sim import workloads
from nftop.sim.layout import TSC_HZ, Layout, Placed, build
from nftop.sim.scenario import Scenario, Stolen, Task
from nftop.sim.workloads import INDEX, QUANTITIES, SWINGING, Workload

_S = 1_000_000_000
_SWINGS = np.array([name in SWINGING for name in QUANTITIES], dtype=np.float64)
# How much of its time a CPU runs something: one that keeps house, one left alone, one isolated
# whose sibling polls. Assumptions, as are the context switches a second.
_HOUSE_RATIO, _ALONE_RATIO, _ISOLATED_RATIO = 0.04, 0.012, 0.0002
_SWITCHES_PER_BUSY_S, _SWITCHES_OF_POLLER, _SWITCHES_OF_THIEF = 9000.0, 0.2, 250.0
# A poller's reads of device registers a second, for its statistics; an assumption.
_MMIO_READS_OF_POLLER = 100.0
# How the kernel books the time of what is not a poller.
_USER_SHARE, _SYSTEM_SHARE, _SOFTIRQ_SHARE = 0.6, 0.3, 0.1
# Neighbouring CPUs swing out of step with each other: multiples of the golden ratio spread evenly.
_GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True, slots=True)
class Model:
    """The simulated host.

    Attributes:
        scenario, layout: what it was built from.
        starts_ns: when each of the scenario's p phases begins; the first is 0.
        steady, swinging: float64 (p, n, k), a and b per second for n CPUs and k `QUANTITIES`.
        phase: float64 (n,), radians.
    """

    scenario: Scenario
    layout: Layout
    starts_ns: tuple[int, ...]
    steady: Floats
    swinging: Floats
    phase: Floats

    def counts(self, t_ns: int) -> Counts:
        """Every count at `t_ns` since the start, uint64 (n, k); k as in `QUANTITIES`.

        Raises:
            ValueError: the time is before the start.
        """
        return np.floor(self.exact(t_ns)).astype(np.uint64)

    def exact(self, t_ns: int, cpus: Sequence[int] | slice = slice(None)) -> Floats:
        """As `counts`, before a counter has cut off its fraction: float64 (n, k).

        `cpus`: the rows wanted, where a few of them will do.
        """
        if t_ns < 0:
            raise ValueError(f"the simulated host starts at 0 ns, not at {t_ns}")
        phase = self.phase[cpus]
        total = np.zeros((len(phase), len(QUANTITIES)))
        ends = (*self.starts_ns[1:], t_ns)
        for index, (start, end) in enumerate(zip(self.starts_ns, ends, strict=True)):
            until = min(end, t_ns)
            if until > start:
                total += self.steady[index, cpus] * ((until - start) / _S)
                total += self.swinging[index, cpus] * self._sine(start, until, phase)[:, None]
        return total

    def _sine(self, start_ns: int, end_ns: int, phase: Floats) -> Floats:
        """The sine's integral over [start, end) in seconds, for each phase."""
        period_ns = round(self.scenario.period_s * _S)
        # Whole periods cancel; taking them off in integers keeps that exact however long it runs.
        begin, end = ((each % period_ns) / period_ns * math.tau for each in (start_ns, end_ns))
        scale = self.scenario.period_s / math.tau
        return np.asarray(scale * (np.cos(begin + phase) - np.cos(end + phase)))


def model_of(scenario: Scenario, cpus: int, *, smt: bool = True) -> Model:
    """The scenario on a host of this many CPUs; ValueError if the host can't have so many.

    `smt`: with hyper-threading.
    """
    layout = build(scenario, cpus, smt=smt)
    rates = [_rates(scenario, layout, each) for each in phases(scenario)]
    return Model(
        scenario=scenario,
        layout=layout,
        starts_ns=(0, *(round(step.at_s * _S) for step in scenario.steps)),
        steady=np.stack([steady for steady, _ in rates]),
        swinging=np.stack([swinging for _, swinging in rates]),
        phase=np.arange(cpus, dtype=np.float64) * _GOLDEN % 1.0 * math.tau,
    )


@dataclass(frozen=True, slots=True)
class Now:
    """What holds in one phase: loads and slowdowns by the name in the scenario."""

    load: Mapping[str, float]
    slowed: Mapping[str, float]


def phases(scenario: Scenario) -> list[Now]:
    """What holds from the start on, and from every step on."""
    found = [Now({}, {})]
    for step in scenario.steps:
        before = found[-1]
        found.append(Now({**before.load, **step.load}, {**before.slowed, **step.slowed}))
    return found


@dataclass(slots=True)
class _Rates:
    """One CPU's a and b, filled in part by part."""

    steady: Floats
    swinging: Floats

    def add(
        self, cycles_per_s: float, work: Floats, *, swing: float = 0.0, cycle_swing: float = 0.0
    ) -> None:
        """Cycles spent on a workload: `swing` in what it gets done, `cycle_swing` in the cycles."""
        self.steady += cycles_per_s * work
        moving = work * _SWINGS
        moving[INDEX["macro_fused"]] = moving[INDEX["instructions"]]
        self.swinging += cycles_per_s * (swing * moving + cycle_swing * work)

    def book(self, **per_s: float) -> None:
        for name, rate in per_s.items():
            self.steady[INDEX[name]] += rate


def _rates(scenario: Scenario, layout: Layout, now: Now) -> tuple[Floats, Floats]:
    """a and b of every CPU in one phase."""
    rows = len(layout.topology.cpus)
    steady, swinging = np.zeros((rows, len(QUANTITIES))), np.zeros((rows, len(QUANTITIES)))
    polled = frozenset(cpu for placed in layout.placed for cpu in placed.cpus)
    beside = layout.topology.with_siblings(polled)
    for placed in layout.placed:
        for cpu in placed.cpus:
            _run_task(_Rates(steady[cpu], swinging[cpu]), cpu, (scenario, layout), placed, now)
    for cpu in (info.cpu for info in layout.topology.cpus if info.cpu not in polled):
        busy = _ISOLATED_RATIO if cpu in beside else _ALONE_RATIO
        busy = _HOUSE_RATIO if cpu in layout.housekeeping.values() else busy
        # No two CPUs are alike.
        _run_system(_Rates(steady[cpu], swinging[cpu]), busy * (0.5 + cpu * _GOLDEN % 1.0))
    _count_clocks(steady, swinging, [(info.cpu, *info.siblings) for info in layout.topology.cpus])
    return steady, swinging


def rates_alone(workload: Workload) -> Floats:
    """Counts a second of a thread that does nothing else and has its core to itself.

    Float64 (k,); k as in `QUANTITIES`.
    """
    steady, swinging = np.zeros((1, len(QUANTITIES))), np.zeros((1, len(QUANTITIES)))
    _Rates(steady[0], swinging[0]).add(workloads.core_hz(), workloads.per_cycle(workload))
    _count_clocks(steady, swinging, [(0,)])
    return np.asarray(steady[0])


def _count_clocks(steady: Floats, swinging: Floats, cores: Sequence[tuple[int, ...]]) -> None:
    """Fill in, into a and b, float64 (n, k), what follows from the cycles of a core's threads.

    `cores`: of each of the n CPUs, in order: itself and its siblings.
    """
    unhalted = steady[:, INDEX["cycles"]] / workloads.core_hz()
    steady[:, INDEX["tsc"]] = TSC_HZ
    steady[:, INDEX["ref_cycles"]] = unhalted * TSC_HZ
    for cpu, threads in enumerate(cores):
        core = list(threads)
        halted = math.prod(1.0 - unhalted[core])
        steady[cpu, INDEX["core_clocks"]] = (1.0 - halted) * workloads.core_hz()
        # The clocks of a core are given to its threads in proportion to their own.
        share = unhalted[cpu] / max(unhalted[core].sum(), 1e-9)
        steady[cpu, INDEX["distributed_clocks"]] = steady[cpu, INDEX["core_clocks"]] * share
        alone = math.prod(1.0 - unhalted[core[1:]])
        steady[cpu, INDEX["lone_ref_cycles"]] = unhalted[cpu] * alone * TSC_HZ
        for array in (steady, swinging):
            recovery = array[core, INDEX["recovery_cycles"]].sum()
            array[cpu, INDEX["core_recovery_cycles"]] = recovery


def _run_task(
    rates: _Rates, cpu: Cpu, host: tuple[Scenario, Layout], placed: Placed, now: Now
) -> None:
    (scenario, layout), task = host, placed.task
    load = now.load.get(task.name, task.load)
    if task.kind == "vm":
        _run_vm(rates, load)
        return
    siblings = layout.topology.cpus[cpu].siblings
    paired = task.ht and any(other in placed.cpus for other in siblings)
    offered = workloads.load(task.workload, ht=paired)
    actual = workloads.slowed(offered, now.slowed.get(task.name, 1.0))
    index = placed.cpus.index(cpu)
    stolen = task.stolen if task.stolen is not None and task.stolen.thread == index else None
    _poll(rates, scenario, task, _Offer(load, offered, actual, paired, stolen))


@dataclass(frozen=True, slots=True)
class _Offer:
    """What a poller is offered, as a share of what `offered` could take, and what it can now."""

    load: float
    offered: Workload
    actual: Workload
    paired: bool
    stolen: Stolen | None


def _poll(rates: _Rates, scenario: Scenario, task: Task, offer: _Offer) -> None:
    """A poller: busy as long as there are packets, empty polls for the rest of its time."""
    hz = workloads.core_hz()
    lost = offer.stolen.share if offer.stolen is not None else 0.0
    wanted = offer.load * offer.offered.packets_per_cycle / offer.actual.packets_per_cycle
    mine = 1.0 - lost
    saturated = wanted >= mine
    busy = min(wanted, mine)
    work = _of_thread(workloads.per_cycle(offer.actual), paired=offer.paired)
    work[INDEX["work_cycles"]] = TSC_HZ / hz
    if saturated:
        rates.add(hz * busy, work, swing=scenario.swing)
    else:
        empty = _of_thread(workloads.per_cycle(workloads.load("poll")), paired=offer.paired)
        # Load that swings takes its cycles from the empty polls, as far as there are any.
        swing = min(task.load_swing, mine / wanted - 1.0) if wanted > 0 else 0.0
        rates.add(hz * busy, work, cycle_swing=swing)
        rates.add(hz * (mine - busy), empty)
        rates.swinging -= hz * busy * swing * empty
    packets_per_s = hz * work[INDEX["packets"]]
    rates.book(
        missed=(wanted - busy) * packets_per_s,
        run_ns=mine * _S,
        wait_ns=lost * _S,
        involuntary=_SWITCHES_OF_THIEF * lost,
        mmio_reads=_MMIO_READS_OF_POLLER,
        context_switches=_SWITCHES_OF_POLLER + 2 * _SWITCHES_OF_THIEF * lost,
        user_s=1.0,
    )
    if lost:
        system = workloads.per_cycle(workloads.load("system"))
        rates.add(hz * lost, _of_thread(system, paired=offer.paired))


def _run_vm(rates: _Rates, busy: float) -> None:
    work = workloads.per_cycle(workloads.load("memtester"))
    rates.add(workloads.core_hz() * busy, work)
    rates.book(run_ns=busy * _S, user_s=busy, context_switches=40.0)


def _run_system(rates: _Rates, busy: float) -> None:
    """A CPU nobody polls on: what is left of the system."""
    rates.add(workloads.core_hz() * busy, workloads.per_cycle(workloads.load("system")))
    rates.book(
        run_ns=busy * _S / 4,  # an application's main thread, where one lives here
        context_switches=busy * _SWITCHES_PER_BUSY_S,
        user_s=busy * _USER_SHARE,
        system_s=busy * _SYSTEM_SHARE,
        softirq_s=busy * _SOFTIRQ_SHARE,
    )


def _of_thread(work: Floats, *, paired: bool) -> Floats:
    """A core's workload per cycle of one of its threads: each of two does half of it."""
    thread = work * (0.5 if paired else 1.0)
    thread[INDEX["cycles"]] = 1.0
    return thread
