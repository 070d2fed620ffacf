"""The lines of the Power screen, and of who told a number."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from syrupy.assertion import SnapshotAssertion

from nftop.derive.fold import FoldState
from nftop.model.frame import Accelerator, Frame, SourceState
from nftop.model.ids import Package
from nftop.model.metrics.catalogue import METRICS
from nftop.model.metrics.pcm import PCM_PACKAGE_METRICS
from nftop.model.missing import Missing, Reading, Reason
from nftop.render.base.line import Line
from nftop.render.base.text import printable
from nftop.render.cores.columns import LABEL_KEYS, POWER_CPU_METRICS, columns_for
from nftop.render.cores.layout import LEAST_WIDTH, ScreenSections
from nftop.render.frame.footer import Tab, Tabs
from nftop.render.frame.header import ViewStatus
from nftop.render.pages.explain import explain_metric
from nftop.render.pages.help import explain_package_lines, explain_power_lines
from nftop.render.power.page import POWER_PACKAGE_METRICS, START, power_sections
from nftop.render.traffic.page import traffic
from nftop.sources.pcm.source import topology_of
from tests.command import lines_with
from tests.derive.pcm.test_fold import NAMES, table
from tests.frames import HOSTILE
from tests.power import captured, serverless, simulated
from tests.samples import HOST, S, fold, sample

DISAGREEMENT = "perf and the server differ by more than 5 % in 5 readings: ipc of CPU 3"


def past(metric: str, package: Package, points: int, span_s: float) -> NDArray[np.float32]:
    """A ramp to 140 with a gap."""
    assert metric == "power_w" and package >= 0 and span_s >= points > 0
    values = np.linspace(0.0, 140.0, points, dtype=np.float32)
    values[points // 2] = np.nan
    return values


def sections_of(frame: Frame, width: int, height: int, row: int | None = 0) -> ScreenSections:
    return power_sections(
        frame,
        ViewStatus(tabs=Tabs((Tab("7", "Power", "Pwr"),), 0)),
        row,
        past,
        columns=columns_for(width, frame.cpus, "power"),
        interval_s=1.0,
        rows=len(frame.cpus),
        width=width,
        height=height,
    )


def text_of(lines: ScreenSections | list[Line] | tuple[Line, ...]) -> str:
    shown = lines.top if isinstance(lines, ScreenSections) else lines
    return "\n".join(item.text.rstrip() for item in shown)


def flat(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("name", NAMES[:3])
@pytest.mark.parametrize("width", [80, 120, 200])
def test_what_stands_above_the_table(name: str, width: int, snapshot: SnapshotAssertion) -> None:
    assert text_of(sections_of(captured(name)[-1], width, 24)) == snapshot


@settings(max_examples=60)
@given(width=st.integers(1, 220), height=st.integers(1, 60))
def test_sections_share_the_screen_and_lines_stay_within_it(width: int, height: int) -> None:
    for frame in (captured()[-1], serverless()):
        sections = sections_of(frame, width, height)
        lines = len(sections.top) + sections.table + sections.detail + sections.footer
        assert lines == height and sections.table >= 0 and not sections.panels
        assert width < LEAST_WIDTH or all(line.width <= width for line in sections.top)
        assert not sections.footer or sections.table >= min(5, height - len(sections.top) - 1)


def test_without_a_server_it_reports_why_and_how_to_start_one() -> None:
    text = flat(text_of(sections_of(serverless(), 100, 50)))
    assert text.count("127.0.0.1:9738") == 1, "once for all"
    assert flat(START) in text and "PCM_NO_RDT=1 pcm-sensor-server" in text
    assert "[s]" in text
    for other in (captured()[-1], simulated()[-1]):
        assert "--listen" not in text_of(sections_of(other, 100, 50))


def test_a_server_that_fails_is_reported_with_its_reason_and_no_advice_to_start_one() -> None:
    why = "127.0.0.1:9738 does not answer in time"
    base = serverless()
    failed = SourceState(Reason.STALE, why, 4.0, 3.0)
    text = text_of(sections_of(replace(base, sources={**base.sources, "pcm": failed}), 100, 50))
    assert f"pcm [o] {why}" in text and "--listen" not in text


def test_age_and_difference_from_perf_are_on_screens_4_and_7() -> None:
    base = captured()[-1]
    state = replace(base.sources["pcm"], age_s=1.26, detail="something else")
    frame = replace(base, disagreement=DISAGREEMENT, sources={**base.sources, "pcm": state})
    for text in (
        text_of(sections_of(frame, 100, 50)),
        text_of(traffic(frame, 100, lambda *_: np.zeros(8, np.float32), 1.0).lines),
    ):
        assert f"! {DISAGREEMENT}" in text
        assert "pcm~, <3 s old: " in text


def test_what_to_know_of_a_server_is_next_to_what_it_reported(snapshot: SnapshotAssertion) -> None:
    base = captured()[-1]
    note = "it is asked over the network, unencrypted and without a password"
    for disagreement in ("", DISAGREEMENT):
        detail = "; ".join(filter(None, (note, disagreement)))
        state = replace(base.sources["pcm"], detail=detail)
        frame = replace(base, disagreement=disagreement, sources={**base.sources, "pcm": state})
        text = text_of(sections_of(frame, 200, 50))
        assert lines_with(text, "its last second") == snapshot
        assert text.count(DISAGREEMENT) == bool(disagreement)


def test_columns_in_which_the_server_stands_in_for_perf_are_named(
    snapshot: SnapshotAssertion,
) -> None:
    text = text_of(sections_of(captured()[-1], 200, 50))
    assert lines_with(text, "GHz, IPC") == snapshot
    assert "GHz, IPC" not in text_of(sections_of(simulated()[-1], 200, 50)), "perf counts them"


def test_a_server_of_another_host_has_reported_nothing_here(snapshot: SnapshotAssertion) -> None:
    one = table()
    here = topology_of(replace(one, packages=one.packages * 0))
    (frame,) = fold(FoldState(HOST, here), sample(S, pcm=one))
    text = flat(text_of(sections_of(frame, 200, 50)))
    assert text == snapshot


def test_screen_4_names_the_numbers_of_the_server_and_only_those(
    snapshot: SnapshotAssertion,
) -> None:
    def reports(frame: Frame) -> str:
        shown = traffic(frame, 300, lambda *_: np.zeros(0, np.float32), 1.0)
        return next((line.text for line in shown.lines if line.text.startswith("pcm")), "")

    assert reports(captured("skx_202302")[-1]) == snapshot
    assert reports(simulated()[-1]) == snapshot
    assert reports(serverless()) == ""


def test_accelerators_are_shown_with_their_names_escaped() -> None:
    per_s: dict[str, Reading] = {HOSTILE[0]: 12.0, "Inbound": Missing(Reason.WARMING)}
    frame = replace(captured()[-1], accelerators=(Accelerator(HOSTILE[4], per_s),))
    text = text_of(traffic(frame, 120, lambda *_: np.zeros(0, np.float32), 1.0).lines)
    assert "Accelerators" in text and "Inbound [w]" in text
    assert f"{printable(HOSTILE[0])} 12.0" in flat(text) and "\x1b" not in text


def test_hostile_words_of_a_server_are_printable() -> None:
    base = captured()[-1]
    for word in HOSTILE:
        state = SourceState(Reason.ERROR, word, 0.0, 0.0)
        frame = replace(base, disagreement=word, sources={**base.sources, "pcm": state})
        assert all(token.isprintable() for token in text_of(sections_of(frame, 80, 40)).split("\n"))


def test_explained_are_the_packages_numbers_and_that_of_the_selected_cpu() -> None:
    frame = captured()[-1]
    text = text_of(explain_power_lines(frame, 3, POWER_CPU_METRICS[0], 100))
    for metric in POWER_PACKAGE_METRICS:
        assert f"{metric.label} ({metric.id})" in text
    assert "GHz (frequency_hz)" in text and "cpu 3" in text and text.count("\nSources") == 1
    alone = text_of(explain_power_lines(simulated()[-1], None, POWER_CPU_METRICS[0], 100))
    assert "SIMULATED" in alone.split("\n")[0] and "PKG.W" in alone and "cpu " not in alone


def test_requests_that_a_server_samples_are_explained_with_how_and_by_which_source(
    snapshot: SnapshotAssertion,
) -> None:
    metric = next(item for item in METRICS if item.id == "pcie.write_bytes_per_s")
    base = captured()[-1]
    rows = [
        replace(row, readings={**row.readings, metric.id: 1e9}, origins={metric.id: "pcm"})
        for row in base.packages
    ]
    text = flat(text_of(explain_package_lines(replace(base, packages=tuple(rows)), [metric], 100)))
    assert text == snapshot
    assert "pcm-pcie-collector.h" in text
    assert "pcm-pcie-collector.h" in explain_metric(metric.id)
    assert "else: " not in explain_metric("memory.read_bytes_per_s")
    plain = text_of(explain_package_lines(base, [PCM_PACKAGE_METRICS[0]], 100))
    assert "from pcm, at" in plain


def test_columns_are_present_whether_or_not_a_server_reports_them() -> None:
    reports_by_cpufreq = {"base_frequency_hz"}
    for frame in (captured()[-1], serverless()):
        keys = [col.key for col in columns_for(200, frame.cpus, "power")]
        assert {metric.id for metric in POWER_CPU_METRICS} - reports_by_cpufreq == {
            key for key in keys if key not in LABEL_KEYS
        }
    narrow = [col.key for col in columns_for(80, captured()[-1].cpus, "power")]
    assert {"cpu", "frequency_hz", "c0_ratio", "c6_ratio", "thermal_headroom_c"} <= set(narrow)
