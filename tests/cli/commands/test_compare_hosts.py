"""`nftop compare --before FILE... --after FILE...`: many hosts, as it is called."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from nftop.cli.commands import compare
from nftop.cli.main import run
from nftop.derive.compare.hosts import LeftOut
from nftop.derive.compare.ranksum import least_hosts
from nftop.model.change import Cell
from nftop.render.base.text import cells
from nftop.session import compare as session_compare
from nftop.session.compare import HostCuts
from nftop.session.interval import Cut
from nftop.sim.classes import SimulatedClasses
from nftop.store.format.encoder import Chunk, Encoder
from nftop.store.format.zstd import FRAME_END
from nftop.store.reading.seekpoint import packed
from tests.bench.scenes import Clocked
from tests.frames import HOSTILE
from tests.house import ROOT
from tests.recordings import header_of, joined

TICKS, HOSTS = 13, 8
SOURCES = ("perf", "kernel", "processes", "dpdk", "ovs", "vpp", "resctrl")
TENANT, VPP = (Cell("schemata", group, "L3", 0) for group in ("tenant", "vpp"))
# The tenant streams through the ways of the network functions; then it has its own.
OVER_ALL, APART = {TENANT: "fe"}, {TENANT: "e00"}
SCHEMA = json.loads(
    (ROOT / "docs/schema/nftop.hosts-1.json").read_text(),
    # Consumers ignore what they do not know; the tests do not.
    object_hook=lambda item: (
        item | {"additionalProperties": False}
        if item.get("type") == "object" and "properties" in item
        else item
    ),
)
Captured = pytest.CaptureFixture[str]


def record(
    path: Path,
    name: str,
    at_s: int,
    *,
    masks: Mapping[Cell, str] = OVER_ALL,
    cpus: int = 20,
    ticks: int = TICKS,
    model: str = "",
) -> Path:
    """So many seconds of `noisy` with these masks, from `at_s` after its start on."""
    clocked = Clocked(cpus, scenario="noisy")

    def make(classes: SimulatedClasses) -> SimulatedClasses:
        return replace(classes, state={**classes.state, **masks})

    clocked.host.world.change(make)
    clocked.now_ns += at_s * 1_000_000_000
    header = header_of(clocked, at_s)
    host = replace(header.host, name=name, model=model or header.host.model)
    encoder, chunks = Encoder(replace(header, host=host)), list[Chunk]()
    for number in range(ticks):
        sample = clocked.sample()
        kept = {name: item for name, item in sample.readings.items() if name in SOURCES}
        if number % 5 == 0:
            encoder.restart()
        chunks.append(encoder.tick(number, replace(sample, readings=kept)))
    path.write_bytes(joined(chunks) + FRAME_END + packed(chunks[-1].after))
    return path


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Hosts that differ in CPUs and in the phase of their load, three times a host."""
    folder, files = tmp_path_factory.mktemp("fleet"), dict[str, list[str]]()
    for number in range(HOSTS):
        for side, masks, at_s in (
            ("before", OVER_ALL, 100),
            ("again", OVER_ALL, 400),
            ("after", APART, 700),
        ):
            path = folder / f"{side}-{number}.nftop"
            cpus = 20 + 2 * (number % 3)
            record(path, f"edge-{number}", at_s + 7 * number, masks=masks, cpus=cpus)
            files.setdefault(side, []).append(str(path))
    return files


def compared(before: Iterable[str], after: Iterable[str], capsys: Captured) -> dict[str, Any]:
    assert run(("compare", "--json", "--before", *before, "--after", *after)) == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    Draft202012Validator(SCHEMA).validate(result)
    return result


def words(report: Mapping[str, Any]) -> set[str]:
    """Words of all numbers."""
    entities = [*report["nfs"], *report["classes"], *report["packages"]]
    return {row["word"] for entity in entities for row in entity["metrics"].values()}


def nf_of(report: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    (nf,) = [nf for nf in report["nfs"] if nf["name"] == name]
    return dict(nf)


def test_a_roll_out_of_masks_is_a_difference_on_eight_hosts(
    fleet: Mapping[str, Sequence[str]], capsys: Captured
) -> None:
    report = compared(fleet["before"], fleet["after"], capsys)
    assert [host["host"] for host in report["hosts"]] == [f"edge-{n}" for n in range(HOSTS)]
    assert (report["left_out"], report["least"]) == ([], 6)
    assert (
        report["hosts"][0]["before"]["ticks"] == TICKS and report["hosts"][0]["after"]["simulated"]
    )
    ovs = nf_of(report, "ovs-vswitchd")
    assert ovs["word"] == "better"
    metrics = ovs["metrics"]
    assert {metrics[name]["word"] for name in ("packets_per_s", "cpp", "busy_cpp", "ipc")} == {
        "better"
    }
    # The scenario: a packet of the switch costs 6 % more beside the tenant.
    cpp = metrics["cpp"]
    assert cpp["change"] == pytest.approx(1 / 1.06 - 1, abs=0.01)
    assert cpp["low"] <= cpp["change"] <= cpp["high"] and cpp["high"] - cpp["low"] < 0.02
    assert cpp["p"] == 2 / 2**HOSTS and len(cpp["hosts"]) == HOSTS and cpp["against"] == []
    # Dropped all its packets beyond its rate, and now none: no ratio over hosts has a logarithm.
    drops = metrics["drop_packets_per_s"]
    assert (drops["word"], drops["relative"], drops["after"]) == ("better", False, 0)
    assert nf_of(report, "loop/testpmd")["word"] == "no difference", "on the other package"
    # VPP no longer drops: whether its cores are busy is not known, so its cost is no pair.
    left_out = nf_of(report, "vpp")["metrics"]["cpp"]["left_out"]
    assert {item["code"] for item in left_out} == {"busy_unknown"} and len(left_out) == HOSTS
    (tenant,) = [x for x in report["classes"] if (x["name"], x["of"]) == ("tenant", "L3 0")]
    capacity = tenant["metrics"]["capacity_bytes"]
    assert (capacity["word"], capacity["p"]) == ("less", None)


def test_recordings_without_a_change_are_no_difference(
    fleet: Mapping[str, Sequence[str]], capsys: Captured
) -> None:
    report = compared(fleet["before"], fleet["again"], capsys)
    assert words(report) <= {"no difference", "no number"}
    assert {nf["word"] for nf in report["nfs"]} == {"no difference"}
    assert report["tested"] >= 10


def test_a_change_that_helps_half_of_the_hosts_is_no_difference(
    fleet: Mapping[str, Sequence[str]], capsys: Captured
) -> None:
    """Every second host has its sides exchanged; text, which names them."""
    before, after = fleet["before"], fleet["after"]
    sides = [
        [(before, after)[(number + at) % 2][number] for number in range(HOSTS)] for at in range(2)
    ]
    assert run(("compare", "--before", *sides[0], "--after", *sides[1])) == 0
    done = capsys.readouterr()
    lines = done.out.splitlines()
    assert lines[0].split()[:4] == ["8", "hosts", "SIMULATED", "edge-0,"]
    start = next(at for at, line in enumerate(lines) if "ovs-vswitchd" in line)
    rows = {line.split()[0]: line for line in lines[start + 2 : start + 10]}
    for name in ("Mpps", "CPP", "IPC"):
        assert rows[name].endswith("no difference") and "-" in rows[name] and "+" in rows[name]
    assert not any(".." in line and line.endswith((" better", " worse")) for line in lines)
    assert re.findall(r"\d+", done.err) == ["8", "6"], "hosts, and the fewest that are enough"
    # The last lines: what is tested, a single number that changes, all of them.
    numbers = re.search(r"Tested: (\d+) .* (\d+) hosts on, .* (\d+) on", " ".join(lines[-5:]))
    assert numbers is not None
    tested, single, every = map(int, numbers.groups())
    assert (single, every) == (least_hosts(tested), 6) and single > every
    assert max(map(cells, lines)) <= 100


def test_hosts_that_are_no_pair_are_named_and_few_give_no_answer(
    tmp_path: Path, capsys: Captured
) -> None:
    def short(file: str, name: str, at_s: int) -> str:
        return str(record(tmp_path / file, name, at_s, ticks=11))

    rotated = [short("a0", "a", 100), short("a1", "a", 120)]
    before = [*rotated[::-1], short("b0", "b", 100), short("c0", "c", 100), short("e0", "e", 100)]
    after = [
        short("a2", "a", 200),
        short("c1", "c", 105),
        short("d1", "d", 200),
        short("e1", "e", 200),
    ]
    before.append(short("f0", "f", 100))
    after.append(str(record(tmp_path / "f1", "f", 200, ticks=11, model="another CPU")))
    report = compared(before, after, capsys)
    assert [(item["host"], item["code"]) for item in report["left_out"]] == [
        ("b", "only_before"),
        ("c", "overlap"),
        ("d", "only_after"),
        ("f", "other_machine"),
    ]
    assert [(host["host"], host["before"]["ticks"]) for host in report["hosts"]] == [
        ("a", 22),
        ("e", 11),
    ]
    assert report["hosts"][0]["before"]["file"] == ", ".join(rotated), "in the order of time"
    assert words(report) <= {"too few hosts", "no number"}
    mpps = nf_of(report, "ovs-vswitchd")["metrics"]["packets_per_s"]
    assert (mpps["code"], mpps["lacking"], mpps["p"], mpps["low"]) == ("few_hosts", 4, None, None)
    assert len(mpps["hosts"]) == 2 and mpps["change"] is not None


def test_the_same_time_on_two_hosts_is_no_overlap(tmp_path: Path, capsys: Captured) -> None:
    """A and B: one host has the new masks, the other one not yet."""
    files = [
        str(record(tmp_path / name, name, 100, masks=masks))
        for name, masks in (("edge-1", OVER_ALL), ("edge-2", APART))
    ]
    assert run(("compare", *files, "--json")) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["a"]["host"], report["b"]["host"]) == ("edge-1", "edge-2")
    assert report["a"]["from"] == report["b"]["from"]
    assert len(report["notes"]) == 1, "that the hosts differ"
    ovs = nf_of(report, "ovs-vswitchd")
    assert (ovs["word"], ovs["metrics"]["cpp"]["word"]) == ("better", "better")
    # Paired by host they are no pair.
    assert run(("compare", "--before", files[0], "--after", files[1])) == 2


def test_exchanged_sides_are_noted(tmp_path: Path, capsys: Captured) -> None:
    early, late = (str(record(tmp_path / str(at_s), "a", at_s, ticks=2)) for at_s in (100, 200))
    assert compared([early], [late], capsys)["hosts"][0]["notes"] == []
    (note,) = compared([late], [early], capsys)["hosts"][0]["notes"]
    assert run(("compare", "--before", late, "--after", early)) == 0
    assert f"note: a: {note}" in capsys.readouterr().out


def test_hostile_names_stay_text(tmp_path: Path, capsys: Captured) -> None:
    names = [*HOSTILE, "--json", "$(reboot)", "a, b: c (d)"]
    sides = [
        [
            str(record(tmp_path / f"{at_s}-{number}", name, at_s, ticks=2))
            for number, name in enumerate(names)
        ]
        for at_s in (100, 200)
    ]
    lonely = ("--before", *sides[0][:-1], "--after", *sides[1][1:])
    assert run(("compare", *lonely)) == 0
    assert not set("".join(capsys.readouterr())) & set("\x1b\u202e\x07\t\x9b\u200b\u05e9")
    assert run(("compare", "--json", *lonely)) == 0
    text = capsys.readouterr().out
    assert not set(text) & set("\x1b\u202e\x07\t\x9b\u200b")
    report = json.loads(text)
    assert [host["host"] for host in report["hosts"]] == sorted(names[1:-1])
    assert {item["host"] for item in report["left_out"]} == {names[0], names[-1]}
    assert run(("compare", "--before", sides[0][0], "--after", sides[1][1])) == 2
    assert not set(capsys.readouterr().err) & set("\x1b\u202e\x07\t\x9b")


def test_a_recording_that_cannot_be_read_is_named_and_its_host_left_out(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    sides = [
        [str(record(tmp_path / f"{name}-{at_s}", name, at_s, ticks=2)) for name in "abcd"]
        for at_s in (100, 200)
    ]
    (tmp_path / "b-200").write_text("no such thing")
    sides[0][2] = str(tmp_path / "gone\x1b[2J")
    sides[1].append(f"{sides[1][0]}@+1h,+2h")
    arguments = ("--before", *sides[0], "--after", *sides[1])
    assert run(("compare", "--json", *arguments)) == 4
    done = capsys.readouterr()
    report = json.loads(done.out)
    Draft202012Validator(SCHEMA).validate(report)
    assert [host["host"] for host in report["hosts"]] == ["a", "d"]
    assert [(item["host"], item["code"]) for item in report["left_out"]] == [
        ("b", "only_before"),
        ("c", "only_after"),
    ]
    unread = [sides[0][2], sides[1][1], sides[1][0]]
    assert [item["file"] for item in report["files_left_out"]] == unread
    assert all(item["why"] for item in report["files_left_out"])
    assert [line.split(": ")[1] for line in done.err.splitlines()][:3] == [
        unread[0].replace("\x1b", "?"),
        *unread[1:],
    ]
    assert run(("compare", *arguments)) == 4
    done = capsys.readouterr()
    assert "b-200: it is no recording" in " ".join(done.out.split()) and "\x1b" not in done.out
    # Of no host both sides are left.
    assert run(("compare", "--before", sides[0][1], "--after", sides[1][1])) == 4
    assert capsys.readouterr().out == ""
    # Replaced, or unreadable, between the look at all files and its turn.
    unpatched = session_compare.paired_hosts

    def paired(*cuts: Sequence[Cut]) -> tuple[list[HostCuts], list[LeftOut]]:
        record(tmp_path / "d-100", "another", 100, ticks=2)
        return unpatched(*cuts)

    monkeypatch.setattr(compare, "paired_hosts", paired)
    assert run(("compare", "--json", "--before", *sides[0][::3], "--after", *sides[1][:4:3])) == 4
    done = capsys.readouterr()
    report = json.loads(done.out)
    assert [host["host"] for host in report["hosts"]] == ["a"]
    assert [(item["host"], item["code"]) for item in report["left_out"]] == [("d", "unreadable")]
    assert "d-100" in done.err and "replaced" in report["left_out"][0]["why"]


def test_exit_codes_are_those_of_two_intervals(tmp_path: Path, capsys: Captured) -> None:
    files = [
        str(record(tmp_path / name, "a", at_s, ticks=8)) for name, at_s in (("0", 100), ("1", 200))
    ]
    (tmp_path / "text").write_text("no such thing")
    damaged = bytearray((tmp_path / "1").read_bytes())
    damaged[len(damaged) * 4 // 5] ^= 8
    (tmp_path / "damaged").write_bytes(damaged)
    for arguments, code in (
        ((), 2),
        (("--before", *files), 2),
        (("--after", *files), 2),
        ((files[0], "--before", files[0], "--after", files[1]), 2),
        (("--before", files[0], "--after", files[0]), 2),
        (("--before", files[0], "--after", f"{files[1]}@noon"), 2),
        (("--before", files[0], "--after", str(tmp_path / "none")), 1),
        (("--before", str(tmp_path / "text"), "--after", files[1]), 4),
        (("--before", files[0], "--after", str(tmp_path / "damaged")), 4),
        (("--before", files[0], "--after", files[1]), 0),
    ):
        assert run(("compare", *arguments)) == code, arguments
        done = capsys.readouterr()
        assert bool(done.out) == (code == 0 or "damaged" in str(arguments)), arguments
        assert code == 0 or done.err.startswith("nftop: ")


def test_a_file_that_is_given_twice_counts_once(tmp_path: Path, capsys: Captured) -> None:
    old, new = (
        str(record(tmp_path / name, "a", at_s, ticks=2))
        for name, at_s in (("old", 100), ("new", 200))
    )
    assert run(("compare", "--json", "--before", old, old, "--after", new)) == 0
    (host,) = json.loads(capsys.readouterr().out)["hosts"]
    assert host["notes"][0] == f"{old} is given twice before the change and counts once"
    # Where nothing is compared no count of hosts is announced.
    assert run(("compare", "--before", old, "--after", old)) == 2
    assert "more are needed" not in capsys.readouterr().err
