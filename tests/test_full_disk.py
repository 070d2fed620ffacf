"""A disk that is full: nothing is half written, what was there stays, and it goes on once freed.

Recordings in real time and of findings: `tests/store/recording/test_sink.py` and
`tests/session/test_finding_recorder.py`.
"""

from __future__ import annotations

import copy
import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from nftop.control.journal import FileJournal
from nftop.control.recovery import recover, revert
from nftop.control.transaction import apply, keep
from nftop.model.change import Receipt
from nftop.model.rule_settings import RuleSetting, RuleSettings
from nftop.store.user.chosen_columns import columns_file
from nftop.store.user.rules import rules_file
from tests.command import called
from tests.control.hosts import Disk, memory
from tests.control.test_crash import CHANGES, REQUESTED, furnished, whole, wish
from tests.control.worlds import planned
from tests.disks import PAGE, SmallDisk, small_disk
from tests.recordings import everything, taken

KINDS = ("masks", "cpus", "a new group", "a removed group")
# Pages that are free: none, then so many that each write in turn is the one that fails.
ROOMS = range(5)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("kept", [True, False])
def test_a_change_is_whole_or_absent_whenever_the_disk_is_full(
    name: str, tmp_path: Path, *, kept: bool
) -> None:
    """Full before the change, and full while it waits to be kept, with some pages left."""
    outcomes = set[str]()
    with small_disk(tmp_path, 64 * PAGE) as disk:
        for room in ROOMS:
            for when in ("before", "between"):
                journal = FileJournal(disk.folder / f"{name}-{room}-{when}")
                outcomes.add(_one(disk, journal, name, room, when=when, kept=kept))
    assert outcomes >= {"nothing", "kept" if kept else "reverted"}


def _one(
    disk: SmallDisk, journal: FileJournal, name: str, room: int, *, when: str, kept: bool
) -> str:
    """One change on a disk with so much room; how it ended."""
    disk.free()
    host, proposal = furnished("7.2", name), wish(name, "7.2")
    before = whole(host)
    goal_host = copy.deepcopy(host)
    scratch = memory(Disk())
    _, goal_entry = apply(goal_host, scratch, proposal, REQUESTED)
    assert goal_entry is not None
    keep(goal_host, scratch, goal_entry)
    goal = whole(goal_host)
    if when == "before":
        disk.fill(room)
    receipt: Receipt | None = None
    try:
        with journal.hold():
            receipt, entry = apply(host, journal, proposal, REQUESTED)
            if entry is not None:
                if when == "between":
                    disk.fill(room)
                receipt = (keep if kept else revert)(host, journal, entry)
    except OSError:
        assert host.writes == 0, "it was refused before anything was written"
        assert whole(host) == before
        return "nothing"
    disk.free()
    recovered = recover(host, journal)
    assert journal.pending() is None
    present = whole(host)
    outcomes = [item.outcome for item in journal.history()]
    assert present == (goal if outcomes == ["kept"] else before), (receipt, recovered)
    assert receipt is not None
    if receipt.outcome == "kept":
        assert outcomes == ["kept"]
    # The journal takes the next change.
    if present == before:
        _, entry = apply(host, journal, planned(host, CHANGES[name]), REQUESTED)
        assert entry is not None
        assert revert(host, journal, entry).outcome == "reverted"
    return str(outcomes[0]) if outcomes else "nothing"


def test_changes_fill_the_disk_and_none_is_half_done(tmp_path: Path) -> None:
    """The history grows until it does not fit; nothing of it is lost."""
    with small_disk(tmp_path, 16 * PAGE) as disk:
        journal = FileJournal(disk.folder / "journal")
        host, count = furnished("7.2", "masks"), 0
        before = whole(host)
        while True:
            try:
                with journal.hold():
                    receipt, entry = apply(host, journal, wish("masks", "7.2"), REQUESTED)
                    if entry is None:
                        break
                    receipt = revert(host, journal, entry)
            except OSError:
                break
            count += receipt.outcome == "reverted"
            assert count < 1000
            if journal.pending() is not None:
                break
        assert count > 3
        disk.free()
        grown = journal.history()
        assert len(grown) in (count, count + 1)
        recover(host, journal)
        assert whole(host) == before


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recording") / "edge.nftop"
    path.write_bytes(taken(40, cpus=4).data)
    return path


@pytest.mark.parametrize(
    "words",
    [
        ("export", "{recording}", "--format", "csv", "-o", "{disk}/out"),
        ("export", "{recording}", "--format", "jsonl", "-o", "{disk}/out"),
        ("export", "{recording}", "--format", "parquet", "-o", "{disk}/out"),
        ("export", "{recording}", "--format", "csv", "--table", "cpus", "-o", "{disk}/cpus.csv"),
        ("export", "{recording}", "--format", "parquet", "--partition", "host,day", "-o",
         "{disk}/out"),
        ("report", "{recording}", "-o", "{disk}/report.html"),
    ],
    ids=["csv", "jsonl", "parquet", "one table", "dataset", "report"],
)  # fmt: skip
def test_an_export_that_does_not_fit_reports_it_and_leaves_nothing(
    words: tuple[str, ...], recording: Path, tmp_path: Path
) -> None:
    with small_disk(tmp_path, 2048 * PAGE) as disk:
        own = disk.folder / "own.csv"
        own.write_text("mine")
        command = [word.format(recording=recording, disk=disk.folder) for word in words]
        for room in (0, 2, 6):
            disk.fill(room)
            done = called(*command)
            assert done.returncode == 1, (room, done.stdout, done.stderr)
            assert f"{disk.folder}/" in done.stderr and os.strerror(errno.ENOSPC) in done.stderr
            assert len(done.stderr.splitlines()) == 1
            files = [path for path in disk.folder.rglob("*") if path.is_file()]
            assert sorted(path.name for path in files) == ["ballast", "own.csv"]
            assert own.read_text() == "mine"
            disk.free()
        done = called(*command)
        assert done.returncode == 0, done.stderr


def test_the_message_on_a_full_disk_names_the_file(tmp_path: Path) -> None:
    """A failed write has no name of its own: of a profile, a footprint's recording, the journal."""
    with small_disk(tmp_path, 64 * PAGE) as disk:
        journal = FileJournal(disk.folder / "journal")
        with journal.hold():
            disk.fill(0)
            with pytest.raises(OSError, match="No space left") as error:
                apply(furnished("7.2", "masks"), journal, wish("masks", "7.2"), REQUESTED)
        assert str(error.value.filename).startswith(f"{disk.folder}/journal/")
        path = disk.folder / "classes.toml"
        done = called("demo", "cat", "export", "-o", str(path))
        assert (done.returncode, done.stderr) == (1, f"nftop: {path}: No space left on device\n")
        assert not path.exists()
        path = disk.folder / "footprint.nftop"
        done = called("demo", "cat", "footprint", "--yes", "-o", str(path))
        assert str(path) in done.stderr and "No space left on device" in done.stderr


def test_a_dataset_keeps_what_it_has(recording: Path, tmp_path: Path) -> None:
    """Another recording does not fit: readers see the files of before, whole."""
    other = tmp_path / "other.nftop"
    other.write_bytes(taken(40, cpus=4, began_ns=2).data)
    words = ("--format", "parquet", "--partition", "host,day", "-o")
    with small_disk(tmp_path, 2048 * PAGE) as disk:
        folder = str(disk.folder / "history")
        assert called("export", str(recording), *words, folder).returncode == 0
        files = {path: path.read_bytes() for path in Path(folder).rglob("*.parquet")}
        assert files
        disk.fill(1)
        assert called("export", str(other), *words, folder).returncode == 1
        assert {path: path.read_bytes() for path in Path(folder).rglob("*.parquet")} == files
        disk.free()
        assert called("export", str(other), *words, folder).returncode == 0
        assert len(list(Path(folder).rglob("*.parquet"))) > len(files)


def test_a_recording_command_reports_what_it_lost(tmp_path: Path) -> None:
    with small_disk(tmp_path, 64 * PAGE) as disk:
        path = disk.folder / "edge.nftop"
        disk.fill(4)
        done = called("demo", "record", "-o", str(path), "-d", "0.1", "--duration", "3")
        assert done.returncode != 0
        assert os.strerror(errno.ENOSPC) in done.stderr
        ticks = everything(path)[0] if path.exists() else []
        assert path.exists() or not ticks
        disk.fill(0)
        done = called("demo", "record", "-o", str(disk.folder / "b.nftop"), "--duration", "1")
        assert done.returncode != 0
        assert disk.names() <= {"edge.nftop"}


def _save_rules(environ: dict[str, str], value: float) -> None:
    rules_file(environ).save(RuleSettings((RuleSetting("low-ipc", limit=value),)))


def _save_columns(environ: dict[str, str], value: float) -> None:
    columns_file(environ).keep({"cores": ("cpu", "ipc") if value < 1 else ("cpu", "cpp")})


@pytest.mark.parametrize("save", [_save_rules, _save_columns])
def test_settings_of_before_stay_where_new_ones_do_not_fit(
    save: Callable[[dict[str, str], float], None], tmp_path: Path
) -> None:
    with small_disk(tmp_path, 64 * PAGE) as disk:
        environ = {"XDG_CONFIG_HOME": str(disk.folder), "HOME": str(disk.folder)}
        save(environ, 0.5)
        [path] = [item for item in disk.folder.rglob("*") if item.is_file()]
        before = path.read_bytes()
        disk.fill(0)
        with pytest.raises(OSError, match="No space left") as error:
            save(environ, 1.5)
        assert error.value.filename == str(path)
        assert path.read_bytes() == before
        assert [item.name for item in path.parent.iterdir() if item.is_file()] == [
            *(["ballast"] if path.parent == disk.folder else []),
            path.name,
        ]
        disk.free()
        save(environ, 1.5)
        assert path.read_bytes() != before
