"""The guard as a process: what it inherits, what it says when it dies, and one that is slow."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from nftop.control import gate
from nftop.control.entry import Entry
from nftop.control.gate import Pending, recover
from nftop.control.journal import Journal
from nftop.model.action import Cell, Change


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    """With a change that was cut off, of a boot that is long over."""
    found = Journal(tmp_path / "nftop")
    change = Change(Cell("schemata", "/", "L3", 0), "f", "1")
    with found.hold():
        found.begin(Entry(1, "now", "another-boot 7:1", "root", "nftop cat set", (change,)))
    return found


def answers(program: str) -> Pending:
    ours, theirs = socket.socketpair()
    errors = os.fdopen(os.memfd_create("test"), "w+b")
    with theirs:
        handle = theirs.fileno()
        command = [sys.executable, "-I", "-c", program]
        guard = subprocess.Popen(command, stdin=handle, stdout=handle, stderr=errors)
    return Pending(guard, ours, errors)


def test_the_callers_environment_is_not_the_guards(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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


def test_one_that_ends_without_a_word_leaves_its_last_complaint() -> None:
    pending = answers("raise SystemExit('first\\nno numpy here')")
    assert pending.receipt.outcome == "failed"
    assert pending.receipt.sentences[0].startswith("the guard ended without a word")
    assert pending.receipt.sentences[1:] == ("no numpy here",)


def test_one_that_is_slow_is_not_said_to_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "_ANSWER_S", 0.0)
    pending = answers("import sys; sys.stdin.read()")  # to the end, which closing the channel is
    assert "the guard is still at it" in pending.receipt.sentences[0]
