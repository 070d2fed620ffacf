"""Names of virtual machines, by their control group and by QEMU's arguments."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nftop.model.sample import ThreadTable
from nftop.sources.process.scan import vm_name
from nftop.sources.process.source import ProcessSource
from tests.samples import thread
from tests.waiting import until


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["-name", "vm1", "-m", "512"], "vm1"),
        (["-m", "512", "-name", "guest=edge,,7,debug-threads=on"], "edge,7"),
        (["-name", "vm1,process=qemu:vm1"], "vm1"),
        (["-name", "debug-threads=on,guest=vm2"], "vm2"),
        (["-m", "512"], ""),
        (["-name"], ""),
        (["-name", "x" * 500], "x" * 64),
    ],
)
def test_by_its_arguments(tmp_path: Path, arguments: list[str], name: str) -> None:
    (tmp_path / "cmdline").write_bytes("\0".join(["qemu-system-x86_64", *arguments, ""]).encode())
    (tmp_path / "cgroup").write_text("0::/user.slice/session-1.scope\n")
    assert vm_name(tmp_path) == name


def test_by_its_control_group(tmp_path: Path) -> None:
    (tmp_path / "cgroup").write_text(
        "0::/machine.slice/machine-qemu\\x2d3\\x2dvpp\\x2dgw.scope/libvirt/emulator\n"
    )
    (tmp_path / "cmdline").write_bytes(b"qemu\0-name\0guest=other\0")
    assert vm_name(tmp_path) == "vpp-gw"


def test_of_a_process_that_is_gone_or_hides(tmp_path: Path) -> None:
    assert vm_name(tmp_path / "4711") == ""


def test_a_thread_is_called_after_its_machine() -> None:
    vcpu = thread(comm="CPU 0/KVM", role="qemu_vcpu", role_index=0, vm="gw1")
    assert vcpu.label == "gw1 vCPU 0"
    assert thread(comm="CPU 0/KVM", role="qemu_vcpu", role_index=0).label == "CPU 0/KVM"
    assert thread(vm="gw1").label == "rte-worker-1"


def test_a_real_process_that_calls_itself_one(tmp_path: Path) -> None:
    """It spins under the name that QEMU gives such a thread, with QEMU's arguments."""
    spins = "import sys; open('/proc/self/comm', 'w').write('CPU 0/KVM'); print(flush=True)\n"
    spins += "while True: pass"
    python = tmp_path / "qemu-system-x86_64"
    shutil.copy(Path(sys.executable).resolve(), python)
    home = os.environ | {"PYTHONHOME": sys.base_prefix}
    command: list[str | Path] = [python, "-c", spins, "-name", "guest=gw1"]
    source = ProcessSource(scan_every_ns=0)
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=home) as started:
        try:
            assert started.stdout is not None and started.stdout.readline() == b"\n"

            def seen() -> str:
                table = source.read()
                assert isinstance(table, ThreadTable)
                own = [row.label for row in table.threads if row.pid == started.pid]
                return own[0] if own else ""

            until(lambda: seen() == "gw1 vCPU 0")
        finally:
            started.kill()
            source.close()
