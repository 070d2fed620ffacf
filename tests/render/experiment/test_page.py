"""Page of an experiment on screens of two sizes: before it, while it runs, at its end."""

from __future__ import annotations

import math

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.derive.experiment.curve import curve_of
from nftop.derive.experiment.engine import ExperimentState
from nftop.model.experiment import Curve, Estimate
from nftop.model.struct import replace
from nftop.render.base.graph import Scale
from nftop.render.base.line import Line, Span, Tone, line
from nftop.render.experiment.page import (
    CourseFacts,
    _Canvas,
    course_lines,
    plan_lines,
    shown_order,
)
from tests.command import lines_with
from tests.render.experiment.test_text import PLAN, SETTINGS, STATE, VISITS, WAYS

SIZES = pytest.mark.parametrize("size", [(80, 24), (120, 36)], ids=["80x24", "120x36"])
BADGES = (line(Span(" SIMULATED ", Tone.BADGE)),)
COMMAND = "nftop cat set --group tenant --l3 0=7"
MIDDLE = replace(
    STATE, phase="measuring", round=2, setting=1, queue=(3,), visits=STATE.visits[:7], ended=None
)


def text(lines: list[Line]) -> str:
    return "\n".join(item.text.rstrip() for item in lines)


def facts(state: ExperimentState, **more: object) -> CourseFacts:
    curve = curve_of(PLAN, state.visits)
    return CourseFacts(PLAN, state, curve, badges=BADGES, **more)  # type: ignore[arg-type]


@SIZES
def test_plan(snapshot: SnapshotAssertion, size: tuple[int, int]) -> None:
    lines, masks = plan_lines(PLAN, WAYS, size[0], BADGES, note="an accelerated clock")
    assert max(item.width for item in lines) <= size[0]
    shown = [f"{bits:03x}" for item in SETTINGS for bits in item.masks.values()]
    assert all(any(mask in item.text for item in lines[:masks]) for mask in shown)
    assert text(lines) == snapshot


def test_what_can_not_start_does_not_offer_to() -> None:
    lines, _ = plan_lines(PLAN, WAYS, 80, obstacle="read-only")
    assert "starts it" not in text(lines)
    assert lines[1].text == "read-only"


@SIZES
def test_running(snapshot: SnapshotAssertion, size: tuple[int, int]) -> None:
    lines = course_lines(facts(MIDDLE), size[0], size[1] - 1)
    assert max(item.width for item in lines) <= size[0]
    assert len(lines) < size[1]
    assert text(lines) == snapshot


@SIZES
def test_done(snapshot: SnapshotAssertion, size: tuple[int, int]) -> None:
    lines = course_lines(facts(STATE, outcome="reverted", command=COMMAND), size[0], size[1] - 1)
    assert max(item.width for item in lines) <= size[0]
    assert len(lines) < size[1]
    assert text(lines) == snapshot


def test_before_the_first_visit_the_curve_is_empty() -> None:
    lines = text(course_lines(CourseFacts(PLAN, ExperimentState(), Curve(())), 80, 23))
    assert "baseline" in lines
    assert [word for word in lines.split() if word in ("001", "003")] == []


def test_a_point_is_where_its_value_is() -> None:
    """Of four settings the last costs 3 %: its column has the only dots above the middle."""
    body = [item.text for item in course_lines(facts(STATE, outcome="reverted"), 80, 40)]
    top = next(at for at, item in enumerate(body) if "┤" in item)
    bottom = next(at for at in range(top + 1, len(body)) if "┤" in body[at])
    cells = [
        (row, x)
        for row in range(top, bottom + 1)
        for x, char in enumerate(body[row])
        if 0x2800 < ord(char) <= 0x28FF
    ]
    right = [row for row, x in cells if x > 68]
    left = [row for row, x in cells if x < 45]
    assert right and left
    assert max(right) < min(left)


@pytest.mark.parametrize(("half", "least", "most"), [(0.0, 2, 2), (1.0, 8, 10), (2.0, 16, 18)])
def test_an_interval_is_as_high_as_it_is_wide(half: float, least: int, most: int) -> None:
    """Ten rows of four dots are a scale from 0 to 10."""
    canvas = _Canvas(Scale(0.0, 10.0), (1, 10))
    canvas.point(0, Estimate(5.0, half), Tone.GOOD)
    height = sum(bits >> dot & 1 for bits in canvas.dots[:, 0].tolist() for dot in (0, 1, 2, 6))
    assert least <= height <= most


def test_the_worst_network_function_is_first() -> None:
    plan = replace(PLAN, watch={"0": "idle", "1": "vpp"})
    calm = VISITS[0].nfs["1"]
    visits = [replace(item, nfs={"0": calm, **item.nfs}) for item in VISITS]
    assert shown_order(plan, curve_of(plan, visits)) == ["1", "0"]
    assert shown_order(plan, Curve(())) == ["0", "1"]


@pytest.mark.parametrize("outcome", ["overwritten", "failed", "locked"])
def test_what_is_not_restored_is_bad(outcome: str) -> None:
    lines = course_lines(facts(STATE, outcome=outcome, sentences=("why",)), 80, 23)
    bad = [span.text for item in lines for span in item.spans if span.tone is Tone.BAD]
    assert any(outcome in item for item in bad)
    assert "why" in bad


def test_absent_numbers_are_no_points() -> None:
    nan = math.nan
    visits = [
        replace(item, nfs={"1": replace(item.nfs["1"], cpp=nan, busy_cpp=nan)}) for item in VISITS
    ]
    state = replace(STATE, visits=tuple(visits))
    lines = text(course_lines(facts(state, outcome="reverted"), 80, 23))
    assert not any(0x2800 < ord(char) <= 0x28FF for char in lines)


def test_a_sweep_of_the_ways_of_io_has_the_hit_share_of_devices(
    snapshot: SnapshotAssertion,
) -> None:
    visits = tuple(replace(item, io_hit_ratio=0.577) for item in STATE.visits)
    state = replace(STATE, visits=visits)
    plan = replace(PLAN, of_io=True, own=frozenset(PLAN.watch))
    shown = replace(facts(state, outcome="reverted"), plan=plan, curve=curve_of(plan, visits))
    lines = text(course_lines(shown, 100, 30))
    assert lines_with(lines, "EXPERIMENT") == snapshot
    assert "I/O hit %" in lines and "57.7" in lines
    assert " IPC" not in lines
