"""DPDK 24.11 in a debootstrapped Debian: testpmd's own cycles per packet are the oracle.

`make newer-dpdk`; it downloads a Debian, so it is not part of CI.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.real.test_batch import nf_of, nftop, row_of, take_until_measured
from tests.real.testpmd import running_testpmd

pytestmark = [
    pytest.mark.newer,
    pytest.mark.alone,
    pytest.mark.skipif(os.geteuid() != 0, reason="chroot needs root"),
    pytest.mark.skipif(
        "NFTOP_NEWER" not in os.environ, reason="make newer-dpdk asks for it; it fetches a Debian"
    ),
]

SUITE = "trixie"
# The folder of the debootstrapped Debian; it is made once and kept.
ROOT = Path(os.environ.get("NFTOP_NEWER", "/nonexistent"))
SHARED = ("/proc", "/sys", "/dev", "/run")


@pytest.fixture(scope="module")
def debian() -> Path:
    if not (ROOT / "usr/bin/dpdk-testpmd").exists():
        assert shutil.which("debootstrap"), "debootstrap is missing (apt-get install debootstrap)"
        subprocess.run(
            ["debootstrap", "--variant=minbase", "--include=dpdk-dev", SUITE, ROOT], check=True
        )
    return ROOT


@contextmanager
def mounted(root: Path) -> Iterator[None]:
    """/proc, /sys, /dev and /run of this host inside `root`, and gone again afterwards."""
    with ExitStack() as undo:
        for folder in SHARED:
            subprocess.run(["mount", "--bind", folder, f"{root}{folder}"], check=True)
            undo.callback(subprocess.run, ["umount", "-l", f"{root}{folder}"], check=True)
        yield


def test_busy_cycles_per_packet_are_those_that_testpmd_prints(debian: Path) -> None:
    binary = ["chroot", str(debian), "dpdk-testpmd"]
    with (
        mounted(debian),
        running_testpmd("nf24", extra_app=["--record-core-cycles"], binary=binary) as testpmd,
        nftop("-d", "1") as frames,
    ):
        testpmd.command("start")
        measured = take_until_measured(frames, "nf24", 120)
        measured += [next(frames) for _ in range(4)]
        printed = testpmd.command("stop")
    oracle = re.search(r"CPU cycles/packet=([\d.]+)", printed)
    assert oracle, printed
    rows = [row for frame in measured if (row := row_of(frame, "nf24")) and row["busy_cpp"]]
    assert len(rows) >= 5
    mean = sum(row["busy_cpp"] for row in rows) / len(rows)
    print(f"testpmd {oracle[1]} cycles/packet, nftop {mean:.2f} over {len(rows)} frames")
    assert mean == pytest.approx(float(oracle[1]), rel=0.05)
    for row in rows:
        assert 0 < row["busy_ratio"] <= 1
        assert row["cpp"] >= row["busy_cpp"]
    nf = nf_of(measured[-1], "nf24")
    assert nf is not None and nf["attribution"] == "its only polling lcore has every queue"
