"""Scales of graphs."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nftop.model.metrics.metric import Unit
from nftop.render.base.spark import scale_top, span_for

NAN = float("nan")


def _series(*values: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.array(values, np.float32)


def test_a_small_change_looks_small() -> None:
    values = _series(2.000, 2.011)
    assert scale_top(values, Unit.CYCLES) == 3.0


@given(st.lists(st.floats(0, 2.0**40, width=32) | st.just(NAN), max_size=40))
def test_every_value_is_within_its_scale(values: list[float]) -> None:
    top = scale_top(_series(*values), Unit.CYCLES)
    assert all(value <= top * (1 + 1e-6) for value in values if value == value)


def test_an_empty_series_has_a_scale() -> None:
    assert scale_top(_series(), Unit.CYCLES) == scale_top(_series(NAN, 0), Unit.CYCLES) == 1.0


def test_the_span_is_round_and_holds_a_tick_a_column() -> None:
    assert [span_for(100, interval) for interval in (0.1, 1, 10, 1e9)] == [60, 300, 3600, 86400]


def test_a_share_is_drawn_against_the_whole() -> None:
    assert scale_top(_series(0.03, 0.05), Unit.RATIO) == 1.0
