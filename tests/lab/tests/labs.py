"""Labs that a test starts, and what it sees of them from outside."""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytest

from nftop.sources.runtime.readiness import wait_readable
from tests.lab.__main__ import main as lab_main
from tests.lab.cpuid.programs import changed_copies
from tests.lab.options import parse
from tests.lab.requirements import missing
from tests.lab.tests import warm

ROOT = Path(__file__).parents[3]
needs_lab = pytest.mark.skipif(bool(missing()), reason=f"no lab here: {missing()}")
LONGEST_S = 600.0  # nothing waits that long but a test that fails


class _Forks:
    """A process that has imported all that a lab needs; each lab begins as a fork of it.

    The imports of a lab take longer than most of what is done there.
    """

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.lab.tests.labs", str(theirs.fileno())],
                cwd=ROOT,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # no thread in what forks
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )

    def run(self, arguments: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
        """As subprocess.run does, with nothing on standard input."""
        pid = 0
        with contextlib.ExitStack() as open_fds:
            pipes = [os.pipe() for _ in range(2)]
            for ours, _ in pipes:
                open_fds.callback(os.close, ours)
            try:
                request = json.dumps([arguments, dict(os.environ)]).encode()
                socket.send_fds(self._socket, [request], [theirs for _, theirs in pipes])
                for _, theirs in pipes:
                    os.close(theirs)
                pid = self._answer(LONGEST_S)
                printed = self._output([ours for ours, _ in pipes], timeout_s)
                code = self._answer(timeout_s)
            except BaseException:
                self._end(pid)
                raise
        return subprocess.CompletedProcess(list(arguments), code, *printed)

    def _answer(self, timeout_s: float) -> int:
        if not wait_readable([self._socket], timeout_s):
            raise TimeoutError(f"no lab ended within {timeout_s:g} s")
        if not (answer := self._socket.recv(_LONGEST)):
            raise RuntimeError("the process that labs are forks of has ended")
        return int(answer)

    @staticmethod
    def _output(pipes: Sequence[int], timeout_s: float) -> list[str]:
        """What comes from each until all are closed."""
        end, left = time.monotonic() + timeout_s, set(pipes)
        printed = dict.fromkeys(pipes, b"")
        while left:
            ready = wait_readable(sorted(left), max(0.0, end - time.monotonic()))
            if not ready or time.monotonic() > end:
                raise TimeoutError(f"a lab prints for more than {timeout_s:g} s")
            for pipe in ready:
                data = os.read(pipe, 1 << 16)
                printed[pipe] += data
                if not data:
                    left.remove(pipe)
        return [data.decode() for data in printed.values()]

    def _end(self, pid: int) -> None:
        """End a lab that has not ended, and the process it is a fork of: its answers are lost."""
        if pid and not wait_readable([self._socket], 0.0):
            os.kill(pid, signal.SIGKILL)
        self._process.kill()
        self.close()
        _forks.cache_clear()

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


_LONGEST = 1 << 18  # bytes of a request


@functools.cache
def _forks() -> _Forks:
    result = _Forks()
    atexit.register(result.close)
    return result


def _serve(requests: socket.socket) -> None:
    """Start labs as requested, one after the other, until the other end has gone."""
    importlib.import_module("mfusepy")
    _make_host()
    warm.prepare()
    while True:
        request, fds, _, _ = socket.recv_fds(requests, _LONGEST, 2)
        if not request:
            return
        pid = os.fork()
        if not pid:
            _become_lab(requests, fds, *json.loads(request))
        for fd in fds:
            os.close(fd)
        requests.send(str(pid).encode())
        _, status = os.waitpid(pid, 0)
        requests.send(str(os.waitstatus_to_exitcode(status)).encode())


def _make_host() -> None:
    """Read the tables that hosts are made from, and import what makes them."""
    from tests.lab.host import folders, lab_host, trees

    host = lab_host(parse(["--cpus", "2", "--", "true"]))
    trees(host, folders(host), lambda _before, _after: None)
    changed_copies()


def _become_lab(
    requests: socket.socket, fds: Sequence[int], arguments: list[str], environment: dict[str, str]
) -> NoReturn:
    code = 1
    try:
        requests.close()
        for number, fd in enumerate(fds, 1):
            os.dup2(fd, number)
            os.close(fd)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = ["tests.lab", *arguments]
        code = lab_main(warm.execute)
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 1
    except BaseException:  # noqa: BLE001 - the end of the process
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def enter(*arguments: str, timeout_s: float = LONGEST_S) -> subprocess.CompletedProcess[str]:
    """A lab's command from beginning to end."""
    return _forks().run(arguments, timeout_s)


def answer(program: str, *options: str) -> Any:
    """What a Python program in a lab prints as JSON; it has nothing else to say.

    It finds `errno`, `fcntl`, `json` and `os` imported.
    """
    script = f"import errno, fcntl, json, os\n{textwrap.dedent(program)}"
    done = enter(*options, "--", sys.executable, "-c", script)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return json.loads(done.stdout)


def _command_line(arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "tests.lab", *arguments]


@dataclass(frozen=True)
class Running:
    """A lab in which something runs. `namespace` is its PID namespace."""

    outer: subprocess.Popen[str]
    namespace: str

    def inside(self) -> dict[str, list[int]]:
        """Its processes by name, the oldest first, as they are numbered outside."""
        return members(self.namespace)

    def send(self, text: str) -> None:
        assert self.outer.stdin is not None
        self.outer.stdin.write(text)
        self.outer.stdin.flush()

    def hear(self) -> str:
        """The next line of what the command prints."""
        return _line_of(self.outer)


@contextlib.contextmanager
def running(*arguments: str) -> Iterator[Running]:
    """A lab whose command prints a line when it is ready; that line is read."""
    outer = subprocess.Popen(
        _command_line(arguments),
        cwd=ROOT,
        bufsize=1,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        _line_of(outer)
        yield Running(outer, _namespace_of(outer.pid))
    finally:
        outer.kill()
        with outer:
            pass


def _line_of(outer: subprocess.Popen[str]) -> str:
    assert outer.stdout is not None
    line = b""
    while not line.endswith(b"\n"):
        assert wait_readable([outer.stdout], LONGEST_S), "it says nothing"
        byte = os.read(outer.stdout.fileno(), 1)  # past the buffer, which poll(2) can't see
        assert byte, "it has ended"
        line += byte
    return line.decode().strip()


def _namespace_of(outer: int) -> str:
    [init] = Path(f"/proc/{outer}/task/{outer}/children").read_text().split()
    return str(Path(f"/proc/{init}/ns/pid").readlink())


def members(namespace: str) -> dict[str, list[int]]:
    """The processes in a PID namespace that have not ended."""
    result: dict[str, list[int]] = {}
    for pid in sorted(
        int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()
    ):
        # Any of them may be gone by the time it is looked at.
        with contextlib.suppress(OSError):
            if str(Path(f"/proc/{pid}/ns/pid").readlink()) == namespace:
                result.setdefault(Path(f"/proc/{pid}/comm").read_text().strip(), []).append(pid)
    return result


def gone(namespace: str) -> dict[str, list[int]]:
    """Who is left in it, once it is empty or enough time has passed."""
    deadline = time.monotonic() + LONGEST_S
    while (left := members(namespace)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        _serve(requests)
