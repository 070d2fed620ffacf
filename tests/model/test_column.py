from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nftop.model.column import Column, column, first_of, from_readings, missing, ratio, where
from nftop.model.reading import Missing, Reading, Reason

REASONS = st.sampled_from([reason for reason in Reason if reason is not Reason.PRESENT])
READINGS = st.one_of(
    st.floats(-1e18, 1e18), st.builds(Missing, REASONS, st.sampled_from(["", "because"]))
)


def build(readings: list[Reading]) -> Column:
    return from_readings(dict(enumerate(readings)), len(readings), Missing(Reason.UNDEFINED))


def same(one: Reading, other: Reading) -> bool:
    if isinstance(one, Missing) or isinstance(other, Missing):
        return (
            isinstance(one, Missing)
            and isinstance(other, Missing)
            and (one.reason, one.message) == (other.reason, other.message)
        )
    return one == other


@given(st.lists(READINGS, max_size=20))
def test_what_goes_in_comes_out(readings: list[Reading]) -> None:
    made = build(readings)
    assert all(same(made[row], reading) for row, reading in enumerate(readings))


@given(st.lists(READINGS, min_size=1, max_size=20))
def test_a_missing_row_holds_no_number(readings: list[Reading]) -> None:
    made = build(readings)
    assert np.array_equal(np.isnan(made.values), ~made.present)


@given(st.lists(st.tuples(READINGS, READINGS, st.booleans()), min_size=1, max_size=20))
def test_where_takes_numbers_reasons_and_sentences_together(
    rows: list[tuple[Reading, Reading, bool]],
) -> None:
    ones, others, chosen = (list(item) for item in zip(*rows, strict=True))
    made = where(np.array(chosen), build(ones), build(others))
    for row, (one, other, first) in enumerate(rows):
        assert same(made[row], one if first else other)


@given(st.lists(st.tuples(READINGS, READINGS), min_size=1, max_size=20))
def test_ratio_is_a_number_only_where_both_are_and_the_divisor_is_positive(
    rows: list[tuple[Reading, Reading]],
) -> None:
    above, below = (list(item) for item in zip(*rows, strict=True))
    made = ratio(build(above), build(below))
    for row, (one, other) in enumerate(rows):
        got = made[row]
        if isinstance(one, Missing):
            assert same(got, one)
        elif isinstance(other, Missing):
            assert same(got, other)
        elif other <= 0:
            assert isinstance(got, Missing) and got.reason is Reason.IDLE
        elif math.isfinite(one / other):
            assert got == one / other
        else:
            assert isinstance(got, Missing)


def test_a_number_that_is_not_finite_never_enters() -> None:
    made = column(np.array([1.0, np.nan, np.inf, -np.inf]))
    assert [isinstance(made[row], Missing) for row in range(4)] == [False, True, True, True]


def test_first_of_keeps_the_preferred_reason_when_neither_has_a_number() -> None:
    preferred = build([1.0, Missing(Reason.HARDWARE, "no PMU"), Missing(Reason.HARDWARE, "no PMU")])
    fallback = build([2.0, 3.0, Missing(Reason.SOURCE)])
    made = first_of(preferred, fallback)
    assert [made[0], made[1]] == [1.0, 3.0]
    assert same(made[2], Missing(Reason.HARDWARE, "no PMU"))


def test_where_keeps_apart_two_sentences_of_one_reason() -> None:
    ours, theirs = missing(2, Missing(Reason.SOURCE, "ours")), missing(2, Missing(Reason.SOURCE))
    made = where(np.array([True, False]), ours, theirs)
    assert same(made[0], Missing(Reason.SOURCE, "ours"))
    assert same(made[1], Missing(Reason.SOURCE))
