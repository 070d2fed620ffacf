"""Frames of the simulated host on a clock that is stepped: minutes take seconds."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence

from nftop.derive.fold import FoldState, step
from nftop.model.clock import NS_PER_S
from nftop.model.frame import Frame
from nftop.model.sample import Sample, SourceReading
from nftop.sources.base import Source

# Frames whose real time is the pace.
_PACED = 16


class SteppedClock:
    """CLOCK_MONOTONIC of an accelerated host: it moves only from frame to frame."""

    def __init__(self, begin_ns: int = NS_PER_S) -> None:
        self._now_ns = begin_ns

    def now_ns(self) -> int:
        return self._now_ns

    def advance(self, seconds: float) -> None:
        self._now_ns += round(seconds * NS_PER_S)


class Accelerated:
    """Frames of simulated sources, `interval_s` apart on their clock, `pause_s` in real time."""

    def __init__(
        self,
        sources: Sequence[Source],
        start: FoldState,
        clock: SteppedClock,
        *,
        interval_s: float = 1.0,
        pause_s: float = 0.0,
        wall_ns: int = 0,
        on_sample: Callable[[Sample], None] = lambda _: None,
    ) -> None:
        """`wall_ns`: time of day of the first frame; `start`: the first state of the fold."""
        self._on_sample = on_sample
        self._sources = sources
        self._start = start
        self._clock = clock
        self._interval_s, self._pause_s = interval_s, pause_s
        self._offset_ns = wall_ns - clock.now_ns()
        self._stopped = threading.Event()
        self._took_s = deque[float](maxlen=_PACED)

    @property
    def interval_s(self) -> float:
        return self._interval_s

    def pace(self) -> float:
        """Seconds of real time for each second of its clock, as frames have taken so far."""
        usual_s = sorted(self._took_s)[len(self._took_s) // 2] if self._took_s else self._pause_s
        return usual_s / self._interval_s

    def stop(self) -> None:
        self._stopped.set()

    def frames(self) -> Generator[Frame, None, None]:
        """A frame per step until `stop`. The first has no rates yet."""
        state = self._start
        while not self._stopped.is_set():
            began_s = time.monotonic()
            at_ns = self._clock.now_ns()
            readings = {
                source.name: SourceReading(source.read(), at_ns, 0) for source in self._sources
            }
            sample = Sample(
                at_ns + self._offset_ns, at_ns, round(self._interval_s * NS_PER_S), readings
            )
            self._on_sample(sample)
            state, frame = step(state, sample)
            yield frame
            self._clock.advance(self._interval_s)
            self._stopped.wait(self._pause_s)
            self._took_s.append(time.monotonic() - began_s)
