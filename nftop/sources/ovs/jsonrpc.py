"""One control connection: SOCK_STREAM, JSON objects one after the other, answered in order.

The connection is kept and never blocks: the caller waits with poll(2). A late reply is still
expected: the connection stays open until it has arrived, because closing early makes the daemon
log a failed write.
"""

from __future__ import annotations

import contextlib
import errno
import re
import socket
from collections import deque
from collections.abc import Callable, Sequence

from nftop.model.reading import Missing, Reason
from nftop.sources.ovs.commands import ALLOWED, Call
from nftop.sources.ovs.replies import Reply, ReplyError, reply, request
from nftop.sources.trust import peer

MAX_REPLY_BYTES = 4 << 20  # a thousand PMD threads, or some ten thousand queues
_OUTSIDE = re.compile(rb'["{}\[\]]')
_INSIDE = re.compile(rb'["\\]')
_SPACE = b" \t\r\n"


class Framing:
    """Takes a stream in pieces of any size; every byte is looked at once.

    It only finds where an object ends, by its brackets outside of texts: whether it is JSON is for
    the parser to say.

    Attributes:
        most_bytes: a longer object is refused.
    """

    def __init__(self) -> None:
        self.most_bytes = MAX_REPLY_BYTES
        self._held = bytearray()
        self._at = 0  # what of `_held` has been looked at
        self._depth = 0
        self._in_text = False

    def feed(self, piece: bytes) -> list[bytes]:
        """The objects that are complete now, in order.

        Raises:
            ReplyError: what comes is no object, or is too long.
        """
        self._held += piece
        whole: list[bytes] = []
        while (end := self._next_end()) is not None:
            whole.append(bytes(self._held[:end]))
            del self._held[:end]
            self._at = 0
        if len(self._held) > self.most_bytes:
            size = f"{self.most_bytes >> 20} MiB"
            if self.most_bytes < 1 << 20:
                size = f"{self.most_bytes >> 10} KiB"
            raise ReplyError(f"it sent more than {size} in one answer")
        return whole

    def _next_end(self) -> int | None:
        """Where the first object in `_held` ends; None while it does not."""
        if not self._depth:
            self._begin()
        while found := (_INSIDE if self._in_text else _OUTSIDE).search(self._held, self._at):
            self._at = found.end()
            match found[0]:
                case b'"':
                    self._in_text = not self._in_text
                case b"\\":
                    if self._at == len(self._held):  # what it escapes is still to come
                        self._at -= 1
                        return None
                    self._at += 1
                case b"{" | b"[":
                    self._depth += 1
                case _:
                    self._depth -= 1
            if not self._depth and not self._in_text:
                return self._at
        self._at = len(self._held)
        return None

    def _begin(self) -> None:
        """Leave out the space before an object."""
        gap = len(self._held) - len(self._held.lstrip(_SPACE))
        del self._held[:gap]
        if self._held and not self._held.startswith(b"{"):
            raise ReplyError("what it sends is not a JSON object")


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
