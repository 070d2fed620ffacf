"""Everything that is too long for `make check`, one step after the other: `make release`.

Each step is a target of the Makefile. What a step lacks on this machine is known before it runs:
it is skipped then, with the reason. The output of a step goes to `build/release/STEP.log`, the
report to standard output and to `build/release/report.json`.

    python -m tests.release --list
    python -m tests.release --only faults,soak

Exit code: 0 all steps ran and passed, 1 a step failed, 3 none failed but some were skipped, or
tests within a step.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from nftop import __version__
from tests.house import ROOT

FOLDER = ROOT / "build/release"
PASSED, FAILED, INCOMPLETE = 0, 1, 3
_SKIPPED = re.compile(r"\b([0-9]+) skipped\b")


@dataclass(frozen=True, slots=True)
class ReleaseStep:
    """One target of the Makefile.

    Attributes:
        about: what it shows.
        minutes: how long it takes, about; it is ended after ten times as long.
        root: whether it needs root.
        programs: that it needs.
        variables: of make.
    """

    target: str
    about: str
    minutes: int
    root: bool = False
    programs: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()

    @property
    def command(self) -> tuple[str, ...]:
        return ("make", self.target, *self.variables)

    def lacks(self) -> str:
        """Why it can't run here; "" if it can."""
        if self.root and os.geteuid() != 0:
            return "needs root"
        missing = [program for program in self.programs if shutil.which(program) is None]
        return f"not installed: {', '.join(missing)}" if missing else ""


STEPS: tuple[ReleaseStep, ...] = (
    ReleaseStep("check", "what CI runs", 20),
    ReleaseStep("audit", "known holes of dependencies", 1),
    ReleaseStep("soak", "fuzzers, an hour", 60, variables=("SECONDS=3600",)),
    ReleaseStep("faults", "faults of sources, every pair", 10),
    ReleaseStep("experiments", "sweeps whose best mask is known", 5),
    ReleaseStep("matrix", "every combination of machine, kernel and mode", 5, root=True),
    ReleaseStep("lab-series", "guards of sweeps that are killed", 30, root=True),
    ReleaseStep("kills", "1,000 kills, every kind of change", 30, root=True),
    ReleaseStep("lab-big", "changes on 512 CPUs", 10, root=True),
    ReleaseStep("bench", "costs of nftop beside its targets", 15),
    ReleaseStep("bench-memory", "memory over eight simulated hours", 10),
    ReleaseStep("fleet-bench", "1,000 hosts in Prometheus", 5, programs=("apt-get", "dpkg")),
    ReleaseStep(
        "fleet-ssh", "hosts over a real sshd", 2, root=True, programs=("apt-get", "dpkg", "ssh")
    ),
    ReleaseStep("history", "a week of three hosts, a sample a minute", 45),
    ReleaseStep(
        "endurance", "an hour at 10 Hz beside testpmd", 65, root=True, programs=("dpdk-testpmd",)
    ),
    ReleaseStep(
        "observer", "what polling cores lose beside monitors", 70,
        root=True, programs=("dpdk-testpmd", "ovs-vsctl"),
    ),
    ReleaseStep("chromium", "reports in a browser and on paper", 3),
    ReleaseStep("prometheus", "Prometheus scrapes nftop", 2, programs=("apt-get", "dpkg")),
    ReleaseStep(
        "deb-check", "the package in Debian 12 and 13", 20,
        root=True, programs=("debootstrap",), variables=("RELEASE=bookworm trixie",),
    ),
    ReleaseStep(
        "units-check", "its units under systemd there", 20,
        root=True, programs=("debootstrap", "systemd-nspawn"),
        variables=("RELEASE=bookworm trixie",),
    ),
    ReleaseStep(
        "install-check", "pipx, uv in a bare Debian", 20,
        root=True, programs=("debootstrap",), variables=("RELEASE=bookworm trixie",),
    ),
    ReleaseStep("newer-dpdk", "a newer DPDK", 15, root=True, programs=("debootstrap",)),
    ReleaseStep("newer-ovs", "newer Open vSwitches", 15, root=True, programs=("debootstrap",)),
    ReleaseStep("lab-sid", "the kernel's Python module", 15, root=True, programs=("debootstrap",)),
)  # fmt: skip
State = Literal["passed", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class StepResult:
    """How a step ended.

    Attributes:
        why: reason of a failure or of skipping; "" if it passed.
        skipped_tests: of its tests, skipped ones.
    """

    target: str
    state: State
    seconds: float = 0.0
    why: str = ""
    skipped_tests: int = 0


def run_step(step: ReleaseStep, folder: Path = FOLDER) -> StepResult:
    """Run a step, its output in a file of the folder; it is ended after ten times its time."""
    why = step.lacks()
    if why:
        return StepResult(step.target, "skipped", why=why)
    folder.mkdir(parents=True, exist_ok=True)
    log, began_s = folder / f"{step.target}.log", time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            step.command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(step.minutes * 600)
            why = "" if code == 0 else f"exit code {code}, see {log.name}"
        except subprocess.TimeoutExpired:
            why = f"did not end within {10 * step.minutes} minutes"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    seconds = time.monotonic() - began_s
    if why:
        return StepResult(step.target, "failed", seconds, why)
    return StepResult(step.target, "passed", seconds, skipped_tests=skipped_tests(log.read_text()))


def skipped_tests(output: str) -> int:
    """Number of skipped tests in the summaries of pytest."""
    return sum(map(int, _SKIPPED.findall(output)))


def exit_code(results: Sequence[StepResult]) -> int:
    if any(result.state == "failed" for result in results):
        return FAILED
    whole = all(result.state == "passed" and not result.skipped_tests for result in results)
    return PASSED if whole else INCOMPLETE


def line(result: StepResult) -> str:
    """One line of the report."""
    minutes = f"{result.seconds / 60:.1f} min" if result.seconds else ""
    tests = f"{result.skipped_tests} tests skipped" if result.skipped_tests else ""
    return f"{result.state:8}{result.target:14}{minutes:>10}  {result.why or tests}".rstrip()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.release")
    parser.add_argument("--only", metavar="STEP,...", help="these steps")
    parser.add_argument("--list", action="store_true", help="the steps, and what they lack here")
    options = parser.parse_args(arguments)
    names = options.only.split(",") if options.only else [step.target for step in STEPS]
    unknown = set(names) - {step.target for step in STEPS}
    if unknown:
        parser.error(f"no such step: {', '.join(sorted(unknown))}")
    steps = [step for step in STEPS if step.target in names]
    if options.list:
        for step in steps:
            print(f"{step.target:14}{step.minutes:>4} min  {step.about}{_brackets(step.lacks())}")
        return PASSED
    results: list[StepResult] = []
    for step in STEPS:
        if step in steps:
            results.append(run_step(step))
        else:
            results.append(StepResult(step.target, "skipped", why="not selected"))
        print(line(results[-1]), flush=True)
    FOLDER.mkdir(parents=True, exist_ok=True)
    report = {"nftop": __version__, "steps": [asdict(result) for result in results]}
    (FOLDER / "report.json").write_text(json.dumps(report, indent=2) + "\n")
    return exit_code(results)


def _brackets(text: str) -> str:
    return f" ({text})" if text else ""


if __name__ == "__main__":
    sys.exit(main())
