"""A power cut at any moment of any kind of change, and any damage of the disk after it.

Either the host is exactly as before, or as it was to be, as the journal says; or recovery is
refused with a reason and the journal stays as it is. Never is "as before" said of another host.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from nftop.control import journal as journal_module
from nftop.control.journal import FileJournal
from nftop.control.journal_damage import DamagedJournalError
from nftop.control.recovery import RESTORED, recover
from tests.control.hosts import KilledError
from tests.control.power_cut import KINDS, Kind, TracedDisk, journal_of, torn, zeroed
from tests.control.sst_trees import in_memory
from tests.control.test_damage import HISTORY, INDEX, PENDING, flips, reading

EVERY = pytest.mark.parametrize("name", KINDS)
# One of each backend, a new group and a sweep. Entries of all kinds have the same SHA-256, which is
# compared before they are parsed; the seal with it is the end of the line.
WHOLE = ("masks", "a new group", "sweep", "frequencies", "SST-BF")
SEAL_BYTES = 90


@pytest.fixture
def folder() -> Iterator[Path]:
    with in_memory() as location:
        yield location


def built(name: str, folder: Path) -> Kind:
    location = folder / "host"
    location.mkdir()
    return KINDS[name](location)


def files(journal: FileJournal) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in journal.folder.iterdir()}


@EVERY
def test_every_flipped_bit_every_prefix_and_every_lost_block_is_refused(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a change under way, whatever its kind: nothing is written, forgotten or claimed.

    All bits of the kinds in `WHOLE`; of the others all of the seal and one of every other byte.
    """
    kind = built(name, folder)
    journal = journal_of(kind, folder / "journal")
    before, present = files(journal), kind.whole()
    data, put = before[PENDING], reading(monkeypatch, PENDING)
    sparse_bytes = 0 if name in WHOLE else len(data) - SEAL_BYTES
    damaged = [
        *flips(data, sparse_bytes),
        *(data[:length] for length in range(len(data) - 1)),
        *zeroed(data),
        bytes(len(data)),
        data + bytes(512),
    ]
    assert len(damaged) > 9 * len(data) - 7 * sparse_bytes > 1_500
    for item in damaged:
        put(item)
        with pytest.raises(DamagedJournalError) as caught:
            recover(kind.host, journal)
        assert caught.value.details
        message = " ".join((str(caught.value), *caught.value.details))
        assert RESTORED not in message and "somebody else" not in message
        path = journal.folder / PENDING
        assert f"mv {path} {path}.damaged" in message
    assert files(journal) == before and kind.whole() == present
    put(data[:-1])  # only its line feed is lost
    assert recover(kind.host, journal) is not None


@pytest.mark.parametrize("lost", [HISTORY, INDEX])
@EVERY
def test_a_damaged_history_stops_new_changes_and_no_recovery(
    name: str, lost: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is under way is restored by its own entry."""
    kind = built(name, folder)
    journal = FileJournal(folder / "journal")
    with journal.hold():
        kind.keep_first(journal)
        before = kind.whole()
        kind.begin_second(journal)
    data, put = files(journal)[lost], reading(monkeypatch, lost)
    for item in (*zeroed(data), data[: len(data) // 2], bytes(len(data))):
        put(item)
        with pytest.raises(DamagedJournalError) as caught:
            journal.history()
        assert caught.value.details
        assert journal.known()[1]
    with journal.hold():
        receipt = recover(kind.host, journal)
    assert receipt is not None and receipt.outcome == "reverted"
    assert kind.whole() == before


CUT = ("masks", "a new group", "profile", "sweep", "frequencies", "SST-BF")


@pytest.mark.parametrize("name", CUT)
def test_a_power_cut_at_any_system_call_restores_or_completes(name: str, folder: Path) -> None:
    """Whatever the disk has kept of what was not yet synced, recovery refuses none of it."""
    assert cut_everywhere(name, folder) > 60


@pytest.mark.parametrize("call", ["file", "folder"])
def test_a_journal_that_does_not_sync_is_caught(
    call: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model can fail: without either fsync a power cut loses the change or tears a file."""
    if call == "file":
        monkeypatch.setattr(journal_module, "_write", unsynced)
    else:
        monkeypatch.setattr(journal_module, "_sync", lambda _: None)
    with pytest.raises((AssertionError, DamagedJournalError)):
        cut_everywhere("masks", folder)


def unsynced(handle: int, data: bytes, _path: Path) -> None:
    """As `_write` of the journal, without its fsync."""
    vars(journal_module)["os"].write(handle, data)


def cut_everywhere(name: str, folder: Path) -> int:
    """Cut the power at every call and recover from every state of the disk; their number."""
    states = 0
    for at in itertools.count():
        number = 0
        while (cut := _cut(name, folder / f"{at}.{number}", at, number)) is not None:
            kind, journal, before, goal = cut
            with journal.hold():
                receipt = recover(kind.host, journal)
            outcomes = [entry.outcome for entry in journal.known()[0]]
            assert outcomes[:1] == ["kept"] and len(outcomes) <= 2
            if outcomes[1:] == ["kept"]:
                assert kind.whole() == goal
            else:
                assert kind.whole() == before, (at, number, receipt)
            assert receipt is None or receipt.outcome in ("reverted", "kept")
            assert journal.pending() is None
            number += 1
        states += number
        if not number:
            break
    return states


def _cut(
    name: str, folder: Path, at: int, number: int
) -> tuple[Kind, FileJournal, object, object] | None:
    """The host and the journal after a cut at call `at`, in the disk's state `number`.

    None: there are not so many. With the host's state before, and as it is to be.
    """
    folder.mkdir()
    kind, whole = built(name, folder), FileJournal(folder / "journal")
    with pytest.MonkeyPatch.context() as patch, whole.hold():
        kind.keep_first(whole)
        before = kind.whole()
        disk = TracedDisk(whole.folder, kill_at=at)
        disk.follow(patch)
        try:
            kind.session(whole)
        except KilledError:
            pass
        else:
            return None
    result = next(itertools.islice(disk.after_power_cut(), number, None), None)
    if result is None:
        return None
    result.write(folder / "after")
    return kind, FileJournal(folder / "after"), before, _goal(name)


@cache
def _goal(name: str) -> object:
    """The host's state after the whole session."""
    with in_memory() as folder:
        kind, journal = built(name, folder), FileJournal(folder / "journal")
        with journal.hold():
            kind.keep_first(journal)
            kind.session(journal)
        return kind.whole()


def test_a_torn_file_is_some_of_the_new_content_or_has_zeros() -> None:
    before, after = b"a" * 600, b"a" * 600 + b"b" * 600
    results = list(torn(before, after))
    assert before in results and after in results
    assert before + bytes(600) in results
    assert after[:601] in results and after[:-1] in results
    assert after[:600] + bytes(424) + b"b" * 176 in results
    assert all(item[:600] == before for item in results)
    assert [item.count(0) for item in zeroed(b"x" * 1100)] == [512, 512, 76]
