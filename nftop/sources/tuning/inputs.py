"""Input and results of checks of the host."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from nftop.model.ids import Cpu, format_cpu_list
from nftop.model.missing import Reason
from nftop.model.struct import dataclass
from nftop.model.topology import Topology
from nftop.sources.host.sysfs import SysTree

CPU = "sys/devices/system/cpu"
NOBODY_POLLS = "no thread polls here now"


@dataclass(frozen=True, slots=True)
class Poller:
    """A thread that polls."""

    cpu: Cpu  # where it polls; if not pinned, where it was last
    pinned: bool  # it may run nowhere else
    pid: int  # its process, with the name `program` (untrusted text)
    program: str
    kind: str  # nftop's kind of network function; "" if its name has none


@dataclass(frozen=True)
class CheckInputs:
    """A host with file system `root`, and its polling threads; `tree` reads below `root`."""

    root: Path
    topology: Topology
    pollers: tuple[Poller, ...] = ()

    @cached_property
    def tree(self) -> SysTree:
        return SysTree(self.root)

    @cached_property
    def polled(self) -> tuple[Cpu, ...]:
        """The CPUs that pinned threads poll on, ascending."""
        return tuple(sorted({poller.cpu for poller in self.pollers if poller.pinned}))

    @cached_property
    def checked_cpus(self) -> tuple[Cpu, ...]:
        """The polled CPUs, or every online CPU if none is polled."""
        return self.polled or tuple(info.cpu for info in self.topology.cpus if info.online)

    def nodes_of(self, cpus: Iterable[Cpu]) -> tuple[int, ...]:
        """The known NUMA nodes of these CPUs, ascending."""
        rows = (self.topology.cpus[self.topology.row_of[c]] for c in cpus
                if c in self.topology.row_of)  # fmt: skip
        return tuple(sorted({info.node for info in rows if info.node is not None}))


@dataclass(frozen=True, slots=True)
class HostFinding:
    """Result of a check."""

    reason: Reason  # PRESENT if it could be read
    text: str  # the result, in a sentence
    fix: str = ""  # a command, or what to do; "" if nothing need be done
    advised: bool = True  # False if it was read and is not as the papers advise
    of: str = ""  # the item of the check (a NIC); "" if there is one result


def as_advised(text: str, of: str = "") -> HostFinding:
    return HostFinding(Reason.PRESENT, text, of=of)


def otherwise(text: str, fix: str = "", of: str = "") -> HostFinding:
    """Read, and not as the papers advise."""
    return HostFinding(Reason.PRESENT, text, fix, advised=False, of=of)


def cpus(listed: Iterable[Cpu]) -> str:
    """`CPU 4-7`."""
    return f"CPU {format_cpu_list(listed)}"
