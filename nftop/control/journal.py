"""What is under way and all that was done: on disk before it happens.

A folder of root's, 0700, one for the host whoever started nftop: another operator must be able to
recover. `pending.json` is there from before the first write until a change is kept or taken back;
`history.jsonl` has a line for everything that was (the audit trail). Who changes anything holds the
lock of `lock` meanwhile, to the end of the time in which a change may be kept.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from nftop.control.entry import DamagedError, Entry, completed, entry_of, finished, text_of
from nftop.model.action import Outcome

DEFAULT = Path("/var/lib/nftop")
_LOOKED_AT_S = 0.3
_ROOT = 0  # a user's number
_PENDING, _HISTORY, _LOCK = "pending.json", "history.jsonl", "lock"


class BusyError(Exception):
    """Another nftop is changing this host; the text says who."""


class Journal(Protocol):
    """What is under way, and all that was. Any method may raise OSError; that reads, DamagedError.

    A protocol, so that a journal which is no folder has nothing of one.
    """

    @property
    def lasts(self) -> bool:
        """Whether what it has is there for the next process, which can undo and mend it."""

    def hold(self) -> contextlib.AbstractContextManager[None]:
        """Be the only one to change this host. Raises BusyError, DamagedError."""

    def holder(self) -> str:
        """Who changes this host now, in words; "" if nobody does."""

    def pending(self) -> Entry | None:
        """What is under way, or was when somebody was killed; None if nothing."""

    def history(self) -> tuple[Entry, ...]:
        """Everything done, the oldest first."""

    def known(self) -> tuple[tuple[Entry, ...], tuple[str, ...]]:
        """The history without the lines that make no sense, and a sentence if there are any."""

    def begin(self, entry: Entry) -> None:
        """Before the first write: written down when this returns."""

    def record(self, entry: Entry, outcome: Outcome) -> None:
        """After the last write: to the history; `forget` is to follow."""

    def forget(self) -> None:
        """Nothing is pending any more."""


@dataclass(frozen=True, slots=True)
class FileJournal:
    """The journal of this host: a folder."""

    folder: Path = DEFAULT

    @property
    def lasts(self) -> bool:
        return True

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        with contextlib.suppress(FileExistsError):  # as something else: that is said below
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.demand_own()
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        handle = os.open(self.folder / _LOCK, flags, 0o600)
        try:
            if not _taken(handle):
                who = os.pread(handle, 64, 0).decode("ascii", "replace").strip()
                raise BusyError(
                    f"a change by pid {who} is under way: it is to be kept or taken back first"
                )
            os.ftruncate(handle, 0)
            os.pwrite(handle, str(os.getpid()).encode(), 0)
            yield
        finally:
            os.close(handle)

    def demand_own(self) -> None:
        """Raise DamagedError if what is there is not a folder that only root writes and reads.

        What anybody else can write would have root change the host as he likes. One that is not
        there is empty.
        """
        try:
            found = self.folder.lstat()
        except FileNotFoundError:
            return
        mode = stat.S_IMODE(found.st_mode)
        if not stat.S_ISDIR(found.st_mode):
            why = "is no folder; move it aside"
        elif found.st_uid not in (_ROOT, os.geteuid()):
            why = f"is user {found.st_uid}'s; look at what it has, chown root {self.folder}"
        elif mode & 0o077:
            why = f"is open to others ({mode:o}); look at what it has, chmod 700 {self.folder}"
        else:
            return
        raise DamagedError(f"the journal of changes can't be read: {self.folder} {why}")

    def holder(self) -> str:
        self.demand_own()
        try:
            handle = os.open(self.folder / _LOCK, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return ""
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return f"pid {os.pread(handle, 64, 0).decode('ascii', 'replace').strip()}"
        else:
            return ""
        finally:
            os.close(handle)

    def pending(self) -> Entry | None:
        self.demand_own()
        text = _read(self.folder / _PENDING)
        return None if text is None else entry_of(str(self.folder / _PENDING), text)

    def history(self) -> tuple[Entry, ...]:
        """As `Journal.history`; a line that a crash cut short is left out."""
        name = str(self.folder / _HISTORY)
        return tuple(entry_of(name, line) for line in self._lines())

    def known(self) -> tuple[tuple[Entry, ...], tuple[str, ...]]:
        found, damaged = list[Entry](), 0
        for line in self._lines():
            try:
                found.append(entry_of(_HISTORY, line))
            except DamagedError:
                damaged += 1
        path = self.folder / _HISTORY
        said = (f"{path} is damaged ({damaged} of its lines): move it aside",) if damaged else ()
        return tuple(found), said

    def _lines(self) -> list[str]:
        self.demand_own()
        # What has no end of line was never acknowledged.
        lines = (_read(self.folder / _HISTORY) or "").split("\n")[:-1]
        return [each for each in lines if each]

    def begin(self, entry: Entry) -> None:
        _replace(self.folder, _PENDING, text_of(entry))

    def record(self, entry: Entry, outcome: Outcome) -> None:
        """As `Journal.record`.

        In this order: a crash between the two leaves it in both, which `pending` of the same number
        tells.
        """
        _append(self.folder / _HISTORY, text_of(finished(entry, outcome)))

    def forget(self) -> None:
        (self.folder / _PENDING).unlink(missing_ok=True)
        _sync(self.folder)


def unfinished(journal: Journal) -> str:
    """What is under way, or was when somebody was killed, as a sentence; "" if nothing."""
    entry = journal.pending()
    if entry is None:
        return ""
    holder = journal.holder()
    if holder:
        return f"change {entry.number} by {holder} is under way: it is to be kept or taken back"
    if completed(entry, journal.known()[0]) is not None:
        hint = hinted(journal, ": `nftop recover` closes it")
        return f"change {entry.number} is complete but not closed{hint}"
    hint = hinted(journal, ": `nftop recover` takes it back")
    return f"change {entry.number} was cut off{hint}"


def next_number(journal: Journal) -> int:
    """For the next change."""
    return max((entry.number for entry in journal.history()), default=0) + 1


def hinted(journal: Journal, hint: str) -> str:
    """A hint at what another process can do about it; "" where that would find another host."""
    return hint if journal.lasts else ""


def now() -> str:
    """The time as entries have it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _taken(handle: int) -> bool:
    """The lock, exclusive. Who only looks whether it is held (`holder`) has it for a moment."""
    deadline = time.monotonic() + _LOOKED_AT_S
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_LOOKED_AT_S / 60)
        else:
            return True


def _read(path: Path) -> str | None:
    """A file's text; None where there is none. No link is followed."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        found = b""
        while more := os.read(handle, 1 << 20):
            found += more
    finally:
        os.close(handle)
    return found.decode("utf-8", "replace")


def _replace(folder: Path, name: str, text: str) -> None:
    """A whole new file in one step: after a crash it is the old one or the new."""
    part = folder / f"{name}.new"
    _append(part, text, os.O_TRUNC)
    part.replace(folder / name)
    _sync(folder)


def _append(path: Path, text: str, flags: int = os.O_APPEND) -> None:
    flags |= os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    handle = os.open(path, flags, 0o600)
    try:
        # What a crash cut short was never acknowledged, and would spoil the line after it.
        whole = os.pread(handle, os.fstat(handle).st_size, 0).rpartition(b"\n")
        length = len(whole[0]) + len(whole[1])
        os.ftruncate(handle, length)
        try:
            data = text.encode()
            while data:
                data = data[os.write(handle, data) :]
            os.fsync(handle)
        except OSError:
            # A line that was not acknowledged is not to be read later as if it had been.
            with contextlib.suppress(OSError):
                os.ftruncate(handle, length)
                os.fsync(handle)
            raise
    finally:
        os.close(handle)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
