"""The source against a Prometheus that is slow, wrong, gone, redirects or floods."""

from __future__ import annotations

import math
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from nftop.export.fleet.queries import fleet_queries
from nftop.model.fleet import FLEET_METRICS, FleetSample
from nftop.model.missing import Missing, Reason
from nftop.sources.prometheus import (
    MOST_BYTES,
    PrometheusSource,
    PrometheusUrl,
    check_token,
    parse_prometheus_url,
)
from nftop.sources.runtime.http_client import Address
from tests.fleet import WALL_S, three_hosts
from tests.peers.prometheus import FLOOD_BYTES, PrometheusPeer, prometheus_peer
from tests.ports import free_port

SHORT_S = 0.4
QUERIES = fleet_queries("nftop")


@pytest.fixture
def peer() -> Iterator[PrometheusPeer]:
    with prometheus_peer(three_hosts()) as running:
        yield running


def source(peer: PrometheusPeer, limit_s: float = 60.0, token: str = "") -> PrometheusSource:
    url = parse_prometheus_url(f"http://127.0.0.1:{peer.port}")
    return PrometheusSource(url, QUERIES, token=token, limit_s=limit_s)


def test_all_families_are_read_over_one_connection_at_one_time(peer: PrometheusPeer) -> None:
    sample = source(peer).read()
    assert isinstance(sample, FleetSample)
    assert len(peer.requested) == len(QUERIES) <= 12
    assert peer.connections == 1
    assert "time" not in peer.requested[0]
    assert {item["time"][0] for item in peer.requested[1:]} == {f"{WALL_S + 3:.3f}"}
    assert sample.evaluated_s == WALL_S + 3.0
    assert {*FLEET_METRICS, "up", "host", "time", "nf", "nf_up", "finding"} <= sample.series.keys()
    assert [row.value for row in sample.series["up"]] == [1.0] * 3
    assert len(sample.series["nf"]) == len(sample.series["tx_packets_per_s"]) == 12
    assert sample.notes == ()
    assert "Authorization" not in peer.headers


WRONG = {
    "html": (Reason.ERROR, "is no Prometheus"),
    "empty": (Reason.ERROR, "is no Prometheus"),
    "array": (Reason.ERROR, "is no Prometheus"),
    "deep": (Reason.ERROR, "is no Prometheus"),
    "deep_unknown": (Reason.ERROR, "is no Prometheus"),
    "deep_label": (Reason.ERROR, "is no Prometheus"),
    "numbers": (Reason.ERROR, "is no Prometheus"),
    "text_value": (Reason.ERROR, "is no Prometheus"),
    "endless": (Reason.ERROR, "is no Prometheus"),
    "not_utf8": (Reason.ERROR, "is no Prometheus"),
    "matrix": (Reason.ERROR, "matrix"),
    "no_data": (Reason.ERROR, "has no data"),
    "error": (Reason.ERROR, "broken"),
    "bad_request": (Reason.ERROR, "HTTP 400: parse"),
    "overloaded": (Reason.ERROR, "HTTP 503: query timed out"),
    "not_found": (Reason.ERROR, "HTTP 404"),
    "unauthorized": (Reason.PERMISSION, "--prometheus-token-file"),
    "forbidden": (Reason.PERMISSION, "HTTP 403"),
    "redirect": (Reason.ERROR, "https://elsewhere/?[2J: no redirect"),
    "many_series": (Reason.ERROR, "150,000 series"),
    "bulky": (Reason.ERROR, "24 MiB"),
    "odd_warnings": (Reason.ERROR, "is no Prometheus"),
    "closes": (Reason.ERROR, "closed the connection"),
    "breaks_off": (Reason.ERROR, "too early"),
    "no_http": (Reason.ERROR, "invalid HTTP"),
    "flood": (Reason.ERROR, "24 MiB"),
    "announced_flood": (Reason.ERROR, "24 MiB"),
}


@pytest.mark.parametrize("behaviour", WRONG)
def test_a_wrong_answer_is_a_sentence(peer: PrometheusPeer, behaviour: str) -> None:
    peer.behaviour = behaviour
    why = source(peer).read()
    assert isinstance(why, Missing)
    reason, text = WRONG[behaviour]
    assert why.reason is reason
    assert text in why.message
    assert why.message.isprintable()
    assert len(why.message) < 400
    peer.behaviour = "well"
    assert isinstance(source(peer).read(), FleetSample), "it recovers"


def test_long_warnings_are_not_decoded(peer: PrometheusPeer) -> None:
    peer.behaviour = "long_warnings"
    sample = source(peer).read()
    assert isinstance(sample, FleetSample)
    assert sample.notes == ("Prometheus warns: its warnings are too long",)


def test_a_flood_is_not_read_to_its_end(peer: PrometheusPeer) -> None:
    peer.behaviour = "flood"
    process = psutil.Process()
    before = process.memory_info().rss
    assert isinstance(source(peer).read(), Missing)
    # What is on its way stays in buffers of the kernel.
    assert peer.sent_bytes < 4 * MOST_BYTES < FLOOD_BYTES
    assert process.memory_info().rss - before < 8 * MOST_BYTES


@pytest.mark.parametrize("behaviour", ["hang", "trickle"])
def test_a_slow_answer_ends_at_the_limit(peer: PrometheusPeer, behaviour: str) -> None:
    peer.behaviour = behaviour
    began = time.monotonic()
    why = source(peer, limit_s=SHORT_S).read()
    assert isinstance(why, Missing)
    assert why.reason is Reason.STALE
    assert f"0 of {len(QUERIES)} queries were answered in 0.4 s" in why.message
    assert SHORT_S <= time.monotonic() - began < 60


def test_nothing_that_listens_is_a_sentence() -> None:
    url = PrometheusUrl(Address("127.0.0.1", free_port()))
    why = PrometheusSource(url, QUERIES).read()
    assert isinstance(why, Missing)
    assert why.reason is Reason.SOURCE
    assert "no Prometheus listens" in why.message


def test_values_that_are_no_finite_numbers_are_counted(peer: PrometheusPeer) -> None:
    peer.behaviour = "not_finite"
    sample = source(peer).read()
    assert isinstance(sample, FleetSample)
    (note,) = sample.notes
    spoilt = 3 + 5 * (len(QUERIES) - 1)  # three targets only are up
    assert note.startswith(f"{spoilt} values ")
    assert all(abs(row.value) < 1e15 for rows in sample.series.values() for row in rows)


def test_no_query_has_a_time_that_is_no_number(peer: PrometheusPeer) -> None:
    peer.behaviour = "late"
    sample = source(peer).read()
    assert isinstance(sample, FleetSample)
    assert math.isnan(sample.evaluated_s)
    assert all("time" not in item for item in peer.requested)


def test_series_without_a_target_are_counted(peer: PrometheusPeer) -> None:
    peer.behaviour = "nameless"
    sample = source(peer).read()
    assert isinstance(sample, FleetSample)
    assert not sample.series
    assert len(sample.notes) == 1


def test_the_job_restricts_every_query(peer: PrometheusPeer) -> None:
    hostile = 'x",instance=~".*\\'
    for job in ("nftop", hostile):
        for query in fleet_queries(job):
            assert query.text.count("{") == query.text.count("{job=") > 0
    url = parse_prometheus_url(f"http://127.0.0.1:{peer.port}/prefix/")
    sample = PrometheusSource(url, fleet_queries("other")).read()
    assert isinstance(sample, FleetSample)
    assert not sample.series
    assert {item["path"][0] for item in peer.requested} == {"/prefix/api/v1/query"}


@pytest.mark.parametrize(
    ("text", "shown", "tls"),
    [
        ("http://127.0.0.1:9090", "127.0.0.1:9090", False),
        ("prom:9090", "prom:9090", False),
        ("https://prom", "prom:443", True),
        ("http://prom", "prom:80", False),
        ("https://prom/prometheus/", "prom:443/prometheus", True),
        ("http://[::1]:9090", "[::1]:9090", False),
    ],
)
def test_urls(text: str, shown: str, tls: bool) -> None:
    url = parse_prometheus_url(text)
    assert url.shown == shown
    assert url.address.tls is tls


@pytest.mark.parametrize(
    "text",
    ["nonsense", "nonsense/path", "", "ftp://x", "http://u:p@x", "http://u@x", "http://",
     "http://x?query=1", "http://x#a", "http://x:99999", "http://a b", "http://x/a b",
     "http://x/\x1b", "http://\u202ex", "file:///etc"],
)  # fmt: skip
def test_urls_that_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_prometheus_url(text)


def test_a_token_is_sent_as_a_header(peer: PrometheusPeer) -> None:
    assert isinstance(source(peer, token="a.b-c_d").read(), FleetSample)
    assert peer.headers["Authorization"] == "Bearer a.b-c_d"


@pytest.mark.parametrize("token", ["", "a b", "a\r\nX: y", "\u00e4", "a\tb"])
def test_a_token_is_one_word(token: str) -> None:
    with pytest.raises(ValueError, match="word"):
        check_token(token, parse_prometheus_url("https://prom"))


def test_a_token_goes_over_https_or_to_this_machine_only() -> None:
    check_token("x", parse_prometheus_url("https://prom"))
    check_token("x", parse_prometheus_url("http://127.0.0.1:9090"))
    with pytest.raises(ValueError, match="https"):
        check_token("x", parse_prometheus_url("http://prom:9090"))


def test_no_proxy_is_used(peer: PrometheusPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    assert isinstance(source(peer).read(), FleetSample)


def test_https_needs_a_certificate_of_a_known_authority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
            "-keyout",
            key,
            "-out",
            certificate,
        ],
        check=True,
        capture_output=True,
    )
    both = tmp_path / "both.pem"
    both.write_text(key.read_text() + certificate.read_text())
    with prometheus_peer(three_hosts(), both) as peer:
        url = PrometheusUrl(Address("127.0.0.1", peer.port, tls=True))
        why = PrometheusSource(url, QUERIES, limit_s=60.0).read()
        assert isinstance(why, Missing)
        assert "self-signed certificate" in why.message
        assert not peer.requested
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert isinstance(PrometheusSource(url, QUERIES, limit_s=60.0).read(), FleetSample)
        peer.behaviour = "hang"
        late = PrometheusSource(url, QUERIES, limit_s=SHORT_S).read()
        assert isinstance(late, Missing)
        assert late.reason is Reason.STALE


def test_a_name_that_begins_like_a_loopback_address_is_another_machine() -> None:
    assert Address("127.0.0.1", 9090).here and Address("127.8.0.1", 9090).here
    assert not Address("127.evil.example", 9090).here
