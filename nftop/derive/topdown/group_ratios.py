"""Top-down of counter groups that take turns: how a whole was divided when its parts were counted.

A part below level 1 comes from a turn some ticks ago and its whole from the tick that is over now.
Where the load has changed between, the one taken from the other is no number. So a whole is divided
by what was counted in the tick of the turn; that division is kept, and not the counts, until the
next turn, and is of the whole of now: parts then always fit into it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from nftop.derive.cpu.counters import CounterRates
from nftop.model.column import Bools, Column, Floats, missing, where
from nftop.model.ids import Cpu
from nftop.model.reading import Missing, Reason
from nftop.model.struct import dataclass, field, replace
from nftop.model.topology import Topology
from nftop.uarch.sections import Topdown
from nftop.uarch.topdown import RATIO_TOLERANCE, NodeFamily, Settle, Usage, consistent, core_index

# Even within a tick the main group sees nine tenths and the turn the last one. What does not fit
# for that is put back to the bound, as long as it can't be off by more than this for it.
MOMENTS_TOLERANCE = 0.10
MOMENTS = Missing(
    Reason.UNDEFINED,
    "its counter groups saw different moments of a load that changes; their next turns may tell",
)

_NOWHERE: Bools = np.zeros((), np.bool_)


@dataclass(frozen=True, slots=True)
class Division:
    """How one whole was divided; each array of shape (rows,).

    Attributes:
        shares: by part, 0..1 of the whole; NaN where it is not known.
        spread: how many ticks before the newest of its counts the oldest was taken.
        since: ticks since then.
    """

    shares: Mapping[str, Floats]
    spread: Floats
    since: Floats


@dataclass(frozen=True, slots=True)
class ShareState:
    """What a tick leaves.

    Attributes:
        divisions: by the first of their parts.
        cpus: whose rows they are.
        rates: those they were made of.
        usage: by node with a value in this tick, the events it was computed from.
    """

    divisions: dict[str, Division] = field(default_factory=dict)
    cpus: tuple[Cpu, ...] = ()
    rates: CounterRates | None = None
    usage: dict[str, Usage] = field(default_factory=dict)


def settling(
    before: ShareState,
    rates: CounterRates,
    topdown: Topdown,
    topology: Topology,
    *,
    rows: slice = slice(None),
) -> tuple[Settle, ShareState]:
    """How to settle one tick's top-down of these rows of the topology, and the state it leaves.

    The state is whole when `topdown.evaluate` has settled every node with it.

    Parts of which all is counted in every tick must be `consistent`. Others are UNDEFINED where
    they contradict each other, for no other program needs to be blamed: they don't fit into their
    whole (or, for shares of cycles, into 0..1) by more than `MOMENTS_TOLERANCE`, and the whole is
    larger than that. Where it is not, or they lack less, they are put back to the bound.
    """
    cpus = tuple(info.cpu for info in topology.cpus[rows])
    known = before if before.cpus == cpus else ShareState()
    after = ShareState({}, cpus, rates)
    ticks = 0 if rates is known.rates else 1  # a reading seen before is no tick
    cores = core_index(topology)

    def settle(parts: Mapping[str, Column], family: NodeFamily) -> Mapping[str, Column]:
        first, whole = next(iter(parts)), family.whole
        after.usage.update(family.usage)
        # The whole has been settled, whenever it was counted.
        settled_events = {} if whole is None else after.usage.get(topdown.parent[first], {})
        ages = _ages(rates.ages, family.usage.values(), settled_events)
        if not ages:
            return consistent(parts, family)
        newest, oldest = (
            _of_cores(choose, choose.reduce(ages, axis=0), cores)[rows]
            for choose in (np.fmin, np.fmax)
        )
        turning: Bools = np.isfinite(newest)
        if not turning.any():
            return consistent(parts, family)
        if whole is None:
            settled = _bounded(parts, family)
        else:
            held = known.divisions.get(first) or _unknown(parts, len(cpus))
            held = replace(held, since=held.since + ticks)
            after.divisions[first] = _division(parts, family, held, newest, oldest)
            settled = _divided(parts, whole, after.divisions[first])
        if turning.all():
            return settled
        steady = consistent(parts, family)
        return {name: where(turning, settled[name], steady[name]) for name in parts}

    return settle, after


def _ages(ages: Mapping[str, Floats], usages: Iterable[Usage], settled: Usage) -> list[Floats]:
    """Of each event in use with an age, float64 (rows,), NaN where it is not used or is settled."""
    used: dict[str, Bools] = {}
    for usage in usages:
        for event in usage.keys() & ages.keys():
            before = used.get(event, _NOWHERE)
            used[event] = before | (usage[event] & ~settled.get(event, _NOWHERE))
    return [np.where(used[event], ages[event], np.nan) for event in sorted(used)]


def _unknown(parts: Mapping[str, Column], rows: int) -> Division:
    nothing = np.full(rows, np.nan)
    return Division(dict.fromkeys(parts, nothing), np.full(rows, np.inf), np.zeros(rows))


def _division(
    parts: Mapping[str, Column],
    family: NodeFamily,
    held: Division,
    newest: Floats,
    oldest: Floats,
) -> Division:
    """The division that holds from this tick on, by when the parts' counts were taken."""
    known: Bools = np.all([column.present for column in parts.values()], axis=0)
    # Of groups that have their turns one after the other the last one's is the time to divide.
    turn = known & (newest == 0) & ((oldest <= held.spread) | (held.since > oldest))
    of = np.ones_like(newest) if family.whole is None else family.whole.values
    fitting, misfit = _fitting(parts, of, complete=family.complete)
    sound = (misfit <= MOMENTS_TOLERANCE) & (of >= RATIO_TOLERANCE)
    size = np.where(sound, of, np.nan)
    return Division(
        {name: np.where(turn, fitting[name] / size, held.shares[name]) for name in parts},
        np.where(turn, oldest, held.spread),
        np.where(turn, 0.0, held.since),
    )


def _divided(parts: Mapping[str, Column], whole: Column, division: Division) -> dict[str, Column]:
    """The parts of the whole of now; of a small one it matters little how it is divided."""
    fitting, _ = _fitting(parts, whole.values, complete=False)
    small = whole.values <= MOMENTS_TOLERANCE
    settled = {}
    for name, column in parts.items():
        share = division.shares[name]
        held: Bools = np.isfinite(share)
        settled[name] = _with_values(
            column, np.where(held, share * whole.values, fitting[name]), held | small
        )
    return settled


def _bounded(parts: Mapping[str, Column], family: NodeFamily) -> dict[str, Column]:
    """The parts of all slots or cycles, put back to the bound where they exceed it by little."""
    rows = len(next(iter(parts.values())))
    fitting, misfit = _fitting(parts, np.ones(rows), complete=family.complete)
    clear = misfit <= MOMENTS_TOLERANCE
    return {name: _with_values(column, fitting[name], clear) for name, column in parts.items()}


def _fitting(
    parts: Mapping[str, Column], whole: Floats, *, complete: bool
) -> tuple[dict[str, Floats], Floats]:
    """The parts made to fit into the whole, none negative, and by how much they did not fit.

    Parts that are all there is (`complete`) do not fit either where they fall short of the whole.
    """
    values = np.array([np.where(column.present, column.values, 0.0) for column in parts.values()])
    positive = np.clip(values, 0.0, None)
    total = positive.sum(axis=0)
    too_much: Bools = total > whole
    scale = np.where(too_much, whole, 1.0) / np.where(too_much, total, 1.0)
    known: Bools = np.all([column.present for column in parts.values()], axis=0)
    lacking = np.where(known, whole - total, 0.0) if complete else 0.0
    misfit = np.maximum.reduce([-values.min(axis=0), total - whole, lacking * np.ones_like(whole)])
    return dict(zip(parts, np.minimum(positive * scale, whole), strict=True)), misfit


def _with_values(column: Column, values: Floats, clear: Bools) -> Column:
    """The part with these values, where it has any, and MOMENTS where they are not clear."""
    now = np.where(column.present, values, np.nan)
    result = Column(now, column.reasons, column.details, column.by_reason)
    if (clear | ~column.present).all():
        return result
    return where(clear | ~column.present, result, missing(len(values), MOMENTS))


def _of_cores(choose: np.ufunc, values: Floats, cores: NDArray[np.int64]) -> Floats:
    """float64 (rows,): of each core's threads the value that `choose` takes, on all their rows."""
    chosen = np.full(int(cores.max(initial=0)) + 1, np.nan)
    choose.at(chosen, cores, values)
    return chosen[cores]
