"""A kind of network function from outside: it supplies a search, a client and a source."""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from nftop.model.check import Check
from nftop.model.missing import Missing, Reason
from nftop.sources.nf_session import connection
from nftop.sources.nf_session.connection import BatchTimes, LinkError, ReplyError, RequestLink
from nftop.sources.nf_session.discovery import (
    SocketSearch,
    UnixSocket,
    Views,
)
from nftop.sources.nf_session.session import DialogueSession, NfClient, NfStatus
from nftop.sources.nf_session.source import NfSource
from nftop.sources.trust import ownership
from tests.waiting import until

PATIENT_S = 30.0
NAME = "toy.sock"


@dataclass(frozen=True)
class Toy:
    pid: int
    socket: str
    problem: Missing | None
    packets: int


class ToySearch(SocketSearch):
    application = "a toy"
    label = "toys"
    sockets = "toy sockets"
    listening = re.compile(rb"^\S+ \S+ \S+ 00010000 0005 \S+ +\d+ (/\S*/toy\.sock)$", re.MULTILINE)

    def usual(self, root: Path, *, own: bool) -> Iterable[Path]:
        return (root / "run/toy",)

    def sockets_at(self, location: Path, on_closed: Callable[[str], None]) -> Iterator[UnixSocket]:
        return self.sockets_in(location, re.compile(re.escape(NAME)), on_closed)


class ToyLink(RequestLink[str, Mapping[str, int]]):
    def __init__(self, connected: socket.socket) -> None:
        super().__init__(connected)
        self._owed: list[str] = []
        self._replies: dict[str, int] = {}

    @property
    def waiting(self) -> bool:
        return bool(self._owed)

    @property
    def established(self) -> bool:
        return True

    def ask(self, requests: tuple[str, ...]) -> None:
        for request in requests:
            self._socket.send(request.encode())
            self._owed.append(request)

    def hear(self) -> bool:
        try:
            message = self._socket.recv(100)
        except BlockingIOError:
            return False
        if not message:
            raise LinkError(Missing(Reason.ERROR, "closed the connection"))
        if not message.isdigit():
            raise ReplyError("not a number")
        self._replies[self._owed.pop(0)] = int(message)
        return True

    def answers(self, times: BatchTimes) -> Mapping[str, int]:
        return self._replies


class ToyClient(NfClient[str, Mapping[str, int], Toy]):
    late_messages = 4

    def __init__(self) -> None:
        self.packets = 0

    def connect(self, path: str) -> RequestLink[str, Mapping[str, int]]:
        return connection.connect(path, socket.SOCK_SEQPACKET, "toy", ToyLink)

    def forget(self) -> None:
        self.packets = 0

    def poll(self) -> Generator[tuple[str, ...], Mapping[str, int], None]:
        self.packets = (yield ("packets",))["packets"]

    def sample(self, status: NfStatus) -> Toy:
        return Toy(status.peer.pid, status.socket.path, status.problem, self.packets)


class ToySource(NfSource[RequestLink[str, Mapping[str, int]], Toy]):
    name = "toy"
    absent = "no toy is running"
    search = ToySearch

    def _session(self, socket: UnixSocket) -> DialogueSession[str, Mapping[str, int], Toy]:
        return DialogueSession(socket, self._proc, self._clock, ToyClient())

    def read(self) -> tuple[Toy, ...]:
        return self._poll(self._deadline_s)[0]

    def _order(self, sample: Toy) -> tuple[int, str, int, str]:
        return 0, sample.socket, sample.pid, ""

    def _check_one(self, sample: Toy) -> Check:
        return Check(f"toy {sample.pid}", Reason.PRESENT, str(sample.packets))


class Bench:
    """A toy in a thread of this process, which answers with what it is told to."""

    def __init__(self, root: Path) -> None:
        self.path = root / "run/toy" / NAME
        self.path.parent.mkdir(parents=True)
        self.reply: bytes = b"7"
        self.connections = 0
        self.answer = threading.Event()
        self.answer.set()
        self.now_ns = 0
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(str(self.path))
        self.listener.listen()
        self._open: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()
        self.source = ToySource(
            root,
            deadline_s=PATIENT_S,
            clock=lambda: self.now_ns,
            views=Views(root, root / "proc"),
        )

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(peer)
            threading.Thread(target=self._talk, args=(peer,), daemon=True).start()

    def _talk(self, peer: socket.socket) -> None:
        with peer, suppress(OSError):
            while peer.recv(100):
                self.answer.wait()
                peer.send(self.reply)

    def toy(self) -> Toy:
        (toy,) = self.source.read()
        return toy

    def close(self) -> None:
        self.answer.set()
        self.source.close()
        with suppress(OSError):  # closed before
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        while self._open:
            peer = self._open.pop()
            with suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
            peer.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with closing(Bench(tmp_path)) as bench:
        yield bench


def test_a_toy_is_read_over_one_connection(bench: Bench) -> None:
    assert bench.toy() == Toy(os.getpid(), str(bench.path), None, 7)
    bench.reply = b"9"
    assert bench.toy().packets == 9
    assert bench.connections == 1
    assert [check.text for check in bench.source.check()] == ["9"]


def test_a_late_reply_is_stale_at_first_and_used_in_a_later_tick(bench: Bench) -> None:
    bench.toy()
    bench.answer.clear()
    bench.source._deadline_s = 0.05
    late = bench.toy()
    assert late.problem is not None and late.problem.reason is Reason.STALE
    assert late.packets == 7
    bench.reply = b"8"
    bench.answer.set()
    bench.source._deadline_s = PATIENT_S
    until(lambda: bench.toy() == Toy(os.getpid(), str(bench.path), None, 8))
    assert bench.connections == 1


def test_an_invalid_reply_ends_the_connection_and_retries_back_off(bench: Bench) -> None:
    bench.toy()
    bench.reply = b"nonsense"
    attempts = []
    for second in range(16):
        bench.now_ns = second * 10**9
        problem = bench.toy().problem
        assert problem is not None and problem.reason is Reason.ERROR
        attempts.append(bench.connections)
    assert attempts == [1, 2, 2, 3, 3, 3, 3, *[4] * 8, 5]
    bench.reply = b"10"
    bench.now_ns += 30 * 10**9
    assert bench.toy() == Toy(os.getpid(), str(bench.path), None, 10)


def test_one_that_departs_leaves_no_sample(bench: Bench) -> None:
    bench.toy()
    bench.path.unlink()
    assert bench.toy().packets == 7  # it still answers
    bench.close()
    assert bench.source.read() == ()
    assert [check.reason for check in bench.source.check()] == [Reason.SOURCE]


def test_a_planted_socket_of_another_user_is_not_read_where_only_privileged_ones_are(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DialogueSession, "privileged_only", True)
    monkeypatch.setattr(ownership, "is_trusted", lambda uid: False)
    assert bench.source.read() == ()
    (hidden,) = bench.source._poll(PATIENT_S)[1]
    assert str(bench.path) in hidden
