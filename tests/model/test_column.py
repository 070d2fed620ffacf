from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.model.column import (
    Block,
    Column,
    column,
    first_of,
    from_readings,
    has_reason,
    missing,
    ratio,
    where,
    withhold,
)
from nftop.model.missing import Missing, Reading, Reason

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


@given(st.sets(st.sampled_from(Reason)))
def test_codes_among_reasons_are_as_numpy_has_them(reasons: set[Reason]) -> None:
    codes = np.arange(256, dtype=np.uint8).reshape(16, 16)
    assert np.array_equal(has_reason(codes, tuple(reasons)), np.isin(codes, list(reasons)))


@given(st.lists(READINGS, max_size=20))
def test_what_goes_in_comes_out(readings: list[Reading]) -> None:
    created = build(readings)
    assert all(same(created[row], reading) for row, reading in enumerate(readings))


@given(st.lists(READINGS, min_size=1, max_size=20))
def test_a_missing_row_holds_no_number(readings: list[Reading]) -> None:
    created = build(readings)
    assert np.array_equal(np.isnan(created.values), ~created.present)


@given(st.lists(st.tuples(READINGS, READINGS, st.booleans()), min_size=1, max_size=20))
def test_where_takes_numbers_reasons_and_sentences_together(
    rows: list[tuple[Reading, Reading, bool]],
) -> None:
    ones, others, chosen = (list(item) for item in zip(*rows, strict=True))
    created = where(np.array(chosen), build(ones), build(others))
    for row, (one, other, first) in enumerate(rows):
        assert same(created[row], one if first else other)


@given(st.lists(st.tuples(READINGS, READINGS), min_size=1, max_size=20))
def test_ratio_is_a_number_only_where_both_are_and_the_divisor_is_positive(
    rows: list[tuple[Reading, Reading]],
) -> None:
    above, below = (list(item) for item in zip(*rows, strict=True))
    created = ratio(build(above), build(below))
    for row, (one, other) in enumerate(rows):
        got = created[row]
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
    created = column(np.array([1.0, np.nan, np.inf, -np.inf]))
    assert [isinstance(created[row], Missing) for row in range(4)] == [False, True, True, True]


def test_first_of_keeps_the_preferred_reason_when_neither_has_a_number() -> None:
    preferred = build([1.0, Missing(Reason.HARDWARE, "no PMU"), Missing(Reason.HARDWARE, "no PMU")])
    fallback = build([2.0, 3.0, Missing(Reason.SOURCE)])
    created = first_of(preferred, fallback)
    assert [created[0], created[1]] == [1.0, 3.0]
    assert same(created[2], Missing(Reason.HARDWARE, "no PMU"))


def test_where_keeps_apart_two_sentences_of_one_reason() -> None:
    ours, theirs = missing(2, Missing(Reason.SOURCE, "ours")), missing(2, Missing(Reason.SOURCE))
    created = where(np.array([True, False]), ours, theirs)
    assert same(created[0], Missing(Reason.SOURCE, "ours"))
    assert same(created[1], Missing(Reason.SOURCE))


MISSING = st.builds(Missing, REASONS, st.sampled_from(["", "because", "asleep"]))


@given(st.lists(st.tuples(READINGS, st.booleans()), min_size=1, max_size=20), MISSING)
def test_withheld_rows_have_the_reason_and_others_stay(
    rows: list[tuple[Reading, bool]], why: Missing
) -> None:
    readings, gone = (list(item) for item in zip(*rows, strict=True))
    created = withhold(build(readings), np.array(gone), why)
    for row, (reading, withheld) in enumerate(rows):
        assert same(created[row], why if withheld else reading)


TABLES = st.integers(0, 6).flatmap(
    lambda rows: st.dictionaries(
        st.sampled_from("abcdef"), st.lists(READINGS, min_size=rows, max_size=rows)
    )
)


@given(TABLES)
def test_a_block_has_the_columns_it_was_built_from(table: dict[str, list[Reading]]) -> None:
    block = Block.of({name: build(readings) for name, readings in table.items()})
    assert list(block) == list(table)
    for name, readings in table.items():
        assert len(block[name]) == len(readings)
        assert all(same(block[name][row], one) for row, one in enumerate(readings))
        assert block.numbers([name])[0].tolist() == [
            None if isinstance(one, Missing) else one for one in readings
        ]


@given(TABLES, st.data())
def test_rows_of_a_block_are_taken_with_their_messages(
    table: dict[str, list[Reading]], data: st.DataObject
) -> None:
    size = len(next(iter(table.values()), ()))
    rows = data.draw(st.lists(st.integers(0, size - 1)) if size else st.just([]))
    taken = Block.of({name: build(readings) for name, readings in table.items()}).take(rows)
    for name, readings in table.items():
        wanted = [readings[row] for row in rows]
        assert all(same(taken[name][row], one) for row, one in enumerate(wanted))


@given(TABLES, MISSING, st.data())
def test_cells_of_a_block_are_withheld_with_their_messages(
    table: dict[str, list[Reading]], why: Missing, data: st.DataObject
) -> None:
    block = Block.of({name: build(readings) for name, readings in table.items()})
    gone = np.array(
        [
            data.draw(st.lists(st.booleans(), min_size=len(r), max_size=len(r)))
            for r in table.values()
        ],
        np.bool_,
    ).reshape(block.reasons.shape)
    created = block.withheld(gone, why)
    for at, (name, readings) in enumerate(table.items()):
        for row, reading in enumerate(readings):
            assert same(created[name][row], why if gone[at, row] else reading)


def test_columns_of_a_block_are_views_and_nothing_in_it_can_be_written() -> None:
    block = Block.of({"a": column(np.array([1.0, 2.0])), "b": missing(2, Missing(Reason.IDLE))})
    assert np.shares_memory(block["a"].values, block.floats)
    assert np.shares_memory(block["b"].reasons, block.reasons)
    for array in (
        block.floats,
        block.reasons,
        block["a"].values,
        missing(2, Missing(Reason.IDLE)).values,
    ):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(KeyError):
        block["c"]
