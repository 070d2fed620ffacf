"""nftop's IPC and top-down are the model's, and those of `perf stat --topdown` run beside it."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from nftop.sim.model import Model
from tests.lab.tests import steady
from tests.lab.tests.labs import enter, needs_lab

pytestmark = [
    needs_lab,
    pytest.mark.skipif(shutil.which("perf") is None, reason="perf is missing: linux-perf"),
]
CPUS = 8
# Both of them count, with the watchdog and without it. perf starts its events one after the other:
# the clock runs while all of them are on.
_NFTOP = f"{sys.executable} -m nftop --batch -n 4 -d 0.1 --json"
_CLOCK = "/sys/fs/lab/live/ctl/clock"
_ADJACENT = f"""
for watchdog in 1 0; do
    echo $watchdog > /proc/sys/kernel/nmi_watchdog
    LC_ALL=C perf stat -o /dev/stdout -a --per-core --topdown --td-level 1 \
        sh -c 'echo run > {_CLOCK}; {_NFTOP}; echo freeze > {_CLOCK}'
    echo end
done
"""


def runs(machine: str, smt: str, scenario: str) -> list[tuple[dict[str, Any], list[list[float]]]]:
    """Of each run nftop's last frame and the rows of level 1 that perf printed."""
    # Where perf finds PMUs of boxes, comparing names with theirs is most of its CPU time.
    pmu = ("--pmu", "own" if smt == "on" else "cores")
    host = (*pmu, "--model", machine, "--cpus", str(CPUS), "--smt", smt, "--scenario", scenario)
    done = enter(*host, "--freeze", "60", "--", "sh", "-c", _ADJACENT)
    assert done.returncode == 0, done.stderr
    result = []
    for text in done.stdout.split("end\n")[:-1]:
        lines = text.splitlines()
        frames = [json.loads(line) for line in lines if line.startswith("{")]
        percents = (re.findall(r"(-?[0-9.]+)%", line) for line in lines if line[:1] != "{")
        rows = [[float(item) / 100 for item in row] for row in percents if len(row) == 4]
        result.append((frames[-1], rows))
    return result


def cores(model: Model) -> list[list[int]]:
    """Their CPUs, in the order in which perf prints cores."""
    every: list[list[int]] = [[info.cpu, *info.siblings] for info in model.layout.topology.cpus]
    return [core for core in every if core[0] == min(core)]


@pytest.mark.parametrize("smt", ["on", "off"])
@pytest.mark.parametrize("machine", ["bdx", "skx-4", "icx", "spr"])
def test_numbers_are_the_models_and_perfs(machine: str, smt: str, tmp_path: Path) -> None:
    model = steady.model(CPUS, smt=smt == "on")
    cycles, instructions = (steady.rates(model, name) for name in ("cycles", "instructions"))
    for frame, printed in runs(machine, smt, steady.written(tmp_path)):
        busy = {cpu["cpu"] for cpu in frame["cpus"] if cpu["busy_ratio"] > 0.9}
        assert len(busy) >= 2
        for cpu in frame["cpus"]:
            number = cpu["cpu"]
            assert cpu["ipc"] == pytest.approx(instructions[number] / cycles[number], rel=1e-3)
            core = [number, *cpu["siblings"]]
            if busy.isdisjoint(core):
                continue  # cores that sleep have no shares
            wanted = steady.shares(model, core, clears_move=machine == "icx")
            assert [cpu["tma"][node] for node in steady.LEVEL_1] == pytest.approx(wanted, abs=1e-3)
        for row, core in zip(printed, cores(model), strict=True):
            assert row == pytest.approx(steady.shares(model, core), abs=6e-4)
