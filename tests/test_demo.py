"""`nftop demo`: any command on the simulated host, and everything says so."""

from __future__ import annotations

import csv
import io
import json

import pytest

from tests.command import called, nftop, python


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
    both = called(*common)
    (row,) = json.loads(both.stdout.splitlines()[-1])["cpus"]
    assert row["cpu"] == 5 and row["siblings"] == [49]
    assert row["tma"]["retiring"] > 0.1 and row["tma"]["memory_bound"] is not None
    (row,) = json.loads(called(*common, "--tma-level", "1").stdout.splitlines()[-1])["cpus"]
    assert row["tma"]["retiring"] > 0.1
    assert row["missing"]["tma.memory_bound"] == "source"
    (row,) = json.loads(called(*common, "--quiet-cpus", "49").stdout.splitlines()[-1])["cpus"]
    assert row["missing"]["tma.retiring"] == "source"


@pytest.mark.parametrize("cpus", ["2", "512"])
def test_csv_of_small_and_large_hosts(cpus: str) -> None:
    done = called("demo", "--cpus", cpus, "-n", "1", "-d", "0.2", "--csv")
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert len(rows) == int(cpus)
    assert {row["simulated"] for row in rows} == {"True"}


def test_text_and_some_cpus() -> None:
    done = called("demo", "-n", "1", "-d", "0.2", "--cpu-list", "23")
    assert done.returncode == 0, done.stderr
    assert "SIMULATED" in done.stdout


def test_doctor_says_it_too() -> None:
    text = called("demo", "doctor")
    assert text.returncode == 0, text.stderr
    assert text.stdout.startswith("SIMULATED: ")
    report = json.loads(called("demo", "doctor", "--json").stdout)
    assert report["simulated"] is True


def test_other_commands_are_there() -> None:
    assert called("demo", "explain", "cpp").stdout == called("explain", "cpp").stdout
    assert "--scenario NAME" in called("demo", "--help").stdout
    assert "demo" in called("--help").stdout


def test_nftop_stays_where_it_was_started() -> None:
    """Simulated pollers on CPU 1 must not move the real process off the real CPU 1."""
    code = (
        "import os\nfrom nftop.cli import run\n"
        "before = os.sched_getaffinity(0)\n"
        "run(['demo', '--cpus', '2', '-n', '3', '-d', '0.1', '--json'])\n"
        "raise SystemExit(os.sched_getaffinity(0) != before)\n"
    )
    done = python(code)
    assert done.returncode == 0
    frame = json.loads(done.stdout.splitlines()[-1])
    assert next(row["thread"] for row in frame["cpus"] if row["cpu"] == 1) == "dpdk-worker1"
