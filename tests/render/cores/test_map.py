"""The map: every CPU once, where it belongs, never larger than told, and what its glyphs say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nftop.derive.cpu_filter import only_cpus
from nftop.model.frame import CpuTable
from nftop.model.ids import Cpu
from nftop.model.metrics.catalogue import cpu_metric
from nftop.model.missing import Missing, Reason
from nftop.render.base.line import Tone
from nftop.render.base.text import ascii_only
from nftop.render.cores.map import LEGEND, map_lines, map_metric
from tests.frames import all_missing, bare, frame, topology, with_cells

CPP = cpu_metric("cpp")


def _glyphs(cpus: CpuTable, width: int = 120, height: int = 9) -> str:
    """The glyphs alone, line after line, labels and legend cut off."""
    rows = [line.text for line in map_lines(cpus, CPP, width, height)]
    return "".join(row[27:].replace(LEGEND, "").strip() for row in rows)


@example(19, 1, 35, 6)  # no core of the second block has a second thread
@given(st.integers(1, 160), st.integers(1, 3), st.integers(0, 240), st.integers(-1, 40))
def test_never_wider_or_taller_than_reported_and_whole_or_not_at_all(
    n_cpus: int, packages: int, width: int, height: int
) -> None:
    cpus = frame(n_cpus, packages=packages).cpus
    lines = map_lines(cpus, CPP, width, height)
    assert len(lines) <= max(0, height)
    assert all(line.width <= width for line in lines)
    tones = (Tone.AREA, Tone.BAD, Tone.MISSING)
    drawn = sum(len(s.text) for line in lines for s in line.spans if s.tone in tones)
    polled = min(3, n_cpus - 1) or n_cpus  # without a poller all are drawn
    assert drawn == (polled if lines else 0), "every poller once"


@given(st.integers(1, 64), st.integers(1, 4))
def test_the_grids_hold_every_cpu_once_with_siblings_below_one_another(
    n_cpus: int, packages: int
) -> None:
    reports = topology(n_cpus, packages)
    rows = np.concatenate([grid.ravel() for grid in reports.grids])
    assert sorted(rows[rows >= 0].tolist()) == list(range(n_cpus))
    for grid in reports.grids:
        for column in grid.T.tolist():
            assert len({reports.cpus[row].core for row in column if row >= 0}) == 1


def test_a_core_stands_with_its_l3_and_an_offline_cpu_nowhere() -> None:
    reports = topology(8)
    l3 = {0: 1, 1: 0, 2: 1, 3: 0}
    cpus = tuple(
        replace(info, core=None, package=None)
        if info.cpu == 7
        else replace(info, l3=l3[info.cpu % 4])  # type: ignore[arg-type]
        for info in reports.cpus
    )
    assert replace(reports, cpus=cpus).grids[0].tolist() == [[1, 3, 0, 2], [5, -1, 4, 6]]


def test_heights_marks_and_scale() -> None:
    assert _glyphs(frame(8).cpus) == ".▄█!....", "CPU 2's bound goes to the end of the scale"
    lines = map_lines(frame(8).cpus, CPP, 120, 9)
    assert [line.text[:15].rstrip() for line in lines] == ["MAP CPP", " 0-500"]
    assert _glyphs(with_cells(frame(8), "wait_ratio", {3: 0.05}).cpus) == ".▄█▆...."


def test_a_map_of_one_line_has_its_scale_too() -> None:
    alone = only_cpus(frame(8), frozenset({Cpu(0), Cpu(1), Cpu(2), Cpu(3)}))
    (only,) = map_lines(alone.cpus, cpu_metric("busy_ratio"), 120, 9)
    assert only.text[:15].rstrip() == "MAP BUSY 0-100%"


def test_bounds_stretch_the_scale_unless_they_are_far_off() -> None:
    def scale(cells: dict[int, float], saturated: bool | None = False) -> str:
        cpus = with_cells(frame(8), "cpp", cells).cpus
        return map_lines(replace(cpus, saturated=(None, True, *(saturated,) * 6)), CPP, 120, 9)[
            1
        ].text[:8]

    assert scale({1: 100.0, 2: 380.0, 3: 90.0}) == " 0-500  "
    assert scale({1: 100.0, 2: 420.0, 3: 90.0}) == " 0-100  "
    assert scale({1: 100.0, 2: 420.0, 3: 90.0}, saturated=True) == " 0-500  ", "it is no bound"
    none = replace(with_cells(frame(8), "cpp", {1: 7e4}).cpus, saturated=(None,) * 8)
    assert map_lines(none, CPP, 120, 9)[1].text[:7] == " 0-300k"


@pytest.mark.parametrize(
    ("reason", "glyph"),
    [(Reason.SOURCE, "s"), (Reason.TAKEN, "b"), (Reason.IDLE, "-"), (Reason.UNDEFINED, "-")],
)
def test_a_poller_without_a_value_shows_why(reason: Reason, glyph: str) -> None:
    cpus = with_cells(frame(8), "cpp", {1: Missing(reason)}).cpus
    assert _glyphs(cpus) == f".{glyph}█!...."


def test_without_a_poller_every_cpu_is_drawn() -> None:
    cpus = bare(8).cpus
    metric = map_metric(cpus, "cpu")
    assert metric.id == "busy_ratio"
    text = "".join(line.text for line in map_lines(cpus, metric, 100, 9))
    assert "▁▂▃▄" in text
    assert map_metric(frame(8).cpus, "cpu").id == "cpp"
    assert map_metric(frame(8, tma=True).cpus, "tma").id == "tma.retiring"


def test_ascii_keeps_the_width() -> None:
    for cpus in (frame(8).cpus, all_missing().cpus):
        for line in map_lines(cpus, CPP, 120, 9):
            assert ascii_only(line.text).isascii()
            assert len(ascii_only(line.text)) == line.width


def test_big_hosts_fit_wide_screens_and_odd_numbering_its_label() -> None:
    lines = map_lines(frame(512, packages=2).cpus, CPP, 200, 12)
    assert len(lines) == 4
    assert map_lines(frame(512, packages=2).cpus, CPP, 120, 7) == [], "8 lines are needed"
