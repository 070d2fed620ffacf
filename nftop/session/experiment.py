"""An experiment on a host: frames drive it, the guard writes its settings and restores."""

from __future__ import annotations

from collections.abc import Callable, Generator
from itertools import islice
from typing import TypeAlias

from nftop.control.gate_protocols import ClassGate, SeriesGate
from nftop.derive.experiment.curve import curve_of
from nftop.derive.experiment.engine import ExperimentState, Observer, advance, ended, written
from nftop.derive.experiment.footprint import FootprintCollector
from nftop.model.change import Receipt
from nftop.model.clock import NS_PER_S
from nftop.model.experiment import Curve, Experiment
from nftop.model.footprint import Footprint, FootprintPlan
from nftop.model.frame import Frame
from nftop.model.struct import dataclass, replace
from nftop.store.history.experiments import ExperimentLog


@dataclass(frozen=True, slots=True)
class ExperimentResult:
    """A finished experiment.

    Attributes:
        receipt: the guard's last word: whether the state before is restored.
    """

    state: ExperimentState
    curve: Curve
    receipt: Receipt


@dataclass(frozen=True, slots=True)
class ExperimentHost:
    """A host on which an experiment runs: its frames, and the gate to its classes.

    Attributes:
        stop: ends the frames; from any thread. now_ns: the frames' clock.
        accelerated: minutes of its clock take seconds. pace: seconds of real time for each of its.
    """

    frames: Generator[Frame, None, None]
    gate: ClassGate
    stop: Callable[[], None]
    now_ns: Callable[[], int]
    accelerated: bool = False
    pace: Callable[[], float] = lambda: 1.0


# Frames until network functions, rates and classes are known.
_FIRST_FRAMES = 4


def first_frame(host: ExperimentHost) -> Frame | None:
    """A frame with rates of every network function; None if there are no frames."""
    frames = list(islice(host.frames, _FIRST_FRAMES))
    return frames[-1] if frames else None


# Called after every frame, and after every setting that was written.
Progress: TypeAlias = Callable[[ExperimentState], None]


def run_experiment(
    plan: Experiment,
    frames: Generator[Frame, None, None],
    gate: SeriesGate,
    now_ns: Callable[[], int],
    progress: Progress = lambda _: None,
    *,
    log: ExperimentLog | None = None,
) -> ExperimentResult:
    """Run an experiment to its end, or to that of the frames; the state before is restored.

    Args:
        plan: the experiment.
        frames: of the host, one after the other.
        gate: through which its settings are written.
        now_ns: the clock of the frames, CLOCK_MONOTONIC on a host.
        progress: receives the state.
        log: notes its steps in a recording.

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
            if log is not None:
                log.visited(state.visits)
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
    if log is not None:
        log.finished(state.ended or "stopped", state.detail, receipt.outcome)
    curve = curve_of(plan, state.visits)
    if state.ended not in ("clear", "rounds"):  # too few visits to recommend anything
        curve = replace(curve, recommended=None, tolerated=None, decided=False)
    return ExperimentResult(state, curve, receipt)


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
