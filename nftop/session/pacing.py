"""When the next tick of a recording is due."""

from __future__ import annotations

SLOWEST, FASTEST = 1 / 16, 1024.0
# A pause in the recording is not waited for longer than this.
_GAP_TICKS, _GAP_AT_LEAST_NS = 3, 1_000_000_000
# What is recorded now can't come faster than time goes; what does, by so much, was stored.
_AHEAD_NS = 10_000_000_000
# Later than this, what follows is not early to make up for it.
_LATE_NS = 100_000_000


class Pace:
    """Sets the recording's clock beside that of here.

    Attributes:
        speed: 1 is as fast as it was recorded.
    """

    def __init__(self, *, paced: bool) -> None:
        """Not `paced`: everything is due at once."""
        self.speed = 1.0
        self._paced = paced
        self._shown_ns: int | None = None  # of the recording
        self._due_ns: int | None = None  # when that was, here
        self._next_ns: int | None = None
        self._edge: tuple[int, int] | None = None
        self._waits_since_ns: int | None = None

    @property
    def following(self) -> bool:
        """What comes is shown as it comes."""
        return self._edge is not None

    def restart(self) -> None:
        """Somebody went elsewhere, stood still or changed the speed: time begins anew."""
        self._due_ns = self._next_ns = self._edge = None

    def at_edge(self, now_ns: int) -> None:
        """There is nothing more yet: from here on what comes is shown as it comes."""
        if self._edge is None and self._shown_ns is not None:
            self._edge = now_ns, self._shown_ns

    def waited_ns(self, now_ns: int) -> int:
        """How long nothing has come behind what is shown; called whenever nothing has."""
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
        """When a tick of this recorded time is due, by the clock of here."""
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
