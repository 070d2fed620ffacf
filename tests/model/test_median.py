"""Medians equal numpy's."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy
from numpy.typing import NDArray

from nftop.model.median import median, quantile, row_medians

_ROWS = st_numpy.arrays(
    np.float64,
    st.tuples(st.integers(0, 4), st.integers(1, 9)),
    elements=st.floats(width=32),
)


@given(st.lists(st.floats(width=32), min_size=1, max_size=9))
def test_a_median_is_that_of_numpy(values: list[float]) -> None:
    expected = np.median(values)
    assert np.array_equal(median(values), expected, equal_nan=True)
    assert np.array_equal(median(np.array(values)), expected, equal_nan=True)


@given(st.lists(st.integers(0, 1 << 62), min_size=1, max_size=9))
def test_a_median_of_whole_numbers_is_that_of_numpy(values: list[int]) -> None:
    scalars = list(np.array(values, np.uint64))
    expected = np.median(values)
    assert median(values) == median(np.array(values, np.uint64)) == median(scalars) == expected


@given(_ROWS)
def test_medians_of_rows_are_those_of_numpy(values: NDArray[np.float64]) -> None:
    assert np.array_equal(row_medians(values), np.median(values, axis=1), equal_nan=True)


def test_no_numbers_have_no_median() -> None:
    assert np.isnan(median([])) and np.isnan(median(np.zeros(0)))


@given(st.lists(st.floats(), min_size=1, max_size=9), st.floats(0, 1))
def test_a_quantile_is_that_of_numpy(values: list[float], ratio: float) -> None:
    ordered = np.sort(values)
    with np.errstate(all="ignore"):
        expected = np.quantile(ordered, ratio)
    assert np.array_equal(quantile(ordered, ratio), expected, equal_nan=True)
