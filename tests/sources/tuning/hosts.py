"""Trees of a host with pollers, and the one answer of a check."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from nftop.model.check import Check
from nftop.model.ids import Cpu
from nftop.sources.host.topology import read_topology
from nftop.sources.tuning.checks import host_checks
from nftop.sources.tuning.inputs import Poller
from tests.sources.trees import put

CPUS = "sys/devices/system/cpu"
NODES = "sys/devices/system/node"
DEBIAN = {
    "usr/sbin/update-grub": "",
    "usr/sbin/grub-mkconfig": "for x in ${sysconfdir}/default/grub.d/*.cfg ; do",
}


def poller(
    cpu: int, *, pid: int = 100, tid: int = 101, pinned: bool = True, kind: str = "dpdk"
) -> Poller:
    return Poller(Cpu(cpu), pinned, pid, tid, "testpmd", kind)


def host(root: Path, files: Mapping[str, str] | None = None) -> Path:
    """Two packages of four CPUs, a node each; `files` beside that."""
    put(root, {f"{CPUS}/present": "0-7", f"{CPUS}/online": "0-7"})
    for cpu in range(8):
        at = f"{CPUS}/cpu{cpu}/topology"
        locations = {f"{at}/physical_package_id": str(cpu // 4), f"{at}/core_id": str(cpu % 4)}
        put(root, locations | {f"{at}/core_cpus_list": str(cpu)})
    put(root, {f"{NODES}/node0/cpulist": "0-3", f"{NODES}/node1/cpulist": "4-7"})
    put(root, files or {})
    return root


def every_cpu(files: Mapping[str, str]) -> dict[str, str]:
    """`files` of every CPU."""
    return {f"{CPUS}/cpu{cpu}/{name}": text for cpu in range(8) for name, text in files.items()}


def checks(root: Path, *pollers: Poller, quiet: Collection[int] = ()) -> dict[str, Check]:
    """Every answer by its name behind `host`; the last where there are several of a name."""
    result = host_checks(root, read_topology(root), pollers, frozenset(map(Cpu, quiet)))
    return {check.name.removeprefix("host "): check for check in result}


def link(path: Path, target: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
