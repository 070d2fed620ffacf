"""One control connection: SOCK_STREAM, JSON objects one after the other, answered in order.

The connection is kept and never blocks: the caller waits with poll(2). It stays open until a late
reply has arrived: closing early makes the daemon log a failed write.
"""

from __future__ import annotations

import re
import socket
from collections import deque
from collections.abc import Callable, Mapping

from nftop.model.missing import Missing, Reason
from nftop.model.struct import dataclass
from nftop.sources.nf_session import connection
from nftop.sources.nf_session.connection import BatchTimes, LinkError, ReplyError, RequestLink
from nftop.sources.ovs.protocol import ALLOWED, OvsCall, Reply, reply, request

MAX_REPLY_BYTES = 4 << 20  # a thousand PMD threads, or some ten thousand queues
_UNPRIVILEGED_REPLY_BYTES = 256 << 10
_OUTSIDE = re.compile(rb'["{}\[\]]')
_INSIDE = re.compile(rb'["\\]')
_SPACE = b" \t\r\n"


class Framing:
    """Splits a stream into JSON objects by the brackets outside of strings; scans each byte once.

    `most_bytes` is the longest object accepted.
    """

    def __init__(self) -> None:
        self.most_bytes = MAX_REPLY_BYTES
        self._held = bytearray()
        self._at = 0  # end of what has been scanned of `_held`
        self._depth = 0
        self._in_text = False

    def feed(self, piece: bytes) -> list[bytes]:
        """The objects that are complete now, in order. ReplyError: not an object, or too long."""
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
        """End of the first object in `_held`; None while it is incomplete."""
        if not self._depth:
            del self._held[: len(self._held) - len(self._held.lstrip(_SPACE))]
            if self._held and not self._held.startswith(b"{"):
                raise ReplyError("its reply is not a JSON object")
        while match := (_INSIDE if self._in_text else _OUTSIDE).search(self._held, self._at):
            self._at = match.end()
            match match[0]:
                case b'"':
                    self._in_text = not self._in_text
                case b"\\":
                    if self._at == len(self._held):  # the escaped character is still to come
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


_PIECE_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class ControlReplies:
    """Replies to one batch, by call. `sent_at_ns`, `in_time`: see `BatchTimes`."""

    by_call: Mapping[OvsCall, Reply]
    sent_at_ns: int
    in_time: bool


class ControlLink(RequestLink[OvsCall, ControlReplies]):
    """A connection; `clock` is CLOCK_MONOTONIC in nanoseconds."""

    def __init__(self, connected: socket.socket, clock: Callable[[], int]) -> None:
        super().__init__(connected)
        self._clock = clock
        self._replies: dict[OvsCall, Reply] = {}
        self._answered = False
        self._owed: deque[tuple[int, OvsCall]] = deque()
        self._number = 0
        self._framing = Framing()

    @property
    def waiting(self) -> bool:
        return bool(self._owed)

    @property
    def established(self) -> bool:
        return self._answered

    def ask(self, requests: tuple[OvsCall, ...]) -> None:
        self.hear()  # detects the end of the connection, and unexpected messages
        self._replies = {}
        batch = b""
        for call in requests:
            if call.method not in ALLOWED:
                raise ValueError(f"{call.method} is not allowed")
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
            raise LinkError(Missing(Reason.ERROR, "its control socket accepts no requests"))

    def hear(self) -> bool:
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
                raise ReplyError("it sent an unexpected message")
            number, call = self._owed.popleft()
            self._replies[call] = reply(raw, number, call.method, self._clock())
            self._answered = True
        return True

    def restrict(self) -> None:
        self._framing.most_bytes = _UNPRIVILEGED_REPLY_BYTES

    def answers(self, times: BatchTimes) -> ControlReplies:
        return ControlReplies(self._replies, times.sent_at_ns, times.in_time)


def connect(path: str, clock: Callable[[], int]) -> ControlLink:
    """Connect; raises as `nf_session.connection.connect`."""
    return connection.connect(
        path, socket.SOCK_STREAM, "control", lambda connected: ControlLink(connected, clock)
    )


def _ended() -> LinkError:
    return LinkError(Missing(Reason.ERROR, "closed the control connection"))
