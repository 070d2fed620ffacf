"""Whole programs: what starting costs, system calls of a tick, and other tops where installed."""

from __future__ import annotations

import fcntl
import os
import pty
import resource
import shutil
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from nftop.sources.runtime.readiness import wait_readable
from tests.bench.report import Reached, median
from tests.strace import traced

_PYTHON = [sys.executable]
_NFTOP = [*_PYTHON, "-m", "nftop"]
_TICK_S = 0.2
_FEW, _MANY = 5, 30
_BATCH = [*_NFTOP, "--batch", "--json", "-d", str(_TICK_S)]
_PERF = ["perf", "stat", "-a", "-A", "-x,", "-I", str(int(_TICK_S * 1000))]
_PERF += ["-e", "{msr/tsc/,context-switches}"]
_CLOCK_HZ = os.sysconf("SC_CLK_TCK")


def start_up() -> list[Reached]:
    """CPU time of starting, in that of a Python that does nothing."""
    ways: list[tuple[str, Callable[[], float]]] = [
        ("nftop --help", lambda: _cpu_s([*_NFTOP, "--help"])),
        ("nftop demo --batch -n 1", lambda: _cpu_s([*_NFTOP, "demo", "--batch", "-n", "1"])),
        ("nftop demo, first screen", _first_screen_s),
    ]
    print("starting: CPU time in that of `python -c pass`")
    ratios = {}
    for name, way in ways:
        pairs = [(way(), _cpu_s([*_PYTHON, "-c", "pass"])) for _ in range(5)]
        ratios[name] = median([one for one, _ in pairs]) / median([base for _, base in pairs])
        print(f"  {name:<28}{ratios[name]:>6.1f}")
    print()
    return [Reached("first useful screen", "<= 22 x python", ratios[ways[-1][0]], 22)]


def system_calls() -> list[Reached]:
    """System calls of a tick, nftop's and those of `perf stat` for the same events."""
    few, many = "counter reads per core and tick", "system calls against perf stat's"
    if os.geteuid() != 0 or shutil.which("strace") is None:
        why = "needs root and strace"
        return [Reached(few, "1", None, why=why), Reached(many, "50 times fewer", None, why=why)]
    cpus = os.cpu_count() or 1
    print(f"system calls per tick, {cpus} CPUs, the same two events")
    print(f"{'':<14}{'counter reads':>14}{'per CPU':>9}{'all':>7}")
    rows: list[tuple[str, Callable[[int], Sequence[str]]]] = [
        ("nftop", lambda ticks: [*_BATCH, "-n", str(ticks)])
    ]
    if shutil.which("perf"):
        rows.append(("perf stat", lambda ticks: [*_PERF, "sleep", str((ticks + 0.5) * _TICK_S)]))
    reads, calls = {}, {}
    for name, command in rows:
        few_ticks, many_ticks = traced(command(_FEW)), traced(command(_MANY))
        reads[name] = (many_ticks.reads - few_ticks.reads) / (_MANY - _FEW)
        calls[name] = (many_ticks.total - few_ticks.total) / (_MANY - _FEW)
        print(f"{name:<14}{reads[name]:>14.2f}{reads[name] / cpus:>9.2f}{calls[name]:>7.0f}")
    print()
    fewer = calls["perf stat"] / calls["nftop"] if "perf stat" in calls else None
    return [
        Reached(few, "1", reads["nftop"] / cpus, 1.0),
        Reached(many, ">= 50 times fewer", fewer, 50, least=True, why="perf is not installed"),
    ]


def loaded_hosts() -> list[Reached]:
    """CPU time beside btop's at 1 Hz and htop's at 10 Hz, at the same time."""
    reached = []
    for other, delay_s, limit in (("btop", 1.0, 0.8), ("htop", 0.1, 1.0)):
        what, target = f"CPU at {1 / delay_s:g} Hz against {other}'s", f"<= {limit:g}"
        if shutil.which(other) is None:
            reached.append(Reached(what, target, None, why=f"{other} is not installed"))
            continue
        theirs = ["htop", "-d", "1"] if other == "htop" else [other]
        ratio = _paired([*_NFTOP, "-d", str(delay_s)], theirs, 8.0)
        reached.append(Reached(what, target, ratio, limit))
    return reached


def _paired(ours: Sequence[str], theirs: Sequence[str], seconds: float) -> float:
    with _on_terminal(ours) as one, _on_terminal(theirs) as two:
        _drain((one[1], two[1]), 3.0)
        before = [_used_s(one[0].pid), _used_s(two[0].pid)]
        _drain((one[1], two[1]), seconds)
        return (_used_s(one[0].pid) - before[0]) / max(1e-9, _used_s(two[0].pid) - before[1])


def _cpu_s(command: Sequence[str]) -> float:
    """CPU seconds of a program from start to end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    quiet = subprocess.DEVNULL
    subprocess.run(command, check=True, stdin=quiet, stdout=quiet, stderr=quiet)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _first_screen_s() -> float:
    """CPU seconds until the simulated host's CPUs are on a terminal."""
    with _on_terminal([*_NFTOP, "demo", "-d", "1"]) as (child, master):
        seen = b""
        while b"THREAD" not in seen and wait_readable([master], 30):
            seen += os.read(master, 65536)
        return _used_s(child.pid)


@contextmanager
def _on_terminal(command: Sequence[str]) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    environ = {**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    child = subprocess.Popen(
        ["setsid", "--ctty", *command], stdin=slave, stdout=slave, stderr=slave, env=environ
    )
    os.close(slave)
    try:
        yield child, master
    finally:
        child.kill()
        child.wait()
        os.close(master)


def _drain(masters: Sequence[int], seconds: float) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        for master in wait_readable(masters, left):
            os.read(master, 65536)


def _used_s(pid: int) -> float:
    """CPU seconds of a process so far, in steps of the kernel's clock tick."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _CLOCK_HZ
