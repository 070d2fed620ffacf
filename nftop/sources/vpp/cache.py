"""What a VPP told last, over readings of which not each has everything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from nftop.model.ids import Cpu
from nftop.model.nf.vpp import VppInstance, VppInterfaces, VppNodes
from nftop.model.owner import Owner
from nftop.model.reading import Missing
from nftop.sources.vpp.payload import interfaces_of, nodes_of, threads_of
from nftop.sources.vpp.protocol import Told

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
