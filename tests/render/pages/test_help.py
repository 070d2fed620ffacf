"""The whole of what is said about a frame, in text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from syrupy.assertion import SnapshotAssertion

from nftop.model.column import from_readings
from nftop.model.frame import Clock, Frame
from nftop.model.ids import Cpu
from nftop.model.metrics.catalogue import CPU_METRICS, cpu_metric
from nftop.model.missing import Missing, Reading, Reason
from nftop.render.base.line import Line, Tone
from nftop.render.cores.detail import Trend, absences, detail_lines, trend_metric
from nftop.render.cores.nfs import nf_lines
from nftop.render.frame.header import ViewStatus, header_lines, short_model, time_of_day
from nftop.render.pages.batch_text import frame_text
from nftop.render.pages.help import (
    HelpSection,
    explain_lines,
    help_lines,
    mark_sections,
    reference_sections,
)
from tests.command import lines_with
from tests.frames import REASONS, all_missing, bare, frame, hostile, with_cells

FRAMES: dict[str, Callable[[], Frame]] = {
    "healthy": lambda: frame(8, 3),
    "missing": all_missing,
    "bare": bare,
    "hostile": hostile,
}


@pytest.mark.parametrize("name", FRAMES)
def test_plain_text(name: str, snapshot: SnapshotAssertion) -> None:
    assert frame_text(FRAMES[name](), 120, False) == snapshot


@given(st.sampled_from(list(FRAMES)), st.integers(1, 250), st.booleans())
def test_plain_text_stays_within_its_width_and_is_inert(name: str, width: int, plain: bool) -> None:
    text = frame_text(FRAMES[name](), width, plain)
    assert text.endswith("\n\n")
    assert all(cell_len(row) <= width for row in text.split("\n"))
    assert text.replace("\n", "").isprintable()
    assert text.isascii() or not plain


def test_ascii_text_has_no_other_character() -> None:
    assert frame_text(hostile(), 100, True).isascii()


def test_every_reason_is_reported_in_a_sentence() -> None:
    shown = all_missing()
    text = frame_text(shown, 400, False)
    reasons = {
        missing.reason: missing
        for missing in shown.nfs[0].readings.values()
        if isinstance(missing, Missing)
    }
    assert set(reasons) == set(REASONS)
    for reason in REASONS:
        assert reasons[reason].message in text
        assert reason.mark in text


def test_a_reason_of_one_cpu_names_the_cpu() -> None:
    base = frame(4)
    of_one, of_two = Missing(Reason.SOURCE, "of one"), Missing(Reason.SOURCE, "of two")
    reports: dict[int, Reading] = {0: of_two, 1: of_one, 2: of_two, 3: 0.5}
    columns = {**base.cpus.columns, "busy_ratio": from_readings(reports, 4, of_one)}
    text = frame_text(replace(base, cpus=replace(base.cpus, columns=columns)), 200, False)
    assert f"[s] cpu 1: BUSY: {of_one.message}\n" in text
    assert f"[s] BUSY: {of_two.message}\n" in text


def test_no_missing_value_is_drawn_as_a_number() -> None:
    body = [
        row for row in frame_text(all_missing(), 200, False).splitlines() if "dpdk-worker1" in row
    ]
    assert len(body) == 1
    cells = body[0].split("fwd")[-1].split()
    # The sibling's number is known without a source.
    assert set(cells) - {"7"} <= {reason.mark for reason in REASONS}


def _text(lines: list[Line]) -> str:
    return "\n".join(line.text for line in lines)


def test_simulated_and_anything_but_live_are_badges() -> None:
    lines = header_lines(frame(8, simulated=True), ViewStatus("PAUSED at 00:00:00Z"), 200)
    badges = [span.text for line in lines for span in line.spans if span.tone is Tone.BADGE]
    assert [badge.strip() for badge in badges] == ["SIMULATED", "PAUSED at 00:00:00Z"]
    live = header_lines(frame(8), ViewStatus("LIVE", 1.0), 200)
    assert "SIMULATED" not in _text(live)
    assert not [span for item in live for span in item.spans if span.tone is Tone.BADGE]


def test_a_host_with_emulated_cpus_is_badged() -> None:
    base = frame(8)
    lab = replace(base, host=replace(base.host, model="LAB: virtual Intel(R) Xeon(R) CPU @ 2GHz"))
    lines = header_lines(lab, ViewStatus("LIVE", 1.0), 200)
    badges = [span.text for line in lines for span in line.spans if span.tone is Tone.BADGE]
    assert badges == [" LAB "]
    assert "LAB: virtual Xeon" in _text(lines)


def test_sources_show_how_they_did() -> None:
    base = frame(8)
    partial = replace(base.sources["dpdk"], detail="1 socket is another user's")
    states = {**base.sources, "dpdk": partial, "perf": all_missing().sources["kernel"]}
    text = _text(header_lines(replace(base, sources=states), ViewStatus(), 200))
    assert "perf[p] dpdk~ kernel" in text
    states = {**states, "dpdk": replace(partial, late_s=1.23)}
    text = _text(header_lines(replace(base, sources=states), ViewStatus(), 200))
    assert "perf[p] dpdk~1.2s kernel" in text


def test_own_trouble_is_reported_in_the_header() -> None:
    own = replace(frame(8).own, warning="nftop runs on cpu 1")
    text = _text(header_lines(replace(frame(8), own=own), ViewStatus(problem="no more frames"), 80))
    assert f"! {own.warning}" in text
    assert "! no more frames" in text


@pytest.mark.parametrize(
    ("model", "short"),
    [
        ("Intel(R) Xeon(R) Gold 6338N CPU @ 2.20GHz", "Xeon Gold 6338N"),
        ("AMD EPYC 7763 64-Core Processor", "EPYC 7763 64-Core"),
        ("Intel", "Intel"),
        ("", ""),
    ],
)
def test_model_names_lose_what_all_have(model: str, short: str) -> None:
    assert short_model(model) == short


def test_network_functions_that_do_not_fit_are_counted() -> None:
    base = frame(8)
    many = replace(base, nfs=base.nfs * 5)
    lines = nf_lines(many, 80, 4)
    assert len(lines) == 4
    assert lines[-1].text.strip() == "+ 8 more network functions"
    assert len(nf_lines(many, 80)) == 11


def test_where_not_all_fit_those_in_trouble_come_first_and_a_filter_leaves_what_is_sought() -> None:
    base = frame(8)
    assert [line.text.split()[0] for line in nf_lines(base, 80)] == ["NF", "vpp", "fwd"]
    crowded = replace(base, nfs=(base.nfs[0],) * 5 + (base.nfs[1],))
    assert [line.text.split()[0] for line in nf_lines(crowded, 80, 4)] == ["NF", "vpp", "fwd", "+"]
    for search in ("VPP", "3", "vpp_wk"):
        assert [nf_line.text.split()[0] for nf_line in nf_lines(base, 80, None, search)] == [
            "NF",
            "vpp",
        ]


WIDE = 160


def costs(row: Line) -> list[str]:
    """CPP, bCPP and IPP of a row of the table of network functions."""
    head = nf_lines(frame(8), WIDE)[0].text
    ends = [head.index(f" {label} ") + len(label) + 2 for label in ("CPP", "bCPP", "IPP")]
    return [row.text[:end].split()[-1] for end in ends]


def test_cost_of_an_nf_without_known_saturation_is_a_bound() -> None:
    base = frame(8)
    fwd = base.nfs[0]

    def drawn(saturated: bool | None) -> Line:
        return nf_lines(replace(base, nfs=(replace(fwd, saturated=saturated),)), WIDE)[1]

    for unsure in (False, None):
        assert costs(drawn(unsure)) == ["<376", "282", "<604"]
    assert costs(drawn(True)) == ["376", "282", "604"]
    dim = [span.text.strip() for span in drawn(False).spans if span.tone is Tone.MUTED]
    assert {"<376", "<604"} <= set(dim)


def test_an_nf_with_cycles_other_than_the_cores_has_an_estimate() -> None:
    base = frame(8)
    fwd = replace(base.nfs[0], saturated=True)
    clocks: list[tuple[Clock | None, list[str]]] = [
        ("core", ["376", "282", "604"]),
        ("tsc", ["376~", "282~", "604"]),
        ("nf", ["376~", "282~", "604"]),
    ]
    for clock, cells in clocks:
        lines = nf_lines(replace(base, nfs=(replace(fwd, cpp_clock=clock),)), WIDE)
        assert costs(lines[1]) == cells
    unsure = replace(fwd, cpp_clock="tsc", saturated=None)
    lines = nf_lines(replace(base, nfs=(unsure,)), WIDE)
    assert costs(lines[1]) == ["376~", "282~", "<604"], "no bound of the core's cycles"


def test_an_nf_with_a_core_that_shares_counters_has_an_estimate() -> None:
    unattributed = with_cells(frame(8), "cpp", {3: Missing(Reason.SOURCE)})
    vpp = nf_lines(unattributed, WIDE)[1]
    assert vpp.text.startswith("vpp") and costs(vpp) == ["376~", "282~", "604~"]
    unshown = replace(frame(8), nfs=(replace(frame(8).nfs[1], cpus=(Cpu(99),)),))
    assert costs(nf_lines(unshown, WIDE)[1]) == ["376", "282", "604"]


def test_drops_are_bad() -> None:
    lines = nf_lines(frame(8), 120)
    bad = [span.text.strip() for span in lines[1].spans if span.tone is Tone.BAD]
    assert lines[1].text.startswith("vpp") and "12.0" in bad
    assert not [span for span in lines[2].spans if span.tone is Tone.BAD]


def test_the_size_of_the_host_is_that_of_all_its_cpus() -> None:
    base = frame(8)
    shown = replace(base, cpus=frame(2).cpus)
    assert "1P 4C/8T" in _text(header_lines(shown, ViewStatus(), 200))


def _detail(base: Frame, row: int, height: int, values: list[float], width: int = 80) -> str:
    metric = trend_metric(base.cpus, row, "cpu")
    trend = Trend(metric, np.array(values, np.float32), 300.0)
    lines = detail_lines(base, row, trend, width, height)
    assert len(lines) <= height
    assert all(line.width <= width for line in lines)
    return _text(lines)


def test_the_panel_reports_every_absence_of_its_row() -> None:
    base = all_missing()
    text = " ".join(_detail(base, 3, 40, []).split())
    for why, labels in absences(base.cpus, 3).items():
        assert f"{', '.join(labels)}: {why.message}" in text
    message = {label for labels in absences(base.cpus, 3).values() for label in labels}
    # Optional metrics that no CPU of the host has are no absence worth a line.
    shown = (
        m for m in CPU_METRICS if m.priority is not None and (m.shows_reasons or not m.optional)
    )
    assert message == {metric.label for metric in shown}


def test_what_is_no_column_is_absent_only_where_all_is_explained() -> None:
    base = frame(8)
    assert "MISS/pkt" not in _detail(base, 1, 40, [])
    assert "MISS/pkt" not in frame_text(base, 120, False)
    assert "MEM.far, MISS.cov, MEM.cov: no counter was spare" in _text(
        explain_lines(base, 1, cpu_metric("cpp"), 100)
    )


def test_the_panel_reports_that_a_generator_counts_what_it_sends(
    snapshot: SnapshotAssertion,
) -> None:
    base = frame(8)
    sends = replace(base, cpus=replace(base.cpus, direction=("tx",) * 8))
    assert " ".join(_detail(sends, 1, 40, []).split()) == snapshot
    assert "those sent" not in " ".join(_detail(base, 1, 40, []).split())


def test_a_panel_too_small_reports_how_much_it_leaves_out(snapshot: SnapshotAssertion) -> None:
    assert _detail(all_missing(), 3, 7, []) == snapshot


def test_the_graph_declares_its_scale_and_span() -> None:
    text = _detail(frame(8), 1, 12, [100.0, float("nan"), 290.0] + [200.0] * 60)
    assert "CPP      500┤" in text
    assert "0┤" in text and "└ -5 min" in text
    assert text.rstrip().endswith("now")


def test_without_history_the_panel_reports_why() -> None:
    why = Missing(Reason.PERMISSION, "run it as root")
    detail = _detail(with_cells(frame(8), "cpp", {1: why}), 1, 12, [float("nan")] * 60)
    assert f"no CPP in the last 5 min: {why.message}" in detail


@pytest.mark.parametrize(
    ("row", "sort", "metric"),
    [(1, "cpu", "cpp"), (1, "ipc", "ipc"), (0, "nf", "busy_ratio")],
)
def test_the_graph_follows_the_sort_column(row: int, sort: str, metric: str) -> None:
    assert trend_metric(frame(8).cpus, row, sort).id == metric


@pytest.mark.parametrize("width", [10, 40, 100])
def test_explanations(width: int) -> None:
    for make in FRAMES.values():
        base = make()
        for metric in CPU_METRICS:
            lines = explain_lines(base, 1, metric, width)
            assert all(line.width <= width for line in lines)


def test_an_explanation_names_source_and_time_of_a_number() -> None:
    base = frame(8)
    simulated = replace(base, host=replace(base.host, simulated=True))
    text = _text(explain_lines(simulated, 1, cpu_metric("cpp"), 100))
    assert text.startswith(" SIMULATED ")
    assert f"at {time_of_day(base)}" in text
    assert "SIMULATED" not in _text(explain_lines(base, 1, cpu_metric("cpp"), 100))


def test_an_explanation_gives_definition_value_and_caveats(snapshot: SnapshotAssertion) -> None:
    assert _text(explain_lines(frame(8), 2, cpu_metric("cpp"), 100)) == snapshot
    unsure = replace(frame(8), cpus=replace(frame(8).cpus, saturated=(None,) * 8))
    ipp = _text(explain_lines(unsure, 2, cpu_metric("ipp"), 100))
    assert lines_with(ipp, "410k") == snapshot
    absent = _text(explain_lines(frame(8), 3, cpu_metric("llc_misses_per_packet"), 100))
    assert lines_with(absent, "cpu 3 ") == snapshot


def test_help_names_every_mark_and_column() -> None:
    text = _text(help_lines((*mark_sections(), *reference_sections()), (), "", 100))
    assert all(f"{reason.mark:<5}" in text for reason in REASONS)
    assert all(metric.label in text for metric in CPU_METRICS)


def test_search_of_help_draws_only_rows_that_have_it_also_of_other_screens() -> None:
    keys = HelpSection("Keys", [("q", "quit"), ("s", "sort menu")])
    others = [HelpSection("Editor", [("m", "move CPUs"), ("z", "discard")])]
    assert "quit" in _text(help_lines([keys], others, "", 80))
    assert "move CPUs" not in _text(help_lines([keys], others, "", 80))
    assert _text(help_lines([keys], others, "cpus", 80)).split() == "Editor m move CPUs".split()
    assert "discard" in _text(help_lines([keys], others, "editor", 80)), "a title finds its rows"


def test_search_of_help_without_a_match_names_what_is_near(snapshot: SnapshotAssertion) -> None:
    assert _text(help_lines((), (), "cppp", 80)) == snapshot
    assert "did you mean" not in _text(help_lines((), (), "qqqqqqqq", 80))
