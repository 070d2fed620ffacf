"""Traffic of a package for each packet of its network functions, and as a share of its peaks.

Numerators are of the whole package, all devices and programs together. So there is a number only
where the packets of everything known to forward on the package are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from nftop.model.frame import CacheClass, CpuTable, GroupRow, NfRow, PackageRow
from nftop.model.ids import Cpu, Package
from nftop.model.metrics.package import PER_PACKET_METRICS
from nftop.model.missing import Missing, Reading, Reason, quotient, total
from nftop.model.nf.netdev import InterfaceRow
from nftop.model.peaks import (
    link_peak_bytes_per_s,
    memory_peak_bytes_per_s,
    modules_peak_bytes_per_s,
)
from nftop.model.struct import dataclass, field, replace
from nftop.model.topology import L3Cache, Topology

_LINE_BYTES = 64.0
# With fewer packets a second, what the rest of the host moves is most of the traffic.
_LEAST_PER_S = 1000.0
# Packets of the kernel's NICs beside those of network functions: from the first share on the
# number is an estimate, above the second there is none.
_ESTIMATE_FROM, _MOST_FOREIGN = 0.001, 0.05
# Every received frame is a write of a line or more; less than this says that devices are elsewhere.
_LEAST_WRITES = 0.9
_FEW = Missing(Reason.IDLE, "its network functions take in fewer than 1,000 packets a second")
_NO_NF = Missing(Reason.UNDEFINED, "no network function polls on this package")
_ELSEWHERE = Missing(
    Reason.UNDEFINED,
    "devices of this package write fewer lines than packets are received: they came by devices of "
    "another package, or by virtual ports",
)
_NO_MBM = Missing(Reason.SOURCE, "no cache class has its memory traffic counted here")
_NONE_LEFT = Missing(Reason.UNDEFINED, "network functions poll in every cache class")
# From this share of a package's memory traffic on, what others move makes its numbers estimates.
_MOST_OTHERS = 0.05
_OF_MEMORY = (
    "per_packet.memory_read_bytes",
    "per_packet.memory_write_bytes",
    "per_packet.memory_bytes",
)
_PARTIAL = ("pcie.rfo.total_per_s", "pcie.itomcachenear.total_per_s")
# By metric: those added up for it, and their unit in its own.
_SOURCES: Mapping[str, tuple[tuple[str, ...], float]] = {
    "per_packet.pcie_writes": (("pcie.write_bytes_per_s",), _LINE_BYTES),
    "per_packet.pcie_partial_writes": (_PARTIAL, 1.0),
    "per_packet.pcie_reads": (("pcie.read_bytes_per_s",), _LINE_BYTES),
    "per_packet.mmio_writes": (("mmio.write_per_s",), 1.0),
    "per_packet.memory_read_bytes": (("memory.read_bytes_per_s",), 1.0),
    "per_packet.memory_write_bytes": (("memory.write_bytes_per_s",), 1.0),
    "per_packet.memory_bytes": (("memory.read_bytes_per_s", "memory.write_bytes_per_s"), 1.0),
    "per_packet.upi_received_bytes": (("upi.received_bytes_per_s",), 1.0),
    "per_packet.upi_sent_bytes": (("upi.sent_bytes_per_s",), 1.0),
}
_OF_DEVICES = frozenset(name for name in _SOURCES if ".pcie_" in name)


@dataclass(frozen=True, slots=True)
class ClassMemory:
    """Memory traffic of a package's cores by cache class (MBM), bytes per second.

    Attributes:
        nfs: of classes in which network functions poll. others: of all other classes.
        by_class: of each of these others that moves any, most first.
    """

    nfs: Reading = _NO_MBM
    others: Reading = _NO_MBM
    by_class: Mapping[str, float] = field(default_factory=dict)


def class_memory(
    groups: Sequence[GroupRow], cpus: CpuTable, topology: Topology
) -> Mapping[Package, ClassMemory]:
    """By package; of an NF's class all traffic is the NF's."""
    home = {cache.id: _package_of(cache, topology) for cache in topology.l3}
    polled = {
        (group.name, info.l3)
        for info, group, nf in zip(cpus.topology.cpus, cpus.group, cpus.nf, strict=True)
        if nf is not None and isinstance(group, CacheClass)
    }
    own: dict[Package | None, list[Reading]] = {}
    others: dict[Package | None, dict[str, Reading]] = {}
    for group in groups:
        for cache in group.caches:
            package, moved = home.get(cache.l3), cache.readings["mbm_total_bytes_per_s"]
            if (group.name, cache.l3) in polled:
                own.setdefault(package, []).append(moved)
            else:
                here = others.setdefault(package, {})
                here[group.name] = total([here.get(group.name, 0.0), moved])
    return {
        package: ClassMemory(
            total(own.get(package, []), _NO_NF if others else _NO_MBM),
            total(others.get(package, {}).values(), _NONE_LEFT if own else _NO_MBM),
            _by_size(others.get(package, {})),
        )
        for package in topology.packages
    }


def _by_size(readings: Mapping[str, Reading]) -> Mapping[str, float]:
    known = {name: item for name, item in readings.items() if not isinstance(item, Missing)}
    return {
        name: known[name]
        for name in sorted(known, key=lambda name: -known[name])
        if known[name] > 0
    }


def _package_of(cache: L3Cache, topology: Topology) -> Package | None:
    rows = (topology.row_of.get(cpu) for cpu in cache.cpus)
    return next((topology.cpus[row].package for row in rows if row is not None), None)


@dataclass(frozen=True, slots=True)
class PackageLoad:
    """Packets per second of all network functions of a package, or why they are unknown.

    Attributes:
        received: those of them that were received, without the ones that generators send.
        is_estimate: few others may be handled there too.
        memory: by cache class.
    """

    packets: Reading
    received: float = 0.0
    is_estimate: bool = False
    memory: ClassMemory = field(default_factory=ClassMemory)


def package_loads(
    nfs: Sequence[NfRow], interfaces: Sequence[InterfaceRow], cpus: CpuTable, topology: Topology
) -> Mapping[Package, PackageLoad]:
    """Packets by package of the CPUs that poll; of the kernel, by the package of its NICs."""
    home = {info.cpu: info.package for info in topology.cpus}
    of_node = {info.node: info.package for info in topology.cpus if info.package is not None}
    kernel = any(nf.kind == "kernel" for nf in nfs)
    polling = [nf for nf in nfs if nf.kind != "kernel"]
    with_other_programs = {
        topology.cpus[topology.row_of[info.cpu]].package
        for info, thread, nf in zip(cpus.topology.cpus, cpus.thread, cpus.nf, strict=True)
        if thread is not None and nf is None and info.cpu in topology.row_of
    }
    loads = {}
    for package in topology.packages:
        candidates = [
            (nf, _packets(nf, package, {home.get(cpu) for cpu in nf.cpus}, home)) for nf in polling
        ]
        mine = [(nf, packets) for nf, packets in candidates if packets is not None]
        nics = [
            item
            for item in interfaces
            if item.kind == "nic"
            and item.owner is None
            and of_node.get(item.node, package) == package
        ]
        packets: list[Reading] = [item for _, item in mine]
        packets += [_of_nic(item, of_node) for item in nics] if kernel else []
        load = PackageLoad(
            total(packets, _NO_NF),
            sum(item for nf, item in mine if nf.direction == "rx" and isinstance(item, float)),
            package in with_other_programs,
        )
        loads[package] = load if kernel else _with_foreign(load, nics)
    return loads


def _packets(
    nf: NfRow, package: Package, packages: set[Package | None], home: Mapping[Cpu, Package | None]
) -> Reading | None:
    """Packets of a function that are handled on a package; None if it does not poll there."""
    whole = nf.readings["rx_packets_per_s" if nf.direction == "rx" else "tx_packets_per_s"]
    if packages and package not in packages:
        return None
    if isinstance(whole, Missing):
        return Missing(whole.reason, f"packets of {nf.name} are unknown: {whole.message}")
    if packages == {package}:
        return whole
    if whole == 0.0:
        return None
    # UNDEFINED: a thread of a pipeline that takes its packets from another one.
    threads = [
        item
        for item in nf.threads
        if not isinstance(item.packets_per_s, Missing)
        or item.packets_per_s.reason is not Reason.UNDEFINED
    ]
    if not threads or any(isinstance(item.packets_per_s, Missing) for item in threads):
        return Missing(
            Reason.UNDEFINED, f"which packets of {nf.name} are handled on this package is unknown"
        )
    here = [item.packets_per_s for item in threads if home.get(item.cpu) == package]
    return total(here) if here else None


def _of_nic(nic: InterfaceRow, of_node: Mapping[int | None, Package]) -> Reading:
    """Packets of a NIC that the kernel forwards; a NIC without a node may be of any package."""
    if nic.node not in of_node and nic.rx_packets_per_s != 0.0 and len(set(of_node.values())) > 1:
        return Missing(Reason.UNDEFINED, f"which package {nic.name} belongs to is unknown")
    return nic.rx_packets_per_s


def _with_foreign(load: PackageLoad, nics: Iterable[InterfaceRow]) -> PackageLoad:
    """The load beside packets of NICs that no network function handles."""
    if isinstance(load.packets, Missing):
        return load
    carried: dict[str, float] = {}
    for nic in nics:
        ways = (nic.rx_packets_per_s, nic.tx_packets_per_s)
        most = max((item for item in ways if not isinstance(item, Missing)), default=0.0)
        if most > 0:
            carried[nic.name] = most
    foreign = sum(carried.values())
    if foreign > _MOST_FOREIGN * load.packets and load.packets >= _LEAST_PER_S:
        why = f"{', '.join(carried)}: {foreign:,.0f} packets/s that no network function handles"
        return replace(load, packets=Missing(Reason.UNDEFINED, why))
    return replace(load, is_estimate=load.is_estimate or foreign > _ESTIMATE_FROM * load.packets)


def per_packet(row: PackageRow, load: PackageLoad) -> PackageRow:
    """The row with its `PER_PACKET_METRICS`."""
    packets = load.packets
    if not isinstance(packets, Missing) and packets < _LEAST_PER_S:
        packets = _FEW
    memory = load.memory
    readings: dict[str, Reading] = {
        "per_packet.nf_memory_bytes": _quotient(memory.nfs, packets),
        "per_packet.other_memory_bytes": _quotient(memory.others, packets),
    }
    for metric in PER_PACKET_METRICS:
        if metric.id in readings:
            continue
        names, unit = _SOURCES[metric.id]
        moved = _sum(row, names)
        value = moved if isinstance(moved, Missing) else quotient(moved / unit, packets)
        readings[metric.id] = value
    writes = _sum(row, _SOURCES["per_packet.pcie_writes"][0])
    if not isinstance(writes, Missing) and not isinstance(packets, Missing):
        lines = writes / _LINE_BYTES
        if lines < _LEAST_WRITES * load.received:
            readings |= {
                name: _ELSEWHERE for name in _OF_DEVICES if not isinstance(readings[name], Missing)
            }
    row = with_derived(
        row,
        readings,
        {name: _SOURCES.get(name, ((), 1.0))[0] for name in readings},
        estimates=load.is_estimate,
    )
    moved = _sum(row, _MEMORY)
    if isinstance(moved, Missing) or isinstance(memory.others, Missing):
        return row
    if memory.others < _MOST_OTHERS * moved:
        return row
    marked = {name for name in _OF_MEMORY if not isinstance(readings[name], Missing)}
    return replace(row, estimates=row.estimates | marked)


def _quotient(moved: Reading, packets: Reading) -> Reading:
    return moved if isinstance(moved, Missing) else quotient(moved, packets)


def with_derived(
    row: PackageRow,
    readings: Mapping[str, Reading],
    sources: Mapping[str, Sequence[str]],
    *,
    estimates: bool = False,
) -> PackageRow:
    """The row with numbers made of its own, and their marks: estimate, origin, age."""
    present = [name for name, reading in readings.items() if not isinstance(reading, Missing)]
    marked = {name for name in present if estimates or row.estimates.intersection(sources[name])}
    origins = {
        name: row.origins[item] for name in present for item in sources[name] if item in row.origins
    }
    ages_s = {
        name: max(row.sampled_s[item] for item in sources[name] if item in row.sampled_s)
        for name in present
        if row.sampled_s.keys() & set(sources[name])
    }
    return replace(
        row,
        readings={**row.readings, **readings},
        estimates=row.estimates | marked,
        origins={**row.origins, **origins},
        sampled_s={**row.sampled_s, **ages_s},
    )


def _sum(row: PackageRow, names: Sequence[str]) -> Reading:
    """Sum of those that the hardware has; the first reason if one is absent otherwise."""
    readings = [row.readings[name] for name in names]
    never = [
        item for item in readings if isinstance(item, Missing) and item.reason is Reason.HARDWARE
    ]
    known = [item for item in readings if item not in never]
    return total(known) if known else never[0]


_NO_FAMILY = Missing(Reason.SOURCE, "nftop does not know this CPU's highest bandwidth")
_NO_LINK = Missing(Reason.SOURCE, "nftop does not know the speed of this CPU's links")
_NO_SLOT = Missing(Reason.SOURCE, "sysfs names no slot with a network device on this package")
_UNREAD = Missing(Reason.SOURCE, "slots of network devices are not read here")
_MEMORY = ("memory.read_bytes_per_s", "memory.write_bytes_per_s")
_SHARED_PEAKS: Mapping[str, tuple[str, ...]] = {
    "utilisation.memory_ratio": _MEMORY,
    "utilisation.pcie_read_ratio": ("pcie.read_bytes_per_s",),
    "utilisation.pcie_write_ratio": ("pcie.write_bytes_per_s",),
    "utilisation.upi_received_ratio": ("upi.received_bytes_per_s",),
    "utilisation.upi_sent_ratio": ("upi.sent_bytes_per_s",),
}


def utilisation(row: PackageRow, topology: Topology, uarch: str) -> PackageRow:
    """The row with its `UTILISATION_METRICS`; an estimate where a peak is only the family's."""
    memory, is_bound = _memory_peak(topology, uarch)
    slots, links = _slots(row.package, topology), link_peak_bytes_per_s(uarch, len(row.links))
    peaks: Mapping[str, float | Missing] = {
        "memory": memory or _NO_FAMILY,
        "pcie": slots,
        "upi": links or _NO_LINK,
    }
    readings: dict[str, Reading] = {}
    for name, sources in _SHARED_PEAKS.items():
        moved = _sum(row, sources)
        readings[name] = quotient(moved, peaks[name.partition(".")[2].partition("_")[0]])
    row = with_derived(row, readings, _SHARED_PEAKS)
    bounds = {name for name in _SHARED_PEAKS if ".upi_" in name or ("memory" in name and is_bound)}
    known = {name for name in bounds if not isinstance(readings[name], Missing)}
    return replace(row, estimates=row.estimates | known)


def _memory_peak(topology: Topology, uarch: str) -> tuple[float | None, bool]:
    """Peak of a package's memory, and whether it is only what its family can have."""
    capacity = topology.capacity
    if capacity is not None:
        if capacity.memory_bytes_per_s:
            return capacity.memory_bytes_per_s, False
        modules = capacity.memory_modules // max(1, len(topology.packages))
        peak = modules_peak_bytes_per_s(uarch, modules, capacity.memory_transfers_per_s)
        if peak is not None:
            return peak, False
    return memory_peak_bytes_per_s(uarch), True


def _slots(package: Package, topology: Topology) -> float | Missing:
    """Bytes per second and direction of all NICs' slots of a package."""
    if topology.capacity is None:
        return _UNREAD
    nodes = {info.node for info in topology.cpus if info.package == package}
    alone = len(topology.packages) == 1
    mine = [
        slot.bytes_per_s
        for slot in topology.capacity.nic_slots
        if slot.node in nodes or (alone and slot.node is None)
    ]
    return sum(mine) if mine else _NO_SLOT
