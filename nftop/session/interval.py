"""Intervals of a recording in the form `FILE@FROM,TO`."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

from nftop.model.clock import date_time_of
from nftop.model.recording_loss import RecordingLoss
from nftop.model.replay_position import Position
from nftop.model.struct import dataclass
from nftop.model.topology import Host
from nftop.session.reader import NoMomentError, NoRecordingError, ReplayedTick, Tape
from nftop.session.time_spec import moment_ns
from nftop.store.folders import open_file
from nftop.store.format.records import Header, Marker, Tick
from nftop.store.reading.bytes import FileBytes, Readable
from nftop.store.reading.scan import Scan, add_loss
from nftop.store.reading.seek import last_position, next_position

# A finding is known when its value has been beyond the limit for some seconds.
_LATER_NS = 15_000_000_000


@dataclass(frozen=True, slots=True)
class NamedInterval:
    """A file and the ends of an interval as they were typed, "" for the recording's own."""

    file: str
    start: str = ""
    end: str = ""


def named(text: str) -> NamedInterval:
    """Parse `FILE`, `FILE@FROM`, `FILE@FROM,TO` or `FILE@,TO`; an existing FILE may contain @."""
    at = len(text)
    while at > 0 and not Path(text[:at]).exists():
        at = text.rfind("@", 0, at)
    if at == len(text):
        return NamedInterval(text)
    # No such file: split at the last @, so that the error is about the file.
    file, _, times = (text[:at], "@", text[at + 1 :]) if at > 0 else text.rpartition("@")
    start, _, end = times.partition(",")
    return NamedInterval(file or times, start.strip(), end.strip()) if file else NamedInterval(text)


@dataclass(slots=True)
class Cut:
    """An interval of a recording, and losses while reading it.

    Attributes:
        file: name as typed (untrusted).
        from_ns, to_ns: wall clock, within the recording; ticks between them belong to it.
        losses: each with the wall clock of the next tick (at the end, of the last one). Filled in
            during reading.
        unfinished: message that the recording's end is missing, if the interval reaches it;
            filled in during reading.
        began_ns, host: start and host of the recording: together they identify it.
        tick_ns: time between ticks when the recording began.
        data: of the recording; closed by whatever opened it.
    """

    file: str
    from_ns: int
    to_ns: int
    began_ns: int
    host: Host
    data: Readable
    losses: list[tuple[int, RecordingLoss]]
    unfinished: str = ""
    tick_ns: int = 0

    @property
    def expected_samples(self) -> int | None:
        """Expected number of samples, one per tick except the first; None if unknown.

        Sources that are read less often give fewer.
        """
        return (self.to_ns - self.from_ns) // self.tick_ns if self.tick_ns > 0 else None

    @property
    def damaged(self) -> bool:
        """Whether data were corrupted; a recording that just breaks off is not damaged."""
        return any(loss.damage for _, loss in self.losses)


def opened(name: NamedInterval) -> Cut:
    """Find an interval.

    Raises:
        OSError: the file can't be read.
        NoRecordingError: it is no recording; the text says why.
        NoMomentError: no such interval is in it; the text says why.
    """
    data = _file(name.file)
    try:
        position = next_position(data, data.first)
        if position is None or position.point.end:
            raise NoRecordingError("it is no recording of nftop's" if data.size else "it is empty")
        first_ns, last_ns = position.point.wall_ns, last_tick_ns(data)
        here = Position(first_ns, first_ns, max(first_ns, last_ns), 0)
        from_ns = _moment(name.start, here, data) if name.start else first_ns
        # A time of the day that ends an interval is the first one behind its start, if any.
        behind = here._replace(first_ns=from_ns) if name.end[:1].isdigit() else here
        to_ns = _moment(name.end, behind, data) if name.end else here.last_ns
        if from_ns > here.last_ns and not name.end:
            end = date_time_of(here.last_ns)
            raise NoMomentError(f"the recording ends at {end}, before {name.start}")
        if from_ns <= here.last_ns and to_ns <= from_ns:
            raise NoMomentError("its interval ends before it begins")
        if from_ns > here.last_ns or to_ns < first_ns:
            whole = f"{date_time_of(first_ns)} to {date_time_of(here.last_ns)}"
            raise NoMomentError(f"nothing was recorded in that interval, but from {whole}")
        header = _header(data)
        return Cut(
            name.file,
            max(from_ns, first_ns),
            min(to_ns, here.last_ns),
            header.began_ns,
            header.host,
            data,
            [],
            tick_ns=header.interval_ns,
        )
    except BaseException:
        data.close()
        raise


def ticks(
    cut: Cut,
    on_marker: Callable[[Marker], None] | None = None,
    *,
    fold_ns: int = 0,
    on_later: Callable[[ReplayedTick], None] | None = None,
) -> Generator[ReplayedTick, None, None]:
    """Every tick of an interval, folded.

    A loss between its last tick and the next one is of the interval if a tick is missing in it.

    `on_marker` is given every marker between them, before the tick that follows it. `fold_ns`: as
    `Tape.go` has it. `on_later` is given the ticks of the seconds after it, in which findings are
    known that began in it.
    """
    pending: list[RecordingLoss] = []

    def marked(marker: Marker) -> None:
        if on_marker is not None and cut.from_ns <= marker.wall_ns <= cut.to_ns:
            on_marker(marker)

    tape = Tape(cut.data, on_loss=lambda loss: add_loss(pending, loss), on_marker=marked)
    last_ns, interval_ns = cut.from_ns, cut.tick_ns
    is_over = False
    for shown in _shown(tape, cut, fold_ns):
        # What is lost before the interval is not its business.
        inside = cut.from_ns <= shown.wall_ns <= cut.to_ns
        behind = shown.wall_ns > cut.to_ns
        if is_over:
            inside = False
        elif inside or (behind and cut.to_ns - last_ns >= max(interval_ns, 1)):
            cut.losses += [(min(shown.wall_ns, cut.to_ns), loss) for loss in pending]
        pending.clear()
        is_over |= behind
        if is_over:
            if on_later is None or shown.wall_ns > cut.to_ns + _LATER_NS:
                return
            on_later(shown)
        elif inside:
            last_ns, interval_ns = shown.wall_ns, shown.interval_ns
            yield shown
    if is_over:
        return
    rest = tape.tail_loss()
    cut.unfinished = tape.unfinished()
    cut.losses += [(last_ns, loss) for loss in (*pending, *([] if rest is None else [rest]))]


def _shown(tape: Tape, cut: Cut, fold_ns: int) -> Iterator[ReplayedTick]:
    position = next_position(cut.data, cut.data.first)
    if position is not None and cut.from_ns > position.point.wall_ns:
        yield from tape.go(cut.from_ns, fold_ns=fold_ns)
    while (shown := tape.forward()) is not None:
        yield shown


def _moment(text: str, here: Position, data: Readable) -> int:
    """A time as `moment_ns` reads it, or a marker's."""
    try:
        return moment_ns(text, here)
    except ValueError as error:
        item = [marker.wall_ns for marker in _markers(data) if marker.text.strip() == text]
        if not item:
            raise NoMomentError(f"{error}, or the name of one of its markers") from None
        if len(item) > 1:
            raise NoMomentError(f"{len(item)} markers are called {text!r}") from None
        return item[0]


def _header(data: Readable) -> Header:
    scan = Scan(data, samples=False)
    while (item := scan.next()) is not None:
        if isinstance(item, Header):
            return item
    raise NoRecordingError("its beginning is cut off or damaged, and no header is left")


def _markers(data: Readable) -> Iterator[Marker]:
    scan = Scan(data, samples=False)
    while (item := scan.next()) is not None:
        if isinstance(item, Marker):
            yield item


def last_tick_ns(data: Readable) -> int:
    """The wall clock of the last tick, or close behind it."""
    position = last_position(data)
    if position is None:
        return 0
    if position.point.end:
        return position.point.wall_ns
    scan = Scan(data, position.at)
    last_ns = position.point.wall_ns
    while (item := scan.next()) is not None:
        if isinstance(item, Tick):
            last_ns = max(last_ns, item.sample.wall_ns)
    return last_ns


def _file(name: str) -> FileBytes:
    """Raises OSError."""
    handle = open_file(Path(name))
    about = os.fstat(handle)
    if stat.S_ISREG(about.st_mode):
        return FileBytes(handle)
    os.close(handle)
    if stat.S_ISDIR(about.st_mode):
        raise IsADirectoryError(0, "it is a folder")
    raise OSError(0, "it is no file: times in it can't be looked up")
