"""A Prometheus that answers the fleet screen's queries, or misbehaves on demand."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.fleet import WALL_S, answer, series_of

DEEP = 200_000
FLOOD_BYTES = 1 << 30


class PrometheusPeer:
    """The test's end of a running server.

    Attributes:
        pages: by instance; None: its scrapes fail.
        behaviour: "well", or a key of `_BEHAVIOURS`.
        requested: parameters of every request so far. headers: of the last one.
        sent_bytes: of bodies.
        released: set to let those that hang go on.
    """

    def __init__(self, pages: Mapping[str, str | None]) -> None:
        self.pages: dict[str, str | None] = dict(pages)
        self.behaviour = "well"
        self.requested: list[dict[str, list[str]]] = []
        self.headers: dict[str, str] = {}
        self.sent_bytes = 0
        self.connections = 0
        self.reached = threading.Semaphore(0)
        self.released = threading.Event()
        self.port = 0


def vector(series: object) -> bytes:
    data = {"resultType": "vector", "result": series}
    return json.dumps({"status": "success", "data": data}).encode()


def result_of(peer: PrometheusPeer, query: str) -> list[dict[str, object]]:
    return [
        {"metric": labels, "value": [WALL_S + 3.0, repr(value)]}
        for labels, value in answer(query, peer.pages)
    ]


# The least series, with an escape in a key.
_LEAST = b'{"m\\u0065tric":{"instance":"a:1"},"value":[1795000000,"1"]}'
_ONE = {"metric": {"__name__": "up", "instance": "a:1"}, "value": [WALL_S, "1"]}
# Status and body; a location for redirects.
_BEHAVIOURS: dict[str, tuple[int, bytes]] = {
    "html": (200, b"<html><body>it works</body></html>"),
    "empty": (200, b""),
    "array": (200, b"[]"),
    "deep": (200, b'{"status":' + b"[" * DEEP),
    "deep_unknown": (200, b'{"x":' + b"[" * DEEP + b"]" * DEEP + b',"status":"success"}'),
    "deep_label": (200, vector([]).replace(b"[]", b'[{"metric":' + b'{"a":' * DEEP)),
    "numbers": (200, vector([{"metric": {"instance": 5}, "value": [0, "1"]}])),
    "text_value": (200, vector([{"metric": {}, "value": "1"}])),
    "late": (200, vector([_ONE]).replace(b"1795000000.0", b"1e300")),
    "endless": (200, vector([_ONE]).replace(b"1795000000.0", b"1e999")),
    "matrix": (200, vector([]).replace(b"vector", b"matrix")),
    "no_data": (200, b'{"status":"success"}'),
    "error": (200, b'{"status":"error","error":"it is \\u001b[2J broken"}'),
    "bad_request": (400, b'{"status":"error","errorType":"bad_data","error":"parse \\u001b[2J"}'),
    "overloaded": (503, b'{"status":"error","error":"query timed out"}'),
    "unauthorized": (401, b"no"),
    "forbidden": (403, b"no"),
    "not_found": (404, b"404 page not found"),
    "redirect": (302, b""),
    "not_utf8": (200, b'{"status":"\xff\xfe"}'),
    "many_series": (200, vector([]).replace(b"[]", b"[%b]" % b",".join([_LEAST] * 20_000))),
    "long_warnings": (200, vector([])[:-1] + b',"warnings":["ab"%b]}' % (b',"cd"' * 20_000)),
    "bulky": (200, vector([]) + b" " * (3 << 20)),
    "odd_warnings": (200, vector([])[:-1] + b',"warnings":{"a":1}}'),
}


def _handler(peer: PrometheusPeer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def setup(self) -> None:
            peer.connections += 1
            super().setup()

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
            """Say nothing."""

        def do_GET(self) -> None:
            parameters = parse_qs(urlsplit(self.path).query)
            peer.requested.append({"path": [urlsplit(self.path).path], **parameters})
            peer.headers = dict(self.headers)
            peer.reached.release()
            with suppress(OSError):
                self._answer(parameters.get("query", [""])[0])

        def _answer(self, query: str) -> None:
            behaviour = peer.behaviour
            if behaviour in _BEHAVIOURS:
                self._send(*_BEHAVIOURS[behaviour])
            elif behaviour == "hang":
                peer.released.wait(600)
            elif behaviour == "trickle":
                self.send_response(200)
                self.end_headers()
                while not peer.released.wait(0.05):
                    self.wfile.write(b" ")
            elif behaviour == "flood":
                self._flood(announced=False)
            elif behaviour == "announced_flood":
                self._flood(announced=True)
            elif behaviour == "closes":
                self.close_connection = True
            elif behaviour == "breaks_off":
                body = vector(result_of(peer, query))
                self.send_response(200)
                self.send_header("Content-Length", str(len(body) + 100))
                self.end_headers()
                self.wfile.write(body)
                self.close_connection = True
            elif behaviour == "no_http":
                self.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n")
                self.close_connection = True
            else:
                self._send(200, vector(self._spoilt(result_of(peer, query), behaviour)))

        def _spoilt(self, rows: list[dict[str, object]], behaviour: str) -> list[object]:
            if behaviour == "doubled":
                return [*rows, *rows]
            if behaviour == "not_finite":
                for row, text in zip(rows, ("NaN", "+Inf", "-Inf", "1" * 100, "x"), strict=False):
                    row["value"] = [WALL_S + 3.0, text]
            if behaviour == "nameless":
                for row in rows:
                    row["metric"] = {"x": "y"}
            return list(rows)

        def _send(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            if status == 302:
                self.send_header("Location", "https://elsewhere/\x1b[2J/api/v1/query?query=up")
            self.end_headers()
            self.wfile.write(body)
            peer.sent_bytes += len(body)

        def _flood(self, *, announced: bool) -> None:
            self.send_response(200)
            if announced:
                self.send_header("Content-Length", str(FLOOD_BYTES))
            self.end_headers()
            self.close_connection = True
            self.wfile.write(b'{"status":"success","x":"')
            chunk = b"x" * (1 << 16)
            while peer.sent_bytes < FLOOD_BYTES:
                self.wfile.write(chunk)
                peer.sent_bytes += len(chunk)

    return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is no fault."""


@contextmanager
def prometheus_peer(
    pages: Mapping[str, str | None], certificate: Path | None = None
) -> Iterator[PrometheusPeer]:
    """A running server; with `certificate`, of key and certificate, it speaks HTTPS."""
    peer = PrometheusPeer(pages)
    for text in filter(None, pages.values()):
        series_of(text)  # which takes time, that of answers is limited
    server = _Server(("127.0.0.1", 0), _handler(peer))
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    peer.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield peer
    finally:
        peer.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
