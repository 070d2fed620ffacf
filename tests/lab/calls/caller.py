"""What a thread whose call was caught has: its memory, and what /proc says of it.

Only as long as it waits is it known to be that thread: ask `seccomp.waits` afterwards.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from tests.lab.tree import failed

PATH_BYTES = 4096


def memory(tid: int, address: int, size: int) -> bytes:
    """Of a caller; OSError EFAULT where there is none."""
    try:
        with Path(f"/proc/{tid}/mem").open("rb", buffering=0) as file:
            file.seek(address)
            data = file.read(size)
    except (OSError, OverflowError, ValueError):
        data = b""
    if len(data) < size:
        raise failed(errno.EFAULT)
    return data


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


def status(tid: int) -> dict[str, str]:
    """The rows of /proc/TID/status by name."""
    lines = Path(f"/proc/{tid}/status").read_text(encoding="ascii", errors="replace").splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def privileged(tid: int, capabilities: int) -> bool:
    """Whether it has one of these, bits as in linux/capability.h, in our own user namespace.

    The kernel asks for them in its first one, which ours stands for.
    """
    ours, theirs = (Path(f"/proc/{item}/ns/user").readlink() for item in ("self", tid))
    return ours == theirs and bool(int(status(tid)["CapEff"], 16) & capabilities)


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
