"""A telemetry server that misbehaves on demand: its own process, so it has a pid to be known by.

It answers from a capture of a real application (tests/data/dpdk). Every packet and cycle counter
that is not 0 advances by STEP each time its command is asked, so a test knows every number.

    python dpdk_telemetry.py CAPTURE LOG    in the socket's folder; reads behaviours from stdin
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

STEP = 1000
SLOW_S = 0.15
CLIENTS = 10
_ZONES = 70  # of memory; more than nftop asks for in a tick
NAME = "dpdk_telemetry.v2"
DATA = Path(__file__).parent.parent / "data" / "dpdk"
_COUNTER = re.compile(r"(rx|tx).*_packets|[io]packets|(total|busy)_cycles")
_SO_SNDBUFFORCE = 32


class Peer:
    """The test's end of a running server."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path, log: Path) -> None:
        self.pid = process.pid
        self.socket = folder / NAME
        self._process = process
        self._log = log

    def behave(self, behaviour: str) -> None:
        """Change its ways: a row of BEHAVIOURS, `listen again`, or `legacy REPLY`.

        Who was not greeted is, before this returns, unless it is to be silent.
        """
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(behaviour.encode() + b"\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline().strip() == behaviour.encode()

    def requested(self) -> list[str]:
        """Every question so far, in order."""
        return self._log.read_text().splitlines()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """SIGSTOP, from when its last thread has stopped: kill(2) does not wait for that."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL: the socket stays behind."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


@contextmanager
def telemetry_peer(
    folder: Path, behaviour: str = "normal", capture: str = "testpmd-24.11"
) -> Iterator[Peer]:
    """A server listening at `folder`/dpdk_telemetry.v2."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / NAME).unlink(missing_ok=True)
    log = folder / "asked"
    log.write_text("")
    process = subprocess.Popen(
        [sys.executable, "-S", __file__, str(DATA / f"{capture}.jsonl"), str(log)],
        cwd=folder,  # a socket's address is short, a test's folder may be deep
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    peer = Peer(process, folder, log)
    try:
        peer.behave(behaviour)
        yield peer
    finally:
        peer.kill()


def _readable(sockets: list[socket.socket], timeout_ms: int | None) -> bool:
    """Whether one can be read, by poll(2); None waits. This program runs without nftop."""
    poller = select.poll()
    for listener in sockets:
        poller.register(listener, select.POLLIN)
    return bool(poller.poll(timeout_ms))


class Server:
    """The server's end: a listener, and a thread for each client."""

    def __init__(self, capture: Path, log: Path) -> None:
        rows = [json.loads(line) for line in capture.read_text().splitlines()]
        self.greeting = json.dumps(rows[0]["greeting"]).encode()
        self._replies = {row["command"]: row["reply"] for row in rows[1:]}
        self._times_requested: Counter[str] = Counter()
        self._log = log
        self._lock = threading.Lock()
        self.clients = self.greeted = 0
        self._at: list[socket.socket] = []
        self.behaviour = "normal"
        self._legacy_reply: str | None = None
        self.changed = threading.Condition()

    def listen(self, name: str) -> None:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(name)
        listener.listen(1)
        self._at.append(listener)
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def change(self, behaviour: str) -> None:
        with self.changed:
            self.behaviour = behaviour
            self.changed.notify_all()

    def legacy(self, reply: str) -> None:
        """Reserve the memory zone of latencystats and answer so on the legacy socket.

        Of `silent` requests are read and not answered, of `off` no process listens.
        """
        self._replies["/eal/memzone_list"] = {"/eal/memzone_list": [*range(_ZONES)]}
        last = f"/eal/memzone_info,{_ZONES - 1}"
        self._replies[last] = {"/eal/memzone_info": {"Name": "rte_latencystats", "Length": 64}}
        known, self._legacy_reply = self._legacy_reply, reply
        if known is None and reply != "off":
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            listener.bind("telemetry")
            listener.listen(1)
            threading.Thread(target=self._serve_legacy, args=(listener,), daemon=True).start()

    def _serve_legacy(self, listener: socket.socket) -> None:
        while True:
            client, _ = listener.accept()
            while raw := client.recv(1024):
                with self._lock, self._log.open("a") as log:
                    log.write(raw.decode() + "\n")
                if self._legacy_reply not in (None, "silent"):
                    client.send(self._legacy_reply.encode())
            client.close()

    def wait_greeted(self) -> None:
        with self.changed:
            self.changed.wait_for(
                lambda: self.greeted == self.clients and not _readable(self._at, 0)
            )

    def wait_while(self, behaviour: str) -> None:
        with self.changed:
            self.changed.wait_for(lambda: self.behaviour != behaviour)

    def answer(self, question: str) -> bytes:
        """What the captured application says, its counters advanced."""
        with self._lock:
            self._times_requested[question] += 1
            times = self._times_requested[question]
        name = question.partition(",")[0]
        reply = self._replies.get(question, {name: None})
        return json.dumps({name: _advanced(reply[name], times * STEP)}).encode()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            _readable([listener], None)
            with self.changed:
                client, _ = listener.accept()
                self.changed.notify_all()
                if self.clients >= CLIENTS or self.behaviour == "full":
                    client.close()
                    continue
                self.clients += 1
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            self.wait_while("silent")
            try:
                client.send(self.greeting)
            finally:
                self._count(greeted=1)
            while raw := client.recv(1024):
                with self._lock, self._log.open("a") as log:
                    log.write(raw.decode() + "\n")
                BEHAVIOURS[self.behaviour](self, client, raw.decode())
        except OSError:
            pass  # the other side has gone
        finally:
            client.close()
            self._count(greeted=-1, clients=-1)

    def _count(self, *, greeted: int, clients: int = 0) -> None:
        with self.changed:
            self.greeted += greeted
            self.clients += clients
            self.changed.notify_all()


def _advanced(value: Any, by: int) -> Any:
    if not isinstance(value, dict):
        return value
    return {
        key: _sum(number, by) if _COUNTER.fullmatch(key) else number
        for key, number in value.items()
    }


def _sum(value: Any, by: int) -> Any:
    if isinstance(value, list):
        return [_sum(item, by) for item in value]
    return value + by if isinstance(value, int) and value > 0 else value


Behaviour = Callable[[Server, socket.socket, str], None]


def _normal(server: Server, client: socket.socket, question: str) -> None:
    client.send(server.answer(question))


def _silent(server: Server, client: socket.socket, question: str) -> None:
    """Hold every answer back until told to behave otherwise."""
    answer = server.answer(question)
    server.wait_while("mute")
    client.send(answer)


def _slow(server: Server, client: socket.socket, question: str) -> None:
    time.sleep(SLOW_S)
    client.send(server.answer(question))


def _huge(server: Server, client: socket.socket, question: str) -> None:
    """20 MB, or as much of them as the kernel takes as one message."""
    with suppress(PermissionError):
        client.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, 64 << 20)
    size = 20_000_000
    while size > 1 << 15:
        with suppress(OSError):  # EMSGSIZE, ENOBUFS
            client.send(b'{"' + b"x" * size)
            return
        size //= 2


def _twice(server: Server, client: socket.socket, question: str) -> None:
    client.send(server.answer(question))
    client.send(server.answer(question))


def _extra(server: Server, client: socket.socket, question: str) -> None:
    """One message too many, behind the last answer."""
    client.send(server.answer(question))
    if question == "/eal/lcore/usage":
        client.send(server.answer(question))


def _other_key(server: Server, client: socket.socket, question: str) -> None:
    client.send(b'{"/somewhere/else":[0,1]}')


def _closes(server: Server, client: socket.socket, question: str) -> None:
    client.shutdown(socket.SHUT_RDWR)


def _replies(value: bytes) -> Behaviour:
    """Answer every counter with `value`, everything else as it should be."""

    def behave(server: Server, client: socket.socket, question: str) -> None:
        if question.startswith("/ethdev/xstats"):
            client.send(b'{"/ethdev/xstats":{"rx_good_packets":' + value + b"}}")
        else:
            client.send(server.answer(question))

    return behave


def _sends(message: bytes) -> Behaviour:
    def behave(server: Server, client: socket.socket, question: str) -> None:
        client.send(message)

    return behave


BEHAVIOURS: dict[str, Behaviour] = {
    "normal": _normal,
    "silent": _normal,  # does not greet
    "full": _normal,  # closes before it greets
    "mute": _silent,
    "slow": _slow,
    "huge": _huge,
    "twice": _twice,
    "extra": _extra,
    "other key": _other_key,
    "closes": _closes,
    "garbage": _sends(b"\xff\x00 not JSON at all"),
    "half": _sends(b'{"/ethdev/list":[0,'),
    "nested": _sends(b'{"/ethdev/list":' + b"[" * 15_000),
    "not an object": _sends(b"[1]"),
    "dict": _replies(b'{"value":1}'),
    "text": _replies(b'"12"'),
    "negative": _replies(b"-1"),
    "too large": _replies(b"18446744073709551616"),
    "NaN": _replies(b"NaN"),
    "float": _replies(b"1.5"),
    "true": _replies(b"true"),
}


def main() -> None:
    server = Server(Path(sys.argv[1]), Path(sys.argv[2]))
    server.listen(NAME)
    for line in sys.stdin:
        if line.strip() == "listen again":
            server.listen(f"{NAME}:1")
        elif line.startswith("legacy "):
            server.legacy(line.removeprefix("legacy ").strip())
        else:
            server.change(line.strip())
            if line.strip() != "silent":
                server.wait_greeted()
        print(line.strip(), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
