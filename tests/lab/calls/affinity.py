"""sched_setaffinity(2) to CPUs that only the lab has."""

from __future__ import annotations

import errno
import functools
import os

from tests.lab.calls import caller, seccomp
from tests.lab.calls.seccomp import Caught
from tests.lab.calls.supervisor import Handlers


def handlers(cpus: int) -> Handlers:
    """The call's handler; `cpus`: how many the lab has, 0.. on."""
    return {seccomp.SCHED_SETAFFINITY: functools.partial(_set_affinity, cpus)}


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
