"""The simulated host on a clock that is stepped: minutes of an experiment take seconds."""

from __future__ import annotations

import argparse
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING

from nftop.derive.fold import FoldState, step
from nftop.model.clock import NS_PER_S
from nftop.model.frame import Frame
from nftop.model.sample import Sample, SourceReading
from nftop.model.struct import dataclass
from nftop.model.topology import Host, Topology
from nftop.session.experiment import ExperimentHost
from nftop.sources.base import Source
from nftop.uarch.table import Uarch

if TYPE_CHECKING:  # numpy comes with it
    from nftop.control.gate import HostGate
    from nftop.sim.world import World

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
        took_s = sorted(self._took_s)
        return (took_s[len(took_s) // 2] if took_s else self._pause_s) / self._interval_s

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


@dataclass(frozen=True, slots=True)
class SteppedHost:
    """What a recording's header says of the host, and the gates to it."""

    host: Host
    topology: Topology
    uarch: Uarch
    gate: HostGate


# The simulated neighbour has filled its ways so long after the scenario's last step.
_STEADY_S = 15.0


def accelerated_host(
    options: argparse.Namespace,
    *,
    like: World | None = None,
    pause_s: float = 0.0,
    taken: Callable[[SteppedHost], Callable[[Sample], None]] | None = None,
) -> ExperimentHost:
    """The simulated host of the command line, after the last step of its scenario.

    Args:
        options: of the command line.
        like: a simulated host whose classes and age it has; None: those of the scenario.
        pause_s: real time between frames.
        taken: of the host, what receives its samples.

    Raises ValueError: no such scenario, or a CPU that the host can't have.
    """
    from nftop.control.simulated import simulated_gates  # noqa: PLC0415 - numpy comes with it
    from nftop.sources.simulated import simulated_host  # noqa: PLC0415

    clock = SteppedClock()
    demo = simulated_host(
        options.scenario,
        options.simulated_cpus,
        processor=options.simulated_host,
        name=options.host_name,
        clock_ns=clock.now_ns,
    )
    moment = None if like is None else like.now()
    age_s = 0.0 if moment is None else moment.t_ns / NS_PER_S
    steps = demo.model.scenario.steps
    if steps:
        age_s = max(age_s, steps[-1].at_s + _STEADY_S)
    if moment is not None:
        demo.world.change(lambda _: moment.rdt.classes)
    clock.advance(age_s)
    start = FoldState(demo.host, demo.model.layout.topology, demo.uarch, options.queue_map)
    gate = simulated_gates(demo.world)
    feed = Accelerated(
        demo.sources,
        start,
        clock,
        interval_s=1.0 if like is not None else options.interval_s,
        pause_s=pause_s,
        wall_ns=time.time_ns(),
        on_sample=(lambda _: None)
        if taken is None
        else taken(SteppedHost(demo.host, demo.model.layout.topology, demo.uarch, gate)),
    )
    return ExperimentHost(
        feed.frames(), gate, feed.stop, clock.now_ns, accelerated=True, pace=feed.pace
    )
