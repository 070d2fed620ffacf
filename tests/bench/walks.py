"""What 10,000 threads of other programs cost the source of threads, a tick at 1 Hz."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from nftop.sources.process.source import ProcessSource
from tests.bench.report import Reached

_PROCESSES, _THREADS, _TICKS, _WARM = 10, 1000, 120, 20
_IDLE = """
import sys, threading
threading.stack_size(65536)
released = threading.Event()
for _ in range(int(sys.argv[1])):
    threading.Thread(target=released.wait, daemon=True).start()
print("up", flush=True)
sys.stdin.readline()
"""


def main() -> list[Reached]:
    """Print and return the mean and the longest read, and the first, which examines all threads."""
    with _idle_threads():
        costs_ms = _reads_ms()
    late = costs_ms[_WARM:]
    mean = sum(late) / len(late)
    count = _PROCESSES * _THREADS
    print(f"CPU ms of a read of threads beside {count:,} that sleep, a read a second")
    print(f"  first {costs_ms[0]:.0f}, then mean {mean:.2f}, most {max(late):.1f}")
    print()
    return [Reached(f"read of threads, {count:,} of them", "<= 1 ms a tick", mean, 1.0, "ms")]


def _reads_ms() -> list[float]:
    now_ns = time.monotonic_ns()
    source = ProcessSource(clock=lambda: now_ns)
    costs = []
    for _ in range(_TICKS):
        began = time.process_time()
        source.read()
        costs.append((time.process_time() - began) * 1e3)
        now_ns += 1_000_000_000
    source.close()
    return costs


@contextmanager
def _idle_threads() -> Iterator[None]:
    command = [sys.executable, "-c", _IDLE, str(_THREADS)]
    running = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(_PROCESSES)
    ]
    try:
        for process in running:
            assert process.stdout is not None
            process.stdout.readline()
        yield
    finally:
        for process in running:
            process.kill()
            process.communicate()
