"""What is under way and what was done, on disk whatever happens to who writes it."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nftop.control import journal as journal_module
from nftop.control.entry import (
    DamagedError,
    Entry,
    entry_of,
    finished,
    text_of,
)
from nftop.control.journal import BusyError, Journal
from nftop.model.action import Cell, Change

_TEXT = st.text(max_size=8)
_NAME = st.text(min_size=1, max_size=8)
_CELLS = st.one_of(
    st.builds(Cell, st.sampled_from(["group", "mode"]), _NAME),
    st.builds(Cell, st.just("monitor"), _NAME, _NAME),
    st.builds(Cell, st.just("schemata"), _TEXT, st.sampled_from(["L3", "MB"]), st.integers(0)),
    st.builds(Cell, st.just("cpu"), st.just(""), st.just(""), st.integers(0, 8191)),
)
_CHANGES = st.lists(
    st.builds(Change, _CELLS, st.none() | _TEXT, st.none() | _TEXT), max_size=4
).map(tuple)
ENTRIES = st.builds(
    Entry, st.integers(1), _TEXT, _TEXT, _TEXT, _TEXT, _CHANGES,
    st.lists(st.integers(1)).map(tuple), st.sampled_from([None, "kept", "foreign"]),
    st.dictionaries(_CELLS, _TEXT, max_size=4), st.booleans(), _CHANGES,
    st.lists(_TEXT, max_size=2).map(tuple),
)  # fmt: skip
ONE = Entry(1, "now", "boot 7:1", "root", "nftop cat set", (Change(Cell("group", "a"), None, ""),))


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "nftop")


@settings(deadline=None)
@given(ENTRIES)
def test_an_entry_is_read_as_it_was_written(entry: Entry) -> None:
    line = text_of(entry)
    assert line.count("\n") == 1
    assert entry_of("file", line) == entry


@settings(deadline=None)
@given(st.one_of(st.text(), ENTRIES.map(lambda each: text_of(each)[:-3])))
def test_what_makes_no_sense_says_which_file(text: str) -> None:
    with pytest.raises(DamagedError, match=r"^pending\.json of nftop's journal"):
        entry_of("pending.json", text)


def test_what_is_under_way_is_there_until_it_is_history(journal: Journal) -> None:
    with journal.hold():
        assert journal.pending() is None
        assert journal.next_number() == 1
        journal.begin(ONE)
        assert journal.pending() == ONE
        journal.record(ONE, "kept")
        assert journal.pending() == ONE
        journal.forget()
        assert journal.pending() is None
        assert journal.history() == (finished(ONE, "kept"),)
        assert journal.next_number() == 2


def test_a_line_that_was_cut_short_is_left_out_and_overwritten(journal: Journal) -> None:
    with journal.hold():
        journal.record(ONE, "kept")
        with (journal.folder / "history.jsonl").open("a") as file:
            file.write('{"number": 2, "ti')
        assert len(journal.history()) == 1
        journal.record(ONE, "reverted")
        assert [entry.outcome for entry in journal.history()] == ["kept", "reverted"]


@pytest.mark.parametrize("name", ["fsync", "write"])
def test_a_line_that_could_not_be_made_sure_of_is_taken_out(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    real = getattr(os, name)

    def fails(handle: int, *data: bytes) -> int:
        real(handle, *(each[:10] for each in data))
        monkeypatch.undo()
        raise OSError(errno.EIO, "Input/output error")

    with journal.hold():
        journal.record(ONE, "kept")
        monkeypatch.setattr(os, name, fails)
        with pytest.raises(OSError, match="Input/output"):
            journal.record(replace(ONE, number=2), "kept")
        text = (journal.folder / "history.jsonl").read_text()
        assert text == text_of(finished(ONE, "kept"))


def test_a_damaged_line_does_not_hide_the_others(journal: Journal) -> None:
    with journal.hold():
        journal.record(ONE, "kept")
        path = journal.folder / "history.jsonl"
        path.write_text("x" + path.read_text())
        journal.record(replace(ONE, number=2), "reverted")
        assert journal.known() == (
            (finished(replace(ONE, number=2), "reverted"),),
            (f"1 lines of {path} make no sense: move it aside",),
        )
        with pytest.raises(DamagedError, match=f"{path} of nftop's journal .* move it aside"):
            journal.history()


def test_who_only_looks_at_the_lock_is_in_nobodys_way(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, tries = fcntl.flock, list[int]()

    def held_twice(handle: int, how: int) -> None:
        tries.append(how)
        if len(tries) < 3:
            raise BlockingIOError
        real(handle, how)

    monkeypatch.setattr(journal_module, "_LOOKED_AT_S", 60.0)
    monkeypatch.setattr(fcntl, "flock", held_twice)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    with journal.hold():
        assert tries == [fcntl.LOCK_EX | fcntl.LOCK_NB] * 3


def test_it_is_closed_to_others(journal: Journal) -> None:
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


def test_a_folder_that_is_open_to_others_or_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    (tmp_path / "closed").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "closed")
    for name in ("open", "link"):
        with pytest.raises(DamagedError, match="closed to others"), Journal(tmp_path / name).hold():
            pass
    assert list((tmp_path / "closed").iterdir()) == []


@pytest.mark.parametrize("name", ["lock", "pending.json", "pending.json.new", "history.jsonl"])
def test_no_link_is_followed(journal: Journal, tmp_path: Path, name: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious\n")
    journal.folder.mkdir(mode=0o700)
    (journal.folder / name).symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links") as caught, journal.hold():
        journal.pending()
        journal.begin(ONE)
        journal.record(ONE, "kept")
    assert caught.value.errno == errno.ELOOP
    assert victim.read_text() == "precious\n"


def test_only_one_changes_the_host(journal: Journal) -> None:
    with (
        journal.hold(),
        pytest.raises(BusyError, match=f"pid {os.getpid()} is under way"),
        journal.hold(),
    ):
        pass
    assert journal.holder() == ""


def test_what_is_not_complete_says_whether_somebody_is_at_it(journal: Journal) -> None:
    assert (journal.unfinished(), journal.holder()) == ("", "")
    with journal.hold():
        assert journal.unfinished() == ""
        journal.begin(ONE)
        assert journal.holder() == f"pid {os.getpid()}"
        assert journal.unfinished().startswith(f"change 1 by pid {os.getpid()} is under way")
    assert journal.unfinished() == "change 1 was cut off: `nftop recover` takes it back"
    journal.record(ONE, "kept")
    assert journal.unfinished().startswith("change 1 is complete but not closed")
