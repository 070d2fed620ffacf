"""What a program asked of the kernel, by strace(1)."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

# A counter's file is the kernel's own or, in the lab, one of its file server.
_COUNTER = r"<(anon_inode:\[perf_event\]|/sys/fs/lab/live/perf/event,[^>]*)>"
_CALL = re.compile(r"(?:\d+ +)?(\w+)\(")
_OF_A_COUNTER = re.compile(rf"(?:\d+ +)?(readv?|ioctl)\(\d+{_COUNTER}")


@dataclass(frozen=True, slots=True)
class Calls:
    """System calls of one run: reads and ioctls of counters, and all there were."""

    reads: int
    controls: int
    total: int


def traced(command: Sequence[str], *, around: Sequence[str] = ()) -> Calls:
    """Run a command, and what it starts, to its end; `around`: what is to run strace itself.

    Raises:
        subprocess.CalledProcessError: the command failed.
    """
    quiet = subprocess.DEVNULL
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "strace")
        subprocess.run(
            [*around, "strace", "-f", "-y", "-o", log, *command],
            check=True,
            stdin=quiet,
            stdout=quiet,
            stderr=quiet,
        )
        return calls_of(log.read_text(encoding="utf-8", errors="replace"))


def calls_of(log: str) -> Calls:
    """Count the calls in what `strace -f -y -o` wrote."""
    reads = controls = total = 0
    for line in log.splitlines():
        total += _CALL.match(line) is not None
        found = _OF_A_COUNTER.match(line)
        if found:
            reads += found[1] != "ioctl"
            controls += found[1] == "ioctl"
    return Calls(reads, controls, total)
