"""Topology of odd kernels, virtual machines and mangled files."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from nftop.sources.host.sysfs import parse_cpu_mask
from nftop.sources.host.topology import read_host, read_topology
from tests.sources.trees import consistent, write_tree

MIB = 1 << 20


SMALL = {
    "cpu/present": "0-3",
    "cpu/online": "0-3",
    "cpu/isolated": "2-3",
    "cpu/nohz_full": "3",
    "node/node1/cpulist": "0-3",
} | {
    f"cpu/cpu{cpu}/{name}": text
    for cpu in range(4)
    for name, text in {
        "topology/physical_package_id": "0",
        "topology/core_id": str(cpu % 2),
        "topology/core_siblings": "f",
        "topology/thread_siblings": "00000000,00000005" if cpu % 2 == 0 else "00000000,0000000a",
        "cache/index3/level": "3",
        "cache/index3/type": "Unified",
        "cache/index3/size": "8M",
        "cache/index3/shared_cpu_map": "5" if cpu % 2 == 0 else "a",
    }.items()
}


def test_old_kernel_with_masks_and_no_ids(tmp_path: Path) -> None:
    topology = read_topology(write_tree(tmp_path, SMALL))
    assert topology.notes == ()
    assert [info.siblings for info in topology.cpus] == [(2,), (3,), (0,), (1,)]
    assert [info.core for info in topology.cpus] == [0, 1, 0, 1]
    assert [info.l3 for info in topology.cpus] == [0, 1, 0, 1]  # the lowest CPU names the cache
    assert [(c.id, c.size_bytes, c.ways) for c in topology.l3] == [
        (0, 8 * MIB, None),
        (1, 8 * MIB, None),
    ]
    info = topology.cpus[3]
    assert (info.die, info.node, info.isolated, info.nohz_full) == (None, 1, True, True)


def test_an_offline_cpu_keeps_only_its_node(tmp_path: Path) -> None:
    files = {name: text for name, text in SMALL.items() if "cpu3/topology" not in name}
    files |= {"cpu/online": "0-2", "node/node1/cpulist": "0-2", "cpu/cpu3/node1/": ""}
    topology = read_topology(write_tree(tmp_path, files))
    consistent(topology)
    assert topology.notes == ()
    info = topology.cpus[3]
    assert (info.online, info.core, info.package, info.l3, info.node) == (
        False,
        None,
        None,
        None,
        1,
    )
    assert topology.cpus[1].siblings == ()
    assert topology.l3[1].cpus == (1,)


def test_same_core_id_on_two_dies_is_two_cores(tmp_path: Path) -> None:
    """Kernels before 5.3 do not name the die, and number each die's cores from 0."""
    files = dict(SMALL)
    for cpu in range(4):
        files[f"cpu/cpu{cpu}/topology/core_id"] = "0"
    topology = read_topology(write_tree(tmp_path, files))
    assert topology.core_count == 2
    assert topology.cpus[0].siblings == (2,)


def test_repeated_cache_ids_are_replaced(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    files = SMALL | {f"cpu/cpu{cpu}/cache/index3/id": "0" for cpu in range(4)}
    topology = read_topology(write_tree(tmp_path, files))
    assert [cache.id for cache in topology.l3] == [0, 1]
    assert topology.notes[0] == snapshot


def test_virtual_machine_without_package_l3_and_node(tmp_path: Path) -> None:
    files = {"cpu/present": "0-1", "cpu/online": "0-1"}
    for cpu in range(2):
        files[f"cpu/cpu{cpu}/topology/physical_package_id"] = "-1"
        files[f"cpu/cpu{cpu}/topology/core_id"] = str(cpu)
        files[f"cpu/cpu{cpu}/topology/core_cpus_list"] = str(cpu)
    topology = read_topology(write_tree(tmp_path, files))
    assert topology.notes == ()
    assert [(i.core, i.package, i.l3, i.node) for i in topology.cpus] == [
        (0, None, None, None),
        (1, None, None, None),
    ]


def test_what_can_not_be_read_is_reported(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    files = SMALL | {"cpu/present": "0-9999", "cpu/cpu1/topology/core_id": "x\nGARBAGE"}
    del files["cpu/isolated"]
    topology = read_topology(write_tree(tmp_path, files | {"cpu/isolated/": ""}))
    consistent(topology)
    assert [info.cpu for info in topology.cpus] == [0, 1, 2, 3]
    assert topology.notes == snapshot


def test_no_sysfs_at_all(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    topology = read_topology(tmp_path)
    assert topology.cpus == ()
    assert topology.notes[0] == snapshot


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(
        st.sampled_from(sorted(SMALL)),
        st.one_of(
            st.none(),
            st.binary(max_size=30),
            st.sampled_from(
                [b"", b"0-", b"0-999999", b"-1", b"ffffffff,ffffffff", b"1,3", b"2", b"1", b"0K"]
            ),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_mangled_files_leave_a_consistent_topology(
    tmp_path_factory: pytest.TempPathFactory, mangled: dict[str, bytes | None]
) -> None:
    root = write_tree(tmp_path_factory.mktemp("mangled"), SMALL)
    for name, data in mangled.items():
        path = root / "sys/devices/system" / name
        path.unlink() if data is None else path.write_bytes(data)
    topology = read_topology(root)
    consistent(topology)
    assert {info.cpu for info in topology.cpus} <= {0, 1, 2, 3}


@given(st.sets(st.integers(0, 300)), st.integers(301, 512))
def test_mask_names_the_bits_set(cpus: set[int], width: int) -> None:
    words = (width + 31) // 32
    bits = sum(1 << cpu for cpu in cpus)
    text = ",".join(f"{bits >> 32 * word & 0xFFFFFFFF:08x}" for word in reversed(range(words)))
    assert parse_cpu_mask(text) == tuple(sorted(cpus))


@pytest.mark.parametrize("text", ["", "0x3", "3,ff", "zz", "123456789", "-1"])
def test_what_is_no_mask_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a CPU mask"):
        parse_cpu_mask(text)


def test_host_names(tmp_path: Path) -> None:
    (tmp_path / "proc/sys/kernel").mkdir(parents=True)
    assert read_host(tmp_path).name == "unknown host"
    assert read_host(tmp_path).model == "unknown CPU"
    (tmp_path / "proc/sys/kernel/hostname").write_text("nfv-7\n")
    text = io.StringIO()
    for cpu in range(100):
        text.write(f"processor\t: {cpu}\ncpu family\t: 6\ncpu MHz\t\t: 2000.0\n")
        text.write("model name\t: Intel(R) Xeon(R)  CPU   E5-2680 v3 @ 2.50GHz\n\n")
    (tmp_path / "proc/cpuinfo").write_text(text.getvalue())
    host = read_host(tmp_path, "HSX")
    assert (host.name, host.uarch) == ("nfv-7", "HSX")
    assert host.model == "Intel(R) Xeon(R) CPU E5-2680 v3 @ 2.50GHz"
