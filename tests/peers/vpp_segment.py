"""A VPP as far as its stats segment goes, misbehaving on demand: its own process, as VPP is.

It serves what VPP 26.06 had in its segment at two moments 2.114 s apart, while one worker forwarded
50 kpps from one af-packet interface to another (tests/data/vpp), and steps from one to the other or
goes on at that rate. Its threads are called as VPP's are.

    python vpp_segment.py SOCKET [CPU]    reads commands from stdin: the functions of COMMANDS
"""

from __future__ import annotations

import array
import lzma
import mmap
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

NAME = "stats.sock"
APART_S = 2.114414519  # between the two moments, by the capture's own clock
DATA = Path(__file__).parent.parent / "data" / "vpp" / "segment-26.06.xz"
_PAGE = 4096
_ENTRY = struct.Struct("IQ128s")
# Of the header.
_EPOCH, _IN_PROGRESS, _DIRECTORY, _ERRORS = 16, 24, 32, 40
_SIMPLE, _COMBINED = 2, 3
_FREE = 1 << 24  # nothing is there in the capture
LIVE_NODES = "/sys/node/"
# Of a worker that is saturated: calls of each node between two moments, packets and clocks of one.
FULL_CALLS, FULL_FRAME, FULL_CLOCKS = 40_000, 256, 15_000


class Peer:
    """The test's end of it."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self.pid = process.pid
        self.socket = folder / NAME
        self.process = process

    def do(self, command: str) -> None:
        """One of COMMANDS; it is done when this returns."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(command.encode() + b"\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline().strip() == command.encode()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """SIGSTOP, from when its last thread has stopped: kill(2) does not wait for that."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def kill(self, *, reap: bool = True) -> None:
        """SIGKILL: the socket stays behind, and until it is reaped its pid."""
        self.process.kill()
        if not reap:
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            return
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


@contextmanager
def vpp_peer(folder: Path, cpu: int | None = None, *, contained: bool = False) -> Iterator[Peer]:
    """One whose socket is `folder`/stats.sock and whose worker is bound to `cpu`.

    Where it is `contained` that is /run/vpp in a mount namespace of its own.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / NAME).unlink(missing_ok=True)
    script = 'mount -t tmpfs none /run && mkdir /run/vpp && cd /run/vpp && exec "$@"'
    process = subprocess.Popen(
        [
            *(("unshare", "--mount", "sh", "-c", script, "sh") if contained else ()),
            *(sys.executable, "-S", __file__, NAME),
            *([] if cpu is None else [str(cpu)]),
        ],
        cwd=folder,  # a socket's address is short, a test's folder may be deep
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    peer = Peer(process, Path("/run/vpp") if contained else folder)
    try:
        peer.do("hello")
        yield peer
    finally:
        peer.kill()


class Segment:
    """The segment in memory, and what is where in it."""

    def __init__(self) -> None:
        size, first, second = moments()
        self.fd = os.memfd_create("stat segment")
        os.ftruncate(self.fd, size)
        self.memory = mmap.mmap(self.fd, size)
        self._second = second
        self.write(first)
        # Where the pointers to vectors of errors begin, by thread, and each error's index in them.
        self.errors = self.vector(self.entry("/node/errors")[1])[0]
        self.error_index = {
            name: value >> 32 for name, _, value, _ in self.directory() if name.startswith("/err/")
        }
        self._before = {name: self.numbers(name) for name in self.counters()}

    def write(self, pages: dict[int, bytes]) -> None:
        for number, page in pages.items():
            start = number * _PAGE
            if number == 0:  # in_progress is ours
                self.memory[:_IN_PROGRESS] = page[:_IN_PROGRESS]
                self.memory[_DIRECTORY:_PAGE] = page[_DIRECTORY:]
            else:
                self.memory[start : start + _PAGE] = page

    @contextmanager
    def changing(self) -> Iterator[None]:
        """As VPP marks a change of what is where."""
        self.put(_IN_PROGRESS, 1)
        yield
        self.put(_EPOCH, self.get(_EPOCH) + 1)
        self.put(_IN_PROGRESS, 0)

    def get(self, at: int) -> int:
        return int.from_bytes(self.memory[at : at + 8], "little")

    def put(self, at: int, value: int) -> None:
        self.memory[at : at + 8] = value.to_bytes(8, "little")

    def vector(self, pointer: int) -> tuple[int, int]:
        """Where it begins, and how many elements it has."""
        start = pointer - self.get(8)
        return start, int.from_bytes(self.memory[start - 8 : start - 4], "little")

    def directory(self) -> Iterator[tuple[str, int, int, int]]:
        """Name, type, value and place of each entry."""
        start, length = self.vector(self.get(_DIRECTORY))
        for index in range(length):
            at = start + index * _ENTRY.size
            kind, value, name = _ENTRY.unpack_from(self.memory, at)
            yield name.partition(b"\0")[0].decode(), kind, value, at

    def entry(self, wanted: str) -> tuple[int, int, int]:
        return next(rest for name, *rest in self.directory() if name == wanted)  # type: ignore[return-value]

    def error(self, path: str, thread: int) -> int:
        """Where a thread counts an error."""
        return self.vector(self.get(self.errors + 8 * thread))[0] + 8 * self.error_index[path]

    def counters(self) -> list[str]:
        return [
            name
            for name, kind, *_ in self.directory()
            if kind in (_SIMPLE, _COMBINED) and name.startswith(("/if/", LIVE_NODES))
        ]

    def numbers(self, name: str) -> dict[int, int]:
        """Every number of a counter, by its place."""
        kind, value, _ = self.entry(name)
        words = 1 if kind == _SIMPLE else 2
        start, rows = self.vector(value)
        result = {}
        for row in range(rows):
            cells, length = self.vector(self.get(start + 8 * row))
            for at in range(cells, cells + 8 * words * length, 8):
                result[at] = self.get(at)
        return result

    def second(self) -> None:
        """What it had at the second moment."""
        self.write(self._second)

    def live(self) -> None:
        """Go on at the rate between the two moments; nodes at every beat, once a second."""
        self.second()
        pace = {
            name: [
                (at, count, (count - self._before[name][at]) / APART_S)
                for at, count in self.numbers(name).items()
                if count > self._before[name][at]
            ]
            for name in self.counters()
        }
        beat_at = self.entry("/sys/heartbeat")[2] + 8
        first, began = self.get(beat_at), time.monotonic()
        while True:
            time.sleep(0.02)
            elapsed = time.monotonic() - began
            beats = first + int(elapsed)
            due = self.get(beat_at) != beats
            for name, cells in pace.items():
                if due or not name.startswith(LIVE_NODES):
                    for at, count, per_s in cells:
                        self.put(at, count + int(per_s * elapsed))
            self.put(beat_at, beats)

    def full(self) -> None:
        """FULL_CALLS later, each of FULL_FRAME packets: no poll of the worker's input was empty."""
        packets = FULL_CALLS * FULL_FRAME
        calls, vectors, clocks = (
            sorted(self.numbers(f"{LIVE_NODES}{what}")) for what in ("calls", "vectors", "clocks")
        )
        before = self._before[f"{LIVE_NODES}vectors"]
        worked = [index for index, at in enumerate(vectors) if self.get(at) > before[at]]
        for index in worked:
            self.put(calls[index], self.get(calls[index]) + FULL_CALLS)
            self.put(vectors[index], self.get(vectors[index]) + packets)
            self.put(clocks[index], self.get(clocks[index]) + FULL_CALLS * FULL_CLOCKS)
        for name in ("/if/rx", "/if/tx"):
            earlier = self._before[name]
            grown = [at for at, count in self.numbers(name).items() if count > earlier[at]]
            for at, more in zip(grown, (packets, packets * 60), strict=True):
                self.put(at, self.get(at) + more)
        beat_at = self.entry("/sys/heartbeat")[2] + 8
        self.put(beat_at, self.get(beat_at) + 1)


def moments() -> tuple[int, dict[int, bytes], dict[int, bytes]]:
    """The segment's size, its pages at the first moment, and those that differ at the second."""
    raw = lzma.decompress(DATA.read_bytes())
    (size,) = struct.unpack_from("<Q", raw)
    at, result = 8, []
    for _ in range(2):
        (count,) = struct.unpack_from("<I", raw, at)
        at += 4
        pages = {}
        for _ in range(count):
            (number,) = struct.unpack_from("<I", raw, at)
            pages[number] = raw[at + 4 : at + 4 + _PAGE]
            at += 4 + _PAGE
        result.append(pages)
    return size, result[0], result[1]


class Vpp:
    """What serves it."""

    def __init__(self, name: str) -> None:
        self.segment = Segment()
        self.accepting = threading.Event()
        self.accepting.set()
        self.hands_out = True
        self.requested = 0
        self.worker = self.listen(name)

    def listen(self, name: str) -> threading.Thread:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(name)
        listener.listen(8)
        thread = threading.Thread(target=self.serve, args=(listener,), daemon=True)
        thread.start()
        return thread

    def serve(self, listener: socket.socket) -> None:
        while True:
            self.accepting.wait()
            connected, _ = listener.accept()
            self.requested += 1
            self.accepting.wait()
            handle = array.array("i", [self.segment.fd])
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, handle)]
            with connected, suppress(OSError):
                if self.hands_out:
                    connected.sendmsg([b"\0"], rights)


def _zero(vpp: Vpp) -> None:
    """`clear interfaces`: the epoch stays."""
    for name in vpp.segment.counters():
        if name.startswith("/if/"):
            for at in vpp.segment.numbers(name):
                vpp.segment.put(at, 0)


def _requests_once(vpp: Vpp) -> None:
    assert vpp.requested == 1, vpp.requested


def _move(vpp: Vpp) -> None:
    """The directory is allocated anew, as when a counter is added; where it was is nonsense."""
    segment = vpp.segment
    start, length = segment.vector(segment.get(_DIRECTORY))
    size = length * _ENTRY.size
    with segment.changing():
        segment.memory[_FREE - 8 : _FREE + size] = segment.memory[start - 8 : start + size]
        segment.memory[start - 8 : start + size] = b"\xa5" * (size + 8)
        segment.put(_DIRECTORY, _FREE + segment.get(8))


def _beat(vpp: Vpp) -> None:
    """An update that changes nothing else."""
    at = vpp.segment.entry("/sys/heartbeat")[2] + 8
    vpp.segment.put(at, vpp.segment.get(at) + 1)


def _wild(vpp: Vpp) -> None:
    with vpp.segment.changing():
        vpp.segment.put(_DIRECTORY, (1 << 63) + 8)


def _endless(vpp: Vpp) -> None:
    """A counter of more threads than the segment has room for."""
    segment = vpp.segment
    start, _ = segment.vector(segment.entry("/if/rx")[1])
    segment.memory[start - 8 : start - 4] = b"\xff\xff\xff\x7f"


def _no_nodes(vpp: Vpp) -> None:
    """Without `per-node-counters on`."""
    with vpp.segment.changing():
        for name, _, _, at in list(vpp.segment.directory()):
            if name.startswith(LIVE_NODES):
                vpp.segment.memory[at + 16 : at + 21] = b"/gone"


def _drop(vpp: Vpp) -> None:
    """The worker drops 100 packets of which the checksum is wrong, and the main thread 7."""
    segment = vpp.segment
    for thread, packets in ((0, 7), (1, 100)):
        at = segment.error("/err/ip4-input/bad_checksum", thread)
        segment.put(at, segment.get(at) + packets)


def _older(vpp: Vpp) -> None:
    """As VPP 20.09 to 22.02 number types, and refer to errors: by index, from the header."""
    segment = vpp.segment
    _, errors, _ = segment.entry("/node/errors")
    newer = {4: 5, 5: 6, 6: 7}
    with segment.changing():
        for name, kind, value, at in list(segment.directory()):
            if name.startswith("/err/"):
                _ENTRY.pack_into(segment.memory, at, 4, value >> 32, name.encode())
            elif kind in newer:
                segment.memory[at : at + 4] = newer[kind].to_bytes(4, "little")
            elif name == "/node/errors":
                segment.memory[at + 16 : at + 21] = b"/gone"
        segment.put(_ERRORS, errors)


def _no_errors(vpp: Vpp) -> None:
    with vpp.segment.changing():
        at = vpp.segment.entry("/node/errors")[2]
        vpp.segment.memory[at + 16 : at + 21] = b"/gone"


def _wild_errors(vpp: Vpp) -> None:
    """The vector of errors is beyond the segment."""
    with vpp.segment.changing():
        vpp.segment.put(vpp.segment.entry("/node/errors")[2] + 8, (1 << 62) + 8)


def _far_errors(vpp: Vpp) -> None:
    """Every error is beyond the end of its vector."""
    segment = vpp.segment
    with segment.changing():
        for name, _, value, at in list(segment.directory()):
            if name.startswith("/err/"):
                segment.put(at + 8, (value & 0xFFFFFFFF) | ((value >> 32) + (1 << 20) << 32))


def _all_errors(vpp: Vpp) -> None:
    """Every error has counted, and far more than any VPP has."""
    segment = vpp.segment
    for thread in (0, 1):
        start, length = segment.vector(segment.get(segment.errors + 8 * thread))
        for at in range(start, start + 8 * length, 8):
            segment.put(at, 1)


def _keep_it(vpp: Vpp) -> None:
    vpp.hands_out = False


def _listen_again(vpp: Vpp) -> None:
    Path("../vpp-again").mkdir()
    vpp.listen(f"../vpp-again/{NAME}")


def _nameless(vpp: Vpp) -> None:
    """One name less than there are interfaces."""
    segment = vpp.segment
    start, length = segment.vector(segment.entry("/if/names")[1])
    segment.memory[start - 8 : start - 4] = (length - 1).to_bytes(4, "little")


COMMANDS: dict[str, Callable[[Vpp], None]] = {
    "hello": lambda vpp: None,
    "second": lambda vpp: vpp.segment.second(),
    "full": lambda vpp: vpp.segment.full(),
    "live": lambda vpp: threading.Thread(target=vpp.segment.live, daemon=True).start(),
    "lock": lambda vpp: vpp.segment.put(_IN_PROGRESS, 1),
    "unlock": lambda vpp: vpp.segment.put(_IN_PROGRESS, 0),
    "version 1": lambda vpp: vpp.segment.put(0, 1),
    "cut": lambda vpp: os.ftruncate(vpp.segment.fd, _PAGE),
    "zero": _zero,
    "move": _move,
    "beat": _beat,
    "asked once": _requests_once,
    "empty": lambda vpp: os.ftruncate(vpp.segment.fd, 0),
    "wild": _wild,
    "endless": _endless,
    "no nodes": _no_nodes,
    "nameless": _nameless,
    "drop": _drop,
    "older": _older,
    "no errors": _no_errors,
    "wild errors": _wild_errors,
    "far errors": _far_errors,
    "all errors": _all_errors,
    "silent": lambda vpp: vpp.accepting.clear(),
    "talk": lambda vpp: vpp.accepting.set(),
    "keep it": _keep_it,
    "listen again": _listen_again,
    "unlink": lambda vpp: Path(NAME).unlink(),
}


def main() -> None:
    vpp = Vpp(sys.argv[1])
    worker = vpp.worker
    task = Path("/proc/self/task")
    (task / str(worker.native_id) / "comm").write_text("vpp_wk_0")
    if len(sys.argv) > 2:
        assert worker.native_id is not None
        os.sched_setaffinity(worker.native_id, {int(sys.argv[2])})
    (task / str(os.getpid()) / "comm").write_text("vpp_main")
    for line in sys.stdin:
        COMMANDS[line.strip()](vpp)
        print(line.strip(), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
