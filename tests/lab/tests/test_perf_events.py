"""Debian's `perf stat` beside nftop: every event of a core in focus, by the name nftop prints.

Top-down levels 3 and 4, LLC misses, loads of near and far memory, probes. The lab's clock stands
but for steps, so that both count all of it.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from nftop.sim.events import factors_of
from nftop.uarch import table
from nftop.uarch.explain import perf_name
from tests.lab.tests import steady
from tests.lab.tests.labs import answer, needs_lab
from tests.uarch.counters import core_encoding, in_perf_metrics, on_core

pytestmark = [
    needs_lab,
    pytest.mark.skipif(shutil.which("perf") is None, reason="perf is missing: linux-perf"),
]
CPUS, CPU = 8, 1
UARCHS = {"bdx": "BDX", "skx-4": "SKX", "skx-7": "CLX", "icx": "ICX", "spr": "SPR"}
# Longer than the tenth of a tick that a group has, so that a count is less than a thousandth.
PERF_S, TURN_S = 10, 2
# Events of one run of perf: with hyper-threading there are four counters, and one of cycles.
TOGETHER = 3
_BOTH = """
import subprocess
from nftop.model.ids import Cpu
from nftop.sources.perf.source import PerfSource
from nftop.uarch.table import load

def step(seconds):
    with open("/sys/fs/lab/live/ctl/clock", "w") as file:
        file.write(f"step {seconds}")

def of_perf(names):
    stat = ["perf", "stat", "-C", "CPU_NUMBER", "-x;"]
    for name in names:
        stat += ["-e", name]
    done = subprocess.run(
        [*stat, "sh", "-c", "echo step PERF_S > /sys/fs/lab/live/ctl/clock"],
        capture_output=True, text=True, check=True, env={**os.environ, "LC_ALL": "C"},
    )
    rows = [line.split(";") for line in done.stderr.splitlines() if line]
    assert len(rows) == len(names), done.stderr
    return [(row[0], row[4]) for row in rows]

def of_nftop():
    uarch = load("UARCH").with_smt(on=True)
    source = PerfSource({CPU_NUMBER}, uarch=uarch)
    counts = {}
    for node in ("", *uarch.drill):
        source.focus(Cpu(CPU_NUMBER), node)
        source.read()
        for _ in range(40):
            step(TURN_S)
            source.turn()
            step(TURN_S)
            read = source.read().focus
        for column, event in enumerate(read.events):
            ran = int(read.running_ns[0, read.group[column]])
            if read.reasons[0, column] == 0 and ran:
                counts[event] = [int(read.values[0, column]), ran]
    source.close()
    return counts

names = NAMES
runs = -(-len(names) // TOGETHER)
perf = {}
for run in range(runs):
    some = list(names)[run::runs]
    perf.update(zip(some, of_perf([names[event] for event in some])))
print(json.dumps([of_nftop(), perf]))
"""


@pytest.mark.parametrize("machine", UARCHS)
def test_every_event_in_focus_counts_for_perf_what_it_does_for_nftop(
    machine: str, tmp_path: Path
) -> None:
    uarch = table.load(UARCHS[machine])
    counted = {
        event: spec
        for event, spec in uarch.events.items()
        if on_core(spec)
        and event in uarch.all_events
        # Slots and what is a share of them are counted in a group only.
        and event != "topdown_slots"
        and not in_perf_metrics(spec)
    }
    names = {event: perf_name(spec) for event, spec in counted.items()}
    program = _BOTH
    for word, text in {
        "PERF_S": str(PERF_S),
        "TURN_S": str(TURN_S),
        "CPU_NUMBER": str(CPU),
        "UARCH": uarch.name,
        "NAMES": repr(names),
        "TOGETHER": str(TOGETHER),
    }.items():
        program = program.replace(word, text)
    # perf compares each name with those of every box, which takes nine tenths of its CPU time.
    host = ("--model", machine, "--cpus", str(CPUS), "--watchdog", "off", "--pmu", "cores")
    lab = (*host, "--freeze", "60")
    nftop, perf = answer(program, *lab, "--scenario", steady.written(tmp_path))
    deep = {event for group in uarch.deep_groups for event in group} & names.keys()
    new = {"llc_misses"} | {name for name in names if "dram" in name}
    assert deep | new <= nftop.keys()
    model = steady.model(CPUS)
    for event, (text, percent) in perf.items():
        count = float(text)
        assert percent == "100.00", event
        factors = factors_of(core_encoding(counted[event]), uarch.name)
        assert factors is not None, event
        rate = sum(
            factor * float(steady.rates(model, name)[CPU]) for name, factor in factors.items()
        )
        assert count == pytest.approx(PERF_S * rate, rel=1e-6, abs=2), event
        if event in nftop:
            value, ran_ns = nftop[event]
            wanted = count * ran_ns / (PERF_S * 1e9)
            assert value == pytest.approx(wanted, rel=1e-3, abs=2), event
