"""Memory modules of firmware and slots of network devices, from a tree of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from nftop.model.topology import Capacity, NicSlot
from nftop.sources.host.topology import link_bytes_per_s, read_capacity


def module(
    root: Path,
    number: int,
    *,
    size: int = 0x4000,
    speed: int = 2400,
    configured: int = 2133,
    length: int = 0x28,
    kind: int = 0x1A,
) -> None:
    raw = bytearray(length)
    raw[0], raw[1], raw[0x12] = 17, length, kind
    raw[0x0C:0x0E] = size.to_bytes(2, "little")
    raw[0x15:0x17] = speed.to_bytes(2, "little")
    if length >= 0x22:
        raw[0x20:0x22] = configured.to_bytes(2, "little")
    folder = root / f"sys/firmware/dmi/entries/17-{number}"
    folder.mkdir(parents=True)
    (folder / "raw").write_bytes(raw)


def device(
    root: Path,
    address: str,
    *,
    speed: str = "8.0 GT/s PCIe",
    width: int = 8,
    node: int = 0,
    kind: str = "0x020000",
) -> Path:
    folder = root / "sys/bus/pci/devices" / address
    folder.mkdir(parents=True)
    for name, text in (
        ("class", kind),
        ("current_link_speed", speed),
        ("current_link_width", width),
        ("numa_node", node),
    ):
        (folder / name).write_text(f"{text}\n")
    return folder


def test_nothing_is_known_without_files(tmp_path: Path) -> None:
    assert read_capacity(tmp_path) == Capacity()
    assert read_capacity(tmp_path, 70e9) == Capacity(memory_bytes_per_s=70e9)


def test_modules_and_their_configured_speed(tmp_path: Path) -> None:
    for number in range(4):
        module(tmp_path, number)
    module(tmp_path, 4, size=0)  # an empty slot
    module(tmp_path, 5, kind=0x09)  # flash
    read = read_capacity(tmp_path)
    assert (read.memory_modules, read.memory_transfers_per_s) == (4, 2.133e9)


def test_an_older_table_has_the_modules_speed_alone(tmp_path: Path) -> None:
    module(tmp_path, 0, length=0x1B)
    module(tmp_path, 1, configured=0)
    module(tmp_path, 2, speed=0, configured=0)
    module(tmp_path, 3, speed=0xFFFF, configured=0xFFFF)
    read = read_capacity(tmp_path)
    assert (read.memory_modules, read.memory_transfers_per_s) == (4, 2.4e9)


@pytest.mark.parametrize("raw", [b"", b"\x11", b"\x10" * 40])
def test_a_table_that_is_none_is_no_module(tmp_path: Path, raw: bytes) -> None:
    module(tmp_path, 0)
    (tmp_path / "sys/firmware/dmi/entries/17-0/raw").write_bytes(raw)
    assert read_capacity(tmp_path) == Capacity()


def test_slots_are_of_network_devices_and_counted_once(tmp_path: Path) -> None:
    physical = device(tmp_path, "0000:3b:00.0")
    device(tmp_path, "0000:3b:00.1")  # another function in the same slot
    device(tmp_path, "0000:d8:00.0", speed="2.5 GT/s", width=4, node=-1)
    device(tmp_path, "0000:01:00.0", kind="0x010802")
    device(tmp_path, "0000:02:00.0", speed="Unknown", width=0)
    virtual = device(tmp_path, "0000:3c:02.0")
    (virtual / "physfn").symlink_to(physical)
    here, unknown = read_capacity(tmp_path).nic_slots
    assert (here.address, here.node) == ("0000:3b:00", 0)
    assert here.bytes_per_s == pytest.approx(8e9 * 8 * 128 / 130 / 8)
    assert unknown == NicSlot("0000:d8:00", None, 1e9)


@pytest.mark.parametrize(
    ("speed", "width", "bytes_per_s"),
    [
        ("2.5 GT/s PCIe", 1, 0.25e9),
        ("5.0 GT/s PCIe", 8, 4e9),
        ("8.0 GT/s PCIe", 8, 7.877e9),
        ("16.0 GT/s PCIe", 16, 31.51e9),
        ("32.0 GT/s PCIe", 16, 63.02e9),
        ("64.0 GT/s PCIe", 16, 118e9),
        ("Unknown", 8, 0.0),
        ("8.0 GT/s PCIe", 0, 0.0),
        ("8.0 GT/s PCIe", 255, 0.0),
        ("", None, 0.0),
    ],
)
def test_data_of_a_link(speed: str, width: int | None, bytes_per_s: float) -> None:
    assert link_bytes_per_s(speed, width) == pytest.approx(bytes_per_s, rel=1e-3)
