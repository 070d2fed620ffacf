"""Plans of trials: what can be tried against now, and what is watched."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import pytest

from nftop.control.gate import HostGate
from nftop.control.resctrl.sweep import SweepError
from nftop.control.simulated import simulated_gates
from nftop.control.trial import TRIABLE, TrialRequest, plan_trial
from nftop.model.change import (
    Action,
    CreateGroup,
    MoveCpus,
    PinCpus,
    Proposal,
    ReasonCode,
    Refusal,
    SetIoWays,
    SetSchemata,
)
from nftop.model.experiment import Experiment
from nftop.model.frame import Frame
from nftop.model.ids import Cpu
from tests.sim.hosts import Frozen, S


@cache
def demo(scenario: str = "noisy", processor: str = "") -> tuple[Frame, HostGate]:
    host = Frozen(scenario, processor=processor)
    host.tick(S)
    return host.tick(S), simulated_gates(host.simulated.world)


def planned(
    wanted: Sequence[Action], scenario: str = "noisy", watch: tuple[str, ...] = ()
) -> Experiment:
    frame, gate = demo(scenario)
    return plan_trial(TrialRequest("B", watch, seed=3), frame, gate.propose(wanted))


def test_masks_against_now() -> None:
    plan = planned([SetSchemata("tenant", "L3", ((0, 0x1),))])
    assert plan.kind == "try"
    assert [len(setting.changes) for setting in plan.settings] == [0, 1]
    assert (plan.rounds_least, plan.rounds_most) == (6, 6)
    assert plan.group == "tenant"
    assert {"tenant", "vpp", "switch"} <= set(plan.classes)
    assert plan.settings[1].changes == plan.proposal.changes


def test_several_classes_at_once() -> None:
    wanted = [SetSchemata("tenant", "L3", ((0, 0x1),)), SetSchemata("vpp", "L3", ((0, 0xFF0),))]
    plan = planned(wanted, watch=("vpp",))
    assert {change.cell.group for change in plan.settings[1].changes} == {"tenant", "vpp"}
    assert list(plan.watch.values()) == ["vpp"]


def test_pins_of_cores_are_of_another_backend() -> None:
    plan = planned([PinCpus((Cpu(1), Cpu(2)))], "sst-bf")
    assert {change.cell.kind for change in plan.settings[1].changes} <= {"min_khz", "max_khz"}
    assert "cpufreq" in plan.proposal.identity
    assert plan.watch


def test_every_kind_of_a_row_is_of_that_row_alone() -> None:
    kinds = [kind for row in TRIABLE for kind in row.kinds]
    assert len(set(kinds)) == len(kinds)


@pytest.mark.parametrize(
    "wanted",
    [
        [SetSchemata("tenant", "L3", ((0, 0xFE),))],  # as it is
        [SetSchemata("nobody", "L3", ((0, 0x1),))],
        [CreateGroup("nftop.other")],
        [MoveCpus((Cpu(20),), "vpp")],
    ],
)
def test_what_can_not_be_tried_is_refused(wanted: list[Action]) -> None:
    with pytest.raises(SweepError):
        planned(wanted)


def test_an_unknown_network_function_is_refused() -> None:
    with pytest.raises(SweepError, match="vpp"):
        planned([SetSchemata("tenant", "L3", ((0, 0x1),))], watch=("nobody",))


def test_a_refused_proposal_reports_why() -> None:
    frame, _ = demo()
    with pytest.raises(SweepError, match="because"):
        plan_trial(
            TrialRequest("B"),
            frame,
            Proposal({}, (), refusals=(Refusal(ReasonCode.GROUP_ABSENT, "because"),)),
        )


def test_ways_of_io_against_now_of_every_cache() -> None:
    frame, gate = demo("noisy", "gold-6252n")
    wanted = SetIoWays(enabled=True, values=((0, 0x7E0),))
    plan = plan_trial(TrialRequest("B", ("vpp",)), frame, gate.propose([wanted]))
    now, other = plan.settings
    assert (plan.of_io, plan.group, now.changes) == (True, "", ())
    changed = {(item.cell.kind, item.cell.number): item.new for item in other.changes}
    # One switch for both: the cache that is not named keeps its ways.
    assert changed == {("io_alloc", -1): "enabled", ("io_cbm", 0): "7e0", ("io_cbm", 1): "600"}
    assert {0, 1} <= set(plan.caches)


def test_ways_of_io_that_no_kernel_sets_are_refused() -> None:
    with pytest.raises(SweepError, match="io_alloc"):
        planned([SetIoWays(enabled=True, values=((0, 0x7E0),))])
