"""PCI devices of sysfs: network devices, and the root port that they are behind.

Files: Documentation/ABI/testing/sysfs-bus-pci. A device's link names its way from the root bus:
`../../../devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0`.
"""

from __future__ import annotations

import re
from pathlib import Path

from nftop.model.pcie import PcieDevice
from nftop.model.struct import dataclass, field
from nftop.sources.host.sysfs import SysTree, link_target

DEVICES = "sys/bus/pci/devices"
_NETWORK, _BRIDGE = "0x02", "0x06"
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_ROOT_BUS = re.compile(r"pci([0-9a-f]{4,8}:[0-9a-f]{2})")
# Drivers that hand a device to a program.
USER_DRIVERS = frozenset({"vfio-pci", "uio_pci_generic", "igb_uio"})


@dataclass(slots=True)
class PortDevices:
    """A root port with what is behind it.

    Attributes:
        address: of the port; of the device if it is on the root bus itself.
        bus: the root bus, `0000:3a`.
        is_port: whether `address` is a port's.
        others: number of devices that are no network devices, bridges aside.
    """

    address: str
    bus: str
    is_port: bool
    devices: list[PcieDevice] = field(default_factory=list)
    others: int = 0


def network_devices(tree: SysTree) -> tuple[str, ...]:
    """Addresses of network devices, ascending."""
    return tuple(
        address for address in sorted(tree.names(DEVICES)) if _class(tree, address) == _NETWORK
    )


def _class(tree: SysTree, address: str) -> str:
    return (tree.text(f"{DEVICES}/{address}/class") or "")[:4]


def ports_with_networks(root: Path) -> tuple[PortDevices, ...]:
    """Root ports with network devices behind them, by address.

    Virtual functions are left out unless a program drives them: the kernel's interfaces of others
    belong to guests and containers.
    """
    tree, folder = SysTree(root), str(root / DEVICES)
    ports: dict[str, PortDevices] = {}
    for address in sorted(tree.names(DEVICES)):
        way = link_target(f"{folder}/{address}").split("/")
        buses = [at for at, name in enumerate(way) if _ROOT_BUS.fullmatch(name)]
        if not buses or not _ADDRESS.fullmatch(address):
            continue
        above = way[buses[0] + 1] if len(way) > buses[0] + 1 else address
        port = ports.setdefault(
            above, PortDevices(above, way[buses[0]].removeprefix("pci"), above != address)
        )
        port.is_port |= above != address
        kind = _class(tree, address)
        if kind == _NETWORK:
            device = _device(tree, root, address)
            if device is not None:
                port.devices.append(device)
        elif kind != _BRIDGE:
            port.others += 1
    return tuple(port for port in ports.values() if port.devices)


def _device(tree: SysTree, root: Path, address: str) -> PcieDevice | None:
    at = f"{DEVICES}/{address}"
    driver = link_target(root / at / "driver").rpartition("/")[2]
    if link_target(root / at / "physfn") and driver not in USER_DRIVERS:
        return None
    # Interfaces of virtio are a level below.
    folders = [at, *(f"{at}/{name}" for name in tree.names(at) if name.startswith("virtio"))]
    interfaces = sorted(name for folder in folders for name in tree.names(f"{folder}/net"))
    return PcieDevice(address, driver, tuple(interfaces))
