"""Source `iio`: traffic of devices by root port, counted in the units between devices and the mesh.

A stack (IIO) of a package has several root ports, into which its lanes are divided; the vendor's
events call them PART0, PART1, ... Counters count four bytes at a time.
"""

from __future__ import annotations

from collections.abc import Mapping

from nftop.model.missing import Missing, Reason
from nftop.model.struct import dataclass
from nftop.model.uncore import UncoreTable

UNIT_BYTES = 4  # of a count: "Number of DWs (4 bytes)", vendor's event files
UNKNOWN = -1  # package, stack or number that is not known


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
        package, stack, number: where it is counted: the stack's number is the kernel's, as in
            `uncore_iio_3`, the port's its place in the stack. `UNKNOWN` if `problem` says why not.
        others: devices behind it that are no network devices; they are counted with them.
        problem: why its traffic is not counted, or None.
    """

    address: str
    package: int
    stack: int
    number: int
    devices: tuple[PcieDevice, ...]
    others: int = 0
    problem: Missing | None = None

    @property
    def location(self) -> Mapping[str, int | None]:
        """Where it is counted, as outputs name it; None where unknown."""
        numbers = {"package": self.package, "stack": self.stack, "port": self.number}
        return {name: None if item == UNKNOWN else item for name, item in numbers.items()}


@dataclass(frozen=True, slots=True, eq=False)
class PcieTable:
    """Root ports by address, and their counts: boxes are stacks, events those of `port_event`."""

    ports: tuple[RootPort, ...]
    counts: UncoreTable

    @property
    def gaps(self) -> str:
        """What is not counted, where and why, a text; "" if nothing.

        Ports that the hardware or the kernel can't count are none: they are behind the chipset, or
        no map of the stacks exists.
        """
        why: dict[str, list[str]] = {}
        for port in self.ports:
            if port.problem is not None and port.problem.reason is not Reason.HARDWARE:
                why.setdefault(port.problem.message, []).append(port.address)
        texts = [f"no traffic of {', '.join(names)}: {text}" for text, names in why.items()]
        return "; ".join(filter(None, (*texts, self.counts.gaps)))
