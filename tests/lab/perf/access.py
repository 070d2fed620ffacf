"""Who may open what, and which arguments make no sense: perf_event_open's errors in its order.

Source: `perf_event_open`, `perf_event_alloc` and `find_get_context` of kernel/events/core.c, Linux
6.1. What it refuses for the events themselves is in `events`, for their room in `context`.
Deliberate difference: no events of control groups (EINVAL).
"""

from __future__ import annotations

import errno
from collections.abc import Collection

from tests.lab.perf.attr import Attr
from tests.lab.perf.call import Call
from tests.lab.perf.pmu import ANY_THREAD
from tests.lab.tree import failed

FD_NO_GROUP, FD_OUTPUT, PID_CGROUP, FD_CLOEXEC = (1 << i for i in range(4))
_FLAGS_END = 1 << 4
EVERY_TASK = ANY_CPU = -1
# From which kernel.perf_event_paranoid on one needs a privilege to count ...
_WHOLE_CPUS_FROM, _THE_KERNEL_FROM = 1, 2
_RAW = 4


def check_arguments(call: Call, attr: Attr, *, paranoid: int, uid: int | None, cpus: int) -> None:
    """What is wrong with a call before one looks at its event.

    Args:
        paranoid: kernel.perf_event_paranoid.
        uid: the user of the task that is to be counted; None: there is none of that id.
        cpus: how many CPU numbers the host has.

    Raises:
        OSError: EINVAL, EACCES, ESRCH.
    """
    if call.flags >= _FLAGS_END:
        raise failed(errno.EINVAL)
    if "exclude_kernel" not in attr.bits:
        _need(_THE_KERNEL_FROM, call, paranoid)
    if call.flags & PID_CGROUP:
        raise failed(errno.EINVAL)
    whole_cpu = call.pid == EVERY_TASK
    if not whole_cpu and uid is None:
        raise failed(errno.ESRCH)
    if call.cpu >= cpus or call.cpu < ANY_CPU or (whole_cpu and call.cpu == ANY_CPU):
        raise failed(errno.EINVAL)


def check_rights(
    call: Call, attr: Attr, *, paranoid: int, uid: int | None, online: Collection[int]
) -> None:
    """Whether the caller may open an event that there is, on a CPU that is there.

    Raises:
        OSError: EACCES; ENODEV, the CPU is offline.
    """
    whole_cpu = call.pid == EVERY_TASK
    if whole_cpu or (attr.pmu_type == _RAW and attr.config & ANY_THREAD):
        _need(_WHOLE_CPUS_FROM, call, paranoid)
    if not whole_cpu and uid != call.uid and not call.privileged:
        raise failed(errno.EACCES)
    if whole_cpu and call.cpu not in online:
        raise failed(errno.ENODEV)


def _need(level: int, call: Call, paranoid: int) -> None:
    if paranoid >= level and not call.privileged:
        raise failed(errno.EACCES)
