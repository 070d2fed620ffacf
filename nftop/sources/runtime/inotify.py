"""Changes of folders, as inotify(7) reports them: one read(2) says whether anything changed."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from collections.abc import Iterable

# linux/inotify.h; a listing depends on the names in a folder, and on who may open it.
_CHANGES = 0x4 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800  # ATTRIB .. MOVE_SELF
_ONLY_FOLDERS = 0x1000000
_READ_BYTES = 1 << 16
# A path that can't be opened is listed as empty, or as closed, until the caller looks again.
_NO_FOLDER = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP, errno.ENAMETOOLONG)


class FolderWatch:
    """Watches a set of folders. Their file systems report changes by processes of this host only.

    Without inotify, or at a limit of it, `changed` is always true.
    """

    def __init__(self) -> None:
        self._fd = -1
        self._watches: set[int] = set()
        self._complete = False

    def changed(self) -> bool:
        """Whether anything changed since the last call, or may have."""
        if not self._complete:
            return True
        try:
            return bool(os.read(self._fd, _READ_BYTES))
        except BlockingIOError:
            return False
        except OSError:
            return True

    def watch(self, folders: Iterable[str]) -> None:
        """Watch these folders from now on, and no others; absent ones are left out."""
        self._complete = False
        libc = ctypes.CDLL(None, use_errno=True)
        if self._fd < 0:
            self._fd = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self._fd < 0:
            return
        with contextlib.suppress(OSError):  # before the folders are listed, so that none is missed
            os.read(self._fd, _READ_BYTES)
        watches, complete = set[int](), True
        for folder in folders:
            number = libc.inotify_add_watch(
                self._fd, os.fsencode(folder), ctypes.c_uint32(_CHANGES | _ONLY_FOLDERS)
            )
            if number >= 0:
                watches.add(number)
            else:
                complete &= ctypes.get_errno() in _NO_FOLDER
        for number in self._watches - watches:
            libc.inotify_rm_watch(self._fd, number)
        self._watches, self._complete = watches, complete

    def close(self) -> None:
        """Stop; `changed` is true from now on."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._complete = -1, False
        self._watches.clear()
