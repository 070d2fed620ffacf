"""Files of resctrl: reading, the mount, the lock. nftop never mounts it: that changes the host."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from nftop.model.missing import Missing, Reason
from nftop.model.rdt.rdt import MbaUnit
from nftop.model.struct import dataclass
from nftop.sources.host.sysfs import link_target, numbered, read_up_to, unreadable, writable_name
from nftop.sources.host.topology import read_cpuid

# More than any file but `tasks` has, on any host; that one has a line for every thread.
_LIMIT_BYTES = 1 << 16
TASKS_BYTES = 1 << 22
_FLAGS_BYTES = 1 << 14  # the first CPU's part of /proc/cpuinfo

_ESCAPE = re.compile(r"\\([0-7]{3})")

T = TypeVar("T")


def read_text(path: str, limit: int = _LIMIT_BYTES) -> str:
    """A file's text. Raises OSError."""
    return read_up_to(path, limit).decode("ascii", "replace")


def read_as(path: str, parse: Callable[[str], T], limit: int = _LIMIT_BYTES) -> T | Missing:
    """A file as parsed, or why not: ERROR also for invalid contents."""
    try:
        return parse(read_text(path, limit))
    except (OSError, ValueError) as error:
        return unreadable(path, error)


def read_optional(path: str, parse: Callable[[str], T]) -> T | Missing | None:
    """As `read_as`; None if there is no such file: every file of resctrl is optional."""
    value = read_as(path, parse)
    return None if isinstance(value, Missing) and value.reason is Reason.SOURCE else value


GUEST = "hypervisor"  # of `cpu_flags`; dom0 of Xen and the root of Hyper-V have it too


def cpu_flags(root: Path) -> frozenset[str]:
    """Flags of the first CPU in /proc/cpuinfo; empty if it can't be read."""
    text = read_as(os.fspath(root / "proc/cpuinfo"), str, _FLAGS_BYTES)
    lines = [] if isinstance(text, Missing) else text.splitlines()
    line = next((item for item in lines if item.startswith("flags")), "")
    return frozenset(line.partition(":")[2].split())


def folders(path: str) -> list[tuple[str, str]]:
    """Name and path of every directory in a directory, by name. Raises OSError.

    The name is for display: invalid UTF-8 is escaped.
    """
    with os.scandir(path) as entries:
        directories = [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
    return sorted((writable_name(item.name), item.path) for item in directories)


def inode(path: str) -> int | None:
    """A directory's inode; None if it is gone."""
    try:
        return Path(path).stat().st_ino
    except OSError:
        return None


USUAL = "/sys/fs/resctrl"
FIX = f"mount -t resctrl resctrl {USUAL}"
NOT_MOUNTED = "resctrl is not mounted, and nftop never mounts it by itself"
_NOT_MOUNTED = Missing(Reason.SOURCE, f"{NOT_MOUNTED}: {FIX}")
# The kernel registers the file system only where it found something of RDT or its like.
_NO_RESCTRL = Missing(
    Reason.HARDWARE,
    "this kernel has no resctrl: this CPU has no cache allocation or monitoring, or it is off",
)
_MOUNTS_BYTES = 1 << 22  # a container host has thousands of mounts


def parse_mounts(text: str) -> tuple[str, frozenset[str]] | None:
    """Path and options of the first resctrl in /proc/mounts; None if there is none."""
    for line in text.splitlines():
        fields = line.split(" ")
        if len(fields) >= 4 and fields[2] == "resctrl" and fields[1].startswith("/"):
            path = _ESCAPE.sub(lambda hit: chr(int(hit[1], 8)), fields[1])
            return path, frozenset(fields[3].split(","))
    return None


@dataclass(frozen=True, slots=True)
class Mount:
    """A mounted resctrl. `path` is where nftop reads it, `shown` the operator's name of it."""

    path: str
    shown: str
    options: frozenset[str]


def find_mount(root: Path) -> Mount | Missing:
    """The first mount in /proc/mounts; SOURCE with the fix if there is none."""
    path = os.fspath(root / "proc/mounts")
    try:
        mounted = parse_mounts(read_up_to(path, _MOUNTS_BYTES).decode("utf-8", "surrogateescape"))
    except OSError as error:
        return unreadable(path, error)
    if mounted is None:
        return _NOT_MOUNTED if _offered(root) else _NO_RESCTRL
    shown, options = mounted
    return Mount(os.fspath(root / shown.lstrip("/")), writable_name(shown), options)


def mba_unit(mount: Mount, root: Path) -> MbaUnit:
    """The unit of limits on bandwidth; reads /proc/cpuinfo."""
    return mba_unit_of(mount, read_cpuid(root))


def mba_unit_of(mount: Mount, cpuid: tuple[str, int, int, int] | None) -> MbaUnit:
    """The unit of limits on bandwidth: AMD's hardware takes eighths of GB/s, Intel's percent.

    `cpuid`: as `read_cpuid` returns it.
    """
    if "mba_MBps" in mount.options:
        return "MBps"
    return "GBps/8" if cpuid is not None and cpuid[0] == "AuthenticAMD" else "percent"


def _offered(root: Path) -> bool:
    try:
        data = read_up_to(os.fspath(root / "proc/filesystems"), _MOUNTS_BYTES)
    except OSError:
        return True  # unknown
    return b"resctrl" in data.split()


# The lock: flock(2) on the mount, LOCK_SH to read, LOCK_EX to change.
# Source: the kernel's resctrl.rst, "Examples with locking".
# A change of classes takes some milliseconds; longer ones are not waited for.
WAIT_S = 0.05
# libpqos waits for 100 ms in all, and then fails.
HOLD_S = 0.03
_PAUSE_S = 0.002
_FIRST_PID_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO of the kernel's proc_ns.h


@dataclass(frozen=True, slots=True)
class Lock:
    """Whether the lock is held, and until when it may be (CLOCK_MONOTONIC)."""

    held: bool
    until_s: float

    def in_time(self) -> bool:
        """Whether it may still be held."""
        return time.monotonic() < self.until_s


@contextlib.contextmanager
def shared_lock(path: str, wait_s: float = WAIT_S) -> Iterator[Lock]:
    """Hold resctrl's lock for reading, if it is free within `wait_s`.

    Meanwhile no program that takes the lock changes anything. Raises OSError: the mount can't be
    opened.
    """
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        held = _locked(handle, wait_s)
        yield Lock(held, time.monotonic() + HOLD_S)
    finally:
        os.close(handle)  # releases the lock


def holder(root: Path, path: str) -> str:
    """Holder of the lock, `NAME (pid N)`, or "another program" if unknown."""
    try:
        file = _lock_file(path)
    except OSError:
        return "another program"
    locks = read_as(os.fspath(root / "proc/locks"), str.splitlines)
    for line in [] if isinstance(locks, Missing) else locks:
        fields = line.split()
        if fields[1:4:2] == ["FLOCK", "WRITE"] and file in fields and fields[4].isdecimal():
            name = read_as(os.fspath(root / "proc" / fields[4] / "comm"), str.strip)
            known = "another program" if isinstance(name, Missing) else name
            return f"{known} (pid {fields[4]})"
    return "another program"


def _lock_file(path: str) -> str:
    """A file as the kernel prints it in lists of locks: major and minor in hexadecimal, inode."""
    status = Path(path).stat()
    return f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"


def is_held_by_others_only(root: Path, path: str) -> bool:
    """Whether no process of root's holds the lock, by the open files of all (proc_pid_fdinfo(5)).

    /proc/locks has the pid of a process that may be gone. False if any are hidden from nftop.
    """
    proc = root / "proc"
    if link_target(proc / "self/ns/pid") != _FIRST_PID_NAMESPACE:
        return False
    try:
        lock = re.compile(rf"^lock:.* FLOCK .* {re.escape(_lock_file(path))} ", re.MULTILINE)
        for pid in numbered(proc):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                # The real user's: others may have started a program of root's with their files.
                # Some sandboxes close init to everyone, and it takes no lock.
                if pid != 1 and "\nUid:\t0\t" in read_text(f"{proc}/{pid}/status"):
                    for number in numbered(f"{proc}/{pid}/fdinfo"):
                        if lock.search(read_text(f"{proc}/{pid}/fdinfo/{number}")):
                            return False
    except OSError:
        return False
    return True


def _locked(handle: int, wait_s: float) -> bool:
    deadline = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EINTR):
                return False  # a file system that has no locks
            if time.monotonic() >= deadline:
                return False
            time.sleep(_PAUSE_S)
        else:
            return True
