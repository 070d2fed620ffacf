"""Debian's `perf stat` while the lab's clock stands but for one step: counts are exact then.

The command that perf runs takes the step, so every event is on from before it until after it.
"""

from __future__ import annotations

import csv
import re
import shutil
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pytest

from nftop.model.column import Floats
from nftop.sim.events import count
from nftop.sim.workloads import INDEX
from nftop.uarch.table import Encoding, EventSpec, PmuTerms
from tests.lab import machine as machines
from tests.lab.tests.events import CPUS, RAW, S, model
from tests.lab.tests.labs import enter, needs_lab

pytestmark = [
    needs_lab,
    pytest.mark.skipif(shutil.which("perf") is None, reason="perf is missing: linux-perf"),
]
EVERY = pytest.mark.parametrize("machine", machines.names())
# Whose perf counts slots by AnyThread, and whose by PERF_METRICS.
BY_CORE = pytest.mark.parametrize("machine", ["bdx", "skx-4", "skx-7"])
BY_METRICS = pytest.mark.parametrize("machine", ["icx", "spr"])
FROM_NS, UNTIL_NS = 60 * S, 70 * S
STEP = "echo step 10 > /sys/fs/lab/live/ctl/clock"
CODES: dict[str, EventSpec] = {
    "cycles": Encoding(0, 0),
    "instructions": Encoding(0, 1),
    "LLC-loads": Encoding(3, 2),
    "ref-cycles": Encoding(0, 9),
    "r2c2": Encoding(RAW, 0x2C2),
    "msr/aperf/": PmuTerms("msr", "aperf"),
}
# perf's names of the four, in the order of `--topdown`, and of the eight that follow.
LEVEL_1 = ("retiring", "bad_speculation", "frontend_bound", "backend_bound")
LEVEL_2 = 8


def stat(machine: str, *arguments: str, command: str = STEP, watchdog: str = "off") -> str:
    lab = ("--model", machine, "--cpus", str(CPUS), "--no-resctrl", "--freeze", "60")
    perf = ("env", "LC_ALL=C", "perf", "stat", *arguments, "sh", "-c", command)
    ran = enter(*lab, "--watchdog", watchdog, "--", *perf)
    assert ran.returncode == 0, ran.stderr
    return ran.stderr


def shares(cpus: Sequence[int]) -> Floats:
    """Level 1 in percent of some cores' slots, all threads of which are among the CPUs."""
    grown = model().exact(UNTIL_NS, cpus) - model().exact(FROM_NS, cpus)
    of = {name: grown[:, index].sum() for name, index in INDEX.items()}
    slots = 4 * of["distributed_clocks"]
    retiring, frontend = of["retire_slots"], of["slots_not_delivered"]
    bad = of["uops_issued"] - retiring + 4 * of["recovery_cycles"]
    parts = np.array([retiring, bad, frontend, slots - retiring - bad - frontend])
    return np.asarray(100 * parts / slots)


def shares_of_level_2(cpus: Sequence[int]) -> Floats:
    """As perf prints them: of each part of level 1 one, and what is left of it."""
    grown = model().exact(UNTIL_NS, cpus) - model().exact(FROM_NS, cpus)
    of = {name: grown[:, index].sum() for name, index in INDEX.items()}
    retiring, bad, frontend, backend = shares(cpus)
    heavy = of["retire_slots"] + of["macro_fused"] - of["instructions"]
    mispredicted = of["mispredicts"] / (of["mispredicts"] + of["machine_clears"]) * bad
    per_slot = 100 / (4 * of["distributed_clocks"])
    heavy *= per_slot
    latency = 4 * of["cycles_none_delivered"] * per_slot
    memory = 4 * (of["stalls_memory"] + of["stalls_store"]) * per_slot
    parts = [(heavy, retiring), (mispredicted, bad), (latency, frontend), (memory, backend)]
    return np.array([each for one, whole in parts for each in (one, whole - one)])


def percents(text: str) -> list[list[float]]:
    """The rows of `--topdown`."""
    rows = (re.findall(r"(-?[0-9.]+)%", line) for line in text.splitlines())
    lengths = (len(LEVEL_1), len(LEVEL_1) + LEVEL_2)
    return [[float(each) for each in row] for row in rows if len(row) in lengths]


@EVERY
def test_counts_of_every_cpu_over_intervals_add_up_to_the_models(machine: str) -> None:
    command = f"sleep 0.1; {STEP}; sleep 0.1"
    text = stat(machine, *"-a -A -I 50 -x, -e".split(), ",".join(CODES), command=command)
    sums: dict[tuple[str, str], int] = defaultdict(int)
    for _, cpu, value, _, event, _, percent, *_ in csv.reader(text.splitlines()):
        assert percent == "100.00"
        sums[cpu, event] += int(value)
    uarch = machines.load(machine).uarch
    for event, spec in CODES.items():
        for each in range(CPUS):
            first, last = (count(model(), spec, each, at, uarch) for at in (FROM_NS, UNTIL_NS))
            assert sums[f"CPU{each}", event] == pytest.approx(last - first, abs=1), (event, each)


@EVERY
@pytest.mark.parametrize("watchdog", ["on", "off"])
def test_metrics_of_the_host(machine: str, watchdog: str) -> None:
    text = stat(machine, "-a", "-M", "TopdownL1", watchdog=watchdog)
    if (machine, watchdog) == ("bdx", "on"):
        # Its group needs all four counters and that of cycles, as it does on a real host.
        assert text.count("<not counted>") == 5
        return
    found = {name: float(value) for value, name in re.findall(r"# +(\S+) %  tma_(\w+)", text)}
    # perf moves the slots lost to clears, a few in a thousand, from one part to another.
    assert [found[name] for name in LEVEL_1] == pytest.approx(shares(range(CPUS)), abs=0.15)


@BY_METRICS
def test_topdown_of_the_host(machine: str) -> None:
    wanted = pytest.approx(shares(range(CPUS)), abs=0.06)
    assert percents(stat(machine, "-a", "--topdown", "--td-level", "1")) == [wanted]


def test_topdown_of_two_levels() -> None:
    [row] = percents(stat("spr", "-a", "--topdown"))
    assert row[: len(LEVEL_1)] == pytest.approx(shares(range(CPUS)), abs=0.06)
    assert row[len(LEVEL_1) :] == pytest.approx(shares_of_level_2(range(CPUS)), abs=0.06)


@BY_CORE
def test_topdown_of_every_core(machine: str) -> None:
    # With the watchdog on, five events take turns on four counters.
    text = stat(machine, "-a", "--topdown", watchdog="on")
    # Cores by package, as perf prints them: the model numbers the first threads of all in order.
    cores = [[info.cpu, *info.siblings] for info in model().layout.topology.cpus[: CPUS // 2]]
    assert percents(text) == [pytest.approx(shares(core), abs=0.06) for core in cores]


@BY_CORE
def test_topdown_of_some_cpus_needs_both_threads_of_a_core(machine: str) -> None:
    """Skylake's slots are counted for the core and halved, so that its threads add up to them.

    Of one thread alone perf shows twice the share that it has, on a real host too.
    """
    poller, sibling = 1, 1 + CPUS // 2
    whole = shares([poller, sibling])
    text = stat(machine, "-C", f"{poller},{sibling}", "--topdown")
    assert percents(text) == [pytest.approx(whole, abs=0.06)]
    [alone] = percents(stat(machine, "-C", str(poller), "--topdown"))
    assert alone[0] == pytest.approx(2 * whole[0], abs=0.5)
    assert alone[0] > 100


@BY_CORE
def test_metrics_of_a_thread_that_has_its_core_almost_for_itself(machine: str) -> None:
    text = stat(machine, "-C", "1", "-M", "TopdownL1")
    found = {name: float(value) for value, name in re.findall(r"# +(\S+) %  tma_(\w+)", text)}
    assert found["retiring"] == pytest.approx(shares([1, 1 + CPUS // 2])[0], abs=1.0)
    assert sum(found.values()) == pytest.approx(100, abs=0.2)
