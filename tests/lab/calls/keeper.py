"""A command and all it starts, kept together: when either end goes, nothing of it stays.

run() forks a keeper, and the keeper the command. Both are subreapers, so that whatever loses its
parent becomes theirs; the keeper dies with its parent and takes its descendants along, and so does
the parent when it is the keeper that is gone.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tests.lab import syscalls

_ABSENT, _NOT_EXECUTABLE, _NOT_PREPARED = 127, 126, 125
_IGNORED = (signal.SIGINT, signal.SIGQUIT)


Execute: TypeAlias = Callable[[Sequence[str]], None]
"""Replaces a process with a command, as execvp(3) does: returns only by raising OSError."""


def execute(command: Sequence[str]) -> None:
    """execvp(3)."""
    os.execvp(command[0], list(command))


@dataclass(frozen=True, slots=True)
class Keeper:
    """A keeper, and the children that its parent had before it."""

    pid: int
    elder: frozenset[int]


def start(
    command: Sequence[str], prepare: Callable[[], None], execute: Execute = execute
) -> Keeper:
    """Fork the keeper, which runs the command after `prepare`, in the command's process.

    It ends as the command does. The caller becomes a subreaper and ignores the terminal's
    signals, which are for the command.
    """
    us = os.getpid()
    elder = frozenset(_children())
    syscalls.adopt_orphans()
    keeper = os.fork()
    if not keeper:
        _keep(us, lambda: _become(command, prepare, execute))
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    return Keeper(keeper, elder)


def end(keeper: Keeper) -> int:
    """Wait for the keeper, end what is left of its descendants, and give its exit code."""
    _, status = os.waitpid(keeper.pid, 0)
    end_descendants(spared=keeper.elder)
    return exit_code(status)


def exit_code(status: int) -> int:
    """As a shell says it: 128 and the signal's number for who was killed."""
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


def end_descendants(spared: Collection[int] = ()) -> None:
    """SIGKILL every descendant, and those they leave behind, until there is none.

    `spared`: children that are left alone.
    """
    while doomed := [pid for pid in _children() if pid not in spared]:
        for pid in doomed:
            os.kill(pid, signal.SIGKILL)  # a child not waited for is there, alive or not
        for pid in doomed:
            os.waitpid(pid, 0)


def _children() -> list[int]:
    """Of this process; what was started by them becomes ours as they die."""
    me = os.getpid()
    text = Path(f"/proc/{me}/task/{me}/children").read_text(encoding="ascii")
    return [int(pid) for pid in text.split()]


def _keep(parent: int, become: Callable[[], None]) -> None:
    """The keeper's life, whose child does `become`; it does not return."""

    def gone(*_: object) -> None:
        end_descendants()
        os._exit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, gone)
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    syscalls.call_me("lab-keeper")
    syscalls.adopt_orphans()
    syscalls.die_with_parent(signal.SIGTERM)
    if os.getppid() != parent:
        os._exit(128 + signal.SIGTERM)
    child = os.fork()
    if not child:
        become()
    status = 0
    while True:
        pid, status = os.wait()  # orphans come and go
        if pid == child:
            break
    end_descendants()
    os._exit(exit_code(status))


def _become(command: Sequence[str], prepare: Callable[[], None], execute: Execute) -> None:
    """Turn into the command; it does not return."""
    code = _NOT_PREPARED
    try:
        for number in (*_IGNORED, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        prepare()
        code = _NOT_EXECUTABLE
        execute(command)
    except OSError as error:
        if code == _NOT_PREPARED:
            print(f"nftop's lab: calls can't be caught: {error.strerror}", file=sys.stderr)
        else:
            print(f"{command[0]}: {error.strerror}", file=sys.stderr)
            code = _ABSENT if isinstance(error, FileNotFoundError) else code
    finally:
        os._exit(code)
