"""Going back in a live session: a replay of the flight recorder beside the live frames."""

from __future__ import annotations

import threading
from collections.abc import Callable

from nftop.model.frame import Frame
from nftop.model.replay_position import Position
from nftop.model.rule_settings import RuleSettings
from nftop.session.live import SessionClock
from nftop.session.replay import Replay
from nftop.session.time_spec import outside
from nftop.store.history.events import EventHistory
from nftop.store.history.flight import FlightRecorder, FlightSize
from nftop.store.history.rings import TickHistory

# Ticks of graphs that begin before the live history does.
_TICKS = 120
_NO_PAST = "nothing is kept yet"
_IS_NOW = "this is now"


class LivePast:
    """A `PastControl` over what the flight recorder keeps. Live frames go on meanwhile.

    A frame of the past is folded from the same samples by the same code as the live one and has
    the same numbers. It differs in what is never recorded: the notice, and command lines of
    processes. Above one tick a second, samples between those kept are missing, and rates are means
    over the longer time. Where only what outlasts a warm-up is kept of the fold's state, numbers
    rest on the ticks since the warm-up began (`Position.warmed`).

    Methods are safe from any thread.
    """

    def __init__(
        self, flight: FlightRecorder, events: EventHistory, clock: SessionClock | None = None
    ) -> None:
        self.flight = flight
        self._history: TickHistory | None = None
        self.problem = ""
        self._events = events
        self._clock = clock
        self._replay: Replay | None = None
        self._rules: RuleSettings | None = None
        self._show: Callable[[Frame | None], None] = lambda _: None
        # Begin of the event that was requested last; None: another moment was since.
        self._event_ns: int | None = None
        # Which replay is shown, and the order in which its frames and None are given.
        self._lock = threading.RLock()
        self._generation = 0

    def listen(self, show: Callable[[Frame | None], None]) -> None:
        self._show = show

    @property
    def active(self) -> bool:
        return self._replay is not None

    @property
    def generation(self) -> int:
        return self._generation

    @property
    def history(self) -> TickHistory | None:
        return self._history

    @property
    def kept(self) -> FlightSize:
        return self.flight.size

    @property
    def position(self) -> Position | None:
        replay = self._replay
        return None if replay is None else replay.position

    def shift(self, span_ns: int) -> None:
        self.problem, self._event_ns = "", None
        replay, size = self._replay, self.flight.size
        if replay is None:
            self._begin(max(size.last_ns + span_ns, size.first_ns), forward=span_ns > 0)
            return
        here = replay.position
        if span_ns > 0 and here is not None and here.at_ns + span_ns >= size.last_ns:
            self.to_now()
        else:
            replay.shift(span_ns)

    def step(self, ticks: int) -> None:
        self.problem, self._event_ns = "", None
        replay, size = self._replay, self.flight.size
        if replay is None:
            # The newest kept tick is on screen already: go on from it.
            self._begin(size.last_ns, forward=ticks > 0, step=ticks)
            return
        here = replay.position
        if ticks > 0 and here is not None and here.at_ns >= size.last_ns:
            self.to_now()
        else:
            replay.step(ticks)

    def seek(self, wall_ns: int) -> None:
        """To a wall time; if nothing is kept of it, `problem` or the position's remark says so."""
        self.problem, self._event_ns = "", None
        replay, size = self._replay, self.flight.size
        if replay is not None:
            replay.seek(wall_ns)
            return
        if size.ticks:
            self.problem = outside(wall_ns, Position(0, size.first_ns, size.last_ns, 0))
        if not self.problem:
            self._begin(min(max(wall_ns, size.first_ns), size.last_ns), forward=False)

    def to_marker(self, step: int) -> None:
        """To the next or previous begin of an incident, change or marker.

        Counted from the event requested last, which may not be drawn yet, else from the moment
        shown.
        """
        self.problem = ""
        size, here = self.flight.size, self.position
        at_ns = size.last_ns if here is None else here.at_ns
        # A tick shows what began up to half a tick after it.
        from_ns = at_ns + step * 500_000_000
        if self._event_ns is not None and (here is None or here.paused):
            from_ns = self._event_ns
        event = self._events.next_event(from_ns, step)
        if event is None or event.begin_ns < size.first_ns:
            direction = "later" if step > 0 else "earlier"
            self.problem = f"no {direction} event is kept"
            return
        self._event_ns = event.begin_ns
        if self._replay is None:
            self._begin(event.begin_ns, forward=False)
        else:
            self._replay.seek(event.begin_ns)

    def pause(self) -> None:
        """Stand still, or let the past go on; nothing at now."""
        if self._replay is not None:
            self._replay.pause()

    def faster(self, steps: int) -> None:
        if self._replay is not None:
            self._replay.faster(steps)

    def set_rules(self, settings: RuleSettings) -> None:
        with self._lock:
            self._rules = settings
            if self._replay is not None:
                self._replay.set_rules(settings)

    def to_now(self) -> None:
        self._leave(self._replay)

    def _leave(self, replay: Replay | None, problem: str = "") -> None:
        """Stop this replay and show now, unless another one has begun since."""
        with self._lock:
            if replay is None or replay is not self._replay:
                return
            if problem:
                self.problem = problem  # the screen reads it when it is given None
            self._replay = self._history = self._event_ns = None
            self._generation += 1
            self._show(None)
        replay.stop()

    def close(self) -> None:
        self._show = lambda _: None
        self.to_now()

    def _begin(self, wall_ns: int, *, forward: bool, step: int = 0) -> None:
        size = self.flight.size
        if forward:
            self.problem = _IS_NOW
            return
        if not size.ticks:
            self.problem = _NO_PAST
            return
        history = TickHistory(ticks=_TICKS)
        replay = Replay(
            self.flight.reader(),
            at_ns=wall_ns,
            state_at=self.flight.state_at,
            paused=True,
            quiet=True,
            on_frame=history.append,
            clock=self._clock,
        )
        if step:
            replay.step(step)
        with self._lock:
            if self._rules is not None:
                replay.set_rules(self._rules)
            self._replay, self._history = replay, history
            self._generation += 1
        # A daemon: folding must not keep nftop from ending.
        threading.Thread(target=self._run, args=(replay,), name="nftop-past", daemon=True).start()

    def _run(self, replay: Replay) -> None:
        try:
            for frame in replay.frames():
                with self._lock:
                    if replay is not self._replay:
                        return
                    self._show(frame)
                here = replay.position
                if here is not None and here.waiting and not here.paused:
                    self._leave(replay)  # it has caught up
        except Exception as error:  # noqa: BLE001 - the boundary: the live screen goes on
            self._leave(replay, f"the past cannot be shown: {type(error).__name__}: {error}")
