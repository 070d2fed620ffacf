"""Rates of the per-CPU counter groups, including those that take turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nftop.derive.absence import after_absence
from nftop.derive.cpu.deltas import Deltas, deltas
from nftop.derive.fold_stage import FoldStage, TopologyChange
from nftop.model.column import Block, Bools, Column, Floats, Reasons, first_of, has_reason, missing
from nftop.model.median import median
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.sample import CounterTable, SourceReading
from nftop.model.struct import dataclass, field, replace
from nftop.model.topology import Topology

# Turns that late ticks may miss before counts are stale.
_TURNS_MISSED = 2


@dataclass(frozen=True, slots=True)
class Latest:
    """Latest counts of each CPU's groups; rows, g and k as in `Deltas`.

    Attributes:
        counts: float64 (rows, k), of the last interval in which the group ran.
        running_ns: float64 (rows, g), run time in that interval.
        span_ns: float64 (rows, g), from the end of the previous such interval to the end of that
            one.
        waited_ns: float64 (rows, g), since then.
        age: int64 (rows, g), intervals since then; 0: this one. Of a group that never ran,
            intervals since it was first seen.
        ran: bool (rows, g), it ran at least once.
    """

    counts: Floats
    running_ns: Floats
    span_ns: Floats
    waited_ns: Floats
    age: NDArray[np.int64]
    ran: Bools

    def usable(self, turns: NDArray[np.int64]) -> Bools:
        """bool (rows, g): groups whose last counts are recent enough.

        `turns` groups, int64 (rows,), take turns tick by tick; the first runs in every one.
        """
        usable: Bools = self.ran & (self.age <= _longest(turns))
        usable[:, 0] &= self.age[:, 0] == 0
        return usable

    def why_not(self, turns: NDArray[np.int64]) -> Reasons:
        """uint8 (rows, g): the `Reason` of groups that are not usable."""
        turning = turns[:, None] > 0
        waiting = turning & (self.age <= _longest(turns))
        never = np.where(waiting, np.uint8(Reason.WARMING), np.uint8(Reason.TAKEN))
        late = np.where(turning, np.uint8(Reason.STALE), np.uint8(Reason.TAKEN))
        why = np.where(self.ran, late, never)
        why[:, 0] = Reason.TAKEN
        return why


def latest(before: Latest | None, change: Deltas) -> Latest:
    """Fold one interval in. A group that can't be rated in it starts anew."""
    rated = change.why == 0
    if before is None or before.counts.shape != change.counts.shape:
        before = _no_counts(change)
    waited = np.where(rated, before.waited_ns + change.enabled_ns, 0.0)
    runs = rated & (change.running_ns > 0)
    return Latest(
        counts=np.where(runs[:, change.group], change.counts, before.counts),
        running_ns=np.where(runs, change.running_ns, before.running_ns),
        span_ns=np.where(runs, waited, before.span_ns),
        waited_ns=np.where(runs, 0.0, waited),
        age=np.where(runs | ~rated, 0, before.age + 1),
        ran=rated & (runs | before.ran),
    )


def _longest(turns: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.where(turns > 0, turns + _TURNS_MISSED, 0)[:, None]


def _no_counts(change: Deltas) -> Latest:
    none = np.zeros(change.why.shape)
    never = np.zeros(change.why.shape, np.bool_)
    return Latest(np.zeros(change.counts.shape), none, none, none, none.astype(np.int64), never)


OFFLINE = Missing(Reason.UNDEFINED, "the CPU is offline")
AWAITING_TURN = Missing(Reason.WARMING, "its counter group has not had its turn yet")
_STALE = Missing(Reason.STALE, "its counter group has not had its turn for too long")
NEVER_RAN = Missing(Reason.TAKEN, "the counter group never got onto the hardware in this interval")
_BEFORE_THE_SOURCE = (Reason.UNDEFINED, Reason.WARMING)
_GENERAL = {
    int(why.reason): why.message
    for why in (OFFLINE, NEVER_RAN, _STALE, Missing(Reason.WARMING), Missing(Reason.RESET))
}
# Events of every group of a plan: IPC, CPP and frequency use them.
_IN_EVERY_GROUP = (
    "cycles", "aperf", "instructions", "ref_cycles", "tsc", "context_switches",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CounterRates:
    """Per-CPU rates, rows as in the topology.

    An event that was not counted in this interval, because other groups had their turns, has the
    rate of its last turn. Events of every group, as the clocks, are always of this interval.

    Attributes:
        per_s: by event, counts per second of the time its groups ran.
        by_cycles: the same by the cycles that the event's own groups saw, which makes events of
            different turns comparable.
        shares: by event, float64 (rows,), share of the interval (for groups that take turns: of the
            time between turns) in which it was counted; NaN without a rate.
        coverage: share in which the events of IPC, CPP and frequency were counted.
        otherwise: why all other events have no rate.
        ages: by event of the groups that take turns only, float64 (rows,), intervals since it was
            counted; else NaN.
    """

    per_s: Mapping[str, Column]
    by_cycles: Mapping[str, Column]
    shares: Mapping[str, Floats]
    coverage: Column
    otherwise: Missing
    ages: Mapping[str, Floats] = field(default_factory=dict)

    def rate(self, event: str) -> Column:
        """An event's rate per second, or a column with the reason why there is none."""
        return self.per_s.get(event) or missing(len(self.coverage), self.otherwise)

    def rate_by_cycles(self, event: str) -> Column:
        """As `rate`, by the cycles of the event's own groups: for ratios across groups."""
        return self.by_cycles.get(event) or missing(len(self.coverage), self.otherwise)

    def share(self, event: str) -> Column:
        """Share of the interval in which an event was counted, or why it has no rate."""
        rate = self.rate(event)
        if event not in self.shares:
            return rate
        return Column(self.shares[event], rate.reasons, rate.details, rate.by_reason)

    @property
    def core_cycles(self) -> Column:
        """Unhalted core cycles per second; APERF if another program holds the counter."""
        if "aperf" not in self.per_s:
            return self.rate("cycles")
        return first_of(self.rate("cycles"), self.rate("aperf"))


@dataclass(frozen=True, slots=True)
class CounterState:
    """State of the last table."""

    table: CounterTable | None = None
    read_at_ns: int = 0
    rates: CounterRates | None = None
    latest: Latest | None = None


def step_counters(
    state: CounterState, reading: SourceReading[CounterTable] | None, topology: Topology
) -> tuple[CounterState, CounterRates]:
    """Fold one perf reading in. A reading seen before keeps the rates it gave."""
    if reading is None:
        why = Missing(Reason.SOURCE, "perf is not read here")
        return CounterState(), _nothing(topology, why)
    if isinstance(reading.value, Missing):
        kept = after_absence(state, CounterState(), reading.value)
        return kept, _nothing(topology, reading.value)
    if state.rates is not None and reading.read_at_ns == state.read_at_ns:
        return state, state.rates
    after = reading.value
    change = deltas(state.table, after, topology)
    last = latest(state.latest if after.turns else None, change)
    rates = _rates(change, last, after, topology)
    return CounterState(after, reading.read_at_ns, rates, last), rates


_NO_CLOCK = Missing(Reason.ERROR, "the time stamp counter stands still")


def tsc_hz(rates: CounterRates) -> Reading:
    """Frequency of the time stamp counters, the same on all CPUs of a host; never 0.

    Source: Intel SDM volume 3, "Invariant TSC".
    """
    tsc = rates.rate("tsc")
    if tsc.present.any():
        hz = median(tsc.values[tsc.present])
        return hz if hz > 0 else _NO_CLOCK
    return tsc[0] if len(tsc) else Missing(Reason.SOURCE)


def _rates(change: Deltas, last: Latest, table: CounterTable, topology: Topology) -> CounterRates:
    events = _events(table.events)
    turns = _turns(table, topology)
    usable = last.usable(turns)
    good = np.equal(change.absent, 0) & usable[:, change.group]
    fresh = good & np.equal(last.age, 0)[:, change.group]
    # Counts of this interval are not mixed with older ones, and events of the first group are not
    # replaced.
    of_first = np.equal(change.absent, 0) & np.equal(change.group, 0)
    current = events.any(fresh | of_first)
    used = fresh | (good & ~current[:, events.event])
    cycles = _cycles_of_groups(good, last.counts, change.group, table.events)
    counts = events.sums(np.where(used, last.counts, 0.0))
    ran = _positive(events.sums(np.where(used, last.running_ns[:, change.group], 0.0)))
    span = events.least(np.where(used, last.span_ns[:, change.group], np.inf))
    own_cycles = _positive(events.sums(np.where(used, cycles[:, change.group], 0.0)))
    interval_ns = np.where(change.why == 0, change.enabled_ns, 0.0).max(axis=1)
    per_s = counts / (ran / 1e9)
    share = np.minimum(ran / _positive(span), 1.0)
    ages = events.least(np.where(used, last.age[:, change.group], np.inf))
    ages[events.any(of_first) | ~np.isfinite(ages)] = np.nan
    block = _block(per_s, change, events, table.details, last.why_not(turns))
    rates = CounterRates(
        per_s=block,
        by_cycles=block,
        shares=dict(zip(events.names, share.T, strict=True)),
        coverage=_coverage(change, events, share, interval_ns),
        otherwise=Missing(Reason.SOURCE, "no counter group here counts it"),
        ages=dict(zip(events.names, ages.T, strict=True)),
    )
    by_cycles = counts / own_cycles * rates.core_cycles.values[:, None]
    # For an event of every group both are equal but for rounding.
    by_time = ~np.isfinite(by_cycles) | (events.columns == change.why.shape[1])
    values = np.where(by_time, per_s, by_cycles).T.copy()
    return replace(
        rates, by_cycles=Block(events.names, values, block.reasons, block.details, block.by_reason)
    )


def _turns(table: CounterTable, topology: Topology) -> NDArray[np.int64]:
    """int64 (rows,): number of groups of each CPU that take turns."""
    turns = np.full(len(topology.cpus), table.turns, dtype=np.int64)
    if table.turns and table.focus is not None:
        focused = (topology.row_of.get(int(cpu)) for cpu in table.focus.cpus)
        turns[[row for row in focused if row is not None]] = table.focus.turns
    return turns


@dataclass(frozen=True, slots=True)
class _Events:
    """The events of a table and their columns.

    Attributes:
        names: each event once.
        first: index of each event's first column.
        further: for the second column, the third and so on: which events have one, and its index.
        columns: number of columns of each event.
        event: index of the event of each of the table's columns.
    """

    names: tuple[str, ...]
    first: NDArray[np.int64]
    further: tuple[tuple[NDArray[np.int64], NDArray[np.int64]], ...]
    columns: NDArray[np.int64]
    event: NDArray[np.int64]

    def sums(self, per_column: Floats) -> Floats:
        """From (rows, columns) to (rows, events); of whole numbers, so exact in any order."""
        return self._reduced(np.add, per_column)

    def least(self, per_column: Floats) -> Floats:
        """From (rows, columns) to (rows, events), the least of each event's columns."""
        return self._reduced(np.minimum, per_column)

    def any(self, per_column: Bools) -> Bools:
        """From (rows, columns) to (rows, events)."""
        return self._reduced(np.logical_or, per_column)

    def _reduced(self, function: np.ufunc, per_column: NDArray[Any]) -> NDArray[Any]:
        # An event is a row of memory here: `reduceat` along columns takes five times as long.
        by_column = per_column.T
        by_event = by_column[self.first]
        for events, columns in self.further:
            by_event[events] = function(by_event[events], by_column[columns])
        return by_event.T

    def speaking(self, absent: Bools) -> NDArray[np.int64]:
        """int64 (rows, events): the first column that is not `absent`, else the event's first."""
        position = np.arange(len(self.event), dtype=np.float64)
        later = np.where(absent, len(position), 0.0) + position
        return (self.least(later) % max(len(position), 1)).astype(np.int64)


@lru_cache(maxsize=16)  # the same table is read every tick
def _events(events: tuple[str, ...]) -> _Events:
    names = tuple(dict.fromkeys(events))
    columns_of: dict[str, list[int]] = {name: [] for name in names}
    for index, name in enumerate(events):
        columns_of[name].append(index)
    lists = [*columns_of.values()]
    count = np.array([len(columns) for columns in lists], dtype=np.int64)
    further = []
    for nth in range(1, max(count.tolist(), default=0)):
        having = np.flatnonzero(count > nth)
        of_these = [lists[event][nth] for event in having.tolist()]
        further.append((having, np.array(of_these, dtype=np.int64)))
    position = {name: index for index, name in enumerate(names)}
    return _Events(
        names,
        np.array([columns[0] for columns in lists], dtype=np.int64),
        tuple(further),
        count,
        np.array([position[name] for name in events], dtype=np.int64),
    )


def _block(
    per_s: Floats,
    change: Deltas,
    events: _Events,
    messages: Mapping[str, Mapping[int, str]],
    idle: Reasons,
) -> Block:
    """Rates of all events; `idle`, uint8 (rows, g): reasons of groups that did not run lately."""
    by_reason = [{**messages.get(name, {}), **_GENERAL} for name in events.names]
    gone = ~np.isfinite(per_s)
    if not gone.any():  # the usual case
        values, present = per_s.T.copy(), np.zeros(per_s.T.shape, np.uint8)
        return Block(events.names, values, present, [{}] * len(by_reason), by_reason)
    columns = events.speaking(change.absent > 0)
    row = np.arange(len(columns))[:, None]
    general = change.why[row, change.group[columns]]
    absent = change.absent[row, columns]
    codes = np.where(
        absent > 0, absent, np.where(general > 0, general, idle[row, change.group[columns]])
    )
    codes = np.where(has_reason(general, _BEFORE_THE_SOURCE), general, codes)
    # If reasons are equal, the source's message is preferred.
    theirs = gone & (codes == absent) & has_reason(absent, tuple(_GENERAL))
    awaiting = gone & (general == 0) & (absent == 0) & (codes == Reason.WARMING)
    details: list[dict[int, str]] = [{} for _ in events.names]
    for event, at in np.argwhere(awaiting.T).tolist():
        details[event][at] = AWAITING_TURN.message
    for event, at in np.argwhere(theirs.T).tolist():
        code = int(codes[at, event])
        known = messages.get(events.names[event], {})
        details[event][at] = known.get(code) or Reason(code).sentence
    return Block(
        events.names,
        np.where(gone, np.nan, per_s).T.copy(),
        np.where(gone, codes, np.uint8(Reason.PRESENT)).T.copy(),
        details,
        by_reason,
    )


def _cycles_of_groups(
    good: Bools, counts: Floats, groups: NDArray[np.int32], events: Sequence[str]
) -> Floats:
    """float64 (rows, g): core cycles that each group saw, NaN if not counted."""
    cycles = np.full((len(counts), int(groups.max(initial=0)) + 1), np.nan)
    for clock in ("aperf", "cycles"):  # the latter where a group has both
        for index in [index for index, event in enumerate(events) if event == clock]:
            group = groups[index]
            cycles[:, group] = np.where(good[:, index], counts[:, index], cycles[:, group])
    return cycles


def _coverage(change: Deltas, events: _Events, shares: Floats, interval_ns: Floats) -> Column:
    """The least share of events that every group has, else of all groups."""
    ran_ns = np.where(change.why == 0, change.running_ns, 0.0).sum(axis=1)
    share = np.minimum(ran_ns / _positive(interval_ns), 1.0)
    basic = [index for index, name in enumerate(events.names) if name in _IN_EVERY_GROUP]
    share = np.fmin.reduce([share, *shares[:, basic].T])
    reasons = np.where(np.isfinite(share), np.uint8(Reason.PRESENT), change.why[:, 0])
    undefined = ~np.isfinite(share) & (reasons == 0)  # the groups' clock stood still
    reasons[undefined] = Reason.UNDEFINED
    details = dict.fromkeys(np.flatnonzero(undefined).tolist(), Reason.UNDEFINED.sentence)
    return Column(share, reasons, details, _GENERAL)


def _positive(values: Floats) -> Floats:
    return np.where(values > 0, values, np.nan)


def _nothing(topology: Topology, why: Missing) -> CounterRates:
    return CounterRates({}, {}, {}, missing(len(topology.cpus), why), why)


COUNTERS: FoldStage[CounterState, CounterRates] = FoldStage(
    "counters",
    CounterState,
    lambda state, tick: step_counters(state, tick.sample.readings.get("perf"), tick.topology),
    reset_on=TopologyChange.ROWS,
)
