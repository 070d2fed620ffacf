"""`nftop demo`: any command on the simulated host, and everything says so."""

from __future__ import annotations

import csv
import io
import json

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.cli.commands.live import options_of
from nftop.cli.compose.hosts import open_demo, open_requested
from nftop.cli.main import build_parser
from nftop.model.change import SetSchemata
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import ResctrlTable
from tests.command import called, lines_with, nftop, python


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
    loop = next(nf for nf in frames[1]["nfs"] if nf["name"] == "loop/testpmd")
    # The clock is the machine's own here: true rates although the ticks come when they come.
    assert loop["cpp"] == pytest.approx(2.2e9 / 34.6e6, rel=0.004)
    assert loop["ipp"] == pytest.approx(92, rel=1e-3)
    assert loop["rx_packets_per_s"] == pytest.approx(34.6e6, rel=0.004)
    groups = {group["name"]: group for group in frames[1]["groups"]}
    assert {"/", "vpp", "tenant"} <= groups.keys()
    vpp = groups["vpp"]
    assert vpp["missing"] == {"mba.l3.0": "hardware", "mba.l3.1": "hardware"}  # an E5 v4
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


def test_doctor_reports_it_too() -> None:
    text = called("demo", "doctor")
    assert text.returncode == 0, text.stderr
    assert text.stdout.startswith("SIMULATED: ")
    report = json.loads(called("demo", "doctor", "--json").stdout)
    assert report["simulated"] is True


def test_other_commands_are_present() -> None:
    assert called("demo", "explain", "cpp").stdout == called("explain", "cpp").stdout
    assert "--scenario NAME" in called("demo", "--help").stdout
    assert "demo" in called("--help").stdout


def test_nftop_stays_where_it_was_started() -> None:
    """Simulated pollers on CPU 1 must not move the real process off the real CPU 1."""
    code = (
        "import os\nfrom nftop.cli.main import run\n"
        "before = os.sched_getaffinity(0)\n"
        "run(['demo', '--cpus', '2', '-n', '3', '-d', '0.1', '--json'])\n"
        "raise SystemExit(os.sched_getaffinity(0) != before)\n"
    )
    done = python(code)
    assert done.returncode == 0
    frame = json.loads(done.stdout.splitlines()[-1])
    assert next(row["thread"] for row in frame["cpus"] if row["cpu"] == 1) == "dpdk-worker1"


def test_classes_are_shown_and_everything_reports_it(snapshot: SnapshotAssertion) -> None:
    text = called("demo", "cat", "show")
    assert (text.returncode, text.stderr) == (0, "")
    assert lines_with(text.stdout, "SIMULATED") == snapshot
    shown = json.loads(called("demo", "--scenario", "noisy", "cat", "show", "--json").stdout)
    assert shown["simulated"] is True
    assert [group["name"] for group in shown["groups"]] == ["/", "vpp", "switch", "tenant"]


def test_a_change_is_shown_done_and_ends_with_the_command(snapshot: SnapshotAssertion) -> None:
    change = ("demo", "--scenario", "noisy", "cat", "set", "--group", "tenant", "--l3", "0=3")
    dry = called(*change, "--dry-run")
    assert dry.returncode == 0
    assert "tenant L3 0  ............#######. 000fe -> ..................## 00003\n" in dry.stdout
    assert "echo 'L3:0=3' > /SIMULATED/resctrl/tenant/schemata\n" in dry.stdout
    assert "kept" not in dry.stdout
    done = called(*change, "--yes")
    assert done.returncode == 0, done.stderr
    assert "\nkept: " in done.stdout
    ended = "SIMULATED: its host ended with this command, and the change with it\n"
    assert done.stdout.endswith(ended)
    assert called("demo", "undo", "--yes").stdout == snapshot
    history = called("demo", "history")
    note = "SIMULATED: nothing of this machine is shown or changed\nnothing was changed by nftop\n"
    assert history.stdout == note
    assert called("demo", "history", "--json").stdout == ""


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["set", "--group", "vpp", "--l3", "0=5"], 1, "ways that are side by side"),
        (["set", "--group", "vpp", "--l3", "0=18"], 2, "nobody to ask"),
        (["set", "--group", "vpp", "--mba", "0=50", "--yes"], 1, "vpp has no MB; it has L3"),
        (["move", "--group", "vpp", "--tasks", "1", "--yes"], 1, "there is no process 1"),
        (["move", "--group", "vpp", "--tasks", "4000", "--yes"], 0, "thread 4000"),
        (["move", "--group", "vpp", "--cpus", "99", "--yes"], 1, "CPU 99 is not there"),
        (["create", "--group", "nftop.x", "--l3", "0=3", "--cpus", "3", "--yes"], 0, "kept"),
        (["remove", "--group", "vpp", "--yes"], 1, "not nftop's"),
        (["reset", "--yes"], 0, "there is nothing to take back"),
    ],
)
def test_changes_of_the_simulated_host(arguments: list[str], code: int, sentence: str) -> None:
    done = called("demo", "--cpus", "16", "cat", *arguments)
    assert done.returncode == code
    assert sentence in done.stdout + done.stderr
    assert done.stdout.startswith("SIMULATED: ")


def test_a_simulated_gold_6252n_has_limits_on_memory_bandwidth() -> None:
    change = ("cat", "set", "--group", "vpp", "--mba", "0=50", "--yes")
    done = called("demo", "--host", "gold-6252n", "--cpus", "16", *change)
    assert (done.returncode, "\nkept: " in done.stdout) == (0, True), done.stderr


def test_no_simulated_host_of_that_kind_has_classes(snapshot: SnapshotAssertion) -> None:
    done = called("demo", "--scenario", "x", "cat", "show")
    assert done.returncode == 2
    assert done.stderr == snapshot
    done = called("demo", "--host", "x", "cat", "show")
    assert done.returncode == 2 and "gold-6230n, gold-6252n" in done.stderr
    assert called("demo", "recover").stdout == snapshot


def test_the_screen_of_the_demo_has_a_gate_that_is_unlocked() -> None:
    requests = build_parser(demo=True).parse_args(["--cpus", "8"])
    here = open_demo(requests)
    try:
        drawn = options_of(here, requests)
    finally:
        for source in here.sources:
            source.close()
    assert drawn.rw and drawn.gate is not None and drawn.no_gate == ""
    before = drawn.gate.host.state()
    shrink = drawn.gate.propose([SetSchemata("tenant", "L3", ((0, 1),))])
    pending = drawn.gate.apply(shrink)
    table = next(source for source in here.sources if source.name == "resctrl").read()
    assert isinstance(table, ResctrlTable)
    tenant = next(group for group in table.groups if group.name == "tenant")
    assert tenant.caches[0].cbm == Cbm(1, 20), "the screen shows what its gate changed"
    assert pending.revert().outcome == "reverted"
    assert drawn.gate.host.state() == before


@pytest.mark.parametrize("unlocked", [False, True])
def test_the_screen_of_this_host_is_unlocked_by_rw_alone(
    unlocked: bool, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    monkeypatch.setattr("nftop.cli.compose.hosts.missing_privilege", lambda: "run it with sudo")
    requests = build_parser().parse_args(["--rw"] * unlocked)
    here = open_requested(requests)
    try:
        drawn = options_of(here, requests)
    finally:
        for source in here.sources:
            source.close()
    assert (drawn.gate, drawn.rw) == (None, unlocked)
    assert drawn.no_gate == snapshot
