"""Plans and their steps against the lab's resctrl: what is foreseen is what comes."""

from __future__ import annotations

from hypothesis import event, given, settings
from syrupy.assertion import SnapshotAssertion

from nftop.control.backend import RefusedError, after, touched
from nftop.control.resctrl.operations import ResctrlStep, steps
from nftop.model.change import (
    Action,
    Cell,
    CreateGroup,
    MoveCpus,
    Proposal,
    RemoveGroup,
    SetSchemata,
    State,
    difference,
)
from nftop.model.ids import Cpu
from nftop.model.rdt.rdt import EXCLUSIVE, split_path
from tests.control.hosts import LabHost, lab_host, without_births
from tests.control.worlds import ACTIONS, hosts, planned
from tests.lab.resctrl.state import controls
from tests.lab.tests.hosts import BOTH, SMALL

_MANY = settings(deadline=None, max_examples=250)


def assert_sound(host: LabHost) -> None:
    """What the kernel itself would not let be otherwise, looked at in the lab's own state."""
    state = host.lab.state
    allocation = SMALL.allocation
    assert allocation is not None
    owned = [cpu for group in controls(state) for cpu in group.cpus]
    assert sorted(owned) == sorted(SMALL.online)
    for group in controls(state):
        for line, values in group.values.items():
            for value in values.values():
                assert value >= 10 if line == "MB" else value.bit_count() >= allocation.min_bits


def known(foreseen: State, reads: State) -> tuple[State, State]:
    """Both without what nobody can foresee: numbers, and first masks of new directories and I/O."""
    unset = {
        cell
        for cell in reads
        if cell.kind == "schemata"
        and cell not in foreseen
        and foreseen.get(Cell("group", cell.group)) == ""
    }
    unset |= {cell for cell, value in foreseen.items() if cell.kind == "io_cbm" and value == ""}
    assert unset <= reads.keys()
    ends = ({cell: v for cell, v in end.items() if cell not in unset} for end in (foreseen, reads))
    return without_births(next(ends)), without_births(next(ends))


@_MANY
@given(host=hosts(exclusive=True), actions=ACTIONS)
def test_every_step_does_what_is_foreseen(host: LabHost, actions: list[Action]) -> None:
    proposal = planned(host, actions)
    threads = [cell for cell in proposal.base if cell.kind == "task"]
    start: State = proposal.base
    assert host.state(threads) == start
    target = {**start, **{item.cell: item.new for item in proposal.changes if item.new is not None}}
    for change in proposal.changes:
        if change.new is None:
            del target[change.cell]
    alone = any(group.mode == EXCLUSIVE for group in controls(host.lab.state))
    now, done = start, steps(start, proposal.changes)
    event(f"{min(len(done), 9)} steps")
    seen = touched(start, done)
    assert {item.cell for item in proposal.changes} <= seen.keys()
    for step in done:
        try:
            host.do(step)
        except RefusedError:
            # Some orders that exclusive groups demand do not exist; all else is foreseen.
            assert alone
            return
        assert_sound(host)
        now = after(now, [step])
        for cell in start.keys() | now.keys():
            assert now.get(cell) == start.get(cell) or now.get(cell) in seen[cell]
        foreseen, reads = known(now, host.state(threads))
        assert foreseen == reads
        for cell, where in now.items():
            if cell.kind == "cpu":
                assert split_path(where)[0] in {
                    split_path(start[cell])[0],
                    split_path(target[cell])[0],
                }
    assert without_births(host.state(threads)) == without_births(target)


def texts(proposal: Proposal) -> list[tuple[str, str, str, str]]:
    return [
        (step.operation, step.group, step.monitor, step.text)
        for step in steps(proposal.base, proposal.changes)
    ]


@BOTH
def test_a_class_is_ready_before_a_cpu_comes_to_it(kernel: str) -> None:
    host = lab_host(kernel)
    actions: list[Action] = [
        CreateGroup("nftop.a"),
        MoveCpus((Cpu(2), Cpu(3)), "nftop.a"),
        SetSchemata("nftop.a", "L3", ((0, 0xF),)),
    ]
    assert texts(planned(host, actions)) == [
        ("mkdir", "nftop.a", "", ""),
        ("schemata", "nftop.a", "", "L3:0=f;1=7ff\nMB:0=100;1=100\n"),
        ("cpus", "nftop.a", "", "2-3\n"),
    ]


def test_masks_shrink_before_others_grow() -> None:
    host = lab_host()
    for name, mask in (("a", "f"), ("b", "f0")):
        host.lab.mkdir(f"/{name}")
        host.lab.echo(f"L3:0={mask};1={mask}", f"/{name}/schemata")
    proposal = planned(
        host, [SetSchemata("a", "L3", ((0, 0x3F),)), SetSchemata("b", "L3", ((0, 0xC0),))]
    )
    assert [row[1] for row in texts(proposal)] == ["b", "a"]


def test_an_exclusive_group_makes_room_first_and_comes_last() -> None:
    host = lab_host()
    host.lab.echo("L3:0=700;1=700", "/schemata")
    for name, mask in (("a", "f"), ("b", "f0")):
        host.lab.mkdir(f"/{name}")
        host.lab.echo(f"L3:0={mask};1={mask}", f"/{name}/schemata")
    host.lab.echo("exclusive", "/a/mode")
    moved = [SetSchemata("a", "L3", ((0, 0x1F),)), SetSchemata("b", "L3", ((0, 0x1E0),))]
    proposal = planned(host, [moved[1], moved[0]])
    assert [row[1] for row in texts(proposal)] == ["b", "a"]
    for step in steps(proposal.base, proposal.changes):
        host.do(step)


def test_a_monitoring_group_that_a_write_clears_has_its_cpus_again() -> None:
    host = lab_host()
    host.lab.mkdir("/vpp")
    host.lab.echo("1-3", "/vpp/cpus_list")
    host.lab.mkdir("/vpp/mon_groups/m")
    host.lab.echo("2", "/vpp/mon_groups/m/cpus_list")
    assert texts(planned(host, [MoveCpus((Cpu(5),), "vpp")])) == [
        ("cpus", "vpp", "", "1-3,5\n"),
        ("cpus", "vpp", "m", "2\n"),
    ]


def test_cpus_are_swapped_without_a_stop_in_the_root_group() -> None:
    host = lab_host()
    for name, cpu in (("a", "1"), ("b", "2")):
        host.lab.mkdir(f"/{name}")
        host.lab.echo(cpu, f"/{name}/cpus_list")
    proposal = planned(host, [MoveCpus((Cpu(2),), "a"), MoveCpus((Cpu(1),), "b")])
    assert [row[3] for row in texts(proposal)] == ["1-2\n", "1\n"]


def test_a_group_is_removed_in_one_step(snapshot: SnapshotAssertion) -> None:
    host = lab_host()
    host.lab.mkdir("/nftop.a")
    host.lab.echo("1", "/nftop.a/cpus_list")
    host.lab.mkdir("/nftop.a/mon_groups/nftop.m")
    host.lab.echo("100", "/nftop.a/tasks")
    assert steps(host.state(), planned(host, [RemoveGroup("nftop.a")]).changes) == (
        ResctrlStep("rmdir", "nftop.a"),
    )
    assert planned(host, [RemoveGroup("nftop.a")]).effects == snapshot


def test_a_monitoring_group_of_the_root_group_has_its_cpus_before_their_group_goes() -> None:
    """Once the directory is gone nothing would be left to be written after it."""
    host = lab_host()
    host.lab.mkdir("/mon_groups/m")
    host.lab.mkdir("/nftop.a")
    host.lab.echo("1-3", "/nftop.a/cpus_list")
    state = host.state()
    target = {cell: value for cell, value in state.items() if cell.group != "nftop.a"}
    target |= {Cell("cpu", "", number=cpu): "/m" if cpu == 2 else "/" for cpu in (1, 2, 3)}
    done = steps(state, difference(state, target))
    assert [(item.operation, item.group, item.monitor, item.text) for item in done] == [
        ("cpus", "nftop.a", "", "1,3\n"),
        ("cpus", "/", "m", "2\n"),
        ("rmdir", "nftop.a", "", ""),
    ]
