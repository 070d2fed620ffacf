"""Debian's `perf`, unmodified, in the lab: what it prints is what the model says, within 1 %.

A count over the time it was counted in lies between the model's lowest and highest rate: the
model's rates swing, and when perf reads is its own affair.
"""

from __future__ import annotations

import csv
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from nftop.model.ids import Cpu
from nftop.model.perf_tool import PerfTool, perf_tasks
from nftop.sim.events import count, factors_of
from nftop.sim.workloads import INDEX
from nftop.uarch.table import Encoding, EventSpec, PmuTerms
from tests.lab import machine as machines
from tests.lab.tests.events import CPUS, RAW, SOFTWARE, S, model
from tests.lab.tests.labs import answer, enter, needs_lab

pytestmark = [
    needs_lab,
    pytest.mark.skipif(shutil.which("perf") is None, reason="perf is missing: linux-perf"),
]

UARCH = {name: machines.load(name).uarch for name in machines.names()}
CODES: dict[str, EventSpec] = {
    "cycles": Encoding(0, 0),
    "instructions": Encoding(0, 1),
    "cache-misses": Encoding(0, 3),
    "ref-cycles": Encoding(0, 9),
    "msr/tsc/": PmuTerms("msr", "tsc"),
    "msr/aperf/": PmuTerms("msr", "aperf"),
    "context-switches": Encoding(SOFTWARE, 3),
    "r19c": Encoding(RAW, 0x19C),
    "r10e": Encoding(RAW, 0x10E),
    "r2c2": Encoding(RAW, 0x2C2),
    "r2a6": Encoding(RAW, 0x2A6),
    "r4a6": Encoding(RAW, 0x4A6),
    "slots": Encoding(RAW, 0x400),
    "topdown-retiring": Encoding(RAW, 0x8000),
    "topdown-bad-spec": Encoding(RAW, 0x8100),
    "topdown-fe-bound": Encoding(RAW, 0x8200),
    "topdown-be-bound": Encoding(RAW, 0x8300),
}
TOPDOWN = tuple(name for name in CODES if name.startswith(("slots", "topdown")))


def stat(machine: str, *arguments: str) -> str:
    # Without boxes, whose names perf compares each name with.
    lab = ("--model", machine, "--pmu", "cores", "--cpus", str(CPUS), "--no-resctrl", "--")
    ran = enter(*lab, "env", "LC_ALL=C", "perf", "stat", *arguments)
    assert ran.returncode == 0, ran.stderr
    return ran.stderr


def bounds(machine: str, event: str, cpus: Sequence[int]) -> tuple[float, float]:
    """The lowest and the highest rate per second, CPUs added up."""
    factors = factors_of(CODES[event], UARCH[machine]) or {}
    of = model(machine)
    assert of.starts_ns[1:] == () or of.starts_ns[1] > 30 * S
    weights = np.zeros(len(INDEX))
    for name, factor in factors.items():
        weights[INDEX[name]] = factor
    steady = float((of.steady[0][list(cpus)] @ weights).sum())
    swing = float(np.abs(of.swinging[0][list(cpus)] @ weights).sum())
    return steady - swing, steady + swing


def check(
    machine: str, event: str, cpus: Sequence[int], per_s: float, within: float = 0.01
) -> None:
    low, high = bounds(machine, event, cpus)
    assert low * (1 - within) - 50 <= per_s <= high * (1 + within) + 50, (event, cpus)


def rows(text: str) -> Iterator[list[str]]:
    """Lines of `-x,`."""
    for row in csv.reader(text.splitlines()):
        if len(row) > 5 and not row[0].startswith("#"):
            yield row


@pytest.mark.parametrize("machine", machines.names())
def test_per_cpu_and_interval(machine: str) -> None:
    wanted = "cycles,instructions,cache-misses,ref-cycles,msr/tsc/,context-switches".split(",")
    text = stat(machine, *"-a -A -I 400 -x, -e".split(), ",".join(wanted), "sleep", "1")
    seen = set()
    for _, cpu, value, _, event, ran_ns, percent, *_ in rows(text):
        number = int(cpu.removeprefix("CPU"))
        assert float(percent) == 100.0
        check(machine, event, [number], int(value) / int(ran_ns) * S)
        seen.add((number, event))
    assert seen == {(cpu, event) for cpu in range(CPUS) for event in wanted}


@pytest.mark.parametrize("machine", machines.names())
def test_the_counters_that_nftop_hands_over_are_the_models(machine: str, tmp_path: Path) -> None:
    """The clock stands but for the command's `sleep`, which steps it: counts are exact."""
    tool = PerfTool((6, 1), cycles=True, samples="cycles", memory_events=True, processor_trace=True)
    (command,) = perf_tasks(Cpu(1), (), tool)[0].commands
    sleep = tmp_path / "sleep"
    sleep.write_text('#!/bin/sh\necho "step $1" > /sys/fs/lab/live/ctl/clock\n')
    sleep.chmod(0o755)
    lab = ("--model", machine, "--cpus", str(CPUS), "--no-resctrl", "--freeze", "60", "--")
    script = f'export LC_ALL=C PATH={tmp_path}:$PATH; sudo() {{ "$@"; }}; {command}'
    ran = enter(*lab, "sh", "-c", script)
    assert ran.returncode == 0, ran.stderr
    lines = re.findall(r"^ +([\d,]+) +([a-z-]+) ", ran.stderr, re.MULTILINE)
    seen = {event: int(count.replace(",", "")) for count, event in lines}
    assert list(seen) == ["cycles", "instructions", "ref-cycles", "cache-misses"]
    for event, value in seen.items():
        first, last = (
            count(model(machine), CODES[event], 1, at_s * S, UARCH[machine]) for at_s in (60, 65)
        )
        assert value == pytest.approx(last - first, abs=1), event


_HANDED = """
    import dataclasses, subprocess, tempfile
    from nftop.model.perf_tool import perf_tasks
    from nftop.sources.perf.probe import read_tool
    folder = tempfile.TemporaryDirectory()
    os.chdir(folder.name)
    tool = read_tool()
    whole = dataclasses.replace(tool, samples="cycles", memory_events=True, processor_trace=True)
    def run(command):
        script = 'sudo() { "$@"; }; ' + command
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True)
        return [done.returncode, done.stderr]
    tasks = perf_tasks(1, (1, 5), tool)
    print(json.dumps([
        [tool.cycles, tool.samples],
        [[[run(command) for command in task.commands], task.why] for task in tasks],
        [run(task.commands[0]) for task in perf_tasks(1, (1, 5), whole)],
        run("sudo perf record -C 1 -e cpu-clock -o none.data -- sleep 0.1"),
    ]))
"""


def test_nothing_samples_in_the_lab_which_perf_and_nftop_both_report() -> None:
    """No interrupt of a PMU is emulated: what samples is refused, and not offered by nftop."""
    lab = ("--model", "icx", "--cpus", str(CPUS), "--no-resctrl")
    tool, tasks, whole, timer = answer(_HANDED, *lab)
    assert tool == [True, ""]
    (counted, why), *others = tasks
    assert counted[0][0] == 0 and not why
    assert all(not commands and reason for commands, reason in others)
    assert "EOPNOTSUPP" in others[0][1]
    stat, record, script, lines, trace = whole
    assert stat[0] == 0
    for code, errors in (record, timer):
        assert code and "doesn't support sampling" in errors
    assert script[0] and "zero-sized data" in script[1], "of what was not recorded"
    assert lines[0] and "memory events not supported" in lines[1]
    assert trace[0] and "Cannot find PMU `intel_pt'" in trace[1]


def total(machine: str, *arguments: str) -> dict[str, tuple[float, float]]:
    """Rate per second of all CPUs, and the mean share of its time an event was counted, by event.

    Of each CPU by itself: perf enables them one after the other, so their times differ.
    """
    result: dict[str, tuple[float, float]] = {}
    for _, value, _, event, ran_ns, percent, *_ in rows(
        stat(machine, "-a", "-A", "-x,", *arguments)
    ):
        share, (per_s, shares) = float(percent) / 100, result.get(event, (0.0, 0.0))
        rate = float(value) * share / int(ran_ns) * S
        result[event] = per_s + rate, shares + share / CPUS
    return result


def test_events_that_take_turns() -> None:
    wanted = ("instructions", "r19c", "r10e", "r2c2", "r2a6", "r4a6")
    result = total("skx-4", "-e", ",".join(wanted), "sleep", "1")
    assert set(result) == set(wanted)
    for event, (per_s, share) in result.items():
        # Five want four counters, and what has its own is kept off now and then.
        assert 0.6 < share < 1.0
        # Where a turn begins late, its time and its counts are not of quite the same moment.
        check("skx-4", event, range(CPUS), per_s, within=0.03)


def test_groups_that_take_turns() -> None:
    groups = "{instructions,r19c,r10e,r2c2},{instructions,r2a6,r4a6}"
    text = stat("skx-4", "-a", "-x,", "-e", groups, "sleep", "1")
    shares = [float(row[4]) for row in rows(text)]
    assert shares == pytest.approx([50.0] * 7, abs=2)


def test_a_group_that_the_watchdog_keeps_off() -> None:
    """The kernel's own answers: five are never counted, the sixth is refused."""
    group = "{cycles,r01d1,r02d1,r04d1,r10d1,r20d1}"
    text = stat("skx-4", "-a", "-x,", "-e", group, "sleep", "0.2")
    assert [row[0] for row in rows(text)] == ["<not counted>"] * 5 + ["<not supported>"]


def test_slots_and_their_metrics() -> None:
    group = "{" + ",".join(TOPDOWN) + "},cycles"
    result = total("icx", "-e", group, "sleep", "0.5")
    for event in TOPDOWN:
        check("icx", event, range(CPUS), result[event][0])
    factors = sum(result[event][0] for event in TOPDOWN[1:])
    assert factors == pytest.approx(result["slots"][0], rel=1e-6)


def test_a_command_of_its_own() -> None:
    script = "sum(i * i for i in range(2_000_000))"
    command = ("-x,", "-e", "task-clock,cycles,instructions", "python3", "-c", script)
    text = stat("skx-4", *command)
    value = {row[2]: float(row[0]) for row in rows(text)}
    assert value["task-clock"] > 20  # ms
    assert value["cycles"] == pytest.approx(value["task-clock"] / 1e3 * 2.2e9, rel=0.01)
    assert 0.5 < value["instructions"] / value["cycles"] < 4
