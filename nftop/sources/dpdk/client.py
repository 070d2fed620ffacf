"""One telemetry connection: SOCK_SEQPACKET, a message per request, answered in order.

An application serves ten connections at most, so nftop opens one per application and keeps it. It
stays open until a late reply has arrived: that can't be distinguished from the next one, and
closing early makes the application log a failed write (and, in some versions, lose one of its ten
connections for good).
"""

from __future__ import annotations

import socket
from collections import deque

from nftop.model.missing import Missing, Reason
from nftop.sources.dpdk import protocol
from nftop.sources.dpdk.protocol import Answers, Greeting
from nftop.sources.nf_session import connection
from nftop.sources.nf_session.connection import (
    BatchTimes,
    LinkError,
    ReplyError,
    RequestLink,
    SocketLink,
)

# All requests that nftop may send. They only read; other commands of DPDK reset counters, and
# unknown ones are written to the application's log.
ALLOWED = frozenset(
    [
        "/",
        "/help",
        "/eal/app_params",
        "/eal/lcore/info",
        "/eal/lcore/list",
        "/eal/lcore/usage",
        "/eal/memzone_info",
        "/eal/memzone_list",
        "/eal/params",
        "/ethdev/info",
        "/ethdev/link_status",
        "/ethdev/list",
        "/ethdev/stats",
        "/ethdev/xstats",
    ]
)

_GREETING = ""
_GREETING_BYTES = 4096
WINDOW = 16  # requests under way at once: far below what a socket buffer holds


class TelemetryLink(RequestLink[str, Answers]):
    """A connection, from its greeting on.

    Attributes:
        greeting: None until it has arrived.
        listed: the commands the application offers; only `/` until known.
        values, size_bytes: see `Answers`; complete once `waiting` is False.
        companion: another connection to the application, which is closed with this one.
    """

    def __init__(self, connected: socket.socket) -> None:
        super().__init__(connected)
        self.greeting: Greeting | None = None
        self.listed: frozenset[str] = frozenset({"/"})
        self._unsent: deque[str] = deque()
        self._owed: deque[str] = deque([_GREETING])
        self.values: dict[str, object] = {}
        self.size_bytes: dict[str, int] = {}
        self.companion: SocketLink | None = None

    def close(self) -> None:
        super().close()
        if self.companion is not None:
            self.companion.close()

    @property
    def waiting(self) -> bool:
        return bool(self._owed or self._unsent)

    @property
    def established(self) -> bool:
        return self.greeting is not None

    @property
    def message_bytes(self) -> int:
        return self.greeting.message_bytes if self.greeting else _GREETING_BYTES

    def ask(self, requests: tuple[str, ...]) -> None:
        """Send a batch.

        A command that the application does not list gets None without a request.
        """
        self.hear()  # detects the end of the connection, and unexpected messages
        self.values, self.size_bytes = {}, {}
        for request in requests:
            name = request.partition(",")[0]
            if name in ALLOWED and name in self.listed:
                self._unsent.append(request)
            else:
                self.values[request] = None
        self._send()

    def hear(self) -> bool:
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
            raise ReplyError("it sent an unexpected message")
        request = self._owed.popleft()
        if request == _GREETING:
            self.greeting = protocol.greeting(raw)
        else:
            self.values[request] = protocol.reply(raw, request)
            self.size_bytes[request] = len(raw)
        self._send()
        return True

    def answers(self, times: BatchTimes) -> Answers:
        return Answers(self.values, self.size_bytes, times)

    def _send(self) -> None:
        # Nothing is sent before the peer has sent the greeting of telemetry.
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
            why = (
                "closed the connection before its greeting: it serves at most ten telemetry clients"
            )
            return LinkError(Missing(Reason.TAKEN, f"{why}, so close one of them"))
        return LinkError(Missing(Reason.ERROR, "closed the telemetry connection"))


def connect(path: str) -> TelemetryLink:
    """Connect; raises as `nf_session.connection.connect`. The greeting is still to come."""
    return connection.connect(path, socket.SOCK_SEQPACKET, "telemetry", TelemetryLink)
