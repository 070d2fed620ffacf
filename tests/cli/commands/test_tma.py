"""`nftop tma` as a contract."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.command import called, nftop
from tests.uarch import vectors
from tests.uarch.vectors import UARCHES

STREAMS = Path(__file__).parents[2] / "data/perf"


def tma(*arguments: str, text: str | bytes = "") -> subprocess.CompletedProcess[str]:
    return called("tma", *arguments, text=text)


def test_counts_of_every_cpu(tmp_path: Path) -> None:
    for uarch in UARCHES:
        name = "vpp_ip4_route_noHT" if uarch == "SRF" else "mispredict_heavy_HT"
        vector = vectors.of(uarch)[name]
        file = tmp_path / f"{uarch}.json"
        file.write_text(json.dumps(vector.counts))
        smt = "on" if vector.smt else "off"
        done = tma("--uarch", uarch.lower(), "--smt", smt, "--json", str(file))
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        assert result["schema"] == "nftop.tma/1"
        assert result["uarch"] == uarch
        assert result["smt"] is vector.smt
        assert result["missing"] == result["details"] == {}
        assert result["metrics"] == {
            node: pytest.approx(ratio, rel=1e-9, abs=1e-15) for node, ratio in vector.ratios.items()
        }


def test_events_that_are_no_event_of_the_table_are_named() -> None:
    counts = json.dumps({**vectors.of("SKX")["testpmd_idle_poll"].counts, "UOPS_ISUED.ANY": 1})
    result = json.loads(tma("--uarch", "SKX", "--json", "-", text=counts).stdout)
    assert "UOPS_ISUED.ANY" in result["ignored"]
    assert "UOPS_ISSUED.ANY" not in result["ignored"]


def test_no_ratio_is_null_and_a_reason() -> None:
    counts = vectors.of("SKX")["edge_all_zero"].counts
    done = tma("--uarch", "SKX", "--json", "-", text=json.dumps(counts))
    assert done.returncode == 0
    result = json.loads(done.stdout)
    assert set(result["metrics"].values()) == {None}
    assert set(result["missing"].values()) == {"idle"}
    assert result["missing"].keys() == result["details"].keys() == result["metrics"].keys()


def test_hyper_threading_is_off_unless_reported(snapshot: SnapshotAssertion) -> None:
    counts = json.dumps(vectors.of("SKX")["mispredict_heavy_HT"].counts)
    silent, off, on = (
        json.loads(tma("--uarch", "SKX", *smt, "--json", "-", text=counts).stdout)
        for smt in ((), ("--smt", "off"), ("--smt", "on"))
    )
    assert silent == off | {"notes": silent["notes"]}
    assert off["smt"] is False
    assert off["notes"] == on["notes"] == []
    assert silent["notes"] == snapshot
    assert on["metrics"]["retiring"] != off["metrics"]["retiring"]
    # The formulas of this one are the same with and without.
    counts = json.dumps(vectors.of("SRF")["dram_latency_bound"].counts)
    assert json.loads(tma("--uarch", "SRF", "--json", "-", text=counts).stdout)["notes"] == []


def test_a_real_stream_as_a_tree(snapshot: SnapshotAssertion) -> None:
    done = tma("--uarch", "EMR", "--smt", "on", str(STREAMS / "svrinfo-emr.jsonl"))
    assert done.returncode == 0
    assert done.stderr == ""
    # The same through a pipe.
    text = (STREAMS / "svrinfo-emr.jsonl").read_text()
    assert nftop("tma", "--uarch", "EMR", "--smt", "on", "-", text=text).stdout == done.stdout
    head, summed, *lines = done.stdout.splitlines()
    assert head == snapshot
    assert summed == "added up: 3 intervals"
    assert any(line.split() == ["frontend_bound", "44.8%", "*"] for line in lines)
    assert any(line.split()[:2] == ["serializing_operation", "[s]"] for line in lines)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["-"], "--uarch"),
        (["--uarch", "SKX"], "FILE"),
        (["--uarch", "generic", "-"], "there is BDX, CLX"),
        (["--uarch", "\x1b[31m", "-"], "no top-down for '?[31m'"),
        (["--uarch", "SKX", "--smt", "maybe", "-"], "invalid choice"),
        (["--uarch", "SKX", "a", "b"], "unrecognized arguments: b"),
    ],
)
def test_usage_errors_are_two(arguments: list[str], sentence: str) -> None:
    done = tma(*arguments)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "standard input: it is empty"),
        ('{\n"cycles": 1,\n}', "standard input: line 3: bad JSON"),
        ("9,,cycles,5,100.00,,\n\x1b[2J boom", "line 2: no line of `perf stat -x,`"),
        ("9,,page-faults,5,100.00,,\n", "no event of it is one of SKX's table: page-faults"),
        (b"\xff\xfe{\x00}\x00", "line 1"),
    ],
)
def test_bad_counts_are_one_and_a_sentence(text: str | bytes, sentence: str) -> None:
    done = tma("--uarch", "SKX", "-", text=text)
    assert done.returncode == 1
    assert sentence in done.stderr
    assert "\x1b" not in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    for file, why in ((tmp_path / "none", "No such file"), (tmp_path, "Is a directory")):
        done = tma("--uarch", "SKX", str(file))
        assert done.returncode == 1
        assert f"{file}: {why}" in done.stderr
        assert done.stdout == ""
    done = tma("--uarch", "SKX", "/dev/zero")
    assert done.returncode == 1
    assert "longer than 64 MiB" in done.stderr


def test_what_to_count(snapshot: SnapshotAssertion) -> None:
    done = tma("--uarch", "skx", "--smt", "on", "--events")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0] == snapshot
    assert any("nmi_watchdog" in line for line in lines)
    assert sum(line.startswith("  -e '{cpu/event=") for line in lines) == 31
    assert lines[-1] == snapshot
    assert "nmi_watchdog" not in tma("--uarch", "SPR", "--events").stdout
