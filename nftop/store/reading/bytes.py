"""Random access to the bytes of a recording: a file that may grow, or a pipe (`pipe`)."""

from __future__ import annotations

import os
from typing import Protocol


class Readable(Protocol):
    """Bytes by position; safe from any thread. `piped`: they come from a pipe."""

    @property
    def piped(self) -> bool: ...

    def read(self, at: int, size: int) -> bytes:
        """Up to `size` bytes, fewer if no more are available now. Raises OSError."""

    @property
    def first(self) -> int:
        """Position of the first byte that can still be read."""

    @property
    def size(self) -> int:
        """Position after the last byte that is available now."""

    @property
    def grows(self) -> bool:
        """Whether more may follow: always for a file, until the end for a pipe.

        Read it before the data: if False, the data read after it are all there will ever be.
        """

    @property
    def full(self) -> bool:
        """Whether no more bytes arrive until `passed` is called."""

    def passed(self, at: int) -> None:
        """Everything before this position has been read and may be dropped."""

    def check(self) -> None:
        """Raise InterruptedError after `stop`."""

    def stop(self) -> None:
        """Make `read` and `check` raise InterruptedError from now on."""

    def close(self) -> None:
        """Close the file or pipe."""


class FileBytes:
    piped = False
    full = False
    grows = True
    first = 0

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._stopped = False

    def read(self, at: int, size: int) -> bytes:
        self.check()
        return os.pread(self._handle, size, at)

    @property
    def size(self) -> int:
        return os.fstat(self._handle).st_size

    def passed(self, at: int) -> None:
        """A file keeps all bytes."""

    def check(self) -> None:
        if self._stopped:
            raise InterruptedError

    def stop(self) -> None:
        self._stopped = True

    def another(self) -> FileBytes:
        """The same file for another reader. Raises OSError."""
        return FileBytes(os.dup(self._handle))

    def close(self) -> None:
        os.close(self._handle)
