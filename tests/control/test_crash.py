"""Somebody is killed at every step: what is left is as it was or wholly done, and is mended."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nftop.control.journal import Journal
from nftop.control.steps import after, steps, touched
from nftop.control.transaction import Asked, apply, keep, recover, revert
from nftop.model.action import (
    Action,
    Cell,
    CreateGroup,
    CreateMonitor,
    MoveCpus,
    MoveTasks,
    Proposal,
    RemoveGroup,
    RemoveMonitor,
    SetSchemata,
    State,
)
from nftop.model.ids import Cpu
from tests.control.hosts import Death, KilledError, LabHost, lab_host, mortal, without_births
from tests.control.worlds import ACTIONS, hosts, planned
from tests.lab.resctrl import profile

ASKED = Asked("somebody")


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody pulls the plug in these tests, and there are thousands of them."""
    monkeypatch.setattr("os.fsync", lambda handle: None)


def furnished(kernel: str) -> LabHost:
    """Groups of others and nftop's, monitors, CPUs and threads in all of them."""
    host = lab_host(kernel)
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
}
EVERY = pytest.mark.parametrize("name", CHANGES)
BOTH = pytest.mark.parametrize("kernel", profile.kernels())


def whole(host: LabHost) -> State:
    """The whole state with all its threads, comparable over removed and remade directories."""
    every = [Cell("task", "", name) for name in host.tasks([], [100, 101, 200])]
    return without_births(host.state(every))


def session(host: LabHost, journal: Journal, proposal: Proposal, *, kept: bool) -> None:
    """What a guard does, to the end."""
    receipt, entry = apply(host, journal, proposal, ASKED)
    assert entry is not None, receipt
    if kept:
        receipt = keep(host, journal, entry)
    else:
        receipt = revert(host, journal, entry)
    assert receipt.outcome == ("kept" if kept else "reverted"), receipt


def deaths() -> Iterator[Death]:
    for at, late in itertools.product(itertools.count(), (False, True)):
        yield Death(at, late)


def dies(deed: Callable[[], object]) -> bool:
    try:
        deed()
    except KilledError:
        return True
    return False


@BOTH
@EVERY
@pytest.mark.parametrize("kept", [True, False])
def test_killed_at_every_step_and_while_that_is_mended(
    name: str, kernel: str, kept: bool, tmp_path: Path
) -> None:
    folders = (tmp_path / str(number) for number in itertools.count())
    counted = 0
    for first in deaths():
        second_came = True
        for second in deaths():
            host, folder = furnished(kernel), next(folders)
            folder.mkdir(mode=0o700)
            proposal = planned(host, CHANGES[name])
            before, done = whole(host), None
            assert len(proposal.changes) > 0
            victim, journal = mortal(host, folder, first)
            killed = dies(lambda: session(victim, journal, proposal, kept=kept))  # noqa: B023
            if not killed:
                break
            counted += 1
            cut_off = Journal(folder).pending()
            mender, its = mortal(host, folder, second)
            second_came = dies(lambda: recover(mender, its))  # noqa: B023
            receipt = recover(host, Journal(folder))
            done = whole(host)
            assert recover(host, Journal(folder)) is None
            assert not list(folder.glob("pending.json"))
            outcomes = [entry.outcome for entry in Journal(folder).history()]
            if outcomes == ["kept"]:
                assert kept
                assert without_births(after(before, steps(before, []))) == before
                goal = without_births(
                    after(proposal.base, steps(proposal.base, proposal.changes))
                )
                assert {cell: done[cell] for cell in goal} == goal
            else:
                assert done == before
                assert outcomes == (["reverted"] if cut_off is not None else outcomes)
            if second_came and receipt is not None:
                assert receipt.outcome in ("reverted", "kept")
            if not second_came:
                break
        if not killed:
            break
    assert counted > 2 * len(CHANGES[name])


def foreign_deeds(host: LabHost) -> list[Callable[[], None]]:
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
    ]


@BOTH
@EVERY
@pytest.mark.parametrize("deed", range(16))
def test_what_somebody_else_did_after_a_crash_is_left_alone_and_named(
    name: str, kernel: str, deed: int, tmp_path: Path
) -> None:
    for number, death in enumerate(deaths()):
        host, folder = furnished(kernel), tmp_path / str(number)
        folder.mkdir(mode=0o700)
        host.lab.mkdir("/other")
        proposal = planned(host, CHANGES[name])
        before = host.state([Cell("task", "", each) for each in host.tasks([], [100, 101, 200])])
        victim, journal = mortal(host, folder, death)
        if not dies(lambda: session(victim, journal, proposal, kept=False)):  # noqa: B023
            break
        entry = Journal(folder).pending()
        threads = [cell for cell in before if cell.kind == "task"]
        there = host.state(threads)
        try:
            foreign_deeds(host)[deed]()
        except OSError:
            continue
        changed = host.state(threads)
        theirs = {cell for cell in there.keys() | changed.keys()
                  if there.get(cell) != changed.get(cell)}  # fmt: skip
        receipt = recover(host, Journal(folder))
        mended = host.state(threads)
        if entry is None:
            assert mended == changed
            continue
        assert receipt is not None
        assert receipt.outcome in ("reverted", "foreign"), receipt
        assert recover(host, Journal(folder)) is None
        planned_steps = steps(entry.base, entry.back if entry.reverting else entry.changes)
        ours = touched(entry.base, planned_steps)
        for cell in theirs:
            value = changed.get(cell)
            loose = cell.kind in ("group", "monitor") or (cell.kind == "schemata" and cell in ours)
            if value not in ours.get(cell, ()) and not loose:
                assert mended.get(cell) == value, (cell, receipt)
        for cell, value in mended.items():
            # Nothing that nobody else touched is otherwise than before.
            same = cell not in theirs and cell.kind == "schemata" and cell in before
            if same and Cell("group", cell.group) not in theirs:
                assert value == before[cell]


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(host=hosts(), rounds=st.lists(ACTIONS, min_size=1, max_size=4), data=st.data())
def test_any_change_that_is_cut_off_anywhere_is_taken_back(
    host: LabHost, rounds: list[list[Action]], data: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    for actions in rounds:
        folder = tmp_path_factory.mktemp("journal")
        folder.chmod(0o700)
        proposal = planned(host, actions)
        if not proposal.changes:
            continue
        before = whole(host)
        at = st.builds(Death, st.integers(0, 20), st.booleans())
        kept = data.draw(st.booleans())
        mortals = [mortal(host, folder, data.draw(at)) for _ in range(3)]
        if not dies(lambda: session(*mortals[0], proposal, kept=kept)):  # noqa: B023
            continue
        for victim, journal in mortals[1:]:
            dies(lambda: recover(victim, journal))  # noqa: B023
        recover(host, Journal(folder))
        assert recover(host, Journal(folder)) is None
        if [entry.outcome for entry in Journal(folder).history()] != ["kept"]:
            assert whole(host) == before
