"""Axis of time: events on a line with labels, and graphs of totals above it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from nftop.model.clock import NS_PER_S
from nftop.model.incident import Severity
from nftop.model.struct import dataclass
from nftop.model.timeline import EventKind, TimelineEvent, TimeSeries
from nftop.render.base.format import duration_text
from nftop.render.base.line import Line, Span, Tone, line
from nftop.render.base.text import ascii_only as to_ascii
from nftop.render.base.text import cells as char_cells
from nftop.render.incidents.line import GLYPHS, TONES

RULE, BEGUN, UNKNOWN = "─", "━", "┄"
CURSOR, CURSOR_ON = "┃", "╋"
_KIND_GLYPHS: dict[EventKind, str] = {"change": "◆", "marker": "⚑", "finding": "▲"}
_KIND_TONES: dict[EventKind, Tone] = {
    "change": Tone.ACCENT,
    "marker": Tone.ACCENT,
    "finding": Tone.WARN,
}
_ASCII = str.maketrans("┄─━┃╋●▲·◆⚑≥…→▐▁▂▃▄▅▆▇█", ".-=|#!^.+m>+>|.:-=+*##")
# Steps between labels, in seconds.
_STEPS_S = (1, 2, 5, 10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)
_CELLS_PER_LABEL = 16


def plain_glyphs(text: str) -> str:
    """The glyphs of this module in ASCII."""
    return to_ascii(text.translate(_ASCII))


def glyph_of(event: TimelineEvent) -> Span:
    """Mark of an event: its kind, and of an incident its severity."""
    if event.kind == "incident":
        return Span(GLYPHS[event.severity], TONES[event.severity])
    return Span(_KIND_GLYPHS[event.kind], _KIND_TONES[event.kind])


def span_text(seconds: float) -> str:
    """`30s`, `5m`, `2m40s`, `2h`: a span of time, without a second unit of 0."""
    if seconds < 60 and round(seconds) < 60:
        return f"{seconds:.3g}s"
    text = duration_text(seconds)
    return text[:-3] if text.endswith(("00s", "00m", "00h")) else text


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """A span of time on `cells` cells.

    Attributes:
        first_ns, last_ns: wall time of its left and right end.
        from_start: labels count from its start, not back from its end.
    """

    first_ns: int
    last_ns: int
    cells: int
    from_start: bool = False

    @property
    def span_ns(self) -> int:
        return max(1, self.last_ns - self.first_ns)

    def cell(self, wall_ns: int) -> int:
        """Cell of a moment, in range."""
        at = (wall_ns - self.first_ns) * self.cells // self.span_ns
        return min(max(int(at), 0), self.cells - 1)

    def worst(self, series: TimeSeries, points: int) -> NDArray[np.float32]:
        """float32 (points,): the greatest value in each equal part of the axis; NaN is a gap."""
        return _binned(series, self, points, np.fmax)

    def mean(self, series: TimeSeries, points: int) -> NDArray[np.float32]:
        """float32 (points,): the mean of each part; NaN is a gap."""
        return _binned(series, self, points, None)

    def labels(self) -> tuple[tuple[int, str], ...]:
        """Cell and text of each round time, its ends left out."""
        return _labels(self.from_zero)

    @property
    def from_zero(self) -> TimeAxis:
        """An axis as long that begins at 0: what does not depend on the time of day."""
        return TimeAxis(0, self.span_ns, self.cells, self.from_start)


@lru_cache(maxsize=16)  # a span of time moves, but stays as long
def _labels(axis: TimeAxis) -> tuple[tuple[int, str], ...]:
    span_s = axis.span_ns / NS_PER_S
    room = max(1, axis.cells // _CELLS_PER_LABEL)
    step_s = next((step for step in _STEPS_S if span_s / step <= room), _STEPS_S[-1])
    labels = []
    for number in range(1, math.ceil(span_s / step_s)):
        offset_ns = number * step_s * NS_PER_S
        at_ns = offset_ns if axis.from_start else axis.last_ns - offset_ns
        sign = "+" if axis.from_start else "-"
        labels.append((axis.cell(at_ns), f" {sign}{span_text(number * step_s)} "))
    return tuple(labels)


def _binned(
    series: TimeSeries, axis: TimeAxis, points: int, reduce: np.ufunc | None
) -> NDArray[np.float32]:
    result = np.full(points, np.nan, np.float32)
    times, values = series.times_ns, series.values
    if not len(times) or points < 1:
        return result
    at = ((times - axis.first_ns) * points // axis.span_ns).astype(np.int64)
    inside = (at >= 0) & (at < points) & np.isfinite(values)
    if reduce is not None:
        reduce.at(result, at[inside], values[inside])
    else:
        sums = np.bincount(at[inside], values[inside], points)
        counts = np.bincount(at[inside], minlength=points)
        known = counts > 0
        result[known] = (sums[known] / counts[known]).astype(np.float32)
    # Parts without a tick have the value of the one that follows, if that is near.
    empty = np.ones(points, np.bool_)
    empty[at[(at >= 0) & (at < points)]] = False
    gaps = np.flatnonzero(empty)
    begins_ns = axis.first_ns + gaps * axis.span_ns // points
    next_at = times.searchsorted(begins_ns)
    gaps, begins_ns, next_at = (item[next_at < len(times)] for item in (gaps, begins_ns, next_at))
    if len(gaps):
        held = times[next_at] - begins_ns <= series.held_ns
        result[gaps[held]] = values[next_at[held]]
    return result


# Ranges of ASCII, lines, blocks and braille.
_NARROW = re.compile("[ -~\u2500-\u259f\u2800-\u28ff]*")


def _by_cell(text: str) -> list[str]:
    """What each cell of a text begins: "" is the second half of a wide character."""
    if _NARROW.fullmatch(text):
        return list(text)
    texts: list[str] = []
    for char in text:
        wide = char_cells(char)
        if wide:
            texts += [char, *[""] * (wide - 1)]
        elif texts:
            at = -1 if texts[-1] else -2
            texts[at] += char
    return texts


class Cells:
    """A row of cells with tones, drawn from the back to the front."""

    def __init__(self, text: str, tone: Tone) -> None:
        self._texts = _by_cell(text)
        self._tones = [tone] * len(self._texts)

    def put(self, at: int, text: str, tone: Tone) -> None:
        """Write over cells from `at` on; what is outside is left out."""
        texts = _by_cell(text)
        first, last = max(at, 0), min(at + len(texts), len(self._texts))
        if first >= last:
            return
        self._cut(first)
        self._cut(last)
        self._texts[first:last] = texts[first - at : last - at]
        self._tones[first:last] = [tone] * (last - first)
        if first > at and not texts[first - at]:
            self._texts[first] = " "
        if last < at + len(texts) and not texts[last - at]:
            self._texts[last - 1] = " "

    def tint_area(self, where: Iterable[int], above: str, tone: Tone, body: Tone) -> None:
        """Give cells of an area their tone; below drawn cells of the row above that of its body."""
        for at in where:
            self._tones[at] = body if above and above[at] != " " else tone

    def _cut(self, at: int) -> None:
        """Blank a wide character that stands on both sides of this cell's left edge."""
        if 0 < at < len(self._texts) and not self._texts[at]:
            self._texts[at - 1] = self._texts[at] = " "

    def free(self, at: int, count: int, char: str = RULE) -> bool:
        """Whether these cells are there and still all `char`."""
        return at >= 0 and self._texts[at : at + count] == [char] * count

    def gap(self, char: str = RULE) -> tuple[int, int]:
        """First cell and length of the longest run of `char`."""
        best, start = (0, 0), 0
        for at, text in enumerate([*self._texts, ""]):
            if text != char:
                best = max(best, (start, at - start), key=lambda run: run[1])
                start = at + 1
        return best

    def char(self, at: int) -> str:
        """The character of a cell."""
        return self._texts[at]

    def line(self, *, ascii_only: bool) -> Line:
        """The row as a line."""
        show = plain_glyphs if ascii_only else str
        runs, first = [], 0
        for tone, run in groupby(self._tones):
            after = first + len([*run])
            runs.append(Span(show("".join(self._texts[first:after])), tone))
            first = after
        return line(*runs)


def axis_cells(
    axis: TimeAxis,
    events: Iterable[TimelineEvent],
    cursor_ns: int | None,
    scanned_ns: int | None = None,
) -> Cells:
    """The axis with intervals of incidents, marks of events, and ages where there is room.

    `scanned_ns`: behind this time no incidents are known yet; None: all are.
    """
    cells = Cells(RULE * axis.cells, Tone.FAINT)
    if scanned_ns is not None and scanned_ns < axis.last_ns:
        at = axis.cell(scanned_ns)
        cells.put(at, UNKNOWN * (axis.cells - at), Tone.FAINT)
    put_events(cells, axis, events, scanned_ns, least=Severity.WARN)
    if cursor_ns is not None:
        back_s = (axis.last_ns - cursor_ns) / NS_PER_S
        ahead_s = (cursor_ns - axis.first_ns) / NS_PER_S
        text = f" +{duration_text(ahead_s)} " if axis.from_start else f" {duration_text(back_s)} "
        at = min(max(axis.cell(cursor_ns) - len(text) // 2, 0), axis.cells - len(text))
        cells.put(at, text, Tone.ACCENT)
    for at, text in axis.labels():
        if cells.free(at - len(text) // 2, len(text)):
            cells.put(at - len(text) // 2, text, Tone.MUTED)
    return cells


def put_events(
    cells: Cells,
    axis: TimeAxis,
    events: Iterable[TimelineEvent],
    known_ns: int | None = None,
    *,
    least: Severity = Severity.INFO,
) -> None:
    """Draw events on a row, the worst in front.

    `known_ns`: time up to which it is known that an incident is open; None: the axis' end.
    `least`: severity from which an incident is drawn as an interval, not as a mark of its begin.
    """
    last_ns = axis.last_ns if known_ns is None else known_ns
    shown = [item for item in events if item.begin_ns <= axis.last_ns]
    incidents = [item for item in shown if item.kind == "incident"]
    lasting = [item for item in incidents if item.severity >= least]
    lasting.sort(key=lambda item: item.severity)
    for item in lasting:
        first = axis.cell(item.begin_ns)
        last = axis.cell(last_ns if item.end_ns is None else item.end_ns)
        cells.put(first, BEGUN * (last - first + 1), TONES[item.severity])
    # Marks last: an interval must not hide that something else began in it.
    for item in sorted(shown, key=lambda item: (item.kind == "incident", item.severity)):
        if item.begin_ns >= axis.first_ns:
            glyph = glyph_of(item)
            cells.put(axis.cell(item.begin_ns), glyph.text, glyph.tone)
