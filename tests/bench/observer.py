"""`make observer`: what a polling core loses while a monitor looks at the host.

A real testpmd, and then a real Open vSwitch with DPDK, forwards between null devices on a core of
its own. In rounds of short blocks, in an order that chance decides, nothing looks on, or nftop at 1
and at 10 Hz, htop, btop, `perf stat`, or the sensor server of PCM that is scraped each second. Of
each block are taken the application's packets per second, by its own statistics, and the interrupts
of its core and the context switches of its thread. A monitor is compared with nothing in the same
round. The test is a sign-flip permutation test of the paired differences of log(packets per
second): it assumes no distribution, only that a pair could as well have come the other way round if
the monitor made no difference. Its p are corrected for the number of monitors (Holm, 1979).
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nftop.model.column import Floats
from tests.bench.programs import on_terminal
from tests.real.ovs import Ovs, dpdk_ovs
from tests.real.testpmd import Testpmd, running_testpmd

_BLOCK_S, _WARM_S, _START_S = 2.0, 4.0, 60.0
_FLIPS = 20_000
_CPU = 1  # the worker's; see tests/real
_NFTOP = (sys.executable, "-m", "nftop", "-d")
# What looks on, each on a terminal; nothing is the first.
MONITORS: Mapping[str, tuple[str, ...]] = {
    "nothing": (),
    "nftop, 1 Hz": (*_NFTOP, "1"),
    "nftop, 10 Hz": (*_NFTOP, "0.1"),
    "htop": ("htop",),
    "btop": ("btop",),
    "perf stat -I 1000": ("perf", "stat", "-a", "-I", "1000"),
    "pcm-sensor-server": ("pcm-sensor-server", "-p", "19738"),
}
_SERVER = "http://127.0.0.1:19738/"


@dataclass(frozen=True, slots=True)
class Seen:
    """At one moment: CLOCK_MONOTONIC, packets received, the core's interrupts, its switches."""

    at_ns: int
    packets: int
    interrupts: int
    switches: int


@dataclass(frozen=True, slots=True)
class Block:
    """Per second."""

    packets: float
    interrupts: float
    switches: float


@dataclass(frozen=True, slots=True)
class Application:
    """What forwards: its process, the name of its polling thread, its packets so far."""

    name: str
    pid: int
    thread: str
    packets: Callable[[], int]


class MonitorEndedError(RuntimeError):
    """A monitor that does not run on this machine."""


def main(rounds: int) -> None:
    """Measure and print."""
    with running_testpmd("nftopobserved") as testpmd:
        testpmd.command("start")
        _measure(_testpmd(testpmd), rounds)
        testpmd.command("stop")
    with dpdk_ovs() as ovs:
        _measure(_ovs(ovs), rounds)


def _measure(application: Application, rounds: int) -> None:
    order = random.Random(rounds)
    blocks: list[dict[str, Block]] = []
    absent: dict[str, str] = {}
    for number in range(rounds):
        seen = dict[str, Block]()
        for name in order.sample(list(MONITORS), len(MONITORS)):
            if name not in absent:
                try:
                    with _monitor(name):
                        seen[name] = _measured(application)
                except MonitorEndedError as error:
                    absent[name] = str(error)
        blocks.append(seen)
        print(f"\r{number + 1}/{rounds} rounds", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    print(
        f"{application.name} on CPU {_CPU}: {rounds} rounds of blocks of {_BLOCK_S:g} s, "
        f"load {os.getloadavg()[0]:.1f} at the end"
    )
    report(blocks)
    for name, why in absent.items():
        print(f"  {name:<18} not measured: {why}")


def report(blocks: Sequence[Mapping[str, Block]]) -> None:
    """Print, for each monitor of some rounds, what it costs against nothing."""
    nothing = next(iter(MONITORS))
    names = [name for name in MONITORS if all(name in seen for seen in blocks)]
    ratios = {
        name: np.log([seen[name].packets / seen[nothing].packets for seen in blocks])
        for name in names
        if name != nothing
    }
    p = holm({name: sign_flip_p(values, _FLIPS) for name, values in ratios.items()})
    print(
        f"  {'':<18}{'packets/s':>10}{'95 % interval':>20}{'p':>8}{'interrupts/s':>14}"
        f"{'switches/s':>12}"
    )
    for name in names:
        cells = f"{'':>10}{'':>20}{'':>8}"
        if name != nothing:
            low, high = median_interval(ratios[name], _FLIPS)
            middle, low, high = 100 * np.expm1([np.median(ratios[name]), low, high])
            cells = f"{middle:>+8.2f} %{f'{low:+.2f} to {high:+.2f} %':>20}{p[name]:>8.3f}"
        counts = [
            float(np.median([getattr(seen[name], what) for seen in blocks]))
            for what in ("interrupts", "switches")
        ]
        print(f"  {name:<18}{cells}{counts[0]:>14.1f}{counts[1]:>12.1f}")
    print(
        "  packets/s: median of the rounds' ratios to nothing, bootstrap interval; p: two-sided\n"
        "  sign-flip permutation test of the mean log ratio, Holm's correction; others: medians"
    )


def holm(p: Mapping[str, float]) -> dict[str, float]:
    """p of several tests, such that one below 0.05 comes by chance in 5 % of such families."""
    adjusted, largest = dict[str, float](), 0.0
    for at, (name, value) in enumerate(sorted(p.items(), key=lambda item: item[1])):
        largest = max(largest, min(1.0, value * (len(p) - at)))
        adjusted[name] = largest
    return adjusted


def sign_flip_p(differences: Floats, flips: int) -> float:
    """Two-sided p of the mean of paired differences, by `flips` random changes of their signs."""
    chance = np.random.default_rng(0)
    signs = chance.choice((-1.0, 1.0), size=(flips, len(differences)))
    means = np.abs(signs @ differences) / len(differences)
    # The observed signs are one of the possible ones.
    as_far = np.count_nonzero(means >= abs(differences.mean()) * (1 - 1e-12))
    return float((as_far + 1) / (flips + 1))


def median_interval(values: Floats, draws: int) -> tuple[float, float]:
    """The 95 % bootstrap interval of the median."""
    chance = np.random.default_rng(0)
    picked = chance.integers(0, len(values), size=(draws, len(values)))
    low, high = np.quantile(np.median(values[picked], axis=1), (0.025, 0.975))
    return float(low), float(high)


@contextmanager
def _monitor(name: str) -> Iterator[None]:
    """A monitor on a terminal of its own, once it has been at it for some seconds.

    Raises MonitorEndedError: it is not installed, or ends.
    """
    command = MONITORS[name]
    if not command:
        time.sleep(_WARM_S)
        yield
        return
    if shutil.which(command[0]) is None:
        raise MonitorEndedError("not installed")
    output, over = bytearray(), threading.Event()
    with on_terminal(list(command)) as (child, terminal):

        def read() -> None:
            with suppress(OSError):  # it has ended
                while not over.is_set():
                    output[:] = (output + os.read(terminal, 65536))[-65536:]

        def scrape() -> None:
            while not over.wait(1.0):
                with suppress(OSError), urllib.request.urlopen(_SERVER, timeout=1.0) as page:
                    page.read()

        threads = [threading.Thread(target=read, daemon=True)]
        threads += [threading.Thread(target=scrape, daemon=True)] * (name == "pcm-sensor-server")
        for thread in threads:
            thread.start()
        end_s = time.monotonic() + _START_S
        # nftop writes a first frame before its libraries are imported: its footer comes after.
        started = b"quit" if "nftop" in name else b""
        while not output or started not in output:
            if child.poll() is not None or time.monotonic() > end_s:
                break
            time.sleep(0.05)
        time.sleep(_WARM_S)
        _require_running(child, output)
        try:
            yield
            _require_running(child, output)
        finally:
            over.set()


def _require_running(child: subprocess.Popen[bytes], output: bytearray) -> None:
    if child.poll() is not None:
        lines = output.decode(errors="replace").strip().splitlines() or [""]
        raise MonitorEndedError(f"it ended: {lines[-1].strip()[:100]}")


def _measured(application: Application) -> Block:
    before = _examine(application)
    time.sleep(_BLOCK_S)
    after = _examine(application)
    seconds = (after.at_ns - before.at_ns) / 1e9
    return Block(
        (after.packets - before.packets) / seconds,
        (after.interrupts - before.interrupts) / seconds,
        (after.switches - before.switches) / seconds,
    )


def _examine(application: Application) -> Seen:
    # What asking costs its main thread is not of the worker's block.
    packets, now_ns = application.packets(), time.monotonic_ns()
    return Seen(now_ns, packets, _interrupts(_CPU), _switches(application))


def _testpmd(testpmd: Testpmd) -> Application:
    def packets() -> int:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.connect(str(testpmd.socket))
            connection.recv(16384)  # who it is
            connection.send(b"/ethdev/stats,0")
            return int(json.loads(connection.recv(16384))["/ethdev/stats"]["ipackets"])

    return Application("testpmd", testpmd.pid, "rte-worker-1", packets)


def _ovs(ovs: Ovs) -> Application:
    def packets() -> int:
        text = ovs.appctl("dpif-netdev/pmd-stats-show").partition("main thread:")[0]
        return int(text.partition("packets received:")[2].split()[0])

    return Application("OVS with DPDK", ovs.pid, "pmd-", packets)


def _interrupts(cpu: int) -> int:
    """All that /proc/interrupts counts on a CPU, timer and cross-CPU calls included."""
    head, *lines = Path("/proc/interrupts").read_text(encoding="ascii").splitlines()
    column = head.split().index(f"CPU{cpu}") + 1
    rows = (line.split() for line in lines)
    return sum(int(row[column]) for row in rows if len(row) > column and row[column].isdecimal())


def _switches(application: Application) -> int:
    """Of its polling thread, those it asked for and those it did not."""
    for task in Path(f"/proc/{application.pid}/task").iterdir():
        if (task / "comm").read_text(encoding="ascii").startswith(application.thread):
            result = re.findall(r"ctxt_switches:\s*(\d+)", (task / "status").read_text())
            return sum(map(int, result))
    raise LookupError(f"{application.name} {application.pid} has no thread {application.thread}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
