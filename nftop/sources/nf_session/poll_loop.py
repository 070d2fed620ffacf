"""One loop that polls every network function of a source.

All sessions send their requests before any reply is waited for, so a tick takes as long as the
slowest reply, at most the deadline. A late reply is read in a later tick. Sessions of unprivileged
users are polled last, so they can't delay the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from enum import Enum, auto
from functools import partial
from typing import Protocol

from nftop.model.owner import Owner
from nftop.sources.runtime.readiness import wait_readable

Identity = tuple[int, int]
_RESERVE_RATIO = 0.25  # of the deadline, for sessions that are not privileged


class PeerStanding(Enum):
    """What is behind a socket, as of the last attempt to connect."""

    APPLICATION = auto()
    NOBODY = auto()  # it is left over from a process that has exited
    FORBIDDEN = auto()  # nftop may not open it
    DUPLICATE = auto()  # its process has another session, by another path
    UNTRUSTED = auto()  # an unprivileged user's, of a kind read only if privileged


class Polled(Protocol):
    """One network function: its connection, its latest reply, and when to try again.

    Attributes:
        spent_ns: nanoseconds that nftop has spent on it so far; `poll_all` adds to it.
    """

    spent_ns: int

    @property
    def owner(self) -> Owner:
        """User that the socket belongs to; by its file before the first connection."""

    @property
    def connected(self) -> bool: ...

    @property
    def identity(self) -> Identity:
        """The process behind the socket; (0, 0) before the first connection."""

    @property
    def fd(self) -> int | None: ...

    @property
    def pressing(self) -> bool:
        """Worth waiting for: it got a request, or has sent something, in this tick."""

    def begin(self, claimed: set[Identity]) -> None:
        """Start a tick: connect if necessary, receive late replies, send requests.

        `claimed` holds the processes other sessions are connected to, and gets this one's.
        """

    def hear(self) -> bool:
        """Receive what has arrived, and send what follows from it; False if nothing has."""


def poll_all(sessions: Iterable[Polled], deadline_s: float) -> None:
    """One tick of every session, in about `deadline_s`.

    Privileged sessions are polled first, with the whole deadline, or three quarters of it if there
    are others. The others share the rest equally, those first on which nftop has spent the least
    time. A session that uses up its share is read again in the next tick. In both groups connected
    sessions come first, so that a second path to the same process is recognized.
    """
    every = list(sessions)
    claimed = {session.identity for session in every if session.connected}
    first = [session for session in every if session.owner.privileged]
    others = [session for session in every if not session.owner.privileged]
    end_s = time.monotonic() + deadline_s
    reserve_s = _RESERVE_RATIO * deadline_s if others and first else 0.0
    _poll(sorted(first, key=_is_new), claimed, end_s - reserve_s, None)
    if others:
        others.sort(key=lambda session: (_is_new(session), session.spent_ns))
        left_s = max(end_s - time.monotonic(), 0.0)
        _poll(others, claimed, end_s, left_s / len(others))


def _is_new(session: Polled) -> bool:
    return not session.connected


def _poll(
    sessions: Sequence[Polled], claimed: set[Identity], end_s: float, share_s: float | None
) -> None:
    """One tick of some sessions until CLOCK_MONOTONIC `end_s`.

    With `share_s`, the seconds to spend on one session, sessions not begun by `end_s` wait for the
    next tick.
    """
    used_ns = {id(session): session.spent_ns for session in sessions}
    begun: list[Polled] = []
    for session in sessions:
        if share_s is not None and begun and time.monotonic() > end_s:
            break
        _timed(session, partial(session.begin, claimed))
        begun.append(session)
    while (left_s := end_s - time.monotonic()) > 0:
        # Built anew each time: a reply may lead to another request, on another descriptor.
        by_fd = {
            fd: session
            for session in begun
            if session.pressing
            and (share_s is None or session.spent_ns - used_ns[id(session)] < share_s * 1e9)
            and (fd := session.fd) is not None
        }
        if not by_fd:
            return
        for fd in wait_readable(by_fd, left_s):
            if share_s is not None and time.monotonic() > end_s:
                return
            _timed(by_fd[fd], by_fd[fd].hear)


def _timed(session: Polled, work: Callable[[], object]) -> None:
    began_ns = time.monotonic_ns()
    work()
    session.spent_ns += time.monotonic_ns() - began_ns
