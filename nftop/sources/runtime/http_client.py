"""GET over HTTP or HTTPS, with limits on time and size: no proxy, no redirect, no password.

The time limit is on the whole exchange, from connecting to the last byte. The look-up of a host's
name before that has the resolver's limits (/etc/resolv.conf).
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from nftop.model.missing import Missing, Reason
from nftop.model.struct import dataclass

if TYPE_CHECKING:
    from http.client import HTTPConnection, HTTPResponse

_CHUNK = 1 << 16
_LONGEST_NAME, _LONGEST_LABEL = 253, 63  # of a host, RFC 1035

_LOOPBACK = re.compile(r"127(\.\d{1,3}){3}")  # no name that begins like it


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens; `tls`: it speaks HTTPS."""

    host: str
    port: int
    tls: bool = False

    @property
    def shown(self) -> str:
        """`edge-07:9738`, an IPv6 address in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def here(self) -> bool:
        """Whether it is on this machine, or the end of a tunnel here."""
        return self.host in ("localhost", "::1") or bool(_LOOPBACK.fullmatch(self.host))


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A response.

    Attributes:
        status: HTTP's.
        kind: the content type in lower case.
        location: where a redirect points (untrusted text).
    """

    status: int
    kind: str
    body: bytes
    location: str = ""


class NoAnswerError(Exception):
    """There is no response; `why` is for the operator."""

    def __init__(self, why: Missing) -> None:
        super().__init__(why.message)
        self.why = why


def is_host_name(host: str) -> bool:
    """Whether a text can be the name or address of a host."""
    plain = host.isascii() and host.isprintable() and " " not in host
    # Others are an error in Python's look-up of a name, before the resolver's.
    labels = host.removesuffix(".").split(".")
    sized = all(0 < len(label) <= _LONGEST_LABEL for label in labels)
    return plain and sized and len(host) <= _LONGEST_NAME


class HttpSession:
    """Requests to one server before one deadline, over one connection as long as it is kept open.

    Args of `__init__`:
        until_ns: CLOCK_MONOTONIC of the deadline.
        most_bytes: of the bodies of all answers.
        admit: called with a connection before anything is sent; it raises to refuse it.
        absent: why there is no answer if nothing listens.
    """

    def __init__(
        self,
        address: Address,
        until_ns: int,
        *,
        most_bytes: int,
        admit: Callable[[socket.socket], None] = lambda _: None,
        absent: str = "",
    ) -> None:
        self._address = address
        self._until_ns = until_ns
        self._most_bytes = self._left_bytes = most_bytes
        self._admit = admit
        self._absent = absent or f"nothing listens at {address.shown}"
        self._connection: HTTPConnection | None = None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def get(self, path: str, headers: Mapping[str, str]) -> HttpAnswer:
        """GET one path. Raises NoAnswerError: no server, too slow, not HTTP, or too large."""
        shown = self._address.shown
        try:
            return self._get(path, headers)
        except TimeoutError:
            self.close()
            raise NoAnswerError(
                Missing(Reason.STALE, f"the server at {shown} does not answer in time")
            ) from None
        except ConnectionRefusedError:
            raise NoAnswerError(Missing(Reason.SOURCE, self._absent)) from None
        except OSError as error:
            self.close()
            why = getattr(error, "verify_message", "") or error.strerror or str(error)
            raise NoAnswerError(Missing(Reason.ERROR, f"{shown}: {why}")) from None

    def _get(self, path: str, headers: Mapping[str, str]) -> HttpAnswer:
        connection = self._connection
        if connection is None or connection.sock is None:
            connected = _connected(self._address, self._until_ns)
            try:
                self._admit(connected)
                # Imported only if a server listens: it takes long, for the parser of e-mail.
                from http.client import HTTPConnection  # noqa: PLC0415
            except BaseException:
                connected.close()
                raise
            self._connection = connection = HTTPConnection(self._address.host, self._address.port)
            connection.sock = connected
        from http.client import HTTPException, RemoteDisconnected  # noqa: PLC0415 - likewise

        shown = self._address.shown
        try:
            connection.request("GET", path, headers={"User-Agent": "nftop", **headers})
            with connection.getresponse() as response:
                kind = response.getheader("Content-Type", "").lower()
                location = response.getheader("Location", "")
                return HttpAnswer(response.status, kind, self._body(response), location)
        except NoAnswerError:
            self.close()
            raise
        except RemoteDisconnected:
            self.close()
            why = f"{shown} closed the connection without an answer"
            raise NoAnswerError(Missing(Reason.ERROR, why)) from None
        except (HTTPException, ValueError) as error:
            self.close()
            why = f"{shown} sent invalid HTTP: {type(error).__name__}"
            raise NoAnswerError(Missing(Reason.ERROR, why)) from None

    def _body(self, response: HTTPResponse) -> bytes:
        size, body = response.length or 0, bytearray()
        while size <= self._left_bytes and (chunk := response.read1(_CHUNK)):
            body += chunk
            size = max(size, len(body))
        self._left_bytes -= size
        if self._left_bytes < 0:
            most = self._most_bytes >> 20
            text = f"{self._address.shown} answers with more than {most} MiB"
            raise NoAnswerError(Missing(Reason.ERROR, text))
        if response.length:  # less than announced
            text = f"{self._address.shown} closed the connection too early"
            raise NoAnswerError(Missing(Reason.ERROR, text))
        return bytes(body)


class _Timed(socket.socket):
    """A socket whose waits all end at the same time."""

    until_ns = 0

    def recv_into(self, *arguments: Any, **options: Any) -> int:
        self.settimeout(_left_s(self.until_ns))
        return super().recv_into(*arguments, **options)

    def sendall(self, *arguments: Any, **options: Any) -> None:
        self.settimeout(_left_s(self.until_ns))
        super().sendall(*arguments, **options)


def _connected(address: Address, until_ns: int) -> socket.socket:
    """A connection to the first of its addresses that accepts one.

    An address has an equal share of the time that is left: none that drops packets, as those of
    IPv6 without a route, takes that of the others.
    """
    last: OSError = OSError("it has no address")
    # As bytes: of a text Python imports the tables of IDNA, although names here are ASCII.
    host = address.host.encode("ascii")
    infos = socket.getaddrinfo(host, address.port, type=socket.SOCK_STREAM)
    for at, (family, kind, protocol, _, where) in enumerate(infos):
        connected = _Timed(family, kind, protocol)
        try:
            connected.until_ns = until_ns
            connected.settimeout(_left_s(until_ns) / (len(infos) - at))
            connected.connect(where)
        except OSError as error:
            connected.close()
            last = error
        else:
            return _secured(connected, address.host) if address.tls else connected
    raise last


def _secured(connected: _Timed, host: str) -> socket.socket:
    """TLS over a connection; certificates are checked with the system's authorities.

    Raises OSError: the server has no certificate for `host` that these have signed.
    """
    import ssl  # noqa: PLC0415 - only for HTTPS

    class TimedTls(_Timed, ssl.SSLSocket):
        until_ns = connected.until_ns

    context = ssl.create_default_context()
    context.sslsocket_class = TimedTls
    try:
        connected.settimeout(_left_s(connected.until_ns))
        return context.wrap_socket(connected, server_hostname=host)
    except BaseException:
        connected.close()
        raise


def _left_s(until_ns: int) -> float:
    left_s = (until_ns - time.monotonic_ns()) / 1e9
    if left_s <= 0:
        raise TimeoutError
    return left_s
