"""Text of an experiment: its plan, its visits, its curve."""

from __future__ import annotations

import math

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.derive.experiment.curve import curve_of
from nftop.derive.experiment.engine import ExperimentState
from nftop.model.change import Cell, Change, Proposal
from nftop.model.experiment import Experiment, NfLevels, Setting, Visit
from nftop.model.ids import L3Domain
from nftop.model.struct import replace
from nftop.render.experiment.text import (
    duration_text,
    end_text,
    limit_line,
    plan_text,
    result_text,
    visit_line,
)

S, L3 = 1_000_000_000, L3Domain(0)
CELL = Cell("schemata", "tenant", "L3", 0)
WAYS = {"L3": 11}
# By width: vpp's cycles per packet, its lost packets of those offered.
LEVELS = ((210.0, 0.0), (210.2, 0.0), (210.1, 0.0), (217.0, 0.03))


def setting(ways: int) -> Setting:
    mask = (1 << ways) - 1
    return Setting(f"{ways} ways", (Change(CELL, "fe", f"{mask:x}"),), ways, {L3: mask})


SETTINGS = tuple(map(setting, range(1, 5)))
PLAN = Experiment(
    kind="sweep",
    group="tenant",
    settings=SETTINGS,
    watch={"1": "vpp"},
    own=frozenset(),
    caches=(L3,),
    classes=("tenant", "vpp"),
    proposal=Proposal({CELL: "fe"}, tuple(c for item in SETTINGS for c in item.changes)),
    left_out=("12 ways: the cache has 11 ways",),
    seed=7,
)


def visit(at: int, number: int) -> Visit:
    cost, lost = LEVELS[at]
    cost *= 1 + 0.0005 * ((at + number) % 3 - 1)
    nf = NfLevels(42e6 * (1 - lost), 42e6 * lost, lost, cost, cost, 0.22)
    begin = (number * 10 + at) * 40 * S
    return Visit(at, number, begin, begin + 9 * S, begin + 30 * S, {"1": nf}, 5e6 * at, 48e9, 0.7)


VISITS = tuple(visit(at, number) for number in (1, 2, 3) for at in range(4))
STATE = ExperimentState(
    phase="ended", round=3, visits=(replace(VISITS[0], setting=-1, round=0), *VISITS), ended="clear"
)


def test_plan(snapshot: SnapshotAssertion) -> None:
    assert "\n".join(plan_text(PLAN, WAYS)) == snapshot


def test_plan_of_an_own_class_has_its_network_function() -> None:
    assert "vpp" in plan_text(replace(PLAN, own=frozenset({"1"})), WAYS)[0]


def test_visits(snapshot: SnapshotAssertion) -> None:
    lines = [
        visit_line(PLAN, replace(STATE, phase="writing", ended=None, visits=STATE.visits[:count]))
        for count in (1, 5)
    ]
    assert "\n".join([*lines, limit_line(PLAN, STATE.visits[0]), end_text(STATE)]) == snapshot


def test_result(snapshot: SnapshotAssertion) -> None:
    curve = curve_of(PLAN, STATE.visits)
    assert curve.recommended == 2
    assert "\n".join(result_text(PLAN, curve)) == snapshot


def test_what_is_absent_is_no_zero() -> None:
    nan = math.nan
    empty = NfLevels(nan, nan, nan, nan, nan, nan)
    visits = [replace(item, nfs={"1": empty}, ipc=nan) for item in VISITS]
    row = result_text(PLAN, curve_of(PLAN, visits))[1].split()
    assert row[:3] == ["1", "1", "-"]
    assert "0" not in row[2:6]


def test_no_visit_is_a_sentence() -> None:
    assert len(result_text(PLAN, curve_of(PLAN, []))) == 1


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0s"), (59.6, "1m00s"), (500, "8m20s")])
def test_durations(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text
