"""Rates of the per-CPU counter groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nftop.model.column import Column, Floats, Reasons, column, first_of, missing, ratio, where
from nftop.model.reading import Missing, Reason
from nftop.model.sample import CounterTable, Counts, SourceReading
from nftop.model.topology import Topology

OFFLINE = Missing(Reason.UNDEFINED, "the CPU is offline")
_GENERAL = {int(OFFLINE.reason): OFFLINE.detail}
NEVER_RAN = Missing(Reason.TAKEN, "the counter group never got onto the hardware in this interval")


@dataclass(frozen=True, slots=True)
class CounterRates:
    """Per-CPU rates, rows as in the topology.

    Attributes:
        per_s: by event name, counts per second of the time the group ran.
        coverage: share of the interval in which the group ran.
        otherwise: why every other event has no rate.
    """

    per_s: Mapping[str, Column]
    coverage: Column
    otherwise: Missing

    def rate(self, event: str) -> Column:
        """One event's rate per second, or a column that says why there is none."""
        return self.per_s.get(event) or missing(len(self.coverage), self.otherwise)

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
        return state, _nothing(topology, Missing(Reason.SOURCE, "perf is not read here"))
    if isinstance(reading.value, Missing):
        return CounterState(), _nothing(topology, reading.value)
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


@dataclass(frozen=True, slots=True)
class _Deltas:
    """Two tables brought to topology order.

    Attributes:
        enabled_ns, running_ns: float64 (rows,), NaN where not comparable.
        counts: float64 (rows, k), NaN where not comparable.
        absent: uint8 (rows, k), the newer table's reasons.
        why: uint8 (rows,), the `Reason` that no row of this CPU can be rated at all, or PRESENT.
    """

    enabled_ns: Floats
    running_ns: Floats
    counts: NDArray[np.float64]
    absent: NDArray[np.uint8]
    why: Reasons


def _rates(before: CounterTable | None, after: CounterTable, topology: Topology) -> CounterRates:
    deltas = _deltas(before, after, topology)
    ran_s = np.where(deltas.running_ns > 0, deltas.running_ns, np.nan) / 1e9
    per_s = {}
    for index, event in enumerate(after.events):
        rate = column(deltas.counts[:, index] / ran_s, why=NEVER_RAN)
        rate = _because(rate, deltas.absent[:, index], after.details.get(event, {}))
        per_s[event] = _because(rate, deltas.why, _GENERAL)
    enabled = np.where(deltas.enabled_ns > 0, deltas.enabled_ns, np.nan)
    coverage = _because(column(deltas.running_ns / enabled), deltas.why, _GENERAL)
    return CounterRates(per_s, coverage, Missing(Reason.SOURCE, "no counter group here counts it"))


def _deltas(before: CounterTable | None, after: CounterTable, topology: Topology) -> _Deltas:
    rows, kinds = len(topology.cpus), len(after.events)
    row = np.array([topology.row_of.get(int(cpu), -1) for cpu in after.cpus], dtype=np.int64)
    here = np.flatnonzero(row >= 0)
    absent = np.zeros((rows, kinds), dtype=np.uint8)
    absent[row[here]] = after.reasons[here]
    why = np.full(rows, np.uint8(Reason.UNDEFINED))  # not in the table: offline
    why[row[here]] = Reason.WARMING
    enabled, running = np.full(rows, np.nan), np.full(rows, np.nan)
    counts = np.full((rows, kinds), np.nan)

    if before is not None and before.events == after.events:
        index_of = {int(cpu): index for index, cpu in enumerate(before.cpus)}
        old = np.array([index_of.get(int(cpu), -1) for cpu in after.cpus], dtype=np.int64)
        new = np.flatnonzero((row >= 0) & (old >= 0))
        into, old = row[new], old[new]
        stepped_back = (after.enabled_ns[new] < before.enabled_ns[old]) | np.any(
            after.values[new] < before.values[old], axis=1
        )
        why[into] = np.where(stepped_back, Reason.RESET, Reason.PRESENT)
        enabled[into] = _difference(after.enabled_ns[new], before.enabled_ns[old])
        running[into] = _difference(after.running_ns[new], before.running_ns[old])
        counts[into] = _difference(after.values[new], before.values[old])
    return _Deltas(enabled, running, counts, absent, why)


def _difference(after: Counts, before: Counts) -> NDArray[np.float64]:
    """After - before in integers, then float64: beyond 2**53 the floats themselves are rounded."""
    return np.where(after >= before, after - before, 0).astype(np.float64)


def _because(rates: Column, reasons: Reasons, sentences: Mapping[int, str]) -> Column:
    """`rates`, with its rows overridden wherever `reasons` names one."""
    for code in np.unique(reasons[reasons > 0]):
        why = Missing(Reason(int(code)), sentences.get(int(code), ""))
        rates = where(reasons == code, missing(len(rates), why), rates)
    return rates


def _nothing(topology: Topology, why: Missing) -> CounterRates:
    rows = len(topology.cpus)
    return CounterRates({}, missing(rows, why), why)
