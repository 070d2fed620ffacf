"""Measure a footprint: frames drive it; what it writes is written and restored by the guard."""

from __future__ import annotations

from collections.abc import Callable, Generator

from nftop.control.interface import SeriesGate
from nftop.derive.experiment.engine import ExperimentState
from nftop.derive.experiment.footprint import FootprintCollector
from nftop.model.change import Receipt
from nftop.model.clock import NS_PER_S
from nftop.model.footprint import Footprint, FootprintPlan
from nftop.model.frame import Frame
from nftop.model.struct import dataclass
from nftop.session.experiment import Progress, run_experiment


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
