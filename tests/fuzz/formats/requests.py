"""Requests to `nftop serve`, of any user of the machine."""

from __future__ import annotations

from http import HTTPStatus

from nftop.export.http.request import answer

WORDS = (
    b"GET", b"HEAD", b"/metrics", b"HTTP/1.1", b"Host: ", b"Accept: ", b"q=", b"\r\n", b"[::1]",
    b"localhost", b"127.0.0.1:9739", b"application/openmetrics-text;version=1.0.0", b"text/plain",
    b"0.5", b"\0", b"?", b"Transfer-Encoding: chunked", b"Content-Length: ",
)  # fmt: skip


def seeds() -> list[bytes]:
    accept = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.5"
    return [
        f"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:9739\r\nAccept: {accept}\r\n\r\n".encode(),
        b"GET /metrics?a=b HTTP/1.0\r\nhost: [::1]:9739\r\n\r\n",
        b"HEAD / HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n",
    ]


def play(data: bytes) -> None:
    """It has a response, which is a whole one, and a page only for this machine's names."""
    page = b"page\n"
    response = answer(data, lambda _: page)
    head, _, body = response.encoded().partition(b"\r\n\r\n")
    assert head.count(b"\r\n") == head.count(b"\n") == 5 + len(response.more)
    assert int(head.partition(b"Content-Length: ")[2].split(b"\r")[0]) == len(body)
    assert (body == page) == (response.status is HTTPStatus.OK)
    if response.status is HTTPStatus.OK:
        hosts = [line for line in data.lower().split(b"\r\n") if line.startswith(b"host:")]
        assert len(hosts) == 1
        assert any(name in hosts[0] for name in (b"127.", b"::1", b"localhost", b"[0:", b":1]")), (
            hosts
        )
