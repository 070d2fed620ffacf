"""A tree of small texts that are made when they are read, and understood when written."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tests.lab.tree import Caller, Entry, Handle, failed


@dataclass(frozen=True, slots=True)
class Text:
    """A file: how its text is made, and what is done with what is written to it.

    `write` raises ValueError where it can't make sense of it; None: the file is read-only.
    """

    read: Callable[[], str]
    write: Callable[[str], None] | None = None

    @property
    def mode(self) -> int:
        return 0o444 if self.write is None else 0o644


class _Open:
    """Made anew whenever it is read from its start, as a seq_file is."""

    def __init__(self, text: Text) -> None:
        self._text = text
        self._created = b""

    def read(self, size: int, offset: int) -> bytes:
        if offset == 0:
            self._created = os.fsencode(self._text.read())
        return self._created[offset : offset + size]

    def write(self, data: bytes, offset: int) -> int:
        if self._text.write is None:
            raise failed(errno.EACCES)
        try:
            self._text.write(os.fsdecode(data))
        except ValueError:
            raise failed(errno.EINVAL) from None
        return len(data)

    def ioctl(self, request: int, argument: int, data: bytearray | None) -> int:
        raise failed(errno.ENOTTY)

    def close(self) -> None:
        """Nothing is held."""


class TextTree:
    """Folders of texts, by path; those in `empty` are there without any."""

    def __init__(self, texts: Mapping[str, Text], empty: Sequence[str] = ()) -> None:
        self._texts = texts
        self._folders: dict[str, dict[str, None]] = {"": {}}
        for path in (*texts, *empty):
            segments = path.split("/")
            for depth, name in enumerate(segments):
                self._folders.setdefault("/".join(segments[:depth]), {})[name] = None
        for path in empty:
            self._folders.setdefault(path, {})
        every = (*self._folders, *texts)
        self._inodes = {path: number for number, path in enumerate(every, 1)}

    def lookup(self, path: str) -> Entry:
        if path[1:] in self._folders:
            return Entry(folder=True, mode=0o555, inode=self._inodes[path[1:]])
        text = self._text(path)
        return Entry(folder=False, mode=text.mode, inode=self._inodes[path[1:]])

    def names(self, path: str) -> Sequence[str]:
        if path[1:] not in self._folders:
            raise failed(errno.ENOENT)
        return tuple(self._folders[path[1:]])

    def open(self, path: str, flags: int, caller: Caller) -> Handle:
        if path[1:] in self._folders:
            raise failed(errno.EISDIR)
        text = self._text(path)
        # Root passes every check of permission bits, so what can't be written must say so itself.
        if flags & os.O_ACCMODE != os.O_RDONLY and text.write is None:
            raise failed(errno.EACCES)
        return _Open(text)

    def mkdir(self, path: str, mode: int, caller: Caller) -> None:
        raise failed(errno.EPERM)

    def rmdir(self, path: str, caller: Caller) -> None:
        raise failed(errno.EPERM)

    def rename(self, old: str, new: str, caller: Caller) -> None:
        raise failed(errno.EPERM)

    def _text(self, path: str) -> Text:
        try:
            return self._texts[path[1:]]
        except KeyError:
            raise failed(errno.ENOENT) from None
