"""This host, live."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence

from nftop.derive.step import State, polling_cpus, step
from nftop.model.frame import Frame
from nftop.model.ids import Cpu
from nftop.session.sampler import Sampler
from nftop.sources.base import Source

MIN_INTERVAL_S = 0.1
# How long a tick waits for the slow sources: long enough for a telemetry answer, short enough
# that the frame is still of its tick.
_GRACE_RATIO, _GRACE_AT_MOST_S = 0.25, 0.25


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
        on_pollers: Callable[[frozenset[Cpu]], None],
    ) -> None:
        """Set up; nothing is read before `frames`.

        Args:
            sources: what to read; they are closed when the frames end.
            start: the fold's first state, which names host and topology.
            interval_s: seconds between ticks, at least MIN_INTERVAL_S.
            on_pollers: told whenever the set of polling CPUs has changed.
        """
        self._sources = sources
        self._start = start
        self._interval_s = max(interval_s, MIN_INTERVAL_S)
        self._on_pollers = on_pollers
        self._stopped = threading.Event()

    @property
    def interval_s(self) -> float:
        return self._interval_s

    def set_interval(self, seconds: float) -> None:
        """Change the pace from the next tick on; at least MIN_INTERVAL_S."""
        self._interval_s = max(seconds, MIN_INTERVAL_S)

    def stop(self) -> None:
        self._stopped.set()

    def frames(self) -> Iterator[Frame]:
        """A frame per tick until `stop`. The first has no rates yet: WARMING."""
        sampler = Sampler(self._sources)
        state = self._start
        pollers: frozenset[Cpu] = frozenset()
        deadline_ns = time.monotonic_ns()
        try:
            while not self._stopped.is_set():
                grace_s = min(self._interval_s * _GRACE_RATIO, _GRACE_AT_MOST_S)
                state, frame = step(state, sampler.sample(grace_s))
                if polling_cpus(frame) != pollers:
                    pollers = polling_cpus(frame)
                    self._on_pollers(pollers)
                yield frame
                deadline_ns = self._next_deadline_ns(deadline_ns)
                self._stopped.wait((deadline_ns - time.monotonic_ns()) / 1e9)
        finally:
            sampler.close()

    def _next_deadline_ns(self, deadline_ns: int) -> int:
        step_ns = int(self._interval_s * 1e9)
        late_ns = time.monotonic_ns() - deadline_ns
        missed = max(late_ns // step_ns, 0)
        return deadline_ns + (missed + 1) * step_ns
