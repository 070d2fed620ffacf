"""Plans of sweeps: masks that are legal, contain each other and avoid the watched."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import pytest

from nftop.control.rdt_limits import IoRule, MaskRule, Rules
from nftop.control.resctrl.sweep import (
    SweepError,
    SweepRequest,
    plan_sweep,
    set_command,
)
from nftop.model.change import Cell, State
from nftop.model.experiment import Experiment
from nftop.model.frame import Frame
from nftop.model.ids import L3Domain
from nftop.model.struct import replace
from tests.sim.hosts import Frozen, S

RULES = Rules(masks={"L3": MaskRule(20)}, closids=16)
CDP = Rules(masks={"L3CODE": MaskRule(20), "L3DATA": MaskRule(20)}, closids=16)
L3 = L3Domain(0)


@cache
def noisy() -> tuple[Frame, State]:
    """vpp 1e0, switch 01c, tenant 0fe, the root group 003 of 20 ways; 18 and 19 are I/O."""
    host = Frozen("noisy")
    host.tick(S)
    frame = host.tick(S)
    state = host.simulated.world.now().rdt.classes.state
    return frame, {cell: value for cell, value in state.items() if cell.kind != "task"}


def planned(request: SweepRequest, rules: Rules = RULES, **masks: str) -> Experiment:
    frame, state = noisy()
    other = {Cell("schemata", group, "L3", 0): mask for group, mask in masks.items()}
    return plan_sweep(request, frame, {**state, **other}, rules, "here")


def masks(plan: Experiment) -> list[int]:
    return [setting.masks[L3] for setting in plan.settings]


def test_masks_contain_the_last_and_have_one_way_more() -> None:
    plan = planned(SweepRequest("tenant"))
    assert [setting.ways for setting in plan.settings] == list(range(1, 21))
    assert [mask.bit_count() for mask in masks(plan)] == list(range(1, 21))
    assert all(one & other == one for one, other in pairwise(masks(plan)))


def test_ways_of_watched_network_functions_come_last_and_those_of_devices_before() -> None:
    chain = masks(planned(SweepRequest("tenant")))
    vpp_and_switch, io = 0x1FC, 0xC0000
    assert not any(mask & (vpp_and_switch | io) for mask in chain[:9])
    assert chain[10] & io == io
    assert not chain[10] & vpp_and_switch


def test_with_a_full_cache_it_avoids_the_watched_one() -> None:
    crowded = {"vpp": "ffc00", "switch": "3ff"}
    chain = masks(planned(SweepRequest("tenant", (1, 10), ("vpp",)), RULES, **crowded))
    assert not any(mask & 0xFFC00 for mask in chain)


def test_an_own_class_stays_in_its_own_ways_while_they_suffice() -> None:
    plan = planned(SweepRequest("vpp"), vpp="3c000", tenant="ff", switch="3f00")
    assert plan.own == {key for key, name in plan.watch.items() if name == "vpp"}
    assert all(mask & ~0x3C000 == 0 for mask in masks(plan)[:4])


def test_widths_that_the_hardware_does_not_take_are_left_out_with_the_reason() -> None:
    rules = Rules(masks={"L3": MaskRule(20, min_bits=2)}, closids=16)
    plan = planned(SweepRequest("tenant", (1, 22)), rules)
    assert [setting.ways for setting in plan.settings] == list(range(2, 21))
    assert [text.partition(":")[0] for text in plan.left_out] == ["1 way", "21-22 ways"]


def test_ways_of_an_exclusive_class_are_never_taken() -> None:
    frame, state = noisy()
    state = {**state, Cell("mode", "vpp"): "exclusive", Cell("schemata", "tenant", "L3", 0): "1e00"}
    plan = plan_sweep(SweepRequest("tenant"), frame, state, RULES, "here")
    assert not any(mask & 0x1E0 for mask in masks(plan))
    assert max(setting.ways for setting in plan.settings) == 11
    assert [text.partition(":")[0] for text in plan.left_out] == ["12-20 ways"]


def test_code_and_data_get_the_same_mask() -> None:
    frame, state = noisy()
    both = {
        cell._replace(name=name): value
        for cell, value in state.items()
        if cell.kind == "schemata" and cell.name == "L3"
        for name in ("L3CODE", "L3DATA")
    }
    cells = {cell: value for cell, value in state.items() if cell.name != "L3"} | both
    plan = plan_sweep(SweepRequest("tenant", (1, 3)), frame, cells, CDP, "here")
    for setting in plan.settings:
        new = {change.cell.name: change.new for change in setting.changes}
        assert new["L3CODE"] == new["L3DATA"] == f"{setting.masks[L3]:x}"
    assert set_command(plan, 0, "nftop").count("--l3") == 2


def test_the_whole_change_has_every_value_and_the_state_before() -> None:
    plan = planned(SweepRequest("tenant", (1, 4), commands=("nftop cat sweep",)))
    cell = Cell("schemata", "tenant", "L3", 0)
    written = [change.new for change in plan.proposal.changes]
    assert written == [f"{mask:x}" for mask in masks(plan)]
    assert all(change.old == plan.proposal.base[cell] == "fe" for change in plan.proposal.changes)
    assert plan.proposal.identity == "here"


def test_ways_of_devices_are_known_by_setting() -> None:
    plan = planned(SweepRequest("tenant", (9, 12)))
    assert [item.io for item in plan.settings] == [{}, {L3: 0x40000}, {L3: 0xC0000}, {L3: 0xC0000}]


def test_an_unknown_group_is_answered_with_those_that_exist() -> None:
    with pytest.raises(SweepError, match="default, switch, tenant, vpp"):
        planned(SweepRequest("nobody"))


def test_only_the_class_of_the_sweep_is_written() -> None:
    plan = planned(SweepRequest("tenant"))
    assert {change.cell.group for change in plan.proposal.changes} == {"tenant"}
    assert plan.caches == (L3,)


def test_the_present_mask_changes_nothing() -> None:
    plan = planned(SweepRequest("tenant", (1, 4)), tenant="1e00")
    here = next(item for item in plan.settings if item.ways == 4)
    assert here.masks[L3] == 0x1E00
    assert here.changes == ()


def test_the_command_sets_the_mask() -> None:
    plan = planned(SweepRequest("tenant", (1, 4)))
    assert (
        set_command(plan, 1, "nftop") == f"nftop cat set --group tenant --l3 0={masks(plan)[1]:x}"
    )


@pytest.mark.parametrize(
    "request_",
    [
        SweepRequest("nobody"),
        SweepRequest("tenant", watch=("nobody",)),
        SweepRequest("tenant", (3, 3)),
        SweepRequest("tenant", (21, 25)),
        SweepRequest("tenant", caches=(7,)),
        SweepRequest("tenant", watch=("loop/testpmd",)),
    ],
)
def test_no_plan_without_two_settings_and_a_network_function(request_: SweepRequest) -> None:
    with pytest.raises(SweepError):
        planned(request_)


IO = Cell("io_alloc", "", "L3")
IO_RULES = Rules(
    masks={"L3": MaskRule(20)},
    closids=16,
    io={0: (0xC0000, "hint"), 1: (0xC0000, "hint")},
    io_alloc=IoRule("L3", 15),
)


def io_plan(request: SweepRequest, **cells: str) -> Experiment:
    frame, state = noisy()
    other = {Cell("io_cbm", "", "L3", int(l3[1:])): value for l3, value in cells.items()}
    switch = {IO: "enabled" if cells else "disabled"}
    return plan_sweep(request, frame, {**state, **switch, **other}, IO_RULES, "here")


def test_ways_of_io_grow_from_the_present_ones_away_from_network_functions() -> None:
    plan = io_plan(SweepRequest("", (1, 6), ("vpp",), of_io=True))
    assert plan.of_io and plan.own == set(plan.watch)
    assert masks(plan) == [0x40000, 0xC0000, 0xE0000, 0xF0000, 0xF8000, 0xFC000]
    first = {change.cell: change.new for change in plan.settings[0].changes}
    # It is switched on; the other cache keeps what it has.
    assert first == {
        IO: "enabled",
        Cell("io_cbm", "", "L3", 0): "40000",
        Cell("io_cbm", "", "L3", 1): "c0000",
    }
    assert set_command(plan, 1, "nftop") == "nftop cat io enable --l3 0=c0000 --l3 1=c0000"


def test_ways_of_io_that_are_set_are_the_present_ones() -> None:
    plan = io_plan(SweepRequest("", (1, 3), ("vpp",), of_io=True), l0="600", l1="3")
    assert masks(plan)[1] == 0x600
    assert [change.cell.number for change in plan.settings[0].changes] == [0]
    assert set_command(plan, 2, "nftop") == f"nftop cat io set --l3 0={masks(plan)[2]:x}"


def test_a_sweep_that_leaves_out_a_cache_with_unknown_ways_of_io_is_refused() -> None:
    frame, state = noisy()
    rules = replace(IO_RULES, io={0: (0xC0000, "hint")})
    host = {**state, IO: "disabled"}
    with pytest.raises(SweepError, match="L3 1 are not known"):
        plan_sweep(SweepRequest("", (1, 6), ("vpp",), of_io=True), frame, host, rules, "here")
    everywhere = SweepRequest("", (1, 6), ("vpp",), (L3, L3Domain(1)), of_io=True)
    plan = plan_sweep(everywhere, frame, host, rules, "here")
    assert all(set(setting.masks) == {0, 1} for setting in plan.settings)


def test_without_io_alloc_such_a_sweep_is_refused() -> None:
    with pytest.raises(SweepError, match="no io_alloc"):
        planned(SweepRequest("", of_io=True))


def test_classes_of_network_functions_that_share_ways_with_a_mask_are_named() -> None:
    plan = planned(SweepRequest("tenant", watch=("vpp",)))
    vpp, switch = 0x1E0, 0x01C
    for setting in plan.settings:
        mask = setting.masks[L3]
        classes = {"vpp": mask & vpp, "switch": mask & switch}
        assert setting.shared.get(L3, {}) == {name: both for name, both in classes.items() if both}
    assert plan.polled["vpp"] == ("vpp",)
    assert set(plan.polled["switch"]) == {"north/l3fwd", "ovs-vswitchd"}
    assert plan.ends == (1, 20)


def test_the_class_itself_is_no_other_one() -> None:
    plan = planned(SweepRequest("vpp", (1, 4)), vpp="3c000", tenant="ff", switch="3f00")
    assert plan.polled == {}
