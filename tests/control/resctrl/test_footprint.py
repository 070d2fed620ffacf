"""Plans of footprints: what counts whom, which masks are given, and what can't be measured."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

import pytest

from nftop.control.rdt_limits import MaskRule, Rules
from nftop.control.resctrl.footprint import FootprintError, FootprintRequest, plan_footprint
from nftop.model.change import Cell, State
from nftop.model.footprint import UNREQUESTED, FootprintPlan, FootprintSubject
from nftop.model.frame import Frame
from nftop.model.missing import Missing, Reason
from nftop.model.struct import replace
from tests.sim.hosts import Frozen, S

RULES = Rules(masks={"L3": MaskRule(20)}, closids=16, rmids=176)
VPP, TENANT = Cell("schemata", "vpp", "L3", 0), Cell("schemata", "tenant", "L3", 0)


@cache
def noisy() -> tuple[Frame, State]:
    """vpp 1e0, switch (OVS and l3fwd) 01c, tenant 0fe, the root group 003 of 20 ways."""
    host = Frozen("noisy")
    host.tick(S)
    frame = host.tick(S)
    return frame, host.simulated.world.now().rdt.classes.state


def planned(
    request: FootprintRequest, rules: Rules = RULES, cells: Mapping[str, str] = MappingProxyType({})
) -> FootprintPlan:
    """`cells`: other masks of cache 0 by class; `mode_CLASS`: of modes."""
    frame, state = noisy()
    tasks = {cell.name: where for cell, where in state.items() if cell.kind == "task"}
    other = {
        Cell("mode", name.removeprefix("mode_"))
        if name.startswith("mode_")
        else Cell("schemata", name, "L3", 0): value
        for name, value in cells.items()
    }
    known = {cell: value for cell, value in state.items() if cell.kind != "task"}
    return plan_footprint(request, frame, {**known, **other}, replace(rules, tasks=tasks), "here")


def subject(plan: FootprintPlan, name: str) -> FootprintSubject:
    return next(item for item in plan.subjects if item.name.startswith(name))


def new_masks(plan: FootprintPlan, name: str) -> dict[str, int]:
    """Masks of cache 0 by class, in a subject's own setting."""
    own = subject(plan, name).own
    assert isinstance(own, int)
    changes = plan.experiment.settings[own].changes
    return {c.cell.group: int(c.new or "", 16) for c in changes if c.cell.kind == "schemata"}


def test_alone_in_its_class_it_needs_no_monitor() -> None:
    plan = planned(FootprintRequest(watch=("vpp",)))
    (vpp,) = plan.subjects
    assert (vpp.counter, vpp.monitors, vpp.group, vpp.own) == ("class", (), "vpp", UNREQUESTED)
    assert not plan.writes
    assert plan.together == -1


def test_others_in_its_class_take_a_monitoring_group() -> None:
    plan = planned(FootprintRequest(watch=("ovs",)))
    ovs = subject(plan, "ovs")
    assert ovs.counter == "new monitor"
    ((group, name),) = ovs.monitors
    assert (group, name.startswith("nftop.ovs")) == ("switch", True)
    (setting,) = plan.experiment.settings
    assert {change.cell.kind for change in setting.changes} == {"monitor", "cpu"}
    assert plan.together == 0
    assert plan.experiment.proposal.changes == setting.changes


def test_monitors_are_taken_only_as_far_as_they_are_free() -> None:
    """Four classes have one each; the root group's counts too."""
    plan = planned(FootprintRequest(), replace(RULES, rmids=5))
    counters = [item.counter for item in plan.subjects]
    new = [item for item in counters if item == "new monitor"]
    taken = [item for item in counters if isinstance(item, Missing)]
    assert (len(new), {item.reason for item in taken}) == (1, {Reason.TAKEN})
    refused = planned(FootprintRequest(monitors=False))
    assert not refused.writes
    with pytest.raises(FootprintError, match="needs a monitoring group"):
        planned(FootprintRequest(watch=("ovs",), monitors=False))


def test_own_ways_are_those_without_another_network_function() -> None:
    """Ways 2-4 are the switch's; the tenant is left a way at the far edge."""
    plan = planned(FootprintRequest(watch=("vpp",), own=True))
    assert new_masks(plan, "vpp") == {"vpp": 0x7FFE0, "tenant": 0x80000}
    narrow = planned(FootprintRequest(watch=("vpp",), own=True), cells={"switch": "ff00"})
    # Eight of the lower ways against four above; two of them are the root group's and the tenant's.
    assert new_masks(narrow, "vpp")["vpp"].bit_count() == 7
    assert not new_masks(narrow, "vpp")["vpp"] & 0xFF00


def test_squeezed_classes_have_the_least_number_of_ways() -> None:
    rules = replace(RULES, masks={"L3": MaskRule(20, min_bits=2)})
    masks = new_masks(planned(FootprintRequest(watch=("vpp",), own=True), rules), "vpp")
    assert (masks["tenant"].bit_count(), masks["vpp"].bit_count()) == (2, 13)
    assert not masks["tenant"] & masks["vpp"]


def test_ways_of_an_exclusive_class_are_not_taken() -> None:
    cells = {"mode_tenant": "exclusive", "tenant": "ff000", "vpp": "1e0", "switch": "1c"}
    plan = planned(FootprintRequest(watch=("vpp",), own=True), cells=cells)
    masks = new_masks(plan, "vpp")
    assert masks == {"vpp": 0xFE0}


def test_ways_that_are_its_own_already_are_not_measured_again() -> None:
    cells = {"tenant": "1", "/": "1", "vpp": "ffffe", "switch": "1"}
    plan = planned(FootprintRequest(watch=("vpp",), own=True), cells=cells)
    own = subject(plan, "vpp").own
    assert isinstance(own, Missing)
    assert "already" in own.message
    assert not plan.writes


def test_together_in_a_class_none_has_ways_of_its_own() -> None:
    plan = planned(FootprintRequest(own=True))
    for name, other in (("ovs", "north"), ("north", "ovs"), ("loop", "whatever")):
        own = subject(plan, name).own
        assert isinstance(own, Missing)
        assert other in own.message
    assert isinstance(subject(plan, "vpp").own, int)


def test_other_network_functions_in_all_ways_leave_none() -> None:
    plan = planned(FootprintRequest(watch=("vpp",), own=True), cells={"switch": "fffff"})
    own = subject(plan, "vpp").own
    assert isinstance(own, Missing)
    assert "in all ways" in own.message


def test_unknown_network_functions_are_named() -> None:
    with pytest.raises(FootprintError, match="no network function nobody; there are: "):
        planned(FootprintRequest(watch=("nobody",)))
