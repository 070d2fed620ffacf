"""System calls of other processes, caught: seccomp user notification (seccomp_unotify(2)).

Numbers and layouts are those of include/uapi/linux/{seccomp,filter,audit}.h on x86-64.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import re
import struct
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from tests.lab.tree import failed

PERF_EVENT_OPEN, SCHED_SETAFFINITY, MOUNT, UMOUNT2, FSOPEN = 298, 203, 165, 166, 430
_SECCOMP = 317
_ACTIONS = Path("/proc/sys/kernel/seccomp/actions_avail")  # seccomp(2)

_SET_MODE_FILTER = 1
_NEW_LISTENER, _WAIT_KILLABLE = 1 << 3, 1 << 5
_PR_SET_NO_NEW_PRIVS = 38

_RECV, _SEND, _ID_VALID, _ADDFD = 0xC0502100, 0xC0182101, 0x40082102, 0x40182103
_ADDFD_SINCE = 5, 9
_ADDFD_SEND, _CONTINUE = 1 << 1, 1 << 0
_NOTIFICATION = struct.Struct("<QIIiIQ6Q")
_RESPONSE = struct.Struct("<QqiI")
_NEW_FD = struct.Struct("<QIIII")

_INSTRUCTION = struct.Struct("<HBBI")
_LOAD, _IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_NUMBER_AT, _ARCH_AT, _ARCH_X86_64 = 0, 4, 0xC000003E
_ALLOW, _NOTIFY = 0x7FFF0000, 0x7FC00000


@dataclass(frozen=True, slots=True)
class Caught:
    """A system call that waits for its answer.

    Attributes:
        cookie: names it to the kernel.
        tid: the thread that calls.
        arguments: as it has them in its registers.
    """

    cookie: int
    tid: int
    number: int
    arguments: tuple[int, ...]


def unsupported() -> str:
    """Why calls can't be caught here; empty if they can.

    Linux 5.0 lets others see calls, and from 5.9 on descriptors can be answered with.
    """
    if platform.machine() != "x86_64":
        return f"system calls are caught on x86-64 only, and this is {platform.machine()}"
    try:
        known = _ACTIONS.read_text(encoding="ascii").split()
    except OSError:
        known = []
    if "user_notif" not in known or _release() < _ADDFD_SINCE:
        return "this kernel hands no system calls to others: Linux 5.9 with seccomp filters does"
    return ""


def _release() -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", platform.release())[:2])


def install(numbers: Collection[int]) -> int:
    """Have these calls of this process and of all it will start wait; the listener's descriptor.

    Raises:
        OSError: as the kernel gives it, EBUSY if there is a listener already.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    code = _filter(numbers)
    program = ctypes.create_string_buffer(code)
    size = len(code) // _INSTRUCTION.size
    argument = struct.pack("<H6xQ", size, ctypes.addressof(program))

    def seccomp(flags: int) -> int:
        return int(libc.syscall(_SECCOMP, _SET_MODE_FILTER, flags, argument))

    # Kernels from 5.19 on don't let a signal tear a caller away from a call that is being answered.
    for flags in (_NEW_LISTENER | _WAIT_KILLABLE, _NEW_LISTENER):
        listener = seccomp(flags)
        if listener < 0 and ctypes.get_errno() == errno.EACCES:
            libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
            listener = seccomp(flags)
        if listener >= 0:
            return listener
    code_of_error = ctypes.get_errno()
    raise failed(code_of_error)


def receive(listener: int) -> Caught | None:
    """The next call; None if its caller has gone before it could be taken."""
    buffer = bytearray(_NOTIFICATION.size)
    try:
        fcntl.ioctl(listener, _RECV, buffer)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EINTR):
            return None
        raise
    cookie, tid, _, number, _, _, *arguments = _NOTIFICATION.unpack(buffer)
    return Caught(cookie, tid, number, tuple(arguments))


def waits(listener: int, caught: Caught) -> bool:
    """The caller is still there: what was read of thread `tid` until now was the caller's."""
    try:
        fcntl.ioctl(listener, _ID_VALID, struct.pack("<Q", caught.cookie))
    except OSError:
        return False
    return True


def answer(listener: int, caught: Caught, value: int = 0, code: int = 0) -> None:
    """Have the call return a value, or fail with an errno."""
    _respond(listener, _RESPONSE.pack(caught.cookie, value, -code, 0))


def let_pass(listener: int, caught: Caught) -> None:
    """Have the kernel execute the call."""
    _respond(listener, _RESPONSE.pack(caught.cookie, 0, 0, _CONTINUE))


def answer_with_fd(listener: int, caught: Caught, fd: int, *, cloexec: bool) -> None:
    """Have the call return a descriptor of the caller's for our file `fd`, which stays open.

    Fails with EMFILE where the caller has no more descriptors.
    """
    flags = os.O_CLOEXEC if cloexec else 0
    try:
        fcntl.ioctl(listener, _ADDFD, _NEW_FD.pack(caught.cookie, _ADDFD_SEND, fd, 0, flags))
    except OSError as error:
        if error.errno != errno.EINVAL:
            answer(listener, caught, code=error.errno or errno.EIO)
            return
    else:
        return
    # Before Linux 5.14 it takes two steps. A buffer that may be changed has ioctl give a number.
    alone = bytearray(_NEW_FD.pack(caught.cookie, 0, fd, 0, flags))
    try:
        number = fcntl.ioctl(listener, _ADDFD, alone)
    except OSError as error:
        answer(listener, caught, code=error.errno or errno.EIO)
    else:
        answer(listener, caught, number)


def _respond(listener: int, response: bytes) -> None:
    try:
        fcntl.ioctl(listener, _SEND, response)
    except OSError as error:
        if error.errno != errno.ENOENT:  # the caller was killed meanwhile
            raise


def _filter(numbers: Collection[int]) -> bytes:
    """Classic BPF: another architecture's calls pass, those of `numbers` wait, the rest passes."""
    last = len(numbers) + 1  # how many instructions from the first comparison to ALLOW
    code = [(_LOAD, 0, 0, _ARCH_AT), (_IF_EQUAL, 0, last, _ARCH_X86_64), (_LOAD, 0, 0, _NUMBER_AT)]
    for index, number in enumerate(sorted(numbers)):
        code.append((_IF_EQUAL, len(numbers) - index, 0, number))
    code += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _NOTIFY)]
    return b"".join(_INSTRUCTION.pack(*item) for item in code)
