"""Types of the timeline: what happened when, and totals of the host over time."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nftop.model.change import Change
from nftop.model.incident import Incident, Severity
from nftop.model.median import median
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.struct import dataclass, field

# A tick speaks for the time since the one before; a longer gap is a gap.
_HELD_TICKS = 2.5

EventKind: TypeAlias = Literal["incident", "change", "marker", "finding"]


class EventState(StrEnum):
    """What became of an event."""

    OPEN = "open"  # an incident that goes on
    ENDED = "ended"
    IN_FORCE = "in force"  # a change that stands
    UNDONE = "undone"  # a later change restored what was there
    REPLACED = "replaced"  # a later change set something else
    MOMENT = "moment"  # it has no duration


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """Something that happened.

    Attributes:
        key: identity among the events of a session.
        begin_ns: wall time. end_ns: wall time of its end; None while it lasts.
        severity: of an incident the highest it had; INFO of others.
        text: of a marker, or of a change or finding of which only a recorded text is known
            (untrusted text).
        incident: as it was last.
        changes: of cache classes and frequencies.
        since_ns, at_ns: CLOCK_MONOTONIC between which a change was made; 0 if unknown.
        worst_drops_per_s: greatest loss while it lasted. worst_ns: wall time of that.
    """

    kind: EventKind
    key: str
    begin_ns: int
    end_ns: int | None
    state: EventState
    severity: Severity = Severity.INFO
    text: str = ""
    incident: Incident | None = None
    changes: tuple[Change, ...] = ()
    since_ns: int = 0
    at_ns: int = 0
    worst_drops_per_s: Reading = field(default_factory=lambda: Missing(Reason.UNDEFINED))
    worst_ns: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class TimeSeries:
    """One total of the host over wall time.

    Attributes:
        times_ns: int64 (n,), ascending. step_ns: what each stands for, from its time on.
        values: float32 (n,), NaN where it is unknown.
        reasons: uint8 (n,), `Reason` why a value or a part of it is missing; empty if none is.
    """

    times_ns: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    values: NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))
    step_ns: int = 1_000_000_000
    reasons: NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))

    @property
    def held_ns(self) -> float:
        """For how long a value holds; a longer time without a tick is a gap."""
        steps = np.diff(self.times_ns)
        return _HELD_TICKS * (median(steps) if len(steps) else self.step_ns)

    def at(self, wall_ns: int) -> tuple[float, Reason]:
        """Value at a moment, NaN in a gap, and why it or a part of it is missing."""
        index = int(np.searchsorted(self.times_ns, wall_ns, side="right")) - 1
        if index < 0 or wall_ns - self.times_ns[index] > self.held_ns:
            return math.nan, Reason.PRESENT
        reason = int(self.reasons[index]) if len(self.reasons) else 0
        return float(self.values[index]), Reason(reason)


@dataclass(frozen=True, slots=True)
class Strip:
    """The time between two moments, for the strip under the header.

    Attributes:
        first_ns, last_ns: wall time of its left and right end.
        drops: packets that all network functions dropped per second; a lower bound where it has a
            reason too.
        unknown: why drops of some or all network functions are missing now; None if none are.
        events: those that touch it, oldest first.
        cursor_ns: wall time of the moment shown; None if that is the right end.
        whole: it is a whole recording: times are counted from its start.
        scanned_ns: of a recording, wall time up to which its events are known; None: all.
    """

    first_ns: int
    last_ns: int
    drops: TimeSeries = field(default_factory=TimeSeries)
    unknown: Missing | None = None
    events: tuple[TimelineEvent, ...] = ()
    cursor_ns: int | None = None
    whole: bool = False
    scanned_ns: int | None = None
