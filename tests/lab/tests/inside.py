"""What programs do in the lab, and what they must see: `python -m tests.lab.tests.inside NAME`.

Each raises where it sees something else. The model is compared with by the clock they share.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import resource
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from nftop.model.missing import Missing, Reason
from nftop.sim import scenario
from nftop.sim.events import factors_of
from nftop.sim.model import model_of
from nftop.sim.workloads import INDEX
from nftop.sources.perf.source import PerfSource
from nftop.uarch import table as uarch_table
from tests.lab.calls import seccomp
from tests.lab.tests.events import CPUS

_libc = ctypes.CDLL(None, use_errno=True)
CLOEXEC = 8


def model_ns() -> int:
    return int(Path("/sys/fs/lab/live/ctl/now").read_text(encoding="ascii"))


def perf_event_open(
    attr: bytes | ctypes.c_void_p | None, cpu: int, group: int = -1, flags: int = 0
) -> int:
    """A descriptor, or minus the errno."""
    fd = _libc.syscall(seccomp.PERF_EVENT_OPEN, attr, -1, cpu, group, flags)
    return int(fd) if fd >= 0 else -ctypes.get_errno()


def attr(pmu_type: int, config: int, *, form: int = 3, size: int = 64) -> bytes:
    return struct.pack("<IIQQQQQ", pmu_type, size, config, 0, 0, form, 0).ljust(4200, b"\0")


def nftop_counts() -> None:
    """nftop's own source: every value between the model's before and after the read."""
    uarch = uarch_table.load("SKX").with_smt(on=True)
    model = model_of(scenario.load("default"), CPUS)
    source = PerfSource(uarch=uarch, turns=False)
    before: list[np.typing.NDArray[np.float64]] = []
    tables = []
    for _ in range(4):  # the first plan never runs beside the watchdog, which takes a while to see
        since = model.exact(model_ns())
        table = source.read()
        assert not isinstance(table, Missing), table
        before += [since, model.exact(model_ns())]
        tables.append(table)
        time.sleep(0.2)
    first, last = tables[2], tables[3]
    assert list(first.cpus) == list(range(CPUS))
    present = (first.reasons == Reason.PRESENT) & (last.reasons == Reason.PRESENT)
    # Nobody asks for turns: the main group runs all the time.
    main = [at for at in np.flatnonzero(first.group == 0).tolist() if present[:, at].all()]
    names = {first.events[at]: at for at in main}
    assert {"instructions", "aperf", "tsc", "uops_issued_any"} <= names.keys(), names
    assert "cycles" not in names  # the watchdog holds their counter
    assert (last.enabled_ns[:, 0] == last.running_ns[:, 0]).all()
    for name, at in names.items():
        factors = factors_of(uarch.events[name]) or {}
        most, least = (
            sum(factor * (end - start)[:, INDEX[key]] for key, factor in factors.items())
            for start, end in ((before[4], before[7]), (before[5], before[6]))
        )
        seen = last.values[:, at].astype(np.float64) - first.values[:, at]
        assert (seen <= most + 2).all(), name
        assert (seen >= least - 2).all(), name
    source.close()


def arguments() -> None:
    """What the supervisor itself refuses, or takes from the caller's memory and limits."""
    assert perf_event_open(None, 0) == -errno.EFAULT
    assert perf_event_open(attr(4, 0x3C), CPUS) == -errno.EINVAL
    assert perf_event_open(attr(99, 0), 0) == -errno.ENOENT
    assert perf_event_open(attr(4, 0x3C), 0, group=0) == -errno.EBADF
    assert perf_event_open(attr(4, 0x3C), 0, group=999) == -errno.EBADF
    buffer = ctypes.create_string_buffer(attr(4, 0x3C, size=5000))
    assert perf_event_open(ctypes.c_void_p(ctypes.addressof(buffer)), 0) == -errno.E2BIG
    assert struct.unpack_from("<I", buffer, 4) == (128,)
    tail = attr(4, 0x3C, size=200)[:199] + b"\1"
    assert perf_event_open(tail, 0) == -errno.E2BIG


def descriptors() -> None:
    """Files that behave as events: flags, groups, ids, short buffers, dup, and limits."""
    kept, other = perf_event_open(attr(4, 0x3C), 0, flags=CLOEXEC), perf_event_open(attr(4, 60), 0)
    assert fcntl.fcntl(kept, fcntl.F_GETFD) == fcntl.FD_CLOEXEC
    assert fcntl.fcntl(other, fcntl.F_GETFD) == 0
    leader = perf_event_open(attr(4, 0x3C, form=15), 1)
    sibling = perf_event_open(attr(4, 0xC0, form=15), 1, group=os.dup(leader))
    assert min(kept, other, leader, sibling) > 0
    ids = [struct.unpack("<Q", fcntl.ioctl(fd, 0x80082407, bytes(8))) for fd in (leader, sibling)]
    row = struct.unpack("<7Q", os.read(leader, 4096))
    assert row[0] == 2
    assert [(row[4],), (row[6],)] == ids
    assert struct.unpack("<7Q", os.pread(leader, 56, 0)) >= row
    try:
        os.read(leader, 55)
    except OSError as error:
        assert error.errno == errno.ENOSPC
    else:
        raise AssertionError("a short buffer was filled")
    fcntl.ioctl(leader, 0x2401, 1)
    assert os.read(leader, 56) == os.read(leader, 56)
    used = len(list(Path("/proc/self/fd").iterdir()))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 3, used + 3))
    codes = [perf_event_open(attr(4, 0x3C), 0) for _ in range(8)]
    assert -errno.EMFILE in codes
    assert {code for code in codes if code < 0} == {-errno.EMFILE}


def affinity() -> None:
    """CPUs that only the lab has are taken; those that nobody has are not."""
    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {CPUS - 1})
    os.sched_setaffinity(0, {0, min(mine)})  # the one that is there may be none of the lab's
    assert os.sched_getaffinity(0) == {0, min(mine)} & mine
    try:
        os.sched_setaffinity(0, {CPUS + 300})
    except OSError as error:
        assert error.errno == errno.EINVAL
    else:
        raise AssertionError("a CPU that is not there was taken")


def unprivileged() -> None:
    """Another user is held to perf_event_paranoid, which is 2."""
    os.setgroups([])
    os.setgid(1000)
    os.setuid(1000)
    assert perf_event_open(attr(4, 0x3C), 0) == -errno.EACCES


def another_root() -> None:
    """Root of a user namespace of its own has no privilege of the host's."""
    pid = os.fork()  # numpy has threads, and only a process without any may leave
    if not pid:
        left = _libc.unshare(0x10000000)  # CLONE_NEWUSER
        os._exit(perf_event_open(attr(4, 0x3C), 0) != -errno.EACCES if left == 0 else 2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def threads() -> None:
    """Callers that are many, and killed while they call."""
    for _ in range(40):
        pid = os.fork()
        if not pid:
            while True:
                fd = perf_event_open(attr(4, 0x3C), 0)
                if fd > 0:
                    os.close(fd)
        time.sleep(0.002)
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    assert perf_event_open(attr(4, 0x3C), 0) > 0


PROGRAMS: dict[str, Callable[[], None]] = {
    item.__name__: item
    for item in (
        nftop_counts,
        arguments,
        descriptors,
        affinity,
        unprivileged,
        another_root,
        threads,
    )
}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]]()
