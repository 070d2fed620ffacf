"""Network devices on PCI, as sysfs describes them. Without numpy: undo and the guard import it."""

from __future__ import annotations

from nftop.model.struct import dataclass


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
