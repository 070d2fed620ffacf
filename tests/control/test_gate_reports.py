from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.control.backend import CLASSES
from nftop.control.gate import HostGate
from nftop.model.change import Cell, Change, Proposal, Receipt

CHANGE = Change(Cell("schemata", "vpp", "L3", 0), "f0", "ff")
PROPOSAL = Proposal({}, (CHANGE,), commands=("nftop cat set --group vpp --l3 0=ff",))


class Pending:
    def __init__(self, receipt: Receipt) -> None:
        self.receipt = receipt

    def keep(self) -> Receipt:
        return replace(self.receipt, outcome="kept", sentences=())

    def revert(self) -> Receipt:
        return replace(self.receipt, outcome="reverted", sentences=("taken back",))

    def settled(self, seconds: float) -> Receipt | None:
        return None if seconds < 1 else self.keep()


def gate_of(receipt: Receipt) -> tuple[Any, list[str], Any]:
    kinds: list[str] = []
    inner = mock.Mock()
    inner.apply.return_value = Pending(receipt)

    def write_report(text: str, classes: bool) -> None:
        assert classes
        kinds.append(text)

    return HostGate({CLASSES: inner}, {}, write_report), kinds, inner


def test_what_is_done_and_what_becomes_of_it_is_reported_once(snapshot: SnapshotAssertion) -> None:
    gate, kinds, inner = gate_of(Receipt("applied", ("keep it within 60 s",)))
    pending = gate.apply(PROPOSAL, keep_within_s=60.0, undoes=(3,))
    inner.apply.assert_called_once_with(PROPOSAL, keep_within_s=60.0, undoes=(3,))
    assert kinds == snapshot
    assert pending.settled(0.1) is None and len(kinds) == 1
    assert pending.keep().outcome == "kept"
    assert pending.settled(5).outcome == "kept"
    assert kinds[1:] == snapshot


def test_a_change_without_a_command_is_reported_too(snapshot: SnapshotAssertion) -> None:
    gate, kinds, _ = gate_of(Receipt("refused", ()))
    pending = gate.apply(replace(PROPOSAL, commands=()))
    pending.revert()
    assert kinds == snapshot


@pytest.mark.parametrize(("identity", "classes"), [("boot cpufreq", False), ("boot 0:41", True)])
def test_what_it_was_about_is_reported(identity: str, classes: bool) -> None:
    kinds: list[bool] = []
    inner = mock.Mock()
    inner.apply.return_value = Pending(Receipt("applied", ()))
    gate = HostGate(dict.fromkeys((CLASSES, "cpufreq"), inner), {}, lambda _, of: kinds.append(of))
    gate.apply(replace(PROPOSAL, identity=identity)).keep()
    assert kinds == [classes, classes]


def test_a_read_only_session_is_not_reported() -> None:
    gate, kinds, inner = gate_of(Receipt("applied", ()))
    assert gate.propose([], ("x",)) is inner.propose.return_value
    assert gate.writes(PROPOSAL) is inner.writes.return_value
    assert gate.propose_reset() is inner.propose_reset.return_value
    assert gate.host is inner.host
    assert kinds == []
