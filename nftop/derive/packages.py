"""Memory and PCIe traffic of every package, from its uncore counters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nftop.derive.absence import after_absence
from nftop.derive.deltas import difference
from nftop.model.catalogue_package import PACKAGE_METRICS
from nftop.model.column import Bools, Column, Floats, Reasons, missing
from nftop.model.frame import PackageRow
from nftop.model.ids import Package
from nftop.model.reading import Missing, Reason
from nftop.model.sample import SourceReading
from nftop.model.topology import Topology
from nftop.model.uncore import UncoreTable
from nftop.uarch.formula import compile_formula
from nftop.uarch.table import Uarch
from nftop.uarch.topdown import evaluate_traffic

_UNREAD = Missing(Reason.SOURCE, "nftop does not count uncore events here yet")
_NOT_HERE = Missing(Reason.SOURCE, "no box of this package counts it")
_SENTENCES: Mapping[Reason, str] = {
    Reason.RESET: "a counter of a box of this package restarted",
    Reason.TAKEN: "a box's counter group never got onto the hardware in this interval",
}


@dataclass(frozen=True, slots=True)
class PackageState:
    """The last table that was rated, and the rows it gave."""

    table: UncoreTable | None = None
    read_at_ns: int = 0
    rows: tuple[PackageRow, ...] = ()


def step_packages(
    state: PackageState,
    reading: SourceReading[UncoreTable] | None,
    uarch: Uarch | None,
    topology: Topology,
) -> tuple[PackageState, tuple[PackageRow, ...]]:
    """Fold one uncore reading in: a row for every package of the topology, ascending.

    A reading seen before keeps the rows it gave; after a change of packages start from a new state.
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
    rows = _rows(state.table, reading.value, uarch, topology.packages)
    return PackageState(reading.value, reading.read_at_ns, rows), rows


def package_rates(
    before: UncoreTable | None, after: UncoreTable, packages: tuple[Package, ...]
) -> tuple[Mapping[str, Column], Mapping[str, Bools]]:
    """Counts per second by event, and whether they are estimates; shape (packages,).

    The rate of a package is the sum over its boxes of count / time on the hardware, each by its
    own group's clock; it has one only where every box has. It is an estimate where some box's
    group was on the hardware for less than the whole interval.
    """
    index_of = {int(package): index for index, package in enumerate(packages)}
    place = np.array([index_of.get(each, -1) for each in after.packages.tolist()], dtype=np.int64)
    per_s, partly, why = _row_rates(before, after)
    rates, estimates = {}, {}
    for index, name in enumerate(after.events):
        mine = np.flatnonzero((after.event == index) & (place >= 0))
        sentences = after.details.get(name, {})
        rates[name] = _summed(place[mine], per_s[mine], why[mine], sentences, len(packages))
        some = np.bincount(place[mine], partly[mine].astype(np.float64), len(packages)) > 0
        estimates[name] = some & rates[name].present
    return rates, estimates


def _rows(
    before: UncoreTable | None, after: UncoreTable, uarch: Uarch, packages: tuple[Package, ...]
) -> tuple[PackageRow, ...]:
    count = len(packages)
    rates, partly = package_rates(before, after, packages)
    # Also where the table holds no event at all, formulas need columns of as many rows.
    known = {event: missing(count, _NOT_HERE) for unit in uarch.uncore for event in unit.events}
    traffic = evaluate_traffic(uarch, {**known, **rates})
    unknown = missing(count, Missing(Reason.HARDWARE, f"not in {uarch.name}'s table"))
    columns = {metric.id: traffic.get(metric.id, unknown) for metric in PACKAGE_METRICS}
    shared = {
        name: np.any([partly[event] for event in compile_formula(text).names if event in partly]
                     or [np.zeros(count, dtype=np.bool_)], axis=0) & traffic[name].present
        for name, text in uarch.traffic.items()
    }  # fmt: skip
    return tuple(
        PackageRow(
            package,
            {name: column[row] for name, column in columns.items()},
            frozenset(name for name in columns if name in shared and shared[name][row]),
        )
        for row, package in enumerate(packages)
    )


def _row_rates(before: UncoreTable | None, after: UncoreTable) -> tuple[Floats, Bools, Reasons]:
    """Of every row its rate, whether its group ran but part of the time, and why it has none."""
    rows, why = len(after.values), after.reasons.copy()
    if before is None or not _same_rows(before, after):
        why[why == 0] = Reason.WARMING
        return np.full(rows, np.nan), np.zeros(rows, dtype=np.bool_), why
    enabled = difference(after.enabled_ns, before.enabled_ns)
    running = difference(after.running_ns, before.running_ns)
    counted = difference(after.values, before.values)
    stepped_back: Bools = (
        (after.values < before.values)
        | (after.enabled_ns < before.enabled_ns)
        | (after.running_ns < before.running_ns)
    )
    for holds, reason in (
        (before.reasons > 0, Reason.WARMING),  # it has counted since an unknown time
        (stepped_back, Reason.RESET),
        (running <= 0, Reason.TAKEN),
    ):
        why[(why == 0) & holds] = reason
    return counted / np.where(running > 0, running, np.nan) * 1e9, running < enabled, why


def _same_rows(before: UncoreTable, after: UncoreTable) -> bool:
    return before.events == after.events and all(
        np.array_equal(old, new)
        for old, new in (
            (before.packages, after.packages),
            (before.boxes, after.boxes),
            (before.event, after.event),
        )
    )


def _summed(
    place: NDArray[np.int64],
    per_s: Floats,
    why: Reasons,
    sentences: Mapping[int, str],
    packages: int,
) -> Column:
    """One event's rates added up by package; the first box without one says why there is none."""
    gone = why > 0
    values = np.bincount(place, np.where(gone, 0.0, per_s), packages)
    absent = np.bincount(place, minlength=packages) == 0
    reasons = np.where(absent, np.uint8(_NOT_HERE.reason), np.uint8(Reason.PRESENT))
    details = dict.fromkeys(np.flatnonzero(absent).tolist(), _NOT_HERE.detail)
    for row in np.unique(place[gone]).tolist():
        reason = Reason(int(why[(place == row) & gone][0]))
        reasons[row] = reason
        details[row] = sentences.get(int(reason)) or _SENTENCES.get(reason, reason.sentence)
    return Column(np.where(reasons > 0, np.nan, values), reasons, details)


def _nothing(topology: Topology, why: Missing) -> tuple[PackageRow, ...]:
    readings = {metric.id: why for metric in PACKAGE_METRICS}
    return tuple(PackageRow(package, readings) for package in topology.packages)
