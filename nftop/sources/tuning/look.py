"""What a check of the host looks at, and what it finds."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from nftop.model.ids import Cpu, format_cpu_list
from nftop.model.reading import Reason
from nftop.model.struct import dataclass
from nftop.model.topology import Topology
from nftop.sources.host.sysfs import SysTree

CPU = "sys/devices/system/cpu"
NOBODY_POLLS = "no thread polls here now"


@dataclass(frozen=True, slots=True)
class Poller:
    """A thread that polls.

    Attributes:
        cpu: where it polls; of one that may move, where it was last.
        pinned: it may run nowhere else.
        pid: its process; `program` that one's name, which is untrusted text.
        kind: nftop's kind of network function, "" where its name tells none.
    """

    cpu: Cpu
    pinned: bool
    pid: int
    program: str
    kind: str


@dataclass(frozen=True)
class Look:
    """A host and its polling threads.

    Attributes:
        root: its file system; `tree` reads below it.
    """

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
    def judged(self) -> tuple[Cpu, ...]:
        """Those, where there are any, else every online CPU: what a setting of CPUs matters of."""
        return self.polled or tuple(info.cpu for info in self.topology.cpus if info.online)

    def nodes_of(self, cpus: Iterable[Cpu]) -> tuple[int, ...]:
        """The NUMA nodes of these CPUs that are known, ascending."""
        rows = (self.topology.cpus[self.topology.row_of[c]] for c in cpus
                if c in self.topology.row_of)  # fmt: skip
        return tuple(sorted({info.node for info in rows if info.node is not None}))


@dataclass(frozen=True, slots=True)
class HostFinding:
    """What a check found.

    Attributes:
        reason: PRESENT where it could be read.
        text: what there is, in a sentence.
        fix: a command, or what to do; "" where nothing need be done.
        advised: False where it was read and is not as the papers advise.
        of: what of the check's own it is about (a NIC); "" where there is one answer.
    """

    reason: Reason
    text: str
    fix: str = ""
    advised: bool = True
    of: str = ""


def as_advised(text: str, of: str = "") -> HostFinding:
    """It is as the papers advise."""
    return HostFinding(Reason.PRESENT, text, of=of)


def otherwise(text: str, fix: str = "", of: str = "") -> HostFinding:
    """It was read, and is not."""
    return HostFinding(Reason.PRESENT, text, fix, advised=False, of=of)


def cpus(listed: Iterable[Cpu]) -> str:
    """`CPU 4-7`."""
    return f"CPU {format_cpu_list(listed)}"
