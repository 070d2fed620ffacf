"""The guard as a process: what it inherits, what it says when it dies, and one that is slow."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.control import guard_client as pending
from nftop.control import guard_process
from nftop.control.gate import BackendClassGate
from nftop.control.guard_client import GuardedChange, recover, start_guard
from nftop.control.journal import FileJournal
from nftop.control.journal_entry import Entry, Requester, proposal_of, request
from nftop.model.change import Cell, Change, Proposal, ReasonCode, Receipt, SetSchemata
from tests.control.hosts import lab_host
from tests.descriptors import many_descriptors


@pytest.fixture
def journal(tmp_path: Path) -> FileJournal:
    """With a change that was cut off, of a boot that is long over."""
    result = FileJournal(tmp_path / "nftop")
    change = Change(Cell("schemata", "/", "L3", 0), "f", "1")
    with result.hold():
        result.begin(Entry(1, "now", "another-boot 7:1", "root", "nftop cat set", (change,)))
    return result


def answers(program: str) -> GuardedChange:
    ours, theirs = socket.socketpair()
    errors = os.fdopen(os.memfd_create("test"), "w+b")
    with theirs:
        handle = theirs.fileno()
        command = [sys.executable, "-I", "-c", program]
        guard = subprocess.Popen(command, stdin=handle, stdout=handle, stderr=errors)
    return GuardedChange(guard, ours, errors)


def test_the_callers_environment_is_not_the_guards(
    journal: FileJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It works from where this package is, whatever PYTHONPATH and the current folder have."""
    for name in ("sitecustomize.py", "json.py", "nftop.py"):
        (tmp_path / name).write_text(f"open({os.fspath(tmp_path / 'owned')!r}, 'w').close()\n")
    monkeypatch.setenv("PYTHONPATH", os.fspath(tmp_path))
    monkeypatch.chdir(tmp_path)
    receipt = recover(journal)
    assert receipt is not None
    assert receipt.number == 1
    assert not (tmp_path / "owned").exists()


def test_a_guard_is_queried_by_a_process_with_many_descriptors(journal: FileJournal) -> None:
    """As nftop is on a large host, with one per CPU and counter."""
    with many_descriptors():
        receipt = recover(journal)
    assert receipt is not None
    assert receipt.number == 1


def test_the_guard_hears_all_that_the_history_is_to_have(tmp_path: Path) -> None:
    cell = Cell("schemata", "/", "L3", 0)
    proposal = Proposal(
        {cell: "f"},
        (Change(cell, "f", "1"),),
        commands=("nftop undo",),
        unmet=("L3 1 of vpp: left alone",),
        leaves=(2, 3),
    )
    reports = json.dumps(request(proposal, Requester("me", (2,)), tmp_path, None))
    assert proposal_of(json.loads(reports)) == proposal


def test_one_that_ends_without_a_word_leaves_its_last_complaint(
    snapshot: SnapshotAssertion,
) -> None:
    pending = answers("raise SystemExit('first\\nno numpy here')")
    assert pending.receipt.outcome == "failed"
    assert pending.receipt.code is ReasonCode.GUARD_ENDED
    assert pending.receipt.sentences[1:] == snapshot


def test_one_that_is_slow_is_not_reported_to_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending, "_ANSWER_S", 0.0)
    result = answers("import sys; sys.stdin.read()")  # to the end, which closing the channel is
    assert result.receipt.code is ReasonCode.GUARD_TIMEOUT


def test_another_hosts_change_is_not_this_hosts_guards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what is opened, whoever asked and whatever the classes are called."""
    host, reports = lab_host(), list[Receipt | None]()
    gate_ = BackendClassGate(host, FileJournal(tmp_path / "nftop"), start_guard, "nftop")
    proposal = gate_.propose([SetSchemata("/", "L3", ((0, 1),))])
    requests = request(proposal, Requester("somebody"), tmp_path / "nftop", None)
    monkeypatch.setattr(guard_process, "_answer", reports.append)
    monkeypatch.setattr(guard_process, "_line", lambda: json.dumps(requests).encode() + b"\n")
    monkeypatch.setattr(guard_process, "_IGNORED", ())
    for name in ("umask", "chdir", "set_blocking"):
        monkeypatch.setattr(os, name, lambda *_: None)
    for identity, outcome in (("a-boot 7:2", "conflict"), (host.identity, "applied")):
        opened = replace(host, identity=identity)
        monkeypatch.setattr(guard_process, "open_backend", lambda *_, opened=opened: opened)
        reports.clear()
        assert guard_process.main() == 0
        assert reports[0] is not None and reports[0].outcome == outcome
        assert opened.writes == (outcome == "applied")
