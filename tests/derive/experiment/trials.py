"""Experiments on the simulated host's own rates, with noise of a seed, fast enough for thousands.

The rates of every setting are the model's (`nftop.sim`), so the truth is known: which setting is
best, and which loses packets. The engine sees one reading a second of each network function: rates
that approach those of the setting, with noise that persists, drift, and lost packets where the
cores can't keep up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from nftop.control.backend import goal
from nftop.control.rdt_limits import MaskRule, Rules
from nftop.control.resctrl.sweep import SweepRequest, plan_sweep
from nftop.derive.compare.window import NF_KEPT
from nftop.derive.experiment.curve import curve_of, differences, irrelevant_loss
from nftop.derive.experiment.engine import (
    ExperimentState,
    NfObservation,
    Observation,
    advance,
    written,
)
from nftop.model.change import Cell, State
from nftop.model.experiment import Curve, Experiment, HarmLimits
from nftop.model.frame import Frame
from nftop.model.struct import replace
from nftop.sim.model import SETTLE_S
from nftop.sim.rates import phases, rates_of
from nftop.sim.rdt import Rdt, costs, filled, limits_of
from nftop.sim.workloads import INDEX
from tests.frames import nic_drops
from tests.sim.hosts import Frozen, S

WAYS = 20
RULES = Rules(masks={"L3": MaskRule(WAYS)}, closids=16)
# Loss that a setting may have and still be the best, as `docs/experiments.md` says.
NOTHING_RATIO, NONE_RATIO = 0.01, 1e-5


@dataclass(frozen=True)
class Levels:
    """A network function at a setting, without noise.

    Attributes:
        offered: packets per second. busy_cpp: cycles per packet. capacity: most packets per second.
        hz: cycles per second of all its cores.
    """

    offered: float
    busy_cpp: float
    capacity: float
    hz: float

    @property
    def lost_ratio(self) -> float:
        return max(0.0, 1 - self.capacity / self.offered)


@dataclass(frozen=True)
class Noise:
    """Of capacity and load, relative.

    Attributes:
        sd: standard deviation of a reading. persistence: lag-1 correlation.
        drift: of the capacity over half an hour. load_sd: of the load, which persists too.
    """

    sd: float = 0.002
    persistence: float = 0.5
    drift: float = 0.0
    load_sd: float = 0.0


@dataclass
class Trial:
    """One experiment; `truth` has the levels by network function and setting."""

    plan: Experiment
    truth: dict[str, list[Levels]]
    noise: Noise
    random: np.random.Generator
    occupancy: list[float]
    shows_busy: dict[str, bool]
    now_ns: int = S
    seconds: int = 0
    state: ExperimentState = field(default_factory=ExperimentState)
    _noises: dict[str, float] = field(default_factory=dict)
    _from: int = -1

    def run(self) -> Curve:
        """The curve at the end."""
        begin_ns, at, before, written_ns = self.now_ns, len(self.occupancy) - 1, -1, self.now_ns
        base = at
        while True:
            self.now_ns += S
            left = math.exp(-(self.now_ns - written_ns) / S / SETTLE_S)
            seen = self._observed(at, before if before >= 0 else base, left, begin_ns)
            self.state, command = advance(self.state, self.plan, seen)
            if command == "finish":
                break
            if isinstance(command, int):
                before, at, written_ns = at, command, self.now_ns
                self.state = written(self.state, self.now_ns)
        self.seconds = (self.now_ns - begin_ns) // S
        return curve_of(self.plan, self.state.visits)

    def _observed(self, at: int, before: int, left: float, begin_ns: int) -> Observation:
        used = self.occupancy[at] + (self.occupancy[before] - self.occupancy[at]) * left
        key = (self.plan.group, self.plan.caches[0])
        age = (self.now_ns - begin_ns) / S / 1800
        return Observation(
            at_ns=self.now_ns,
            nfs={
                nf: self._reading(nf, levels[at], levels[before], left, age)
                for nf, levels in self.truth.items()
            },
            occupancy={key: used * (1 + 0.001 * self.random.normal())},
            sizes={key: 55e6},
        )

    def _persisting(self, name: str, sd: float) -> float:
        r = self.noise.persistence
        shock = self.random.normal() * sd * math.sqrt(1 - r * r)
        self._noises[name] = self._noises.get(name, 0.0) * r + shock
        return self._noises[name]

    def _reading(self, nf: str, now: Levels, was: Levels, left: float, age: float) -> NfObservation:
        cpp = now.busy_cpp + (was.busy_cpp - now.busy_cpp) * left
        cpp *= 1 + self._persisting(nf, self.noise.sd) + self.noise.drift * age
        capacity = now.capacity * now.busy_cpp / cpp
        offered = now.offered * (1 + self._persisting(f"load of {nf}", self.noise.load_sd))
        packets = min(offered, capacity)
        drops = max(offered - packets, 0.0)
        # Less than a packet in a second is none.
        drops = 0.0 if drops < 1.0 else drops
        full = 1.0 if drops else (0.0 if self.shows_busy[nf] else math.nan)
        values = dict.fromkeys(NF_KEPT, math.nan) | {
            "packets_per_s": packets,
            "offered_packets_per_s": packets + drops,
            **nic_drops(drops),
            "cpp": now.hz / packets,
            "busy_cpp": cpp if self.shows_busy[nf] else math.nan,
            "saturated": full,
        }
        row = tuple(values[name] for name in NF_KEPT if name != "new")
        return NfObservation(row, float(self.now_ns - S), new=True)

    def is_fine(self, setting: int) -> bool:
        """Whether a setting truly costs no watched network function anything."""
        return all(self._costs_nothing(nf, setting) for nf in self.plan.watch)

    def _reference(self, nf: str) -> int:
        return len(self.plan.settings) - 1 if nf in self.plan.own else 0

    def _costs_nothing(self, nf: str, setting: int) -> bool:
        levels = self.truth[nf]
        here, best = levels[setting], levels[self._reference(nf)]
        cost = here.busy_cpp / best.busy_cpp - 1
        known = self.shows_busy[nf] or min(here.lost_ratio, best.lost_ratio) > 0
        return self._loses_none(nf, setting) and (not known or cost <= NOTHING_RATIO)

    def _loses_none(self, nf: str, setting: int) -> bool:
        lost, usual = (self.truth[nf][at].lost_ratio for at in (setting, self._reference(nf)))
        return lost - usual <= (NONE_RATIO if usual < NONE_RATIO else irrelevant_loss(usual))

    def best(self) -> int | None:
        """The setting that the recommendation should be."""
        order = range(len(self.plan.settings))
        own = self.plan.own or frozenset(self.plan.watch)
        fine = list[int]()
        for setting in reversed(order) if self.plan.own else order:
            if not all(self._costs_nothing(nf, setting) for nf in own):
                break
            if all(self._costs_nothing(nf, setting) for nf in self.plan.watch):
                fine.append(setting)
        return fine[-1] if fine else None

    def drops_more(self, setting: int) -> bool:
        """Whether a setting truly loses packets that the reference does not."""
        return not all(self._loses_none(nf, setting) for nf in self.truth)

    def false_words(self, curve: Curve) -> int:
        """Words of an effect, where there is none, or of the other sign."""
        count = 0
        for result in curve.results:
            for nf, effect in result.nfs.items():
                here, best = self.truth[nf][result.setting], self.truth[nf][self._reference(nf)]
                worse = here.busy_cpp > best.busy_cpp or here.lost_ratio > best.lost_ratio
                better = here.busy_cpp < best.busy_cpp or here.lost_ratio < best.lost_ratio
                count += effect.effect == "costs" and not worse
                count += effect.effect == "gains" and not better
        return count


@cache
def furnished(scenario: str = "noisy") -> tuple[Frame, Rdt]:
    """A frame of the simulated host while its neighbour streams, and its model."""
    host = Frozen(scenario)
    host.tick(70 * S)
    host.tick(S)
    frame = host.tick(S)
    return frame, host.simulated.world.now().rdt


def trial(seed: int, *, null: bool = False) -> Trial:
    """A random experiment: class, masks, loads and noise are of the seed.

    `null`: every setting has the same rates.
    """
    random = np.random.default_rng([2, seed])
    frame, rdt = furnished()
    state = _masks(rdt.classes.state, random)
    group = ("tenant", "tenant", "vpp", "switch")[int(random.integers(4))]
    least = int(random.integers(1, 4))
    # What is tried is the recommendation: no limit is to end it.
    limits = HarmLimits(drop_packets_per_s=math.inf, cpp_ratio=math.inf)
    widths = (least, least + int(random.integers(4, 12)))
    request = SweepRequest(group, widths, seed=seed, limits=limits)
    plan = plan_sweep(request, frame, state, RULES, "trial")
    loads = {name: float(random.uniform(0.6, 1.0)) for name in ("vpp", "ovs", "north")}
    base = [goal(state, setting.changes) for setting in plan.settings] + [state]
    levels = [_levels(rdt, one, loads, frame, plan) for one in base]
    if null:
        levels = [levels[0]] * len(levels)
    return Trial(
        plan,
        {nf: [level[0][nf] for level in levels] for nf in plan.watch},
        Noise(
            sd=float(random.uniform(0.0005, 0.003)),
            persistence=float(random.uniform(0.0, 0.9)),
            drift=float(random.uniform(-0.02, 0.02)),
            load_sd=float(random.choice([0.0, 0.001, 0.003])),
        ),
        random,
        [level[1] for level in levels],
        {key: name != "north/l3fwd" for key, name in plan.watch.items()},
    )


def pair(seed: int, *, null: bool = False, rounds: int = 6) -> Trial:
    """A trial of two of the settings of `trial(seed)`: masks that are far apart.

    `null`: both have the same rates.
    """
    one = trial(seed, null=null)
    last = len(one.plan.settings) - 1
    chosen = [(0, last), (last, 0)][seed % 2]
    levels = {nf: [rows[at] for at in chosen] + rows[-1:] for nf, rows in one.truth.items()}
    plan = replace(
        one.plan,
        kind="try",
        settings=tuple(one.plan.settings[at] for at in chosen),
        own=frozenset(),
        rounds_least=rounds,
        rounds_most=rounds,
    )
    used = [one.occupancy[at] for at in (*chosen, -1)]
    return Trial(plan, levels, one.noise, one.random, used, one.shows_busy)


@dataclass(frozen=True)
class Words:
    """Words of a trial: false ones, and of network functions that truly differ those that say so.

    Attributes:
        false: words of an effect without one, or of the other sign.
        large, known: true differences of 3 % or more, and those with the right word.
        same: numbers without any difference that are the same, of `small`.
    """

    false: int
    large: int
    known: int
    small: int
    same: int


def words_of(run: Trial) -> Words:
    """Run a trial and compare its words with the truth."""
    run.run()
    false = large = known = small = same = 0
    names = {name: key for key, name in run.plan.watch.items()}
    for item in differences(run.plan, run.state.visits):
        if item.word == "unmeasured":
            continue
        now, then = run.truth[names[item.name]][:2]
        change, better = _true_change(item.metric, now, then)
        claim = {"better": 1, "worse": -1, "more": 1, "less": -1}.get(item.word, 0)
        false += bool(claim) and (change == 0 or (claim > 0) != (change * better > 0))
        if abs(change) >= 0.03:
            large += 1
            known += bool(claim)
        elif change == 0:
            small += 1
            same += item.word == "same"
    return Words(false, large, known, small, same)


def _true_change(metric: str, now: Levels, then: Levels) -> tuple[float, int]:
    """The true change of a number, and which sign is better; more is 1 where neither is."""
    if metric == "lost_ratio":
        return then.lost_ratio - now.lost_ratio, -1
    if metric == "packets_per_s":
        packets = [item.offered * (1 - item.lost_ratio) for item in (now, then)]
        return packets[1] / packets[0] - 1, 1
    if metric == "busy_cpp":
        return then.busy_cpp / now.busy_cpp - 1, -1
    cycles = [item.hz / (item.offered * (1 - item.lost_ratio)) for item in (now, then)]
    return cycles[1] / cycles[0] - 1, -1


def _masks(state: State, random: np.random.Generator) -> State:
    """The state with other masks of the three classes in the first cache."""
    masks: dict[Cell, str] = dict(state)
    for group in ("tenant", "vpp", "switch"):
        ways = int(random.integers(2, 9))
        low = int(random.integers(0, WAYS - ways + 1))
        masks[Cell("schemata", group, "L3", 0)] = f"{((1 << ways) - 1) << low:x}"
    return {cell: value for cell, value in masks.items() if cell.kind != "task"}


def _levels(
    rdt: Rdt, state: State, loads: dict[str, float], frame: Frame, plan: Experiment
) -> tuple[dict[str, Levels], float]:
    """By network function its levels with these classes, and the bytes of the swept class."""
    layout, scenario = rdt.model.layout, rdt.model.scenario
    tasks = {cell: v for cell, v in rdt.classes.state.items() if cell.kind == "task"}
    classes = replace(rdt.classes, state={**state, **tasks})
    at = len(phases(scenario)) - 1
    now = replace(phases(scenario)[at], limits=limits_of(layout, classes))
    now = replace(now, load={**now.load, **loads})
    level, held = filled(layout, classes, now)
    now = replace(now, costs=costs(layout, now, held, rdt.usual[at], rdt.usual[0]))
    steady, _ = rates_of(scenario, layout, replace(now, hz=rdt.frequencies.hz))
    result = {}
    for nf in frame.nfs:
        if nf.key not in plan.watch:
            continue
        own = steady[list(nf.cpus)]
        packets, missed, work, tsc, cycles = (
            float(own[:, INDEX[name]].sum())
            for name in ("packets", "missed", "work_cycles", "tsc", "cycles")
        )
        busy_cpp = work / packets
        result[nf.key] = Levels(packets + missed, busy_cpp, tsc / busy_cpp, cycles)
    return result, float(level[classes.paths.index(plan.group), 0])
