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
    RemoveGroup,
    RemoveMonitor,
    SetIoWays,
    SetSchemata,
    State,
)
from nftop.model.ids import Cpu
from nftop.model.rdt.rdt import NO_IO_ALLOC, UNLIMITED_MBPS, group_path, split_path
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


def l3(bits: int, group: str = "vpp", domain: int = 0) -> SetSchemata:
    return SetSchemata(group, "L3", ((domain, bits),))


@pytest.mark.parametrize(
    ("action", "why"),
    [
        (l3(0x800), "the cache has 11 ways, 0x7ff at most"),
        (l3(0), "a class has 2 ways at least"),
        (l3(1), "a class has 2 ways at least"),
        (l3(0x5), "side by side"),
        (l3(0x0, "/"), "a class has 2 ways at least"),
        (l3(0xF, "nobody"), "there is no group nobody"),
        (l3(0xF, domain=3), "L3 has no domain 3; it has 0"),
        (SetSchemata("vpp", "L3CODE", ((0, 3),)), "vpp has no L3CODE; it has L2, L3, MB"),
        (SetSchemata("vpp", "L2", ((5, 0x100),)), "the cache has 8 ways, 0xff at most"),
        (SetSchemata("vpp", "L2", ((5, 0),)), "a class has 1 way at least"),
        (SetSchemata("vpp", "MB", ((0, 9),)), "MB 0=9: between 10 and 100 % here; 100 is no limit"),
        (SetSchemata("vpp", "MB", ((0, 101),)), "MB 0=101: between 10 and 100 % here"),
        (SetSchemata("vpp", "MB", ((0, UNLIMITED_MBPS),)), "MB 0=unlimited: between 10 and 100"),
        (MoveCpus((Cpu(0),), "nobody"), "there is no group nobody"),
        (MoveCpus((Cpu(0), Cpu(9)), "vpp"), "CPU 9 is not there, or offline"),
        (MoveTasks((9,), "vpp"), "there is no thread 9"),
        (CreateGroup("batch"), "nftop's own groups are called nftop.NAME"),
        (CreateGroup("nftop."), "nftop's own groups are called nftop.NAME"),
        (CreateGroup("nftop.a/b"), "nftop's own groups are called nftop.NAME"),
        (CreateGroup("nftop.a"), "there is a group nftop.a already"),
        (RemoveGroup("/"), "is not nftop's"),
        (RemoveGroup("vpp"), "is not nftop's"),
        (RemoveGroup("nobody"), "there is no group nobody"),
        (CreateMonitor("vpp", "x"), "nftop's own monitoring groups are called nftop.NAME"),
        (CreateMonitor("vpp", "nftop.x", (Cpu(0),)), "meters CPUs of vpp only"),
        (CreateMonitor("vpp", "nftop.x", tids=(9,)), "there is no thread 9"),
        (CreateMonitor("vpp", "nftop.x", tids=(7, 8)), "thread 8 is in nftop.a"),
        (RemoveMonitor("vpp", "m"), "is not nftop's"),
        (RemoveMonitor("vpp", "nftop.m"), "there is no monitoring group nftop.m in vpp"),
    ],
)
def test_refused(action: Action, why: str) -> None:
    proposal = propose(world(), RULES, [action])
    assert proposal.changes == ()
    assert why in " ".join(proposal.refusals)


def test_a_monitoring_group_takes_threads_of_its_class_and_a_free_monitor(
    snapshot: SnapshotAssertion,
) -> None:
    action = CreateMonitor("vpp", "nftop.x", tids=(7,))
    cell, task = Cell("monitor", "vpp", "nftop.x"), Cell("task", "", "7@70")
    for rmids in (None, 5):  # the root group's, two groups', m's
        rules = replace(RULES, rmids=rmids, tasks={"7@70": "vpp"})
        proposal = propose(world(), rules, [action])
        assert proposal.refusals == ()
        assert {(c.cell, c.old) for c in proposal.changes} == {(cell, None), (task, "vpp")}
        assert {c.new for c in proposal.changes if c.cell == task} == {"vpp/nftop.x"}
    [why] = propose(world(), replace(RULES, rmids=4), [action]).refusals
    assert why.startswith("taken: ")
    [why] = propose(world(), RULES, [action]).refusals
    assert why == snapshot


def test_masks_may_have_gaps_where_the_hardware_has_them() -> None:
    rules = replace(RULES, masks={"L3": MaskRule(11, sparse=True)})
    assert propose(world(), rules, [l3(0x5)]).refusals == ()


def test_without_limits_or_ways_nothing_is_guessed() -> None:
    rules = replace(RULES, limit=None, masks={})
    for action in (SetSchemata("vpp", "MB", ((0, 50),)), l3(3)):
        assert propose(world(), rules, [action]).refusals != ()


def test_classes_run_out(snapshot: SnapshotAssertion) -> None:
    actions = [CreateGroup("nftop.b"), CreateGroup("nftop.c")]
    assert propose(world(), RULES, actions[:1]).refusals == ()
    assert propose(world(), RULES, actions).refusals == snapshot


def test_an_exclusive_group_shares_with_nobody(snapshot: SnapshotAssertion) -> None:
    alone = world(vpp="exclusive")
    for action in (l3(0x30), l3(0x600), l3(0xC, "nftop.a")):
        assert propose(alone, RULES, [action]).refusals != ()
    assert "I/O (600)" in propose(alone, RULES, [l3(0x600)]).refusals[0]
    assert (
        propose(world(**{"nftop.a": "exclusive"}), RULES, [RemoveGroup("nftop.a")]).refusals
        == snapshot
    )


@pytest.mark.parametrize("mode", ["pseudo-locked", "pseudo-locksetup"])
def test_a_locked_section_of_a_cache_is_never_touched(mode: str) -> None:
    locked = world(vpp=mode)
    for action in (l3(0xF0), MoveCpus((Cpu(0),), "vpp"), MoveCpus((Cpu(1),), "/"),
                   MoveTasks((7,), "nftop.a"), MoveTasks((8,), "vpp")):  # fmt: skip
        refusals = propose(locked, RULES, [action]).refusals
        assert any("pseudo-locked" in refusal for refusal in refusals), action
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
        assert "no plain text" in why
        assert why.isprintable()
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
        state = {**world(), Cell("schemata", "/", "L3", 0): "7f8",
                 Cell("schemata", "nftop.a", "L3", 0): "700",
                 Cell("schemata", "vpp", "L3", 0): "1f" if bits == 0x30 else "f"}  # fmt: skip
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
    message = "monitoring group nftop.a:zz is not nftop's, and would go with its group"
    assert (proposal.refusals, proposal.changes) == ((message,), ())
    host.lab.rmdir("/nftop.a/mon_groups/zz")
    assert propose(host.state(), host.rules(), [RemoveGroup("nftop.a")]).refusals == ()


def test_a_group_is_not_removed_and_recreated_at_once(snapshot: SnapshotAssertion) -> None:
    """That it has another number then would be the only thing to be done, and no write does it."""
    host = lab_host()
    host.lab.mkdir("/nftop.a")
    twice: list[Action] = [RemoveGroup("nftop.a"), CreateGroup("nftop.a")]
    proposal = propose(host.state(), host.rules(), twice)
    assert proposal.refusals == snapshot
    assert proposal.changes == ()


def with_io(*, enabled: bool, **more: str) -> tuple[State, Rules]:
    """Two ways of I/O of cache 0, and vpp's ways 0 to 3."""
    state = dict(world(**more)) | {Cell("io_alloc", "", "L3"): "disabled"}
    if enabled:
        switch, mask = Cell("io_alloc", "", "L3"), Cell("io_cbm", "", "L3", 0)
        state |= {switch: "enabled", mask: "600"}
    return state, replace(RULES, io_alloc=IoRule("L3", 3))


@pytest.mark.parametrize(
    ("enabled", "action", "why"),
    [
        (False, SetIoWays(None, ((0, 3),)), "io_alloc is disabled"),
        (True, SetIoWays(None, ((0, 0),)), "a class has 2 ways at least"),
        (True, SetIoWays(None, ((0, 0x800),)), "the cache has 11 ways"),
        (True, SetIoWays(None, ((0, 5),)), "side by side"),
        (True, SetIoWays(None, ((1, 3),)), "there is no L3 1"),
    ],
)
def test_ways_of_io_that_are_refused(enabled: bool, action: Action, why: str) -> None:
    state, rules = with_io(enabled=enabled)
    proposal = propose(state, rules, [action])
    assert proposal.changes == ()
    assert why in proposal.refusals[0]


def test_without_io_alloc_the_reason_is_given() -> None:
    proposal = propose(world(), RULES, [SetIoWays(enabled=True)])
    assert proposal.refusals == (NO_IO_ALLOC.message,)


def test_io_takes_a_class_and_gives_it_back(snapshot: SnapshotAssertion) -> None:
    state, rules = with_io(enabled=False)
    on, make = SetIoWays(enabled=True), CreateGroup("nftop.b")
    orders: list[list[Action]] = [[on, make], [make, on]]
    proposal = propose(state, rules, [on])
    assert {(item.cell.kind, item.new) for item in proposal.changes} == {
        ("io_alloc", "enabled"), ("io_cbm", "7ff"),
    }  # fmt: skip
    for actions in orders:
        assert propose(state, rules, actions).refusals[0] == snapshot
    full, rules = with_io(enabled=True)
    assert "all 4 classes" in propose(full, rules, [make]).refusals[0]
    assert propose(full, rules, [SetIoWays(enabled=False), make]).refusals == ()


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        (IoRule("L3", 3, holder="vpp"), "vpp has class 3, which I/O needs"),
        (IoRule("L3", 15, problem="8 classes in all resources"), "8 classes in all resources"),
    ],
)
def test_a_class_that_io_can_not_have(rule: IoRule, why: str) -> None:
    state, rules = with_io(enabled=False)
    proposal = propose(state, replace(rules, io_alloc=rule), [SetIoWays(enabled=True)])
    assert proposal.refusals == (why,)


def test_io_shares_no_ways_with_an_exclusive_group(snapshot: SnapshotAssertion) -> None:
    state, rules = with_io(enabled=True, vpp="exclusive")
    for action in (SetIoWays(None, ((0, 0x18),)), l3(0x600)):
        refusals = propose(state, rules, [action]).refusals
        assert refusals == snapshot
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
    code = {cell._replace(name="L3CODE"): value for cell, value in data.items()
            if cell.name == "L3DATA" and cell.kind == "schemata"}  # fmt: skip
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
