"""Child processes: external programs with a time limit; helpers for libraries that may crash."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import IO

from nftop.model.missing import Missing, Reason
from nftop.model.struct import dataclass
from nftop.sources.runtime.readiness import wait_readable

_END_S = 2.0
_COMPLAINT_CHARS = 200
# The caller's environment must not reach root's Python, nor a package in nftop's folder precede
# Python's own. The arguments are the folder of the package and the module.
START = (
    "import runpy, sys; folder, name = sys.argv[1:3]; sys.path.insert(0, folder); import nftop; "
    "sys.path.append(sys.path.pop(0)); runpy.run_module(name, run_name='__main__')"
)
FOLDER = Path(__file__).resolve().parents[3]
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Helper:
    """A running helper."""

    process: subprocess.Popen[bytes]
    channel: socket.socket  # bidirectional; closing it ends the helper's input
    errors: IO[bytes]  # what it wrote to standard error


@dataclass(frozen=True, slots=True)
class Ended:
    """How a helper ended."""

    signal: str  # the signal that killed it; "" if it exited
    complaint: str  # its last line on standard error, in brackets; "" if none


def start(
    module: str,
    *arguments: str,
    handles: Collection[int] = (),
    memory_bytes: int | None = None,
    new_session: bool = False,
) -> Helper:
    """Start a helper that runs `module` of nftop; `arguments` are the last of its sys.argv.

    It inherits the descriptors `handles`, with the same numbers. `memory_bytes` limits its address
    space (RLIMIT_AS, getrlimit(2)). `new_session`: it outlives the terminal and nftop.
    """
    ours, theirs = socket.socketpair()
    errors = os.fdopen(os.memfd_create("nftop"), "w+b")
    with theirs:
        process = subprocess.Popen(  # noqa: S603 - words of our own
            [sys.executable, "-I", "-c", START, os.fspath(FOLDER), module, *arguments],
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            stderr=errors,
            env={"PATH": _PATH, "LC_ALL": "C.UTF-8"},
            pass_fds=tuple(handles),
            start_new_session=new_session,
        )
    if memory_bytes is not None:
        limit = (memory_bytes, memory_bytes)
        with contextlib.suppress(ProcessLookupError):  # it has ended, which is noticed next
            resource.prlimit(process.pid, resource.RLIMIT_AS, limit)
    return Helper(process, ours, errors)


def end(helper: Helper, *, kill: bool) -> Ended:
    """Close its input and wait, or kill it; also killed if it does not exit within _END_S.

    Safe to call twice.
    """
    helper.channel.close()
    if kill:
        helper.process.kill()
    try:
        code = helper.process.wait(_END_S)
    except subprocess.TimeoutExpired:
        helper.process.kill()
        code = helper.process.wait()
    complaints: list[str] = []
    if not helper.errors.closed:
        with helper.errors as errors:
            errors.seek(0)
            complaints = errors.read().decode("utf-8", "replace").strip().splitlines()[-1:]
    complaint = f" ({complaints[0][:_COMPLAINT_CHARS]})" if complaints else ""
    return Ended(signal.Signals(-code).name if code < 0 else "", complaint)


# External programs: no input, an empty environment, a time limit. Their output is untrusted text,
# cut off at a limit.
FOLDERS = ("usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin", "sbin", "bin")
_MOST_BYTES = 1 << 20
_CHUNK_BYTES = 1 << 16
_LEAST_S = 0.1


@dataclass(frozen=True, slots=True)
class ProgramOutput:
    """Exit code and outputs, at most a megabyte each."""

    code: int
    output: str
    errors: str


def find(name: str, root: Path = Path("/")) -> Path | None:
    """Path of an installed program that only root can have written."""
    for folder in FOLDERS:
        path = root / folder / name
        with contextlib.suppress(OSError):
            status = path.stat()
            executable = stat.S_ISREG(status.st_mode) and status.st_mode & stat.S_IXUSR
            if executable and status.st_uid == 0:
                return None if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) else path
    return None


def run(program: Path, arguments: Sequence[str], limit_s: float) -> ProgramOutput | Missing:
    """Its output, or why there is none: not started, or killed at the limit."""
    name = program.name
    try:
        process = subprocess.Popen(  # noqa: S603 - a path that `find` gave, words of our own
            [os.fspath(program), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PATH": _PATH, "LC_ALL": "C"},
        )
    except OSError as error:
        return Missing(Reason.ERROR, f"{name} can't be started: {error.strerror}")
    heard = _hear(process, time.monotonic() + limit_s)
    if heard is None:
        return Missing(Reason.ERROR, f"{name} did not end within {limit_s:g} s")
    output, errors = (item.decode("utf-8", "replace") for item in heard)
    return ProgramOutput(process.returncode, output, errors)


def _hear(process: subprocess.Popen[bytes], deadline: float) -> tuple[bytes, ...] | None:
    """Both outputs after its exit; None if it was killed."""
    files = [item for item in (process.stdout, process.stderr) if item is not None]
    heard = {item.fileno(): b"" for item in files}
    pipes = list(heard)
    while pipes:
        ready = wait_readable(pipes, deadline - time.monotonic())
        if not ready:
            break
        for pipe in ready:
            more = os.read(pipe, _CHUNK_BYTES)
            heard[pipe] += more
            if not more or len(heard[pipe]) > _MOST_BYTES:
                pipes.remove(pipe)
    try:
        process.wait(0.0 if pipes else max(deadline - time.monotonic(), _LEAST_S))
        ended = not pipes
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        ended = False
    for file in files:
        file.close()
    return tuple(heard.values()) if ended else None
