"""The private view of the host: mounts that nobody outside sees and that end with its processes.

    /sys/fs/lab/files    static files, by the path of what they stand in for
    /sys/fs/lab/live     what the server answers: resctrl, perf, proc, sys, cpu, cpufreq, ctl

It is a memory file system mounted in the private namespace only, so there is nothing to remove
afterwards.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.lab import syscalls
from tests.lab.server import NAME

LAB = Path("/sys/fs/lab")
FILES, LIVE = LAB / "files", LAB / "live"
RESCTRL = Path("/sys/fs/resctrl")
_SYS_FS = Path("/sys/fs")
_STATE = Path("/var/lib/nftop")
_SYSTEM_CPU = Path("/sys/devices/system/cpu")
_DEVICES = Path("/dev")
_PCI = Path("/proc/bus/pci")
# Where network functions have their sockets, and programs their locks.
_RUNTIME, _LOCKS = (Path("/run"), Path("/var/run")), Path("/run/lock")
# What reaches the real machine past files: MSRs, which pqos and pcm write to, and its memory.
_MSRS, _MEMORY = _DEVICES / "cpu", _DEVICES / "mem"


def enter() -> None:
    """A private mount namespace, a /proc of this PID namespace, and `LAB` with room for resctrl.

    What of the real machine could be written to by mistake for the lab's is not in it: resctrl,
    MSRs, memory, PCI's registers, nftop's journal of changes. Nor are the sockets of its network
    functions, whose CPUs are not the lab's.

    Raises:
        OSError: a privilege is missing; the sentence names the call.
    """
    syscalls.unshare(syscalls.NEW_MOUNTS)
    syscalls.mount("", Path("/"), flags=syscalls.RECURSIVE | syscalls.PRIVATE)
    plain = syscalls.NOSUID | syscalls.NODEV | syscalls.NOEXEC
    syscalls.mount("proc", Path("/proc"), "proc", plain)
    _make_room()
    _cover(_STATE.parent, but=_STATE.name)
    _cover_devices()
    _cover_runtime()
    for folder in (FILES, LIVE, RESCTRL):
        folder.mkdir(parents=True, exist_ok=True)


def furnish(targets: Iterable[str]) -> None:
    """Put what the lab serves where programs look for it.

    Args:
        targets: absolute paths, each of which has its stand-in below `FILES`.

    Raises:
        OSError: this kernel has nothing there that could be stood in for.
    """
    for target in targets:
        syscalls.bind(FILES / target[1:], Path(target), read_only=True)
    for root in ("proc", "sys"):
        for served in sorted((LIVE / root).iterdir()):
            # Named as sysctl(8) does: with dots where the path has slashes.
            file = Path("/", root, *served.name.split("."))
            syscalls.bind(served, file, follow=not file.is_symlink())
    syscalls.bind(LIVE / "cpu", _MSRS)
    for served in sorted((LIVE / "cpufreq").iterdir()):
        syscalls.bind(served, _SYSTEM_CPU / served.name)


def change_programs(copies: Mapping[Path, bytes]) -> None:
    """Show a copy in place of each of these files.

    Raises:
        OSError: one is not there.
    """
    for path, data in copies.items():
        copy = FILES / str(path)[1:]
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(data)
        copy.chmod(0o755)
        syscalls.bind(copy, path)


def mount_resctrl(options: str = "", target: Path = RESCTRL) -> None:
    """Do what a mount(2) of resctrl with these options asks for, for all programs of the lab.

    Raises:
        OSError: as the kernel's: EBUSY if it is mounted, EINVAL if there is no such option.
    """
    _order(f"mount {_escaped(target)} {options}")
    try:
        syscalls.bind(LIVE / "resctrl", target)
    except OSError:
        _order("unmount")
        raise


def is_resctrl(target: Path) -> bool:
    """Whether it is mounted there."""
    where, _, _ = (LIVE / "ctl" / "resctrl").read_bytes().partition(b" ")
    return where == os.fsencode(_escaped(target))


def unmount_resctrl(target: Path) -> None:
    """Do what a umount(2) of where it is mounted asks for.

    Raises:
        OSError: EBUSY if a file of it is open.
    """
    syscalls.unmount(target)
    _order("unmount")


def _escaped(path: Path) -> str:
    """As /proc/mounts has it."""
    return re.sub(r"[ \t\n\\#]", lambda blank: f"\\{ord(blank[0]):03o}", str(path))


def _order(line: str) -> None:
    handle = os.open(LIVE / "ctl" / "resctrl", os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(handle, os.fsencode(line))
    finally:
        os.close(handle)


def _make_room() -> None:
    """A /sys/fs that folders can be made in, showing what the real one has but for resctrl.

    The real resctrl is not even under the lab's, where an unmount would bring it to light.
    """
    while RESCTRL.is_mount():
        syscalls.unmount(RESCTRL, lazily=True)
    _cover(_SYS_FS, but=RESCTRL.name)


def _cover(folder: Path, but: str) -> None:
    """A folder that others can be made in, showing those of the real one but for one."""
    real = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        names = sorted(
            entry.name for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)
        )
        syscalls.mount(NAME, folder, "tmpfs", syscalls.NOSUID | syscalls.NODEV, "mode=0755")
        for name in names:
            if name != but:
                (folder / name).mkdir()
                # By the descriptor: the path leads to the new one by now.
                syscalls.bind(Path(f"/proc/self/fd/{real}/{name}"), folder / name)
    finally:
        os.close(real)


def _cover_runtime() -> None:
    for folder in _RUNTIME:
        if not folder.is_symlink():
            syscalls.mount(NAME, folder, "tmpfs", syscalls.NOSUID | syscalls.NODEV, "mode=0755")
    _LOCKS.mkdir()
    _LOCKS.chmod(0o1777)


def _cover_devices() -> None:
    if not _MSRS.is_dir():
        _own_devices()
        _MSRS.mkdir()
    # The real ones are not even under the lab's. Of PCI's registers, which pcm writes too, there
    # are none.
    flags = syscalls.NOSUID | syscalls.NODEV | syscalls.READ_ONLY
    for folder in (_MSRS, *[_PCI] * _PCI.is_dir()):
        syscalls.mount(NAME, folder, "tmpfs", flags, "mode=0755")
    if _MEMORY.exists():
        # A device that is not to be opened, as none is on such a mount.
        syscalls.bind(Path("/dev/null"), _MEMORY, read_only=True)


def _own_devices() -> None:
    """A /dev that a folder can be made in, showing what the real one has."""
    real = os.open(_DEVICES, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        entries = list(os.scandir(_DEVICES))
        links = {item.name: Path(item.path).readlink() for item in entries if item.is_symlink()}
        folders = {item.name for item in entries if item.is_dir(follow_symlinks=False)}
        syscalls.mount(NAME, _DEVICES, "tmpfs", syscalls.NOSUID, "mode=0755")
        for entry in entries:
            here = _DEVICES / entry.name
            if entry.name in links:
                here.symlink_to(links[entry.name])
                continue
            here.mkdir() if entry.name in folders else here.touch()
            syscalls.bind(Path(f"/proc/self/fd/{real}/{entry.name}"), here)
    finally:
        os.close(real)
