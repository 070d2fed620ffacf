"""What doctor says of changes."""

from __future__ import annotations

from pathlib import Path

from nftop.control.checks import check
from nftop.control.journal import Journal
from nftop.model.reading import Reason
from tests.control.test_journal import ONE


def test_doctor_tells_what_is_not_complete(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "nftop")
    assert check(journal).reason is Reason.PRESENT
    assert not journal.folder.exists()
    with journal.hold():
        journal.begin(ONE)
        busy = check(journal)
        assert (busy.reason, busy.fix) == (Reason.TAKEN, "")
    crashed = check(journal)
    assert (crashed.reason, crashed.fix) == (Reason.ERROR, "sudo nftop recover")
    journal.record(ONE, "kept")
    journal.forget()
    assert check(journal).text == "no change of cache classes is under way; 1 in the history"
    (journal.folder / "history.jsonl").write_text("nonsense\n")
    assert "makes no sense" in check(journal).text
