"""Rows put together to one count per event."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from nftop.derive.topdown.tma import tma_of_counts
from nftop.model.missing import Missing, Reading, Reason
from nftop.sources.counts.forms import BadCountsError
from nftop.sources.counts.read import EventCounts, read_counts
from nftop.uarch.event_names import EventNames, NamedEvent
from nftop.uarch.topdown import OVERLAP
from tests.uarch import vectors
from tests.uarch.vectors import UARCHES, loaded

STREAMS = Path(__file__).parents[2] / "data/perf"


def counts(text: str, uarch: str = "SKX") -> EventCounts:
    return read_counts(text, loaded(uarch))


def sentence(reading: Reading) -> str:
    assert isinstance(reading, Missing)
    return reading.message


def test_sub_nodes_are_added_up(snapshot: SnapshotAssertion) -> None:
    text = "".join(
        f"{time},{cpu},{count},,{event},500,100.00,,\n"
        for time in (1, 2)
        for event, count in (("cycles", 100), ("instructions", 30))
        for cpu in ("CPU0", "CPU1", "CPU2")
    )
    got = counts(text)
    assert got.events == {"cycles": 600.0, "instructions": 180.0}
    assert got.notes == snapshot


def test_a_slice_without_counts_is_left_out(snapshot: SnapshotAssertion) -> None:
    text = "CPU0,9,,cycles,5,100.00,,\nCPU1,<not counted>,,cycles,0,0.00,,\n"
    got = counts(text)
    assert got.events == {"cycles": 9.0}
    assert got.notes[-1] == snapshot


def test_an_event_that_one_slice_lacks_has_no_sum() -> None:
    text = (
        "CPU0,9,,cycles,5,100.00,,\nCPU1,9,,cycles,5,100.00,,\n"
        "CPU0,9,,r19c,5,100.00,,\nCPU1,<not counted>,,r19c,0,0.00,,\n"
    )
    got = counts(text).events
    assert got["cycles"] == 18
    assert "1 of 2 parts" in sentence(got["idq_uops_not_delivered_core"])


def test_nothing_counted_keeps_its_reason() -> None:
    got = counts("<not supported>,,cycles,0,100.00,,\n").events["cycles"]
    assert isinstance(got, Missing)
    assert got.reason is Reason.HARDWARE
    assert "cycles" in got.message


# Two groups: the second saw twice the work of the first.
TURNS = """\
100,,cycles,50,50.00,,
10,,UOPS_ISSUED.ANY,50,50.00,,
300,,cycles,49,49.00,,
60,,INT_MISC.RECOVERY_CYCLES,49,49.00,,
8,,CPU_CLK_UNHALTED.THREAD_ANY,49,49.00,,
7,,BR_MISP_RETIRED.ALL_BRANCHES,100,100.00,,
"""


def test_groups_that_took_turns_go_by_their_own_clock() -> None:
    got = counts(TURNS)
    assert got.events == pytest.approx(
        {
            "cycles": 200.0,
            "uops_issued_any": 20.0,
            "int_misc_recovery_cycles": 40.0,
            "cycles_any": 8.0,  # of both threads: it goes by time
            "br_misp_retired_all_branches": 7.0,  # beside no clock
        }
    )
    assert any("in turns" in note and "cycles" in note for note in got.notes)
    assert any("49%" in note for note in got.notes)


def test_an_event_of_two_groups_is_counted_once() -> None:
    text = TURNS + "400,,cycles,48,48.00,,\n80,,UOPS_ISSUED.ANY,48,48.00,,\n"
    # (10 + 80) / (100 + 400) of the mean of the clocks, 800 / 3.
    assert counts(text).events["uops_issued_any"] == pytest.approx(0.18 * 800 / 3)


def test_a_turn_that_was_never_counted_is_no_fault() -> None:
    text = TURNS + "<not counted>,,cycles,0,0.00,,\n<not counted>,,UOPS_ISSUED.ANY,0,0.00,,\n"
    assert counts(text).events == counts(TURNS).events


@given(st.lists(st.integers(1, 10**12), min_size=1, max_size=6), st.integers(0, 100))
def test_turns_of_the_same_work_give_its_ratio(ticks: list[int], percent: int) -> None:
    text = "".join(
        f"{tick},,cycles,{at},10.00,,\n{tick * percent / 100:.6f},,UOPS_ISSUED.ANY,{at},10.00,,\n"
        for at, tick in enumerate(ticks)
    )
    got = counts(text).events
    assert isinstance(got["cycles"], float)
    assert got["cycles"] == pytest.approx(sum(ticks) / len(ticks))
    assert got["uops_issued_any"] == pytest.approx(got["cycles"] * percent / 100, rel=1e-9)


def test_code_left_out_is_reported_and_never_mixed(snapshot: SnapshotAssertion) -> None:
    got = counts("9,,cycles:u,5,100.00,,\n4,,instructions:u,5,100.00,,\n")
    assert got.events == {"cycles": 9.0, "instructions": 4.0}
    assert got.notes == snapshot
    both = counts("9,,cycles,5,100.00,,\n4,,cycles:k,5,100.00,,\n")
    assert both.events == {"cycles": 9.0}
    assert both.unknown == ("cycles:k",)
    with pytest.raises(BadCountsError, match=":k, :u"):
        counts("9,,cycles:u,5,100.00,,\n4,,instructions:k,5,100.00,,\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"context-switches": 1}', "no event of it is one of SKX's table: context-switches"),
        ('{"cycles": 1, "cpu-cycles": 2}', "cycles and cpu-cycles are the same event"),
        (",,,,,1,GHz\n", "it has no counts"),
        ("{}", "it has no counts"),
    ],
)
def test_counts_of_nothing_are_refused(text: str, message: str) -> None:
    with pytest.raises(BadCountsError, match=message):
        counts(text)


def test_one_count_by_two_names_is_one_count() -> None:
    assert counts('{"cycles": 1, "cpu-cycles": 1}').events == {"cycles": 1.0}


@pytest.mark.parametrize("uarch", UARCHES)
def test_vectors_of_every_cpu_come_through_any_form(uarch: str) -> None:
    for name, vector in vectors.of(uarch).items():
        lines = [f"{count!r},,{event},500,100.00,," for event, count in vector.counts.items()]
        for text in (json.dumps(vector.counts), "\n".join(lines)):
            got = tma_of_counts(loaded(uarch), counts(text, uarch).events, smt=vector.smt)
            assert got.keys() == vector.ratios.keys()
            for node, ratio in vector.ratios.items():
                if name == "edge_all_zero":
                    reading = got[node]
                    assert isinstance(reading, Missing)
                    assert reading.reason is Reason.IDLE
                elif ratio is not None and ratio > 1:  # more cycles than there were
                    assert got[node] == OVERLAP, node
                else:
                    assert got[node] == pytest.approx(ratio, rel=1e-9, abs=1e-15), node


def test_an_event_not_counted_is_named_as_the_vendor_does(snapshot: SnapshotAssertion) -> None:
    got = tma_of_counts(loaded("SKX"), {"cycles": 1.0}, smt=False)
    assert sentence(got["frontend_bound"]) == snapshot
    assert tma_of_counts(loaded("generic"), {"cycles": 1.0}, smt=False) == {}


def stream(file: str) -> dict[str, str]:
    """The lines of each interval and cgroup."""
    components: dict[str, str] = {}
    for line in (STREAMS / file).read_text().splitlines(keepends=True):
        row = json.loads(line) if line.startswith("{") else {"interval": line.split(",")[0]}
        key = f"{row['interval']} {row.get('cgroup', '')}"
        components[key] = components.get(key, "") + line
    return components


def first_counts(lines: str) -> dict[str, tuple[float, float]]:
    """By event, its first count and that of `cpu-cycles` in the same group, which ends with it."""
    result: dict[str, tuple[float, float]] = {}
    group: dict[str, float] = {}
    runtime = ""
    for line in lines.splitlines():
        if line.startswith("{"):
            row = json.loads(line)
            event, count, at = row["event"], row["counter-value"], str(row["event-runtime"])
        else:
            _, count, _, event, at = line.split(",")[:5]
        if at != runtime:
            group, runtime = {}, at
        if not count.startswith("<"):
            group[event] = float(count)
        for key, number in group.items():
            result.setdefault(key, (number, 0.0))
            if "cpu-cycles" in group and result[key][1] == 0:
                result[key] = (result[key][0], group["cpu-cycles"])
    return result


# The vendor's formulas of level 1 and 2 (perfmon, sapphirerapids_metrics.json; svr-info's are the
# same) read PERF_METRICS, which one group counts, and INT_MISC.UOP_DROPPING, which another does.
SHARES = {
    "backend_bound": "BACKEND_BOUND",
    "retiring": "RETIRING",
    "branch_mispredicts": "BRANCH_MISPREDICTS",
    "memory_bound": "MEMORY_BOUND",
    "heavy_operations": "HEAVY_OPERATIONS",
}


# `perf stat -x, -a -M TopdownL1_SMT` of perf up to 6.0: the core's cycles by time alone.
@pytest.mark.parametrize("uarch", ["HSX", "BDX", "SKX", "CLX"])
@pytest.mark.parametrize("prefix", ["CPU_CLK_UNHALTED", "CPU_CLK_THREAD_UNHALTED"])
def test_the_core_s_cycles_are_those_of_its_older_events(uarch: str, prefix: str) -> None:
    vector = vectors.of(uarch)["mispredict_heavy_HT"]
    given = dict(vector.counts)
    core_cycles = given.pop("CPU_CLK_UNHALTED.THREAD_ANY") / 2
    alone = 2 * core_cycles / given["CPU_CLK_UNHALTED.THREAD"] - 1
    given |= {f"{prefix}.REF_XCLK": 1e6, f"{prefix}.ONE_THREAD_ACTIVE": alone * 1e6}
    lines = [f"{count!r},,{event},500,100.00,," for event, count in given.items()]
    result = counts("\n".join(lines), uarch)
    assert result.unknown == ()
    got = tma_of_counts(loaded(uarch), result.events, smt=True)
    for node, ratio in vector.ratios.items():
        assert got[node] == pytest.approx(ratio, rel=1e-6, abs=1e-12), node


def test_an_event_with_further_terms_is_the_event_they_make() -> None:
    names = EventNames(loaded("ICX"))
    assert names.find("cpu/UOPS_DECODED.DEC0,cmask=1/") == NamedEvent("uops_decoded_dec0_cycles")
    assert names.find("cpu/UOPS_DECODED.DEC0/") == NamedEvent("uops_decoded_dec0")
    assert names.find("cpu/UOPS_DECODED.DEC0,cmask=2/") is None
    assert names.find("cpu/UOPS_DECODED.DEC0,nosuch=1/") is None


LEVEL_1 = ("FRONTEND_BOUND", "BAD_SPECULATION", "BACKEND_BOUND", "RETIRING")


@pytest.mark.parametrize(
    ("file", "uarch", "components"),
    [
        ("svrinfo-emr.jsonl", "EMR", 3),
        ("svrinfo-cgroups.jsonl", "EMR", 2),
        ("svrinfo-spr.csv", "SPR", 1),
    ],
)
def test_real_streams_give_what_the_vendor_s_formulas_give(
    file: str, uarch: str, components: int
) -> None:
    assert len(stream(file)) == components
    for lines in stream(file).values():
        got = tma_of_counts(loaded(uarch), counts(lines, uarch).events, smt=True)
        raw = first_counts(lines)
        whole = sum(raw[f"PERF_METRICS.{name}"][0] for name in LEVEL_1)
        for node, event in SHARES.items():
            assert got[node] == pytest.approx(raw[f"PERF_METRICS.{event}"][0] / whole), node
        # Whatever the other group's share of the time, the correction is less than a hundredth.
        dropped = raw["INT_MISC.UOP_DROPPING"][0] / raw["TOPDOWN.SLOTS"][0]
        assert dropped < 0.007
        frontend = raw["PERF_METRICS.FRONTEND_BOUND"][0] / whole - dropped
        assert got["frontend_bound"] == pytest.approx(frontend, abs=max(dropped, 1e-9))
        level_1 = ("frontend_bound", "bad_speculation", "backend_bound", "retiring")
        values = [got[node] for node in level_1]
        assert sum(value for value in values if isinstance(value, float)) == pytest.approx(1)


@pytest.mark.parametrize(
    ("file", "uarch"), [("svrinfo-cgroups.jsonl", "EMR"), ("svrinfo-spr.csv", "SPR")]
)
def test_an_event_is_a_share_of_the_cycles_it_was_counted_with(file: str, uarch: str) -> None:
    for lines in stream(file).values():
        got = tma_of_counts(loaded(uarch), counts(lines, uarch).events, smt=True)
        for node, event in (
            ("store_bound", "EXE_ACTIVITY.BOUND_ON_STORES"),
            ("divider", "ARITH.DIV_ACTIVE"),
        ):
            count, cycles = first_counts(lines)[event]
            assert got[node] == pytest.approx(count / cycles), node


@pytest.mark.parametrize("file", ["svrinfo-emr.jsonl", "svrinfo-cgroups.jsonl"])
def test_a_whole_stream_is_between_its_halves(file: str) -> None:
    whole = tma_of_counts(
        loaded("EMR"), counts((STREAMS / file).read_text(), "EMR").events, smt=True
    )
    components = [
        tma_of_counts(loaded("EMR"), counts(lines, "EMR").events, smt=True)
        for lines in stream(file).values()
    ]
    for node in ("frontend_bound", "backend_bound", "retiring", "memory_bound"):
        of_components = [component[node] for component in components]
        low, high = (item(n for n in of_components if isinstance(n, float)) for item in (min, max))
        value = whole[node]
        assert isinstance(value, float)
        assert low <= value <= high
