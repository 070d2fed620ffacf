"""What a server on the network sends: the bytes of HTTP, headers included.

An input is what a server sends over one connection; \\x1e is between the answers to two requests.
"""

from __future__ import annotations

import io
import time
from unittest import mock

from nftop.sources.runtime import http_client
from nftop.sources.runtime.http_client import Address, HttpSession, NoAnswerError

_MOST_BYTES, _MOST_REQUESTS = 1 << 14, 4
_BETWEEN = b"\x1e"
WORDS = (
    b"HTTP/1.1 200 OK\r\n", b"HTTP/1.0 ", b"HTTP/0.9 ", b" 100 Continue\r\n\r\n", b"204", b"304",
    b"Content-Length: ", b"Transfer-Encoding: chunked\r\n", b"Connection: close\r\n", b"\r\n\r\n",
    b"Content-Type: ", b"Location: ", b"\r\n", b"\n", b"0\r\n\r\n", b"ffffffffffffffff\r\n",
    b"-1", b"\0", _BETWEEN, b"\x85", b" folded\r\n", b"Content-Length: 5\r\nContent-Length: 6\r\n",
)  # fmt: skip


def seeds() -> list[bytes]:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
    return [
        head + b"Content-Length: 5\r\n\r\nhello" + _BETWEEN + head + b"Content-Length: 2\r\n\r\n{}",
        head + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3;a=b\r\nabc\r\n0\r\nX: y\r\n\r\n",
        b"HTTP/1.0 404 Not Found\r\n\r\nnothing here",
        b"HTTP/1.1 100 Continue\r\n\r\n" + head + b"Content-Length: 0\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: https://elsewhere/\r\nContent-Length: 0\r\n\r\n",
    ]


class _Connected:
    """A socket on which a server's bytes come, an answer after the other."""

    def __init__(self, answers: list[bytes]) -> None:
        self._answers = iter(answers)

    def sendall(self, _data: bytes) -> None:
        """The server takes whatever is sent."""

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(next(self._answers, b""))

    def close(self) -> None:
        """Nothing is open."""


def play(data: bytes) -> None:
    """An answer within the limit, or a reason in printable text."""
    connected = _Connected(data.split(_BETWEEN))
    with mock.patch.object(http_client, "_connected", lambda *_: connected):
        session = HttpSession(
            Address("127.0.0.1", 9), time.monotonic_ns() + 10**12, most_bytes=_MOST_BYTES
        )
        try:
            for _ in range(_MOST_REQUESTS):
                answer = session.get("/", {"Accept": "application/json"})
                assert len(answer.body) <= _MOST_BYTES
                assert 100 <= answer.status <= 999
                assert answer.kind == answer.kind.lower()
        except NoAnswerError as error:
            assert error.why.message.isprintable(), error.why
        finally:
            session.close()
