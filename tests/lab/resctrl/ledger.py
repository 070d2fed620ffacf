"""What every RMID has moved and holds, while CPUs change groups and groups change masks.

The host's model gives what a CPU moved since the start in closed form. Between two changes a CPU
has one RMID, so an RMID's count is a sum of differences of closed forms, one for every time that a
CPU had it. What an RMID holds of a cache goes to its level exponentially, from where it was at the
last change.
Only CPUs count: a task that was moved to a group moves nothing of the model with it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nftop.model.column import Bools, Floats
from tests.lab.resctrl.hardware import Hardware

Ints: TypeAlias = NDArray[np.int64]


class Fill(Protocol):
    """How much of a cache the CPUs of each of g RMIDs come to fill."""

    def __call__(
        self, at_ns: int, cpus: Sequence[Sequence[int]], ways: Bools, way_bytes: float
    ) -> Floats:
        """Float64 (g,), bytes, while the host does what it does from `at_ns` on.

        Args:
            at_ns: time since the model's start.
            cpus: of each RMID, those beside this cache.
            ways: bool (g, w), which ways each may fill.
            way_bytes: size of a way.
        """


@dataclass(frozen=True, slots=True)
class Host:
    """What runs on the host.

    Attributes:
        starts_ns: when what runs changes; the first is 0.
        settle_s: time constant of the caches.
        traffic: bytes of memory that every CPU moved from 0 to a time: float64 (n, 2), in total and
            those of its own package.
        fill: see there.
    """

    starts_ns: tuple[int, ...]
    settle_s: float
    traffic: Callable[[int], Floats]
    fill: Fill


@dataclass(slots=True, eq=False)
class Ledger:
    """Of r RMIDs, in d nodes of w ways, on n CPUs.

    Attributes:
        column_of: int64 (n,), each CPU's node as an index.
        way_bytes: of every node.
        at_ns: the last change. What follows is as of then.
        rmid_of: int64 (n,), since then.
        ways: bool (r, d, w), since then.
        traffic: float64 (n, 2), what the model said.
        moved: float64 (r, d, 2), bytes.
        held: float64 (r, d), bytes.
        levels: what they come to hold, by when that began: nothing changes it but a change.
    """

    host: Host
    column_of: Ints
    way_bytes: Floats
    at_ns: int
    rmid_of: Ints
    ways: Bools
    traffic: Floats
    moved: Floats
    held: Floats
    levels: dict[int, Floats] = field(default_factory=dict)


def start(hardware: Hardware, host: Host, at_ns: int) -> Ledger:
    """The books at mount: everything is RMID 0's, and has long been."""
    assert hardware.monitoring is not None
    rmids, nodes = hardware.monitoring.rmids, hardware.nodes
    width = hardware.allocation.ways if hardware.allocation is not None else 1
    nodes_per_domain = len(nodes) // len(hardware.domains)
    sizes = [
        hardware.size_bytes[hardware.domain_of[hardware.node_of.index(node)]]
        / nodes_per_domain
        / width
        for node in nodes
    ]
    book = Ledger(
        host=host,
        column_of=np.array([nodes.index(node) for node in hardware.node_of], dtype=np.int64),
        way_bytes=np.array(sizes),
        at_ns=at_ns,
        rmid_of=np.zeros(len(hardware.node_of), dtype=np.int64),
        ways=np.ones((rmids, len(nodes), width), dtype=np.bool_),
        traffic=host.traffic(at_ns),
        moved=np.zeros((rmids, len(nodes), 2)),
        held=np.zeros((rmids, len(nodes))),
    )
    book.held = _levels(book, at_ns)
    return book


def all_ways(book: Ledger) -> Bools:
    """Every way for every RMID, to be narrowed."""
    return np.ones_like(book.ways)


def change(book: Ledger, at_ns: int, rmid_of: Ints, ways: Bools) -> None:
    """From now on the CPUs have these RMIDs, and these may fill these ways."""
    _settle(book, at_ns)
    book.rmid_of, book.ways = rmid_of, ways
    book.levels.clear()


def forget(book: Ledger, at_ns: int, rmid: int) -> None:
    """A new group counts from 0; what its RMID holds stays where it is."""
    _settle(book, at_ns)
    book.moved[rmid] = 0.0


def moved_bytes(book: Ledger, at_ns: int) -> Floats:
    """Float64 (r, d, 2): in total and local, since each RMID's group was made."""
    moved = book.moved.copy()
    np.add.at(moved, (book.rmid_of, book.column_of), book.host.traffic(at_ns) - book.traffic)
    return moved


def held_bytes(book: Ledger, at_ns: int) -> Floats:
    """Float64 (r, d)."""
    held = book.held
    between = [start for start in book.host.starts_ns if book.at_ns < start < at_ns]
    for begin, end in itertools.pairwise([book.at_ns, *between, at_ns]):
        level = _levels(book, begin)
        held = level + (held - level) * math.exp((begin - end) / 1e9 / book.host.settle_s)
    return held


def _settle(book: Ledger, at_ns: int) -> None:
    book.moved, book.held = moved_bytes(book, at_ns), held_bytes(book, at_ns)
    book.traffic, book.at_ns = book.host.traffic(at_ns), at_ns


def _levels(book: Ledger, at_ns: int) -> Floats:
    """What every RMID comes to fill, float64 (r, d); those without CPUs nothing."""
    if at_ns not in book.levels:
        book.levels[at_ns] = _settled(book, at_ns)
    return book.levels[at_ns]


def _settled(book: Ledger, at_ns: int) -> Floats:
    levels = np.zeros_like(book.held)
    for column, way_bytes in enumerate(book.way_bytes):
        here = np.flatnonzero(book.column_of == column)
        used = np.unique(book.rmid_of[here])
        cpus = [here[book.rmid_of[here] == rmid].tolist() for rmid in used]
        ways = book.ways[used, column]
        levels[used, column] = book.host.fill(at_ns, cpus, ways, float(way_bytes))
    return levels
