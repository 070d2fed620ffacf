"""The nftop command for programs in a lab, forked from one process that has imported it.

Imports are most of the CPU time of a command, and a program starts up to twenty. The forked
process has its own arguments, streams and exit code, and ends as `python -m nftop` does.
"""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import tempfile
import traceback
from contextlib import suppress
from importlib import import_module
from typing import NoReturn

from nftop.__main__ import main
from nftop.cli.parsers import cat

# Modules that a command imports when it runs.
_MODULES = {
    **dict.fromkeys(cat.NAMES, ("cat", "cat_profile", "undo")),
    "sst": ("sst",),
}


def nftop(*arguments: str) -> subprocess.CompletedProcess[str]:
    """From beginning to end, with nothing on standard input."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        _import_for(arguments)
        pid = os.fork()
        if not pid:
            nothing = os.open(os.devnull, os.O_RDONLY)
            for number, source in enumerate((nothing, out.fileno(), err.fileno())):
                os.dup2(source, number)
            _become(arguments)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        for file in (out, err):
            file.seek(0)
        return subprocess.CompletedProcess(
            arguments, code, out.read().decode(), err.read().decode()
        )


def start(*arguments: str) -> int:
    """Start it with nothing on standard input and its output discarded; its PID."""
    _import_for(arguments)
    pid = os.fork()
    if not pid:
        null = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(null, number)
        _become(arguments)
    return pid


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


def _import_for(arguments: tuple[str, ...]) -> None:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as `main` does before numpy is imported
    for name in _MODULES.get(arguments[0], ()):
        import_module(f"nftop.cli.commands.{name}")


def _become(arguments: tuple[str, ...]) -> NoReturn:
    code: int | str | None = 1
    try:
        sys.argv = ["nftop", *arguments]
        # The parent's are buffered as its own files need.
        sys.stdin = os.fdopen(0, closefd=False)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
        code = main()
    except SystemExit as left:
        code = left.code
    finally:
        if sys.exc_info()[0] is not None:
            traceback.print_exc()
        with suppress(OSError):
            sys.stdout.flush()
        os._exit(code if isinstance(code, int) else bool(code))
