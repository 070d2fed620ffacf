"""`make endurance MINUTES=60`: the screen at 10 Hz beside a forwarding testpmd, in real time.

nftop runs on a terminal and records. Each minute its resident memory, descriptors and threads are
printed; at the end their growth over the second half, and the ticks that the recording lacks.
testpmd runs at nice 19 and on any CPU, so that others can use the machine meanwhile.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nftop.store.format.records import DroppedTicks, Tick
from nftop.store.reading.bytes import FileBytes
from nftop.store.reading.scan import Scan
from tests.bench.programs import drain, on_terminal
from tests.real.testpmd import running_testpmd

DELAY_S = 0.1
# Seconds before the first measurement: modules are imported, buffers have their sizes.
WARM_S = 60.0
# Resident memory may grow by so much in an hour of the second half. The flight recorder's samples
# and states take about 6 MiB of it on two CPUs, until they fill its 32 MiB.
MOST_MIB_PER_H = 12.0
_TESTPMD, _LCORES = ("nice", "-n", "19", "dpdk-testpmd"), "0@(0-1),1@(0-1)"
_NFTOP = [sys.executable, "-m", "nftop", "-d", str(DELAY_S)]


@dataclass(frozen=True, slots=True)
class Held:
    """What a process holds at one time; `at_s`: CLOCK_MONOTONIC."""

    at_s: float
    resident_bytes: int
    descriptors: int
    threads: int


@dataclass(frozen=True, slots=True)
class Lost:
    """Ticks of a recording: those in it, and those that are missing between them.

    Attributes:
        skipped: that the clock's pace says should have been; the machine was busy, or nftop.
        dropped: that nftop itself reports as dropped.
    """

    ticks: int
    skipped: int
    dropped: int


def held_by(pid: int) -> Held:
    process = Path(f"/proc/{pid}")
    pages = int((process / "statm").read_text(encoding="ascii").split()[1])
    return Held(
        time.monotonic(),
        pages * os.sysconf("SC_PAGE_SIZE"),
        len(list((process / "fd").iterdir())),
        len(list((process / "task").iterdir())),
    )


def growth_mib_per_h(rows: Sequence[Held]) -> float:
    """Slope of the resident memory over the second half, by least squares."""
    half = rows[len(rows) // 2 :]
    hours = np.array([row.at_s for row in half]) / 3600
    slope, _ = np.polyfit(hours - hours[0], [row.resident_bytes / 2**20 for row in half], 1)
    return float(slope)


def lost_ticks(times_ns: Iterable[int], dropped: int, interval_s: float) -> Lost:
    """Of the times of a recording's ticks; the first ones, at another pace, are not counted.

    Args:
        times_ns: CLOCK_MONOTONIC of each tick, ascending.
    """
    times_s = np.array(list(times_ns)) / 1e9
    steps = np.rint(np.diff(times_s) / interval_s).astype(int)
    (at_pace,) = np.nonzero(steps <= 1)
    steps = steps[at_pace[0] :] if len(at_pace) else steps[:0]
    return Lost(len(steps) + 1, int(np.maximum(steps - 1, 0).sum()), dropped)


def read_ticks(path: Path, interval_s: float) -> Lost:
    """Ticks of a recording."""
    times_ns, dropped = list[int](), 0
    with path.open("rb") as file:
        scan = Scan(FileBytes(file.fileno()))
        while (item := scan.next()) is not None:
            if isinstance(item, Tick):
                times_ns.append(item.sample.monotonic_ns)
            elif isinstance(item, DroppedTicks):
                dropped += item.ticks
    return lost_ticks(times_ns, dropped, interval_s)


def report(rows: Sequence[Held], lost: Lost) -> bool:
    """Print what was measured; False: something grew or was lost by nftop itself."""
    growth = growth_mib_per_h(rows)
    middle, last = rows[len(rows) // 2], rows[-1]
    minutes = (last.at_s - rows[0].at_s) / 60
    print(
        f"{minutes:.0f} minutes at {1 / DELAY_S:g} Hz: {last.resident_bytes / 2**20:.1f} MiB, "
        f"{growth:+.2f} MiB an hour over the second half\n"
        f"descriptors {middle.descriptors} at half time, {last.descriptors} at the end; "
        f"threads {middle.threads} and {last.threads}\n"
        f"{lost.ticks} ticks recorded, {lost.skipped} skipped by the pace, {lost.dropped} dropped"
    )
    flat = growth <= MOST_MIB_PER_H
    same = last.descriptors <= middle.descriptors and last.threads <= middle.threads
    return flat and same and not lost.dropped


def main(minutes: float) -> int:
    rows: list[Held] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        running_testpmd("nftopendures", _LCORES, binary=_TESTPMD) as testpmd,
        on_terminal(_NFTOP, {"XDG_DATA_HOME": folder, "XDG_CONFIG_HOME": folder}) as (child, own),
    ):
        testpmd.command("start")
        drain((own,), WARM_S / 2)
        os.write(own, b"R")
        drain((own,), WARM_S / 2)
        end_s = time.monotonic() + minutes * 60
        while child.poll() is None:
            rows.append(held_by(child.pid))
            row = rows[-1]
            print(
                f"{(row.at_s - rows[0].at_s) / 60:5.1f} min {row.resident_bytes / 2**20:7.1f} MiB"
                f" {row.descriptors:4} descriptors {row.threads:3} threads"
                f"  load {os.getloadavg()[0]:.1f}",
                flush=True,
            )
            left_s = end_s - time.monotonic()
            if left_s <= 0:
                break
            drain((own,), min(60.0, left_s))
        assert child.poll() is None, "nftop ended"
        testpmd.command("stop")
        os.write(own, b"q")
        with suppress(OSError):  # EIO: it has ended
            drain((own,), 30.0)
        (recording,) = Path(folder).rglob("*.nftop")
        lost = read_ticks(recording, DELAY_S)
    return 0 if report(rows, lost) else 1


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1])))
