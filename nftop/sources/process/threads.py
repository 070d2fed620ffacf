"""One thread's files under /proc/PID/task/TID: what they say, and reading them at every tick.

Formats: proc(5); `schedstat` in the kernel's Documentation/scheduler/sched-stats.rst.
"""

from __future__ import annotations

import functools
import os
import re

from nftop.model.ids import Cpu, parse_cpu_list
from nftop.model.struct import dataclass

_PF_KTHREAD = 0x00200000  # include/linux/sched.h; the same since 2.6.27
_LIMIT_BYTES = 16384
# In stat and status the kernel writes a newline of a name as \n and a backslash as \\.
_ESCAPE = re.compile(r"\\([n\\])")
_STATUS = re.compile(
    rb"^State:\t(.).*^Cpus_allowed_list:\t([^\n]*)\n"
    rb".*^voluntary_ctxt_switches:\t([0-9]+)\nnonvoluntary_ctxt_switches:\t([0-9]+)$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Stat:
    """Identity of a thread, from `stat`. `cpu_ticks`: user and system time in clock ticks."""

    comm: str
    kernel: bool
    dead: bool
    cpu_ticks: int
    start_ticks: int
    last_cpu: Cpu


@dataclass(frozen=True, slots=True)
class Schedstat:
    """`schedstat`: nanoseconds on a CPU and waiting for one."""

    run_ns: int
    wait_ns: int


@dataclass(frozen=True, slots=True)
class Status:
    """`status`: where the thread may run, and its context switches."""

    dead: bool
    allowed: tuple[Cpu, ...]
    voluntary: int
    involuntary: int


def parse_stat(data: bytes) -> Stat:
    """Parse `stat`.

    Raises:
        ValueError: the text is not that of a stat file.
    """
    # The name may hold anything, parentheses too; only the last one ends it.
    head, bracket, tail = data.rpartition(b") ")
    name = head.partition(b" (")[2]
    fields = tail.split()
    if not bracket or len(fields) < 37:
        raise ValueError("not a stat file")
    # fields[i] is field i + 3 of proc(5).
    return Stat(
        comm=_ESCAPE.sub(
            lambda hit: "\n" if hit[1] == "n" else "\\", name.decode(errors="replace")
        ),
        kernel=bool(int(fields[6]) & _PF_KTHREAD),
        dead=fields[0] in {b"Z", b"X", b"x"},
        cpu_ticks=int(fields[11]) + int(fields[12]),
        start_ticks=int(fields[19]),
        last_cpu=Cpu(int(fields[36])),
    )


def parse_schedstat(data: bytes) -> Schedstat | None:
    """Parse `schedstat`; None from a kernel that does not keep it (it then writes `0 0 0`).

    Raises:
        ValueError: the text is not that of a schedstat file.
    """
    run_ns, wait_ns, slices = map(int, data.split())
    return Schedstat(run_ns, wait_ns) if run_ns or wait_ns or slices else None


def parse_status(data: bytes) -> Status:
    """Parse `status`.

    Raises:
        ValueError: the text is not that of a status file.
    """
    hit = _STATUS.search(data)
    if hit is None:
        raise ValueError("not a status file")
    state, allowed, voluntary, involuntary = hit.groups()
    return Status(state in b"ZX", _cpus(allowed.decode()), int(voluntary), int(involuntary))


@functools.lru_cache(maxsize=1024)
def _cpus(text: str) -> tuple[Cpu, ...]:
    return parse_cpu_list(text)


class ThreadFiles:
    """The three files of one thread.

    Kept open, they belong to this very thread: once it is gone they fail, even where another has
    its number, and a read costs a fifth. Without `keep` every read opens the file anew.
    """

    def __init__(self, directory: str, *, keep: bool) -> None:
        self._directory = directory
        self._keep = keep
        self._handles: dict[str, int] = {}

    @property
    def kept(self) -> bool:
        return self._keep

    def stat(self) -> Stat:
        """Who the thread is now. OSError when it is gone, ValueError when it makes no sense."""
        return parse_stat(self._read("stat"))

    def status(self) -> Status:
        """Where it may run, and its switches; errors as `stat`."""
        return parse_status(self._read("status"))

    def schedstat(self) -> Schedstat | None:
        """Its run and wait time, None where the kernel keeps none; errors as `stat`."""
        try:
            return parse_schedstat(self._read("schedstat"))
        except FileNotFoundError:
            # The kernel has no such file, or the thread is gone: the other files tell which.
            return None

    def close(self) -> None:
        """Close what is open."""
        for handle in self._handles.values():
            os.close(handle)
        self._handles.clear()

    def _read(self, name: str) -> bytes:
        if self._keep:
            if name not in self._handles:
                self._handles[name] = _open(f"{self._directory}/{name}")
            return os.pread(self._handles[name], _LIMIT_BYTES, 0)
        handle = _open(f"{self._directory}/{name}")
        try:
            return os.read(handle, _LIMIT_BYTES)
        finally:
            os.close(handle)


def _open(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
