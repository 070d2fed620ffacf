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
from nftop.sources.vpp.protocol import Rows, Told, ToldNodes

_NAME_LIMIT = 256


def interfaces_of(told: Told) -> VppInterfaces:
    """The hardware interfaces.

    A sub-interface, `NAME.<number>` beside a NAME (src/vnet/interface/stats.c), counts again what
    its interface counted.

    Raises:
        ValueError: names and counters can't be of the same interfaces, or there are more than a
            recording holds.
    """
    tables = [_counts(r) for r in (told.rx_packets, told.tx_packets, told.rx_misses, told.drops)]
    width = len(told.names)
    if {table.shape for table in tables} != {(len(told.rx_packets), width)}:
        raise ValueError(f"it names {width} interfaces and counts others")
    known = set(told.names)
    own = [i for i, name in enumerate(told.names) if not _is_part(name, known)]
    _check_count(len(own), "interfaces")
    names = tuple(told.names[index][:_NAME_LIMIT] for index in own)
    received, sent, misses, drops = (table[:, own] for table in tables)
    return VppInterfaces(names, received, sent, misses, drops)


def nodes_of(told: ToldNodes, threads: int) -> VppNodes:
    """The nodes of so many threads.

    Raises:
        ValueError: their counters are not of as many threads or nodes, or there are more than a
            recording holds.
    """
    _check_count(len(told.names), "nodes")
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


def _check_count(count: int, kind: str) -> None:
    if count > VPP_ROWS:
        raise ValueError(f"{count} {kind} are more than {VPP_ROWS}, the most that nftop records")


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


_NO_COUNTS = np.zeros((0, 0), dtype=np.uint64)
_NONE_YET = VppInterfaces((), _NO_COUNTS, _NO_COUNTS, _NO_COUNTS, _NO_COUNTS)


@dataclass(frozen=True, slots=True)
class Last:
    """The last reading that worked; of the nodes, the last in which they were new."""

    told: Told
    interfaces: VppInterfaces
    nodes: VppNodes | None

    @property
    def nodes_beat(self) -> int | None:
        """The heartbeat of the nodes."""
        return None if self.nodes is None else self.told.heartbeat

    @property
    def counted(self) -> int:
        """All packets, in and out."""
        return int(self.interfaces.rx_packets.sum()) + int(self.interfaces.tx_packets.sum())


def after(before: Last | None, told: Told) -> Last:
    """Fold one reading in. ValueError where its parts don't fit each other."""
    held = before.nodes if before is not None and told.counts_nodes else None
    nodes = held if told.nodes is None else nodes_of(told.nodes, len(told.rx_packets))
    return Last(told, interfaces_of(told), nodes)


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
    told = None if last is None else last.told
    return VppInstance(
        pid=identity[0],
        start_ticks=identity[1],
        name=name,
        socket=socket,
        version="",
        problem=problem,
        heartbeat=0 if told is None else told.heartbeat,
        threads=() if told is None else threads_of(told, cpus),
        interfaces=_NONE_YET if last is None else last.interfaces,
        nodes=None if last is None else last.nodes,
        read_at_ns=0 if told is None else (told.began_ns + told.ended_ns) // 2,
        took_ns=0 if told is None else told.ended_ns - told.began_ns,
        owner=owner,
    )
