"""Somebody is killed at every step: what is left is as it was or wholly done, and is mended."""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nftop.control.backend import KERNEL_ASSIGNED, after, touched
from nftop.control.journal import Journal
from nftop.control.journal_entry import Requester
from nftop.control.recovery import recover, revert
from nftop.control.resctrl.operations import steps
from nftop.control.transaction import apply, keep
from nftop.model.change import (
    Action,
    Cell,
    CreateGroup,
    CreateMonitor,
    MoveCpus,
    MoveTasks,
    Proposal,
    Receipt,
    RemoveGroup,
    RemoveMonitor,
    SetIoWays,
    SetSchemata,
    State,
    difference,
)
from nftop.model.ids import Cpu
from nftop.model.rdt.rdt import split_path
from tests.control.hosts import (
    Death,
    Disk,
    KilledError,
    LabHost,
    lab_host,
    memory,
    mortal,
    without_births,
)
from tests.control.worlds import ACTIONS, hosts, planned
from tests.lab.resctrl import profile

REQUESTED = Requester("somebody")


def furnished(kernel: str, name: str = "") -> LabHost:
    """Groups of others and nftop's, monitors, CPUs and threads in all of them.

    `name`: of the change to come; those of I/O have a host whose ways of I/O can be set.
    """
    host = lab_host(kernel, io_alloc=name.startswith("I/O"))
    if name.startswith("I/O") and name != "I/O on":
        host.lab.echo("1", "/info/L3/io_alloc")
        host.lab.echo("0=3;1=18", "/info/L3/io_alloc_cbm")
    for name, cpus, mask in (("vpp", "1-3", "f0"), ("nftop.old", "4,5", "30f")):
        host.lab.mkdir(f"/{name}")
        host.lab.echo(cpus, f"/{name}/cpus_list")
        host.lab.echo(f"L3:0={mask[-2:]};1=1f", f"/{name}/schemata")
        host.lab.mkdir(f"/{name}/mon_groups/nftop.m")
        host.lab.echo(cpus[0], f"/{name}/mon_groups/nftop.m/cpus_list")
    host.lab.echo("100", "/nftop.old/tasks")
    host.lab.echo("101", "/vpp/tasks")
    host.lab.echo("101", "/vpp/mon_groups/nftop.m/tasks")
    return host


CHANGES: dict[str, list[Action]] = {
    "masks": [
        SetSchemata("vpp", "L3", ((0, 0xF), (1, 0x3F))),
        SetSchemata("nftop.old", "L3", ((0, 0x7F0),)),
        SetSchemata("/", "MB", ((1, 40),)),
    ],
    "cpus": [MoveCpus((Cpu(1), Cpu(0)), "nftop.old"), MoveCpus((Cpu(4), Cpu(3)), "vpp")],
    "threads": [MoveTasks((100,), "vpp"), MoveTasks((101, 200), "nftop.old")],
    "a new group": [
        CreateGroup("nftop.new"),
        SetSchemata("nftop.new", "L3", ((0, 3),)),
        MoveCpus((Cpu(1), Cpu(6)), "nftop.new"),
        CreateMonitor("nftop.new", "nftop.x", (Cpu(6),)),
        MoveTasks((101,), "nftop.new"),
    ],
    "a removed group": [RemoveGroup("nftop.old"), MoveCpus((Cpu(5),), "vpp")],
    "monitors": [
        CreateMonitor("vpp", "nftop.y", (Cpu(1), Cpu(2))),
        RemoveMonitor("nftop.old", "nftop.m"),
        RemoveMonitor("vpp", "nftop.m"),
    ],
    "I/O on": [SetIoWays(True, ((1, 0x600),)), CreateGroup("nftop.new")],
    "I/O masks": [SetIoWays(None, ((0, 0x600), (1, 0x1)))],
    "I/O off": [SetIoWays(False), CreateGroup("nftop.new")],
}
EVERY = pytest.mark.parametrize("name", CHANGES)
# The ways of I/O need Linux 6.19.
ALL = pytest.mark.parametrize(
    ("name", "kernel"),
    [
        (name, kernel)
        for name in CHANGES
        for kernel in profile.kernels()
        if kernel != "6.1" or not name.startswith("I/O")
    ],
)


def whole(host: LabHost) -> State:
    """The whole state with all its threads, comparable over removed and remade directories."""
    every = [Cell("task", "", name) for name in host.tasks([], [100, 101, 200])]
    return without_births(host.state(every))


def session(host: LabHost, journal: Journal, proposal: Proposal, *, kept: bool) -> None:
    """What a guard does, to the end."""
    receipt, entry = apply(host, journal, proposal, REQUESTED)
    assert entry is not None, receipt
    receipt = keep(host, journal, entry) if kept else revert(host, journal, entry)
    assert receipt.outcome == ("kept" if kept else "reverted"), receipt


def deaths() -> Iterator[Death]:
    """Before each operation: after the n-th is before the next."""
    return (Death(at, late=False) for at in itertools.count())


def dies(operation: Callable[[], object]) -> bool:
    try:
        operation()
    except KilledError:
        return True
    return False


@ALL
@pytest.mark.parametrize("kept", [True, False])
def test_killed_at_every_step(name: str, kernel: str, kept: bool) -> None:
    count = 0
    for death in deaths():
        case = cut_off(name, kernel, death, kept=kept)
        if case is None:
            break
        count += 1
        assert_mended(case, recover(case.host, memory(case.disk)), kept=kept)
    # Before each: two entries, every step, the history's line, the end.
    proposal = wish(name, kernel)
    least = len(steps(proposal.base, proposal.changes)) + 4
    assert count == least if kept else count > least
    # After the last of them.
    case = cut_off(name, kernel, Death(count - 1, late=True), kept=kept)
    assert case is not None
    assert_mended(case, recover(case.host, memory(case.disk)), kept=kept)


@EVERY
def test_killed_at_every_step_and_at_every_step_of_mending_that(name: str) -> None:
    for first in deaths():
        left = cut_off(name, "7.2", first, kept=False)
        if left is None:
            break
        for second in deaths():
            case = copy.deepcopy(left)
            mender, its = mortal(case.host, case.disk, second)
            died = dies(lambda: recover(mender, its))  # noqa: B023
            assert_mended(case, recover(case.host, memory(case.disk)), kept=False)
            if not died:
                break


@dataclass
class Case:
    """A host on which somebody was killed, what it was, and what it was to be."""

    host: LabHost
    disk: Disk
    before: State
    goal: State


@functools.cache
def wish(name: str, kernel: str) -> Proposal:
    """The same on every host furnished alike."""
    return planned(furnished(kernel, name), CHANGES[name])


def cut_off(name: str, kernel: str, death: Death, *, kept: bool) -> Case | None:
    """Begun and killed; None where it came to its end before."""
    host, disk, proposal = furnished(kernel, name), Disk(), wish(name, kernel)
    before = whole(host)
    victim, journal = mortal(host, disk, death)
    if not dies(lambda: session(victim, journal, proposal, kept=kept)):
        return None
    goal = after(proposal.base, steps(proposal.base, proposal.changes))
    stays = {cell: value for cell, value in before.items() if cell not in proposal.base}
    return Case(host, disk, before, without_births({**stays, **goal}))


def assert_mended(case: Case, receipt: Receipt | None, *, kept: bool) -> None:
    """Identical or fully applied, as the journal says; and nothing is left to be done."""
    result, journal = whole(case.host), memory(case.disk)
    outcomes = [entry.outcome for entry in journal.history()]
    if outcomes == ["kept"]:
        assert kept
        assert result == case.goal
    else:
        assert outcomes in ([], ["reverted"])
        assert result == case.before
    if receipt is not None:
        assert [receipt.outcome] == outcomes
    assert journal.pending() is None
    assert recover(case.host, journal) is None


def foreign_operations(host: LabHost) -> list[Callable[[], None]]:
    """What somebody else may do meanwhile; each may be refused."""
    lab = host.lab
    return [
        lambda: lab.echo("L3:0=1", "/vpp/schemata"),
        lambda: lab.echo("L3:1=7", "/nftop.new/schemata"),
        lambda: lab.echo("MB:1=70", "/schemata"),
        lambda: lab.echo("7,1,4", "/other/cpus_list"),
        lambda: lab.echo("6-7", "/vpp/cpus_list"),
        lambda: lab.echo("7", "/nftop.new/cpus_list"),
        lambda: lab.echo("101", "/other/tasks"),
        lambda: lab.echo("200", "/nftop.new/tasks"),
        lambda: lab.rmdir("/vpp"),
        lambda: lab.rmdir("/nftop.old"),
        lambda: lab.rmdir("/nftop.new"),
        lambda: lab.mkdir("/nftop.new"),
        lambda: lab.mkdir("/nftop.old"),
        lambda: lab.mkdir("/nftop.old/mon_groups/z"),
        lambda: lab.mkdir("/nftop.new/mon_groups/z"),
        lambda: lab.rmdir("/vpp/mon_groups/nftop.m"),
        lambda: lab.echo("0=7;1=7", "/info/L3/io_alloc_cbm"),
        lambda: lab.echo("1", "/info/L3/io_alloc"),
        lambda: lab.echo("0", "/info/L3/io_alloc"),
    ]


@EVERY
@pytest.mark.parametrize("operation", range(19))
def test_what_somebody_else_did_after_a_crash_is_left_alone_and_named(
    name: str, operation: int
) -> None:
    for death in deaths():
        host, disk = furnished("7.2", name), Disk()
        host.lab.mkdir("/other")
        proposal = planned(host, CHANGES[name])
        threads = [Cell("task", "", task) for task in host.tasks([], [100, 101, 200])]
        before = host.state(threads)
        victim, journal = mortal(host, disk, death)
        if not dies(lambda: session(victim, journal, proposal, kept=False)):  # noqa: B023
            break
        entry, present = memory(disk).pending(), host.state(threads)
        closed = bool(disk.history)
        with contextlib.suppress(OSError):
            foreign_operations(host)[operation]()
        theirs = {item.cell: item.new for item in difference(present, host.state(threads))}
        receipt = recover(host, memory(disk))
        result = host.state(threads)
        assert recover(host, memory(disk)) is None
        if entry is None or closed:
            assert receipt is None or receipt.outcome == "reverted"
            assert all(result.get(cell) == value for cell, value in theirs.items())
            continue
        assert receipt is not None
        changes = entry.back if entry.reverting else entry.changes
        ours = touched(entry.base, steps(entry.base, changes))
        for cell, value in theirs.items():
            if value not in ours.get(cell, ()) and not born(cell, ours):
                assert result.get(cell) == value, (cell, receipt)
                assert cell not in ours or receipt.outcome == "overwritten", receipt
        for cell, value in before.items():
            # All that nobody else touched is as before, as far as its directories are there.
            if cell.kind == "io_alloc" and any(item.kind == "io_cbm" for item in theirs):
                continue  # switching it off loses their ways
            where = split_path(value) if cell.kind in ("cpu", "task") else (cell.group, "")
            needs = {Cell("group", where[0]), Cell("monitor", *where)} & before.keys()
            if cell not in theirs and not needs & theirs.keys():
                same = result.get(cell) == value
                assert same or (cell in ours and cell.kind in ("group", "monitor")), (cell, receipt)


def born(cell: Cell, ours: Mapping[Cell, frozenset[str | None]]) -> bool:
    """Whether it is, or is in, a directory that the change made: its number may not be known."""
    return KERNEL_ASSIGNED in ours.get(
        Cell("group", cell.group), ()
    ) or KERNEL_ASSIGNED in ours.get(cell, ())


@settings(deadline=None, max_examples=150)
@given(host=hosts(), rounds=st.lists(ACTIONS, min_size=1, max_size=4), data=st.data())
def test_any_change_that_is_cut_off_anywhere_is_taken_back(
    host: LabHost, rounds: list[list[Action]], data: st.DataObject
) -> None:
    at = st.builds(Death, st.integers(0, 20), st.booleans())
    for actions in rounds:
        disk, proposal = Disk(), planned(host, actions)
        if not proposal.changes:
            continue
        before, kept = whole(host), data.draw(st.booleans())
        first, *others = (mortal(host, disk, data.draw(at)) for _ in range(3))
        if not dies(lambda: session(*first, proposal, kept=kept)):  # noqa: B023
            continue
        for victim, journal in others:
            dies(lambda: recover(victim, journal))  # noqa: B023
        recover(host, memory(disk))
        assert recover(host, memory(disk)) is None
        if [entry.outcome for entry in memory(disk).history()] != ["kept"]:
            assert whole(host) == before
