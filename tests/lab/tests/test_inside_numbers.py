"""What programs inside count and meter: the model's numbers, by the clock they share with it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from nftop.sim import scenario
from nftop.sim.model import model_of
from nftop.sim.scenario import load
from nftop.sim.workloads import INDEX
from tests.lab import machine
from tests.lab.resctrl import profile
from tests.lab.resctrl.host import host_of
from tests.lab.tests.labs import answer, enter, needs_lab

pytestmark = needs_lab
_CPUIDS = {
    "bdx": "GenuineIntel-6-4F-1",
    "skx-4": "GenuineIntel-6-55-4",
    "skx-7": "GenuineIntel-6-55-7",
    "clx-n": "GenuineIntel-6-55-7",
    "icx": "GenuineIntel-6-6A-6",
    "spr": "GenuineIntel-6-8F-8",
}
_NFTOP = [sys.executable, *"-m nftop --batch -n 4 -d 0.2 --json".split()]
_SEEN = f"""
import json, os, subprocess
from tests.lab.tests import warm
print(os.environ["PERF_CPUID"])
lscpu = subprocess.run(["lscpu", "--json"], check=True, stdout=subprocess.PIPE)
print(json.dumps(json.loads(lscpu.stdout)))
assert warm.run({_NFTOP}) == 0
"""
NEWER = tuple(kernel for kernel in profile.kernels() if kernel != "6.1")


@pytest.mark.parametrize(
    ("name", "kernel"),
    # Kernels differ in resctrl alone.
    [(name, "6.1") for name in machine.names()] + [("icx", kernel) for kernel in NEWER],
)
def test_lscpu_perf_and_nftop_see_the_server(name: str, kernel: str) -> None:
    uarch = machine.load(name).uarch
    host = ("--model", name, "--kernel", kernel, "--cpus", "16")
    done = enter(*host, "--", sys.executable, "-c", _SEEN)
    assert (done.returncode, done.stderr) == (0, "")
    cpuid, lscpu, *frames = done.stdout.splitlines()
    assert cpuid == _CPUIDS[name]
    rows = {row["field"].rstrip(":"): row["data"] for row in json.loads(lscpu)["lscpu"]}
    cpuinfo = machine.load(name).tables["cpuinfo"]
    assert (
        rows.items()
        >= {
            "CPU(s)": "16",
            "On-line CPU(s) list": "0-15",
            "Model name": f"LAB: virtual {cpuinfo['name']}",
            "Stepping": str(cpuinfo["stepping"]),
            "Thread(s) per core": "2",
            "Core(s) per socket": "4",
            "Socket(s)": "2",
            "NUMA node1 CPU(s)": "4-7,12-15",
        }.items()
    )
    assert rows["L3 cache"].endswith("(2 instances)")
    assert len(frames) == 4
    for frame in map(json.loads, frames):
        assert frame["simulated"] is False
        assert frame["host"].items() >= {"lab": True, "uarch": uarch, "cpus": 16}.items()
        assert len(frame["cpus"]) == 16
        assert frame["cpus"][14]["siblings"] == [6]
        assert frame["sources"]["kernel"]["state"] == "ok"
    # The last frame has what two reads of a group that fits beside the watchdog give.
    kind = machine.load(name)
    # Broadwell's driver tells no base frequency.
    base = 2.1e9 if kind.tables["cpufreq"]["hwp"] else None
    assert json.loads(frames[-1])["cpus"][14]["base_frequency_hz"] == base
    rates = model_of(load(kind.scenario), 16).steady[0][1]
    ipc = rates[INDEX["instructions"]] / rates[INDEX["cycles"]]
    poller = json.loads(frames[-1])["cpus"][1]
    assert poller["ipc"] == pytest.approx(ipc, rel=0.01)
    assert poller["frequency_hz"] == pytest.approx(rates[INDEX["cycles"]], rel=0.01)


def test_cpu_times_are_the_models_of_that_moment() -> None:
    """Over ten seconds of the clock CPU 1, the first free to poll, is busy."""
    program = """
        def ticks():
            rows = open("/proc/stat").read().splitlines()
            return {row.split()[0]: list(map(int, row.split()[1:])) for row in rows[1:5]}
        before = ticks()
        with open("/sys/fs/lab/live/ctl/clock", "w") as clock:
            clock.write("step 10")
        print(json.dumps([before, ticks()]))
    """
    before, after = answer(program, "--cpus", "88", "--freeze", "60")
    grown = {cpu: [b - a for a, b in zip(before[cpu], after[cpu], strict=True)] for cpu in after}
    assert {sum(row) for row in before.values()} == {6000}
    assert {sum(row) for row in grown.values()} == {1000}
    assert grown["cpu1"][0] == 1000, "all of it in user space"


def test_counters_count_what_the_model_reports() -> None:
    """What nftop's source reads of CPU 1, over a second of a clock that is stepped."""
    program = """
        from pathlib import Path
        from nftop.sources.perf.source import PerfSource
        from nftop.uarch.table import load
        perf = PerfSource(root=Path("/"), uarch=load("SKX").with_smt(on=True))
        counts = []
        # The first reads open the counters; each needs time to have passed.
        for _ in range(5):
            with open("/sys/fs/lab/live/ctl/clock", "w") as clock:
                clock.write("step 1")
            table = perf.read()
            columns = [table.events.index(name) for name in ("instructions", "tsc")]
            counts.append([int(table.values[1, column]) for column in columns])
        print(json.dumps(counts))
    """
    *_, before, after = answer(program, "--cpus", "16", "--freeze", "60")
    model = model_of(load("default"), 16)
    truth = (model.counts(65_000_000_000) - model.counts(64_000_000_000))[1]
    grown = np.subtract(after, before)
    assert grown == pytest.approx([truth[INDEX["instructions"]], truth[INDEX["tsc"]]], rel=1e-6)


def test_a_scenario_may_be_a_file(tmp_path: Path) -> None:
    program = """
        with open("/sys/fs/lab/live/ctl/clock", "w") as clock:
            clock.write("step 10")
        print(open("/sys/fs/resctrl/mon_data/mon_L3_00/mbm_total_bytes").read())
    """
    own = tmp_path / "own.toml"
    own.write_text((Path(scenario.__file__).parent / "scenarios" / "noisy.toml").read_text())
    host = ("--model", "icx", "--cpus", "16", "--freeze", "60", "--scenario", str(own))
    seen = answer(program, *host)
    truth = []
    for name in ("noisy", "default"):
        model = model_of(load(name), 16)
        here = [info.cpu for info in model.layout.topology.cpus if info.package == 0]
        traffic = host_of(model).traffic
        truth.append((traffic(70_000_000_000) - traffic(60_000_000_000))[here, 0].sum())
    noisy, default = truth
    assert abs(noisy - default) > 1 << 20
    assert seen == pytest.approx(noisy, abs=1 << 16)


def test_clusters_divide_nodes_and_what_is_metered() -> None:
    program = """
        def cat(path):
            return open(path).read().strip()
        with open("/sys/fs/lab/live/ctl/clock", "w") as clock:
            clock.write("step 10")
        caches, nodes = "/sys/fs/resctrl/mon_data/mon_L3_0", "/sys/devices/system/node/node"
        parts = [f"{caches}{node // 2}/mon_sub_L3_0{node}/mbm_total_bytes" for node in range(4)]
        print(json.dumps([
            [cat(f"{nodes}{node}/cpulist") for node in range(4)],
            [cat(f"{nodes}{node}/distance") for node in range(4)],
            [int(cat(part)) for part in parts],
            [int(cat(f"{caches}{cache}/mbm_total_bytes")) for cache in range(2)],
        ]))
    """
    host = ("--model", "icx", "--kernel", "7.2", "--snc", "2", "--freeze", "60")
    cpus, distances, sizes, whole = answer(program, "--cpus", "16", *host)
    assert cpus == ["0,2,8,10", "1,3,9,11", "4,6,12,14", "5,7,13,15"]
    assert distances == ["10 11 21 21", "11 10 21 21", "21 21 10 11", "21 21 11 10"]
    assert whole == [sizes[0] + sizes[1], sizes[2] + sizes[3]]
    traffic = host_of(model_of(load("default"), 16)).traffic
    moved = (traffic(70_000_000_000) - traffic(60_000_000_000))[:, 0]
    for component, members in zip(sizes, cpus, strict=True):
        truth = sum(moved[int(cpu)] for cpu in members.split(","))
        assert component == pytest.approx(truth, abs=1 << 16), members
