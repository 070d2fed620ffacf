"""Random access to the bytes of a recording: a file that may grow, or a pipe (`pipe`)."""

from __future__ import annotations

import os
from typing import Protocol


class Readable(Protocol):
    """Bytes by their place. Safe from any thread.

    Attributes:
        piped: they come from a pipe, so that the first may still be to come.
    """

    @property
    def piped(self) -> bool: ...

    def read(self, at: int, size: int) -> bytes:
        """So many bytes, fewer where no more are there now. Raises OSError."""

    @property
    def first(self) -> int:
        """The place of the first byte that can still be read."""

    @property
    def size(self) -> int:
        """The place behind the last byte there is now."""

    @property
    def grows(self) -> bool:
        """There may be more later: a file may, a pipe until its other end is closed.

        Who asks this before it reads has read all there ever will be where it was False.
        """

    @property
    def full(self) -> bool:
        """No more comes before something was passed."""

    def passed(self, at: int) -> None:
        """What lies before this place was read, and may be let go where there is no room for it."""

    def check(self) -> None:
        """Raise InterruptedError after `stop`."""

    def stop(self) -> None:
        """From now on `read` and `check` raise InterruptedError."""

    def close(self) -> None:
        """Give back what is open."""


class FileBytes:
    """A regular file."""

    piped = False
    full = False

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._stopped = False

    def read(self, at: int, size: int) -> bytes:
        self.check()
        return os.pread(self._handle, size, at)

    @property
    def first(self) -> int:
        return 0

    @property
    def size(self) -> int:
        return os.fstat(self._handle).st_size

    @property
    def grows(self) -> bool:
        return True

    def passed(self, at: int) -> None:
        """A file keeps all it has."""

    def check(self) -> None:
        if self._stopped:
            raise InterruptedError

    def stop(self) -> None:
        self._stopped = True

    def close(self) -> None:
        os.close(self._handle)
