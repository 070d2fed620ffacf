"""Debian's `perf stat` while the lab's clock stands but for one step: counts are exact then.

The command that perf runs takes the step, so every event is on from before it until after it.
"""

from __future__ import annotations

import csv
import re
import shutil
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

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
FROM_NS, STEP_NS = 60 * S, 10 * S
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


def stats(machine: str, *runs: str, command: str = STEP) -> list[str]:
    """What `perf stat` prints with these arguments, one run after the other, in one lab.

    Each run takes the next step; `on` or `off` before its arguments sets the watchdog.
    """
    script = ["exec 2>&1; export LC_ALL=C"]
    for run in runs:
        watchdog, _, arguments = run.partition(" ")
        script.append(f"echo {int(watchdog == 'on')} > /proc/sys/kernel/nmi_watchdog")
        script.append(f"perf stat {arguments} sh -c '{command}'; echo end")
    # Without boxes, whose names perf compares each name with.
    host = ("--model", machine, "--pmu", "cores", "--cpus", str(CPUS))
    lab = (*host, "--no-resctrl", "--freeze", "60")
    ran = enter(*lab, "--", "sh", "-ec", "; ".join(script))
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout
    return ran.stdout.split("end\n")[:-1]


def grown(cpus: Sequence[int], run: int, machine: str = "skx-7") -> dict[str, float]:
    """What the model counts of some CPUs in the step of a run, the first of which is 0."""
    of = model(machine)
    since, until = FROM_NS + run * STEP_NS, FROM_NS + (run + 1) * STEP_NS
    counts = (of.exact(until, cpus) - of.exact(since, cpus)).sum(axis=0)
    return {name: float(counts[index]) for name, index in INDEX.items()}


def shares(cpus: Sequence[int], run: int = 0, machine: str = "skx-7") -> Floats:
    """Level 1 in percent of some cores' slots, all threads of which are among the CPUs."""
    of = grown(cpus, run, machine)
    slots = 4 * of["distributed_clocks"]
    retiring, frontend = of["retire_slots"], of["slots_not_delivered"]
    bad = of["uops_issued"] - retiring + 4 * of["recovery_cycles"]
    components = np.array([retiring, bad, frontend, slots - retiring - bad - frontend])
    return np.asarray(100 * components / slots)


def shares_of_level_2(cpus: Sequence[int]) -> Floats:
    """As perf prints them: of each part of level 1 one, and what is left of it."""
    of = grown(cpus, 0)
    retiring, bad, frontend, backend = shares(cpus)
    heavy = of["retire_slots"] + of["macro_fused"] - of["instructions"]
    mispredicted = of["mispredicts"] / (of["mispredicts"] + of["machine_clears"]) * bad
    per_slot = 100 / (4 * of["distributed_clocks"])
    heavy *= per_slot
    latency = 4 * of["cycles_none_delivered"] * per_slot
    memory = 4 * (of["stalls_memory"] + of["stalls_store"]) * per_slot
    components = [(heavy, retiring), (mispredicted, bad), (latency, frontend), (memory, backend)]
    return np.array([item for one, whole in components for item in (one, whole - one)])


def percents(text: str) -> list[list[float]]:
    """The rows of `--topdown`."""
    rows = (re.findall(r"(-?[0-9.]+)%", line) for line in text.splitlines())
    lengths = (len(LEVEL_1), len(LEVEL_1) + LEVEL_2)
    return [[float(item) for item in row] for row in rows if len(row) in lengths]


def metrics(text: str) -> dict[str, float]:
    """Of `-M TopdownL1`, in percent."""
    return {name: float(value) for value, name in re.findall(r"# +(\S+) %  tma_(\w+)", text)}


@pytest.mark.parametrize("machine", machines.names())
def test_counts_of_every_cpu_over_intervals_add_up_to_the_models(
    machine: str, tmp_path: Path
) -> None:
    out = tmp_path / "perf"
    # perf says nothing of an interval in which the command ends: there is to be one after the step.
    lines = f"$(wc -l < {out})"
    rows = CPUS * len(CODES)
    command = (
        f"until [ {lines} -gt {rows} ]; do sleep 0.02; done; {STEP}; before={lines}; "
        f"until [ {lines} -gt $((before + {2 * rows})) ]; do sleep 0.02; done"
    )
    stats(machine, f"off -a -A -I 50 -x, -o {out} -e {','.join(CODES)}", command=command)
    sums: dict[tuple[str, str], int] = defaultdict(int)
    read = [line for line in out.read_text().splitlines() if line and line[0] != "#"]
    for _, cpu, value, _, event, _, percent, *_ in csv.reader(read):
        assert percent == "100.00"
        sums[cpu, event] += int(value)
    uarch = machines.load(machine).uarch
    for event, spec in CODES.items():
        for index in range(CPUS):
            first, last = (
                count(model(machine), spec, index, at, uarch) for at in (FROM_NS, FROM_NS + STEP_NS)
            )
            assert sums[f"CPU{index}", event] == pytest.approx(last - first, abs=1), (event, index)


@pytest.mark.parametrize("machine", machines.names())
def test_metrics_of_the_host_next_to_the_watchdog_and_without(machine: str) -> None:
    for run, text in enumerate(stats(machine, "off -a -M TopdownL1", "on -a -M TopdownL1")):
        if (machine, run) == ("bdx", 1):
            # Its group needs all four counters and that of cycles, as it does on a real host.
            assert text.count("<not counted>") == 5
            continue
        # perf moves the slots lost to clears, a few in a thousand, from one part to another.
        wanted = pytest.approx(shares(range(CPUS), run, machine), abs=0.15)
        assert [metrics(text)[name] for name in LEVEL_1] == wanted


def test_topdown_of_two_levels() -> None:
    [row] = percents(*stats("spr", "off -a --topdown"))
    assert row[: len(LEVEL_1)] == pytest.approx(shares(range(CPUS)), abs=0.06)
    assert row[len(LEVEL_1) :] == pytest.approx(shares_of_level_2(range(CPUS)), abs=0.06)


@pytest.mark.parametrize("machine", ["bdx", "skx-4", "skx-7"])
def test_topdown_of_some_cpus_needs_both_threads_of_a_core(machine: str) -> None:
    """Where perf counts slots by AnyThread, for the core, and halves them.

    Of one thread alone it shows twice the share that it has, on a real host too; its metrics, which
    are the thread's, are right where the other thread hardly does anything.
    """
    poller, sibling = 1, 1 + CPUS // 2
    both, alone, own = stats(
        machine,
        f"off -C {poller},{sibling} --topdown",
        f"off -C {poller} --topdown",
        f"off -C {poller} -M TopdownL1",
    )
    whole = [shares([poller, sibling], run) for run in range(3)]
    assert percents(both) == [pytest.approx(whole[0], abs=0.06)]
    [[retiring, *_]] = percents(alone)
    assert retiring == pytest.approx(2 * whole[1][0], abs=0.5)
    assert retiring > 100
    result = metrics(own)
    assert result["retiring"] == pytest.approx(whole[2][0], abs=1.0)
    assert sum(result.values()) == pytest.approx(100, abs=0.2)
