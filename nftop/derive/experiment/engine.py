"""The course of an experiment as a pure function of observations: settle, measure, next.

    baseline -> (writing -> settling -> measuring) for every visit -> ended

`Observer` reduces a frame to an `Observation`. `advance` takes one, and returns the state after it
and what to do: try a setting, or finish. The caller writes, and calls `written`. Nothing here reads
a clock or the host.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Literal, TypeAlias

import numpy as np

from nftop.derive.cache.ways import cache_of
from nftop.derive.compare.settling import STILL_RATIO, still_since
from nftop.derive.compare.window import (
    NF_KEPT,
    ClassKey,
    ReadTimes,
    class_ipc,
    is_renewed,
    nf_sample,
    source_of,
)
from nftop.derive.experiment.curve import curve_of, reference_of
from nftop.model.clock import NS_PER_S
from nftop.model.experiment import (
    Curve,
    EndReason,
    Experiment,
    NfLevels,
    Visit,
)
from nftop.model.frame import Frame
from nftop.model.missing import Missing, Reading
from nftop.model.struct import dataclass, field, replace

# New readings of each watched network function that a visit needs, and the most time for them as a
# multiple of `Timing.measure_s`.
LEAST_READINGS, _MOST_MEASURE = 8, 3
# Seconds without a new reading of a watched network function, whose harm nobody would notice.
_SILENT_S = 15.0
# Readings in a row beyond a harm limit.
_HARMFUL_READINGS = 2
# A number has a trend while so many readings in a row strictly rise or fall: losses by half and by
# so many of the packets, cycles per packet by that share.
_TREND_READINGS = 5
_LEAST_TREND_RATIO, _LOST_TREND_RATIO, _CPP_TREND_RATIO = 1e-5, 0.5, 0.005
# Fewer settings than this give a further round too few degrees of freedom.
_LEAST_PER_ROUND = 3
_AT = {name: index for index, name in enumerate(NF_KEPT)}
_NAN = math.nan

ExperimentPhase: TypeAlias = Literal["baseline", "writing", "settling", "measuring", "ended"]


@dataclass(frozen=True, slots=True)
class NfObservation:
    """One reading of a network function.

    Attributes:
        values: as `window.nf_sample`.
        begin_ns: CLOCK_MONOTONIC of the reading before; its rates are of the time since.
        new: whether it was read since the last frame.
    """

    values: tuple[float, ...]
    begin_ns: float
    new: bool

    def of(self, name: str) -> float:
        return self.values[_AT[name]]


@dataclass(frozen=True, slots=True)
class Observation:
    """What an experiment needs of a frame.

    Attributes:
        at_ns: CLOCK_MONOTONIC.
        nfs: by key; network functions that are gone are absent.
        occupancy: by class and cache, bytes of a new reading; absent without one.
        sizes: bytes of each cache.
        memory_bytes_per_s, ipc: of the class; NaN if unknown.
    """

    at_ns: int
    nfs: Mapping[str, NfObservation]
    occupancy: Mapping[ClassKey, float] = field(default_factory=dict)
    sizes: Mapping[ClassKey, float] = field(default_factory=dict)
    memory_bytes_per_s: float = _NAN
    ipc: float = _NAN


class Observer:
    """Reduces frames to observations; it knows which sources were read anew."""

    def __init__(self, plan: Experiment) -> None:
        self._plan = plan
        self._times = ReadTimes()

    def observe(self, frame: Frame) -> Observation:
        plan = self._plan
        renewed = self._times.renewed(frame)
        nfs = {}
        for nf in frame.nfs:
            if nf.key not in plan.watch:
                continue
            source = source_of(nf)
            begin_ns = renewed.get(source)
            nfs[nf.key] = NfObservation(
                values=tuple(nf_sample(frame, nf)),
                begin_ns=_NAN if begin_ns is None else begin_ns,
                new=nf.problem is None and is_renewed(frame, {source}, renewed),
            )
        sizes = {domain.l3: float(domain.size_bytes or 0) for domain in frame.domains}
        occupancy: dict[ClassKey, float] = {}
        memory: list[float] = []
        keys = [(plan.group, l3) for l3 in plan.caches]
        metered = any(source in renewed for source in ("resctrl", "pqos"))
        for group in frame.groups:
            for l3 in plan.caches if group.name in plan.classes else ():
                cache = cache_of(group, l3)
                if cache is None:
                    continue
                used = _number(cache.readings["occupancy_bytes"])
                if metered and math.isfinite(used):
                    occupancy[group.name, l3] = used
                if group.name == plan.group:
                    memory.append(_number(cache.readings["mbm_total_bytes_per_s"]))
        ipc, _ = class_ipc(frame, keys, renewed)
        return Observation(
            at_ns=frame.monotonic_ns,
            nfs=nfs,
            occupancy=occupancy,
            sizes={(name, l3): sizes.get(l3, 0.0) for name in plan.classes for l3 in plan.caches},
            memory_bytes_per_s=sum(memory) if memory else _NAN,
            ipc=float(np.mean(ipc)) if len(ipc) else _NAN,
        )


@dataclass(frozen=True, slots=True)
class ExperimentState:
    """State between observations.

    Attributes:
        since_ns: begin of the phase; 0 before the first observation.
        written_ns: of the last write.
        setting: index being tried; -1 for the baseline.
        round: number of the present round, 0 for the baseline.
        queue: settings of this round that are to follow.
        samples: observations of this visit.
        visits: those measured, the baseline first.
        harmful: readings in a row beyond a limit.
        ended: why it ended, or None.
        detail: numbers of that reason, a text.
    """

    phase: ExperimentPhase = "baseline"
    since_ns: int = 0
    written_ns: int = 0
    setting: int = -1
    round: int = 0
    queue: tuple[int, ...] = ()
    samples: tuple[Observation, ...] = ()
    visits: tuple[Visit, ...] = ()
    harmful: int = 0
    ended: EndReason | None = None
    detail: str = ""


# What the caller is to do: try the setting of this index, or finish and restore.
ExperimentCommand: TypeAlias = int | Literal["finish"] | None


def advance(
    state: ExperimentState, plan: Experiment, seen: Observation
) -> tuple[ExperimentState, ExperimentCommand]:
    """The state after an observation, and what to do."""
    if state.phase in ("ended", "writing"):
        return state, None
    if not state.since_ns:
        state = replace(state, since_ns=seen.at_ns, written_ns=seen.at_ns)
    state = _guarded(state, plan, seen)
    if state.ended is not None:
        return state, "finish"
    state = replace(state, samples=(*state.samples, seen))
    if state.phase == "settling":
        settled_ns = settled_at(plan, state.written_ns, state.samples)
        if settled_ns is None:
            return state, None
        state = replace(state, phase="measuring", since_ns=settled_ns)
    return _measured(state, plan) if _is_over(state, plan) else (state, None)


def _guarded(state: ExperimentState, plan: Experiment, seen: Observation) -> ExperimentState:
    """The state, ended if a network function can't be watched or a harm limit is exceeded."""
    gone = [name for key, name in plan.watch.items() if key not in seen.nfs]
    if gone:
        return _end(state, "gone", ", ".join(gone))[0]
    silent = [name for key, name in plan.watch.items() if _silence_s(state, key, seen) > _SILENT_S]
    if silent:
        return _end(state, "silent", ", ".join(silent))[0]
    return _watched(state, plan, seen) if state.visits else state


def _silence_s(state: ExperimentState, key: str, seen: Observation) -> float:
    """Seconds since the last new reading of this visit, or since its begin."""
    known = [item.at_ns for item in (*state.samples, seen) if item.nfs[key].new]
    return (seen.at_ns - max([state.written_ns, *known[-1:]])) / NS_PER_S


def _is_over(state: ExperimentState, plan: Experiment) -> bool:
    """Whether this visit has been measured long enough."""
    spent_s = (state.samples[-1].at_ns - state.since_ns) / NS_PER_S
    if spent_s < plan.timing.measure_s:
        return False
    least = min(len(_readings(state, key)) for key in plan.watch)
    return least >= LEAST_READINGS or spent_s >= _MOST_MEASURE * plan.timing.measure_s


def _measured(
    state: ExperimentState, plan: Experiment
) -> tuple[ExperimentState, ExperimentCommand]:
    silent = [name for key, name in plan.watch.items() if not _readings(state, key)]
    if silent:
        return _end(state, "silent", ", ".join(silent))
    return _next(replace(state, visits=(*state.visits, _visit(state, plan))), plan)


def written(state: ExperimentState, at_ns: int) -> ExperimentState:
    """The state once the setting of the last command is on the host."""
    return replace(state, phase="settling", since_ns=at_ns, written_ns=at_ns, samples=(), harmful=0)


def ended(state: ExperimentState, reason: EndReason, detail: str = "") -> ExperimentState:
    """The state after an end that no observation caused."""
    return state if state.ended is not None else _end(state, reason, detail)[0]


def _end(
    state: ExperimentState, reason: EndReason, detail: str = ""
) -> tuple[ExperimentState, ExperimentCommand]:
    return replace(state, phase="ended", ended=reason, detail=detail, queue=()), "finish"


def _next(state: ExperimentState, plan: Experiment) -> tuple[ExperimentState, ExperimentCommand]:
    """The next setting of this round, or of another one, or the end."""
    if state.queue:
        return _begun(state, state.queue)
    if state.round >= plan.rounds_least:
        curve = curve_of(plan, state.visits)
        if curve.decided:
            return _end(state, "clear")
        if state.round >= plan.rounds_most:
            return _end(state, "rounds")
        chosen = _repeated(plan, curve)
    else:
        chosen = tuple(range(len(plan.settings)))
    state = replace(state, round=state.round + 1)
    return _begun(state, order_of(chosen, plan.seed, state.round, state.setting))


def _begun(
    state: ExperimentState, queue: Sequence[int]
) -> tuple[ExperimentState, ExperimentCommand]:
    return replace(state, phase="writing", setting=queue[0], queue=tuple(queue[1:])), queue[0]


def _repeated(plan: Experiment, curve: Curve) -> tuple[int, ...]:
    """Settings of a further round: the undecided ones, what they are compared with, neighbours."""
    order = range(len(plan.settings))
    chosen = {*curve.undecided, *(reference_of(plan, key, order) for key in plan.watch)}
    if curve.recommended is not None:
        chosen.add(curve.recommended)
    for setting in sorted(order, key=lambda item: min(abs(item - one) for one in chosen)):
        if len(chosen) < min(_LEAST_PER_ROUND, len(order)):
            chosen.add(setting)
    return tuple(sorted(chosen))


def order_of(settings: Sequence[int], seed: int, round_: int, last: int = -1) -> tuple[int, ...]:
    """A random order that is not monotonic and does not begin with `last`, where possible."""
    random = np.random.default_rng([seed, round_])
    order = tuple(settings)
    for _ in range(64):
        order = tuple(int(item) for item in random.permutation(list(settings)))
        climbs = {a < b for a, b in pairwise(order)}
        if len(order) < 3 or (len(climbs) == 2 and order[0] != last):
            break
    return order


def settled_at(plan: Experiment, written_ns: int, samples: Sequence[Observation]) -> int | None:
    """When occupancy and the watched network functions' losses settled after a write, or None."""
    timing, now_ns = plan.timing, samples[-1].at_ns
    latest_ns = written_ns + int(timing.settle_most_s * NS_PER_S)
    times: list[int | None] = [_steady_at(written_ns, samples, key) for key in plan.watch]
    metered = {key for sample in samples for key in sample.occupancy}
    for key in metered:
        rows = [(item.at_ns, item.occupancy[key]) for item in samples if key in item.occupancy]
        at_ns, used = (np.array(column) for column in zip(*rows, strict=True))
        still = STILL_RATIO * samples[-1].sizes.get(key, 0.0)
        times.append(still_since(at_ns.astype(np.int64), used, written_ns, still))
    if not metered:
        times.append(written_ns + int(timing.unmetered_s * NS_PER_S))
    known = [item for item in times if item is not None]
    if len(known) < len(times):
        settled_ns = latest_ns
    else:
        settled_ns = min(max(written_ns + int(timing.settle_least_s * NS_PER_S), *known), latest_ns)
    return settled_ns if settled_ns <= now_ns else None


def _steady_at(written_ns: int, samples: Sequence[Observation], key: str) -> int | None:
    """Time of the last reading once losses and cycles have no trend any more, or None.

    A cache fills exponentially: for long after a costly setting packets are lost, ever fewer.
    """
    readings = [(item.at_ns, item.nfs[key]) for item in samples if item.nfs[key].new]
    rows = [row for row in readings if row[1].begin_ns >= written_ns][-_TREND_READINGS:]
    if len(rows) < _TREND_READINGS:
        return None
    lost = [_lost(nf) for _, nf in rows]
    moves = _trends(lost, _LEAST_TREND_RATIO, _LOST_TREND_RATIO) or any(
        _trends([nf.of(name) for _, nf in rows], 0.0, _CPP_TREND_RATIO)
        for name in ("cpp", "busy_cpp")
    )
    return None if moves else rows[-1][0]


def _lost(nf: NfObservation) -> float:
    """Lost packets of those offered; NaN if unknown."""
    offered = nf.of("offered_packets_per_s")
    return nf.of("drop_packets_per_s") / offered if offered > 0 else _NAN


def _trends(values: Sequence[float], least: float, ratio: float) -> bool:
    """Whether values strictly rise or fall, by more than `least` and this share of the larger."""
    signs = {math.copysign(1.0, b - a) if b != a else 0.0 for a, b in pairwise(values)}
    if not all(map(math.isfinite, values)) or len(signs) > 1:
        return False
    moved = abs(values[-1] - values[0])
    return moved > least and moved > ratio * max(abs(values[0]), abs(values[-1]))


def _readings(state: ExperimentState, key: str) -> list[NfObservation]:
    """New readings of a network function whose time is in the measured part of this visit."""
    rows = [sample.nfs[key] for sample in state.samples]
    return [row for row in rows if row.new and row.begin_ns >= state.since_ns]


def _visit(state: ExperimentState, plan: Experiment) -> Visit:
    during = [item for item in state.samples if item.at_ns >= state.since_ns]
    used = [
        sum(values)
        for item in during
        if (values := [v for (name, _), v in item.occupancy.items() if name == plan.group])
    ]
    return Visit(
        setting=state.setting,
        round=state.round,
        written_ns=state.written_ns,
        settled_ns=state.since_ns,
        end_ns=state.samples[-1].at_ns,
        nfs={key: _levels(_readings(state, key)) for key in plan.watch},
        occupancy_bytes=_median(used),
        memory_bytes_per_s=_median([item.memory_bytes_per_s for item in during]),
        ipc=_median([item.ipc for item in during]),
    )


def _levels(rows: Sequence[NfObservation]) -> NfLevels:
    def middle(name: str) -> float:
        return _median([row.of(name) for row in rows])

    drops = [row.of("drop_packets_per_s") for row in rows]
    offered = [row.of("offered_packets_per_s") for row in rows]
    known = [(a, b) for a, b in zip(drops, offered, strict=True) if math.isfinite(a + b)]
    total = sum(b for _, b in known)
    busy = [row.of("busy_cpp") for row in rows]
    full = [row.of("saturated") for row in rows]
    if any(math.isfinite(value) for value in busy):
        cost = _median(busy)
    elif full and all(value == 1 for value in full):
        cost = middle("cpp")
    else:
        cost = _NAN
    return NfLevels(
        packets_per_s=middle("packets_per_s"),
        drop_packets_per_s=float(np.mean([a for a, _ in known])) if known else _NAN,
        lost_ratio=sum(a for a, _ in known) / total if total > 0 else _NAN,
        cpp=middle("cpp"),
        cost_cpp=cost,
        llc_misses_per_packet=middle("llc_misses_per_packet"),
    )


def _watched(state: ExperimentState, plan: Experiment, seen: Observation) -> ExperimentState:
    """The state with readings beyond harm limits counted; ended after enough of them."""
    if not any(nf.new for nf in seen.nfs.values()):
        return state
    harm = _harm(plan, state.visits[0], seen)
    if harm is None:
        return replace(state, harmful=0)
    state = replace(state, harmful=state.harmful + 1)
    return _end(state, *harm)[0] if state.harmful >= _HARMFUL_READINGS else state


def drop_limit(plan: Experiment, baseline: Visit) -> float:
    """Most packets per second that all watched network functions may drop together."""
    if plan.limits.drop_packets_per_s is not None:
        return plan.limits.drop_packets_per_s
    drops = offered = 0.0
    for nf in baseline.nfs.values():
        lost = nf.drop_packets_per_s if math.isfinite(nf.drop_packets_per_s) else 0.0
        drops += lost
        offered += lost + (nf.packets_per_s if math.isfinite(nf.packets_per_s) else 0.0)
    return drops + plan.limits.drop_ratio * offered


def without_drops(baseline: Visit) -> tuple[str, ...]:
    """Network functions whose drops are unknown: a fall of their packets is limited instead."""
    return tuple(
        key for key, nf in baseline.nfs.items() if not math.isfinite(nf.drop_packets_per_s)
    )


def _harm(plan: Experiment, baseline: Visit, seen: Observation) -> tuple[EndReason, str] | None:
    drops = [nf.of("drop_packets_per_s") for nf in seen.nfs.values()]
    total = sum(value for value in drops if math.isfinite(value))
    limit = drop_limit(plan, baseline)
    if total > limit:
        return "drops", f"{total:.3g} above {limit:.3g} packets/s"
    for key, nf in seen.nfs.items():
        before = baseline.nfs[key]
        if key in without_drops(baseline) or not math.isfinite(nf.of("drop_packets_per_s")):
            fall = (
                1.0 - nf.of("packets_per_s") / before.packets_per_s if before.packets_per_s else 0.0
            )
            if not math.isfinite(fall):
                return "silent", f"{plan.watch[key]} has neither drops nor packets"
            if fall > plan.limits.drop_ratio:
                return "drops", f"{plan.watch[key]} forwards {fall:.0%} less than before"
        name = "busy_cpp" if math.isfinite(nf.of("busy_cpp")) else "cpp"
        if name == "cpp" and not (nf.of("saturated") == 1 and math.isfinite(before.cost_cpp)):
            continue
        ratio = nf.of(name) / before.cost_cpp - 1 if before.cost_cpp > 0 else _NAN
        if ratio > plan.limits.cpp_ratio:
            return "cost", f"{plan.watch[key]} {ratio:+.0%} above {plan.limits.cpp_ratio:+.0%}"
    return None


def visit_s(plan: Experiment, visits: Sequence[Visit] = ()) -> float:
    """Expected seconds of a visit: of those done, else by the plan."""
    own = [(visit.end_ns - visit.written_ns) / NS_PER_S for visit in visits if visit.round]
    return float(np.mean(own)) if own else plan.timing.expected_settle_s + plan.timing.measure_s


def duration_s(plan: Experiment, rounds: int) -> float:
    """Expected seconds of so many whole rounds and the baseline."""
    return plan.timing.measure_s + rounds * len(plan.settings) * visit_s(plan)


def left_s(state: ExperimentState, plan: Experiment) -> float:
    """Expected seconds until the least rounds are done; of a later round until its end."""
    if state.phase == "ended":
        return 0.0
    whole = max(plan.rounds_least - state.round, 0)
    waiting = len(state.queue) + whole * len(plan.settings) + bool(state.round)
    spent_s = (state.samples[-1].at_ns - state.written_ns) / NS_PER_S if state.samples else 0.0
    return max(waiting * visit_s(plan, state.visits) - spent_s, 0.0)


def _number(reading: Reading) -> float:
    return _NAN if isinstance(reading, Missing) else reading


def _median(values: Sequence[float]) -> float:
    known = [value for value in values if math.isfinite(value)]
    return float(np.median(known)) if known else _NAN
