"""sched_setaffinity(2) to CPUs that only the lab has, and where that has put whom."""

from __future__ import annotations

import errno
import functools
import os
from pathlib import Path

from tests.lab.calls import caller, seccomp
from tests.lab.calls.seccomp import Caught
from tests.lab.calls.supervisor import Handlers

# Threads that have ended are forgotten when there are more than this.
_MOST = 1024


class Placement:
    """Which of the lab's CPUs threads believe that they run on."""

    def __init__(self) -> None:
        self._first: dict[int, tuple[int, int]] = {}

    def put(self, tid: int, mask: int) -> None:
        """It asked for these CPUs, a bit each."""
        if len(self._first) >= _MOST:
            self._first = {
                key: result for key, result in self._first.items() if _stat(key, 21) == result[0]
            }
        started = _stat(tid, 21)
        if started is not None:
            self._first[tid] = started, (mask & -mask).bit_length() - 1

    def cpu(self, tid: int) -> int:
        """The first of those it asked for; the real CPU that it is on where it never did."""
        started, first = self._first.get(tid, (None, 0))
        if started is not None and started == _stat(tid, 21):
            return first
        return _stat(tid, 38) or 0


def handlers(cpus: int, placement: Placement) -> Handlers:
    """The call's handler.

    Args:
        cpus: how many the lab has, 0.. on.
        placement: is told.
    """
    return {seccomp.SCHED_SETAFFINITY: functools.partial(_set_affinity, cpus, placement)}


def _set_affinity(cpus: int, placement: Placement, listener: int, caught: Caught) -> None:
    """sched_setaffinity(pid, size, mask).

    To CPUs that only the lab has, it succeeds unheard; those that it has not are not there.
    """
    pid, size, address = caught.arguments[:3]
    mask = int.from_bytes(
        caller.memory(caught.tid, address, min(size, caller.PATH_BYTES)), "little"
    )
    real = sum(1 << cpu for cpu in os.sched_getaffinity(0))
    ours = mask & ((1 << cpus) - 1)
    if not ours:
        seccomp.answer(listener, caught, code=errno.EINVAL)
        return
    placement.put(pid & 0xFFFFFFFF or caught.tid, ours)
    if mask & real:
        seccomp.let_pass(listener, caught)
    else:
        seccomp.answer(listener, caught)


def _stat(tid: int, index: int) -> int | None:
    """A field of /proc/TID/stat, proc(5), its pid is 0 and its state 2; None if it has ended."""
    try:
        data = Path(f"/proc/{tid}/stat").read_bytes()
    except OSError:
        return None
    return int(data.rpartition(b")")[2].split()[index - 2])
