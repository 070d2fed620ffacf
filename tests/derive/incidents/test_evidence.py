"""Causes that are ruled out by their numbers."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.derive.findings.inputs import FindingInputs
from nftop.derive.incidents.evidence import chain_of, ruled_out
from nftop.derive.incidents.parties import Cause, CauseKey
from nftop.derive.nf.recent import RecentPoint, RecentRates
from nftop.model.incident import RuledOut
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.rule_settings import NO_SETTINGS
from tests.frames import SECOND_NS, WALL_NS, nic_drops, with_cells
from tests.render.incidents.scenes import frame_with, incident, victim

BEGAN_NS = 20 * SECOND_NS
NAN = math.nan


def rates(before: float, now: float) -> RecentRates:
    points = [RecentPoint(second * SECOND_NS, 1e6, before, 0.0, 200.0) for second in range(10)]
    return RecentRates((*points, RecentPoint(25 * SECOND_NS, 1e6, now, 0.0, 200.0)))


def load(**recent: RecentRates) -> RuledOut:
    one = replace(incident(), victims=tuple(victim(name) for name in recent))
    by_key = {f"key {name}": item for name, item in recent.items()}
    now = frame_with(one)
    nfs = []
    for key, item in by_key.items():
        number = item.points[-1].arriving if item.points else NAN
        arriving: Reading = Missing(Reason.STALE) if math.isnan(number) else number
        readings = {**now.nfs[0].readings, **nic_drops(0.0), "rx_packets_per_s": arriving}
        nfs.append(replace(now.nfs[0], key=key, readings=readings))
    return ruled_out(FindingInputs(replace(now, nfs=tuple(nfs)), {}, (), by_key), one, BEGAN_NS)[0]


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


def test_arriving_packets_are_not_checked_where_they_are_the_cause() -> None:
    one = replace(incident(), kind="stopped")
    names = [item.name for item in ruled_out(FindingInputs(frame_with(one), {}), one, BEGAN_NS)]
    assert "arriving load" not in names and "wait" in names


def test_a_cause_is_ruled_out_by_the_limit_that_the_operator_set() -> None:
    one = replace(incident(), kind="nf")
    waits = with_cells(frame_with(one), "wait_ratio", {1: 0.09})
    settings = NO_SETTINGS.with_limit("poller-waits", 0.2)
    for of, excluded in ((NO_SETTINGS, False), (settings, True)):
        checks = ruled_out(FindingInputs(waits, {}, settings=of), one, BEGAN_NS)
        assert {item.name: item.excluded for item in checks}["wait"] is excluded


def test_without_readings_from_before_load_is_not_known() -> None:
    assert (
        load(fwd=RecentRates((RecentPoint(25 * SECOND_NS, 1e6, 5e6, 0.0, 200.0),))).excluded is None
    )
    assert load(fwd=rates(0.0, 5e6)).text == "none before it"


@pytest.mark.parametrize(
    ("now", "takes_effects", "costs"), [(230.0, True, 2), (180.0, True, 0), (230.0, False, 0)]
)
def test_only_higher_costs_that_a_cause_explains_are_effects(
    now: float, takes_effects: bool, costs: int
) -> None:
    one = incident()
    one = replace(one, victims=tuple(replace(item, cpp_now=now) for item in one.victims))
    cause = Cause(
        CauseKey("neighbour", "t"), "neighbour", "", None, (), (), takes_effects=takes_effects
    )
    links = chain_of(frame_with(one), cause, one, {})
    assert sum(link.source == "cpp" for link in links) == costs


def test_a_cost_has_the_time_of_the_first_tick_that_shows_it_and_keeps_it(
    snapshot: SnapshotAssertion,
) -> None:
    began_ns = 20 * SECOND_NS
    one = replace(
        incident(),
        victims=(replace(victim(), bounds=(True, False)),),
        began_ns=began_ns,
        since_ns=WALL_NS,
    )
    costs = [210.0] * 23 + [230.0] * 5
    points = [
        RecentPoint(second * SECOND_NS, 1e6, 1e6, 0.0, cost) for second, cost in enumerate(costs)
    ]
    cause = Cause(CauseKey("neighbour", "t"), "neighbour", "", None, (), ())
    [link] = chain_of(frame_with(one), cause, one, {"key fwd": RecentRates(tuple(points))})
    assert link.wall_ns == WALL_NS + 3 * SECOND_NS
    assert link.text == snapshot
    [later] = chain_of(frame_with(one), cause, one, {}, [link])
    assert later.wall_ns == link.wall_ns
