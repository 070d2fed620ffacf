"""A few connections at a time, one thread, and nobody who is waited for."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Literal

from nftop.export.asking import END, Answer, refusal
from nftop.model.loopback import Loopback

# Prometheus needs one. Opening counters leaves 64 descriptors to the rest of nftop. Where all are
# taken who comes next takes the place of who has been here longest without a whole question.
MOST_CONNECTIONS = 16
# The kernel lets so many wait for a place, for the microseconds until they have it.
_WAITING = 128
# From its first byte to its last a connection has so long, whatever it does: a page of megabytes
# takes milliseconds.
PATIENCE_S = 5.0
# Prometheus asks in half a kilobyte.
LONGEST_HEAD = 8192
_CHUNK = 1 << 16
# How long nobody is let in where the system has no descriptor or memory for it.
_SHORT_OF_S = 1.0

_TOO_LONG = refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "that is a long question")
_TOO_SLOW = refusal(HTTPStatus.REQUEST_TIMEOUT, "the question took too long")
_MAKES_WAY = refusal(
    HTTPStatus.REQUEST_TIMEOUT,
    f"{MOST_CONNECTIONS} are connected, and another came before the question was there",
)
# In this order they make way: first those who have their answer, then those who have not asked.
_ORDER = ("leaves", "asks", "answered")


@dataclass(slots=True)
class _Visit:
    """One connection: it asks, is answered, and is heard out.

    The last since the kernel throws the answer away where a connection is closed with something
    unread.
    """

    connection: socket.socket
    until_s: float
    state: Literal["asks", "answered", "leaves"] = "asks"
    head: bytearray = field(default_factory=bytearray)
    left: memoryview = field(default_factory=lambda: memoryview(b""))


class Serving:
    """A server on one address, in a thread of its own from `start` to `close`.

    `reply` gives the answer to a request's head, `counted` an answer that the server gives by
    itself; both are called in that thread.
    """

    def __init__(
        self,
        where: Loopback,
        reply: Callable[[bytes], bytes],
        counted: Callable[[Answer], bytes],
        patience_s: float = PATIENCE_S,
    ) -> None:
        """Take the address. Raises OSError where it is not to be had."""
        self._reply = reply
        self._counted = counted
        self._patience_s = patience_s
        self._visits: dict[socket.socket, _Visit] = {}
        self._open_from_s = 0.0
        self._stopped = threading.Event()
        family = socket.AF_INET6 if ":" in where.host else socket.AF_INET
        self._door = socket.socket(family, socket.SOCK_STREAM)
        try:
            # Otherwise a restart waits a minute for connections that are long over.
            self._door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._door.bind(tuple(where))
            self._door.listen(_WAITING)
            self._door.setblocking(False)  # noqa: FBT003 - the standard library's
            self.where = Loopback(where.host, self._door.getsockname()[1])
            self._bell, self._rope = socket.socketpair()
        except OSError:
            self._door.close()
            raise
        # A daemon: nftop ends whoever is still connected.
        self._thread = threading.Thread(target=self._run, name="nftop-serve", daemon=True)

    def start(self) -> None:
        """Let them in."""
        self._thread.start()

    def close(self) -> None:
        """Cut who is still there, and free the address."""
        self._stopped.set()
        self._rope.send(b".")
        if self._thread.ident is None:
            self._thread.start()  # it closes what is its own, and ends
        self._thread.join(timeout=self._patience_s)
        self._rope.close()

    def _run(self) -> None:
        with selectors.DefaultSelector() as ready, self._door, self._bell:
            ready.register(self._bell, selectors.EVENT_READ)
            watched = False
            while not self._stopped.is_set():
                now_s = time.monotonic()
                welcome = now_s >= self._open_from_s
                if welcome != watched:
                    if welcome:
                        ready.register(self._door, selectors.EVENT_READ)
                    else:
                        ready.unregister(self._door)
                    watched = welcome
                events = [key for key, _ in ready.select(self._pause_s(now_s))]
                for key in events:
                    if isinstance(key.data, _Visit):
                        self._attend(ready, key.data)
                # Who has asked by now need not make way.
                if any(key.fileobj is self._door for key in events):
                    self._let_in(ready)
                self._out_of_time(ready)
            for visit in tuple(self._visits.values()):
                self._end(ready, visit)

    def _pause_s(self, now_s: float) -> float | None:
        """Until something is due; None: nothing is."""
        due = [visit.until_s for visit in self._visits.values()]
        due += [self._open_from_s] if now_s < self._open_from_s else []
        return max(min(due) - now_s, 0.0) if due else None

    def _let_in(self, ready: selectors.BaseSelector) -> None:
        try:
            connection, _ = self._door.accept()
        except (BlockingIOError, ConnectionAbortedError):  # it has gone again
            return
        except OSError:
            self._open_from_s = time.monotonic() + _SHORT_OF_S
            return
        connection.setblocking(False)  # noqa: FBT003 - the standard library's
        self._make_way(ready)
        visit = _Visit(connection, time.monotonic() + self._patience_s)
        self._visits[connection] = visit
        ready.register(connection, selectors.EVENT_READ, visit)

    def _make_way(self, ready: selectors.BaseSelector) -> None:
        """Where no place is free, end one visit: who says nothing must not keep out who asks."""
        if len(self._visits) < MOST_CONNECTIONS:
            return
        # Of each kind the first that came: their order is that in which they were let in.
        visit = min(self._visits.values(), key=lambda each: _ORDER.index(each.state))
        self._dismiss(ready, visit, _MAKES_WAY)

    def _attend(self, ready: selectors.BaseSelector, visit: _Visit) -> None:
        try:
            if visit.state == "answered":
                self._send(ready, visit)
            else:
                self._hear(ready, visit)
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:  # it has hung up
            self._end(ready, visit)

    def _hear(self, ready: selectors.BaseSelector, visit: _Visit) -> None:
        heard = visit.connection.recv(_CHUNK)
        if not heard:
            self._end(ready, visit)
        elif visit.state == "asks":
            visit.head += heard
            head, end, _ = visit.head.partition(END)
            if len(head) > LONGEST_HEAD:
                self._answer(ready, visit, self._counted(_TOO_LONG))
            elif end:
                self._answer(ready, visit, self._reply(bytes(head)))

    def _answer(self, ready: selectors.BaseSelector, visit: _Visit, content: bytes) -> None:
        visit.state, visit.left = "answered", memoryview(content)
        visit.head.clear()
        ready.modify(visit.connection, selectors.EVENT_WRITE, visit)
        self._send(ready, visit)

    def _send(self, ready: selectors.BaseSelector, visit: _Visit) -> None:
        visit.left = visit.left[visit.connection.send(visit.left) :]
        if not visit.left:
            visit.state = "leaves"
            visit.connection.shutdown(socket.SHUT_WR)
            ready.modify(visit.connection, selectors.EVENT_READ, visit)

    def _out_of_time(self, ready: selectors.BaseSelector) -> None:
        now_s = time.monotonic()
        for visit in tuple(self._visits.values()):
            if now_s >= visit.until_s:
                self._dismiss(ready, visit, _TOO_SLOW)

    def _dismiss(self, ready: selectors.BaseSelector, visit: _Visit, why: Answer) -> None:
        if visit.state == "asks":
            with contextlib.suppress(OSError):  # it reads nothing, either
                visit.connection.send(self._counted(why))
        self._end(ready, visit)

    def _end(self, ready: selectors.BaseSelector, visit: _Visit) -> None:
        ready.unregister(visit.connection)
        del self._visits[visit.connection]
        visit.connection.close()
