"""Debian's pqos and PyPI's, unmodified on disk, through MSRs where the kernel has no resctrl."""

from __future__ import annotations

import importlib.util
import re
import shutil
import textwrap
from pathlib import Path
from typing import Any

import pytest

from nftop.sim import scenario
from nftop.sim.model import model_of
from tests.lab.resctrl.host import host_of
from tests.lab.tests.labs import ROOT, answer, needs_lab

pytestmark = [
    needs_lab,
    pytest.mark.skipif(
        shutil.which("pqos") is None, reason="no pqos here: apt-get install intel-cmt-cat"
    ),
]
needs_binding = pytest.mark.skipif(
    importlib.util.find_spec("pqos") is None,
    reason="PyPI's pqos is missing: pip install 'pqos==4.5.*'",
)
TRANSCRIPT = ROOT / "tests/data/rdt/pqos-msr.txt"
S = 10**9
_HELP = """
    import json, os, re, signal, struct, subprocess
    LIVE = "/sys/fs/lab/live/ctl"
    def pqos(*arguments, code=0):
        run = ["pqos", "--iface=msr", *arguments]
        done = subprocess.run(run, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert done.returncode == code, (run, done.stdout)
        return done.stdout
    def step(seconds):
        with open(f"{LIVE}/clock", "w") as clock:
            clock.write(f"step {seconds}")
    def msr(cpu, number):
        handle = os.open(f"/dev/cpu/{cpu}/msr", os.O_RDWR)
        try:
            return struct.unpack("<Q", os.pread(handle, 8, number))[0]
        finally:
            os.close(handle)
    """


def inside(program: str, *options: str) -> Any:
    script = f"{textwrap.dedent(_HELP)}\n{textwrap.dedent(program)}"
    return answer(script, "--without-resctrl", *options)


def commands() -> dict[str, str]:
    """What pqos printed by its arguments, in a lab of the same shape that was built before."""
    result: dict[str, str] = {}
    for component in re.split(r"^\+ ", TRANSCRIPT.read_text(), flags=re.MULTILINE):
        command, _, printed = component.partition("\n")
        if command.startswith("pqos"):
            result[command.removeprefix("pqos --iface=msr ").replace("'", "")] = printed
    return result


def plain(text: str) -> list[str]:
    """Its lines, without warnings of a mount that was there then, and without hardware ids of L2,
    which are APIC ids of another host."""
    return [
        re.sub(r"L2ID \d+", "L2ID", line)
        for line in text.splitlines()
        if not line.startswith("WARN: resctl")
    ]


def test_the_output_of_pqos_is_passed_on() -> None:
    """-d, -e, -a, -s and -R of the same sixteen CPUs, one after the other."""
    requested = ["-d", "-e llc:1=0xf0;llc:2=0x3", "-e mba:1=45", "-a llc:1=1,9", "-s"]
    program = f"""
        said = [pqos(*each.split(" ")) for each in {requested!r}]
        said.append(pqos("-R"))
        print(json.dumps([*said, pqos("-s"), [msr(1, 0xC8F), msr(1, 0xC91), msr(1, 0xD51)]]))
    """
    *printed, reset, fresh, registers = inside(program, "--model", "skx-4", "--cpus", "16")
    before = commands()
    for command, text in zip(requested, printed, strict=True):
        lines = plain(before[command])
        assert plain(text)[: len(lines)] == lines, command
    assert "Allocation reset successful" in reset
    assert re.findall(r"(?:MASK|=>) (0x\w+|\d+%)", fresh) == (["0x7ff"] * 16 + ["100%"] * 8) * 2
    assert fresh.count("COS0, RMID0") == 16
    assert registers == [0, 0x7FF, 0]


def test_pqos_sets_what_the_registers_hold() -> None:
    program = """
        pqos("-e", "llc:3=0x1f;llc@1:4=0x700")
        pqos("-e", "mba@0:3=30")
        pqos("-a", "llc:3=1-3,45")
        refused = pqos("-e", "llc:1=0x5", code=1)
        seen = [hex(msr(cpu, 0xC90 + 3)) for cpu in (0, 87)]
        seen += [hex(msr(cpu, 0xC90 + 4)) for cpu in (0, 87)]
        seen += [msr(0, 0xD53), msr(87, 0xD53), msr(0, 0xC91)]
        moved = [cpu for cpu in range(88) if msr(cpu, 0xC8F) >> 32 == 3]
        pqos("-R", "l3cdp-on")
        pqos("-e", "llc:1d=0xf;llc:1c=0xf0")
        apart = [msr(0, 0xC81), hex(msr(0, 0xC92)), hex(msr(0, 0xC93))]
        rest = [cpu for cpu in range(88) if msr(cpu, 0xC8F)]
        print(json.dumps([seen, moved, rest, refused, apart]))
    """
    seen, moved, rest, refused, apart = inside(program, "--model", "icx", "--freeze", "60")
    assert seen == ["0x1f", "0x1f", "0xfff", "0x700", 70, 0, 0xFFF]
    assert "not contiguous" in refused
    assert apart == [1, "0xf", "0xf0"]
    assert moved == [1, 2, 3, 45]
    assert rest == []  # since a reset gives all back


def test_pqos_meters_what_the_model_moves() -> None:
    """The clock stands but for one step between two of pqos' rows: their sum is the step's."""
    program = """
        run = ["pqos", "--iface=msr", "-m", "mbl:4;llc:5", "-u", "csv", "-i", "2"]
        with subprocess.Popen(run, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
            lines = (line.strip() for line in process.stdout)
            rows = (line.split(",") for line in lines if re.match(r"\\d{4}-", line))
            seen = [next(rows), next(rows)]
            step(10)
            while not any(float(row[-1] or 0) for row in seen):
                seen.append(next(rows))
            seen += [next(rows) for _ in range(4)]
            held = [msr(5, 0xC8F) & 0x3ff, msr(4, 0xC8F) & 0x3ff]
            process.send_signal(signal.SIGINT)
        print(json.dumps([seen, held, [msr(cpu, 0xC8F) for cpu in (4, 5)]]))
    """
    rows, held, after = inside(program, "--model", "skx-7", "--freeze", "60")
    moved = [float(row[-1]) for row in rows if row[1] == '"4"' and row[-1]]
    traffic = host_of(model_of(scenario.load("default"), 88)).traffic
    expected = (traffic(70 * S) - traffic(60 * S))[4, 1] / 2**20
    assert expected > 1000
    assert sum(moved) * 0.2 == pytest.approx(expected, rel=0.01)
    filled = [float(row[-2]) for row in rows if row[1] == '"5"']
    assert filled[-1] > filled[0]
    assert all(held)
    assert held[0] != held[1]
    assert after == [0, 0]


@needs_binding
def test_the_binding_agrees_with_pqos_and_the_model() -> None:
    program = """
        from pqos import Pqos
        from pqos.allocation import PqosAlloc
        from pqos.cpuinfo import PqosCpuInfo
        from pqos.l3ca import PqosCatL3
        from pqos.mba import PqosMba
        from pqos.monitoring import PqosMon
        Pqos().init("MSR", verbose="silent")
        cpus, masks, limits, classes = PqosCpuInfo(), PqosCatL3(), PqosMba(), PqosAlloc()
        masks.set(1, [masks.COS(2, 0xf0)])
        limits.set(0, [limits.COS(3, 35)])
        classes.assoc_set(5, 2)
        monitor = PqosMon()
        group = monitor.start([4], ["tmem_bw", "lmem_bw", "l3_occup"])
        monitor.poll([group])
        step(10)
        monitor.poll([group])
        seen = group.values
        found = [seen.mbm_total_delta, seen.mbm_local_delta, seen.llc]
        shown = pqos("-s")
        group.stop()
        print(json.dumps([
            found, shown, [classes.assoc_get(cpu) for cpu in (5, 6)],
            [[each.mask for each in masks.get(socket)] for socket in (0, 1)],
            [[each.mb_max for each in limits.get(socket)] for socket in (0, 1)],
            [len(cpus.get_cores(socket)) for socket in cpus.get_sockets()],
        ]))
    """
    result, shown, classes, masks, limits, cores = inside(
        program, "--model", "skx-7", "--freeze", "60"
    )
    traffic = host_of(model_of(scenario.load("default"), 88)).traffic
    total, local = (traffic(70 * S) - traffic(60 * S))[4]
    assert result[:2] == [pytest.approx(total, rel=0.01), pytest.approx(local, rel=0.01)]
    assert result[2] > 0
    assert (classes, cores) == ([2, 0], [44, 44])
    every = re.findall(r"L3CA COS\d+ => MASK (0x\w+)", shown)
    assert [f"{mask:#x}" for item in masks for mask in item] == every
    assert every[16 + 2] == "0xf0"
    percents = re.findall(r"MBA COS\d+ => (\d+)%", shown)
    assert [str(limit) for item in limits for limit in item] == percents
    assert percents[3] == "40"
    assert re.findall(r"Core (\d+), .*COS2", shown) == ["5"]


def test_programs_on_disk_are_as_they_were() -> None:
    program = """
        with open("/usr/lib/libpqos.so.4", "rb") as file:
            print(json.dumps(file.read().count(b"\\x0f\\xa2")))
    """
    library = Path("/usr/lib/libpqos.so.4")
    if not library.exists():
        pytest.skip("there is no libpqos.so.4: it comes with intel-cmt-cat of Debian 12")
    assert inside(program, "--cpus", "8") == 0
    assert library.read_bytes().count(b"\x0f\xa2") == 1
