"""Misses per packet: misses of the last turn go with the packets of the same tick."""

from __future__ import annotations

import numpy as np
import pytest

from nftop.derive.cpu.counters import AWAITING_TURN, CounterRates
from nftop.derive.cpu.table import MissState, step_misses
from nftop.model.column import Column, column, missing
from nftop.model.missing import Missing, Reading, Reason

NOTHING = Missing(Reason.SOURCE)
STALE = Missing(Reason.STALE, "too old")
OWNER = (("testpmd", 7),)


def rates(misses: float | Missing, age: float | None) -> CounterRates:
    """Of one CPU; without an age its misses are counted all the time."""
    counted = missing(1, misses) if isinstance(misses, Missing) else column(np.array([misses]))
    ages = {"llc_misses": np.array([np.nan if age is None else age])}
    rated: dict[str, Column] = {"llc_misses": counted}
    return CounterRates(rated, rated, {}, column(np.ones(1)), NOTHING, ages)


def step(
    state: MissState, seen: CounterRates, packets: float, owner: tuple[object, ...] = OWNER
) -> tuple[MissState, Reading]:
    state, result = step_misses(state, seen, column(np.array([packets])), owner)
    return state, result[0]


def test_it_is_kept_until_the_next_turn_whatever_the_packets_do() -> None:
    state, shown = step(MissState(), rates(500.0, 0), 1000.0)
    assert shown == 0.5
    for age in (1, 2):
        state, shown = step(state, rates(500.0, age), 100.0)
        assert shown == 0.5
    state, shown = step(state, rates(60.0, 0), 100.0)
    assert shown == pytest.approx(0.6)


def test_where_misses_are_counted_all_the_time_nothing_is_kept() -> None:
    state, shown = step(MissState(), rates(500.0, None), 1000.0)
    assert shown == 0.5
    _, shown = step(state, rates(500.0, None), 100.0)
    assert shown == 5.0


def test_too_old_is_too_old_and_no_packets_are_no_ratio() -> None:
    state, _ = step(MissState(), rates(500.0, 0), 1000.0)
    _, shown = step(state, rates(500.0, 1), 0.0)
    assert isinstance(shown, Missing) and shown.reason is Reason.IDLE
    _, shown = step(state, rates(STALE, None), 1000.0)
    assert shown == STALE


@pytest.mark.parametrize("other", [(("vpp", 9),), (None,)])
def test_another_s_packets_are_not_those_that_missed(other: tuple[object, ...]) -> None:
    state, _ = step(MissState(), rates(500.0, 0), 1000.0)
    _, shown = step(state, rates(500.0, 1), 1000.0, other)
    assert shown == AWAITING_TURN


def test_after_a_tick_without_packets_the_next_turn_reports() -> None:
    state, shown = step(MissState(), rates(500.0, 0), 0.0)
    assert isinstance(shown, Missing) and shown.reason is Reason.IDLE
    state, shown = step(state, rates(500.0, 1), 1000.0)
    assert shown == AWAITING_TURN
    _, shown = step(state, rates(300.0, 0), 1000.0)
    assert shown == 0.3


def test_a_reading_seen_before_keeps_what_it_gave() -> None:
    seen = rates(500.0, 0)
    state, _ = step(MissState(), seen, 1000.0)
    _, shown = step(state, seen, 100.0)
    assert shown == 0.5
