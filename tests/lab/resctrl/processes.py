"""The processes that can be moved to a group: those of the host that the lab runs on."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

# proc(5): fields of /proc/PID/stat after the name, which may hold anything but is in brackets.
_PARENT, _STARTED = 4 - 3, 22 - 3


@dataclass(frozen=True, slots=True)
class Task:
    """A thread.

    Attributes:
        uid: its owner's.
        started: when, in clock ticks since the host was booted.
        parent: who started it, as far as is known: its process's first thread, or of that the
            parent process.
    """

    uid: int
    started: int
    parent: int


class Processes(Protocol):
    """Who is there."""

    def tasks(self) -> Mapping[int, Task]:
        """Every thread by its id, process by process."""

    def now(self) -> int:
        """Clock ticks since the host was booted."""


class ProcFolder:
    """Those of a mounted /proc."""

    def __init__(self, root: Path = Path("/proc")) -> None:
        self._root = root

    def tasks(self) -> Mapping[int, Task]:
        """See `Processes`."""
        result: dict[int, Task] = {}
        for process in _ids(self._root):
            for thread in _ids(self._root / f"{process}/task"):
                # Any of them may be gone by the time it is looked at.
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                    result[thread] = self._task(process, thread)
        return result

    def now(self) -> int:
        """See `Processes`."""
        tick_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // tick_ns

    def _task(self, process: int, thread: int) -> Task:
        folder = self._root / f"{process}/task/{thread}"
        fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
        parent = int(fields[_PARENT]) if thread == process else process
        return Task(folder.stat().st_uid, int(fields[_STARTED]), parent)


def _ids(folder: Path) -> list[int]:
    """The numbers that are names in it, ascending; none if it is gone."""
    try:
        return sorted(int(entry.name) for entry in folder.iterdir() if entry.name.isdigit())
    except (FileNotFoundError, ProcessLookupError):
        return []
