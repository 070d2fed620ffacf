"""The kernel's side of perf: perf_event_attr and the system call.

Layout and numbers are those of include/uapi/linux/perf_event.h and of perf_event_open(2). The
machines in the table of system call numbers are little-endian, so the bit field of perf_event_attr
is one word with `disabled` as bit 0.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import resource
from collections.abc import Callable, Sequence
from typing import TypeAlias

from nftop.model.struct import dataclass
from nftop.uarch.table import Encoding

_u16, _u32, _u64 = ctypes.c_uint16, ctypes.c_uint32, ctypes.c_uint64

FORMAT_TOTAL_TIME_ENABLED = 1 << 0
FORMAT_TOTAL_TIME_RUNNING = 1 << 1
FORMAT_GROUP = 1 << 3
READ_FORMAT = FORMAT_TOTAL_TIME_ENABLED | FORMAT_TOTAL_TIME_RUNNING | FORMAT_GROUP
READ_HEADER_WORDS = 3  # nr, time_enabled, time_running; then one value an event

FLAG_FD_CLOEXEC = 1 << 3
IOC_ENABLE = 0x2400  # _IO('$', 0)
IOC_DISABLE = 0x2401  # _IO('$', 1)
IOC_FLAG_GROUP = 1

# Descriptors that counters leave to the rest of nftop: files of /proc, sockets, modules to import.
RESERVED_FILES = 64

_DISABLED = 1 << 0
WHOLE_CPU, THIS_THREAD = -1, 0  # as a pid

_SYSCALL_NUMBERS = {"x86_64": 298, "aarch64": 241}

MappedPage: TypeAlias = Sequence[memoryview]


class PerfEventAttr(ctypes.Structure):
    """struct perf_event_attr up to PERF_ATTR_SIZE_VER8 (136 bytes).

    Older kernels take the longer structure as long as what they don't know is zero.
    """

    _fields_ = (
        ("type", _u32),
        ("size", _u32),
        ("config", _u64),
        ("sample_period", _u64),
        ("sample_type", _u64),
        ("read_format", _u64),
        ("flags", _u64),
        ("wakeup_events", _u32),
        ("bp_type", _u32),
        ("config1", _u64),
        ("config2", _u64),
        ("branch_sample_type", _u64),
        ("sample_regs_user", _u64),
        ("sample_stack_user", _u32),
        ("clockid", ctypes.c_int32),
        ("sample_regs_intr", _u64),
        ("aux_watermark", _u32),
        ("sample_max_stack", _u16),
        ("reserved_2", _u16),
        ("aux_sample_size", _u32),
        ("aux_action", _u32),
        ("sig_data", _u64),
        ("config3", _u64),
    )


def attribute(encoding: Encoding, *, leader: bool) -> PerfEventAttr:
    """The attribute of an event that is counted on a whole CPU, kernel and guests included.

    No sampling and no `freq`, which would keep the tick alive on nohz_full cores; no exclude bits,
    which the msr and uncore PMUs refuse. The leader starts disabled and the group with it.
    """
    return PerfEventAttr(
        type=encoding.pmu_type,
        size=ctypes.sizeof(PerfEventAttr),
        config=encoding.config,
        config1=encoding.config1,
        config2=encoding.config2,
        config3=encoding.config3,
        read_format=READ_FORMAT,
        flags=_DISABLED if leader else 0,
    )


@dataclass(frozen=True, slots=True)
class Kernel:
    """The system calls of counters. Each raises OSError."""

    # Attribute, CPU, leader's descriptor or -1 -> descriptor.
    open_event: Callable[[PerfEventAttr, int, int], int]
    enable: Callable[[int], None]  # the group of this leader
    disable: Callable[[int], None]
    readv: Callable[[int, MappedPage], int]  # descriptor, buffers -> bytes read
    close: Callable[[int], None]


def open_next(kernel: Kernel, cpu: int, encoding: Encoding, fds: list[int]) -> None:
    """Open an event behind the leader `fds[0]`, or as the leader, and append it. Raises OSError."""
    attr = attribute(encoding, leader=not fds)
    fds.append(kernel.open_event(attr, cpu, fds[0] if fds else -1))


def close_events(kernel: Kernel, fds: Sequence[int]) -> None:
    """Close the events of a group, the leader last."""
    for fd in reversed(fds):
        kernel.close(fd)


def host_kernel(machine: str = "", pid: int = WHOLE_CPU) -> Kernel:
    """The running kernel; opens raise ENOSYS if the machine's system call number is unknown."""
    number = _SYSCALL_NUMBERS.get(machine or platform.machine())
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long
    syscall.argtypes = (ctypes.c_long, ctypes.POINTER(PerfEventAttr), *[ctypes.c_long] * 4)

    def perf_event_open(attr: PerfEventAttr, cpu: int, group_fd: int) -> int:
        if number is None:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        fd = int(syscall(number, ctypes.byref(attr), pid, cpu, group_fd, FLAG_FD_CLOEXEC))
        if fd < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        # Among the last descriptors below the limit; the kernel gives the lowest free ones.
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY and fd >= soft - RESERVED_FILES:
            os.close(fd)
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return fd

    def enable(leader_fd: int) -> None:
        fcntl.ioctl(leader_fd, IOC_ENABLE, IOC_FLAG_GROUP)

    def disable(leader_fd: int) -> None:
        # Without the group's flag: the others stop with the leader, at one interrupt of the counted
        # CPU and not one per event, and start with it again.
        fcntl.ioctl(leader_fd, IOC_DISABLE, 0)

    return Kernel(perf_event_open, enable, disable, os.readv, os.close)


def raise_open_files() -> None:
    """Raise the soft limit of open files to the hard one: a counter takes one per CPU and event."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):
            # "unlimited" may be above fs.nr_open. EMFILE says so, should it ever matter.
            return
