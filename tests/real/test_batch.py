"""nftop beside a real testpmd: its own statistics and the TSC are the oracles."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

import pytest

from tests.real.testpmd import Testpmd, running_testpmd

pytestmark = [
    pytest.mark.real,
    pytest.mark.alone,
    pytest.mark.skipif(os.geteuid() != 0, reason="testpmd and its telemetry need root"),
    pytest.mark.skipif(
        shutil.which("dpdk-testpmd") is None, reason="dpdk-testpmd (Debian: dpdk-dev) is missing"
    ),
    pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="testpmd needs a CPU of its own"),
]

Frame = dict[str, Any]


@contextmanager
def nftop(*arguments: str) -> Iterator[Iterator[Frame]]:
    """Frames of `nftop --batch --json` as they come."""
    command = [sys.executable, "-m", "nftop", "--batch", "--json", *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield (json.loads(line) for line in process.stdout)
        finally:
            process.terminate()


def tsc_reader() -> Callable[[], int]:
    """RDTSC itself, so that nothing of nftop's is its own witness."""
    code = b"\x0f\x31\x48\xc1\xe2\x20\x48\x09\xd0\xc3"  # rdtsc; shl rdx,32; or rax,rdx; ret
    memory = mmap.mmap(-1, len(code), prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    function = ctypes.CFUNCTYPE(ctypes.c_uint64)(address)

    def read() -> int:
        return int(function()) if not memory.closed else 0

    return read


def tsc_hz() -> float:
    read = tsc_reader()
    before, began = read(), time.monotonic_ns()
    time.sleep(0.5)
    after, ended = read(), time.monotonic_ns()
    return (after - before) / (ended - began) * 1e9


def received(testpmd: Testpmd) -> int:
    """What testpmd itself says port 0 has received."""
    printed = testpmd.command("show port stats 0")
    result = re.search(r"RX-packets:\s*(\d+)", printed)
    assert result, printed
    return int(result[1])


def row_of(frame: Frame, prefix: str) -> Frame | None:
    """The application on the CPU of its worker, if it is there.

    Where others keep its main thread waiting for its CPU, that one looks like a poller too.
    """
    row: Frame = frame["cpus"][1]
    return row if row["nf"] and prefix in row["nf"] else None


def nf_of(frame: Frame, prefix: str) -> Frame | None:
    return next((nf for nf in frame["nfs"] if prefix in nf["name"]), None)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="reads the x86 time stamp counter")
def test_packets_and_cycles_per_packet_are_testpmds() -> None:
    with running_testpmd("nftopb") as testpmd:
        testpmd.command("start")
        # A frame and what testpmd says beside it are some milliseconds apart, more on a busy
        # machine, where testpmd has its CPU now and then: the longer, the less that is.
        for ticks in (5, 10, 20, 60):
            with nftop("-n", str(ticks)) as frames:
                seen = [(frame, received(testpmd), time.monotonic()) for frame in frames]
            try:
                agrees(seen, testpmd.pid)
                break
            except (AssertionError, TypeError):  # a number may be absent, too
                if ticks == 60:
                    raise
        testpmd.command("stop")


def agrees(seen: list[tuple[Frame, int, float]], pid: int) -> None:
    """That the frames say of testpmd what it, and the clock, said beside each of them."""
    assert len(seen) >= 5
    for frame, _, _ in seen:
        row, nf = row_of(frame, "nftopb"), nf_of(frame, "nftopb")
        assert row is not None and nf is not None
        assert row["thread"] == "rte-worker-1"
        assert nf["pid"] == pid and nf["kind"] == "dpdk" and nf["cpus"] == [1]
        assert row["cpp_clock"] in ("tsc", "core", "tsc_by_run", "core_by_run")

    # The frames after the first cover what testpmd counted between the first and the last.
    spans = [nf_of(frame, "nftopb") or {} for frame, _, _ in seen[1:]]
    packets = sum(nf["rx_packets_per_s"] * nf["interval_s"] for nf in spans)
    seconds = sum(nf["interval_s"] for nf in spans)
    (_, first_count, began), (_, last_count, ended) = seen[0], seen[-1]
    own_rate = (last_count - first_count) / (ended - began)
    assert packets / seconds == pytest.approx(own_rate, rel=0.02)

    # On a busy machine testpmd does not have its CPU to itself. Its time on the CPU and its packets
    # are read one after the other, so a frame's cycles are compared where there is no such share,
    # and the sums of all frames otherwise.
    clock_hz = tsc_hz()
    rows = [row for frame, _, _ in seen[1:] if (row := row_of(frame, "nftopb"))]
    for row in rows:
        if row["cpp_clock"] == "tsc":
            assert row["cpp"] == pytest.approx(clock_hz / row["rx_packets_per_s"], rel=0.02)
    shared = [row for row in rows if row["cpp_clock"] == "tsc_by_run"]
    if shared:
        cycles = sum(row["cpp"] * row["rx_packets_per_s"] for row in shared)
        expected = sum(clock_hz * row["run_ratio"] for row in shared)
        assert cycles == pytest.approx(expected, rel=0.02)


def test_a_killed_testpmd_gives_reasons_within_few_ticks_and_comes_back_without_a_spike() -> None:
    with nftop("-d", "0.5") as frames:
        with running_testpmd("nftopk") as testpmd:
            testpmd.command("start")
            before = take_until_measured(frames, "nftopk", 120)
            testpmd.kill()
            # The frame under way when it died may still be one of before.
            # A machine that is busy with something else may be later to notice.
            dying = [next(frames) for _ in range(3)]
            while row_of(dying[-1], "nftopk") is not None and len(dying) < 20:
                dying.append(next(frames))
            assert row_of(dying[-1], "nftopk") is None
            gone = nf_of(dying[-1], "nftopk")
            assert gone is None or gone["missing"]["rx_packets_per_s"]
            polled = dying[-1]["cpus"][1]
            assert polled["rx_packets_per_s"] is None and polled["missing"]["cpp"]
        with running_testpmd("nftopk") as again:
            again.command("start")
            after = take_until_measured(frames, "nftopk", 120)
    fastest = max(rates_of(before))
    # A spike is a rate from counters that were not this process': an order of magnitude. What else
    # runs on the CPU takes most of it at times, so a rate may be several times another.
    assert max(rates_of(after)) < 10 * fastest


def rates_of(frames: list[Frame]) -> list[float]:
    rows = [row for frame in frames if (row := row_of(frame, "nftopk"))]
    return [row["rx_packets_per_s"] for row in rows if row["rx_packets_per_s"] is not None]


def take_until_measured(frames: Iterator[Frame], prefix: str, most: int) -> list[Frame]:
    """Frames until three in a row have the application's rate; fails after `most`."""
    taken: list[Frame] = []
    good = 0
    while good < 3:
        assert len(taken) < most, [row_of(frame, prefix) for frame in taken]
        taken.append(next(frames))
        row = row_of(taken[-1], prefix)
        good = good + 1 if row is not None and row["rx_packets_per_s"] else 0
    return taken


def is_measured(frame: Frame, prefix: str) -> bool:
    nf = nf_of(frame, prefix)
    return nf is not None and nf["rx_packets_per_s"] is not None


def test_a_stopped_process_is_a_reason_and_no_other_row_suffers() -> None:
    with nftop("-d", "0.5") as frames, running_testpmd("nftopz") as testpmd:
        testpmd.command("start")
        before = take_until_measured(frames, "nftopz", 120)
        with testpmd.stopped():
            # Frames of before may still be in the pipe.
            stopped = [next(frame for frame in frames if not is_measured(frame, "nftopz"))]
            stopped += [next(frames) for _ in range(5)]
            hung = next(frame for frame in frames if frame["incidents"])
        nf = nf_of(stopped[-1], "nftopz")
        assert nf is not None
        assert nf["rx_packets_per_s"] is None
        assert nf["missing"]["rx_packets_per_s"] in ("stale", "error")
        assert all(row["cpu_time_ratio"] is not None for row in stopped[-1]["cpus"])
        assert ("hung", "bad", testpmd.pid) in [
            (one["kind"], one["severity"], (one["culprit"] or {}).get("pid"))
            for one in hung["incidents"]
        ]
        # The hang must not stretch nftop's own ticks; something else may stretch one.
        usual_s = median(frame["interval_s"] for frame in before[-3:])
        assert median(frame["interval_s"] for frame in stopped[1:]) < max(1.0, 2 * usual_s)
        take_until_measured(frames, "nftopz", 120)


def test_nftop_keeps_off_the_polling_core() -> None:
    with nftop("-d", "0.5") as frames, running_testpmd("nftopa") as testpmd:
        testpmd.command("start")
        measured = take_until_measured(frames, "nftopa", 120)
        assert len(measured) >= 3
        own = next(frames)["self"]
    assert 1 not in own["affinity"]
    assert own["warning"] == ""
    assert own["by_source"]["perf"]["counter_reads"] == os.cpu_count()
