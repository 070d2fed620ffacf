"""Hosts with a mounted resctrl in a folder, and the source that reads them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nftop.model.missing import Missing
from nftop.model.rdt.rdt import GroupCache, ResctrlGroup, ResctrlTable
from nftop.model.topology import Topology
from nftop.sources.resctrl.source import ResctrlSource
from tests.frames import topology
from tests.sources.trees import put

DATA = Path(__file__).parents[2] / "data/resctrl"
MOUNT = "sys/fs/resctrl"
HOST = topology(8, packages=2)  # caches 0 and 1, of 48 MiB: CPUs 0-1,4-5 and 2-3,6-7

_INFO = {
    "info/L3/cbm_mask": "fff",
    "info/L3/min_cbm_bits": "1",
    "info/L3/num_closids": "15",
    "info/L3/shareable_bits": "c00",
    "info/L3/bit_usage": "0=XXSSSSSSSSSS;1=XXSSSSSSSSSS",
    "info/MB/num_closids": "8",
    "info/MB/min_bandwidth": "10",
    "info/MB/bandwidth_gran": "10",
    "info/L3_MON/num_rmids": "224",
    "info/L3_MON/mon_features": "llc_occupancy\nmbm_total_bytes\nmbm_total_bytes_config\n"
    "mbm_local_bytes",
}


def group_files(where: str = "", *, used: int = 0, moved: int = 0) -> dict[str, str]:
    """What a group's directory has; a monitoring group has no schemata nor mode."""
    files = {f"{where}cpus_list": "", f"{where}tasks": ""}
    if "mon_groups/" not in where:
        files |= {
            f"{where}schemata": "    MB:0=100;1=100\n    L3:0=fff;1=fff",
            f"{where}mode": "shareable",
            f"{where}mon_groups/": "",
        }
    for l3 in ("00", "01"):
        monitor = f"{where}mon_data/mon_L3_{l3}/"
        files |= {
            f"{monitor}llc_occupancy": str(used),
            f"{monitor}mbm_total_bytes": str(moved),
            f"{monitor}mbm_local_bytes": str(moved // 2),
        }
    return files


def plain() -> dict[str, str]:
    """A root group that has all CPUs, and `vpp`, which has two."""
    return {
        **_INFO,
        **group_files(used=1 << 20, moved=1000),
        **group_files("vpp/", used=2 << 20, moved=2000),
        "cpus_list": "0,3-7",
        "vpp/cpus_list": "1-2",
        "vpp/schemata": "    MB:0= 50;1=100\n    L3:0=0f0;1=fff",
    }


def write(root: Path, files: Mapping[str, str], options: str = "rw,relatime") -> Path:
    """These files below the mount, and what /proc tells of it and of the host."""
    put(root / MOUNT, files)
    host = {
        "mounts": f"proc /proc proc rw 0 0\nresctrl /sys/fs/resctrl resctrl {options} 0 0",
        "filesystems": "nodev\tproc\nnodev\tresctrl",
        "sys/kernel/osrelease": "6.1.0-44-amd64",
        "cpuinfo": "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 106\nstepping\t: 6\n"
        "flags\t\t: cat_l3 mba cqm_occup_llc cqm_mbm_total cqm_mbm_local",
    }
    put(root / "proc", host)
    return root


def captured(name: str) -> dict[str, str]:
    """A tree of tests/data/resctrl."""
    lines = (DATA / f"{name}.tsv").read_text().splitlines()
    named = (line.partition("\t") for line in lines)
    return {path: text.replace("\\n", "\n").removesuffix("\n") for path, _, text in named}


def source(root: Path, host: Topology = HOST, **options: Any) -> ResctrlSource:
    """Its clock goes on by a second whenever it is looked at, unless another is given."""
    clock = itertools.count(10**9, 10**9)
    return ResctrlSource(root, host, **{"clock": lambda: next(clock), **options})


def read(root: Path, host: Topology = HOST, **options: Any) -> ResctrlTable:
    table = source(root, host, **options).read()
    assert isinstance(table, ResctrlTable), table
    return table


def group(table: ResctrlTable, name: str) -> ResctrlGroup:
    return next(item for item in table.groups if item.name == name)


def cache(table: ResctrlTable, name: str, l3: int = 0) -> GroupCache:
    return next(item for item in group(table, name).caches if item.l3 == l3)


def sentence(value: object) -> str:
    assert isinstance(value, Missing), value
    return f"{value.reason.key}: {value.message}"


def make_anew(directory: Path, files: Mapping[str, str]) -> None:
    """Remove a group's directory and make another of its name.

    What is removed is kept elsewhere: unlike resctrl's, inodes of other file systems are used
    again.
    """
    directory.rename(directory.parents[3] / "removed")
    put(directory.parent, {p: t for p, t in files.items() if p.startswith(f"{directory.name}/")})
