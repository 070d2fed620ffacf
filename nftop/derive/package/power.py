"""Power, C-states and throttling of packages and CPUs, by source `power`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from nftop.derive.absence import after_absence
from nftop.derive.cpu.counters import COUNTERS, CounterRates, tsc_hz
from nftop.derive.cpu.deltas import difference
from nftop.derive.fold_stage import FoldStage, FoldTick, TopologyChange
from nftop.derive.package.table import (
    NOT_HERE,
    PACKAGES,
    BoxRates,
    matched,
    row_rates,
    sum_rates,
)
from nftop.model.column import Bools, Column, Floats, column, missing, ratio, where, withhold
from nftop.model.frame import PackageRow
from nftop.model.metrics.power import COUNTED_POWER_CPU_METRICS, COUNTED_POWER_PACKAGE_METRICS
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.sample import SourceReading
from nftop.model.struct import dataclass, field, replace
from nftop.model.topology import Topology
from nftop.model.uncore import CORE_POWER_EVENTS, PACKAGE_POWER_EVENTS, UncoreTable

ENERGY_J = 2.0**-32  # of a count
UNREAD = Missing(Reason.SOURCE, "no source of this session reads the kernel's counters of it")
_BEGUN = Missing(Reason.WARMING, "needs two readings")
_SENTENCES = {Reason.RESET: "its counter restarted", Reason.WARMING: _BEGUN.detail}
_JOULES = {"energy_j": "energy_pkg", "dram_energy_j": "energy_ram"}
# Counts of 2**-32 J, modulo 2**64, move by half of that in this time at 1.2 kW.
_WRAPS_NS = 20 * 86_400 * 10**9
_WATTS = {"power_w": "energy_pkg", "dram_power_w": "energy_ram"}
_PACKAGE_STATES = {f"c{state}_ratio": f"package_c{state}" for state in (2, 3, 6)}
_CORE_STATES = {f"c{state}_ratio": f"core_c{state}" for state in (3, 6)}
# Several registers are read one after another, so shares may exceed the whole a little.
_SLACK = 1.05
# C0 belongs to an interval of C-states if it was counted in as much time, but for so much of it.
_SAME_INTERVAL = 0.1
_IMPOSSIBLE = Missing(Reason.ERROR, "the residency grew faster than the time stamp counter")


@dataclass(frozen=True, slots=True)
class PowerOutput:
    """Columns of CPUs by metric id, and packages with the metrics of this source.

    `sampled_s`: of columns that are read seldom, the age in seconds by metric id.
    """

    columns: Mapping[str, Column]
    packages: tuple[PackageRow, ...]
    sampled_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PowerState:
    """State of the last table.

    Attributes:
        changed_ns: float64 (rows,), CLOCK_MONOTONIC when a row was seen with another clock.
        joules: energy so far by metric, float64 (packages,); NaN until two readings.
        at_ns: time of the last sample.
        awake_s, passed_s: float64 (CPUs,), time in C0, NaN if unknown, and time since the last
            reading of the CPU's C-states.
        c1: C1 in the last interval between two readings of the C-states.
    """

    table: UncoreTable | None = None
    rates: BoxRates | None = None
    changed_ns: Floats = field(default_factory=lambda: np.zeros(0))
    joules: Mapping[str, Floats] = field(default_factory=dict)
    at_ns: int = 0
    awake_s: Floats = field(default_factory=lambda: np.zeros(0))
    passed_s: Floats = field(default_factory=lambda: np.zeros(0))
    c1: Column | None = None


def step_power(
    state: PowerState,
    reading: SourceReading[UncoreTable] | None,
    counted: CounterRates,
    packages: tuple[PackageRow, ...],
    topology: Topology,
    *,
    now_ns: int,
    has_c3: bool = True,
) -> tuple[PowerState, PowerOutput]:
    """Fold one reading in. C0 of CPUs is of the cores' counters, whatever `reading` is.

    `has_c3`: the CPU has these states.
    """
    value = UNREAD if reading is None else reading.value
    if reading is None or isinstance(value, Missing):
        why = value if isinstance(value, Missing) else UNREAD
        columns = {item.id: missing(len(topology.cpus), why) for item in COUNTED_POWER_CPU_METRICS}
        columns["c0_ratio"] = _awake(counted)
        absent = {item.id: missing(len(packages), why) for item in COUNTED_POWER_PACKAGE_METRICS}
        gap = replace(state, at_ns=now_ns, awake_s=np.full(len(state.awake_s), np.nan))
        kept = after_absence(gap, PowerState(joules=state.joules), why)
        return kept, PowerOutput(columns, _with(packages, absent, {}))
    table, at_ns = value, reading.read_at_ns
    before, known = None, None
    changed_ns = np.full(len(table.values), float(at_ns))
    if state.table is not None:
        before, known, rows = matched(state.table, state.rates, table)
        same = (rows >= 0) & (table.enabled_ns == before.enabled_ns)
        changed_ns[same] = state.changed_ns[rows[same]]
    rates = _energy_once(row_rates(before, known, table), before, table)
    joules = _added_energy(state.joules, before, rates, table, topology)
    ages_s = {
        event: float((at_ns - changed_ns[table.event == at]).min()) / 1e9
        for at, event in enumerate(table.events)
        if (table.event == at).any()
    }
    ages_s = {event: age_s for event, age_s in ages_s.items() if age_s > 0}
    columns = _of_cpus(table, rates, counted, topology)
    state = _with_c1(state, before, table, columns, topology, now_ns=now_ns)
    idle, held = columns["c1_ratio"], state.c1 or columns["c1_ratio"]
    columns["c1_ratio"] = where(idle.present, held, idle)
    of_packages = _of_packages(table, rates, joules, tsc_hz(counted), topology)
    if not has_c3:
        # The kernel lists the state of some CPUs that never enter it; the others' sums are right.
        columns["c3_ratio"] = missing(len(topology.cpus), NO_C3)
        of_packages["c3_ratio"] = missing(len(packages), NO_C3)
    throttled_s = ages_s.get("package_throttles")
    sampled = {} if throttled_s is None else {"throttles_per_s": throttled_s}
    ages = {name: ages_s[event] for name, event in _SLOW.items() if event in ages_s}
    state = replace(state, table=table, rates=rates, changed_ns=changed_ns, joules=joules)
    return state, PowerOutput(columns, _with(packages, of_packages, sampled), ages)


# Names of tables; of a CPU without one nothing is known.
_WITH_C3 = ("hsx", "bdx", "generic")
NO_C3 = Missing(Reason.HARDWARE, "only Haswell and Broadwell have C3")
_SLOW = {**_CORE_STATES, "c1_ratio": "core_c6", "throttles_per_s": "core_throttles"}


def _with(
    packages: tuple[PackageRow, ...], columns: Mapping[str, Column], sampled: Mapping[str, float]
) -> tuple[PackageRow, ...]:
    return tuple(
        replace(
            row,
            readings={**row.readings, **{name: of[at] for name, of in columns.items()}},
            sampled_s={**row.sampled_s, **sampled},
        )
        for at, row in enumerate(packages)
    )


def _awake(counted: CounterRates) -> Column:
    """C0 of each CPU: reference cycles advance with the TSC while it is not halted."""
    share = ratio(counted.rate("ref_cycles"), counted.rate("tsc"))
    return Column(np.minimum(share.values, 1.0), share.reasons, share.details, share.by_reason)


def _energy_once(rates: BoxRates, before: UncoreTable | None, after: UncoreTable) -> BoxRates:
    """Rates; RESET for energy between readings so far apart that it may have wrapped twice."""
    if before is None:
        return rates
    events = [after.events.index(name) for name in _JOULES.values() if name in after.events]
    energy = np.isin(after.event, events)
    unsure = energy & (rates.why == 0) & (after.enabled_ns > before.enabled_ns + _WRAPS_NS)
    return replace(
        rates,
        per_s=np.where(unsure, np.nan, rates.per_s),
        why=np.where(unsure, np.uint8(Reason.RESET), rates.why),
    )


def _added_energy(
    joules: Mapping[str, Floats],
    before: UncoreTable | None,
    rates: BoxRates,
    table: UncoreTable,
    topology: Topology,
) -> Mapping[str, Floats]:
    """Joules until this table: what was known, and what the counters have grown since."""
    result = {}
    for name, event in _JOULES.items():
        known = joules.get(name, np.full(len(topology.packages), np.nan)).copy()
        if before is not None and event in table.events:
            usable = (table.event == table.events.index(event)) & (rates.why == 0)
            for at, package in enumerate(topology.packages):
                rows = usable & (table.packages == package)
                if rows.any():
                    grown = int((table.values[rows] - before.values[rows]).sum())
                    begun = 0.0 if np.isnan(known[at]) else known[at]
                    known[at] = begun + grown * ENERGY_J
        result[name] = known
    return result


def _sums(
    table: UncoreTable,
    rates: BoxRates,
    row_of: NDArray[np.int64],
    rows: int,
    events: Sequence[str],
) -> dict[str, Column]:
    """Counts per second by event; `row_of` has the row of each of the table's counters."""
    wanted = _positions(table, events)
    sums, _ = sum_rates(table, rates, row_of, rows, wanted, sentences=_SENTENCES)
    return {event: sums.get(event, missing(rows, NOT_HERE)) for event in events}


def _positions(table: UncoreTable, events: Iterable[str]) -> list[int]:
    return [table.events.index(event) for event in events if event in table.events]


def _of_packages(
    table: UncoreTable,
    rates: BoxRates,
    joules: Mapping[str, Floats],
    hz: Reading,
    topology: Topology,
) -> dict[str, Column]:
    packages, at = topology.packages, topology.positions_of(table.packages)
    sums = _sums(table, rates, at, len(packages), PACKAGE_POWER_EVENTS)
    columns = {name: _scaled(sums[event], ENERGY_J) for name, event in _WATTS.items()}
    for name, event in _JOULES.items():
        known = column(joules[name], why=_BEGUN)
        columns[name] = where(sums[event].present, known, sums[event])
    registers = (table.boxes[_rows(table, "package_c6", package)] for package in packages)
    dies = np.array([len(set(boxes.tolist())) for boxes in registers])
    states = {name: _share(sums[event], hz, dies) for name, event in _PACKAGE_STATES.items()}
    whole = Column(np.ones(len(dies)), np.zeros(len(dies), np.uint8))
    throttles = {"throttles_per_s": sums["package_throttles"]}
    return columns | states | throttles | {"c0_ratio": _rest(whole, list(states.values()))}


def _rows(table: UncoreTable, event: str, package: int) -> Sequence[int]:
    at = table.events.index(event) if event in table.events else -1
    return np.flatnonzero((table.event == at) & (table.packages == package)).tolist()


def _of_cpus(
    table: UncoreTable, rates: BoxRates, counted: CounterRates, topology: Topology
) -> dict[str, Column]:
    count, rows = len(topology.cpus), topology.rows_of(table.boxes)
    sums = _sums(table, rates, rows, count, CORE_POWER_EVENTS)
    hz, one = tsc_hz(counted), np.ones(count)
    known = _among(topology, table.boxes[_of_core_states(table)])
    states = {
        name: _share(_of_threads(sums[event], known, topology), hz, one)
        for name, event in _CORE_STATES.items()
    }
    return {
        **states,
        "c0_ratio": _awake(counted),
        "c1_ratio": _rest(column(one), list(states.values())),
        "throttles_per_s": sums["core_throttles"],
    }


def _of_core_states(table: UncoreTable) -> Bools:
    return np.isin(table.event, _positions(table, _CORE_STATES.values()))


def _among(topology: Topology, cpus: NDArray[np.int32]) -> Bools:
    """bool (rows,): whose CPU is one of these."""
    among = np.zeros(len(topology.cpus) + 1, np.bool_)  # the last: of no CPU
    among[topology.rows_of(cpus)] = True
    return among[:-1]


def _with_c1(
    state: PowerState,
    before: UncoreTable | None,
    table: UncoreTable,
    columns: Mapping[str, Column],
    topology: Topology,
    *,
    now_ns: int,
) -> PowerState:
    """C1 computed again for CPUs whose C-states were read: 1 - (C0 + C3 + C6) over their interval.

    C0 is its average over that interval, where it was counted all the time. `c1_ratio` of `columns`
    is 1 - (C3 + C6).
    """
    count = len(topology.cpus)
    if before is None:
        none = np.zeros(count)
        return replace(state, at_ns=now_ns, awake_s=none, passed_s=none, c1=missing(count, _BEGUN))
    awake, tick_s = columns["c0_ratio"], (now_ns - state.at_ns) / 1e9
    awake_s, passed_s = state.awake_s + awake.values * tick_s, state.passed_s + tick_s
    states, own_s = _of_core_states(table), np.zeros(count + 1)  # the last: of no CPU
    rows = topology.rows_of(table.boxes[states])  # -1: the last
    np.maximum.at(own_s, rows, difference(table.enabled_ns, before.enabled_ns)[states] / 1e9)
    known = _among(topology, table.boxes[states])
    interval_s = _of_threads(column(own_s[:count]), known, topology).values
    anew = interval_s > 0
    whole = np.abs(passed_s - interval_s) <= _SAME_INTERVAL * interval_s
    average = awake_s / np.where(anew & whole, passed_s, np.nan)
    c1 = column(np.clip(columns["c1_ratio"].values - average, 0.0, 1.0), why=_BEGUN)
    return replace(
        state,
        at_ns=now_ns,
        awake_s=np.where(anew, 0.0, awake_s),
        passed_s=np.where(anew, 0.0, passed_s),
        c1=where(anew, where(awake.present, c1, awake), state.c1 or c1),
    )


def _of_threads(of: Column, known: Bools, topology: Topology) -> Column:
    """A core's number, which is that of its thread in `known`, for all of its threads."""
    own = of
    for others in topology.sibling_rows.T:
        rows = np.maximum(others, 0)
        replaced = (others >= 0) & ~known & known[rows]
        details = {row: of.details[at] for row, at in enumerate(rows.tolist()) if at in of.details}
        sibling = Column(of.values[rows], of.reasons[rows], details, of.by_reason)
        own = where(replaced, sibling, own)
    return own


def _scaled(of: Column, factor: float | Floats) -> Column:
    return Column(of.values * factor, of.reasons, of.details, of.by_reason)


def _share(per_s: Column, hz: Reading, boxes: Floats) -> Column:
    """Share of time: clocks per second of `boxes` registers by the TSC's; at most 1."""
    if isinstance(hz, Missing):
        return where(per_s.present, missing(len(per_s), hz), per_s)
    share = _scaled(per_s, 1.0 / (hz * np.maximum(boxes, 1)))
    far = share.present.copy()
    far[far] = share.values[far] > _SLACK
    at_most_1 = Column(np.minimum(share.values, 1.0), share.reasons, share.details, share.by_reason)
    return withhold(at_most_1, far, _IMPOSSIBLE)


def _rest(whole: Column, states: Sequence[Column]) -> Column:
    """What the states leave of the whole; those that the CPU does not have leave all."""
    left = whole.values
    rest = whole
    known = np.zeros(len(whole), np.bool_)
    for state in states:
        known |= state.present
        left = left - np.where(state.present, state.values, 0.0)
        lacking = ~state.present & (state.reasons != Reason.HARDWARE)
        rest = where(rest.present & lacking, state, rest)
    none = where(rest.present & ~known, states[-1], rest)
    return where(none.present, column(np.clip(left, 0.0, 1.0)), none)


def _run(state: PowerState, tick: FoldTick) -> tuple[PowerState, PowerOutput]:
    reading = tick.sample.readings.get("power")
    return step_power(
        state,
        reading,
        tick.output(COUNTERS),
        tick.output(PACKAGES),
        tick.topology,
        now_ns=tick.sample.monotonic_ns,
        has_c3=tick.host.uarch.casefold() in _WITH_C3,
    )


POWER: FoldStage[PowerState, PowerOutput] = FoldStage(
    "power",
    PowerState,
    _run,
    reset_on=TopologyChange.PACKAGES,
    columns=lambda output: output.columns,
)
