"""LLC misses per packet, where misses are counted in turns and packets all the time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nftop.derive.cpu.counters import AWAITING_TURN, CounterRates
from nftop.model.column import Bools, Column, Floats, column, missing, ratio, where

_EVENT = "llc_misses"


@dataclass(frozen=True, slots=True)
class MissState:
    """What is kept of the last turn.

    Attributes:
        per_packet: float64 (rows,), misses per packet in the tick of the turn; NaN where unknown.
        who: by row, whose packets these are.
        rates: those that were seen last.
    """

    per_packet: Floats | None = None
    who: tuple[object, ...] = ()
    rates: CounterRates | None = None


def step_misses(
    state: MissState, rates: CounterRates, packets: Column, who: Sequence[object]
) -> tuple[MissState, Column]:
    """Misses per packet, rows as in the topology; `packets` are per second and `who`'s.

    Until the next turn it is what it was in the tick of the last one: the packets of now are not
    those that missed. WARMING where those are not known, since somebody else polled then.
    """
    now = ratio(rates.rate_by_cycles(_EVENT), packets)
    ages = rates.ages.get(_EVENT)
    if ages is None or not np.isfinite(ages).any():
        return MissState(), now
    turning: Bools = np.isfinite(ages)
    held = state.per_packet
    if held is None or len(held) != len(who):
        held = np.full(len(who), np.nan)
    else:
        stayed = [old == new for old, new in zip(state.who, who, strict=True)]
        held = np.where(stayed, held, np.nan)
    take = ages == 0
    if rates is state.rates:  # and so the packets may be of a later tick
        take &= ~np.isfinite(held)
    held = np.where(take, now.values, held)
    kept = where(np.isfinite(held), column(held), missing(len(held), AWAITING_TURN))
    return MissState(held, tuple(who), rates), where(turning & now.present, kept, now)
