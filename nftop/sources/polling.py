"""One loop that polls every network function of a source at once.

Questions go out to all of them before any answer is waited for, so a tick lasts as long as the
slowest, at most the deadline, however many there are. Who misses the deadline is not waited for
again: its answers are taken when they have come.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from enum import Enum, auto
from typing import Protocol

from nftop.sources.readiness import wait_readable

Identity = tuple[int, int]


class Standing(Enum):
    """What stands behind a socket, as far as was seen."""

    APPLICATION = auto()
    NOBODY = auto()  # it is left over from a process that has exited
    FORBIDDEN = auto()  # we may not open it
    DUPLICATE = auto()  # an application we already know by another path


class Polled(Protocol):
    """One network function: its connection, what it said last, and when to try again."""

    @property
    def connected(self) -> bool: ...

    @property
    def identity(self) -> Identity:
        """The process behind the socket; (0, 0) before the first connection."""

    @property
    def fd(self) -> int | None: ...

    @property
    def pressing(self) -> bool:
        """It is worth waiting for: it was asked, or was heard answering, in this tick."""

    def begin(self, claimed: set[Identity]) -> None:
        """Start a tick: connect if need be, take what came late, ask.

        `claimed` holds the processes other sessions are connected to, and gets this one's.
        """

    def hear(self) -> bool:
        """Take what has come, and ask what follows from it; False when there is nothing."""


def poll_all(sessions: Iterable[Polled], deadline_s: float) -> None:
    """One tick of every session, in at most `deadline_s`.

    Sessions that are connected go first, so that a second path to the same process is noticed.
    """
    ordered = sorted(sessions, key=lambda session: not session.connected)
    end_s = time.monotonic() + deadline_s
    claimed = {session.identity for session in ordered if session.connected}
    for session in ordered:
        session.begin(claimed)
    while (left_s := end_s - time.monotonic()) > 0:
        # Anew each time: one answer may lead to a question asked elsewhere.
        by_fd = {
            fd: session
            for session in ordered
            if session.pressing and (fd := session.fd) is not None
        }
        if not by_fd:
            return
        for fd in wait_readable(by_fd, left_s):
            by_fd[fd].hear()
