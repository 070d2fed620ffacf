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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

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
_LIVE, _DEMO = [*_NFTOP, "-d", "1"], [*_NFTOP, "demo", "-d", "1"]
_PAIRS = 5
_WARM_S, _LOADED_S = 5.0, 15.0


# Name, limit in CPU time of the yardstick, what is measured; the yardstick is `python -c pass`.
_STARTS: Sequence[tuple[str, float, list[str]]] = (
    ("--help", 4, ["--help"]),
    ("--version", 4, ["--version"]),
    ("cat show", 4, ["demo", "cat", "show"]),
)
_TEXTUAL = [*_PYTHON, "-c", "import textual.app, numpy"]


def start_up() -> list[Reached]:
    """CPU time of starting, in that of a Python that does nothing, or imports Textual and numpy."""
    one_thread = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    nothing = partial(_cpu_s, [*_PYTHON, "-c", "pass"])
    libraries = partial(_cpu_s, _TEXTUAL, one_thread)
    ways: list[tuple[str, float, Callable[[], float], Callable[[], float]]] = [
        (f"nftop {name}, python -c pass", limit, partial(_cpu_s, [*_NFTOP, *words]), nothing)
        for name, limit, words in _STARTS
    ]
    ways.append(("nftop, first frame, python -c pass", 3, partial(_until_s, _LIVE, b""), nothing))
    ways += [
        (
            f"{name}, first screen, Textual and numpy",
            1.5,
            partial(_until_s, words, b"THREAD"),
            libraries,
        )
        for name, words in (("nftop", _LIVE), ("demo", _DEMO))
    ]
    print("starting: CPU time by that of a yardstick, medians of pairs")
    reached = []
    for name, limit, way, yardstick in ways:
        ratio = median([way() / yardstick() for _ in range(_PAIRS)])
        reached.append(Reached(name, f"<= {limit:g}", ratio, limit))
        print(f"  {name:<44}{ratio:>6.1f}")
    print()
    return reached


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


# Program, its command, interval in seconds, limit of nftop's CPU time by its.
_PEERS: Sequence[tuple[str, list[str], float, float | None]] = (
    ("btop", ["btop"], 1.0, 2.0),
    ("htop", ["htop", "-d", "1"], 0.1, 2.0),
    ("htop", ["htop", "-d", "10"], 1.0, None),
    ("glances", ["glances", "-t", "1"], 1.0, None),
    ("perf", ["perf", "stat", "-a", "-A", "-I", "1000", "-e", "context-switches"], 1.0, None),
)


def loaded_hosts() -> list[Reached]:
    """CPU time beside that of each peer that is installed, at the same time."""
    print("live: CPU time of nftop by that of another program at the same time and pace")
    reached = []
    for other, theirs, delay_s, limit in _PEERS:
        what, target = f"CPU at {1 / delay_s:g} Hz against {other}'s", f"<= {limit or 0:g}"
        if shutil.which(other) is None:
            if limit is not None:
                reached.append(Reached(what, target, None, why=f"{other} is not installed"))
            continue
        ours_s, theirs_s = _paired([*_NFTOP, "-d", str(delay_s)], theirs, _LOADED_S)
        ratio = ours_s / max(1e-9, theirs_s)
        per_s = f"{ours_s / _LOADED_S:.4f} and {theirs_s / _LOADED_S:.4f} s a second"
        print(f"  {other:<10}{1 / delay_s:>5g} Hz{ratio:>8.1f}   {per_s}")
        if limit is not None:
            reached.append(Reached(what, target, ratio, limit))
    print()
    return reached


def large_demo() -> list[Reached]:
    """Share of a core that the demo of 512 CPUs takes at 1 Hz, its simulator included."""
    with on_terminal([*_DEMO, "--cpus", "512"]) as (child, master):
        drain((master,), _WARM_S)
        before = _used_s(child.pid)
        drain((master,), _LOADED_S)
        share = (_used_s(child.pid) - before) / _LOADED_S
    return [
        Reached("demo of 512 CPUs at 1 Hz, simulator too", "<= 2 % of a core", 100 * share, 2, "%")
    ]


def _paired(ours: Sequence[str], theirs: Sequence[str], seconds: float) -> tuple[float, float]:
    """CPU seconds of both."""
    with on_terminal(ours) as one, on_terminal(theirs) as two:
        drain((one[1], two[1]), _WARM_S)
        before = [_used_s(one[0].pid), _used_s(two[0].pid)]
        drain((one[1], two[1]), seconds)
        return _used_s(one[0].pid) - before[0], _used_s(two[0].pid) - before[1]


def _cpu_s(command: Sequence[str], environ: Mapping[str, str] | None = None) -> float:
    """CPU seconds of a program from start to end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    quiet = subprocess.DEVNULL
    subprocess.run(command, check=True, stdin=quiet, stdout=quiet, stderr=quiet, env=environ)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _until_s(command: Sequence[str], text: bytes) -> float:
    """CPU seconds until a program has written `text` on a terminal; empty: anything."""
    with on_terminal(command) as (child, master):
        seen = b""
        while (not seen or text not in seen) and wait_readable([master], 30):
            seen += os.read(master, 65536)
        return _used_s(child.pid)


@contextmanager
def on_terminal(
    command: Sequence[str], environ: Mapping[str, str] | None = None
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A program on a terminal of 120x40, and the terminal's other end; `environ` is added."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    terminal = {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    own = {**os.environ, **terminal, **(environ or {})}
    child = subprocess.Popen(
        ["setsid", "--ctty", *command], stdin=slave, stdout=slave, stderr=slave, env=own
    )
    os.close(slave)
    try:
        yield child, master
    finally:
        child.kill()
        child.wait()
        os.close(master)


def drain(masters: Sequence[int], seconds: float) -> None:
    """Read what is written to terminals for so long, as a terminal does."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        for master in wait_readable(masters, left):
            os.read(master, 65536)


def _used_s(pid: int) -> float:
    """CPU seconds of a process so far, of its threads that have ended too."""
    # The process' clock, as clock_getcpuclockid(3) makes it of MAKE_PROCESS_CPUCLOCK.
    return time.clock_gettime(~pid << 3 | 2)
