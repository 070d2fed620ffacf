"""What /proc says of a process that harms others: its container, and its memory by node."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.model.ids import Cpu
from nftop.sources.host import sysfs
from nftop.sources.host.sysfs import read_up_to
from nftop.sources.process.facts import container_of, culprit_facts, node_bytes, process_facts
from nftop.sources.process.scan import vm_name

ID = "1f2e3d4c5b6a" + "0123456789abcdef" * 3 + "0123"
UID = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
SLICE = f"kubepods-burstable-pod{UID.replace('-', '_')}.slice"

USER = "/user.slice/user-1000.slice/user@1000.service"


@pytest.mark.parametrize(
    ("cgroups", "expected"),
    [
        (f"0::/system.slice/docker-{ID}.scope\n", "docker 1f2e3d4c5b6a"),
        (f"0::/docker/{ID}\n", "docker 1f2e3d4c5b6a"),
        (
            f"0::/kubepods.slice/kubepods-burstable.slice/{SLICE}/cri-containerd-{ID}.scope\n",
            "pod 0f1e2d3c containerd 1f2e3d4c5b6a",
        ),
        (f"0::/kubepods.slice/{SLICE}/crio-{ID}.scope\n", "pod 0f1e2d3c crio 1f2e3d4c5b6a"),
        (f"0::/kubepods/besteffort/pod{UID}/{ID}\n", "pod 0f1e2d3c container 1f2e3d4c5b6a"),
        (f"0::/../../kubepods/pod{UID}/{ID}\n", "pod 0f1e2d3c container 1f2e3d4c5b6a"),
        (f"0::/machine.slice/libpod-{ID}.scope/container\n", "libpod 1f2e3d4c5b6a"),
        ("0::/machine.slice/machine-qemu\\x2d3\\x2dgw1.scope/libvirt/emulator\n", "vm gw1"),
        ("0::/machine.slice/machine-qemu\\x2d12\\x2dedge\\x2dgw.scope\n", "vm edge-gw"),
        ("0::/lxc.payload.web01/init.scope\n", "lxc web01"),
        ("0::/system.slice/irqbalance.service\n", "irqbalance.service"),
        (
            "0::/user.slice/user-1000.slice/user@1000.service/app.slice/a\\x2db.scope\n",
            "user a\\x2db.scope",
        ),
        # What a user names in a delegated subtree is not the unit.
        ("0::/system.slice/vpp.service/evil.service\n", "vpp.service"),
        (f"0::/system.slice/vpp.service/docker-{ID}.scope\n", "vpp.service"),
        (
            f"0::/system.slice/containerd.service/kubepods/pod{UID}/{ID}\n",
            "pod 0f1e2d3c container 1f2e3d4c5b6a",
        ),
        # Nor is it another's container, which a remedy would confine.
        (f"0::{USER}/docker-{ID}.scope\n", "user docker 1f2e3d4c5b6a"),
        (f"0::{USER}/user.slice/libpod-{ID}.scope/container\n", "user libpod 1f2e3d4c5b6a"),
        (f"0::{USER}/kubepods/pod{UID}/{ID}\n", "user pod 0f1e2d3c container 1f2e3d4c5b6a"),
        (f"0::{USER}/machine-qemu\\x2d3\\x2dgw1.scope\n", "user vm gw1"),
        (f"0::{USER}/lxc.payload.web01\n", "user lxc web01"),
        ("0::/system.slice/system-a.slice/a@1.service\n", "a@1.service"),
        (
            "0::/user.slice/user-7.slice/user@7.service/x\\x1b\\x0a.service\n",
            "user x\\x1b\\x0a.service",
        ),
        ("0::/init.scope\n", "unit init.scope"),
        ("0::/\n", ""),
        ("", ""),
        # Version 1: containers are in every hierarchy, units in systemd's.
        (f"12:cpuset:/docker/{ID}\n1:name=systemd:/docker/{ID}\n0::/\n", "docker 1f2e3d4c5b6a"),
        ("4:cpu,cpuacct:/\n1:name=systemd:/system.slice/vpp.service\n", "vpp.service"),
    ],
)
def test_a_control_group_names_its_container_or_unit(cgroups: str, expected: str) -> None:
    assert container_of(cgroups) == expected


@given(st.text(max_size=400))
def test_any_text_of_a_control_group_gives_a_short_name(text: str) -> None:
    assert len(container_of(text)) <= 64
    assert len(container_of(f"0::/{text}")) <= 64


def test_memory_by_node_is_of_huge_pages_if_present() -> None:
    small = "7f00 default anon=3 dirty=3 N0=2 N1=1 kernelpagesize_kB=4\n"
    huge = (
        "7f10 bind:0 file=/dev/hugepages/rtemap_0 huge dirty=4 N0=1 N1=3 kernelpagesize_kB=2048\n"
        "7f20 bind:0 file=/dev/hugepages/rtemap_1 huge dirty=1 N1=1 kernelpagesize_kB=1048576\n"
        "7f30 default stack\n"
    )
    assert node_bytes(small) == ((0, 8192), (1, 4096))
    assert node_bytes(small + huge) == ((0, 2 << 20), (1, (6 << 20) + (1 << 30)))
    assert node_bytes("") == ()


@given(st.text(max_size=200))
def test_any_text_of_memory_is_read(text: str) -> None:
    assert all(size >= 0 for _, size in node_bytes(text))


def test_facts_of_a_culprit_have_no_command_line() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            facts = culprit_facts(process.pid, Cpu(3), True)
        finally:
            process.kill()
    assert facts is not None
    assert (facts.cpu, facts.command, facts.pid) == (3, "", process.pid)
    assert culprit_facts(process.pid, Cpu(3), True) is None


def test_names_and_arguments_that_are_no_utf_8_are_text() -> None:
    """Any user can run such a process, and no writer takes halves of surrogate pairs."""
    program = (
        "import pathlib, sys; pathlib.Path('/proc/self/comm').write_bytes(b'a\\xff\\xfe'); "
        "print(flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-S", "-c", program, os.fsdecode(b"x\xff")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout
        process.stdout.readline()
        facts = process_facts(process.pid, Cpu(0))
        culprit = culprit_facts(process.pid, Cpu(0), False)
        process.stdin.close()
    assert facts is not None and culprit is not None
    assert facts.name == culprit.name == "a\\xff\\xfe"
    assert facts.command.endswith(" x\\xff")


def test_a_process_that_holds_its_own_memory_delays_nothing_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Any user can keep the kernel from reading a command line: the read never ends."""
    ends, opened = threading.Event(), list[str]()

    def hang(path: str, limit: int) -> bytes:
        if path.endswith("cmdline"):
            opened.append(path)
            ends.wait()
        return read_up_to(path, limit)

    monkeypatch.setattr(sysfs, "read_up_to", hang)
    monkeypatch.setattr(sysfs, "_PATIENCE_S", 0.0)
    with subprocess.Popen(["sleep", "60"]) as process:
        path = f"/proc/{process.pid}/cmdline"
        try:
            assert vm_name(Path(path).parent) == ""
            facts = process_facts(process.pid, Cpu(0))
            for number in range(2 * sysfs._MOST_STUCK):
                with pytest.raises(TimeoutError):
                    sysfs.read_in_time(f"/proc/{number}/cmdline", 10)
            ends.set()
            for thread in threading.enumerate():
                if thread.name == "nftop-read":
                    thread.join()
            monkeypatch.setattr(sysfs, "_PATIENCE_S", None)
            again = process_facts(process.pid, Cpu(0))
        finally:
            ends.set()
            process.kill()
    assert opened[:-1] == [path, *(f"/proc/{number}/cmdline" for number in range(3))]
    assert facts is not None and (facts.name, facts.command) == ("sleep", "")
    assert again is not None and again.command == "sleep 60"
