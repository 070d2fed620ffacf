"""Graphs in text: braille areas and lines on a stated scale, trends of rows, gauges.

A cell of braille has two values side by side and four levels. `text.ascii_only` has ASCII forms.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from nftop.model.metrics.metric import Unit
from nftop.model.struct import dataclass
from nftop.render.base import format as fmt
from nftop.render.base.line import Line, Span, Tone, line
from nftop.render.base.text import fit

_LEFT = (0x40, 0x04, 0x02, 0x01)  # dots of a cell's left column, from the lowest
_RIGHT = (0x80, 0x20, 0x10, 0x08)
_BRAILLE = 0x2800
# Trends: every row on the same scale, so that rows compare.
TREND_LOW, TREND_HIGH = -0.10, 0.05
_TREND_LEVELS = 4
# An axis starts at 0 unless the values stay within this share of their largest.
_NARROW, _LEAST_SPAN = 0.25, 0.05
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_FEW_STEPS = (1.0, 2.0, 3.0, 5.0, 10.0)  # of a scale that seldom changes
BLOCKS = "▁▂▃▄▅▆▇█"
_SPANS_S = (60, 300, 900, 3600, 4 * 3600, 24 * 3600)
_AXIS = 7  # cells of labels beside a graph, with the axis itself


def area_rows(values: NDArray[np.float32], top: float, height: int) -> list[str]:
    """A filled graph of `height` rows, highest first; two values a cell.

    Values are from 0 to `top`; a known value has at least one dot, NaN none.
    """
    known = np.isfinite(values)
    share = np.minimum(np.maximum(np.where(known, values, 0.0) / top, 0.0), 1.0)
    dots = np.where(known, np.maximum(1, np.rint(share * height * 4)), 0).astype(np.int64)
    filled = np.minimum(np.maximum(dots - _bases(height), 0), 4)
    return _texts(_LEFT_FILL[filled[:, 0::2]] | _RIGHT_FILL[filled[:, 1::2]])


def line_rows(values: NDArray[np.float32], low: float, top: float, height: int) -> list[str]:
    """A line of `height` rows, highest first; two values a cell, from `low` to `top`."""
    span = max(top - low, 1e-12)
    known = np.isfinite(values)
    share = np.clip((np.where(known, values, low) - low) / span, 0.0, 1.0)
    level = np.where(known, np.rint(share * (height * 4 - 1)) + 1, 0).astype(np.int64)
    before = np.concatenate((level[:1], level[:-1]))
    # A step is drawn as a stroke from the level before, where that is known.
    low_dot = np.where(before > 0, np.minimum(level, before + 1), level)
    high_dot = np.where(before > 0, np.maximum(level, before - 1), level)
    base = _bases(height)
    first, last = np.clip(low_dot - base, 1, 5), np.clip(high_dot - base, 0, 4)
    bits = np.where(level > 0, _STROKES[first, last], 0)
    return _texts(_LEFT_STROKES[bits[:, 0::2]] | _RIGHT_STROKES[bits[:, 1::2]])


def _bases(height: int) -> NDArray[np.int64]:
    """(height, 1): dots below each row."""
    return 4 * np.arange(height - 1, -1, -1)[:, None]


def _strokes() -> NDArray[np.int64]:
    """Levels from `first` to `last`, 1 to 4, as bits."""
    table = np.zeros((6, 5), np.int64)
    for first in range(1, 6):
        for last in range(5):
            table[first, last] = sum(1 << (at - 1) for at in range(first, last + 1))
    return table


_STROKES = _strokes()


def _codes(column: Sequence[int]) -> NDArray[np.int64]:
    """Dots of a column by the bits of its levels."""
    return np.array([sum(column[at] for at in range(4) if bit >> at & 1) for bit in range(16)])


_LEFT_STROKES, _RIGHT_STROKES = _codes(_LEFT), _codes(_RIGHT)
# Up to a level.
_LEFT_FILL, _RIGHT_FILL = (
    np.array([sum(column[:level]) for level in range(5)]) for column in (_LEFT, _RIGHT)
)


def spark_text(values: NDArray[np.floating], top: float) -> str:
    """A line in one row of cells, two values a cell, on a scale from 0 to `top`."""
    return line_rows(values.astype(np.float32), 0.0, top, 1)[0]


def trend_texts(change: NDArray[np.floating], *, costs: bool = False) -> list[str]:
    """A braille line for each row, two values a cell.

    Args:
        change: (n, 2 x cells), against the row's base: -0.09 is 9 % less; NaN is a gap.
        costs: more is worse: the scale is -5 % to +10 %, else -10 % to +5 %.
    """
    base = 1 if costs else 2
    step = (TREND_HIGH - TREND_LOW) / (_TREND_LEVELS - 1)
    # From 1 on; 0 for a gap.
    level = np.fmin(np.fmax(np.rint(change / step) + (base + 1), 1), _TREND_LEVELS)
    level = np.where(np.isfinite(change), level, 0).astype(np.int64)
    codes = _LEFT_CODES[level[:, 0::2]] | _RIGHT_CODES[level[:, 1::2]]
    return _texts(codes)


_LEFT_CODES = np.array([0, *_LEFT])
_RIGHT_CODES = np.array([0, *_RIGHT])
_CHARS = np.array([" ", *(chr(_BRAILLE | code) for code in range(1, 256))])


def _texts(codes: NDArray[np.int64]) -> list[str]:
    """Braille of each row of dots (n, cells)."""
    rows, cells = codes.shape
    # Characters of a row, side by side in memory, are a text.
    if not cells:
        return [""] * rows
    texts: list[str] = np.ascontiguousarray(_CHARS[codes]).view(f"U{cells}").ravel().tolist()
    return texts


@lru_cache(maxsize=1024)
def gauge(eighth: int, cells: int, tone: Tone) -> Line:
    """A bar of `eighth` half cells, the rest as a thin rule; see `gauge_of`."""
    full, half = divmod(eighth, 2)
    bar = "━" * full + "╸" * half
    return Line((Span(bar, tone), Span("─" * (cells - full - half), Tone.FAINT)))


def gauge_of(share: float, cells: int, tone: Tone = Tone.PLAIN) -> Line:
    """`share`, 0 to 1, of `cells` cells."""
    known = min(max(share, 0.0), 1.0) if math.isfinite(share) else 0.0
    return gauge(int(known * 2 * cells + 0.5), cells, tone)


@dataclass(frozen=True, slots=True)
class Scale:
    """Ends of an axis."""

    low: float
    high: float

    def note(self) -> str:
        """`axis not from 0`; "" if it starts at 0."""
        return "axis not from 0" if self.low else ""


def scale_of(values: NDArray[np.floating], *, from_zero: bool = False) -> Scale:
    """Round ends around all known values.

    The axis starts at 0 unless the values vary by less than a quarter of the largest: then it
    is as wide as they vary, which `Scale.note` states.
    """
    known = values[np.isfinite(values)]
    if not len(known):
        return Scale(0.0, 1.0)
    least, most = float(known.min()), float(known.max())
    if most <= 0:
        return Scale(0.0, 1.0)
    if from_zero or least <= 0 or most - least > _NARROW * most:
        return Scale(0.0, _round_up(most))
    # Noise does not fill the graph.
    room = max(most - least, _LEAST_SPAN * most)
    step = _round_up(room / 3)
    low = math.floor((least - room / 4) / step) * step
    high = math.ceil((most + room / 4) / step) * step
    return Scale(max(0.0, low), high)


def _round_up(value: float, steps: Sequence[float] = _STEPS) -> float:
    """The next round number; with a tolerance for float32."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in steps if value <= step * power * (1 + 1e-6))


def graph_lines(
    values: NDArray[np.floating], scale: Scale, unit: Unit, height: int, tone: Tone = Tone.AREA
) -> list[Line]:
    """A graph of `height` lines with its axis at the left; two values a cell.

    An area where the scale starts at 0, else a line. The crest is bright, the body below dim.
    """
    ends = scale.low, scale.high
    return list(_drawn(values.astype(np.float32).tobytes(), ends, unit, height, tone))


@lru_cache(maxsize=64)  # a graph of many ticks a part stays for some of them
def _drawn(
    data: bytes, ends: tuple[float, float], unit: Unit, height: int, tone: Tone
) -> tuple[Line, ...]:
    """`graph_lines` of the bytes of float32 values."""
    values = np.frombuffer(data, np.float32)
    scale = Scale(*ends)
    if len(values) % 2:
        values = np.concatenate((np.full(1, np.nan, np.float32), values))
    if scale.low == 0:
        rows = area_rows(values, scale.high, height)
    else:
        rows = line_rows(values, scale.low, scale.high, height)
    labels = {0: scale.high, height - 1: scale.low}
    lines = []
    for at in range(len(rows)):
        label = fmt.number(labels[at], unit, _AXIS - 1) if at in labels else ""
        lines.append(
            line(
                Span(fit(label, _AXIS - 1, right=True), Tone.MUTED),
                Span("┤" if at in labels else "│", Tone.FAINT),
                *_crested(rows, at, tone),
            )
        )
    return tuple(lines)


def graph_axis() -> int:
    """Cells beside a graph that its axis takes."""
    return _AXIS


def graph_points(width: int) -> int:
    """Values that a graph in `width` cells has."""
    return 2 * max(0, width - _AXIS)


_DIMMED = {
    Tone.AREA: Tone.ACCENT_DIM, Tone.ACCENT: Tone.ACCENT_DIM, Tone.GOOD: Tone.GOOD_DIM,
    Tone.WARN: Tone.WARN_DIM, Tone.BAD: Tone.BAD_DIM,
}  # fmt: skip


_RUNS = re.compile(r" +|[^ ]+")


def _crested(rows: Sequence[str], at: int, tone: Tone) -> list[Span]:
    """A row of an area: cells below another drawn cell are the body."""
    body = _DIMMED.get(tone) or Tone(f"{tone}-dim")
    above = rows[at - 1] if at else " " * len(rows[at])
    return [
        Span(rows[at][run.start() : run.end()], tone if run[0].isspace() else body)
        for run in _RUNS.finditer(above)
    ]


def scale_top(values: NDArray[np.float32], unit: Unit) -> float:
    """End of the scale: the smallest round number at or above all values; 1 without any.

    For shares it is at least 1.
    """
    least = 1.0 if unit is Unit.RATIO else 0.0
    largest = float(np.max(values, initial=least, where=np.isfinite(values)))
    if largest <= 0:
        return 1.0
    return _round_up(largest, _FEW_STEPS)


def span_for(points: int, interval_s: float) -> float:
    """Seconds shown by so many points: a round time of at least one tick per point."""
    return next((float(span) for span in _SPANS_S if span >= points * interval_s), _SPANS_S[-1])


def span_name(span_s: float) -> str:
    """`5 min`."""
    for seconds, unit in ((3600, "h"), (60, "min")):
        if span_s >= seconds:
            return f"{span_s / seconds:g} {unit}"
    return f"{span_s:g} s"
