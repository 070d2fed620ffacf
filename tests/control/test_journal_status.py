"""What the check of the journal reports of changes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop import control
from nftop.control.journal import FileJournal
from nftop.control.journal_status import check, notice
from nftop.model.missing import Reason
from tests.command import wording
from tests.control.test_journal import ONE


def test_doctor_reports_what_is_not_complete(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    journal = FileJournal(tmp_path / "nftop")
    assert check(journal).reason is Reason.PRESENT
    assert notice(journal) == ""
    assert not journal.folder.exists()
    with journal.hold():
        journal.begin(ONE)
        busy = check(journal)
        assert (busy.reason, busy.fix) == (Reason.TAKEN, "")
        assert notice(journal).replace(str(os.getpid()), "PID") == snapshot
    crashed = check(journal)
    assert (crashed.reason, crashed.fix) == (Reason.ERROR, "sudo nftop recover")
    assert wording(notice(journal), tmp_path) == snapshot
    journal.record(ONE, "kept")
    journal.forget()
    assert notice(journal) == ""
    assert check(journal).text == snapshot
    (journal.folder / "history.jsonl").write_text("nonsense\n")
    assert "is damaged" in check(journal).text
    journal.folder.chmod(0o755)
    assert wording(notice(journal), journal.folder) == snapshot


def test_an_unreadable_journal_is_reported_by_doctor_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(FileJournal, "pending", refused)
    journal = FileJournal(tmp_path / "nftop")
    assert notice(journal) == ""
    assert check(journal).reason is Reason.PERMISSION


_HOLDS = """
import fcntl, os, sys
handle = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(handle, fcntl.LOCK_EX)
os.ftruncate(handle, 0)
os.write(handle, str(os.getpid()).encode())
print(flush=True)
sys.stdin.read()
"""


def test_a_change_that_this_nftop_makes_itself_is_no_news(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path / "nftop")
    with journal.hold():
        journal.begin(ONE)
    with subprocess.Popen(
        [sys.executable, "-I", "-c", _HOLDS, journal.folder / "lock"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as guard:
        assert guard.stdout is not None
        guard.stdout.readline()
        assert journal.holder() == f"pid {guard.pid}"
        assert notice(journal) == ""
        assert f"by pid {guard.pid} is under way" in check(journal).text
        guard.kill()
    assert "was cut off" in notice(journal)


def test_the_package_names_all_of_its_modules() -> None:
    folder = Path(control.__file__).parent
    present = {
        entry.stem
        for entry in folder.iterdir()
        if entry.suffix == ".py" or (entry / "__init__.py").exists()
    }
    table = str(control.__doc__).split("\n\n")[1]
    named = [word for row in table.splitlines() for word in row[:22].replace(",", " ").split()]
    assert sorted(named) == sorted(present - {"__init__"})
