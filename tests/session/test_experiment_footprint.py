"""Footprints on the simulated host, whose model knows what each network function wants."""

from __future__ import annotations

from collections.abc import Generator
from itertools import islice

import pytest

from nftop.cli.compose.accelerated import Accelerated, SteppedClock
from nftop.control.backend import CLASSES
from nftop.control.gate import BackendClassGate
from nftop.control.resctrl.footprint import FootprintRequest, plan_footprint
from nftop.control.simulated import simulated_gates
from nftop.derive.fold import FoldState
from nftop.model.change import Action, CreateGroup, MoveCpus, SetSchemata, State
from nftop.model.experiment import HarmLimits
from nftop.model.footprint import FootprintPlan, FootprintRow
from nftop.model.frame import Frame
from nftop.model.struct import replace
from nftop.session.experiment import FootprintResult, run_footprint
from nftop.sim import workloads
from nftop.sources.simulated import simulated_host

CPUS = 24


class Host:
    """The noisy scenario with its neighbour at work, on a stepped clock."""

    def __init__(self) -> None:
        self.clock = SteppedClock()
        demo = simulated_host("noisy", CPUS, clock_ns=self.clock.now_ns)
        self.clock.advance(75)
        self.model = demo.model
        self.gate: BackendClassGate = simulated_gates(demo.world).gates[CLASSES]
        start = FoldState(demo.host, demo.model.layout.topology, demo.uarch)
        self.frames = Accelerated(demo.sources, start, self.clock).frames()

    def state(self) -> State:
        return self.gate.host.state()

    def wants_bytes(self, task: str) -> float:
        """What the threads of a task fill if nothing holds them back."""
        placed = next(item for item in self.model.layout.placed if item.task.name == task)
        one = workloads.working_set_bytes(placed.task.workload)
        return one * len(placed.cpus)

    def plan(self, request: FootprintRequest) -> FootprintPlan:
        frame = list(islice(self.frames, 3))[-1]
        host = self.gate.host
        tids = [item.tid for nf in frame.nfs for item in nf.threads if item.tid is not None]
        rules = replace(host.rules(), tasks=host.tasks((), tids))
        return plan_footprint(request, frame, host.state(), rules, host.identity)

    def run(self, plan: FootprintPlan, most: int = 10_000) -> FootprintResult:
        def frames() -> Generator[Frame, None, None]:
            yield from islice(self.frames, most)

        return run_footprint(plan, frames(), self.gate, self.clock.now_ns)

    def own_class_of_north(self) -> None:
        """l3fwd leaves OVS' class for one of its own, with two ways of OVS."""
        frame = list(islice(self.frames, 3))[-1]
        nf = next(item for item in frame.nfs if item.name.startswith("north"))
        actions: list[Action] = [
            CreateGroup("nftop.north"),
            SetSchemata("nftop.north", "L3", ((0, 0x18),)),
            MoveCpus(nf.cpus, "nftop.north"),
        ]
        proposal = self.gate.propose(actions)
        assert self.gate.apply(proposal, keep_within_s=None).receipt.outcome == "kept"


def row(result: FootprintResult, name: str) -> FootprintRow:
    return next(item for item in result.footprint.rows if item.subject.name.startswith(name))


def test_what_fits_is_what_the_model_knows() -> None:
    host = Host()
    host.own_class_of_north()
    before = host.state()
    result = host.run(host.plan(FootprintRequest(watch=("north",), own=True)))
    assert result.complete
    assert result.receipt is not None
    assert result.receipt.outcome == "reverted"
    assert host.state() == before
    north = row(result, "north")
    assert north.together is not None and north.own is not None
    wants = host.wants_bytes("north")
    assert north.own.most_bytes == pytest.approx(wants, rel=0.01)
    assert north.together.most_bytes < 0.8 * wants
    assert (north.together.limited, north.own.limited, north.own.still) == (True, False, True)
    way_bytes = result.footprint.way_bytes[north.subject.l3]
    assert result.footprint.ways(north) == -(-wants // way_bytes)
    # With its cache it moves less memory.
    assert north.own.typical_bytes_per_s < north.together.typical_bytes_per_s
    [entry] = [item for item in host.gate.journal.history() if item.outcome == "reverted"]
    assert {change.cell.kind for change in entry.changes} == {"schemata"}


def test_what_does_not_fit_fills_what_it_is_given() -> None:
    host = Host()
    result = host.run(host.plan(FootprintRequest(watch=("vpp",), own=True)))
    vpp = row(result, "vpp")
    assert vpp.own is not None
    assert host.wants_bytes("vpp") > vpp.own.capacity_bytes
    assert vpp.own.filled and vpp.own.limited
    assert result.footprint.ways(vpp) == vpp.own.bits.bit_count() == 14
    assert vpp.own.packets_per_s > 1.05 * (vpp.together.packets_per_s if vpp.together else 0)


def test_monitoring_groups_exist_for_the_time_of_it() -> None:
    host = Host()
    before = host.state()
    plan = host.plan(FootprintRequest())
    assert sum(item.counter == "new monitor" for item in plan.subjects) == 3
    result = host.run(plan)
    assert result.complete
    assert host.state() == before
    for item in result.footprint.rows:
        assert item.together is not None
        assert item.together.readings >= 20
        assert item.together.most_bytes > 0
    both = [row(result, name).together for name in ("ovs", "north")]
    mask = sum(use.typical_bytes for use in both if use is not None)
    assert mask <= 3 * result.footprint.way_bytes[row(result, "ovs").subject.l3]


def test_without_a_write_nothing_is_in_the_history() -> None:
    host = Host()
    result = host.run(host.plan(FootprintRequest(watch=("vpp",))))
    assert (result.complete, result.receipt) == (True, None)
    assert host.gate.journal.history() == ()
    vpp = row(result, "vpp")
    assert vpp.together is not None
    assert vpp.together.bits == 0x1E0
    assert vpp.together.shared == 0xE0
    short = host.run(host.plan(FootprintRequest(watch=("vpp",))), most=5)
    assert not short.complete


def test_a_harm_limit_ends_it_and_restores() -> None:
    host = Host()
    before = host.state()
    request = FootprintRequest(watch=("vpp",), own=True, limits=HarmLimits(drop_packets_per_s=0.0))
    result = host.run(host.plan(request))
    assert result.state is not None
    assert result.state.ended == "drops"
    assert not result.complete
    assert host.state() == before
    assert row(result, "vpp").own is None


def test_the_end_of_the_frames_restores() -> None:
    host = Host()
    before = host.state()
    result = host.run(host.plan(FootprintRequest(own=True)), most=50)
    assert not result.complete
    assert host.state() == before
