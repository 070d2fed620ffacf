"""Throughput against the NF's own last minutes: a collapse, or traffic that was stopped."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nftop.derive.findings.engine import FindingState, step_findings
from nftop.derive.findings.registry import rule_called
from nftop.derive.findings.rule import Rule
from nftop.derive.nf.recent import RecentState, step_recent
from nftop.model.frame import Finding
from nftop.model.missing import Missing, Reading, Reason
from tests.derive.nf.test_recent import LOST, tick


def known(name: str) -> Rule:
    rule = rule_called(name)
    assert rule is not None
    return rule


RULES = (known("throughput-collapse"), known("traffic-stopped"))


def run(*after: tuple[Reading, Reading, Reading], usual: float = 22e6) -> list[set[str]]:
    """Rules that hold after a minute of `usual` packets and then these: sent, received, dropped."""
    recent, state, held = RecentState(), FindingState(), []
    ticks = [(usual, usual, 0.0)] * 60 + list(after)
    for second, (sent, received, drops) in enumerate(ticks):
        frame = tick(second, sent, received, drops)
        recent = step_recent(recent, frame)
        rows: tuple[Finding, ...]
        state, rows = step_findings(state, frame, {}, pace_s=1.0, rules=RULES, recent=recent.rates)
        held.append({item.rule for item in rows})
    assert not any(held[:60])
    return held[60:]


def test_a_collapse_while_packets_arrive() -> None:
    held = run(*[(0.0, 0.0, 22e6)] * 30)
    assert held[2] == set() and all(item == {"throughput-collapse"} for item in held[3:])


def test_packets_that_are_received_and_not_sent_collapse_too() -> None:
    assert run(*[(0.0, 22e6, 0.0)] * 6)[-1] == {"throughput-collapse"}


@pytest.mark.parametrize("drops", [0.0, LOST])
def test_an_intended_stop_of_traffic_is_no_collapse(drops: Reading) -> None:
    assert run(*[(0.0, 0.0, drops)] * 10)[-1] == {"traffic-stopped"}
    # Half of the load is neither.
    assert run(*[(9e6, 9e6, drops)] * 10)[-1] == set()


def test_both_end_when_the_packets_return() -> None:
    for low in ((0.0, 0.0, 22e6), (0.0, 0.0, 0.0)):
        held = run(*[low] * 10, *[(22e6, 22e6, 0.0)] * 5)
        assert held[9] and held[-1] == set()


def test_small_rates_and_unknown_ones_are_none() -> None:
    assert run(*[(0.0, 0.0, 5e4)] * 10, usual=5e4)[-1] == set()
    absent = Missing(Reason.STALE)
    assert run(*[(absent, absent, absent)] * 10)[-1] == set()


def test_a_restarted_function_starts_anew() -> None:
    recent, state = RecentState(), FindingState()
    for second in range(60):
        recent = step_recent(recent, tick(second, 22e6, 22e6))
    frame = tick(60, 0.0, 22e6)
    frame = replace(frame, nfs=(replace(frame.nfs[0], key="b"),))
    recent = step_recent(recent, frame)
    _, rows = step_findings(state, frame, {}, pace_s=1.0, rules=RULES, recent=recent.rates)
    assert rows == () and isinstance(recent.rates["b"].usual, Missing)
