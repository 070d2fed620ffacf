"""What a reading found, as it goes from the worker to nftop as a line of JSON, and as a payload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nftop.model.ids import Cpu
from nftop.model.nf_vpp import VppInterfaces, VppNodes, VppThread
from nftop.model.sample import Counts

Rows = list[list[int]]
_NAME_LIMIT = 256


@dataclass(frozen=True, slots=True)
class Question:
    """A reading, please.

    Attributes:
        cpus: where the worker may run.
        heartbeat: at which the nodes were read last; None where they are wanted in any case.
    """

    cpus: list[int]
    heartbeat: int | None


@dataclass(frozen=True, slots=True)
class ToldNodes:
    """/sys/node/*, of the nodes that ever ran: names, and by thread a list of each one's count."""

    names: list[str]
    clocks: Rows
    vectors: Rows
    calls: Rows


@dataclass(frozen=True, slots=True)
class Told:
    """One reading, of t threads and i interfaces.

    Attributes:
        heartbeat: /sys/heartbeat, before the nodes were read.
        names: of the interfaces.
        rx_packets, tx_packets, rx_misses, drops: t lists of i counts.
        loops_per_s, vector_rate: of each thread; empty where VPP does not tell.
        counts_nodes: whether VPP keeps counters per node.
        nodes: None where it does not, or has not refreshed them since the question's heartbeat.
        began_ns, ended_ns: CLOCK_MONOTONIC around the reading of the interfaces.
    """

    heartbeat: int
    names: list[str]
    rx_packets: Rows
    tx_packets: Rows
    rx_misses: Rows
    drops: Rows
    loops_per_s: list[int]
    vector_rate: list[int]
    counts_nodes: bool
    nodes: ToldNodes | None
    began_ns: int
    ended_ns: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a question: a reading, or else a `Reason` and its sentence."""

    told: Told | None = None
    reason: int = 0
    sentence: str = ""


def interfaces_of(told: Told) -> VppInterfaces:
    """The hardware interfaces.

    A sub-interface, `NAME.<number>` beside a NAME, counts again what its interface counted.

    Raises:
        ValueError: names and counters can't be of the same interfaces.
    """
    tables = [_counts(r) for r in (told.rx_packets, told.tx_packets, told.rx_misses, told.drops)]
    width = len(told.names)
    if {table.shape for table in tables} != {(len(told.rx_packets), width)}:
        raise ValueError(f"it names {width} interfaces and counts others")
    known = set(told.names)
    own = [i for i, name in enumerate(told.names) if not _is_part(name, known)]
    names = tuple(told.names[index][:_NAME_LIMIT] for index in own)
    received, sent, misses, drops = (table[:, own] for table in tables)
    return VppInterfaces(names, received, sent, misses, drops)


def nodes_of(told: ToldNodes, threads: int) -> VppNodes:
    """The nodes of so many threads.

    Raises:
        ValueError: their counters are not of as many threads or nodes.
    """
    names = tuple(name[:_NAME_LIMIT] for name in told.names)
    tables = [_counts(rows) for rows in (told.clocks, told.vectors, told.calls)]
    if {table.shape for table in tables} != {(threads, len(names))}:
        raise ValueError(f"it names {len(names)} nodes and counts others")
    return VppNodes(names, *tables)


def threads_of(told: Told, cpus: Mapping[int, Cpu]) -> tuple[VppThread, ...]:
    """Its threads, those on the CPUs of `cpus` with theirs."""
    return tuple(
        VppThread(
            index, cpus.get(index), None, _at(told.loops_per_s, index), _at(told.vector_rate, index)
        )
        for index in range(len(told.rx_packets))
    )


def _is_part(name: str, known: set[str]) -> bool:
    of, dot, number = name.rpartition(".")
    return bool(dot) and number.isdecimal() and of in known


def _at(numbers: Sequence[int], index: int) -> float | None:
    return float(numbers[index]) if index < len(numbers) else None


def _counts(rows: Rows) -> Counts:
    """uint64 (t, i). ValueError unless all rows are of one length and their numbers fit."""
    try:
        table = np.array(rows, dtype=np.uint64)
    except OverflowError as error:
        raise ValueError("a counter is out of range") from error
    return table if table.ndim == 2 else table.reshape(len(rows), -1)
