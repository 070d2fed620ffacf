"""One GET at a time, with a limit on its time and on its size.

The time limit is on the whole request, from connecting to the last byte. The look-up of a host's
name before that has the resolver's limits (/etc/resolv.conf). Each request has its own connection,
since the server keeps a thread for each open one. No proxy, no redirect, no name or password.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from nftop.model.missing import Missing, Reason
from nftop.model.struct import dataclass

if TYPE_CHECKING:
    from http.client import HTTPResponse

PORT = 9738  # the server's own default
# Five times what 512 CPUs need. JSON of empty objects takes 25 times as much in memory.
MOST_BYTES = 8 << 20
_CHUNK = 1 << 16
_LONGEST_NAME = 253  # of a host, RFC 1035


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens."""

    host: str
    port: int

    @property
    def shown(self) -> str:
        """`edge-07:9738`, an IPv6 address in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def here(self) -> bool:
        """Whether it is on this machine, or the end of a tunnel here."""
        return self.host in ("localhost", "::1") or self.host.startswith("127.")


@dataclass(frozen=True, slots=True)
class PcmAnswer:
    """A response; `status` is HTTP's, `kind` the content type in lower case."""

    status: int
    kind: str
    body: bytes


class NoAnswerError(Exception):
    """There is no response; `why` is for the operator."""

    def __init__(self, why: Missing) -> None:
        super().__init__(why.message)
        self.why = why


def parse_url(text: str) -> Address:
    """The address in `http://HOST[:PORT][/]`, or in `HOST[:PORT]`. Raises ValueError."""
    from urllib.parse import urlsplit  # noqa: PLC0415 - only where a URL is given

    parts = urlsplit(text if "://" in text else f"http://{text}")
    if parts.scheme != "http":
        raise ValueError(f"only http:// is supported, not {parts.scheme}://; use an ssh tunnel")
    if parts.username is not None or parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ValueError("it takes a host and a port only, such as http://127.0.0.1:9738")
    host = parts.hostname or ""
    plain = host.isascii() and host.isprintable() and " " not in host
    if not host or not plain or len(host) > _LONGEST_NAME:
        raise ValueError("it names no host")
    return Address(host, PORT if parts.port is None else parts.port)


def get(
    address: Address,
    path: str,
    accept: str,
    until_ns: int,
    admit: Callable[[socket.socket], None] = lambda _: None,
) -> PcmAnswer:
    """GET one path, before CLOCK_MONOTONIC is `until_ns`.

    `accept` are content types. `admit` is called with the connection before anything is sent; it
    raises to refuse it. Raises NoAnswerError: no server, too slow, not HTTP, or too large.
    """
    try:
        connected = _connected(address, until_ns)
        try:
            admit(connected)
        except BaseException:
            connected.close()
            raise
        return _request(connected, address, path, accept)
    except TimeoutError:
        raise NoAnswerError(
            Missing(Reason.STALE, f"the server at {address.shown} does not answer in time")
        ) from None
    except ConnectionRefusedError:
        why = Missing(Reason.SOURCE, f"no pcm-sensor-server listens at {address.shown}")
        raise NoAnswerError(why) from None
    except OSError as error:
        message = f"{address.shown}: {error.strerror or error}"
        raise NoAnswerError(Missing(Reason.ERROR, message)) from None


def _request(connected: _Timed, address: Address, path: str, accept: str) -> PcmAnswer:
    # Imported only if a server listens: it takes long, since it imports the parser of e-mail.
    from http.client import HTTPConnection, HTTPException, RemoteDisconnected  # noqa: PLC0415

    connection = HTTPConnection(address.host, address.port)
    connection.sock = connected
    try:
        headers = {"Accept": accept, "Connection": "close", "User-Agent": "nftop"}
        connection.request("GET", path, headers=headers)
        with connection.getresponse() as response:
            kind = response.getheader("Content-Type", "").lower()
            return PcmAnswer(response.status, kind, _body(response))
    except RemoteDisconnected:
        why = f"{address.shown} closed the connection without an answer"
        raise NoAnswerError(Missing(Reason.ERROR, why)) from None
    except (HTTPException, ValueError) as error:
        why = f"{address.shown} sent invalid HTTP: {type(error).__name__}"
        raise NoAnswerError(Missing(Reason.ERROR, why)) from None
    finally:
        connection.close()


class _Timed(socket.socket):
    """A socket whose waits all end at the same time."""

    until_ns = 0

    def recv_into(self, *arguments: Any, **options: Any) -> int:
        self.settimeout(_left_s(self.until_ns))
        return super().recv_into(*arguments, **options)

    def sendall(self, *arguments: Any, **options: Any) -> None:
        self.settimeout(_left_s(self.until_ns))
        super().sendall(*arguments, **options)


def _connected(address: Address, until_ns: int) -> _Timed:
    """A connection to the first of its addresses that accepts one."""
    last: OSError = OSError("it has no address")
    for family, kind, protocol, _, where in socket.getaddrinfo(
        address.host, address.port, type=socket.SOCK_STREAM
    ):
        connected = _Timed(family, kind, protocol)
        try:
            connected.until_ns = until_ns
            connected.settimeout(_left_s(until_ns))
            connected.connect(where)
        except OSError as error:
            connected.close()
            last = error
        else:
            return connected
    raise last


def _body(response: HTTPResponse) -> bytes:
    size, body = response.length or 0, bytearray()
    while size <= MOST_BYTES and (chunk := response.read1(_CHUNK)):
        body += chunk
        size = max(size, len(body))
    if size > MOST_BYTES:
        text = f"it answers with more than {MOST_BYTES >> 20} MiB"
        raise NoAnswerError(Missing(Reason.ERROR, text))
    if response.length:  # less than announced
        raise NoAnswerError(Missing(Reason.ERROR, "it closed the connection too early"))
    return bytes(body)


def _left_s(until_ns: int) -> float:
    left_s = (until_ns - time.monotonic_ns()) / 1e9
    if left_s <= 0:
        raise TimeoutError
    return left_s
