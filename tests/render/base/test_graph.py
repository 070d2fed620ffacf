"""Graphs: levels of braille, scales that say where they start, trends on one scale, gauges."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.model.metrics.metric import Unit
from nftop.render.base.graph import (
    area_rows,
    gauge_of,
    graph_lines,
    graph_points,
    line_rows,
    scale_of,
    scale_top,
    span_for,
    spark_text,
    trend_texts,
)
from nftop.render.base.line import Tone
from nftop.render.base.text import ascii_only

FLOATS = st.lists(st.floats(0, 1e12) | st.just(math.nan), min_size=2, max_size=80)


def array(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def dots(text: str) -> int:
    return sum((ord(char) - 0x2800).bit_count() for char in text if char != " ")


def test_an_area_fills_to_its_value_and_a_gap_is_empty() -> None:
    rows = area_rows(array(0.0, 8.0, 4.0, math.nan), 8.0, 2)
    assert [dots(row) for row in rows] == [4, 1 + 4 + 4]
    assert rows[0][1] == " "


def test_a_line_is_connected_where_it_steps() -> None:
    [flat] = line_rows(array(1.0, 1.0, 1.0, 1.0), 0.0, 3.0, 1)
    assert dots(flat) == 4
    high, low = line_rows(array(0.0, 0.0, 7.0, 7.0), 0.0, 7.0, 2)
    assert dots(high + low) == 4 + 6, "six dots between the levels 0 and 7"
    gap = line_rows(array(0.0, math.nan, 7.0, 7.0), 0.0, 7.0, 2)
    assert dots("".join(gap)) == 3, "no stroke over a gap"


def test_trends_have_one_scale() -> None:
    level = {"⣀": 0, "⠤": 1, "⠒": 2, "⠉": 3}
    changes = np.array([[0.0, 0.0], [-0.05, -0.05], [-0.5, -0.5], [0.05, 0.9]])
    assert [level[text] for text in trend_texts(changes)] == [2, 1, 0, 3]
    costs = np.array([[0.0, 0.0], [0.05, 0.05], [0.1, 0.4], [-0.3, -0.05]])
    assert [level[text] for text in trend_texts(costs, costs=True)] == [1, 2, 3, 0]
    assert trend_texts(np.full((1, 6), np.nan)) == ["   "]


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        ((10.0, 100.0), 0.0, 100.0),
        ((38.2, 42.0), 36.0, 44.0),
        ((0.0, 0.0), 0.0, 1.0),
        ((), 0.0, 1.0),
    ],
)
def test_a_scale_starts_at_0_unless_values_stay_close(
    values: tuple[float, ...], low: float, high: float
) -> None:
    scale = scale_of(array(*values))
    assert (scale.low, scale.high) == (low, high)
    assert bool(scale.note()) == (low != 0)
    assert scale_of(array(*values), from_zero=True).low == 0


@given(FLOATS)
def test_a_scale_holds_all_values(values: list[float]) -> None:
    data = np.array(values, np.float32)
    scale = scale_of(data)
    known = data[np.isfinite(data)]
    assert scale.low < scale.high
    assert (known <= scale.high * (1 + 1e-5)).all()
    assert (known >= scale.low * (1 - 1e-5)).all()


@given(FLOATS, st.integers(2, 9))
def test_a_graph_is_as_wide_as_its_points_in_braille_and_in_ascii(
    values: list[float], height: int
) -> None:
    data = np.array(values[: len(values) // 2 * 2], np.float32)
    lines = graph_lines(data, scale_of(data), Unit.PACKETS_PER_S, height)
    assert len(lines) == height
    width = lines[0].width
    assert graph_points(width) == len(data)
    for item in lines:
        assert item.width == width
        assert ascii_only(item.text).isascii()
        assert len(ascii_only(item.text)) == width


def test_the_crest_is_brighter_than_the_body() -> None:
    lines = graph_lines(array(*[8.0] * 8), scale_of(array(8.0, 0.0)), Unit.CYCLES, 3, Tone.BAD)
    tones = [{span.tone for span in item.spans[2:]} for item in lines]
    assert Tone.BAD in tones[0] | tones[1]
    assert tones[2] == {Tone.BAD_DIM}


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0, "────"), (0.5, "━━──"), (0.6, "━━╸─"), (1.0, "━━━━"), (7.0, "━━━━"), (math.nan, "────")],
)
def test_a_gauge_has_half_cells(share: float, text: str) -> None:
    assert gauge_of(share, 4).text == text


def test_a_spark_is_a_line_not_a_slab() -> None:
    assert spark_text(array(5.0, 5.0, 5.0, 5.0), 5.0) == "⠉⠉"
    assert spark_text(array(0.0, 0.0), 5.0) == "⣀"


def test_a_small_change_is_drawn_small() -> None:
    values = array(2.000, 2.011)
    assert scale_top(values, Unit.CYCLES) == 3.0


@given(st.lists(st.floats(0, 2.0**40, width=32) | st.just(math.nan), max_size=40))
def test_every_value_is_within_its_scale(values: list[float]) -> None:
    top = scale_top(array(*values), Unit.CYCLES)
    assert all(value <= top * (1 + 1e-6) for value in values if value == value)


def test_an_empty_series_has_a_scale() -> None:
    assert scale_top(array(), Unit.CYCLES) == scale_top(array(math.nan, 0), Unit.CYCLES) == 1.0


def test_the_span_is_round_and_holds_a_tick_a_column() -> None:
    assert [span_for(100, interval) for interval in (0.1, 1, 10, 1e9)] == [60, 300, 3600, 86400]


def test_a_share_is_drawn_against_the_whole() -> None:
    assert scale_top(array(0.03, 0.05), Unit.RATIO) == 1.0
