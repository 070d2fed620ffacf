"""`make bench`: what nftop costs, as counts and ratios. No number here is a test.

Seconds on a shared machine are noise; what is printed is counted, or a ratio of two things
measured alternately in one process.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from nftop.render.plain import frame_text
from nftop.store.history import History
from nftop.ui.app import NftopApp
from tests import frames
from tests.ui.feeds import StepFeed

INTERVAL_S = 0.2
FEW, MANY = 5, 30
NFTOP = [sys.executable, "-m", "nftop", "--batch", "--json", "-d", str(INTERVAL_S)]
PERF = ["perf", "stat", "-a", "-A", "-x,", "-I", str(int(INTERVAL_S * 1000))]
PERF += ["-e", "{msr/tsc/,context-switches}"]


def main() -> None:
    """Print the tables."""
    _system_calls()
    _drawing()


def _system_calls() -> None:
    if os.geteuid() != 0 or shutil.which("strace") is None:
        print("system calls per tick: needs root and strace")
        return
    cpus = os.cpu_count() or 1
    print(f"system calls per tick, {cpus} CPUs, the same two events")
    print(f"{'':<14}{'counter reads':>14}{'per CPU':>9}{'all':>7}")
    rows: list[tuple[str, Callable[[int], Sequence[str]]]] = [
        ("nftop", lambda ticks: [*NFTOP, "-n", str(ticks)])
    ]
    if shutil.which("perf"):
        rows.append(("perf stat", lambda ticks: [*PERF, "sleep", str((ticks + 0.5) * INTERVAL_S)]))
    for name, command in rows:
        few, many = _traced(command(FEW)), _traced(command(MANY))
        reads, everything = (
            (more - less) / (MANY - FEW) for less, more in zip(few, many, strict=True)
        )
        print(f"{name:<14}{reads:>14.2f}{reads / cpus:>9.2f}{everything:>7.0f}")
    print()


def _traced(command: Sequence[str]) -> tuple[int, int]:
    """Reads of perf descriptors, and all system calls, of one run."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "strace")
        subprocess.run(
            ["strace", "-f", "-y", "-o", log, *command],
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        lines = log.read_text(errors="replace").splitlines()
    calls = [line for line in lines if re.match(r"\d+ +\w+\(", line)]
    reads = [
        line for line in calls if re.match(r"\d+ +readv?\(\d+<anon_inode:\[perf_event\]>", line)
    ]
    return len(reads), len(calls)


def _drawing() -> None:
    """CPU time of a tick, every value changing, by number of CPUs; the smallest is 1."""
    sizes = (16, 64, 512)
    print("drawing a tick at 120x36, every value changing: CPU time against 16 CPUs, bytes of text")
    print(f"{'CPUs':>6}{'screen':>9}{'batch text':>12}{'bytes':>9}")
    screen = {size: asyncio.run(_screen_s(size)) for size in sizes}
    batch = {size: _batch_s(size) for size in sizes}
    for size in sizes:
        by_screen = screen[size] / screen[sizes[0]]
        by_batch = batch[size][0] / batch[sizes[0]][0]
        print(f"{size:>6}{by_screen:>9.2f}{by_batch:>12.2f}{batch[size][1]:>9}")


def _batch_s(size: int, ticks: int = 10) -> tuple[float, int]:
    """CPU seconds and bytes a tick of the batch output as text."""
    prepared = [frames.frame(size, tick) for tick in range(ticks)]
    began = time.process_time()
    written = sum(len(frame_text(frame, 120, ascii_only=True)) for frame in prepared)
    return (time.process_time() - began) / ticks, written // ticks


async def _screen_s(size: int, ticks: int = 60) -> float:
    """CPU seconds a tick of the running application, the making of frames left out."""
    prepared = [frames.frame(size, tick) for tick in range(ticks + 1)]
    feed = StepFeed(prepared[0])
    app = NftopApp(feed, History())
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        began = time.process_time()
        for frame in prepared[1:]:
            feed.put(frame)
            await pilot.pause()
        return (time.process_time() - began) / ticks


if __name__ == "__main__":
    main()
