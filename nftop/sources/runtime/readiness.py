"""Wait until descriptors can be read or written, by poll(2).

select(2) takes no descriptor of FD_SETSIZE (1024) or above. nftop holds one per CPU and counter, so
later descriptors exceed that on a host of some 88 CPUs.
"""

from __future__ import annotations

import errno
import os
import select
import time
from collections.abc import Collection
from typing import Protocol, TypeAlias


class HasDescriptor(Protocol):
    """A file, a socket or a pipe."""

    def fileno(self) -> int: ...


Descriptor: TypeAlias = int | HasDescriptor

# poll(2) takes its timeout as a C int of milliseconds: 24 days.
_LONGEST_S = (2**31 - 1) // 1000


def wait_readable(files: Collection[Descriptor], timeout_s: float | None) -> tuple[int, ...]:
    """Descriptors of those files that can be read without waiting; empty after the timeout.

    The end of input, a hang-up and an error count as readable: the read reports them. A timeout of
    0 or less does not wait, None waits without limit. A signal whose handler returns does not end
    the wait (PEP 475); one whose handler raises does. Raises OSError: EBADF, a descriptor is not
    open.
    """
    return _wait(files, select.POLLIN, timeout_s)


def wait_writable(files: Collection[Descriptor], timeout_s: float | None) -> tuple[int, ...]:
    """The same for writing; a closed peer counts as writable: the write reports it."""
    return _wait(files, select.POLLOUT, timeout_s)


def _wait(files: Collection[Descriptor], events: int, timeout_s: float | None) -> tuple[int, ...]:
    poller = select.poll()
    for file in files:
        poller.register(file, events)
    deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        # poll takes a negative timeout for none at all.
        left_s = None if deadline_s is None else max(deadline_s - time.monotonic(), 0.0)
        bounded_s = _LONGEST_S if left_s is None else min(left_s, _LONGEST_S)
        ready = poller.poll(bounded_s * 1000)
        if any(returned & select.POLLNVAL for _, returned in ready):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        if ready or (left_s is not None and left_s <= bounded_s):
            return tuple(descriptor for descriptor, _ in ready)
