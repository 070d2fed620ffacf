"""Outputs of recordings: new files, or a pipe. The recording is complete after every chunk.

Recordings are never overwritten, have mode 0600, because they contain process names and command
lines, and, under sudo, belong to the invoking user if the folder does; elsewhere they are root's.
All files are opened by `folders`, which follows no symbolic link of another user.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from nftop.model.struct import dataclass
from nftop.store.folders import Folder, Person, caller, open_folder
from nftop.store.format.encoder import Chunk
from nftop.store.format.zstd import FRAME_END
from nftop.store.reading import seekpoint
from nftop.store.reading.seekpoint import SeekPoint, packed

SUFFIX = ".nftop"
_FOLDER = Path("nftop/recordings")
_TIME = "%Y%m%dT%H%M%SZ"
_STAMP = r"-(?P<time>\d{8}T\d{6}Z)(\.(?P<number>\d+))?"


def default_file(environ: Mapping[str, str], host: str, wall_ns: int) -> Path:
    """Default path of a recording: `default_base` with a time."""
    return timed(default_base(environ, host), wall_ns)


def default_base(environ: Mapping[str, str], host: str) -> Path:
    """Path of a host's recordings without a time: in the data folder (XDG) of the invoking user."""
    owner = caller(environ)
    if owner is None:
        data_home = Path(environ.get("XDG_DATA_HOME", ""))
        base = data_home if data_home.is_absolute() else Path.home() / ".local/share"
    else:
        base = owner.home / ".local/share"
    name = re.sub(r"[^A-Za-z0-9._-]", "_", host).lstrip(".") or "host"
    return base / _FOLDER / f"{name}{SUFFIX}"


def timed(path: Path, wall_ns: int) -> Path:
    """The path with a time in its name: `edge-20260131T031200Z.nftop`."""
    moment = datetime.fromtimestamp(wall_ns // 1_000_000_000, UTC)
    return path.with_name(f"{path.stem}-{moment.strftime(_TIME)}{path.suffix}")


def create(path: Path, owner: Person | None, mode: int = 0o600) -> int:
    """A new file, open for writing. Raises OSError, such as FileExistsError."""
    with open_folder(path.parent) as folder:
        return folder.create(path.name, owner, mode)


def remove_empty(handle: int, path: Path) -> None:
    """Remove an open file if it is empty and still has this name."""
    with contextlib.suppress(OSError), open_folder(path.parent) as folder:
        if not os.fstat(handle).st_size:
            folder.remove_if(path.name, handle)


def exists(path: Path) -> bool:
    """Whether the name exists, also as a dangling link; False if its folder can't be opened."""
    with contextlib.suppress(OSError), open_folder(path.parent) as folder:
        return folder.status(path.name) is not None
    return False


@dataclass(frozen=True, slots=True)
class Keep:
    """Maximum number and total bytes of recordings of a rotation; None: unlimited."""

    files: int | None = None
    size: int | None = None


def remove_oldest(path: Path, keep: Keep, written: Sequence[Path] = ()) -> list[Path]:
    """Remove the oldest recordings of a rotation beyond its limits; returns their paths.

    `path` is the name without times. `written`: the caller's own files, oldest first; they count as
    newer than all others, whatever the wall clock was, and the last is open and is not removed.
    Files that are no recordings of nftop, or another user's than nftop's and the folder's, do not
    count and are never removed. Raises OSError if the folder can't be read.
    """
    turn = {item: at for at, item in enumerate(written)}
    with open_folder(path.parent) as folder:
        rotated = _rotated(folder, path)
        newest_last = sorted(rotated, key=lambda entry: (turn.get(entry.path, -1), *entry.age))
        gone, total = [], 0
        for rank, item in enumerate(reversed(newest_last)):
            total += item.size
            too_many = keep.files is not None and rank >= keep.files
            too_large = keep.size is not None and total > keep.size
            # The newest is being written.
            if rank and item.path not in written[-1:] and (too_many or too_large):
                with contextlib.suppress(OSError):  # is tried again the next time
                    folder.remove(item.path.name)
                    gone.append(item.path)
    return gone


@dataclass(frozen=True, slots=True)
class _Rotated:
    """A recording of a rotation. `age`: time of its first sample, time and number in its name."""

    path: Path
    size: int
    age: tuple[int, str, int]


def _rotated(folder: Folder, path: Path) -> Iterator[_Rotated]:
    pattern = re.compile(re.escape(path.stem) + _STAMP + re.escape(path.suffix))
    for name in folder.names():
        named = pattern.fullmatch(name)
        begun = None if named is None else _begun(folder, name)
        if named is not None and begun is not None:
            size, wall_ns = begun
            age = (wall_ns, named["time"], int(named["number"] or 1))
            yield _Rotated(path.with_name(name), size, age)


def _begun(folder: Folder, name: str) -> tuple[int, int] | None:
    """Size, and wall time of the first sample; None if it is no recording, or another user's."""
    try:
        handle = folder.open_file(name)
    except OSError:
        return None
    try:
        about = os.fstat(handle)
        owners = (os.geteuid(), os.fstat(folder.handle).st_uid)
        if not stat.S_ISREG(about.st_mode) or about.st_uid not in owners:
            return None
        point = seekpoint.unpacked(os.pread(handle, seekpoint.SIZE, 0))
        return None if point is None else (about.st_size, point.wall_ns)
    finally:
        os.close(handle)


RETRY_AFTER_NS = 5_000_000_000


class Sink(Protocol):
    """Takes chunks in order, in one thread, and never raises.

    Attributes:
        problem: why nothing is written now; "" if it is.
        lost: samples that were not written.
        ticks, size: samples and bytes that were.
        broken: the error that ended it; None if it may continue.
    """

    problem: str
    lost: int
    ticks: int
    size: int
    broken: OSError | None

    @property
    def name(self) -> str:
        """Name for the operator."""

    @property
    def wants_start(self) -> bool:
        """Whether the next chunk should start a frame."""

    def write(self, chunk: Chunk) -> None:
        """Write a chunk, or count it as lost."""

    def finish(self) -> None:
        """Write the recording's end, and close."""


class StreamSink:
    """Standard output, possibly a pipe; ends with the first error."""

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
class FileRotation:
    """Limits of a file's size and age, None: none; and what to keep of the old files."""

    size: int | None = None
    time_ns: int | None = None
    keep: Keep | None = None

    @property
    def any(self) -> bool:
        return (self.size, self.time_ns) != (None, None)


class FileSink:
    """A file, or one after the other.

    A chunk that can't be written is truncated, so that the file ends with a complete sample;
    writing is tried again every RETRY_AFTER_NS, and lost samples are counted. If the disk does not
    confirm what was written, it remains, and is reported as a problem until the disk confirms
    again.
    """

    def __init__(
        self,
        path: Path,
        *,
        owner: Person | None = None,
        rotation: FileRotation | None = None,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """The file, and missing folders, are created with the first chunk.

        With a rotation, names contain the time of the first sample.
        """
        self.problem, self.lost, self.ticks, self.size = "", 0, 0, 0
        self.broken: OSError | None = None
        self._path = path
        self._owner = owner
        self._rotation = rotation or FileRotation()
        self._clock_ns = clock_ns
        self._shown = path
        self._written: list[Path] = []  # of a rotation, oldest first; the last is open
        self._handle: int | None = None
        self._open_frame = False
        self._length = 0  # of this file
        self._began_ns = 0
        self._stuck = False  # only a chunk that starts a frame can go on
        self._doubt = ""  # error of the last fdatasync(2)
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
                self._remove_oldest()
        except FileExistsError as error:
            self.broken, self.problem = error, "it exists, and no recording is written over"
            self.lost += chunk.ticks
        except OSError as error:
            # First: other threads read the problem of what is broken.
            self.problem, self._stuck = _why(error), True
            # Nothing was ever written: the operator must choose another path.
            if self._handle is None and not self.ticks:
                self.broken = error
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
        """Whether this file has reached the rotation's size or age."""
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
        with open_folder(path.parent, make_for=self._owner, make=True) as folder:
            self._handle = folder.create(path.name, self._owner)
        self._shown, self._length, self._open_frame = path, 0, False
        self._written.append(path)
        self._began_ns, self._after = chunk.after.monotonic_ns, None

    def _remove_oldest(self) -> None:
        if self._rotation.keep is None:
            return
        with contextlib.suppress(OSError):
            remove_oldest(self._path, self._rotation.keep, self._written)
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
        """Append all data to this file or, raising OSError, none."""
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
    """The path, with a number after the time if two files begin in one second."""
    number, candidate = 1, path
    while exists(candidate):
        number += 1
        candidate = path.with_name(f"{path.stem}.{number}{path.suffix}")
    return candidate


def _write(handle: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(handle, left) :]


def _why(error: OSError) -> str:
    return error.strerror or str(error)
