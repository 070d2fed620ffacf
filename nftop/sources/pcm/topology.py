"""What a server's host is made of, as far as the server tells."""

from __future__ import annotations

from nftop.model.ids import Core, Cpu, Package
from nftop.model.pcm import PcmTable
from nftop.model.reading import Missing, Reason
from nftop.model.topology import CpuInfo, Topology
from nftop.sources.base import Check
from nftop.sources.pcm.source import PcmSource

_NOTE = "the server tells of no dies, caches or NUMA nodes"


def topology_of(table: PcmTable) -> Topology:
    """CPUs, cores and packages, all online; last-level caches are not told."""
    places = list(zip(table.packages.tolist(), table.cores.tolist(), strict=True))
    cores = {place: Core(index) for index, place in enumerate(sorted(set(places)))}
    threads: dict[tuple[int, int], list[Cpu]] = {}
    for cpu, place in zip(table.cpus.tolist(), places, strict=True):
        threads.setdefault(place, []).append(Cpu(cpu))
    return Topology(
        tuple(
            CpuInfo(
                cpu=Cpu(cpu),
                online=True,
                core=cores[place],
                package=Package(place[0]),
                die=None,
                l3=None,
                node=None,
                siblings=tuple(thread for thread in threads[place] if thread != cpu),
            )
            for cpu, place in zip(table.cpus.tolist(), places, strict=True)
        )
    )


class PcmTopologySource:
    """Source `topology` of a host that only its sensor server tells of."""

    name = "topology"
    inline = True

    def __init__(self, server: PcmSource) -> None:
        self._server = server
        self._seen: PcmTable | None = None
        self._topology: Topology | None = None

    def read(self) -> Topology | Missing:
        """As of the server's last answer; the same object as long as nothing moves."""
        table = self._server.latest
        if table is None:
            return Missing(Reason.WARMING, "the server has not answered yet")
        if self._topology is None or self._seen is None or not table.same_places(self._seen):
            self._topology = topology_of(table)
        self._seen = table
        return self._topology

    def check(self) -> tuple[Check, ...]:
        """How much the server's host has."""
        read = self.read()
        if isinstance(read, Missing):
            return (Check(self.name, read.reason, read.message),)
        text = f"{len(read.packages)} packages, {read.core_count} cores, {len(read.cpus)} CPUs"
        return (Check(self.name, Reason.PRESENT, f"{text}; {_NOTE}"),)

    def close(self) -> None:
        """Nothing is held."""
