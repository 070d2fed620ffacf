"""Usual cost and load of pollers and network functions. A stage of the fold.

The usual value is the median of the last ten minutes in which the row was in no incident. Time in
an open incident that harms is left out from its begin on, for the network functions that the
incident concerns and all of their CPUs, so that both agree. After `NEW_NORMAL_AFTER_S` an incident
is the new normal: what was usual before is forgotten and the row learns again.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from nftop.derive.compare.window import NF_KEPT, core_values, sample_of
from nftop.derive.fold_stage import FoldStage, FoldTick
from nftop.derive.frame import FRAME
from nftop.derive.incidents.lifecycle import INCIDENTS
from nftop.model.column import Floats
from nftop.model.frame import Frame
from nftop.model.ids import Cpu
from nftop.model.incident import Incident, Severity
from nftop.model.rule_settings import base_name
from nftop.model.struct import dataclass, field, replace
from nftop.model.usual import NEW_NORMAL_AFTER_S, USUAL_METRICS, USUAL_SPAN_S, Usual, UsualTable

_INTERVAL_S = 10.0
_SLOTS = round(USUAL_SPAN_S / _INTERVAL_S)
# Without a whole slot, so many seconds of the one that has begun are enough.
_LEAST_S = 5.0
# An incident may have begun so long before its first finding did.
_MARGIN_S = 2.0
_NF_ROWS = [NF_KEPT.index(name) for name in ("cpp", "busy_cpp", "packets_per_s")]


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    """What n rows have learned.

    Attributes:
        keys: of the rows.
        means: float32 (metrics, n, slots), one a slot of time, the newest last; NaN: unknown.
        until_s: int32 (n, slots), CLOCK_MONOTONIC at which a slot ended.
        sums, counts: float64 (metrics, n), numbers of the slot that has begun.
        seconds: float64 (n,), time that this slot has.
        values: float64 (metrics, n), the usual values.
    """

    keys: tuple[Hashable, ...] = ()
    means: NDArray[np.float32] = field(
        default_factory=lambda: np.zeros((len(USUAL_METRICS), 0, _SLOTS), np.float32)
    )
    until_s: NDArray[np.int32] = field(default_factory=lambda: np.zeros((0, _SLOTS), np.int32))
    sums: Floats = field(default_factory=lambda: np.zeros((len(USUAL_METRICS), 0)))
    counts: Floats = field(default_factory=lambda: np.zeros((len(USUAL_METRICS), 0)))
    seconds: Floats = field(default_factory=lambda: np.zeros(0))
    values: Floats = field(default_factory=lambda: np.zeros((len(USUAL_METRICS), 0)))


@dataclass(frozen=True, slots=True)
class UsualState:
    """State of the stage.

    Attributes:
        expired: ids of open incidents that are the new normal.
    """

    cpus: Learned = field(default_factory=Learned)
    nfs: Learned = field(default_factory=Learned)
    expired: frozenset[str] = frozenset()
    monotonic_ns: int = 0


@dataclass(frozen=True, slots=True)
class _Concerned:
    """Network functions by key: in incidents since when, and those with a new normal."""

    since_s: Mapping[str, float]
    renewed: Collection[str]


def step_usual(state: UsualState, frame: Frame) -> tuple[UsualState, Usual]:
    """Fold one frame with its incidents in."""
    if frame.monotonic_ns < state.monotonic_ns:
        state = UsualState()
    harmful = [item for item in frame.incidents if item.severity > Severity.INFO]
    expired = frozenset(
        item.id for item in harmful if item.lasted_s(frame.monotonic_ns) >= NEW_NORMAL_AFTER_S
    )
    concerned = _concerned(harmful, expired, state.expired)
    cpu_keys, nf_of = _pollers(frame)
    cpu_values = np.array([frame.cpus.columns[name].values[list(nf_of)] for name in USUAL_METRICS])
    cpus = _step(state.cpus, cpu_keys, cpu_values, _times(nf_of.values(), concerned), frame)
    nf_keys = [nf.key for nf in frame.nfs]
    cores = core_values(frame.cpus, frame.nfs)
    samples = np.array([sample_of(nf, own) for nf, own in zip(frame.nfs, cores, strict=True)])
    nf_values = samples[:, _NF_ROWS].T if nf_keys else np.zeros((len(USUAL_METRICS), 0))
    own = [(key,) for key in nf_keys]
    nfs = _step(state.nfs, nf_keys, nf_values, _times(own, concerned), frame)
    usual = Usual(
        UsualTable({key[0]: at for at, key in enumerate(cpu_keys)}, cpus.values),
        UsualTable({key: at for at, key in enumerate(nf_keys)}, nfs.values),
    )
    return UsualState(cpus, nfs, expired, frame.monotonic_ns), usual


def _concerned(
    harmful: Iterable[Incident], expired: Collection[str], before: Collection[str]
) -> _Concerned:
    since_s: dict[str, float] = {}
    renewed = set[str]()
    for item in harmful:
        parties = [victim.party for victim in item.victims]
        parties += [] if item.culprit is None else [item.culprit]
        keys = [party.key for party in parties if party.key]
        if item.id in expired:
            renewed |= set(keys) if item.id not in before else set()
            continue
        began_s = item.began_ns / 1e9 - _MARGIN_S
        since_s |= {key: min(began_s, since_s.get(key, math.inf)) for key in keys}
    return _Concerned(since_s, renewed - since_s.keys())


def _pollers(frame: Frame) -> tuple[list[tuple[Cpu, str]], dict[int, tuple[str, ...]]]:
    """Keys of pollers, and by row of the frame the keys of the NFs that poll there."""
    row_of = frame.cpus.topology.row_of
    nfs = dict[int, list[str]]()
    for nf in frame.nfs:
        for cpu in nf.cpus:
            if cpu in row_of:
                nfs.setdefault(row_of[cpu], []).append(nf.key)
    rows = [row for row, name in enumerate(frame.cpus.nf) if name is not None]
    infos = frame.cpus.topology.cpus
    names = (base_name(frame.cpus.nf[row] or "") for row in rows)
    keys = [(infos[row].cpu, name) for row, name in zip(rows, names, strict=True)]
    return keys, {row: tuple(nfs.get(row, ())) for row in rows}


def _times(nfs: Iterable[Sequence[str]], concerned: _Concerned) -> tuple[Floats, NDArray[np.bool_]]:
    """Of each row the begin of its incidents in seconds, inf without one; and a new normal."""
    rows = list(nfs)
    since = [
        min((concerned.since_s.get(key, math.inf) for key in row), default=math.inf) for row in rows
    ]
    renewed = [any(key in concerned.renewed for key in row) for row in rows]
    return np.array(since, np.float64), np.array(renewed, np.bool_)


def _step(
    before: Learned,
    keys: Sequence[Hashable],
    numbers: Floats,
    times: tuple[Floats, NDArray[np.bool_]],
    frame: Frame,
) -> Learned:
    """One tick: float64 (metrics, n); `times` is of `_times`."""
    known = _aligned(before, tuple(keys))
    since_s, renewed = times
    held = np.isfinite(since_s)
    known, changed = _forgotten(known, since_s, held | renewed, renewed)
    seconds = frame.elapsed_s
    counted = np.isfinite(numbers) & ~held
    known = replace(
        known,
        sums=known.sums + np.where(counted, numbers, 0.0),
        counts=known.counts + counted,
        seconds=np.where(held, 0.0, known.seconds + seconds),
    )
    whole = known.seconds >= _INTERVAL_S
    if whole.any():
        known, changed = _closed(known, whole, frame.monotonic_ns), True
    blank = np.isnan(known.means[:, :, -1]).all(axis=0)
    if not (changed or blank.any()):
        return known
    return replace(known, values=_usual(known))


def _forgotten(
    known: Learned, since_s: Floats, reset: NDArray[np.bool_], renewed: NDArray[np.bool_]
) -> tuple[Learned, bool]:
    """Without the time in incidents, and of rows with a new normal without any."""
    if not reset.any():
        return known, False
    known = replace(
        known,
        sums=np.where(reset, 0.0, known.sums),
        counts=np.where(reset, 0.0, known.counts),
        seconds=np.where(reset, 0.0, known.seconds),
    )
    inside = (known.until_s > since_s[:, None]) | renewed[:, None]
    if not (np.isfinite(known.means) & inside).any():
        return known, False
    return replace(known, means=np.where(inside, np.float32(np.nan), known.means)), True


def _closed(known: Learned, whole: NDArray[np.bool_], now_ns: int) -> Learned:
    """With the parts of these rows that are whole; their oldest ones leave."""
    rows = np.flatnonzero(whole)
    means, until_s = known.means.copy(), known.until_s.copy()
    means[:, rows, :-1] = known.means[:, rows, 1:]
    until_s[rows, :-1] = known.until_s[rows, 1:]
    means[:, rows, -1] = _means(known)[:, rows]
    until_s[rows, -1] = round(now_ns / 1e9)
    return replace(
        known,
        means=means,
        until_s=until_s,
        sums=np.where(whole, 0.0, known.sums),
        counts=np.where(whole, 0.0, known.counts),
        seconds=np.where(whole, 0.0, known.seconds),
    )


def _means(known: Learned) -> Floats:
    return np.where(known.counts > 0, known.sums / np.maximum(known.counts, 1), np.nan)


def _usual(known: Learned) -> Floats:
    """Medians of the parts; of rows without a whole one the mean of the part that has begun."""
    ordered = np.sort(known.means, axis=2)  # NaN last
    count = np.isfinite(ordered).sum(axis=2)
    middle = np.maximum(count - 1, 0) // 2, np.minimum(count // 2, _SLOTS - 1)
    low, high = (np.take_along_axis(ordered, at[..., None], 2)[..., 0] for at in middle)
    median = np.where(count > 0, (low + high) / 2.0, np.nan).astype(np.float64)
    first = np.where(known.seconds >= _LEAST_S, _means(known), np.nan)
    result = np.where(count > 0, median, first)
    return np.where(result > 0, result, np.nan)


def _aligned(before: Learned, keys: tuple[Hashable, ...]) -> Learned:
    """For these rows; new ones know nothing."""
    if before.keys == keys:
        return before
    at = {key: index for index, key in enumerate(before.keys)}
    pairs = [(row, at[key]) for row, key in enumerate(keys) if key in at]
    new, old = [row for row, _ in pairs], [row for _, row in pairs]
    metrics, count = len(USUAL_METRICS), len(keys)
    means = np.full((metrics, count, _SLOTS), np.nan, np.float32)
    until_s = np.zeros((count, _SLOTS), np.int32)
    sums, counts = np.zeros((metrics, count)), np.zeros((metrics, count))
    seconds, values = np.zeros(count), np.full((metrics, count), np.nan)
    means[:, new], until_s[new] = before.means[:, old], before.until_s[old]
    sums[:, new], counts[:, new] = before.sums[:, old], before.counts[:, old]
    seconds[new], values[:, new] = before.seconds[old], before.values[:, old]
    return Learned(keys, means, until_s, sums, counts, seconds, values)


def _run(state: UsualState, tick: FoldTick) -> tuple[UsualState, Usual]:
    incidents = tick.output(INCIDENTS)
    frame = replace(tick.output(FRAME), incidents=incidents.active)
    return step_usual(state, frame)


USUAL: FoldStage[UsualState, Usual] = FoldStage("usual", UsualState, _run, lasting=True)
