"""Graph of the network function that a verdict is about, before and after the change."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from nftop.derive.compare.metric import DIFFERS
from nftop.derive.compare.settling import Term
from nftop.derive.compare.verdict import Verdict, VerdictSection
from nftop.derive.compare.window import Times, Window
from nftop.model.clock import NS_PER_S
from nftop.model.column import Floats
from nftop.model.struct import dataclass
from nftop.render.base.line import Line, Span, Tone, crop, line
from nftop.render.base.table import rule_line
from nftop.render.base.text import cells, fit
from nftop.render.cache.way_cells import HATCH

LEAST_LINES, MOST_LINES = 6, 14  # head, graph, axis
_BEFORE_S, _AFTER_S, _MOST_AFTER_S = 90, 45, 180
_LABEL, _LAST = 7, 8  # cells of the axis at the left, of the last value at the right
_LEAST_WIDTH = 50
_FROM_ZERO = 0.5  # an axis starts at 0 unless all values are above this share of the highest
_LEAST_RATIO = 0.05  # of the values, the axis at least
# Dots of a braille cell by column and row from the top.
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))


@dataclass(frozen=True, slots=True)
class _Span:
    """Time axis: seconds relative to the change, of the first and last dot, and its marks."""

    begin_s: float
    end_s: float
    now_s: float
    back_s: float | None
    is_back: bool

    def dot(self, at_s: float, dots: int) -> int:
        """Column of dots of a time."""
        share = (at_s - self.begin_s) / (self.end_s - self.begin_s)
        return max(0, min(dots - 1, round(share * (dots - 1))))


def watched(verdict: Verdict) -> VerdictSection | None:
    """The network function to draw: one that differs, of a changed class first."""
    nfs = [item for item in verdict.parts if item.kind == "nf" and item.key is not None]
    return min(nfs, key=lambda item: (item.word not in DIFFERS, not item.changed), default=None)


def graph_lines(
    window: Window,
    verdict: Verdict,
    term: Term,
    width: int,
    height: int,
    *,
    number: int | None = None,
) -> list[Line]:
    """Packets per second around the change, in `height` lines; none without a network function.

    Marks: the change, now, and the moment at which it is or was taken back.

    Args:
        window: what is remembered.
        verdict: about the change.
        term: what ends the change.
        width: cells of a line.
        height: lines of all.
        number: of the change in nftop's history.
    """
    subject = watched(verdict)
    if subject is None or height < LEAST_LINES or width < _LEAST_WIDTH:
        return []
    times_ns, values = _samples(window, subject)
    if len(values) < 2:
        return []
    height = min(height, MOST_LINES)
    axis = _axis_of(window.frame.monotonic_ns, verdict, term)
    columns = width - _LABEL - 1 - _LAST
    shown = _resampled(times_ns, values, verdict.changed_at_ns, axis, 2 * columns)
    if not np.isfinite(shown).any():
        return []
    low, high = _scale(shown)
    note = f"axis {low:g} to {high:g}" + (", not from 0" if low else "")
    head = rule_line(f"{subject.name}, Mpps", note, width)
    rows = height - 2
    body = _body(shown, axis, (low, high), (columns, rows), subject)
    return [crop(item, width) for item in (head, *body, _marks(axis, columns, number))]


def _samples(window: Window, subject: VerdictSection) -> tuple[Times, Floats]:
    """Times and Mpps of new samples."""
    track = window.nfs
    if subject.key is None or subject.key not in track.rows:
        return np.empty(0, np.int64), np.empty(0)
    values = track.of(subject.key, "packets_per_s")
    new = track.new(subject.key) & np.isfinite(values)
    return track.times_ns[new], values[new] / 1e6


def _axis_of(now_ns: int, verdict: Verdict, term: Term) -> _Span:
    def after_s(at_ns: int) -> float:
        return (at_ns - verdict.changed_at_ns) / NS_PER_S

    now_s = max(0.0, after_s(now_ns))
    is_back = term.taken_back_ns is not None
    at_ns = term.taken_back_ns if is_back else term.until_ns
    back_s = None if at_ns is None else max(0.0, after_s(at_ns))
    end_s = max(_AFTER_S, now_s, 0.0 if back_s is None else back_s)
    if is_back and back_s is not None:
        end_s = min(end_s, back_s + _AFTER_S)
    # The window of the verdict ends the graph.
    return _Span(-_BEFORE_S, min(end_s, _MOST_AFTER_S), now_s, back_s, is_back)


def _resampled(
    times_ns: Times, values: Floats, changed_at_ns: int, axis: _Span, dots: int
) -> Floats:
    """float64 (dots,), interpolated between samples; NaN in pauses and outside of the samples."""
    at_s = (times_ns - changed_at_ns) / NS_PER_S
    wanted = np.linspace(axis.begin_s, axis.end_s, dots)
    shown = np.interp(wanted, at_s, values, left=np.nan, right=np.nan)
    spacing = float(np.median(np.diff(at_s)))
    after = np.clip(np.searchsorted(at_s, wanted), 1, len(at_s) - 1)
    paused = at_s[after] - at_s[after - 1] > max(4 * spacing, 3.0)
    return np.where(paused, np.nan, shown)


def _scale(values: Floats) -> tuple[float, float]:
    """Round ends of the axis; it starts at 0 unless the values are far from it."""
    least, most = float(np.nanmin(values)), float(np.nanmax(values))
    # Noise alone does not fill the axis.
    widened = max(0.0, _LEAST_RATIO * most - (most - least)) / 2
    least, most = max(0.0, least - widened), most + widened
    base = least if least > _FROM_ZERO * most else 0.0
    step = 10.0 ** math.floor(math.log10(max(most - base, 1e-6)))
    step = step / 2 if (most - base) / step < 3 else step
    low = math.floor(base / step) * step
    high = math.ceil(most / step) * step
    return round(low, 9), round(max(high, low + step), 9)


def _body(
    shown: Floats,
    axis: _Span,
    ends: tuple[float, float],
    size: tuple[int, int],
    subject: VerdictSection,
) -> list[Line]:
    columns, rows = size
    low, high = ends
    dots = _braille(shown, ends, columns, rows)
    change_at = axis.dot(0, 2 * columns) // 2
    now_at = axis.dot(axis.now_s, 2 * columns) // 2
    back_at = None if axis.back_s is None else axis.dot(axis.back_s, 2 * columns) // 2
    tone = {"better": Tone.GOOD, "worse": Tone.BAD}.get(subject.word, Tone.ACCENT)
    last = shown[np.isfinite(shown)][-1]
    last_row = rows - 1 - min(rows - 1, max(0, int((last - low) / (high - low) * rows)))
    lines = []
    for row in range(rows):
        label = f"{high:g}" if row == 0 else f"{low:g}" if row == rows - 1 else ""
        spans = [
            Span(fit(label, _LABEL - 1, right=True), Tone.MUTED),
            Span("┤" if label else "│", Tone.FAINT),
        ]
        for column in range(columns):
            bits = int(dots[row, column])
            if bits:
                spans.append(Span(chr(0x2800 + bits), tone if column >= change_at else Tone.PLAIN))
            elif column == back_at:
                pending = Tone.ACCENT if axis.is_back else Tone.PENDING_TEXT
                spans.append(Span("┊" if axis.is_back else "▌", pending))
            elif column == change_at:
                spans.append(Span("┊", Tone.ACCENT))
            elif not axis.is_back and back_at is not None and now_at < column < back_at:
                spans.append(Span(HATCH if (column + row) % 2 else " ", Tone.FAINT))
            else:
                spans.append(Span(" ", Tone.PLAIN))
        value = f" {last:.3g}" if row == last_row else ""
        lines.append(line(*spans, Span(fit(value, _LAST), Tone.STRONG)))
    return lines


def _braille(
    shown: Floats, ends: tuple[float, float], columns: int, rows: int
) -> NDArray[np.int64]:
    """Bits of braille cells (rows, columns) of a line through the values."""
    low, high = ends
    dots = np.zeros((rows, columns), np.int64)
    height = 4 * rows
    before = None
    for x, value in enumerate(shown.tolist()):
        if not math.isfinite(value):
            before = None
            continue
        y = height - 1 - max(0, min(height - 1, round((value - low) / (high - low) * (height - 1))))
        first = y if before is None else before + (before < y) - (before > y)
        for dot in range(min(first, y), max(first, y) + 1):
            dots[dot // 4, x // 2] |= _DOTS[x % 2][dot % 4]
        before = y
    return dots


def _marks(axis: _Span, columns: int, number: int | None) -> Line:
    """Labels below the axis; a label that would overlap another is left out."""
    name = "change" if number is None else f"change {number}"
    marks: list[tuple[float, str, Tone]] = [(0.0, f"◆ {name}", Tone.ACCENT)]
    if axis.back_s is not None:
        left_s = axis.back_s - axis.now_s
        if axis.is_back:
            marks.append((axis.back_s, "◇ taken back", Tone.ACCENT))
        elif left_s > 0:
            marks.append((axis.back_s, f"in {left_s:.0f} s: back, unless K", Tone.PENDING_TEXT))
    marks.append((axis.begin_s, f"{axis.begin_s:.0f} s", Tone.MUTED))
    if axis.now_s <= axis.end_s:
        marks.append((axis.now_s, "now", Tone.STRONG))
    taken: list[tuple[int, str, Tone]] = []
    room = columns + _LAST
    for at_s, text, tone in marks:
        begin = axis.dot(at_s, 2 * columns) // 2 - (1 if at_s == axis.now_s else 0)
        begin = max(0, min(begin, room - cells(text)))
        if all(begin > at + cells(other) or begin + cells(text) < at for at, other, _ in taken):
            taken.append((begin, text, tone))
    spans: list[str | Span] = [" " * _LABEL]
    at = 0
    for begin, text, tone in sorted(taken, key=lambda item: item[0]):
        spans += [" " * (begin - at), Span(text, tone)]
        at = begin + cells(text)
    return line(*spans)
