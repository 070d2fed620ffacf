"""This host, live."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Generator, Sequence
from typing import Protocol

from nftop.derive.select import only_cpus
from nftop.derive.step import State, polling_cpus, step
from nftop.model.frame import Frame
from nftop.model.ids import Cpu
from nftop.model.topology import Topology
from nftop.session.sampler import Sampler
from nftop.sources.base import Focusing, Source

MIN_INTERVAL_S = 0.1
# How long a tick waits for the slow sources: long enough for a telemetry answer, short enough
# that the frame is still of its tick.
_GRACE_RATIO, _GRACE_AT_MOST_S = 0.25, 0.25
# The last part of a tick, in which sources that take turns count what else there is.
_TURN_RATIO = 0.1


class Clock(Protocol):
    """Time as the session sees it; tests bring their own."""

    def monotonic_ns(self) -> int:
        """CLOCK_MONOTONIC."""

    def wait(self, stopped: threading.Event, seconds: float) -> None:
        """Wait that long, or until `stopped`."""


class SystemClock:
    """The real one."""

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()

    def wait(self, stopped: threading.Event, seconds: float) -> None:
        stopped.wait(seconds)


class Live:
    """A `Feed` of this host's frames, on absolute deadlines.

    A tick that comes late, because the host was busy or stopped, is taken at once; ticks that
    were missed altogether are not made up for. Nothing drifts: deadlines are multiples of the
    interval from the start.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        start: State,
        interval_s: float,
        *,
        on_pollers: Callable[[frozenset[Cpu], Topology], None],
        cpus: Collection[Cpu] | None = None,
        first_interval_s: float | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Set up; nothing is read before `frames`.

        Args:
            sources: what to read; they are closed when the frames end.
            start: the fold's first state, which names host and topology.
            interval_s: seconds between ticks, at least MIN_INTERVAL_S.
            on_pollers: told the polling CPUs at the first tick and whenever they change.
            cpus: show these rows only; all CPUs if not given.
            first_interval_s: the pause after the first frame, which has no rates, if another one.
            clock: the system's if not given.
        """
        self._sources = sources
        self._start = start
        self._interval_s = max(interval_s, MIN_INTERVAL_S)
        self._on_pollers = on_pollers
        self._cpus = None if cpus is None else frozenset(cpus)
        self._first_interval_s = first_interval_s
        self._clock = clock or SystemClock()
        self._focus: Cpu | None = None
        self._stopped = threading.Event()

    @property
    def interval_s(self) -> float:
        return self._interval_s

    def set_interval(self, seconds: float) -> None:
        """Change the pace from the next tick on; at least MIN_INTERVAL_S."""
        self._interval_s = max(seconds, MIN_INTERVAL_S)

    def focus(self, cpu: Cpu | None) -> None:
        self._focus = cpu

    def stop(self) -> None:
        self._stopped.set()

    def frames(self) -> Generator[Frame, None, None]:
        """A frame per tick until `stop`. The first has no rates yet: WARMING."""
        sampler = Sampler(self._sources)
        state = self._start
        pollers: frozenset[Cpu] | None = None
        deadline_ns = self._clock.monotonic_ns()
        first = self._first_interval_s
        focus: Cpu | None = None
        try:
            while not self._stopped.is_set():
                interval_s = self._interval_s
                if self._focus != focus:
                    focus = self._focus
                    self._look_at(focus)
                grace_s = min(interval_s * _GRACE_RATIO, _GRACE_AT_MOST_S)
                state, frame = step(state, sampler.sample(interval_s, grace_s))
                if polling_cpus(frame) != pollers:
                    pollers = polling_cpus(frame)
                    self._on_pollers(pollers, frame.topology)
                yield frame if self._cpus is None else only_cpus(frame, self._cpus)
                pause_s = first or self._interval_s
                deadline_ns = self._next_deadline_ns(deadline_ns, pause_s)
                first = None
                if sampler.turning:
                    self._turn(sampler, deadline_ns - int(pause_s * _TURN_RATIO * 1e9))
                self._clock.wait(self._stopped, (deadline_ns - self._clock.monotonic_ns()) / 1e9)
        finally:
            sampler.close()

    def _turn(self, sampler: Sampler, at_ns: int) -> None:
        """Let sources take their turns from then on; not in a tick whose time for it has gone."""
        ahead_ns = at_ns - self._clock.monotonic_ns()
        if ahead_ns > 0:
            self._clock.wait(self._stopped, ahead_ns / 1e9)
            if not self._stopped.is_set():
                sampler.turn()

    def _look_at(self, cpu: Cpu | None) -> None:
        """Between two ticks: a source that is read in this thread is not told while it reads."""
        for source in self._sources:
            if isinstance(source, Focusing):
                source.focus(cpu)

    def _next_deadline_ns(self, deadline_ns: int, interval_s: float) -> int:
        step_ns = int(interval_s * 1e9)
        missed = max((self._clock.monotonic_ns() - deadline_ns) // step_ns, 0)
        return deadline_ns + (missed + 1) * step_ns
