"""A stage for tests of perf alone: `python -m tests.lab.tests.stage MACHINE -- COMMAND`.

Inside `unshare -m`: a FUSE mount of a PerfTree, the machine's files over the host's, and the
command under the supervisor, with the model's start by CLOCK_MONOTONIC in STAGE_START_NS.
The lab's own server and namespace replace it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nftop.sim import scenario
from nftop.sim.model import model_of
from tests.lab import machine as machines
from tests.lab.perf.supervisor import Mount, run
from tests.lab.perf.sysfs import perf_files, sysctl_files
from tests.lab.perf.tree import PerfTree
from tests.lab.tree import Caller, Handle

CPUS = 16


class _Operations:
    use_ns = True

    def __init__(self, tree: PerfTree) -> None:
        self._tree = tree
        self._handles: dict[int, Handle] = {}

    def getattr(self, path: str, fi: Any = None) -> dict[str, int]:
        entry = self._tree.lookup(path)
        return {"st_mode": (0o040000 if entry.folder else 0o100000) | entry.mode, "st_nlink": 1}

    def readdir(self, path: str, fi: Any) -> list[str]:
        return [".", "..", *self._tree.names(path)]

    def open(self, path: str, fi: Any) -> int:
        handle = self._tree.open(path, fi.flags, Caller(0, 0, 0))
        fi.fh, fi.direct_io = id(handle), 1
        self._handles[fi.fh] = handle
        return 0

    def read(self, path: str, size: int, offset: int, fi: Any) -> bytes:
        return self._handles[fi.fh].read(size, offset)

    def ioctl(self, path: str, request: int, arg: Any, fi: Any, flags: int, data: Any) -> int:
        request &= 0xFFFFFFFF
        size = request >> 16 & 0x3FFF
        buffer = bytearray(ctypes.string_at(data, size)) if size else None
        result = self._handles[fi.fh].ioctl(request, arg or 0, buffer)
        if buffer is not None:
            ctypes.memmove(data, bytes(buffer), size)
        return result

    def release(self, path: str, fi: Any) -> int:
        self._handles.pop(fi.fh).close()
        return 0


def serve(name: str, folder: str) -> None:
    import mfusepy

    start_ns = int(os.environ["STAGE_START_NS"])
    tree = PerfTree(
        machines.load(name),
        model_of(scenario.load("default"), CPUS),
        lambda: time.monotonic_ns() - start_ns,
    )
    options = {"attr_timeout": 0, "entry_timeout": 0, "negative_timeout": 0}
    mfusepy.FUSE(_Operations(tree), folder, raw_fi=True, foreground=True, nothreads=True, **options)


def write(folder: Path, files: Mapping[str, bytes]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
    return folder


def main() -> int:
    name, command = sys.argv[1], sys.argv[3:]
    os.environ["STAGE_START_NS"] = str(time.monotonic_ns())
    machine = machines.load(name)
    with tempfile.TemporaryDirectory(prefix="stage-") as text:
        top = Path(text)
        perf = write(top / "perf", {})
        perf.mkdir()
        server = os.fork()
        if not server:
            serve(name, str(perf))
            os._exit(0)
        mounted: list[str] = [str(perf)]
        try:
            while not os.path.ismount(perf):
                time.sleep(0.01)
            for target, source in _binds(top, machine).items():
                subprocess.run(["mount", "--bind", str(source), target], check=True)
                mounted.append(target)
            return run(command, perf, cpus=CPUS, on_mount=_on_mount)
        finally:
            subprocess.run(["umount", "-l", *mounted], check=False)
            os.kill(server, signal.SIGKILL)


def _binds(top: Path, machine: machines.Machine) -> dict[str, Path]:
    write(top, sysctl_files(machine))
    return {
        "/sys/bus/event_source/devices": write(top / "devices", perf_files(machine)),
        **{f"/proc/sys/kernel/{each}": top / each for each in sysctl_files(machine)},
        "/sys/devices/system/cpu": write(top / "cpu", _cpu_files()),
    }


def _cpu_files() -> dict[str, bytes]:
    files = dict.fromkeys(("online", "possible", "present"), b"0-%d\n" % (CPUS - 1))
    for info in model_of(scenario.load("default"), CPUS).layout.topology.cpus:
        siblings = ",".join(str(cpu) for cpu in sorted([info.cpu, *info.siblings]))
        for name, text in {
            "physical_package_id": info.package,
            "die_id": 0,
            "core_id": info.core,
            "core_cpus_list": siblings,
            "thread_siblings_list": siblings,
        }.items():
            files[f"cpu{info.cpu}/topology/{name}"] = f"{text}\n".encode()
    return files


def _on_mount(mount: Mount) -> int | None:
    if mount.target != "/sys/fs/resctrl":
        return None
    return errno.EBUSY if mount.options == "cdp" else 0


if __name__ == "__main__":
    sys.exit(main())
