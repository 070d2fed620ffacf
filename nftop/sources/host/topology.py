"""CPUs, cores, packages, last-level caches, NUMA nodes, memory modules, links; source `topology`.

Files: the kernel's Documentation/ABI/stable/sysfs-devices-system-cpu,
Documentation/ABI/testing/sysfs-devices-system-cpu (caches, isolated, nohz_full) and
Documentation/ABI/stable/sysfs-devices-node. Absent and invalid values are unknown; `Topology.notes`
lists those to be expected. SMBIOS memory devices (type 17, DMTF DSP0134, 7.18), which only root may
read: Documentation/ABI/testing/sysfs-firmware-dmi-entries. Links of PCI devices:
Documentation/ABI/testing/sysfs-bus-pci, `current_link_speed` and `current_link_width`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from nftop.model.check import Check
from nftop.model.ids import Core, Cpu, L3Domain, Package
from nftop.model.missing import Missing, Reason
from nftop.model.struct import replace
from nftop.model.topology import Capacity, CpuInfo, Host, L3Cache, NicSlot, Topology
from nftop.sources.host.pci import DEVICES, network_devices
from nftop.sources.host.sysfs import OnlineCpus, SysTree, link_target, read_up_to

_CPU_DIRECTORY = re.compile(r"cpu(\d{1,6})")
_NODE_DIRECTORY = re.compile(r"node(\d{1,6})")
_CACHE_DIRECTORY = re.compile(r"index(\d{1,3})")
_SIZE = re.compile(r"(\d{1,12})([KMG]?)")
_SIZE_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_MODEL_NAME = re.compile(r"^(?:model name|cpu model|cpu)[ \t]*:(.*)$", re.MULTILINE)
_CPUID = tuple(
    re.compile(rf"^{name}[ \t]*:(.*)$", re.MULTILINE)
    for name in ("vendor_id", "cpu family", "model", "stepping")
)
# /proc/cpuinfo is a megabyte on large hosts; the first CPU's part is enough.
_CPUINFO_BYTES = 4096

# Kernels before 5.3 know only the second pair of names.
_CORE_MEMBERS = ("core_cpus_list", "core_cpus", "thread_siblings_list", "thread_siblings")
_CACHE_MEMBERS = ("shared_cpu_list", "shared_cpu_map")


_Location: TypeAlias = tuple[int, int, int]  # package, die, core_id; -1 if unknown


def read_topology(root: Path = Path("/")) -> Topology:
    """Every present CPU and what it shares, from `root`/sys/devices/system.

    Never raises: a host without sysfs gives no CPU and a note.
    """
    tree = SysTree(root / "sys/devices/system")
    present = _present(tree)
    online = _online(tree, present)
    isolated = frozenset(tree.cpus("cpu/isolated") or ())
    nohz_full = frozenset(tree.cpus("cpu/nohz_full") or ())
    locations = {cpu: _location(tree, cpu) for cpu in sorted(online)}
    cores = _cores(tree, locations)
    core_of = {cpu: Core(index) for index, core in enumerate(cores) for cpu in core}
    caches = _caches(tree, sorted(online))
    l3_of = {cpu: cache.id for cache in caches for cpu in cache.cpus}
    node_of = _nodes(tree, present)

    def info(cpu: Cpu) -> CpuInfo:
        package, die, _ = locations.get(cpu, (-1, -1, -1))
        return CpuInfo(
            cpu=cpu,
            online=cpu in online,
            core=core_of.get(cpu),
            package=Package(package) if package >= 0 else None,
            die=die if die >= 0 else None,
            l3=l3_of.get(cpu),
            node=node_of.get(cpu),
            siblings=tuple(c for c in cores[core_of[cpu]] if c != cpu) if cpu in core_of else (),
            isolated=cpu in isolated,
            nohz_full=cpu in nohz_full,
        )

    return Topology(tuple(map(info, present)), caches, tree.notes())


def read_host(root: Path = Path("/"), uarch: str = "generic") -> Host:
    """Name and CPU model; `unknown host` and `unknown CPU` if not available."""
    tree = SysTree(root / "proc")
    name = tree.text("sys/kernel/hostname") or "unknown host"
    # Several architectures have no name for their CPU (arm64) or call it otherwise (powerpc).
    model = _MODEL_NAME.search(tree.text("cpuinfo", _CPUINFO_BYTES) or "")
    words = model.group(1).split() if model else []
    return Host(name=name, model=" ".join(words) or "unknown CPU", uarch=uarch)


def read_cpuid(root: Path = Path("/")) -> tuple[str, int, int, int] | None:
    """Vendor, family, model and stepping of /proc/cpuinfo; None if not available."""
    text = SysTree(root / "proc").text("cpuinfo", _CPUINFO_BYTES) or ""
    matches = [pattern.search(text) for pattern in _CPUID]
    vendor, *numbers = (hit[1].strip() if hit else "" for hit in matches)
    if not vendor or not all(number.isdecimal() for number in numbers):
        return None
    family, model, stepping = map(int, numbers)
    return vendor, family, model, stepping


def _present(tree: SysTree) -> tuple[Cpu, ...]:
    match_name = _CPU_DIRECTORY.fullmatch
    # Every present CPU has a directory, which bounds a corrupt list.
    directories = {Cpu(int(hit[1])) for hit in map(match_name, tree.names("cpu")) if hit}
    listed = tree.cpus("cpu/present")
    if listed is None:
        tree.note("cpu/present", "can't be read; the CPU directories are used")
        return tuple(sorted(directories))
    if not directories.issuperset(listed):
        tree.note("cpu/present", "names CPUs that have no directory; they are left out")
    return tuple(cpu for cpu in listed if cpu in directories)


def _online(tree: SysTree, present: Iterable[Cpu]) -> frozenset[Cpu]:
    listed = tree.cpus("cpu/online")
    if listed is not None:
        return frozenset(listed) & frozenset(present)
    tree.note("cpu/online", "can't be read; CPUs that have a topology count as online")
    return frozenset(cpu for cpu in present if tree.names(f"cpu/cpu{cpu}/topology"))


def _location(tree: SysTree, cpu: Cpu) -> _Location:
    names = ("physical_package_id", "die_id", "core_id")
    values = [tree.number(f"cpu/cpu{cpu}/topology/{name}", cpu) for name in names]
    if values[0] is None and values[2] is None:
        tree.note("topology", "is unknown", cpu)
    package, die, core = (-1 if value is None else value for value in values)
    return package, die, core


def _cores(tree: SysTree, locations: Mapping[Cpu, _Location]) -> tuple[tuple[Cpu, ...], ...]:
    """The online CPUs by physical core, in (package, die, core_id) order.

    The lists of siblings decide: a core_id is unique only within its die, and older kernels do not
    name the die.
    """
    left = set(locations)
    cores = []
    for cpu in sorted(locations):
        if cpu not in left:
            continue
        members = tree.members(f"cpu/cpu{cpu}/topology", _CORE_MEMBERS, cpu)
        if members is None:
            known = locations[cpu][2] >= 0
            members = {c for c in left if c == cpu or (known and locations[c] == locations[cpu])}
        core = tuple(sorted(left & members))
        left.difference_update(core)
        cores.append(core)
    return tuple(sorted(cores, key=lambda core: (locations[core[0]], core[0])))


def _caches(tree: SysTree, online: Iterable[Cpu]) -> tuple[L3Cache, ...]:
    left = set(online)
    instances: list[tuple[int | None, int, int | None, tuple[Cpu, ...]]] = []
    for cpu in sorted(left):
        if cpu not in left or (directory := _l3_directory(tree, cpu)) is None:
            continue
        size_bytes = _size_bytes(tree, f"{directory}/size", cpu)
        if size_bytes is None:
            continue
        members = tree.members(directory, _CACHE_MEMBERS, cpu) or {cpu}
        cpus = tuple(sorted(left & members))
        left.difference_update(cpus)
        ways = tree.number(f"{directory}/ways_of_associativity", cpu)
        # 0 is the kernel's word for "fully associative or unknown".
        instances.append((tree.number(f"{directory}/id", cpu), size_bytes, ways or None, cpus))
    ids = [cache_id for cache_id, *_ in instances]
    # Virtual machines often have no id, some give every cache the same.
    unique = None not in ids and len(set(ids)) == len(ids)
    if instances and not unique and ids != [None] * len(ids):
        tree.note("L3 cache ids", "are not one per cache; each cache's lowest CPU is its id")
    return tuple(
        L3Cache(L3Domain(cpus[0] if cache_id is None or not unique else cache_id), size, ways, cpus)
        for cache_id, size, ways, cpus in sorted(instances, key=lambda cache: cache[3])
    )


def _l3_directory(tree: SysTree, cpu: Cpu) -> str | None:
    cache = f"cpu/cpu{cpu}/cache"
    # From the highest index down: the L3 is the last one, and each file costs a system call.
    for name in sorted(filter(_CACHE_DIRECTORY.fullmatch, tree.names(cache)), reverse=True):
        if tree.number(f"{cache}/{name}/level", cpu) == 3:
            return f"{cache}/{name}"
    return None


def _size_bytes(tree: SysTree, path: str, cpu: Cpu) -> int | None:
    text = tree.text(path, cpu=cpu)
    hit = _SIZE.fullmatch(text) if text is not None else None
    if hit is None or int(hit[1]) == 0:
        tree.note("L3 cache size", "can't be read; the cache is left out", cpu)
        return None
    return int(hit[1]) * _SIZE_UNITS[hit[2]]


def _nodes(tree: SysTree, present: Iterable[Cpu]) -> Mapping[Cpu, int]:
    nodes: dict[Cpu, int] = {}
    for hit in filter(None, map(_NODE_DIRECTORY.fullmatch, tree.names("node"))):
        nodes.update(dict.fromkeys(tree.cpus(f"node/{hit[0]}/cpulist") or (), int(hit[1])))
    # Nodes list their online CPUs only; the link in the CPU's own directory stays when it is off.
    for cpu in present:
        if cpu not in nodes:
            links = filter(None, map(_NODE_DIRECTORY.fullmatch, tree.names(f"cpu/cpu{cpu}")))
            nodes.update((cpu, int(hit[1])) for hit in links)
    return nodes


class TopologySource:
    """One pread a tick; reads sysfs again when the online CPUs have changed."""

    name = "topology"
    inline = True

    def __init__(self, root: Path = Path("/"), memory_bytes_per_s: float = 0.0) -> None:
        self._root = root
        self._memory_bytes_per_s = memory_bytes_per_s  # the operator's peak of a package, or 0
        self._capacity: Capacity | None = None
        self._online = OnlineCpus(root)
        self._seen: tuple[Cpu, ...] = ()
        self._topology: Topology | None = None

    def read(self) -> Topology | Missing:
        """The topology; the same object as long as no CPU comes or goes."""
        online = self._online.latest()
        if self._topology is None or online != self._seen:
            self._seen = online
            if self._capacity is None:  # neither changes while the host runs
                self._capacity = read_capacity(self._root, self._memory_bytes_per_s)
            self._topology = replace(read_topology(self._root), capacity=self._capacity)
        if not self._topology.cpus:
            return Missing(Reason.SOURCE, self._topology.gaps)
        return self._topology

    def check(self) -> tuple[Check, ...]:
        topology = read_topology(self._root)
        online = sum(info.online for info in topology.cpus)
        text = f"{topology.size}, {online} online"
        if topology.notes:
            return (Check(self.name, Reason.ERROR, f"{text}; {topology.gaps}"),)
        return (Check(self.name, Reason.PRESENT, text),)

    def close(self) -> None:
        self._online.close()


_ENTRIES = "sys/firmware/dmi/entries"
_ENTRY = re.compile(r"17-[0-9]{1,4}")
_SIZE_AT, _TYPE_AT, _SPEED_AT, _CONFIGURED_AT = 0x0C, 0x12, 0x15, 0x20
# Memory types that are no DIMM: ROM, flash.
_FLASH = range(0x08, 0x0B)
_LIMIT_BYTES = 4096
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
    for address in network_devices(tree):
        at = f"{DEVICES}/{address}"
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
