"""The bar of top-down: its cells, its letters, its tones, and what stands there without one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.model.column import Column, column, missing
from nftop.model.frame import CpuTable
from nftop.model.missing import Missing, Reason
from nftop.render.base.bars import COMPONENTS, apportion, bars, shares
from nftop.render.base.line import Tone
from nftop.render.cores.columns import columns_for
from nftop.render.cores.rows import CpuView, arrange
from nftop.render.cores.table import table_lines
from tests.frames import bare, frame

NAMES = ("frontend_bound", "bad_speculation", "backend_bound", "retiring")
UNREPORTED = missing(8, Missing(Reason.SOURCE, "no level 2"))


def _cpus(level_1: list[float], memory: Column = UNREPORTED, core: Column = UNREPORTED) -> CpuTable:
    cpus = frame(8, tma=True).cpus
    reports = {f"tma.{n}": column(np.full(8, v)) for n, v in zip(NAMES, level_1, strict=True)}
    reports |= {"tma.memory_bound": memory, "tma.core_bound": core}
    return replace(cpus, columns={**cpus.columns, **reports})


def _bar(cpus: CpuTable, cells: int, base: Tone = Tone.PLAIN) -> str:
    return bars(cpus, [1], cells, [base])[0].text


def test_letters_of_lost_slots_beyond_those_of_before_are_lit() -> None:
    cpus = _cpus([0.1, 0.1, 0.4, 0.4], column(np.full(8, 0.3)), column(np.full(8, 0.1)))
    before = {
        "tma.frontend_bound": 0.1,
        "tma.bad_speculation": 0.0,
        "tma.backend_bound": 0.2,
        "tma.retiring": 0.7,
        "tma.memory_bound": 0.1,
        "tma.core_bound": 0.1,
    }
    [lit] = bars(cpus, [1], 10, [Tone.PLAIN], [before])
    assert lit.text == "FbMMMCRRRR"
    assert [span.text for span in lit.spans if span.tone is Tone.LIT] == ["b", "MM"]
    unknown: tuple[list[dict[str, float]], ...] = ([], [{}], [{"tma.retiring": 0.7}])
    for known in unknown:
        [plain] = bars(cpus, [1], 10, [Tone.PLAIN], known)
        assert plain == bars(cpus, [1], 10, [Tone.PLAIN])[0]


@given(
    st.lists(st.lists(st.floats(0, 1), min_size=6, max_size=6), min_size=1, max_size=5),
    st.integers(1, 60),
)
def test_cells_sum_and_are_within_one_of_the_exact_share(
    rows: list[list[float]], cells: int
) -> None:
    values = np.array(rows)
    total = values.sum(axis=1, keepdims=True)
    values = np.where(total > 1e-6, values / np.maximum(total, 1e-6), 0.0)
    counts = apportion(values, cells)
    assert counts.sum(axis=1).tolist() == [cells if row.any() else 0 for row in values]
    assert (counts >= 0).all()
    assert (np.abs(counts - values * cells) < 1 + 1e-6).all()


@given(st.lists(st.floats(-0.05, 1), min_size=4, max_size=4), st.floats(0, 1), st.floats(0, 1))
def test_shares_sum_to_one_and_level_2_only_splits_the_backend(
    level_1: list[float], memory: float, core: float
) -> None:
    cpus = _cpus(level_1, column(np.full(8, memory)), column(np.full(8, core)))
    item = shares(cpus, np.array([1], np.intp))[0]
    total = sum(max(0.0, value) for value in level_1)
    assert item.sum() == pytest.approx(1.0 if total else 0.0)
    assert (item >= 0).all()
    if total > 1e-9:
        assert item[2:5].sum() == pytest.approx(max(0.0, level_1[2]) / total, abs=1e-9)


def test_letters() -> None:
    reports = (column(np.full(8, 0.3)), column(np.full(8, 0.1)))
    assert _bar(_cpus([0.1, 0.05, 0.4, 0.45], *reports), 20) == "FFbMMMMMMCCRRRRRRRRR"
    assert _bar(_cpus([0.1, 0.05, 0.4, 0.45]), 20) == "FFbBBBBBBBBRRRRRRRRR"
    assert _bar(_cpus([0.2, 0.2, 0.8, 0.8]), 10) == "FbBBBBRRRR", "of what there is"
    assert _bar(_cpus([0.0, 0.0, 0.0, 0.0]), 10) == ".         ", "nothing to share out"


def test_a_missing_section_shows_its_reason() -> None:
    cpus = frame(8, tma=True).cpus
    assert [bar.text for bar in bars(cpus, [4], 10, [Tone.PLAIN])] == ["[b]       "]
    gone = {**cpus.columns, "tma.retiring": missing(8, Missing(Reason.WARMING))}
    drawn = bars(replace(cpus, columns=gone), [1], 10, [Tone.PLAIN])[0]
    assert (drawn.text, drawn.spans[0].tone) == ("[w]       ", Tone.MISSING)


def test_tones_are_of_the_letters_and_step_back_on_idle_rows() -> None:
    cpus = frame(8, tma=True).cpus
    tone_of = {letter: tone for letter, tone, _ in COMPONENTS}
    for span in bars(cpus, [1], 20, [Tone.PLAIN])[0].spans:
        assert {tone_of[letter] for letter in span.text} == {span.tone}
    assert {span.tone for span in bars(cpus, [1], 20, [Tone.MUTED])[0].spans} == {Tone.MUTED}


def test_it_is_a_column_where_some_cpu_has_it_and_outranks_its_numbers() -> None:
    cpus = frame(8, tma=True).cpus
    assert "tma" not in {col.key for col in columns_for(300, bare(8).cpus)}
    for width, cells in ((80, 11), (120, 21)):
        shown = {col.key: col for col in columns_for(width, cpus)}
        assert shown["tma"].width == cells
        assert not any(key.startswith("tma.") for key in shown)
    assert {"tma", "tma.frontend_bound", "tma.retiring"} <= {
        col.key for col in columns_for(240, cpus)
    }


def test_an_estimate_is_marked_behind_the_bar() -> None:
    rows = {
        row.text.split()[0]: row.text for row in table_lines(frame(8, tma=True).cpus, CpuView(), 80)
    }
    assert rows["3"].rstrip().endswith("R~"), "its counters shared the hardware"
    assert rows["1"].rstrip().endswith("R")


def test_it_sorts_by_retiring_with_the_missing_last() -> None:
    cpus = frame(8, tma=True).cpus
    rows = arrange(cpus, CpuView("tma", folded=False))
    values = cpus.columns["tma.retiring"].values
    attached = len(rows.shown) - len(rows.idle)
    for component in (rows.shown[:attached], rows.shown[attached:-1]):
        assert [values[row] for row in component] == sorted(
            (values[row] for row in component), reverse=True
        )
    assert rows.shown[-1] == 4
