"""Topology of real hosts: their sysfs where it was captured, their CPUID where that was."""

from __future__ import annotations

import os
import re
import tarfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from nftop.model.topology import Topology
from nftop.sources.host.topology import read_host, read_topology
from tests.sources.trees import consistent, write_tree

MIB = 1 << 20
CAPTURES = Path(__file__).parents[2] / "data/topology"  # its README says whose they are


@dataclass(frozen=True)
class Expected:
    """What the vendor's data sheet and the capture's own description say of a host."""

    capture: str
    cpus: int
    cores: int
    packages: int
    l3: tuple[tuple[float, int, int], ...]  # MiB, ways, logical CPUs; one per cache
    nodes: int
    isolated: tuple[int, ...] = ()


SYSFS_HOSTS = (
    # 2 x 20 cores, 27.5 MiB each, sub-NUMA clustering on.
    Expected(
        capture="2-socket-4-node-40-core",
        cpus=80,
        cores=40,
        packages=2,
        l3=((27.5, 11, 40),) * 2,
        nodes=4,
    ),
    # 4 performance cores with two threads and 8 efficient cores with one.
    Expected(
        capture="sample1",
        cpus=16,
        cores=12,
        packages=1,
        l3=((18.0, 12, 16),),
        nodes=1,
    ),
    # 2 x 28 cores, 38.5 MiB each, interleaved numbering, four CPU-less memory nodes aside.
    Expected(
        capture="sample2",
        cpus=112,
        cores=56,
        packages=2,
        l3=((38.5, 11, 56),) * 2,
        nodes=4,
        isolated=(4, 5, 6, 7, 60, 61, 62, 63),
    ),
    Expected(
        capture="server",
        cpus=112,
        cores=56,
        packages=2,
        l3=((38.5, 11, 56),) * 2,
        nodes=4,
        isolated=(4, 5, 6, 7, 60, 61, 62, 63),
    ),
    # 10 cores and 13.75 MiB: a Skylake-X desktop.
    Expected(
        capture="desktop",
        cpus=20,
        cores=10,
        packages=1,
        l3=((13.75, 11, 20),),
        nodes=1,
    ),
    Expected(
        capture="4-socket-server-nosnc",
        cpus=144,
        cores=72,
        packages=4,
        l3=((24.75, 11, 36),) * 4,
        nodes=4,
    ),
)
CPUID_HOSTS = (
    # Cores and cache per package from ark.intel.com. This Haswell runs in cluster-on-die mode
    # without SMT: two halves of six cores and 15 MiB in each package.
    Expected(
        capture="Intel-Haswell-2xXeon-E5-2680v3",
        cpus=24,
        cores=24,
        packages=2,
        l3=((15.0, 20, 6),) * 4,
        nodes=0,
    ),
    Expected(
        capture="Intel-Broadwell-2xXeon-E5-2650Lv4",
        cpus=56,
        cores=28,
        packages=2,
        l3=((35.0, 20, 28),) * 2,
        nodes=0,
    ),
    Expected(
        capture="Intel-Skylake-2xXeon6140",
        cpus=72,
        cores=36,
        packages=2,
        l3=((24.75, 11, 36),) * 2,
        nodes=0,
    ),
    Expected(
        capture="Intel-CascadeLake-2xXeon6230",
        cpus=80,
        cores=40,
        packages=2,
        l3=((27.5, 11, 40),) * 2,
        nodes=0,
    ),
    Expected(
        capture="Intel-SapphireRapids-2xXeonMax9460",
        cpus=160,
        cores=80,
        packages=2,
        l3=((97.5, 15, 80),) * 2,
        nodes=0,
    ),
)


def unpack(capture: str, into: Path) -> Path:
    """The files of one capture, under `into`."""
    with tarfile.open(CAPTURES / f"{capture}.tar.xz") as tar:
        for member in tar:
            target = into / member.name
            target.parent.mkdir(parents=True, exist_ok=True)
            if member.issym():
                target.symlink_to(member.linkname)
            elif (content := tar.extractfile(member)) is not None:
                target.write_bytes(content.read())
    return into


def cpuid_tree(captured: Path, root: Path) -> Path:
    """The sysfs a kernel shows on a host whose CPUID was captured, one `puN` file per CPU.

    Leaf 0xB gives the APIC id and its widths, leaf 4 the caches (Intel SDM, CPUID); the kernel's
    cache id is the APIC id without the bits of the CPUs that share it.
    """
    leaves: dict[int, dict[tuple[int, int], list[int]]] = {}
    for path in captured.glob("pu*"):
        table = leaves.setdefault(int(path.name[2:]), {})
        for line in path.read_text().splitlines():
            requests, arrow, reports = line.partition("=>")
            if arrow and not line.startswith("#"):
                words = [int(word, 16) for word in requests.split()]
                table[words[1], words[3]] = [int(word, 16) for word in reports.split()]
    apic = {cpu: table[0xB, 0][3] for cpu, table in leaves.items()}
    files = {name: f"0-{len(apic) - 1}" for name in ("cpu/present", "cpu/online")}
    for cpu, table in leaves.items():
        smt_bits, package_bits = table[0xB, 0][0], table[0xB, 1][0]
        package, core = apic[cpu] >> package_bits, apic[cpu] >> smt_bits
        topology = f"cpu/cpu{cpu}/topology"
        files[f"{topology}/physical_package_id"] = str(package)
        files[f"{topology}/core_id"] = str(core & ((1 << package_bits - smt_bits) - 1))
        same = [str(c) for c in sorted(apic) if apic[c] >> smt_bits == core]
        files[f"{topology}/thread_siblings_list"] = ",".join(same)
        for index in range(4):
            eax, ebx, ecx, _ = table[4, index]
            shared_bits = (eax >> 14 & 0xFFF).bit_length()
            ways, line_bytes = (ebx >> 22) + 1, (ebx & 0xFFF) + 1
            domain = apic[cpu] >> shared_bits
            cache = f"cpu/cpu{cpu}/cache/index{index}"
            files[f"{cache}/level"] = str(eax >> 5 & 7)
            files[f"{cache}/id"] = str(domain)
            files[f"{cache}/size"] = f"{ways * line_bytes * (ecx + 1) >> 10}K"
            files[f"{cache}/ways_of_associativity"] = str(ways)
            same = [str(c) for c in sorted(apic) if apic[c] >> shared_bits == domain]
            files[f"{cache}/shared_cpu_list"] = ",".join(same)
    return write_tree(root, files)


def check(topology: Topology, expected: Expected) -> None:
    cpus = topology.cpus
    assert topology.notes == ()
    assert len(cpus) == expected.cpus
    assert all(info.online for info in cpus)
    assert topology.core_count == expected.cores
    assert topology.packages == tuple(range(expected.packages))
    per_package = Counter(info.package for info in cpus)
    assert set(per_package.values()) == {expected.cpus // expected.packages}
    caches = tuple((c.size_bytes / MIB, c.ways or 0, len(c.cpus)) for c in topology.l3)
    assert caches == expected.l3
    assert len({cache.id for cache in topology.l3}) == len(topology.l3)
    assert len({info.node for info in cpus} - {None}) == expected.nodes
    assert tuple(info.cpu for info in cpus if info.isolated) == expected.isolated
    assert not any(info.nohz_full for info in cpus)
    consistent(topology)


@pytest.mark.parametrize("expected", SYSFS_HOSTS, ids=lambda e: e.capture)
def test_real_sysfs(expected: Expected, tmp_path: Path) -> None:
    check(read_topology(unpack(expected.capture, tmp_path)), expected)


@pytest.mark.parametrize("expected", CPUID_HOSTS, ids=lambda e: e.capture)
def test_real_cpuid(expected: Expected, tmp_path: Path) -> None:
    captured = unpack(expected.capture, tmp_path / "captured")
    check(read_topology(cpuid_tree(captured, tmp_path)), expected)


def test_real_host_with_offline_cpus(tmp_path: Path) -> None:
    topology = read_topology(unpack("offline-cpu0-node0", tmp_path))
    consistent(topology)
    assert [info.cpu for info in topology.cpus if info.online] == list(range(4, 21))
    assert len(topology.cpus) == 24
    gone = topology.cpus[0]
    assert (gone.core, gone.package, gone.die, gone.l3, gone.siblings) == (None,) * 4 + ((),)
    assert gone.node == 0  # node0 has no online CPU and no folder left: the CPU's link tells
    assert [(c.size_bytes, len(c.cpus)) for c in topology.l3] == [(30 * MIB, 9), (30 * MIB, 8)]


def test_hybrid_siblings(tmp_path: Path) -> None:
    topology = read_topology(unpack("sample1", tmp_path))
    threads = Counter(len(info.siblings) + 1 for info in topology.cpus)
    assert threads == {2: 8, 1: 8}
    assert topology.with_siblings([2]) == {2, 3}


@pytest.mark.real
def test_this_host() -> None:
    topology = read_topology()
    consistent(topology)
    assert topology.notes == ()
    assert sum(info.online for info in topology.cpus) == os.sysconf("SC_NPROCESSORS_ONLN")
    cpuinfo = Path("/proc/cpuinfo").read_text()
    reports = re.findall(r"^(?:physical|core) id\s*: (\d+)$", cpuinfo, re.MULTILINE)
    if reports:
        assert topology.core_count == len(set(zip(reports[::2], reports[1::2], strict=True)))
    assert read_host().name == os.uname().nodename
