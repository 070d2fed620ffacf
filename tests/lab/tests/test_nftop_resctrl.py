"""nftop's own resctrl source inside: what others set, what the model meters, nothing changed."""

from __future__ import annotations

import json
import re
import shutil
import sys
import textwrap
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.sim import scenario
from nftop.sim.model import model_of
from tests.lab.resctrl import profile
from tests.lab.resctrl.host import host_of
from tests.lab.tests.labs import answer, enter, needs_lab, running

pytestmark = needs_lab
BOTH = pytest.mark.parametrize("kernel", profile.kernels())
needs_pqos = pytest.mark.skipif(
    shutil.which("pqos") is None, reason="no pqos here: apt-get install intel-cmt-cat"
)
_HELP = """
    import itertools, subprocess
    from pathlib import Path
    from nftop.model.missing import Missing
    from nftop.sources.resctrl.source import ResctrlSource
    from nftop.sources.host.topology import read_topology

    TOP = "/sys/fs/resctrl"
    # Counters are read once a second, which is whenever anybody looks at this clock.
    clock = itertools.count(10**9, 10**9).__next__
    source = ResctrlSource(Path("/"), read_topology(Path("/")), clock=clock)

    def put(text, path):
        with open(path, "w") as file:
            file.write(f"{text}\\n")

    def cat(path):
        return Path(TOP, path).read_text()

    def pqos(*arguments):
        done = subprocess.run(["pqos", "-I", *arguments], stdout=subprocess.PIPE, text=True)
        assert done.returncode == 0, done.stdout

    def shown(value):
        return value.message if isinstance(value, Missing) else value

    def groups():
        table = source.read()
        assert not isinstance(table, Missing), table
        return {group.name: group for group in table.groups}

    def masks(group):
        return [[shown(cache.cbm).hex, shown(cache.mba)] for cache in group.caches]

    def said(group):
        return [
            {event: shown(value) for event, value in cache.values.items()}
            for cache in group.caches
        ]
    """


def inside(kernel: str, program: str, *arguments: str, machine: str = "icx", cpus: int = 16) -> Any:
    script = f"{textwrap.dedent(_HELP)}\n{textwrap.dedent(program)}"
    host = ("--model", machine, "--kernel", kernel, "--cpus", str(cpus))
    return answer(script, *host, *arguments)


@needs_pqos
@BOTH
def test_the_next_reading_has_what_pqos_set(kernel: str) -> None:
    program = """
        before = sorted(groups())
        pqos("-e", "llc:2=0xf0;mba:2=30")
        pqos("-a", "llc:2=1-3")
        first = groups()["COS2"]
        pqos("-e", "llc:2=0x30")
        pqos("-a", "llc:0=3")
        after = groups()
        print(json.dumps([
            before, masks(first), first.cpus, masks(after["COS2"]), after["COS2"].cpus,
            after["/"].cpus, sorted(after) == sorted(["/", *(f"COS{n}" for n in range(1, 15))]),
        ]))
    """
    before, first, cpus, second, fewer, rest, every = inside(kernel, program)
    assert before == ["/"]
    assert (first, cpus) == ([["0f0", 30], ["0f0", 30]], [1, 2, 3])
    assert (second, fewer) == ([["030", 30], ["030", 30]], [1, 2])
    assert rest == [0, *range(3, 16)] and every


@BOTH
def test_a_monitoring_group_of_an_nf_has_the_model_s_numbers(kernel: str) -> None:
    """Made by `nftop cat create`, then ten seconds of a clock that is stepped."""
    program = """
        import sys
        from nftop.derive.cache.table import CacheState, step_cache
        from nftop.derive.nf.cores import monitored
        from nftop.derive.nf.rates import NfCore
        from nftop.derive.threads import ThreadRate
        from nftop.model.missing import Reason
        from nftop.model.sample import SourceReading
        from nftop.model.threads import ThreadRow

        topology, now, absent = read_topology(Path("/")), [10**9], Missing(Reason.SOURCE)
        source = ResctrlSource(Path("/"), topology, clock=lambda: now[0])
        pid, tids = 7, {71: 1, 72: 2, 73: 3}
        words = ["cat", "create", "--group", "default", "--monitor", "nftop.m", "--yes"]
        subprocess.run([sys.executable, "-m", "nftop", *words, "--cpus", "1-3"], check=True,
                       stdout=subprocess.DEVNULL)

        def step(state):
            return step_cache(state, SourceReading(source.read(), now[0], 0), topology)

        state, _ = step(CacheState())
        put("step 10", "/sys/fs/lab/live/ctl/clock")
        now[0] += 10 * 10**9
        _, classes = step(state)
        rates = [ThreadRate(ThreadRow(pid, tid, 1, "w", "w", "", None, (cpu,), cpu, 0, 0, 0, 0,
                                      None, 0), 1.0, 0.0, True) for tid, cpu in tids.items()]
        cores = [NfCore(cpu, "", *[absent] * 6) for cpu in tids.values()]
        whole, rows = monitored(rates, cores, classes.groups)
        files = Path(TOP, "mon_groups/nftop.m/mon_data").glob("*/llc_occupancy")
        print(json.dumps([list(tids.values()), {k: shown(v) for k, v in whole.items()},
                          [row.path for row in rows], sum(int(f.read_text()) for f in files)]))
    """
    cpus, whole, paths, held = inside(kernel, program, "--freeze", "60")
    traffic = host_of(model_of(scenario.load("default"), 16)).traffic
    moved = (traffic(70_000_000_000) - traffic(60_000_000_000))[cpus].sum(axis=0) / 10
    assert paths == ["/nftop.m"] * len(cpus)
    assert whole["occupancy_bytes"] == held > 0
    both = whole["memory_local_bytes_per_s"] + whole["memory_remote_bytes_per_s"]
    assert both == pytest.approx(moved[0], rel=1e-3)
    assert whole["memory_local_bytes_per_s"] == pytest.approx(moved[1], rel=1e-3)
    assert moved[0] > 1 << 20


@BOTH
def test_occupancy_and_traffic_are_the_models(kernel: str) -> None:
    """Of a group that has CPU 1 to 3, over ten seconds of a clock that is stepped."""
    program = """
        os.mkdir(f"{TOP}/vpp")
        put("1-3", f"{TOP}/vpp/cpus_list")
        before = said(groups()["vpp"])
        put("step 10", "/sys/fs/lab/live/ctl/clock")
        after = groups()
        held = [int(cat(f"vpp/mon_data/mon_L3_0{l3}/llc_occupancy")) for l3 in (0, 1)]
        print(json.dumps([before, said(after["vpp"]), said(after["/"]), held]))
    """
    before, vpp, _, held = inside(kernel, program, "--freeze", "60")
    traffic = host_of(model_of(scenario.load("default"), 16)).traffic
    moved = (traffic(70_000_000_000) - traffic(60_000_000_000))[:, 0]
    seen = vpp[0]["mbm_total_bytes"] - before[0]["mbm_total_bytes"]
    assert seen == pytest.approx(moved[1:4].sum(), abs=2 << 16)
    assert seen > 1 << 20
    assert [item["llc_occupancy"] for item in vpp] == held
    assert held[0] > 0
    assert vpp[1]["mbm_total_bytes"] == before[1]["mbm_total_bytes"], "it has no CPU there"


@BOTH
def test_groups_recreated_their_tasks_and_words_instead_of_numbers(
    kernel: str, snapshot: SnapshotAssertion
) -> None:
    program = """
        os.mkdir(f"{TOP}/vpp")
        os.mkdir(f"{TOP}/vpp/mon_groups/rx")
        put(os.getpid(), f"{TOP}/vpp/tasks")
        first = groups()
        os.rmdir(f"{TOP}/vpp")
        gone = sorted(groups())
        os.mkdir(f"{TOP}/vpp")
        for word, event in (("Unavailable", "llc_occupancy"), ("Error", "mbm_total_bytes"),
                            ("Unassigned", "mbm_local_bytes")):
            put(f"/vpp 1 {event} {word}", "/sys/fs/lab/live/ctl/counters")
        seen = [first["vpp"], groups()["vpp"]]
        print(json.dumps([
            gone, [group.inode for group in seen],
            [[each.name for each in group.monitors] for group in seen],
            [os.getpid() in seen[0].tasks, first["/"].tasks], said(seen[1]),
        ]))
    """
    gone, inodes, monitors, tasks, (fine, lost) = inside(kernel, program)
    assert gone == ["/"]
    assert inodes[0] != inodes[1]
    assert monitors == [["rx"], []]
    assert tasks == [True, []]
    assert all(isinstance(value, int) for value in fine.values())
    assert set(lost) == {"llc_occupancy", "mbm_total_bytes", "mbm_local_bytes"}
    assert lost == snapshot


@BOTH
def test_code_and_data_apart_limits_in_mbps_and_the_hardwares_numbers(kernel: str) -> None:
    program = """
        debug = os.path.exists(f"{TOP}/ctrl_hw_id")
        os.mkdir(f"{TOP}/a")
        put("L3CODE:0=f;1=f\\nL3DATA:0=f0;1=ff\\nMB:0=2000", f"{TOP}/a/schemata")
        table = source.read()
        [_, own] = table.groups
        print(json.dumps([
            debug, own.clos, own.rmid, table.limits.cdp, table.mba_unit,
            [[cache.cbm.hex, cache.code.hex, shown(cache.mba)] for cache in own.caches],
        ]))
    """
    options = "cdp,mba_MBps" + (",debug" if kernel != "6.1" else "")
    script = f"{textwrap.dedent(_HELP)}\n{textwrap.dedent(program)}"
    shell = f'mount -t resctrl -o {options} resctrl /sys/fs/resctrl && exec "$0" -c "$1"'
    host = ("--model", "skx-7", "--rdt", "l3cat,l3cdp", "--kernel", kernel, "--cpus", "16")
    run = ["sh", "-c", shell, sys.executable, f"import json, os{script}"]
    done = enter(*host, "--no-resctrl", "--", *run)
    assert done.stderr == ""
    debug, clos, rmid, cdp, unit, caches = json.loads(done.stdout)
    assert debug == (kernel != "6.1")
    assert (clos, rmid) == ((1, 1) if debug else (None, None))
    assert (cdp, unit) == (True, "MBps")
    assert caches == [["0f0", "00f", 2000], ["0ff", "00f", "not limited"]]


def test_nodes_of_divided_caches_are_summed() -> None:
    program = """
        put("step 10", "/sys/fs/lab/live/ctl/clock")
        table = source.read()
        parts = [[int(cat(f"mon_data/mon_L3_0{domain.l3}/mon_sub_L3_0{part}/mbm_total_bytes"))
                  for part in domain.parts] for domain in table.domains]
        whole = [cache.values["mbm_total_bytes"] for cache in table.groups[0].caches]
        print(json.dumps([[domain.parts for domain in table.domains], parts, whole, table.gaps]))
    """
    nodes, sums, whole, gaps = inside("7.2", program, "--snc", "2", "--freeze", "60")
    assert nodes == [[0, 1], [2, 3]]
    assert whole == [sum(item) for item in sums] and all(whole)
    assert gaps == ""


@BOTH
def test_an_hour_of_monitoring_changes_nothing(kernel: str) -> None:
    program = """
        os.mkdir(f"{TOP}/vpp")
        os.mkdir(f"{TOP}/vpp/mon_groups/rx")
        def changes():
            return int(Path("/sys/fs/lab/live/ctl/changes").read_text())
        before, tree = changes(), sorted(map(str, Path(TOP).rglob("*")))
        for _ in range(12):
            put("step 300", "/sys/fs/lab/live/ctl/clock")
            groups()
        source.check()
        same = sorted(map(str, Path(TOP).rglob("*"))) == tree
        print(json.dumps([before, changes(), same]))
    """
    assert inside(kernel, program, "--freeze", "60") == [2, 2, True]


def test_not_mounted_and_mounted_while_nftop_runs(snapshot: SnapshotAssertion) -> None:
    program = """
        first = source.read()
        subprocess.run(["mount", "-t", "resctrl", "resctrl", TOP], check=True)
        second = sorted(groups())
        subprocess.run(["umount", TOP], check=True)
        third = source.read()
        print(json.dumps([shown(first), second, shown(third)]))
    """
    first, second, third = inside("6.1", program, "--no-resctrl")
    assert first == third
    assert first == snapshot
    assert second == ["/"]


def test_a_held_lock_does_not_stop_readings(snapshot: SnapshotAssertion) -> None:
    program = """
        handle = os.open(TOP, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX)
        table = source.read()
        os.close(handle)
        print(json.dumps([table.gaps, source.read().gaps]))
    """
    held, free = inside("6.1", program)
    assert re.sub(r"pid \d+", "pid PID", held) == snapshot
    assert "lock" not in free


@needs_pqos
def test_frames_show_classes_as_they_change() -> None:
    """The whole of nftop, which needs no telling: the panel's numbers and each CPU's class."""
    program = """
        import json, subprocess, sys
        run = [sys.executable, "-m", "nftop", "--batch", "-d", "0.5", "--json"]
        with subprocess.Popen(run, stdout=subprocess.PIPE, text=True) as process:
            print("ready", flush=True)
            frames = (json.loads(line) for line in process.stdout)
            def until(holds):
                return next(frame for frame in frames if holds(frame))
            def vpp(frame):
                return next((each for each in frame["groups"] if each["name"] == "COS3"), None)
            def pqos(*arguments):
                # It gives up when it does not get the lock in 100 ms, which a busy machine may take
                # between two lines of nftop.
                for _ in range(20):
                    done = subprocess.run(["pqos", "-I", *arguments], stdout=subprocess.DEVNULL)
                    if done.returncode == 0:
                        return
                raise SystemExit("pqos never got through")
            first = until(lambda frame: frame["groups"])
            pqos("-e", "llc:3=0xf0")
            pqos("-a", "llc:3=1-3")
            rate = "mbm_total_bytes_per_s"
            last = until(lambda frame: vpp(frame) and vpp(frame)["l3"]["0"]["cbm"] == "0f0"
                         and vpp(frame)["cpus"] == [1, 2, 3] and vpp(frame)["l3"]["0"][rate])
            process.terminate()
        print(json.dumps([[each["name"] for each in first["groups"]], vpp(last),
                          [each["group"] for each in last["cpus"][:5]],
                          last["sources"]["resctrl"], last["cache"]["closids"]]))
    """
    host = ("--model", "icx", "--cpus", "16", "--", sys.executable, "-c", textwrap.dedent(program))
    with running(*host) as lab:
        names, vpp, classes, source, closids = json.loads(lab.hear())
    assert names == ["/"]
    assert vpp["owner"] == "pqos"
    assert vpp["l3"]["0"]["occupancy_bytes"] > 0
    assert classes == ["/", "COS3", "COS3", "COS3", "/"]
    assert source["state"] == "ok"
    assert closids == {"of": 15, "used": 15}
