"""`nftop demo`: any command on the simulated host, and everything says so."""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time

import pyte
import pytest

NFTOP = [sys.executable, "-m", "nftop"]
# pyte takes the private prefixes of keyboard protocols for text; they draw nothing.
_DRAWS_NOTHING = re.compile(rb"\x1b\[[<>=][0-9;]*[a-zA-Z]")


def nftop(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*NFTOP, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        check=False,
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["demo", "--batch", "-n", "2", "-d", "0.2", "--json"],
        ["-d", "0.2", "demo", "--scenario", "noisy", "-n", "2", "--json"],
    ],
)
def test_json_frames(arguments: list[str]) -> None:
    done = nftop(*arguments)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    frames = [json.loads(line) for line in done.stdout.splitlines()]
    assert [frame["simulated"] for frame in frames] == [True, True]
    assert frames[1]["host"]["name"] == "demo"
    assert "simulated" in frames[1]["host"]["model"]
    assert all(source["state"] == "ok" for source in frames[1]["sources"].values())
    loop = next(nf for nf in frames[1]["nfs"] if nf["name"] == "loop/dpdk-testpmd")
    # The clock is the machine's own here: true rates although the ticks come when they come.
    assert loop["cpp"] == pytest.approx(2.2e9 / 34.6e6, rel=0.004)
    assert loop["ipp"] == pytest.approx(92, rel=1e-3)
    assert loop["rx_packets_per_s"] == pytest.approx(34.6e6, rel=0.004)
    groups = {group["name"]: group for group in frames[1]["groups"]}
    assert {"/", "vpp", "tenant"} <= groups.keys()
    vpp = groups["vpp"]
    assert vpp["missing"] == {}
    assert 0.9 < vpp["l3"]["0"]["occupancy_bytes"] / vpp["l3"]["0"]["capacity_bytes"] <= 1
    assert [row["cpu"] for row in frames[1]["cpus"] if row["group"] == "vpp"] == vpp["cpus"]
    assert {nf["kind"] for nf in frames[1]["nfs"]} == {"dpdk", "ovs", "vpp"}
    router = next(nf for nf in frames[1]["nfs"] if nf["kind"] == "vpp")
    assert router["cpp"] == pytest.approx(2.2e9 / 10.5e6, rel=0.004)
    assert router["ipp"] == pytest.approx(496, rel=1e-3)


def test_one_cpu_of_a_core_has_top_down_although_its_sibling_is_not_shown() -> None:
    common = ("demo", "--batch", "-n", "2", "-d", "0.2", "--json", "--cpu-list", "5")
    both = nftop(*common)
    (row,) = json.loads(both.stdout.splitlines()[-1])["cpus"]
    assert row["cpu"] == 5 and row["siblings"] == [49]
    assert row["tma"]["retiring"] > 0.1 and row["tma"]["memory_bound"] is not None
    (row,) = json.loads(nftop(*common, "--tma-level", "1").stdout.splitlines()[-1])["cpus"]
    assert row["tma"]["retiring"] > 0.1
    assert row["missing"]["tma.memory_bound"] == "source"
    (row,) = json.loads(nftop(*common, "--quiet-cpus", "49").stdout.splitlines()[-1])["cpus"]
    assert row["missing"]["tma.retiring"] == "source"


@pytest.mark.parametrize("cpus", ["2", "512"])
def test_csv_of_small_and_large_hosts(cpus: str) -> None:
    done = nftop("demo", "--cpus", cpus, "-n", "1", "-d", "0.2", "--csv")
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert len(rows) == int(cpus)
    assert {row["simulated"] for row in rows} == {"True"}


def test_text_and_some_cpus() -> None:
    done = nftop("demo", "-n", "1", "-d", "0.2", "--cpu-list", "23")
    assert done.returncode == 0, done.stderr
    assert "SIMULATED" in done.stdout


def test_doctor_says_it_too() -> None:
    text = nftop("demo", "doctor")
    assert text.returncode == 0, text.stderr
    assert text.stdout.startswith("SIMULATED: ")
    report = json.loads(nftop("demo", "doctor", "--json").stdout)
    assert report["simulated"] is True
    assert json.loads(nftop("doctor", "--json").stdout)["simulated"] is False


def test_other_commands_are_there() -> None:
    assert nftop("demo", "explain", "cpp").stdout == nftop("explain", "cpp").stdout
    assert "--scenario NAME" in nftop("demo", "--help").stdout
    assert "demo" in nftop("--help").stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["demo", "--cpus", "1"], "2 to 512 CPUs, not 1"),
        (["demo", "--cpus", "x"], "'x' is not a number of CPUs"),
        (["demo", "--cpus", "513", "doctor"], "2 to 512 CPUs, not 513"),
        (["demo", "--scenario", "x"], "no scenario is called 'x'; there are default, noisy"),
        (["demo", "--cpu-list", "88", "-n", "1"], "this host has no CPU 88"),
        (["demo", "demo"], "invalid choice: 'demo'"),
        (["demo", "--frobnicate"], "unrecognized arguments: --frobnicate"),
        (["--frobnicate"], "unrecognized arguments: --frobnicate"),
        (["--scenario=noisy"], "unrecognized arguments: --scenario=noisy"),
    ],
)
def test_usage_errors_are_two_and_a_sentence(arguments: list[str], sentence: str) -> None:
    done = nftop(*arguments)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_nftop_stays_where_it_was_started() -> None:
    """Simulated pollers on CPU 1 must not move the real process off the real CPU 1."""
    code = (
        "import os\nfrom nftop.cli import run\n"
        "before = os.sched_getaffinity(0)\n"
        "run(['demo', '--cpus', '2', '-n', '3', '-d', '0.1', '--json'])\n"
        "raise SystemExit(os.sched_getaffinity(0) != before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0
    frame = json.loads(done.stdout.splitlines()[-1])
    assert next(row["thread"] for row in frame["cpus"] if row["cpu"] == 1) == "dpdk-worker1"


@pytest.mark.real
def test_the_screen_wears_the_badge() -> None:
    screen = pyte.Screen(140, 40)
    stream = pyte.ByteStream(screen)
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 140, 0, 0))
    arguments = [*NFTOP, "demo", "--cpus", "16", "-d", "0.2"]
    environment = {**os.environ, "TERM": "xterm-256color"}
    with subprocess.Popen(
        arguments, stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True
    ) as child:
        try:
            deadline = time.monotonic() + 60
            asked, header = False, ""
            while child.poll() is None and time.monotonic() < deadline:
                if select.select([master], [], [], 0.2)[0]:
                    stream.feed(_DRAWS_NOTHING.sub(b"", os.read(master, 65536)))
                if not asked and "loop/dpdk-testpmd" in "\n".join(screen.display):
                    header = screen.display[0]
                    asked = os.write(master, b"q") == 1
            assert asked, screen.display
            assert "SIMULATED" in header
            assert child.poll() == 0
        finally:
            if child.poll() is None:
                child.kill()
            os.close(master)
            os.close(slave)
