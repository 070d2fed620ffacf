"""Memory, PCIe and the links of every package, from its uncore counters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from nftop.derive.absence import after_absence
from nftop.derive.package.uncore import NOT_HERE, BoxRates, added_up, box_rates
from nftop.model.column import missing
from nftop.model.frame import BoxTraffic, PackageRow
from nftop.model.ids import Package
from nftop.model.metrics.package import PACKAGE_METRICS
from nftop.model.reading import Missing, Reason
from nftop.model.sample import SourceReading
from nftop.model.topology import Topology
from nftop.model.uncore import UncoreTable
from nftop.uarch.formula import compile_formula
from nftop.uarch.table import Uarch
from nftop.uarch.topdown import evaluate_traffic

_UNREAD = Missing(Reason.SOURCE, "no source of this session counts outside the cores")
# What goes in and out of a box, by the metrics of which it is a part.
_CHANNELS = ("memory.read_bytes_per_s", "memory.write_bytes_per_s")
_LINKS = ("upi.received_bytes_per_s", "upi.sent_bytes_per_s")


@dataclass(frozen=True, slots=True)
class PackageState:
    """The last table that was rated, the rates of its boxes, and the rows they gave."""

    table: UncoreTable | None = None
    read_at_ns: int = 0
    rates: BoxRates | None = None
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
    rates = box_rates(state.table, state.rates, reading.value)
    rows = _rows(reading.value, rates, uarch, topology.packages)
    return PackageState(reading.value, reading.read_at_ns, rates, rows), rows


def _rows(
    table: UncoreTable, boxes: BoxRates, uarch: Uarch, packages: tuple[Package, ...]
) -> tuple[PackageRow, ...]:
    count = len(packages)
    index_of = {int(package): index for index, package in enumerate(packages)}
    place = np.array([index_of.get(item, -1) for item in table.packages.tolist()], dtype=np.int64)
    rates, partly = added_up(table, boxes, place, count)
    # Also where the table holds no event at all, formulas need columns of as many rows.
    known = {event: missing(count, NOT_HERE) for unit in uarch.uncore for event in unit.events}
    traffic = evaluate_traffic(uarch, {**known, **rates})
    unknown = missing(count, Missing(Reason.HARDWARE, f"{uarch.title}: it has no event for that"))
    columns = {metric.id: traffic.get(metric.id, unknown) for metric in PACKAGE_METRICS}
    shared = {
        name: np.any([partly[event] for event in compile_formula(text).names if event in partly]
                     or [np.zeros(count, dtype=np.bool_)], axis=0) & traffic[name].present
        for name, text in uarch.traffic.items()
    }  # fmt: skip
    channels, links = (_by_box(table, boxes, uarch, ends) for ends in (_CHANNELS, _LINKS))
    return tuple(
        PackageRow(
            package,
            {name: column[row] for name, column in columns.items()},
            frozenset(name for name in columns if name in shared and shared[name][row]),
            tuple(channels.get(package, ())),
            tuple(links.get(package, ())),
        )
        for row, package in enumerate(packages)
    )


def _by_box(
    table: UncoreTable, rates: BoxRates, uarch: Uarch, metrics: tuple[str, str]
) -> Mapping[int, list[BoxTraffic]]:
    """By package, the boxes that count for these metrics, ascending: the formulas of one box."""
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
    place = np.full(len(table.values), -1, dtype=np.int64)
    place[rows] = inverse.reshape(-1)
    columns, _ = added_up(table, rates, place, len(boxes), events)
    into, out_of = (formula(columns, len(boxes)) for formula in formulas)
    found: dict[int, list[BoxTraffic]] = {}
    for row, (package, number) in enumerate(boxes.tolist()):
        found.setdefault(package, []).append(BoxTraffic(number, into[row], out_of[row]))
    return found


def _nothing(topology: Topology, why: Missing) -> tuple[PackageRow, ...]:
    readings = {metric.id: why for metric in PACKAGE_METRICS}
    return tuple(PackageRow(package, readings) for package in topology.packages)
