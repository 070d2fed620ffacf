"""Top-down of a whole host, by nftop inside, against what the model it counts was given."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from nftop.model.column import Column, column
from nftop.sim.events import parts_of
from nftop.sim.model import model_of
from nftop.sim.scenario import load
from nftop.sim.workloads import INDEX
from nftop.uarch import table
from nftop.uarch.siblings import sum_siblings
from nftop.uarch.topdown import evaluate
from tests.lab.tests.labs import enter, needs_lab
from tests.uarch.counters import core_encoding, on_core

pytestmark = needs_lab
CPUS = 8
LEVEL_1 = ("frontend_bound", "bad_speculation", "backend_bound", "retiring")
LEVEL_2 = ("fetch_latency", "fetch_bandwidth", "branch_mispredicts", "machine_clears")


def expected(uarch: str) -> dict[str, Column]:
    """By the table's formulas, of the model's own counts of a second."""
    known = table.load(uarch)
    model = model_of(load("default"), CPUS)
    counts = model.exact(2 * 10**9, range(CPUS)) - model.exact(10**9, range(CPUS))
    columns = {}
    for event, spec in known.events.items():
        parts = parts_of(core_encoding(spec), uarch) if on_core(spec) else None
        if parts is not None:
            by_cpu = sum(factor * counts[:, INDEX[name]] for name, factor in parts.items())
            columns[event] = column(np.zeros(CPUS) + by_cpu)
    return evaluate(known, sum_siblings(columns, model.layout.topology), smt=True, levels=2)


@pytest.mark.parametrize("watchdog", ["on", "off"])
@pytest.mark.parametrize(
    ("machine", "uarch", "nodes"),
    [
        ("icx", "ICX", LEVEL_1 + LEVEL_2),
        ("skx-4", "SKX", LEVEL_1),
        ("skx-7", "CLX", LEVEL_1),
    ],
)
def test_ratios_are_the_model_s(
    machine: str, uarch: str, nodes: tuple[str, ...], watchdog: str
) -> None:
    lab = ("--model", machine, "--cpus", str(CPUS), "--watchdog", watchdog)
    run = (sys.executable, "-m", "nftop", "--batch", "-n", "3", "-d", "0.5", "--json")
    done = enter(*lab, "--", *run)
    assert (done.returncode, done.stderr) == (0, "")
    frame = json.loads(done.stdout.splitlines()[-1])
    assert frame["host"]["uarch"] == uarch
    wanted = expected(uarch)
    busy = {cpu["cpu"]: cpu["busy_ratio"] > 0.9 for cpu in frame["cpus"]}
    # Cores that sleep have no ratios.
    exact = [
        cpu
        for cpu in frame["cpus"]
        if busy[cpu["cpu"]] or any(busy[each] for each in cpu["siblings"])
    ]
    assert len(exact) >= CPUS // 2
    for cpu in exact:
        for node in nodes:
            ratio = wanted[f"tma.{node}"][cpu["cpu"]]
            assert cpu["tma"][node] == pytest.approx(ratio, abs=0.001), (cpu["cpu"], node)
