"""`nftop explain --references`: what papers measured, for the operator and for programs."""

from __future__ import annotations

import json

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.command import called, lines_with


def references(*arguments: str) -> str:
    done = called("explain", "--references", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_overview_fits_a_terminal_and_has_the_tables_digits() -> None:
    text = references()
    assert max(map(len, text.splitlines())) <= 80
    lines = [line.split() for line in text.splitlines()]
    assert "DPDK-Testpmd L2 Loop yes 44.9 97 2.0 49 47.0 4.7 14.8 33.4".split() in lines
    assert "DPDK-Testpmd L2 Loop yes 63.8 96 1.9 50".split() in lines
    assert "VPP IPv4 Routing yes 48.0 1484 4,805 4,619 1.56 1.50".split() in lines
    assert "CoreMark no - - 2.4 - 53.6 3.2 6.8 36.3".split() in lines
    assert "cpp vpp_l2_patch, vpp_l2_mac, vpp_ip4, HT -21 to -9 %".split() in lines
    assert "tma.retiring testpmd, l3fwd, HT up to ~+11 points".split() in lines
    assert "tma.frontend_bound coremark, HT -6 points or more".split() in lines


def test_a_metric_has_its_positions() -> None:
    lines = references("cpp", "--uarch", "bdx").splitlines()
    assert lines[0] == "cpp"
    assert "  DPDK-Testpmd L2 Loop, Xeon E5-2699 v4, HT, 1 core: 49  (Table 4, row 2)" in lines
    assert len(lines) == 25


def test_a_workload_has_all_its_numbers_repairs_and_notes(snapshot: SnapshotAssertion) -> None:
    text = references("vpp_l2_patch")
    assert text == snapshot
    assert "ipp" in references("coremark") and "not applicable" in references("coremark")


def test_all_is_every_number_of_every_run() -> None:
    text = references("--all", "--uarch", "BDX")
    assert text.count(", 1 core\n") == 28
    assert text.count(", 4 cores\n") == 6
    assert "the scan has 443" in text


def test_tables_as_printed_are_listed_and_shown(snapshot: SnapshotAssertion) -> None:
    overview = references()
    assert overview.count("  Table ") == 21
    assert "`nftop explain nfv_rdt --references`:" in overview
    latency = [line.split() for line in references("latency").splitlines()]
    assert latency[0] == ["latency"]
    assert "1518 104 141 108 119".split() in latency
    assert "Table 4:" not in references("latency", "--json")
    text = references("nfv_rdt")
    assert lines_with(text, "0xFFFFF0") == snapshot
    assert text.count("\nXeon E5-2658 v3 (HSX)\n") == 21
    assert "Xeon Gold 6252N" in references("--all")
    assert "VPP A" in references("cpp")
    tables = [json.loads(line) for line in references("llc_misses", "--json").splitlines()]
    (pqos,) = tables
    assert (pqos["schema"], pqos["uarch"]) == ("nftop.reference_table/1", "CLX")
    assert pqos["rows"][1] == ["21", "1.45", "3077k", "880.0", "254.1", "0.1"]
    assert pqos["values"][1] == [1.45, 3077e3, 880, 254.1, 0.1]


def test_json_reports_the_same_in_nftop_s_units() -> None:
    lines = [json.loads(line) for line in references("vpp_ip4", "--json").splitlines()]
    runs = [line for line in lines if line["schema"] == "nftop.reference/1"]
    changes = [line for line in lines if line["schema"] == "nftop.reference_change/1"]
    assert (len(runs), len(changes)) == (7, 11)
    first = runs[0]
    assert (first["cpu"], first["smt"], first["cores"]) == ("Xeon E5-2699 v4", False, 1)
    assert first["figures"]["tma.bad_speculation"] == {
        "value": 0.011,
        "tolerance": 0.0005,
        "printed": "1.1 %",
        "source": "Table 9, row 7",
        "repair": "the scan has 11; Table 11 prints 1.1 in the same cell, and the row sums to 99.9 "
        "with it",
    }
    assert first["figures"]["packets_per_s"]["value"] == 10.5e6
    assert {line["low"] for line in changes if line["metric"] == "cpp"} == {-0.21, -0.2}


@pytest.mark.parametrize("arguments", [["nonsense"], ["--uarch", "ICX"], ["cpp", "--uarch", "GNR"]])
def test_what_no_paper_has_is_reported(arguments: list[str], snapshot: SnapshotAssertion) -> None:
    done = called("explain", "--references", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == snapshot


def test_json_is_of_references_only(snapshot: SnapshotAssertion) -> None:
    done = called("explain", "cpp", "--json")
    assert done.returncode == 2
    assert done.stderr == snapshot
