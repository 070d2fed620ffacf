"""Requests of devices per second, from a pcm-sensor-server's totals.

The server does not count them all the time. Its collector counts for one second, adds that to its
totals, and rests for two. So its totals grow by one second's requests in each three seconds and a
little, and go up in steps; `/` and `/persecond` have the same totals. What was counted is therefore
one second for each step; whether a server rests is seen from the pace of its steps.

Proof, in Intel PCM from its commit ff8b74cf of 2026-03-03 to June 2026:
src/pcm-pcie-collector.h, PCIeCollector: `collect()` reads an IPlatform made with a delay of
1000 ms, adds what it gives to the totals, then its thread waits 2000 ms (`kDefaultIntervalMs`);
src/pcm-pcie.h, LegacyPlatform: each of n groups of events is counted for 1000 / n ms and multiplied
by n; src/pcm-sensor-server.cpp, `printPCIeCounterState()` prints the totals, whatever the path.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from nftop.model.column import Column, Floats, missing
from nftop.model.pcm import PcmTable
from nftop.model.reading import Missing, Reason

# Of each step, where the server rests.
_SAMPLE_S = 1.0
# Steps closer than this are of a server that does not rest between them.
_RESTING_FROM_S = 2.6
# Without steps for so long, there are no requests.
_IDLE_FROM_S = 10.0
# So many steps are kept: from as many on, and mostly from four on, polls once a second are sure of
# the pace of a server that rests.
_STEPS, _LEAST_STEPS = 7, 3
_NO_COLLECTOR = Missing(
    Reason.SOURCE, "this build of the server does not tell it (upstream's do from March 2026 on)"
)
_NOT_COUNTED = Missing(Reason.HARDWARE, "the server's counters of devices' requests stay at 0")
_WARMING = Missing(
    Reason.WARMING,
    "the server counts devices' requests by samples, and three or more are needed to know its pace",
)
_PACE_UNSEEN = Missing(
    Reason.SOURCE,
    "the server counts devices' requests by samples, whose pace shows only at intervals of 1 s",
)
_RESTARTED = Missing(Reason.RESET, "the server's totals of devices' requests restarted")


@dataclass(frozen=True, slots=True)
class Step:
    """Totals went up.

    Attributes:
        seen_ns: when the first document that has it was read. since_ns: when the document before
            was read: the step lies between the two.
        totals: float64 (s, e).
    """

    seen_ns: int
    since_ns: int
    totals: Floats


@dataclass(frozen=True, slots=True)
class PcieState:
    """What was seen so far.

    Attributes:
        table: the last document; at_ns: when it was read, CLOCK_MONOTONIC.
        steps: of the totals, newest last; at most `_STEPS` of them.
        rests: whether the server rests between its samples; None before that is known.
        late: so long lay before the last document that a step in it may not have been seen.
    """

    table: PcmTable | None = None
    at_ns: int = 0
    steps: tuple[Step, ...] = field(default=())
    rests: bool | None = None
    still_since_ns: int = 0
    late: bool = False


def step_pcie(state: PcieState, table: PcmTable, at_ns: int) -> tuple[PcieState, Floats | Column]:
    """Fold one document in: requests per second, float64 (s, e), or a column that says why not."""
    before, sockets = state.table, len(table.sockets)
    why = _uncounted(table)
    if why is not None:
        return PcieState(), missing(sockets, why)
    if before is None or not before.same_places(table) or _odd(before.pcie, table.pcie):
        restarted = before is not None and before.same_places(table)
        first = PcieState(table, at_ns, still_since_ns=at_ns)
        return first, missing(sockets, _RESTARTED if restarted else _WARMING)
    after = _gone_on(state, before, table, at_ns)
    if at_ns - after.still_since_ns > _IDLE_FROM_S * 1e9:
        return after, np.where(np.isnan(table.pcie), np.nan, 0.0)
    if len(after.steps) < _LEAST_STEPS or after.rests is None:
        # Once may be a gap, behind which it will be seen again.
        unseen = (state.late and after.late) or (
            len(after.steps) >= _LEAST_STEPS and not _shows_pace(state, at_ns)
        )
        return after, missing(sockets, _PACE_UNSEEN if unseen else _WARMING)
    samples = len(after.steps) - 1
    counted_s = samples * _SAMPLE_S if after.rests else _elapsed_s(after.steps)
    return after, (after.steps[-1].totals - after.steps[0].totals) / counted_s


def _uncounted(table: PcmTable) -> Missing | None:
    """Why the server has no totals at all; None where it has."""
    if np.isnan(table.pcie).all():
        return _NO_COLLECTOR
    return None if np.any(table.pcie > 0) else _NOT_COUNTED


def _gone_on(state: PcieState, before: PcmTable, table: PcmTable, at_ns: int) -> PcieState:
    """The state after one more document of the same totals."""
    steps, still_since_ns, rests = state.steps, state.still_since_ns, state.rests
    late = at_ns - state.at_ns >= _RESTING_FROM_S * 1e9
    if late:
        steps, rests = (), None  # there may have been a step meanwhile that was not seen
    if not np.array_equal(before.pcie, table.pcie, equal_nan=True):
        if at_ns - still_since_ns > _IDLE_FROM_S * 1e9:
            steps = ()  # the time before was another one
        steps = (*steps[-_STEPS + 1 :], Step(at_ns, state.at_ns, table.pcie))
        still_since_ns = at_ns
    if len(steps) >= _LEAST_STEPS and _shows_pace(state, at_ns):
        sure = _rests(steps)
        rests = rests if sure is None else sure
    return PcieState(table, at_ns, steps, rests, still_since_ns, late)


def _shows_pace(state: PcieState, at_ns: int) -> bool:
    """Whether the document before was read so shortly ago that steps show when they come."""
    return at_ns - state.at_ns < _RESTING_FROM_S / 2 * 1e9


def _rests(steps: tuple[Step, ...]) -> bool | None:
    """Whether the server rests between its samples; None while the steps can be of either kind.

    A step is seen up to a poll after it was made, so that the mean time between steps lies within
    bounds.
    """
    first, last, intervals = steps[0], steps[-1], len(steps) - 1
    if (last.since_ns - first.seen_ns) / 1e9 / intervals >= _RESTING_FROM_S:
        return True
    if (last.seen_ns - first.since_ns) / 1e9 / intervals < _RESTING_FROM_S:
        return False
    return None


def _elapsed_s(steps: tuple[Step, ...]) -> float:
    return (steps[-1].seen_ns - steps[0].seen_ns) / 1e9


def _odd(before: Floats, after: Floats) -> bool:
    """Whether these are no totals that went on: one stepped back, is gone, new, or can't be."""
    same = np.array_equal(np.isnan(before), np.isnan(after))
    with np.errstate(invalid="ignore"):
        return not same or bool(np.any((after < before) | (after < 0) | (after >= 2.0**63)))
