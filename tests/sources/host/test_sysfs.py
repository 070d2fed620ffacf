import os
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from nftop.sources.host.sysfs import OpenFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file"


@pytest.fixture(params=[True, False])
def file(path: Path, request: pytest.FixtureRequest) -> Iterator[OpenFile]:
    opened = OpenFile(os.fspath(path), 100_000, records=request.param)
    yield opened
    opened.close()


def test_a_file_that_is_kept_open_is_read_whole_at_any_size(path: Path, file: OpenFile) -> None:
    for size in (5, 4096, 50_000, 8192, 0, 100_000, 3):
        text = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
        path.write_bytes(text)
        assert file.read() == text
    path.write_bytes(b"x" * 100_001)
    assert len(file.read()) == 100_000


def test_an_absent_file_is_opened_later(path: Path, file: OpenFile) -> None:
    with pytest.raises(FileNotFoundError):
        file.read()
    path.write_bytes(b"1")
    assert file.read() == b"1"


def test_files_of_one_record_take_one_call(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pread = Mock(wraps=os.pread)
    monkeypatch.setattr(os, "pread", pread)
    path.write_bytes(b"x" * 3000)
    for records, expected in ((False, 1), (True, 2)):
        file = OpenFile(os.fspath(path), records=records)
        file.read()
        pread.reset_mock()
        assert len(file.read()) == 3000
        assert pread.call_count == expected
        file.close()
