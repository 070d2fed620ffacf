"""Python programs that need not be started: a fork that has imported what they need runs them.

An interpreter that starts nftop imports 600 modules, which takes more CPU time than most of what
tests have it do. A program run here sees what it would see in an interpreter of its own, but for
/proc/self/cmdline: its arguments, `__main__`, descriptors, signals, name and exit code.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import os
import runpy
import signal
import sys
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from typing import IO, NoReturn

from tests.lab import syscalls

# What nftop's commands import while they run, and programs of tests.
_MODULES = (
    *(f"nftop.cli.commands.{name}" for name in ("cat", "doctor", "live", "record", "sst", "undo")),
    "nftop.cli.compose.hosts", "nftop.export.batch", "nftop.export.json.frame", "tests.forked",
)  # fmt: skip
_FIRST_OTHER_FD, _LAST_FD = 3, 1 << 20


def prepare() -> None:
    """Import what programs need; forks of this process have it."""
    for name in _MODULES:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # nor does a fork look at it again, which would copy it


def execute(command: Sequence[str]) -> NoReturn:
    """Do what execvp(3) does, without a new interpreter if the command is one of this Python.

    Raises:
        OSError: as execvp.
    """
    match command:
        case [program, "-m", module, *arguments] if program == sys.executable:
            _become([module, *arguments], lambda: _run_module(module))
        case [program, "-c", text, *arguments] if program == sys.executable:
            _become(["-c", *arguments], lambda: _run_text(text))
        case _:
            os.execvp(command[0], list(command))


def run(command: Sequence[str]) -> int:
    """Run a command to its end, as `execute` does: its exit code, minus the signal's number."""
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        _executed(command)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@contextlib.contextmanager
def running(command: Sequence[str]) -> Iterator[IO[str]]:
    """Standard output of a command that runs in a fork, by `execute`; SIGTERM ends it at exit."""
    sys.stdout.flush()
    ours, theirs = os.pipe()
    pid = os.fork()
    if not pid:
        os.dup2(theirs, 1)
        _executed(command)
    os.close(theirs)
    with os.fdopen(ours) as printed:
        try:
            yield printed
        finally:
            os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)


def _executed(command: Sequence[str]) -> NoReturn:
    """In a fork; it goes no further than this."""
    try:
        execute(command)
    finally:
        os._exit(1)


def _become(arguments: list[str], body: Callable[[], None]) -> NoReturn:
    """Run a program and end as an interpreter does."""
    syscalls.call_me(os.path.basename(sys.executable))  # noqa: PTH119 - a name, no path
    os.closerange(_FIRST_OTHER_FD, _LAST_FD)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _open_streams()
    sys.argv = arguments
    sys.excepthook = sys.__excepthook__
    code = 1
    try:
        code = _code(body)
        threading._shutdown()  # type: ignore[attr-defined] # its threads that are no daemons
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _open_streams() -> None:
    """Open standard streams anew: those of the parent are buffered for its own files."""
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(
        2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False
    )
    for name in ("stdin", "stdout", "stderr"):
        setattr(sys, f"__{name}__", getattr(sys, name))


def _code(body: Callable[[], None]) -> int:
    try:
        body()
    except SystemExit as left:
        if left.code is None:
            return 0
        if isinstance(left.code, int):
            return left.code
        print(left.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException as error:  # noqa: BLE001 - the end of the program
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


def _run_module(name: str) -> None:
    sys.modules.pop(f"{name}.__main__", None)
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _run_text(text: str) -> None:
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    exec(compile(text, "<string>", "exec", dont_inherit=True), main.__dict__)
