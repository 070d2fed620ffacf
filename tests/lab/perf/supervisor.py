"""Runs a command whose perf_event_open is answered by the lab's files.

The supervisor judges nothing: it carries a call to the server as a file name (`call`), and gives
the caller the file that it could open, or the errno. It also answers what else would touch the real
host: affinity to CPUs that only the lab has, and mounts of resctrl.
"""

from __future__ import annotations

import errno
import functools
import itertools
import os
import select
import signal
import socket
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.lab.perf import caller, keeper, seccomp
from tests.lab.perf.access import FD_CLOEXEC, FD_NO_GROUP
from tests.lab.perf.attr import KNOWN, cut, size_of
from tests.lab.perf.call import Call, event_of, name_of
from tests.lab.perf.seccomp import Caught
from tests.lab.tree import failed

_HEAD_BYTES, _SIZE_AT = 8, 4
_PERFMON, _SYS_ADMIN = 1 << 38, 1 << 21  # linux/capability.h
_NONE = -1


@dataclass(frozen=True, slots=True)
class Mount:
    """A mount(2) of type resctrl or an umount2(2) of whatever that a command tries.

    Attributes:
        mounting: it is a mount.
        target: where the caller's path leads; no part of it is a symbolic link.
        options: of the mount, `cdp,mba_MBps`.
        privileged: the caller may mount.
    """

    mounting: bool
    target: Path
    options: str
    privileged: bool


MountHook = Callable[[Mount], int | None]
"""What to answer: 0 done, an errno, None: let the kernel do it."""


def run(
    command: Sequence[str],
    perf_folder: Path,
    *,
    cpus: int,
    on_mount: MountHook = lambda _: None,
    on_start: Callable[[], None] = lambda: None,
) -> int:
    """Run the command to its end and give its exit code as a shell does.

    Args:
        perf_folder: where a `tree.PerfTree` is mounted.
        cpus: how many CPUs the lab has, 0.. on.
        on_mount: is asked about mounts of resctrl and about every unmount.
        on_start: is called in the command's process, before it is anything else.

    Raises:
        RuntimeError: this is not an x86-64 machine.
        OSError: the kernel can't do it.
    """
    reason = seccomp.unsupported()
    if reason:
        raise RuntimeError(reason)
    ours, theirs = socket.socketpair()
    handlers = _handlers(perf_folder, cpus, on_mount)

    def prepare() -> None:
        on_start()
        _send_listener(theirs, tuple(handlers))

    kept = keeper.start(command, prepare)
    theirs.close()
    with ours:
        _, fds, _, _ = socket.recv_fds(ours, 1, 1)
    try:
        if fds:  # else the command has ended without one, and says why
            _serve(fds[0], handlers, kept.pid)
    except BaseException:
        os.kill(kept.pid, signal.SIGTERM)  # nobody would answer the command any more
        raise
    finally:
        for fd in fds:
            os.close(fd)  # who still waits for an answer is told that there will be none
        code = keeper.end(kept)
    return code


_Handler = Callable[[int, Caught], None]


def _handlers(perf_folder: Path, cpus: int, on_mount: MountHook) -> dict[int, _Handler]:
    numbers = itertools.count(1)
    opening = functools.partial(_open_event, perf_folder, numbers.__next__)
    mounting = functools.partial(_mount, on_mount)
    return {
        seccomp.PERF_EVENT_OPEN: opening,
        seccomp.SCHED_SETAFFINITY: functools.partial(_set_affinity, cpus),
        seccomp.MOUNT: mounting,
        seccomp.UMOUNT2: mounting,
        seccomp.FSOPEN: _open_file_system,
    }


def _send_listener(theirs: socket.socket, numbers: Sequence[int]) -> None:
    listener = seccomp.install(numbers)
    socket.send_fds(theirs, [b"!"], [listener])
    os.close(listener)


def _serve(listener: int, handlers: dict[int, _Handler], pid: int) -> None:
    """Answer calls until the keeper, process `pid`, has ended."""
    process = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    poll.register(process, select.POLLIN)
    while process not in (ready := dict(poll.poll())):
        if ready[listener] & select.POLLIN:
            caught = seccomp.receive(listener)
            if caught is not None:
                _handle(listener, caught, handlers[caught.number])
        else:
            poll.unregister(listener)  # no process is under the filter any more
    os.close(process)


def _handle(listener: int, caught: Caught, handler: _Handler) -> None:
    try:
        handler(listener, caught)
    except OSError as error:
        seccomp.answer(listener, caught, code=error.errno or errno.EIO)
    except Exception:  # noqa: BLE001 - one call's, and no reason to end the whole lab
        traceback.print_exc()
        seccomp.answer(listener, caught, code=errno.EIO)


def _open_event(folder: Path, new_number: Callable[[], int], listener: int, caught: Caught) -> None:
    """perf_event_open(attr, pid, cpu, group_fd, flags)."""
    address, pid, cpu, group_fd = (caught.arguments[0], *map(_signed, caught.arguments[1:4]))
    flags = caught.arguments[4]
    attr = _attr(listener, caught, address)
    leader = _leader(caught.tid, group_fd, folder) if group_fd != _NONE else 0
    uid = int(caller.status(caught.tid)["Uid"].split()[1])
    privileged = caller.privileged(caught.tid, _PERFMON | _SYS_ADMIN)
    if not seccomp.waits(listener, caught):
        return  # whose memory and descriptors these were nobody knows
    call = Call(
        event=os.getpid() << 24 | new_number(),
        attr=attr,
        pid=pid or caught.tid,
        cpu=cpu,
        leader=0 if flags & FD_NO_GROUP else leader,
        flags=flags,
        uid=uid,
        privileged=privileged,
    )
    fd = os.open(folder / name_of(call), os.O_RDWR | os.O_CLOEXEC)
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


def _leader(tid: int, group_fd: int, folder: Path) -> int:
    """The number of the event behind a caller's descriptor; OSError EBADF if it is none."""
    link = Path(f"/proc/{tid}/fd/{group_fd}")
    try:
        if os.stat(link).st_dev == os.stat(folder).st_dev:  # noqa: PTH116 - one call, not three
            return event_of(link.readlink().name)
    except OSError:
        pass
    raise failed(errno.EBADF)


def _set_affinity(cpus: int, listener: int, caught: Caught) -> None:
    """sched_setaffinity(pid, size, mask).

    To CPUs that only the lab has, it succeeds unheard; those that it has not are not there.
    """
    _, size, address = caught.arguments[:3]
    mask = int.from_bytes(
        caller.memory(caught.tid, address, min(size, caller.PATH_BYTES)), "little"
    )
    real = sum(1 << cpu for cpu in os.sched_getaffinity(0))
    if not mask & ((1 << cpus) - 1):
        seccomp.answer(listener, caught, code=errno.EINVAL)
    elif mask & real:
        seccomp.let_pass(listener, caught)
    else:
        seccomp.answer(listener, caught)


def _mount(hook: MountHook, listener: int, caught: Caught) -> None:
    """mount(source, target, type, flags, options) and umount2(target, flags)."""
    mounting = caught.number == seccomp.MOUNT
    text = functools.partial(caller.text, caught.tid)
    arguments = caught.arguments
    outcome = None
    if not mounting or text(arguments[2]) == "resctrl":
        mount = Mount(
            mounting=mounting,
            target=caller.place(caught.tid, text(arguments[1] if mounting else arguments[0])),
            options=text(arguments[4]) if mounting else "",
            privileged=caller.privileged(caught.tid, _SYS_ADMIN),
        )
        if not seccomp.waits(listener, caught):
            return
        outcome = hook(mount)
    if outcome is None:
        seccomp.let_pass(listener, caught)
    else:
        seccomp.answer(listener, caught, code=outcome)


def _open_file_system(listener: int, caught: Caught) -> None:
    """fsopen(type, flags): not there for resctrl, upon which libmount turns to mount(2)."""
    if caller.text(caught.tid, caught.arguments[0]) == "resctrl":
        seccomp.answer(listener, caught, code=errno.ENOSYS)
    else:
        seccomp.let_pass(listener, caught)


def _signed(register: int) -> int:
    """An int as the kernel takes it out of a register."""
    return ((register & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000
