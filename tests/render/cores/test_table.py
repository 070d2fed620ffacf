"""Which columns and rows are shown, in which order, and what a row says."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from nftop.model.frame import CpuTable
from nftop.model.metrics.metric import Unit
from nftop.model.missing import Missing, Reading, Reason
from nftop.render.base import format as fmt
from nftop.render.base.line import Line, Tone
from nftop.render.cores.columns import columns_for
from nftop.render.cores.harm import SICK, RowFacts, RowTrends
from nftop.render.cores.rows import CpuRows, CpuView, arrange
from nftop.render.cores.table import body_lines, header_line, rest_line, table_lines
from tests.frames import all_missing, bare, frame, hostile, with_cells

GONE = Missing(Reason.STALE, "too old")


def _cell(cpus: CpuTable, row: int, key: str, width: int = 200) -> tuple[str, Tone]:
    """Text and tone of one cell."""
    columns = columns_for(width)
    start = sum(col.width for col in columns[: [col.key for col in columns].index(key)])
    wanted = next(col for col in columns if col.key == key)
    drawn = body_lines(cpus, CpuRows((row,)), columns, 0, 1)[0]
    at = 0
    for span in drawn.spans:
        if start + wanted.width - 2 < at + len(span.text):
            return drawn.text[start : start + wanted.width], span.tone
        at += len(span.text)
    raise AssertionError(key)


def test_80_columns_keep_what_matters() -> None:
    keys = [col.key for col in columns_for(80)]
    assert {"cpu", "thread", "packets_per_s", "busy_ratio", "ipc", "cpp", "wait_ratio"} <= set(keys)


def test_columns_unsupported_by_the_hardware_give_way() -> None:
    base = frame(8)
    blind = base
    for metric in ("ipc", "frequency_hz"):
        blind = with_cells(blind, metric, dict.fromkeys(range(8), Missing(Reason.HARDWARE)))
    before, after = ([col.key for col in columns_for(100, item.cpus)] for item in (base, blind))
    assert "ipc" in before
    assert "ipc" not in after
    assert "ipc" in [col.key for col in columns_for(300, blind.cpus)]


@given(st.integers(1, 300))
def test_columns_fit_and_only_the_least_important_are_left_out(width: int) -> None:
    chosen, wider = columns_for(width), columns_for(300)
    assert chosen[0].key == "cpu"
    assert sum(col.width for col in chosen) <= max(width, 6)
    ranked = sorted(wider, key=lambda col: col.priority)
    assert {col.key for col in chosen} == {col.key for col in ranked[: len(chosen)]}


@given(
    st.lists(st.none() | st.floats(0, 1), min_size=8, max_size=8),
    st.booleans(),
    st.booleans(),
)
def test_attached_rows_come_first_then_values_in_order_then_missing(
    values: list[float | None], inverted: bool, folded: bool
) -> None:
    cells = {row: GONE if value is None else value for row, value in enumerate(values)}
    cpus = with_cells(frame(8), "busy_ratio", cells).cpus
    rows = arrange(cpus, CpuView("busy_ratio", inverted=inverted, folded=folded))

    assert sorted((*rows.shown, *rows.folded)) == list(range(8))
    assert set(rows.shown[:3]) == {1, 2, 3} and rows.idle == set(rows.shown[3:])
    assert bool(rows.folded) is folded
    for component in (
        rows.shown[:3],
        rows.shown[3:],
        rows.folded,
    ):
        known = [value for row in component if (value := values[row]) is not None]
        assert known == sorted(known, reverse=not inverted)
        assert [values[row] for row in component[: len(known)]] == known, (
            "a missing value came first"
        )


@pytest.mark.parametrize(
    ("sort", "order"),
    [("cpu", (1, 2, 3)), ("smt", (1, 2, 3)), ("thread", (1, 2, 3)), ("nf", (1, 2, 3))],
)
def test_labels_sort_low_to_high_unless_inverted(sort: str, order: tuple[int, ...]) -> None:
    cpus = frame(8).cpus
    assert arrange(cpus, CpuView(sort)).shown == order
    inverted = arrange(cpus, CpuView(sort, inverted=True)).shown
    assert inverted == ((3, 1, 2) if sort == "nf" else order[::-1]), "equals keep their order"


@pytest.mark.parametrize(
    ("text", "rows"),
    [("VPP", (3,)), ("worker", (1, 2)), ("0,4-5", (0, 4, 5)), ("nobody", ()), ("fwd", (1, 2))],
)
def test_a_filter_matches_names_and_cpu_lists_of_all_cpus(text: str, rows: tuple[int, ...]) -> None:
    assert arrange(frame(8).cpus, CpuView(filter=text)).shown == rows


def test_without_a_poller_nothing_is_folded_or_dim() -> None:
    cpus = bare(4).cpus
    rows = arrange(cpus, CpuView())
    assert (rows.shown, rows.folded) == ((0, 1, 2, 3), ())
    drawn = body_lines(cpus, rows, columns_for(80), 0, 4)
    assert drawn[0].spans[0].tone is Tone.PLAIN


def test_the_fold_counts_and_averages_what_is_known(snapshot: SnapshotAssertion) -> None:
    base = with_cells(frame(8), "busy_ratio", {0: 0.2, 4: GONE, 5: 0.4, 6: GONE, 7: GONE})
    cpus = replace(base.cpus, online=(*(True,) * 7, False))
    assert table_lines(cpus, CpuView(), 80)[-1].text.strip() == snapshot
    none = with_cells(frame(5), "busy_ratio", {0: GONE, 4: GONE})
    assert table_lines(none.cpus, CpuView(), 80)[-1].text.strip() == snapshot


def test_only_rows_with_a_usual_value_are_well(snapshot: SnapshotAssertion) -> None:
    cpus = frame(8).cpus
    rows = arrange(cpus, CpuView())
    hidden = rows.shown
    change = np.full(len(cpus), np.nan)
    change[list(hidden[:2])] = 0.01
    facts = RowFacts(RowTrends(cpu_change=change), np.zeros(len(cpus)))
    assert rest_line(cpus, CpuRows(hidden), hidden, facts).text.split("   + ")[1:] == snapshot
    unknown = RowFacts(RowTrends(), np.zeros(len(cpus)))
    assert "well" not in rest_line(cpus, CpuRows(hidden), hidden, unknown).text


@pytest.mark.parametrize("width", [200, 80, 60, 52])
def test_all_counts_of_rows_out_of_view_fit(width: int) -> None:
    base = frame(88, packages=2)
    cpus, hidden = base.cpus, (1, 2, 3, 5, 6)
    harm = np.zeros(len(cpus))
    harm[[1, 2, 3]] = SICK
    change = np.full(len(cpus), np.nan)
    change[[1, 5]] = 0.01
    facts = RowFacts(RowTrends(cpu_change=change), harm)
    rows = CpuRows(hidden, folded=tuple(range(15, 88)))
    drawn = rest_line(cpus, rows, hidden, facts, width)
    assert drawn.width <= width
    counts = [int(item.split()[0]) for item in drawn.text.split("   + ")[1:]]
    assert counts == [3, 1, 1, 73]


@pytest.mark.parametrize("busy", [0.99, 0.5, GONE])
def test_cost_is_a_bound_unless_the_core_is_known_to_be_saturated(busy: Reading) -> None:
    cpus = with_cells(frame(8), "busy_ratio", {1: busy}).cpus

    def drawn(key: str, saturated: bool | None) -> tuple[str, Tone]:
        return _cell(replace(cpus, saturated=(saturated,) * 8), 1, key)

    assert drawn("cpp", True) == ("   188 ", Tone.PLAIN)
    assert drawn("cpp", False) == ("  <188 ", Tone.MUTED), "it has polled idly"
    assert drawn("cpp", None) == ("  <188 ", Tone.PLAIN), "nobody knows"
    assert drawn("ipp", True)[0] == "   302 "
    assert drawn("ipp", None)[0] == "  <302 "
    assert drawn("busy_cpp", False)[0] == "   186 ", "empty polls are not in it"
    assert drawn("ipc", False)[0] == " 1.05 "


def test_estimates_are_marked_in_the_cell_after_the_digits() -> None:
    cpus = frame(8).cpus
    assert _cell(cpus, 3, "ipc")[0] == " 1.55~", "its counters shared the hardware"
    assert _cell(cpus, 3, "packets_per_s")[0] == "  8.40 ", "packets are counted by the NF"
    tsc = replace(cpus, cpp_clock=("tsc",) * 8)
    unsure = replace(tsc, saturated=(None,) * 8)
    assert _cell(unsure, 1, "cpp")[0] == "   188~", "in turbo the core has more cycles: no bound"
    assert _cell(unsure, 1, "ipp")[0] == "  <302 ", "instructions are what they are"
    assert _cell(tsc, 1, "cpp")[0] == "   188~"
    assert _cell(tsc, 1, "ipc")[0] == " 1.05 ", "the clock says nothing about instructions"
    assert _cell(tsc, 0, "cpp")[0] == "     - ", "there is nothing to estimate"


@pytest.mark.parametrize("width", [60, 80, 120, 160, 200])
@pytest.mark.parametrize("trends", [False, True])
def test_ipc_does_not_touch_the_mark_before_it(width: int, trends: bool) -> None:
    cpus = frame(8).cpus
    columns = columns_for(width, cpus, trends=trends)
    lines = body_lines(cpus, arrange(cpus, CpuView(folded=False)), columns, 0, 8)
    assert any("~ " in item.text for item in lines)
    assert not [item.text for item in lines if re.search(r"~\d\.\d\d\b", item.text)]


def test_waiting_is_bad_from_five_percent() -> None:
    cpus = frame(8).cpus
    assert _cell(cpus, 3, "wait_ratio") == (" 7.0% ", Tone.BAD)
    assert _cell(cpus, 2, "wait_ratio") == ("  0+% ", Tone.PLAIN)


def test_idle_rows_step_back_behind_polled_ones() -> None:
    cpus = frame(8).cpus
    drawn = body_lines(cpus, arrange(cpus, CpuView(folded=False)), columns_for(80), 0, 8)
    assert [row.spans[0].tone for row in drawn] == [Tone.PLAIN] * 3 + [Tone.MUTED] * 5


def test_an_offline_cpu_reports_it() -> None:
    cpus = replace(frame(8).cpus, online=(*(True,) * 7, False))
    assert _cell(cpus, 7, "thread")[0].strip() == "offline"


@pytest.mark.parametrize("make", [lambda: frame(64), all_missing, hostile, lambda: bare(1)])
def test_every_row_is_as_wide_as_the_headers(make: object) -> None:
    cpus = make().cpus  # type: ignore[operator]
    for width in (20, 40, 80, 120, 200):
        lines = table_lines(cpus, CpuView(folded=False), width)
        assert len({line.width for line in lines}) == 1


def test_the_arrow_reports_by_what_and_which_way() -> None:
    columns = columns_for(80)
    assert " CPU▲" in header_line(columns, CpuView("cpu")).text
    assert not {"▲", "▼"} & set(header_line(columns, CpuView()).text), "harm is no column"
    assert "BUSY▼" in header_line(columns, CpuView("busy_ratio")).text
    assert "NF▼" in header_line(columns, CpuView("nf", inverted=True)).text


def test_rows_out_of_view_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    created: list[float] = []
    real = fmt.printer

    def counted(unit: Unit, width: int, *, bound: bool = False) -> Callable[[float], str]:
        def printed(value: float) -> str:
            created.append(value)
            return real(unit, width, bound=bound)(value)

        return printed

    monkeypatch.setattr(fmt, "printer", counted)

    def cells(n_cpus: int) -> tuple[list[Line], int]:
        created.clear()
        cpus = frame(n_cpus).cpus
        rows = arrange(cpus, CpuView(folded=False))
        return body_lines(cpus, rows, columns_for(200), n_cpus - 20, 20), len(created)

    few, many = cells(64), cells(512)
    assert len(few[0]) == len(many[0]) == 20
    assert 0 < few[1] == many[1] <= 20 * len(columns_for(200))


@pytest.mark.parametrize(
    ("busy", "marked"), [(0.91, True), (0.5, False), (0.0, False), (Missing(Reason.SOURCE), False)]
)
def test_a_sibling_that_takes_its_share_is_marked(busy: Reading, marked: bool) -> None:
    shown = with_cells(frame(8), "sibling_busy_ratio", {1: busy})
    header, *rows = (line.text for line in table_lines(shown.cpus, CpuView(), 120))
    row = next(text for text in rows if "worker1" in text)
    at = header.index(" SMT") + 3
    assert row[at : at + 2] == f"5{'!' if marked else ' '}"
