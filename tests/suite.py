"""Runs the whole suite, once or again and again, and ends with one line of totals.

`make test` and `make check` run it once. `make stress` repeats it in random order, some of the runs
beside programs that use all CPU time they get, to find tests that fail now and then.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from xml.etree import ElementTree as ET

# pytest's exit codes of a run that counted: all passed, some failed, none selected.
_COUNTED = (0, 1, 5)

# Each ends when its parent has: the suite can be killed.
_HOG = """
import os, sys
parent = int(sys.argv[2])
for _ in range(int(sys.argv[1]) - 1):
    own = os.getpid()
    if not os.fork():
        parent = own
        break
while os.getppid() == parent:
    for _ in range(1_000_000):
        pass
"""


@dataclass(frozen=True, slots=True)
class Totals:
    """Numbers of tests; one that fails in its set-up or clean-up is a failed one."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: Totals) -> Totals:
        return Totals(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    total = Totals()
    for run in range(options.runs):
        hogs = options.hogs if run >= options.runs - options.hogged else 0
        seed = random.randrange(1 << 32) if options.shuffle else None
        started_s = time.monotonic()
        with load(hogs):
            totals = _run(options.jobs, seed, options.pytest)
        total += totals
        if options.runs > 1:
            order = "" if seed is None else f", order {seed}"
            took_s = time.monotonic() - started_s
            print(f"run {run + 1} of {options.runs}, {hogs} hogs{order}, {took_s:.0f} s: {totals}")
    print(f"total: {total}", flush=True)
    return 1 if total.failed or not total.passed else 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.suite", description=__doc__)
    parser.add_argument("--jobs", type=int, default=2, help="tests at once in the first half")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--hogs", type=int, default=8, help="programs beside a run with load")
    parser.add_argument("--hogged", type=int, default=0, help="how many of the runs, the last ones")
    parser.add_argument("--shuffle", action="store_true", help="in random order, which is printed")
    parser.add_argument("pytest", nargs="*", help="more arguments for pytest, behind --")
    return parser.parse_args(arguments)


def _run(jobs: int, seed: int | None, more: list[str]) -> Totals:
    """Both halves: what may run at the same time, then what measures or binds this machine."""
    order = [] if seed is None else ["--random-order", f"--random-order-seed={seed}"]
    # A worker without tests takes some of another's, so that none is busy alone at the end.
    halves = (["-n", str(jobs), "--dist", "worksteal", "-m", "not alone"], ["-m", "alone"])
    total = Totals()
    for half in halves:
        total += _half([*half, *order, *more])
    return total


def _half(arguments: list[str]) -> Totals:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory(prefix="nftop-suite-") as folder:
        report = Path(folder, "report.xml")
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "--durations=15",
            f"--junitxml={report}",
            *arguments,
        ]
        code = subprocess.run(command, env=environment, check=False).returncode
        totals = count(report.read_bytes()) if report.exists() else Totals()
    # What ends without counting its failures, as a crash or an error of collection, is one.
    return (
        totals
        if code in _COUNTED and bool(totals.failed) == (code == 1)
        else totals + Totals(failed=1)
    )


def count(report: bytes) -> Totals:
    """Totals of pytest's JUnit report, which lists a test twice if its clean-up fails too."""
    results: dict[tuple[str | None, str | None], set[str]] = {}
    for case in ET.fromstring(report).iter("testcase"):
        tags = results.setdefault((case.get("classname"), case.get("name")), set())
        tags.update(child.tag for child in case)
    failed = sum(bool(tags & {"failure", "error"}) for tags in results.values())
    skipped = sum(
        "skipped" in tags and not tags & {"failure", "error"} for tags in results.values()
    )
    return Totals(len(results) - failed - skipped, failed, skipped)


@contextmanager
def load(hogs: int) -> Iterator[int]:
    """Processes that use all CPU time they get, for the time of the context.

    They share a session, as the work of another login does. Where the scheduler groups sessions
    (`kernel.sched_autogroup_enabled`), they get a half of the machine, else the part of so many
    processes. Yields the session's id, 0 without any.
    """
    if not hogs:
        yield 0
        return
    hog = [sys.executable, "-c", _HOG, str(hogs), str(os.getpid())]
    first = subprocess.Popen(hog, start_new_session=True)
    try:
        yield first.pid
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()


if __name__ == "__main__":
    sys.exit(main())
