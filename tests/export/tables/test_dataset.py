"""The folder that exports append to: each sample once, whole files, safe names."""

from __future__ import annotations

import errno
import io
import os
import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from nftop.cli.main import run
from nftop.export.tables import dataset as dataset_module
from nftop.export.tables.dataset import AppendedDay, Dataset, RecordedInterval, host_component
from nftop.export.tables.outputs import OutputsError
from nftop.export.tables.parquet import ParquetWriter
from nftop.export.tables.tables import ExportTable, fields_of
from nftop.model.frame import Frame
from nftop.model.recording_loss import RecordingLoss
from nftop.model.topology import Host
from nftop.store.format.records import Marker
from tests.frames import WALL_NS
from tests.recordings import taken

pytest.importorskip("pyarrow", reason="pyarrow is not installed")
import pyarrow as pa
import pyarrow.parquet as pq

HOSTILE = (
    "../../etc", "/etc/passwd", "..", ".", "", "a/b=c", "host=x", "-rf", "$(id)", "a\nb", "\x1b[2J",
    "naïve", "\udc80", "x" * 300, "é" * 120, "%2F", "a b", "__HIVE_DEFAULT_PARTITION__x", "0815",
)  # fmt: skip
TABLES = ("nfs", "packages", "changes", "markers")
DAY_NS = 86_400 * 10**9


@pytest.fixture(scope="module")
def frames() -> tuple[Frame, ...]:
    return taken(4, cpus=6).frames


def at(frame: Frame, second: float, host: str = "edge") -> Frame:
    """The frame at another time of 2026-01-01."""
    wall_ns = WALL_NS + round(second * 1e9)
    return replace(frame, wall_ns=wall_ns, host=replace(frame.host, name=host))


def append(
    folder: Path, frames: Sequence[Frame], *, began_ns: int = 7, tables: Sequence[str] = TABLES
) -> tuple[AppendedDay, ...]:
    dataset = opened(folder, frames, began_ns=began_ns, tables=tables)
    for number, frame in enumerate(frames):
        dataset.tick(number, frame)
    return dataset.close()


def opened(
    folder: Path, frames: Sequence[Frame], *, began_ns: int = 7, tables: Sequence[str] = TABLES
) -> Dataset:
    times = [frame.wall_ns for frame in frames]
    interval = RecordedInterval(frames[0].host, began_ns, min(times), max(times))
    return Dataset(folder, tables, owner=None, interval=interval)


def times_of(path: Path) -> list[int]:
    """Wall clock of each row, in ns."""
    result: list[int] = pq.read_table(path)["time"].cast(pa.int64()).to_pylist()
    return result


def seconds(folder: Path, table: str = "packages") -> list[float]:
    """Times of the rows, each once, by file."""
    paths = sorted((folder / table).rglob("*.parquet"))
    return [
        (wall_ns - WALL_NS) / 1e9 for path in paths for wall_ns in dict.fromkeys(times_of(path))
    ]


def test_an_export_is_appended_once_however_often(
    tmp_path: Path, frames: tuple[Frame, ...]
) -> None:
    some = [at(frames[3], second) for second in (0, 1, 2)]
    (first,) = append(tmp_path, some)
    contents = {path: path.read_bytes() for path in tmp_path.rglob("*.parquet")}
    (again,) = append(tmp_path, some)
    assert contents == {path: path.read_bytes() for path in tmp_path.rglob("*.parquet")}
    assert (first.host, first.day, first.replaced) == ("edge", date(2026, 1, 1), False)
    assert again == replace(first, replaced=True)
    assert first.size_bytes == sum(map(len, contents.values()))
    assert first.rows == sum(pq.read_metadata(path).num_rows for path in contents)
    assert seconds(tmp_path) == [0.0, 1.0, 2.0]


def test_rows_of_the_interval_are_replaced_and_all_others_stay(
    tmp_path: Path, frames: tuple[Frame, ...]
) -> None:
    append(tmp_path, [at(frames[3], second) for second in range(6)])
    append(tmp_path, [at(frames[3], second) for second in (2, 3.5)])
    assert seconds(tmp_path) == [0.0, 1.0, 2.0, 3.5, 4.0, 5.0]
    append(tmp_path, [at(frames[3], second) for second in (8, 9)])
    assert seconds(tmp_path) == [0.0, 1.0, 2.0, 3.5, 4.0, 5.0, 8.0, 9.0]
    assert len([*tmp_path.rglob("packages/**/*.parquet")]) == 1


def test_rows_that_are_no_longer_computed_go(tmp_path: Path, frames: tuple[Frame, ...]) -> None:
    """As those of network functions that a newer nftop does not see."""
    append(tmp_path, [at(frames[3], second) for second in range(4)])
    bare = [replace(at(frames[3], second), nfs=()) for second in (1, 2)]
    append(tmp_path, bare)
    times = {time for path in (tmp_path / "nfs").rglob("*.parquet") for time in times_of(path)}
    assert times == {WALL_NS, WALL_NS + 3 * 10**9}


@pytest.mark.parametrize(
    ("read", "lost", "kept"),
    [
        ((0, 1, 4, 5), (4,), {2, 3}),  # in the middle
        ((0, 1), (1,), {2, 3, 4, 5}),  # at the end
        ((3, 4, 5), (3,), {0, 1, 2}),  # at the begin
        ((0, 3, 5), (3, 3, 5), {1, 2, 4}),
        ((), (5,), {0, 1, 2, 3, 4, 5}),
    ],
)
def test_rows_of_lost_ticks_stay(
    tmp_path: Path,
    frames: tuple[Frame, ...],
    read: Sequence[int],
    lost: Sequence[int],
    kept: set[int],
) -> None:
    """A damaged copy of a recording replaces what it has, and takes away nothing."""
    whole = [at(frames[3], second) for second in range(6)]
    append(tmp_path, whole)
    note = Marker("marker", WALL_NS + 25 * 10**8, 0, "note", {})
    for _ in range(2):
        dataset = opened(tmp_path, whole)
        for second in read:
            dataset.tick(second, replace(whole[second], nfs=()))
        dataset.marker(note)
        dataset.losses([(WALL_NS + at_s * 10**9, RecordingLoss(1, 9, "bad")) for at_s in lost])
        dataset.close()
    assert sorted(seconds(tmp_path)) == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert set(seconds(tmp_path, "nfs")) == kept
    (marked,) = (tmp_path / "markers").rglob("*.parquet")
    assert times_of(marked) == [note.wall_ns]
    append(tmp_path, whole)
    assert sorted(seconds(tmp_path, "nfs")) == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_a_gap_is_what_no_copy_has(tmp_path: Path, frames: tuple[Frame, ...]) -> None:
    """A damaged copy that is appended after the whole recording adds none."""
    whole, tables = [at(frames[3], second) for second in range(6)], (*TABLES, "gaps")

    def damaged(folder: Path, read: Sequence[int], lost: int) -> list[Path]:
        dataset = opened(folder, whole, tables=tables)
        for second in read:
            dataset.tick(second, whole[second])
        dataset.losses([(WALL_NS + lost * 10**9, RecordingLoss(None, 9, "bad"))])
        dataset.close()
        return [*(folder / "gaps").rglob("*.parquet")]

    append(tmp_path / "after", whole, tables=tables)
    assert damaged(tmp_path / "after", (0, 1, 4, 5), 4) == []
    assert damaged(tmp_path / "after", (0, 1, 2), 2) == []
    assert len(damaged(tmp_path / "alone", (0, 1, 4, 5), 4)) == 1
    append(tmp_path / "part", [*whole[:3]], tables=tables)
    assert len(damaged(tmp_path / "part", (0, 1, 4, 5), 4)) == 1


def test_rows_and_bytes_are_those_of_the_files(tmp_path: Path, frames: tuple[Frame, ...]) -> None:
    some = [at(frames[3], second) for second in range(4)]
    append(tmp_path, some[:2])
    (day,) = append(tmp_path, some[2:])
    files = [*tmp_path.rglob("*.parquet")]
    assert day.rows == sum(pq.read_metadata(path).num_rows for path in files)
    assert day.size_bytes == sum(path.stat().st_size for path in files)
    assert not day.replaced, "the former rows are there still"
    assert append(tmp_path, some[1:2])[0].replaced


def test_another_recording_of_the_host_is_another_file(
    tmp_path: Path, frames: tuple[Frame, ...]
) -> None:
    append(tmp_path, [at(frames[3], 0)])
    append(tmp_path, [at(frames[3], 5)], began_ns=8)
    assert sorted(seconds(tmp_path)) == [0.0, 5.0]
    assert len({path.name for path in tmp_path.rglob("*.parquet")}) == 2


def test_days_and_hosts_are_folders(tmp_path: Path, frames: tuple[Frame, ...]) -> None:
    some = [at(frames[3], 0), at(frames[3], 86_400 * 1.5), at(frames[3], 1, "other")]
    dataset = opened(tmp_path, some)
    for number, frame in enumerate(some):
        dataset.tick(number, frame)
    dataset.marker(Marker("marker", WALL_NS + DAY_NS, 0, "note", {}))
    days = dataset.close()
    assert [(day.host, str(day.day)) for day in days] == [
        ("edge", "2026-01-01"),
        ("edge", "2026-01-02"),
        ("other", "2026-01-01"),
    ]
    (marked,) = (tmp_path / "markers").rglob("*.parquet")
    assert marked.parts[-3:-1] == ("host=edge", "day=2026-01-02")


def test_nothing_changes_until_all_is_written(
    tmp_path: Path, frames: tuple[Frame, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    append(tmp_path, [at(frames[3], 0)])
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    dataset = opened(tmp_path, [at(frames[3], 0), at(frames[3], 1)])
    dataset.tick(0, at(frames[3], 1))
    assert all(path.read_bytes() == text for path, text in before.items())
    assert len(list(tmp_path.rglob("*.tmp"))) == 2
    dataset.discard()
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == before.keys()

    def full(_: int) -> None:
        raise OSError(28, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    dataset = opened(tmp_path, [at(frames[3], 0)])
    dataset.tick(0, at(frames[3], 0))
    with pytest.raises(OutputsError, match=os.strerror(errno.ENOSPC)):
        dataset.close()
    dataset.discard()
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_file_that_is_not_ours_is_not_replaced(tmp_path: Path, frames: tuple[Frame, ...]) -> None:
    append(tmp_path, [at(frames[3], 0)], tables=("nfs",))
    (path,) = tmp_path.rglob("*.parquet")
    path.write_bytes(b"no Parquet")
    dataset = opened(tmp_path, [at(frames[3], 0)], tables=("nfs",))
    dataset.tick(0, at(frames[3], 0))
    with pytest.raises(OutputsError, match="not one of this table"):
        dataset.close()
    dataset.discard()
    assert path.read_bytes() == b"no Parquet" and not list(tmp_path.rglob("*.tmp"))


def test_columns_of_another_version_are_null(tmp_path: Path, frames: tuple[Frame, ...]) -> None:
    append(tmp_path, [at(frames[3], 0)], tables=("packages",))
    (path,) = tmp_path.rglob("*.parquet")
    older = pq.read_table(path).drop_columns(["missing"])
    older = older.append_column("gone", pa.array([1.0] * len(older)))
    pq.write_table(older, path)
    append(tmp_path, [at(frames[3], 5)], tables=("packages",))
    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    assert [(row["gone"], row["missing"] is None) for row in rows[:: len(rows) - 1]] == [
        (1.0, True),
        (None, False),
    ]


def test_exports_of_one_recording_at_the_same_time_lose_no_row(
    tmp_path: Path, frames: tuple[Frame, ...]
) -> None:
    threads = [
        threading.Thread(target=append, args=(tmp_path, [at(frames[3], second)]))
        for second in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seconds(tmp_path)) == [0.0, 1.0, 2.0, 3.0]


def test_a_lock_that_is_held_is_an_error(
    tmp_path: Path, frames: tuple[Frame, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dataset_module, "LOCKED_S", 0.2)
    first = opened(tmp_path, [at(frames[3], 0)])
    first._lock()
    second = opened(tmp_path, [at(frames[3], 1)])
    second.tick(0, at(frames[3], 1))
    with pytest.raises(OutputsError, match=r"held its lock for 0\.2 s"):
        second.close()
    second.discard()
    assert not [*tmp_path.rglob("*.parquet")] and not [*tmp_path.rglob("*.tmp")]
    first.discard()
    append(tmp_path, [at(frames[3], 1)])
    assert seconds(tmp_path) == [1.0]


def test_what_another_export_writes_meanwhile_is_replaced_too(
    tmp_path: Path, frames: tuple[Frame, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An export without network functions waits for one of the same interval that has them."""
    rows = [at(frames[3], second) for second in (0, 1)]
    bare = [replace(frame, nfs=()) for frame in rows]
    late = opened(tmp_path, bare)
    for number, frame in enumerate(bare):
        late.tick(number, frame)
    monkeypatch.setattr(late, "_lock", lambda: append(tmp_path, rows))
    late.close()
    assert {
        time for path in (tmp_path / "nfs").rglob("*.parquet") for time in times_of(path)
    } == set()
    assert seconds(tmp_path) == [0.0, 1.0]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_one_folder(name: str, tmp_path: Path, frames: tuple[Frame, ...]) -> None:
    component = host_component(name)
    assert component.isascii() and component.isprintable() and "/" not in component
    assert len(component) <= 255 and component.startswith("host=") and len(component) > 5
    append(tmp_path / "history", [at(frames[3], 0, name)], tables=("packages",))
    (path,) = tmp_path.rglob("*.parquet")
    assert path.relative_to(tmp_path).parts[:3] == ("history", "packages", component)
    shown = name.encode("utf-8", "replace").decode()
    assert pq.read_table(path)["host"][0].as_py() == shown
    if name and len(name) < 100:
        assert unquote(component.removeprefix("host=")) == shown


def test_names_stay_apart() -> None:
    assert len({host_component(name) for name in HOSTILE}) == len(HOSTILE)
    assert host_component("x" * 300) != host_component("x" * 301)


def test_a_database_reads_the_name_from_the_folder(
    tmp_path: Path, frames: tuple[Frame, ...]
) -> None:
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    names = [name for name in HOSTILE if name and len(name) < 100 and name.isprintable()]
    for began_ns, name in enumerate(names):
        append(tmp_path, [at(frames[3], 0, name)], began_ns=began_ns, tables=("packages",))
    pattern = tmp_path / "packages" / "*" / "*" / "*.parquet"
    rows = duckdb.execute(
        f"select distinct host, day from read_parquet('{pattern}', hive_partitioning = true, "
        "hive_types = {'host': varchar, 'day': date})"
    ).fetchall()
    assert {row[0] for row in rows} == set(names) and {row[1] for row in rows} == {date(2026, 1, 1)}


def test_links_are_replaced_and_not_written_through(
    tmp_path: Path, frames: tuple[Frame, ...]
) -> None:
    append(tmp_path, [at(frames[3], 0)], tables=("packages",))
    (path,) = tmp_path.rglob("*.parquet")
    other = tmp_path / "other"
    path.rename(other)
    text = other.read_bytes()
    path.symlink_to(other)
    dataset = opened(tmp_path, [at(frames[3], 0)], tables=("packages",))
    dataset.tick(0, at(frames[3], 0))
    with pytest.raises(OutputsError):
        dataset.close()
    dataset.discard()
    assert other.read_bytes() == text and path.is_symlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_root_does_not_follow_another_users_link(tmp_path: Path, frames: tuple[Frame, ...]) -> None:
    target = tmp_path / "target"
    target.mkdir()
    theirs = tmp_path / "history" / "packages"
    theirs.mkdir(parents=True)
    (theirs / "host=edge").symlink_to(target)
    for path in (theirs.parent, theirs, theirs / "host=edge"):
        os.chown(path, 65534, 65534, follow_symlinks=False)
    dataset = opened(tmp_path / "history", [at(frames[3], 0)], tables=("packages",))
    with pytest.raises(OutputsError, match="not followed as root"):
        dataset.tick(0, at(frames[3], 0))
    dataset.discard()
    assert list(target.iterdir()) == []


def test_only_parquet_is_appended_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--partition", "host,day", "-o", str(tmp_path / "new"))
    assert run(("export", "none.nftop", "--format", "csv", *options)) == 2
    assert "only --format parquet" in capsys.readouterr().err
    assert run(("export", "x", "--format", "csv", "--table", "nfs,rates", "-o", "new")) == 2
    assert "'rates'" in capsys.readouterr().err


def test_an_id_is_of_a_recording_and_its_host() -> None:
    ids = {
        RecordedInterval(Host(name, "", "SKX"), began_ns, 0, 1).stem
        for name in ("a", "b")
        for began_ns in (1, 2)
    }
    assert len(ids) == 4 and all(item.startswith("part-19700101T000000Z-") for item in ids)


def test_a_wide_table_is_written_before_it_takes_much_memory() -> None:
    """A recording of 430 KB with others in each tick took 500 MiB: 65,536 rows were held."""
    columns = [f"c{number}" for number in range(100)]
    file = io.BytesIO()
    writer = ParquetWriter("nfs", ExportTable(fields_of("int", " ".join(columns))), file)
    for _ in range(22):
        writer.write([[0] * 1000 for _ in columns])
    writer.close()
    groups = pq.ParquetFile(io.BytesIO(file.getvalue())).metadata
    assert groups.num_rows == 22_000
    assert max(groups.row_group(at).num_rows for at in range(groups.num_row_groups)) == 11_000
