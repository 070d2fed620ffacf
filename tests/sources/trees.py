"""Trees of files as the kernel shows them, and what holds for the topology read from any."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Mapping
from pathlib import Path

from nftop.model.topology import Topology

PMUS = "sys/bus/event_source/devices"
ONLINE = "sys/devices/system/cpu/online"


def put(folder: Path, files: Mapping[str, str]) -> None:
    """Write `files` (path: text without its last newline); a path ending in / is a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(exist_ok=True) if name.endswith("/") else path.write_text(text + "\n")


def write_tree(root: Path, files: Mapping[str, str]) -> Path:
    """`files` as for `put`, under root/sys/devices/system."""
    put(root / "sys/devices/system", files)
    return root


def unpack(archive: Path, into: Path, tree: str = "", wanted: str = "") -> Path:
    """Files of an archive, under `into`: of its folder `tree`, with this pattern in their name."""
    with tarfile.open(archive) as packed:
        # Before Python 3.11.4, as in Debian 12, there are no filters.
        packed.extraction_filter = getattr(tarfile, "data_filter", lambda member, _path: member)
        names = [item for item in packed if item.name.startswith(f"{tree}/" if tree else "")]
        packed.extractall(into, [item for item in names if re.search(wanted, item.name)])
    return into


def consistent(topology: Topology) -> None:
    """What holds on every host, whatever it says."""
    by_cpu = {info.cpu: info for info in topology.cpus}
    assert list(by_cpu) == sorted(by_cpu)
    for info in topology.cpus:
        assert (info.core is not None) == info.online
        assert list(info.siblings) == sorted(set(info.siblings) - {info.cpu})
        for sibling in info.siblings:
            assert info.cpu in by_cpu[sibling].siblings
            assert by_cpu[sibling].core == info.core
    cores = {info.core for info in topology.cpus if info.core is not None}
    assert cores == set(range(len(cores)))
    sharers = [cpu for cache in topology.l3 for cpu in cache.cpus]
    assert len(sharers) == len(set(sharers))
    assert len({cache.id for cache in topology.l3}) == len(topology.l3)
    for cache in topology.l3:
        assert all(by_cpu[cpu].l3 == cache.id and by_cpu[cpu].online for cpu in cache.cpus)
