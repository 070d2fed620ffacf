"""What rules say of their sources, against the sources' own numbers.

The FD.io paper's tables are `nftop.papers`; the RDT paper's are here, as it prints them.
"""

from __future__ import annotations

import re

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.derive.findings.registry import all_rules, rule_called
from nftop.derive.findings.rule import Rule
from nftop.papers.rows import PaperRow, rows

# Packets per second without a memtester, with one, and with one and CAT, by bytes of a frame.
TABLE_9 = {
    64: (3_980_656, 3_980_649, 3_750_465), 256: (3_803_620, 3_663_501, 3_663_526),
    1024: (2_394_611, 2_394_584, 2_394_605), 1518: (1_625_478, 1_625_468, 1_625_484),
}  # fmt: skip
TABLE_14 = {
    64: (3_980_660, 3_980_620, 3_980_655), 256: (3_943_753, 3_661_738, 3_873_695),
    1024: (2_394_625, 2_394_582, 2_394_626), 1518: (1_625_483, 1_625_470, 1_625_484),
}  # fmt: skip
TABLE_19 = {
    64: (1_908_947, 1_908_938, 1_908_947), 256: (1_912_078, 1_912_059, 1_912_081),
    1024: (1_209_252, 801_778, 1_172_220), 1518: (984_105, 682_523, 908_846),
}  # fmt: skip


def rule(name: str) -> Rule:
    result = rule_called(name)
    assert result is not None
    return result


def numbers(text: str) -> list[float]:
    return [float(item) for item in re.findall(r"\d+(?:\.\d+)?", text)]


def measured(metric: str, *, cores: int = 1, smt: bool | None = None) -> dict[str, float]:
    """A metric of the paper's network functions by workload."""
    return {
        row.workload: row.figures[metric].value
        for row in rows()
        if row.paper == "fdio_broadwell"
        and row.cores == cores
        and metric in row.figures
        and smt in (None, row.smt)
        and row.workload != "coremark"
    }


def test_noisy_neighbour_has_the_losses_without_cat(snapshot: SnapshotAssertion) -> None:
    source = rule("noisy-neighbour").source
    lost = {
        (table, size): 1 - present / before
        for table, item in (("9", TABLE_9), ("14", TABLE_14), ("19", TABLE_19))
        for size, (before, present, _) in item.items()
    }
    seen = {location: ratio for location, ratio in lost.items() if ratio > 1e-3}
    assert {location: round(100 * ratio, 1) for location, ratio in seen.items()} == {
        ("9", 256): 3.7,
        ("14", 256): 7.2,
        ("19", 1024): 33.7,
        ("19", 1518): 30.6,
    }
    assert "3.7 % and 7.2 %" in source and "34 % and 31 %" in source
    assert max(lost[table, 64] for table in ("9", "14", "19")) < 2e-5
    assert source == snapshot
    # What stands under "WithCAT" is named as that.
    with_cat = 1 - TABLE_9[64][2] / TABLE_9[64][0]
    assert round(100 * with_cat, 1) == 5.8
    assert "5.8 %" in rule("noisy-neighbour").note and "with CAT" in rule("noisy-neighbour").note


def test_nf_memory_has_table_6_and_no_cause(snapshot: SnapshotAssertion) -> None:
    per_packet = [
        bytes_per_s / packets
        for bytes_per_s, packets in zip(
            measured("memory_bytes_per_s", cores=4).values(),
            measured("packets_per_s", cores=4).values(),
            strict=True,
        )
    ]
    *close, most = sorted(per_packet)
    assert (round(close[0], 1), round(close[-1], 1), round(most)) == (0.1, 1.3, 31)
    source = rule("nf-memory").source
    assert "0.1 to 1.3 bytes" in source and "31 bytes" in source
    # Four cores have eight ports (Table 3), each with 62,500 flows (4.2.4).
    assert f"{8 * 62_500:,} flows" in source
    assert source == snapshot
    assert round(most) < rule("nf-memory").limit / 2 < round(most) + 2


def test_bad_speculation_has_the_paper_s_limit_and_reports_what_it_is_of() -> None:
    result = rule("bad-speculation")
    assert result.limit == 0.05 and result.own == ""
    assert "6.3.1" in result.source and "5 %" in result.source and "mispredict" in result.source
    every = measured("tma.bad_speculation", smt=True)
    assert (min(every.values()), max(every.values())) == (0.004, 0.047)
    above = {name for name, one in measured("tma.bad_speculation", smt=False).items() if one > 0.05}
    assert above == {"ovs"} and measured("tma.bad_speculation", smt=False)["ovs"] == 0.074
    clears = [
        *measured("tma.machine_clears", smt=True).values(),
        *measured("tma.machine_clears", smt=False).values(),
    ]
    assert (min(clears), max(clears)) == (0.0, 0.008) and "0.0 to 0.8 %" in result.note


def test_partial_writes_reports_what_is_measured_and_what_is_a_bound() -> None:
    # Figure 24, millions of requests a second; Table 7's writes a packet, one of them the frame.
    rfo, itom = 8.587, 33.0
    writes = measured("per_packet.pcie_writes", cores=4)["ovs"]
    own = rule("partial-writes").own
    assert f"{rfo / (rfo + itom):.0%}" == "21%" and "21 %" in own
    assert f"{(writes - 1) / writes:.0%}" == "45%" and "at most 45 %" in own


@pytest.mark.parametrize(
    ("rule", "text", "limit"),
    [
        ("drops", "1M", 1e6), ("drops", "20k", 20e3), ("drops", "1000", 1000.0),
        ("poller-waits", "5%", 0.05), ("poller-waits", "0.1", 0.1), ("poller-waits", "1", 1.0),
        ("noisy-neighbour", "12", 12e9), ("noisy-neighbour", "12 GB/s", 12e9),
        ("noisy-neighbour", "500M", 500e6), ("low-ipc", "1.5", 1.5),
        ("nf-memory", "64 bytes", 64.0),
        ("mmio-writes", "1.5M", 1.5e6),
    ],
)  # fmt: skip
def test_a_limit_is_read_as_it_is_printed(rule: str, text: str, limit: float) -> None:
    known = rule_called(rule)
    assert known is not None and known.parsed(text) == pytest.approx(limit)


def test_every_limit_can_be_read_again() -> None:
    for rule in all_rules():
        if not rule.when:
            printed = rule.printed(rule.limit)
            assert rule.parsed(printed) == pytest.approx(rule.limit, rel=0.005), rule.id
            assert "," not in printed


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("poller-waits", "5"), ("poller-waits", "-1%"), ("drops", "5%"), ("drops", "soon"),
        ("noisy-neighbour", "12 Mpps"), ("low-ipc", "nan"), ("low-ipc", "1e999"), ("drops", ""),
    ],
)  # fmt: skip
def test_a_limit_in_another_unit_is_refused(rule: str, text: str) -> None:
    known = rule_called(rule)
    assert known is not None
    with pytest.raises(ValueError, match=r"\w"):
        known.parsed(text)


def test_low_ipc_has_the_paper_s_limit_and_the_workloads_below_it() -> None:
    result = rule("low-ipc")
    assert result.limit == 1.75 and result.own == "" and "1.75" in result.source
    below = {row.workload: row.figures["ipc"].value for row in rows() if _low(row)}
    assert below == {"testpmd": 1.4, "l3fwd": 1.5} and {1.4, 1.5} <= {*numbers(result.note)}


def _low(row: PaperRow) -> bool:
    return (
        row.paper == "fdio_broadwell" and "ipc" in row.figures and row.figures["ipc"].value < 1.75
    )


def test_low_priority_core_reports_where_the_talk_has_vpp() -> None:
    result = rule("low-priority-core")
    assert "VPP" in result.source and "low-priority" in result.source
    assert {2.7, 2.1} <= {*numbers(result.source)} and "choice" in result.note


def test_deep_rules_have_the_paper_s_tables() -> None:
    """Tables 11, 12 and 15, of all network functions, with and without hyper-threading."""
    bandwidth, ports = "tma.fetch_bandwidth", "tma.ports_utilization"
    of = [*measured(bandwidth, smt=True).values(), *measured(bandwidth, smt=False).values()]
    assert (min(of), max(of)) == (0.004, 0.1) and "0.4 to 10.0 %" in rule("fetch-bandwidth").source
    alone, both = measured(ports, smt=False).values(), measured(ports, smt=True).values()
    assert (min(alone), max(alone)) == (0.307, 0.42)
    assert (min(both), max(both)) == (0.212, 0.259)
    assert {30.7, 42.0, 21.2, 25.9} <= {*numbers(rule("ports-utilization").source)}
    missed = measured("tma.branch_mispredicts", smt=False)
    assert missed.pop("ovs") == 0.071
    rest = [*missed.values(), *measured("tma.branch_mispredicts", smt=True).values()]
    assert (min(rest), max(rest)) == (0.003, 0.047)
    assert {0.3, 4.7, 7.1} <= {*numbers(rule("branch-mispredicts").source)}


def test_texts_are_in_the_past_tense_so_that_they_are_right_after_the_end_too() -> None:
    present = {
        "is",
        "are",
        "has",
        "have",
        "does",
        "arrive",
        "drop",
        "forwards",
        "hits",
        "miss",
        "moves",
        "needs",
        "runs",
        "spins",
        "takes",
        "waits",
    }
    used = {item.id: set(re.findall(r"[a-z]+", item.text + item.detail)) for item in all_rules()}
    assert {name: words & present for name, words in used.items() if words & present} == {}
