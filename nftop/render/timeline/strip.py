"""Strip under the header: drops and events of the last minutes, or of a whole recording."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from nftop.model.clock import clock_of
from nftop.model.incident import Severity
from nftop.model.metrics.metric import Unit
from nftop.model.missing import Reason
from nftop.model.struct import replace
from nftop.model.timeline import Strip, TimeSeries
from nftop.render.base import format as fmt
from nftop.render.base.graph import BLOCKS, area_rows, scale_top
from nftop.render.base.line import Click, ClickScale, Line, Span, Tone, crop, line
from nftop.render.base.table import LastResults
from nftop.render.base.text import truncate
from nftop.render.timeline.axis import (
    BEGUN,
    CURSOR,
    RULE,
    Cells,
    TimeAxis,
    axis_cells,
    plain_glyphs,
    put_events,
    span_text,
)

_WIDE = 60  # cells from which the graph has labels beside it
_LEFT, _RIGHT = 12, 9
_ONE_LEFT, _ONE_RIGHT = 6, 13  # of the strip in one line
_LEAST = 12  # cells of a graph


def strip_lines(strip: Strip, width: int, height: int, *, ascii_only: bool) -> list[Line]:
    """The strip in `height` lines of at most `width` cells: a graph and an axis, or both in one.

    A click on a cell of the time axis has the action `moment` with the wall time in ns.
    """
    return [*_last_strips(strip, width, height, ascii_only=ascii_only)]


def _clickable_strip(strip: Strip, width: int, height: int, *, ascii_only: bool) -> list[Line]:
    drawn = _strip_lines(strip, width, height, ascii_only=ascii_only)
    one = height == 1 or width < _WIDE
    left, right = (_ONE_LEFT, _ONE_RIGHT) if one else (_LEFT, _RIGHT)
    if width - left - right < _LEAST:
        return drawn
    scale = ClickScale(left, width - left - right, strip.first_ns, strip.last_ns)
    return [replace(item, click=Click("moment", scale=scale)) for item in drawn]


_NO_DROPS = TimeSeries()


def _content(strip: Strip, width: int, height: int, *, ascii_only: bool) -> tuple[object, ...]:
    drops = strip.drops
    arrays = (drops.times_ns.tobytes(), drops.values.tobytes(), drops.reasons.tobytes())
    rest = replace(strip, drops=_NO_DROPS)
    return (*arrays, drops.step_ns, rest), width, height, ascii_only


_last_strips = LastResults(_clickable_strip, _content)


def _strip_lines(strip: Strip, width: int, height: int, *, ascii_only: bool) -> list[Line]:
    if height < 1 or width < 1:
        return []
    if height == 1 or width < _WIDE:
        one = _one_line(strip, width, ascii_only=ascii_only)
        return [crop(one, width), *[Line()] * (height - 1)]
    axis = TimeAxis(strip.first_ns, strip.last_ns, width - _LEFT - _RIGHT, strip.whole)
    values = axis.worst(strip.drops, 2 * axis.cells)
    rows = height - 1
    if np.isfinite(values).any():
        graph = _graph_lines(strip, axis, values, rows, ascii_only=ascii_only)
    else:
        why = "no number yet" if strip.unknown is None else strip.unknown.message
        head = line(Span(f" drop/s {drops_span(strip).text:>4} {why}", Tone.MUTED))
        graph = [crop(head, width), *[Line()] * (rows - 1)]
    if strip.events or strip.cursor_ns is not None or strip.scanned_ns is not None:
        cells = axis_cells(axis, strip.events, strip.cursor_ns, strip.scanned_ns)
        drawn = cells.line(ascii_only=ascii_only)
    else:
        drawn = _bare_axis(axis.from_zero, ascii_only=ascii_only)
    left, right = _ends(strip)
    foot = line(
        Span(f" {left:<{_LEFT - 1}}", Tone.MUTED),
        drawn,
        Span(f"{right:>{_RIGHT - 1}} ", Tone.MUTED),
    )
    return [*graph, foot]


@lru_cache(maxsize=8)
def _bare_axis(axis: TimeAxis, *, ascii_only: bool) -> Line:
    """The axis of a time without events."""
    return axis_cells(axis, (), None).line(ascii_only=ascii_only)


def drops_span(strip: Strip) -> Span:
    """Drops per second at the moment shown: a lower bound if some are unknown, a mark if all.

    Loud only where packets are lost then.
    """
    drops, reason = strip.drops.at(strip.last_ns if strip.cursor_ns is None else strip.cursor_ns)
    if math.isnan(drops):
        return Span(reason.mark or "-", Tone.MUTED)
    bound = "≥" * (reason is not Reason.PRESENT)
    text = bound + fmt.number(drops, Unit.PER_S, 6 - len(bound))
    return Span(text, Tone.BAD if drops > 0 else Tone.MUTED)


def _graph_lines(
    strip: Strip, axis: TimeAxis, values: NDArray[np.float32], rows: int, *, ascii_only: bool
) -> list[Line]:
    top = scale_top(values, Unit.PER_S)
    drawn = area_rows(values, top, rows)
    losing = np.flatnonzero(np.fmax(values[0::2], values[1::2]) > 0).tolist()
    lines = []
    for index, text in enumerate(drawn):
        cells = Cells(text, Tone.FAINT)
        cells.tint_area(losing, drawn[index - 1] if index else "", Tone.BAD, Tone.BAD_DIM)
        if strip.cursor_ns is not None:
            cells.put(axis.cell(strip.cursor_ns), CURSOR, Tone.ACCENT)
        first, last = index == 0, index == rows - 1
        scale = fmt.number(top, Unit.PER_S, 4).replace(".0", "") if first else "0" if last else ""
        name = "" if not first else "drop/s" if len(scale) < 4 else "dr/s"
        # At the right the number at the moment shown, above its unit.
        unit = Span("drop/s" if index == 1 else "", Tone.MUTED)
        right, tone, _ = drops_span(strip) if first else unit
        right = plain_glyphs(right) if ascii_only else right
        left = Span(f" {name:<6}{scale:>4} ", Tone.MUTED)
        row = cells.line(ascii_only=ascii_only)
        lines.append(line(left, row, Span(f"{right:>{_RIGHT - 1}} ", tone)))
    return lines


def _ends(strip: Strip) -> tuple[str, str]:
    """Labels of both ends."""
    if strip.whole:
        return clock_of(strip.first_ns), "end"
    span_s = (strip.last_ns - strip.first_ns) / 1e9
    text = span_text(span_s)
    minutes = span_s < 3600 and text.endswith("m")
    return f"-{text[:-1]} min" if minutes else f"-{text}", "now"


def _one_line(strip: Strip, width: int, *, ascii_only: bool) -> Line:
    cells = width - _ONE_LEFT - _ONE_RIGHT
    now, tone, _ = drops_span(strip)
    right = f"{now:>7} {'dr/s':<5}"
    right = plain_glyphs(right) if ascii_only else right
    if cells < _LEAST:
        return line(Span(right.strip(), tone))
    axis = TimeAxis(strip.first_ns, strip.last_ns, cells, strip.whole)
    row = Cells(RULE * cells, Tone.FAINT)
    put_events(row, axis, strip.events, strip.scanned_ns, least=Severity.WARN)
    values = axis.worst(strip.drops, cells)
    top = scale_top(values, Unit.PER_S)
    for at in np.flatnonzero(values > 0).tolist():
        if row.char(at) in (RULE, BEGUN):
            level = max(1, round(float(values[at]) / top * len(BLOCKS)))
            row.put(at, BLOCKS[min(level, len(BLOCKS)) - 1], Tone.BAD)
    if strip.cursor_ns is not None:
        row.put(axis.cell(strip.cursor_ns), CURSOR, Tone.ACCENT)
    if not np.isfinite(values).any() and strip.unknown is not None:
        at, room = row.gap()
        text = truncate(f" {strip.unknown.message}", room - 1) + " "
        row.put(at, text[:room], Tone.MUTED)
    for at, text in axis.labels():
        if row.free(at - len(text) // 2, len(text)):
            row.put(at - len(text) // 2, text, Tone.MUTED)
    left = _ends(strip)[0].replace(" min", "m")[: _ONE_LEFT - 2]
    return line(
        Span(f" {left:<{_ONE_LEFT - 1}}", Tone.MUTED),
        row.line(ascii_only=ascii_only),
        Span(right, tone),
    )
