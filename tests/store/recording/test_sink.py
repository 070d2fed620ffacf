"""Files, pipes and disks that a recording is written to: full, slow, rotated, of which owner."""

from __future__ import annotations

import errno
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.model.recording_loss import RecordingLoss
from nftop.store.folders import Person, caller, open_folder
from nftop.store.format.encoder import Chunk, Encoder
from nftop.store.format.records import DroppedTicks
from nftop.store.format.zstd import FRAME_END
from nftop.store.history.flight import FlightRecorder
from nftop.store.reading.seekpoint import SIZE, SeekPoint, packed
from nftop.store.recording import sink
from nftop.store.recording.sink import (
    FileRotation,
    FileSink,
    Keep,
    StreamSink,
    create,
    default_file,
    remove_oldest,
    timed,
)
from tests.recordings import everything, header_of, taken
from tests.store.recording.recorders import WALL_NS, clocked, numbers, recorder, samples
from tests.waiting import until


def test_nobody_waits_for_a_disk_and_what_is_lost_is_reported(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    taking = recorder()
    go_on = threading.Event()
    file = tmp_path / "a.nftop"

    class Stuck(FileSink):
        def write(self, chunk: Any) -> None:
            go_on.wait(60)
            super().write(chunk)

    taking.start(Stuck(file))
    for _ in range(5):
        for sample in samples():
            taking.take(sample)
    go_on.set()
    until(lambda: taking._waiting == 0)
    taking.take(samples()[0])
    taking.close()
    result, ended, _ = everything(file)
    read = numbers(result)
    assert ended and len(read) < 200 and read[-1] == 200
    (loss,) = [item for item in result if isinstance(item, RecordingLoss)]
    assert loss.ticks == 201 - len(read)
    assert loss.why == snapshot


@contextmanager
def full_disk(most: int) -> Iterator[SimpleNamespace]:
    """Files take so many bytes in all, as long as `most` is so."""
    disk = SimpleNamespace(most=most, used=0)
    write = os.write

    def written(handle: int, data: bytes) -> int:
        room = disk.most - disk.used
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done = write(handle, bytes(data)[:room])
        disk.used += done
        return done

    with mock.patch("nftop.store.recording.sink.os.write", written):
        yield disk


def test_a_full_disk_is_waited_for_and_the_recording_stays_whole(tmp_path: Path) -> None:
    file = tmp_path / "a.nftop"
    now = SimpleNamespace(ns=0)
    encoder = Encoder(header_of(clocked()))
    into = FileSink(file, clock_ns=lambda: now.ns)
    with full_disk(8000) as disk:
        number = 0
        while not into.lost:
            into.write(encoder.tick(number, samples()[number]))
            number += 1
        assert into.problem == os.strerror(errno.ENOSPC)
        first_lost = number - 1
        result, ended, rest = everything(file)
        assert numbers(result) == list(range(first_lost)) and rest is None and not ended
        for _ in range(3):
            into.write(encoder.tick(number, samples()[number]))
            number += 1
        waits = not into.wants_start
        assert into.lost == 4 and waits
        now.ns += sink.RETRY_AFTER_NS
        assert into.wants_start
        disk.most = 1 << 30
        encoder.restart()
        sample = samples()[number]
        into.write(
            encoder.note(DroppedTicks(into.lost, "full"), sample.wall_ns, sample.monotonic_ns)
        )
        into.write(encoder.tick(number, sample))
        into.finish()
    result, ended, rest = everything(file)
    assert ended and rest is None
    assert numbers(result) == [*range(first_lost), number]
    assert RecordingLoss(4, 0, "full") in result
    assert (into.ticks, into.lost) == (first_lost + 1, 4)


def test_the_recorder_goes_on_by_itself_once_room_is_left(tmp_path: Path) -> None:
    file = tmp_path / "a.nftop"
    now = SimpleNamespace(ns=0)
    taking = recorder()
    with full_disk(8000) as disk:
        taking.start(FileSink(file, clock_ns=lambda: now.ns))
        for sample in samples()[:30]:
            taking.take(sample)
        until(lambda: taking._waiting == 0)
        state = taking.recording
        assert state is not None and state.problem and state.lost
        disk.most = 1 << 30
        now.ns += sink.RETRY_AFTER_NS
        for sample in samples()[30:]:
            taking.take(sample)
        done = taking.close()
    assert done is not None and done.lost == state.lost and not done.problem
    result, ended, rest = everything(file)
    (loss,) = [item for item in result if isinstance(item, RecordingLoss)]
    assert loss.ticks == state.lost and "No space left" in loss.why
    assert ended and rest is None and numbers(result)[-1] == 39


def test_every_gap_reports_what_was_lost_since_the_one_before(tmp_path: Path) -> None:
    file = tmp_path / "a.nftop"
    now = SimpleNamespace(ns=0)
    taking = recorder()
    with full_disk(1 << 30) as disk:
        taking.start(FileSink(file, clock_ns=lambda: now.ns))
        for at, sample in enumerate(samples()):
            disk.most = disk.used if 5 <= at < 15 or 20 <= at < 25 else 1 << 30
            if at in (10, 15, 25):  # at 10 the gap can't be written either
                now.ns += sink.RETRY_AFTER_NS
            taking.take(sample)
            until(lambda: taking._waiting == 0)
        taking.close()
    result, ended, rest = everything(file)
    assert [gap.ticks for gap in result if isinstance(gap, DroppedTicks)] == [10, 5]
    assert [loss.ticks for loss in result if isinstance(loss, RecordingLoss)] == [10, 5]
    assert ended and rest is None


def test_a_disk_that_does_not_answer_is_not_nothing_recorded(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    go_on = threading.Event()

    class Stuck(FileSink):
        def finish(self) -> None:
            go_on.wait(60)
            super().finish()

    file = tmp_path / "a.nftop"
    taking = recorder(FlightRecorder())
    taking.start(Stuck(file))
    taking.take(samples()[0])
    with mock.patch("nftop.store.recording.recorder._WHOLE_S", 0.01):
        until(lambda: taking._waiting == 0)
        done = taking.close()
    assert done is not None and (done.name, done.ticks) == (str(file), 1)
    assert done.problem == snapshot
    go_on.set()
    until(lambda: taking.last is not None)


def test_what_the_disk_does_not_confirm_stays_and_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "a.nftop"
    now = SimpleNamespace(ns=0)
    encoder = Encoder(header_of(clocked()))
    into = FileSink(file, clock_ns=lambda: now.ns)
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def write(number: int) -> None:
        encoder.restart()
        into.write(encoder.tick(number, samples()[number]))

    write(0)
    with mock.patch("nftop.store.recording.sink.os.fdatasync", side_effect=full):
        write(1)
        into.write(encoder.tick(2, samples()[2]))
    doubt = "the disk does not confirm what was written: No space left on device"
    assert (into.problem, into.lost, into.ticks) == (doubt, 0, 3)
    with mock.patch("nftop.store.recording.sink.os.write", side_effect=full):
        write(3)
    assert into.lost == 1
    result, ended, rest = everything(file)
    assert numbers(result) == [0, 1, 2] and rest is None and not ended
    now.ns += sink.RETRY_AFTER_NS
    write(4)
    assert not into.problem
    into.finish()
    assert numbers(everything(file)[0]) == [0, 1, 2, 4] and into.size == file.stat().st_size


def test_a_file_that_nothing_could_be_written_to_is_not_left_behind(tmp_path: Path) -> None:
    encoder = Encoder(header_of(clocked()))
    into = FileSink(tmp_path / "a.nftop", rotation=FileRotation(size=1), clock_ns=lambda: 0)
    with full_disk(1 << 30) as disk:
        into.write(encoder.tick(0, samples()[0]))
        disk.most = disk.used + SIZE + len(FRAME_END)
        encoder.restart()
        into.write(encoder.tick(1, samples()[1]))
        assert len(list(tmp_path.iterdir())) == 2 and into.lost == 1
        disk.most = 1 << 30
        into.finish()
    (file,) = tmp_path.iterdir()
    result, ended, rest = everything(file)
    assert numbers(result) == [0] and ended and rest is None


def test_an_end_that_does_not_fit_is_not_half_written(tmp_path: Path) -> None:
    file = tmp_path / "a.nftop"
    into = FileSink(file)
    with full_disk(1 << 30) as disk:
        into.write(Encoder(header_of(clocked())).tick(0, samples()[0]))
        disk.most = disk.used + 30
        into.finish()
    assert into.problem == os.strerror(errno.ENOSPC) and into.size == file.stat().st_size
    result, ended, rest = everything(file)
    assert numbers(result) == [0] and rest is None and not ended


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small tmpfs")
def test_a_real_disk_that_is_full(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=12k", "tmpfs", disk], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"can't mount a tmpfs here: {mounted.stderr.decode().strip()}")
    try:
        file = disk / "a.nftop"
        into = FileSink(file)
        encoder = Encoder(header_of(clocked()))
        for number in range(400):
            into.write(encoder.tick(number, samples()[number % 40]))
        assert into.problem == os.strerror(errno.ENOSPC) and into.lost
        result, _, rest = everything(file)
        assert numbers(result) == list(range(into.ticks)) and rest is None
        into.finish()
        assert into.ticks + into.lost == 400
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


def test_a_fault_of_the_encoder_s_ends_the_recording_and_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "a.nftop"
    taking = recorder(FlightRecorder())
    taking.start(FileSink(file))
    taking.take(samples()[0])
    until(lambda: taking._waiting == 0)
    with mock.patch.object(taking._encoder, "tick", side_effect=RuntimeError("oh")):
        taking.take(samples()[1])
        until(lambda: taking._waiting == 0)
    until(lambda: taking.recording is None)
    assert taking.broken is not None
    assert taking.last is not None and "RuntimeError: oh" in taking.last.problem
    taking.start(FileSink(tmp_path / "b.nftop"))
    taking.take(samples()[2])
    taking.close()
    assert numbers(everything(file)[0]) == [0]
    assert numbers(everything(tmp_path / "b.nftop")[0]) == [2]


def test_an_existing_file_is_not_overwritten(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    file = tmp_path / "a.nftop"
    file.write_text("mine")
    taking = recorder(FlightRecorder())
    taking.start(FileSink(file))
    taking.take(samples()[0])
    done = taking.close()
    assert file.read_text() == "mine"
    assert isinstance(taking.broken, FileExistsError)
    assert done is not None
    assert done.problem == snapshot


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "a.nftop").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        create(tmp_path / "a.nftop", None)
    assert not (tmp_path / "elsewhere").exists()


def test_where_nothing_can_be_created_it_reports_it_and_ends(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    taking = recorder(FlightRecorder())
    taking.start(FileSink(tmp_path / "file" / "a.nftop"))
    taking.take(samples()[0])
    done = taking.close()
    assert done is not None and done.problem == "Not a directory" and done.lost == 1
    assert taking.recording is None


def test_a_pipe_that_is_closed_is_the_end() -> None:
    behind, front = os.pipe()
    os.close(behind)
    taking = recorder()
    taking.start(StreamSink(front))
    taking.take(samples()[0])
    taking.close()
    os.close(front)
    assert isinstance(taking.broken, BrokenPipeError)


@pytest.mark.parametrize(
    ("rotation", "files_created"),
    [
        (FileRotation(time_ns=10_000_000_000), 4),
        (FileRotation(size=12_000), 3),
        (FileRotation(time_ns=10_000_000_000, keep=Keep(files=2)), 2),
        (FileRotation(time_ns=10_000_000_000, keep=Keep(size=25_000)), 3),
    ],
)
def test_a_rotation_loses_no_tick(
    tmp_path: Path, rotation: FileRotation, files_created: int
) -> None:
    path = tmp_path / "edge.nftop"
    other = tmp_path / "edge-20200101T000000Z.nftop"
    other.write_text("somebody's own, of the same name")
    taking = recorder()
    taking.start(FileSink(path, rotation=rotation))
    for sample in samples():
        taking.take(sample)
    done = taking.close()
    assert done is not None and done.ticks == 40 and not done.lost
    created = sorted(entry for entry in tmp_path.iterdir() if entry != other)
    assert other.exists() and not path.exists()
    assert len(created) in (files_created, files_created - 1, files_created + 1)
    read = [number for item in created for number in numbers(everything(item)[0])]
    assert read == list(range(read[0], 40))
    assert all(everything(item)[1] for item in created)
    if rotation.keep is None:
        assert read[0] == 0 and len(created) > 1
    if rotation.keep is not None and rotation.keep.files:
        assert len(created) == rotation.keep.files


def test_what_goes_of_a_rotation_is_the_oldest_and_of_its_own_name(tmp_path: Path) -> None:
    data = taken(1, cpus=2).data
    names = [timed(tmp_path / "a.nftop", WALL_NS + at * 10**12) for at in range(5)]
    others = [tmp_path / "b-20260101T000000Z.nftop", tmp_path / "a.nftop"]
    for name in (*names, *others):
        name.write_bytes(data)
    (tmp_path / "a-20200101T000000Z.nftop").symlink_to(others[0])
    gone = remove_oldest(tmp_path / "a.nftop", Keep(files=3))
    assert sorted(gone) == names[:2]
    assert all(item.exists() for item in (*names[2:], *others))
    assert remove_oldest(tmp_path / "a.nftop", Keep(size=2 * len(data) + 5)) == [names[2]]
    assert remove_oldest(tmp_path / "a.nftop", Keep(size=1)) == [names[3]]  # never the newest


def test_a_clock_that_steps_back_costs_the_oldest_file_not_the_one_being_written(
    tmp_path: Path,
) -> None:
    minute = 60_000_000_000
    rotation = FileRotation(time_ns=minute, keep=Keep(files=2))
    into = FileSink(tmp_path / "a.nftop", rotation=rotation)
    names: list[str] = []
    for at in range(1, 15):
        wall_ns = WALL_NS + at * minute - (60 * minute if at > 6 else 0)
        point = SeekPoint(wall_ns, at * minute, at, 0)
        into.write(Chunk(packed(point) + b"x", True, 1, point))
        names += [into.name] if into.name not in names else []
        assert sorted(map(str, tmp_path.iterdir())) == sorted(names[-2:])
    assert len(names) == 7 and not into.lost


def test_the_tenth_file_of_a_second_is_newer_than_its_second(tmp_path: Path) -> None:
    data = taken(1, cpus=2).data
    names = [timed(tmp_path / "a.nftop", WALL_NS)]
    names += [names[0].with_name(f"{names[0].stem}.{number}.nftop") for number in range(2, 12)]
    for name in names:
        name.write_bytes(data)
    assert sorted(remove_oldest(tmp_path / "a.nftop", Keep(files=2))) == sorted(names[:-2])


def test_owner_of_a_recording_under_sudo(tmp_path: Path) -> None:
    me = SimpleNamespace(pw_uid=1234, pw_gid=1235, pw_dir="/home/me")
    environ = {"SUDO_UID": "1234", "XDG_DATA_HOME": "/root/data"}
    with (
        mock.patch("nftop.store.folders.os.geteuid", lambda: 0),
        mock.patch("nftop.store.folders.pwd.getpwuid", lambda _: me),
    ):
        owner = caller(environ)
        assert owner == Person(1234, 1235, Path("/home/me"))
        path = default_file(environ, "../edge 07", WALL_NS)
        assert path == Path(
            "/home/me/.local/share/nftop/recordings/_edge_07-20260921T141320Z.nftop"
        )
        assert caller({"SUDO_UID": "x"}) is None and caller({}) is None
    with mock.patch("nftop.store.folders.os.geteuid", lambda: 1000):
        assert caller(environ) is None
        assert default_file(environ, "e", WALL_NS).parent == Path("/root/data/nftop/recordings")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give files away")
def test_a_recording_is_chowned_only_in_a_folder_of_its_new_owner(tmp_path: Path) -> None:
    owner = Person(1234, 1235, tmp_path)
    theirs, roots = tmp_path / "theirs", tmp_path / "roots"
    theirs.mkdir()
    roots.mkdir()
    os.chown(theirs, 1234, 1235)
    open_folder(theirs / "a" / "b", make_for=owner, make=True).close()
    open_folder(roots / "a" / "b", make_for=owner, make=True).close()
    for folder, uid in ((theirs, 1234), (theirs / "a" / "b", 1234), (roots / "a" / "b", 0)):
        os.close(create(folder / "x.nftop", owner))
        assert (folder / "x.nftop").stat().st_uid == uid
        assert folder.stat().st_uid == uid
