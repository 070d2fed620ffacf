"""An experiment on a host: frames drive it, the guard writes its settings and restores.

`Accelerated` has frames of the simulated host on a clock that is stepped: minutes take seconds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from typing import TypeAlias

from nftop.control.interface import SeriesGate
from nftop.derive.experiment.curve import curve_of
from nftop.derive.experiment.engine import (
    ExperimentState,
    Observer,
    advance,
    ended,
    written,
)
from nftop.derive.experiment.footprint import FootprintCollector
from nftop.derive.fold import FoldState, step
from nftop.model.change import Receipt
from nftop.model.clock import NS_PER_S
from nftop.model.experiment import Curve, Experiment
from nftop.model.footprint import Footprint, FootprintPlan
from nftop.model.frame import Frame
from nftop.model.sample import Sample, SourceReading
from nftop.model.struct import dataclass, replace
from nftop.sources.base import Source


@dataclass(frozen=True, slots=True)
class ExperimentResult:
    """A finished experiment.

    Attributes:
        receipt: the guard's last word: whether the state before is restored.
    """

    state: ExperimentState
    curve: Curve
    receipt: Receipt


# Called after every frame, and after every setting that was written.
Progress: TypeAlias = Callable[[ExperimentState], None]


def run_experiment(
    plan: Experiment,
    frames: Generator[Frame, None, None],
    gate: SeriesGate,
    now_ns: Callable[[], int],
    progress: Progress = lambda _: None,
) -> ExperimentResult:
    """Run an experiment to its end, or to that of the frames; the state before is restored.

    Args:
        plan: the experiment.
        frames: of the host, one after the other.
        gate: through which its settings are written.
        now_ns: the clock of the frames, CLOCK_MONOTONIC on a host.
        progress: receives the state.

    Raises OSError: the gate could not begin; nothing was written.
    """
    state = ExperimentState()
    series = gate.begin_series(plan.proposal, [setting.changes for setting in plan.settings])
    if series.receipt.outcome != "applied":
        return ExperimentResult(ended(state, "guard"), Curve(()), series.receipt)
    observer = Observer(plan)
    try:
        for frame in frames:
            series.alive()
            if series.settled(0) is not None:
                break
            state, command = advance(state, plan, observer.observe(frame))
            if isinstance(command, int):
                if series.try_setting(command).outcome != "applied":
                    break
                state = written(state, now_ns())
            progress(state)
            if command == "finish":
                break
        by_guard = series.settled(0)
        state = (
            ended(state, "stopped")
            if by_guard is None
            else ended(state, "guard", *by_guard.sentences[:1])
        )
    finally:
        # Whatever happened: the state before is restored.
        receipt = series.end()
    curve = curve_of(plan, state.visits)
    if state.ended not in ("clear", "rounds"):  # too few visits to recommend anything
        curve = replace(curve, recommended=None, tolerated=None, decided=False)
    return ExperimentResult(state, curve, receipt)


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
        """`wall_ns`: time of day of the first frame; `start`: the first state of the fold.

        `on_sample`: called with every sample before it is processed.
        """
        self._on_sample = on_sample
        self._sources = sources
        self._start = start
        self._clock = clock
        self._interval_s, self._pause_s = interval_s, pause_s
        self._offset_ns = wall_ns - clock.now_ns()
        self._stopped = threading.Event()

    @property
    def interval_s(self) -> float:
        return self._interval_s

    def stop(self) -> None:
        self._stopped.set()

    def frames(self) -> Generator[Frame, None, None]:
        """A frame per step until `stop`. The first has no rates yet."""
        state = self._start
        while not self._stopped.is_set():
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


@dataclass(frozen=True, slots=True)
class FootprintResult:
    """A finished measurement.

    Attributes:
        state: of its visits; None if nothing was written.
        receipt: the guard's last word: whether the state before is restored; None without a guard.
        complete: whether everything planned was measured.
    """

    footprint: Footprint
    state: ExperimentState | None
    receipt: Receipt | None
    complete: bool


def run_footprint(
    plan: FootprintPlan,
    frames: Generator[Frame, None, None],
    gate: SeriesGate | None,
    now_ns: Callable[[], int],
    progress: Progress = lambda _: None,
) -> FootprintResult:
    """Measure, to the end of the plan or of the frames; the state before is restored.

    Args:
        plan: what to measure.
        frames: of the host, one after the other.
        gate: through which masks and monitoring groups are written; None if none are.
        now_ns: the clock of the frames, CLOCK_MONOTONIC on a host.
        progress: receives the state of the visits.

    Raises OSError: the gate could not begin; nothing was written.
    """
    collector = FootprintCollector(plan)
    if gate is None or not plan.writes:
        complete = _read_only(plan, frames, collector)
        return FootprintResult(collector.footprint(), None, None, complete)

    def seen() -> Generator[Frame, None, None]:
        for frame in frames:
            collector.see(frame)
            yield frame

    def follow(state: ExperimentState) -> None:
        collector.follow(state)
        progress(state)

    result = run_experiment(plan.experiment, seen(), gate, now_ns, follow)
    collector.follow(result.state)
    complete = result.state.ended in ("clear", "rounds")
    return FootprintResult(collector.footprint(), result.state, result.receipt, complete)


def _read_only(
    plan: FootprintPlan, frames: Generator[Frame, None, None], collector: FootprintCollector
) -> bool:
    """Measure what is there for the time of a visit; whether that time passed."""
    begin_ns = None
    for frame in frames:
        collector.see(frame)
        begin_ns = frame.monotonic_ns if begin_ns is None else begin_ns
        if frame.monotonic_ns - begin_ns >= plan.measure_s * NS_PER_S:
            collector.end_visit(plan.together)
            return True
    collector.end_visit(plan.together)
    return False
