"""What may be asked over HTTP, and in which form it is answered."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nftop.export.http.request import HttpResponse, answer, wanted
from nftop.export.openmetrics.writer import TextFormat
from nftop.model.missing import Missing, Reason

REQUEST = b"GET /metrics HTTP/1.1\r\nHost: localhost"


def requests(text: str, page: bytes | Missing = b"page") -> HttpResponse:
    return answer(text.replace("\n", "\r\n").encode("latin-1"), lambda form: page)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:9739",
        "127.0.0.1",
        "localhost:19739",
        "LOCALHOST",
        "[::1]:9739",
        "127.8.0.1:1",
        "localhost:",
    ],
)
@pytest.mark.parametrize("target", ["/metrics", "/metrics?a=b"])
def test_a_scrape_of_this_machine_is_answered(host: str, target: str) -> None:
    assert requests(f"GET {target} HTTP/1.1\nhOsT: {host} \nX: y").content == b"page"


@pytest.mark.parametrize(
    ("question", "status", "body"),
    [
        ("GET /metrics HTTP/1.1\nHost: rebound.example:9739", 403, "127.0.0.1"),
        ("GET /metrics HTTP/1.1\nHost: 127.0.0.1.evil.example", 403, "Host"),
        ("GET /metrics HTTP/1.1\nHost: 192.0.2.1", 403, "proxy"),
        ("GET /metrics HTTP/1.1\nHost: ", 403, "proxy"),
        ("GET /metrics HTTP/1.1\nHost: localhost:80@evil.com", 403, "proxy"),
        ("GET /metrics HTTP/1.1\nHost: [::1]:80@evil.com", 403, "proxy"),
        ("GET /metrics HTTP/1.1\nHost: evil.com:80@localhost", 403, "proxy"),
        ("GET /metrics HTTP/1.1\nHost: [::1%evil.com]", 403, "proxy"),
        ("GET /metrics HTTP/1.1\nHost: localhost:80:80", 403, "proxy"),
        ("GET /metrics HTTP/1.1\nHost: localhost:080808", 403, "proxy"),
        ("GET /metrics HTTP/1.1\nHost: localhost,evil.com", 403, "proxy"),
        ("GET /metrics HTTP/1.1", 400, "Host"),
        ("GET /metrics HTTP/1.1\nHost: localhost\nHost: evil.example", 400, "Host"),
        ("GET / HTTP/1.1\nHost: localhost", 404, "/metrics"),
        ("GET /metrics/../etc HTTP/1.1\nHost: localhost", 404, "/metrics"),
        ("GET http://localhost/metrics HTTP/1.1\nHost: localhost", 404, "/metrics"),
        ("POST /metrics HTTP/1.1\nHost: localhost", 405, "GET"),
        ("HEAD /metrics HTTP/1.1\nHost: localhost", 405, "GET"),
        ("OPTIONS /metrics HTTP/1.1\nHost: localhost", 405, "GET"),
        ("GET /metrics HTTP/2.0\nHost: localhost", 400, "HTTP"),
        ("GET  /metrics HTTP/1.1\nHost: localhost", 400, "HTTP"),
        ("GET /metrics HTTP/1.1\nHost : localhost", 400, "HTTP"),
        ("GET /metrics HTTP/1.1\n Host: localhost", 400, "HTTP"),
        ("GET /metrics HTTP/1.1\nHost: localhost\nX\0: y", 400, "HTTP"),
        ("", 400, "HTTP"),
        ("\x16\x03\x01\x02", 400, "HTTP"),
    ],
)
def test_everything_else_is_refused_in_a_sentence(question: str, status: int, body: str) -> None:
    refused = requests(question)
    assert refused.status == status
    assert refused.content.startswith(b"nftop: ")
    assert body.encode() in refused.content
    assert b"evil" not in refused.encoded()  # nothing of the question comes back


@settings(max_examples=50)
@given(
    st.binary(max_size=60), st.sampled_from([b"", REQUEST, REQUEST[:-9], REQUEST + b"\r\nAccept: "])
)
def test_no_bytes_do_harm(noise: bytes, before: bytes) -> None:
    result = answer(before + noise, lambda form: b"page")
    assert result.status in (200, 400, 403, 404, 405)


PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
    "application/openmetrics-text;version=0.0.1;q=0.4,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
)


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        (PROMETHEUS_2, TextFormat.OPENMETRICS),
        (PROMETHEUS_3, TextFormat.OPENMETRICS),
        ("application/openmetrics-text", TextFormat.OPENMETRICS),
        ("Application/OpenMetrics-Text; Q=0.1", TextFormat.OPENMETRICS),
        ("application/openmetrics-text;version=0.0.1", TextFormat.TEXT),
        ("application/openmetrics-text;version=2.0.0", TextFormat.TEXT),
        ("application/openmetrics-text;q=0", TextFormat.TEXT),
        ("application/openmetrics-text;q=0.5,text/plain;q=0.6", TextFormat.TEXT),
        ("text/plain", TextFormat.TEXT),
        ("text/html,application/xhtml+xml,*/*;q=0.8", TextFormat.TEXT),
        ("", TextFormat.TEXT),
        (";;,,q=", TextFormat.TEXT),
    ],
)
def test_the_form_that_is_requested(accept: str, form: TextFormat) -> None:
    assert wanted(accept) is form


def test_why_no_page_is_reported() -> None:
    none = requests("GET /metrics HTTP/1.1\nHost: localhost", Missing(Reason.STALE, "it is old"))
    assert (none.status, none.content) == (503, b"nftop: it is old\n")
