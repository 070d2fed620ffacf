"""A process of our own for a library that may crash or hang: started here, spoken to, ended."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_END_S = 2.0
_COMPLAINT_CHARS = 200
# As `control.gate` starts its guard: nothing of the caller's environment, nftop's folder last.
START = (
    "import runpy, sys; folder, name = sys.argv[1:3]; sys.path.insert(0, folder); import nftop; "
    "sys.path.append(sys.path.pop(0)); runpy.run_module(name, run_name='__main__')"
)
_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}


@dataclass(frozen=True, slots=True)
class Helper:
    """One that runs.

    Attributes:
        channel: both ways; its end is the end of this one's input.
        errors: what it wrote to standard error.
    """

    process: subprocess.Popen[bytes]
    channel: socket.socket
    errors: IO[bytes]


@dataclass(frozen=True, slots=True)
class Ended:
    """How one ended.

    Attributes:
        signal: the name of what killed it; "" where it ended by itself.
        complaint: the last line it wrote to standard error, in brackets; "" if none.
    """

    signal: str
    complaint: str


def start(
    module: str, *arguments: str, handles: Collection[int] = (), memory_bytes: int | None = None
) -> Helper:
    """Run a module of nftop's.

    Args:
        module: its dotted name.
        arguments: the last of its sys.argv.
        handles: descriptors that it gets under the same numbers.
        memory_bytes: limit on its address space (RLIMIT_AS, getrlimit(2)); None for none.
    """
    ours, theirs = socket.socketpair()
    errors = os.fdopen(os.memfd_create("nftop"), "w+b")
    folder = os.fspath(Path(__file__).resolve().parents[2])
    with theirs:
        process = subprocess.Popen(  # noqa: S603 - words of our own
            [sys.executable, "-I", "-c", START, folder, module, *arguments],
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            stderr=errors,
            env=_ENVIRONMENT,
            pass_fds=tuple(handles),
        )
    if memory_bytes is not None:
        limit = (memory_bytes, memory_bytes)
        with contextlib.suppress(ProcessLookupError):  # it has ended, which is noticed next
            resource.prlimit(process.pid, resource.RLIMIT_AS, limit)
    return Helper(process, ours, errors)


def end(helper: Helper, *, kill: bool) -> Ended:
    """End it: by the end of its input, or at once, as it is where it does not mind the former.

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
    said: list[str] = []
    if not helper.errors.closed:
        with helper.errors as errors:
            errors.seek(0)
            said = errors.read().decode("utf-8", "replace").strip().splitlines()[-1:]
    complaint = f" ({said[0][:_COMPLAINT_CHARS]})" if said else ""
    return Ended(signal.Signals(-code).name if code < 0 else "", complaint)
