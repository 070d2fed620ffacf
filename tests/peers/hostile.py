"""Small attackers: unprivileged users whose sockets lie, hang, flood and claim."""

from __future__ import annotations

import array
import contextlib
import json
import mmap
import os
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

UID = 65534
BASE = 1 << 40
_HEADER = struct.Struct("QPQQPP")  # version, base, epoch, in_progress, directory, errors
_ENTRY = struct.Struct("IQ128s")
_COMBINED = 3
_DIRECTORY, _THREADS, _COUNTERS = 4096, 8192, 1 << 20  # offsets of vectors

Serve = Callable[[socket.socket], None]


@contextlib.contextmanager
def attacker(listener: socket.socket, serve: Serve, uid: int = UID) -> Iterator[int]:
    """A process of that user which binds nothing itself: `listener` is listened on by it.

    `serve` handles each connection in a process of its own. Yields the pid.
    """
    ready, report = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            listener.listen(64)
            os.write(report, b"x")
            while True:
                client, _ = listener.accept()
                if os.fork() == 0:
                    signal.alarm(300)
                    serve(client)
                    os._exit(0)
                client.close()
        finally:
            os._exit(1)
    try:
        assert os.read(ready, 1) == b"x"
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(ready)
        os.close(report)


@contextlib.contextmanager
def socket_at(path: Path, kind: int, serve: Serve, uid: int = UID) -> Iterator[int]:
    """Such a process with a Unix socket whose file is that user's."""
    path.parent.mkdir(parents=True, exist_ok=True)
    os.chown(path.parent, uid, uid)
    handle = os.open(path.parent, os.O_RDONLY)
    try:
        with socket.socket(socket.AF_UNIX, kind) as listener:
            listener.bind(f"/proc/self/fd/{handle}/{path.name}")
            os.chown(path, uid, uid)
            with attacker(listener, serve, uid) as pid:
                yield pid
    finally:
        os.close(handle)


def segment(size_bytes: int, entries: int, *, in_directory: bool) -> int:
    """A sparse stats segment with a vector that claims so many entries; its descriptor.

    The vector is the directory itself, or the counters of the only thread of /if/rx.
    """
    handle = os.memfd_create("stat segment")
    os.ftruncate(handle, size_bytes)
    with mmap.mmap(handle, min(size_bytes, 1 << 21)) as memory:
        _HEADER.pack_into(memory, 0, 2, BASE, 1, 0, BASE + _DIRECTORY, 0)
        struct.pack_into("I", memory, _DIRECTORY - 8, entries if in_directory else 1)
        _ENTRY.pack_into(memory, _DIRECTORY, _COMBINED, BASE + _THREADS, b"/if/rx")
        struct.pack_into("I", memory, _THREADS - 8, 1)
        struct.pack_into("P", memory, _THREADS, BASE + _COUNTERS)
        struct.pack_into("I", memory, _COUNTERS - 8, entries)
    return handle


def hands_out(handle: int) -> Serve:
    """Sends a descriptor, as VPP does, and waits."""

    def serve(client: socket.socket) -> None:
        rights = array.array("i", [handle]).tobytes()
        client.sendmsg([b"\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        client.recv(1)

    return serve


def hangs(client: socket.socket) -> None:
    """Reads nothing, says nothing."""
    signal.pause()
    client.close()


def dribbles(client: socket.socket) -> None:
    """A byte now and then of an answer without an end."""
    with contextlib.suppress(OSError):
        client.sendall(b'{"result": "')
        while True:
            client.sendall(b"x")
            signal.sigtimedwait([signal.SIGUSR1], 0.01)


def floods(client: socket.socket) -> None:
    """One answer of many small parts, as fast as the peer reads it."""
    with contextlib.suppress(OSError):
        client.sendall(b'{"a": [')
        while True:
            client.sendall(b'{"a":[]},' * 7000)


def invalid_lengths(client: socket.socket) -> None:
    """Says that it is root's daemon, and counts what it likes."""
    number = 0
    with contextlib.suppress(OSError, ValueError):
        while data := client.recv(1 << 16):
            for _ in range(data.count(b'"method"')):
                text = (
                    "ovs-vswitchd (Open vSwitch) 3.5.0"
                    if number == 0
                    else _INVALID % (number << 40)
                )
                reply = {"id": number, "result": text, "error": None}
                client.sendall(json.dumps(reply).encode())
                number += 1


def gluts(client: socket.socket) -> None:
    """Answers every request at length, with as many marks as cost a reader most."""
    number = 0
    with contextlib.suppress(OSError):
        while data := client.recv(1 << 16):
            for _ in range(data.count(b'"method"')):
                text = "ovs-vswitchd (Open vSwitch) 3.5.0"
                reply = {"id": number, "result": text + '"' * _GLUT, "error": None}
                client.sendall(json.dumps(reply).encode())
                number += 1


_GLUT = 2_000_000
_INVALID = """pmd thread numa_id 0 core_id 1:
  packets received: %d
  packet recirculations: 0
  emc hits: 0
"""
KINDS: tuple[Serve, ...] = (hangs, dribbles, floods, invalid_lengths, gluts, gluts)


ACCEPTED, RECEIVED = b"a", b"r"


def open_and_close(port: int, uid: int, report: int) -> NoReturn:
    """As user `uid`, listen on a port of 127.0.0.1 for 0.8 ms at a time, 0.8 ms apart.

    Writes ACCEPTED to the descriptor `tell` for each connection, RECEIVED if it got a request.
    """
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    while True:
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                listener.bind(("127.0.0.1", port))
                listener.listen()
                listener.settimeout(0.0008)
                client, _ = listener.accept()
                with client:
                    os.write(report, ACCEPTED)
                    client.settimeout(60.0)
                    if client.recv(4096):
                        os.write(report, RECEIVED)
        time.sleep(0.0008)
