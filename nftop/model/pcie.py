"""Source `iio`: traffic of devices by root port, counted in the units between devices and the mesh.

A stack (IIO) of a package has several parts, one for each root port that its lanes can be divided
into. A counter counts in units of four bytes, of a part each.
"""

from __future__ import annotations

from nftop.model.missing import Missing
from nftop.model.struct import dataclass
from nftop.model.uncore import UncoreTable

UNIT_BYTES = 4  # of a count: "Number of DWs (4 bytes)", vendor's event files
UNKNOWN = -1  # package, stack or part that is not known


@dataclass(frozen=True, slots=True)
class PcieDevice:
    """A network device behind a root port.

    Attributes:
        address: `0000:3b:00.0`.
        driver: the kernel's driver, `vfio-pci` if a program drives it; "" for none.
        interfaces: the kernel's names of its interfaces (untrusted text); none if a program has it.
    """

    address: str
    driver: str
    interfaces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RootPort:
    """A root port with network devices behind it.

    Attributes:
        address: its PCI address; that of the device if it is behind none.
        package, stack, part: where it is counted; `UNKNOWN` if `problem` says why it is not.
        others: devices behind it that are no network devices; they are counted with them.
        problem: why its traffic is not counted, or None.
    """

    address: str
    package: int
    stack: int
    part: int
    devices: tuple[PcieDevice, ...]
    others: int = 0
    problem: Missing | None = None


@dataclass(frozen=True, slots=True, eq=False)
class PcieTable:
    """Root ports by address, and their counts: boxes are stacks, events those of `part_event`."""

    ports: tuple[RootPort, ...]
    counts: UncoreTable

    @property
    def gaps(self) -> str:
        """What is not counted, where and why, a text; "" if nothing."""
        why: dict[str, list[str]] = {}
        for port in self.ports:
            if port.problem is not None:
                why.setdefault(port.problem.message, []).append(port.address)
        texts = [f"no traffic of {', '.join(names)}: {text}" for text, names in why.items()]
        return "; ".join(filter(None, (*texts, self.counts.gaps)))


def part_event(event: str, part: int) -> str:
    """Name of an event of one part: `inbound_read_0`."""
    return f"{event}_{part}"
