"""A pcm-sensor-server that misbehaves on demand: it serves captures (tests/data/pcm), in time.

Its clock is the test's: `second` is what has passed since it began. Documents of totals go on by
one second's counts, those of the captured last second, in each; of PCIe requests by `PCIE_STEP`,
every `every_s` seconds, as the server's collector does it.
"""

from __future__ import annotations

import io
import json
import re
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

CAPTURES = Path(__file__).parent.parent / "data" / "pcm" / "captures.tar.xz"
PCIE_STEP = 3_000_000
# Averages, places and what is so now: none of these adds up.
_NO_COUNT = re.compile(
    r"Frequency|Bound|Speculation|Retiring|Residency|Headroom|Occupancy|Ratio|Utilization|ID$|Object|"
    r"Number of|PCIe"
)
_REFUSED = {"totals_only": "/persecond/.*", "metrics_only": "/(persecond/.*)?"}
_JSON, _TEXT = "application/json", "text/plain; version=0.0.4; charset=UTF-8"


@lru_cache(maxsize=1)
def captures() -> dict[str, bytes]:
    """Every captured document by its name."""
    with tarfile.open(CAPTURES) as archive:
        files = {member.name: archive.extractfile(member) for member in archive}
        return {name: file.read() for name, file in files.items() if file is not None}


class PcmPeer:
    """The test's end of a running server.

    Attributes:
        capture: whose documents it serves, the beginning of their names.
        behaviour: a row of `_BEHAVIOURS`, or "well".
        second, every_s: its clock, and how often its PCIe totals go on.
        step: what they go on by.
        renumbered: its sockets have changed places.
        restarted_at: totals are since this second.
        asked: every method and path so far.
    """

    def __init__(self, capture: str) -> None:
        self.capture = capture
        self.behaviour = "well"
        self.second = 0
        self.every_s = 1
        self.step = PCIE_STEP
        self.renumbered = False
        self.restarted_at: int | None = None
        self.requested: list[str] = []
        self.released = threading.Event()
        self.reached = threading.Semaphore(0)
        self.port = 0

    def document(self, path: str) -> dict[str, Any]:
        """The JSON document of now."""
        of_second = json.loads(captures()[f"{self.capture}_persecond1.json"])
        document: dict[str, Any] = of_second
        if path == "/":
            document = json.loads(captures()[f"{self.capture}_root.json"])
            passed = self.second
            if self.restarted_at is not None:
                passed -= self.restarted_at
                document = _advanced(document, document, -1)
            document = _advanced(document, of_second, passed)
            document["Interval us"] += 1_000_000 * self.second
        else:
            _touch(document, self.second)
        self._pcie(document)
        if self.renumbered:
            _renumber(document)
        return document

    def _pcie(self, document: dict[str, Any]) -> None:
        gone_on = self.step * ((self.second - (self.restarted_at or 0)) // self.every_s)
        for counts in document.get("PCIe Bandwidth", {}).values():
            for name in counts:
                before = counts[name] if self.restarted_at is None else 0
                counts[name] = before + gone_on


def _advanced(document: Any, by: Any, seconds: int, name: str = "") -> Any:
    """Totals gone on by so many times what `by` counted."""
    if isinstance(document, dict):
        return {
            key: _advanced(value, by.get(key, 0), seconds, key) for key, value in document.items()
        }
    if isinstance(document, list):
        return [_advanced(one, other, seconds) for one, other in zip(document, by, strict=True)]
    if isinstance(document, str) or _NO_COUNT.search(name) or name == "Interval us":
        return document
    return document + by * seconds


def _touch(document: dict[str, Any], second: int) -> None:
    """No two seconds are the same to the cycle."""
    for socket in document["Sockets"]:
        for core in socket["Cores"]:
            for thread in core["Threads"]:
                thread["Core Counters"]["Invariant TSC"] += second


def _renumber(document: dict[str, Any]) -> None:
    """Sockets change places: what was 0's is now 1's."""
    first, second = document["Sockets"]
    first["Socket ID"], second["Socket ID"] = second["Socket ID"], first["Socket ID"]
    for group in ("QPI/UPI Links", "PCIe Bandwidth"):
        of = document[group]
        names = [name for name in of if "Socket" in name]
        of[names[0]], of[names[1]] = of[names[1]], of[names[0]]


@contextmanager
def pcm_server(capture: str = "icx_2026-06_msr") -> Iterator[PcmPeer]:
    """A server on a port of its own."""
    peer = PcmPeer(capture)
    handler = type("Handler", (_Handler,), {"peer": peer})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        peer.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield peer
        finally:
            peer.released.set()
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    peer: PcmPeer

    def do_GET(self) -> None:
        peer = self.peer
        peer.requested.append(f"{self.command} {self.path}")
        with suppress(OSError):  # the client need not wait for all of it
            self.answer()

    def answer(self) -> None:
        behaviour = self.peer.behaviour
        special = getattr(self, f"_{behaviour}", None)
        if special is not None:
            special()
            return
        if behaviour.startswith("http"):
            self.reply(b"400 Bad Request", "text/plain", int(behaviour[4:]))
            return
        wants_json = self.headers["Accept"] == _JSON
        refused = _REFUSED.get(behaviour)
        if behaviour == "text_only" and wants_json:
            self.reply(b"406 Not Acceptable", "text/plain", 406)
        elif refused is not None and re.fullmatch(refused, self.path):
            self.reply(b"404 Unknown path.", "text/plain", 404)
        elif wants_json:
            body = json.dumps(self.peer.document(self.path)).encode()
            self.reply(_spoilt(body, behaviour), _JSON)
        else:
            name = "metrics.txt" if self.path == "/metrics" else "persecond1.prom"
            self.reply(captures()[f"{self.peer.capture}_{name}"], _TEXT)

    def reply(self, body: bytes, kind: str, status: int = 200, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def wait(self) -> None:
        self.peer.reached.release()
        self.peer.released.wait(60)

    def _slow(self) -> None:
        self.wait()

    def _hang(self) -> None:
        body = captures()[f"{self.peer.capture}_persecond1.json"]
        self.reply(body[: len(body) // 2], _JSON, length=len(body))
        self.wait()

    def _drip(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\n")
        while not self.peer.released.wait(0.02):
            self.wfile.write(b"X")
            self.wfile.flush()

    def _close(self) -> None:
        self.close_connection = True

    def _half(self) -> None:
        body = captures()[f"{self.peer.capture}_persecond1.json"]
        self.reply(body[: len(body) // 2], _JSON, length=len(body))

    def _noise(self) -> None:
        self.wfile.write(b"\x00\xff\r\n\r\n" * 100)

    def _html(self) -> None:
        self.reply(b"<html>", "text/html")

    def _redirect(self) -> None:
        self.send_response(302)
        self.send_header("Location", "http://127.0.0.1:1/")
        self.end_headers()

    def _huge(self) -> None:
        self.reply(b"", _JSON, length=200 << 20)

    def _endless(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", _JSON)
        self.end_headers()
        component = b" " * (1 << 20)
        for _ in range(200):
            self.wfile.write(component)

    def _headers(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 500 + b"\r\n")

    def log_message(self, *_: Any) -> None:
        """Nothing on standard error."""


def _spoilt(body: bytes, behaviour: str) -> bytes:
    """A document with numbers that can't be."""
    if behaviour == "invalid":
        return body[:-200]
    if behaviour == "list":
        return b"[" + body + b"]"
    number = {"negative": b"-17", "nan": b"nan", "wrapped": b"18446744073709551615"}.get(behaviour)
    if number is None:
        return body
    out = io.BytesIO()
    fields = rb'("(?:DRAM Reads|Instructions Retired Any|Package Joules Consumed)": )[0-9.]+'
    out.write(re.sub(fields, rb"\g<1>" + number, body))
    return out.getvalue()
