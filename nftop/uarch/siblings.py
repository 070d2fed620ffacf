"""Counts of CPUs to counts of physical cores: the threads of a core added up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from nftop.model.column import Bools, Column, Floats, column
from nftop.model.reading import Missing, Reason
from nftop.model.topology import Topology
from nftop.uarch.sections import BUSIEST

# Events that count time, of which a core has as much as its busier thread.
CLOCKS = ("cycles", "aperf")
_OFFLINE = "the CPU is offline"
_Cores: TypeAlias = NDArray[np.int64]


def sum_siblings(columns: Mapping[str, Column], topology: Topology) -> dict[str, Column]:
    """Each column with its rows added up over the threads of their core, rows as in the topology.

    So the threads of one core show the same number: the core's. Beside the columns given there is
    `threads`, how many online threads the core has, and for each of `CLOCKS` among them
    `busiest_...`, the largest of its threads' counts. In the unit of the columns.

    A core of which one thread has no number has none: that thread's own row keeps its reason, and
    its sibling's row has the same reason and names the CPU. An offline CPU has no core, and its
    threads are none of the core's.
    """
    online = _has_core(topology)
    cores = core_index(topology)
    summed = {}
    for name, part in columns.items():
        counts = np.where(part.present, part.values, 0.0)
        total = np.bincount(cores, counts).astype(np.float64)
        summed[name] = _of_core(total, part, cores, topology)
        if name in CLOCKS:
            most = np.zeros(int(cores.max(initial=0)) + 1)
            np.maximum.at(most, cores, counts)
            summed[BUSIEST + name] = _of_core(most, part, cores, topology)
    count = np.bincount(cores)[cores].astype(np.float64)
    summed["threads"] = column(count, ~online, Missing(Reason.UNDEFINED, _OFFLINE))
    return summed


def core_index(topology: Topology) -> _Cores:
    """int64 (rows,): the same number for the threads of one core.

    An offline CPU has a number to itself behind all others, so that arrays by core have room.
    """
    known = [info.core for info in topology.cpus if info.online and info.core is not None]
    first_free = max(known, default=-1) + 1
    cores = first_free + np.arange(len(topology.cpus), dtype=np.int64)
    cores[_has_core(topology)] = known
    return cores


def _has_core(topology: Topology) -> Bools:
    return np.array([info.online and info.core is not None for info in topology.cpus], np.bool_)


def _of_core(totals: Floats, part: Column, cores: _Cores, topology: Topology) -> Column:
    """The column of `totals` by core, without a number wherever a thread of the core has none."""
    lacking = np.bincount(cores, ~part.present) > 0
    values = np.where(lacking[cores], np.nan, totals[cores])
    reasons = part.reasons.copy()
    details = dict(part.details)
    for row in np.flatnonzero(lacking[cores] & part.present).tolist():
        sibling = int(np.flatnonzero((cores == cores[row]) & ~part.present)[0])
        why = part[sibling]
        if isinstance(why, Missing):
            reasons[row] = why.reason
            cpu = topology.cpus[sibling].cpu
            details[row] = f"its hyper-thread sibling, CPU {cpu}: {why.message}"
    return Column(values, reasons, details, part.by_reason)
