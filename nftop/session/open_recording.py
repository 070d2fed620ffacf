"""The beginning of a recording, and the way to where its replay is to begin."""

from __future__ import annotations

from nftop.model.replay_position import Position
from nftop.session.interval import last_tick_ns
from nftop.session.reader import WARM_UP_NS, NoMomentError, NoRecordingError, Tape
from nftop.session.time_spec import counts_from_end, moment_ns, not_kept, outside
from nftop.store.reading.bytes import Readable
from nftop.store.reading.seek import Place, next_place
from nftop.store.reading.seekpoint import SIZE

_NO_END = (
    "how a pipe ends is not known before it has: it takes a time, +30s or start, and a file "
    "any of them"
)


class Opening:
    """Looks for the first seek point, which on a pipe may still be to come."""

    def __init__(self, data: Readable) -> None:
        self._data = data
        self._searched = 0

    def position(self) -> Position | None:
        """At its first tick; None: that is still to come.

        Raises:
            NoRecordingError: it is none, and won't be one.
            OSError: it can't be read.
        """
        data = self._data
        # Asked before it is read: what came since then is looked at the next time.
        comes, size = data.piped and data.grows and not data.full, data.size
        place = next_place(data, max(self._searched, data.first))
        if place is None or place.point.end:
            if not comes:
                raise NoRecordingError("it is no recording of nftop's" if size else "it is empty")
            self._searched = max(size - SIZE, 0) if place is None else place.at + SIZE
            return None
        here = place.point.wall_ns
        return Position(at_ns=here, first_ns=here, last_ns=here, number=0)


def beginning_ns(data: Readable, start: str, here: Position) -> int:
    """The wall clock that `start` means, as `moment_ns` reads it.

    Raises:
        NoMomentError: it is no time, or nothing was recorded then; the text says why. Of a pipe
            only what is before its beginning is known.
    """
    if data.piped and counts_from_end(start):
        raise NoMomentError(_NO_END)
    if not data.piped:
        here = reaching(data, here)
    try:
        wall_ns = moment_ns(start, here)
    except ValueError as error:
        raise NoMomentError(str(error)) from None
    wrong = outside(wall_ns, here, open_end=data.piped)
    if wrong:
        raise NoMomentError(wrong)
    return wall_ns


def reaching(data: Readable, here: Position) -> Position:
    """With the last tick there is now: seek points only tell those of minutes."""
    return here._replace(last_ns=max(here.last_ns, last_tick_ns(data)))


def let_go(data: Readable, wall_ns: int) -> str:
    """That a pipe's past is not kept so far back, a sentence; "" where it is, and of a file."""
    place = next_place(data, data.first) if data.first else None
    return "" if place is None else not_kept(wall_ns, place.point.wall_ns)


class Approach:
    """The way through a pipe to a moment that may still be to come; what is before it is let go."""

    def __init__(self, data: Readable, tape: Tape, wall_ns: int) -> None:
        self._data = data
        self._tape = tape
        self._wall_ns = wall_ns
        self._searched = 0
        self._place: Place | None = None
        self._folding = False

    def arrived(self, here: Position) -> bool:
        """Whether the tape's newest tick is that of the moment; False: it is still to come.

        Raises:
            NoMomentError: the pipe has ended before it.
            OSError: it can't be read.
        """
        grows = self._data.grows  # before it is read
        if not self._folding and self._is_near(grows=grows):
            self._folding = True
            if self._place is not None:
                self._tape.restart(self._place)
        if not self._folding:
            return False
        if self._tape.reach(self._wall_ns, nearest=True):
            return True
        if grows:
            return False
        newest = self._tape.newest
        last_ns = newest[-1].wall_ns if newest else here.first_ns
        wrong = outside(self._wall_ns, here._replace(last_ns=last_ns))
        if wrong:
            raise NoMomentError(wrong)
        return True

    def _is_near(self, *, grows: bool) -> bool:
        """Look for the last seek point from which all is folded that the moment's numbers rest on.

        As `Tape.go` does in a file, but from the front. Whether it is found.
        """
        data, size = self._data, self._data.size
        while (place := next_place(data, max(self._searched, data.first))) is not None:
            if self._place is not None and place.point.wall_ns > self._wall_ns - WARM_UP_NS:
                return True
            if not place.point.end:
                self._place = place
                data.passed(place.at)
            self._searched = place.at + SIZE
        self._searched = max(self._searched, size - SIZE)
        if data.full and self._place is None:
            data.passed(self._searched)  # damage
        # A frame that there is no room for is folded as it comes, however long that takes.
        return not grows or (data.full and self._place is not None)
