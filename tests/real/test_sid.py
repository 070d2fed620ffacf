"""The kernel's own Python module, of a debootstrapped Debian sid: nftop counts with it for real.

`make lab-sid`; it downloads a Debian, so it is not part of CI. Of this host it counts what there is
without a PMU; in the lab, which emulates one, cycles and the kernel's top-down.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.lab.tests import steady
from tests.lab.tests.labs import enter, needs_lab
from tests.lab.tests.steady import LEVEL_1
from tests.lab.tests.test_topdown import CPUS, expected

pytestmark = [
    pytest.mark.sid,
    pytest.mark.alone,
    pytest.mark.skipif(os.geteuid() != 0, reason="chroot needs root"),
    pytest.mark.skipif(
        "NFTOP_SID" not in os.environ, reason="make lab-sid asks for it; it fetches a Debian"
    ),
]

REPOSITORY = Path(__file__).parents[2]
# The folder of the debootstrapped Debian; it is made once and kept.
ROOT = Path(os.environ.get("NFTOP_SID", "/nonexistent"))
PACKAGES = "python3,python3-numpy,python3-msgspec,python3-rich,linux-perf,strace"
# The repository within it, and what of this host a program there sees; the mounts end with it.
_HERE = "/mnt"
_ENTER = (
    "root=$1; repository=$2; shift 2; for each in proc sys dev run; do mount --rbind /$each "
    f'"$root/$each"; done; mount --bind "$repository" "$root{_HERE}"; exec chroot "$root" "$@"'
)
_TICKS = 3


@pytest.fixture(scope="module")
def debian() -> Path:
    if not list(ROOT.glob("usr/lib/python3/dist-packages/perf.cpython-*.so")):
        assert shutil.which("debootstrap"), "debootstrap is missing (apt-get install debootstrap)"
        subprocess.run(
            ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "sid", ROOT], check=True
        )
    return ROOT


def inside(debian: Path, *command: str) -> list[str]:
    """The command line that runs this one in that Debian."""
    environment = ["env", f"PYTHONPATH={_HERE}", "PYTHONDONTWRITEBYTECODE=1"]
    shell = ["unshare", "-m", "--propagation", "private", "sh", "-ec", _ENTER, "sh"]
    return [*shell, str(debian), str(REPOSITORY), *environment, *command]


def nftop(*options: str) -> tuple[str, ...]:
    return ("python3", "-m", "nftop", "--pmu", "python-perf", *options)


BATCH = nftop("--batch", "-n", str(_TICKS), "-d", "0.5", "--json")


def frames_of(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    assert (done.returncode, done.stderr) == (0, "")
    frames = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(frames) == _TICKS
    return frames


def here(debian: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        inside(debian, *command), capture_output=True, text=True, timeout=120, check=False
    )


def lab(debian: Path, *command: str, scenario: str = "default") -> subprocess.CompletedProcess[str]:
    options = ("--model", "icx", "--cpus", str(CPUS), "--scenario", scenario)
    return enter(*options, "--", *inside(debian, *command))


def test_context_switches_of_this_host_are_those_that_perf_stat_counts(debian: Path) -> None:
    """perf stat counts from before nftop starts until after it ends, so at least as many."""
    stat = ("perf", "stat", "-a", "-A", "-x,", "-o", "/tmp/nftop-stat", "-e", "context-switches")
    frames = frames_of(here(debian, *stat, "--", *BATCH))
    counted = dict(
        re.findall(r"^CPU(\d+),(\d+),", (debian / "tmp/nftop-stat").read_text(), re.MULTILINE)
    )
    assert {str(row["cpu"]) for row in frames[0]["cpus"]} == set(counted)
    for cpu, switches in counted.items():
        rates = [frame["cpus"][int(cpu)]["context_switches_per_s"] for frame in frames]
        seen = sum(rate * frame["interval_s"] for rate, frame in zip(rates, frames, strict=True))
        print(f"CPU {cpu}: nftop {seen:.0f} in its frames, perf stat {switches} in its life")
        assert 0 < seen <= int(switches)


def test_counts_of_this_host_are_between_those_of_nftop_s_own_groups(debian: Path) -> None:
    """Read before and after: per CPU switches and TSC, and all switches of /proc/stat."""
    done = here(debian, "python3", "-m", "tests.real.inside_sid", "bracketed")
    print(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")


def test_reported_reads_are_the_system_calls(debian: Path) -> None:
    trace = ("strace", "-f", "-e", "trace=read", "-o", "/tmp/nftop-reads")
    frames = frames_of(here(debian, *trace, *BATCH))
    # value, time enabled, time running
    traced = (debian / "tmp/nftop-reads").read_text()
    calls = len(re.findall(r", 24\) = 24$", traced, re.MULTILINE))
    a_tick = int(frames[-1]["self"]["by_source"]["perf"]["counter_reads"])
    print(f"{a_tick} reads a tick on {len(frames[0]['cpus'])} CPUs")
    assert a_tick > 0
    assert calls == a_tick * _TICKS  # the tick before them only opens


@needs_lab
def test_ipc_frequency_and_the_kernel_s_top_down_of_the_lab(debian: Path, tmp_path: Path) -> None:
    scenario = steady.written(tmp_path)
    frame = frames_of(lab(debian, *BATCH, scenario=scenario))[-1]
    assert frame["sources"]["perf"] == {**frame["sources"]["perf"], "state": "ok", "detail": ""}
    own = enter(
        "--model",
        "icx",
        "--cpus",
        str(CPUS),
        "--scenario",
        scenario,
        "--",
        sys.executable,
        "-m",
        "nftop",
        "--pmu",
        "perf",
        *BATCH[5:],
    )
    own_frame = frames_of(own)[-1]
    wanted = expected("ICX", smt=True, levels=1)
    pollers = [row for row in frame["cpus"] if row["busy_ratio"] > 0.9]
    assert len(pollers) >= CPUS // 4
    for row in pollers:
        other = own_frame["cpus"][row["cpu"]]
        assert row["ipc"] == pytest.approx(other["ipc"], rel=0.02)
        assert row["frequency_hz"] == pytest.approx(other["frequency_hz"], rel=1e-6)
        assert row["coverage"] == row["tma"]["coverage"] == 1.0
        for node in LEVEL_1:
            ratio = wanted[f"tma.{node}"][row["cpu"]]
            assert row["tma"][node] == pytest.approx(ratio, abs=0.001), (row["cpu"], node)


@needs_lab
def test_quiet_cpus_are_not_touched(debian: Path) -> None:
    trace = ("strace", "-f", "-e", "trace=perf_event_open", "-o", "/tmp/nftop-opens")
    frame = frames_of(lab(debian, *trace, *BATCH, "--quiet-cpus", "1-2,5"))[-1]
    opened = re.findall(r"\}, -1, (\d+), ", (debian / "tmp/nftop-opens").read_text())
    assert set(opened) == {str(cpu) for cpu in range(CPUS)} - {"1", "2", "5"}
    assert frame["cpus"][1]["missing"]["ipc"] == "source"


@needs_lab
def test_formulas_give_what_the_module_computes_itself(debian: Path) -> None:
    done = lab(debian, "python3", "-m", "tests.real.inside_sid", "formulas")
    print(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")


@needs_lab
def test_auto_takes_it_on_a_cpu_that_nftop_has_no_table_for(debian: Path) -> None:
    another = (
        r"sed 's/^model\t\t: .*/model\t\t: 250/' /proc/cpuinfo >/tmp/nftop-cpuinfo; "
        'mount --bind /tmp/nftop-cpuinfo /proc/cpuinfo; exec "$@"'
    )
    auto = [item for item in BATCH if item not in ("--pmu", "python-perf")]
    frame = frames_of(lab(debian, "sh", "-ec", another, "sh", *auto))[-1]
    assert frame["host"]["uarch"] == "generic"
    polling = [row for row in frame["cpus"] if row["busy_ratio"] > 0.9]
    assert polling
    for row in polling:
        assert sum(row["tma"][node] for node in LEVEL_1) == pytest.approx(1, abs=0.01)


@needs_lab
def test_auto_keeps_nftop_s_own_groups_for_a_known_cpu(debian: Path) -> None:
    done = lab(debian, "python3", "-m", "nftop", "doctor", "--json")
    checks = {check["name"]: check["text"] for check in json.loads(done.stdout)["checks"]}
    assert "Python module" not in checks["perf"]
    done = lab(debian, *nftop("doctor", "--json"))
    checks = {check["name"]: check["text"] for check in json.loads(done.stdout)["checks"]}
    assert "12 reads" in checks["perf"]
