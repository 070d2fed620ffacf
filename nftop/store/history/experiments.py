"""Experiments in recordings: the plan, each visit and the end, as details of markers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from nftop.model.change import Proposal
from nftop.model.experiment import EndReason, Experiment, Visit
from nftop.model.struct import dataclass, replace
from nftop.model.terminal_text import safe_line

# Receives a marker's text and its detail.
NoteStep: TypeAlias = Callable[[str, Mapping[str, Any]], None]
# More than any experiment has: the fit of a curve takes time with their product.
_MOST_VISITS, _MOST_ROUNDS, _MOST_SETTINGS, _MOST_NFS = 2000, 100, 64, 256


@dataclass(frozen=True, slots=True)
class RecordedExperiment:
    """An experiment as far as its markers have it.

    Attributes:
        plan: without the state that it restores.
        ended: why, or None while it runs. detail: numbers of that.
        outcome: of the revert; "" before it.
        accelerated: it ran on a simulated host whose minutes take seconds.
    """

    plan: Experiment
    visits: tuple[Visit, ...] = ()
    ended: EndReason | None = None
    detail: str = ""
    outcome: str = ""
    accelerated: bool = False


class _End(msgspec.Struct):
    ended: EndReason
    detail: str
    outcome: str


class ExperimentLog:
    """Notes the steps of one experiment, each once."""

    def __init__(self, plan: Experiment, note: NoteStep, *, accelerated: bool = False) -> None:
        self._plan = plan
        self._note = note
        self._visits = 0
        # The state and the values are the guard's business, and large.
        bare = replace(plan, proposal=Proposal({}, (), commands=plan.proposal.commands))
        detail = {"plan": _plain(bare), "accelerated": accelerated}
        swept = "the ways of I/O" if plan.of_io else plan.group or "the root group"
        what = f"sweep of {swept}" if plan.kind == "sweep" else f"trial of {plan.settings[1].label}"
        self._note(f"experiment: {what} begins", detail)

    def visited(self, visits: tuple[Visit, ...]) -> None:
        """Note those visits that are new."""
        for visit in visits[self._visits :]:
            label = "baseline" if visit.setting < 0 else self._plan.settings[visit.setting].label
            self._note(f"experiment: round {visit.round}, {label}", {"visit": _plain(visit)})
        self._visits = len(visits)

    def finished(self, ended: EndReason, detail: str, outcome: str) -> None:
        """Note the end, and whether the state before it is restored."""
        end = {"ended": ended, "detail": detail, "outcome": outcome}
        self._note(f"experiment: ended ({ended}), {outcome}", {"end": end})


def _plain(value: object) -> Any:
    return msgspec.to_builtins(value, str_keys=True)


def with_step(
    before: RecordedExperiment | None, detail: Mapping[str, Any]
) -> RecordedExperiment | None:
    """The experiment with one more of its markers; as before if that makes no sense."""
    try:
        if "plan" in detail:
            plan = msgspec.convert(detail["plan"], Experiment, strict=False)
            known = RecordedExperiment(plan, accelerated=detail.get("accelerated") is True)
            fits = 2 <= len(plan.settings) <= _MOST_SETTINGS and 0 < len(plan.watch) <= _MOST_NFS
            return known if fits else before
        return None if before is None else _continued(before, detail)
    except (TypeError, ValueError):
        return before  # of a damaged or another nftop's recording


def _continued(before: RecordedExperiment, detail: Mapping[str, Any]) -> RecordedExperiment:
    if "visit" in detail:
        visit = msgspec.convert(detail["visit"], Visit, strict=False)
        fits = (
            -1 <= visit.setting < len(before.plan.settings)
            and 0 <= visit.round <= _MOST_ROUNDS
            and visit.nfs.keys() == before.plan.watch.keys()
            and len(before.visits) < _MOST_VISITS
        )
        return replace(before, visits=(*before.visits, visit)) if fits else before
    if "end" in detail:
        end = msgspec.convert(detail["end"], _End)
        text = safe_line(end.detail)
        return replace(before, ended=end.ended, detail=text, outcome=safe_line(end.outcome))
    return before
