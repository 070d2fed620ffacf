"""Drafts: whatever is done to one, the gate would take it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from nftop.control.backend import after
from nftop.control.rdt_limits import LimitRule, MaskRule
from nftop.control.resctrl import draft as drafts
from nftop.control.resctrl.draft import Draft, DraftStep, begin, rebased
from nftop.control.resctrl.operations import steps
from nftop.control.resctrl.plan import propose
from nftop.model.change import (
    IO_GROUP,
    Cell,
    CreateGroup,
    CreateMonitor,
    MoveCpus,
    MoveTasks,
    RemoveGroup,
    SetSchemata,
)
from nftop.model.ids import Cpu
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import ROOT, UNLIMITED_MBPS, split_path
from tests.control.hosts import LabHost, lab_host, without_births
from tests.control.resctrl.test_plan import RULES, world
from tests.control.worlds import ACTIONS, hosts

_GROUP = st.sampled_from([ROOT, "vpp", "ovs", "nftop.a", "nftop.b", IO_GROUP])
_LINE = st.sampled_from(["L3", "L3CODE", "L3DATA"])
_DOMAINS = st.sampled_from([(0,), (1,), (0, 1), (1, 0)])
_WAY, _BY = st.integers(0, 10), st.sampled_from([-1, 1])


Operation: TypeAlias = Callable[[Draft], DraftStep]


def _later(
    function: Callable[..., DraftStep], *arguments: st.SearchStrategy[Any]
) -> st.SearchStrategy[Operation]:
    return st.tuples(*arguments).map(lambda given: lambda draft: function(draft, *given))


OPERATION = st.one_of(
    _later(drafts.toggle, _GROUP, _LINE, _DOMAINS, _WAY),
    _later(drafts.shift, _GROUP, _LINE, _DOMAINS, _BY),
    _later(drafts.grow, _GROUP, _LINE, _DOMAINS, _WAY),
    _later(drafts.shrink, _GROUP, _LINE, _DOMAINS, _WAY),
    _later(drafts.copy_first, _GROUP, _LINE, _DOMAINS),
    _later(drafts.limit, _GROUP, _DOMAINS, st.integers(0, 120)),
    _later(drafts.step_limit, _GROUP, _DOMAINS, _BY),
    _later(drafts.move, _GROUP, st.lists(st.integers(0, 8).map(Cpu), unique=True, max_size=3)),
    _later(drafts.create, st.sampled_from(["a", "nftop.b", "no/name"])),
    _later(drafts.remove, _GROUP),
    _later(drafts.reset),
    _later(drafts.ask, ACTIONS),
)


def opened(host: LabHost) -> Draft:
    return begin(host.state(), host.rules(), "nftop")


@settings(max_examples=100)
@given(hosts(exclusive=True), st.booleans(), st.lists(OPERATION, max_size=12))
def test_no_sequence_of_operations_yields_what_the_plan_refuses(
    host: LabHost, sparse: bool, operations: list[Operation]
) -> None:
    """And what is asked for in the end is what is shown, whatever the way to it was."""
    rules = host.rules()
    masks = {line: replace(rule, sparse=sparse, min_bits=2) for line, rule in rules.masks.items()}
    draft = begin(host.state(), replace(rules, masks=masks), "nftop")
    for operation in operations:
        before = draft
        draft, notes = operation(draft)
        assert notes or draft is not before or draft == before
        proposal = propose(draft.base, draft.rules, drafts.actions(draft))
        assert proposal.refusals == ()
        assert proposal.changes == draft.plan.changes
        planned = steps(draft.base, proposal.changes)
        assert without_births(after(draft.base, planned)) == without_births(draft.target)
    for change in draft.plan.changes:
        if change.cell.kind == "schemata" and change.cell.name != "MB" and change.new is not None:
            bits = Cbm(int(change.new, 16), 11)
            assert bits.ways >= 2
            assert sparse or bits.contiguous


def l3(draft: Draft, group: str = "vpp") -> str:
    return draft.target[Cell("schemata", group, "L3", 0)]


def from_mask(bits: int, *, sparse: bool = False) -> Draft:
    rules = replace(RULES, masks={"L3": MaskRule(11, 1, sparse=sparse), "L2": MaskRule(8)})
    return begin({**world(), Cell("schemata", "vpp", "L3", 0): f"{bits:x}"}, rules, "nftop")


@pytest.mark.parametrize(
    ("bits", "way", "new"),
    [
        (0x0F0, 8, "1f0"),  # beside it
        (0x0F0, 3, "f8"),
        (0x0F0, 10, "7f0"),  # far from it: all between come with it
        (0x0F0, 0, "ff"),
        (0x0F0, 7, "70"),  # at an edge
        (0x0F0, 4, "e0"),
        (0x0F0, 6, "30"),  # within: the nearer edge moves past it
        (0x0F0, 5, "c0"),
    ],
)
def test_toggling_a_way_moves_an_edge(bits: int, way: int, new: str) -> None:
    draft, notes = drafts.toggle(from_mask(bits), "vpp", "L3", (0,), way)
    assert (l3(draft), notes) == (new, "")


def test_what_would_be_a_hole_or_nothing_is_refused_with_a_sentence(
    snapshot: SnapshotAssertion,
) -> None:
    draft, notes = drafts.toggle(from_mask(0x1F0), "vpp", "L3", (0,), 6)
    assert l3(draft) == "1f0"
    assert notes == snapshot
    for operation in (drafts.toggle, drafts.shrink):
        draft, notes = operation(from_mask(0x10), "vpp", "L3", (0,), 4)
        assert l3(draft) == "10"
        assert notes == snapshot
    gaps, notes = drafts.toggle(from_mask(0x1F0, sparse=True), "vpp", "L3", (0,), 6)
    assert (l3(gaps), notes) == ("1b0", "")
    assert drafts.toggle(from_mask(1), "vpp", "L3CODE", (0,), 1)[1] == snapshot


def test_shifting_growing_and_shrinking(snapshot: SnapshotAssertion) -> None:
    draft = from_mask(0x0F0)
    assert l3(drafts.shift(draft, "vpp", "L3", (0,), 1)[0]) == "1e0"
    assert l3(drafts.shift(draft, "vpp", "L3", (0,), -1)[0]) == "78"
    for way, grown, shrunk in ((10, "1f0", "70"), (0, "f8", "e0"), (7, "1f0", "70")):
        assert l3(drafts.grow(draft, "vpp", "L3", (0,), way)[0]) == grown
        assert l3(drafts.shrink(draft, "vpp", "L3", (0,), way)[0]) == shrunk
    assert l3(drafts.grow(from_mask(0x700), "vpp", "L3", (0,), 10)[0]) == "780"
    assert l3(drafts.grow(from_mask(0x007), "vpp", "L3", (0,), 0)[0]) == "f"
    whole, notes = drafts.grow(from_mask(0x7FF), "vpp", "L3", (0,), 0)
    assert l3(whole) == "7ff"
    assert notes == snapshot
    for bits, by in ((0x700, 1), (0x007, -1)):
        assert drafts.shift(from_mask(bits), "vpp", "L3", (0,), by)[1] == snapshot


def test_linked_domains_become_like_the_first() -> None:
    host = lab_host()
    host.lab.mkdir("/vpp")
    host.lab.echo("L3:0=f0;1=f", "/vpp/schemata")
    draft = drafts.grow(opened(host), "vpp", "L3", (0, 1), 10)[0]
    assert drafts.actions(draft) == (SetSchemata("vpp", "L3", ((0, 0x1F0), (1, 0x1F0))),)
    same = drafts.copy_first(opened(host), "vpp", "L3", (1, 0))[0]
    assert drafts.actions(same) == (SetSchemata("vpp", "L3", ((0, 0xF),)),)


def test_limits_go_by_steps_within_what_the_host_takes(snapshot: SnapshotAssertion) -> None:
    draft = from_mask(0xF)
    down, _ = drafts.step_limit(draft, "vpp", (0, 7), -1)
    assert down.target[Cell("schemata", "vpp", "MB", 0)] == "90"
    assert drafts.step_limit(draft, "vpp", (0,), 1)[1] == snapshot
    rounded, notes = drafts.limit(draft, "vpp", (0,), 41)
    assert rounded.target[Cell("schemata", "vpp", "MB", 0)] == "50"
    assert "MB 0=41 becomes 50" in notes
    assert "between 10 and 100" in drafts.limit(draft, "vpp", (0,), 5)[1]
    for step in (drafts.step_limit, drafts.limit):
        assert "no limit" in step(draft, "vpp", (9,), 1)[1]
        none = begin(draft.base, replace(RULES, limit=None), "nftop")
        assert step(none, "vpp", (0,), 1)[1] == snapshot
    fast = replace(RULES, limit=LimitRule(10, 10, UNLIMITED_MBPS, "MBps"))
    free = begin(
        {**draft.base, Cell("schemata", "vpp", "MB", 0): str(UNLIMITED_MBPS)}, fast, "nftop"
    )
    assert "b sets one" in drafts.step_limit(free, "vpp", (0,), -1)[1]


def test_a_class_created_filled_and_removed(snapshot: SnapshotAssertion) -> None:
    draft = begin(lab_host().state(), lab_host().rules(), "nftop")
    draft, _ = drafts.create(draft, "fast")
    draft, _ = drafts.toggle(draft, "nftop.fast", "L3", (0,), 8)
    draft, _ = drafts.move(draft, "nftop.fast", (Cpu(1), Cpu(5)))
    assert drafts.actions(draft) == (
        CreateGroup("nftop.fast"),
        SetSchemata("nftop.fast", "L3", ((0, 0xFF),)),
        MoveCpus((Cpu(1), Cpu(5)), "nftop.fast"),
    )
    assert draft.plan.commands == ("nftop cat create --group nftop.fast --l3 0=ff --cpus 1,5",)
    other, _ = drafts.shift(drafts.move(draft, "nftop.fast", (Cpu(2),))[0], "/", "L3", (0,), 1)
    gone, _ = drafts.remove(other, "nftop.fast")
    assert gone == drafts.shift(begin(draft.base, draft.rules, "nftop"), "/", "L3", (0,), 1)[0]
    assert drafts.create(draft, "fast")[1] == snapshot
    assert drafts.move(draft, "nftop.fast", ())[1] == snapshot
    assert drafts.move(draft, "nftop.fast", (Cpu(99),))[1] == snapshot
    back, notes = drafts.reset(draft)
    assert (back.changed, notes) == (False, "")
    assert drafts.reset(back)[1] == snapshot


def test_members_of_a_removed_class_are_in_the_root_group(snapshot: SnapshotAssertion) -> None:
    draft, _ = drafts.remove(from_mask(0xF), "nftop.a")
    assert drafts.actions(draft) == (RemoveGroup("nftop.a"),)
    assert split_path(draft.target[Cell("cpu", "", number=3)])[0] == ROOT
    assert draft.plan.commands == ("nftop cat remove --group nftop.a",)
    assert "is not nftop's" in drafts.remove(draft, "vpp")[1]
    crowded = {**draft.base, Cell("monitor", "nftop.a", "zz"): "99"}
    left, notes = drafts.remove(replace(draft, base=crowded, target=crowded), "nftop.a")
    assert Cell("group", "nftop.a") in left.target
    assert notes == snapshot


def test_every_change_has_its_command() -> None:
    draft = from_mask(0xF)
    draft, _ = drafts.shift(draft, "vpp", "L3", (0,), 1)
    draft, _ = drafts.limit(draft, "vpp", (0,), 50)
    draft, _ = drafts.move(draft, "vpp", (Cpu(3),))
    assert drafts.commands(drafts.actions(draft), "nftop") == (
        "nftop cat set --group vpp --l3 0=1e --mba 0=50",
        "nftop cat move --group vpp --cpus 3",
    )
    odd = [SetSchemata("a b", "MB", ((0, UNLIMITED_MBPS),))]
    assert drafts.commands(odd, "nftop demo") == (
        "nftop demo cat set --group 'a b' --mba 0=unlimited",
    )


def test_somebody_elses_changes_are_reported_and_wishes_carried_over(
    snapshot: SnapshotAssertion,
) -> None:
    draft, _ = drafts.shift(from_mask(0xF), "vpp", "L3", (0,), 1)
    assert drafts.drift(draft, draft.base) == ()
    other = {**draft.base, Cell("schemata", "nftop.a", "L3", 0): "3"}
    [change] = drafts.drift(draft, {**other, Cell("task", "", "7@70"): "vpp"})
    assert (change.cell.group, change.old, change.new) == ("nftop.a", "f", "3")
    after_it, notes = rebased(draft, other, draft.rules)
    assert (l3(after_it), l3(after_it, "nftop.a"), notes) == ("1e", "3", "")
    gone = {cell: value for cell, value in draft.base.items() if cell.group != "vpp"}
    dropped, notes = rebased(draft, gone, draft.rules)
    assert not dropped.changed
    assert notes == snapshot


def test_of_a_draft_that_does_not_fit_as_a_whole_what_fits_is_kept_and_the_rest_named(
    snapshot: SnapshotAssertion,
) -> None:
    draft, _ = drafts.shift(from_mask(0xF), "vpp", "L3", (0,), 1)
    draft, _ = drafts.create(draft, "b")
    draft, _ = drafts.move(draft, "nftop.b", (Cpu(2), Cpu(3)))
    draft, _ = drafts.remove(draft, "nftop.a")
    assert rebased(draft, draft.base, draft.rules) == (draft, "")
    gone = {
        cell: value
        for cell, value in draft.base.items()
        if cell.group != "vpp" and cell != Cell("cpu", "", "", 2)
    }
    kept, notes = rebased(draft, gone, draft.rules)
    assert notes == snapshot
    assert "CPU 2 into nftop.b (" in notes and "CPU 3" not in notes
    assert Cell("group", "nftop.a") not in kept.target
    assert kept.target[Cell("cpu", "", "", 3)] == "nftop.b"
    again, notes = rebased(
        kept, kept.target, draft.rules, [SetSchemata("nftop.b", "L3", ((0, 3),))]
    )
    assert notes == "", "what somebody did meanwhile is as it was wished for"
    [reports] = drafts.commands(drafts.actions(again), "nftop")
    assert reports == "nftop cat set --group nftop.b --l3 0=3"


def test_a_name_is_never_taken_for_what_is_reported_of_it(snapshot: SnapshotAssertion) -> None:
    first = begin(lab_host().state(), lab_host().rules(), "nftop")
    draft, notes = drafts.create(first, "becomes")
    assert draft.changed and notes == ""
    draft, notes = drafts.shrink(draft, "nftop.becomes", "L3", (0,), 10)
    assert any("becomes: shares ways" in effect for effect in draft.plan.effects) and notes == ""
    assert drafts.limit(draft, "nftop.becomes", (0,), 41)[1] == snapshot


def test_an_action_that_a_draft_can_not_contain_is_refused() -> None:
    """It would be lost when the draft's actions are derived from its states."""
    draft = opened(lab_host())
    for action in (MoveTasks((100,), "vpp"), CreateMonitor("vpp", "nftop.m")):
        left, message = drafts.ask(draft, [action])
        assert left is draft
        assert "threads" in message
