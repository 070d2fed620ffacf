"""Replay of a recording: its frames as a feed, at the recorded pace or another, from any time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator
from typing import Any

from nftop.derive.fold import FoldState
from nftop.model.frame import Focus, Frame
from nftop.model.recording_loss import RecordingLoss
from nftop.model.replay_position import FASTEST, SLOWEST, Position
from nftop.model.rule_settings import RuleSettings
from nftop.session.interval import last_tick_ns
from nftop.session.live import SessionClock, SystemClock
from nftop.session.markers import next_event
from nftop.session.reader import WARM_UP_NS, NoMomentError, NoRecordingError, ReplayedTick, Tape
from nftop.session.time_spec import counts_from_end, moment_ns, not_kept, outside
from nftop.store.format.records import Marker
from nftop.store.history.events import EventHistory
from nftop.store.reading.bytes import Readable
from nftop.store.reading.seek import SeekPosition, last_position, next_position
from nftop.store.reading.seekpoint import SIZE

# A pause in the recording is not waited for longer than this.
_GAP_TICKS, _GAP_AT_LEAST_NS = 3, 1_000_000_000
# What is recorded now can't come faster than time goes; what does, by so much, was stored.
_AHEAD_NS = 10_000_000_000
# Later than this, what follows is not early to make up for it.
_LATE_NS = 100_000_000


class Pace:
    """Maps the recording's clock to this host's.

    Attributes:
        speed: 1 is the recorded pace.
    """

    def __init__(self, *, paced: bool) -> None:
        """Unless `paced`, every tick is due at once."""
        self.speed = 1.0
        self._paced = paced
        self._shown_ns: int | None = None  # of the recording
        self._due_ns: int | None = None  # when that was, here
        self._next_ns: int | None = None
        self._edge: tuple[int, int] | None = None
        self._waits_since_ns: int | None = None

    @property
    def following(self) -> bool:
        """Whether ticks are shown as soon as they arrive."""
        return self._edge is not None

    def restart(self) -> None:
        """Reset the pacing after a jump, a pause or a change of speed."""
        self._due_ns = self._next_ns = self._edge = None

    def at_edge(self, now_ns: int) -> None:
        """No further tick is available yet: later ones are shown as soon as they arrive."""
        if self._edge is None and self._shown_ns is not None:
            self._edge = now_ns, self._shown_ns

    def waited_ns(self, now_ns: int) -> int:
        """Time without a further tick; call it whenever none is available."""
        if self._waits_since_ns is None:
            self._waits_since_ns = now_ns
        return now_ns - self._waits_since_ns

    def shown(self, monotonic_ns: int, now_ns: int) -> None:
        """A tick of this recorded time is on screen now."""
        late_ns = None if self._next_ns is None else now_ns - self._next_ns
        on_time = late_ns is not None and 0 <= late_ns < _LATE_NS
        self._due_ns = self._next_ns if on_time else now_ns
        self._shown_ns, self._next_ns, self._waits_since_ns = monotonic_ns, None, None

    def due_ns(self, monotonic_ns: int, interval_ns: int, now_ns: int) -> int:
        """When a tick of this recorded time is due, by this host's clock."""
        if not self._paced or self._shown_ns is None or self._due_ns is None:
            return now_ns
        if self._edge is not None:
            here_ns, recorded_ns = self._edge
            if monotonic_ns - recorded_ns <= now_ns - here_ns + _AHEAD_NS:
                return now_ns
            self._edge = None
        apart_ns = monotonic_ns - self._shown_ns
        if apart_ns <= 0:  # of another recording, behind this one
            apart_ns = interval_ns
        longest_ns = max(_GAP_TICKS * interval_ns, _GAP_AT_LEAST_NS)
        self._next_ns = self._due_ns + int(min(apart_ns, longest_ns) / self.speed)
        return self._next_ns


_NO_END = (
    "how a pipe ends is not known before it has: it takes a time, +30s or start, and a file "
    "any of them"
)


class Opening:
    """Search for the first seek point, which a pipe may not have delivered yet."""

    def __init__(self, data: Readable) -> None:
        self._data = data
        self._searched = 0

    def position(self) -> Position | None:
        """Position of the first tick; None if it has not arrived yet.

        Raises:
            NoRecordingError: the data are no recording.
            OSError: it can't be read.
        """
        data = self._data
        # Asked before it is read: what came since then is looked at the next time.
        comes, size = data.piped and data.grows and not data.full, data.size
        start = next_position(data, max(self._searched, data.first))
        if start is None or start.point.end:
            if not comes:
                raise NoRecordingError("it is no recording of nftop's" if size else "it is empty")
            self._searched = max(size - SIZE, 0) if start is None else start.at + SIZE
            return None
        here = start.point.wall_ns
        return Position(at_ns=here, first_ns=here, last_ns=here, number=0)


def beginning_ns(data: Readable, start: str, here: Position) -> int:
    """Wall clock in ns of the text `start`, in the format of `moment_ns`.

    Raises:
        NoMomentError: it is no time, or nothing was recorded then. For a pipe only times before
            its beginning can be refused.
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
    """`here` with the newest tick as its end: seek points only have one tick per minute."""
    return here._replace(last_ns=max(here.last_ns, last_tick_ns(data)))


def pipe_dropped(data: Readable, wall_ns: int) -> str:
    """A sentence if a pipe no longer has that moment in memory; "" otherwise, and for a file."""
    start = next_position(data, data.first) if data.first else None
    return "" if start is None else not_kept(wall_ns, start.point.wall_ns)


class Approach:
    """Reads a pipe forward to a moment that may not have arrived; drops what precedes it."""

    def __init__(self, data: Readable, tape: Tape, wall_ns: int) -> None:
        self._data = data
        self._tape = tape
        self._wall_ns = wall_ns
        self._searched = 0
        self._position: SeekPosition | None = None
        self._folding = False

    def arrived(self, here: Position) -> bool:
        """Whether the tape's newest tick is that of the moment; False: not yet.

        Raises:
            NoMomentError: the pipe has ended before it.
            OSError: it can't be read.
        """
        grows = self._data.grows  # before it is read
        if not self._folding and self._is_near(grows=grows):
            self._folding = True
            if self._position is not None:
                self._tape.restart(self._position)
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
        """Search for the last seek point that leaves enough warm-up before the moment.

        As `Tape.go` does in a file, but forward. Returns whether it was reached.
        """
        data, size = self._data, self._data.size
        while (start := next_position(data, max(self._searched, data.first))) is not None:
            if self._position is not None and start.point.wall_ns > self._wall_ns - WARM_UP_NS:
                return True
            if not start.point.end:
                self._position = start
                data.passed(start.at)
            self._searched = start.at + SIZE
        self._searched = max(self._searched, size - SIZE)
        if data.full and self._position is None:
            data.passed(self._searched)  # damage
        # A frame that there is no room for is folded as it comes, however long that takes.
        return not grows or (data.full and self._position is not None)


_FOLDED_ON_NS = 90_000_000_000  # a longer way is a jump, whose warm-up is shorter
_REMARK_TICKS = 8  # so long a remark stays
# An answer to a key goes with the next.
_ANSWER_TICKS = 2


class Banner:
    """Position and remarks shown above a replay.

    Attributes:
        position: of the tick shown.
        quiet: passed markers cause no remarks.
        requested_ns: target of the last jump; that of a marker is between two ticks.
    """

    def __init__(self) -> None:
        self.position = Position(0, 0, 0, 0)
        self.requested_ns = 0
        self._tick_ns: int | None = None
        self._left = 0
        self.quiet = False

    def turn(self, **changed: Any) -> None:
        """Change fields of the position."""
        self.position = self.position._replace(**changed)

    def answer(self, message: str) -> None:
        """Show why a key had no effect."""
        self.turn(remark=message)
        self._left = _ANSWER_TICKS if self.position.paused else _REMARK_TICKS

    def shows(self, shown: ReplayedTick, marker: Marker | None, *, following: bool) -> None:
        """Note a shown tick, and the marker that was the target of a jump."""
        if marker is not None:
            self.requested_ns = marker.wall_ns
        elif shown.wall_ns != self._tick_ns:  # an answer leaves one where one is
            self.requested_ns = shown.wall_ns
        self._tick_ns = shown.wall_ns
        self._left -= 1
        remark = self.position.remark if self._left > 0 else ""
        passed = () if self.quiet else shown.remarks
        message = passed if marker is None else (marker.text or marker.kind,)
        if message:
            remark, self._left = "; ".join(message), _REMARK_TICKS
        last_ns = max(self.position.last_ns, shown.wall_ns)
        self.turn(
            at_ns=shown.wall_ns,
            last_ns=last_ns,
            number=shown.number,
            waiting=following,
            ended=False,
            warmed=shown.warmed,
            remark=remark,
        )

    def measure(self, data: Readable) -> None:
        """Update the end of the recording from its seek points."""
        start = last_position(data)
        if start is not None and start.point.wall_ns > self.position.last_ns:
            self.turn(last_ns=start.point.wall_ns)


_POLL_S = 0.25  # between checks whether a file has grown
# A file that did not grow for so many ticks may have been left without its end; a pipe signals it.
_LONG_TICKS = 3


class Replay:
    """A `Player` of one recording.

    Attributes:
        unfinished: message that the recording has no end, once all was shown; else "".
        remote: how the connection to another host ended, "" while it has not; None: there is none.
    """

    remote: Callable[[], str] | None = None

    def __init__(
        self,
        data: Readable,
        *,
        news: threading.Event | None = None,
        at: str | None = None,
        at_ns: int | None = None,
        state_at: Callable[[int], FoldState | None] | None = None,
        paused: bool = False,
        quiet: bool = False,
        paced: bool = True,
        follow: bool = True,
        stays: bool = True,
        on_frame: Callable[[Frame], None] | None = None,
        on_loss: Callable[[RecordingLoss], None] | None = None,
        clock: SessionClock | None = None,
    ) -> None:
        """Nothing is read before `frames`.

        Args:
            data: the recording; closed when the frames end.
            news: set by the writer when more data are available.
            at: where to begin, in the format of `moment_ns`: `+` counts from the recording's start,
                `-` from its end, which is unknown for a pipe.
            at_ns: the wall time where to begin, instead of `at`.
            state_at: as `Tape` has it.
            paused: stand still at the first frame.
            quiet: markers that are passed are not shown as remarks.
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
        self._tape = Tape(
            data, on_frame=on_frame, on_loss=self._on_loss, goes_back=stays, state_at=state_at
        )
        self._paused = paused
        self._shift_ns = 0
        self._shift_lock = threading.Lock()
        self._pace = Pace(paced=paced)
        self._orders: deque[Callable[[], tuple[ReplayedTick, ...]]] = deque()
        self._stopped = False
        self._opening = Opening(data)
        self._banner = Banner()
        self._banner.quiet = quiet
        self._shown: ReplayedTick | None = None
        self._marker: Marker | None = None
        self._events: EventHistory | None = None
        self._first_ns = at_ns
        self.unfinished = ""

    @property
    def position(self) -> Position | None:
        return None if self._shown is None else self._banner.position

    @property
    def interval_s(self) -> float:
        """The recorded interval, whatever the speed."""
        return 1.0 if self._shown is None else self._shown.interval_ns / 1e9

    def set_interval(self, seconds: float) -> None:
        """Set the speed so that ticks are `seconds` apart."""
        self._order(lambda: self._speed(self.interval_s / max(seconds, 1e-3)))

    def set_focus(self, focus: Focus) -> None:
        """No effect: a recording has the counts of its own session."""

    def baseline(self, *, keep: bool) -> None:
        """Use a new baseline instead of the recorded one, or the recorded one again."""
        self._order(lambda: self._baseline(keep=keep))

    def on_frame(self, consume: Callable[[Frame], None]) -> None:
        """Call this with every frame folded, as `on_frame` of `__init__`; before `frames`."""
        self._tape.on_frame = consume

    def set_events(self, events: EventHistory) -> None:
        self._events = events  # `to_marker` stops at them too

    def set_rules(self, settings: RuleSettings) -> None:
        # No order: these come after the first tick.
        self._tape.rules = settings

    def stop(self) -> None:
        self._stopped = True
        self._data.stop()
        self._news.set()

    def pause(self) -> None:
        self._order(self._pause)

    def step(self, ticks: int) -> None:
        self._order(lambda: self._step(ticks))

    def shift(self, span_ns: int) -> None:
        # Keys may come faster than ticks are folded: what has come meanwhile is one way.
        with self._shift_lock:
            self._shift_ns += span_ns
        self._order(self._shifted)

    def seek(self, wall_ns: int) -> None:
        self._order(lambda: self._seek(wall_ns))

    def to_marker(self, step: int) -> None:
        self._order(lambda: self._to_marker(step))

    def faster(self, steps: int) -> None:
        self._order(lambda: self._speed(self._banner.position.speed * 2.0**steps))

    def frames(self) -> Generator[Frame, None, None]:
        """Every frame from the start position on.

        Raises:
            NoRecordingError: there is nothing to replay.
        """
        try:
            if self._opened():
                yield from map(self._show, self._first())
            while not self._stopped:
                self._news.clear()
                yield from self._next()
                if self._banner.position.ended and not self._stays:
                    return
        except InterruptedError:
            if not self._stopped:
                raise
        finally:
            self._data.close()

    def open(self) -> bool:
        """Check the available data; returns whether the recording's start has arrived.

        Raises:
            NoRecordingError: the data are no recording.
            NoMomentError: the start position is not in the recording.
        """
        try:
            here = self._opening.position()
        except NoRecordingError:
            self.is_none = True
            raise
        if here is None:
            return False
        self._banner.position = here._replace(paused=self._paused, remote=self.remote is not None)
        if self.remote is not None and (start := next_position(self._data, self._data.first)):
            self._tape.restart(start)  # what precedes it, such as a banner, is no loss
        self._banner.measure(self._data)
        if self._start is not None:
            self._first_ns = beginning_ns(self._data, self._start, self._banner.position)
        return True

    def _opened(self) -> bool:
        """Wait for the start of the recording; returns whether it came before `stop`."""
        while not self._stopped:
            self._news.clear()
            if self.open():
                return True
            self._clock.wait(self._news, _POLL_S)
        return False

    def _first(self) -> tuple[ReplayedTick, ...]:
        """The first frames; after a start in the middle the one before it primes the rates."""
        if self._first_ns is None:
            return ()
        if not self._data.piped:
            return self._tape.begin_at(self._first_ns)
        way = Approach(self._data, self._tape, self._first_ns)
        while not self._stopped:
            self._news.clear()
            if way.arrived(self._banner.position):
                return self._tape.newest
            self._clock.wait(self._news, _POLL_S)
        return ()

    def _next(self) -> tuple[Frame, ...]:
        """The next frame once due, or those of a request; empty if neither is available."""
        if self._orders:
            self._pace.restart()
            return tuple(map(self._show, self._orders.popleft()()))
        if self._banner.position.paused:
            self._clock.wait(self._news, _POLL_S)
            return ()
        # Asked before it is read: a pipe may bring its last and end between the two.
        grows = self._data.grows
        times = self._tape.upcoming()
        if times is None:
            return self._at_end(grows=grows)
        now_ns = self._clock.monotonic_ns()
        due_ns = self._pace.due_ns(*times, now_ns)
        if due_ns > now_ns:
            self._clock.wait(self._news, (due_ns - now_ns) / 1e9)
            return ()
        shown = self._tape.forward()
        return () if shown is None else (self._show(shown),)

    def _at_end(self, *, grows: bool) -> tuple[Frame, ...]:
        """No more ticks for now: the last frame again if its remarks have changed."""
        # Behind the end of one recording a pipe may bring another.
        over = (self._tape.ended and not self._data.piped) or not (self._follow and grows)
        position = self._banner.position
        if over and not position.ended and (rest := self._tape.tail_loss()) is not None:
            self._on_loss(rest)
        self.unfinished = self._tape.unfinished() if over else ""
        now_ns = self._clock.monotonic_ns()
        waited_s = self._pace.waited_ns(now_ns) / 1e9
        long = waited_s > _LONG_TICKS * max(self.interval_s, 1.0) and not self._data.piped
        message = self._tape.end_message(over=over, long=long) or position.remark
        if self.unfinished and self.remote is not None and (ending := self.remote()):
            message = f"connection lost: {ending}"
        self._banner.turn(waiting=not over, ended=over, remark=message)
        self._banner.measure(self._data)
        if not over:
            self._pace.at_edge(now_ns)
        if self._banner.position != position and self._stays and self._shown is not None:
            return (self._shown.frame,)
        if not over or self._stays:
            self._clock.wait(self._news, _POLL_S)
        return ()

    def _show(self, shown: ReplayedTick) -> Frame:
        """Note a tick as shown; returns its frame."""
        now_ns = self._clock.monotonic_ns()
        self._pace.shown(shown.monotonic_ns, now_ns)
        self._shown = shown
        marker, self._marker = self._marker, None
        self._banner.shows(shown, marker, following=self._pace.following)
        return shown.frame

    # Orders, each in the thread of `frames`

    def _order(self, order: Callable[[], tuple[ReplayedTick, ...]]) -> None:
        self._orders.append(order)
        self._news.set()

    def _pause(self) -> tuple[ReplayedTick, ...]:
        self._banner.turn(paused=not self._banner.position.paused)
        return self._again()

    def _speed(self, speed: float) -> tuple[ReplayedTick, ...]:
        speed = min(max(speed, SLOWEST), FASTEST)
        self._banner.turn(speed=speed)
        self._pace.speed = speed
        return self._again()

    def _again(self) -> tuple[ReplayedTick, ...]:
        """The shown frame again, because its remarks have changed."""
        return () if self._shown is None else (self._shown,)

    def _baseline(self, *, keep: bool) -> tuple[ReplayedTick, ...]:
        self._tape.baseline(keep=keep)
        return ()

    def _step(self, ticks: int) -> tuple[ReplayedTick, ...]:
        self._banner.turn(paused=True)
        move = self._tape.forward if ticks > 0 else self._tape.back
        reached = None
        for _ in range(abs(ticks)):
            reached = move() or reached
        if reached is None and ticks < 0 and self._shown is not None and self._shown.number:
            return self._go(self._shown.wall_ns - 1)
        return self._again() if reached is None else (reached,)

    def _shifted(self) -> tuple[ReplayedTick, ...]:
        with self._shift_lock:
            span_ns, self._shift_ns = self._shift_ns, 0
        if not span_ns or self._shown is None:
            return ()
        self._banner.turn(paused=True)
        wall_ns = self._banner.requested_ns + span_ns
        if span_ns > _FOLDED_ON_NS:
            return self._go(wall_ns, nearest=True)
        reached = self._tape.on_to(wall_ns) if span_ns > 0 else self._tape.back_to(wall_ns)
        if reached is None:
            return self._again() if span_ns > 0 else self._go(wall_ns, nearest=True)
        return (reached,)

    def _seek(self, wall_ns: int) -> tuple[ReplayedTick, ...]:
        wrong = outside(wall_ns, reaching(self._data, self._banner.position))
        if not wrong:
            return self._go(wall_ns, nearest=True)
        self._banner.answer(wrong)
        return self._again()

    def _go(self, wall_ns: int, *, nearest: bool = False) -> tuple[ReplayedTick, ...]:
        if wrong := pipe_dropped(self._data, wall_ns):
            self._marker = None
            self._banner.answer(wrong)
            return self._again()
        reached = self._tape.go(wall_ns, nearest=nearest)[-1:]
        self._banner.turn(ended=False)
        return reached or self._again()

    def _to_marker(self, step: int) -> tuple[ReplayedTick, ...]:
        self._banner.turn(paused=True)
        at, here_ns = self._banner.position, self._banner.requested_ns
        self._marker = next_event(self._data, self._events, at, here_ns, step)
        if self._marker is None:
            self._banner.answer(f"no {'later' if step > 0 else 'earlier'} event")
            return self._again()
        return self._go(self._marker.wall_ns)
