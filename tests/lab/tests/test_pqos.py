"""Debian's pqos, unmodified, inside: what it shows, sets and meters is what there is."""

from __future__ import annotations

import re
import shutil
import textwrap
from typing import Any

import pytest

from nftop.sim import scenario
from nftop.sim.model import model_of
from tests.lab.resctrl import profile
from tests.lab.resctrl.host import host_of
from tests.lab.tests.labs import answer, needs_lab

pytestmark = [
    needs_lab,
    pytest.mark.skipif(
        shutil.which("pqos") is None, reason="no pqos here: apt-get install intel-cmt-cat"
    ),
]
BOTH = pytest.mark.parametrize("kernel", profile.kernels())
_HELP = """
    import json, os, re, signal, subprocess, sys
    TOP = "/sys/fs/resctrl"
    def pqos(*arguments):
        done = subprocess.run(["pqos", "-I", *arguments], stdout=subprocess.PIPE, text=True)
        assert done.returncode == 0, done.stdout
        return done.stdout
    def cat(path):
        return open(f"{TOP}/{path}").read()
    def echo(text, path):
        with open(f"{TOP}/{path}", "w") as file:
            file.write(f"{text}\\n")
    """


def inside(kernel: str, program: str, *arguments: str, machine: str = "skx-7") -> Any:
    script = f"{textwrap.dedent(_HELP)}\n{textwrap.dedent(program)}"
    return answer(script, "--model", machine, "--kernel", kernel, *arguments)


@BOTH
@pytest.mark.parametrize(("machine", "whole", "count"), [("skx-7", "7ff", 8), ("icx", "fff", 15)])
def test_pqos_shows_the_masks_that_were_set(
    kernel: str, machine: str, whole: str, count: int
) -> None:
    program = """
        pqos("-s")  # which makes COS1 and all the others
        echo("L3:0=1f;1=7e0\\nMB:0=20;1=70", "COS3/schemata")
        echo("5-7,80", "COS3/cpus_list")
        print(json.dumps(pqos("-s")))
    """
    text = inside(kernel, program, machine=machine)
    masks = re.findall(r"L3CA COS(\d+) => MASK 0x([0-9a-f]+)", text)
    every = range(count)
    assert masks == [(str(n), m if n == 3 else whole) for m in ("1f", "7e0") for n in every]
    limits = re.findall(r"MBA COS(\d+) => (\d+)%? available", text)
    assert limits == [(str(n), m if n == 3 else "100") for m in ("20", "70") for n in every]
    classes = dict(re.findall(r"Core (\d+), L2ID \d+, L3ID \d+ => COS(\d+)", text))
    assert len(classes) == 88
    assert [cpu for cpu, cos in classes.items() if cos == "3"] == ["5", "6", "7", "80"]
    assert set(classes.values()) == {"0", "3"}


@BOTH
def test_pqos_sets_masks_limits_and_cpus_of_classes(kernel: str) -> None:
    program = """
        pqos("-e", "llc:2=0xf0;llc@1:3=0x700")
        pqos("-e", "mba:2=45")
        pqos("-a", "llc:2=1-3,45")
        pqos("-a", f"pid:4={os.getpid()}")
        own = [cat(path).split() for path in ("COS2/schemata", "COS2/cpus_list", "cpus_list")]
        own += [cat(path).split() for path in ("COS3/schemata", "COS4/tasks")]
        print(json.dumps([*own, os.getpid()]))
    """
    two, cpus, rest, three, tasks, pid = inside(kernel, program)
    assert [re.sub(r"=0*", "=", word) for word in two[-1:]] == ["L3:0=f0;1=f0"]
    assert re.findall("50", " ".join(two[:-1])) == ["50", "50"]
    assert cpus == ["1-3,45"]
    assert rest == ["0,4-44,46-87"]
    assert three[-1] == "L3:0=7ff;1=700"
    assert tasks == [str(pid)]


@BOTH
def test_pqos_resets(kernel: str) -> None:
    """Everything. libpqos asks CPUID who made this one: of AMD's it would write MB=2048 for no
    limit, which resctrl refuses.
    """
    program = """
        pqos("-e", "llc:2=0xf0;mba:2=30")
        pqos("-a", "llc:2=1-3")
        done = subprocess.run(["pqos", "-I", "-R"], stdout=subprocess.PIPE, text=True)
        print(json.dumps([done.stdout, cat("COS2/cpus_list"), cat("COS2/schemata").split()]))
    """
    printed, cpus, schemata = inside(kernel, program)
    assert cpus == "\n"
    assert "Allocation reset successful" in printed
    assert schemata == ["MB:0=100;1=100", "L3:0=7ff;1=7ff"]


@BOTH
def test_pqos_mounts_with_code_and_data_apart_and_with_limits_in_mbps(kernel: str) -> None:
    program = """
        pqos("-R", "l3cdp-on")
        pqos("-e", "llc:1d=0xf;llc:1c=0xf0")
        apart = cat("COS1/schemata").split()
        pqos("-R", "l3cdp-off,mbaCtrl-on")
        pqos("-e", "mba_max:1=2000")
        mounted = [line for line in open("/proc/mounts") if line.startswith("resctrl ")]
        print(json.dumps([apart, cat("COS1/schemata").split(), mounted]))
    """
    apart, limits, [mounted] = inside(kernel, program)
    assert [word.replace("=0", "=").replace("=0", "=") for word in apart[1:]] == [
        "L3DATA:0=f;1=f",
        "L3CODE:0=f0;1=f0",
    ]
    assert limits == ["MB:0=2000;1=2000", "L3:0=7ff;1=7ff"]
    assert mounted.split()[3].endswith(",mba_MBps")


@BOTH
def test_pqos_meters_what_the_model_moves(kernel: str) -> None:
    """The clock stands but for one step between two of pqos' rows: their sum is the step's."""
    program = """
        run = ["pqos", "-I", "-m", "mbt:4;llc:5", "-u", "csv", "-i", "2"]
        with subprocess.Popen(run, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
            lines = (line.strip() for line in process.stdout)
            rows = (line.split(",") for line in lines if re.match(r"\\d{4}-", line))
            seen = [next(rows), next(rows)]
            with open("/sys/fs/lab/live/ctl/clock", "w") as clock:
                clock.write("step 10")
            # Rows from before the step may still be on their way.
            while not any(float(row[-1] or 0) for row in seen):
                seen.append(next(rows))
            seen += [next(rows) for _ in range(4)]
            groups = [f"mon_groups/{name}" for name in os.listdir(f"{TOP}/mon_groups")]
            held = {
                cat(f"{group}/cpus_list").strip(): int(
                    cat(f"{group}/mon_data/mon_L3_00/llc_occupancy")
                )
                for group in groups
            }
            process.send_signal(signal.SIGINT)
        print(json.dumps([seen, held]))
    """
    rows, held = inside(kernel, program, "--freeze", "60")
    moved = [float(row[-1]) for row in rows if row[1] == '"4"']
    # Rows are MB a second, of 0.2 s each.
    traffic = host_of(model_of(scenario.load("default"), 88)).traffic
    expected = (traffic(70 * 10**9) - traffic(60 * 10**9))[4, 0] / 2**20
    assert expected > 1000
    assert sum(moved) * 0.2 == pytest.approx(expected, rel=0.01)
    filled = [float(row[-2]) for row in rows if row[1] == '"5"']
    assert (filled[0], filled[-1]) == (0.0, held["5"] / 1024)
    assert held["5"] > 0
