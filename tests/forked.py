"""The nftop command in forks of one process that has imported it.

Imports are most of the CPU time of a command, and some tests start it dozens of times. A fork has
its own arguments, streams and exit code, and ends as `python -m nftop` does. Programs in a lab
call `nftop` themselves; for tests `Forks` has a process that does nothing else.
"""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import NoReturn

from nftop.__main__ import main
from nftop.cli.parsers import cat, record
from nftop.sources.runtime.readiness import wait_readable

# Modules of `cli.commands` that a command imports when it runs.
_MODULES = {
    **dict.fromkeys(cat.NAMES, ("cat", "undo")),
    **dict.fromkeys(record.NAMES, ("record",)),
    **dict.fromkeys(record.INTERVAL_NAMES, ("export",)),
    "sst": ("sst",),
}


@dataclass(frozen=True, slots=True)
class Ended:
    """Exit code and output of one command, and its peak resident memory."""

    returncode: int
    stdout: bytes
    stderr: bytes
    peak_kib: int


class Forks:
    """A process that runs commands of nftop, each in a fork."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.forked"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def run(self, *arguments: str, timeout_s: float) -> Ended:
        """From beginning to end; fails if that takes longer."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(arguments).encode() + b"\n")
        self._process.stdin.flush()
        assert wait_readable([self._process.stdout], timeout_s), arguments
        code, peak_kib, out, err = map(int, self._process.stdout.readline().split())
        read = self._process.stdout.read
        return Ended(code, read(out), read(err), peak_kib)

    def close(self) -> None:
        self._process.kill()
        with self._process:
            pass


def nftop(*arguments: str) -> subprocess.CompletedProcess[str]:
    """From beginning to end, with nothing on standard input."""
    ended = _run(arguments)
    texts = ended.stdout.decode(), ended.stderr.decode()
    return subprocess.CompletedProcess(arguments, ended.returncode, *texts)


def start(*arguments: str) -> int:
    """Start it with nothing on standard input and its output discarded; its PID."""
    return _fork(arguments, os.open(os.devnull, os.O_RDWR), os.open(os.devnull, os.O_WRONLY))


def has_ended(pid: int) -> bool:
    """Whether it has; it still has to be waited for."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def on_terminal(*arguments: str) -> tuple[int, int]:
    """Start it on a terminal of its own, in a session of its own; its PID and the terminal."""
    _import_for(arguments)
    pid, terminal = pty.fork()
    if not pid:
        _become(arguments)
    return pid, terminal


def _run(arguments: Sequence[str]) -> Ended:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        pid = _fork(arguments, out.fileno(), err.fileno())
        _, status, usage = os.wait4(pid, 0)
        for file in (out, err):
            file.seek(0)
        code = os.waitstatus_to_exitcode(status)
        return Ended(code, out.read(), err.read(), usage.ru_maxrss)


def _fork(arguments: Sequence[str], out: int, err: int) -> int:
    _import_for(arguments)
    pid = os.fork()
    if not pid:
        for number, source in enumerate((os.open(os.devnull, os.O_RDONLY), out, err)):
            os.dup2(source, number)
        _become(arguments)
    return pid


def _import_for(arguments: Sequence[str]) -> None:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as `main` does before numpy is imported
    for name in _MODULES.get(arguments[0], ()):
        import_module(f"nftop.cli.commands.{name}")


def _become(arguments: Sequence[str]) -> NoReturn:
    code: int | str | None = 1
    try:
        sys.argv = ["nftop", *arguments]
        # The parent's are buffered as its own files need.
        encoding, errors = sys.stdout.encoding, sys.stdout.errors
        sys.stdin = os.fdopen(0, encoding=encoding, errors=errors, closefd=False)
        sys.stdout = os.fdopen(1, "w", encoding=encoding, errors=errors, closefd=False)
        sys.stderr = os.fdopen(
            2, "w", buffering=1, encoding=encoding, errors="backslashreplace", closefd=False
        )
        code = main()
    except SystemExit as left:
        code = left.code
    finally:
        if sys.exc_info()[0] is not None:
            traceback.print_exc()
        with suppress(OSError):
            sys.stdout.flush()
        os._exit(code if isinstance(code, int) else bool(code))


def _serve() -> None:
    for line in sys.stdin:
        ended = _run(json.loads(line))
        sizes = len(ended.stdout), len(ended.stderr)
        sys.stdout.buffer.write(b"%d %d %d %d\n" % (ended.returncode, ended.peak_kib, *sizes))
        sys.stdout.buffer.write(ended.stdout + ended.stderr)
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()
