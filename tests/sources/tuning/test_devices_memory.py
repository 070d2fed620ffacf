from __future__ import annotations

import struct
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.model.missing import Reason
from nftop.sources.tuning.devices import size_mb
from tests.sources.tuning.hosts import NODES, checks, host, poller

SKX = "processor : 0\nvendor_id : GenuineIntel\ncpu family : 6\nmodel : 85\nstepping : 4\n"
EDAC = "sys/devices/system/edac/mc"
PMUS = "sys/bus/event_source/devices"


def pages(node: int, kb: int, reserved: int, free: int) -> dict[str, str]:
    at = f"{NODES}/node{node}/hugepages/hugepages-{kb}kB"
    return {f"{at}/nr_hugepages": str(reserved), f"{at}/free_hugepages": str(free)}


def test_huge_pages_are_wanted_on_the_nodes_of_network_functions(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    host(tmp_path, pages(0, 2048, 512, 100) | pages(0, 1048576, 4, 4) | pages(1, 2048, 0, 0))
    fine = checks(tmp_path, poller(2))["huge pages"]
    assert fine.state == "ok"
    assert fine.text == snapshot
    check = checks(tmp_path, poller(5))["huge pages"]
    assert check.state == "tune"
    assert check.text == snapshot
    at = f"/{NODES}/node1/hugepages/hugepages-2048kB/nr_hugepages"
    assert check.fix == f"echo 1024 | sudo tee {at}"
    # Whoever else polls may need none.
    assert checks(tmp_path, poller(5, kind=""))["huge pages"].state == "ok"


def test_huge_pages_of_a_kernel_without_nodes(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    at = "sys/kernel/mm/hugepages/hugepages-2048kB"
    host(tmp_path, {f"{at}/nr_hugepages": "0", f"{at}/free_hugepages": "0"})
    assert checks(tmp_path)["huge pages"].reason is Reason.IDLE
    host(tmp_path, {f"{at}/nr_hugepages": "8"})
    assert checks(tmp_path)["huge pages"].text == snapshot


def test_a_kernel_without_huge_pages(tmp_path: Path) -> None:
    assert checks(host(tmp_path), poller(1))["huge pages"].reason is Reason.HARDWARE


def edac(controller: int, *megabytes: int) -> dict[str, str]:
    """A controller with a slot in each channel; 0 is an empty one, which has no folder."""
    at = f"{EDAC}/mc{controller}"
    files = {f"{at}/max_location": f"channel {len(megabytes) - 1} slot 0 "}
    for channel, size in enumerate(megabytes):
        if size:
            dimm = f"{at}/dimm{channel}"
            files |= {
                f"{dimm}/dimm_location": f"channel {channel} slot 0 ",
                f"{dimm}/size": str(size),
            }
    return files


def test_channels_that_are_all_filled_alike(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    check = checks(host(tmp_path, edac(0, 16384, 16384) | edac(1, 16384, 16384)))["memory channels"]
    assert check.state == "ok"
    assert check.text == snapshot


def test_an_empty_channel_and_uneven_ones(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    empty = checks(host(tmp_path, edac(0, 16384, 0, 16384)))["memory channels"]
    assert empty.state == "tune"
    assert empty.text == snapshot
    bare = checks(host(tmp_path, edac(1, 0, 0)))["memory channels"]
    assert bare.text == snapshot
    uneven = checks(host(tmp_path, edac(1, 16384, 32768)))["memory channels"]
    assert uneven.state == "tune"


def memory_device(megabytes: int, *, flash: bool = False) -> bytes:
    """A structure of type 17 as SMBIOS 2.7 lays it out, without its strings."""
    big = megabytes >= 0x7FFF
    raw = struct.pack(
        "<BBHHHHHHBBBBBHHBBBBIH",
        17,
        0x22,
        1,
        2,
        0xFFFE,
        72,
        64,
        0x7FFF if big else megabytes,
        9,
        0,
        1,
        2,
        9 if flash else 0x1A,
        0x80,
        2400,
        3,
        4,
        5,
        6,
        0,
        0,
    )
    raw = raw[:0x1C] + struct.pack("<I", megabytes if big else 0)
    return raw + bytes(0x22 - len(raw)) + b"\0\0"


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (memory_device(16384), 16384),
        (memory_device(65536), 65536),
        (memory_device(0), 0),
        (memory_device(16, flash=True), None),
        (memory_device(16384)[:10], None),
        (b"", None),
        (b"\x10" + memory_device(16384)[1:], None),
    ],
)
def test_a_slot_as_firmware_reports_it(raw: bytes, expected: int | None) -> None:
    assert size_mb(raw) == expected


def test_without_edac_slots_are_reported_and_channels_are_not(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    host(tmp_path, {f"{PMUS}/uncore_imc_{n}/type": "20" for n in range(4)})
    for number, size in enumerate([32768, 32768, 0]):
        at = tmp_path / f"sys/firmware/dmi/entries/17-{number}"
        at.mkdir(parents=True)
        (at / "raw").write_bytes(memory_device(size))
    check = checks(tmp_path)["memory channels"]
    assert check.reason is Reason.SOURCE
    assert check.text == snapshot
    assert check.fix == "", "of which CPU is unknown"
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text(SKX)
    assert checks(tmp_path)["memory channels"].fix == "sudo modprobe skx_edac"


def test_nothing_reports_memory(tmp_path: Path) -> None:
    check = checks(host(tmp_path))["memory channels"]
    assert (check.reason, check.fix) == (Reason.SOURCE, "")


def test_nodes_of_a_package(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    assert checks(host(tmp_path))["clusters"].text == snapshot
    host(tmp_path, {f"{NODES}/node0/cpulist": "0-1", f"{NODES}/node2/cpulist": "2-3"})
    check = checks(tmp_path)["clusters"]
    assert (check.state, check.fix) == ("ok", "")
    assert check.text == snapshot
