"""FUSE callbacks to trees and back, without a mount; `test_inside` has one."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from tests.lab.server import _Operations
from tests.lab.texts import Text, TextTree
from tests.lab.tree import Caller, Entry, Handle

ME = (12, 34, 56)  # uid, gid, pid, as libfuse orders them
_IOR_8 = 2 << 30 | 8 << 16 | ord("$") << 8 | 7  # _IOR('$', 7, u64), PERF_EVENT_IOC_ID
_IO = ord("$") << 8  # _IO('$', 0), PERF_EVENT_IOC_ENABLE


@dataclass
class Recorder:
    """A tree of one file `f` and one folder `d` that writes down what it was asked."""

    requested: list[object] = field(default_factory=list)

    def lookup(self, path: str) -> Entry:
        if path not in ("/", "/f", "/d"):
            raise OSError(errno.ENOENT, path)
        return Entry(folder=path != "/f", mode=0o640, inode=7)

    def names(self, path: str) -> Sequence[str]:
        return ("f", "d") if path == "/" else ()

    def open(self, path: str, flags: int, caller: Caller) -> Handle:
        self.requested.append(("open", path, flags, caller))
        return self

    def mkdir(self, path: str, mode: int, caller: Caller) -> None:
        self.requested.append(("mkdir", path, mode, caller))

    def rmdir(self, path: str, caller: Caller) -> None:
        self.requested.append(("rmdir", path, caller))

    def rename(self, old: str, new: str, caller: Caller) -> None:
        self.requested.append(("rename", old, new, caller))

    def read(self, size: int, offset: int) -> bytes:
        return b"0123456789"[offset : offset + size]

    def write(self, data: bytes, offset: int) -> int:
        self.requested.append(("write", data, offset))
        return len(data) - 1

    def ioctl(self, request: int, argument: int, data: bytearray | None) -> int:
        self.requested.append(("ioctl", request, argument, None if data is None else bytes(data)))
        if data is not None:
            data[:] = bytes(reversed(data))
        return 3

    def close(self) -> None:
        self.requested.append("close")


@pytest.fixture
def one() -> Recorder:
    return Recorder()


@pytest.fixture
def operations(one: Recorder) -> _Operations:
    return _Operations({"one": one, "two": Recorder()}, lambda: None, lambda: ME)


@contextlib.contextmanager
def _raises(number: int) -> Iterator[None]:
    with pytest.raises(OSError, match=r".") as caught:
        yield
    assert caught.value.errno == number


def test_files_have_no_size_and_inodes_of_their_own(operations: _Operations) -> None:
    root, file = operations.getattr("/"), operations.getattr("/one/f")
    assert stat.S_ISDIR(root["st_mode"])
    assert file["st_mode"] == stat.S_IFREG | 0o640
    assert file["st_size"] == 0
    assert file["st_ino"] != operations.getattr("/two/f")["st_ino"]
    for path in ("/three", "/one/x"):
        with _raises(errno.ENOENT):
            operations.getattr(path)


def test_folders_list_what_is_in_them_with_inodes(operations: _Operations) -> None:
    assert [row[0] for row in operations.readdir("/", None)] == [".", "..", "one", "two"]
    rows = operations.readdir("/one", None)
    assert [row[0] for row in rows] == [".", "..", "f", "d"]
    assert all(attributes["st_ino"] for _, attributes, _ in rows)


def test_an_open_file_is_queried_directly(operations: _Operations, one: Recorder) -> None:
    file = SimpleNamespace(flags=os.O_RDWR, fh=0, direct_io=0)
    operations.open("/one/f", file)
    assert file.direct_io
    assert operations.read("/one/f", 3, 4, file) == b"456"
    assert operations.write("/one/f", b"abc", 9, file) == 2
    operations.release("/one/f", file)
    caller = Caller(pid=56, uid=12, gid=34)
    assert one.requested == [("open", "/f", os.O_RDWR, caller), ("write", b"abc", 9), "close"]


def test_an_ioctl_has_the_buffer_that_its_number_reports(
    operations: _Operations, one: Recorder
) -> None:
    file = SimpleNamespace(flags=os.O_RDWR, fh=0, direct_io=0)
    operations.open("/one/f", file)
    buffer = ctypes.create_string_buffer(b"abcdefgh", 8)
    address = ctypes.addressof(buffer)
    # libfuse hands the number over as a signed one.
    assert operations.ioctl("/one/f", _IOR_8 - (1 << 32), address, file, 0, address) == 3
    assert buffer.raw == b"hgfedcba"
    assert operations.ioctl("/one/f", _IO, 1, file, 0, None) == 3
    assert one.requested[1:] == [("ioctl", _IOR_8, address, b"abcdefgh"), ("ioctl", _IO, 1, None)]


def test_folders_are_the_trees_matter(operations: _Operations, one: Recorder) -> None:
    caller = Caller(pid=56, uid=12, gid=34)
    operations.mkdir("/one/g", 0o755)
    operations.rename("/one/g", "/one/h")
    operations.rmdir("/one/h")
    assert one.requested == [
        ("mkdir", "/g", 0o755, caller),
        ("rename", "/g", "/h", caller),
        ("rmdir", "/h", caller),
    ]
    with _raises(errno.EXDEV):
        operations.rename("/one/d", "/two/d")


def test_truncating_is_for_files(operations: _Operations) -> None:
    assert operations.truncate("/one/f", 0) == 0
    with _raises(errno.EISDIR):
        operations.truncate("/one/d", 0)


def test_texts_are_created_when_read_from_the_start() -> None:
    created = iter(["first", "second"])
    handle = TextTree({"t": Text(lambda: next(created))}).open("/t", os.O_RDONLY, Caller(1, 0, 0))
    assert handle.read(3, 0) == b"fir"
    assert handle.read(9, 3) == b"st"
    assert handle.read(9, 0) == b"second"


def test_texts_refuse_what_they_can_not_do() -> None:
    got: list[str] = []

    def take(text: str) -> None:
        got.append(str(int(text)))

    tree, root = TextTree({"r": Text(str), "w": Text(str, take)}), Caller(1, 0, 0)
    assert [tree.lookup(f"/{name}").mode for name in tree.names("/")] == [0o444, 0o644]
    with _raises(errno.EACCES):
        tree.open("/r", os.O_WRONLY, root)
    with _raises(errno.ENOENT):
        tree.open("/x", os.O_RDONLY, root)
    handle = tree.open("/w", os.O_RDWR, root)
    assert handle.write(b"12\n", 0) == 3
    for wrong in (b"x", b"\xff"):
        with _raises(errno.EINVAL):
            handle.write(wrong, 0)
    with _raises(errno.ENOTTY):
        handle.ioctl(_IO, 0, None)
    with _raises(errno.EPERM):
        tree.mkdir("/x", 0o755, root)
    with _raises(errno.EPERM):
        tree.rmdir("/r", root)
    with _raises(errno.EPERM):
        tree.rename("/r", "/x", root)
    assert got == ["12"]
