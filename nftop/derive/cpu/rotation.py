"""What each counter group counted when it ran last, for groups that take turns tick by tick."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nftop.derive.cpu.deltas import Deltas
from nftop.model.column import Bools, Floats, Reasons
from nftop.model.reading import Reason

# A tick may be late and leave no time for a turn; so many may be missed before counts are stale.
_TURNS_MISSED = 2


@dataclass(frozen=True, slots=True)
class Latest:
    """Of each CPU's groups; rows, g and k as in `Deltas`.

    Attributes:
        counts: float64 (rows, k), counted in the interval in which the column's group ran last.
        running_ns: float64 (rows, g), how long it ran in that interval.
        span_ns: float64 (rows, g), from the end of the interval in which it ran before to the end
            of that one.
        waited_ns: float64 (rows, g), since then.
        age: int64 (rows, g), intervals since then; 0: it ran in this one. Of a group that never
            ran, intervals since it was first seen.
        ran: bool (rows, g), it ran at least once.
    """

    counts: Floats
    running_ns: Floats
    span_ns: Floats
    waited_ns: Floats
    age: NDArray[np.int64]
    ran: Bools

    def usable(self, turns: NDArray[np.int64]) -> Bools:
        """bool (rows, g): which groups' last counts still speak for now.

        `turns` of them, int64 (rows,), take turns tick by tick; the first runs in every one.
        """
        usable: Bools = self.ran & (self.age <= _longest(turns))
        usable[:, 0] &= self.age[:, 0] == 0
        return usable

    def why_not(self, turns: NDArray[np.int64]) -> Reasons:
        """uint8 (rows, g): the `Reason` of a group that is not usable."""
        turning = turns[:, None] > 0
        waiting = turning & (self.age <= _longest(turns))
        never = np.where(waiting, np.uint8(Reason.WARMING), np.uint8(Reason.TAKEN))
        late = np.where(turning, np.uint8(Reason.STALE), np.uint8(Reason.TAKEN))
        why = np.where(self.ran, late, never)
        why[:, 0] = Reason.TAKEN
        return why


def latest(before: Latest | None, found: Deltas) -> Latest:
    """Fold one interval in. A group that can't be rated in it starts anew."""
    rated = found.why == 0
    if before is None or before.counts.shape != found.counts.shape:
        before = _nothing(found)
    waited = np.where(rated, before.waited_ns + found.enabled_ns, 0.0)
    runs = rated & (found.running_ns > 0)
    return Latest(
        counts=np.where(runs[:, found.group], found.counts, before.counts),
        running_ns=np.where(runs, found.running_ns, before.running_ns),
        span_ns=np.where(runs, waited, before.span_ns),
        waited_ns=np.where(runs, 0.0, waited),
        age=np.where(runs | ~rated, 0, before.age + 1),
        ran=rated & (runs | before.ran),
    )


def _longest(turns: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.where(turns > 0, turns + _TURNS_MISSED, 0)[:, None]


def _nothing(found: Deltas) -> Latest:
    none = np.zeros(found.why.shape)
    never = np.zeros(found.why.shape, np.bool_)
    return Latest(np.zeros(found.counts.shape), none, none, none, none.astype(np.int64), never)
