"""The files of recordings: whose they are, what they are called, which go when there are too many.

Under sudo a recording belongs to whoever called it, but only in a folder of theirs: elsewhere it is
root's, or sudo for nftop alone would hand out files anywhere. A file is made in the folder that was
looked at, is never written over, and is its owner's alone (0600): names and command lines of
processes are in it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from nftop.store import seekpoint

SUFFIX = ".nftop"
_FOLDER = Path("nftop/recordings")
_TIME = "%Y%m%dT%H%M%SZ"
_STAMP = r"-(?P<time>\d{8}T\d{6}Z)(\.(?P<number>\d+))?"


@dataclass(frozen=True, slots=True)
class Person:
    """Who called nftop by sudo."""

    uid: int
    gid: int
    home: Path


def caller(environ: Mapping[str, str]) -> Person | None:
    """Who called nftop by sudo; None where nobody did, or root."""
    told = environ.get("SUDO_UID", "")
    if os.geteuid() != 0 or not (told.isascii() and told.isdigit() and len(told) < 11):
        return None
    try:
        entry = pwd.getpwuid(int(told))
    except KeyError:
        return None
    if entry.pw_uid == 0:
        return None
    return Person(entry.pw_uid, entry.pw_gid, Path(entry.pw_dir))


def default_file(environ: Mapping[str, str], host: str, wall_ns: int) -> Path:
    """Where a recording goes that was given no name: in the caller's data folder (XDG)."""
    who = caller(environ)
    if who is None:
        told = Path(environ.get("XDG_DATA_HOME", ""))
        base = told if told.is_absolute() else Path.home() / ".local/share"
    else:
        base = who.home / ".local/share"
    name = re.sub(r"[^A-Za-z0-9._-]", "_", host).lstrip(".") or "host"
    return timed(base / _FOLDER / f"{name}{SUFFIX}", wall_ns)


def timed(path: Path, wall_ns: int) -> Path:
    """The path with a time in its name: `edge-20260131T031200Z.nftop`."""
    moment = datetime.fromtimestamp(wall_ns // 1_000_000_000, UTC)
    return path.with_name(f"{path.stem}-{moment.strftime(_TIME)}{path.suffix}")


def make_folder(folder: Path, who: Person | None) -> None:
    """The folder and those above it, each as `create` makes files. Raises OSError."""
    if folder.is_dir():
        return
    if folder.exists():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    make_folder(folder.parent, who)
    above = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.mkdir(folder.name, 0o700, dir_fd=above)
        if who is not None and os.fstat(above).st_uid == who.uid:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            made = os.open(folder.name, flags, dir_fd=above)
            try:
                if os.fstat(made).st_uid == os.geteuid():
                    os.fchown(made, who.uid, who.gid)
            finally:
                os.close(made)
    finally:
        os.close(above)


def create(path: Path, who: Person | None, mode: int = 0o600) -> int:
    """A new file, open for writing. Raises OSError, FileExistsError among them."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(path.name, flags, mode, dir_fd=folder)
        try:
            if who is not None and os.fstat(folder).st_uid == who.uid:
                os.fchown(handle, who.uid, who.gid)
        except OSError:
            os.close(handle)
            raise
        return handle
    finally:
        os.close(folder)


def remove_empty(handle: int, path: Path) -> None:
    """Remove an open file, if nothing is in it and it is still called so."""
    made = os.fstat(handle)
    with contextlib.suppress(OSError):
        there = path.lstat()
        if not made.st_size and (made.st_dev, made.st_ino) == (there.st_dev, there.st_ino):
            path.unlink()


@dataclass(frozen=True, slots=True)
class Keep:
    """How many recordings of a rotation stay, and how many bytes they may have; None: any."""

    files: int | None = None
    size: int | None = None


def let_go(path: Path, keep: Keep, written: Sequence[Path] = ()) -> list[Path]:
    """Remove the oldest recordings of this rotation that are too many; which they were.

    `path` is the name without times. `written` are those of the caller's own, oldest first: they
    are newer than all others, whatever the wall clock said, and the last is open and stays. What
    is no recording of nftop's own writing stays, whatever it is called. Raises OSError.
    """
    turn = {each: at for at, each in enumerate(written)}
    found = sorted(_rotated(path), key=lambda each: (turn.get(each.path, -1), *each.age))
    gone, total = [], 0
    for place, each in enumerate(reversed(found)):
        total += each.size
        too_many = keep.files is not None and place >= keep.files
        too_large = keep.size is not None and total > keep.size
        # The newest is being written.
        if place and each.path not in written[-1:] and (too_many or too_large):
            each.path.unlink()
            gone.append(each.path)
    return gone


@dataclass(frozen=True, slots=True)
class _Rotated:
    """A recording of a rotation. Its age: time of its first sample, time and number in its name."""

    path: Path
    size: int
    age: tuple[int, str, int]


def _rotated(path: Path) -> Iterator[_Rotated]:
    pattern = re.compile(re.escape(path.stem) + _STAMP + re.escape(path.suffix))
    for each in path.parent.iterdir():
        named = pattern.fullmatch(each.name)
        begun = None if named is None else _begun(each)
        if named is not None and begun is not None:
            size, wall_ns = begun
            yield _Rotated(each, size, (wall_ns, named["time"], int(named["number"] or 1)))


def _begun(path: Path) -> tuple[int, int] | None:
    """Size, and wall time of the first sample; None where it does not begin as recordings do."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            return None
        point = seekpoint.unpacked(os.pread(handle, seekpoint.SIZE, 0))
        return None if point is None else (about.st_size, point.wall_ns)
    finally:
        os.close(handle)
