"""The protocol where nobody is killed: conflicts, locks, refusals, a full disk, undo."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from nftop.control.backend import RefusedError
from nftop.control.gate import BackendClassGate
from nftop.control.guard_client import start_guard
from nftop.control.journal import FileJournal
from nftop.control.journal_entry import Entry, Requester
from nftop.control.recovery import recover, revert
from nftop.control.resctrl.operations import ResctrlStep
from nftop.control.transaction import apply, keep, serve
from nftop.model.change import (
    Action,
    Cell,
    Change,
    CreateGroup,
    MoveCpus,
    MoveTasks,
    Outcome,
    Proposal,
    ReasonCode,
    Receipt,
    RemoveGroup,
    RemoveMonitor,
    SetSchemata,
    State,
)
from nftop.model.ids import Cpu
from tests.control.hosts import (
    Death,
    Disk,
    KilledError,
    LabHost,
    MemoryJournal,
    MortalHost,
    Stubborn,
    gate_of,
    lab_host,
    memory,
    without_births,
)
from tests.control.worlds import ACTIONS, hosts, planned
from tests.lab.tests.hosts import BOTH

REQUESTED = Requester("somebody")
SET = SetSchemata("vpp", "L3", ((0, 0xF0), (1, 0xF)))


def one_group(kernel: str = "7.2", *options: str) -> LabHost:
    host = lab_host(kernel, *options)
    host.lab.mkdir("/vpp")
    host.lab.echo("1-3", "/vpp/cpus_list")
    host.lab.echo("100", "/vpp/tasks")
    return host


def do(host: LabHost, journal: MemoryJournal, actions: list[Action]) -> Entry:
    """Applied and kept."""
    receipt, entry = apply(host, journal, planned(host, actions), REQUESTED)
    assert entry is not None, receipt
    assert keep(host, journal, entry).outcome == "kept"
    return entry


def test_no_such_process_is_refused_unless_the_thread_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_such_process(*_: object) -> None:
        raise ProcessLookupError(errno.ESRCH, "No such process")

    host = one_group()
    started = host.lab.people.by_id[100].started
    monkeypatch.setattr(type(host.lab), "echo", no_such_process)
    with pytest.raises(RefusedError, match="No such process"):
        host.do(ResctrlStep("task", "vpp", task=Cell("task", "", f"100@{started}")))
    host.do(ResctrlStep("task", "vpp", task=Cell("task", "", f"100@{started + 1}")))


@BOTH
def test_what_changed_since_the_preview_is_a_conflict_and_nothing_is_written(
    kernel: str, snapshot: SnapshotAssertion
) -> None:
    host, disk = one_group(kernel), Disk()
    proposal = planned(host, [SET])
    host.lab.echo("L3:1=7", "/vpp/schemata")
    count = host.lab.tree.changes
    receipt, entry = apply(host, memory(disk), proposal, REQUESTED)
    assert (receipt.outcome, receipt.code, entry) == ("conflict", ReasonCode.HOST_CHANGED, None)
    assert receipt.sentences == snapshot
    assert host.lab.tree.changes == count
    assert disk == Disk()


@pytest.mark.parametrize(
    "operation",
    [
        lambda lab: lab.echo("exclusive", "/vpp/mode"),
        lambda lab: lab.echo("1-2", "/vpp/cpus_list"),
        lambda lab: lab.mkdir("/other"),
        lambda lab: lab.mkdir("/vpp/mon_groups/m"),
        lambda lab: lab.rmdir("/vpp"),
        lambda lab: (lab.rmdir("/vpp"), lab.mkdir("/vpp"), lab.echo("1-3", "/vpp/cpus_list")),
    ],
)
def test_whatever_it_is_that_changed(operation: object) -> None:
    host, disk = one_group(), Disk()
    host.lab.echo("L3:0=700;1=700", "/schemata")
    host.lab.echo("L3:0=f;1=f", "/vpp/schemata")
    proposal = planned(host, [SET])
    assert callable(operation)
    operation(host.lab)
    count = host.lab.tree.changes
    receipt, _ = apply(host, memory(disk), proposal, REQUESTED)
    assert receipt.outcome == "conflict"
    assert host.lab.tree.changes == count


@BOTH
@pytest.mark.parametrize("action", [RemoveGroup("nftop.a"), RemoveMonitor("nftop.a", "nftop.m")])
def test_a_thread_that_joins_what_is_to_go_is_a_conflict(kernel: str, action: Action) -> None:
    host, disk = one_group(kernel), Disk()
    host.lab.mkdir("/nftop.a")
    host.lab.mkdir("/nftop.a/mon_groups/nftop.m")
    host.lab.echo("100", "/nftop.a/tasks")
    host.lab.echo("101", "/nftop.a/tasks")
    host.lab.echo("101", "/nftop.a/mon_groups/nftop.m/tasks")
    gate = gate_of(host, disk)
    proposal = gate.propose([action])
    host.lab.echo("200", "/nftop.a/tasks")
    host.lab.echo("200", "/nftop.a/mon_groups/nftop.m/tasks")
    receipt, entry = apply(host, gate.journal, proposal, REQUESTED)
    assert (receipt.outcome, entry, host.writes) == ("conflict", None, 0)
    message = "the group of thread 200: not there in the preview, nftop.a:nftop.m now"
    assert message in receipt.sentences
    receipt, entry = apply(host, gate.journal, gate.propose([action]), REQUESTED)
    assert receipt.outcome == "applied"
    assert entry is not None
    assert revert(host, gate.journal, entry).outcome == "reverted"
    assert set(host.tasks(["nftop.a"], ()).values()) == {"nftop.a", "nftop.a/nftop.m"}


def test_a_thread_that_ended_is_no_conflict_and_needs_no_class() -> None:
    host, disk = one_group(), Disk()
    proposal = planned(host, [MoveTasks((100, 101), "/"), MoveTasks((200,), "vpp")])
    del host.lab.people.by_id[100]
    receipt, entry = apply(host, memory(disk), proposal, REQUESTED)
    assert entry is not None, receipt
    assert {change.cell.name for change in entry.changes} == {"200@200"}
    del host.lab.people.by_id[200]
    assert revert(host, memory(disk), entry).outcome == "reverted"


def test_a_lock_that_another_holds() -> None:
    host, disk = one_group(), Disk()
    host.locked_by = "pqos (pid 7)"
    receipt, entry = apply(host, memory(disk), planned(host, [SET]), REQUESTED)
    assert (receipt.outcome, entry, host.writes) == ("locked", None, 0)
    assert receipt.code is ReasonCode.LOCK_HELD
    assert "pqos (pid 7)" in receipt.sentences[0]
    host.locked_by = None
    receipt, entry = apply(host, memory(disk), planned(host, [SET]), REQUESTED)
    assert entry is not None
    host.locked_by = "pqos (pid 7)"
    failed = revert(host, memory(disk), entry)
    assert (failed.outcome, failed.code) == ("failed", ReasonCode.REVERT_FAILED)
    host.locked_by = None
    recovered = recover(host, memory(disk))
    assert recovered is not None
    assert (recovered.outcome, recovered.code) == ("reverted", ReasonCode.CUT_OFF)


@pytest.mark.parametrize("forgets", [True, False])
@pytest.mark.parametrize("at", range(4))
def test_what_the_kernel_refuses_or_does_otherwise_is_taken_back(at: int, forgets: bool) -> None:
    host, disk = one_group(), Disk()
    actions: list[Action] = [
        CreateGroup("nftop.a"),
        SetSchemata("nftop.a", "L3", ((0, 3),)),
        SET,
        MoveCpus((Cpu(1), Cpu(6)), "nftop.a"),
    ]
    before = without_births(host.state())
    stubborn = Stubborn(host.lab, at=at, forgets=forgets)
    receipt, entry = apply(stubborn, memory(disk), planned(host, actions), REQUESTED)
    assert entry is None
    refused = ("refused", ReasonCode.WRITE_REFUSED)
    differs = ("differs", ReasonCode.VALUE_DIFFERS)
    assert (receipt.outcome, receipt.code) in ([refused, differs] if forgets else [refused])
    assert without_births(host.state()) == before
    assert disk.pending is None


@dataclass
class FullDisk(MemoryJournal):
    """A journal that can't be written from the n-th write on; only to forget needs no room."""

    room: int = 0

    def _write(self) -> None:
        if self.room <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.room -= 1

    def begin(self, entry: Entry) -> None:
        self._write()
        super().begin(entry)

    def record(self, entry: Entry, outcome: Outcome) -> None:
        self._write()
        super().record(entry, outcome)


@pytest.mark.parametrize("room", range(4))
def test_on_a_full_disk_nothing_is_written_or_it_is_taken_back(room: int) -> None:
    host, disk = one_group(), Disk()
    journal = FullDisk(disk, room=room)
    before = host.state()
    proposal = planned(host, [SET])
    if room == 0:
        with pytest.raises(OSError, match="No space"):
            apply(host, journal, proposal, REQUESTED)
        assert host.writes == 0
        return
    receipt, entry = apply(host, journal, proposal, REQUESTED)
    if entry is not None:
        receipt = keep(host, journal, entry)
    expected = ("kept", None) if room == 3 else ("refused", ReasonCode.JOURNAL_UNAVAILABLE)
    assert (receipt.outcome, receipt.code) == expected
    assert (host.state() == before) == (room < 3)
    assert os.strerror(errno.ENOSPC) in " ".join(receipt.sentences) or room == 3
    assert disk.pending is None


class LateFailure(MemoryJournal):
    """A journal whose disk fails after a line is written, as fsync does."""

    def record(self, entry: Entry, outcome: Outcome) -> None:
        super().record(entry, outcome)
        if outcome == "kept":
            raise OSError(errno.EIO, "Input/output error")


def test_a_line_that_was_written_and_then_failed_is_no_change_to_undo() -> None:
    host, disk = one_group(), Disk()
    before, journal = host.state(), LateFailure(disk)
    _, entry = apply(host, journal, planned(host, [SET]), REQUESTED)
    assert entry is not None
    assert keep(host, journal, entry).outcome == "refused"
    assert host.state() == before
    assert [item.outcome for item in journal.history()] == ["kept", "refused"]
    assert BackendClassGate(host, journal, start_guard, "nftop").propose_undo() is None


def test_killed_while_that_is_taken_back_it_is_taken_back_after_all() -> None:
    host, disk = one_group(), Disk()
    before, journal = host.state(), LateFailure(disk)
    two: list[Action] = [SET, SetSchemata("/", "L3", ((0, 0xF),))]
    _, entry = apply(host, journal, planned(host, two), REQUESTED)
    assert entry is not None
    victim = MortalHost(host.lab, death=Death(0, late=True))
    with pytest.raises(KilledError):
        keep(victim, journal, entry)
    receipt = recover(host, memory(disk))
    assert receipt is not None
    assert receipt.outcome == "reverted"
    assert host.state() == before


def test_a_remainder_is_undone_only_if_one_is_left() -> None:
    for others, end in (
        ("L3:0=1", "nothing else of it was on the host"),
        ("L3:1=1", "the rest is undone"),
    ):
        host, disk = one_group(), Disk()
        both = SetSchemata("vpp", "L3", ((0, 0xF), (1, 0x7FF if "0=" in others else 0xF)))
        _, entry = apply(host, memory(disk), planned(host, [both]), REQUESTED)
        assert entry is not None
        host.lab.echo(others, "/vpp/schemata")
        receipt = revert(host, memory(disk), entry)
        assert (receipt.outcome, receipt.sentences[-1]) == ("overwritten", end)
        assert receipt.code is ReasonCode.HOST_CHANGED


def test_what_was_cut_off_is_mended_before_anything_else() -> None:
    host, disk = one_group(), Disk()
    _, entry = apply(host, memory(disk), planned(host, [SET]), REQUESTED)
    assert entry is not None
    receipt, _ = apply(host, memory(disk), planned(host, [MoveCpus((Cpu(1),), "/")]), REQUESTED)
    assert (receipt.outcome, receipt.code) == ("refused", ReasonCode.CHANGE_PENDING)
    assert "nftop recover" in receipt.sentences[0]


def test_a_boot_has_undone_it_but_not_being_where_resctrl_can_not_be_seen() -> None:
    host, disk = one_group(), Disk()
    apply(host, memory(disk), planned(host, [SET]), REQUESTED)
    for boot in ("a-boot", ""):
        receipt = recover(None, memory(disk), unreachable_reason="it is not mounted", boot=boot)
        assert receipt is not None
        assert (receipt.outcome, receipt.number) == ("failed", 1)
        assert receipt.code is ReasonCode.BACKEND_ABSENT
        assert disk.pending is not None
    receipt = recover(
        None, memory(disk), unreachable_reason="it is not mounted", boot="another-boot"
    )
    assert receipt is not None
    assert (receipt.outcome, receipt.code) == ("reverted", ReasonCode.REBOOTED)
    assert disk.pending is None


def test_a_damaged_history_is_no_obstacle_to_mending(tmp_path: Path) -> None:
    host, journal = one_group(), FileJournal(tmp_path / "nftop")
    with journal.hold():
        before = host.state()
        _, entry = apply(host, journal, planned(host, [SET]), REQUESTED)
        assert entry is not None
        (journal.folder / "history.jsonl").write_text("x\n")
        receipt = recover(host, journal)
        assert receipt is not None
        assert receipt.outcome == "reverted"
        assert any("is damaged" in sentence for sentence in receipt.sentences)
        assert host.state() == before


def test_a_new_mount_has_undone_it() -> None:
    host, disk = one_group(), Disk()
    apply(host, memory(disk), planned(host, [SET]), REQUESTED)
    count, host.identity = host.writes, "a-boot 8:1"
    receipt = recover(host, memory(disk))
    assert receipt is not None
    assert receipt.code is ReasonCode.REBOOTED
    assert host.writes == count
    assert recover(host, memory(disk)) is None


def test_a_change_that_was_put_back_by_hand_does_not_stop_undo(snapshot: SnapshotAssertion) -> None:
    host, disk = one_group(), Disk()
    before, gate = host.state(), gate_of(host, disk)
    for domain in (0, 1):
        do(host, gate.journal, [SetSchemata("vpp", "L3", ((domain, 0xF),))])  # type: ignore[arg-type]
    host.lab.echo("L3:1=7ff", "/vpp/schemata")
    result = gate.propose_undo()
    assert result is not None
    proposal, numbers = result
    assert numbers == (1, 2)
    assert proposal.warnings == snapshot
    _, entry = apply(host, gate.journal, proposal, replace(REQUESTED, undoes=numbers))
    assert entry is not None
    keep(host, gate.journal, entry)
    assert host.state() == before
    assert gate.propose_undo() is None


def test_the_way_back_shows_its_effects_too(snapshot: SnapshotAssertion) -> None:
    host, disk = one_group(), Disk()
    gate = gate_of(host, disk)
    do(host, gate.journal, [SetSchemata("vpp", "L3", ((0, 0xF),))])  # type: ignore[arg-type]
    host.lab.mkdir("/ovs")
    host.lab.echo("L3:0=7f0", "/ovs/schemata")
    for result in (gate.propose_undo(), gate.propose_reset()):
        assert result is not None
        assert result[0].effects[:2] == snapshot


def test_the_guard_checks_itself_whether_a_group_is_to_be_touched() -> None:
    host, disk = one_group(), Disk()
    host = LockedGroup(host.lab)
    cell = Cell("schemata", "vpp", "L3", 0)
    changes = (Change(cell, "7ff", "1"),)
    proposal = Proposal(host.state(), changes, identity=host.identity)
    receipt, entry = apply(host, memory(disk), proposal, REQUESTED)
    assert (receipt.outcome, entry, host.writes) == ("refused", None, 0)
    assert receipt.code is ReasonCode.GROUP_LOCKED
    assert disk == Disk()


@dataclass
class LockedGroup(LabHost):
    """A host on which vpp holds a locked part of the cache, which the lab has no way to make."""

    def state(self, threads: Iterable[Cell] = ()) -> State:
        return {**super().state(threads), Cell("mode", "vpp"): "pseudo-locked"}


def whole(host: LabHost) -> State:
    every = [Cell("task", "", name) for name in host.tasks([], [100, 101, 200])]
    return without_births(host.state(every))


@settings(deadline=None, max_examples=100)
@given(host=hosts(), rounds=st.lists(ACTIONS, min_size=1, max_size=5), data=st.data())
def test_changes_and_undos_in_any_order_end_where_they_began(
    host: LabHost, rounds: list[list[Action]], data: st.DataObject
) -> None:
    disk = Disk()
    gate, stack = gate_of(host, disk), [whole(host)]
    for actions in rounds:
        proposal = planned(host, actions)
        if proposal.changes:
            do(host, gate.journal, actions)  # type: ignore[arg-type]
            stack.append(whole(host))
        if len(stack) > 1 and data.draw(st.booleans()):
            undo(gate)
            stack.pop()
            assert whole(host) == stack[-1]
    if undo(gate, all_of_them=True):
        assert gate.propose_undo() is None
        assert gate.propose_reset() is None
    assert whole(host) == stack[0]


def undo(gate: BackendClassGate, *, all_of_them: bool = False) -> bool:
    """Whether there was anything to change: what took itself back among them is left standing."""
    planned_back = gate.propose_reset() if all_of_them else gate.propose_undo()
    if planned_back is None:
        return False
    proposal, numbers = planned_back
    assert (proposal.unmet, proposal.refusals) == ((), ())
    if not proposal.changes:
        return False
    receipt, entry = apply(gate.host, gate.journal, proposal, replace(REQUESTED, undoes=numbers))
    assert entry is not None, receipt
    assert keep(gate.host, gate.journal, entry).outcome == "kept"
    return True


@dataclass
class Broken(LabHost):
    """A host that can't be written or read any more from a step on."""

    after: int = 0

    def do(self, step: ResctrlStep) -> None:
        if self.writes == self.after:
            raise ValueError("no such step")
        super().do(step)

    def state(self, threads: Iterable[Cell] = ()) -> State:
        if self.writes and self.writes == self.after:
            raise ValueError("no such state")
        return super().state(threads)


def test_a_second_fault_is_no_reason_to_reassure() -> None:
    for after, outcome in ((0, "reverted"), (1, "failed")):
        host, disk, reports = Broken(one_group().lab, after=after), Disk(), list[Receipt | None]()
        proposal = planned(host, [SET, SetSchemata("/", "L3", ((0, 0xF),))])
        serve(
            host,
            memory(disk),
            proposal,
            REQUESTED,
            None,
            answer=reports.append,
            kept=lambda _: True,
        )
        [receipt] = reports
        assert receipt is not None
        assert receipt.outcome == outcome
        assert (disk.pending is not None) == (outcome == "failed")
        assert ("`nftop recover` says" in receipt.sentences[-1]) == (outcome == "failed")


@dataclass
class Spoilt(MemoryJournal):
    """A journal that fails where nobody foresaw it, once it is asked to keep something."""

    def record(self, entry: Entry, outcome: Outcome) -> None:
        raise ValueError(f"no place for {entry.number}: {outcome}")


def test_what_can_not_be_kept_for_a_reason_nobody_foresaw_is_not_silent() -> None:
    host, disk, reports = one_group(), Disk(), list[Receipt | None]()
    for _ in range(2):
        proposal = planned(host, [SET])
        serve(
            host,
            Spoilt(disk),
            proposal,
            REQUESTED,
            None,
            answer=reports.append,
            kept=lambda _: True,
        )
    outcomes = [item and item.outcome for item in reports]
    assert outcomes == ["applied", "failed", "refused"]
    assert disk.pending is not None
