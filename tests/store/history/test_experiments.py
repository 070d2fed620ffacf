"""Experiments in recordings: what their markers have, and what is made of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from nftop.derive.experiment.curve import curve_of
from nftop.store.format.records import EXPERIMENT, Marker, note_body, note_read
from nftop.store.history.events import EventHistory
from nftop.store.history.experiments import ExperimentLog, RecordedExperiment, with_step
from tests.render.experiment.test_text import PLAN, STATE, VISITS

S = 1_000_000_000


def steps(*, accelerated: bool = False) -> list[Mapping[str, Any]]:
    """Details of all markers of a finished experiment, as a recording has them."""
    notes: list[Marker] = []

    def note(text: str, detail: Mapping[str, Any]) -> None:
        at_ns = len(notes) * S
        notes.append(Marker(EXPERIMENT, at_ns, at_ns, text, detail))

    log = ExperimentLog(PLAN, note, accelerated=accelerated)
    for count in range(len(STATE.visits) + 1):
        log.visited(STATE.visits[:count])
    log.finished("clear", "", "reverted")
    result = []
    for marker in notes:
        kind, raw = msgspec.msgpack.decode(note_body(marker))
        read = note_read(kind, msgspec.msgpack.encode(raw))
        assert isinstance(read, Marker)
        result.append(read.detail)
    return result


def known(details: list[Mapping[str, Any]]) -> RecordedExperiment | None:
    result: RecordedExperiment | None = None
    for detail in details:
        result = with_step(result, detail)
    return result


def test_the_curve_of_a_recording_is_that_of_the_run() -> None:
    result = known(steps(accelerated=True))
    assert result is not None
    assert result.plan.settings == PLAN.settings
    assert result.plan.watch == PLAN.watch
    assert (result.ended, result.outcome, result.accelerated) == ("clear", "reverted", True)
    assert len(result.visits) == len(STATE.visits)
    assert math.isnan(result.visits[0].nfs["1"].full_cpp)
    mine, its = (curve_of(PLAN, visits) for visits in (result.visits, STATE.visits))
    assert mine.recommended == its.recommended == 2
    assert [item.effect for item in mine.results] == [item.effect for item in its.results]


def test_a_visit_is_noted_once() -> None:
    details = steps()
    assert len(details) == 1 + len(STATE.visits) + 1
    assert sum("visit" in detail for detail in details) == len(VISITS) + 1


def test_the_state_before_is_not_in_the_recording() -> None:
    plan = steps()[0]["plan"]
    assert plan["proposal"]["base"] == {}
    assert plan["proposal"]["changes"] == []


def test_it_grows_with_time() -> None:
    events = EventHistory()
    for at, detail in enumerate(steps()):
        events.mark("", at * S, kind=EXPERIMENT, detail=detail)
    assert EventHistory().experiment(0) is None
    counts = []
    for at in range(len(STATE.visits) + 2):
        item = events.experiment(at * S)
        assert item is not None
        counts.append(len(item.visits))
    assert counts == [*range(len(STATE.visits) + 1), len(STATE.visits)]


def test_a_step_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    events, details, decoded = EventHistory(), steps(), list[Mapping[str, Any]]()

    def counting(
        before: RecordedExperiment | None, detail: Mapping[str, Any]
    ) -> RecordedExperiment | None:
        decoded.append(detail)
        return with_step(before, detail)

    monkeypatch.setattr("nftop.store.history.events.with_step", counting)
    for at, detail in enumerate(details):
        events.mark("", at * S, kind=EXPERIMENT, detail=detail)
        assert events.experiment(at * S) is events.experiment(at * S)
    assert decoded == details
    earlier = events.experiment(2 * S)
    assert earlier is not None and len(earlier.visits) == 2


def test_a_history_has_the_last_experiment_after_any_number_of_steps() -> None:
    events, details = EventHistory(), steps()
    at_ns = 0
    for count in (3000, 0):
        for detail in (details[0], *details[1:2] * count, *details[1:]):
            at_ns += S
            events.mark("", at_ns, kind=EXPERIMENT, detail=detail)
            if at_ns == 3001 * S:  # of an endless one the begin is kept
                running = events.experiment(at_ns)
                assert running is not None and running.ended != "clear" and running.visits
    last = events.experiment(at_ns)
    assert last is not None and last.ended == "clear"
    assert len(last.visits) == len(STATE.visits)


@pytest.mark.parametrize(
    "detail",
    [
        {},
        {"visit": None},
        {"visit": {"setting": 1}},
        {"plan": {"kind": "nothing"}},
        {"plan": []},
        {"end": {"ended": "never", "detail": "", "outcome": ""}},
        {"other": 1},
    ],
)
def test_what_makes_no_sense_changes_nothing(detail: Mapping[str, Any]) -> None:
    before = known(steps()[:3])
    assert before is not None
    assert with_step(before, detail) == before
    assert with_step(None, detail) is None


@pytest.mark.parametrize("change", [{"setting": 99}, {"setting": -2}, {"nfs": {}}, {"round": 9999}])
def test_a_visit_of_another_plan_is_left_out(change: Mapping[str, Any]) -> None:
    details = steps()
    before = known(details[:3])
    assert before is not None
    assert with_step(before, {"visit": {**details[3]["visit"], **change}}) == before


@pytest.mark.parametrize("count", [0, 1, 100_000])
def test_a_plan_that_no_experiment_has_is_left_out(count: int) -> None:
    plan = steps()[0]["plan"]
    settings = (plan["settings"] * (count // len(plan["settings"]) + 1))[:count]
    assert with_step(None, {"plan": {**plan, "settings": settings}}) is None


def test_text_of_a_recording_is_safe_for_a_terminal() -> None:
    before = known(steps()[:3])
    end = {"ended": "drops", "detail": "a\x1b[2Jb\n", "outcome": "reverted"}
    result = with_step(before, {"end": end})
    assert result is not None
    assert "\x1b" not in result.detail and "\n" not in result.detail
