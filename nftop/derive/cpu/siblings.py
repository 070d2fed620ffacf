"""What the other hyper-threads of each core do, and what the core gets done with all of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from nftop.derive.cpu.counters import CounterRates
from nftop.model.column import Bools, Column, missing, ratio, where
from nftop.model.reading import Missing, Reason
from nftop.model.topology import Topology

_ALONE = Missing(Reason.UNDEFINED, "its core runs no other hyper-thread")
_OF_SIBLING = "its hyper-thread sibling: "


def sibling_columns(
    busy_ratio: Column, rates: CounterRates, topology: Topology
) -> Mapping[str, Column]:
    """The metrics of `model.catalogue_sibling`, rows as in the topology.

    UNDEFINED where a core runs one thread only. A thread of the core without a number leaves none,
    with its reason.
    """
    others = topology.sibling_rows
    alone: Bools = np.all(others < 0, axis=1)
    if alone.all():
        nobody = missing(len(alone), _ALONE)
        return dict.fromkeys(("sibling_busy_ratio", "sibling_ipc", "core_ipc"), nobody)
    instructions, cycles = rates.rate("instructions"), rates.core_cycles
    threads = np.column_stack([np.arange(len(alone)), others])
    count = (threads >= 0).sum(axis=1)
    # Each thread counts the clocks of the whole core, at a time of its own: their mean.
    any_thread = _over(threads, rates.rate("cycles_any"), np.add)
    any_thread = Column(
        any_thread.values / count, any_thread.reasons, any_thread.details, any_thread.by_reason
    )
    # Where neither is counted, it is the cycles that are missed.
    clocks = where(any_thread.present, any_thread, _over(threads, cycles, np.maximum))
    found = {
        "sibling_busy_ratio": _over(others, busy_ratio, np.maximum),
        "sibling_ipc": ratio(_over(others, instructions, np.add), _over(others, cycles, np.add)),
        "core_ipc": ratio(_over(threads, instructions, np.add), clocks),
    }
    lonely = missing(len(alone), _ALONE)
    return {name: where(alone, lonely, item) for name, item in found.items()}


def _over(threads: NDArray[np.intp], of: Column, fold: np.ufunc) -> Column:
    """`of` folded over the rows in each row of `threads`, -1 being none; no value is negative.

    The first of them without a number says why there is none.
    """
    some = threads >= 0
    values = fold.reduce(np.where(some, of.values[threads], 0.0), axis=1)
    absent = some & ~of.present[threads]
    source = threads[np.arange(len(threads)), absent.argmax(axis=1)]
    gone = absent.any(axis=1)
    details: dict[int, str] = {}
    if of.details:
        rows = np.flatnonzero(gone).tolist()
        details = {
            row: _said(of.details[at], own=at == row)
            for row, at in zip(rows, source[rows].tolist(), strict=True)
            if at in of.details
        }
    reasons = np.where(gone, of.reasons[source], np.uint8(Reason.PRESENT))
    return Column(np.where(gone, np.nan, values), reasons, details, of.by_reason)


def _said(sentence: str, *, own: bool) -> str:
    return sentence if own else f"{_OF_SIBLING}{sentence}"
