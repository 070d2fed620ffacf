"""What a program asked of the kernel, by strace(1)."""

from __future__ import annotations

import base64
import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

# A counter's file is the kernel's own or, in the lab, one of its file server, whose name ends with
# the event's attribute; `type` is its first word.
_COUNTER = r"<(?:anon_inode:\[perf_event\]|/sys/fs/lab/live/perf/event,[^>]*,([^>,]+))>"
_CALL = re.compile(r"(?:\d+ +)?(\w+)\(")
_OF_A_COUNTER = re.compile(rf"(?:\d+ +)?(readv?|ioctl)\(\d+{_COUNTER}")


@dataclass(frozen=True, slots=True)
class Calls:
    """System calls of one run: reads and ioctls of cores' counters, and all there were."""

    reads: int
    controls: int
    total: int


def run_quietly(command: Sequence[str]) -> None:
    """Run a command without output; subprocess.CalledProcessError if it fails."""
    quiet = subprocess.DEVNULL
    subprocess.run(command, check=True, stdin=quiet, stdout=quiet, stderr=quiet)


def traced(
    command: Sequence[str],
    *,
    only: Sequence[str] = (),
    run: Callable[[Sequence[str]], None] = run_quietly,
    outside: range = range(0),
) -> Calls:
    """Run a command, and what it starts, to its end.

    Args:
        only: the calls that are traced, "read" and "ioctl"; () for all, which takes several times
            the CPU time.
        run: runs strace, and raises if that fails.
        outside: types of PMUs that are not a core's; only the lab's files tell them.
    """
    some = ["--seccomp-bpf", "-e", f"trace={','.join(only)}"] if only else []
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "strace")
        run(["strace", "-f", "-y", *some, "-o", str(log), *command])
        return calls_of(log.read_text(encoding="utf-8", errors="replace"), outside)


def calls_of(log: str, outside: range = range(0)) -> Calls:
    """Count the calls in what `strace -f -y -o` wrote."""
    reads = controls = total = 0
    for line in log.splitlines():
        total += _CALL.match(line) is not None
        result = _OF_A_COUNTER.match(line)
        if result and not (result[2] and _type(result[2]) in outside):
            reads += result[1] != "ioctl"
            controls += result[1] == "ioctl"
    return Calls(reads, controls, total)


def _type(attribute: str) -> int:
    return int.from_bytes(base64.urlsafe_b64decode(attribute[:8])[:4], "little")
