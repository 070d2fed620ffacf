"""What the FUSE server serves: trees of files that answer as the kernel's do.

A tree knows nothing of FUSE, so that what it answers is tested without a mount. Every method may
raise OSError with the errno the kernel would give.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


def failed(number: int) -> OSError:
    """What to raise so that a system call returns this errno."""
    return OSError(number, os.strerror(number))


@dataclass(frozen=True, slots=True)
class Caller:
    """The process that asks."""

    pid: int
    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or folder.

    Attributes:
        folder: it is one.
        mode: permission bits, as in chmod(2).
        inode: changes when a folder is deleted and made again.
    """

    folder: bool
    mode: int
    inode: int


class Handle(Protocol):
    """An open file, whose text is made anew when it is read from its start, as a seq_file's is."""

    def read(self, size: int, offset: int) -> bytes:
        """At most `size` bytes from `offset`."""

    def write(self, data: bytes, offset: int) -> int:
        """One write(2): how many bytes were taken, usually all."""

    def ioctl(self, request: int, argument: int, data: bytearray | None) -> int:
        """One ioctl(2). `data` is the caller's buffer as its request encodes it, to be filled."""

    def close(self) -> None:
        """The last descriptor is gone."""


class Tree(Protocol):
    """One mounted tree; paths are absolute within it, `/` its root."""

    def lookup(self, path: str) -> Entry:
        """What is there; ENOENT if nothing."""

    def names(self, path: str) -> Sequence[str]:
        """What a folder holds."""

    def open(self, path: str, flags: int, caller: Caller) -> Handle:
        """open(2) of a file."""

    def mkdir(self, path: str, mode: int, caller: Caller) -> None:
        """mkdir(2)."""

    def rmdir(self, path: str, caller: Caller) -> None:
        """rmdir(2)."""

    def rename(self, old: str, new: str, caller: Caller) -> None:
        """rename(2)."""
