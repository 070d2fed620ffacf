"""Top-down of the core looked at, as lines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from nftop.model.column import column
from nftop.model.frame import Clock, Frame, SourceState
from nftop.model.metrics.package import PACKAGE_METRICS
from nftop.model.missing import Missing, Reading, Reason
from nftop.render.base.line import Line, Tone
from nftop.render.pages.help import explain_core_lines, explain_package_lines
from nftop.render.topdown.tree import core_lines, meaning_of, tree_of
from nftop.render.topdown.tree import words as words_of
from nftop.uarch.focus import tree
from nftop.uarch.table import load
from tests.command import lines_with
from tests.focus import NO_REMOTE, with_focus
from tests.frames import all_missing, bare, frame, hostile, with_cells

HOST = frame(8, 3, tma=True)
FOCUSED = with_focus(HOST, 1)


def lines(shown: Frame, row: int = 1, width: int = 100, waited_s: float = 0.0) -> list[Line]:
    return core_lines(shown, row, width, waited_s=waited_s)


def text(shown: Frame, row: int = 1, width: int = 100, waited_s: float = 0.0) -> str:
    return "\n".join(line.text.rstrip() for line in lines(shown, row, width, waited_s))


def words(shown: Frame, row: int = 1, waited_s: float = 0.0) -> str:
    return " ".join(text(shown, row, 100, waited_s).split())


def row_of(shown: str, name: str) -> str:
    return next(line for line in shown.splitlines() if line.strip().startswith(name))


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_a_core_in_focus(width: int, snapshot: SnapshotAssertion) -> None:
    assert text(FOCUSED, width=width) == snapshot


@pytest.mark.parametrize("width", [80, 120])
def test_a_core_without_a_focus_yet(width: int, snapshot: SnapshotAssertion) -> None:
    assert text(HOST, width=width) == snapshot


@pytest.mark.parametrize("make", [all_missing, bare, hostile, lambda: frame(2), lambda: frame(1)])
@pytest.mark.parametrize("width", [1, 20, 39, 80, 300])
def test_any_frame_fits_its_width(make: object, width: int) -> None:
    shown = make()  # type: ignore[operator]
    for row in range(len(shown.cpus)):
        for line in (*lines(shown, row, width), *explain_core_lines(shown, row, width)):
            assert line.width <= width
            assert line.text.isprintable()


def test_the_focus_of_another_core_is_not_this_ones(snapshot: SnapshotAssertion) -> None:
    assert "dram bound" in text(FOCUSED, 5), "the sibling is of the same core"
    assert "dram bound" not in text(FOCUSED, 2)
    assert "238 cycles" not in text(FOCUSED, 2)
    assert words(FOCUSED, 2) == snapshot


def test_a_cost_is_the_bound_that_the_cores_screen_shows() -> None:
    cpus = with_cells(HOST, "cpp", {1: 188.0}).cpus
    cases: tuple[tuple[bool | None, Clock, str], ...] = (
        (True, "core", "188 "),
        (None, "core", "<188 "),
        (None, "tsc", "188~"),
    )
    for saturated, clock, cost in cases:
        unsure = replace(cpus, saturated=(saturated,) * 8, cpp_clock=(clock,) * 8)
        facts = text(replace(HOST, cpus=unsure))
        assert f"CPP {cost}" in facts.splitlines()[1]


def test_what_waits_for_persistent_memory_reports_it_on_cpus_without_cxl_too() -> None:
    assert words_of("cxl_mem_bound") == "persistent mem bound"
    of = {"backend_bound": 0.5, "memory_bound": 0.4, "cxl_mem_bound": 0.1}
    topdown = load("CLX").topdown
    assert topdown and FOCUSED.focus
    shown = replace(FOCUSED, focus=replace(FOCUSED.focus, tree=tree(topdown, of)))
    assert "10%" in row_of(text(shown), "persistent mem bound")


def test_what_is_explained_names_formulas_and_events_of_the_host(
    snapshot: SnapshotAssertion,
) -> None:
    host = replace(FOCUSED, host=replace(FOCUSED.host, uarch="SKX"))
    page = " ".join(
        " ".join(core_line.text for core_line in explain_core_lines(host, 1, 100)).split()
    )
    assert page == snapshot
    assert page.count("OFFCORE_REQUESTS.DEMAND_DATA_RD cpu/") == 1
    metrics = [metric for metric in PACKAGE_METRICS if metric.id == "pcie.write_bytes_per_s"]
    page = " ".join(line.text for line in explain_package_lines(host, metrics, 120))
    assert page == snapshot
    unknown = replace(FOCUSED, host=replace(FOCUSED.host, uarch="generic"))
    page = " ".join(line.text for line in explain_package_lines(unknown, metrics, 120))
    assert "itom_hit" not in page


def test_why_level_3_is_missing(snapshot: SnapshotAssertion) -> None:
    quiet = Missing(Reason.SOURCE, "cpu 1 is in --quiet-cpus")
    denied = {**HOST.sources, "perf": SourceState(Reason.PERMISSION, "run as root", None, None)}
    asleep = with_cells(HOST, "tma.retiring", {1: Missing(Reason.IDLE, "the core slept")})
    for shown, waited_s, why in (
        (HOST, 2.0, "[w] level 3, probes: level 3 and probes start with the next"),
        (HOST, 60.0, "[s] level 3, probes: no source counts level 3 here"),
        (replace(HOST, interval_s=None), 60.0, "[w] level 3, probes: "),
        (with_cells(HOST, "tma.retiring", {1: quiet}), 0.0, f"[s] level 3, probes: {quiet.detail}"),
        (replace(HOST, sources=denied), 0.0, "[p] level 3, probes: run as root"),
        (asleep, 0.0, "[w] level 3, probes: "),
    ):
        assert why in words(shown, waited_s=waited_s)
    frozen = core_lines(HOST, 1, 100, waited_s=60.0, frozen=True)
    assert lines_with((item.text for item in frozen), "paused") == snapshot


def test_a_node_beyond_its_threshold_is_marked() -> None:
    marked = [line.text.split("!")[0].strip() for line in lines(FOCUSED) if " ! " in line.text]
    assert marked == ["backend bound", "memory bound", "dram bound"]


def test_the_scale_is_the_whole_whatever_the_values() -> None:
    shown = text(FOCUSED, width=150)
    assert row_of(shown, "NODE").rstrip().endswith("100%")
    assert row_of(shown, "dram bound").count("M") == 33
    assert (
        row_of(shown, "backend bound").count("B") + row_of(shown, "backend bound").count("│") == 61
    )
    assert row_of(shown, "store bound").count("M") == 0
    assert "0+%" in row_of(shown, "store bound")


BARS = frozenset("FbBMCR")


def test_the_colour_is_that_of_the_branch() -> None:
    tones = {
        line.text.strip().split("  ")[0]: {
            span.tone for span in line.spans if span.text[:1] in BARS and len(set(span.text)) == 1
        }
        for line in lines(FOCUSED)
    }
    assert tones["dram bound"] == {Tone.MEMORY}
    assert tones["ports utilization"] == {Tone.CORE}
    assert tones["fetch latency"] == {Tone.FRONTEND}


def test_estimates_report_how_much_was_counted(snapshot: SnapshotAssertion) -> None:
    assert words(FOCUSED) == snapshot
    # Nine tenths of the time are no estimate, whatever the levels below had.
    marked = {line for line in text(FOCUSED).splitlines() if "%~" in line}
    assert row_of(text(FOCUSED), "memory bound") in marked
    assert row_of(text(FOCUSED), "backend bound") not in marked
    assert "238 cycles~" in text(FOCUSED)
    assert "~" not in text(with_focus(HOST, 1, deep=1.0))
    assert "~" not in text(HOST)
    component = with_cells(HOST, "tma.level_2_coverage", {1: 0.66})
    assert "the least 66%" in words(component)
    assert row_of(text(component), "memory bound").split()[2].endswith("%~")
    assert "~" not in row_of(text(component), "backend bound")


def test_peers_are_those_of_its_nf_or_all_that_poll(snapshot: SnapshotAssertion) -> None:
    assert words(HOST, 1) == snapshot
    assert words(HOST, 3) == snapshot
    assert words(HOST, 0) == snapshot
    assert "no peers" in words(frame(2, 3, tma=True), 1)
    others = [HOST.cpus.columns["tma.retiring"][row] for row in (1, 2)]
    assert all(isinstance(other, float) for other in others)
    shown = column(np.array(others)).values.mean()
    assert f"{shown:.0%}" == row_of(text(HOST, 3), "retiring").split()[2]


def test_probes_have_their_meaning_or_a_reason() -> None:
    shown = text(FOCUSED)
    assert "238 cycles" in row_of(shown, "load latency cycles")
    assert "Average time" in row_of(shown, "load latency cycles")
    assert "[h]" in row_of(shown, "remote dram")
    assert NO_REMOTE.detail in words(FOCUSED)


def test_explain_names_every_node_and_probe(snapshot: SnapshotAssertion) -> None:
    page = " ".join(" ".join(line.text for line in explain_core_lines(FOCUSED, 1, 100)).split())
    for node in tree_of(FOCUSED, 1):
        assert node.name.replace("_", " ") in page
    assert "33 % of cycles" in page or "33% of cycles" in page
    assert page == snapshot
    assert "15.5" in page, "the paper's section"


@pytest.mark.parametrize("name", ["HSX", "SKX", "ICX", "SPR", "SRF"])
def test_every_node_of_a_table_has_a_meaning(name: str) -> None:
    topdown = load(name).topdown
    assert topdown is not None
    assert all(meaning_of(node) for node in topdown.nodes if topdown.level[node] <= 3)


@given(
    st.lists(st.one_of(st.floats(0.0, 1.0), st.just(Missing(Reason.IDLE))), min_size=8, max_size=8)
)
def test_any_share_has_its_bar_within_the_scale(shares: list[Reading]) -> None:
    cells = dict(enumerate(shares))
    shown = with_cells(HOST, "tma.retiring", cells)
    drawn = row_of(text(shown, width=80), "retiring")
    assert len(drawn) <= 80
    if isinstance(shares[1], Missing):
        assert "▇" not in drawn
