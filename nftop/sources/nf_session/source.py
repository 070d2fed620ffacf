"""A source that reads every network function of one kind, each through its socket."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Generic

from nftop.model.reading import Reason
from nftop.sources.base import Check
from nftop.sources.nf_session.connection import L
from nftop.sources.nf_session.discovery import (
    SocketFinder,
    SocketSearch,
    UnixSocket,
    Views,
    closed_sentence,
)
from nftop.sources.nf_session.poll_loop import PeerStanding, poll_all
from nftop.sources.nf_session.session import SocketSession, T

DEADLINE_S = 0.2
_MOST_USERS = 8


class NfSource(ABC, Generic[L, T]):
    """Reads all network functions of a kind within `deadline_s`, and keeps a session for each.

    Attributes:
        name: of the source; search: its sockets.
        absent, absent_fix: doctor's text if none is running, and what helps.
        leftover_fix: what helps if a socket is left over.
        one_per_folder: a left-over socket next to one in use is not reported.
        check_deadline_s: how long doctor waits; None: as long as a tick.
    """

    name: str
    inline = False
    absent: ClassVar[str]
    absent_fix: ClassVar[str] = ""
    leftover_fix: ClassVar[str]
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
        """Set up. Sockets are in `root`, processes in `proc`; `environ` may name further folders.

        `clock` is CLOCK_MONOTONIC in nanoseconds; `views` may be shared with other sources.
        """
        views = views or Views(root, proc, clock)
        self._finder = SocketFinder(self.search(environ), root, views, clock)
        self._proc, self._clock = proc, clock
        self._deadline_s = deadline_s
        self._sessions: dict[tuple[int, int], SocketSession[L, T]] = {}
        self._ended_cpu_ns = 0
        self._helper_cpu_ns = 0

    @property
    def helper_cpu_ns(self) -> int:
        """CPU time of its helper processes, as of the last poll."""
        return self._helper_cpu_ns

    def check(self) -> tuple[Check, ...]:
        """One line for each network function, left-over socket and closed location."""
        samples, hidden = self._poll(self.check_deadline_s or self._deadline_s)
        checks = [self._check_one(sample) for sample in samples]
        checks += [
            Check(
                f"{self.name} {socket.prefix}",
                Reason.SOURCE,
                f"{socket.path} is left over: no process listens on it",
                self.leftover_fix,
            )
            for socket in self._left_over()
        ]
        checks += [Check(self.name, Reason.PERMISSION, text, _sudo()) for text in hidden]
        return tuple(checks) if samples else (self._check_absence(hidden), *checks)

    def close(self) -> None:
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()

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
        departed = [k for k, s in self._sessions.items() if k not in present and not s.connected]
        for key in departed:
            session = self._sessions.pop(key)
            session.close()
            self._ended_cpu_ns += session.helper_cpu_ns
        poll_all(self._sessions.values(), deadline_s)
        running_ns = sum(session.helper_cpu_ns for session in self._sessions.values())
        self._helper_cpu_ns = self._ended_cpu_ns + running_ns
        samples = [sample for s in self._sessions.values() if (sample := s.sample()) is not None]
        closed = (
            closed_sentence(session.socket.path, self._finder.search.application)
            for session in self._standing(PeerStanding.FORBIDDEN)
        )
        untrusted = _untrusted(
            (session.owner.user, session.socket.path)
            for session in self._standing(PeerStanding.UNTRUSTED)
        )
        return tuple(sorted(samples, key=self._order)), (*untrusted, *hidden, *closed)

    def _standing(self, standing: PeerStanding) -> list[SocketSession[L, T]]:
        return [s for s in self._sessions.values() if s.standing is standing]

    def _left_over(self) -> list[UnixSocket]:
        running = {
            os.path.split(session.socket.path)[0]
            for session in self._standing(PeerStanding.APPLICATION)
        }
        return [
            session.socket
            for session in self._standing(PeerStanding.NOBODY)
            if not (self.one_per_folder and os.path.split(session.socket.path)[0] in running)
        ]

    def _check_absence(self, hidden: Sequence[str]) -> Check:
        if hidden and _sudo():
            text = f"{self.absent} that this user may read"
            return Check(self.name, Reason.PERMISSION, text, _sudo())
        return Check(self.name, Reason.SOURCE, self.absent, self.absent_fix)


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
