"""One GET at a time from a sensor server, within its limits.

Each request has its own connection, since the server keeps a thread for each open one.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

from nftop.sources.runtime.http_client import Address, HttpAnswer, HttpSession, is_host_name

PORT = 9738  # the server's own default
# Five times what 512 CPUs need. JSON of empty objects takes 25 times as much in memory.
MOST_BYTES = 8 << 20


def parse_url(text: str) -> Address:
    """The address in `http://HOST[:PORT][/]`, or in `HOST[:PORT]`. Raises ValueError."""
    from urllib.parse import urlsplit  # noqa: PLC0415 - only where a URL is given

    url = urlsplit(text if "://" in text else f"http://{text}")
    if url.scheme != "http":
        raise ValueError(f"only http:// is supported, not {url.scheme}://; use an ssh tunnel")
    if url.username is not None or url.path not in ("", "/") or url.query or url.fragment:
        raise ValueError("it takes a host and a port only, such as http://127.0.0.1:9738")
    host = url.hostname or ""
    if not is_host_name(host):
        raise ValueError("it names no host")
    return Address(host, PORT if url.port is None else url.port)


def get(
    address: Address,
    path: str,
    accept: str,
    until_ns: int,
    admit: Callable[[socket.socket], None] = lambda _: None,
) -> HttpAnswer:
    """GET one path, before CLOCK_MONOTONIC is `until_ns`.

    `accept` are content types; `admit` as `HttpSession` has it. Raises NoAnswerError.
    """
    absent = f"no pcm-sensor-server listens at {address.shown}"
    session = HttpSession(address, until_ns, most_bytes=MOST_BYTES, admit=admit, absent=absent)
    try:
        return session.get(path, {"Accept": accept, "Connection": "close"})
    finally:
        session.close()
