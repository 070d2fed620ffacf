"""Columns, headers, cells and scrolling that all tables share."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.model.metrics.metric import Unit
from nftop.model.missing import Missing, Reason
from nftop.render.base.line import Span, Tone, line
from nftop.render.base.table import (
    TableColumn,
    body_lines,
    by_reason,
    cut_lines,
    fit_columns,
    header_line,
    number_cell,
    reason_lines,
    scroll,
    text_cell,
)

COLUMNS = (
    TableColumn("name", "NAME", 8, right=False, priority=0, grows=4),
    TableColumn("wide", "WIDE", 20, priority=1),
    TableColumn("rate", "Mpps", 6, priority=2),
)


def keys(
    width: int, *, last: frozenset[str] = frozenset(), least: int = 1, skip: bool = False
) -> list[str]:
    return [col.key for col in fit_columns(COLUMNS, width, last=last, least=least, skip=skip)]


def test_columns_fit_by_priority_and_keep_their_order() -> None:
    assert keys(40) == ["name", "wide", "rate"]
    assert keys(28) == ["name", "wide"]
    assert keys(20) == ["name"], "no column of lower rank stands in for one of higher"
    assert keys(20, skip=True) == ["name", "rate"]
    assert keys(20, last=frozenset({"wide"})) == ["name", "rate"]
    assert keys(3) == ["name"] and keys(3, least=0) == []


def test_columns_that_grow_take_what_is_left() -> None:
    assert [col.width for col in fit_columns(COLUMNS, 36)] == [10, 20, 6]
    assert [col.width for col in fit_columns(COLUMNS, 90)] == [12, 20, 6]


@given(st.integers(0, 60), st.lists(st.integers(1, 20), max_size=8), st.booleans())
def test_columns_never_exceed_the_width(width: int, widths: list[int], skip: bool) -> None:
    columns = [
        replace(COLUMNS[0], key=str(index), width=cells, priority=-index)
        for index, cells in enumerate(widths)
    ]
    shown = fit_columns(columns, width, least=0, skip=skip)
    assert sum(col.width for col in shown) <= width


def test_header_aligns_labels_and_marks_the_order() -> None:
    assert header_line(COLUMNS[::2]).text == "NAME     Mpps "
    assert header_line(COLUMNS[::2], "rate").text == "NAME     Mpps▼"
    assert header_line(COLUMNS[::2], "name", descending=False).text == "NAME▲    Mpps "


def test_body_has_a_line_per_row() -> None:
    lines = body_lines(COLUMNS[::2], lambda col: [(text_cell(item, col.width),) for item in "ab"])
    assert [item.text for item in lines] == ["a       a     ", "b       b     "]


def test_cells_end_with_their_mark_and_a_cut_text_with_an_ellipsis() -> None:
    assert number_cell(2.5, Unit.CYCLES, 6) == Span("  2.5 ", Tone.PLAIN)
    assert number_cell(2.5, Unit.CYCLES, 6, bound=True, estimate=True).text == " <2.5~"
    assert number_cell(123456.0, Unit.DEGREES_C, 4).text == "1e5 "
    assert number_cell(0.9996, Unit.RATIO, 8, fine=True).text == " >99.9% "
    missing = number_cell(Missing(Reason.SOURCE, "why"), Unit.CYCLES, 6)
    assert (missing.text, missing.tone) == (f"{Reason.SOURCE.mark:>5} ", Tone.MISSING)
    assert text_cell("abcdef", 5) == Span("abc… ", Tone.PLAIN)


@given(st.integers(-5, 60), st.integers(0, 49), st.integers(0, 5), st.integers(1, 60))
def test_scrolling_brings_the_rows_into_view(top: int, first: int, more: int, height: int) -> None:
    rows, last = 50, min(first + more, 49)
    moved = scroll(top, first, last, rows, height)
    assert 0 <= moved <= max(0, rows - height)
    assert moved <= first
    assert last < moved + height or last - first >= height or moved == first


@pytest.mark.parametrize(("height", "texts"), [
    (3, ["a", "b", "c"]), (2, ["a", "+ 2 more lines: press x"]), (1, ["+ 3 more lines: press x"]),
    (0, []),
])  # fmt: skip
def test_lines_that_are_cut_are_counted(height: int, texts: list[str]) -> None:
    lines = [line(item) for item in "abc"]
    assert [item.text for item in cut_lines(lines, height, 80, "press x")] == texts


def test_every_reason_is_listed_once_with_its_labels() -> None:
    idle, other = Missing(Reason.IDLE, "no work"), Missing(Reason.SOURCE, "no perf")
    readings = [("A", idle), ("B", 1.0), ("C", other), ("A", idle), ("D", idle)]
    reasons = by_reason(readings)
    assert list(reasons.values()) == [["A", "D"], ["C"]]
    assert [item.text for item in reason_lines(reasons, 80)] == [
        f"{Reason.IDLE.mark:<4}A, D: no work",
        f"{Reason.SOURCE.mark:<4}C: no perf",
    ]
