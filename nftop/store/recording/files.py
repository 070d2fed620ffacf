"""The files of recordings: whose they are, what they are called, which go when there are too many.

Under sudo a recording belongs to whoever called it, but only in a folder of theirs: elsewhere it is
root's, or sudo for nftop alone would hand out files anywhere. A file is made in the folder that was
looked at, is never written over, and is its owner's alone (0600): names and command lines of
processes are in it. `folders` opens all of them, so that root follows nobody's symbolic links.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from nftop.model.struct import dataclass
from nftop.store.folders import Folder, Person, caller, open_folder
from nftop.store.reading import seekpoint

SUFFIX = ".nftop"
_FOLDER = Path("nftop/recordings")
_TIME = "%Y%m%dT%H%M%SZ"
_STAMP = r"-(?P<time>\d{8}T\d{6}Z)(\.(?P<number>\d+))?"


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
    """The folder and those above it; `who` gets those made below a folder of theirs.

    Raises:
        OSError: as `open_folder`.
    """
    open_folder(folder, make_for=who, make=True).close()


def create(path: Path, who: Person | None, mode: int = 0o600) -> int:
    """A new file, open for writing. Raises OSError, FileExistsError among them."""
    with open_folder(path.parent) as folder:
        return folder.create(path.name, who, mode)


def remove_empty(handle: int, path: Path) -> None:
    """Remove an open file, if nothing is in it and it is still called so."""
    with contextlib.suppress(OSError), open_folder(path.parent) as folder:
        if not os.fstat(handle).st_size:
            folder.remove_if(path.name, handle)


def exists(path: Path) -> bool:
    """Whether the name is taken, by a dangling link too; False where its folder can't be opened."""
    with contextlib.suppress(OSError), open_folder(path.parent) as folder:
        return folder.status(path.name) is not None
    return False


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
    turn = {item: at for at, item in enumerate(written)}
    with open_folder(path.parent) as folder:
        rotated = _rotated(folder, path)
        found = sorted(rotated, key=lambda entry: (turn.get(entry.path, -1), *entry.age))
        gone, total = [], 0
        for place, item in enumerate(reversed(found)):
            total += item.size
            too_many = keep.files is not None and place >= keep.files
            too_large = keep.size is not None and total > keep.size
            # The newest is being written.
            if place and item.path not in written[-1:] and (too_many or too_large):
                folder.remove(item.path.name)
                gone.append(item.path)
    return gone


@dataclass(frozen=True, slots=True)
class _Rotated:
    """A recording of a rotation. Its age: time of its first sample, time and number in its name."""

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
    """Size, and wall time of the first sample; None where it does not begin as recordings do."""
    try:
        handle = folder.open_file(name)
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
