"""What is refused before anything is written, and what is said of the rest."""

from __future__ import annotations

from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.control.rdt_limits import IoRule, LimitRule, MaskRule, Rules, untouchable
from nftop.control.resctrl.messages import ways_text
from nftop.control.resctrl.plan import propose
from nftop.model.change import (
    Action,
    Cell,
    CreateGroup,
    CreateMonitor,
    MoveCpus,
    MoveTasks,
    Proposal,
    ReasonCode,
    RemoveGroup,
    RemoveMonitor,
    SetIoWays,
    SetSchemata,
    State,
)
from nftop.model.ids import Cpu
from nftop.model.rdt.rdt import UNLIMITED_MBPS, group_path, split_path
from tests.control.hosts import lab_host

RULES = Rules(
    masks={"L3": MaskRule(11, 2, shareable=0x600), "L2": MaskRule(8)},
    limit=LimitRule(10, 10, 100),
    closids=4,
    io={0: (0x600, "CPUID's hint, not register")},
    siblings={0: frozenset({2}), 2: frozenset({0}), 1: frozenset({3}), 3: frozenset({1})},
    tasks={"7@70": "vpp/m", "8@80": "nftop.a"},
)


def world(**more: str) -> State:
    """Three groups of which one is nftop's, one monitoring group, four CPUs."""
    state = {
        Cell("mode", "/"): "shareable",
        **{Cell("schemata", "/", line, 0): "7ff" for line in ("L3",)},
        **{Cell("cpu", "", number=cpu): "/" for cpu in (0, 2)},
        Cell("cpu", "", number=1): "vpp/m",
        Cell("cpu", "", number=3): "nftop.a",
        Cell("monitor", "vpp", "m"): "40",
    }
    for number, name in enumerate(("vpp", "nftop.a")):
        state |= {
            Cell("group", name): str(number + 10),
            Cell("mode", name): "shareable",
            Cell("schemata", name, "L3", 0): "f",
            Cell("schemata", name, "L2", 5): "ff",
            Cell("schemata", name, "MB", 0): "100",
        }
    return state | {Cell("mode", name): mode for name, mode in more.items()}


def codes(proposal: Proposal) -> list[ReasonCode]:
    return [refusal.code for refusal in proposal.refusals]


def l3(bits: int, group: str = "vpp", domain: int = 0) -> SetSchemata:
    return SetSchemata(group, "L3", ((domain, bits),))


@pytest.mark.parametrize(
    ("action", "code"),
    [
        (l3(0x800), ReasonCode.MASK_INVALID),
        (l3(0), ReasonCode.MASK_INVALID),
        (l3(1), ReasonCode.MASK_INVALID),
        (l3(0x5), ReasonCode.MASK_INVALID),
        (l3(0x0, "/"), ReasonCode.MASK_INVALID),
        (l3(0xF, "nobody"), ReasonCode.GROUP_ABSENT),
        (l3(0xF, domain=3), ReasonCode.RESOURCE_ABSENT),
        (SetSchemata("vpp", "L3CODE", ((0, 3),)), ReasonCode.RESOURCE_ABSENT),
        (SetSchemata("vpp", "L2", ((5, 0x100),)), ReasonCode.MASK_INVALID),
        (SetSchemata("vpp", "L2", ((5, 0),)), ReasonCode.MASK_INVALID),
        (SetSchemata("vpp", "MB", ((0, 9),)), ReasonCode.LIMIT_INVALID),
        (SetSchemata("vpp", "MB", ((0, 101),)), ReasonCode.LIMIT_INVALID),
        (SetSchemata("vpp", "MB", ((0, UNLIMITED_MBPS),)), ReasonCode.LIMIT_INVALID),
        (MoveCpus((Cpu(0),), "nobody"), ReasonCode.GROUP_ABSENT),
        (MoveCpus((Cpu(0), Cpu(9)), "vpp"), ReasonCode.CPU_ABSENT),
        (MoveTasks((9,), "vpp"), ReasonCode.THREAD_ABSENT),
        (CreateGroup("batch"), ReasonCode.GROUP_NAME),
        (CreateGroup("nftop."), ReasonCode.GROUP_NAME),
        (CreateGroup("nftop.a/b"), ReasonCode.GROUP_NAME),
        (CreateGroup("nftop.a"), ReasonCode.GROUP_EXISTS),
        (RemoveGroup("/"), ReasonCode.GROUP_FOREIGN),
        (RemoveGroup("vpp"), ReasonCode.GROUP_FOREIGN),
        (RemoveGroup("nobody"), ReasonCode.GROUP_ABSENT),
        (CreateMonitor("vpp", "x"), ReasonCode.GROUP_NAME),
        (CreateMonitor("vpp", "nftop.x", (Cpu(0),)), ReasonCode.MONITOR_SCOPE),
        (CreateMonitor("vpp", "nftop.x", tids=(9,)), ReasonCode.THREAD_ABSENT),
        (CreateMonitor("vpp", "nftop.x", tids=(7, 8)), ReasonCode.MONITOR_SCOPE),
        (RemoveMonitor("vpp", "m"), ReasonCode.GROUP_FOREIGN),
        (RemoveMonitor("vpp", "nftop.m"), ReasonCode.GROUP_ABSENT),
    ],
)
def test_refused(action: Action, code: ReasonCode) -> None:
    proposal = propose(world(), RULES, [action])
    assert proposal.changes == ()
    assert code in codes(proposal)


def test_a_monitoring_group_takes_threads_of_its_class_and_a_free_monitor() -> None:
    action = CreateMonitor("vpp", "nftop.x", tids=(7,))
    cell, task = Cell("monitor", "vpp", "nftop.x"), Cell("task", "", "7@70")
    for rmids in (None, 5):  # the root group's, two groups', m's
        rules = replace(RULES, rmids=rmids, tasks={"7@70": "vpp"})
        proposal = propose(world(), rules, [action])
        assert proposal.refusals == ()
        assert {(c.cell, c.old) for c in proposal.changes} == {(cell, None), (task, "vpp")}
        assert {c.new for c in proposal.changes if c.cell == task} == {"vpp/nftop.x"}
    [why] = propose(world(), replace(RULES, rmids=4), [action]).refusals
    assert why.code is ReasonCode.RMIDS_EXHAUSTED
    [why] = propose(world(), RULES, [action]).refusals
    assert why.code is ReasonCode.GROUP_FOREIGN


def test_masks_may_have_gaps_where_the_hardware_has_them() -> None:
    rules = replace(RULES, masks={"L3": MaskRule(11, sparse=True)})
    assert propose(world(), rules, [l3(0x5)]).refusals == ()


def test_without_limits_or_ways_nothing_is_guessed() -> None:
    rules = replace(RULES, limit=None, masks={})
    for action in (SetSchemata("vpp", "MB", ((0, 50),)), l3(3)):
        assert propose(world(), rules, [action]).refusals != ()


def test_classes_run_out() -> None:
    actions = [CreateGroup("nftop.b"), CreateGroup("nftop.c")]
    assert propose(world(), RULES, actions[:1]).refusals == ()
    assert codes(propose(world(), RULES, actions)) == [ReasonCode.CLOSIDS_EXHAUSTED]


def test_an_exclusive_group_shares_with_nobody() -> None:
    alone = world(vpp="exclusive")
    for action in (l3(0x30), l3(0x600), l3(0xC, "nftop.a")):
        assert set(codes(propose(alone, RULES, [action]))) == {ReasonCode.GROUP_EXCLUSIVE}
    exclusive = world(**{"nftop.a": "exclusive"})
    proposal = propose(exclusive, RULES, [RemoveGroup("nftop.a")])
    assert codes(proposal) == [ReasonCode.GROUP_EXCLUSIVE]


@pytest.mark.parametrize("mode", ["pseudo-locked", "pseudo-locksetup"])
def test_a_locked_section_of_a_cache_is_never_touched(mode: str) -> None:
    locked = world(vpp=mode)
    for action in (
        l3(0xF0),
        MoveCpus((Cpu(0),), "vpp"),
        MoveCpus((Cpu(1),), "/"),
        MoveTasks((7,), "nftop.a"),
        MoveTasks((8,), "vpp"),
    ):
        assert ReasonCode.GROUP_LOCKED in codes(propose(locked, RULES, [action])), action
    overlap = propose(locked, RULES, [l3(0xE, "nftop.a")]).refusals
    assert (mode == "pseudo-locked") == bool(overlap)


@pytest.mark.parametrize("name", ["a\x1b[2J", "a\nb", "\\xff\x0012", "a\u202eb", ".."])
def test_a_group_with_a_name_that_is_no_plain_text_is_not_touched(name: str) -> None:
    state = {
        **world(),
        Cell("group", name): "5",
        Cell("schemata", name, "L3", 0): "f",
        Cell("cpu", "", number=2): name,
    }
    for action in (l3(0xF0, name), MoveCpus((Cpu(0),), name), MoveCpus((Cpu(2),), "vpp")):
        [why, *_] = propose(state, RULES, [action]).refusals
        assert why.code is ReasonCode.GROUP_NAME
        assert why.sentence.isprintable()
    assert untouchable(state, "vpp", name)


def test_limits_are_rounded_as_the_kernel_does_and_reported(snapshot: SnapshotAssertion) -> None:
    proposal = propose(world(), RULES, [SetSchemata("vpp", "MB", ((0, 41),))])
    assert [change.new for change in proposal.changes] == ["50"]
    assert proposal.effects == snapshot


def test_what_comes_with_it_is_reported(snapshot: SnapshotAssertion) -> None:
    proposal = propose(world(), RULES, [l3(0x7F0), MoveCpus((Cpu(1),), "nftop.a")])
    assert proposal.effects == snapshot
    assert proposal.warnings == ()


def test_ways_that_are_shared_are_reported_with_those_that_were_so_before() -> None:
    for bits, message in (
        (0x1F, "L3 0 of vpp: shares ways 3-4 (4 is new) with default"),
        (0x7F, "L3 0 of vpp: shares ways 3-6 (4-6 are new) with default"),
        (0x30, "L3 0 of vpp: shares ways 4-5 (5 is new) with default"),
        (0x8, ""),
    ):
        state = {
            **world(),
            Cell("schemata", "/", "L3", 0): "7f8",
            Cell("schemata", "nftop.a", "L3", 0): "700",
            Cell("schemata", "vpp", "L3", 0): "1f" if bits == 0x30 else "f",
        }
        effects = propose(state, replace(RULES, masks={"L3": MaskRule(11, 1)}), [l3(bits)]).effects
        assert [effect for effect in effects if "shares" in effect] == [message] * bool(message)
    assert ways_text(8) == "way 3"
    assert ways_text(0x138) == "ways 3-5,8"


def test_threads_of_one_core_in_two_classes_are_warned_of_once(snapshot: SnapshotAssertion) -> None:
    proposal = propose(world(), RULES, [MoveCpus((Cpu(0),), "vpp")])
    assert proposal.warnings == snapshot
    both: list[Action] = [MoveCpus((Cpu(0),), "vpp"), MoveCpus((Cpu(2),), "nftop.a")]
    first, last = propose(world(), RULES, both).warnings
    assert first == snapshot
    assert last == snapshot


def test_nothing_to_do_is_no_change() -> None:
    actions: list[Action] = [l3(0xF), MoveCpus((Cpu(1),), "vpp"), MoveTasks((7,), "vpp")]
    proposal = propose(world(), RULES, actions)
    assert (proposal.changes, proposal.refusals) == ((), ())


@pytest.mark.parametrize(
    ("group", "monitor", "where"),
    [("/", "", "/"), ("/", "m", "/m"), ("vpp", "", "vpp"), ("vpp", "m", "vpp/m")],
)
def test_a_cell_is_a_text_and_back(group: str, monitor: str, where: str) -> None:
    assert group_path(group, monitor) == where
    assert split_path(where) == (group, monitor)


def test_code_shares_ways_with_the_data_of_others(snapshot: SnapshotAssertion) -> None:
    host = lab_host("7.2", "cdp")
    for name, line in (("vpp", "L3CODE:0=1"), ("ovs", "L3CODE:0=1"), ("ovs", "L3DATA:0=f0")):
        if name not in host.lab.state.groups:
            host.lab.mkdir(f"/{name}")
        host.lab.echo(line, f"/{name}/schemata")
    host.lab.echo("L3CODE:0=1", "/schemata")
    host.lab.echo("L3DATA:0=1", "/schemata")
    proposal = propose(host.state(), host.rules(), [SetSchemata("vpp", "L3CODE", ((0, 0xF0),))])
    assert proposal.effects == snapshot


def test_a_group_is_not_removed_with_monitoring_groups_of_others() -> None:
    host = lab_host()
    host.lab.mkdir("/nftop.a")
    for name in ("nftop.m", "zz"):
        host.lab.mkdir(f"/nftop.a/mon_groups/{name}")
    proposal = propose(host.state(), host.rules(), [RemoveGroup("nftop.a")])
    assert (codes(proposal), proposal.changes) == ([ReasonCode.GROUP_FOREIGN], ())
    assert "nftop.a:zz" in proposal.refusals[0].sentence
    host.lab.rmdir("/nftop.a/mon_groups/zz")
    assert propose(host.state(), host.rules(), [RemoveGroup("nftop.a")]).refusals == ()


def test_a_group_is_not_removed_and_recreated_at_once() -> None:
    """That it has another number then would be the only thing to be done, and no write does it."""
    host = lab_host()
    host.lab.mkdir("/nftop.a")
    twice: list[Action] = [RemoveGroup("nftop.a"), CreateGroup("nftop.a")]
    proposal = propose(host.state(), host.rules(), twice)
    assert codes(proposal) == [ReasonCode.GROUP_RECREATED]
    assert proposal.changes == ()


def with_io(*, enabled: bool, **more: str) -> tuple[State, Rules]:
    """Two ways of I/O of cache 0, and vpp's ways 0 to 3."""
    state = dict(world(**more)) | {Cell("io_alloc", "", "L3"): "disabled"}
    if enabled:
        switch, mask = Cell("io_alloc", "", "L3"), Cell("io_cbm", "", "L3", 0)
        state |= {switch: "enabled", mask: "600"}
    return state, replace(RULES, io_alloc=IoRule("L3", 3))


@pytest.mark.parametrize(
    ("enabled", "action", "code"),
    [
        (False, SetIoWays(None, ((0, 3),)), ReasonCode.IO_DISABLED),
        (True, SetIoWays(None, ((0, 0),)), ReasonCode.MASK_INVALID),
        (True, SetIoWays(None, ((0, 0x800),)), ReasonCode.MASK_INVALID),
        (True, SetIoWays(None, ((0, 5),)), ReasonCode.MASK_INVALID),
        (True, SetIoWays(None, ((1, 3),)), ReasonCode.RESOURCE_ABSENT),
    ],
)
def test_ways_of_io_that_are_refused(enabled: bool, action: Action, code: ReasonCode) -> None:
    state, rules = with_io(enabled=enabled)
    proposal = propose(state, rules, [action])
    assert proposal.changes == ()
    assert codes(proposal) == [code]


def test_without_io_alloc_the_reason_is_given() -> None:
    proposal = propose(world(), RULES, [SetIoWays(enabled=True)])
    assert codes(proposal) == [ReasonCode.IO_UNSUPPORTED]


def test_io_takes_a_class_and_gives_it_back() -> None:
    state, rules = with_io(enabled=False)
    on, make = SetIoWays(enabled=True), CreateGroup("nftop.b")
    orders: list[list[Action]] = [[on, make], [make, on]]
    proposal = propose(state, rules, [on])
    assert {(item.cell.kind, item.new) for item in proposal.changes} == {
        ("io_alloc", "enabled"),
        ("io_cbm", "7ff"),
    }
    for actions in orders:
        assert codes(propose(state, rules, actions)) == [ReasonCode.CLOSIDS_EXHAUSTED]
    full, rules = with_io(enabled=True)
    assert codes(propose(full, rules, [make])) == [ReasonCode.CLOSIDS_EXHAUSTED]
    assert propose(full, rules, [SetIoWays(enabled=False), make]).refusals == ()


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        (IoRule("L3", 3, holder="vpp"), ReasonCode.CLOSIDS_EXHAUSTED),
        (IoRule("L3", 15, problem="8 classes in all resources"), ReasonCode.IO_UNSUPPORTED),
    ],
)
def test_a_class_that_io_can_not_have(rule: IoRule, code: ReasonCode) -> None:
    state, rules = with_io(enabled=False)
    proposal = propose(state, replace(rules, io_alloc=rule), [SetIoWays(enabled=True)])
    assert codes(proposal) == [code]


def test_io_shares_no_ways_with_an_exclusive_group() -> None:
    state, rules = with_io(enabled=True, vpp="exclusive")
    for action in (SetIoWays(None, ((0, 0x18),)), l3(0x600)):
        assert set(codes(propose(state, rules, [action]))) == {ReasonCode.GROUP_EXCLUSIVE}
    assert propose(state, rules, [SetIoWays(None, ((0, 0x70),))]).refusals == ()


def test_io_is_switched_on_with_the_ways_of_no_exclusive_group() -> None:
    state, rules = with_io(enabled=False, vpp="exclusive")
    proposal = propose(state, rules, [SetIoWays(enabled=True)])
    masks = [change.new for change in proposal.changes if change.cell.kind == "io_cbm"]
    assert (proposal.refusals, masks) == ((), ["7f0"])


def test_with_cdp_too_io_leaves_the_ways_of_an_exclusive_group() -> None:
    state, rules = with_io(enabled=False, vpp="exclusive")
    data = {
        cell._replace(name="L3DATA") if cell.name == "L3" else cell: value
        for cell, value in state.items()
    }
    code = {
        cell._replace(name="L3CODE"): value
        for cell, value in data.items()
        if cell.name == "L3DATA" and cell.kind == "schemata"
    }
    masks = dict.fromkeys(("L3DATA", "L3CODE"), rules.masks["L3"])
    rules = replace(rules, masks=masks, io_alloc=IoRule("L3DATA", 3))
    proposal = propose(data | code, rules, [SetIoWays(enabled=True)])
    given = [change.new for change in proposal.changes if change.cell.kind == "io_cbm"]
    assert (proposal.refusals, given) == ((), ["7f0"])


@pytest.mark.parametrize(
    ("values", "exclusive", "masks"),
    [
        # None is named: each gets every way, or all but the exclusive ones.
        ((), {}, {0: "7ff", 1: "7ff"}),
        # The other cache keeps the ways of now, if these are known and legal.
        (((1, 0x3),), {}, {0: "600", 1: "3"}),
        (((0, 0x3),), {}, {0: "3", 1: "7ff"}),
        (((1, 0x3),), {"vpp": "exclusive"}, {0: "1ff", 1: "3"}),
    ],
)
def test_io_that_is_switched_on_keeps_the_ways_of_caches_that_are_not_named(
    values: tuple[tuple[int, int], ...], exclusive: dict[str, str], masks: dict[int, str]
) -> None:
    state, rules = with_io(enabled=False, **exclusive)
    vpp = "600" if exclusive else "f"
    state = dict(state) | {
        Cell("schemata", "/", "L3", 0): "1f",
        Cell("schemata", "/", "L3", 1): "7ff",
        Cell("schemata", "vpp", "L3", 0): vpp,
    }
    proposal = propose(state, rules, [SetIoWays(enabled=True, values=values)])
    assert proposal.refusals == ()
    given = {item.cell.number: item.new for item in proposal.changes if item.cell.kind == "io_cbm"}
    assert given == masks
    named = {domain for domain, _ in values}
    notes = [text for text in proposal.effects if "was not named" in text]
    assert len(notes) == (len(masks) - len(named) if named else 0)


def test_the_classes_that_share_ways_with_io_are_named(snapshot: SnapshotAssertion) -> None:
    state, rules = with_io(enabled=True)
    proposal = propose(state, rules, [SetIoWays(None, ((0, 0x18),))])
    assert [text for _, text in proposal.of_masks] == snapshot
