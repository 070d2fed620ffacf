"""Replies of a DPDK application's telemetry socket.

An input has lines `COMMAND reply`; the dialogues of nftop get the reply of the command they send.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from nftop.sources.dpdk.protocol import (
    Answers,
    Dialogue,
    ask_commands,
    ask_counters,
    ask_facts,
    ask_remedy,
    ask_zone_names,
    ask_zones,
    greeting,
    latency,
    reply,
)
from nftop.sources.nf_session.connection import BatchTimes

T = TypeVar("T")
_DATA = Path(__file__).parents[2] / "data/dpdk"
_NAMES = ("min_latency_ns", "avg_latency_ns", "max_latency_ns", "jitter_ns")
_STATS = [{"name": name, "value": 100} for name in _NAMES]
_LEGACY = {"status_code": "Status OK: 200", "data": [{"port": -1, "stats": _STATS}]}
WORDS = (
    b"rx_good_packets", b"tx_good_packets", b"rx_q0_packets", b"rxq_0_pkts", b"rx_q0_errors",
    b"nb_rx_queues", b"dev_flags", b'"0x4"', b"null", b"true", b"{", b"}", b"[", b"]", b'"', b":",
    b"/ethdev/xstats", b"/eal/lcore/usage", b"hide_zero", b"busy_cycles", b"\\ud800", b"\\u0000",
    b"jitter_ns", b"stats", b"value", b"max_output_len", b"-1", b"1e5", b"NaN", b"Infinity",
)  # fmt: skip


def seeds() -> list[bytes]:
    result = []
    for file in sorted(_DATA.glob("*.jsonl")):
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        lines = [f"greeting {json.dumps(rows[0]['greeting'])}"]
        last = {row["command"]: row["reply"] for row in rows[1:]}
        lines += [f"{command} {json.dumps(value)}" for command, value in last.items()]
        lines += ['/eal/memzone_list {"/eal/memzone_list": [0]}', f"legacy {json.dumps(_LEGACY)}"]
        lines += ['/eal/memzone_info,0 {"/eal/memzone_info": {"Name": "rte_latencystats"}}']
        short = [line for line in lines if len(line) < 6000]
        result.append("\n".join(short).encode())
        result.append(
            "\n".join(line for line in short if not line.startswith("/ethdev/xstats")).encode()
        )
    return result


def _held(dialogue: Dialogue[T], replies: Mapping[str, bytes]) -> T:
    try:
        requests = next(dialogue)
        while True:
            raw = {request: _reply(replies, request) for request in requests}
            values = {request: reply(data, request) for request, data in raw.items()}
            sizes = {request: len(data) for request, data in raw.items()}
            requests = dialogue.send(Answers(values, sizes, BatchTimes(1_000, 3_000)))
    except StopIteration as end:
        result: T = end.value
        return result


def _reply(replies: Mapping[str, bytes], request: str) -> bytes:
    name = request.partition(",")[0]
    return replies.get(request, json.dumps({name: None}).encode())


def play(data: bytes) -> None:
    """A connection: greeting, commands, facts, counters, what a cut reply needs, once more."""
    replies = {}
    for line in data.split(b"\n"):
        name, _, value = line.partition(b" ")
        replies[name.decode("latin-1")] = value
    first = greeting(replies.get("greeting", b""))
    assert 0 < first.message_bytes <= 1 << 20
    for command in _held(ask_commands(), replies):
        command.encode()
    facts = _held(ask_facts(None), replies)
    for _ in range(2):
        facts, counters = _held(ask_counters(facts, first.message_bytes, everything=True), replies)
        assert len(counters.ports) == len(facts.ports)
        for port in counters.ports:
            assert port.rx_queues is None or len(port.rx_queue_packets) in (0, port.rx_queues)
        facts = _held(ask_facts(facts), replies)
        facts = _held(ask_remedy(facts), replies)
    for zone in _held(ask_zone_names(_held(ask_zones(), replies)[:9]), replies):
        zone.encode()
    latency(replies.get("legacy", b""), 0)
