"""Who may ask, what is answered, and that nobody is waited for."""

from __future__ import annotations

import errno
import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from unittest import mock

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.export.http import request as boards
from nftop.export.http import server as serving
from nftop.export.http.request import Board
from nftop.export.http.server import MAX_CONNECTIONS, MAX_DRAINING, MAX_HEAD_BYTES, Serving
from nftop.export.openmetrics import page as openmetrics
from nftop.model.loopback import Loopback
from tests import frames
from tests.command import NFTOP, called
from tests.export.prometheus import read
from tests.waiting import LONGEST_S, until

HERE = Loopback("127.0.0.1", 0)
OPENMETRICS = "application/openmetrics-text;version=1.0.0"
REQUEST = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:9739\r\n\r\n"


@pytest.fixture
def board() -> Board:
    board = Board(1.0)
    board.publish(frames.frame())
    return board


@pytest.fixture
def serve(board: Board) -> Iterator[Callable[..., Serving]]:
    """Starts a server on a free port, which ends with the test."""
    with ExitStack() as ends:

        def start(reply: Callable[[bytes], bytes] = board.reply, deadline_s: float = 60) -> Serving:
            server = Serving(HERE, reply, board.counted, deadline_s)
            ends.callback(server.close)
            server.start()
            return server

        yield start


def connect(server: Serving) -> socket.socket:
    return socket.create_connection(server.where, timeout=LONGEST_S)


def rest(connection: socket.socket) -> bytes:
    """All that comes until it is closed."""
    chunks = []
    while component := connection.recv(1 << 16):
        chunks.append(component)
    return b"".join(chunks)


def scrape(server: Serving, **headers: str) -> tuple[int, str, str]:
    """Status, content type and page, by a client that is not ours."""
    connection = http.client.HTTPConnection(*server.where, timeout=LONGEST_S)
    with closing(connection):
        connection.request("GET", "/metrics", headers=headers)
        got = connection.getresponse()
        return got.status, got.headers["Content-Type"], got.read().decode()


def answered(server: Serving) -> bool:
    """Whether a scrape is; where patience is short, a client that gets no CPU is cut off, too."""
    try:
        return scrape(server)[0] == 200
    except (OSError, http.client.HTTPException):
        return False


def test_a_page_over_http(serve: Callable[..., Serving], snapshot: SnapshotAssertion) -> None:
    server = serve()
    status, kind, page = scrape(server)
    assert (status, kind) == snapshot
    assert read(page, openmetrics=False)["nftop_nf_up"].samples
    status, kind, page = scrape(server, Accept=OPENMETRICS)
    assert (status, kind) == snapshot
    answers = read(page, openmetrics=True)["nftop_self_http_responses_total"]
    assert answers.samples == {frozenset({("code", "200")}): 1}
    assert scrape(server, Host="evil.example")[0] == 403


def test_a_page_is_created_once_a_frame(board: Board) -> None:
    with mock.patch.object(boards, "page", wraps=openmetrics.page) as created:
        for _ in range(20):
            board.reply(REQUEST)
        assert created.call_count == 1
        board.publish(frames.frame(tick=1))
        assert created.call_count == 1  # nobody has asked for it
        assert b"1767225601.0" in board.reply(REQUEST)
        assert created.call_count == 2


def test_no_frame_and_an_old_frame_are_no_answer() -> None:
    board = Board(10.0)
    assert board.reply(REQUEST).startswith(b"HTTP/1.1 503 ")
    with mock.patch.object(boards, "time") as clock:
        clock.process_time_ns.return_value, clock.monotonic.return_value = 0, 1000.0
        board.publish(frames.frame())
        clock.monotonic.return_value = 1025.0
        assert board.reply(REQUEST).startswith(b"HTTP/1.1 200 ")
        clock.monotonic.return_value = 1026.0
        message = board.reply(REQUEST)
        assert message.startswith(b"HTTP/1.1 503 ")
        assert b"the last frame is 26 s old, and one is due every 10 s" in message


def test_what_fails_is_an_answer_too(board: Board) -> None:
    with mock.patch.object(boards, "page", side_effect=KeyError("x")):
        assert board.reply(REQUEST).startswith(b"HTTP/1.1 500 ")
    assert board.reply(REQUEST).startswith(b"HTTP/1.1 200 ")


def test_idle_connections_are_dropped_first(serve: Callable[..., Serving]) -> None:
    server = serve(deadline_s=0.3)
    with ExitStack() as all_of_them:
        silent = [all_of_them.enter_context(connect(server)) for _ in range(MAX_CONNECTIONS + 3)]
        until(lambda: answered(server))
        assert all(b" 408 " in rest(item) for item in silent)


def test_idle_connections_do_not_block_requests(serve: Callable[..., Serving]) -> None:
    server = serve(deadline_s=2 * LONGEST_S)  # nobody's time is over within this test
    with ExitStack() as all_of_them:
        begun = all_of_them.enter_context(connect(server))
        begun.sendall(REQUEST[:20])
        silent = [all_of_them.enter_context(connect(server)) for _ in range(3 * MAX_CONNECTIONS)]
        for item in silent[::2]:
            item.sendall(b"G")  # or not much
        for _ in range(2 * MAX_CONNECTIONS):
            assert scrape(server)[0] == 200
        # Displaced in the order of their arrival, each with a response that it can read.
        assert b" 408 " in rest(begun)
        assert all(b" 408 " in rest(entry) for entry in silent[: 2 * MAX_CONNECTIONS])


def test_clients_that_read_no_reply_do_not_block_requests(serve: Callable[..., Serving]) -> None:
    large, small = b"x" * (64 << 20), b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    server = serve(lambda head: large if b"large" in head else small, deadline_s=2 * LONGEST_S)
    with ExitStack() as all_of_them:
        for _ in range(MAX_CONNECTIONS):
            lazy = all_of_them.enter_context(connect(server))
            lazy.sendall(REQUEST.replace(b"metrics", b"large"))
            assert lazy.recv(1) == b"x"
        for _ in range(3):
            with connect(server) as connection:
                connection.sendall(REQUEST)
                assert rest(connection) == small


def test_a_client_that_sends_byte_by_byte_is_dropped(serve: Callable[..., Serving]) -> None:
    server = serve(deadline_s=0.3)
    with connect(server) as connection:

        def refused() -> bool:
            try:
                connection.sendall(b"G")
            except OSError:
                return True
            return False

        until(refused)
    until(lambda: answered(server))


def test_a_page_that_nobody_takes_is_thrown_away(serve: Callable[..., Serving]) -> None:
    large = b"x" * (64 << 20)  # more than the kernel holds
    server = serve(lambda head: large, deadline_s=0.3)
    with ExitStack() as all_of_them:
        for _ in range(MAX_CONNECTIONS):
            all_of_them.enter_context(connect(server)).sendall(REQUEST)

        def begins() -> bool:
            with connect(server) as connection:  # which waits until they are gone
                connection.sendall(REQUEST)
                return connection.recv(1) == b"x"

        until(begins)


def test_long_requests_and_clients_that_disconnect(serve: Callable[..., Serving]) -> None:
    server = serve()
    with connect(server) as connection:
        connection.sendall(b"GET /" + b"x" * (2 * MAX_HEAD_BYTES))
        assert rest(connection).startswith(b"HTTP/1.1 431 ")
    with connect(server) as connection:
        connection.sendall(REQUEST[:9])
    with connect(server) as connection:
        connection.sendall(REQUEST + b"and what comes behind it, unread" * 999)
        assert rest(connection).startswith(b"HTTP/1.1 200 ")
    with connect(server) as connection:
        for byte in REQUEST:
            connection.sendall(bytes([byte]))
        assert rest(connection).startswith(b"HTTP/1.1 200 ")


def test_a_response_is_read_though_the_request_was_not(board: Board) -> None:
    """Closing with unread input would reset the connection, and the response would be lost."""
    server = Serving(HERE, board.reply, board.counted, deadline_s=0.0)
    with ExitStack() as ends:
        ends.callback(server.close)
        clients = [ends.enter_context(connect(server)) for _ in range(8)]
        for client in clients:
            client.sendall(b"G" * 100)  # it waits in the kernel when the server's time is over
        server.start()
        for client in clients:
            assert b" 408 " in rest(client)


def test_a_request_that_has_arrived_is_not_displaced(board: Board) -> None:
    server = Serving(HERE, board.reply, board.counted, deadline_s=2 * LONGEST_S)
    with ExitStack() as ends:
        ends.callback(server.close)
        scraper = ends.enter_context(connect(server))
        for _ in range(2 * MAX_CONNECTIONS):
            ends.enter_context(connect(server)).sendall(b"G")
        scraper.sendall(REQUEST)
        server.start()
        assert rest(scraper).startswith(b"HTTP/1.1 200 ")


def test_a_slow_client_has_time_while_dozens_connect(serve: Callable[..., Serving]) -> None:
    server = serve(deadline_s=2 * LONGEST_S)
    with ExitStack() as ends:
        scraper = ends.enter_context(connect(server))
        for _ in range(MAX_CONNECTIONS - 1):
            ends.enter_context(connect(server)).sendall(b"G")
        assert scrape(server)[0] == 200  # they have been accepted, and the oldest was displaced
        slow = ends.enter_context(connect(server))
        for _ in range(MAX_CONNECTIONS - 2):
            ends.enter_context(connect(server)).sendall(b"G")
        slow.sendall(REQUEST)
        assert rest(slow).startswith(b"HTTP/1.1 200 ")
        assert b" 408 " in rest(scraper)


def test_a_client_that_closes_as_it_is_closed_does_not_end_the_server(board: Board) -> None:
    """Two events of one wake-up: the first closes the client that the second is of."""
    blocked, go_on = threading.Event(), threading.Event()

    def reply(head: bytes) -> bytes:
        if b"blocking" in head:
            blocked.set()
            assert go_on.wait(LONGEST_S)
        return board.reply(head)

    server = Serving(HERE, reply, board.counted, 2 * LONGEST_S)
    with (
        mock.patch.object(serving, "DRAIN_S", 2 * LONGEST_S),
        ExitStack() as ends,
    ):
        ends.callback(server.close)
        server.start()
        drained = []
        for _ in range(MAX_DRAINING):
            drained.append(ends.enter_context(connect(server)))
            drained[-1].sendall(REQUEST)
            assert rest(drained[-1]).startswith(b"HTTP/1.1 200 ")
        last, blocking = (ends.enter_context(connect(server)) for _ in range(2))
        last.sendall(REQUEST[:9])
        assert scrape(server)[0] == 200  # `last` was accepted before; the first drained is gone
        blocking.sendall(REQUEST.replace(b"metrics", b"blocking"))
        assert blocked.wait(LONGEST_S)
        # The reply to `blocking` displaces the second of the drained, that to `last` the third.
        last.sendall(REQUEST[9:])
        for client in drained[:4]:
            client.close()
        go_on.set()
        assert rest(last).startswith(b"HTTP/1.1 200 ")
        assert [scrape(server)[0] for _ in range(3)] == [200] * 3


_CONNECTING = """
import socket, sys
address, ways, kept = ("127.0.0.1", int(sys.argv[1])), sys.argv[2], []
print("begun", flush=True)
while True:
    try:
        connection = socket.create_connection(address, timeout=10)
        if ways == "begin":
            connection.send(b"G")
        kept.append(connection)
        if ways == "close" or len(kept) > 400:
            kept.pop(0).close()
    except OSError:
        kept.clear()
"""


@pytest.mark.parametrize("ways", ["close", "hold", "begin"])
def test_scrapes_succeed_while_others_connect_as_fast_as_they_can(
    serve: Callable[..., Serving], ways: str
) -> None:
    server = serve()
    with ExitStack() as flood:
        for _ in range(2):
            command = [sys.executable, "-c", _CONNECTING, str(server.where.port), ways]
            process = flood.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE))
            flood.callback(process.kill)
            assert process.stdout is not None
            assert process.stdout.readline() == b"begun\n"
        # A client that gets no CPU between its connect and its request can be displaced (408); none
        # is reset, and most are served.
        statuses = [scrape(server)[0] for _ in range(40)]
    assert set(statuses) <= {200, 408}
    assert statuses.count(200) >= 20


def test_without_descriptors_it_waits(serve: Callable[..., Serving]) -> None:
    accept, failures = socket.socket.accept, [OSError(24, "Too many open files")] * 2

    def failing(door: socket.socket) -> tuple[socket.socket, object]:
        if failures:
            raise failures.pop()
        return accept(door)

    with (
        mock.patch.object(serving, "_ACCEPT_PAUSE_S", 0.01),
        mock.patch.object(socket.socket, "accept", failing),
    ):
        assert scrape(serve())[0] == 200
    assert not failures


def test_what_is_closed_is_free_again(board: Board) -> None:
    first = Serving(HERE, board.reply, board.counted)
    first.start()
    with connect(first) as connection:
        connection.sendall(REQUEST)
        assert rest(connection)
        with pytest.raises(OSError, match="in use"):
            Serving(first.where, board.reply, board.counted)
        first.close()
    again = Serving(first.where, board.reply, board.counted)
    again.close()  # never started


def test_ipv6_too(board: Board) -> None:
    try:
        server = Serving(Loopback("::1", 0), board.reply, board.counted)
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")
    server.start()
    assert scrape(server)[0] == 200
    server.close()


def test_the_command_refuses_what_others_reach_and_what_is_taken(
    snapshot: SnapshotAssertion,
) -> None:
    refused = called("serve", "--listen", "0.0.0.0:9739")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == snapshot
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        failed = called("demo", "serve", "--listen", where)
    assert (failed.returncode, failed.stdout) == (1, "")
    assert where in failed.stderr and os.strerror(errno.EADDRINUSE) in failed.stderr
    assert called("demo", "--cpu-list", "999", "serve", "--listen", "localhost:0").returncode == 2


def test_the_command_serves_until_a_signal() -> None:
    command = [*NFTOP, "demo", "--cpus", "4", "-d", "0.1", "serve", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        try:
            assert line.startswith("nftop: SIMULATED: http://127.0.0.1:"), line
            port = int(line.rpartition(":")[2].partition("/")[0])

            def numbers() -> bool:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LONGEST_S)
                with closing(connection):
                    connection.request("GET", "/metrics")
                    got = connection.getresponse()
                    assert got.status in (200, 503)
                    return b"\nnftop_cpu_cycles_per_packet{" in got.read()

            until(numbers)
        finally:
            os.kill(process.pid, signal.SIGTERM)
        assert process.wait(LONGEST_S) == 0
        assert process.stderr.read() == ""


def test_it_is_closed_though_its_thread_ended_first(board: Board) -> None:
    server = Serving(HERE, board.reply, board.counted)
    server.start()
    server._stopped.set()
    with suppress(ConnectionError):
        connect(server).close()  # which its thread wakes for
    server._thread.join(LONGEST_S)
    assert not server._thread.is_alive()
    server.close()
