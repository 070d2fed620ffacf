"""Requests of devices per second, from a pcm-sensor-server's totals.

The server does not count them all the time. Its collector (Intel PCM, src/pcm-pcie-collector.h and
src/pcm-pcie.h, June 2026) counts for one second, the events by turns and scaled up for that, adds
that to its totals, and rests for two. So its totals grow by one second's requests in each three
seconds, and go up in steps. Which is the rate is seen from the pace of the steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from nftop.model.column import Column, Floats, missing
from nftop.model.pcm import PcmTable
from nftop.model.reading import Missing, Reason

_COUNTED_RATIO = 1 / 3
# Steps closer than this are of a server that does not rest between them.
_RESTING_FROM_S = 2.6
# Without steps for so long, there are no requests.
_IDLE_FROM_S = 10.0
_STEPS, _LEAST_STEPS = 5, 3
_NO_COLLECTOR = Missing(
    Reason.SOURCE, "this build of the server does not tell it (upstream's do from March 2026 on)"
)
_NOT_COUNTED = Missing(Reason.HARDWARE, "the server's counters of devices' requests stay at 0")
_WARMING = Missing(
    Reason.WARMING, "the server counts devices' requests by samples, and needs three of them"
)
_PACE_UNSEEN = Missing(
    Reason.SOURCE,
    "the server counts devices' requests by samples, whose pace shows only at intervals of a second",
)
_RESTARTED = Missing(Reason.RESET, "the server's totals of devices' requests restarted")


@dataclass(frozen=True, slots=True)
class PcieState:
    """What was seen so far.

    Attributes:
        table: the last document; at_ns: when it was read, CLOCK_MONOTONIC.
        steps: when totals went up, and what to, newest last; at most `_STEPS` of them.
        rests: whether the server rests between its samples; None before that is known.
    """

    table: PcmTable | None = None
    at_ns: int = 0
    steps: tuple[tuple[int, Floats], ...] = field(default=())
    rests: bool | None = None
    still_since_ns: int = 0


def step_pcie(
    state: PcieState, table: PcmTable, at_ns: int
) -> tuple[PcieState, Floats | Column]:
    """Fold one document in: requests per second, float64 (s, e), or a column that says why not."""
    sockets = len(table.sockets)
    if np.isnan(table.pcie).all():
        return PcieState(), missing(sockets, _NO_COLLECTOR)
    if not np.any(table.pcie > 0):
        return PcieState(), missing(sockets, _NOT_COUNTED)
    before = state.table
    if before is None or not before.same_places(table):
        return PcieState(table, at_ns, still_since_ns=at_ns), missing(sockets, _WARMING)
    if _odd(before.pcie, table.pcie):
        return PcieState(table, at_ns, still_since_ns=at_ns), missing(sockets, _RESTARTED)
    steps, still_since_ns = state.steps, state.still_since_ns
    if not np.array_equal(before.pcie, table.pcie, equal_nan=True):
        if at_ns - still_since_ns > _IDLE_FROM_S * 1e9:
            steps = ()  # the time before was another one
        steps = (*steps[-_STEPS + 1 :], (at_ns, table.pcie))
        still_since_ns = at_ns
    rests = state.rests
    if len(steps) >= _LEAST_STEPS and at_ns - state.at_ns < _RESTING_FROM_S / 2 * 1e9:
        rests = _elapsed_s(steps) / (len(steps) - 1) >= _RESTING_FROM_S
    after = PcieState(table, at_ns, steps, rests, still_since_ns)
    if at_ns - still_since_ns > _IDLE_FROM_S * 1e9:
        return after, np.where(np.isnan(table.pcie), np.nan, 0.0)
    if len(steps) < _LEAST_STEPS:
        return after, missing(sockets, _WARMING)
    if rests is None:
        return after, missing(sockets, _PACE_UNSEEN)
    counted_s = _elapsed_s(steps) * (_COUNTED_RATIO if rests else 1.0)
    return after, (steps[-1][1] - steps[0][1]) / counted_s


def _elapsed_s(steps: tuple[tuple[int, Floats], ...]) -> float:
    return (steps[-1][0] - steps[0][0]) / 1e9


def _odd(before: Floats, after: Floats) -> bool:
    """Whether these are no totals that went on: one stepped back, is gone, new, or can't be."""
    same = np.array_equal(np.isnan(before), np.isnan(after))
    with np.errstate(invalid="ignore"):
        return not same or bool(np.any((after < before) | (after < 0) | (after >= 2.0**63)))
