"""Network devices on PCI: who drives them, where they are, how their link is set.

Files: the kernel's Documentation/ABI/testing/sysfs-bus-pci; the registers are those of the PCI
Express capability (PCI Express Base Specification, 7.5.3), which lspci -vvv shows too.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from nftop.sources.host.sysfs import SysTree, read_up_to

_DEVICES = "sys/bus/pci/devices"
_NETWORK_CLASS = "0x02"
# What a program opens to drive a device itself: the folder of the device that names it, and where
# it is in /dev. A device of vfio is its group's, too.
_HANDLES = {"uio": "/dev", "vfio-dev": "/dev/vfio/devices", "infiniband_verbs": "/dev/infiniband"}
_USER_DRIVERS = frozenset({"vfio-pci", "uio_pci_generic", "igb_uio"})

_STATUS_AT, _LIST, _FIRST_AT = 0x06, 0x10, 0x34
_EXPRESS = 0x10
_HEADER_BYTES, _CONFIG_BYTES = 64, 256


@dataclass(frozen=True, slots=True)
class Nic:
    """A network device.

    Attributes:
        address: `0000:3b:00.0`.
        driver: the kernel's driver of it, "" where it has none.
        node: its NUMA node, None where firmware does not say.
        netdevs: the kernel's names of its interfaces.
        handles: the files in /dev through which a program can drive it.
        physical: of a virtual function the device that it is of, whose settings it has; else "".
    """

    address: str
    driver: str
    node: int | None
    netdevs: tuple[str, ...]
    handles: frozenset[str]
    physical: str = ""

    @property
    def for_programs(self) -> bool:
        """It is bound to a driver that hands it to a program."""
        return self.driver in _USER_DRIVERS


@dataclass(frozen=True, slots=True)
class Express:
    """How a device's end of the link is set.

    Attributes:
        payload_bytes, payload_limit_bytes: the largest payload it sends, and what it could.
        read_bytes: the largest read it requests.
        aspm: power states the link may enter by itself: "", `L0s`, `L1` or `L0s and L1`.
    """

    payload_bytes: int
    payload_limit_bytes: int
    read_bytes: int
    aspm: str


def nics(tree: SysTree, root: Path) -> tuple[Nic, ...]:
    """Every network device on PCI, by address."""
    found = []
    for address in sorted(tree.names(_DEVICES)):
        at = f"{_DEVICES}/{address}"
        if (tree.text(f"{at}/class") or "").startswith(_NETWORK_CLASS):
            driver, group = _link(root / at / "driver"), _link(root / at / "iommu_group")
            handles = {
                f"{where}/{name}"
                for folder, where in _HANDLES.items()
                for name in tree.names(f"{at}/{folder}")
            }
            if group:
                handles |= {f"/dev/vfio/{group}", f"/dev/vfio/noiommu-{group}"}
            node = tree.number(f"{at}/numa_node")
            # Those of virtio are a level below.
            folders = [
                at,
                *(f"{at}/{name}" for name in tree.names(at) if name.startswith("virtio")),
            ]
            netdevs = tuple(
                sorted(name for folder in folders for name in tree.names(f"{folder}/net"))
            )
            physical = _link(root / at / "physfn")
            found.append(Nic(address, driver, node, netdevs, frozenset(handles), physical))
    return tuple(found)


def express(root: Path, address: str) -> Express | None:
    """The settings of its link; None where it has none, as a virtual device.

    Raises:
        PermissionError: the kernel shows only the header of it, as to all but root.
    """
    raw = read_up_to(os.fspath(root / _DEVICES / address / "config"), _CONFIG_BYTES)
    if len(raw) <= _FIRST_AT or not raw[_STATUS_AT] & _LIST:
        return None
    if len(raw) <= _HEADER_BYTES:
        raise PermissionError(f"{address}: the rest of its configuration is root's to read")
    at, seen = raw[_FIRST_AT] & ~3, set[int]()
    while _HEADER_BYTES <= at <= len(raw) - 0x14 and at not in seen:
        seen.add(at)
        if raw[at] == _EXPRESS:
            return _express(raw, at)
        at = raw[at + 1] & ~3
    return None


def openers(root: Path, handles: frozenset[str]) -> tuple[dict[str, set[int]], int]:
    """Which processes have these files open, and how many could not be looked into."""
    found: dict[str, set[int]] = {}
    hidden = 0
    with os.scandir(root / "proc") as entries:
        pids = sorted(int(entry.name) for entry in entries if entry.name.isdecimal())
    for pid in pids:
        try:
            with os.scandir(root / f"proc/{pid}/fd") as entries:
                targets = {_target(entry.path) for entry in entries}
        except PermissionError:
            hidden += 1
        except OSError:  # it has ended
            continue
        else:
            for handle in targets & handles:
                found.setdefault(handle, set()).add(pid)
    return found, hidden


def _express(raw: bytes, at: int) -> Express:
    limit, control = raw[at + 4], int.from_bytes(raw[at + 8 : at + 10], "little")
    states = ("", "L0s", "L1", "L0s and L1")
    return Express(
        payload_bytes=128 << (control >> 5 & 7),
        payload_limit_bytes=128 << (limit & 7),
        read_bytes=128 << (control >> 12 & 7),
        aspm=states[raw[at + 0x10] & 3],
    )


def _link(path: Path) -> str:
    try:
        return path.readlink().name
    except OSError:
        return ""


def _target(path: str) -> str:
    try:
        return os.readlink(path)  # noqa: PTH115 - of thousands, and a socket's is no path
    except OSError:  # closed meanwhile
        return ""
