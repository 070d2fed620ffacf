"""Rates and metrics of packages, from their uncore units (boxes)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from nftop.derive.absence import after_absence
from nftop.derive.cpu.deltas import difference
from nftop.derive.fold_stage import FoldStage, TopologyChange
from nftop.model.column import Block, Bools, Floats, Reasons, missing
from nftop.model.frame import BoxTraffic, PackageRow
from nftop.model.ids import Package
from nftop.model.metrics.metric import ESTIMATE_BELOW
from nftop.model.metrics.package import COUNTED_PACKAGE_METRICS
from nftop.model.missing import Missing, Reason
from nftop.model.sample import Counts, SourceReading
from nftop.model.struct import dataclass, field, replace
from nftop.model.topology import Topology
from nftop.model.uncore import UNWANTED, UncoreTable
from nftop.uarch.formula import compile_formula
from nftop.uarch.table import Uarch
from nftop.uarch.topdown import evaluate_traffic

NOT_HERE = Missing(Reason.SOURCE, "no box of this package counts it")
# Groups that take turns may have none between two tables; what one counted in its last turn is then
# the newest that is known of it. It is held as long as its turn may yet come: so many rounds, and a
# second for a source whose round is about to change.
HELD_ROUNDS, HELD_AT_LEAST_NS = 2, 1_000_000_000
# Numbers that are counted in some ticks only, and for how long one is held.
ON_DEMAND = frozenset({"mmio.read_per_s", "mmio.write_per_s", "mmio.combined_write_per_s"})
HELD_SAMPLE_NS = 15_000_000_000
T = TypeVar("T", bound=np.generic)
_SENTENCES: Mapping[Reason, str] = {
    Reason.RESET: "a counter of a box of this package restarted",
    Reason.TAKEN: "a box's counter group does not get onto the hardware; another program has it",
    Reason.WARMING: "needs one more turn on the counters",
}


@dataclass(frozen=True, slots=True)
class BoxRates:
    """Rates of every row of a table.

    Attributes:
        per_s: counts per second of the time the row's group ran; NaN if `why` is not 0.
        partly: its group ran for so little of the interval that the rate is an estimate.
        why: reason for no rate.
        ran_at_ns: the row's clock when its group last ran, or was first seen.
    """

    per_s: Floats
    partly: Bools
    why: Reasons
    ran_at_ns: Counts


def box_rates(before: UncoreTable | None, known: BoxRates | None, after: UncoreTable) -> BoxRates:
    """Rates between two tables, `known` are those of the older one; a new row is WARMING."""
    if before is not None:
        before, known, _ = matched(before, known, after)
    return row_rates(before, known, after)


def row_rates(before: UncoreTable | None, known: BoxRates | None, after: UncoreTable) -> BoxRates:
    """As `box_rates`, of tables with the same rows."""
    rows, why = len(after.values), after.reasons.copy()
    if before is None:
        why[why == 0] = Reason.WARMING
        return BoxRates(np.full(rows, np.nan), np.zeros(rows, np.bool_), why, after.enabled_ns)
    enabled = difference(after.enabled_ns, before.enabled_ns)
    running = difference(after.running_ns, before.running_ns)
    # Modulo 2**64: counts of energy wrap there.
    counted = (after.values - before.values).astype(np.int64)
    stepped_back: Bools = (
        (counted < 0)
        | (after.enabled_ns < before.enabled_ns)
        | (after.running_ns < before.running_ns)
    )
    for holds, reason in (
        (before.reasons > 0, Reason.WARMING),  # it has counted since an unknown time
        (stepped_back, Reason.RESET),
    ):
        why[(why == 0) & holds] = reason
    idle = (why == 0) & (running <= 0)
    per_s = counted / np.where(running > 0, running, np.nan) * 1e9
    ran_at = np.where(running > 0, after.enabled_ns, before.enabled_ns)
    held = np.zeros(rows, np.bool_)
    if known is not None:
        ran_at = np.where(idle, known.ran_at_ns, ran_at)
        held = idle & (known.why == 0)
        per_s = np.where(held, known.per_s, per_s)
    limit_ns = max(HELD_ROUNDS * after.round_ns, HELD_AT_LEAST_NS)
    late = difference(after.enabled_ns, ran_at) > limit_ns
    why[idle & late] = Reason.TAKEN
    why[idle & ~late & ~held] = Reason.WARMING
    return BoxRates(
        np.where(why == 0, per_s, np.nan), running < ESTIMATE_BELOW * enabled, why, ran_at
    )


def sum_rates(
    table: UncoreTable,
    rates: BoxRates,
    row_of: NDArray[np.int64],
    rows: int,
    events: Collection[int] | None = None,
    *,
    sentences: Mapping[Reason, str] = _SENTENCES,
) -> tuple[Block, Mapping[str, Bools]]:
    """Counts per second by event, and whether they are estimates; shape (rows,).

    `row_of` has the row of every counter of the table, -1 for none; `events`, which of the table's
    are wanted, by default all. A row's rate is the sum over its counters of count / time on the
    hardware, each by its own group's clock; it has one only where every counter has, else the
    reason of the first without, by `sentences`. It is an estimate where some group was on the
    hardware for less than `ESTIMATE_BELOW` of the interval.
    """
    wanted = list(range(len(table.events)) if events is None else events)
    names = [table.events[event] for event in wanted]
    metric_of = np.full(len(table.events), -1)
    metric_of[wanted] = np.arange(len(wanted))
    used = np.flatnonzero((row_of >= 0) & (metric_of[table.event] >= 0))
    slots = metric_of[table.event[used]] * rows + row_of[used]  # metric and row of each counter
    shape = len(wanted), rows
    gone = rates.why[used] > 0
    values = np.bincount(slots, np.where(gone, 0.0, rates.per_s[used]), len(wanted) * rows)
    partly = np.bincount(slots, rates.partly[used], len(wanted) * rows).reshape(shape) > 0
    absent = (np.bincount(slots, minlength=len(wanted) * rows) == 0).reshape(shape)
    reasons = np.where(absent, np.uint8(NOT_HERE.reason), np.uint8(Reason.PRESENT))
    details: list[dict[int, str]] = [{} for _ in wanted]
    for metric, row in np.argwhere(absent).tolist():
        details[metric][row] = NOT_HERE.detail
    missed, first = np.unique(slots[gone], return_index=True)
    for slot, code in zip(missed.tolist(), rates.why[used][gone][first].tolist(), strict=True):
        (metric, row), reason = divmod(slot, rows), Reason(code)
        reasons[metric, row] = reason
        known = table.details.get(names[metric], {}).get(code)
        details[metric][row] = known or sentences.get(reason, reason.sentence)
    numbers = np.where(reasons > 0, np.nan, values.reshape(shape))
    sums = Block(names, numbers, reasons, details, [{}] * len(names))
    return sums, dict(zip(names, partly & (reasons == 0), strict=True))


def _rows_before(before: UncoreTable, after: UncoreTable) -> NDArray[np.int64]:
    """For every row of `after` that of the same counter in `before`; -1: it is new.

    A counter is an event on a box of a package. Dies of a package may have equal ones, which are
    in the same order; all of these are new if their number differs.
    """
    old, new = _by_counter(before), _by_counter(after)
    result = np.full(len(after.values), -1)
    for counter, rows in new.items():
        if len(old.get(counter, ())) == len(rows):
            result[rows] = old[counter]
    return result


def _same_counters(before: UncoreTable, after: UncoreTable) -> bool:
    return (
        before.events == after.events
        and np.array_equal(before.packages, after.packages)
        and np.array_equal(before.boxes, after.boxes)
        and np.array_equal(before.event, after.event)
    )


def _by_counter(table: UncoreTable) -> dict[tuple[int, int, str], list[int]]:
    rows: dict[tuple[int, int, str], list[int]] = {}
    columns = table.packages.tolist(), table.boxes.tolist(), table.event.tolist()
    for row, (package, box, event) in enumerate(zip(*columns, strict=True)):
        rows.setdefault((package, box, table.events[event]), []).append(row)
    return rows


def matched(
    before: UncoreTable, known: BoxRates | None, after: UncoreTable
) -> tuple[UncoreTable, BoxRates | None, NDArray[np.int64]]:
    """`before` and its rates with the rows of `after`; of new ones with its clocks, and WARMING.

    Third: for every row of `after` its row in `before`, -1 if it is new.
    """
    if _same_counters(before, after):
        return before, known, np.arange(len(after.values))
    rows = _rows_before(before, after)

    def old(values: NDArray[T], new: NDArray[T] | float) -> NDArray[T]:
        result = np.full(len(rows), new, values.dtype)
        result[rows >= 0] = values[rows[rows >= 0]]
        return result

    table = replace(
        after,
        values=old(before.values, after.values),
        reasons=old(before.reasons, Reason.WARMING),
        enabled_ns=old(before.enabled_ns, after.enabled_ns),
        running_ns=old(before.running_ns, after.running_ns),
    )
    if known is not None:
        known = BoxRates(
            old(known.per_s, np.nan),
            old(known.partly, 0),
            old(known.why, Reason.WARMING),
            old(known.ran_at_ns, after.enabled_ns),
        )
    return table, known, rows


_UNREAD = Missing(Reason.SOURCE, "no source of this session counts outside the cores")
# What goes in and out of a box, by the metrics of which it is a part.
_CHANNELS = ("memory.read_bytes_per_s", "memory.write_bytes_per_s")
_LINKS = ("upi.received_bytes_per_s", "upi.sent_bytes_per_s")


@dataclass(frozen=True, slots=True)
class PackageState:
    """State of the last table.

    `sampled`: last numbers of what is counted now and then, with the time of their reading.
    """

    table: UncoreTable | None = None
    read_at_ns: int = 0
    rates: BoxRates | None = None
    rows: tuple[PackageRow, ...] = ()
    sampled: Mapping[tuple[Package, str], tuple[float, int]] = field(default_factory=dict)


def step_packages(
    state: PackageState,
    reading: SourceReading[UncoreTable] | None,
    uarch: Uarch | None,
    topology: Topology,
) -> tuple[PackageState, tuple[PackageRow, ...]]:
    """Fold one uncore reading in: a row for every package of the topology, ascending.

    A reading seen before keeps its rows; a change of packages needs a new state.
    """
    if reading is None:
        return PackageState(), _nothing(topology, _UNREAD)
    if isinstance(reading.value, Missing):
        kept = after_absence(state, PackageState(), reading.value)
        return kept, _nothing(topology, reading.value)
    if uarch is None or not uarch.traffic:
        name = "generic" if uarch is None else uarch.name
        why = Missing(Reason.SOURCE, f"nftop has no uncore table for this CPU ({name})")
        return PackageState(), _nothing(topology, why)
    if state.table is not None and reading.read_at_ns == state.read_at_ns:
        return state, state.rows
    rates = box_rates(state.table, state.rates, reading.value)
    rows = _rows(reading.value, rates, uarch, topology)
    sampled, rows = _held(state.sampled, rows, reading.read_at_ns)
    return PackageState(reading.value, reading.read_at_ns, rates, rows, sampled), rows


def _held(
    sampled: Mapping[tuple[Package, str], tuple[float, int]],
    rows: tuple[PackageRow, ...],
    now_ns: int,
) -> tuple[Mapping[tuple[Package, str], tuple[float, int]], tuple[PackageRow, ...]]:
    """Rows with the last numbers of what is not counted at this tick, and these numbers."""
    kept: dict[tuple[Package, str], tuple[float, int]] = {}
    result = []
    for row in rows:
        held: dict[str, float] = {}
        ages_s: dict[str, float] = {}
        for name, reading in row.readings.items():
            key = row.package, name
            if not isinstance(reading, Missing):
                if name in ON_DEMAND:
                    kept[key] = reading, now_ns
                continue
            known = sampled.get(key)
            off = reading.reason is Reason.WARMING or reading.detail == UNWANTED
            if known is not None and off and now_ns - known[1] <= HELD_SAMPLE_NS:
                kept[key] = known
                held[name], ages_s[name] = known[0], (now_ns - known[1]) / 1e9
        result.append(
            replace(row, readings={**row.readings, **held}, sampled_s=ages_s) if held else row
        )
    return kept, tuple(result)


def _rows(
    table: UncoreTable, boxes: BoxRates, uarch: Uarch, topology: Topology
) -> tuple[PackageRow, ...]:
    count = len(topology.packages)
    rates, partly = sum_rates(table, boxes, topology.positions_of(table.packages), count)
    # Also where the table holds no event at all, formulas need columns of as many rows.
    known = {event: missing(count, NOT_HERE) for unit in uarch.uncore for event in unit.events}
    traffic = evaluate_traffic(uarch, {**known, **rates})
    unknown = missing(count, Missing(Reason.HARDWARE, f"{uarch.title}: it has no event for that"))
    columns = {metric.id: traffic.get(metric.id, unknown) for metric in COUNTED_PACKAGE_METRICS}
    shared = {
        name: np.any(
            [partly[event] for event in compile_formula(text).names if event in partly]
            or [np.zeros(count, dtype=np.bool_)],
            axis=0,
        )
        & traffic[name].present
        for name, text in uarch.traffic.items()
    }
    channels, links = (_by_box(table, boxes, uarch, ends) for ends in (_CHANNELS, _LINKS))
    return tuple(
        PackageRow(
            package,
            {name: column[row] for name, column in columns.items()},
            frozenset(name for name in columns if name in shared and shared[name][row]),
            tuple(channels.get(package, ())),
            tuple(links.get(package, ())),
        )
        for row, package in enumerate(topology.packages)
    )


def _by_box(
    table: UncoreTable, rates: BoxRates, uarch: Uarch, metrics: tuple[str, str]
) -> Mapping[int, list[BoxTraffic]]:
    """Boxes of each package that count these metrics, ascending, by formulas of one box."""
    if not set(metrics) <= uarch.traffic.keys():
        return {}
    formulas = [compile_formula(uarch.traffic[name]) for name in metrics]
    read = {name for formula in formulas for name in formula.names}
    events = [index for index, name in enumerate(table.events) if name in read]
    rows = np.flatnonzero(np.isin(table.event, events) & (table.boxes >= 0))
    if not len(rows):
        return {}
    where = np.stack([table.packages[rows], table.boxes[rows]], axis=1)
    boxes, inverse = np.unique(where, axis=0, return_inverse=True)
    box = np.full(len(table.values), -1, dtype=np.int64)
    box[rows] = inverse.reshape(-1)
    columns, _ = sum_rates(table, rates, box, len(boxes), events)
    into, out_of = (formula(columns, len(boxes)) for formula in formulas)
    result: dict[int, list[BoxTraffic]] = {}
    for row, (package, number) in enumerate(boxes.tolist()):
        result.setdefault(package, []).append(BoxTraffic(number, into[row], out_of[row]))
    return result


def _nothing(topology: Topology, why: Missing) -> tuple[PackageRow, ...]:
    readings = {metric.id: why for metric in COUNTED_PACKAGE_METRICS}
    return tuple(PackageRow(package, readings) for package in topology.packages)


PACKAGES: FoldStage[PackageState, tuple[PackageRow, ...]] = FoldStage(
    "packages",
    PackageState,
    lambda state, tick: step_packages(
        state, tick.sample.readings.get("uncore"), tick.uarch, tick.topology
    ),
    reset_on=TopologyChange.PACKAGES,
)
