"""nftop on hosts that lack something or lose it: it shows what it can and says why not the rest."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.lab.tests import steady
from tests.lab.tests.labs import enter, needs_lab

pytestmark = needs_lab
CPUS = 8
POLLER = 1  # a CPU on which something polls, and one whose sibling does not
NFTOP = (sys.executable, "-m", "nftop")
BATCH = "--batch -n 4 -d 0.1 --json".split()
# Gives up what counting needs, or all but a few descriptors, and becomes what follows.
_WITHOUT = """
import ctypes, os, resource, sys
if sys.argv[1] == "privileges":
    libc = ctypes.CDLL(None)
    for capability in (21, 38):  # CAP_SYS_ADMIN, CAP_PERFMON: PR_CAPBSET_DROP
        assert libc.prctl(24, capability, 0, 0, 0) == 0
else:
    resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[1])))
os.execv(sys.argv[2], sys.argv[2:])
"""


def seen(
    lab: tuple[str, ...], *prefix: str, options: tuple[str, ...] = ()
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """In one lab: the last frame of `--batch`, and what `doctor` says by name."""
    nftop = [*prefix, *NFTOP, *options]
    commands = [[*nftop, *BATCH], [*nftop, "doctor", "--json"]]
    script = "import json, sys\nfrom tests.lab.tests import warm\n"
    script += "for command in json.loads(sys.argv[1]):\n    assert warm.run(command) == 0"
    run = (sys.executable, "-c", script, json.dumps(commands))
    done = enter("--cpus", str(CPUS), *lab, "--", *run)
    assert (done.returncode, done.stderr) == (0, "")
    *frames, report = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(frames) == 4
    return frames[-1], {check["name"]: check for check in report["checks"]}


def of(frame: dict[str, Any], cpu: int) -> dict[str, Any]:
    result: dict[str, Any] = frame["cpus"][cpu]
    assert result["cpu"] == cpu
    return result


def lacks(cpu: dict[str, Any], *metrics: str) -> set[str]:
    """The reasons why there are none of them."""
    for metric in metrics:
        component, _, name = metric.rpartition(".")
        assert (cpu[component] if component else cpu)[name] is None
    return {cpu["missing"][metric] for metric in metrics}


def test_a_guest_without_a_pmu(snapshot: SnapshotAssertion) -> None:
    frame, checks = seen(("--model", "icx", "--pmu", "none"))
    cpu = of(frame, POLLER)
    assert lacks(cpu, "ipc", "frequency_hz", "tma.retiring", "tma.memory_bound") == {"hardware"}
    assert cpu["busy_ratio"] > 0.9
    assert checks["perf"]["text"] == snapshot
    assert "no PMU" in checks["perf cycles"]["text"]
    assert "undelivered_slots" not in checks["perf cycles"]["text"]  # PERF_METRICS would do
    assert len([name for name in checks if name.startswith("perf ")]) < 8
    assert "pmu=on" in checks["perf cycles"]["text"] and checks["perf cycles"]["fix"] is None
    # Of the host's set-up doctor tells what the lab's sysfs has.
    assert "CPU 1,3 are isolated" in checks["host isolation"]["text"]
    assert checks["host tick"]["text"] == snapshot
    assert checks["host governor"]["state"] == "tune"
    assert "powersave" in checks["host governor"]["text"]
    assert "10.1: 1.1" in checks["host governor"]["why"]


@pytest.mark.parametrize("pmu", ["unknown", "amd"])
def test_a_model_nobody_knows(pmu: str, tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    scenario = steady.written(tmp_path)
    frame, checks = seen(("--model", "icx", "--pmu", pmu, "--scenario", scenario))
    assert frame["host"]["uarch"] == "generic"
    cpu, model = of(frame, POLLER), steady.model(CPUS)
    instructions, cycles = (
        steady.rates(model, name)[POLLER] for name in ("instructions", "cycles")
    )
    assert cpu["ipc"] == pytest.approx(instructions / cycles, rel=1e-3)
    if pmu == "amd":  # no reference cycles
        assert lacks(cpu, "frequency_hz") == {"hardware"}
        assert checks["perf ref_cycles"]["text"] == snapshot
        assert "guest" not in checks["perf ref_cycles"]["text"]
        assert not checks["perf ref_cycles"]["fix"]
    else:
        assert cpu["frequency_hz"] == pytest.approx(cycles, rel=1e-3)
    assert lacks(cpu, "tma.retiring") == {"source"}
    assert checks["perf top-down"]["text"] == snapshot


@pytest.mark.parametrize(("machine", "pmu"), [("icx", "no-metrics"), ("spr", "hidden-metrics")])
def test_a_guest_without_perf_metrics(machine: str, pmu: str, tmp_path: Path) -> None:
    scenario = steady.written(tmp_path)
    frame, checks = seen(("--model", machine, "--pmu", pmu, "--scenario", scenario))
    cpu = of(frame, POLLER)
    core = [POLLER, *cpu["siblings"]]
    wanted = steady.shares(steady.model(CPUS), core, clears_move=machine == "icx")
    assert [cpu["tma"][node] for node in steady.LEVEL_1] == pytest.approx(wanted, abs=1e-3)
    # Nothing is lost, as other events tell the same.
    assert [name for name in checks if name.startswith("perf")] == ["perf"]
    assert frame["sources"]["perf"]["detail"] == ""


def test_without_privileges_or_descriptors(snapshot: SnapshotAssertion) -> None:
    without = (sys.executable, "-c", _WITHOUT)
    frame, checks = seen(("--paranoid", "2"), *without, "privileges")
    assert lacks(of(frame, POLLER), "ipc", "frequency_hz", "tma.retiring") == {"permission"}
    assert of(frame, POLLER)["busy_ratio"] > 0.9
    assert checks["perf"]["text"] == snapshot
    # Boxes are counted on CPU 0 and 2, by a thread that would want files at the same time. The six
    # other CPUs need more than what is left beside nftop's other files, which it opens meanwhile.
    quiet = ("--quiet-cpus", "0,2")
    frame, checks = seen(("--watchdog", "off"), *without, "110", options=quiet)
    assert of(frame, 1)["ipc"] is not None
    assert lacks(of(frame, CPUS - 1), "ipc", "tma.retiring") == {"error"}
    assert frame["sources"]["kernel"]["state"] == "ok"
    assert checks["topology"]["text"].endswith("8 CPUs, 8 online")
    some = [check["text"] for name, check in checks.items() if name.startswith("perf CPU ")]
    assert some == snapshot


@pytest.mark.parametrize(("machine", "group"), [("skx-4", 4), ("spr", 8)])
def test_counters_that_another_program_shares(machine: str, group: int, tmp_path: Path) -> None:
    """Its group and nftop's take turns: half of the time is each one's."""
    host = ("--model", machine, "--cpus", str(CPUS), "--watchdog", "off")
    shared = ("--competitor", f"groups 1 {group}", "--scenario", steady.written(tmp_path))
    done = enter(*host, *shared, "--", *NFTOP, *BATCH)
    assert (done.returncode, done.stderr) == (0, "")
    frame = json.loads(done.stdout.splitlines()[-1])
    cpu, model = of(frame, POLLER), steady.model(CPUS)
    # A turn is 4 ms, and an interval may begin and end with the same one's.
    assert cpu["coverage"] == pytest.approx(0.5, abs=0.004 / frame["interval_s"] + 0.01)
    wanted = steady.shares(model, [POLLER, *cpu["siblings"]])
    assert [cpu["tma"][node] for node in steady.LEVEL_1] == pytest.approx(wanted, abs=1e-3)


def test_counters_that_another_program_keeps(snapshot: SnapshotAssertion) -> None:
    lab = ("--model", "skx-4", "--watchdog", "off", "--competitor", "pinned 1")
    frame, checks = seen(lab)
    assert of(frame, POLLER)["ipc"] is not None
    assert lacks(of(frame, POLLER), "tma.retiring") == {"taken"}
    [lacking] = [check for name, check in checks.items() if name.startswith("perf idq_uops")]
    assert lacking["text"] == snapshot
    assert "uops_issued_any" in lacking["text"]


# Runs nftop until it has shown frames of which one expression after the other is true; after each
# it writes what follows it to a file of the host's.
_FOLLOW = """
import json, sys
from tests.lab.tests import warm
number, stages, command = json.loads(sys.argv[1])
with warm.running(command) as printed:
    for expression, path, text in stages:
        for line in printed:
            frame = json.loads(line)
            if eval(expression, {"frame": frame, "cpu": frame["cpus"][number]}):
                break
        print(line, end="")
        if path:
            with open(path, "w") as file:
                file.write(text)
"""
_SHOWN = "cpu['ipc'] is not None and cpu['tma']['retiring'] is not None"


def followed(*stages: tuple[str, str, str]) -> list[dict[str, Any]]:
    """The frame of every stage, on a Skylake host with the watchdog off."""
    command = [*NFTOP, "--batch", "-n", "1000", "-d", "0.1", "--json"]
    what = json.dumps([POLLER, stages, command])
    run = ("--", sys.executable, "-c", _FOLLOW, what)
    done = enter("--cpus", str(CPUS), "--watchdog", "off", *run)
    assert (done.returncode, done.stderr) == (0, "")
    frames = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(frames) == len(stages)
    return frames


def test_a_cpu_that_goes_offline_and_comes_back() -> None:
    switch = f"/sys/devices/system/cpu/cpu{POLLER}/online"
    # Its counters, and whose thread was there, may be read a tick after its place is.
    none = ("cpu['core']", "cpu['ipc']", "cpu['frequency_hz']", "cpu['busy_ratio']")
    gone = " and ".join(f"{item} is None" for item in (*none, "cpu['tma']['retiring']"))
    gone += " and 'warming' not in cpu['missing'].values()"
    others = f"[each['ipc'] for each in frame['cpus'] if each['cpu'] != {POLLER}]"
    # Fails with the frame in which another CPU has no IPC; the first frames have none of any.
    kept = f"(None not in {others} or 1 / 0)"
    before, without, after = followed(
        (f"{_SHOWN} and None not in {others}", switch, "0"),
        (f"{kept} and {gone}", switch, "1"),
        (f"{kept} and {_SHOWN}", "", ""),
    )
    lacking = lacks(of(without, POLLER), "ipc", "frequency_hz", "tma.retiring", "busy_ratio")
    assert lacking == {"undefined"}
    [sibling] = of(before, POLLER)["siblings"]
    assert of(without, sibling)["siblings"] == []
    for frame in (before, without, after):
        assert len(frame["cpus"]) == CPUS
        assert frame["sources"]["perf"]["state"] == "ok"
    assert of(after, POLLER)["siblings"] == [sibling]
    retiring = [of(item, POLLER)["tma"]["retiring"] for item in (before, after)]
    assert retiring[0] == pytest.approx(retiring[1], abs=1e-3)


def test_counters_that_are_taken_while_it_runs() -> None:
    """By the watchdog, whose counter of cycles another stands in for, and by another program."""
    watched = f"{_SHOWN} and 'NMI watchdog' in (frame['sources']['perf']['detail'] or '')"
    taken = "cpu['ipc'] is not None and cpu['missing'].get('tma.retiring') == 'taken'"
    before, with_watchdog, _ = followed(
        (_SHOWN, "/proc/sys/kernel/nmi_watchdog", "1"),
        (watched, "/sys/fs/lab/live/ctl/competitor", "pinned 1"),
        (taken, "", ""),
    )
    retiring = [of(item, POLLER)["tma"]["retiring"] for item in (before, with_watchdog)]
    assert retiring[0] == pytest.approx(retiring[1], abs=1e-3)
