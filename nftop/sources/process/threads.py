"""Files of one thread under /proc/PID/task/TID: parsing, and reading at every tick.

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
    """Identity of a thread, from `stat`. `cpu_ticks`: user and system time in clock ticks.

    In /proc/PID/stat the time is that of all threads of the process; `threads` is their number.
    """

    comm: str
    kernel: bool
    dead: bool
    cpu_ticks: int
    start_ticks: int
    last_cpu: Cpu
    threads: int = 0


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
    """Parse `stat`. ValueError: not a stat file."""
    # The name may contain parentheses: only the last one ends it.
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
        threads=int(fields[17]),
    )


def parse_schedstat(data: bytes) -> Schedstat | None:
    """Parse `schedstat`; None if the kernel does not keep it (it then writes `0 0 0`).

    Raises ValueError: not a schedstat file.
    """
    run_ns, wait_ns, slices = map(int, data.split())
    return Schedstat(run_ns, wait_ns) if run_ns or wait_ns or slices else None


def parse_status(data: bytes) -> Status:
    """Parse `status`. ValueError: not a status file."""
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

    With `keep` they stay open: a read costs a fifth, and fails once the thread has ended, even if
    its tid is reused. Without, every read opens the file.
    """

    def __init__(self, directory: str, *, keep: bool) -> None:
        self._directory = directory
        self.kept = keep
        self._handles: dict[str, int] = {}

    def stat(self) -> Stat:
        """Raises OSError if the thread has ended, ValueError if the file is invalid."""
        return parse_stat(self._read("stat"))

    def status(self) -> Status:
        """Raises as `stat`."""
        return parse_status(self._read("status"))

    def schedstat(self) -> Schedstat | None:
        """None if the kernel keeps none. Raises as `stat`."""
        try:
            return parse_schedstat(self._read("schedstat"))
        except FileNotFoundError:
            return None  # no such file in this kernel, or the thread has ended

    def close(self) -> None:
        for handle in self._handles.values():
            os.close(handle)
        self._handles.clear()

    def _read(self, name: str) -> bytes:
        if self.kept:
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
