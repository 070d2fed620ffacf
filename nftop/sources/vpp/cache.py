"""Latest reading of a VPP, merged from readings that may be incomplete, as samples keep it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from nftop.model.bounds import VPP_ROWS
from nftop.model.ids import Cpu
from nftop.model.nf.vpp import VppInstance, VppInterfaces, VppNodes, VppThread
from nftop.model.owner import Owner
from nftop.model.reading import Missing
from nftop.model.sample import Counts
from nftop.model.struct import dataclass
from nftop.sources.vpp.protocol import NodeReading, Rows, VppReading

_NAME_LIMIT = 256


def interfaces_of(reading: VppReading) -> VppInterfaces:
    """The hardware interfaces.

    A sub-interface, `NAME.<number>` beside a NAME (src/vnet/interface/stats.c), counts again what
    its interface counted.

    Raises:
        ValueError: names and counters can't be of the same interfaces, or there are more than a
            recording holds.
    """
    tables = [
        _counts(r)
        for r in (reading.rx_packets, reading.tx_packets, reading.rx_misses, reading.drops)
    ]
    width = len(reading.names)
    if {table.shape for table in tables} != {(len(reading.rx_packets), width)}:
        raise ValueError(f"it names {width} interfaces and counts others")
    known = set(reading.names)
    own = [i for i, name in enumerate(reading.names) if not _is_sub_interface(name, known)]
    _check_count(len(own), "interfaces")
    names = tuple(reading.names[index][:_NAME_LIMIT] for index in own)
    received, sent, misses, drops = (table[:, own] for table in tables)
    return VppInterfaces(names, received, sent, misses, drops)


def nodes_of(reading: NodeReading, threads: int) -> VppNodes:
    """The nodes of so many threads.

    Raises:
        ValueError: their counters are not of as many threads or nodes, or there are more than a
            recording holds.
    """
    _check_count(len(reading.names), "nodes")
    names = tuple(name[:_NAME_LIMIT] for name in reading.names)
    tables = [_counts(rows) for rows in (reading.clocks, reading.vectors, reading.calls)]
    if {table.shape for table in tables} != {(threads, len(names))}:
        raise ValueError(f"it names {len(names)} nodes and counts others")
    return VppNodes(names, *tables)


def threads_of(reading: VppReading, cpus: Mapping[int, Cpu]) -> tuple[VppThread, ...]:
    """Its threads, those on the CPUs of `cpus` with theirs."""
    return tuple(
        VppThread(
            index,
            cpus.get(index),
            None,
            _at(reading.loops_per_s, index),
            _at(reading.vector_rate, index),
        )
        for index in range(len(reading.rx_packets))
    )


def _check_count(count: int, kind: str) -> None:
    if count > VPP_ROWS:
        raise ValueError(f"{count} {kind} are more than {VPP_ROWS}, the most that nftop records")


def _is_sub_interface(name: str, known: set[str]) -> bool:
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


_NO_COUNTS = np.zeros((0, 0), dtype=np.uint64)
_NONE_YET = VppInterfaces((), _NO_COUNTS, _NO_COUNTS, _NO_COUNTS, _NO_COUNTS)


@dataclass(frozen=True, slots=True)
class Last:
    """The last reading that worked; of the nodes, the last in which they were new."""

    reading: VppReading
    interfaces: VppInterfaces
    nodes: VppNodes | None

    @property
    def nodes_beat(self) -> int | None:
        """The heartbeat of the nodes."""
        return None if self.nodes is None else self.reading.heartbeat

    @property
    def counted(self) -> int:
        """All packets, in and out."""
        return int(self.interfaces.rx_packets.sum()) + int(self.interfaces.tx_packets.sum())


def after(before: Last | None, reading: VppReading) -> Last:
    """Fold one reading in. ValueError where its parts don't fit each other."""
    held = before.nodes if before is not None and reading.counts_nodes else None
    nodes = held if reading.nodes is None else nodes_of(reading.nodes, len(reading.rx_packets))
    return Last(reading, interfaces_of(reading), nodes)


def instance(
    last: Last | None,
    *,
    identity: tuple[int, int],
    name: str,
    socket: str,
    problem: Missing | None,
    cpus: Mapping[int, Cpu],
    owner: Owner | None = None,
) -> VppInstance:
    """The same as a sample has it; `cpus` are those of its threads, by index."""
    reading = None if last is None else last.reading
    return VppInstance(
        pid=identity[0],
        start_ticks=identity[1],
        name=name,
        socket=socket,
        version="",
        problem=problem,
        heartbeat=0 if reading is None else reading.heartbeat,
        threads=() if reading is None else threads_of(reading, cpus),
        interfaces=_NONE_YET if last is None else last.interfaces,
        nodes=None if last is None else last.nodes,
        read_at_ns=0 if reading is None else (reading.began_ns + reading.ended_ns) // 2,
        took_ns=0 if reading is None else reading.ended_ns - reading.began_ns,
        owner=owner,
    )
