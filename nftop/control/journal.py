"""Pending and past changes, on disk before they are made.

One folder per host (root, 0700), whoever started nftop: another operator must be able to recover.
`pending.json` exists from before the first write until a change is kept or reverted;
`history.jsonl` has a line for every change (the audit trail). A process that changes the host holds
the lock of `lock` until the change is kept or reverted.

Every entry has its own checksum (`journal_entry` has the format). `index.json` is one more sealed
line, written after each line of the history:

    {"format": 2, "size_bytes": 4711, "lines": 9, "history_sha256": "...", "sha256": "..."}

The first `size_bytes` bytes of the history are acknowledged and have that SHA-256. After them may
be a line that a crash cut short, which is dropped, or whole lines, written before a crash prevented
the update of the index or by nftop before format 2. Without an index (format 1) lines are checked
one by one. Damaged files are refused, never deleted or overwritten: no change is made until an
operator has repaired them by hand; `DamagedJournalError.details` say how.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from nftop.control.backend import take_flock
from nftop.control.journal_damage import (
    DamagedJournalError,
    InvalidError,
    damaged,
    index_details,
    line_details,
    lines_details,
    missing_details,
    pending_details,
)
from nftop.control.journal_entry import (
    FORMAT,
    MOST_BYTES,
    SHA256_OF_NOTHING,
    Entry,
    completed,
    digest,
    entry_of,
    finished,
    seal,
    text_of,
    unseal,
)
from nftop.model.change import Outcome
from nftop.model.struct import dataclass

DEFAULT = Path("/var/lib/nftop")
_CHECKED_AT_S = 0.3  # `holder` takes the lock for a moment to check whether it is held
_ROOT = 0  # user id
_PENDING, _HISTORY, _LOCK = "pending.json", "history.jsonl", "lock"
_INDEX = "index.json"
_MOST_HISTORY_BYTES = 8 * MOST_BYTES
_INDEX_MEMBERS = frozenset({"format", "size_bytes", "lines", "history_sha256"})


class BusyError(Exception):
    """Another nftop is changing this host; the text names it."""


class Journal(Protocol):
    """Pending and past changes. Methods may raise OSError, those that read DamagedJournalError."""

    @property
    def persistent(self) -> bool:
        """Whether a later process can read it, to undo and to recover."""

    def hold(self) -> contextlib.AbstractContextManager[None]:
        """Exclude other changes of this host. Raises BusyError, DamagedJournalError."""

    def holder(self) -> str:
        """Process that is changing this host, as text; "" if none."""

    def pending(self) -> Entry | None:
        """The pending change, also one that a crash left; None if none."""

    def history(self) -> tuple[Entry, ...]:
        """All past changes, the oldest first."""

    def known(self) -> tuple[tuple[Entry, ...], tuple[str, ...]]:
        """The history without damaged lines, and a message if there are any."""

    def begin(self, entry: Entry) -> None:
        """Record a change before its first write; on disk when this returns."""

    def record(self, entry: Entry, outcome: Outcome) -> None:
        """Append to the history after the last write; call `forget` next."""

    def forget(self) -> None:
        """Remove the pending change."""


@dataclass(frozen=True, slots=True)
class _Index:
    """Acknowledged bytes and lines of the history, and their SHA-256."""

    size_bytes: int = 0
    lines: int = 0
    sha256: str = SHA256_OF_NOTHING

    def covers(self, data: bytes) -> bool:
        """Whether a history starts with everything acknowledged."""
        start = data[: self.size_bytes]
        return len(start) == self.size_bytes and digest(start) == self.sha256


@dataclass(frozen=True, slots=True)
class FileJournal:
    folder: Path = DEFAULT

    @property
    def persistent(self) -> bool:
        return True

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        with contextlib.suppress(FileExistsError):  # not a folder: `demand_own` reports it
            is_new = not self.folder.exists()
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if is_new:
                _sync(self.folder.parent)  # else a power cut may take the folder and all in it
        self.demand_own()
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        handle = os.open(self.folder / _LOCK, flags, 0o600)
        try:
            if not take_flock(handle, _CHECKED_AT_S):
                holder = _holder(handle)
                raise BusyError(
                    f"a change by {holder} is under way: it is to be kept or taken back first"
                )
            os.ftruncate(handle, 0)
            os.pwrite(handle, str(os.getpid()).encode(), 0)
            yield
        finally:
            os.close(handle)

    def demand_own(self) -> None:
        """Raise DamagedJournalError unless only root can read and write it, or it does not exist.

        Another user who can write to it could have root change the host.
        """
        try:
            status = self.folder.lstat()
        except FileNotFoundError:
            return
        mode = stat.S_IMODE(status.st_mode)
        if not stat.S_ISDIR(status.st_mode):
            why = "is no folder; move it aside"
        elif status.st_uid not in (_ROOT, os.geteuid()):
            why = f"is user {status.st_uid}'s; look at what it has, chown root {self.folder}"
        elif mode & 0o077:
            why = f"is open to others ({mode:o}); look at what it has, chmod 700 {self.folder}"
        else:
            return
        raise DamagedJournalError(
            f"the journal of changes can't be read: {self.folder} {why}", "folder"
        )

    def holder(self) -> str:
        self.demand_own()
        try:
            handle = os.open(self.folder / _LOCK, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return ""
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _holder(handle)
        else:
            return ""
        finally:
            os.close(handle)

    def pending(self) -> Entry | None:
        self.demand_own()
        path = self.folder / _PENDING
        data = _read(path, MOST_BYTES)
        if data is None:
            return None
        text = data.decode("latin-1")  # an entry is ASCII, which is checked
        try:
            return entry_of(str(path), text)
        except DamagedJournalError as error:
            error.details = pending_details(str(path), text)
            raise

    def history(self) -> tuple[Entry, ...]:
        """As `Journal.history`; a line that a crash cut short is left out.

        Raises DamagedJournalError, with the details of every damaged line and of the index.
        """
        entries, damage = self._lines()
        if damage:
            details = tuple(row for error in damage for row in error.details)
            raise DamagedJournalError(str(damage[0]), damage[0].reason, details)
        return entries

    def known(self) -> tuple[tuple[Entry, ...], tuple[str, ...]]:
        entries, damage = self._lines()
        return entries, tuple(map(str, damage))

    def _lines(self) -> tuple[tuple[Entry, ...], tuple[DamagedJournalError, ...]]:
        self.demand_own()
        path, entries = self.folder / _HISTORY, list[Entry]()
        data = _read(path, _MOST_HISTORY_BYTES) or b""
        index, index_damage = self._checked_index()
        *rows, rest = data.split(b"\n")
        if rest and (index is None or len(data) <= index.size_bytes):
            rows.append(rest)
        damage: dict[int, DamagedJournalError] = {}
        for number, row in enumerate(rows, 1):
            text = row.decode("latin-1")
            try:
                if text:
                    entries.append(entry_of(f"line {number} of {path}", text))
            except DamagedJournalError as error:
                error.details = line_details(number, text)
                damage[number] = error
        if damage:
            last = damage[max(damage)]
            last.details += lines_details(str(path), sorted(damage), str(self.folder / _INDEX))
        elif index is not None and not index.covers(data):
            readable = sum(map(bool, rows))
            details = missing_details(str(path), str(self.folder / _INDEX), index.lines, readable)
            return tuple(entries), (damaged(str(path), "missing", details),)
        return tuple(entries), (*damage.values(), *index_damage)

    def _checked_index(self) -> tuple[_Index | None, tuple[DamagedJournalError, ...]]:
        """The index and no error, or None and why it can't be trusted."""
        try:
            return self._index(), ()
        except DamagedJournalError as error:
            return None, (error,)

    def _index(self) -> _Index:
        """The index; an empty one without a file. Raises DamagedJournalError."""
        path = self.folder / _INDEX
        data = _read(path, MOST_BYTES)
        if data is None:
            return _Index()
        try:
            raw, is_sealed = unseal(data.decode("latin-1"))
            if not is_sealed:
                raise InvalidError("checksum")
            if raw.get("format") != FORMAT:
                raise InvalidError("format")
            if raw.keys() != _INDEX_MEMBERS:
                raise InvalidError("member")
            return _Index(raw["size_bytes"], raw["lines"], raw["history_sha256"])
        except InvalidError as error:
            raise damaged(str(path), error.reason, index_details(str(path))) from None

    def begin(self, entry: Entry) -> None:
        _replace(self.folder, _PENDING, _bounded_text(entry))

    def record(self, entry: Entry, outcome: Outcome) -> None:
        """As `Journal.record`; a crash before `forget` leaves it in both files (`completed`)."""
        text = _bounded_text(finished(entry, outcome))
        index, _ = self._checked_index()
        _append(self.folder / _HISTORY, text, None if index is None else index.size_bytes)
        if index is not None:
            # The line is on disk with its own checksum, and the old index is still valid.
            with contextlib.suppress(OSError, DamagedJournalError):
                self._renew(index)

    def _renew(self, index: _Index) -> None:
        """Extend the index to the whole history, unless that would hide damage."""
        data = _read(self.folder / _HISTORY, _MOST_HISTORY_BYTES) or b""
        if index.covers(data):
            new = {
                "format": FORMAT,
                "size_bytes": len(data),
                "lines": sum(map(bool, data.split(b"\n"))),
                "history_sha256": digest(data),
            }
            _replace(self.folder, _INDEX, seal(new))

    def forget(self) -> None:
        (self.folder / _PENDING).unlink(missing_ok=True)
        _sync(self.folder)


def unfinished(journal: Journal) -> str:
    """Message on the pending change, also one that a crash left; "" if none."""
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
    return max((entry.number for entry in journal.history()), default=0) + 1


def hinted(journal: Journal, hint: str) -> str:
    """A hint for another process; "" if the journal is not persistent."""
    return hint if journal.persistent else ""


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _holder(lock: int) -> str:
    return f"pid {os.pread(lock, 64, 0).decode('ascii', 'replace').strip()}"


def _bounded_text(entry: Entry) -> str:
    """An entry as a line. Raises OSError if it is too long to be read again."""
    text = text_of(entry)
    if len(text) > MOST_BYTES:
        raise OSError(errno.EFBIG, "the change is too large to be written down")
    return text


def _read(path: Path, most_bytes: int) -> bytes | None:
    """A file's content, None without a file. Does not follow links or wait for pipes.

    Raises DamagedJournalError: it is no regular file, or longer than `most_bytes`.
    """
    details = (f"check {path}, and move it away",)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a symbolic link, a socket
            raise damaged(str(path), "type", details) from None
        raise
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise damaged(str(path), "type", details)
        if status.st_size > most_bytes:
            raise damaged(str(path), "size", details)
        data = b""
        while more := os.read(handle, 1 << 20):
            data += more
    finally:
        os.close(handle)
    return data


def _replace(folder: Path, name: str, text: str) -> None:
    """Replace a file atomically."""
    temporary = folder / f"{name}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    handle = os.open(temporary, flags, 0o600)
    try:
        _write(handle, text.encode(), temporary)
    finally:
        os.close(handle)
    temporary.replace(folder / name)
    _sync(folder)


def _append(path: Path, text: str, acknowledged_bytes: int | None) -> None:
    """Add a line, on the disk when this returns.

    The first `acknowledged_bytes` of the file are never dropped; None: no byte of it is.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    handle = os.open(path, flags, 0o600)
    try:
        size = os.fstat(handle).st_size
        last = os.pread(handle, size, 0).rfind(b"\n") + 1
        data, length = text.encode(), size
        if last < size and (acknowledged_bytes is None or size <= acknowledged_bytes):
            data = b"\n" + data  # it is damaged, and kept as it is
        elif last < size:
            # A line that a crash cut short is not acknowledged and would corrupt the next one.
            os.ftruncate(handle, last)
            length = last
        try:
            _write(handle, data, path)
        except OSError:
            # A line that is not acknowledged must not be read later as if it were.
            with contextlib.suppress(OSError):
                os.ftruncate(handle, length)
                os.fsync(handle)
            raise
        if size == 0:
            _sync(path.parent)
    finally:
        os.close(handle)


def _write(handle: int, data: bytes, path: Path) -> None:
    try:
        while data:
            data = data[os.write(handle, data) :]
        os.fsync(handle)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
