"""One session per socket: its connection, its latest replies, and the time of the next attempt."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from enum import Enum, auto
from pathlib import Path
from typing import ClassVar, Generic, TypeAlias, TypeVar

from nftop.model.clock import NS_PER_S
from nftop.model.missing import Missing, Reason
from nftop.model.owner import SOCKET_FILE, Owner
from nftop.model.struct import dataclass
from nftop.sources.nf_session.connection import (
    A,
    BatchTimes,
    L,
    LinkError,
    NoListenerError,
    Q,
    ReplyError,
    RequestLink,
)
from nftop.sources.nf_session.discovery import UnixSocket
from nftop.sources.trust import ownership, peer
from nftop.sources.trust.peer import Credentials, Peer

T = TypeVar("T")
Identity: TypeAlias = tuple[int, int]
"""Pid and start of a process; (0, 0) before the first connection."""

GIVE_UP_NS = 60_000_000_000
_BACKOFF_S = (1, 2, 4, 8, 16, 30)
# A process between bind(2) and listen(2) refuses connections for a moment; a socket that is left
# over is not tried again before its folder has been listed again.
_MOST_REFUSALS = 3


class PeerStatus(Enum):
    """What is behind a socket, as of the last attempt to connect."""

    APPLICATION = auto()
    NOBODY = auto()  # it is left over from a process that has exited
    FORBIDDEN = auto()  # nftop may not open it
    DUPLICATE = auto()  # its process has another session, by another path
    UNTRUSTED = auto()  # an unprivileged user's, of a kind read only if privileged


class SocketSession(ABC, Generic[L, T]):
    """One socket and the process behind it.

    Attributes:
        socket: the current path; status: result of the last attempt to connect.
        owner: user of the socket; by its file before the first connection.
        spent_ns: nanoseconds that nftop has spent on it so far.
        privileged_only: sockets of unprivileged users are not read.
    """

    privileged_only: ClassVar[bool] = False

    def __init__(self, socket: UnixSocket, proc: Path, clock: Callable[[], int]) -> None:
        self.socket = socket
        self.status = PeerStatus.APPLICATION
        self.owner = socket.owner
        self.spent_ns = 0
        self._proc = proc
        self._clock = clock
        self._link: L | None = None
        self._tick = self._sent_tick = self._heard_tick = 0
        self._sent_at_ns = 0
        self._problem: Missing | None = None
        self._failures = 0
        self._tried, self._refusals = socket, 0
        self._retry_at_ns = 0

    @property
    def connected(self) -> bool:
        return self._link is not None

    @property
    @abstractmethod
    def identity(self) -> Identity: ...

    @property
    @abstractmethod
    def fd(self) -> int | None: ...

    @property
    @abstractmethod
    def pressing(self) -> bool:
        """Whether to wait for it: it got a request, or has sent something, in this tick."""

    @property
    def helper_cpu_ns(self) -> int:
        """CPU time of helper processes that have read for this session."""
        return 0

    def begin(self, claimed: set[Identity]) -> None:
        """Start a tick: connect if necessary, receive late replies, send requests.

        `claimed` has the processes of other sessions, and gets this one's.
        """
        self._tick += 1
        self._end_lost()
        claimed_before = self.status is PeerStatus.DUPLICATE and self.identity in claimed
        if self.socket is not self._tried:
            self._tried, self._refusals = self.socket, 0
        idle = claimed_before or self._refusals >= _MOST_REFUSALS
        if not self.connected and self._clock() >= self._retry_at_ns and not idle:
            self._connect(claimed)
        self._poll()

    @abstractmethod
    def hear(self) -> bool:
        """Receive what has arrived and send what follows from it; False if nothing has arrived."""

    def sample(self) -> T | None:
        """Its part of a sample; None if there is no process, or none that nftop may read.

        With a problem, the counters and their time are those of the last successful poll.
        """
        if self.status is not PeerStatus.APPLICATION or not self._tick:
            return None
        return self._sample()

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def _open(self) -> L:
        """Connect; raises as `connection.connect`."""

    @abstractmethod
    def _identify(self, credentials: Credentials | None) -> None:
        """Set `identity` to the process with these credentials; None for no process."""

    @abstractmethod
    def _forget(self) -> None:
        """Drop what another process reported."""

    @abstractmethod
    def _end_lost(self) -> None:
        """End a connection that is of no use any more."""

    @abstractmethod
    def _poll(self) -> None:
        """Receive late replies, and send this tick's requests."""

    @abstractmethod
    def _sample(self) -> T: ...

    def _connect(self, claimed: set[Identity]) -> None:
        self.status = PeerStatus.APPLICATION
        try:
            link = self._open()
        except NoListenerError:
            self._leave(PeerStatus.NOBODY)
            self._refusals += 1
        except PermissionError:
            self.status = PeerStatus.FORBIDDEN
            self._wait(_BACKOFF_S[-1])
        except LinkError as error:
            self._drop(error.why)
        else:
            self._adopt(link, claimed)

    def _adopt(self, link: L, claimed: set[Identity]) -> None:
        self.owner = ownership.of_socket(self.socket.path, link.peer.uid)
        if not self.owner.privileged:
            link.restrict()
        if self.privileged_only and not (
            ownership.is_trusted(link.peer.uid) and self.owner.reason != SOCKET_FILE
        ):
            link.close()
            self._leave(PeerStatus.UNTRUSTED)
            self._wait(_BACKOFF_S[-1])
            return
        before = self.identity
        self._identify(link.peer)
        duplicate = self.identity[0] != 0 and self.identity in claimed
        if duplicate or self.identity != before:
            self._restart()
        if duplicate:
            link.close()
            self.status = PeerStatus.DUPLICATE
            return
        claimed.add(self.identity)
        self._link = link
        self._sent_tick, self._sent_at_ns = self._tick, self._clock()

    def _restart(self) -> None:
        self._problem, self._failures = None, 0
        self._forget()

    def _leave(self, status: PeerStatus) -> None:
        """No process is left behind the socket, or none that is read."""
        self.close()
        self._identify(None)
        self._restart()
        self.status, self._retry_at_ns = status, 0

    def _drop(self, why: Missing) -> None:
        """End the connection, and try again later."""
        self.close()
        self._fail(why)

    def _fail(self, why: Missing) -> None:
        self._problem = why
        self._wait(_BACKOFF_S[min(self._failures, len(_BACKOFF_S) - 1)])
        self._failures += 1

    def _wait(self, seconds: int) -> None:
        self._retry_at_ns = self._clock() + seconds * NS_PER_S


@dataclass(frozen=True, slots=True)
class NfStatus:
    """What a session knows of a network function without its replies."""

    socket: UnixSocket
    peer: Peer
    owner: Owner
    problem: Missing | None


class NfClient(ABC, Generic[Q, A, T]):
    """The protocol of one kind of network function, and what one process has reported by it."""

    late_messages: ClassVar[int]  # how many messages are received before a tick's requests are sent

    @abstractmethod
    def connect(self, path: str) -> RequestLink[Q, A]:
        """Connect; raises as `connection.connect`."""

    @abstractmethod
    def forget(self) -> None:
        """Drop all reports: another process is behind the socket."""

    @abstractmethod
    def poll(self) -> Generator[tuple[Q, ...], A, None]:
        """One poll: yields batches of requests, receives their replies. Raises ReplyError."""

    @abstractmethod
    def sample(self, status: NfStatus) -> T:
        """This session's entry in a sample."""


class DialogueSession(SocketSession[RequestLink[Q, A], T], Generic[Q, A, T]):
    """A session whose peer answers requests; `client` has the protocol."""

    def __init__(
        self, socket: UnixSocket, proc: Path, clock: Callable[[], int], client: NfClient[Q, A, T]
    ) -> None:
        super().__init__(socket, proc, clock)
        self._client = client
        self._dialogue: Generator[tuple[Q, ...], A, None] | None = None
        self._peer = Peer()
        self._heard_at_ns = clock()

    @property
    def identity(self) -> Identity:
        return self._peer.identity

    @property
    def fd(self) -> int | None:
        return None if self._link is None else self._link.fileno()

    @property
    def pressing(self) -> bool:
        return self._dialogue is not None and self._tick in (self._sent_tick, self._heard_tick)

    def hear(self) -> bool:
        try:
            if self._link is None or not self._link.hear():
                return False
            self._heard_at_ns, self._heard_tick = self._clock(), self._tick
            if not self._link.waiting:
                self._advance(self._answers(self._link))
        except (ReplyError, LinkError) as error:
            self._drop(_problem_of(error))
        return True

    def close(self) -> None:
        if self._dialogue is not None:
            self._dialogue.close()
        if self._link is not None:
            self._link.close()
        self._dialogue = self._link = None

    def _open(self) -> RequestLink[Q, A]:
        return self._client.connect(self.socket.path)

    def _identify(self, credentials: Credentials | None) -> None:
        self._peer = Peer() if credentials is None else peer.of_listener(credentials, self._proc)

    def _forget(self) -> None:
        self._client.forget()
        self._heard_at_ns = self._clock()

    def _end_lost(self) -> None:
        # A new connection does not help a process that has never answered on this one.
        if self._link is None or self._dialogue is None or not self._link.established:
            return
        now_ns = self._clock()
        if now_ns - self._heard_at_ns > GIVE_UP_NS:
            self._drop(self._silence(now_ns))

    def _poll(self) -> None:
        for _ in range(self._client.late_messages if self.owner.privileged else 1):
            if not self.hear():
                break
        if self._link is not None and self._dialogue is None:
            self._dialogue = self._client.poll()
            self._advance(None)

    def _advance(self, answers: A | None) -> None:
        """Continue the dialogue until a reply has to be waited for, or it is over."""
        while self._dialogue is not None and self._link is not None:
            try:
                requests = next(self._dialogue) if answers is None else self._dialogue.send(answers)
                self._sent_at_ns, self._sent_tick = self._clock(), self._tick
                self._link.ask(requests)
            except StopIteration:
                self._dialogue = self._problem = None
                self._failures = 0
                return
            except (ReplyError, LinkError) as error:
                self._drop(_problem_of(error))
                return
            if self._link.waiting:
                return
            answers = self._answers(self._link)

    def _answers(self, link: RequestLink[Q, A]) -> A:
        in_time = self._sent_tick == self._tick
        return link.answers(BatchTimes(self._sent_at_ns, self._clock(), in_time))

    def _drop(self, why: Missing) -> None:
        super()._drop(why)
        now = peer.peer_of(self._peer.pid, self._proc)
        if self._peer.pid and now.identity != self._peer.identity:
            self.status, self._retry_at_ns = PeerStatus.NOBODY, 0

    def _sample(self) -> T:
        problem = self._problem
        if self._link is not None and self._dialogue is not None:
            problem = self._silence(self._clock())
        return self._client.sample(NfStatus(self.socket, self._peer, self.owner, problem))

    def _silence(self, now_ns: int) -> Missing:
        seconds = (now_ns - self._heard_at_ns) / NS_PER_S
        if seconds < 1:
            text = "answers too slowly: its counters did not come in time"
        else:
            text = f"has not answered for {seconds:.0f} s"
        return Missing(Reason.STALE, text)


def _problem_of(error: ReplyError | LinkError) -> Missing:
    if isinstance(error, LinkError):
        return error.why
    return Missing(Reason.ERROR, f"its replies are invalid: {error}")
