"""Random access to the bytes of a recording: a file that may grow, or a pipe."""

from __future__ import annotations

import os
import threading
from bisect import bisect_right
from collections.abc import Callable
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


class KeptBytes:
    """Bytes that stay where they are: `passed` frees nothing, and only `stop` ends reading."""

    piped = False
    full = False
    grows = True
    _stopped = False

    def passed(self, at: int) -> None:
        """No effect."""

    def check(self) -> None:
        if self._stopped:
            raise InterruptedError

    def stop(self) -> None:
        self._stopped = True


class FileBytes(KeptBytes):
    first = 0

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def read(self, at: int, size: int) -> bytes:
        self.check()
        return os.pread(self._handle, size, at)

    @property
    def size(self) -> int:
        return os.fstat(self._handle).st_size

    def another(self) -> FileBytes:
        """The same file for another reader. Raises OSError."""
        return FileBytes(os.dup(self._handle))

    def close(self) -> None:
        os.close(self._handle)


# Limits for a screen, which can go back, and for a batch, which only reads ahead.
MUCH, LITTLE = 1 << 28, 1 << 26  # bytes
_READ_AT_ONCE = 1 << 16
# `stop` takes no lock, so it is polled.
_POLL_S = 0.5


class PipeBytes:
    """A pipe, read ahead into memory by a thread of its own; implements `Readable`.

    It holds `most` bytes, and a quarter more at most; the oldest that were `passed` are dropped. If
    half of the limit was not passed, the pipe waits: unread bytes are never lost, and half of the
    limit remains to go back.
    """

    piped = True

    def __init__(self, handle: int, most: int = MUCH, *, more: Callable[[], None]) -> None:
        """`more` is called by the thread for new bytes, and at the end.

        A block of zstd must fit into half of `most`, as one of 128 KiB does in `LITTLE`.
        """
        self._handle = handle
        self._most = most
        # Parts are dropped as a whole.
        self._at_once = max(1, min(_READ_AT_ONCE, most // 8))
        self._more = more
        self._lock = threading.Lock()
        self._room = threading.Event()
        # In order; small ones are joined, since a recorder flushes every tick.
        self._blocks: list[bytearray] = []
        self._starts: list[int] = []
        self._size = self._passed = 0
        self._ended = self._stopped = False
        # A daemon: the writer may never end.
        threading.Thread(target=self._run, name="nftop-pipe", daemon=True).start()

    def read(self, at: int, size: int) -> bytes:
        self.check()
        with self._lock:
            if not self._starts or at < self._starts[0]:
                return b""
            result = bytearray()
            index = bisect_right(self._starts, at) - 1
            while index < len(self._blocks) and len(result) < size:
                behind = at + len(result) - self._starts[index]
                result += memoryview(self._blocks[index])[behind : behind + size - len(result)]
                index += 1
            return bytes(result)

    @property
    def first(self) -> int:
        with self._lock:
            return self._starts[0] if self._starts else self._size

    @property
    def size(self) -> int:
        return self._size

    @property
    def grows(self) -> bool:
        return not self._ended

    @property
    def full(self) -> bool:
        return self._size - self._passed >= self._most // 2

    def passed(self, at: int) -> None:
        self._passed = at
        if not self.full:
            self._room.set()

    def check(self) -> None:
        if self._stopped:
            raise InterruptedError

    def stop(self) -> None:
        self._stopped = True

    def close(self) -> None:
        """The thread ends with the pipe, or when it waits for room."""
        self._stopped = True
        self._room.set()

    def _run(self) -> None:
        try:
            while self._has_room() and (data := os.read(self._handle, self._at_once)):
                self._take(data)
                self._more()
        except OSError:
            pass  # like an end: the reader reports what is missing
        self._ended = True
        self._more()
        os.close(self._handle)

    def _has_room(self) -> bool:
        """Wait until there is room; False after `close` or `stop`."""
        while self.full and not self._stopped:
            self._room.clear()
            if self.full:  # else `passed` was called just before `clear`
                self._room.wait(_POLL_S)
        return not self._stopped

    def _take(self, data: bytes) -> None:
        with self._lock:
            if self._blocks and len(self._blocks[-1]) < self._at_once:
                self._blocks[-1] += data
            else:
                self._starts.append(self._size)
                self._blocks.append(bytearray(data))
            self._size += len(data)
            gone = 0
            while (
                gone + 1 < len(self._blocks)
                and self._starts[gone] + self._most < self._size
                and self._starts[gone + 1] <= self._passed
            ):
                gone += 1
            del self._starts[:gone], self._blocks[:gone]
