"""The model's uncore counts in the shape in which a source hands them over."""

from __future__ import annotations

import numpy as np

from nftop.model.reading import Reason
from nftop.model.sample import Counts
from nftop.model.uncore import UncoreTable
from nftop.sim.events import boxes, nth_share, quantity_of, share
from nftop.sim.model import Model
from nftop.uarch.table import Uarch

_UNKNOWN = "the simulated host has no such event"


def uncore_table(model: Model, t_ns: int, uarch: Uarch) -> UncoreTable:
    """Every uncore event of `uarch` on every box, at `t_ns` since the model's start.

    The turns of a unit share its time evenly and without a beat: of n turns, each has run an n-th
    of the time and seen an n-th of what there was to count, to a nanosecond and a count. A real
    kernel's turns last milliseconds each.
    """
    counts = model.counts(t_ns)
    cpus = model.layout.topology.cpus
    rows_of = {
        package: [info.cpu for info in cpus if info.package == package]
        for package in model.layout.topology.packages
    }
    events: list[str] = []
    details: dict[str, dict[int, str]] = {}
    values: list[Counts] = []
    rows: list[tuple[int, ...]] = []  # package, box, event, reason, time enabled and running
    for unit in uarch.uncore:
        turns = len(unit.turns)
        for turn, names in enumerate(unit.turns):
            ran_ns = int(share(t_ns, turns)[turn])
            for name in names:
                column = quantity_of(unit.events[name])
                reason = Reason.HARDWARE if column is None else Reason.PRESENT
                details[name] = {int(reason): _UNKNOWN} if column is None else {}
                for package, within in rows_of.items():
                    number = boxes(model, unit.pmu, package)
                    total = 0 if column is None else int(counts[within, column].sum())
                    values.append(nth_share(share(total, number), turn, turns))
                    where = ((package, box, len(events)) for box in range(number))
                    rows += [(*each, int(reason), t_ns, ran_ns) for each in where]
                events.append(name)
    table = np.array(rows, dtype=np.uint64).reshape(-1, 6)
    return UncoreTable(
        events=tuple(events),
        packages=table[:, 0].astype(np.int32),
        boxes=table[:, 1].astype(np.int32),
        event=table[:, 2].astype(np.int32),
        values=np.concatenate([np.zeros(0, np.uint64), *values]),
        reasons=table[:, 3].astype(np.uint8),
        enabled_ns=table[:, 4],
        running_ns=table[:, 5],
        details=details,
    )
