"""Resident memory with 512 CPUs and ten minutes of history, and over simulated hours.

`python -m tests.bench.memory HOURS [CPUS]` prints it for each half hour of a stepped clock: of
a process with the screen's modules, the history and the flight recorder, without a terminal.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from nftop.store.history.flight import FlightRecorder
from nftop.store.history.rings import TickHistory
from nftop.store.recording.recorder import Recorder
from tests.bench.report import Reached
from tests.bench.scenes import Clocked
from tests.recordings import header_of

_CPUS, _TEN_MINUTES, _HALF_HOUR = 512, 600, 1800


def main() -> list[Reached]:
    """Print and return the resident memory after ten minutes, measured in a new process."""
    command = [sys.executable, "-m", "tests.bench.memory", "0", str(_CPUS)]
    last = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-2]
    print(f"resident after ten minutes of {_CPUS} CPUs at 1 Hz: {last} MB")
    print()
    return [Reached(f"memory, {_CPUS} CPUs, ten minutes", "<= 90 MB", float(last), 90, "MB")]


def run(hours: float, cpus: int) -> None:
    """Print the resident memory after ten minutes, then after each half hour until `hours`."""
    import nftop.ui.app  # noqa: F401 - part of what is measured
    from nftop.ui.screens.registry import import_opened, screens

    screens()
    import_opened()
    clocked, history, flight = Clocked(cpus), TickHistory(), FlightRecorder()
    recorder = Recorder(header_of(clocked), flight=flight)
    for tick in range(1, max(_TEN_MINUTES, int(hours * 3600)) + 1):
        sample = clocked.sample()
        recorder.take(sample, clocked.state)
        history.append(clocked.fold(sample))
        if tick == _TEN_MINUTES or tick % _HALF_HOUR == 0:
            print(f"{tick / 3600:.2f} h: {_resident_mb():.1f} MB", flush=True)
    recorder.close()


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 1e6


if __name__ == "__main__":
    run(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else _CPUS)
