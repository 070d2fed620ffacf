"""One telemetry connection: SOCK_SEQPACKET, one message a question, answered in order.

An application serves ten connections and not one more, so there is one per application and it is
kept. Nothing here waits: what is not there yet is asked for again by the caller's poll(2).

A question that is late is still owed: the connection is kept until it has come, because the reply
to the next question can't be told from it, and because closing early makes the application log a
failed write (and, in some versions, lose one of its ten places for good).
"""

from __future__ import annotations

import contextlib
import errno
import socket
from collections import deque
from collections.abc import Iterable

from nftop.model.reading import Missing, Reason
from nftop.sources.dpdk import replies
from nftop.sources.dpdk.replies import Greeting, ReplyError
from nftop.sources.trust import peer

# Every question nftop may ask. All of them only read: some commands of DPDK reset counters, and
# an unknown one is logged in the application's own log.
ALLOWED = frozenset(
    {
        "/",
        "/help",
        "/eal/app_params",
        "/eal/lcore/info",
        "/eal/lcore/list",
        "/eal/lcore/usage",
        "/eal/params",
        "/ethdev/info",
        "/ethdev/list",
        "/ethdev/stats",
        "/ethdev/xstats",
    }
)

_GREETING = ""
_GREETING_BYTES = 4096
WINDOW = 16  # questions under way at once: far below what a socket buffer holds


class NobodyThereError(Exception):
    """No program listens on the socket: it is left over, or is none of telemetry's."""


class LinkError(Exception):
    """The connection is of no more use; `why` is for the operator."""

    def __init__(self, why: Missing) -> None:
        super().__init__(why.message)
        self.why = why


class Link:
    """A connection, from its greeting on.

    Attributes:
        greeting: None until it has come.
        listed: the commands the application offers; only `/` until told.
        peer: the process behind it.
        values: by question of the last batch, the reply; None where the application has no such
            command or answered null. Complete once `waiting` is False.
        size_bytes: by question that was sent, the length of its reply.
    """

    def __init__(self, connected: socket.socket) -> None:
        connected.settimeout(0)
        self._socket = connected
        self.peer = peer.credentials(connected)
        self.greeting: Greeting | None = None
        self.listed: frozenset[str] = frozenset({"/"})
        self._unsent: deque[str] = deque()
        self._owed: deque[str] = deque([_GREETING])
        self.values: dict[str, object] = {}
        self.size_bytes: dict[str, int] = {}

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def waiting(self) -> bool:
        """Something asked has not been answered."""
        return bool(self._owed or self._unsent)

    @property
    def message_bytes(self) -> int:
        """The longest message the peer may send."""
        return self.greeting.message_bytes if self.greeting else _GREETING_BYTES

    def ask(self, questions: Iterable[str]) -> None:
        """Send a batch. What the application does not list is answered None without asking.

        Raises:
            LinkError: the connection has ended. ReplyError: the peer talks unasked.
        """
        self.hear()  # finds an end of the connection, and messages nobody asked for
        self.values, self.size_bytes = {}, {}
        for question in questions:
            name = question.partition(",")[0]
            if name in ALLOWED and name in self.listed:
                self._unsent.append(question)
            else:
                self.values[question] = None
        self._send()

    def hear(self) -> bool:
        """Take one message, if there is one; False when there is none yet.

        Raises:
            LinkError: the connection has ended. ReplyError: the message is not an answer.
        """
        try:
            raw, _, flags, _ = self._socket.recvmsg(self.message_bytes)
        except BlockingIOError:
            return False
        except OSError as error:
            raise self._ended() from error
        if not raw:
            raise self._ended()
        if flags & socket.MSG_TRUNC:
            raise ReplyError(f"it sent more than {self.message_bytes} bytes in one message")
        if not self._owed:
            raise ReplyError("it sent a message that nobody asked for")
        self._keep(raw, self._owed.popleft())
        self._send()
        return True

    def close(self) -> None:
        self._socket.close()

    def _keep(self, raw: bytes, question: str) -> None:
        if question == _GREETING:
            self.greeting = replies.greeting(raw)
            return
        self.values[question] = replies.reply(raw, question)
        self.size_bytes[question] = len(raw)

    def _send(self) -> None:
        # Whatever listens there is not talked to before it has greeted like telemetry.
        while self.greeting and self._unsent and len(self._owed) < WINDOW:
            try:
                self._socket.send(self._unsent[0].encode("ascii"), socket.MSG_NOSIGNAL)
            except BlockingIOError:
                return
            except OSError as error:
                raise self._ended() from error
            self._owed.append(self._unsent.popleft())

    def _ended(self) -> LinkError:
        if self.greeting is None:
            return LinkError(
                Missing(
                    Reason.TAKEN,
                    "closed the connection before its greeting: ten other telemetry clients may "
                    "hold all its places, so close one of them",
                )
            )
        return LinkError(Missing(Reason.ERROR, "closed the telemetry connection"))


def connect(path: str) -> Link:
    """A connection to the socket at `path`; the greeting is still to come.

    Raises:
        NobodyThereError: nothing listens there. PermissionError: we may not.
        LinkError: it does not take connections now.
    """
    with contextlib.ExitStack() as on_failure:
        try:
            connected = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            on_failure.callback(connected.close)
            connected.settimeout(0)
            peer.connect(connected, path)
            link = Link(connected)
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
        why = "does not accept telemetry connections: it may be stopped"
        return Missing(Reason.STALE, why)
    return Missing(Reason.ERROR, f"its telemetry socket can't be opened: {error.strerror}")
