"""What the lab says of its host is what the model is, as nftop and Linux' own tools read it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.model.ids import format_cpu_list
from nftop.sim.model import Model, model_of
from nftop.sim.payloads import cpu_times
from nftop.sim.scenario import load
from nftop.sources.host.cpu_time import parse_cpu_times
from nftop.sources.host.sysfs import parse_cpu_mask
from nftop.sources.host.topology import read_cpuid, read_host, read_topology
from nftop.uarch.table import identify
from tests.lab import machine, proc
from tests.lab.files import sysfs_folders, topology_of, update_files, without, write_files
from tests.lab.resctrl.numbers import mask_text

SIZES = (2, 3, 88, 130)
MACHINES = machine.names()
_CPUIDS = {
    "bdx": (6, 79, 1),
    "skx-4": (6, 85, 4),
    "skx-7": (6, 85, 7),
    "clx-n": (6, 85, 7),
    "icx": (6, 106, 6),
    "spr": (6, 143, 8),
}


def _model(cpus: int) -> Model:
    return model_of(load("default"), cpus)


def _written(root: Path, cpus: int, name: str) -> Path:
    kind = machine.load(name)
    topology = topology_of(kind, _model(cpus).layout.topology)
    for folder in sysfs_folders(topology, kind):
        write_files(root / str(folder.target)[1:], folder.files)
    (root / "proc/sys/kernel").mkdir(parents=True)
    (root / "proc/sys/kernel/hostname").write_text("lab\n")
    (root / "proc/cpuinfo").write_text(proc.cpuinfo(topology, kind))
    return root


@pytest.mark.parametrize(
    ("name", "cpus"),
    # Machines differ in caches alone.
    [("skx-4", cpus) for cpus in SIZES] + [(name, 8) for name in MACHINES if name != "skx-4"],
)
def test_sysfs_is_the_models_topology(tmp_path: Path, name: str, cpus: int) -> None:
    read = read_topology(_written(tmp_path, cpus, name))
    model = topology_of(machine.load(name), _model(cpus).layout.topology)
    assert read == replace(model, capacity=None)  # of which sysfs of CPUs has nothing
    assert read.cpus == _model(cpus).layout.topology.cpus


def test_the_simulated_hosts_own_caches_are_those_of_its_machine() -> None:
    topology = _model(88).layout.topology
    assert topology_of(machine.load("bdx"), topology) == topology


def test_ice_lake_has_larger_slices_and_one_more_way() -> None:
    [cache, _] = topology_of(machine.load("icx"), _model(88).layout.topology).l3
    assert (cache.size_bytes, cache.ways) == (22 * 1536 * 1024, 12)


@pytest.mark.parametrize("name", MACHINES)
def test_every_cache_is_sets_times_ways_times_lines(tmp_path: Path, name: str) -> None:
    root = _written(tmp_path, 4, name)
    caches = sorted((root / "sys/devices/system/cpu/cpu3/cache").iterdir())
    assert len(caches) == 4
    for cache in caches:
        numbers = ("number_of_sets", "ways_of_associativity", "coherency_line_size")
        product = np.prod([int((cache / number).read_text()) for number in numbers])
        assert product == int((cache / "size").read_text().rstrip("K\n")) * 1024


@pytest.mark.parametrize("name", MACHINES)
def test_cpuinfo_names_the_machine_and_the_lab(tmp_path: Path, name: str) -> None:
    root = _written(tmp_path, 88, name)
    host = read_host(root)
    assert (host.lab, host.badge) == (True, "LAB")
    assert host.model.startswith("LAB: virtual Intel(R) Xeon(R)")
    assert read_cpuid(root) == ("GenuineIntel", *_CPUIDS[name])


def test_nftop_knows_the_machine_that_it_has_a_table_for() -> None:
    assert identify("GenuineIntel", *_CPUIDS["skx-4"]) == machine.load("skx-4").uarch


def test_cpuinfo_has_a_paragraph_for_every_cpu(tmp_path: Path) -> None:
    text = (_written(tmp_path, 88, "skx-4") / "proc/cpuinfo").read_text()
    assert text.endswith("power management:\n\n")
    paragraphs = [dict(_pairs(word)) for word in text.strip().split("\n\n")]
    assert [int(paragraph["processor"]) for paragraph in paragraphs] == list(range(88))
    last = paragraphs[87]
    expected = {"physical id": "1", "siblings": "44", "core id": "21", "cpu cores": "22"}
    assert last.items() >= expected.items()
    assert last["cache size"] == "30976 KB"  # the 30.25 MiB of a Xeon Gold 6152
    assert len({paragraph["apicid"] for paragraph in paragraphs}) == 88
    flags = set(last["flags"].split())
    assert flags >= {"cat_l3", "cdp_l3", "mba", "rdt_a", "cqm_llc", "cqm_occup_llc"}
    assert flags >= {"cqm_mbm_total", "cqm_mbm_local"}


def _pairs(paragraph: str) -> list[tuple[str, str]]:
    return [
        (name.strip(), value.strip())
        for name, _, value in (row.partition(":") for row in paragraph.splitlines())
    ]


@given(st.integers(1, 200), st.data())
def test_masks_are_read_back(width: int, data: st.DataObject) -> None:
    cpus = data.draw(st.sets(st.integers(0, width - 1)))
    text = mask_text(cpus, width)
    assert format_cpu_list(parse_cpu_mask(text)) == format_cpu_list(cpus)
    assert text.count(",") == (width - 1) // 32


def test_a_mask_is_printed_as_the_kernel_does() -> None:
    """core_cpus and core_siblings of CPU 1 on a real host of 80 possible CPUs."""
    assert mask_text((1, 41), 80) == "0000,00000200,00000002"
    siblings = (*range(20), *range(40, 60))
    assert mask_text(siblings, 80) == "0000,0fffff00,000fffff"


@pytest.mark.parametrize("t_ns", [0, 1_234_567_890, 90_000_000_000])
def test_stat_is_the_models_time(t_ns: int) -> None:
    model = _model(88)
    text = proc.stat(model, t_ns, 1_700_000_000, range(88))
    read, expected = parse_cpu_times(text.encode(), 100), cpu_times(model, t_ns)
    assert np.array_equal(read.ticks, expected.ticks)
    assert np.array_equal(read.cpus, expected.cpus)
    total = text.splitlines()[0].split()[1:9]
    assert list(map(int, total)) == expected.ticks.sum(axis=0).tolist()
    assert "\nbtime 1700000000\n" in text


def test_a_kernel_that_has_resctrl_lists_it_once() -> None:
    once = proc.filesystems("nodev\tproc\n\text4\n", resctrl=True)
    assert once == "nodev\tproc\n\text4\nnodev\tresctrl\n"
    assert proc.filesystems(once, resctrl=True) == once
    assert proc.filesystems(once, resctrl=False) == "nodev\tproc\n\text4\n"


def test_mounts_are_those_of_a_real_host() -> None:
    real = (
        "/dev/vda / ext4 rw 0 0\n"
        "sysfs /sys sysfs rw 0 0\n"
        "nftop-lab /sys/fs tmpfs rw 0 0\n"
        "sysfs /sys/fs/ext4 sysfs rw 0 0\n"
        "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"
        "nftop-lab /proc/stat fuse rw 0 0\n"
    )
    kept = (
        "/dev/vda / ext4 rw 0 0\nsysfs /sys sysfs rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"
    )
    assert proc.mounts(real, None) == kept
    line = "resctrl /sys/fs/resctrl resctrl rw,relatime,cdp 0 0\n"
    assert proc.mounts(real, "/sys/fs/resctrl rw,relatime,cdp") == kept + line


@pytest.mark.parametrize("offline", [{5}, {1, 5, 7}])
def test_files_written_anew_are_those_of_the_cpus_left(tmp_path: Path, offline: set[int]) -> None:
    """Gone, back, and gone again."""
    kind = machine.load("icx")
    whole = topology_of(kind, _model(8).layout.topology)
    with_all, without_some = (
        sysfs_folders(topology, kind) for topology in (whole, without(whole, offline))
    )
    for before, after in zip(with_all, without_some, strict=True):
        folder = tmp_path / str(before.target)[1:]
        write_files(folder, before.files)
        update_files(folder, before.files, after.files)
        update_files(folder, after.files, before.files)
        update_files(folder, before.files, after.files)
        files = {path for path in folder.rglob("*") if path.is_file()}
        assert {str(path.relative_to(folder)) for path in files} == set(after.files)
        assert all((folder / name).read_bytes() == data for name, data in after.files.items())
        assert all(any(path.iterdir()) for path in folder.rglob("*") if path.is_dir())
    read = read_topology(tmp_path)
    assert {info.cpu for info in read.cpus if not info.online} == offline
    assert all(offline.isdisjoint(info.siblings) for info in read.cpus)
    assert all(offline.isdisjoint(cache.cpus) for cache in read.l3)
