"""Tasks: how long a real process has run, and what the model would have counted in that time.

The model knows no task of this host. One that is counted (`perf stat COMMAND`) does per second of
its CPU time what the model's `system` workload does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nftop.model.column import Floats
from nftop.sim import workloads
from nftop.sim.rates import rates_alone

_TICKS_PER_S = 100  # USER_HZ on x86
_S = 1_000_000_000
# Fields 16 and 17 of /proc/PID/stat (proc(5)), counted after the name in parentheses.
_REAPED_TIMES = slice(13, 15)
_SCAN_EVERY_S = 0.005


@dataclass(frozen=True, slots=True)
class Tasks:
    """What is asked about tasks; tests bring their own.

    Attributes:
        uid: the effective user of a task; None: it does not exist.
        cpu_ns: CPU time of its process and of those of its children that it has waited for; None:
            it does not exist.
    """

    uid: Callable[[int], int | None]
    cpu_ns: Callable[[int], int | None]


def host_tasks() -> Tasks:
    """Those of this host."""
    return Tasks(_uid, _cpu_ns)


def exact(t_ns: int) -> Floats:
    """The model's quantities after a task has run for so long, float64 (k,)."""
    return rates_alone(workloads.load("system")) * (t_ns / _S)


class TaskClock:
    """A task's time, which stays what it was last seen to be when the task has ended."""

    def __init__(self, tasks: Tasks, pid: int) -> None:
        self._tasks, self._pid = tasks, pid
        self._start_ns = tasks.cpu_ns(pid) or 0
        self._seen_ns = 0

    def __call__(self) -> int:
        now = self._tasks.cpu_ns(self._pid)
        if now is not None:
            self._seen_ns = max(self._seen_ns, now - self._start_ns)
        return self._seen_ns


class Watch:
    """Looks at task clocks often: the time of a task can't be asked once it has ended."""

    def __init__(self) -> None:
        self._clocks: set[TaskClock] = set()
        self._changed = threading.Condition()
        self._scanning = False

    def follow(self, clock: TaskClock) -> None:
        """Look at this one until it is forgotten."""
        with self._changed:
            self._clocks.add(clock)
            # One that was told that nothing is left may not have woken yet, and goes on.
            if not self._scanning:
                self._scanning = True
                threading.Thread(target=self._scan, daemon=True).start()

    def forget(self, clock: TaskClock) -> None:
        with self._changed:
            self._clocks.discard(clock)
            self._changed.notify_all()

    def _scan(self) -> None:
        with self._changed:
            while self._clocks:
                for clock in self._clocks:
                    clock()
                self._changed.wait(_SCAN_EVERY_S)
            self._scanning = False


def _uid(pid: int) -> int | None:
    try:
        return Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return None


def _cpu_ns(pid: int) -> int | None:
    try:
        # The clock of a process, made of its id as clock_getcpuclockid(3) does.
        own = time.clock_gettime_ns(~pid << 3 | 2)
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    reaped = sum(int(word) for word in fields.rpartition(")")[2].split()[_REAPED_TIMES])
    return own + reaped * _S // _TICKS_PER_S
