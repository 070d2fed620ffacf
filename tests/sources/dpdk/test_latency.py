"""Latencystats by the legacy telemetry socket, and what is asked of an application for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nftop.model.missing import Missing, Reason
from nftop.model.sample import DpdkLatency
from nftop.sources.dpdk.client import TelemetryLink
from nftop.sources.dpdk.latency import OFF
from tests.peers.dpdk_telemetry import Peer
from tests.sources.dpdk.test_source import Bench, bench, stood
from tests.waiting import until

__all__ = ["bench", "stood"]

_NS = {"min_latency_ns": 40, "avg_latency_ns": 128, "max_latency_ns": 16833664, "jitter_ns": 26}
_REQUEST = '{"action":0,"command":"global_stat_values","data":null}'


def reply(values: dict[str, Any], **others: Any) -> str:
    """As DPDK 22.11 answers, in one line."""
    stats = [{"name": name, "value": value} for name, value in values.items()]
    stats.append({"name": "rx_good_packets", "value": 0})
    data = [{"port": -1, "stats": stats}]
    return json.dumps({"status_code": "Status OK: 200", "data": data, **others})


def requests(peer: Peer) -> int:
    return peer.requested().count(_REQUEST)


def value_of(stood: Bench, peer: Peer) -> DpdkLatency | Missing:
    """Of the first request, once its reply has arrived."""
    stood.app()  # some of the zones
    assert requests(peer) == 0
    stood.app()
    until(lambda: requests(peer) == 1 and _heard(stood))
    return stood.app().latency


def _heard(stood: Bench) -> bool:
    latency = stood.app().latency
    return not isinstance(latency, Missing) or latency.reason is not Reason.WARMING


def test_the_latency_is_what_latencystats_reports_and_when(stood: Bench) -> None:
    peer = stood.peer()
    peer.behave(f"legacy {reply(_NS)}")
    assert value_of(stood, peer) == DpdkLatency(128, 40, 16833664, 26, stood.clock())
    stood.clock.skipped_s += 9
    app = stood.app()
    assert app.latency == DpdkLatency(128, 40, 16833664, 26, stood.clock() - 9_000_000_000)
    assert app.problem is None


def test_it_is_read_ever_more_rarely(stood: Bench) -> None:
    peer = stood.peer()
    peer.behave(f"legacy {reply(_NS)}")
    value_of(stood, peer)
    began_ns = stood.clock()
    at_s = set()
    for second in range(5, 1500, 5):
        stood.clock.skipped_s = second
        stood.app()  # the zones
        stood.app()
        until(lambda: stood.app().problem is None and not pending(stood))
        latency = stood.app().latency
        assert isinstance(latency, DpdkLatency)
        at_s.add((latency.read_at_ns - began_ns) // 1_000_000_000)
    assert sorted(at_s) == [0, 10, 30, 70, 150, 310, 610, 910, 1210]
    assert requests(peer) == len(at_s)


def pending(stood: Bench) -> bool:
    """Whether a request was not answered yet."""
    (session,) = stood.source._sessions.values()
    link = getattr(session, "_link", None)
    assert isinstance(link, TelemetryLink)
    return link.companion is not None


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (reply(dict.fromkeys(_NS, 0)), Reason.IDLE),
        (reply({"rx_missed": 0}), Reason.SOURCE),
        (json.dumps({"status_code": "Status Error: Unknown", "data": None}), Reason.ERROR),
        (reply({**_NS, "jitter_ns": -1}), Reason.ERROR),
        (reply({**_NS, "jitter_ns": 1.5}), Reason.ERROR),
        (reply({}, data=[]), Reason.ERROR),
        ("x" * 110_000, Reason.ERROR),
        ("[" * 9_000, Reason.ERROR),
        ("off", Reason.SOURCE),
    ],
)
def test_reasons_for_none(stood: Bench, answer: str, reason: Reason) -> None:
    peer = stood.peer()
    peer.behave(f"legacy {answer}")
    stood.app()
    stood.app()
    until(lambda: _heard(stood))
    app = stood.app()
    assert isinstance(app.latency, Missing)
    assert app.latency.reason is reason
    assert app.latency != OFF
    assert app.problem is None


def test_a_socket_that_does_not_answer_is_left(stood: Bench) -> None:
    peer = stood.peer()
    peer.behave("legacy silent")
    stood.app()
    stood.app()
    until(lambda: requests(peer) == 1)
    assert not _heard(stood)
    stood.clock.skipped_s = 10
    latency = stood.app().latency
    assert isinstance(latency, Missing)
    assert latency.reason is Reason.STALE
    assert stood.app().problem is None


def test_without_latencystats_the_legacy_socket_is_left_alone(stood: Bench) -> None:
    peer = stood.peer()
    assert stood.app().latency == OFF
    assert requests(peer) == 0


def test_the_legacy_socket_of_another_application_is_not_read(stood: Bench, tmp_path: Path) -> None:
    one, other = stood.peer(), stood.peer(prefix="other")
    for peer in (one, other):
        peer.behave(f"legacy {reply(_NS)}")
    own = one.socket.parent / "telemetry"
    own.unlink()
    own.symlink_to(other.socket.parent / "telemetry")
    stood.apps()
    stood.apps()
    latency = next(app for app in stood.apps() if app.pid == one.pid).latency
    assert isinstance(latency, Missing)
    assert latency.reason is Reason.SOURCE
    assert requests(one) == 0
