"""Where chunks go: a file, or a pipe. A recording is whole after every chunk."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from nftop.model.struct import dataclass
from nftop.store.folders import Person, open_folder
from nftop.store.format.encoder import Chunk
from nftop.store.format.zstd import FRAME_END
from nftop.store.reading.seekpoint import SeekPoint, packed
from nftop.store.recording.files import Keep, exists, let_go, remove_empty, timed

# A disk that is full may have room again.
RETRY_AFTER_NS = 5_000_000_000


class Sink(Protocol):
    """Takes chunks in order, in one thread, and raises nothing.

    Attributes:
        problem: why nothing is written now, a sentence; "" while it is.
        lost: samples that were not written.
        ticks, size: samples and bytes that were.
        broken: what ended it for good; None while there is hope.
    """

    problem: str
    lost: int
    ticks: int
    size: int
    broken: OSError | None

    @property
    def name(self) -> str:
        """What is being written to, for the operator."""

    @property
    def wants_start(self) -> bool:
        """The next chunk had better start a frame."""

    def write(self, chunk: Chunk) -> None:
        """Write it, or count it as lost."""

    def finish(self) -> None:
        """Write the recording's end, and close."""


class StreamSink:
    """A pipe or whatever standard output is. Where it takes nothing more, that is the end."""

    def __init__(self, handle: int) -> None:
        self.problem, self.lost, self.ticks, self.size = "", 0, 0, 0
        self.broken: OSError | None = None
        self._handle = handle
        self._after: SeekPoint | None = None

    @property
    def name(self) -> str:
        return "standard output"

    @property
    def wants_start(self) -> bool:
        return False

    def write(self, chunk: Chunk) -> None:
        ends = FRAME_END if chunk.starts and self._after is not None else b""
        if self._put(ends + chunk.data):
            self._after = chunk.after
            self.ticks += chunk.ticks
        else:
            self.lost += chunk.ticks

    def finish(self) -> None:
        if self._after is not None:
            self._put(FRAME_END + packed(self._after))

    def _put(self, data: bytes) -> bool:
        if self.broken is None:
            try:
                _write(self._handle, data)
            except OSError as error:
                self.broken, self.problem = error, _why(error)
            else:
                self.size += len(data)
        return self.broken is None


@dataclass(frozen=True, slots=True)
class Rotation:
    """When a new file begins, None: never; and what becomes of the old ones."""

    size: int | None = None
    time_ns: int | None = None
    keep: Keep | None = None

    @property
    def any(self) -> bool:
        """There is one."""
        return self.size is not None or self.time_ns is not None


class FileSink:
    """A file, or one after the other.

    What can't be written is cut off again, so that the file ends with a whole sample; it is tried
    anew every RETRY_AFTER_NS, and meanwhile what is lost is counted. What was written stays, also
    where the disk does not confirm it; that is a problem of its own, until it confirms again.
    """

    def __init__(
        self,
        path: Path,
        *,
        who: Person | None = None,
        rotation: Rotation | None = None,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """The file is made with the first chunk, in folders that are made if need be.

        With a rotation, each has the time of its first sample in its name.
        """
        self.problem, self.lost, self.ticks, self.size = "", 0, 0, 0
        self.broken: OSError | None = None
        self._path = path
        self._who = who
        self._rotation = rotation or Rotation()
        self._clock_ns = clock_ns
        self._shown = path
        self._written: list[Path] = []  # of a rotation, oldest first; the last is open
        self._handle: int | None = None
        self._open_frame = False
        self._length = 0  # of this file
        self._began_ns = 0
        self._stuck = False  # only a chunk that starts a frame can go on
        self._doubt = ""  # why what was written may not be on the disk
        self._retry_ns = 0
        self._after: SeekPoint | None = None

    @property
    def name(self) -> str:
        return str(self._shown)

    @property
    def wants_start(self) -> bool:
        if self.broken is not None:
            return False
        if self._stuck or self._handle is None:
            return self._clock_ns() >= self._retry_ns
        return self._is_due

    def write(self, chunk: Chunk) -> None:
        lacks_start = (self._stuck or self._handle is None) and not chunk.starts
        if self.broken is not None or lacks_start:
            self.lost += chunk.ticks
            return
        try:
            if chunk.starts and self._is_due:
                self._end_file()
            if self._handle is None:
                self._begin_file(chunk)
            first = not self._open_frame
            self._append(chunk)
            if first:
                self._let_go()
        except FileExistsError as error:
            self.broken, self.problem = error, "it exists, and no recording is written over"
            self.lost += chunk.ticks
        except OSError as error:
            # Nothing was ever written: the operator has to choose another place.
            if self._handle is None and not self.ticks:
                self.broken = error
            self.problem, self._stuck = _why(error), True
            self._retry_ns = self._clock_ns() + RETRY_AFTER_NS
            self.lost += chunk.ticks

    def finish(self) -> None:
        try:
            self._end_file()
        except OSError as error:
            self.problem = _why(error)
        else:
            self.problem = self.problem or self._doubt

    @property
    def _is_due(self) -> bool:
        """This file is as large or as old as one may be."""
        if self._handle is None:
            return False
        most, longest = self._rotation.size, self._rotation.time_ns
        after = self._after.monotonic_ns if self._after is not None else self._began_ns
        large = most is not None and self._length >= most
        return large or (longest is not None and after - self._began_ns >= longest)

    def _begin_file(self, chunk: Chunk) -> None:
        path = self._path
        if self._rotation.any:
            path = _unused(timed(path, chunk.after.wall_ns))
        with open_folder(path.parent, make_for=self._who, make=True) as folder:
            self._handle = folder.create(path.name, self._who)
        self._shown, self._length, self._open_frame = path, 0, False
        self._written.append(path)
        self._began_ns, self._after = chunk.after.monotonic_ns, None

    def _let_go(self) -> None:
        if self._rotation.keep is None:
            return
        # What can't be removed now is when the next file begins.
        with contextlib.suppress(OSError):
            let_go(self._path, self._rotation.keep, self._written)
        self._written = [item for item in self._written if exists(item)]

    def _append(self, chunk: Chunk) -> None:
        again = chunk.starts and self._open_frame
        self._put((FRAME_END if again else b"") + chunk.data)
        self._open_frame, self._after, self._stuck = True, chunk.after, False
        self.ticks += chunk.ticks
        if again:
            self._sync()
        self.problem = self._doubt

    def _end_file(self) -> None:
        if self._handle is None:
            return
        try:
            if self._open_frame and self._after is not None:
                self._put(FRAME_END + packed(self._after))
            self._sync()
            if not self._length:
                remove_empty(self._handle, self._shown)
        finally:
            handle, self._handle, self._open_frame = self._handle, None, False
            os.close(handle)

    def _put(self, data: bytes) -> None:
        """Append to this file all of it or, raising OSError, nothing."""
        if self._handle is None:
            raise AssertionError("no file is open")
        try:
            _write(self._handle, data)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._handle, self._length)
                os.lseek(self._handle, self._length, os.SEEK_SET)
            raise
        self._length += len(data)
        self.size += len(data)

    def _sync(self) -> None:
        if self._handle is None:
            raise AssertionError("no file is open")
        try:
            os.fdatasync(self._handle)
        except OSError as error:
            self._doubt = f"the disk does not confirm what was written: {_why(error)}"
        else:
            self._doubt = ""


def _unused(path: Path) -> Path:
    """The path, with a number behind the time where two files began in one second."""
    number, found = 1, path
    while exists(found):
        number += 1
        found = path.with_name(f"{path.stem}.{number}{path.suffix}")
    return found


def _write(handle: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(handle, left) :]


def _why(error: OSError) -> str:
    return error.strerror or str(error)
