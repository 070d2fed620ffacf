"""The state of a change on its way, as screens show it: who ended it, and why."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, cast

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.model.change import Outcome, Proposal, Receipt
from nftop.ui.change_control import ChangeControl

KEEP_WITHIN_S = 0.2


@dataclass
class EndingGate:
    """A gate whose guard applies a change and ends by itself, `ends_in_s` after that."""

    outcome: Outcome
    ends_in_s: float
    persistent: bool = True
    ends_at_s: float = 0.0

    @property
    def receipt(self) -> Receipt:
        return Receipt("applied", (), (), 7)

    def apply(self, *_: object, **__: object) -> EndingGate:
        self.ends_at_s = time.monotonic() + self.ends_in_s
        return self

    def settled(self, seconds: float) -> Receipt | None:
        assert seconds == 0.0
        ended = time.monotonic() >= self.ends_at_s
        return Receipt(self.outcome, (), (), 7) if ended else None

    def keep(self) -> Receipt:
        return Receipt("failed", ("the guard is slow",))


def served(gate: EndingGate, keep_within_s: float = KEEP_WITHIN_S) -> ChangeControl:
    """What has become of a change that nobody keeps or takes back."""
    changes = ChangeControl(cast(Any, gate), lambda: None, keep_within_s=keep_within_s)
    assert changes.begin()
    changes.apply_and_settle(Proposal({}, ()), ())
    return changes


def test_a_final_change_ends_though_its_guard_is_silent() -> None:
    gate = EndingGate("kept", ends_in_s=3600.0)
    changes = ChangeControl(cast(Any, gate), lambda: None, keep_within_s=KEEP_WITHIN_S)
    assert changes.begin()
    changes.apply_and_settle(Proposal({}, (), final=True), ())
    assert changes.last is not None and changes.last[0].outcome == "failed"
    assert changes.state.phase == "none"


@pytest.mark.parametrize("outcome", ["reverted", "partial", "overwritten", "failed"])
def test_an_expired_change_is_reported(outcome: Outcome, snapshot: SnapshotAssertion) -> None:
    changes = served(EndingGate(outcome, ends_in_s=2 * KEEP_WITHIN_S))
    assert changes.last is not None
    assert (changes.last[0].outcome, changes.last[1]) == (outcome, True)
    assert changes.nothing_to_keep() == snapshot


def test_a_guard_that_fails_before_the_time_is_up_is_no_expiry() -> None:
    changes = served(EndingGate("failed", ends_in_s=0.0), keep_within_s=3600.0)
    assert changes.last is not None
    assert (changes.last[0].outcome, changes.last[1]) == ("failed", False)
