from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.model.missing import Reason
from tests.sources.trees import put
from tests.sources.tuning.hosts import DEBIAN, checks, host, link, poller

DEVICES = "sys/bus/pci/devices"
NIC = "0000:3b:00.0"


def config(*, payload: int = 256, limit: int = 2048, reads: int = 4096, aspm: int = 0) -> bytes:
    """256 bytes of a device with two capabilities, the second of them PCI Express."""
    raw = bytearray(256)
    raw[0x06] = 0x10
    raw[0x34] = 0x40
    raw[0x40:0x42] = bytes([0x01, 0x70])  # power management
    raw[0x70:0x72] = bytes([0x10, 0x00])
    raw[0x74] = (limit // 128).bit_length() - 1
    control = ((payload // 128).bit_length() - 1) << 5 | ((reads // 128).bit_length() - 1) << 12
    raw[0x78:0x7A] = control.to_bytes(2, "little")
    raw[0x80] = aspm
    return bytes(raw)


def nic(
    root: Path,
    address: str = NIC,
    *,
    node: str = "0",
    driver: str = "vfio-pci",
    group: str = "12",
    raw: bytes | None = None,
    of: str = "",
) -> Path:
    at = root / DEVICES / address
    put(at, {"class": "0x020000", "numa_node": node})
    (at / "config").write_bytes(config() if raw is None else raw)
    if driver:
        link(at / "driver", f"../../../../bus/pci/drivers/{driver}")
    if group:
        link(at / "iommu_group", f"../../../../kernel/iommu_groups/{group}")
    if of:
        link(at / "physfn", f"../{of}")
    return at


def holds(root: Path, pid: int, target: str) -> None:
    link(root / f"proc/{pid}/fd/3", "/dev/null")
    link(root / f"proc/{pid}/fd/4", target)


def test_a_nic_on_the_numa_node_of_its_poller(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    nic(host(tmp_path))
    holds(tmp_path, 100, "/dev/vfio/12")
    result = checks(tmp_path, poller(1), poller(2))[f"nic {NIC}"]
    assert result.state == "ok"
    assert result.text == snapshot


def test_a_nic_on_another_node(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    nic(host(tmp_path))
    holds(tmp_path, 100, "/dev/vfio/12")
    result = checks(tmp_path, poller(2), poller(5), poller(6, pid=200))[f"nic {NIC}"]
    assert result.state == "tune"
    assert result.text == snapshot
    assert result.fix == snapshot
    assert "9.2" in result.why


@pytest.mark.parametrize(
    ("folder", "name", "handle"),
    [
        ("uio", "uio0", "/dev/uio0"),
        ("vfio-dev", "vfio3", "/dev/vfio/devices/vfio3"),
        ("infiniband_verbs", "uverbs1", "/dev/infiniband/uverbs1"),
    ],
)
def test_every_way_to_drive_one(tmp_path: Path, folder: str, name: str, handle: str) -> None:
    at = nic(host(tmp_path), driver="mlx5_core", group="")
    (at / folder / name).mkdir(parents=True)
    holds(tmp_path, 100, handle)
    assert checks(tmp_path, poller(1))[f"nic {NIC}"].state == "ok"


def test_a_nic_of_unknown_node(tmp_path: Path) -> None:
    nic(host(tmp_path), node="-1")
    holds(tmp_path, 100, "/dev/vfio/12")
    result = checks(tmp_path, poller(1))[f"nic {NIC}"]
    assert result.reason is Reason.SOURCE
    assert "node unknown" in result.text


def test_a_nic_that_nobody_drives(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    nic(host(tmp_path))
    (tmp_path / "proc").mkdir()
    result = checks(tmp_path, poller(1))[f"nic {NIC}"]
    assert result.reason is Reason.IDLE
    assert result.text == snapshot
    holds(tmp_path, 300, "/dev/vfio/12")
    assert checks(tmp_path, poller(1))[f"nic {NIC}"].text == snapshot


def test_the_kernel_s_own_are_reported_too(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    at = nic(host(tmp_path), driver="ice", group="")
    (at / "net/ens1f0").mkdir(parents=True)
    result = checks(tmp_path, poller(1))
    assert result["nic"].text == snapshot
    assert result["nic link"].reason is Reason.IDLE


def test_no_nic_at_all(tmp_path: Path) -> None:
    put(host(tmp_path) / DEVICES / "0000:00:1f.0", {"class": "0x060100"})
    assert checks(tmp_path)["nic"].reason is Reason.SOURCE


@pytest.mark.parametrize(
    ("raw", "state", "printed", "fix"),
    [
        (config(), "ok", "payload 256 of 2048 bytes, reads of 4096, ASPM off", ""),
        (
            config(payload=128),
            "tune",
            "payload below 256 (pci=pcie_bus_perf",
            " pci=pcie_bus_perf\"' '",
        ),
        (config(payload=128, limit=128), "tune", "its maximum", ""),
        (
            config(reads=256),
            "tune",
            "reads below 512",
            f"sudo setpci -s {NIC} CAP_EXP+8.w=2000:7000",
        ),
        (config(aspm=2), "tune", "ASPM L1: ASPM is on", "pcie_aspm/parameters/policy"),
        (config()[:64], "permission", "only root can read", "sudo nftop doctor"),
        (bytes(256), "undefined", "not on PCI Express", ""),
        (b"", "undefined", "not on PCI Express", ""),
    ],
)
def test_links(tmp_path: Path, raw: bytes, state: str, printed: str, fix: str) -> None:
    nic(host(tmp_path, DEBIAN), raw=raw)
    (tmp_path / "proc").mkdir()
    result = checks(tmp_path)[f"nic link {NIC}"]
    assert result.state == state
    assert printed in result.text
    assert fix in result.fix and bool(fix) == bool(result.fix)


def test_a_kernel_booted_with_the_parameter_needs_no_command(tmp_path: Path) -> None:
    nic(host(tmp_path, {**DEBIAN, "proc/cmdline": "pci=realloc,noaer"}), raw=config(payload=128))
    assert " pci=realloc,noaer,pcie_bus_perf" in checks(tmp_path)[f"nic link {NIC}"].fix
    host(tmp_path, {"proc/cmdline": "pci=realloc,pcie_bus_perf"})
    result = checks(tmp_path)[f"nic link {NIC}"]
    assert (result.state, result.fix) == ("tune", "")


def test_capabilities_in_a_circle_end(tmp_path: Path) -> None:
    raw = bytearray(config())
    raw[0x41] = 0x40
    nic(host(tmp_path), raw=bytes(raw))
    (tmp_path / "proc").mkdir()
    assert checks(tmp_path)[f"nic link {NIC}"].state == "undefined"


def test_a_virtual_function_has_the_settings_of_its_device(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    nic(host(tmp_path), "0000:3b:00.1", driver="ice", group="")
    nic(tmp_path, of="0000:3b:00.1", raw=config(payload=128, reads=128))
    (tmp_path / "proc").mkdir()
    result = checks(tmp_path)[f"nic link {NIC}"]
    assert result.state == "ok"
    assert result.text == snapshot
