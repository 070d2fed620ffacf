"""How the turns of a unit share its boxes' time.

nftop lets them take turns itself. Left to the kernel, every box would swap its groups by a timer
of its own, 250 times a second, on one CPU of the package.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nftop.uarch.sections import Uncore

# Of the time; one on demand is less wanted, and most of its requests are so many that little tells.
_WEIGHT, _WEIGHT_ON_DEMAND = 4, 1
# A slice costs two interrupts a box, so it is not too short; and none is so long that what happens
# within a second is seen by some turns only.
SHORTEST_NS = 10_000_000
LONGEST_NS = 250_000_000
# Of the time of one CPU, over all packages. Linux 6.2 to 6.11 set up every group of a CPU anew
# whenever one is switched on (ctx_resched of kernel/events/core.c), which is many boxes' work.
SWITCHING_AT_MOST = 0.02


@dataclass(frozen=True, slots=True)
class Slice:
    """One stay of a turn on the counters."""

    turn: int
    duration_ns: int


@dataclass(slots=True)
class Rota:
    """Where the boxes of one unit are in their round, and until when."""

    at: int
    due_ns: int
    slices: tuple[Slice, ...]

    @property
    def turn(self) -> int:
        return self.slices[self.at].turn

    @property
    def round_ns(self) -> int:
        return sum(item.duration_ns for item in self.slices)


def turns_of(unit: Uncore) -> tuple[tuple[str, ...], ...]:
    """All groups of a unit's events; those on demand last."""
    return (*unit.turns, *unit.on_demand)


def shares(unit: Uncore, *, detailed: bool) -> tuple[float, ...]:
    """What each of `turns_of` is to have of the time; together 1.

    Of those on demand only where it is to be `detailed`: each turn more is two more switches of
    every box in a round.
    """
    weights = [_WEIGHT] * len(unit.turns)
    if detailed:
        weights += [_WEIGHT_ON_DEMAND] * len(unit.on_demand)
    if unit.first_share is None:
        return tuple(weight / sum(weights) for weight in weights)
    others = sum(weights[1:])
    rest = 1 - unit.first_share
    return (unit.first_share, *(rest * weight / others for weight in weights[1:]))


def round_of(parts: Sequence[float], interval_ns: int, switch_ns: int = 0) -> tuple[Slice, ...]:
    """Who runs when, there and back again, so that whole rounds fill the interval.

    Each turn has its slices to both sides of the round's middle: what traffic gains or loses
    steadily within a round changes no turn's rate against another's. The first turn has both ends,
    so that a reading somewhat early or late misses no turn.

    A round takes longer where the interval is too short for it, or where turns change so slowly,
    `switch_ns` each, that it would cost more than `SWITCHING_AT_MOST` of the time.
    """
    rounds = max(math.ceil(max(parts) * interval_ns / 2 / LONGEST_NS), 1)
    switches_ns = 2 * (len(parts) - 1) * switch_ns
    round_ns = max(
        interval_ns / rounds, 2 * SHORTEST_NS / min(parts), switches_ns / SWITCHING_AT_MOST
    )
    there = [
        Slice(turn, max(round(part * round_ns / 2), 1)) for turn, part in enumerate(parts[:-1])
    ]
    middle = Slice(len(parts) - 1, max(round(parts[-1] * round_ns), 1))
    return (*there, middle, *reversed(there))
