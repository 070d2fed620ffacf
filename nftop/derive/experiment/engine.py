"""The course of an experiment as a pure function of observations: settle, measure, next.

    baseline -> (writing -> settling -> measuring) for every visit -> ended

`Observer` reduces a frame to an `Observation`. `advance` takes one, and returns the state after it
and what to do: try a setting, or finish. The caller writes, and calls `written`. Nothing here reads
a clock or the host.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from random import Random
from typing import Literal, TypeAlias

import numpy as np

from nftop.derive.cache.ways import cache_of
from nftop.derive.compare.settling import STILL_RATIO, still_since
from nftop.derive.compare.window import (
    CLOCKS,
    NF_KEPT,
    ClassKey,
    ReadTimes,
    class_ipc,
    core_values,
    io_hit_ratio,
    is_renewed,
    sample_of,
    source_of,
)
from nftop.derive.experiment.curve import curve_of, reference_of
from nftop.model.clock import NS_PER_S
from nftop.model.experiment import (
    CostBasis,
    Curve,
    EndReason,
    Experiment,
    NfLevels,
    Settling,
    Visit,
)
from nftop.model.frame import Frame, base_clock
from nftop.model.median import median
from nftop.model.metrics.metric import is_bound
from nftop.model.metrics.nf import NF_METRICS
from nftop.model.missing import number_or
from nftop.model.struct import dataclass, field, replace

# New readings of each watched network function that a visit needs, and the most time for them as a
# multiple of `Timing.measure_s`.
LEAST_READINGS, _MOST_MEASURE = 8, 3
# Seconds without a new reading of a watched network function, whose harm would go unnoticed.
_SILENT_S = 15.0
_HARMFUL_READINGS = 2  # in a row of one network function, new and beyond a harm limit
# A visit's number is the mean of its readings without this share of them at either end; with fewer
# than so many readings it is their median.
_TRIMMED_RATIO, _LEAST_TRIMMED = 0.2, 5
# Estimates of a visit's time weigh the plan's as much as so many visits.
_PLANNED_VISITS = 6.0
# A number has a trend while so many readings in a row strictly rise or fall: losses by half and by
# so many of the packets, cycles per packet by that share.
_TREND_READINGS = 5
_LEAST_TREND_RATIO, _LOST_TREND_RATIO, _CPP_TREND_RATIO = 1e-5, 0.5, 0.005
_LEAST_PER_ROUND = 3  # settings: fewer give a further round too few degrees of freedom
_CPP = next(metric for metric in NF_METRICS if metric.id == "cpp")
_AT = {name: index for index, name in enumerate(NF_KEPT)}

ExperimentPhase: TypeAlias = Literal["baseline", "writing", "settling", "measuring", "ended"]


@dataclass(frozen=True, slots=True)
class NfObservation:
    """One reading of a network function.

    Attributes:
        values: as `window.sample_of`.
        begin_ns: CLOCK_MONOTONIC of the reading before; its rates are of the time since.
        new: whether it was read since the last frame.
    """

    values: tuple[float, ...]
    begin_ns: float
    new: bool

    def of(self, name: str) -> float:
        return self.values[_AT[name]]

    @property
    def clock(self) -> str:
        """Base clock of its cycles; "" if unknown."""
        index = self.of("clock")
        return (base_clock(CLOCKS[int(index)]) or "") if math.isfinite(index) else ""

    @property
    def cpp_is_bound(self) -> bool:
        """Whether `cpp` is known and may include empty polls."""
        bound = is_bound(_CPP, saturated=self.of("saturated") == 1, clock=self.clock or None)
        return bound and math.isfinite(self.of("cpp"))

    def cost(self, basis: CostBasis) -> float:
        """Cycles per packet that can be compared, NaN if there are none of this kind."""
        if basis == "busy":
            return self.of("busy_cpp")
        return self.of("cpp") if self.of("saturated") == 1 else math.nan


@dataclass(frozen=True, slots=True)
class Observation:
    """What an experiment needs of a frame.

    Attributes:
        at_ns: CLOCK_MONOTONIC.
        nfs: by key; network functions that are gone are absent.
        occupancy: by class and cache, bytes of a new reading; absent without one.
        sizes: bytes of each cache; absent if unknown.
        memory_bytes_per_s, ipc: of the class; NaN if unknown.
        io_hit_ratio: as in `Visit`.
        others: as `Visit.others`, of this reading.
    """

    at_ns: int
    nfs: Mapping[str, NfObservation]
    occupancy: Mapping[ClassKey, float] = field(default_factory=dict)
    sizes: Mapping[ClassKey, float] = field(default_factory=dict)
    memory_bytes_per_s: float = math.nan
    ipc: float = math.nan
    io_hit_ratio: float = math.nan
    others: Mapping[str, float] = field(default_factory=dict)


class Observer:
    """Reduces frames to observations; it knows which sources were read anew."""

    def __init__(self, plan: Experiment) -> None:
        self._plan = plan
        self._times = ReadTimes()

    def observe(self, frame: Frame) -> Observation:
        plan = self._plan
        renewed = self._times.renewed(frame)
        nfs = {}
        watched = [nf for nf in frame.nfs if nf.key in plan.watch]
        for nf, cores in zip(watched, core_values(frame.cpus, watched), strict=True):
            source = source_of(nf)
            begin_ns = renewed.get(source)
            nfs[nf.key] = NfObservation(
                values=tuple(sample_of(nf, cores)),
                begin_ns=math.nan if begin_ns is None else begin_ns,
                new=nf.problem is None and is_renewed(frame, {source}, renewed),
            )
        sizes = {
            domain.l3: float(domain.size_bytes) for domain in frame.domains if domain.size_bytes
        }
        occupancy: dict[ClassKey, float] = {}
        memory: list[float] = []
        keys = [(plan.group, l3) for l3 in plan.caches]
        metered = any(source in renewed for source in ("resctrl", "pqos"))
        for group in frame.groups:
            for l3 in plan.caches if group.name in plan.classes else ():
                cache = cache_of(group, l3)
                if cache is None:
                    continue
                used = number_or(cache.readings["occupancy_bytes"], math.nan)
                if metered and math.isfinite(used):
                    occupancy[group.name, l3] = used
                if group.name == plan.group:
                    memory.append(number_or(cache.readings["mbm_total_bytes_per_s"], math.nan))
        ipc, _ = class_ipc(frame, keys, renewed)
        return Observation(
            at_ns=frame.monotonic_ns,
            nfs=nfs,
            occupancy=occupancy,
            sizes={
                (name, l3): sizes[l3] for name in plan.classes for l3 in plan.caches if l3 in sizes
            },
            memory_bytes_per_s=sum(memory) if memory else math.nan,
            ipc=float(np.mean(ipc)) if len(ipc) else math.nan,
            io_hit_ratio=io_hit_ratio(frame, plan.caches),
            others=_others(plan, frame, renewed) if plan.kind == "try" else {},
        )


def _others(plan: Experiment, frame: Frame, renewed: Collection[str]) -> Mapping[str, float]:
    """Numbers of classes and sockets that were read anew."""
    result: dict[str, float] = {}
    for group in frame.groups:
        if group.name not in plan.classes:
            continue
        caches = [cache for l3 in plan.caches if (cache := cache_of(group, l3)) is not None]
        memory = [number_or(cache.readings["mbm_total_bytes_per_s"], math.nan) for cache in caches]
        if any(source in renewed for source in ("resctrl", "pqos")):
            result[f"class/{group.name}/mbm_total_bytes_per_s"] = float(sum(memory))
        ipc, new = class_ipc(frame, [(group.name, l3) for l3 in plan.caches], renewed)
        known = ipc[np.isfinite(ipc) & (new > 0)]
        # IPC is of empty polls, too, where a network function in the class has room.
        polled = (nf for nf in frame.nfs if group.name in {item.name for item in nf.classes})
        if len(known) and all(nf.saturated is True for nf in polled):
            result[f"class/{group.name}/ipc"] = float(np.mean(known))
    for row in frame.packages:
        memory = [
            number_or(row.readings[f"memory.{way}_bytes_per_s"], math.nan)
            for way in ("read", "write")
        ]
        result[f"socket/{row.package}/memory_bytes_per_s"] = float(sum(memory))
        hits = number_or(row.readings["pcie.ddio_hit_ratio"], math.nan) if plan.of_io else math.nan
        result[f"socket/{row.package}/pcie.ddio_hit_ratio"] = hits
    return {key: value for key, value in result.items() if math.isfinite(value)}


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
        harmful: by network function, new readings of this visit in a row beyond a limit.
        settling: how this visit came to be measured.
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
    harmful: Mapping[str, int] = field(default_factory=dict)
    settling: Settling = "still"
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
    state = _end_if_harmed(state, plan, seen)
    if state.ended is not None:
        return state, "finish"
    state = replace(state, samples=(*state.samples, seen))
    if state.phase == "settling":
        settled = settled_at(plan, state.written_ns, state.samples)
        if settled is None:
            return state, None
        settled_ns, settling = settled
        state = replace(state, phase="measuring", since_ns=settled_ns, settling=settling)
    return _finish_visit(state, plan) if _is_over(state, plan) else (state, None)


def _end_if_harmed(state: ExperimentState, plan: Experiment, seen: Observation) -> ExperimentState:
    """The state, ended if a network function can't be watched or a harm limit is exceeded."""
    gone = [name for key, name in plan.watch.items() if key not in seen.nfs]
    if gone:
        return _end(state, "gone", ", ".join(gone))[0]
    silent = [name for key, name in plan.watch.items() if _silence_s(state, key, seen) > _SILENT_S]
    if silent:
        return _end(state, "silent", ", ".join(silent))[0]
    return _count_harm(state, plan, seen) if state.visits else state


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


def _finish_visit(
    state: ExperimentState, plan: Experiment
) -> tuple[ExperimentState, ExperimentCommand]:
    silent = [name for key, name in plan.watch.items() if not _readings(state, key)]
    if silent:
        return _end(state, "silent", ", ".join(silent))
    return _next(replace(state, visits=(*state.visits, _visit(state, plan))), plan)


def written(state: ExperimentState, at_ns: int) -> ExperimentState:
    """The state once the setting of the last command is on the host."""
    return replace(
        state, phase="settling", since_ns=at_ns, written_ns=at_ns, samples=(), harmful={}
    )


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
        return _start_visit(state, state.queue)
    if state.round >= plan.rounds_least:
        curve = curve_of(plan, state.visits)
        if curve.decided and plan.kind == "sweep":
            return _end(state, "clear")
        if state.round >= plan.rounds_most:
            return _end(state, "rounds")
        chosen = _settings_to_repeat(plan, curve)
    else:
        chosen = tuple(range(len(plan.settings)))
    state = replace(state, round=state.round + 1)
    return _start_visit(state, order_of(chosen, plan.seed, state.round, state.setting))


def _start_visit(
    state: ExperimentState, queue: Sequence[int]
) -> tuple[ExperimentState, ExperimentCommand]:
    state = replace(state, phase="writing", samples=(), setting=queue[0], queue=tuple(queue[1:]))
    return state, queue[0]


def _settings_to_repeat(plan: Experiment, curve: Curve) -> tuple[int, ...]:
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
    random = Random((seed << 32) + round_)  # noqa: S311 - of no secret
    order = list(settings)
    for _ in range(64):
        random.shuffle(order)
        climbs = {a < b for a, b in pairwise(order)}
        if len(order) < 3 or (len(climbs) == 2 and order[0] != last):
            break
    return tuple(order)


def settled_at(
    plan: Experiment, written_ns: int, samples: Sequence[Observation]
) -> tuple[int, Settling] | None:
    """When occupancy and the watched network functions' losses settled after a write, and how.

    None: not yet.
    """
    timing, now_ns = plan.timing, samples[-1].at_ns
    latest_ns = written_ns + int(timing.settle_most_s * NS_PER_S)
    times: list[int | None] = [_trend_ended_at(written_ns, samples, key) for key in plan.watch]
    metered = {key for sample in samples for key in sample.occupancy}
    sized = {key for key in metered if key in samples[-1].sizes}
    for key in sized:
        rows = [(item.at_ns, item.occupancy[key]) for item in samples if key in item.occupancy]
        at_ns, used = (np.array(column) for column in zip(*rows, strict=True))
        still = STILL_RATIO * samples[-1].sizes[key]
        times.append(still_since(at_ns.astype(np.int64), used, written_ns, still))
    how: Settling = "still"
    if sized != metered or not metered:
        times.append(written_ns + int(timing.unmetered_s * NS_PER_S))
        how = "no_size" if metered else "unmetered"
    known = [item for item in times if item is not None]
    settled_ns = max(written_ns + int(timing.settle_least_s * NS_PER_S), *known, 0)
    if len(known) < len(times) or settled_ns > latest_ns:
        settled_ns, how = latest_ns, "moving"
    return (settled_ns, how) if settled_ns <= now_ns else None


def _trend_ended_at(written_ns: int, samples: Sequence[Observation], key: str) -> int | None:
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
    return nf.of("drop_packets_per_s") / offered if offered > 0 else math.nan


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
    used = []
    for item in during:
        own = {l3: value for (name, l3), value in item.occupancy.items() if name == plan.group}
        # Without one of its caches the sum would be too small.
        if own and own.keys() >= set(plan.caches):
            used.append(sum(own.values()))
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
        settling=state.settling,
        io_hit_ratio=_median([item.io_hit_ratio for item in during]),
        others={
            key: _center([item.others[key] for item in during if key in item.others])
            for key in sorted({key for item in during for key in item.others})
        },
    )


def _levels(rows: Sequence[NfObservation]) -> NfLevels:
    def middle(name: str) -> float:
        return _center([row.of(name) for row in rows])

    def cost(basis: CostBasis) -> float:
        values = [row.cost(basis) for row in rows]
        known = [value for value in values if math.isfinite(value)]
        # All cycles are those of busy cores only if these were busy all the time.
        is_whole = bool(known) and (basis == "busy" or len(known) == len(values))
        return _center(known) if is_whole and len(clocks) == 1 else math.nan

    clocks = {row.clock for row in rows if math.isfinite(row.of("cpp"))}
    drops = [row.of("drop_packets_per_s") for row in rows]
    offered = [row.of("offered_packets_per_s") for row in rows]
    known = [(a, b) for a, b in zip(drops, offered, strict=True) if math.isfinite(a + b)]
    total = sum(b for _, b in known)
    return NfLevels(
        packets_per_s=middle("packets_per_s"),
        drop_packets_per_s=float(np.mean([a for a, _ in known])) if known else math.nan,
        lost_ratio=sum(a for a, _ in known) / total if total > 0 else math.nan,
        cpp=middle("cpp"),
        busy_cpp=cost("busy"),
        full_cpp=cost("full"),
        llc_misses_per_packet=middle("llc_misses_per_packet"),
        clock=next(iter(clocks)) if len(clocks) == 1 else "",
        cpp_is_bound=any(row.cpp_is_bound for row in rows),
    )


def _count_harm(state: ExperimentState, plan: Experiment, seen: Observation) -> ExperimentState:
    """The state with readings beyond harm limits counted; ended after enough of them in a row.

    Each network function counts for itself: its new readings whose time is in this visit.
    """
    counts = dict(state.harmful)
    fresh = {key: nf for key, nf in seen.nfs.items() if nf.new and nf.begin_ns >= state.written_ns}
    for key, nf in fresh.items():
        harm = _harm(plan, state, seen, key, nf)
        counts[key] = 0 if harm is None else counts.get(key, 0) + 1
        if harm is not None and counts[key] >= _HARMFUL_READINGS:
            return _end(state, *harm)[0]
    return replace(state, harmful=counts) if fresh else state


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


def _harm(
    plan: Experiment, state: ExperimentState, seen: Observation, key: str, nf: NfObservation
) -> tuple[EndReason, str] | None:
    """What a new reading of one network function is beyond, with numbers; None: no limit.

    Drops are limited together: those of the others are of their last readings of this visit.
    """
    baseline, name = state.visits[0], plan.watch[key]
    before, drops = baseline.nfs[key], nf.of("drop_packets_per_s")
    latest = [
        item.of("drop_packets_per_s")
        for item in seen.nfs.values()
        if item.begin_ns >= state.written_ns
    ]
    total = sum(value for value in latest if math.isfinite(value))
    limit = drop_limit(plan, baseline)
    if drops > 0 and total > limit:
        return "drops", f"{total:.3g} above {limit:.3g} packets/s"
    if key in without_drops(baseline) or not math.isfinite(drops):
        packets = nf.of("packets_per_s")
        fall = 1.0 - packets / before.packets_per_s if before.packets_per_s else 0.0
        if not math.isfinite(fall):
            return "silent", f"{name} has neither drops nor packets"
        if fall > plan.limits.drop_ratio:
            return "drops", f"{name} forwards {fall:.0%} less than before"
    bases: tuple[CostBasis, ...] = ("busy", "full")
    for basis in bases if nf.clock == before.clock else ():
        usual, now = before.cost(basis), nf.cost(basis)
        if usual > 0 and math.isfinite(now):
            ratio = now / usual - 1
            if ratio > plan.limits.cpp_ratio:
                return "cost", f"{name} {ratio:+.0%} above {plan.limits.cpp_ratio:+.0%}"
            break
    return None


def visit_s(plan: Experiment, visits: Sequence[Visit] = ()) -> float:
    """Expected seconds of a visit: the plan's and those of the visits done, as a weighted mean."""
    own = [(visit.end_ns - visit.written_ns) / NS_PER_S for visit in visits if visit.round]
    planned = plan.timing.expected_settle_s + plan.timing.measure_s
    return (planned * _PLANNED_VISITS + sum(own)) / (_PLANNED_VISITS + len(own))


def duration_s(plan: Experiment, rounds: int) -> float:
    """Expected seconds of so many whole rounds and the baseline."""
    return plan.timing.measure_s + rounds * len(plan.settings) * visit_s(plan)


def left_s(state: ExperimentState, plan: Experiment) -> float:
    """Expected seconds until the least rounds are done; of a later round until its end.

    A visit that takes longer than expected takes nothing off those that follow.
    """
    if state.phase == "ended":
        return 0.0
    usual_s = visit_s(plan, state.visits)
    whole = max(plan.rounds_least - state.round, 0)
    waiting = len(state.queue) + whole * len(plan.settings)
    spent_s = (state.samples[-1].at_ns - state.written_ns) / NS_PER_S if state.samples else 0.0
    present_s = usual_s if state.round else plan.timing.measure_s
    return waiting * usual_s + max(present_s - spent_s, 0.0)


def _center(values: Sequence[float]) -> float:
    """Trimmed mean of the known values, which noise moves less than their median; NaN if none."""
    known = sorted(value for value in values if math.isfinite(value))
    if len(known) < _LEAST_TRIMMED:
        return _median(known)
    cut = int(_TRIMMED_RATIO * len(known))
    return float(np.mean(known[cut : len(known) - cut]))


def _median(values: Sequence[float]) -> float:
    return median([value for value in values if math.isfinite(value)])
