"""The processes that can be moved to a group: those of the host that the lab runs on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

# proc(5): the fields of /proc/PID/stat after the name, which may hold anything but is in brackets.
_STARTED = 22 - 3


@dataclass(frozen=True, slots=True)
class Task:
    """A thread: its owner's real user id, and when it was started."""

    uid: int
    started: int


class Processes(Protocol):
    """Who is there."""

    def task(self, pid: int) -> Task | None:
        """The thread of this id; None if there is none."""

    def ids(self) -> Iterator[int]:
        """Every thread's id, process by process."""


class ProcFolder:
    """Those of a mounted /proc."""

    def __init__(self, root: Path = Path("/proc")) -> None:
        self._root = root

    def task(self, pid: int) -> Task | None:
        """See `Processes`."""
        folder = self._root / str(pid)
        try:
            stat, status = (folder / "stat").read_text(), (folder / "status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return None
        started = int(stat.rpartition(")")[2].split()[_STARTED])
        uid = next(line.split()[1] for line in status.splitlines() if line.startswith("Uid:"))
        return Task(int(uid), started)

    def ids(self) -> Iterator[int]:
        """See `Processes`."""
        for process in sorted(
            int(each.name) for each in self._root.iterdir() if each.name.isdigit()
        ):
            try:
                threads = [int(each.name) for each in (self._root / f"{process}/task").iterdir()]
            except (FileNotFoundError, ProcessLookupError):
                continue
            yield from sorted(threads)
