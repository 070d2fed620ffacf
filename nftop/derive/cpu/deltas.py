"""Differences of two counter tables, by row of the topology."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nftop.model.column import Bools, Floats, Reasons
from nftop.model.missing import Reason
from nftop.model.sample import CounterTable, Counts
from nftop.model.struct import dataclass
from nftop.model.topology import Topology


@dataclass(frozen=True, slots=True)
class Deltas:
    """Differences of two tables, by row of the topology; g and k as in `CounterTable`.

    Attributes:
        group: int32 (k,), the group of each column.
        enabled_ns, running_ns: float64 (rows, g), NaN if not comparable.
        counts: float64 (rows, k), NaN if not comparable.
        absent: uint8 (rows, k), the newer table's reasons.
        why: uint8 (rows, g), the `Reason` why the group can't be rated, or PRESENT.
    """

    group: NDArray[np.int32]
    enabled_ns: Floats
    running_ns: Floats
    counts: Floats
    absent: Reasons
    why: Reasons


def deltas(before: CounterTable | None, after: CounterTable, topology: Topology) -> Deltas:
    """Differences of two tables.

    RESET for a group with anything that stepped back; ERROR for one that ran while its clock stood
    still, which no kernel reports; UNDEFINED for a CPU that is not in the newer table; WARMING if
    only the older one lacks it or has other columns.
    """
    rows, (_, groups) = len(topology.cpus), after.enabled_ns.shape
    row = topology.rows_of(after.cpus)
    here = np.flatnonzero(row >= 0)
    absent = np.zeros((rows, len(after.events)), dtype=np.uint8)
    absent[row[here]] = after.reasons[here]
    why = np.full((rows, groups), np.uint8(Reason.UNDEFINED))  # not in the table: offline
    why[row[here]] = Reason.WARMING
    enabled, running = np.full((rows, groups), np.nan), np.full((rows, groups), np.nan)
    counts = np.full(absent.shape, np.nan)
    if before is not None and _alike(before, after):
        old = np.arange(len(row))
        if not np.array_equal(before.cpus, after.cpus):
            index_of = {cpu: index for index, cpu in enumerate(before.cpus.tolist())}
            old = np.array([index_of.get(cpu, -1) for cpu in after.cpus.tolist()], dtype=np.int64)
        new = np.flatnonzero((row >= 0) & (old >= 0))
        into, old = row[new], old[new]
        why[into] = np.where(_stepped_back(before, after, old, new), Reason.RESET, Reason.PRESENT)
        enabled[into] = difference(after.enabled_ns[new], before.enabled_ns[old])
        running[into] = difference(after.running_ns[new], before.running_ns[old])
        impossible = (why == Reason.PRESENT) & (enabled == 0) & (running > 0)
        why[impossible] = Reason.ERROR
        counts[into] = difference(after.values[new], before.values[old])
    return Deltas(after.group, enabled, running, counts, absent, why)


def _alike(before: CounterTable, after: CounterTable) -> bool:
    return (
        before.events == after.events
        and np.array_equal(before.group, after.group)
        and before.enabled_ns.shape[1] == after.enabled_ns.shape[1]
    )


def _stepped_back(
    before: CounterTable, after: CounterTable, old: NDArray[np.int64], new: NDArray[np.int64]
) -> Bools:
    """bool (rows, g): groups whose times or present events stepped back."""
    back: Bools = (after.enabled_ns[new] < before.enabled_ns[old]) | (
        after.running_ns[new] < before.running_ns[old]
    )
    values = (after.values[new] < before.values[old]) & (after.reasons[new] == 0)
    if values.any():
        for group in range(back.shape[1]):
            back[:, group] |= values[:, after.group == group].any(axis=1)
    return back


def difference(after: Counts, before: Counts) -> Floats:
    """after - before, in integers before float64, which are rounded beyond 2**53."""
    return np.where(after >= before, after - before, 0).astype(np.float64)
