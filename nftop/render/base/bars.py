"""Top-down as a bar of letters: shares of a core's issue slots, readable without colours.

`F` frontend bound, `b` bad speculation, `M` memory bound and `C` core bound (or `B`, backend bound,
if the CPU's table does not separate them), `R` retiring.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from nftop.model.column import Block, Floats
from nftop.model.frame import CpuTable
from nftop.model.missing import Missing, Reading, Reason, number_or
from nftop.render.base import format as fmt
from nftop.render.base.line import Line, Span, Tone

COMPONENTS: tuple[tuple[str, Tone, str], ...] = (
    ("F", Tone.FRONTEND, "frontend bound: no instructions came"),
    ("b", Tone.SPECULATION, "bad speculation: work thrown away"),
    ("B", Tone.BACKEND, "backend bound, where memory and core are not separated"),
    ("M", Tone.MEMORY, "memory bound: waiting for memory or a cache"),
    ("C", Tone.CORE, "core bound: waiting for the core's own units"),
    ("R", Tone.RETIRING, "retiring: useful work"),
)
_LEVEL_1 = ("tma.frontend_bound", "tma.bad_speculation", "tma.backend_bound", "tma.retiring")
METRICS = (*_LEVEL_1, "tma.memory_bound", "tma.core_bound")
# Letters of lost slots: more of them than before are lit.
_LOST = len(COMPONENTS) - 1


def bars(
    cpus: CpuTable,
    rows: Sequence[int],
    cells: int,
    bases: Sequence[Tone],
    before: Sequence[Mapping[str, float]] = (),
) -> list[Line]:
    """The bar of each row in `cells` cells, or the mark of why level 1 has no number.

    `bases`: tone of each row; other than `PLAIN` it replaces the colours. `before`: of each row
    earlier values of `METRICS`: letters that it has more of than then are lit.
    """
    at = np.array(rows, np.intp)
    counts = apportion(shares(cpus, at), cells)
    grown = _grown(counts, before, cells) if any(before) else None
    block = Block.of(cpus.columns)
    gone = block.reasons[np.array(block.rows_of(_LEVEL_1))[:, None], at].T.tolist()
    # The first node without a number says why there is no bar.
    first = [next(filter(None, reasons), 0) for reasons in gone]
    triples = zip(counts.tolist(), first, bases, strict=True)
    if grown is None:
        return [_bar(count, reason, base, cells) for count, reason, base in triples]
    return [
        _bar(count, reason, base, cells, lit)
        for (count, reason, base), lit in zip(triples, grown.tolist(), strict=True)
    ]


def _grown(
    counts: NDArray[np.int64], before: Sequence[Mapping[str, float]], cells: int
) -> NDArray[np.int64]:
    """int64 of the shape of `counts`: letters of lost slots that were not there before."""
    values = [[row.get(metric, np.nan) for row in before] for metric in METRICS]
    earlier = apportion(_shares(np.array(values)), cells)
    grown: NDArray[np.int64] = np.maximum(counts - earlier, 0)
    grown[~earlier.any(axis=1)] = 0
    grown[:, _LOST:] = 0
    return grown


def shares(cpus: CpuTable, rows: NDArray[np.intp]) -> Floats:
    """float64 of shape (len(rows), len(PARTS)): shares of the slots, summing to 1 per row.

    Level 1 is scaled to a sum of 1; level 2 splits backend bound into memory and core. A row
    without level 1 is zeros.
    """
    block = Block.of(cpus.columns)
    return _shares(block.floats[np.array(block.rows_of(METRICS))[:, None], rows])


def bar(readings: Mapping[str, Reading], cells: int) -> Line:
    """Bar from `readings` of the metrics `tma.*`, for what is not a CPU."""
    numbers = np.array([[number_or(readings[metric], np.nan)] for metric in METRICS])
    level_1 = (readings[metric] for metric in _LEVEL_1)
    why = next((int(item.reason) for item in level_1 if isinstance(item, Missing)), 0)
    return _bar(apportion(_shares(numbers), cells)[0].tolist(), why, Tone.PLAIN, cells)


def _shares(values: Floats) -> Floats:
    """`shares` of float64 (metrics, n)."""
    level_1, level_2 = values[: len(_LEVEL_1)], values[len(_LEVEL_1) :]
    frontend, speculation, backend, retiring = np.maximum(level_1, 0.0)
    memory, core = np.where(level_2 > 0, level_2, 0.0)  # neither negative nor NaN
    both = memory + core
    split = both > 0
    of_memory = memory / np.where(split, both, 1.0)  # 0 where it is not split
    rest = backend * (1.0 - of_memory)
    alone, of_core = np.where([~split, split], rest, 0.0)
    slots = np.array([frontend, speculation, alone, backend * of_memory, of_core, retiring])
    total = frontend + speculation + backend + retiring
    known = total > 0  # False for NaN
    return np.where(known, slots / np.where(known, total, 1.0), 0.0).T


def apportion(values: Floats, cells: int) -> NDArray[np.int64]:
    """int64 of the shape of `values`: whole cells, `cells` in each row.

    Largest remainder (Hamilton's method). Rows of `values` sum to 1; rows of zeros get no cells.
    """
    exact = values * cells
    # A share a hair below a whole cell is that cell.
    whole = np.floor(exact + 1e-9)
    left = np.where(values.any(axis=1), cells - whole.sum(axis=1), 0.0)
    order = np.argsort(whole - exact, axis=1, kind="stable")
    rank = np.argsort(order, axis=1, kind="stable")
    return (whole + (rank < left[:, None])).astype(np.int64)


def _bar(
    counts: Sequence[int], reason: int, base: Tone, cells: int, lit: Sequence[int] = ()
) -> Line:
    if not any(counts):
        # No slots used: no work, so no ratio.
        why = Reason(reason) if reason else Reason.IDLE
        return Line((Span(f"{fmt.mark(why, cells):<{cells}}", Tone.MISSING),))
    runs = _runs(base, cells)
    if any(lit):
        spans = []
        for kind, (count, more) in enumerate(zip(counts, lit, strict=True)):
            spans += [runs[kind][count - more]] if count > more else []
            spans += [Span(COMPONENTS[kind][0] * more, Tone.LIT)] if more else []
        return Line(tuple(spans))
    return Line(tuple([runs[kind][count] for kind, count in enumerate(counts) if count]))


@lru_cache(maxsize=16)
def _runs(base: Tone, cells: int) -> tuple[tuple[Span, ...], ...]:
    """Every possible run of letters, by part and length."""
    return tuple(
        tuple(
            Span(letter * length, tone if base is Tone.PLAIN else base)
            for length in range(cells + 1)
        )
        for letter, tone, _ in COMPONENTS
    )
