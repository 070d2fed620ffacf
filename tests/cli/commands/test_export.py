"""`nftop compare` and `nftop export`, as they are called."""

from __future__ import annotations

import csv
import json
import re
import signal
import threading
from pathlib import Path

import pytest

from nftop.cli.main import run
from nftop.session.compare import side
from nftop.session.interval import named, opened
from nftop.store.reading.bytes import FileBytes
from tests.recordings import Taken, taken

TICKS = 30


@pytest.fixture(scope="module")
def session() -> Taken:
    return taken(TICKS, cpus=4, marks=(15,), frame=10)


@pytest.fixture(scope="module")
def stored(session: Taken, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("stored") / "a.nftop"
    file.write_bytes(session.data)
    return file


def rows_of(file: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(file.read_text().splitlines()))


Captured = pytest.CaptureFixture[str]


def test_intervals_of_one_recording_are_compared(stored: Path, capsys: Captured) -> None:
    requests = ("compare", f"{stored}@,mark 15", f"{stored}@mark 15")
    assert run(requests) == 0
    text = capsys.readouterr().out.splitlines()
    assert text[0].startswith("A  ") and text[1].startswith("B  ")
    assert all("SIMULATED" in line for line in text[:2]) and "15 ticks" in text[0]
    (cpp,) = [line for line in text if line.startswith("  CPP")][:1]
    assert cpp.split()[1:2] == ["cycles"] and cpp.split()[4] == "14"
    assert any(line.startswith("class ") for line in text)
    assert any(line.startswith("package 0") for line in text)
    assert run((*requests, "--json")) == 0
    reports = json.loads(capsys.readouterr().out)
    assert reports["schema"] == "nftop.compare/1" and reports["a"]["simulated"] is True
    assert (reports["a"]["ticks"], reports["b"]["ticks"]) == (15, 15)
    cpp = reports["nfs"][0]["metrics"]["cpp"]
    assert cpp["a"]["samples"] == cpp["a"]["blocks"] == 14
    assert cpp["change"] == pytest.approx(cpp["b"]["median"] / cpp["a"]["median"] - 1)
    assert cpp["word"] not in ("better", "worse")
    used = reports["classes"][0]["metrics"]["occupancy_bytes"]
    assert (used["a"]["samples"], used["b"]["samples"]) == (14, 14)
    assert reports["packages"] and "rank sums" in reports["test"]


def test_intervals_that_are_too_short_are_reported_as_before_they_are_read(
    stored: Path, capsys: Captured
) -> None:
    """10 and 20 ticks of a second, where 23 samples are needed; the ticks say how many lack."""
    assert run(("compare", f"{stored}@,+9s", f"{stored}@+10s", "--json")) == 0
    message = capsys.readouterr().err.splitlines()
    assert [[int(word) for word in re.findall(r"\b\d+\b", line)] for line in message] == [
        [9, 23],
        [19, 23],
    ]
    # Between two ticks it begins, and has one sample less than its length says.
    assert run(("compare", f"{stored}@+0.5s,+9.5s", f"{stored}@+9.6s,+18.6s")) == 0
    both = capsys.readouterr()
    assert "9 samples at most" in both.err and "more in" not in both.err
    lacking = set(re.findall(r"(\d+) more in [AB]", both.out))
    assert "15" in lacking and "14" not in lacking


def test_number_of_lacking_samples_is_reported(stored: Path, capsys: Captured) -> None:
    assert run(("compare", f"{stored}@,mark 15", f"{stored}@mark 15", "--json")) == 0
    reports = json.loads(capsys.readouterr().out)
    rows = [row for nf in reports["nfs"] for row in nf["metrics"].values() if row["a"]["samples"]]
    few = [row for row in rows if row["code"] == "few_samples"]
    assert few and not any(row["word"] == "no difference" and row["a"]["mad"] for row in rows)
    assert all(more >= 23 - 14 for row in few for more in row["lacking"])
    assert all(row["detectable"] is None for row in few)


def test_context_of_an_interval_is_read_up_to_the_other_one(stored: Path) -> None:
    """Of 30 ticks, so that cycles longer than an interval are seen."""
    cuts = [opened(named(f"{stored}@{text}")) for text in ("+4s,+9s", "+14s,+19s")]
    try:
        a, b = side(cuts[0], cuts[1]), side(cuts[1], cuts[0])
    finally:
        for cut in cuts:
            cut.data.close()
    assert (a.interval.ticks, b.interval.ticks) == (6, 6)
    assert a.context.first_ns < a.interval.first_ns < a.context.last_ns <= cuts[1].from_ns
    assert cuts[0].to_ns <= b.context.first_ns < b.interval.first_ns
    assert b.context.last_ns > b.interval.last_ns
    assert a.lost == b.lost == ()


def test_a_cost_that_rose_to_full_load_is_worse_although_the_load_was_not_full_before(
    tmp_path: Path, capsys: Captured
) -> None:
    """VPP of `slow`: at most so many cycles before, exactly so many while it drops: no `<`."""
    file = tmp_path / "slow.nftop"
    polled = ("perf", "kernel", "processes", "dpdk", "ovs", "vpp")
    file.write_bytes(taken(62, 24, scenario="slow", sources=polled).data)
    assert run(("compare", f"{file}@,+28s", f"{file}@+32s", "--json")) == 0
    reports = json.loads(capsys.readouterr().out)
    (vpp,) = [item for item in reports["nfs"] if item["name"] == "vpp"]
    assert vpp["word"] == "worse" and vpp["metrics"]["cpp"]["word"] == "worse"
    assert vpp["metrics"]["drop_packets_per_s"]["word"] == "worse"


def test_lost_upcalls_are_drops_in_a_comparison_and_in_csv(
    tmp_path: Path, capsys: Captured
) -> None:
    file = tmp_path / "upcalls.nftop"
    polled = ("perf", "kernel", "processes", "dpdk", "ovs", "vpp")
    file.write_bytes(taken(40, 24, scenario="upcalls", sources=polled).data)
    assert run(("compare", f"{file}@,+18s", f"{file}@+22s,+39s", "--json")) == 0
    reports = json.loads(capsys.readouterr().out)
    (ovs,) = [item for item in reports["nfs"] if item["name"].startswith("ovs")]
    lost = [ovs["metrics"][f"{name}_per_s"] for name in ("drop_packets", "ovs.lost_upcalls")]
    assert [row["word"] for row in lost] == ["worse"] * 2 and ovs["word"] == "worse"
    assert lost[0]["b"]["median"] == lost[1]["b"]["median"] == pytest.approx(3880, rel=0.03)
    assert all(
        "ovs.lost_upcalls_per_s" not in item["metrics"]
        for item in reports["nfs"]
        if item is not ovs
    )
    table = tmp_path / "nfs.csv"
    times = f"{file}@+30s,+31s"
    assert run(("export", times, "--format", "csv", "--table", "nfs", "-o", str(table))) == 0
    with table.open(newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["kind"] == "ovs"]
    drops = [row["drop_packets_per_s"] for row in rows if row["drop_packets_per_s"]]
    assert drops == [row["ovs.lost_upcalls_per_s"] for row in rows if row["drop_packets_per_s"]]
    assert float(drops[-1]) > 3000.0


def test_a_neighbour_that_takes_the_cache_is_detected(tmp_path: Path, capsys: Captured) -> None:
    """It comes a minute after the start, and takes VPP's cache from it."""
    files = [tmp_path / "before.nftop", tmp_path / "after.nftop"]
    for began_ns, (file, after_s) in enumerate(zip(files, (0, 90), strict=True)):
        data = taken(14, 24, scenario="noisy", after_s=after_s, began_ns=began_ns).data
        file.write_bytes(data)
    assert run(("compare", *map(str, files), "--json")) == 0
    reports = json.loads(capsys.readouterr().out)
    (vpp,) = [item for item in reports["nfs"] if item["name"] == "vpp"]
    assert vpp["word"] == "worse" and "CPP +" in vpp["why"]
    assert vpp["metrics"]["llc_misses_per_packet"]["word"] == "worse"
    assert vpp["metrics"]["ipp"]["code"] == "few_samples"
    # Of the others the switch shares that cache; testpmd is on the other package.
    words = {item["name"]: item["word"] for item in reports["nfs"]}
    assert words["north/l3fwd"] == "worse", "its drops show that it is saturated after"
    assert words["loop/testpmd"] == "too few samples"
    assert "better" not in words.values()
    metrics = reports["packages"][0]["metrics"]
    assert metrics["memory.read_bytes_per_s"]["word"] == "more"


def test_what_can_not_be_compared(stored: Path, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "text").write_text("no such thing")
    for a, b, code, message in (
        (f"{stored}@,+9s", f"{stored}@+5s", 2, "A and B overlap"),
        (str(stored), str(tmp_path / "none"), 1, "No such file or directory"),
        (str(tmp_path / "text"), str(stored), 4, "it is no recording of nftop's"),
        (f"{stored}@noon", str(stored), 2, "'noon' is no time: HH:MM:SS"),
        (f"{stored}@+10s,+5s", str(stored), 2, "its interval ends before it begins"),
        (str(stored), f"{stored}@+1h,+2h", 2, "nothing was recorded in that interval"),
    ):
        assert run(("compare", a, b)) == code
        assert message in capsys.readouterr().err


def test_a_recording_without_its_end_is_exported_with_a_note(
    tmp_path: Path, capsys: Captured
) -> None:
    few = taken(10, cpus=2, frame=4)
    file = tmp_path / "killed.nftop"
    out = ("--format", "csv", "--table", "gaps", "-o", "-")
    for end, code in ((few.ends[8], 0), (few.ends[8] + 9, 0), (len(few.data), 0)):
        file.write_bytes(few.data[:end])
        finished = end == len(few.data)
        for command in (
            ("replay", str(file), "--batch"),
            ("export", str(file), *out),
            ("compare", f"{file}@,+3s", f"{file}@+5s"),
        ):
            assert run(command) == code
            message = "".join(capsys.readouterr())
            assert ("was not finished: what came after " in message) is not finished, command
        assert run(("export", f"{file}@,+3s", *out)) == 0
        assert "not finished" not in "".join(capsys.readouterr())


def test_a_damaged_recording_is_compared_as_far_as_it_goes(
    session: Taken, stored: Path, tmp_path: Path, capsys: Captured
) -> None:
    spoilt = bytearray(session.data)
    spoilt[session.ends[22] - 5] ^= 8
    bad = tmp_path / "bad.nftop"
    bad.write_bytes(spoilt)
    assert run(("compare", f"{bad}@,+9s", f"{bad}@+10s")) == 4
    assert "note: B: " in (out := capsys.readouterr().out) and "ticks lost" in out
    assert run(("compare", f"{bad}@,+4s", f"{bad}@+5s,+9s")) == 0
    folder = tmp_path / "out"
    assert run(("export", str(bad), "--format", "csv", "-o", str(folder))) == 4
    assert "ticks lost" in capsys.readouterr().err
    (gap,) = rows_of(folder / "gaps.csv")
    ticks = {row["tick"] for row in rows_of(folder / "packages.csv")}
    assert int(gap["lost_ticks"]) == TICKS - len(ticks)


def test_a_recording_becomes_tables(
    session: Taken, stored: Path, tmp_path: Path, capsys: Captured
) -> None:
    folder = tmp_path / "out"
    requests = ("export", str(stored), "--format", "csv", "-o", str(folder))
    assert run(requests) == 0
    rows = rows_of(folder / "cpus.csv")
    assert len(rows) == TICKS * 4
    assert f"{TICKS * 4} rows in {folder}/cpus.csv" in capsys.readouterr().err
    for row in rows[-4:]:
        reading = session.frames[-1].cpus.columns["ipc"][int(row["cpu"])]
        assert isinstance(reading, float) and float(row["ipc"]) == reading
    assert [row["text"] for row in rows_of(folder / "markers.csv")] == ["mark 15"]
    assert run(requests) == 2
    assert "exists, and nothing is written over" in capsys.readouterr().err


def test_one_table_goes_to_a_file_or_to_standard_output(
    stored: Path, tmp_path: Path, capsys: Captured
) -> None:
    requests = ("export", f"{stored}@+20s,+22s", "--format", "jsonl", "--table", "nfs", "-o")
    assert run((*requests, "-")) == 0
    lines = capsys.readouterr().out
    assert {json.loads(line)["tick"] for line in lines.splitlines()} == {20, 21, 22}
    assert run((*requests, str(tmp_path / "nfs.jsonl"))) == 0
    assert (tmp_path / "nfs.jsonl").read_text() == lines
    capsys.readouterr()
    for wrong in (
        ("--format", "csv", "-o", "-"),
        ("--format", "parquet", "--table", "nfs", "-o", "-"),
        ("--format", "csv", "--table", "none", "-o", "x"),
    ):
        assert run(("export", str(stored), *wrong)) == 2
        assert capsys.readouterr().err.startswith("nftop: ")


@pytest.mark.parametrize("command", ["replay", "compare", "hosts", "export"])
def test_a_signal_ends_reading_where_no_tick_comes_any_more(
    command: str, session: Taken, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, end = tmp_path / "a.nftop", session.ends[24]
    file.write_bytes(session.data[:end] + b"\xff" * (1 << 22))
    signalled: list[int] = []
    stopped = threading.Event()
    read, stop = FileBytes.read, FileBytes.stop

    def reading(self: FileBytes, at: int, size: int) -> bytes:
        result = read(self, at, size)
        if at > end and callable(signal.getsignal(signal.SIGTERM)):
            signalled.append(at)
            signal.raise_signal(signal.SIGTERM)
            assert stopped.wait(60)
        return result

    def stopping(self: FileBytes) -> None:
        stop(self)
        stopped.set()

    monkeypatch.setattr(FileBytes, "read", reading)
    monkeypatch.setattr(FileBytes, "stop", stopping)
    arguments = {
        "replay": ("replay", str(file), "--batch"),
        "compare": ("compare", f"{file}@,+9s", f"{file}@+12s"),
        "hosts": ("compare", "--before", f"{file}@,+9s", "--after", f"{file}@+12s"),
        "export": ("export", str(file), "--format", "csv", "-o", str(tmp_path / "out")),
    }
    assert run(arguments[command]) == 128 + signal.SIGTERM
    assert len(signalled) == 1 and not list((tmp_path / "out").glob("*"))
