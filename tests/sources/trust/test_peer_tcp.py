"""The user of the process at the other end of a TCP connection."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from pathlib import Path

import pytest

from nftop.sources.trust import peer
from nftop.sources.trust.peer import Pair, TcpSocketRow, accepted_uid, other_end

UID = 65534
ESTABLISHED, FIN_WAIT2 = 1, 5
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be another user")
HEADING = (
    b"  sl  local_address rem_address st tx_queue rx_queue tr tm->when retrnsmt uid timeout inode"
)


def in_tables(pair: Pair) -> TcpSocketRow | None:
    return peer.find_in_tables(pair, Path("/proc/thread-self/net"))


FIND = (peer.find_by_diag, in_tables, peer.find_row)
WHERE = (
    (socket.AF_INET, "127.0.0.1", "127.0.0.1"),
    (socket.AF_INET, "0.0.0.0", "127.0.0.2"),
    (socket.AF_INET6, "::", "127.0.0.1"),  # the row has IPv4-mapped addresses
    (socket.AF_INET6, "::", "::ffff:127.0.0.1"),
    (socket.AF_INET6, "::1", "::1"),
)


@contextlib.contextmanager
def as_user(uid: int) -> Iterator[None]:
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)


@as_root
@pytest.mark.parametrize("find", FIND)
@pytest.mark.parametrize(("family", "host", "host_requested"), WHERE)
def test_the_uid_is_that_of_the_process_that_accepts(
    family: int, host: str, host_requested: str, find: Callable[[Pair], TcpSocketRow | None]
) -> None:
    with socket.socket(family) as listener:
        listener.bind((host, 0))
        listener.listen()
        port = listener.getsockname()[1]
        with socket.create_connection((host_requested, port)) as client:
            row = find(other_end(client))
            assert row is not None and (row.state, row.inode) == (ESTABLISHED, 0)
            with pytest.raises(TimeoutError):
                accepted_uid(client, time.monotonic_ns(), find)
            with as_user(UID):
                accepted, _ = listener.accept()
            with accepted:
                inode = os.fstat(accepted.fileno()).st_ino
                assert find(other_end(client)) == TcpSocketRow(ESTABLISHED, UID, inode)
                assert accepted_uid(client, time.monotonic_ns(), find) == UID
            assert accepted_uid(client, time.monotonic_ns(), find) is None  # closed
        with socket.create_connection((host_requested, port)) as client:
            accepted, _ = listener.accept()
            with accepted:
                assert accepted_uid(client, time.monotonic_ns(), find) == 0


@pytest.mark.parametrize("find", FIND)
def test_a_listener_is_not_the_other_end(find: Callable[[Pair], TcpSocketRow | None]) -> None:
    """The kernel answers with it if there is no such connection."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        here = ip_address("127.0.0.1")
        assert find(Pair(here, listener.getsockname()[1], here, 1)) is None


def test_the_uid_of_a_connection_that_is_not_accepted_is_nobodys() -> None:
    """Linux up to 6.15 reports it as root's."""
    rows = [
        TcpSocketRow(ESTABLISHED, 0, 0),
        TcpSocketRow(ESTABLISHED, 0, 0),
        TcpSocketRow(ESTABLISHED, UID, 7),
    ]
    end_ns = time.monotonic_ns() + 3600 * 10**9
    one, two = _pair()
    with one, two:
        assert accepted_uid(one, end_ns, lambda _: rows.pop(0)) == UID
        assert rows == []
        assert accepted_uid(one, end_ns, lambda _: TcpSocketRow(FIN_WAIT2, 0, 0)) is None
        assert accepted_uid(one, end_ns, lambda _: None) is None


def _pair() -> tuple[socket.socket, socket.socket]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        one = socket.create_connection(listener.getsockname())
        return one, listener.accept()[0]


def test_a_host_without_netlink_is_read_from_its_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_netlink(_: Pair) -> TcpSocketRow | None:
        raise PermissionError

    one, two = _pair()
    with one, two:
        for replaced in (no_netlink, lambda _: None):
            monkeypatch.setattr(peer, "find_by_diag", replaced)
            assert accepted_uid(one, time.monotonic_ns()) == os.geteuid()


def test_tables_that_are_missing_or_damaged_have_no_row(tmp_path: Path) -> None:
    here = ip_address("127.0.0.1")
    pair = Pair(here, 9738, here, 4096)
    assert peer.find_in_tables(pair, tmp_path) is None
    local, remote = (peer._column(here, port) for port in (9738, 4096))
    row = b" 0: %s %s %s 0:0 00:0 0 %s 0 %s 1\n"
    (tmp_path / "tcp").write_bytes(HEADING + b"\n" + row % (local, remote, b"01", b"x", b"7"))
    assert peer.find_in_tables(pair, tmp_path) is None
    (tmp_path / "tcp").write_bytes(
        HEADING
        + b"\n"
        + row % (remote, local, b"01", b"5", b"6")  # our own end
        + row % (local, remote, b"08", b"65534", b"7")
        + b"\n"
    )
    assert peer.find_in_tables(pair, tmp_path) == TcpSocketRow(8, UID, 7)
