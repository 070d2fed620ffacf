"""Experiments on the simulated host: frames drive them, and whatever ends them restores."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field

import pytest

from nftop.cli.compose.accelerated import Accelerated, SteppedClock
from nftop.control.backend import CLASSES
from nftop.control.gate import BackendClassGate
from nftop.control.resctrl.sweep import SweepRequest, plan_sweep
from nftop.control.simulated import simulated_gates
from nftop.derive.experiment.engine import ExperimentState
from nftop.derive.fold import FoldState
from nftop.model.change import SetSchemata, State
from nftop.model.experiment import Experiment, HarmLimits, Timing
from nftop.model.frame import Frame
from nftop.session.experiment import ExperimentResult, run_experiment
from nftop.sources.simulated import simulated_host

CPUS = 24
QUICK = Timing(settle_least_s=5, measure_s=10)


@dataclass
class Host:
    """The noisy scenario with its neighbour at work, on a stepped clock."""

    processor: str = ""
    clock: SteppedClock = field(default_factory=SteppedClock)

    def __post_init__(self) -> None:
        demo = simulated_host("noisy", CPUS, processor=self.processor, clock_ns=self.clock.now_ns)
        self.clock.advance(75)
        self.gate: BackendClassGate = simulated_gates(demo.world).gates[CLASSES]
        start = FoldState(demo.host, demo.model.layout.topology, demo.uarch)
        self.feed = Accelerated(demo.sources, start, self.clock)
        self.frames = self.feed.frames()
        self.frame = [next(self.frames) for _ in range(3)][-1]

    def plan(self, request: SweepRequest) -> Experiment:
        host = self.gate.host
        return plan_sweep(request, self.frame, host.state(), host.rules(), host.identity)

    def state(self) -> State:
        return self.gate.host.state()


def ended(host: Host, plan: Experiment, until: int = 10_000) -> ExperimentResult:
    """The result of so many frames at most."""

    def frames() -> Generator[Frame, None, None]:
        for _ in range(until):
            yield next(host.frames)

    return run_experiment(plan, frames(), host.gate, host.clock.now_ns)


def test_a_sweep_finds_the_width_that_the_model_knows() -> None:
    """Eleven ways are free of those that network functions fill."""
    host = Host()
    before = host.state()
    plan = host.plan(SweepRequest("tenant", (10, 12), seed=3, timing=QUICK))
    result = ended(host, plan)
    assert result.state.ended == "clear"
    assert result.curve.recommended is not None
    assert plan.settings[result.curve.recommended].ways == 11
    assert [item.effect for item in result.curve.results] == ["nothing", "nothing", "costs"]
    assert result.receipt.outcome == "reverted"
    assert host.state() == before
    assert [entry.outcome for entry in host.gate.journal.history()] == ["reverted"]


def test_the_end_of_the_frames_restores() -> None:
    host = Host()
    before = host.state()
    result = ended(host, host.plan(SweepRequest("tenant", (10, 12), timing=QUICK)), until=20)
    assert (result.state.ended, result.receipt.outcome) == ("stopped", "reverted")
    assert host.state() == before


def test_an_error_restores_too() -> None:
    host = Host()
    before, seen = host.state(), list[State]()

    def fail(state: ExperimentState) -> None:
        if state.phase == "settling":
            seen.append(host.state())
            raise RuntimeError

    plan = host.plan(SweepRequest("tenant", (10, 12), timing=QUICK))
    with pytest.raises(RuntimeError):
        run_experiment(plan, host.frames, host.gate, host.clock.now_ns, fail)
    assert seen[0] != before
    assert host.state() == before


def test_a_change_by_somebody_else_ends_it_and_stays() -> None:
    host = Host()
    before = host.state()
    plan = host.plan(SweepRequest("tenant", (10, 12), timing=QUICK))
    [step] = host.gate.host.steps(before, host.gate.propose([other()]).changes)

    def write(state: ExperimentState) -> None:
        if state.round == 1 and state.phase == "measuring" and host.state()[cell] == before[cell]:
            host.gate.host.do(step)

    [cell] = step.values
    result = run_experiment(plan, host.frames, host.gate, host.clock.now_ns, write)
    assert (result.state.ended, result.receipt.outcome) == ("guard", "reverted")
    assert host.state() == {**before, **step.values}


def other() -> SetSchemata:
    return SetSchemata("vpp", "L3", ((0, 0x3),))


def test_harm_ends_it_at_once() -> None:
    host = Host()
    before = host.state()
    limits = HarmLimits(drop_packets_per_s=1.0)
    plan = host.plan(SweepRequest("tenant", (12, 14), timing=QUICK, limits=limits))
    result = ended(host, plan)
    assert result.state.ended == "drops"
    assert len(result.state.visits) == 1
    assert host.state() == before


def test_while_it_runs_nothing_else_changes_the_host() -> None:
    host = Host()
    outcomes = list[str]()

    def meanwhile(state: ExperimentState) -> None:
        if state.phase == "settling" and not outcomes:
            proposal = host.gate.propose([other()])
            outcomes.append(host.gate.apply(proposal, keep_within_s=None).receipt.outcome)
            plan = host.plan(SweepRequest("vpp", (2, 4)))
            settings = [setting.changes for setting in plan.settings]
            outcomes.append(host.gate.begin_series(plan.proposal, settings).receipt.outcome)
            host.feed.stop()

    plan = host.plan(SweepRequest("tenant", (10, 12), timing=QUICK))
    result = run_experiment(plan, host.frames, host.gate, host.clock.now_ns, meanwhile)
    assert outcomes == ["refused", "refused"]
    assert result.receipt.outcome == "reverted"


def test_an_accelerated_frame_is_a_second_later() -> None:
    host = Host()
    frames = [next(host.frames) for _ in range(3)]
    assert [frame.interval_s for frame in frames] == [1.0] * 3
    assert frames[-1].monotonic_ns - frames[0].monotonic_ns == 2_000_000_000
    host.feed.stop()
    assert list(host.frames) == []


def test_a_sweep_of_the_ways_of_io_finds_where_the_devices_hit() -> None:
    """Four pollers' buffers of 576 KiB fit three ways of 0.8 MiB, and not two."""
    host = Host("gold-6252n")
    before = host.state()
    request = SweepRequest("", (2, 4), ("vpp",), (0,), seed=3, timing=QUICK, of_io=True)
    plan = host.plan(request)
    result = ended(host, plan)
    assert host.state() == before
    assert result.receipt.outcome == "reverted"
    hits = [item.io_hit_ratio for item in result.curve.results]
    assert hits[0] < 0.9
    assert hits[1:] == pytest.approx([0.995, 0.995], abs=0.01)
    assert [item.effect for item in result.curve.results] == ["costs", "nothing", "nothing"]
    assert result.curve.recommended is not None
    assert plan.settings[result.curve.recommended].ways == 3
