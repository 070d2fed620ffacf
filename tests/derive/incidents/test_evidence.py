"""Causes that are ruled out by their numbers."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from nftop.derive.incidents.evidence import ruled_out
from nftop.derive.nf.recent import RecentPoint, RecentRates
from nftop.model.incident import RuledOut
from tests.frames import SECOND_NS
from tests.render.incidents.scenes import frame_with, incident, victim

BEGAN_NS = 20 * SECOND_NS
NAN = math.nan


def rates(before: float, now: float) -> RecentRates:
    points = [RecentPoint(second * SECOND_NS, 1e6, before, 0.0, 200.0) for second in range(10)]
    return RecentRates((*points, RecentPoint(25 * SECOND_NS, 1e6, now, 0.0, 200.0)))


def load(**recent: RecentRates) -> RuledOut:
    one = replace(incident(), victims=tuple(victim(name) for name in recent))
    by_key = {f"key {name}": item for name, item in recent.items()}
    return ruled_out(frame_with(one), one, by_key, BEGAN_NS)[0]


def test_fewer_packets_at_one_victim_do_not_hide_more_at_another() -> None:
    assert load(fwd=rates(10e6, 5e6), vpp=rates(10e6, 12e6)) == RuledOut(
        "arriving load", False, "+20%"
    )
    assert load(fwd=rates(10e6, 5e6), vpp=rates(10e6, 10e6)).excluded is True


@pytest.mark.parametrize("others", [{}, {"vpp": RecentRates()}])
def test_packets_that_are_not_counted_rule_nothing_out(others: dict[str, RecentRates]) -> None:
    one = load(fwd=rates(10e6, NAN), **others)
    assert one.excluded is None and "nan" not in one.text


def test_a_number_of_one_victim_counts_without_those_of_others() -> None:
    assert load(fwd=rates(10e6, NAN), vpp=rates(10e6, 10e6)).excluded is True
