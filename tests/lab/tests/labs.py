"""Labs that a test starts, and what it sees of them from outside."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from nftop.sources.runtime.readiness import wait_readable
from tests.lab.requirements import missing

ROOT = Path(__file__).parents[3]
needs_lab = pytest.mark.skipif(bool(missing()), reason=f"no lab here: {missing()}")
LONGEST_S = 600.0  # nothing waits that long but a test that fails


def enter(*arguments: str, timeout_s: float = LONGEST_S) -> subprocess.CompletedProcess[str]:
    """A lab's command from beginning to end."""
    return subprocess.run(
        _command_line(arguments),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def answer(program: str, *options: str) -> Any:
    """What a Python program in a lab prints as JSON; it has nothing else to say.

    It finds `errno`, `fcntl`, `json` and `os` imported.
    """
    script = f"import errno, fcntl, json, os\n{textwrap.dedent(program)}"
    done = enter(*options, "--", sys.executable, "-c", script)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return json.loads(done.stdout)


def _command_line(arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "tests.lab", *arguments]


@dataclass(frozen=True)
class Running:
    """A lab in which something runs. `namespace` is its PID namespace."""

    outer: subprocess.Popen[str]
    namespace: str

    def inside(self) -> dict[str, list[int]]:
        """Its processes by name, the oldest first, as they are numbered outside."""
        return members(self.namespace)

    def send(self, text: str) -> None:
        assert self.outer.stdin is not None
        self.outer.stdin.write(text)
        self.outer.stdin.flush()

    def hear(self) -> str:
        """The next line of what the command prints."""
        return _line_of(self.outer)


@contextlib.contextmanager
def running(*arguments: str) -> Iterator[Running]:
    """A lab whose command prints a line when it is ready; that line is read."""
    outer = subprocess.Popen(
        _command_line(arguments),
        cwd=ROOT,
        bufsize=1,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        _line_of(outer)
        yield Running(outer, _namespace_of(outer.pid))
    finally:
        outer.kill()
        with outer:
            pass


def _line_of(outer: subprocess.Popen[str]) -> str:
    assert outer.stdout is not None
    line = b""
    while not line.endswith(b"\n"):
        assert wait_readable([outer.stdout], LONGEST_S), "it says nothing"
        byte = os.read(outer.stdout.fileno(), 1)  # past the buffer, which poll(2) can't see
        assert byte, "it has ended"
        line += byte
    return line.decode().strip()


def _namespace_of(outer: int) -> str:
    [init] = Path(f"/proc/{outer}/task/{outer}/children").read_text().split()
    return str(Path(f"/proc/{init}/ns/pid").readlink())


def members(namespace: str) -> dict[str, list[int]]:
    """The processes in a PID namespace that have not ended."""
    result: dict[str, list[int]] = {}
    for pid in sorted(
        int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()
    ):
        # Any of them may be gone by the time it is looked at.
        with contextlib.suppress(OSError):
            if str(Path(f"/proc/{pid}/ns/pid").readlink()) == namespace:
                result.setdefault(Path(f"/proc/{pid}/comm").read_text().strip(), []).append(pid)
    return result


def gone(namespace: str) -> dict[str, list[int]]:
    """Who is left in it, once it is empty or enough time has passed."""
    deadline = time.monotonic() + LONGEST_S
    while (left := members(namespace)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left
