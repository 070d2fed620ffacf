"""What a thread whose call was caught has: its memory, and what /proc says of it.

Only as long as it waits is it known to be that thread: ask `seccomp.waits` afterwards.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import re
from dataclasses import dataclass
from pathlib import Path

from tests.lab.tree import failed

PATH_BYTES = 4096
_CREDENTIALS = re.compile(rb"^Uid:\t\d+\t(\d+)\t.*^CapEff:\t([0-9a-f]+)$", re.MULTILINE | re.DOTALL)


class _Vector(ctypes.Structure):
    """struct iovec of sys/uio.h."""

    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


_read_memory = ctypes.CDLL(None).process_vm_readv
_read_memory.restype = ctypes.c_ssize_t
_read_memory.argtypes = (
    ctypes.c_int,
    *(ctypes.POINTER(_Vector), ctypes.c_ulong) * 2,
    ctypes.c_ulong,
)


def memory(tid: int, address: int, size: int) -> bytes:
    """Of a caller; OSError EFAULT where there is none."""
    buffer = ctypes.create_string_buffer(size)
    ours = _Vector(ctypes.addressof(buffer), size)
    if _read_memory(tid, ours, 1, _Vector(address, size), 1, 0) < size:
        raise failed(errno.EFAULT)
    return buffer.raw


def store(tid: int, address: int, data: bytes) -> None:
    """Into a caller's memory; OSError EFAULT where there is none."""
    try:
        with Path(f"/proc/{tid}/mem").open("r+b", buffering=0) as file:
            file.seek(address)
            written = file.write(data)
    except (OSError, OverflowError, ValueError):
        written = 0
    if written < len(data):
        raise failed(errno.EFAULT)


def text(tid: int, address: int) -> str:
    """A C string of a caller's, empty for a null pointer."""
    result = b""
    while address and b"\0" not in result and len(result) < PATH_BYTES:
        # Not across a page at a time: the next one may not be there.
        result += memory(tid, address + len(result), 256 - (address + len(result)) % 256)
    return result.partition(b"\0")[0].decode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class Credentials:
    """The effective user of a thread, and its effective capabilities in the lab's user namespace.

    The kernel wants capabilities in its first user namespace, which the lab's stands for.
    """

    uid: int
    capabilities: int

    def any_of(self, capabilities: int) -> bool:
        """Whether it has one of these, bits as in linux/capability.h."""
        return bool(self.capabilities & capabilities)


def credentials(tid: int) -> Credentials:
    """Those of a caller; OSError if it has ended."""
    status = os.open(f"/proc/{tid}/status", os.O_RDONLY | os.O_CLOEXEC)
    try:
        fields = _CREDENTIALS.search(os.read(status, PATH_BYTES))
    finally:
        os.close(status)
    if fields is None:
        raise failed(errno.ESRCH)
    own = os.readlink(f"/proc/{tid}/ns/user") == _user_namespace()  # noqa: PTH115 - called often
    return Credentials(int(fields[1]), int(fields[2], 16) if own else 0)


@functools.cache
def _user_namespace() -> str:
    return str(Path("/proc/self/ns/user").readlink())


def location(tid: int, path: str) -> Path:
    """Where a path of a caller's leads, from our root and without symbolic links.

    Raises:
        OSError: as the kernel's, ENOENT and ELOOP among them.
    """
    if not path:
        raise failed(errno.ENOENT)
    base = f"/proc/{tid}/{'root' if path.startswith('/') else 'cwd'}"
    # Opened, as the kernel follows these links into another mount namespace too.
    present = os.open(f"{base}/{path}", os.O_PATH | os.O_CLOEXEC)
    try:
        return Path(f"/proc/self/fd/{present}").readlink()
    finally:
        os.close(present)
