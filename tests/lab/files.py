"""What sysfs says of the CPUs and nodes of a host, as files.

Names and formats: the kernel's Documentation/ABI/stable/sysfs-devices-system-cpu and
Documentation/ABI/testing/sysfs-devices-system-cpu; which of them there are and what they hold
follows trees taken from two-socket Skylake and Cascade Lake servers by
github.com/intel/cri-resource-manager (pkg/cpuallocator/testdata) and hwloc.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from nftop.model.ids import Cpu, format_cpu_list
from nftop.model.topology import CpuInfo, Topology
from tests.lab.machine import Machine
from tests.lab.resctrl.numbers import mask_text

_LINE_BYTES = 64


@dataclass(frozen=True, slots=True)
class Folder:
    """Static files by their path below `target`, the folder of the host they stand in for.

    `links` are symbolic ones with what they say, and `empty` folders that something is mounted on:
    both are made once and stay.
    """

    target: Path
    files: Mapping[str, bytes]
    links: Mapping[str, str] = field(default_factory=dict)
    empty: Collection[str] = ()


def sysfs_folders(
    topology: Topology,
    machine: Machine,
    *,
    links: Mapping[str, str] = MappingProxyType({}),
    empty: Collection[str] = (),
    throttles: Mapping[int, tuple[int, int]] = MappingProxyType({}),
) -> tuple[Folder, ...]:
    """/sys/devices/system/cpu, with these links and empty folders, and .../node of a host.

    `throttles`: of a CPU, how often its core and its package were too hot.
    """
    system = Path("/sys/devices/system")
    cpus = [*_all_cpus(topology), *_every_cpu(topology, machine.tables["sysfs"])]
    cpus += [
        (f"cpu{info.cpu}/thermal_throttle/{of}_throttle_count", str(count))
        for info in topology.cpus
        if info.online
        for of, count in zip(("core", "package"), throttles.get(info.cpu, (0, 0)), strict=True)
    ]
    return (
        Folder(system / "cpu", _as_files(cpus), links, empty),
        Folder(system / "node", _as_files(_nodes(topology))),
    )


def _as_files(rows: Iterable[tuple[str, str]]) -> Mapping[str, bytes]:
    return {path: f"{text}\n".encode() for path, text in rows}


def without(topology: Topology, offline: Collection[int]) -> Topology:
    """The topology after these CPUs have gone offline."""
    cpus = (
        replace(info, online=False, siblings=())
        if info.cpu in offline
        else replace(
            info, siblings=tuple(sibling for sibling in info.siblings if sibling not in offline)
        )
        for info in topology.cpus
    )
    caches = (
        replace(cache, cpus=tuple(cpu for cpu in cache.cpus if cpu not in offline))
        for cache in topology.l3
    )
    return replace(topology, cpus=tuple(cpus), l3=tuple(cache for cache in caches if cache.cpus))


def update_files(folder: Path, before: Mapping[str, bytes], after: Mapping[str, bytes]) -> None:
    """Make of a folder that `write_files` has written with `before` one of `after`."""
    for gone in before.keys() - after.keys():
        (folder / gone).unlink()
    # The deepest first, of those that may be empty now.
    for path in sorted({path for name in before for path in Path(name).parents}, reverse=True):
        if not any((folder / path).iterdir()):
            (folder / path).rmdir()
    write_files(folder, {name: data for name, data in after.items() if before.get(name) != data})


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write each below `folder`, readable for all and writable for none."""
    root, folders = os.fspath(folder), set[str]()
    for name, data in files.items():
        path = f"{root}/{name}"
        parent = path.rpartition("/")[0]
        if parent not in folders:
            os.makedirs(parent, exist_ok=True)  # noqa: PTH103 - a thousand files for each lab
            folders.add(parent)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC)
        try:
            os.write(handle, data)
            os.fchmod(handle, 0o444)
        finally:
            os.close(handle)


def write_folder(location: Path, folder: Folder) -> None:
    """Write all of a folder, at the place that stands in for its target."""
    write_files(location, folder.files)
    for name in folder.empty:
        (location / name).mkdir(parents=True, exist_ok=True)
    for name, target in folder.links.items():
        (location / name).parent.mkdir(parents=True, exist_ok=True)
        (location / name).symlink_to(target)


def topology_of(machine: Machine, model: Topology, clusters: int = 1) -> Topology:
    """The simulated host's topology with the last-level caches that this machine has.

    Its packages are divided into `clusters` NUMA nodes, which the cores are dealt out to.
    """
    table = machine.tables["sysfs"]
    core_of = {info.cpu: info.core for info in model.cpus}
    caches = (
        replace(
            cache,
            size_bytes=len({core_of[cpu] for cpu in cache.cpus}) * table["l3_bytes_per_core"],
            ways=table["l3_ways"],
        )
        for cache in model.l3
    )
    cpus = model.cpus
    if clusters > 1:
        cpus = tuple(replace(info, node=_cluster(model, info, clusters)) for info in cpus)
    return replace(model, l3=tuple(caches), cpus=cpus)


def _cluster(topology: Topology, info: CpuInfo, clusters: int) -> int:
    number = (info.core or 0) - _first_core(topology, info)
    return (info.package or 0) * clusters + number % clusters


def _first_core(topology: Topology, info: CpuInfo) -> int:
    return min(other.core or 0 for other in topology.cpus if other.package == info.package)


def _all_cpus(topology: Topology) -> Iterator[tuple[str, str]]:
    every = range(len(topology.cpus))
    online = [info.cpu for info in topology.cpus if info.online]
    smt = int(any(info.siblings for info in topology.cpus))
    nohz_full = [info.cpu for info in topology.cpus if info.nohz_full]
    yield "online", format_cpu_list(online)
    yield "offline", format_cpu_list(set(every) - set(online))
    yield "present", format_cpu_list(every)
    yield "possible", format_cpu_list(every)
    yield "kernel_max", "8191"
    yield "isolated", format_cpu_list(info.cpu for info in topology.cpus if info.isolated)
    # A mask that was never allocated is printed as the null pointer it is.
    yield "nohz_full", format_cpu_list(nohz_full) if nohz_full else "  (null)"
    yield "smt/active", str(smt)
    yield "smt/control", "on" if smt else "notsupported"


def _every_cpu(topology: Topology, table: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for info in topology.cpus:
        rows = [("online", str(int(info.online)))] if info.cpu else []  # CPU 0 can't be switched
        if info.online:
            rows += [*_location(topology, info), *_caches(topology, info, table)]
        yield from ((f"cpu{info.cpu}/{name}", text) for name, text in rows)


def _location(topology: Topology, info: CpuInfo) -> Iterator[tuple[str, str]]:
    core = sorted((info.cpu, *info.siblings))
    package = [
        other.cpu for other in topology.cpus if other.package == info.package and other.online
    ]
    yield "topology/physical_package_id", str(info.package)
    yield "topology/die_id", str(info.die)
    yield "topology/core_id", str((info.core or 0) - _first_core(topology, info))
    for name, cpus in (
        ("core_cpus", core),
        ("thread_siblings", core),
        ("die_cpus", package),
        ("package_cpus", package),
        ("core_siblings", package),
    ):
        yield from _set(f"topology/{name}", f"topology/{name}_list", cpus, topology)


def _caches(
    topology: Topology, info: CpuInfo, table: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    core = sorted((info.cpu, *info.siblings))
    for index, cache in enumerate(table["caches"]):
        yield from _cache(index, cache, info.core or 0, core, topology)
    for result in topology.l3:
        if result.id == info.l3:
            shared = {
                "level": 3,
                "type": "Unified",
                "bytes": result.size_bytes,
                "ways": result.ways,
            }
            yield from _cache(len(table["caches"]), shared, result.id, result.cpus, topology)


def _cache(
    index: int, cache: Mapping[str, Any], number: int, cpus: Iterable[Cpu], topology: Topology
) -> Iterator[tuple[str, str]]:
    at = f"cache/index{index}"
    yield f"{at}/id", str(number)
    yield f"{at}/level", str(cache["level"])
    yield f"{at}/type", cache["type"]
    yield f"{at}/size", f"{cache['bytes'] // 1024}K"
    yield f"{at}/ways_of_associativity", str(cache["ways"])
    yield f"{at}/number_of_sets", str(cache["bytes"] // cache["ways"] // _LINE_BYTES)
    yield f"{at}/coherency_line_size", str(_LINE_BYTES)
    yield f"{at}/physical_line_partition", "1"
    yield from _set(f"{at}/shared_cpu_map", f"{at}/shared_cpu_list", cpus, topology)


def _nodes(topology: Topology) -> Iterator[tuple[str, str]]:
    nodes = sorted({info.node for info in topology.cpus if info.node is not None})
    for name in ("online", "possible", "has_cpu", "has_memory", "has_normal_memory"):
        yield name, format_cpu_list(nodes)
    package_of = {info.node: info.package for info in topology.cpus if info.node in nodes}
    for node in nodes:
        # Nodes list their online CPUs only.
        cpus = [info.cpu for info in topology.cpus if info.node == node and info.online]
        yield from _set(f"node{node}/cpumap", f"node{node}/cpulist", cpus, topology)
        yield f"node{node}/distance", " ".join(_distances(node, package_of))


def _distances(node: int, package_of: Mapping[int, int | None]) -> Iterator[str]:
    for other, package in sorted(package_of.items()):
        yield "10" if other == node else "11" if package == package_of[node] else "21"


def _set(
    map_name: str, list_name: str, cpus: Iterable[Cpu], topology: Topology
) -> Iterator[tuple[str, str]]:
    members = list(cpus)
    yield map_name, mask_text(members, len(topology.cpus))
    yield list_name, format_cpu_list(members)
