"""One server, several addresses: none takes the time of the others; names that are none."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.sources.runtime.http_client import Address, HttpSession, NoAnswerError, is_host_name
from tests.peers.prometheus import prometheus_peer

LIMIT_NS = 4_000_000_000


@contextmanager
def silent() -> Iterator[tuple[str, int]]:
    """An address that drops packets of connections: its queue of them is full."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.2", 0))
        listening.listen(0)
        waiting = []
        for _ in range(4):
            waiting.append(socket.socket())
            waiting[-1].setblocking(False)
            waiting[-1].connect_ex(listening.getsockname())
        try:
            yield listening.getsockname()
        finally:
            for item in waiting:
                item.close()


def addresses(monkeypatch: pytest.MonkeyPatch, *where: tuple[str, int]) -> None:
    infos = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", item) for item in where]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: infos)


def test_an_address_that_drops_packets_leaves_time_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with silent() as dead, prometheus_peer({}) as peer:
        peer.behaviour = "html"
        addresses(monkeypatch, dead, ("127.0.0.1", peer.port))
        began_ns = time.monotonic_ns()
        session = HttpSession(Address("prom", 1), began_ns + LIMIT_NS, most_bytes=1 << 20)
        assert session.get("/api/v1/query", {}).status == 200
        session.close()
        assert time.monotonic_ns() - began_ns >= LIMIT_NS // 2


def test_the_last_address_has_all_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    with silent() as dead:
        addresses(monkeypatch, dead, dead)
        began_ns = time.monotonic_ns()
        session = HttpSession(Address("prom", 1), began_ns + LIMIT_NS // 4, most_bytes=1)
        with pytest.raises(NoAnswerError, match="in time"):
            session.get("/", {})
        assert time.monotonic_ns() - began_ns >= LIMIT_NS // 4


@pytest.mark.parametrize(
    "host", ["", ".", "a..b", ".a", "a.", "x" * 64, f"{'x' * 63}.a", "::1", "10.0.0.1", "a b"]
)
def test_host_names(host: str) -> None:
    assert is_host_name(host) == (host in ("a.", f"{'x' * 63}.a", "::1", "10.0.0.1"))


@given(st.text(alphabet="a.-:x%_", max_size=80))
def test_a_resolution_takes_every_host_name(host: str) -> None:
    if is_host_name(host):
        host.encode("idna")  # as getaddrinfo does; it raises for others
