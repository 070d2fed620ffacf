"""Supervisor and keeper as processes: what is started ends, whichever of them goes first."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nftop.sources.runtime.readiness import wait_readable
from tests.lab.calls import affinity, caller, seccomp, supervisor
from tests.lab.tests.labs import ROOT

pytestmark = pytest.mark.skipif(bool(seccomp.unsupported()), reason=seccomp.unsupported())

_LIMIT_S = 60  # nothing waits that long but a test that fails
# Prints its process id and that of a daemon that has left its parent; ends with its input.
_STAY = """
import os, sys, time
if not os.fork():
    os.setsid()
    pid = os.fork()
    if pid:
        print(os.getppid(), pid, flush=True)
        os._exit(0)
    time.sleep(1000)
os.wait()
sys.stdin.read()
"""
_RUN = """
import sys
from pathlib import Path
from tests.lab.calls import mounting, supervisor
from tests.lab.perf import opening
mounts = mounting.handlers(lambda mount: 1 // 0)
sys.exit(supervisor.run(sys.argv[2:], {**opening.handlers(Path(sys.argv[1])), **mounts}))
"""


@contextmanager
def supervised(folder: Path, script: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", _RUN, str(folder), sys.executable, "-c", script]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def ends(pidfds: list[int]) -> bool:
    """All of them within the limit."""
    for pidfd in pidfds:
        ready = wait_readable([pidfd], _LIMIT_S)
        os.close(pidfd)
        if not ready:
            return False
    return True


def first_line(process: subprocess.Popen[str]) -> list[int]:
    assert process.stdout is not None
    assert wait_readable([process.stdout], _LIMIT_S), "it says nothing"
    return [int(word) for word in process.stdout.readline().split()]


def test_a_daemon_ends_with_the_command(tmp_path: Path) -> None:
    with supervised(tmp_path, _STAY) as process:
        _, daemon = first_line(process)
        watched = [os.pidfd_open(daemon)]
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(_LIMIT_S) == 0
        assert ends(watched)


def keeper_of(command: int) -> int:
    stat = Path(f"/proc/{command}/stat").read_text(encoding="ascii")
    return int(stat.rpartition(")")[2].split()[1])


@pytest.mark.parametrize("killed", ["supervisor", "keeper", "command"])
def test_after_any_kill_nothing_stays(killed: str, tmp_path: Path) -> None:
    with supervised(tmp_path, _STAY) as process:
        command, daemon = first_line(process)
        keeper = keeper_of(command)
        pids = {"supervisor": process.pid, "keeper": keeper, "command": command}
        watched = [os.pidfd_open(pid) for pid in (command, daemon, keeper)]
        os.kill(pids[killed], signal.SIGKILL)
        assert ends(watched)
        assert process.wait(_LIMIT_S) == (-9 if killed == "supervisor" else 128 + 9)


def test_what_the_server_refuses_reaches_the_caller(tmp_path: Path) -> None:
    # There is no file of that name in an empty folder.
    script = (
        "import ctypes, sys\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        "assert libc.syscall(298, bytes(128), -1, 0, -1, 0) == -1\nsys.exit(ctypes.get_errno())"
    )
    with supervised(tmp_path, script) as process:
        assert process.wait(_LIMIT_S) == 2  # ENOENT


def test_a_call_that_can_not_be_answered_fails_and_the_command_goes_on(tmp_path: Path) -> None:
    # The mount hook raises.
    script = (
        "import ctypes, sys\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        "assert libc.mount(b'x', b'/', b'resctrl', 0, None) == -1\nsys.exit(ctypes.get_errno())"
    )
    with supervised(tmp_path, script) as process:
        assert process.wait(_LIMIT_S) == 5  # EIO
        assert process.stderr is not None
        assert "ZeroDivisionError" in process.stderr.read()


@pytest.mark.parametrize(
    ("requested", "what"),
    [({7}, "taken"), ({0, 7}, "passed"), ({60}, "refused"), ({3, 60}, "passed")],
)
def test_a_cpu_is_present_if_the_lab_has_it(
    requested: set[int], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[str] = []
    mask = sum(1 << cpu for cpu in requested).to_bytes(128, "little")
    monkeypatch.setattr(caller, "memory", lambda *_: mask)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 60})
    monkeypatch.setattr(seccomp, "let_pass", lambda *_: answers.append("passed"))
    monkeypatch.setattr(
        seccomp,
        "answer",
        lambda *_, code=0: answers.append({0: "taken", errno.EINVAL: "refused"}[code]),
    )
    call = seccomp.Caught(1, 1, seccomp.SCHED_SETAFFINITY, (0, 128, 0))
    placement = affinity.Placement()
    affinity.handlers(8, placement)[call.number](0, call)
    assert answers == [what]
    if what != "refused":
        assert placement.cpu(1) == min(requested)


def test_other_machines_are_reported_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(RuntimeError, match="x86-64 only, and this is riscv64"):
        supervisor.run(["true"], {})
