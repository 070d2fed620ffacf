"""perf_event_open(2) of the programs inside: carried to the server as a file name (`call`).

It judges nothing: the caller gets the file that could be opened, or the errno.
"""

from __future__ import annotations

import errno
import functools
import itertools
import os
from collections.abc import Callable
from pathlib import Path

from tests.lab.calls import caller, seccomp
from tests.lab.calls.seccomp import Caught
from tests.lab.calls.supervisor import Handlers
from tests.lab.perf.access import FD_CLOEXEC, FD_NO_GROUP
from tests.lab.perf.attr import KNOWN, cut, size_of
from tests.lab.perf.call import Call, event_of, name_of
from tests.lab.tree import failed

_HEAD_BYTES, _SIZE_AT = 8, 4
_PERFMON, _SYS_ADMIN = 1 << 38, 1 << 21  # linux/capability.h
_NONE = -1


def handlers(perf_folder: Path) -> Handlers:
    """The call's handler; `perf_folder` is where a `tree.PerfTree` is mounted."""
    numbers = itertools.count(1)
    opening = functools.partial(_open_event, _Folder(perf_folder), numbers.__next__)
    return {seccomp.PERF_EVENT_OPEN: opening}


class _Folder:
    """The folder, opened once: by its path each open would walk through the server anew."""

    def __init__(self, path: Path) -> None:
        self._prefix = f"{path}/"
        self._fd = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def open(self, name: str) -> int:
        """A descriptor of a file."""
        return os.open(name, os.O_RDWR | os.O_CLOEXEC, dir_fd=self._fd)

    def name(self, tid: int, fd: int) -> str:
        """The name of the file behind another's descriptor; OSError EBADF if it is none of it."""
        try:
            path = os.readlink(f"/proc/{tid}/fd/{fd}")  # noqa: PTH115 - called often
        except OSError:
            path = ""
        if not path.startswith(self._prefix):
            raise failed(errno.EBADF)
        return path.removeprefix(self._prefix)


def _open_event(
    folder: _Folder, new_number: Callable[[], int], listener: int, caught: Caught
) -> None:
    """perf_event_open(attr, pid, cpu, group_fd, flags)."""
    address, pid, cpu, group_fd = (caught.arguments[0], *map(_signed, caught.arguments[1:4]))
    flags = caught.arguments[4]
    attr = _attr(listener, caught, address)
    leader = _leader(caught.tid, group_fd, folder) if group_fd != _NONE else 0
    credentials = caller.credentials(caught.tid)
    if not seccomp.waits(listener, caught):
        return  # whose memory and descriptors these were nobody knows
    call = Call(
        event=os.getpid() << 24 | new_number(),
        attr=attr,
        pid=pid or caught.tid,
        cpu=cpu,
        leader=0 if flags & FD_NO_GROUP else leader,
        flags=flags,
        uid=credentials.uid,
        privileged=credentials.any_of(_PERFMON | _SYS_ADMIN),
    )
    fd = folder.open(name_of(call))
    try:
        seccomp.answer_with_fd(listener, caught, fd, cloexec=bool(flags & FD_CLOEXEC))
    finally:
        os.close(fd)


def _attr(listener: int, caught: Caught, address: int) -> bytes:
    """The caller's perf_event_attr; of one that is too large it learns which size is not."""
    try:
        size = size_of(caller.memory(caught.tid, address, _HEAD_BYTES))
        return cut(caller.memory(caught.tid, address, size))
    except OSError as error:
        if error.errno == errno.E2BIG and seccomp.waits(listener, caught):
            with Path(f"/proc/{caught.tid}/mem").open("r+b", buffering=0) as memory:
                memory.seek(address + _SIZE_AT)
                memory.write(KNOWN.to_bytes(4, "little"))
        raise


def _leader(tid: int, group_fd: int, folder: _Folder) -> int:
    """The number of the event behind a caller's descriptor; OSError EBADF if it is none."""
    try:
        return event_of(folder.name(tid, group_fd))
    except OSError:
        raise failed(errno.EBADF) from None


def _signed(register: int) -> int:
    """An int as the kernel takes it out of a register."""
    return ((register & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000
