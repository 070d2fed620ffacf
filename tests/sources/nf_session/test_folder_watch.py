import ctypes
from collections.abc import Iterator
from pathlib import Path

import pytest

from nftop.sources.nf_session.discovery import FolderWatch


@pytest.fixture
def watch() -> Iterator[FolderWatch]:
    folders = FolderWatch()
    yield folders
    folders.close()


def test_a_change_of_a_folder_is_reported_once(watch: FolderWatch, tmp_path: Path) -> None:
    file = tmp_path / "a"
    assert watch.changed()  # nothing is watched yet
    watch.watch([str(tmp_path)])
    assert not watch.changed()
    for change in (file.touch, lambda: file.chmod(0o600), lambda: file.rename(tmp_path / "b")):
        change()
        assert watch.changed()
        assert not watch.changed()


def test_folders_that_are_not_named_again_are_not_watched(
    watch: FolderWatch, tmp_path: Path
) -> None:
    one, two = tmp_path / "1", tmp_path / "2"
    one.mkdir()
    two.mkdir()
    watch.watch([str(one), str(two)])
    watch.watch([str(two)])
    watch.changed()  # that a watch was removed
    (one / "x").touch()
    assert not watch.changed()
    (two / "x").touch()
    assert watch.changed()


def test_an_absent_folder_is_left_out(watch: FolderWatch, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    watch.watch([str(tmp_path / "none"), str(file), str(tmp_path)])
    assert not watch.changed()


def test_without_inotify_everything_may_have_changed(
    watch: FolderWatch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NoInotify:
        def inotify_init1(self, flags: int) -> int:
            del flags
            return -1

    monkeypatch.setattr(ctypes, "CDLL", lambda *_args, **_named: NoInotify())
    watch.watch([str(tmp_path)])
    assert watch.changed()
    assert watch.changed()


def test_a_closed_watch_watches_nothing(watch: FolderWatch, tmp_path: Path) -> None:
    watch.watch([str(tmp_path)])
    watch.close()
    watch.close()
    assert watch.changed()
