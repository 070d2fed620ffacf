"""Runs another program to hear what it says: the one place where sources do.

It gets no input, nothing of our environment and no longer than a limit; what it says is cut off
where nobody would read on, and is untrusted text.
"""

from __future__ import annotations

import os
import stat
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nftop.model.reading import Missing, Reason
from nftop.sources.runtime.readiness import wait_readable

FOLDERS = ("usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin", "sbin", "bin")
_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
_MOST_BYTES = 1 << 20
_CHUNK_BYTES = 1 << 16
_LEAST_S = 0.1


@dataclass(frozen=True, slots=True)
class Said:
    """Its exit code, and its two outputs; of each a megabyte at most."""

    code: int
    output: str
    errors: str


def find(name: str, root: Path = Path("/")) -> Path | None:
    """Where a program is installed; only one that nobody but root can have put there."""
    for folder in FOLDERS:
        path = root / folder / name
        try:
            found = path.stat()
        except OSError:
            continue
        others = stat.S_IWGRP | stat.S_IWOTH
        if stat.S_ISREG(found.st_mode) and found.st_mode & stat.S_IXUSR and found.st_uid == 0:
            return None if found.st_mode & others else path
    return None


def run(program: Path, arguments: Sequence[str], limit_s: float) -> Said | Missing:
    """What it says; why nothing where it can't be started or takes longer than the limit."""
    name = program.name
    try:
        process = subprocess.Popen(  # noqa: S603 - a path that `find` gave, words of our own
            [os.fspath(program), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_ENVIRONMENT,
        )
    except OSError as error:
        return Missing(Reason.ERROR, f"{name} can't be started: {error.strerror}")
    heard = _hear(process, time.monotonic() + limit_s)
    if heard is None:
        return Missing(Reason.ERROR, f"{name} did not end within {limit_s:g} s")
    output, errors = (item.decode("utf-8", "replace") for item in heard)
    return Said(process.returncode, output, errors)


def _hear(process: subprocess.Popen[bytes], deadline: float) -> tuple[bytes, ...] | None:
    """Both outputs once it has ended; None where it had to be killed. It is gone afterwards."""
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
    left_s = 0.0 if pipes else max(deadline - time.monotonic(), _LEAST_S)
    ended = _ended(process, left_s) and not pipes
    for file in files:
        file.close()
    return tuple(heard.values()) if ended else None


def _ended(process: subprocess.Popen[bytes], limit_s: float) -> bool:
    """Whether it ended by itself in time; it has ended afterwards."""
    try:
        process.wait(limit_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return False
    return True
