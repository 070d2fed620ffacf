"""The model: every count of every CPU at any time, in closed form.

The time is divided into stretches: at a step of the scenario, and at a change of what its cache
classes may fill, another one begins. In each a quantity q of a CPU grows at the rate

    a + b sin(2 pi t / period + phase of the CPU)

so its count is the sum over the stretches of `a` times the time spent there and `b` times the
sine's integral. A step of the scenario is there at once. A change of classes is not, since the
cache fills and empties by and by: a and b go to their new values exponentially, with the time
constant `SETTLE_S` of the cache's, and the integral of that is a closed form too. Rates never
jump then, and each is at all times between two that the hardware could have. Nothing is
accumulated from reading to reading: the same time gives the same counts, whatever was asked before.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from nftop.model.column import Floats
from nftop.model.sample import Counts
from nftop.model.struct import dataclass, replace
from nftop.sim.frequency import CoreFrequencies, first_frequencies
from nftop.sim.layout import Layout, build
from nftop.sim.rates import GOLDEN, first_limits, phases, rates_of
from nftop.sim.scenario import Scenario
from nftop.sim.workloads import QUANTITIES

# A cache's time constant: how fast its lines change hands when what they are to be has changed.
SETTLE_S = 4.0
_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Lag:
    """What rates still have of those before a change: at its time, float64 (n, k) each."""

    steady: Floats
    swinging: Floats


@dataclass(frozen=True, slots=True)
class Model:
    """The simulated host.

    Attributes:
        scenario, layout: what it was built from.
        starts_ns: when each of p stretches begins; the first is 0, unless those were forgotten.
        steady, swinging: float64 (p, n, k), a and b per second for n CPUs and k `QUANTITIES`, to
            which they go.
        lags: of each stretch, by how much its rates begin elsewhere; None: they don't.
        frequencies: of each stretch, what is set on the host and what it runs at.
        before: float64 (p, n, k), the counts when each stretch begins.
        phase: float64 (n,), radians.
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
        at = self.stretch(t_ns)
        return self.continued(at, t_ns, np.array(self.before[at, cpus]), cpus)

    def stretch(self, t_ns: int) -> int:
        """The number of the stretch that a time is in; ValueError before the first."""
        if t_ns < self.starts_ns[0]:
            raise ValueError(f"the simulated host starts at {self.starts_ns[0]} ns, not at {t_ns}")
        return bisect_right(self.starts_ns, t_ns) - 1

    def rates(self, t_ns: int) -> tuple[Floats, Floats]:
        """a and b per second at a time, float64 (n, k)."""
        at = self.stretch(t_ns)
        steady, swinging, lag = self.steady[at], self.swinging[at], self.lags[at]
        if lag is None:
            return steady, swinging
        left = math.exp(-(t_ns - self.starts_ns[at]) / _S / SETTLE_S)
        return steady + left * lag.steady, swinging + left * lag.swinging

    def continued(
        self, at: int, t_ns: int, total: Floats, cpus: Sequence[int] | slice = slice(None)
    ) -> Floats:
        """`total`, with what a stretch adds to it from its begin to a time."""
        start_ns, phase, lag = self.starts_ns[at], self.phase[cpus], self.lags[at]
        if t_ns > start_ns:
            total += self.steady[at, cpus] * ((t_ns - start_ns) / _S)
            total += self.swinging[at, cpus] * self._sine(start_ns, t_ns, phase)[:, None]
            if lag is not None:
                spent_s = (t_ns - start_ns) / _S
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
        """As `_sine`, of the sine times exp(-s / SETTLE_S), s the time since the start."""
        turn, fade = math.tau / self.scenario.period_s, 1 / SETTLE_S
        begin = self._angle(start_ns) + phase
        end = begin + turn * spent_s
        first = turn * np.cos(begin) + fade * np.sin(begin)
        last = turn * np.cos(end) + fade * np.sin(end)
        gone = first - math.exp(-fade * spent_s) * last
        return np.asarray(gone / (turn * turn + fade * fade))

    def _angle(self, t_ns: int) -> float:
        """Of the sine, without the CPU's phase.

        Whole periods are taken off in integers, which keeps that exact however long it runs.
        """
        period_ns = round(self.scenario.period_s * _S)
        return (t_ns % period_ns) / period_ns * math.tau


def model_of(scenario: Scenario, cpus: int, *, smt: bool = True) -> Model:
    """The scenario on a host of this many CPUs; ValueError if the host can't have so many.

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
        # Neighbouring CPUs swing out of step with each other.
        phase=np.arange(cpus, dtype=np.float64) * GOLDEN % 1.0 * math.tau,
    )
    return _counted_up(model, 1)


def _with_placed_tasks(scenario: Scenario, layout: Layout) -> Scenario:
    """The scenario of a host too small for some of it: who has no room there slows nobody down."""
    placed_names = {placed.task.name for placed in layout.placed}
    steps = tuple(
        step if not step.load or placed_names & step.load.keys() else replace(step, slowed={})
        for step in scenario.steps
    )
    return replace(scenario, steps=steps)


def phase_starts_ns(scenario: Scenario) -> tuple[int, ...]:
    """When each of the scenario's phases begins: the first at 0, the others with its steps."""
    return (0, *(round(step.at_s * _S) for step in scenario.steps))


def altered(
    model: Model,
    at_ns: int,
    starts_ns: Sequence[int],
    rates: Sequence[tuple[Floats, Floats]],
    frequencies: CoreFrequencies,
) -> Model:
    """The same host, whose rates go elsewhere from `at_ns` on; all before is as it was.

    Args:
        model: of the time before.
        at_ns: when; not before the model's last change.
        starts_ns: of the stretches from then on, `at_ns` the first: another with each step.
        rates: a and b of each, float64 (n, k).
        frequencies: of all of them. Where they are others the rates are there at once, what was
            left of a lag included: a core's clock changes within a millisecond.
    """
    kept = model.stretch(at_ns) + 1
    old_steady, old_swinging = model.rates(at_ns)
    steady, swinging = (np.stack([rate[half] for rate in rates]) for half in (0, 1))
    same = frequencies is model.frequencies[kept - 1]
    lag = Lag(old_steady - steady[0], old_swinging - swinging[0]) if same else None
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
    """Without the first stretches: what was counted then stays, but how it came is forgotten."""
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
    """With what was counted before the stretches from the `first` on."""
    before = model.before.copy()
    for at in range(first, len(model.starts_ns)):
        start_ns = model.starts_ns[at]
        before[at] = model.continued(at - 1, start_ns, before[at - 1].copy())
    return replace(model, before=before)
