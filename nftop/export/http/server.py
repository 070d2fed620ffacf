"""Bounded single-threaded HTTP server; idle and slow clients are dropped first."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Literal

from nftop.export.http.request import END, HttpResponse, refusal
from nftop.model.loopback import Loopback
from nftop.model.struct import dataclass, field

# Prometheus needs one. The more there are, the longer a client that has connected may take to send
# its request while others connect as fast as they can. Opening counters leaves 64 descriptors to
# the rest of nftop (RESERVED_FILES of the source perf), which has a dozen files open at most.
MAX_CONNECTIONS = 32
MAX_DRAINING = 8
# Connections that the kernel completes before they are accepted; it caps this at its somaxconn.
_BACKLOG = 1024
# Connections accepted in a row before the others are served again.
_ACCEPT_BURST = 64
# Seconds from the acceptance of a connection to the end of its reply. A page of megabytes takes
# milliseconds.
DEADLINE_S = 5.0
# Seconds in which a client may take its reply and close. Meanwhile its input is read and discarded:
# a close with unread input makes the kernel reset the connection, and the client loses the reply.
DRAIN_S = 2.0
# Bytes. A scrape by Prometheus has half a kilobyte.
MAX_HEAD_BYTES = 8192
_CHUNK_BYTES = 1 << 16
# The most input that is discarded when a connection is closed.
_DISCARD_BYTES = 1 << 20
# Seconds without accepting after the system had no descriptor or memory for a connection.
_ACCEPT_PAUSE_S = 1.0

_TOO_LONG = refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the request is too long")
_TOO_SLOW = refusal(HTTPStatus.REQUEST_TIMEOUT, "the request took too long")
_DISPLACED = refusal(
    HTTPStatus.REQUEST_TIMEOUT,
    f"{MAX_CONNECTIONS} clients are connected, and a new one came before the request was complete",
)


@dataclass(slots=True, eq=False)
class _Client:
    """One connection: it sends a request, takes the reply, and is drained until it closes."""

    connection: socket.socket
    deadline_s: float
    state: Literal["request", "reply", "drain"] = "request"
    head: bytearray = field(default_factory=bytearray)
    unsent: memoryview = field(default_factory=lambda: memoryview(b""))


class Serving:
    """HTTP server on one address, in a thread of its own from `start` to `close`.

    `reply` maps the head of a request to an encoded response; `counted` encodes a response that the
    server makes by itself. Both are called in the server's thread.
    """

    def __init__(
        self,
        where: Loopback,
        reply: Callable[[bytes], bytes],
        counted: Callable[[HttpResponse], bytes],
        deadline_s: float = DEADLINE_S,
    ) -> None:
        """Bind the address. Raises OSError if that fails."""
        self._reply = reply
        self._counted = counted
        self._deadline_s = deadline_s
        # In the order of acceptance, and of the end of their replies.
        self._clients: dict[socket.socket, _Client] = {}
        self._draining: dict[socket.socket, _Client] = {}
        self._accept_from_s = 0.0
        self._stopped = threading.Event()
        family = socket.AF_INET6 if ":" in where.host else socket.AF_INET
        self._listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            # Without it a restart waits a minute for connections that have ended.
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listener.bind(tuple(where))
            self._listener.listen(_BACKLOG)
            self._listener.setblocking(False)  # noqa: FBT003 - the standard library's
            self.where = Loopback(where.host, self._listener.getsockname()[1])
            self._wakeup, self._waker = socket.socketpair()
            # Here, not in the thread: there may be no descriptor left when it starts.
            self._ready = selectors.DefaultSelector()
        except OSError:
            self._listener.close()
            raise
        # A daemon thread: clients do not keep nftop from exiting.
        self._thread = threading.Thread(target=self._run, name="nftop-serve", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Close all connections and free the address."""
        self._stopped.set()
        self._waker.send(b".")
        if self._thread.ident is None:
            self._thread.start()  # it closes its sockets and ends
        self._thread.join(timeout=self._deadline_s)
        # Not by the thread: it may end for a deadline before it is woken.
        self._waker.close()
        self._wakeup.close()

    def _run(self) -> None:
        with self._ready as ready, self._listener:
            ready.register(self._wakeup, selectors.EVENT_READ)
            listening = False
            while not self._stopped.is_set():
                now_s = time.monotonic()
                accepting = now_s >= self._accept_from_s
                if accepting != listening:
                    if accepting:
                        ready.register(self._listener, selectors.EVENT_READ)
                    else:
                        ready.unregister(self._listener)
                    listening = accepting
                events = [key for key, _ in ready.select(self._timeout_s(now_s))]
                for key in events:
                    if isinstance(key.data, _Client):
                        self._continue(ready, key.data)
                # After the others: a request that has arrived is not displaced.
                if any(key.fileobj is self._listener for key in events):
                    self._accept(ready)
                self._expire(ready)
            for client in (*self._clients.values(), *self._draining.values()):
                self._close(ready, client)

    def _timeout_s(self, now_s: float) -> float | None:
        """Seconds until the next deadline; None if idle."""
        due_s = [client.deadline_s for client in self._clients.values()]
        due_s += [client.deadline_s for client in self._draining.values()]
        due_s += [self._accept_from_s] if now_s < self._accept_from_s else []
        return max(min(due_s) - now_s, 0.0) if due_s else None

    def _accept(self, ready: selectors.BaseSelector) -> None:
        """Accept what waits, and serve at once what has sent its request already."""
        for _ in range(_ACCEPT_BURST):
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return
            except ConnectionAbortedError:  # closed before it was accepted
                continue
            except OSError:
                self._accept_from_s = time.monotonic() + _ACCEPT_PAUSE_S
                return
            connection.setblocking(False)  # noqa: FBT003 - the standard library's
            client = _Client(connection, time.monotonic() + self._deadline_s)
            self._clients[connection] = client
            ready.register(connection, selectors.EVENT_READ, client)
            self._continue(ready, client)
            if len(self._clients) > MAX_CONNECTIONS:
                self._displace(ready)

    def _displace(self, ready: selectors.BaseSelector) -> None:
        """Drop the oldest client without a request, else the oldest; never the newest."""
        older = tuple(self._clients.values())[:-1]
        for client in older:
            if client.state != "request":
                continue
            # Its request may have arrived since the last look; then it is served instead.
            self._continue(ready, client)
            if len(self._clients) <= MAX_CONNECTIONS:
                return
            if client.state == "request":
                self._dismiss(ready, client, _DISPLACED)
                return
        self._close(ready, older[0])

    def _continue(self, ready: selectors.BaseSelector, client: _Client) -> None:
        if not self._connected(client):  # closed by an event before this one
            return
        try:
            if client.state == "reply":
                self._send(ready, client)
            else:
                self._receive(ready, client)
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:  # the client has closed or reset it
            self._close(ready, client)

    def _receive(self, ready: selectors.BaseSelector, client: _Client) -> None:
        received = client.connection.recv(_CHUNK_BYTES)
        if not received:
            self._close(ready, client)
        elif client.state == "request":
            client.head += received
            head, end, _ = client.head.partition(END)
            if len(head) > MAX_HEAD_BYTES:
                self._respond(ready, client, self._counted(_TOO_LONG))
            elif end:
                self._respond(ready, client, self._reply(bytes(head)))

    def _respond(self, ready: selectors.BaseSelector, client: _Client, response: bytes) -> None:
        client.state, client.unsent = "reply", memoryview(response)
        client.head.clear()
        ready.modify(client.connection, selectors.EVENT_WRITE, client)
        self._send(ready, client)

    def _send(self, ready: selectors.BaseSelector, client: _Client) -> None:
        client.unsent = client.unsent[client.connection.send(client.unsent) :]
        if not client.unsent:
            self._drain(ready, client)

    def _drain(self, ready: selectors.BaseSelector, client: _Client) -> None:
        """End the server's side, and discard input until the client closes or its time is over."""
        client.connection.shutdown(socket.SHUT_WR)
        client.state, client.deadline_s = "drain", time.monotonic() + DRAIN_S
        del self._clients[client.connection]
        self._draining[client.connection] = client
        ready.modify(client.connection, selectors.EVENT_READ, client)
        if len(self._draining) > MAX_DRAINING:
            self._close(ready, next(iter(self._draining.values())))

    def _expire(self, ready: selectors.BaseSelector) -> None:
        now_s = time.monotonic()
        for client in (*self._clients.values(), *self._draining.values()):
            if now_s >= client.deadline_s and self._connected(client):
                self._dismiss(ready, client, _TOO_SLOW)

    def _dismiss(
        self, ready: selectors.BaseSelector, client: _Client, reason: HttpResponse
    ) -> None:
        """Drop a client; one without a complete request gets `reason` as its response."""
        if client.state != "request":
            self._close(ready, client)
            return
        try:
            self._respond(ready, client, self._counted(reason))
        except OSError:
            self._close(ready, client)

    def _connected(self, client: _Client) -> bool:
        return client.connection in self._clients or client.connection in self._draining

    def _close(self, ready: selectors.BaseSelector, client: _Client) -> None:
        """Close a client that is connected; one that is not, is left as it is."""
        if not self._connected(client):
            return
        ready.unregister(client.connection)
        self._clients.pop(client.connection, None)
        self._draining.pop(client.connection, None)
        with contextlib.suppress(OSError):
            for _ in range(_DISCARD_BYTES // _CHUNK_BYTES):
                if not client.connection.recv(_CHUNK_BYTES):
                    break
        client.connection.close()
