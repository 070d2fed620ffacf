"""Memory and network devices: huge pages, channels, clusters, NUMA nodes and PCIe links of NICs.

Files: the kernel's Documentation/admin-guide/mm/hugetlbpage.rst, Documentation/driver-api/edac.rst
and Documentation/ABI/testing/sysfs-devices-edac.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from nftop.model.missing import Reason
from nftop.model.number_text import counted
from nftop.model.struct import dataclass, field
from nftop.sources.host.sysfs import SysTree, link_target, numbered, read_up_to
from nftop.sources.host.topology import read_cpuid
from nftop.sources.tuning.inputs import (
    CheckInputs,
    HostFinding,
    as_advised,
    cpus,
    kernel_parameters,
    otherwise,
    pinning,
)
from nftop.uarch.table import identify

# PCI network devices: Documentation/ABI/testing/sysfs-bus-pci; registers of the PCI Express
# capability (PCI Express Base Specification, 7.5.3), which lspci -vvv shows too.
_DEVICES = "sys/bus/pci/devices"
_NETWORK_CLASS = "0x02"
# Files that a program opens to drive a device: the device's folder with their names, and their
# folder in /dev. A device of vfio also belongs to its group.
_HANDLES = {"uio": "/dev", "vfio-dev": "/dev/vfio/devices", "infiniband_verbs": "/dev/infiniband"}
_USER_DRIVERS = frozenset({"vfio-pci", "uio_pci_generic", "igb_uio"})

_STATUS_AT, _LIST, _FIRST_AT = 0x06, 0x10, 0x34
_EXPRESS = 0x10
_HEADER_BYTES, _CONFIG_BYTES = 64, 256


@dataclass(frozen=True, slots=True)
class Nic:
    """A network device."""

    address: str  # `0000:3b:00.0`
    driver: str  # the kernel's driver, "" if none
    node: int | None  # its NUMA node, None if firmware does not say
    netdevs: tuple[str, ...]  # the kernel's names of its interfaces
    handles: frozenset[str]  # the files in /dev through which a program can drive it
    physical: str = ""  # of a virtual function the physical device, whose settings it has; else ""

    @property
    def for_programs(self) -> bool:
        """Whether its driver hands it to a program."""
        return self.driver in _USER_DRIVERS


@dataclass(frozen=True, slots=True)
class Express:
    """Settings of a device's end of the link."""

    payload_bytes: int  # the largest it sends
    payload_limit_bytes: int  # the largest it could send
    read_bytes: int  # the largest read it requests
    aspm: str  # power states the link may enter by itself: "", `L0s`, `L1` or `L0s and L1`


def nics(tree: SysTree, root: Path) -> tuple[Nic, ...]:
    devices = []
    for address in sorted(tree.names(_DEVICES)):
        at = f"{_DEVICES}/{address}"
        if (tree.text(f"{at}/class") or "").startswith(_NETWORK_CLASS):
            driver, group, physical = (
                link_target(root / at / name).rpartition("/")[2]
                for name in ("driver", "iommu_group", "physfn")
            )
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
            devices.append(Nic(address, driver, node, netdevs, frozenset(handles), physical))
    return tuple(devices)


def express(root: Path, address: str) -> Express | None:
    """PCI Express settings of a device; None if it has none, such as a virtual device.

    Raises PermissionError: only root may read them.
    """
    raw = read_up_to(os.fspath(root / _DEVICES / address / "config"), _CONFIG_BYTES)
    if len(raw) <= _FIRST_AT or not raw[_STATUS_AT] & _LIST:
        return None
    if len(raw) <= _HEADER_BYTES:
        raise PermissionError(f"{address}: only root can read the rest of its configuration")
    at, seen = raw[_FIRST_AT] & ~3, set[int]()
    while _HEADER_BYTES <= at <= len(raw) - 0x14 and at not in seen:
        seen.add(at)
        if raw[at] == _EXPRESS:
            return _express(raw, at)
        at = raw[at + 1] & ~3
    return None


def openers(root: Path, handles: frozenset[str]) -> tuple[dict[str, set[int]], int]:
    """Processes that have these files open, and how many could not be read."""
    users: dict[str, set[int]] = {}
    hidden = 0
    for pid in numbered(root / "proc"):
        folder = root / f"proc/{pid}/fd"
        try:
            targets = {link_target(folder / str(fd)) for fd in numbered(folder)}
        except PermissionError:
            hidden += 1
        except OSError:  # it has ended
            continue
        else:
            for handle in targets & handles:
                users.setdefault(handle, set()).add(pid)
    return users, hidden


def _express(raw: bytes, at: int) -> Express:
    limit, control = raw[at + 4], int.from_bytes(raw[at + 8 : at + 10], "little")
    states = ("", "L0s", "L1", "L0s and L1")
    return Express(
        payload_bytes=128 << (control >> 5 & 7),
        payload_limit_bytes=128 << (limit & 7),
        read_bytes=128 << (control >> 12 & 7),
        aspm=states[raw[at + 0x10] & 3],
    )


# SMBIOS memory devices (type 17): DMTF DSP0134, 7.18. Files: the kernel's
# Documentation/ABI/testing/sysfs-firmware-dmi-entries.
_ENTRY = re.compile(r"17-[0-9]{1,4}")
_SIZE_AT, _EXTENDED_AT, _TYPE_AT = 0x0C, 0x1C, 0x12
_UNKNOWN, _ELSEWHERE, _IN_KB = 0xFFFF, 0x7FFF, 0x8000
# Memory types that are no DIMM: ROM, flash.
_FLASH = range(0x08, 0x0B)
_LIMIT_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Dimms:
    """Slots of a host: how many have a module of each size in MB, and how many none."""

    filled: Mapping[int, int]
    empty: int


def dimms(root: Path) -> Dimms | None:
    """The slots; None if firmware or kernel lists none.

    Raises PermissionError: only root may read them.
    """
    folder = root / "sys/firmware/dmi/entries"
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if _ENTRY.fullmatch(entry.name))
    except (FileNotFoundError, NotADirectoryError):
        return None
    sizes = []
    for name in names:
        try:
            sizes.append(size_mb(read_up_to(os.fspath(folder / name / "raw"), _LIMIT_BYTES)))
        except FileNotFoundError:
            continue
    known = [size for size in sizes if size is not None]
    if not known:
        return None
    filled = Counter(size for size in known if size)
    return Dimms(dict(sorted(filled.items())), known.count(0))


def size_mb(raw: bytes) -> int | None:
    """Size in one structure: 0 for an empty slot, None if unknown or no DIMM."""
    if len(raw) < _SIZE_AT + 2 or raw[0] != 17:
        return None
    if len(raw) > _TYPE_AT and raw[_TYPE_AT] in _FLASH:
        return None
    size = int.from_bytes(raw[_SIZE_AT : _SIZE_AT + 2], "little")
    if size == _UNKNOWN:
        return None
    if size == _ELSEWHERE:
        if len(raw) < _EXTENDED_AT + 4 or raw[1] < _EXTENDED_AT + 4:
            return None
        return int.from_bytes(raw[_EXTENDED_AT : _EXTENDED_AT + 4], "little") & 0x7FFFFFFF
    return (size & ~_IN_KB) // 1024 if size & _IN_KB else size


_NODES = "sys/devices/system/node"
_PAGES = re.compile(r"hugepages-([0-9]{1,10})kB")
_NODE = re.compile(r"node([0-9]{1,6})")
_EDAC = "sys/devices/system/edac/mc"
_CONTROLLER = re.compile(r"mc([0-9]{1,4})")
_DIMM = re.compile(r"(?:dimm|rank)[0-9]{1,4}")
_CHANNEL = re.compile(r"\bchannel ([0-9]{1,3})\b")
_IMC = re.compile(r"uncore_imc_[0-9]{1,3}")
_KB_OF_A_GB = 1 << 20


def huge_pages(inputs: CheckInputs) -> HostFinding:
    """Whether huge pages are reserved on the nodes where network functions poll."""
    pages = {node: _pages(inputs, f"{_NODES}/node{node}/hugepages") for node in _nodes(inputs)}
    if not any(pages.values()):
        pages = {-1: _pages(inputs, "sys/kernel/mm/hugepages")}
    if not any(pages.values()):
        return HostFinding(Reason.HARDWARE, "this kernel has no huge pages")
    text = "; ".join(
        (f"node {node}: " if node >= 0 else "") + _listed(sizes) for node, sizes in pages.items()
    )
    of_nfs = [poller.cpu for poller in inputs.pollers if poller.kind]
    bare = [node for node in inputs.nodes_of(of_nfs) or (-1,) if not _reserved(pages.get(node, {}))]
    if not of_nfs:
        reason = Reason.PRESENT if any(map(_reserved, pages.values())) else Reason.IDLE
        return HostFinding(
            reason, text if reason is Reason.PRESENT else f"{text}; no network function polls"
        )
    if not bare:
        return as_advised(text)
    fixes = []
    for node in bare:
        where = f"/{_NODES}/node{node}" if node >= 0 else "/sys/kernel/mm"
        size = min(pages.get(node, ()), default=2048)
        file = f"{where}/hugepages/hugepages-{size}kB/nr_hugepages"
        fixes.append(f"echo {max(_RESERVED_KB // size, 1)} | sudo tee {file}")
    text += f"; network functions poll on node {', '.join(map(str, bare))}" * (bare[0] >= 0)
    return otherwise(text, "; ".join(fixes))


_RESERVED_KB = 2 << 20  # by the fix, on each node


def channels(inputs: CheckInputs) -> HostFinding:
    """Whether every memory channel has the same memory."""
    names = filter(_CONTROLLER.fullmatch, inputs.tree.names(_EDAC))
    controllers = [_controller(inputs, n) for n in sorted(names, key=lambda name: int(name[2:]))]
    if not any(size for item in controllers for size in item.megabytes.values()):
        return _without_edac(inputs)
    text = "; ".join(controller.summary for controller in controllers)
    empty = [controller for controller in controllers if controller.empty]
    uneven = len({size for item in controllers for size in item.megabytes.values() if size}) > 1
    if not empty and not uneven:
        return as_advised(text)
    text += "; the board's manual says which slots to fill: one DIMM in each channel before a "
    return otherwise(f"{text}second in any, all of one size", "sudo dmidecode -t memory")


def clusters(inputs: CheckInputs) -> HostFinding:
    """Into how many nodes each package is divided, and whether a program polls on several."""
    nodes: dict[int, set[int]] = {}
    for info in inputs.topology.cpus:
        if info.package is not None and info.node is not None:
            nodes.setdefault(info.package, set()).add(info.node)
    if not nodes:
        return HostFinding(Reason.SOURCE, "the kernel names no NUMA nodes")
    divided = {package: sorted(mine) for package, mine in sorted(nodes.items()) if len(mine) > 1}
    if not divided:
        return as_advised("one NUMA node per package: sub-NUMA clustering is off")
    text = "; ".join(
        f"package {package} is divided into nodes {', '.join(map(str, mine))}"
        for package, mine in divided.items()
    )
    text += " (sub-NUMA clustering, Cluster-on-Die): a core has part of the channels nearby"
    for pid in sorted({poller.pid for poller in inputs.pollers if poller.kind}):
        mine = [poller for poller in inputs.pollers if poller.pid == pid and poller.pinned]
        polled = set(inputs.nodes_of(poller.cpu for poller in mine))
        for nodes_ in divided.values():
            if len(polled & set(nodes_)) > 1:
                where = ", ".join(map(str, sorted(polled & set(nodes_))))
                text += f"; {mine[0].program}[{pid}] polls on nodes {where}, each far from the "
                return otherwise(f"{text}others' memory", f"numastat -p {pid}")
    return as_advised(text)


@dataclass(frozen=True, slots=True)
class _Controller:
    """A memory controller: MB by channel, with empty ones as far as known."""

    name: str
    megabytes: dict[int, int] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        return any(size == 0 for size in self.megabytes.values())

    @property
    def summary(self) -> str:
        sizes = ", ".join(
            f"channel {channel} {size / 1024:g} GB" if size else f"channel {channel} empty"
            for channel, size in sorted(self.megabytes.items())
        )
        return f"{self.name}: {sizes}"


def _controller(inputs: CheckInputs, name: str) -> _Controller:
    at = f"{_EDAC}/{name}"
    last = _CHANNEL.search(inputs.tree.text(f"{at}/max_location") or "")
    # Includes empty channels; a controller has at most some dozen.
    sizes = dict.fromkeys(range(min(int(last[1]), 63) + 1) if last else (), 0)
    for dimm in filter(_DIMM.fullmatch, inputs.tree.names(at)):
        match = _CHANNEL.search(inputs.tree.text(f"{at}/{dimm}/dimm_location") or "")
        size = inputs.tree.number(f"{at}/{dimm}/size")
        if match and size:
            sizes[int(match[1])] = sizes.get(int(match[1]), 0) + size
    return _Controller(name, sizes)


def _without_edac(inputs: CheckInputs) -> HostFinding:
    """Other facts about memory; none has the channel of a DIMM."""
    boxes = sum(map(bool, map(_IMC.fullmatch, inputs.tree.names("sys/bus/event_source/devices"))))
    units = f"; the kernel has {counted(boxes, 'unit')} of counters a package (uncore_imc)"
    units *= bool(boxes)
    cpuid = read_cpuid(inputs.root)
    module = "" if cpuid is None else _EDAC_MODULES.get(identify(*cpuid), "")
    fix = f"sudo modprobe {module}" if module else ""
    try:
        installed = dimms(inputs.root)
    except PermissionError:
        why = f"only root can read the memory slots (DMI){units}"
        return HostFinding(Reason.PERMISSION, why, "sudo nftop doctor")
    if installed is None:
        # A guest has neither, nor counters of memory.
        text = f"neither EDAC nor DMI lists memory here{units}"
        return HostFinding(Reason.SOURCE, text, fix if boxes else "")
    sizes = ", ".join(f"{count} of {size / 1024:g} GB" for size, count in installed.filled.items())
    text = f"DIMMs: {sizes or 'none listed'}; {installed.empty} slots empty{units}"
    return HostFinding(Reason.SOURCE, f"{text}; only EDAC has their channels", fix)


# By tables of the CPU: the kernel's drivers/edac.
_EDAC_MODULES = {
    **dict.fromkeys(("HSX", "BDX"), "sb_edac"),
    **dict.fromkeys(("SKX", "CLX"), "skx_edac"),
    **dict.fromkeys(("ICX", "SPR", "EMR", "GNR"), "i10nm_edac"),
}


def _nodes(inputs: CheckInputs) -> list[int]:
    hits = map(_NODE.fullmatch, inputs.tree.names(_NODES))
    nodes = sorted(int(hit[1]) for hit in hits if hit)
    return [node for node in nodes if inputs.tree.text(f"{_NODES}/node{node}/cpulist")]


def _pages(inputs: CheckInputs, folder: str) -> dict[int, tuple[int, int]]:
    """Reserved and free pages by their size in kB, the smallest first."""
    sizes = {}
    for hit in filter(None, map(_PAGES.fullmatch, inputs.tree.names(folder))):
        pages = inputs.tree.number(f"{folder}/{hit[0]}/nr_hugepages")
        free = inputs.tree.number(f"{folder}/{hit[0]}/free_hugepages")
        if pages is not None:
            sizes[int(hit[1])] = (pages, free or 0)
    return dict(sorted(sizes.items()))


def _reserved(sizes: dict[int, tuple[int, int]]) -> bool:
    return any(pages for pages, _ in sizes.values())


def _listed(sizes: dict[int, tuple[int, int]]) -> str:
    texts = []
    for kb, (pages, free) in sizes.items():
        size = f"{kb // _KB_OF_A_GB} GB" if kb >= _KB_OF_A_GB else f"{kb // 1024} MB"
        if pages:
            texts.append(f"{pages} huge pages of {size}, {free} free")
    return ", ".join(texts) or "no huge pages"


# Table in 10.1 of the paper on software data planes, 1.2.
_PAYLOAD_BYTES, _READ_BYTES = 256, 512
_NAMED = 8  # of the kernel's own; the others are counted


def nodes(inputs: CheckInputs) -> Iterator[HostFinding]:
    """Whether each device is on the node of the cores that poll it."""
    devices = nics(inputs.tree, inputs.root)
    users, hidden = _users(inputs, devices)
    driven = [nic for nic in devices if nic.for_programs or users[nic.address]]
    for nic in driven:
        yield _locality(inputs, nic, users[nic.address], hidden)
    others = [nic for nic in devices if nic not in driven]
    if others:
        listed = ", ".join(
            f"{', '.join(nic.netdevs) or nic.address} {_location(nic)}" for nic in others[:_NAMED]
        )
        listed += f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
        yield HostFinding(Reason.PRESENT, f"the kernel's own: {listed}")
    elif not driven:
        yield HostFinding(Reason.SOURCE, "no network device on PCI")


def links(inputs: CheckInputs) -> Iterator[HostFinding]:
    """Whether links of devices driven by programs are set for throughput."""
    devices = nics(inputs.tree, inputs.root)
    users, _ = _users(inputs, devices)
    driven = [nic for nic in devices if nic.for_programs or users[nic.address]]
    if not driven:
        yield HostFinding(Reason.IDLE, "no program drives a network device on PCI here")
    for nic in driven:
        yield _link(inputs, nic)


def _users(inputs: CheckInputs, devices: tuple[Nic, ...]) -> tuple[dict[str, set[int]], int]:
    """By address the processes that drive a device, and how many could not be read."""
    handles = frozenset(handle for nic in devices for handle in nic.handles)
    if not handles:
        return {nic.address: set() for nic in devices}, 0
    try:
        openers_of, hidden = openers(inputs.root, handles)
    except OSError:
        openers_of, hidden = {}, 1
    return {
        nic.address: set().union(*(openers_of.get(handle, ()) for handle in nic.handles))
        for nic in devices
    }, hidden


def _locality(inputs: CheckInputs, nic: Nic, users: set[int], hidden: int) -> HostFinding:
    mine = [poller for poller in inputs.pollers if poller.pid in users and poller.pinned]
    names = ", ".join(sorted({f"{item.program}[{item.pid}]" for item in mine}))
    if not users:
        unread = f"{counted(hidden, 'process', 'processes')} can't be read"
        why = unread if hidden else "no process has it open"
        reason = Reason.PERMISSION if hidden else Reason.IDLE
        fix = "sudo nftop doctor" if hidden else ""
        return HostFinding(reason, f"{_location(nic)}; {why}", fix, of=nic.address)
    if not mine:
        listed = ", ".join(map(str, sorted(users)))
        text = f"{_location(nic)}, open in process {listed}, which polls on no dedicated CPU"
        return HostFinding(Reason.IDLE, text, of=nic.address)
    polled = sorted({item.cpu for item in mine})
    if nic.node is None:
        text = f"{_location(nic)}; {names} polls on {cpus(polled)}"
        return HostFinding(
            Reason.SOURCE, f"{text}: whether that is its node is unknown", of=nic.address
        )
    far = [cpu for cpu in polled if inputs.nodes_of((cpu,)) != (nic.node,)]
    text = f"{_location(nic)}; {names} polls on {cpus(polled)}"
    if not far:
        return as_advised(f"{text} of the same node", of=nic.address)
    near = [info.cpu for info in inputs.topology.cpus if info.online and info.node == nic.node]
    where = ", ".join(map(str, inputs.nodes_of(far))) or "unknown"
    fix = pinning(inputs, [item.tid for item in mine if item.cpu in far], nic.node)
    text += f", of which {cpus(far)} is on node {where}: it belongs on {cpus(near)} of node "
    text += f"{nic.node}, and its memory stays where it is until it is started there"
    return otherwise(text, fix, of=nic.address)


def _link(inputs: CheckInputs, nic: Nic) -> HostFinding:
    try:
        link = express(inputs.root, nic.physical or nic.address)
    except PermissionError:
        why = "only root can read its PCI Express settings"
        return HostFinding(Reason.PERMISSION, why, "sudo nftop doctor", of=nic.address)
    except OSError as error:
        return HostFinding(
            Reason.ERROR, f"its configuration can't be read: {error.strerror}", of=nic.address
        )
    if link is None:
        return HostFinding(Reason.UNDEFINED, "it is not on PCI Express", of=nic.address)
    flaws, fixes = _flaws(inputs, link, nic.physical or nic.address)
    text = f"as {nic.physical}, of which it is a function: " if nic.physical else ""
    text += (
        f"payload {link.payload_bytes} of {link.payload_limit_bytes} bytes, reads of "
        f"{link.read_bytes}, ASPM {link.aspm or 'off'}"
    )
    if not flaws:
        return as_advised(text, of=nic.address)
    return otherwise(f"{text}: {', '.join(flaws)}", "; ".join(fixes), of=nic.address)


def _flaws(inputs: CheckInputs, link: Express, address: str) -> tuple[list[str], list[str]]:
    flaws, fixes = [], []
    if link.payload_bytes < _PAYLOAD_BYTES:
        note = "its maximum"
        if link.payload_limit_bytes >= _PAYLOAD_BYTES:
            note, fix = kernel_parameters(inputs.root, pci="pcie_bus_perf")
            fixes += [fix] if fix else []
        flaws.append(f"payload below {_PAYLOAD_BYTES} ({note})")
    if link.read_bytes < _READ_BYTES:
        flaws.append(f"reads below {_READ_BYTES}")
        fixes.append(f"sudo setpci -s {address} CAP_EXP+8.w=2000:7000")
    if link.aspm:
        flaws.append("ASPM is on")
        fixes.append("echo performance | sudo tee /sys/module/pcie_aspm/parameters/policy")
    return flaws, fixes


def _location(nic: Nic) -> str:
    where = "node unknown" if nic.node is None else f"node {nic.node}"
    return f"({nic.driver or 'no driver'}, {where})"
