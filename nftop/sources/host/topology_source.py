"""Source `topology`: what the host is made of, read again whenever CPUs come or go."""

from __future__ import annotations

from pathlib import Path

from nftop.model.ids import Cpu
from nftop.model.reading import Missing, Reason
from nftop.model.topology import Topology
from nftop.sources.base import Check
from nftop.sources.host.online import OnlineCpus
from nftop.sources.host.topology import read_topology


class TopologySource:
    """One pread a tick, and a new look at sysfs when the online CPUs have changed."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._online = OnlineCpus(root)
        self._seen: tuple[Cpu, ...] = ()
        self._topology: Topology | None = None

    @property
    def name(self) -> str:
        return "topology"

    @property
    def inline(self) -> bool:
        return True

    def read(self) -> Topology | Missing:
        """The topology; the same object as long as no CPU comes or goes."""
        try:
            online = self._online.read()
        except (OSError, ValueError):
            online = ()  # without that file, what was seen first must do
        if self._topology is None or online != self._seen:
            self._seen = online
            self._topology = read_topology(self._root)
        if not self._topology.cpus:
            return Missing(Reason.SOURCE, self._topology.gaps)
        return self._topology

    def check(self) -> tuple[Check, ...]:
        """How many packages, cores and CPUs, and what could not be read of them."""
        topology = read_topology(self._root)
        online = sum(info.online for info in topology.cpus)
        text = (
            f"{len(topology.packages)} packages, {topology.core_count} cores, "
            f"{len(topology.cpus)} CPUs, {online} online"
        )
        if topology.notes:
            return (Check(self.name, Reason.ERROR, f"{text}; {topology.gaps}"),)
        return (Check(self.name, Reason.PRESENT, text),)

    def close(self) -> None:
        """Close the one file."""
        self._online.close()
