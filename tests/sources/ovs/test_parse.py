"""What OVS prints, of every version there is a capture of, and what nobody would print."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from nftop.model.nf.ovs import OvsQueue
from nftop.sources.nf_session.connection import ReplyError
from nftop.sources.ovs.jsonrpc import MAX_REPLY_BYTES, Framing
from nftop.sources.ovs.protocol import (
    PERF,
    RXQ,
    STATS,
    OvsCall,
    PmdCounts,
    Reply,
    calls_for,
    counted,
    counters,
    polled,
    release_of,
    reply,
    request,
)

DATA = Path(__file__).parents[2] / "data" / "ovs"


def rows(capture: str) -> list[tuple[str, dict[str, Any]]]:
    """Each method and its reply, in order."""
    lines = (DATA / f"{capture}.jsonl").read_text().splitlines()
    return [
        (json.loads(row["tx"])["method"], json.loads(row["rx"])) for row in map(json.loads, lines)
    ]


def texts(capture: str, method: str) -> list[str]:
    """The results of one command, in order."""
    return [
        result
        for name, answer in rows(capture)
        if name == method and isinstance(result := answer.get("result"), str)
    ]


def test_of_every_captured_text_every_line_is_read_to_its_number() -> None:
    """The oracle is the text itself: a line's label, and the first number behind it."""
    labels = {
        "rx_packets": "(packets received|Rx packets)",
        "tx_packets": "Tx packets",
        "idle_cycles": "idle cycles",
        "busy_cycles": "processing cycles",
        "used_cycles": "Used TSC cycles",
        "sleep_us": r"Sleep time \(us\)",
        "upcalls": "(miss with success upcall|Upcalls)",
        "lost_upcalls": "(miss with failed upcall|Lost upcalls)",
    }
    hits = {
        "phwol": "phwol hits",
        "simple": "simple match hits",
        "emc": "emc hits",
        "smc": "smc hits",
        "megaflow": "megaflow hits",
    }
    checked = 0

    def printed(label: str, block: str) -> int | None:
        nonlocal checked
        shown = re.search(rf"(?mi)^ +(?:- )?(?:{label}): *(\d+)", block)
        checked += shown is not None
        return int(shown.groups()[-1]) if shown else None

    for path, method in itertools.product(DATA.glob("*.jsonl"), (STATS, PERF)):
        for text in texts(path.stem, method):
            blocks = re.split(r"(?m)^(?=\S)", text)
            pmds = [item for item in blocks if item.startswith("pmd thread")]
            result = counted(text)
            assert len(pmds) == len(result)
            for block in pmds:
                pmd = result[int(block.split("core_id ")[1].split(":")[0])]
                for field, label in labels.items():
                    assert getattr(pmd, field) == printed(label, block), (path.stem, field)
                for table, label in hits.items():
                    assert pmd.hits.get(table) == printed(label, block), (path.stem, table)
    assert checked > 250


def test_two_pmd_threads_of_a_capture_in_figures() -> None:
    result = counted(texts("ovs-3.1.0-dpdk-2pmd-2rxq", PERF)[0])
    assert result[0] == PmdCounts(
        numa=0,
        rx_packets=88524064,
        tx_packets=88524032,
        used_cycles=11071479980,
        sleep_us=0,
        upcalls=1,
        lost_upcalls=0,
        counted_s=4.267,
        hits={"phwol": 0, "simple": 88524000, "emc": 0, "smc": 0, "megaflow": 31},
        tx_batches=2766376,
    )
    assert (result[1].rx_packets, result[1].counted_s) == (2405004736, 81.605)
    queues, window_s = polled(texts("ovs-3.1.0-dpdk-2pmd-2rxq", RXQ)[0])
    assert queues[1].queues == (OvsQueue("n0", 1, True, None), OvsQueue("n1", 0, True, None))
    assert (queues[1].overhead_ratio, window_s) == (None, 60.0)


def test_right_after_a_clear_pmd_perf_show_is_empty() -> None:
    *_, empty = texts("ovs-3.1.0-dpdk-clear", PERF)
    assert counted(empty) == {1: PmdCounts(numa=0, counted_s=0.0)}
    (stats,) = texts("ovs-3.1.0-dpdk-clear", STATS)
    assert counted(stats)[1].rx_packets == 1088


def test_shares_are_those_printed() -> None:
    before, after = texts("ovs-4.0.0-dpdk25.11-1pmd", RXQ)[1:3]
    assert polled(before)[0][1].queues[0].used_ratio is None  # NOT AVAIL
    queues, window_s = polled(after)
    assert [queue.used_ratio for queue in queues[1].queues] == [0.87, 0.0]
    assert (queues[1].overhead_ratio, window_s) == (0.13, 5.0)


# Forms that no capture has, as their printf has them (dpif-netdev.c of those releases).
STATS_2_6 = """\
main thread:
\temc hits:0
\tmiss:0
\tlost:0
pmd thread numa_id 1 core_id 22:
\temc hits:700
\tmegaflow hits:290
\tavg. subtable lookups per hit:1.00
\tmiss:10
\tlost:4
\tpolling cycles:3000 (75.00%)
\tprocessing cycles:1000 (25.00%)
\tavg cycles per packet: 4.00 (4000/1000)
\tavg processing cycles per packet: 1.00 (1000/1000)
"""
RXQ_2_6 = "pmd thread numa_id 0 core_id 3:\n\tisolated : false\n\tport: dpdk 0\tqueue-id: 0 1 12\n"
RXQ_2_9 = """\
pmd thread numa_id 0 core_id 3:
\tisolated : true
\tport: dpdk0           \tqueue-id:  0\tpmd usage: 70 %
\tport: vhu             \tqueue-id:  1 (disabled)\tpmd usage:  0 %
"""


def test_before_2_10_cycles_are_reported_and_packets_are_not() -> None:
    """What it calls hits and misses are passes: a packet that is recirculated makes several."""
    at = Reply(STATS_2_6, "", 30)
    rxq = Reply(RXQ_2_6, "", 40)
    (three, pmd) = counters({OvsCall(STATS): at, OvsCall(RXQ): rxq}, 20).pmds
    assert (three.core, pmd.core, pmd.numa) == (3, 22, 1)
    assert (pmd.rx_packets, pmd.tx_packets, pmd.sleep_us) == (None, None, None)
    assert (pmd.used_cycles, pmd.busy_cycles) == (4000, 1000)
    assert (pmd.upcalls, pmd.lost_upcalls) == (10, 4)
    assert pmd.hits == {"emc": 700, "megaflow": 290}
    assert [(queue.port, queue.queue) for queue in three.queues] == [
        ("dpdk 0", 0),
        ("dpdk 0", 1),
        ("dpdk 0", 12),
    ]


def test_shares_before_their_time_was_reported_are_of_a_minute() -> None:
    queues, window_s = polled(RXQ_2_9)
    assert queues[3].queues == (
        OvsQueue("dpdk0", 0, True, 0.7),
        OvsQueue("vhu", 1, False, 0.0),
    )
    assert window_s == 60.0
    assert polled(RXQ_2_6)[1] is None


def test_a_share_that_can_t_be_is_none() -> None:
    text = "pmd thread numa_id 0 core_id 3:\n  port: a  queue-id: 0 (enabled) pmd usage: 259 %\n"
    assert polled(text)[0][3].queues[0].used_ratio is None


def test_upcalls_are_all_that_missed_the_lost_ones_too() -> None:
    text = texts("ovs-4.0.0-dpdk25.11-1pmd", PERF)[0]
    (pmd,) = counters({OvsCall(PERF): Reply(text, "", 7)}, 3).pmds
    assert (pmd.upcalls, pmd.lost_upcalls) == (32642, 32641)
    assert (pmd.upcalls or 0) + sum(pmd.hits.values()) == pmd.rx_packets


def test_the_time_of_a_reading_is_that_of_its_packets() -> None:
    stats, perf = (texts("ovs-3.5.0-dpdk24.11-1pmd", item)[0] for item in (STATS, PERF))
    result = counters(
        {OvsCall(STATS): Reply(stats, "", 200), OvsCall(PERF): Reply(perf, "", 900)}, 100
    )
    assert (result.read_at_ns, result.took_ns) == (150, 800)


@pytest.mark.parametrize(
    ("version", "release", "methods"),
    [
        ("ovs-vswitchd (Open vSwitch) 2.6.1", (2, 6), [(STATS,), (RXQ,)]),
        ("ovs-vswitchd (Open vSwitch) 2.10.0", (2, 10), [(STATS,), (PERF, "-nh"), (RXQ,)]),
        ("ovs-vswitchd (Open vSwitch) 3.0.9", (3, 0), [(STATS,), (PERF, "-nh"), (RXQ,)]),
        ("ovs-vswitchd-dpdk (Open vSwitch) 3.1.0\nDPDK 22.11", (3, 1),
         [(STATS,), (PERF, "-nh"), (RXQ, "-secs", "5")]),
        ("ovs-vswitchd (Open vSwitch) 3.6.90-git", (3, 6),
         [(STATS,), (PERF, "-nh"), (RXQ, "-secs", "5")]),
        ("ovs-vswitchd (Open vSwitch) 4.0.0", (4, 0), [(PERF, "-nh"), (RXQ, "-secs", "5")]),
    ],
)  # fmt: skip
def test_what_every_version_is_queried(
    version: str, release: tuple[int, int], methods: list[tuple[str, ...]]
) -> None:
    assert release_of(version) == release
    assert [(call.method, *call.arguments) for call in calls_for(release)] == methods


def test_errors_of_every_version_are_errors(snapshot: SnapshotAssertion) -> None:
    """2.x to 4.0 leave `result` out; an error beside a result of null is one too."""
    for capture in ("ovs-3.1.0-dpdk-1pmd-forwarding", "ovs-4.0.0-dpdk25.11-1pmd"):
        (answer,) = (result for name, result in rows(capture) if name.startswith("nosuch"))
        assert "result" not in answer
        reports = reply(json.dumps(answer).encode(), answer["id"], "nosuch", 1)
        assert reports.error == snapshot
        assert reports.text == ""
    assert reply(b'{"id":1,"result":null,"error":"no"}', 1, "x", 1).error == "no"
    assert reply(b'{"id":1,"result":null,"error":null}', 1, "x", 1) == Reply("", "", 1)
    assert reply(b'{"id":1,"result":"","error":null}', 1, "x", 1) == Reply("", "", 1)


def test_a_request_is_the_one_that_was_captured() -> None:
    for line in (DATA / "ovs-3.5.0-dpdk24.11-1pmd.jsonl").read_text().splitlines():
        sent = json.loads(json.loads(line)["tx"])
        created = json.loads(request(sent["id"], sent["method"], tuple(sent["params"])))
        assert created == sent


@given(st.lists(st.recursive(
    st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(
        st.text(), inner), max_leaves=8).map(lambda value: {"id": value}), min_size=1, max_size=5),
    st.booleans(), st.integers(1, 40))  # fmt: skip
def test_objects_are_distinguished_however_they_are_cut(
    objects: list[dict[str, Any]], ascii_only: bool, size: int
) -> None:
    stream = "\n".join(json.dumps(item, ensure_ascii=ascii_only) for item in objects).encode(
        "utf-8", "surrogatepass"
    )
    framing = Framing()
    whole: list[bytes] = []
    for at in range(0, len(stream), size):
        whole += framing.feed(stream[at : at + size])
    assert [json.loads(item.decode("utf-8", "surrogatepass")) for item in whole] == objects


def test_an_answer_without_end_is_no_answer() -> None:
    framing = Framing()
    with pytest.raises(ReplyError, match="4 MiB"):
        for _ in range(MAX_REPLY_BYTES // 1000 + 1000):
            framing.feed(b'{"' * 1 + b"x" * 1000)


LINES = st.sampled_from(
    "\n".join(
        (
            STATS_2_6,
            RXQ_2_6,
            RXQ_2_9,
            *texts("ovs-4.0.0-dpdk25.11-1pmd", PERF)[:1],
            *texts("ovs-3.5.0-dpdk24.11-1pmd", STATS)[:1],
        )
    ).split("\n")
)
SPOILT = st.tuples(LINES, st.integers(0, 60), st.text(max_size=4)).map(
    lambda items: items[0][: items[1]] + items[2] + items[0][items[1] :]
)


@given(st.lists(LINES | SPOILT | st.text(max_size=30), max_size=30).map("\n".join))
def test_whatever_it_prints_is_numbers_or_our_own_error(text: str) -> None:
    for read in (counted, polled):
        try:
            result: Any = read(text)
        except ReplyError as error:
            assert "\n" not in str(error)
            continue
        for pmd in result.values() if read is counted else result[0].values():
            assert 0 <= pmd.numa < 1 << 17
            for item in getattr(pmd, "queues", ()):
                assert item.used_ratio is None or 0 <= item.used_ratio <= 1
            assert 0 <= (getattr(pmd, "rx_packets", 0) or 0) < 1 << 64


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda value: json.dumps(
    {"id": 1, "result": value}).encode()))  # fmt: skip
def test_whatever_comes_is_a_reply_or_our_own_error(raw: bytes) -> None:
    try:
        for item in Framing().feed(raw):
            reply(item, 1, "version", 0)
        release_of(raw.decode("utf-8", "replace"))
    except ReplyError as error:
        assert "\n" not in str(error)
