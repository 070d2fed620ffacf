"""While resctrl's lock is held nothing waits for a disk: others give up on it after 100 ms."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.control.journal import FileJournal
from nftop.control.journal_entry import Requester
from nftop.control.recovery import recover, revert
from nftop.control.transaction import apply, keep
from nftop.model.change import Action, Cell, CreateGroup, MoveCpus, Proposal, Receipt, SetSchemata
from nftop.model.ids import Cpu
from tests.control.hosts import (
    HELD,
    Death,
    Disk,
    KilledError,
    LabHost,
    Stubborn,
    lab_host,
    memory,
    mortal,
)
from tests.control.worlds import planned

REQUESTED = Requester("somebody")
ACTIONS: list[Action] = [
    CreateGroup("nftop.a"),
    SetSchemata("vpp", "L3", ((0, 0xF),)),
    MoveCpus((Cpu(1), Cpu(6)), "nftop.a"),
]


@pytest.fixture
def host() -> LabHost:
    result = lab_host()
    result.lab.mkdir("/vpp")
    result.lab.echo("1-3", "/vpp/cpus_list")
    return result


@pytest.fixture
def proposal(host: LabHost) -> Proposal:
    return planned(host, ACTIONS)


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether a lock was held, for every fsync."""
    result, real = list[bool](), os.fsync

    def fsync(handle: int) -> None:
        result.append(bool(HELD))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    return result


def assert_free(synced: list[bool], host: LabHost, locks: int) -> None:
    """No fsync under the lock, which was had so many times; and this test could tell."""
    assert synced
    assert not any(synced)
    assert host.locks == locks


def test_a_change_that_is_kept(
    host: LabHost, proposal: Proposal, synced: list[bool], tmp_path: Path
) -> None:
    journal = FileJournal(tmp_path / "nftop")
    with journal.hold():
        _, entry = apply(host, journal, proposal, REQUESTED)
        assert entry is not None
        keep(host, journal, entry)
    assert_free(synced, host, 1)


@pytest.mark.parametrize("how", [revert, lambda host, journal, _: recover(host, journal)])
def test_a_change_that_is_taken_back(
    host: LabHost,
    proposal: Proposal,
    synced: list[bool],
    tmp_path: Path,
    how: Callable[[LabHost, FileJournal, object], Receipt],
) -> None:
    journal = FileJournal(tmp_path / "nftop")
    with journal.hold():
        _, entry = apply(host, journal, proposal, REQUESTED)
        assert how(host, journal, entry).outcome == "reverted"
    assert_free(synced, host, 2)


def test_a_change_that_the_kernel_refuses(
    host: LabHost, proposal: Proposal, synced: list[bool], tmp_path: Path
) -> None:
    stubborn, journal = Stubborn(host.lab, at=2), FileJournal(tmp_path / "nftop")
    with journal.hold():
        receipt, _ = apply(stubborn, journal, proposal, REQUESTED)
    assert receipt.outcome == "refused"
    assert_free(synced, stubborn, 2)


@dataclass
class Busy(LabHost):
    """A host on which another program does something whenever the lock is to be had.

    Attributes:
        operations: what it does, one each time.
    """

    operations: list[Callable[[], None]] = field(default_factory=list)

    @contextlib.contextmanager
    def lock(self, limit_s: float) -> Iterator[None]:
        if self.operations:
            self.operations.pop(0)()
        with super().lock(limit_s):
            yield


def test_what_changes_between_the_journal_and_the_lock_is_a_conflict(
    host: LabHost, proposal: Proposal, snapshot: SnapshotAssertion
) -> None:
    disk = Disk()
    busy = Busy(host.lab, operations=[lambda: host.lab.echo("L3:1=7", "/vpp/schemata")])
    receipt, entry = apply(busy, memory(disk), proposal, REQUESTED)
    assert (receipt.outcome, entry, busy.writes) == ("conflict", None, 0)
    assert receipt.sentences == snapshot
    assert disk == Disk()


def test_what_another_has_half_done_is_no_conflict(host: LabHost, proposal: Proposal) -> None:
    """It has the lock meanwhile, and puts back what it tried before it lets go."""
    disk = Disk()
    host.lab.echo("L3:1=7", "/vpp/schemata")
    busy = Busy(host.lab, operations=[lambda: host.lab.echo("L3:1=7ff", "/vpp/schemata")])
    receipt, entry = apply(busy, memory(disk), proposal, REQUESTED)
    assert receipt.outcome == "applied"
    assert entry is not None


@pytest.mark.parametrize("rounds", range(5))
def test_revert_is_planned_again_after_a_foreign_change(
    host: LabHost, proposal: Proposal, synced: list[bool], tmp_path: Path, rounds: int
) -> None:
    """At last under the lock, so that it comes to an end."""
    journal, before = FileJournal(tmp_path / "nftop"), host.state()
    masks = itertools.cycle(["7", "f"])
    busy = Busy(
        host.lab,
        operations=[
            lambda: host.lab.echo(f"L3:1={next(masks)}", "/schemata") for _ in range(rounds)
        ],
    )
    with journal.hold():
        _, entry = apply(host, journal, proposal, REQUESTED)
        assert entry is not None
        synced.clear()
        assert revert(busy, journal, entry).outcome == "reverted"
    theirs = Cell("schemata", "/", "L3", 1)
    assert any(synced) == (rounds >= 3)
    assert {cell for cell, value in host.state().items() if before[cell] != value} == (
        {theirs} if rounds else set()
    )


def test_what_was_only_written_down_is_not_on_the_host(
    host: LabHost, proposal: Proposal, snapshot: SnapshotAssertion
) -> None:
    disk, before = Disk(), host.state()
    victim, journal = mortal(host, disk, Death(0, late=True))
    with pytest.raises(KilledError):
        apply(victim, journal, proposal, REQUESTED)
    assert (victim.locks, victim.writes) == (0, 0)
    receipt = recover(host, memory(disk))
    assert receipt is not None
    assert receipt.outcome == "reverted"
    assert receipt.sentences[1:] == snapshot
    assert host.state() == before
    assert host.writes == 0
