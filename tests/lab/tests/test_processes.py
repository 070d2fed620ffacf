"""A lab's command: its exit code, its signals, and that nothing of the lab outlives it."""

from __future__ import annotations

import os
import pty
import signal
import sys
from pathlib import Path

import pytest

from nftop.sources.runtime.readiness import wait_readable
from tests.lab.tests.labs import LONGEST_S, ROOT, enter, gone, needs_lab, running

pytestmark = needs_lab
# A program, and one that has left its session behind.
_BUSY = "setsid bash -c 'echo ready; while :; do sleep 1; done' & wait"
_LAST_WORDS = {
    victim: f"nftop's lab: {role} has ended, and so does the lab\n"
    for victim, role in (
        ("lab-init", "its first process"),
        ("lab-server", "its server"),
        ("lab-supervisor", "its supervisor"),
    )
}
_IDLE = "echo ready; while :; do sleep 0.02; done"


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("sh", "-c", "exit 7"), 7),
        (("sh", "-c", "kill -9 $$"), 128 + 9),
        (("/etc/passwd",), 126),
        (("no-such-program",), 127),
    ],
)
def test_the_exit_code_is_the_commands(command: tuple[str, ...], code: int) -> None:
    assert enter("--cpus", "4", "--", *command).returncode == code


@pytest.mark.parametrize(
    "arguments",
    [
        ("--cpus", "1"),
        ("--cpus", "513"),
        ("--scenario", "nope"),
        ("--scenario", "/nope.toml"),
        ("--snc", "2"),
        ("--snc", "0"),
        ("--snc", "2", "--model", "icx"),
        ("--snc", "3", "--model", "icx", "--kernel", "7.2"),
        ("--snc", "2", "--model", "icx", "--kernel", "7.2", "--cpus", "4"),
    ],
)
def test_an_impossible_host_is_reported_in_one_line(arguments: tuple[str, ...]) -> None:
    done = enter(*arguments, "--", "true")
    assert done.returncode == 125
    [line] = done.stderr.splitlines()
    assert line.startswith("nftop's lab: ")
    assert arguments[1].removeprefix("/") in line


def _mounts() -> list[str]:
    """Mounts of this host; without network namespaces, which other tests make meanwhile.

    The first `ip netns add` after a boot binds /run/netns to itself, whatever its file system.
    """
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return [
        line
        for line in lines
        if not line.startswith("nsfs ") and line.split()[1].removeprefix("/var") != "/run/netns"
    ]


def test_signals_are_passed_on() -> None:
    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    traps = "; ".join(f"trap 'echo {number.name}' {number.name[3:]}" for number in numbers)
    script = f"{traps}; trap 'exit 42' USR1; {_IDLE}"
    with running("--cpus", "4", "--", "sh", "-c", script) as lab:
        for number in (*numbers, *numbers):
            lab.outer.send_signal(number)
            assert lab.hear() == number.name
        lab.outer.send_signal(signal.SIGUSR1)
        assert lab.outer.wait(LONGEST_S) == 42


@pytest.mark.parametrize(
    "victim", ["outer", "lab-init", "lab-server", "lab-supervisor", "lab-keeper", "sh"]
)
def test_nothing_is_left_after_any_kill(victim: str) -> None:
    mounts = _mounts()
    with running("--cpus", "4", "--", "sh", "-c", _BUSY) as lab:
        inside = lab.inside()
        roles = {"lab-init", "lab-server", "lab-supervisor", "lab-keeper"}
        assert inside.keys() >= {*roles, "sh", "bash"}
        assert _mounts() == mounts
        os.kill({"outer": [lab.outer.pid], **inside}[victim][0], signal.SIGKILL)
        code = lab.outer.wait(LONGEST_S)
        assert gone(lab.namespace) == {}
        assert code == {"outer": -9, "sh": 128 + 9, "lab-keeper": 128 + 9}.get(victim, 125)
        assert lab.outer.stderr is not None
        printed = lab.outer.stderr.read()
        assert printed == _LAST_WORDS.get(victim, "")
    assert _mounts() == mounts


def test_what_a_command_leaves_running_ends_with_it() -> None:
    with running("--cpus", "4", "--", "sh", "-c", _BUSY.replace("wait", "read x")) as lab:
        assert "bash" in lab.inside()
        lab.send("go\n")
        assert lab.outer.wait(LONGEST_S) == 0
        assert gone(lab.namespace) == {}


def test_two_side_by_side_are_two_hosts() -> None:
    read = "cat /sys/devices/system/cpu/online; read x; cat /sys/fs/lab/live/ctl/now"
    make, listing = "cd /sys/fs/resctrl; echo ready; mkdir", "ls -d one other 2>/dev/null"
    host = ("--cpus", "4", "--freeze", "1", "--", "sh", "-c", f"{make} one; {read}; {listing}")
    second = ("--cpus", "8", "--freeze", "2", "--", "sh", "-c", f"{make} other; {read}; {listing}")
    with running(*host) as one, running(*second) as other:
        assert (one.hear(), other.hear()) == ("0-3", "0-7")
        other.send("go\n")
        one.send("go\n")
        assert (one.hear(), other.hear()) == ("1000000000", "2000000000")
        assert (one.hear(), other.hear()) == ("one", "other")


def test_a_key_of_the_terminal_reaches_the_command_once() -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        traps = "trap 'exit $((40 + seen))' TERM; trap 'seen=$((seen + 1)); echo caught' INT"
        script = f"seen=0; {traps}; {_IDLE}"
        command = [sys.executable, "-m", "tests.lab", "--cpus", "4", "--", "sh", "-c", script]
        os.execv(command[0], command)
    with os.fdopen(terminal, "r+b", buffering=0) as screen:
        seen = _until(screen.fileno(), b"ready")
        screen.write(b"\x03")
        _until(screen.fileno(), b"caught", seen)
        os.kill(pid, signal.SIGTERM)
        assert _end_of(pid) == 41


def _until(terminal: int, what: bytes, seen: bytes = b"") -> bytes:
    while what not in seen:
        assert wait_readable([terminal], LONGEST_S), "it says nothing"
        seen += os.read(terminal, 1024)
    return seen


def _end_of(pid: int) -> int:
    """The exit code of a child."""
    watched = os.pidfd_open(pid)
    try:
        assert wait_readable([watched], LONGEST_S), "it does not end"
    finally:
        os.close(watched)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
