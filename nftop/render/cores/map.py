"""Map of CPUs: a glyph per CPU by package, L3 and core, hyper-threads below each other.

The glyph's height is a metric on a printed scale, so that outliers are seen without scrolling.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from nftop.model.column import Bools
from nftop.model.frame import CpuTable
from nftop.model.ids import format_cpu_list
from nftop.model.median import median
from nftop.model.metrics.catalogue import cpu_metric
from nftop.model.metrics.metric import Metric, Unit
from nftop.model.missing import Reason
from nftop.render.base import format as fmt
from nftop.render.base.graph import BLOCKS, scale_top
from nftop.render.base.line import BLANK, Line, Span, Tone, line
from nftop.render.base.text import fit
from nftop.render.cores.columns import metric_of
from nftop.render.cores.rows import polled

_LEAD, _LABEL = 15, 12  # cells: what is drawn and its scale; package and CPUs of a row of glyphs
_GAP = "  "  # between packages side by side
_FAR = 4.0  # multiple of the cost of saturated pollers
_LEAST_CORES = 8  # in a row
_NOBODY, _BAD, _NONE = ".", "!", " "
# Indexed by code: blocks, marks of reasons, then these three. Idle pollers differ from none.
_MARKS = "".join(fmt.mark(reason, 1) or " " for reason in Reason).replace(".", "-")
_GLYPHS = np.array(list(BLOCKS + _MARKS + _NOBODY + _BAD + _NONE))
_REASON_AT = len(BLOCKS)
_NOBODY_AT, _BAD_AT, _NONE_AT = (len(_GLYPHS) - back for back in (3, 2, 1))
_TONES = (Tone.AREA, Tone.MISSING, Tone.MUTED, Tone.BAD, Tone.PLAIN)
# By code, as `_GLYPHS`, the index in `_TONES`.
_TONE_AT = np.array([0] * _REASON_AT + [1] * len(_MARKS) + [2, 3, 4])
MARKS: tuple[tuple[str, str], ...] = (
    (".", "map: neither NF nor poller"),
    ("▁ to █", "map: the metric, on the scale below its name; █ is its end or more"),
    ("!", "map: a thread waits for its CPU more than 5 % of the time, or the metric is bad"),
    ("s h p b w ...", "map: no value, for the reason of this letter; - is no work or undefined"),
)
LEGEND = ". no poller  - no value  ! waits for its CPU"


def map_metric(cpus: CpuTable, sort: str) -> Metric:
    """Metric of the heights: that of the order, else CPP if there is any, else BUSY."""
    chosen = metric_of(sort)
    if chosen and chosen.unit is not Unit.CHANGE:  # may be negative
        return chosen
    return cpu_metric("cpp" if cpus.columns["cpp"].present.any() else "busy_ratio")


def map_lines(cpus: CpuTable, metric: Metric, width: int, height: int) -> list[Line]:
    """The whole map in at most `height` lines of `width` cells, or nothing."""
    room = width - _LEAD - _LABEL
    if room < _LEAST_CORES or height < 1:
        return []
    blocks = [
        piece
        for grid in cpus.topology.grids
        for piece in np.array_split(grid, max(1, -(-grid.shape[1] // room)), axis=1)
    ]
    if not blocks:
        return []
    span = _LABEL + max(block.shape[1] for block in blocks) + len(_GAP)
    abreast = max(1, (width - _LEAD + len(_GAP)) // span)
    bands = [blocks[at : at + abreast] for at in range(0, len(blocks), abreast)]
    if sum(max(len(block) for block in band) for band in bands) > height:
        return []
    codes, top = _codes(cpus, metric)
    rows = [row for band in bands for row in _band(cpus, band, codes, span)]
    name, scale = f"MAP {metric.label}", f"0-{fmt.number(top, metric.unit, 6)}"
    leads = [name, f" {scale}"] if len(rows) > 1 else [f"{name} {scale}"]
    leads += [""] * (len(rows) - 2)
    lines = [
        line(Span(fit(lead, _LEAD), Tone.MUTED), row)
        for lead, row in zip(leads, rows, strict=False)
    ]
    return [_with_legend(lines[0], width), *lines[1:]]


def _codes(cpus: CpuTable, metric: Metric) -> tuple[NDArray[np.int64], float]:
    """Index in `_GLYPHS` per CPU, one more for no CPU; and the end of the scale."""
    column, busy = cpus.columns[metric.id], polled(cpus)
    drawn = busy if busy.any() else np.ones(len(cpus), np.bool_)
    values = np.where(drawn, column.values, np.nan)
    top = scale_top(_measure(cpus, metric, values), metric.unit)
    levels = np.clip(
        np.ceil(np.where(drawn & column.present, values, 0.0) / top * _REASON_AT) - 1,
        0,
        _REASON_AT - 1,
    )
    codes = np.where(column.present, levels, _REASON_AT + column.reasons.astype(np.int64))
    codes = np.where(drawn, codes, _NOBODY_AT)
    codes = np.where(drawn & _is_bad(cpus, metric), _BAD_AT, codes)
    return np.append(codes, _NONE_AT).astype(np.int64), top


def _measure(cpus: CpuTable, metric: Metric, values: NDArray[np.float64]) -> NDArray[np.float32]:
    """Values that determine the scale.

    A cost with empty polls is an upper bound and may be thousands of times higher than others:
    such bounds do not stretch the scale.
    """
    values = values[np.isfinite(values)]
    if metric.bounded and len(values):
        column = cpus.columns[metric.id]
        known = column.values[_without_empty_polls(cpus.saturated) & column.present]
        usual = np.max(known) if len(known) else median(values)
        values = values[values <= _FAR * usual]
    return values.astype(np.float32)


@lru_cache(maxsize=4)
def _without_empty_polls(saturated: tuple[bool | None, ...]) -> Bools:
    """Where the cost is known to exclude empty polls."""
    return np.array([item is True for item in saturated], np.bool_)


def _is_bad(cpus: CpuTable, metric: Metric) -> Bools:
    """Where a thread waits for its CPU or the metric is beyond its limit."""
    bad = np.zeros(len(cpus), np.bool_)
    for item in (cpu_metric("wait_ratio"), metric):
        if item.bad_above is not None:
            bad |= cpus.columns[item.id].values > item.bad_above
    return bad


def _band(
    cpus: CpuTable, blocks: Sequence[NDArray[np.intp]], codes: NDArray[np.int64], span: int
) -> list[Line]:
    """Blocks side by side: a line for each hyper-thread of a core."""
    rows = []
    for level in range(max(len(block) for block in blocks)):
        pieces: list[Line | str] = []
        for block in blocks:
            row = _row(cpus, block[level], codes, level) if level < len(block) else BLANK
            pieces += ["" if not pieces else _GAP, row, " " * (span - len(_GAP) - row.width)]
        rows.append(line(*pieces))
    return rows


def _row(cpus: CpuTable, rows: NDArray[np.intp], codes: NDArray[np.int64], level: int) -> Line:
    # Every core has a first thread; a block may have none with a second.
    tag = "SMT" if level else f"S{cpus.topology.cpus[rows[0]].package}"
    numbers = np.fromiter(cpus.topology.row_of, np.int64, len(cpus))[rows[rows >= 0]]
    seen = codes[rows]  # -1, no such CPU, is the code after the last
    text, tones = "".join(_GLYPHS[seen].tolist()), _TONE_AT[seen]
    edges = [0, *(np.flatnonzero(tones[1:] != tones[:-1]) + 1).tolist(), len(rows)]
    runs = [Span(text[at:end], _TONES[tones[at]]) for at, end in pairwise(edges)]
    return Line((_label(tag, numbers.tobytes()), *runs))


@lru_cache(maxsize=64)  # with the topology and the width only
def _label(tag: str, cpus: bytes) -> Span:
    """Label of a row of glyphs; `cpus` are the bytes of an int64 array."""
    numbers = format_cpu_list(np.frombuffer(cpus, np.int64).tolist())
    return Span(f"{tag:<4}{fit(numbers, _LABEL - 5)} ", Tone.MUTED)


def _with_legend(first: Line, width: int) -> Line:
    left = width - first.width
    return line(first, Span(f"{LEGEND:>{left}}", Tone.MUTED)) if left >= len(LEGEND) else first
