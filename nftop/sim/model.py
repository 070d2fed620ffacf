"""The model: every count of every CPU at any time, in closed form.

Time is divided into stretches, which begin at steps of the scenario and at changes of cache
classes. In each a quantity q of a CPU grows at the rate

    a + b sin(2 pi t / period + phase of the CPU)

so its count is the sum over the stretches of `a` times the elapsed time and `b` times the sine's
integral. A step of the scenario has an immediate effect. After a change of classes a and b approach
their new values exponentially with the cache's time constant `SETTLE_S`, and that integral is a
closed form too, so rates never jump; but for the size of VPP's vectors, where a core becomes
saturated or no longer is (`rdt.changed`). Nothing is accumulated from reading to reading: the same
time always gives the same counts.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from nftop.model.clock import NS_PER_S
from nftop.model.column import Floats
from nftop.model.sample import Counts
from nftop.model.struct import dataclass, replace
from nftop.model.topology import Host
from nftop.sim.frequency import CoreFrequencies, first_frequencies
from nftop.sim.layout import Layout, build
from nftop.sim.rates import GOLDEN, first_limits, phases, rates_of
from nftop.sim.scenario import Scenario
from nftop.sim.workloads import INDEX, QUANTITIES

# Time constant of a change of occupancy.
SETTLE_S = 4.0
DEMO_NAME = "demo"  # of the simulated host, unless it is given one


@dataclass(frozen=True, slots=True)
class Lag:
    """Remaining difference of rates after a change: at its time, float64 (n, k) each."""

    steady: Floats
    swinging: Floats


@dataclass(frozen=True, slots=True)
class Model:
    """The simulated host.

    Attributes:
        scenario, layout: what it was built from.
        starts_ns: begin of each of p stretches; the first is 0, unless it was dropped.
        steady, swinging: float64 (p, n, k), a and b per second for n CPUs and k `QUANTITIES`.
        lags: by stretch, by how much its rates begin elsewhere, or None.
        frequencies: by stretch, settings and their effect.
        before: float64 (p, n, k), counts at the begin of each stretch.
        phase: float64 (n,), radians.
        name: of the host.
    """

    scenario: Scenario
    layout: Layout
    starts_ns: tuple[int, ...]
    steady: Floats
    swinging: Floats
    lags: tuple[Lag | None, ...]
    frequencies: tuple[CoreFrequencies, ...]
    before: Floats
    phase: Floats
    name: str = DEMO_NAME

    def counts(self, t_ns: int) -> Counts:
        """Counts at `t_ns` since the start, uint64 (n, k); k as in `QUANTITIES`.

        Raises:
            ValueError: the time is before the start.
        """
        return np.floor(self.exact(t_ns)).astype(np.uint64)

    def exact(self, t_ns: int, cpus: Sequence[int] | slice = slice(None)) -> Floats:
        """As `counts`, not truncated: float64 (n, k), or only the rows `cpus`."""
        at = self.stretch(t_ns)
        return self.continued(at, t_ns, np.array(self.before[at, cpus]), cpus)

    def stretch(self, t_ns: int) -> int:
        """Index of the stretch of a time; ValueError before the first."""
        if t_ns < self.starts_ns[0]:
            raise ValueError(f"the simulated host starts at {self.starts_ns[0]} ns, not at {t_ns}")
        return bisect_right(self.starts_ns, t_ns) - 1

    def rates(self, t_ns: int) -> tuple[Floats, Floats]:
        at = self.stretch(t_ns)
        steady, swinging, lag = self.steady[at], self.swinging[at], self.lags[at]
        if lag is None:
            return steady, swinging
        left = math.exp(-(t_ns - self.starts_ns[at]) / NS_PER_S / SETTLE_S)
        return steady + left * lag.steady, swinging + left * lag.swinging

    def continued(
        self, at: int, t_ns: int, total: Floats, cpus: Sequence[int] | slice = slice(None)
    ) -> Floats:
        """`total` plus what a stretch adds from its begin to a time."""
        start_ns, phase, lag = self.starts_ns[at], self.phase[cpus], self.lags[at]
        if t_ns > start_ns:
            total += self.steady[at, cpus] * ((t_ns - start_ns) / NS_PER_S)
            total += self.swinging[at, cpus] * self._sine(start_ns, t_ns, phase)[:, None]
            if lag is not None:
                spent_s = (t_ns - start_ns) / NS_PER_S
                total += lag.steady[cpus] * (-math.expm1(-spent_s / SETTLE_S) * SETTLE_S)
                fading = self._fading_sine(start_ns, spent_s, phase)
                total += lag.swinging[cpus] * fading[:, None]
        return total

    def _sine(self, start_ns: int, end_ns: int, phase: Floats) -> Floats:
        """The sine's integral over [start, end) in seconds, for each phase."""
        begin, end = self._angle(start_ns), self._angle(end_ns)
        scale = self.scenario.period_s / math.tau
        return np.asarray(scale * (np.cos(begin + phase) - np.cos(end + phase)))

    def _fading_sine(self, start_ns: int, spent_s: float, phase: Floats) -> Floats:
        """Integral of the sine times exp(-s / SETTLE_S), s the time since the start."""
        turn, fade = math.tau / self.scenario.period_s, 1 / SETTLE_S
        begin = self._angle(start_ns) + phase
        end = begin + turn * spent_s
        first = turn * np.cos(begin) + fade * np.sin(begin)
        last = turn * np.cos(end) + fade * np.sin(end)
        gone = first - math.exp(-fade * spent_s) * last
        return np.asarray(gone / (turn * turn + fade * fade))

    def _angle(self, t_ns: int) -> float:
        """Angle without the CPU's phase; whole periods are removed in exact integers."""
        period_ns = round(self.scenario.period_s * NS_PER_S)
        return (t_ns % period_ns) / period_ns * math.tau


def model_of(scenario: Scenario, cpus: int, *, smt: bool = True) -> Model:
    """The scenario on a host of this many CPUs; ValueError if that is not possible.

    `smt`: with hyper-threading.
    """
    layout = build(scenario, cpus, smt=smt)
    scenario = _with_placed_tasks(scenario, layout)
    limits = first_limits(scenario, layout)
    frequencies = first_frequencies(scenario.processor, layout.topology)
    nows = [replace(phase, limits=limits, hz=frequencies.hz) for phase in phases(scenario)]
    rates = [rates_of(scenario, layout, now) for now in nows]
    starts_ns = phase_starts_ns(scenario)
    model = Model(
        scenario=scenario,
        layout=layout,
        starts_ns=starts_ns,
        steady=np.stack([steady for steady, _ in rates]),
        swinging=np.stack([swinging for _, swinging in rates]),
        lags=(None,) * len(rates),
        frequencies=(frequencies,) * len(rates),
        before=np.zeros((len(rates), cpus, len(QUANTITIES))),
        # Different phases for adjacent CPUs.
        phase=np.arange(cpus, dtype=np.float64) * GOLDEN % 1.0 * math.tau,
    )
    return _counted_up(model, 1)


def host_of(model: Model) -> Host:
    """Identity of the simulated host, with the options of `nftop demo` that are not the default."""
    scenario, cpus = model.scenario, len(model.layout.topology.cpus)
    processor = scenario.processor
    options = ["--scenario", scenario.name] * (scenario.name != "default")
    options += ["--host", processor.name] * (processor.name != scenario.own_processor)
    options += ["--host-name", model.name] * (model.name != DEMO_NAME)
    options += ["--cpus", str(cpus)] * (cpus != processor.cpus)
    return Host(
        model.name,
        f"simulated {processor.title}",
        processor.uarch,
        simulated=True,
        demo_options=tuple(options),
    )


def _with_placed_tasks(scenario: Scenario, layout: Layout) -> Scenario:
    """The scenario without effects of tasks for which a small host has no CPUs."""
    placed_names = {placed.task.name for placed in layout.placed}
    steps = tuple(
        step if not step.load or placed_names & step.load.keys() else replace(step, slowed={})
        for step in scenario.steps
    )
    return replace(scenario, steps=steps)


def phase_starts_ns(scenario: Scenario) -> tuple[int, ...]:
    """Begin of each phase of the scenario: 0 and its steps."""
    return (0, *(round(step.at_s * NS_PER_S) for step in scenario.steps))


def altered(
    model: Model,
    at_ns: int,
    starts_ns: Sequence[int],
    rates: Sequence[tuple[Floats, Floats]],
    frequencies: CoreFrequencies,
    *,
    at_once: Sequence[int] = (),
) -> Model:
    """The same host with other rates from `at_ns` on.

    Args:
        model: until then.
        at_ns: not before the model's last change.
        starts_ns: of the stretches from then on, `at_ns` first, then each step.
        rates: a and b of each, float64 (n, k).
        frequencies: of all of them. If they change, rates change immediately, a lag included: a
            core's clock changes within a millisecond.
        at_once: CPUs whose vectors change their size without a lag.
    """
    kept = model.stretch(at_ns) + 1
    old_steady, old_swinging = model.rates(at_ns)
    steady, swinging = (np.stack([rate[half] for rate in rates]) for half in (0, 1))
    same = frequencies is model.frequencies[kept - 1]
    lag = Lag(old_steady - steady[0], old_swinging - swinging[0]) if same else None
    if lag is not None and at_once:
        cpus, frames, packets = list(at_once), INDEX["frames"], INDEX["packets"]
        of_packet = steady[0][cpus, frames] / np.maximum(steady[0][cpus, packets], 1.0)
        for left in (lag.steady, lag.swinging):
            left[cpus, frames] = left[cpus, packets] * of_packet
    longer = replace(
        model,
        starts_ns=(*model.starts_ns[:kept], *starts_ns),
        steady=np.concatenate([model.steady[:kept], steady]),
        swinging=np.concatenate([model.swinging[:kept], swinging]),
        lags=(*model.lags[:kept], lag, *[None] * (len(rates) - 1)),
        frequencies=(*model.frequencies[:kept], *[frequencies] * len(rates)),
        before=np.concatenate([model.before[:kept], np.zeros_like(steady)]),
    )
    return _counted_up(longer, kept)


def without(model: Model, stretches: int) -> Model:
    """Without the first stretches: their counts stay, their history does not."""
    return replace(
        model,
        starts_ns=model.starts_ns[stretches:],
        steady=model.steady[stretches:],
        swinging=model.swinging[stretches:],
        lags=model.lags[stretches:],
        frequencies=model.frequencies[stretches:],
        before=model.before[stretches:],
    )


def _counted_up(model: Model, first: int) -> Model:
    """With counts at the begin of the stretches from `first` on."""
    before = model.before.copy()
    for at in range(first, len(model.starts_ns)):
        start_ns = model.starts_ns[at]
        before[at] = model.continued(at - 1, start_ns, before[at - 1].copy())
    return replace(model, before=before)
