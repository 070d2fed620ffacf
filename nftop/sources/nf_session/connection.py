"""One connection to a Unix socket. It never blocks: the caller waits with poll(2)."""

from __future__ import annotations

import contextlib
import errno
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from nftop.model.missing import Missing, Reason
from nftop.model.struct import dataclass
from nftop.sources.trust import peer


class NoListenerError(Exception):
    """No process listens on the socket: it is left over, or is of another type."""


class LinkError(Exception):
    """The connection can't be used any more; `why` is for the operator."""

    def __init__(self, why: Missing) -> None:
        super().__init__(why.message)
        self.why = why


class ReplyError(Exception):
    """The peer's message violates its protocol."""


class SocketLink:
    """A connected socket. `peer` is the process that listens there."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self.peer = peer.credentials(connected)

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def restrict(self) -> None:
        """Accept less from now on: the peer is not privileged."""


L = TypeVar("L", bound=SocketLink)
Q = TypeVar("Q")
A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class BatchTimes:
    """When a batch of requests was answered; CLOCK_MONOTONIC."""

    sent_at_ns: int  # before the first request
    done_at_ns: int  # after the last reply; if it was late, when it was noticed
    in_time: bool = True  # within the tick of the requests


class RequestLink(SocketLink, ABC, Generic[Q, A]):
    """A connection on which requests are answered in order."""

    @property
    @abstractmethod
    def waiting(self) -> bool:
        """Whether a request has not been answered yet."""

    @property
    @abstractmethod
    def established(self) -> bool:
        """Whether the peer has sent something, so that a missing reply is lost."""

    @abstractmethod
    def ask(self, requests: tuple[Q, ...]) -> None:
        """Send a batch, after all replies to the last.

        Raises LinkError: the connection has ended; ReplyError: the peer sent an unexpected message.
        """

    @abstractmethod
    def hear(self) -> bool:
        """Receive what has arrived; False if nothing has.

        Raises LinkError: the connection has ended; ReplyError: the message is not a valid reply.
        """

    @abstractmethod
    def answers(self, times: BatchTimes) -> A:
        """The replies to the batch, once `waiting` is False."""


def connect(path: str, kind: int, label: str, link: Callable[[socket.socket], L]) -> L:
    """Connect to the socket at `path`, of type `kind` (SOCK_STREAM or SOCK_SEQPACKET).

    `label` is what the socket serves, for messages; `link` makes the link. Raises NoListenerError:
    no process listens; PermissionError: nftop may not connect; LinkError: no connections are
    accepted now.
    """
    with contextlib.ExitStack() as on_failure:
        try:
            connected = socket.socket(socket.AF_UNIX, kind)
            on_failure.callback(connected.close)
            connected.settimeout(0)
            peer.connect(connected, path)
            result = link(connected)
        except PermissionError:
            raise
        except OSError as error:
            if error.errno in peer.NOBODY:
                raise NoListenerError(error.strerror or "") from error
            why = Missing(Reason.ERROR, f"its {label} socket can't be opened: {error.strerror}")
            if error.errno == errno.EAGAIN:  # its queue of connections to accept is full
                text = f"does not accept {label} connections: it may be stopped"
                why = Missing(Reason.STALE, text)
            raise LinkError(why) from error
        on_failure.pop_all()
        return result
