"""Where the bytes of a recording are read from: a file that may grow, or a pipe."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol

_READ_AT_ONCE = 1 << 16


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
        """There may be more later: a file may, a pipe until its other end is closed."""

    def stop(self) -> None:
        """From now on `read` raises InterruptedError, so that whoever reads on and on ends."""

    def close(self) -> None:
        """Give back what is open."""


class FileBytes:
    """A regular file."""

    piped = False

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._stopped = False

    def read(self, at: int, size: int) -> bytes:
        if self._stopped:
            raise InterruptedError
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

    def stop(self) -> None:
        self._stopped = True

    def close(self) -> None:
        os.close(self._handle)


class PipeBytes:
    """A pipe, read by a thread of its own as fast as it gives, into memory.

    Of more than `most` bytes the oldest are let go.
    """

    piped = True

    def __init__(self, handle: int, most: int = 1 << 28, *, more: Callable[[], None]) -> None:
        """`more` is called, by that thread, whenever there is more, and at the end."""
        self._handle = handle
        self._most = most
        self._more = more
        self._lock = threading.Lock()
        self._parts: deque[tuple[int, bytes]] = deque()
        self._size = 0
        self._ended = self._stopped = False
        # A daemon: who writes may never end.
        threading.Thread(target=self._run, name="nftop-pipe", daemon=True).start()

    def read(self, at: int, size: int) -> bytes:
        if self._stopped:
            raise InterruptedError
        with self._lock:
            found = bytearray()
            # From the newest on: that is where who follows reads.
            wanted = list[bytes]()
            for start, part in reversed(self._parts):
                if start + len(part) <= at:
                    break
                wanted.append(part[max(0, at - start) : max(0, at + size - start)])
            for part in reversed(wanted):
                found += part
            return bytes(found) if self._parts and at >= self._parts[0][0] else b""

    @property
    def first(self) -> int:
        with self._lock:
            return self._parts[0][0] if self._parts else self._size

    @property
    def size(self) -> int:
        return self._size

    @property
    def grows(self) -> bool:
        return not self._ended

    def stop(self) -> None:
        self._stopped = True

    def close(self) -> None:
        """The thread ends with the pipe."""

    def _run(self) -> None:
        try:
            while part := os.read(self._handle, _READ_AT_ONCE):
                self._take(part)
                self._more()
        except OSError:
            pass  # as if it had ended: what is missing then shows
        self._ended = True
        self._more()

    def _take(self, part: bytes) -> None:
        with self._lock:
            self._parts.append((self._size, part))
            self._size += len(part)
            while len(self._parts) > 1 and self._parts[0][0] + self._most < self._size:
                self._parts.popleft()
