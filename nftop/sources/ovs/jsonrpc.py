"""One control connection: SOCK_STREAM, JSON objects one after the other, answered in order.

It is kept, and nothing here waits: what is not there yet is asked for again by the caller's
poll(2). A question that is late is still owed: the connection is kept until it has come, because
closing early makes the daemon log a failed write.
"""

from __future__ import annotations

import contextlib
import errno
import socket
from collections import deque
from collections.abc import Callable, Sequence

from nftop.model.reading import Missing, Reason
from nftop.sources.ovs.commands import ALLOWED, Call
from nftop.sources.ovs.framing import Framing
from nftop.sources.ovs.replies import Reply, ReplyError, reply, request
from nftop.sources.trust import peer

_PIECE_BYTES = 1 << 16


class NobodyThereError(Exception):
    """No program listens on the socket: it is left over, or is of another kind."""


class LinkError(Exception):
    """The connection is of no more use; `why` is for the operator."""

    def __init__(self, why: Missing) -> None:
        super().__init__(why.message)
        self.why = why


class Link:
    """A connection.

    Attributes:
        peer: the process behind it.
        replies: to the last batch, by what was asked. Complete once `waiting` is False.
        answered: it has answered anything at all.
    """

    def __init__(self, connected: socket.socket, clock: Callable[[], int]) -> None:
        self._socket = connected
        self._clock = clock
        self.peer = peer.credentials(connected)
        self.replies: dict[Call, Reply] = {}
        self.answered = False
        self._owed: deque[tuple[int, Call]] = deque()
        self._number = 0
        self._framing = Framing()

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def waiting(self) -> bool:
        """Something asked has not been answered."""
        return bool(self._owed)

    def ask(self, calls: Sequence[Call]) -> None:
        """Send a batch; the one before must have been answered.

        Raises:
            LinkError: the connection has ended. ReplyError: the peer talks unasked.
        """
        self.hear()  # finds an end of the connection, and messages nobody asked for
        self.replies = {}
        batch = b""
        for call in calls:
            if call.method not in ALLOWED:
                raise ValueError(f"{call.method} is not to be asked")
            self._number += 1
            self._owed.append((self._number, call))
            batch += request(self._number, call.method, call.arguments)
        try:
            sent = self._socket.send(batch, socket.MSG_NOSIGNAL)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            raise _ended() from error
        if sent < len(batch):  # some hundred bytes, and nothing else is under way
            raise LinkError(Missing(Reason.ERROR, "its control socket takes no questions"))

    def hear(self) -> bool:
        """Take what has come, up to 64 KiB; False when there is nothing yet.

        Raises:
            LinkError: the connection has ended. ReplyError: it is not an answer.
        """
        try:
            piece = self._socket.recv(_PIECE_BYTES)
        except BlockingIOError:
            return False
        except OSError as error:
            raise _ended() from error
        if not piece:
            raise _ended()
        for raw in self._framing.feed(piece):
            if not self._owed:
                raise ReplyError("it sent a message that nobody asked for")
            number, call = self._owed.popleft()
            self.replies[call] = reply(raw, number, call.method, self._clock())
            self.answered = True
        return True

    def limit_replies(self, most_bytes: int) -> None:
        """Refuse longer replies than `most_bytes` from now on."""
        self._framing.most_bytes = most_bytes

    def close(self) -> None:
        self._socket.close()


def connect(path: str, clock: Callable[[], int]) -> Link:
    """A connection to the socket at `path`; `clock` is CLOCK_MONOTONIC in nanoseconds.

    Raises:
        NobodyThereError: nothing listens there. PermissionError: we may not.
        LinkError: it does not take connections now.
    """
    with contextlib.ExitStack() as on_failure:
        try:
            connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            on_failure.callback(connected.close)
            connected.settimeout(0)
            peer.connect(connected, path)
            link = Link(connected, clock)
        except PermissionError:
            raise
        except OSError as error:
            if error.errno in peer.NOBODY:
                raise NobodyThereError(error.strerror or "") from error
            raise LinkError(_unconnected(error)) from error
        on_failure.pop_all()
        return link


def _unconnected(error: OSError) -> Missing:
    if error.errno == errno.EAGAIN:  # its queue of connections to accept is full
        why = "does not accept control connections: it may be stopped"
        return Missing(Reason.STALE, why)
    return Missing(Reason.ERROR, f"its control socket can't be opened: {error.strerror}")


def _ended() -> LinkError:
    return LinkError(Missing(Reason.ERROR, "closed the control connection"))
