"""`make observer`: what a polling core loses while nftop looks at it.

A real testpmd forwards between null devices on a core of its own. In short blocks, by turns in an
order that chance decides, nftop is attached to the host or is not there at all; of each block are
taken testpmd's packets per second, by its own statistics, and the interrupts and context switches
of its core and thread. The test is a sign-flip permutation test of the paired differences of
log(packets per second): it assumes no distribution, only that a pair could as well have come the
other way round if nftop made no difference.
"""

from __future__ import annotations

import json
import random
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nftop.model.column import Floats
from tests.real.testpmd import Testpmd, running_testpmd

_PAIRS, _BLOCK_S, _DELAY_S = 40, 2.0, 1.0
_FLIPS = 20_000
_CPU = 1  # testpmd's worker; see tests/real/testpmd.py
_WORKER = "rte-worker-1"


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


def main() -> None:
    """Measure and print."""
    with running_testpmd("nftopobserved") as testpmd:
        testpmd.command("start")
        order = random.Random(_PAIRS)
        pairs: list[tuple[Block, Block]] = []
        for number in range(_PAIRS):
            first_with = order.random() < 0.5
            one, two = (_block(testpmd, attached=flag) for flag in (first_with, not first_with))
            pairs.append((one, two) if first_with else (two, one))
            print(f"\r{number + 1}/{_PAIRS} pairs", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
        testpmd.command("stop")
    report(pairs)


def report(pairs: Sequence[tuple[Block, Block]]) -> None:
    """Print what pairs of blocks, with and without nftop, say."""
    ratios = np.log([with_.packets / without.packets for with_, without in pairs])
    p = sign_flip_p(ratios, _FLIPS)
    low, high = median_interval(ratios, _FLIPS)
    percent = 100 * np.expm1([np.median(ratios), low, high])
    print(
        f"testpmd on CPU {_CPU}, nftop -d {_DELAY_S:g}: {len(pairs)} pairs of {_BLOCK_S:g} s\n"
        f"  packets/s with nftop against without: {percent[0]:+.3f} % (median of pairs; 95 % "
        f"interval {percent[1]:+.3f} to {percent[2]:+.3f} %, bootstrap)\n"
        f"  two-sided sign-flip permutation test of mean log ratio: p = {p:.3f}"
    )
    for what in ("interrupts", "switches"):
        with_, without = (
            np.median([getattr(block, what) for block in side]) for side in zip(*pairs, strict=True)
        )
        print(f"  {what}/s of its core: {with_:.1f} with, {without:.1f} without (medians)")


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


def _block(testpmd: Testpmd, *, attached: bool) -> Block:
    if not attached:
        return _measured(testpmd)
    with _nftop():
        return _measured(testpmd)


@contextmanager
def _nftop() -> Iterator[None]:
    """nftop on this host, from its second frame on: it keeps off the polling core by then."""
    command = [sys.executable, "-m", "nftop", "--batch", "--json", "-d", str(_DELAY_S)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        try:
            for _ in range(2):
                json.loads(process.stdout.readline())
            yield
        finally:
            process.kill()


def _measured(testpmd: Testpmd) -> Block:
    before = _look(testpmd)
    time.sleep(_BLOCK_S)
    after = _look(testpmd)
    seconds = (after.at_ns - before.at_ns) / 1e9
    return Block(
        (after.packets - before.packets) / seconds,
        (after.interrupts - before.interrupts) / seconds,
        (after.switches - before.switches) / seconds,
    )


def _look(testpmd: Testpmd) -> Seen:
    packets = _packets(testpmd.socket)
    return Seen(time.monotonic_ns(), packets, _interrupts(_CPU), _switches(testpmd.pid))


def _packets(path: Path) -> int:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(str(path))
        connection.recv(16384)  # who it is
        connection.send(b"/ethdev/stats,0")
        return int(json.loads(connection.recv(16384))["/ethdev/stats"]["ipackets"])


def _interrupts(cpu: int) -> int:
    """All that /proc/interrupts counts on a CPU, timer and cross-CPU calls included."""
    head, *lines = Path("/proc/interrupts").read_text(encoding="ascii").splitlines()
    column = head.split().index(f"CPU{cpu}") + 1
    rows = (line.split() for line in lines)
    return sum(int(row[column]) for row in rows if len(row) > column and row[column].isdecimal())


def _switches(pid: int) -> int:
    """Of testpmd's worker, those it asked for and those it did not."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text(encoding="ascii").strip() == _WORKER:
            result = re.findall(r"ctxt_switches:\s*(\d+)", (task / "status").read_text())
            return sum(map(int, result))
    raise LookupError(f"testpmd {pid} has no thread {_WORKER}")


if __name__ == "__main__":
    main()
