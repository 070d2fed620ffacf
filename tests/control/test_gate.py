"""The gates of all parts as one: the newest change is undone first, whatever part it is of."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.control.backend import CLASSES, AbsentError
from nftop.control.backends import key_of, open_backend
from nftop.control.cpufreq.cpufreq import CPUFREQ
from nftop.control.gate import BackendGate, HostGate
from nftop.control.guard_client import start_guard
from nftop.control.journal_entry import Requester, entry_of, proposal_of, request, seal, text_of
from nftop.control.transaction import apply, keep
from nftop.export.json.changes_of import change_object
from nftop.model.change import Action, PinCpus, Proposal, SetSchemata
from nftop.model.ids import Cpu
from tests.control.hosts import Disk, LabHost, lab_host, memory
from tests.control.sst_trees import HIGH, MOST, FakeCpufreq, component, in_memory, make_tree

SET = SetSchemata("/", "L3", ((0, 0xF),))
PIN = PinCpus((Cpu(1),))


@pytest.fixture
def location() -> Iterator[Path]:
    with in_memory() as folder:
        yield folder


class Both:
    """A host with classes and frequencies, and one journal."""

    def __init__(self, location: Path) -> None:
        self.disk = Disk()
        self.classes = lab_host()
        self.frequencies = component(make_tree(location))
        self.hosts: dict[str, LabHost | FakeCpufreq] = {
            CLASSES: self.classes,
            CPUFREQ: self.frequencies,
        }
        gates = {
            name: BackendGate(item, memory(self.disk), start_guard, "nftop")
            for name, item in self.hosts.items()
        }
        self.gate = HostGate(gates, {})

    def do(self, action: Action) -> None:
        self.keep(self.gate.propose([action], ("nftop",)), ())

    def undo(self) -> str:
        planned = self.gate.propose_undo()
        assert planned is not None
        self.keep(*planned)
        return key_of(planned[0].identity)

    def keep(self, proposal: Proposal, undoes: tuple[int, ...]) -> None:
        host = self.hosts[key_of(proposal.identity)]
        assert self.gate.writes(proposal)
        receipt, entry = apply(host, memory(self.disk), proposal, Requester("me", undoes))
        assert entry is not None, receipt
        assert keep(host, memory(self.disk), entry).outcome == "kept"


def test_the_newest_change_is_taken_back_first(location: Path) -> None:
    both = Both(location)
    before = both.classes.state(), both.frequencies.state()
    for action in (SET, PIN, SetSchemata("/", "L3", ((1, 7),))):
        both.do(action)
    assert [both.undo() for _ in range(3)] == [CLASSES, CPUFREQ, CLASSES]
    assert (both.classes.state(), both.frequencies.state()) == before
    assert both.gate.propose_undo() is None


def test_changes_removed_by_hand_do_not_hide_those_of_another_backend(location: Path) -> None:
    both = Both(location)
    both.do(SET)
    both.do(PIN)
    for cpu in (1, 5):
        both.frequencies.kernel.put(cpu, "scaling_max_freq", "3900000")
        both.frequencies.kernel.put(cpu, "scaling_min_freq", "800000")
    assert both.undo() == CLASSES


@pytest.mark.parametrize("early", [True, False])
def test_an_unreadable_backend_does_not_delay_others(
    location: Path, early: bool, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    def unmounted(*_: object) -> str:
        raise FileNotFoundError("resctrl is not mounted")

    both = Both(location)
    before = both.frequencies.state()
    both.do(PIN)
    both.do(SET)
    name = "newest" if early else "propose_undo"
    of_classes = both.gate.gates[CLASSES]

    def failing(gate: BackendGate[LabHost], **requests: bool) -> object:
        return unmounted() if gate is of_classes else real(gate, **requests)

    real = getattr(BackendGate, name)
    monkeypatch.setattr(BackendGate, name, failing)
    planned = both.gate.propose_undo()
    assert planned is not None
    assert planned[0].warnings == snapshot
    assert both.undo() == CPUFREQ
    assert both.frequencies.state() == before
    with pytest.raises(FileNotFoundError):
        both.gate.propose_undo()


def test_older_backends_are_not_read_while_the_newest_has_changes(
    location: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = Both(location)
    both.do(SET)
    both.do(PIN)
    requests = []
    real = BackendGate.propose_undo

    def counted(gate: BackendGate[LabHost], *, beyond: bool = False) -> object:
        requests.append(key_of(gate.host.identity))
        return real(gate, beyond=beyond)

    monkeypatch.setattr(BackendGate, "propose_undo", counted)
    assert both.undo() == CPUFREQ
    assert requests == [CPUFREQ]


def test_undo_is_final_for_the_newest_change_of_all_backends(location: Path) -> None:
    both = Both(location)
    both.do(SET)
    both.do(PIN)
    planned = both.gate.propose_undo()
    assert planned is not None
    assert (key_of(planned[0].identity), planned[0].final) == (CPUFREQ, True)
    for cpu in (1, 5):  # as before: nothing is left of the newest
        both.frequencies.kernel.put(cpu, "scaling_max_freq", "3900000")
        both.frequencies.kernel.put(cpu, "scaling_min_freq", "800000")
    planned = both.gate.propose_undo()
    assert planned is not None
    assert (key_of(planned[0].identity), planned[0].final) == (CLASSES, False)


def test_a_reset_is_not_final_after_a_newer_change_of_another_backend(location: Path) -> None:
    both = Both(location)
    both.do(SET)
    for gate in (both.gate, both.gate.gates[CLASSES]):
        planned = gate.propose_reset()
        assert planned is not None
        assert (planned[1], planned[0].final) == ((1,), True)
    both.do(PIN)
    for gate in (both.gate, both.gate.gates[CLASSES]):
        planned = gate.propose_reset()
        assert planned is not None
        assert (planned[1], planned[0].final) == ((1,), False)


@pytest.mark.parametrize("reset", [False, True])
def test_a_final_undo_is_a_conflict_once_it_is_not_of_the_newest_change(
    location: Path, reset: bool
) -> None:
    """Another operator keeps a change of another part while the preview is open."""
    both = Both(location)
    both.do(SET)
    planned = both.gate.propose_reset() if reset else both.gate.propose_undo()
    assert planned is not None
    requests = Requester("me", planned[1])
    proposal = proposal_of(json.loads(json.dumps(request(planned[0], requests, location, None))))
    assert proposal.final
    both.do(PIN)
    state, writes, history = both.classes.state(), both.classes.writes, list(both.disk.history)
    receipt, entry = apply(both.classes, memory(both.disk), proposal, requests)
    assert (receipt.outcome, entry) == ("conflict", None)
    assert (both.classes.state(), both.classes.writes) == (state, writes)
    assert (both.disk.pending, both.disk.history) == (None, history)
    both.undo()
    receipt, entry = apply(both.classes, memory(both.disk), proposal, requests)
    assert entry is not None, "it is the newest again"


def test_an_undo_is_final_though_a_change_of_an_earlier_boot_is_newer(location: Path) -> None:
    both = Both(location)
    both.do(SET)
    both.do(PIN)
    pinned = json.loads(both.disk.history[1])
    del pinned["sha256"]
    both.disk.history[1] = seal({**pinned, "identity": "other-boot cpufreq intel_pstate"})
    planned = both.gate.propose_undo()
    assert planned is not None
    assert (planned[1], planned[0].final) == ((1,), True)


def test_undo_is_not_final_while_a_backend_is_unreadable(
    location: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = Both(location)
    both.do(SET)
    both.do(PIN)
    of_classes, newest = both.gate.gates[CLASSES], BackendGate.newest

    def failing(gate: BackendGate[LabHost]) -> int:
        if gate is of_classes:
            raise FileNotFoundError("resctrl is not mounted")
        return newest(gate)

    monkeypatch.setattr(BackendGate, "newest", failing)
    planned = both.gate.propose_undo()
    assert planned is not None
    assert (key_of(planned[0].identity), planned[0].final) == (CPUFREQ, False)


def test_an_absent_backend_is_reported(location: Path) -> None:
    both = Both(location)
    gate = HostGate({CLASSES: both.gate.gates[CLASSES]}, {CPUFREQ: "this host has no cpufreq"})
    with pytest.raises(AbsentError, match="no cpufreq"):
        gate.propose([PIN])
    with pytest.raises(AbsentError):
        _ = HostGate({CPUFREQ: both.gate.gates[CPUFREQ]}, {}).host
    assert gate.host is both.classes


@pytest.mark.parametrize(
    ("identity", "name"),
    [
        ("a-boot 7:1:3:ff", CLASSES),
        ("a-boot msr", CLASSES),
        ("a-boot cpufreq intel_pstate", CPUFREQ),
        ("a-boot", CLASSES),
        ("", CLASSES),
    ],
)
def test_backends_by_identity(identity: str, name: str) -> None:
    assert key_of(identity) == name


def test_an_entry_of_frequencies_reads_back_as_it_was_written(location: Path) -> None:
    both = Both(location)
    both.do(PIN)
    [entry] = memory(both.disk).history()
    assert {change.cell.kind for change in entry.changes} == {"min_khz", "max_khz"}
    assert entry_of("history", text_of(entry)) == entry
    reports = change_object(entry.changes[0])
    assert reports == {"kind": "max_khz", "policy": 1, "cpus": [1], "old": MOST, "new": HIGH}


@dataclass(frozen=True)
class ToyAction:
    """An action that no backend plans."""


def test_an_action_of_no_backend_is_refused() -> None:
    gate = HostGate({CLASSES: mock.Mock()}, {})
    unknown: Any = [ToyAction()]
    with pytest.raises(AbsentError, match="ToyAction"):
        gate.propose(unknown)


@pytest.mark.parametrize(
    ("identity", "key"),
    [
        ("", CLASSES),
        ("boot 0:41:1:7", CLASSES),
        ("boot msr", CLASSES),
        ("boot cpufreq intel_pstate", "cpufreq"),
        ("boot isst", "isst"),
    ],
)
def test_the_backend_of_an_identity(identity: str, key: str) -> None:
    assert key_of(identity) == key


def test_a_change_of_an_unknown_backend_is_neither_reverted_nor_closed(tmp_path: Path) -> None:
    with pytest.raises(AbsentError, match="'fan'"):
        open_backend("boot fan 3", tmp_path)
