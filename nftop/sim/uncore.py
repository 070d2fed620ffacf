"""The model's uncore counts in the shape in which a source hands them over."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nftop.model.reading import Reason
from nftop.model.sample import Counts
from nftop.model.uncore import UNWANTED, UncoreTable
from nftop.sim.boxes import OF_PACKAGE_INDEX, box_counts, boxes, parts_of_box
from nftop.sim.events import nth_share, share
from nftop.sim.model import Model
from nftop.uarch.table import Uarch

_UNKNOWN = "the simulated host has no such event"


def uncore_table(model: Model, t_ns: int, uarch: Uarch, *, detailed: bool) -> UncoreTable:
    """Every uncore event of `uarch` on every box, at `t_ns` since the model's start.

    Unless `detailed`, those on demand are counted as always, but not told.

    The turns of a unit, those on demand too, share its time evenly and without a beat: of n turns,
    each has run an n-th of the time and seen an n-th of what there was to count, to a nanosecond
    and a count. A real kernel's turns last milliseconds each.
    """
    packages = np.array(model.layout.topology.packages, dtype=np.int32)
    events: list[str] = []
    details: dict[str, dict[int, str]] = {}
    values: list[Counts] = []
    where: list[NDArray[np.int32]] = []  # package, box
    rows: list[tuple[int, int, int]] = []  # event, reason, time running
    for unit in uarch.uncore:
        of_box = box_counts(model, t_ns, unit.pmu, uarch.name)
        numbers = np.array(boxes(model, unit.pmu, uarch.name), dtype=np.int32)
        places = np.stack([np.repeat(packages, len(numbers)), np.tile(numbers, len(packages))])
        turns = (*unit.turns, *unit.on_demand)
        for turn, names in enumerate(turns):
            ran_ns = int(share(t_ns, len(turns))[turn])
            for name in names:
                parts = parts_of_box(unit.events[name], uarch.name)
                reason = Reason.HARDWARE if parts is None else Reason.PRESENT
                details[name] = {int(reason): _UNKNOWN} if parts is None else {}
                total = np.zeros(of_box.shape[:2], dtype=np.uint64)
                for quantity, factor in (parts or {}).items():
                    total += np.uint64(factor) * of_box[:, :, OF_PACKAGE_INDEX[quantity]]
                values.append(nth_share(total.ravel(), turn, len(turns)))
                where.append(places)
                rows += [(len(events), int(reason), ran_ns)] * places.shape[1]
                events.append(name)
    table = np.array(rows, dtype=np.uint64).reshape(-1, 3)
    positions = np.concatenate([np.zeros((2, 0), np.int32), *where], axis=1).astype(np.int32)
    unwanted = () if detailed else [turn for unit in uarch.uncore for turn in unit.on_demand]
    hidden = {events.index(name) for turn in unwanted for name in turn}
    count, reasons = np.concatenate([np.zeros(0, np.uint64), *values]), table[:, 1].astype(np.uint8)
    off = np.isin(table[:, 0], list(hidden)) & (reasons == 0)
    count[off], reasons[off] = 0, Reason.SOURCE
    for item in hidden:
        details[events[item]].setdefault(int(Reason.SOURCE), UNWANTED)
    return UncoreTable(
        events=tuple(events),
        packages=positions[0],
        boxes=positions[1],
        event=table[:, 0].astype(np.int32),
        values=count,
        reasons=reasons,
        enabled_ns=np.full(len(table), t_ns, dtype=np.uint64),
        running_ns=table[:, 2],
        details=details,
        extras=frozenset(events[entry] for entry in hidden),
    )
