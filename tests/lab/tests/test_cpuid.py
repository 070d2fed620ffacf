"""CPUID of a lab's CPU, and the copies of programs that ask the lab for it."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest

from nftop.sim import scenario
from nftop.sim.model import model_of
from tests.lab import machine
from tests.lab.cpuid import leaves, programs
from tests.lab.cpuid.rewrite import UnfitError, cpuids, rewritten
from tests.lab.files import topology_of
from tests.lab.resctrl.hardware import FEATURES, hardware_of

_HEADER, _SEGMENT = struct.Struct("<16sHHIQQQIHHHHHH"), struct.Struct("<IIQQQQQQ")
_CODE_AT, _DYNAMIC_AT, _SIZE = 0x1000, 0x2000, 0x3000
_CPUID = bytes.fromhex("b8040000000fa2c3")  # mov $4, %eax; cpuid; ret


def library(code: bytes, *, init: int | None = 0x1000, code_bytes: int | None = None) -> bytes:
    """A shared object with nothing in it but code and, unless None, a DT_INIT."""
    count = len(code) if code_bytes is None else code_bytes
    rows = [
        (1, 5, _CODE_AT, 0x1000, 0x1000, count, count, 0x1000),
        (2, 6, _DYNAMIC_AT, 0x2000, 0x2000, 32, 32, 8),
    ]
    magic = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    head = _HEADER.pack(magic, 3, 62, 1, 0, 64, 0, 0, 64, 56, len(rows), 0, 0, 0)
    head += b"".join(_SEGMENT.pack(*row) for row in rows)
    dynamic = b"" if init is None else struct.pack("<qQ", 12, init)
    data = bytearray(_SIZE)
    data[: len(head)] = head
    data[_CODE_AT : _CODE_AT + len(code)] = code
    data[_DYNAMIC_AT : _DYNAMIC_AT + len(dynamic)] = dynamic
    return bytes(data)


def test_cpuid_instructions_become_breakpoints_and_their_handler_is_set_up_first() -> None:
    before = library(_CPUID)
    after = rewritten(before)
    assert after[_CODE_AT : _CODE_AT + 8] == _CPUID.replace(b"\x0f\xa2", b"\xcc\x90")
    (entry,) = struct.unpack_from("<Q", after, _DYNAMIC_AT + 8)
    assert entry == 0x1010  # after the code, which ends at 0x1008
    (segment,) = struct.unpack_from("<Q", after, 64 + 32)
    added = after[entry : 0x1000 + segment]
    assert after[:64] == before[:64]
    assert not any(before[entry : 0x1000 + segment])
    # The jump at the end of what was added first goes where DT_INIT pointed to.
    jump_at = added.index(b"\x5a\x5e\x5f\xe9") + 4
    (distance,) = struct.unpack_from("<i", added, jump_at)
    assert entry + jump_at + 4 + distance == 0x1000
    assert rewritten(after) == after


def test_two_bytes_within_another_instruction_are_no_cpuid() -> None:
    within = bytes.fromhex("e80fa20000" * 4)  # call +0xa20f
    assert list(cpuids(within)) == []
    assert list(cpuids(within + _CPUID)) == [len(within) + 5]
    assert rewritten(library(within)) == library(within)


@pytest.mark.parametrize(
    "data",
    [
        b"#!/bin/sh\n",
        library(_CPUID, init=None),
        library(_CPUID, code_bytes=0xFC0),  # no room on its last page
        library(_CPUID.ljust(16, b"\0") + b"!", code_bytes=8),  # and something that is no padding
    ],
    ids=["script", "no DT_INIT", "full", "occupied"],
)
def test_what_can_not_be_changed_is_not(data: bytes) -> None:
    with pytest.raises(UnfitError):
        rewritten(data)


def test_only_programs_that_ask_are_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {
        "usr/lib/libpqos.so.4.5.0": library(_CPUID),
        "usr/sbin/pcm": library(b"\xc3"),
        "usr/bin/pcm": b"#!/bin/sh\n",
        "usr/local/sbin/pcm-sensor-server": library(_CPUID, code_bytes=0xFC0),
        "usr/lib/libother.so": library(_CPUID),
    }
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    real = tmp_path / "usr/lib/libpqos.so.4.5.0"
    (tmp_path / "usr/lib/libpqos.so.4").symlink_to(real)
    assert programs.changed_copies(tmp_path) == {real: rewritten(library(_CPUID))}
    assert real.read_bytes() == library(_CPUID)
    printed = capsys.readouterr().err
    assert printed.count("sees the real CPU") == 1
    assert "pcm-sensor-server" in printed


@pytest.mark.skipif(
    shutil.which("pqos") is None, reason="no pqos here: apt-get install intel-cmt-cat"
)
def test_libpqos_is_called_from_one_module() -> None:
    [(path, copy)] = [
        changed_copy
        for changed_copy in programs.changed_copies().items()
        if changed_copy[0].name.startswith("libpqos")
    ]
    before = path.read_bytes()
    assert before.count(b"\x0f\xa2") == 1
    assert copy.count(b"\xcc\x90") == before.count(b"\xcc\x90") + 1


def cpu(name: str, number: int, count: int = 16) -> leaves.Cpu:
    own = machine.load(name)
    topology = topology_of(own, model_of(scenario.load("default"), count).layout.topology)
    hardware = hardware_of(own.tables["resctrl"], topology, boot=FEATURES)
    return leaves.Cpu(own, topology, hardware, topology.cpus[number])


def test_a_recording_names_its_writer_and_version() -> None:
    requested = cpu("skx-4", 0)
    last, *letters = leaves.answer(requested, 0, 0)
    assert last == 22
    assert struct.pack("<3I", letters[0], letters[2], letters[1]) == b"GenuineIntel"
    assert leaves.answer(requested, 1, 0)[0] == 0x50654
    assert leaves.answer(cpu("icx", 0), 1, 0)[0] == 0x606A6
    brand = b"".join(
        struct.pack("<4I", *leaves.answer(requested, 0x80000002 + component, 0))
        for component in range(3)
    )
    assert brand.rstrip(b"\0") == b"LAB: virtual Intel(R) Xeon(R) Gold 6152 CPU @ 2.10GHz"[:47]


@pytest.mark.parametrize("leaf", [0x17, 0x40000000, 0x80000009, 0xFFFFFFFF, 0x2])
def test_a_leaf_that_is_absent_is_all_zeros(leaf: int) -> None:
    assert leaves.answer(cpu("skx-4", 0), leaf, 0) == (0, 0, 0, 0)


@pytest.mark.parametrize("count", [8, 88, 256])
def test_every_cpu_has_an_apic_id_of_its_own_that_reports_package_and_core(count: int) -> None:
    first = cpu("skx-7", 0, count)
    seen: dict[int, tuple[int | None, int | None]] = {}
    for info in first.topology.cpus:
        requested = leaves.Cpu(first.machine, first.topology, first.hardware, info)
        (smt, threads, _, one), (shift, inside, _, two) = (
            leaves.answer(requested, 0xB, level) for level in (0, 1)
        )
        assert one == two
        assert (threads, inside) == (2, count // 2)
        assert one >> shift == info.package
        seen[one] = (info.package, info.core)
        core = {result for key, result in seen.items() if key >> smt == one >> smt}
        assert core == {(info.package, info.core)}
        assert one & 0xFF == leaves.answer(requested, 1, 0)[1] >> 24
    assert len(seen) == count


@pytest.mark.parametrize("name", ["bdx", "skx-4", "skx-7", "icx", "spr"])
def test_it_reports_the_rdt_of_its_machine(name: str) -> None:
    """Whatever of it the kernel hides: it is the CPU that is asked."""
    requested = cpu(name, 3)
    own = requested.machine.tables["resctrl"]
    features = leaves.answer(requested, 7, 0)[1]
    assert features >> 12 & 1
    assert features >> 15 & 1
    bits, shareable, flags, classes = leaves.answer(requested, 0x10, 1)
    allocation = own["allocation"]
    assert (bits + 1, shareable) == (allocation["ways"], allocation["shareable_bits"])
    assert (flags >> 2 & 1, classes + 1) == (1, allocation["closids"])
    most, _, linear, limited = leaves.answer(requested, 0x10, 3)
    if name == "bdx":
        assert (most, linear, limited) == (0, 0, 0)
    else:
        assert (most + 1, linear >> 2, limited + 1) == (90, 1, own["bandwidth"]["closids"])
    assert leaves.answer(requested, 0x10, 0)[1] == (0b0010 if name == "bdx" else 0b1010)
    _, scale, last, events = leaves.answer(requested, 0xF, 1)
    assert (scale, last + 1, events) == (65536, own["monitoring"]["rmids"], 0b111)
    assert leaves.answer(requested, 0xF, 0) == (0, last, 0, 2)


def test_its_caches_are_those_of_sysfs() -> None:
    requested = cpu("icx", 5)
    result = []
    for index in range(4):
        eax, ebx, sets, _ = leaves.answer(requested, 4, index)
        ways, line = (ebx >> 22) + 1, (ebx & 0xFFF) + 1
        result.append(((eax >> 5) & 7, eax & 0x1F, ways, ways * line * (sets + 1)))
    caches = requested.machine.tables["sysfs"]["caches"]
    kinds = {"Data": 1, "Instruction": 2, "Unified": 3}
    assert result == [
        *(
            (cache["level"], kinds[cache["type"]], cache["ways"], cache["bytes"])
            for cache in caches
        ),
        (3, 3, 12, 4 * 1572864),
    ]
    assert leaves.answer(requested, 4, 4) == (0, 0, 0, 0)
