"""HTTP requests and responses: `GET /metrics` returns the latest frame, everything else an error.

Bytes in, bytes out; sockets are in `server`. Each response closes its connection.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable
from http import HTTPStatus
from typing import NamedTuple

from nftop.export.openmetrics.page import Level, Tally, ending, page
from nftop.export.openmetrics.writer import TextFormat
from nftop.model.frame import Frame
from nftop.model.loopback import is_loopback
from nftop.model.missing import Missing, Reason
from nftop.model.struct import dataclass

END = b"\r\n\r\n"
PATH = "/metrics"
# The beginning of a request (RFC 9112, 3) and one line of its head (RFC 9110, 5.6.2).
_FIRST = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([\x21-\x7e]+) HTTP/1\.[01]")
_FIELD = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\0]*)")
# `uri-host [":" port]` (RFC 9110, 7.2), of the hosts that can be this machine's own.
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z.-]+)(?::[0-9]{0,5})?")
_WEIGHT = re.compile(r"q[ \t]*=[ \t]*([01](?:\.[0-9]{0,3})?)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response, ready to be sent."""

    status: HTTPStatus
    content: bytes
    kind: str = "text/plain; charset=utf-8"
    more: tuple[str, ...] = ()

    def encoded(self) -> bytes:
        head = (
            f"HTTP/1.1 {self.status.value} {self.status.phrase}",
            f"Content-Type: {self.kind}",
            f"Content-Length: {len(self.content)}",
            "Connection: close",
            "Cache-Control: no-store",
            "X-Content-Type-Options: nosniff",
            *self.more,
        )
        return "\r\n".join(head).encode() + END + self.content


def refusal(status: HTTPStatus, sentence: str, *more: str) -> HttpResponse:
    """An error response; `sentence` is nftop's own text."""
    return HttpResponse(status, f"nftop: {sentence}\n".encode(), more=more)


def answer(head: bytes, page: Callable[[TextFormat], bytes | Missing]) -> HttpResponse:
    """The response to a request's head, with or without the empty line at its end.

    `page` is called only for a valid request; its Missing becomes 503. Only Host headers of this
    machine are accepted, against DNS rebinding by a page of another site.
    """
    lines = head.removesuffix(END).decode("latin-1").split("\r\n")
    first = _FIRST.fullmatch(lines[0])
    fields = [_FIELD.fullmatch(line) for line in lines[1:]]
    if first is None or None in fields:
        return refusal(HTTPStatus.BAD_REQUEST, "not an HTTP/1.1 request")
    named = [(field[1].lower(), field[2].rstrip()) for field in fields if field]
    refused = _refused(first[1], first[2], [value for name, value in named if name == "host"])
    if refused is not None:
        return refused
    form = wanted(",".join(value for name, value in named if name == "accept"))
    content = page(form)
    if isinstance(content, Missing):
        return refusal(HTTPStatus.SERVICE_UNAVAILABLE, content.message)
    return HttpResponse(HTTPStatus.OK, content, form.value)


def _refused(method: str, target: str, hosts: list[str]) -> HttpResponse | None:
    if len(hosts) != 1:
        return refusal(HTTPStatus.BAD_REQUEST, "exactly one Host header is required")
    host = _HOST.fullmatch(hosts[0])
    if host is None or not is_loopback(host[1]):
        return refusal(
            HTTPStatus.FORBIDDEN,
            "Host header must be a loopback address: 127.0.0.1, [::1] or localhost, also from a "
            "proxy",
        )
    if method != "GET":
        return refusal(HTTPStatus.METHOD_NOT_ALLOWED, "GET only", "Allow: GET")
    if target.partition("?")[0] != PATH:
        return refusal(HTTPStatus.NOT_FOUND, f"there is only {PATH}")
    return None


def wanted(accept: str) -> TextFormat:
    """OpenMetrics if it is accepted at least as much as text; else text, which all can read."""
    weights = {"application/openmetrics-text": 0.0, "text/plain": 0.0}
    for word in accept.split(","):
        kind, *options = (option.strip().lower() for option in word.split(";"))
        versions = [option for option in options if option.startswith("version=")]
        if kind == "application/openmetrics-text" and versions not in ([], ["version=1.0.0"]):
            continue
        if kind in weights:
            given = [match[1] for option in options if (match := _WEIGHT.fullmatch(option))]
            weights[kind] = max(weights[kind], float(given[0]) if given else 1.0)
    openmetrics, text = weights.values()
    return TextFormat.OPENMETRICS if openmetrics > 0 and openmetrics >= text else TextFormat.TEXT


# A frame is stale after so many missed frames, and some time.
_FRAMES_MISSED, _PATIENCE_S = 2, 5.0
_NONE_YET = Missing(Reason.WARMING, "no frame yet: ask again in a moment")


class _Shown(NamedTuple):
    frame: Frame
    tally: Tally
    at_s: float


class Board:
    """Frames in by `publish`, in one thread; responses by `reply`, in one thread.

    A page is created at its first request and kept until the next frame, so that many scrapes cost
    no more than frames do.
    """

    def __init__(self, interval_s: float, level: Level = "cpu") -> None:
        self._level: Level = level
        self._too_old_s = _FRAMES_MISSED * interval_s + _PATIENCE_S
        self._interval_s = interval_s
        self._tally = Tally()
        self._shown: _Shown | None = None
        self._of: _Shown | None = None
        self._pages: dict[TextFormat, bytes] = {}
        self._answers: Counter[int] = Counter()

    def publish(self, frame: Frame) -> None:
        """Show this frame from now on."""
        self._tally = self._tally.after(frame, time.process_time_ns() / 1e9)
        self._shown = _Shown(frame, self._tally, time.monotonic())

    def reply(self, head: bytes) -> bytes:
        """The response to a request's head. Reads nothing of the host."""
        try:
            response = answer(head, self._page)
        except Exception as error:  # noqa: BLE001 - the boundary: no request may end the server
            message = f"nftop's own fault: {type(error).__name__}"
            response = refusal(HTTPStatus.INTERNAL_SERVER_ERROR, message)
        return self.counted(response)

    def counted(self, response: HttpResponse) -> bytes:
        """Encode a response, and count it for the next page."""
        self._answers[response.status.value] += 1
        return response.encoded()

    def _page(self, form: TextFormat) -> bytes | Missing:
        # Read once: the other thread may replace it.
        shown = self._shown
        if shown is None:
            return _NONE_YET
        age_s = time.monotonic() - shown.at_s
        if age_s > self._too_old_s:
            return Missing(
                Reason.STALE,
                f"the last frame is {age_s:.0f} s old, and one is due every {self._interval_s:g} s",
            )
        if shown is not self._of:
            self._of, self._pages = shown, {}
        if form not in self._pages:
            self._pages[form] = page(shown.frame, shown.tally, form, self._level).encode()
        return self._pages[form] + ending(self._answers, form).encode()
