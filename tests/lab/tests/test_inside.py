"""What programs see inside: Linux' own tools, nftop, and the server's files through the kernel."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from typing import Any

import numpy as np
import pytest

from nftop.sim.model import model_of
from nftop.sim.scenario import load
from nftop.sim.workloads import INDEX
from tests.lab import machine
from tests.lab.resctrl.host import host_of
from tests.lab.tests.labs import answer, enter, needs_lab

pytestmark = needs_lab


def _inside(*arguments: str) -> str:
    done = enter(*arguments)
    assert done.stderr == ""
    assert done.returncode == 0
    return done.stdout


def _python(program: str, *arguments: str) -> Any:
    script = f"import errno, fcntl, json, os\n{textwrap.dedent(program)}"
    return answer(script, "--cpus", "4", *arguments)


@pytest.mark.parametrize("name", machine.names())
def test_lscpu_sees_the_server(name: str) -> None:
    text = _inside("--model", name, "--", "lscpu", "--json")
    rows = {row["field"].rstrip(":"): row["data"] for row in json.loads(text)["lscpu"]}
    cpuinfo = machine.load(name).tables["cpuinfo"]
    assert (
        rows.items()
        >= {
            "CPU(s)": "88",
            "On-line CPU(s) list": "0-87",
            "Model name": f"LAB: virtual {cpuinfo['name']}",
            "Stepping": str(cpuinfo["stepping"]),
            "Thread(s) per core": "2",
            "Core(s) per socket": "22",
            "Socket(s)": "2",
            "NUMA node1 CPU(s)": "22-43,66-87",
        }.items()
    )
    assert rows["L3 cache"].endswith("(2 instances)")


@pytest.mark.parametrize(
    ("name", "cpuid"),
    [
        ("skx-4", "GenuineIntel-6-55-4"),
        ("skx-7", "GenuineIntel-6-55-7"),
        ("icx", "GenuineIntel-6-6A-6"),
    ],
)
def test_perf_is_told_which_cpu_that_is(name: str, cpuid: str) -> None:
    assert _inside("--model", name, "--cpus", "4", "--", "printenv", "PERF_CPUID") == f"{cpuid}\n"


def test_nftop_sees_the_server_and_badges_it() -> None:
    run = [sys.executable, "-m", "nftop", "--batch", "-n", "3", "-d", "0.2", "--json"]
    frames = [json.loads(line) for line in _inside("--", *run).splitlines()]
    assert len(frames) == 3
    for frame in frames:
        assert frame["simulated"] is False
        assert frame["host"].items() >= {"lab": True, "uarch": "SKX", "cpus": 88}.items()
        assert len(frame["cpus"]) == 88
        assert frame["cpus"][50]["siblings"] == [6]
        assert frame["cpus"][50]["base_frequency_hz"] == 2.1e9
        assert frame["sources"]["kernel"]["state"] == "ok"


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
    before, after = _python(program, "--cpus", "88", "--freeze", "60")
    grown = {cpu: [b - a for a, b in zip(before[cpu], after[cpu], strict=True)] for cpu in after}
    assert {sum(row) for row in before.values()} == {6000}
    assert {sum(row) for row in grown.values()} == {1000}
    assert grown["cpu1"][0] == 1000, "all of it in user space"


def test_a_file_is_opened_read_and_written_as_the_kernels_are() -> None:
    program = """
        def attempt(what, *arguments):
            try:
                return what(*arguments)
            except OSError as error:
                return errno.errorcode[error.errno]

        ctl = "/sys/fs/lab/live/ctl/"
        clock = os.open(ctl + "clock", os.O_RDWR | os.O_TRUNC)
        now = os.open(ctl + "now", os.O_RDONLY)
        first = os.pread(now, 99, 0)
        found = {
            "size": os.fstat(now).st_size,
            "nonsense": attempt(os.write, clock, b"nonsense"),
            "step": attempt(os.write, clock, b"step 1.5\\n"),
            "stepped": int(os.pread(now, 99, 0)) - int(first),
            "write now": attempt(os.open, ctl + "now", os.O_WRONLY),
            "ioctl": attempt(fcntl.ioctl, now, 0x2400),
            "create": attempt(os.open, ctl + "new", os.O_CREAT | os.O_WRONLY),
            "mkdir": attempt(os.mkdir, ctl + "new"),
            "unlink": attempt(os.unlink, ctl + "now"),
            "chmod": attempt(os.chmod, ctl + "now", 0o777),
            "absent": attempt(os.stat, ctl + "absent"),
        }
        fcntl.flock(clock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        other = os.open(ctl + "clock", os.O_RDONLY)
        found["flock"] = attempt(fcntl.flock, other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.setuid(65534)
        found["as nobody"] = attempt(os.open, ctl + "clock", os.O_WRONLY)
        print(json.dumps(found))
    """
    assert _python(program, "--freeze", "3") == {
        "size": 0,
        "nonsense": "EINVAL",
        "step": 9,
        "stepped": 1_500_000_000,
        "write now": "EACCES",
        "ioctl": "ENOTTY",
        "create": "EACCES",
        "mkdir": "EPERM",
        "unlink": "EPERM",
        "chmod": "EPERM",
        "absent": "ENOENT",
        "flock": "EAGAIN",
        "as nobody": "EACCES",
    }


def test_what_is_static_can_not_be_changed_by_mistake() -> None:
    program = """
        try:
            open("/sys/devices/system/cpu/cpu1/online", "w")
        except OSError as error:
            print(json.dumps(errno.errorcode[error.errno]))
    """
    assert _python(program) == "EROFS"


def test_sysctls_are_the_labs_own_and_can_not_be_set() -> None:
    program = """
        def read(name):
            return int(open("/proc/sys/kernel/" + name).read())
        found = [read("nmi_watchdog"), read("perf_event_paranoid")]
        try:
            open("/proc/sys/kernel/perf_event_paranoid", "w")
        except OSError as error:
            found.append(errno.errorcode[error.errno])
        print(json.dumps(found))
    """
    assert _python(program, "--watchdog", "off", "--paranoid", "4") == [0, 4, "EACCES"]
    assert _python(program) == [1, 2, "EACCES"]


def test_the_rest_of_sys_fs_is_still_there() -> None:
    real = subprocess.run(["ls", "/sys/fs"], capture_output=True, text=True, check=True).stdout
    inside = _inside("--cpus", "4", "--", "ls", "/sys/fs").split()
    assert set(inside) == {*real.split(), "lab", "resctrl"}


def test_resctrl_is_mounted_unless_told_otherwise() -> None:
    look = ("--", "sh", "-c", "cat /proc/mounts /proc/filesystems; ls /sys/fs/resctrl")
    mounted, bare = (_inside("--cpus", "4", *option, *look) for option in ((), ("--no-resctrl",)))
    line = "resctrl /sys/fs/resctrl resctrl rw,relatime 0 0\n"
    assert line in mounted
    assert line not in bare
    assert mounted.endswith("tasks\n")
    assert bare.endswith("nodev\tresctrl\n")
    assert "nftop-lab" not in mounted + bare


def test_resctrl_is_mounted_and_unmounted_by_programs_as_the_kernels_is() -> None:
    script = """
        cd /
        mount -t resctrl -o cdp resctrl /sys/fs/resctrl && grep -o L3CODE /sys/fs/resctrl/schemata
        grep ^resctrl /proc/mounts
        mount -t resctrl resctrl /sys/fs/resctrl 2>/dev/null; echo $?
        umount /sys/fs/resctrl && ls /sys/fs/resctrl
        umount /sys/fs/resctrl 2>/dev/null; echo $?
        mount -t resctrl -o nonsense resctrl /sys/fs/resctrl 2>/dev/null; echo $?
        mount -t resctrl resctrl /nowhere 2>/dev/null; echo $?
        mount -t resctrl resctrl /sys/fs/resctrl && grep -o L3: /sys/fs/resctrl/schemata
    """
    host = ("--model", "skx-7", "--cpus", "4", "--no-resctrl")
    assert _inside(*host, "--", "sh", "-c", textwrap.dedent(script)).splitlines() == [
        "L3CODE",
        "resctrl /sys/fs/resctrl resctrl rw,relatime,cdp 0 0",
        "32",
        "32",
        "32",
        "32",
        "L3:",
    ]


@pytest.mark.parametrize(
    ("options", "lines"),
    [((), {"MB"}), (("--rdt", "l3cat,cmt"), {"MB", "L3"}), (("--model", "icx"), {"MB", "L3"})],
)
def test_a_kernel_shows_what_it_hides_when_booted_so(
    options: tuple[str, ...], lines: set[str]
) -> None:
    text = _inside("--cpus", "4", *options, "--", "cat", "/sys/fs/resctrl/schemata")
    assert {line.partition(":")[0].strip() for line in text.splitlines()} == lines


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
    cpus, distances, parts, whole = _python(program, "--cpus", "16", *host)
    assert cpus == ["0,2,8,10", "1,3,9,11", "4,6,12,14", "5,7,13,15"]
    assert distances == ["10 11 21 21", "11 10 21 21", "21 21 10 11", "21 21 11 10"]
    assert whole == [parts[0] + parts[1], parts[2] + parts[3]]
    traffic = host_of(model_of(load("default"), 16)).traffic
    moved = (traffic(70_000_000_000) - traffic(60_000_000_000))[:, 0]
    for part, members in zip(parts, cpus, strict=True):
        truth = sum(moved[int(cpu)] for cpu in members.split(","))
        assert part == pytest.approx(truth, abs=1 << 16), members


def test_counters_count_what_the_model_says() -> None:
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
    *_, before, after = _python(program, "--cpus", "88", "--freeze", "60")
    model = model_of(load("default"), 88)
    truth = (model.counts(65_000_000_000) - model.counts(64_000_000_000))[1]
    grown = np.subtract(after, before)
    assert grown == pytest.approx([truth[INDEX["instructions"]], truth[INDEX["tsc"]]], rel=1e-6)


def test_a_program_may_be_put_on_any_cpu_of_the_lab_and_on_no_other() -> None:
    assert _inside("--", "taskset", "--cpu-list", "60", "echo", "there") == "there\n"
    assert enter("--cpus", "60", "--", "taskset", "--cpu-list", "60", "true").returncode == 1
