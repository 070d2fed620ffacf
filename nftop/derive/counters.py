"""Rates of the per-CPU counter groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from nftop.derive.absence import after_absence
from nftop.derive.deltas import Deltas, deltas
from nftop.model.column import Column, Floats, column, first_of, missing, ratio, where
from nftop.model.reading import Missing, Reason
from nftop.model.sample import CounterTable, SourceReading
from nftop.model.topology import Topology

OFFLINE = Missing(Reason.UNDEFINED, "the CPU is offline")
NEVER_RAN = Missing(Reason.TAKEN, "the counter group never got onto the hardware in this interval")
_GENERAL = {
    int(why.reason): why.sentence
    for why in (OFFLINE, NEVER_RAN, Missing(Reason.WARMING), Missing(Reason.RESET))
}
# What every group of a plan counts: IPC, CPP and frequency rest on these.
_IN_EVERY_GROUP = (
    "cycles", "aperf", "instructions", "ref_cycles", "tsc", "context_switches",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CounterRates:
    """Per-CPU rates, rows as in the topology.

    Attributes:
        per_s: by event name, counts per second of the time its groups ran.
        by_cycles: the same, but by the cycles that the event's own groups saw: events of groups
            that took turns can then be compared, as if each had been counted in every cycle.
        shares: by event name, float64 (rows,), the share of the interval in which it was counted;
            NaN where it has no rate.
        coverage: the share in which all was counted that IPC, CPP and frequency rest on.
        otherwise: why every other event has no rate.
    """

    per_s: Mapping[str, Column]
    by_cycles: Mapping[str, Column]
    shares: Mapping[str, Floats]
    coverage: Column
    otherwise: Missing

    def rate(self, event: str) -> Column:
        """One event's rate per second, or a column that says why there is none."""
        return self.per_s.get(event) or missing(len(self.coverage), self.otherwise)

    def rate_by_cycles(self, event: str) -> Column:
        """As `rate`, by the cycles of the event's own groups: for ratios with other groups'."""
        return self.by_cycles.get(event) or missing(len(self.coverage), self.otherwise)

    def share(self, event: str) -> Column:
        """The share of the interval in which one event was counted, or why it has no rate."""
        rate = self.rate(event)
        if event not in self.shares:
            return rate
        return Column(self.shares[event], rate.reasons, rate.details, rate.by_reason)

    @property
    def core_cycles(self) -> Column:
        """Unhalted core cycles per second; APERF counts the same where a counter is taken."""
        if "aperf" not in self.per_s:
            return self.rate("cycles")
        return first_of(self.rate("cycles"), self.rate("aperf"))


@dataclass(frozen=True, slots=True)
class CounterState:
    """The last table that was rated, and the rates it gave."""

    table: CounterTable | None = None
    read_at_ns: int = 0
    rates: CounterRates | None = None


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
    rates = _rates(state.table, reading.value, topology)
    return CounterState(reading.value, reading.read_at_ns, rates), rates


def frequency_hz(rates: CounterRates) -> Column:
    """Average frequency while not halted: cycles / ref_cycles x tsc per second.

    ref_cycles advances at the TSC's rate while the core is not halted (Intel SDM volume 3,
    CPU_CLK_UNHALTED.REF_TSC), so the quotient is the turbo or throttle factor.
    """
    factor = ratio(rates.core_cycles, rates.rate("ref_cycles"))
    tsc_hz = rates.rate("tsc")
    product = column(factor.values * tsc_hz.values)
    return where(factor.present, where(tsc_hz.present, product, tsc_hz), factor)


def _rates(before: CounterTable | None, after: CounterTable, topology: Topology) -> CounterRates:
    found = deltas(before, after, topology)
    events = _Events.of(after.events)
    good = found.good
    counted = np.where(good, found.counts, 0.0)
    ran_ns = np.where(good, found.running_ns[:, found.group], 0.0)
    cycles = _cycles_of_groups(found, counted, after.events)[:, found.group]
    of_group = np.where(good, cycles, 0.0)
    interval_ns = np.where(found.why == 0, found.enabled_ns, 0.0)
    ran = _positive(events.sums(ran_ns))
    counts = events.sums(counted)
    per_s = counts / (ran / 1e9)
    # By the clocks of the event's own groups: groups that are not read at once differ by some us.
    own_ns = events.largest(interval_ns[:, found.group])
    share = np.minimum(ran / _positive(own_ns), 1.0)
    rates = CounterRates(
        per_s=_columns(per_s, found, events, after.details),
        by_cycles={},
        shares=dict(zip(events.names, share.T, strict=True)),
        coverage=_coverage(found, events, share, interval_ns.max(axis=1)),
        otherwise=Missing(Reason.SOURCE, "no counter group here counts it"),
    )
    own_cycles = _positive(events.sums(of_group))
    by_cycles = counts / own_cycles * rates.core_cycles.values[:, None]
    # An event of every group has seen all cycles, and is the same either way but for rounding.
    by_time = ~np.isfinite(by_cycles) | (events.columns == found.why.shape[1])
    return replace(rates, by_cycles=_with_values(rates.per_s, np.where(by_time, per_s, by_cycles)))


@dataclass(frozen=True, slots=True)
class _Events:
    """The events of a table and their columns, of which each has one or more.

    Attributes:
        names: each event once.
        order: the table's columns, those of an event side by side.
        starts: where in `order` each event begins.
        columns: how many each has.
    """

    names: tuple[str, ...]
    order: NDArray[np.int64]
    starts: NDArray[np.int64]
    columns: NDArray[np.int64]

    @classmethod
    def of(cls, events: Sequence[str]) -> _Events:
        names = tuple(dict.fromkeys(events))
        place = {name: index for index, name in enumerate(names)}
        event = np.array([place[name] for name in events], dtype=np.int64)
        columns = np.bincount(event, minlength=len(names))
        return cls(names, np.argsort(event, kind="stable"), np.cumsum(columns) - columns, columns)

    @property
    def first(self) -> NDArray[np.int64]:
        """The first column of each event."""
        return self.order[self.starts]

    def sums(self, per_column: Floats) -> Floats:
        """From (rows, columns) to (rows, events)."""
        if not self.names:
            return per_column
        return np.add.reduceat(per_column[:, self.order], self.starts, axis=1)

    def largest(self, per_column: Floats) -> Floats:
        """From (rows, columns) to (rows, events), of each event's columns the largest."""
        if not self.names:
            return per_column
        return np.maximum.reduceat(per_column[:, self.order], self.starts, axis=1)


def _columns(
    per_s: Floats,
    found: Deltas,
    events: _Events,
    sentences: Mapping[str, Mapping[int, str]],
) -> dict[str, Column]:
    """The rates of each event; what has none has the reason of its first column.

    WARMING and RESET go before what the source says, which goes before that the group never ran.
    """
    general = found.why[:, found.group[events.first]]
    absent = found.absent[:, events.first]
    codes = np.where(general > 0, general, absent)
    codes = np.where(codes > 0, codes, np.uint8(Reason.TAKEN))
    gone = ~np.isfinite(per_s)
    reasons = np.where(gone, codes, np.uint8(Reason.PRESENT))
    values = np.where(gone, np.nan, per_s)
    # Of two sentences for one reason the source's is the rarer one.
    theirs = gone & (general == 0) & np.isin(absent, list(_GENERAL))
    columns = {}
    for index, name in enumerate(events.names):
        said = sentences.get(name, {})
        details = {
            row: said.get(code) or Reason(code).sentence
            for row in np.flatnonzero(theirs[:, index]).tolist()
            for code in (int(codes[row, index]),)
        }
        by_reason = {**said, **_GENERAL}
        columns[name] = Column(values[:, index], reasons[:, index], details, by_reason)
    return columns


def _with_values(columns: Mapping[str, Column], values: Floats) -> dict[str, Column]:
    """The columns with other numbers, shape (rows, events), and the same reasons."""
    return {
        name: Column(values[:, index], old.reasons, old.details, old.by_reason)
        for index, (name, old) in enumerate(columns.items())
    }


def _cycles_of_groups(found: Deltas, counted: Floats, events: Sequence[str]) -> Floats:
    """float64 (rows, g): the core cycles that each group saw, NaN where it counted none."""
    cycles = np.full(found.why.shape, np.nan)
    good = found.good
    for clock in ("aperf", "cycles"):  # the latter where a group has both
        for index in [index for index, event in enumerate(events) if event == clock]:
            group = found.group[index]
            cycles[:, group] = np.where(good[:, index], counted[:, index], cycles[:, group])
    return cycles


def _coverage(found: Deltas, events: _Events, shares: Floats, interval_ns: Floats) -> Column:
    """The smallest share of what is in every group; of a CPU without any of it, of all groups."""
    ran_ns = np.where(found.why == 0, found.running_ns, 0.0).sum(axis=1)
    share = np.minimum(ran_ns / _positive(interval_ns), 1.0)
    basic = [index for index, name in enumerate(events.names) if name in _IN_EVERY_GROUP]
    share = np.fmin.reduce([share, *shares[:, basic].T])
    reasons = np.where(np.isfinite(share), np.uint8(Reason.PRESENT), found.why[:, 0])
    undefined = ~np.isfinite(share) & (reasons == 0)  # the groups' clock stood still
    reasons[undefined] = Reason.UNDEFINED
    details = dict.fromkeys(np.flatnonzero(undefined).tolist(), Reason.UNDEFINED.sentence)
    return Column(share, reasons, details, _GENERAL)


def _positive(values: Floats) -> Floats:
    return np.where(values > 0, values, np.nan)


def _nothing(topology: Topology, why: Missing) -> CounterRates:
    return CounterRates({}, {}, {}, missing(len(topology.cpus), why), why)
