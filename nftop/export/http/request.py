"""What is asked over HTTP, and the answer: `GET /metrics`, and a sentence to everything else.

Bytes to bytes: sockets are `server`'s. Each answer ends its connection.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from http import HTTPStatus

from nftop.export.openmetrics.writer import Form
from nftop.model.loopback import is_loopback
from nftop.model.reading import Missing
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
class Answer:
    """An answer, ready to be sent."""

    status: HTTPStatus
    content: bytes
    kind: str = "text/plain; charset=utf-8"
    more: tuple[str, ...] = ()

    def encoded(self) -> bytes:
        """Head and content."""
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


def refusal(status: HTTPStatus, sentence: str, *more: str) -> Answer:
    """An answer without a page, and why. `sentence` is nftop's own words."""
    return Answer(status, f"nftop: {sentence}\n".encode(), more=more)


def answer(head: bytes, page: Callable[[Form], bytes | Missing]) -> Answer:
    """The answer to a request's head, with or without the empty line at its end.

    `page` is called for what is answered with it only; why it has none is told as 503.

    A page of some other site that has its name point here (DNS rebinding) has its browser send that
    name as Host, so that only those of this machine are answered.
    """
    lines = head.removesuffix(END).decode("latin-1").split("\r\n")
    first = _FIRST.fullmatch(lines[0])
    fields = [_FIELD.fullmatch(line) for line in lines[1:]]
    if first is None or None in fields:
        return refusal(HTTPStatus.BAD_REQUEST, "that is no HTTP/1.1")
    named = [(field[1].lower(), field[2].rstrip()) for field in fields if field]
    refused = _refused(first[1], first[2], [value for name, value in named if name == "host"])
    if refused is not None:
        return refused
    form = wanted(",".join(value for name, value in named if name == "accept"))
    content = page(form)
    if isinstance(content, Missing):
        return refusal(HTTPStatus.SERVICE_UNAVAILABLE, content.message)
    return Answer(HTTPStatus.OK, content, form.value)


def _refused(method: str, target: str, hosts: list[str]) -> Answer | None:
    if len(hosts) != 1:
        return refusal(HTTPStatus.BAD_REQUEST, "one Host, please")
    host = _HOST.fullmatch(hosts[0])
    if host is None or not is_loopback(host[1]):
        return refusal(
            HTTPStatus.FORBIDDEN,
            "asked by a name that is not this machine's own: use 127.0.0.1, [::1] or localhost; a "
            "proxy is to send one of them as Host",
        )
    if method != "GET":
        return refusal(HTTPStatus.METHOD_NOT_ALLOWED, "GET only", "Allow: GET")
    if target.partition("?")[0] != PATH:
        return refusal(HTTPStatus.NOT_FOUND, f"there is only {PATH}")
    return None


def wanted(accept: str) -> Form:
    """OpenMetrics where it is asked for at least as much as text; else text, which all can read."""
    weights = {"application/openmetrics-text": 0.0, "text/plain": 0.0}
    for word in accept.split(","):
        kind, *options = (part.strip().lower() for part in word.split(";"))
        versions = [part for part in options if part.startswith("version=")]
        if kind == "application/openmetrics-text" and versions not in ([], ["version=1.0.0"]):
            continue
        if kind in weights:
            told = [found[1] for part in options if (found := _WEIGHT.fullmatch(part))]
            weights[kind] = max(weights[kind], float(told[0]) if told else 1.0)
    openmetrics, text = weights.values()
    return Form.OPENMETRICS if openmetrics > 0 and openmetrics >= text else Form.TEXT
