"""What is under way and what was done, on disk whatever happens to who writes it."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from nftop.control import journal as journal_module
from nftop.control.journal import BusyError, FileJournal, next_number, unfinished
from nftop.control.journal_damage import DamagedJournalError
from nftop.control.journal_entry import SHA256_OF_NOTHING, Entry, entry_of, finished, text_of
from nftop.model.change import Cell, Change

_TEXT = st.text(max_size=8)


def test_the_checksum_of_nothing_is_that_of_nothing() -> None:
    assert hashlib.sha256().hexdigest() == SHA256_OF_NOTHING


_NAME = st.text(min_size=1, max_size=8)
_NUMBERS = st.integers(0, 2**31 - 1)
_DECIMALS = st.integers(0, 2**60).map(str)
_NONE = st.just("")


def _cells(
    kind: str,
    group: st.SearchStrategy[str] = _NONE,
    name: st.SearchStrategy[str] = _NONE,
    number: st.SearchStrategy[int] = st.just(-1),  # noqa: B008 - a strategy is never changed
) -> st.SearchStrategy[Cell]:
    return st.builds(Cell, st.just(kind), group, name, number)


# Cells of every kind with a value that they can have.
_CELL_VALUES = st.one_of(
    st.tuples(_cells("group", _NAME), _DECIMALS),
    st.tuples(_cells("monitor", _NAME, _NAME), _DECIMALS),
    st.tuples(_cells("mode", _NAME), _TEXT),
    st.tuples(
        _cells("schemata", _TEXT, st.sampled_from(["L3", "L2CODE"]), _NUMBERS),
        st.integers(0, 2**32).map("{:x}".format),
    ),
    st.tuples(_cells("schemata", _TEXT, st.just("MB"), _NUMBERS), _DECIMALS),
    st.tuples(_cells("cpu", number=_NUMBERS), _TEXT),
    st.tuples(st.just(Cell("task", "", "12@345")), _TEXT),
    st.tuples(st.just(Cell("min_khz", "", "1-2", 1)), _DECIMALS),
    st.tuples(st.just(Cell("epp", "", "1", 1)), st.just("balance_power")),
    st.tuples(st.just(Cell("bf", "", "0.1@2", 0)), st.sampled_from(["on", "off"])),
    st.tuples(_cells("cp_class", number=_NUMBERS), st.sampled_from("0123")),
)
_STATES = st.lists(_CELL_VALUES, max_size=4).map(dict)
_CHANGES = st.lists(
    st.builds(
        lambda row, old, new: Change(row[0], row[1] if old else None, row[1] if new else None),
        _CELL_VALUES,
        st.booleans(),
        st.booleans(),
    ),
    max_size=4,
).map(tuple)
ENTRIES = st.builds(
    Entry,
    st.integers(1, 2**53),
    _TEXT,
    _TEXT,
    _TEXT,
    _TEXT,
    _CHANGES,
    st.lists(st.integers(1, 2**53)).map(tuple),
    st.sampled_from([None, "kept", "overwritten"]),
    _STATES,
    st.booleans(),
    _CHANGES,
    st.lists(_TEXT, max_size=2).map(tuple),
    _STATES,
    st.lists(st.integers(1, 2**53)).map(tuple),
    st.booleans(),
    _STATES.map(tuple),
    st.booleans(),
)
ONE = Entry(1, "now", "boot 7:1", "root", "nftop cat set", (Change(Cell("group", "a"), None, ""),))


@pytest.fixture
def journal(tmp_path: Path) -> FileJournal:
    return FileJournal(tmp_path / "nftop")


@settings(deadline=None)
@given(ENTRIES)
def test_an_entry_is_read_as_it_was_written(entry: Entry) -> None:
    line = text_of(entry)
    assert line.count("\n") == 1
    assert entry_of("file", line) == entry


@settings(deadline=None)
@given(st.one_of(st.text(), ENTRIES.map(lambda entry: text_of(entry)[:-3])))
def test_what_makes_no_sense_reports_which_file(text: str) -> None:
    with pytest.raises(DamagedJournalError, match=r"^pending\.json of nftop's journal") as caught:
        entry_of("pending.json", text)
    assert caught.value.reason in ("syntax", "checksum", "member", "number")


@pytest.mark.parametrize(
    ("cell", "may_be_unknown"),
    [
        (Cell("group", "a"), True),
        (Cell("monitor", "a", "b"), True),
        (Cell("epp", "", "1", 1), True),
        (Cell("io_cbm", "", "L3", 0), True),
        (Cell("io_alloc", "", "L3"), False),
        (Cell("schemata", "a", "L3", 0), False),
        (Cell("schemata", "a", "MB", 0), False),
        (Cell("min_khz", "", "1", 1), False),
        (Cell("governor", "", "1", 1), False),
        (Cell("bf", "", "0.1@2", 0), False),
        (Cell("cp_class", "", "", 0), False),
    ],
)
def test_a_value_is_empty_only_where_the_kernel_chooses_it(
    cell: Cell, may_be_unknown: bool
) -> None:
    line = text_of(replace(ONE, base={cell: ""}))
    if may_be_unknown:
        assert entry_of("file", line).base == {cell: ""}
    else:
        with pytest.raises(DamagedJournalError) as caught:
            entry_of("file", line)
        assert caught.value.reason == "value"


def test_what_is_under_way_is_present_until_it_is_history(journal: FileJournal) -> None:
    with journal.hold():
        assert journal.pending() is None
        assert next_number(journal) == 1
        journal.begin(ONE)
        assert journal.pending() == ONE
        journal.record(ONE, "kept")
        assert journal.pending() == ONE
        journal.forget()
        assert journal.pending() is None
        assert journal.history() == (finished(ONE, "kept"),)
        assert next_number(journal) == 2


def test_a_line_that_was_cut_short_is_left_out_and_overwritten(journal: FileJournal) -> None:
    with journal.hold():
        journal.record(ONE, "kept")
        with (journal.folder / "history.jsonl").open("a") as file:
            file.write('{"number": 2, "ti')
        assert len(journal.history()) == 1
        journal.record(ONE, "reverted")
        assert [entry.outcome for entry in journal.history()] == ["kept", "reverted"]


@pytest.mark.parametrize("name", ["fsync", "write"])
def test_a_line_that_could_not_be_synced_is_taken_out(
    journal: FileJournal, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    real = getattr(os, name)

    def fails(handle: int, *data: bytes) -> int:
        real(handle, *(item[:10] for item in data))
        monkeypatch.undo()
        raise OSError(errno.EIO, "Input/output error")

    with journal.hold():
        journal.record(ONE, "kept")
        monkeypatch.setattr(os, name, fails)
        with pytest.raises(OSError, match="Input/output"):
            journal.record(replace(ONE, number=2), "kept")
        text = (journal.folder / "history.jsonl").read_text()
        assert text == text_of(finished(ONE, "kept"))


def test_a_damaged_line_does_not_hide_the_others(journal: FileJournal) -> None:
    with journal.hold():
        journal.record(ONE, "kept")
        path = journal.folder / "history.jsonl"
        path.write_text("x" + path.read_text())
        journal.record(replace(ONE, number=2), "reverted")
        entries, sentences = journal.known()
        assert entries == (finished(replace(ONE, number=2), "reverted"),)
        assert [sentence.split(" of nftop")[0] for sentence in sentences] == [f"line 1 of {path}"]
        with pytest.raises(
            DamagedJournalError, match=f"line 1 of {path} of nftop's journal"
        ) as caught:
            journal.history()
        assert any("sudo sed -i 1d " in detail for detail in caught.value.details)


def test_probing_the_lock_blocks_nobody(
    journal: FileJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, tries = fcntl.flock, list[int]()

    def held_twice(handle: int, how: int) -> None:
        tries.append(how)
        if len(tries) < 3:
            raise BlockingIOError
        real(handle, how)

    monkeypatch.setattr(journal_module, "_CHECKED_AT_S", 60.0)
    monkeypatch.setattr(fcntl, "flock", held_twice)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    with journal.hold():
        assert tries == [fcntl.LOCK_EX | fcntl.LOCK_NB] * 3


def test_it_is_closed_to_others(journal: FileJournal) -> None:
    before = os.umask(0)
    try:
        with journal.hold():
            journal.begin(ONE)
            journal.record(ONE, "kept")
    finally:
        os.umask(before)
    assert journal.folder.stat().st_mode & 0o777 == 0o700
    for path in journal.folder.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("open", r"is open to others \(755\); look at what it has, chmod 700 /"),
        ("link", "is no folder; move it aside"),
        ("nowhere", "is no folder; move it aside"),
        ("file", "is no folder; move it aside"),
    ],
)
def test_a_folder_that_others_may_have_written_to_is_not_believed(
    tmp_path: Path, name: str, why: str
) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    (tmp_path / "closed").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "closed")
    (tmp_path / "nowhere").symlink_to(tmp_path / "nobody")
    (tmp_path / "file").write_text("")
    journal = FileJournal(tmp_path / name)
    for read in (journal.pending, journal.history, journal.known, journal.holder):
        with pytest.raises(DamagedJournalError, match=f"can't be read: {journal.folder} {why}"):
            read()
    with pytest.raises(DamagedJournalError, match=why), journal.hold():
        pass
    assert list((tmp_path / "closed").iterdir()) == []


def test_a_folder_of_another_user_is_not_believed(
    journal: FileJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.folder.mkdir(mode=0o700)
    assert journal.history() == ()
    monkeypatch.setattr(journal_module, "_ROOT", os.getuid() + 1)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(DamagedJournalError, match=f"is user {os.getuid()}'s; look at what it has"):
        journal.history()


@pytest.mark.parametrize("name", ["lock", "pending.json", "pending.json.new", "history.jsonl"])
def test_no_link_is_followed(journal: FileJournal, tmp_path: Path, name: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious\n")
    journal.folder.mkdir(mode=0o700)
    (journal.folder / name).symlink_to(victim)
    with pytest.raises((OSError, DamagedJournalError)) as caught, journal.hold():
        journal.pending()
        journal.begin(ONE)
        journal.record(ONE, "kept")
    if isinstance(caught.value, DamagedJournalError):
        assert caught.value.reason == "type"
    else:
        assert isinstance(caught.value, OSError)
        assert caught.value.errno == errno.ELOOP
    assert victim.read_text() == "precious\n"


def test_only_one_changes_the_host(journal: FileJournal) -> None:
    with (
        journal.hold(),
        pytest.raises(BusyError, match=f"pid {os.getpid()} is under way"),
        journal.hold(),
    ):
        pass
    assert journal.holder() == ""


def test_what_is_not_complete_reports_whether_somebody_is_at_it(
    journal: FileJournal, snapshot: SnapshotAssertion
) -> None:
    assert (unfinished(journal), journal.holder()) == ("", "")
    with journal.hold():
        assert unfinished(journal) == ""
        journal.begin(ONE)
        assert journal.holder() == f"pid {os.getpid()}"
        assert unfinished(journal).startswith(f"change 1 by pid {os.getpid()} is under way")
    assert unfinished(journal) == snapshot
    journal.record(ONE, "kept")
    assert unfinished(journal) == snapshot
