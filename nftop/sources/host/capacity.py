"""Memory modules and slots of network devices: what their highest bandwidths follow from.

SMBIOS memory devices (type 17): DMTF DSP0134, 7.18, by the kernel's
Documentation/ABI/testing/sysfs-firmware-dmi-entries, which only root may read. Links of PCI
devices: Documentation/ABI/testing/sysfs-bus-pci, `current_link_speed` and `current_link_width`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from nftop.model.topology import Capacity, NicSlot
from nftop.sources.host.sysfs import SysTree, link_target, read_up_to

_ENTRIES = "sys/firmware/dmi/entries"
_ENTRY = re.compile(r"17-[0-9]{1,4}")
_SIZE_AT, _TYPE_AT, _SPEED_AT, _CONFIGURED_AT = 0x0C, 0x12, 0x15, 0x20
# Memory types that are no DIMM: ROM, flash.
_FLASH = range(0x08, 0x0B)
_LIMIT_BYTES = 4096
_DEVICES, _NETWORK_CLASS = "sys/bus/pci/devices", "0x02"
_SPEED = re.compile(r"([0-9]{1,3}(?:\.[0-9])?) GT/s.*")
# Share of the bits on a lane that are data, by transfers per second in GT/s: 8b/10b up to PCI
# Express 2, 128b/130b to 5; from 6 on (FLIT mode) 236 of 256 bytes.
_LEGACY_GT, _FLIT_GT = 5.0, 64.0
_LEGACY, _USUAL, _FLIT = 8 / 10, 128 / 130, 236 / 256


def read_capacity(root: Path, memory_bytes_per_s: float = 0.0) -> Capacity:
    """What sysfs has of both; `memory_bytes_per_s` is the operator's, 0 if not given."""
    modules, speeds = 0, []
    for name in SysTree(root).names(_ENTRIES):
        if _ENTRY.fullmatch(name):
            speed = _module_speed(root / _ENTRIES / name / "raw")
            modules += speed is not None
            speeds += [speed] if speed else []
    # Modules run at one speed; if they differ, the slowest is the bound.
    return Capacity(modules, min(speeds, default=0.0), memory_bytes_per_s, nic_slots(root))


def nic_slots(root: Path) -> tuple[NicSlot, ...]:
    """Links of network devices that are up, one for all functions of a device."""
    tree = SysTree(root)
    slots: dict[str, NicSlot] = {}
    for address in sorted(tree.names(_DEVICES)):
        at = f"{_DEVICES}/{address}"
        if not (tree.text(f"{at}/class") or "").startswith(_NETWORK_CLASS):
            continue
        if link_target(root / at / "physfn"):  # a virtual function has the link of its device
            continue
        per_s = link_bytes_per_s(
            tree.text(f"{at}/current_link_speed") or "", tree.number(f"{at}/current_link_width")
        )
        slot = address.partition(".")[0]
        if per_s and slot not in slots:
            node = tree.number(f"{at}/numa_node")
            slots[slot] = NicSlot(slot, None if node is None or node < 0 else node, per_s)
    return tuple(slots.values())


def link_bytes_per_s(speed: str, width: int | None) -> float:
    """Data of a link in one direction, without packet headers; 0 if it is not known or down."""
    hit = _SPEED.fullmatch(speed)
    if hit is None or width is None or not 0 < width <= 32:
        return 0.0
    transfers = float(hit[1])
    share = _LEGACY if transfers <= _LEGACY_GT else _FLIT if transfers >= _FLIT_GT else _USUAL
    return transfers * 1e9 * width * share / 8


def _module_speed(path: Path) -> float | None:
    """Transfers per second of a module, 0 if unknown; None for an empty slot or no DIMM."""
    try:
        raw = read_up_to(os.fspath(path), _LIMIT_BYTES)
    except OSError:
        return None
    if len(raw) < _SPEED_AT + 2 or raw[0] != 17 or raw[_TYPE_AT] in _FLASH:
        return None
    if not int.from_bytes(raw[_SIZE_AT : _SIZE_AT + 2], "little"):
        return None
    length = min(raw[1], len(raw))
    for at in (_CONFIGURED_AT, _SPEED_AT):
        speed = int.from_bytes(raw[at : at + 2], "little") if length >= at + 2 else 0
        if 0 < speed < 0xFFFF:
            return speed * 1e6
    return 0.0
