"""Runs a command some of whose system calls are answered by handlers, as those of all it starts."""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from tests.lab.calls import keeper, seccomp
from tests.lab.calls.seccomp import Caught

Handler: TypeAlias = Callable[[int, Caught], None]
"""Answers one call, of a listener: with `seccomp.answer` and its like, or by raising OSError."""
Handlers: TypeAlias = Mapping[int, Handler]
"""By the number of the call."""


def run(
    command: Sequence[str],
    handlers: Handlers,
    *,
    on_start: Callable[[], None] = lambda: None,
    execute: keeper.Execute = keeper.execute,
) -> int:
    """Run the command to its end and give its exit code as a shell does.

    Args:
        handlers: of the calls to be caught; one that raises OSError has its call fail with that.
        on_start: is called in the command's process, before it is anything else.
        execute: turns that process into the command.

    Raises:
        RuntimeError: this is not an x86-64 machine.
        OSError: the kernel can't do it.
    """
    reason = seccomp.unsupported()
    if reason:
        raise RuntimeError(reason)
    ours, theirs = socket.socketpair()

    def prepare() -> None:
        on_start()
        _send_listener(theirs, tuple(handlers))

    kept = keeper.start(command, prepare, execute)
    theirs.close()
    with ours:
        _, fds, _, _ = socket.recv_fds(ours, 1, 1)
    try:
        if fds:  # else the command has ended without one, and says why
            _serve(fds[0], handlers, kept.pid)
    except BaseException:
        os.kill(kept.pid, signal.SIGTERM)  # nobody would answer the command any more
        raise
    finally:
        for fd in fds:
            os.close(fd)  # who still waits for an answer is told that there will be none
        code = keeper.end(kept)
    return code


def _send_listener(theirs: socket.socket, numbers: Sequence[int]) -> None:
    listener = seccomp.install(numbers)
    socket.send_fds(theirs, [b"!"], [listener])
    os.close(listener)


def _serve(listener: int, handlers: Handlers, pid: int) -> None:
    """Answer calls until the keeper, process `pid`, has ended."""
    process = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    poll.register(process, select.POLLIN)
    while process not in (ready := dict(poll.poll())):
        if ready[listener] & select.POLLIN:
            caught = seccomp.receive(listener)
            if caught is not None:
                _handle(listener, caught, handlers[caught.number])
        else:
            poll.unregister(listener)  # no process is under the filter any more
    os.close(process)


def _handle(listener: int, caught: Caught, handler: Handler) -> None:
    try:
        handler(listener, caught)
    except OSError as error:
        seccomp.answer(listener, caught, code=error.errno or errno.EIO)
    except Exception:  # noqa: BLE001 - one call's, and no reason to end the whole lab
        traceback.print_exc()
        seccomp.answer(listener, caught, code=errno.EIO)
