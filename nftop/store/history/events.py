"""History of what happened: totals of the host by second, incidents, changes and markers.

It covers hours, whatever became of the samples, and takes 300 kB and some text. The thread of the
frames fills it; screens read it. A replay fills it in any order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise
from threading import Lock
from types import MappingProxyType
from typing import Any

import numpy as np

from nftop.model.change import Cell, Noticed, OwnChange
from nftop.model.clock import NS_PER_S
from nftop.model.frame import Frame
from nftop.model.incident import Incident
from nftop.model.missing import Missing, Reading, Reason, number_or
from nftop.model.struct import replace
from nftop.model.timeline import EventKind, EventState, Strip, TimelineEvent, TimeSeries
from nftop.store.format.records import EXPERIMENT, OWN_SUFFIX
from nftop.store.history.experiments import RecordedExperiment, with_step

HOURS_KEPT = 4
STRIP_NS = 600_000_000_000
# Events that are kept; of more the oldest of the most frequent kind are left out.
MOST_EVENTS = 1000
# Steps of experiments that are kept: the last, and the plan of the oldest of them.
_MOST_STEPS = 2000
# A tool writes group by group: changes so near to each other are one event.
TOGETHER_NS = 3_000_000_000
_NO_NF = Missing(Reason.SOURCE, "no network function was found")
_NOTED: Mapping[str, EventKind] = {"marker": "marker", "finding": "finding", "change": "change"}
TOTALS = ("drops_per_s", "sent_packets_per_s", "memory_bytes_per_s")


class TotalRing:
    """Totals by bucket of wall time. Not thread-safe.

    Of a bucket with several ticks the greatest loss is kept, of others the last number. A bucket
    that comes around again replaces the old one, so ticks may come in any order.
    """

    def __init__(self, step_ns: int, count: int) -> None:
        self.step_ns = step_ns
        self._numbers = np.full(count, -1, np.int64)
        self._values = np.full((len(TOTALS), count), np.nan, np.float32)
        self._reasons = np.zeros(count, np.uint8)

    def put(self, wall_ns: int, values: tuple[float, ...], reason: Reason = Reason.PRESENT) -> None:
        """Add a tick; NaN where a total is unknown. `reason`: why drops or some of them are."""
        number = wall_ns // self.step_ns
        at = number % len(self._numbers)
        if self._numbers[at] != number:
            self._numbers[at] = number
            self._values[:, at] = values
            self._reasons[at] = reason
            return
        drops, *others = values
        known, before = not np.isnan(drops), not np.isnan(self._values[0, at])
        if known >= before:  # what is unknown in one tick only is missing in neither
            self._reasons[at] = max(reason, self._reasons[at]) if known == before else reason
        self._values[0, at] = np.fmax(self._values[0, at], drops)
        for index, value in enumerate(others, 1):
            if not np.isnan(value):
                self._values[index, at] = value

    def series(self, total: str, first_ns: int, last_ns: int) -> TimeSeries:
        """One of `TOTALS` between two wall times, ends included."""
        low, high = first_ns // self.step_ns, last_ns // self.step_ns
        if high - low < len(self._numbers):
            wanted = np.arange(low, high + 1)
            at = wanted % len(self._numbers)
            at = at[self._numbers[at] == wanted]
        else:
            at = np.flatnonzero((self._numbers >= low) & (self._numbers <= high))
            at = at[np.argsort(self._numbers[at])]
        values = self._values[TOTALS.index(total), at]
        reasons = self._reasons[at if total == TOTALS[0] else at[:0]]
        return TimeSeries(self._numbers[at] * self.step_ns, values, self.step_ns, reasons)


class EventHistory:
    """What happened in the last hours, or in a recording. Safe from any thread.

    Attributes:
        first_ns, last_ns: wall time of the first and last tick; None before any.
        scanned_ns: of a recording, wall time up to which its incidents are known; None: all.
    """

    def __init__(self, *, step_ns: int = NS_PER_S, hours: float = HOURS_KEPT) -> None:
        """Totals are kept by `step_ns`, for `hours` of steps of a second."""
        self._lock = Lock()
        self._totals = TotalRing(step_ns, round(hours * 3600))
        self._events: dict[str, TimelineEvent] = {}
        self._changes_seen: dict[int, TimelineEvent] = {}  # each alone, by wall time of its tick
        self._own_ns: set[int] = set()  # wall time of changes that the recording's nftop made
        self._noticed: tuple[Noticed, ...] = ()
        self._open: frozenset[str] = frozenset()
        self._steps: list[tuple[int, Mapping[str, Any]]] = []  # of experiments, by wall time
        # Steps that were decoded last, and the experiment by these.
        self._experiment: tuple[list[Mapping[str, Any]], RecordedExperiment | None] = [], None
        self._unknown: Missing | None = None
        self.first_ns: int | None = None
        self.last_ns: int | None = None
        self.scanned_ns: int | None = None

    def append(self, frame: Frame, *, incidents: bool = True) -> None:
        """Keep one frame: totals, changes and, unless another reader follows these, incidents."""
        drops, unknown = _drops(frame)
        sent = _sum(nf.readings["tx_packets_per_s"] for nf in frame.nfs)[1]
        totals = (drops, sent, _memory(frame))
        with self._lock:
            wall_ns = frame.wall_ns
            self.first_ns = wall_ns if self.first_ns is None else min(self.first_ns, wall_ns)
            self.last_ns = wall_ns if self.last_ns is None else max(self.last_ns, wall_ns)
            self._totals.put(wall_ns, totals, unknown.reason if unknown else Reason.PRESENT)
            self._unknown = unknown
            if incidents:
                self._take_incidents(frame)
            if frame.noticed is not self._noticed:
                self._noticed = frame.noticed
                for item in frame.noticed:
                    self._take_change(item)
            self._forget()

    def mark(
        self,
        text: str,
        wall_ns: int,
        *,
        kind: str = "marker",
        detail: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """Keep a marker; with `kind` one of a recording's: `change`, `finding`, `experiment`.

        Other kinds are left out. `text` and `detail` are untrusted.
        """
        with self._lock:
            if kind == EXPERIMENT:
                self._steps.append((wall_ns, detail))
                if len(self._steps) > _MOST_STEPS:
                    plans = ["plan" in of for _, of in self._steps[:2]]
                    del self._steps[1 if plans == [True, False] else 0]
            if kind == "change" and text.endswith(OWN_SUFFIX):
                self._own_ns.add(wall_ns)
            if (noted := _NOTED.get(kind)) is not None:
                key = f"{kind}@{wall_ns}" + (f":{text}" if noted == "finding" else "")
                event = TimelineEvent(noted, key, wall_ns, wall_ns, EventState.MOMENT, text=text)
                if noted != "change":
                    self._events[key] = event
                elif wall_ns not in self._changes_seen:
                    self._add_change(event)
            self._forget()

    def own_changes(self) -> tuple[OwnChange, ...]:
        """Changes of a recording that were made by the nftop which recorded it."""
        with self._lock:
            events = [self._changes_seen.get(at_ns, _NONE) for at_ns in sorted(self._own_ns)]
        known = (item for item in events if item.changes)
        return tuple(OwnChange(item.changes, item.since_ns, item.at_ns) for item in known)

    def experiment(self, wall_ns: int) -> RecordedExperiment | None:
        """The last experiment that had begun at this time, as far as it was then; None: none."""
        with self._lock:
            steps = [detail for at_ns, detail in self._steps if at_ns <= wall_ns]
            taken, known = self._experiment
            if len(taken) > len(steps) or any(
                one is not other for one, other in zip(taken, steps, strict=False)
            ):
                taken, known = [], None
            for detail in steps[len(taken) :]:
                known = with_step(known, detail)
            self._experiment = steps, known
            return known

    def events(self, first_ns: int, last_ns: int) -> tuple[TimelineEvent, ...]:
        """Events that touch the time between two wall times, by their begin."""
        with self._lock:
            events = [
                item
                for item in self._events.values()
                if item.begin_ns <= last_ns and (item.end_ns is None or item.end_ns >= first_ns)
            ]
        return tuple(sorted(events, key=lambda item: item.begin_ns))

    def series(self, total: str, first_ns: int, last_ns: int) -> TimeSeries:
        """One of `TOTALS` between two wall times."""
        with self._lock:
            return self._totals.series(total, first_ns, last_ns)

    def strip(
        self,
        last_ns: int,
        *,
        span_ns: int = STRIP_NS,
        cursor_ns: int | None = None,
        whole: bool = False,
    ) -> Strip:
        """The time before a moment; `cursor_ns` is the moment shown, `whole` as `Strip` has it."""
        first_ns = last_ns - span_ns
        return Strip(
            first_ns,
            last_ns,
            self.series("drops_per_s", first_ns, last_ns),
            self._unknown,
            self.events(first_ns, last_ns),
            cursor_ns,
            whole,
            self.scanned_ns,
        )

    def next_event(self, wall_ns: int, step: int) -> TimelineEvent | None:
        """The first event that begins after this time (`step` 1), or the last before it (-1)."""
        with self._lock:
            events = sorted(self._events.values(), key=lambda item: item.begin_ns)
        if step > 0:
            return next((item for item in events if item.begin_ns > wall_ns), None)
        return next((item for item in reversed(events) if item.begin_ns < wall_ns), None)

    # With the lock held

    def _take_incidents(self, frame: Frame) -> None:
        now = {item.id for item in frame.incidents}
        for item in (*frame.past_incidents, *frame.incidents):
            self._events[item.id] = _of_incident(item, self._events.get(item.id))
        known = {item.id for item in frame.past_incidents}
        for key in self._open - now - known:
            event = self._events.get(key)
            if event is not None and event.end_ns is None and event.begin_ns <= frame.wall_ns:
                self._events[key] = replace(event, end_ns=frame.wall_ns, state=EventState.ENDED)
        self._open = frozenset(now)

    def _take_change(self, item: Noticed) -> None:
        if self._changes_seen.get(item.wall_ns, _NONE).changes:
            return
        event = TimelineEvent(
            "change",
            f"change@{item.wall_ns}",
            item.wall_ns,
            None,
            EventState.IN_FORCE,
            changes=item.changes,
            since_ns=item.since_ns,
            at_ns=item.at_ns,
        )
        self._add_change(event)

    def _add_change(self, event: TimelineEvent) -> None:
        """Add a change, joined with those just before and after it; a text gives way to it."""
        self._changes_seen[event.begin_ns] = event
        joined = _together(self._changes_seen.values(), event)
        for item in joined:
            self._events.pop(item.key, None)
        changes = tuple(change for item in joined for change in item.changes)
        event = replace(joined[0], changes=changes, at_ns=joined[-1].at_ns)
        self._events[event.key] = event
        self._judge_changes(event)

    def _judge_changes(self, added: TimelineEvent) -> None:
        """State of all changes that touch a cell of an added one: changes come in any order."""
        cells = {change.cell for change in added.changes}
        events = [item for item in self._events.values() if item.kind == "change"]
        events.sort(key=lambda item: item.begin_ns)
        for at, event in enumerate(events):
            if cells.isdisjoint(change.cell for change in event.changes):
                continue
            end_ns, state = None, EventState.IN_FORCE
            for later in events[at + 1 :]:
                if (ends := _overwritten(event, later)) is not None:
                    end_ns, state = later.begin_ns, ends
                    break
            if (event.end_ns, event.state) != (end_ns, state):
                self._events[event.key] = replace(event, end_ns=end_ns, state=state)

    def _forget(self) -> None:
        """Leave out the oldest event of the most frequent kind, open incidents last."""
        while len(self._events) > MOST_EVENTS:
            kinds = Counter(item.kind for item in self._events.values())
            most = max(kinds, key=lambda kind: kinds[kind])
            oldest = min(
                (item for item in self._events.values() if item.kind == most),
                key=lambda item: (item.state is EventState.OPEN, item.begin_ns),
            )
            del self._events[oldest.key]
        while len(self._changes_seen) > MOST_EVENTS:
            del self._changes_seen[next(iter(self._changes_seen))]


_NONE = TimelineEvent("marker", "", 0, 0, EventState.MOMENT)


def _of_incident(item: Incident, before: TimelineEvent | None) -> TimelineEvent:
    worst, worst_ns = item.worst.drops_per_s, item.worst_ns
    if before is not None and number_or(before.worst_drops_per_s, -1.0) > number_or(worst, -1.0):
        worst, worst_ns = before.worst_drops_per_s, before.worst_ns
    state = EventState.OPEN if item.until_ns is None else EventState.ENDED
    return TimelineEvent(
        "incident",
        item.id,
        item.since_ns,
        item.until_ns,
        state,
        severity=item.severity,
        incident=item,
        worst_drops_per_s=worst,
        worst_ns=worst_ns,
    )


def _together(changes: Iterable[TimelineEvent], one: TimelineEvent) -> list[TimelineEvent]:
    """Those that follow one another by `TOGETHER_NS` at most, and `one` is of."""
    if not one.changes:
        return [one]
    ordered = sorted((item for item in changes if item.changes), key=lambda item: item.at_ns)
    gaps = [later.at_ns - item.at_ns > TOGETHER_NS for item, later in pairwise(ordered)]
    at = ordered.index(one)
    first = next((before for before in range(at, 0, -1) if gaps[before - 1]), 0)
    after = next((later for later in range(at, len(gaps)) if gaps[later]), len(gaps)) + 1
    return ordered[first:after]


def _overwritten(event: TimelineEvent, later: TimelineEvent) -> EventState | None:
    """State of a change after a later one; None if that leaves its cells alone."""
    new: Mapping[Cell, str | None] = {change.cell: change.new for change in later.changes}
    touched = [change for change in event.changes if change.cell in new]
    if not touched:
        return None
    restored = all(new.get(change.cell) == change.old for change in touched)
    whole = len(touched) == len(event.changes)
    return EventState.UNDONE if restored and whole else EventState.REPLACED


def _drops(frame: Frame) -> tuple[float, Missing | None]:
    """Drops per second of all NFs (NaN if unknown of all), and why some or all are unknown."""
    if not frame.nfs:
        return np.nan, _NO_NF
    # By row: several NFs may have the same name.
    readings = [(nf.name, nf.readings["drop_packets_per_s"]) for nf in frame.nfs]
    known, total = _sum(one for _, one in readings)
    gone = [(name, one) for name, one in readings if isinstance(one, Missing)]
    # The first tick has no rates; that is no lack of a source.
    lasting = [(name, one) for name, one in gone if one.reason is not Reason.WARMING]
    if not gone or (known and not lasting):
        return total, None
    name, why = (lasting or gone)[0]
    others = len(lasting or gone) - 1
    more = f" and {others} more" if others else ""
    return total, Missing(why.reason, f"{name}{more}: {why.message}")


def _memory(frame: Frame) -> float:
    names = ("memory.read_bytes_per_s", "memory.write_bytes_per_s")
    return _sum(row.readings[name] for row in frame.packages for name in names)[1]


def _sum(readings: Iterable[Reading]) -> tuple[int, float]:
    """How many are known, and their sum; NaN if none is."""
    known = [item for item in readings if not isinstance(item, Missing)]
    return len(known), sum(known) if known else np.nan
