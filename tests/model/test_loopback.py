"""Where nftop may listen, and by which names it is asked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.model.loopback import PORT, Loopback, is_loopback, parse_loopback


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("127.0.0.1:9100", ("127.0.0.1", 9100)),
        ("127.1.2.3", ("127.1.2.3", PORT)),
        ("localhost:0", ("127.0.0.1", 0)),
        ("[::1]:80", ("::1", 80)),
        ("[::1]", ("::1", PORT)),
    ],
)
def test_loopback_is_taken(text: str, where: tuple[str, int]) -> None:
    assert parse_loopback(text) == where
    assert parse_loopback(parse_loopback(text).shown) == where


@pytest.mark.parametrize("text", ["0.0.0.0:9739", "[::]:9739", ":9739", "10.0.0.1", "edge-07:9739"])
def test_every_other_address_is_refused_with_the_way_round(text: str) -> None:
    with pytest.raises(ValueError, match=r"ssh -L 9739:127\.0\.0\.1:9739 HOST"):
        parse_loopback(text)


@pytest.mark.parametrize("port", ["", "x", "-1", "65536", "99999999", "٣", "+80", " 80"])
def test_a_port_is_a_valid_number(port: str) -> None:
    with pytest.raises(ValueError, match="is not ADDRESS:PORT"):
        parse_loopback(f"127.0.0.1:{port}")


@given(st.ip_addresses(v=4), st.integers(0, 65535))
def test_of_ipv4_only_127_is_loopback(address: object, port: int) -> None:
    local = str(address).startswith("127.")
    assert is_loopback(str(address)) == local
    if local:
        assert parse_loopback(f"{address}:{port}") == Loopback(str(address), port)


@pytest.mark.parametrize(
    "name",
    ["", "localhost.evil.example", "127.0.0.1.evil.example", "::1", "[127.0.0.1]", "127.1", "[::1"],
)
def test_names_of_others_are_not_ours(name: str) -> None:
    assert not is_loopback(name)
