"""Replies of ovs-vswitchd's control socket: a stream of JSON objects with text in them."""

from __future__ import annotations

import json
from pathlib import Path

from nftop.sources.ovs.jsonrpc import Framing
from nftop.sources.ovs.protocol import VERSION, calls_for, counters, release_of, reply

_DATA = Path(__file__).parents[2] / "data/ovs"
WORDS = (
    b"pmd thread numa_id 0 core_id 1:", b"main thread:", b"packets received:", b"idle cycles:",
    b"queue-id:", b"port: ", b"(enabled)", b"(disabled)", b"pmd usage: ", b"overhead: ", b" %",
    b"NOT AVAIL", b"Measurement duration: 1.0 s", b"Displaying last 5 seconds pmd usage %",
    b"Rx packets:", b"Used TSC cycles:", b"\\n", b'"', b"\\", b"{", b"}", b'"error":', b'"id":',
    b'"result":', b"null", b"\\ud800",
)  # fmt: skip


def seeds() -> list[bytes]:
    result = []
    for file in sorted(_DATA.glob("*.jsonl")):
        replies: dict[str, str] = {}
        for row in map(json.loads, file.read_text().splitlines()):
            answer = json.loads(row["rx"])
            if isinstance(answer.get("result"), str):
                replies[json.loads(row["tx"])["method"]] = answer["result"]
        if VERSION.method not in replies:
            replies[VERSION.method] = "ovs-vswitchd (Open vSwitch) 3.1.0"
        calls = (VERSION, *calls_for(release_of(replies[VERSION.method])))
        texts = [replies.get(call.method, "")[:3000] for call in calls]
        result.append(
            b"".join(
                json.dumps({"id": number, "result": text, "error": None}).encode()
                for number, text in enumerate(texts)
            )
        )
    return result


def play(data: bytes) -> None:
    """The stream in pieces and whole gives the same objects; the objects are a reading."""
    whole = _framed([data])
    pieces = [data[at : at + 7] for at in range(0, len(data), 7)]
    assert whole == _framed(pieces)
    if not whole:
        return
    release = release_of(reply(whole[0], 0, VERSION.method, 0).text)
    calls = calls_for(release)
    replies = {
        call: reply(raw, number, call.method, number)
        for number, (call, raw) in enumerate(zip(calls, whole[1:], strict=False), 1)
    }
    reading = counters(replies, 0)
    for pmd in reading.pmds:
        assert 0 <= pmd.core < 1 << 16
        for queue in pmd.queues:
            queue.port.encode()  # any writer takes it
        for count in (pmd.rx_packets, pmd.tx_packets, pmd.busy_cycles, pmd.upcalls):
            assert count is None or 0 <= count < 1 << 65


def _framed(pieces: list[bytes]) -> list[bytes]:
    framing, result = Framing(), []
    for piece in pieces:
        result += framing.feed(piece)
    return result
