"""An ovs-vswitchd's control socket that misbehaves on demand: its own process, so it has a pid.

It answers from a capture of a real one (tests/data/ovs). Every packet and cycle counter advances by
STEP each time its command is asked, so a test knows every number.

    python ovs_unixctl.py CAPTURE LOG NAME    in the socket's folder; reads behaviours from stdin
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

STEP = 1000
SLOW_S = 0.1
DATA = Path(__file__).parent.parent / "data" / "ovs"
_COUNTER = re.compile(
    r"^(\s+(?:- )?(?:packets received|[RT]x packets|(?:idle|processing|Used TSC) cycles):\s*)(\d+)",
    re.MULTILINE,
)
_DURATION = re.compile(r"(?<=Measurement duration: )[0-9.]+")


class Peer:
    """The test's end of a running daemon."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path, name: str) -> None:
        self.pid = process.pid
        self.socket = folder / name
        self._process = process
        self._log = folder / "asked"

    def behave(self, behaviour: str) -> None:
        """Change its ways: a row of BEHAVIOURS, or `clear` its statistics."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(behaviour.encode() + b"\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline().strip() == behaviour.encode()

    def requested(self) -> list[list[str]]:
        """Every request so far, in order: the method and its arguments."""
        return [json.loads(line) for line in self._log.read_text().splitlines()]

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
def unixctl_peer(
    folder: Path,
    behaviour: str = "normal",
    capture: str = "ovs-3.5.0-dpdk24.11-1pmd",
    name: str = "ovs-vswitchd.7.ctl",
) -> Iterator[Peer]:
    """A daemon listening at `folder`/`name`, whose pid is what it has in its own namespace."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).unlink(missing_ok=True)
    (folder / "asked").write_text("")
    process = subprocess.Popen(
        [sys.executable, "-S", __file__, str(DATA / f"{capture}.jsonl"), "asked", name],
        cwd=folder,  # a socket's address is short, a test's folder may be deep
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    peer = Peer(process, folder, name)
    try:
        peer.behave(behaviour)
        yield peer
    finally:
        peer.kill()


def captured(capture: Path) -> dict[str, str]:
    """The first answer to each command that worked, by its method."""
    texts: dict[str, str] = {}
    for line in capture.read_text().splitlines():
        row = json.loads(line)
        result = json.loads(row["rx"]).get("result")
        if isinstance(result, str):
            texts.setdefault(json.loads(row["tx"])["method"], result)
    texts.setdefault("version", f"ovs-vswitchd (Open vSwitch) {capture.name.split('-')[1]}\n")
    return texts


class Server:
    """The daemon's end: a listener, and a thread for each client."""

    def __init__(self, capture: Path, log: Path) -> None:
        self._texts = captured(capture)
        self._log = log
        self._lock = threading.Lock()
        self._times: Counter[str] = Counter()
        self._cleared = False
        self._began_s = time.monotonic()
        self.behaviour = "normal"
        self._changed = threading.Condition()

    def listen(self, name: str) -> None:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(name)
        listener.listen(4)
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def change(self, behaviour: str) -> None:
        with self._changed:
            if behaviour == "clear":
                self._cleared, self._began_s = True, time.monotonic()
                self._times.clear()
            else:
                self.behaviour = behaviour
            self._changed.notify_all()

    def wait_while(self, behaviour: str) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self.behaviour != behaviour)

    def answer(self, number: int, method: str) -> bytes:
        """What the captured daemon says, its counters advanced."""
        with self._lock:
            self._times[method] += 1
            by = self._times[method] * STEP
        if method not in self._texts:
            error = f'"{method}" is not a valid command (use "list-commands" to see a list of valid'
            return json.dumps({"id": number, "error": error}).encode()
        text = _COUNTER.sub(
            lambda results: f"{results[1]}{by + (0 if self._cleared else int(results[2]))}",
            self._texts[method],
        )
        text = _DURATION.sub(f"{time.monotonic() - self._began_s:.3f}", text)
        return result(number, text)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            client, _ = listener.accept()
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        decoder, held = json.JSONDecoder(), ""
        try:
            while raw := client.recv(4096):
                held += raw.decode()
                while held:
                    request, end = decoder.raw_decode(held)
                    held = held[end:]
                    with self._lock, self._log.open("a") as log:
                        log.write(json.dumps([request["method"], *request["params"]]) + "\n")
                    BEHAVIOURS[self.behaviour](self, client, request)
        except (OSError, ValueError):
            pass  # the other side has gone
        finally:
            client.close()


def result(number: int, text: Any) -> bytes:
    return json.dumps({"id": number, "result": text, "error": None}).encode()


Request = dict[str, Any]
Behaviour = Callable[[Server, socket.socket, Request], None]


def _normal(server: Server, client: socket.socket, request: Request) -> None:
    client.sendall(server.answer(request["id"], request["method"]))


def _silent(server: Server, client: socket.socket, request: Request) -> None:
    """Hold every answer back until told to behave otherwise."""
    answer = server.answer(request["id"], request["method"])
    server.wait_while("mute")
    client.sendall(answer)


def _stuck(server: Server, client: socket.socket, request: Request) -> None:
    """Hang in the middle of an answer."""
    answer = server.answer(request["id"], request["method"])
    client.sendall(answer[:40])
    server.wait_while("stuck")
    client.sendall(answer[40:])


def _slow(server: Server, client: socket.socket, request: Request) -> None:
    time.sleep(SLOW_S)
    _normal(server, client, request)


def _dribbling(server: Server, client: socket.socket, request: Request) -> None:
    """Piece by piece, as small as they come."""
    answer = server.answer(request["id"], request["method"])
    for at in range(len(answer)):
        client.sendall(answer[at : at + 1])


def _huge(server: Server, client: socket.socket, request: Request) -> None:
    client.sendall(b'{"id":1,"result":"' + b"x" * 20_000_000)


def _extra(server: Server, client: socket.socket, request: Request) -> None:
    _normal(server, client, request)
    if request["method"].endswith("rxq-show"):
        client.sendall(result(request["id"], ""))


def _closes(server: Server, client: socket.socket, request: Request) -> None:
    client.shutdown(socket.SHUT_RDWR)


def _half(server: Server, client: socket.socket, request: Request) -> None:
    client.sendall(server.answer(request["id"], request["method"])[:40])
    client.shutdown(socket.SHUT_RDWR)


def _other_number(server: Server, client: socket.socket, request: Request) -> None:
    client.sendall(server.answer(request["id"] + 1, request["method"]))


def _fails(error: str) -> Behaviour:
    """Every command but `version` fails; without a `result`, as OVS does."""

    def behave(server: Server, client: socket.socket, request: Request) -> None:
        if request["method"] == "version":
            _normal(server, client, request)
        else:
            client.sendall(json.dumps({"id": request["id"], "error": error}).encode())

    return behave


def _sends(raw: bytes) -> Behaviour:
    def behave(server: Server, client: socket.socket, request: Request) -> None:
        client.sendall(raw)

    return behave


def _replies(text: Any) -> Behaviour:
    """This is the result of every command but `version`."""

    def behave(server: Server, client: socket.socket, request: Request) -> None:
        if request["method"] == "version":
            _normal(server, client, request)
        else:
            client.sendall(result(request["id"], text))

    return behave


def _is(version: str) -> Behaviour:
    def behave(server: Server, client: socket.socket, request: Request) -> None:
        if request["method"] == "version":
            client.sendall(result(request["id"], version))
        else:
            _normal(server, client, request)

    return behave


def _without(command: str) -> Behaviour:
    def behave(server: Server, client: socket.socket, request: Request) -> None:
        if request["method"].endswith(command):
            client.sendall(server.answer(request["id"], "no such"))
        else:
            _normal(server, client, request)

    return behave


def _several(server: Server, client: socket.socket, request: Request) -> None:
    """It has more than one userspace datapath, so it wants to be told which."""
    named = request["params"][-1:] == ["ovs-netdev"]
    behave = _normal if named else _fails("please specify an existing datapath")
    behave(server, client, request)


BEHAVIOURS: dict[str, Behaviour] = {
    "normal": _normal,
    "mute": _silent,
    "stuck": _stuck,
    "slow": _slow,
    "dribbling": _dribbling,
    "huge": _huge,
    "extra": _extra,
    "closes": _closes,
    "half": _half,
    "other number": _other_number,
    "several datapaths": _several,
    "no datapath": _fails("please specify an existing datapath"),
    "fails": _fails("out of \x1b[31mluck\nand lines"),
    "garbage": _sends(b"\xff\x00 not JSON at all"),
    "brackets": _sends(b'{"id":1]'),
    "array": _sends(b"[1]"),
    "nested": _sends(b'{"id":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "nothing": _sends(b"{}"),
    "no result": _sends(b'{"id":1,"error":null}'),
    "number": _replies(7),
    "object": _replies({"reply-format": "plain", "reply": ""}),
    "null": _replies(None),
    "no number": _replies("pmd thread numa_id 0 core_id 1:\n  packets received: many\n"),
    "negative": _replies("pmd thread numa_id 0 core_id 1:\n  packets received: -1\n"),
    "too large": _replies(f"pmd thread numa_id 0 core_id 1:\n  packets received: {1 << 64}\n"),
    "no core": _replies("pmd thread numa_id 0:\n  packets received: 1\n"),
    "twice": _replies("pmd thread numa_id 0 core_id 1:\n" * 2),
    "another program": _is("ovsdb-server 3.1.0"),
    "too old": _is("ovs-vswitchd (Open vSwitch) 2.5.9"),
    "2.9": _is("ovs-vswitchd (Open vSwitch) 2.9.8"),
    "without rxq": _without("rxq-show"),
    "without stats": _without("-show"),
}


def main() -> None:
    server = Server(Path(sys.argv[1]), Path(sys.argv[2]))
    server.listen(sys.argv[3])
    for line in sys.stdin:
        server.change(line.strip())
        print(line.strip(), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
