"""Counters to rates: what holds for whatever counts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.derive.nf.counter_rates import Rated, identity, rate_counters, rate_of
from nftop.model.missing import Missing, Reason
from tests.samples import S

NO = Missing(Reason.SOURCE, "no such counter")
COUNTS = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 2**64 - 1), min_size=1)
STEPS = st.integers(1, 3600 * S)


@given(COUNTS, st.dictionaries(st.sampled_from("abcd"), st.integers(0, 2**50)), STEPS)
def test_a_rate_is_the_growth_over_its_own_clock(
    before: dict[str, int], grown: dict[str, int], step_ns: int
) -> None:
    after = {name: count + grown.get(name, 0) for name, count in before.items()}
    rated = rate_counters(rate_counters(None, before, S), after, S + step_ns)
    assert rated.interval_s == pytest.approx(step_ns / 1e9)
    for name in before:
        rate = rate_of(rated, name, NO)
        assert rate == pytest.approx(grown.get(name, 0) / (step_ns / 1e9))
    assert rate_of(rated, "never", NO) is NO


@given(COUNTS, st.data(), STEPS)
def test_one_counter_that_goes_back_resets_all(
    before: dict[str, int], data: st.DataObject, step_ns: int
) -> None:
    back = data.draw(st.sampled_from(sorted(before)))
    before = {**before, back: max(before[back], 1)}
    after = {name: count + 7 for name, count in before.items()}
    after[back] = data.draw(st.integers(0, before[back] - 1))
    rated = rate_counters(rate_counters(None, before, S), after, S + step_ns)
    assert rated.interval_s is None
    for name in before:
        rate = rate_of(rated, name, NO)
        assert isinstance(rate, Missing) and rate.reason is Reason.RESET
    # And the next one counts from there.
    later = {name: count + 10 for name, count in after.items()}
    again = rate_counters(rated, later, S + 2 * step_ns)
    assert rate_of(again, back, NO) == pytest.approx(10 / (step_ns / 1e9))


def test_a_reading_is_rated_once_and_a_new_counter_warms_up() -> None:
    nothing: Rated[str] | None = None
    warming = rate_of(nothing, "a", NO)
    assert isinstance(warming, Missing) and warming.reason is Reason.WARMING
    first = rate_counters(nothing, {"a": 5}, S)
    second = rate_counters(first, {"a": 15, "b": 1000}, 2 * S)
    again = rate_counters(second, {"a": 99, "b": 99}, 2 * S)
    assert (second.interval_s, again) == (1.0, replace(second, interval_s=0.0))  # of no time more
    assert rate_of(second, "a", NO) == 10.0
    new = rate_of(second, "b", NO)
    assert isinstance(new, Missing) and new.reason is Reason.WARMING


def test_a_reading_from_before_the_last_is_not_rated() -> None:
    later = rate_counters(None, {"a": 5}, 3 * S)
    earlier = rate_counters(later, {"a": 15}, 2 * S)
    warming = rate_of(earlier, "a", NO)
    assert isinstance(warming, Missing) and warming.reason is Reason.WARMING
    assert earlier.interval_s is None
    assert rate_of(rate_counters(earlier, {"a": 35}, 4 * S), "a", NO) == 10.0


def test_a_restarted_process_is_another() -> None:
    assert identity(7, 100, "/s") != identity(7, 200, "/s")
    assert identity(0, 0, "/s") != identity(0, 0, "/t")
