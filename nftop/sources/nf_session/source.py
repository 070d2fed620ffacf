"""A source that reads every network function of one kind, each through its socket.

All sessions send their requests before any reply is waited for, so a tick takes as long as the
slowest reply, at most the deadline. A late reply is read in a later tick. Sessions of unprivileged
users are polled last, so they can't delay the others.
"""

from __future__ import annotations

import os
import shlex
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar, Generic, Protocol

from nftop.model.check import Check
from nftop.model.missing import Reason
from nftop.model.owner import Owner
from nftop.sources.nf_session.connection import L
from nftop.sources.nf_session.discovery import (
    SocketFinder,
    SocketSearch,
    UnixSocket,
    Views,
    closed_sentence,
)
from nftop.sources.nf_session.session import Identity, PeerStatus, SocketSession, T
from nftop.sources.runtime.readiness import wait_readable

DEADLINE_S = 0.2
_RESERVE_RATIO = 0.25  # of the deadline, for sessions that are not privileged
_MOST_USERS = 8


class Polled(Protocol):
    """One session, as polled; see `SocketSession`."""

    spent_ns: int

    @property
    def owner(self) -> Owner: ...

    @property
    def connected(self) -> bool: ...

    @property
    def identity(self) -> Identity: ...

    @property
    def fd(self) -> int | None: ...

    @property
    def pressing(self) -> bool: ...

    def begin(self, claimed: set[Identity]) -> None: ...

    def hear(self) -> bool: ...


def poll_all(sessions: Iterable[Polled], deadline_s: float) -> None:
    """One tick of every session, in about `deadline_s`.

    Privileged sessions are polled first, with the whole deadline, or three quarters of it if there
    are others. The others share the rest equally, those first on which nftop has spent the least
    time. A session that uses up its share is read again in the next tick. In both groups connected
    sessions come first, so that a second path to the same process is recognized.
    """
    every = list(sessions)
    claimed = {session.identity for session in every if session.connected}
    every.sort(key=lambda session: not session.connected)
    first = [session for session in every if session.owner.privileged]
    others = [session for session in every if not session.owner.privileged]
    end_s = time.monotonic() + deadline_s
    reserve_s = _RESERVE_RATIO * deadline_s if others and first else 0.0
    _poll(first, claimed, end_s - reserve_s, None)
    if others:
        others.sort(key=lambda session: (not session.connected, session.spent_ns))
        left_s = max(end_s - time.monotonic(), 0.0)
        _poll(others, claimed, end_s, left_s / len(others))


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


class NfSource(ABC, Generic[L, T]):
    """Reads all network functions of a kind within `deadline_s`, and keeps a session for each.

    Attributes:
        name: of the source; search: its sockets.
        absent: doctor's text if none is running.
        one_per_folder: a left-over socket next to one in use is not reported.
        check_deadline_s: how long doctor waits; None: as long as a tick.
    """

    name: str
    inline = False
    absent: ClassVar[str]
    one_per_folder: ClassVar[bool] = False
    check_deadline_s: ClassVar[float | None] = None
    search: ClassVar[type[SocketSearch]]

    def __init__(
        self,
        root: Path = Path("/"),
        proc: Path = Path("/proc"),
        environ: Mapping[str, str] = os.environ,
        *,
        deadline_s: float = DEADLINE_S,
        clock: Callable[[], int] = time.monotonic_ns,
        views: Views | None = None,
    ) -> None:
        """Sockets are in `root`, processes in `proc`; `environ` may name further folders.

        `views` may be shared with other sources.
        """
        views = views or Views(root, proc, clock)
        self._finder = SocketFinder(self.search(environ), root, views, clock)
        self._proc, self._clock = proc, clock
        self._deadline_s = deadline_s
        self._sessions: dict[tuple[int, int], SocketSession[L, T]] = {}
        self._ended_cpu_ns = 0
        self.helper_cpu_ns = 0  # as of the last poll

    def check(self) -> tuple[Check, ...]:
        """One line for each network function, left-over socket and closed location."""
        samples, hidden = self._poll(self.check_deadline_s or self._deadline_s)
        checks = [self._check_one(sample) for sample in samples]
        checks += [
            Check(
                f"{self.name} {socket.prefix}",
                Reason.SOURCE,
                f"{socket.shown_path} is left over: no process listens on it",
                f"sudo rm {shlex.quote(socket.path)}" if socket.path == socket.shown_path else "",
            )
            for socket in self._left_over()
        ]
        checks += [Check(self.name, Reason.PERMISSION, text, _sudo()) for text in hidden]
        return tuple(checks) if samples else (self._check_absence(hidden), *checks)

    def close(self) -> None:
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()
        self._finder.close()

    @abstractmethod
    def _session(self, socket: UnixSocket) -> SocketSession[L, T]: ...

    @abstractmethod
    def _check_one(self, sample: T) -> Check:
        """Doctor's line of one network function."""

    @abstractmethod
    def _order(self, sample: T) -> tuple[int, str, int, str]: ...
    def _poll(self, deadline_s: float) -> tuple[tuple[T, ...], tuple[str, ...]]:
        """Samples of all network functions in order, and a message for each closed location."""
        sockets, hidden = self._finder.find()
        for socket in sockets:
            if socket.key in self._sessions:
                self._sessions[socket.key].socket = socket
            else:
                self._sessions[socket.key] = self._session(socket)
        present = {socket.key for socket in sockets}
        departed = [
            key
            for key, session in self._sessions.items()
            if key not in present
            and (not session.connected or self._finder.search.is_served(Path(session.socket.path)))
        ]
        for key in departed:
            session = self._sessions.pop(key)
            session.close()
            self._ended_cpu_ns += session.helper_cpu_ns
        poll_all(self._sessions.values(), deadline_s)
        running_ns = sum(session.helper_cpu_ns for session in self._sessions.values())
        self.helper_cpu_ns = self._ended_cpu_ns + running_ns
        samples = [sample for s in self._sessions.values() if (sample := s.sample()) is not None]
        closed = (
            closed_sentence(session.socket.path, self._finder.search.application)
            for session in self._of_status(PeerStatus.FORBIDDEN)
        )
        untrusted = _untrusted(
            (session.owner.user, session.socket.shown_path)
            for session in self._of_status(PeerStatus.UNTRUSTED)
        )
        return tuple(sorted(samples, key=self._order)), (*untrusted, *hidden, *closed)

    def _of_status(self, status: PeerStatus) -> list[SocketSession[L, T]]:
        return [s for s in self._sessions.values() if s.status is status]

    def _left_over(self) -> list[UnixSocket]:
        running = {
            os.path.split(session.socket.path)[0]
            for session in self._of_status(PeerStatus.APPLICATION)
        }
        return [
            session.socket
            for session in self._of_status(PeerStatus.NOBODY)
            if not (self.one_per_folder and os.path.split(session.socket.path)[0] in running)
        ]

    def _check_absence(self, hidden: Sequence[str]) -> Check:
        if hidden and _sudo():
            text = f"{self.absent} that this user may read"
            return Check(self.name, Reason.PERMISSION, text, _sudo())
        return Check(self.name, Reason.SOURCE, self.absent)


def _untrusted(sockets: Iterable[tuple[str, str]]) -> list[str]:
    """A message for each user whose sockets are not read; `sockets` are users and paths."""
    by_user: dict[str, list[str]] = {}
    for user, path in sockets:
        by_user.setdefault(user, []).append(path)
    return [
        f"{len(paths)} socket{'s' if len(paths) > 1 else ''} of user {user} not read: shared "
        f"memory is read only of root and of the user who runs nftop ({paths[0]})"
        for user, paths in sorted(by_user.items())[:_MOST_USERS]
    ]


def _sudo() -> str:
    return "sudo nftop" if os.geteuid() else ""
