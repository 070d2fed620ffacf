"""Graphs: on a declared scale, with gaps."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nftop.model.metrics.metric import Unit
from nftop.render.base.spark import BLOCKS, graph, scale_top, span_for

NAN = float("nan")


def _series(*values: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.array(values, np.float32)


def test_gaps_are_spaces_and_zero_is_a_block() -> None:
    assert graph(_series(0, NAN, 4, 8), 8.0, 1) == ["▁ ▄█"]


def test_columns_grow_from_the_bottom() -> None:
    assert graph(_series(8, 4, 1, NAN), 8.0, 2) == ["█   ", "██▂ "]


def test_a_small_change_looks_small() -> None:
    values = _series(2.000, 2.011)
    assert scale_top(values, Unit.CYCLES) == 3.0
    assert len(set(graph(values, scale_top(values, Unit.CYCLES), 1)[0])) == 1


@given(st.lists(st.floats(0, 2.0**40, width=32) | st.just(NAN), max_size=40), st.integers(1, 6))
def test_every_value_is_drawn_within_its_scale(values: list[float], height: int) -> None:
    series = _series(*values)
    top = scale_top(series, Unit.CYCLES)
    assert all(value <= top * (1 + 1e-6) for value in values if value == value)
    rows = graph(series, top, height)
    assert [len(row) for row in rows] == [len(values)] * height
    assert all(set(row) <= {*BLOCKS, " "} for row in rows)
    for column, value in enumerate(values):
        assert (rows[-1][column] == " ") is (value != value)


def test_an_empty_series_has_a_scale() -> None:
    assert scale_top(_series(), Unit.CYCLES) == scale_top(_series(NAN, 0), Unit.CYCLES) == 1.0


def test_the_span_is_round_and_holds_a_tick_a_column() -> None:
    assert [span_for(100, interval) for interval in (0.1, 1, 10, 1e9)] == [60, 300, 3600, 86400]


def test_a_share_is_drawn_against_the_whole() -> None:
    assert scale_top(_series(0.03, 0.05), Unit.RATIO) == 1.0
