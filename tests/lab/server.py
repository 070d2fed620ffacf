"""The FUSE server: trees of files under one mount, one request after the other.

Files have no size, are read and written directly, past the page cache, and what a tree raises is
what the caller's system call returns. flock(2) is the kernel's own.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.lab.tree import Caller, Entry, Handle, Tree, failed

NAME = "nftop-lab"  # what mounts of the lab are called in /proc/self/mounts
_INODES_PER_TREE = 1 << 40
_FOREVER_S = 1e6


def serve(trees: Mapping[str, Tree], mount_point: Path, ready: Callable[[], None]) -> None:
    """Mount the trees, each a folder by its name, and answer until unmounted or killed.

    Args:
        trees: what to serve; calls into them never overlap.
        mount_point: an empty folder.
        ready: called once, when the mount answers.

    Raises:
        OSError, ImportError: libfuse or mfusepy is missing.
        RuntimeError: it can't be mounted.
    """
    import mfusepy  # only the server needs it, and it loads libfuse

    logging.basicConfig(format="nftop's lab, server: %(message)s")
    mfusepy.FUSE(
        _Operations(trees, ready, mfusepy.fuse_get_context),
        os.fspath(mount_point),
        raw_fi=True,
        foreground=True,
        nothreads=True,  # so that each request is atomic
        fsname=NAME,
        allow_other=True,
        default_permissions=True,
        use_ino=True,
        attr_timeout=_FOREVER_S,  # of an inode: its attributes never change
        entry_timeout=0,
        negative_timeout=0,
    )


class _Operations:
    """mfusepy's callbacks, by the names it looks for. A `fi` is libfuse's fuse_file_info."""

    use_ns = True

    def __init__(
        self,
        trees: Mapping[str, Tree],
        ready: Callable[[], None],
        context: Callable[[], tuple[int, int, int]],
    ) -> None:
        self._trees = dict(trees)
        self._order = {name: index for index, name in enumerate(self._trees, 1)}
        self._ready = ready
        self._context = context
        self._handles: dict[int, Handle] = {}
        self._opened = 0

    def init(self, path: str) -> None:
        self._ready()

    def getattr(self, path: str, fi: Any = None) -> dict[str, int]:
        if path == "/":
            return _attributes(Entry(folder=True, mode=0o555, inode=1))
        name, tree, inner = self._find(path)
        entry = tree.lookup(inner)
        return _attributes(entry, self._order[name] * _INODES_PER_TREE)

    def readdir(self, path: str, fi: Any) -> list[tuple[str, dict[str, int], int]]:
        if path == "/":
            inside: Sequence[str] = tuple(self._trees)
        else:
            _, tree, inner = self._find(path)
            inside = tree.names(inner)
        # With the inodes that stat(2) shows: readdir(3) drops entries whose inode is 0.
        rows = [(name, self.getattr(f"{path.rstrip('/')}/{name}"), 0) for name in inside]
        here = self.getattr(path)
        return [(".", here, 0), ("..", here, 0), *rows]

    def open(self, path: str, fi: Any) -> int:
        _, tree, inner = self._find(path)
        handle = tree.open(inner, fi.flags, self._caller())
        self._opened += 1
        self._handles[self._opened] = handle
        fi.fh = self._opened
        fi.direct_io = 1
        return 0

    def read(self, path: str, size: int, offset: int, fi: Any) -> bytes:
        return self._handles[fi.fh].read(size, offset)

    def write(self, path: str, data: bytes, offset: int, fi: Any) -> int:
        return self._handles[fi.fh].write(data, offset)

    def ioctl(
        self, path: str, request: int, argument: int | None, fi: Any, flags: int, data: int | None
    ) -> int:
        request &= 0xFFFFFFFF
        size = request >> 16 & 0x3FFF  # _IOC_SIZE, as linux/ioctl.h encodes it
        handle = self._handles[fi.fh]
        if not data or not size:
            return handle.ioctl(request, argument or 0, None)
        buffer = bytearray(ctypes.string_at(data, size))
        result = handle.ioctl(request, argument or 0, buffer)
        ctypes.memmove(data, bytes(buffer), size)
        return result

    def release(self, path: str, fi: Any) -> int:
        self._handles.pop(fi.fh).close()
        return 0

    def truncate(self, path: str, length: int, fi: Any = None) -> int:
        """What `>` of a shell does before it writes; these files have nothing to cut off."""
        _, tree, inner = self._find(path)
        if tree.lookup(inner).folder:
            raise failed(errno.EISDIR)
        return 0

    def mkdir(self, path: str, mode: int) -> int:
        _, tree, inner = self._find(path)
        tree.mkdir(inner, mode, self._caller())
        return 0

    def rmdir(self, path: str) -> int:
        _, tree, inner = self._find(path)
        tree.rmdir(inner, self._caller())
        return 0

    def rename(self, old: str, new: str) -> int:
        name, tree, inner = self._find(old)
        other, _, target = self._find(new)
        if name != other:
            raise failed(errno.EXDEV)
        tree.rename(inner, target, self._caller())
        return 0

    # What kernfs has no way to do, with the errno that the kernel has for that.

    def create(self, path: str, mode: int, fi: Any) -> int:
        raise failed(errno.EACCES)

    def mknod(self, path: str, mode: int, device: int) -> int:
        raise failed(errno.EPERM)

    def symlink(self, target: str, source: str) -> int:
        raise failed(errno.EPERM)

    def link(self, target: str, source: str) -> int:
        raise failed(errno.EPERM)

    def unlink(self, path: str) -> int:
        raise failed(errno.EPERM)

    # What it has, and no tree yet.

    def chmod(self, path: str, mode: int) -> int:
        raise failed(errno.EPERM)

    def chown(self, path: str, uid: int, gid: int) -> int:
        raise failed(errno.EPERM)

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> int:
        raise failed(errno.EPERM)

    def _find(self, path: str) -> tuple[str, Tree, str]:
        """The tree a path is in, its name, and the path within it."""
        name, _, inner = path[1:].partition("/")
        tree = self._trees.get(name)
        if tree is None:
            raise failed(errno.ENOENT)
        return name, tree, f"/{inner}"

    def _caller(self) -> Caller:
        uid, gid, pid = self._context()
        return Caller(pid, uid, gid)


def _attributes(entry: Entry, first_inode: int = 0) -> dict[str, int]:
    kind = stat.S_IFDIR if entry.folder else stat.S_IFREG
    return {
        "st_mode": kind | entry.mode,
        "st_ino": first_inode + entry.inode,
        "st_nlink": 2 if entry.folder else 1,
        "st_size": 0,
        "st_uid": 0,
        "st_gid": 0,
    }
