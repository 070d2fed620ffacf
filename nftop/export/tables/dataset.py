"""A folder of Parquet files that exports append to: `TABLE/host=HOST/day=DAY/part-ID.parquet`.

`HOST` is the name of the host, percent-encoded, as Hive and DuckDB do; `DAY` that of UTC. `ID` is
of the recording: the time when it began, and a hash of that and of its host. So a day has one file
for each recording and table, which holds each of its ticks once: rows of the interval that is
exported replace those that are there, all others stay. So do those between two ticks if ticks
between them can't be read: another copy of the recording had them.

Every file is written under another name, which no pattern `*.parquet` matches, and renamed when
all of them are complete and on disk. A reader sees a file as it was or as it is then.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise, product
from pathlib import Path
from typing import IO, TypeVar
from urllib.parse import quote

from nftop.export.tables.outputs import OutputsError, WriterFactory, unwritable, writer_factory
from nftop.export.tables.tables import TABLES, Columns, event_columns, gap_columns, table_of
from nftop.model.clock import NS_PER_S
from nftop.model.frame import Frame
from nftop.model.recording_loss import RecordingLoss
from nftop.model.struct import dataclass
from nftop.model.topology import Host
from nftop.store.folders import Folder, Person, open_folder
from nftop.store.format.records import Marker

# Hive's name of the partition of an empty value.
_NO_NAME = "__HIVE_DEFAULT_PARTITION__"
# Longest encoded name: with `host=` a component of a path has 255 bytes at most.
_MOST_NAME = 200
# Another export merges and renames its files within this time; it is tried again so often.
LOCKED_S, _RETRY_S = 120.0, 0.05
# Tables with rows of every tick, the smallest first.
_EVERY_TICK = ("packages", "nfs", "groups", "cpus")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class RecordedInterval:
    """What is exported: an interval of a recording, which its begin and its host identify.

    Attributes:
        from_ns, to_ns: wall clock; rows between the first and the last tick in it are replaced,
            but for those where ticks are lost.
        began_ns: wall clock when the recording began.
    """

    host: Host
    began_ns: int
    from_ns: int
    to_ns: int

    @property
    def stem(self) -> str:
        """`part-20260131T031200Z-0123456789ab`."""
        began = datetime.fromtimestamp(self.began_ns // NS_PER_S, UTC)
        key = f"{self.began_ns} {self.host.name}".encode("utf-8", "replace")
        return f"part-{began:%Y%m%dT%H%M%SZ}-{hashlib.sha256(key).hexdigest()[:12]}"


@dataclass(frozen=True, slots=True)
class AppendedDay:
    """What an export has written of a host and day.

    Attributes:
        size_bytes, rows: of its files, rows that were kept included.
        replaced: whether there were rows before that are in them no more.
    """

    host: str
    day: date
    size_bytes: int
    rows: int
    replaced: bool


def host_component(name: str) -> str:
    """`host=edge-07`: safe as a component of a path, whatever the name (untrusted) is."""
    shown = quote(name.encode("utf-8", "replace"), safe="") or _NO_NAME
    if len(shown) > _MOST_NAME:
        digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:16]
        shown = f"{shown[: _MOST_NAME - 20].rpartition('%')[0] or shown[:100]}~{digest}"
    return f"host={shown}"


class _DayFile:
    """One file, under its temporary name until `publish`."""

    def __init__(
        self, folder: Folder, name: str, table: str, make: WriterFactory, owner: Person | None
    ) -> None:
        """Create the file. Raises OSError."""
        self.folder = folder
        self.name = f"{name}.parquet"
        self.replaced = False
        self.size_bytes = self.rows = 0
        self._owner = owner
        self._temporary, self._file = self._created()
        self.writer = make(table, self._file)

    def _created(self) -> tuple[str, IO[bytes]]:
        name = f".{self.name}.{secrets.token_hex(6)}.tmp"
        return name, os.fdopen(self.folder.create(name, self._owner), "wb")

    def finish(self) -> None:
        """Write everything to the disk. Raises OSError."""
        self.writer.close()
        self._sync()

    def _sync(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def merge(self, replaced: Sequence[tuple[int, int]]) -> None:
        """Take over rows outside these times from the file that is there. Raises OSError."""
        from nftop.export.tables import parquet  # noqa: PLC0415 - an extra

        self.rows = self.writer.rows
        if self.folder.status(self.name) is None:
            return
        written = self._temporary
        with (
            os.fdopen(self.folder.open_file(self.name), "rb") as old,
            os.fdopen(self.folder.open_file(written), "rb") as new,
        ):
            self.replaced = parquet.has_replaced(old, new, replaced)
            if not parquet.has_others(old, new, replaced):
                return
            self._temporary, self._file = self._created()
            try:
                parquet.merged(old, new, replaced, self._file)
                self._sync()
                with os.fdopen(self.folder.open_file(self._temporary), "rb") as whole:
                    self.rows = parquet.row_count(whole)
            finally:
                self.folder.remove(written)

    def publish(self) -> None:
        """Rename the file. Raises OSError."""
        about = self.folder.status(self._temporary)
        self.size_bytes = 0 if about is None else about.st_size
        self.folder.move(self._temporary, self.name)
        os.fsync(self.folder.handle)

    def discard(self) -> None:
        # What can't be written is removed next.
        with contextlib.suppress(OSError, ValueError):
            self.writer.close()
        with contextlib.suppress(OSError):
            self._file.close()
        with contextlib.suppress(OSError):
            self.folder.remove(self._temporary)
        self.folder.close()


class Dataset:
    """Appends the frames and events of one interval of a recording."""

    def __init__(
        self, path: Path, tables: Sequence[str], *, owner: Person | None, interval: RecordedInterval
    ) -> None:
        """`path`: the folder, created if needed; `tables`: of `TABLES`. Raises OutputsError."""
        self._path = path
        self._tables = tables
        self._owner = owner
        self._interval = interval
        self._files: dict[tuple[str, str, date], _DayFile] = {}
        self._day: date | None = None
        self._ticks: list[int] = []
        self._losses: list[int] = []
        self._make = writer_factory("parquet")
        self._root = self._tried(lambda: open_folder(path, make_for=owner, make=True))

    def tick(self, number: int, frame: Frame) -> None:
        """Write every row of a frame. Raises OutputsError."""
        self._ticks.append(frame.wall_ns)
        for name in self._tables:
            rows = TABLES[name].rows
            if rows is not None:
                self._write(name, frame.host, frame.wall_ns, rows(number, frame))

    def marker(self, marker: Marker) -> None:
        """Write a marker. Raises OutputsError."""
        name, host = table_of(marker), self._interval.host
        if name in self._tables:
            self._write(name, host, marker.wall_ns, event_columns(host, marker))

    def losses(self, losses: Sequence[tuple[int, RecordingLoss]]) -> None:
        """Write what is missing, also in what was appended before. Raises OutputsError."""
        host = self._interval.host
        self._losses += [wall_ns for wall_ns, _ in losses]
        if not losses or "gaps" not in self._tables:
            return
        before = self._tried(self._appended)
        for wall_ns, loss in losses:
            if self._is_kept(wall_ns, before):
                continue
            self._write("gaps", host, wall_ns, gap_columns(host, [(wall_ns, loss)]))

    def _appended(self) -> list[int]:
        """Wall clock of the recording's ticks that were appended before, ascending."""
        from nftop.export.tables.parquet import row_times  # noqa: PLC0415 - an extra

        first, last = (_day(item) for item in (self._interval.from_ns, self._interval.to_ns))
        names = [name for name in _EVERY_TICK if name in self._tables][:1]
        times = set[int]()
        for name, days in product(names, range((last - first).days + 1)):
            path = self._folder(name, self._interval.host.name, first + timedelta(days=days))
            with (
                contextlib.suppress(FileNotFoundError),
                open_folder(path) as folder,
                os.fdopen(folder.open_file(f"{self._interval.stem}.parquet"), "rb") as file,
            ):
                times |= row_times(file)
        return sorted(times)

    def _is_kept(self, wall_ns: int, before: Sequence[int]) -> bool:
        """Whether `before` has the ticks that are lost at this time.

        They are between two ticks, or behind the last one.
        """
        ticks = sorted(set(self._ticks))
        at = bisect_left(ticks, wall_ns)
        if len(ticks) < 2 or not 0 < at < len(ticks):
            return False
        longest_ns = 1.5 * min(two - one for one, two in pairwise(ticks))
        inside = [item for item in before if ticks[at - 1] < item < ticks[at]]
        if ticks[at] - ticks[at - 1] > longest_ns:
            held = (ticks[at - 1], *inside, ticks[at])
            return all(two - one <= longest_ns for one, two in pairwise(held))
        return at == len(ticks) - 1 and bool(before) and before[-1] > ticks[-1]

    def close(self) -> tuple[AppendedDay, ...]:
        """Complete all files, then rename them; what was written, by host and day.

        Raises OutputsError: nothing has changed then, unless it was in renaming.
        """
        self._tried(self._complete)
        days: dict[tuple[str, date], list[_DayFile]] = {}
        for (_, host, day), file in self._files.items():
            days.setdefault((host, day), []).append(file)
            file.folder.close()
        self._root.close()
        return tuple(
            AppendedDay(
                host,
                day,
                sum(file.size_bytes for file in files),
                sum(file.rows for file in files),
                any(file.replaced for file in files),
            )
            for (host, day), files in sorted(days.items())
        )

    def discard(self) -> None:
        for file in self._files.values():
            file.discard()
        self._root.close()

    def _complete(self) -> None:
        for file in self._files.values():
            file.finish()
        self._lock()
        for file in self._take_emptied():
            file.finish()
        replaced = self._replaced()
        for file in self._files.values():
            file.merge(replaced)
        for file in self._files.values():
            file.publish()

    def _replaced(self) -> list[tuple[int, int]]:
        """First and last tick of every run of ticks of which none is lost, ascending."""
        ticks = sorted(set(self._ticks))
        begins = {bisect_left(ticks, wall_ns) for wall_ns in self._losses}
        bounds = sorted({0, len(ticks)} | {at for at in begins if at < len(ticks)})
        return [(ticks[at], ticks[end - 1]) for at, end in pairwise(bounds)]

    def _lock(self) -> None:
        """Wait for other exports: none takes over what another replaces. Raises OutputsError."""
        until_s = time.monotonic() + LOCKED_S
        while True:
            try:
                fcntl.flock(self._root.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= until_s:
                    text = f"{self._path}: another export has held its lock for {LOCKED_S:g} s"
                    raise OutputsError(text) from None
                time.sleep(_RETRY_S)
            else:
                return

    def _take_emptied(self) -> list[_DayFile]:
        """New files for parts that have rows of the interval, of which the export has none."""
        before = set(self._files)
        hosts = {self._interval.host.name, *(host for _, host, _ in self._files)}
        first, last = (_day(item) for item in (self._interval.from_ns, self._interval.to_ns))
        for days in range((last - first).days + 1):
            for name in self._tables:
                for host in hosts:
                    self._take_if_known(name, host, first + timedelta(days=days))
        return [file for key, file in self._files.items() if key not in before]

    def _take_if_known(self, name: str, host: str, day: date) -> None:
        if (name, host, day) in self._files:
            return
        with contextlib.suppress(FileNotFoundError):
            with open_folder(self._folder(name, host, day)) as folder:
                known = folder.status(f"{self._interval.stem}.parquet") is not None
            if known:
                self._file_of(name, host, day)

    def _write(self, name: str, host: Host, wall_ns: int, columns: Columns) -> None:
        """Rows of one time, and so of one day."""
        if not len(columns[0]):
            return
        day = _day(wall_ns)
        if day != self._day:
            self._day = day
            for file in self._files.values():
                self._tried(file.writer.flush)
        file = self._tried(lambda: self._file_of(name, host.name, day))
        self._tried(lambda: file.writer.write(columns))

    def _file_of(self, name: str, host: str, day: date) -> _DayFile:
        key = (name, host, day)
        if key not in self._files:
            path = self._folder(name, host, day)
            folder = open_folder(path, make_for=self._owner, make=True)
            self._files[key] = _DayFile(folder, self._interval.stem, name, self._make, self._owner)
        return self._files[key]

    def _folder(self, name: str, host: str, day: date) -> Path:
        return self._path / name / host_component(host) / f"day={day}"

    def _tried(self, act: Callable[[], _T]) -> _T:
        """The result, or OutputsError."""
        try:
            return act()
        except OSError as error:
            raise unwritable(error, self._path) from None


def _day(wall_ns: int) -> date:
    return datetime.fromtimestamp(wall_ns // NS_PER_S, UTC).date()
