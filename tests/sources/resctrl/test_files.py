"""The lock of resctrl's managers: kept to, not waited for, and never held for long."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.model.missing import Missing, Reason
from nftop.model.rdt.rdt import ResctrlTable
from nftop.sources.resctrl import monitor
from nftop.sources.resctrl import source as module
from nftop.sources.resctrl.files import holder, shared_lock
from nftop.sources.resctrl.files import read_as as read_as_it_is
from nftop.sources.resctrl.tree import Tree
from nftop.sources.resctrl.tree import read_tree as read_tree_it_is
from tests.sources.resctrl.trees import MOUNT, plain, read, source, write


@contextmanager
def held(path: Path, how: int = fcntl.LOCK_EX) -> Iterator[None]:
    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, how)
        yield
    finally:
        os.close(handle)


def _free(path: Path) -> bool:
    """Whether a program that changes classes could take the lock now."""
    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        return True
    finally:
        os.close(handle)


def test_nobody_changes_what_is_read(tmp_path: Path) -> None:
    with shared_lock(str(tmp_path)) as lock:
        assert lock.held and lock.in_time()
        assert not _free(tmp_path)
        with held(tmp_path, fcntl.LOCK_SH), shared_lock(str(tmp_path)) as also:
            assert also.held, "others may read too"
    assert _free(tmp_path)


def test_it_is_let_go_of_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="x"), shared_lock(str(tmp_path)):
        raise OSError("x")
    assert _free(tmp_path)


def test_it_is_waited_for(tmp_path: Path) -> None:
    handle = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    tries = count()

    def pause(_: float) -> None:
        if next(tries) == 2:
            os.close(handle)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nftop.sources.resctrl.files.time.sleep", pause)
        with shared_lock(str(tmp_path), wait_s=60.0) as lock:
            assert lock.held


def test_a_long_holder_of_the_lock_is_named_without_waiting(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    root = write(tmp_path, plain())
    mount = root / MOUNT
    result = mount.stat()
    file = f"{os.major(result.st_dev):02x}:{os.minor(result.st_dev):02x}:{result.st_ino}"
    (root / "proc/locks").write_text(
        "1: POSIX  ADVISORY  WRITE 9 00:01:2 0 EOF\n"
        f"2: FLOCK  ADVISORY  READ 8 {file} 0 EOF\n"
        f"3: FLOCK  ADVISORY  WRITE 7 {file} 0 EOF\n"
    )
    (root / "proc/7").mkdir()
    (root / "proc/7/comm").write_text("pqos\n")
    with held(mount):
        table = read(root)
    assert [group.name for group in table.groups] == ["/", "vpp"]
    assert table.notes == snapshot
    assert read(root).notes == ()


def test_the_holder_of_the_lock_may_be_unknown(tmp_path: Path) -> None:
    assert holder(tmp_path, str(tmp_path)) == "another program"
    assert holder(tmp_path, str(tmp_path / "gone")) == "another program"


def test_groups_that_change_under_a_lock_that_is_held_are_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    root = write(tmp_path, plain())
    other = (Tree((), (str(number),)) for number in count())
    monkeypatch.setattr(module, "read_tree", lambda *_: next(other))
    with held(root / MOUNT):
        value = source(root).read()
    assert isinstance(value, Missing) and value.reason is Reason.TAKEN
    assert value.message == snapshot


def test_a_slow_reader_releases_the_lock_and_reads_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libpqos fails when it does not get the lock in 100 ms."""
    monkeypatch.setattr("nftop.sources.resctrl.files.HOLD_S", -1.0)
    root = write(tmp_path, plain())
    free: list[bool] = []

    def read_tree(mount: str, in_time: Callable[[], bool] = lambda: True) -> Tree | None:
        free.append(_free(Path(mount)))
        return read_tree_it_is(mount, in_time)

    monkeypatch.setattr(module, "read_tree", read_tree)
    table = read(root)
    assert free == [False, True, True]
    assert [group.name for group in table.groups] == ["/", "vpp"] and table.notes == ()


def test_counters_are_read_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For each the kernel has a CPU do it, which may take long."""
    root = write(tmp_path, plain())
    plain_read, free = read_as_it_is, []

    def read_as(path: str, parse: object) -> object:
        free.append(_free(root / MOUNT))
        return plain_read(path, parse)  # type: ignore[arg-type]

    monkeypatch.setattr(monitor, "read_as", read_as)
    assert isinstance(source(root).read(), ResctrlTable)
    assert free and all(free)


def test_readers_in_parallel(tmp_path: Path) -> None:
    """Any number may read at once: what they hold is shared."""
    root = write(tmp_path, plain())
    got: list[object] = []
    threads = [threading.Thread(target=lambda: got.append(source(root).read())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [isinstance(item, ResctrlTable) and item.notes for item in got] == [()] * 4
