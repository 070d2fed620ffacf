"""How the turns of a unit share its boxes' time.

nftop lets them take turns itself. Left to the kernel, every box would swap its groups by a timer
of its own, 250 times a second, on one CPU of the package.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from nftop.uarch.parts import Uncore

# Of the time; one on demand is less wanted, and most of its requests are so many that little tells.
_WEIGHT, _WEIGHT_ON_DEMAND = 4, 1
# A slice costs two interrupts a box, so it is not too short; and none is so long that what happens
# within a second is seen by some turns only.
SHORTEST_NS = 20_000_000
LONGEST_NS = 250_000_000


def turns_of(unit: Uncore) -> tuple[tuple[str, ...], ...]:
    """All groups of a unit's events; those on demand last.

    They are counted always: who asks for MMIO asks for what was, too.
    """
    return (*unit.turns, *unit.on_demand)


def shares(unit: Uncore) -> tuple[float, ...]:
    """What each of `turns_of` is to have of the time; together 1."""
    weights = [_WEIGHT] * len(unit.turns) + [_WEIGHT_ON_DEMAND] * len(unit.on_demand)
    if unit.first_share is None:
        return tuple(weight / sum(weights) for weight in weights)
    others = sum(weights[1:])
    rest = 1 - unit.first_share
    return (unit.first_share, *(rest * weight / others for weight in weights[1:]))


def slices_ns(parts: Sequence[float], interval_ns: int) -> tuple[int, ...]:
    """How long each turn runs before the next, so that rounds fill the interval.

    Every turn runs in every interval, for its share of it, unless the interval is too short for a
    round; a round then takes longer.
    """
    rounds = max(math.ceil(max(parts) * interval_ns / LONGEST_NS), 1)
    round_ns = max(interval_ns / rounds, SHORTEST_NS / min(parts))
    return tuple(max(round(part * round_ns), 1) for part in parts)
