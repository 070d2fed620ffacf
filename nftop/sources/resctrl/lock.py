"""The advisory lock that programs which change resctrl hold meanwhile: flock(2) on its mount.

Source: the kernel's resctrl.rst, "Examples with locking": LOCK_SH to read, LOCK_EX to change.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nftop.model.reading import Missing
from nftop.sources.resctrl.files import read_as

# Who changes classes is done in some milliseconds; who is not is not waited for.
WAIT_S = 0.05
# libpqos waits for 100 ms in all, and then fails.
HOLD_S = 0.03
_PAUSE_S = 0.002


@dataclass(frozen=True, slots=True)
class Lock:
    """Whether resctrl's lock is held to read, and until when it may be, by the monotonic clock."""

    held: bool
    until_s: float

    def in_time(self) -> bool:
        """Whether it may be held on; who is told that it may not has to let go."""
        return time.monotonic() < self.until_s


@contextlib.contextmanager
def shared_lock(path: str, wait_s: float = WAIT_S) -> Iterator[Lock]:
    """Hold resctrl's lock to read, if it can be had in time.

    While it is held nobody may take it to change anything.

    Raises:
        OSError: the mount can't be opened.
    """
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        held = _locked(handle, wait_s)
        yield Lock(held, time.monotonic() + HOLD_S)
    finally:
        os.close(handle)  # which lets go of it


def holder(root: Path, path: str) -> str:
    """Who holds the lock, as `NAME (pid N)`; "another program" where that can't be told."""
    try:
        found = Path(path).stat()
    except OSError:
        return "another program"
    device = found.st_dev
    # As the kernel prints it in /proc/locks: major and minor in hexadecimal, then the inode.
    file = f"{os.major(device):02x}:{os.minor(device):02x}:{found.st_ino}"
    locks = read_as(os.fspath(root / "proc/locks"), str.splitlines)
    for line in [] if isinstance(locks, Missing) else locks:
        fields = line.split()
        if fields[1:4:2] == ["FLOCK", "WRITE"] and file in fields and fields[4].isdecimal():
            name = read_as(os.fspath(root / "proc" / fields[4] / "comm"), str.strip)
            known = "another program" if isinstance(name, Missing) else name
            return f"{known} (pid {fields[4]})"
    return "another program"


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
