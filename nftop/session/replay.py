"""A recording as a feed: the frames that were seen, at the pace they were seen at or another."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import replace

from nftop.model.frame import Frame
from nftop.model.looking import Looking
from nftop.model.position import Position
from nftop.session.interval import last_tick_ns
from nftop.session.live import Clock, SystemClock
from nftop.session.markers import marker_before, next_marker
from nftop.session.pace import FASTEST, SLOWEST, Pace
from nftop.session.tape import NoMomentError, NoRecordingError, Shown, Tape
from nftop.session.when import moment_ns, outside
from nftop.store.readable import Readable
from nftop.store.records import Marker
from nftop.store.scan import Loss
from nftop.store.seek import last_place, next_place

# How often a file is looked at that may have grown.
_LOOK_S = 0.25
# How many ticks a remark stays.
_REMARK_TICKS = 8
# An answer to a key goes with the next.
_ANSWER_TICKS = 2
# A file that did not grow for so many ticks may have been left without its end.
_LONG_TICKS = 3
_NOWHERE = Position(0, 0, 0, 0)


class Replay:
    """A `Player` of one recording.

    Attributes:
        unfinished: that it has no end, a sentence, once all of it was shown; else "".
    """

    def __init__(
        self,
        data: Readable,
        *,
        news: threading.Event | None = None,
        at: str | None = None,
        paced: bool = True,
        follow: bool = True,
        stays: bool = True,
        on_frame: Callable[[Frame], None] | None = None,
        on_loss: Callable[[Loss], None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Nothing is read before `frames`.

        Args:
            data: the recording; closed when the frames end.
            news: set by who knows that there is more of it.
            at: where to begin, as `moment_ns` reads it: `+` counts from the recording's start, `-`
                from its end.
            paced: in the time it took; else as fast as it is consumed.
            follow: wait for more where the recording breaks off without having been finished.
            stays: `frames` goes on at the end, since one can go back from there.
            on_frame: given every frame folded, those before a jump's end too.
            on_loss: given what is missing or can't be read.
            clock: the system's if not given.
        """
        self.is_none = False  # what came was no recording
        self._data = data
        self._news = news or threading.Event()
        self._start = at
        self._follow = follow
        self._stays = stays
        self._on_loss = on_loss or (lambda _: None)
        self._clock = clock or SystemClock()
        self._tape = Tape(data, on_frame=on_frame, on_loss=self._on_loss)
        self._pace = Pace(paced=paced)
        self._orders: deque[Callable[[], tuple[Shown, ...]]] = deque()
        self._stopped = False
        self._position = _NOWHERE
        self._shown: Shown | None = None
        self._remark_left = 0
        # The time that was last gone to: that of a marker is between two ticks.
        self._asked_ns = 0
        self._marker: Marker | None = None
        self._first_ns: int | None = None
        self._rest: Loss | None = None
        self._waits_since_ns: int | None = None
        self.unfinished = ""

    @property
    def position(self) -> Position | None:
        return None if self._shown is None else self._position

    @property
    def interval_s(self) -> float:
        """As it was recorded, whatever the speed."""
        return 1.0 if self._shown is None else self._shown.interval_ns / 1e9

    def set_interval(self, seconds: float) -> None:
        """So many seconds from one tick to the next: faster or slower than recorded."""
        self._order(lambda: self._speed(self.interval_s / max(seconds, 1e-3)))

    def look_at(self, looking: Looking) -> None:
        """Changes nothing: what was looked at then was counted then."""

    def baseline(self, *, keep: bool) -> None:
        """One of its own in place of the recording's, from the next tick on; or that one again."""
        self._order(lambda: self._baseline(keep=keep))

    def stop(self) -> None:
        self._stopped = True
        self._data.stop()
        self._news.set()

    def pause(self) -> None:
        self._order(self._pause)

    def step(self, ticks: int) -> None:
        self._order(lambda: self._step(ticks))

    def seek(self, wall_ns: int) -> None:
        self._order(lambda: self._seek(wall_ns))

    def to_marker(self, step: int) -> None:
        self._order(lambda: self._to_marker(step))

    def faster(self, steps: int) -> None:
        self._order(lambda: self._speed(self._position.speed * 2.0**steps))

    def frames(self) -> Generator[Frame, None, None]:
        """Every frame from where it begins.

        Raises:
            NoRecordingError: there is nothing to replay; the text says why.
        """
        try:
            if self._opened():
                yield from map(self._show, self._first())
            while not self._stopped:
                self._news.clear()
                yield from map(self._show, self._next())
                if self._position.ended and not self._stays:
                    return
        except InterruptedError:
            if not self._stopped:
                raise
        finally:
            self._data.close()

    # Opening

    def open(self) -> bool:
        """Look at what is there: whether that is a recording whose beginning has come.

        Raises:
            NoRecordingError: it is none, and won't be one.
            NoMomentError: where to begin is not in it.
        """
        place = next_place(self._data, self._data.first)
        if place is None or place.point.end:
            if self._data.piped and self._data.grows:
                return False
            size = self._data.size
            self.is_none = True
            raise NoRecordingError("it is no recording of nftop's" if size else "it is empty")
        here = place.point.wall_ns
        self._position = replace(_NOWHERE, at_ns=here, first_ns=here, last_ns=here)
        self._measure()
        self._first_ns = self._moment()
        return True

    def _opened(self) -> bool:
        """Wait for the first of it; whether it came before `stop`."""
        while not self._stopped:
            self._news.clear()
            if self.open():
                return True
            self._clock.wait(self._news, _LOOK_S)
        return False

    def _moment(self) -> int | None:
        """Where to begin; None: with all there is."""
        if self._start is None:
            return None
        here = self._reaching()
        try:
            wall_ns = moment_ns(self._start, here)
        except ValueError as error:
            raise NoMomentError(str(error)) from None
        wrong = outside(wall_ns, here, open_end=self._data.piped and self._data.grows)
        if wrong:
            raise NoMomentError(wrong)
        return wall_ns

    def _reaching(self) -> Position:
        """With the last tick there is now: seek points only tell those of minutes."""
        here = self._position
        return replace(here, last_ns=max(here.last_ns, last_tick_ns(self._data)))

    def _first(self) -> tuple[Shown, ...]:
        """The frames to begin with: where that is not the start, the one before it primes."""
        return () if self._first_ns is None else self._tape.go(self._first_ns, nearest=True)

    # What comes next

    def _next(self) -> tuple[Shown, ...]:
        """The next frame once it is due, or what was ordered meanwhile; none where neither is."""
        if self._orders:
            self._pace.restart()
            return self._orders.popleft()()
        if self._position.paused:
            self._clock.wait(self._news, _LOOK_S)
            return ()
        times = self._tape.upcoming()
        if times is None:
            self._at_end()
            return ()
        now_ns = self._clock.monotonic_ns()
        due_ns = self._pace.due_ns(*times, now_ns)
        if due_ns > now_ns:
            self._clock.wait(self._news, (due_ns - now_ns) / 1e9)
            return ()
        shown = self._tape.forward()
        return () if shown is None else (shown,)

    def _at_end(self) -> None:
        """Nothing more for now."""
        over = self._tape.ended or not (self._follow and self._data.grows)
        self._rest = self._tape.rest()
        if over and not self._position.ended and self._rest is not None:
            self._on_loss(self._rest)
        # Until it is over, a tick that is not whole yet is only not written yet.
        whole = self._rest is None or (not over and not self._rest.damage)
        said = "" if self._rest is None or whole else self._rest.sentence
        unfinished = self._tape.unfinished()
        self.unfinished = unfinished if over else ""
        if over or self._waits_long():
            said = said or unfinished
        remark = said or self._position.remark
        self._position = replace(self._position, waiting=not over, ended=over, remark=remark)
        self._measure()
        if not over:
            self._pace.at_edge(self._clock.monotonic_ns())
        if not over or self._stays:
            self._clock.wait(self._news, _LOOK_S)

    def _waits_long(self) -> bool:
        """A file did not grow for some ticks; of a pipe its end tells."""
        now_ns = self._clock.monotonic_ns()
        if self._waits_since_ns is None:
            self._waits_since_ns = now_ns
        waited_s = (now_ns - self._waits_since_ns) / 1e9
        return not self._data.piped and waited_s > _LONG_TICKS * max(self.interval_s, 1.0)

    def _show(self, shown: Shown) -> Frame:
        """What is on screen from now on."""
        now_ns = self._clock.monotonic_ns()
        self._pace.shown(shown.monotonic_ns, now_ns)
        self._shown, self._waits_since_ns = shown, None
        marker, self._marker = self._marker, None
        self._asked_ns = shown.wall_ns if marker is None else marker.wall_ns
        before = self._position
        self._remark_left -= 1
        remark = before.remark if self._remark_left > 0 else ""
        said = shown.remarks if marker is None else (marker.text or marker.kind,)
        if said:
            remark, self._remark_left = "; ".join(said), _REMARK_TICKS
        self._position = replace(
            before,
            at_ns=shown.wall_ns,
            last_ns=max(before.last_ns, shown.wall_ns),
            number=shown.number,
            waiting=self._pace.following,
            ended=False,
            warmed=shown.warmed,
            remark=remark,
        )
        return shown.frame

    def _measure(self) -> None:
        """How far the recording reaches now, as far as its seek points tell."""
        place = last_place(self._data)
        if place is not None and place.point.wall_ns > self._position.last_ns:
            self._position = replace(self._position, last_ns=place.point.wall_ns)

    # Orders, each in the thread of `frames`

    def _order(self, order: Callable[[], tuple[Shown, ...]]) -> None:
        self._orders.append(order)
        self._news.set()

    def _pause(self) -> tuple[Shown, ...]:
        self._position = replace(self._position, paused=not self._position.paused)
        return self._again()

    def _speed(self, speed: float) -> tuple[Shown, ...]:
        speed = min(max(speed, SLOWEST), FASTEST)
        self._position = replace(self._position, speed=speed)
        self._pace.speed = speed
        return self._again()

    def _again(self) -> tuple[Shown, ...]:
        """The frame that is shown, since what is said of it has changed."""
        return () if self._shown is None else (self._shown,)

    def _baseline(self, *, keep: bool) -> tuple[Shown, ...]:
        self._tape.baseline(keep=keep)
        return ()

    def _step(self, ticks: int) -> tuple[Shown, ...]:
        self._position = replace(self._position, paused=True)
        move = self._tape.forward if ticks > 0 else self._tape.back
        found = None
        for _ in range(abs(ticks)):
            found = move() or found
        if found is None and ticks < 0 and self._shown is not None and self._shown.number:
            return self._go(self._shown.wall_ns - 1)
        return self._again() if found is None else (found,)

    def _seek(self, wall_ns: int) -> tuple[Shown, ...]:
        wrong = outside(wall_ns, self._reaching())
        if not wrong:
            return self._go(wall_ns, nearest=True)
        self._position = replace(self._position, remark=wrong)
        self._remark_left = _ANSWER_TICKS if self._position.paused else _REMARK_TICKS
        return self._again()

    def _go(self, wall_ns: int, *, nearest: bool = False) -> tuple[Shown, ...]:
        found = self._tape.go(wall_ns, nearest=nearest)[-1:]
        self._position = replace(self._position, ended=False)
        return found or self._again()

    def _to_marker(self, step: int) -> tuple[Shown, ...]:
        self._position = replace(self._position, paused=True)
        find = next_marker if step > 0 else marker_before
        marker = find(self._data, self._asked_ns)
        if marker is None:
            said = "no marker behind this" if step > 0 else "no marker before this"
            self._position = replace(self._position, remark=said)
            self._remark_left = _ANSWER_TICKS
            return self._again()
        self._marker = marker
        return self._go(marker.wall_ns)
