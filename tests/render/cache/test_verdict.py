"""Lines of a verdict: its words, numbers, distributions and graph."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.derive.compare.settling import Term
from nftop.derive.compare.verdict import Verdict, last_verdict, verdict_of
from nftop.derive.compare.window import Window
from nftop.model.frame import Frame
from nftop.render.base.line import Line, Tone
from nftop.render.cache.verdict import LEAST_LINES, card, graph_lines, histogram, summary, watched
from tests.frames import SECOND_NS, START_NS
from tests.story import Story

CHANGED_NS = START_NS + 60 * SECOND_NS


@pytest.fixture(scope="module")
def story() -> tuple[Window, Frame]:
    def shown(tick: int) -> dict[str, dict[str, float]]:
        after = {"cpp": 320.0, "busy_cpp": 250.0, "tx_packets_per_s": 12e6}
        return {"fwd": after if tick >= 60 else {"tx_packets_per_s": 10e6}}

    reports = Story(shown=shown)
    frame = reports.last(120)
    return reports.history.window(frame), frame


@pytest.fixture(scope="module")
def verdict(story: tuple[Window, Frame]) -> Verdict:
    result = last_verdict(story[0])
    assert result is not None
    return result


def text(lines: list[Line]) -> str:
    return "\n".join(item.text.rstrip() for item in lines)


def cells_of(drawn: str, name: str) -> list[str]:
    return next(item for item in drawn.split("\n")[2:] if f" {name} " in item).split()


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_card(
    story: tuple[Window, Frame], verdict: Verdict, width: int, snapshot: SnapshotAssertion
) -> None:
    lines = card(verdict, story[1], width, (), 3)
    assert max(item.width for item in lines) <= width
    drawn = text(lines)
    cpp = cells_of(drawn, "CPP")
    at = cpp.index("CPP")
    assert cpp[at + 1 : at + 3] == ["376", "319"]
    assert ("57/" in drawn) == (width > 40), "the number of samples"
    assert ("before" in drawn) == (width >= 120), "the distributions"
    assert drawn.index("fwd") < drawn.index("class"), "what forwards packets comes first"
    if width == 120:
        assert drawn == snapshot


def test_a_brief_card_has_the_leading_row_of_every_section(
    story: tuple[Window, Frame], verdict: Verdict
) -> None:
    whole, brief = (card(verdict, story[1], 120, (), 3, brief=short) for short in (False, True))
    lines = [item.text.rstrip() for item in brief]
    assert len(brief) < len(whole)
    table = lines[lines.index(next(text for text in lines if "NF, CLASS" in text)) + 1 :]
    sections = [text for text in table if text.startswith("■ ")]
    assert len(sections) == len(verdict.sections)
    assert len(table) < sum(len(item.rows) for item in verdict.sections)


def test_states_of_a_verdict(
    story: tuple[Window, Frame], verdict: Verdict, snapshot: SnapshotAssertion
) -> None:
    def head(shown: Verdict) -> str:
        return card(shown, story[1], 120, ())[0].text

    assert head(verdict).endswith("up to 120 s") and "50 samples" in head(verdict)
    assert head(replace(verdict, settled=False)) == snapshot
    over = replace(verdict, over=True)
    assert head(over) == snapshot
    assert head(replace(over, taken_back_s=31.0)) == snapshot
    early = replace(over, settled=False)
    assert head(early) == snapshot
    assert head(replace(early, taken_back_s=3.0)) == snapshot
    assert head(verdict) == snapshot
    gone = replace(verdict, sections=(), notes=("occupancy is not metered here",))
    texts = [item.text for item in card(gone, story[1], 100, ())]
    assert texts[1:3] == snapshot
    many = replace(verdict, noticed=verdict.noticed * 5)
    assert "+ 3 changes before" in [item.text for item in card(many, story[1], 100, ())]


def test_summary_names_what_differs_and_whether_the_load_moved(
    verdict: Verdict, snapshot: SnapshotAssertion
) -> None:
    line = summary(verdict, 160)
    tones = {span.text.strip(): span.tone for span in line.spans}
    assert tones["✔ better"] is Tone.GOOD and "fwd -15% CPP" in line.text
    moved = replace(
        verdict,
        sections=tuple(
            replace(item, offered_ratio=-0.12) if item.kind == "nf" else item
            for item in verdict.sections
        ),
    )
    assert summary(moved, 160).text == snapshot
    classes = replace(verdict, sections=tuple(p for p in verdict.sections if p.kind == "class"))
    assert summary(classes, 160).text.startswith("▲ more  class vpp +")


def test_distributions_of_two_samples_on_one_axis() -> None:
    spans = histogram([1.0] * 8 + [1.1] * 2, [2.0] * 9 + [2.1], 12, Tone.GOOD)
    drawn = "".join(span.text for span in spans)
    assert drawn[0] == "│" and len(drawn) == 12
    assert drawn.index("┃") == 11 - 1 and spans[drawn.index("┃")].tone is Tone.GOOD
    assert drawn.count("·") == 8
    same = "".join(span.text for span in histogram([5.0] * 10, [5.0] * 10, 11, Tone.PLAIN))
    assert same == "·····┃·····", "noise does not fill the axis"
    alone = "".join(span.text for span in histogram([5.0, 6.0, 7.0], [], 11, Tone.PLAIN))
    assert "│" in alone and "┃" not in alone
    assert "".join(span.text for span in histogram([], [], 5, Tone.PLAIN)) == " " * 5


def graph(story: tuple[Window, Frame], term: Term, width: int = 120, height: int = 8) -> list[Line]:
    verdict = verdict_of(story[0], CHANGED_NS, ("vpp",), term)
    return graph_lines(story[0], verdict, term, width, height, number=2)


@pytest.mark.parametrize("width", [50, 80, 200, 400])
@pytest.mark.parametrize("height", [LEAST_LINES, 10, 40])
def test_graph_fits(story: tuple[Window, Frame], width: int, height: int) -> None:
    lines = graph(story, Term(until_ns=CHANGED_NS + 90 * SECOND_NS), width, height)
    assert LEAST_LINES <= len(lines) <= height
    assert max(item.width for item in lines) <= width


def test_graph_marks_the_change_now_and_when_it_is_taken_back(
    story: tuple[Window, Frame], snapshot: SnapshotAssertion
) -> None:
    waits = graph(story, Term(until_ns=CHANGED_NS + 90 * SECOND_NS))
    assert text(waits) == snapshot
    marks = waits[-1].text
    assert marks.index("◆ change 2") < marks.index("now") < marks.index("in 30 s")
    spans = [span.tone for item in waits[1:-1] for span in item.spans if span.text == "▌"]
    assert set(spans) == {Tone.PENDING_TEXT}
    back = graph(story, Term(taken_back_ns=CHANGED_NS + 40 * SECOND_NS))[-1].text
    assert "◇ taken back" in back and "unless K" not in back
    assert "taken back" not in graph(story, Term())[-1].text


def test_graph_reports_whether_its_axis_starts_at_0(story: tuple[Window, Frame]) -> None:
    assert graph(story, Term())[0].text.endswith("not from 0")
    window, frame = story
    nfs = window.nfs
    shown = nfs.values.copy()
    shown[:30, nfs.metrics["packets_per_s"]] = 0.0
    whole = replace(window, nfs=replace(nfs, values=shown))
    assert graph((whole, frame), Term())[0].text.split("axis ")[1].startswith("0 to ")
    assert np.isfinite(shown).any()


def test_without_a_network_function_no_graph(story: tuple[Window, Frame], verdict: Verdict) -> None:
    classes = replace(verdict, sections=tuple(p for p in verdict.sections if p.kind == "class"))
    assert watched(classes) is None
    assert graph_lines(story[0], classes, Term(), 120, 8) == []
    assert graph(story, Term(), width=30) == [] == graph(story, Term(), height=3)
