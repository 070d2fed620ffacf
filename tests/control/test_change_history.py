"""Undo and reset after what others, crashes and second thoughts have made of nftop's groups."""

from __future__ import annotations

import contextlib
import errno
import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from nftop.control.gate import BackendClassGate
from nftop.control.guard_client import start_guard
from nftop.control.journal_entry import Entry, Requester, entry_of
from nftop.control.recovery import recover, retry, revert
from nftop.control.transaction import apply, keep, serve
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
    SetSchemata,
    State,
)
from nftop.model.ids import Cpu
from tests.control.hosts import (
    Death,
    Disk,
    KilledError,
    LabHost,
    MemoryJournal,
    Stubborn,
    gate_of,
    lab_host,
    memory,
    mortal,
    without_births,
)
from tests.control.worlds import ACTIONS, hosts, planned
from tests.lab.resctrl import profile

REQUESTED = Requester("somebody")
A = "nftop.a"
WISH: list[Action] = [
    CreateGroup(A),
    SetSchemata(A, "L3", ((0, 3),)),
    MoveCpus((Cpu(2), Cpu(3)), A),
    CreateMonitor(A, "nftop.m", (Cpu(3),)),
]


def furnished() -> LabHost:
    """A group of others with CPUs and a thread, and a monitoring group of the root group."""
    host = lab_host()
    host.lab.mkdir("/vpp")
    host.lab.echo("1-3", "/vpp/cpus_list")
    host.lab.echo("100", "/vpp/tasks")
    host.lab.mkdir("/mon_groups/m")
    host.lab.echo("5-6", "/mon_groups/m/cpus_list")
    return host


def whole(host: LabHost) -> State:
    """All of it, comparable over directories that were removed and made again."""
    every = [Cell("task", "", name) for name in host.tasks([], [100, 101, 200])]
    return without_births(host.state(every))


def change(
    gate: BackendClassGate, proposal: Proposal, *, kept: bool = True, undoes: tuple[int, ...] = ()
) -> Receipt:
    """What a guard does: kept, or taken back."""
    receipt, entry = apply(gate.host, gate.journal, proposal, replace(REQUESTED, undoes=undoes))
    assert entry is not None, receipt
    return (keep if kept else revert)(gate.host, gate.journal, entry)


def do(gate: BackendClassGate, actions: list[Action], *, kept: bool = True) -> Receipt:
    proposal = gate.propose(actions)
    assert proposal.refusals == ()
    return change(gate, proposal, kept=kept)


def back(gate: BackendClassGate, *, reset: bool = False) -> Proposal:
    """Undo or reset, kept; what was proposed."""
    result = gate.propose_reset() if reset else gate.propose_undo()
    assert result is not None
    proposal, numbers = result
    assert proposal.refusals == ()
    if proposal.changes:
        assert change(gate, proposal, undoes=numbers).outcome == "kept"
    return proposal


def taken_back(gate: BackendClassGate, actions: list[Action]) -> None:
    assert do(gate, actions, kept=False).outcome == "reverted"


def cut_off(gate: BackendClassGate, actions: list[Action]) -> None:
    """Killed once it was applied, then recovered."""
    _, entry = apply(gate.host, gate.journal, gate.propose(actions), REQUESTED)
    assert entry is not None
    receipt = recover(gate.host, gate.journal)
    assert receipt is not None
    assert receipt.outcome == "reverted"


REMOVED: list[Action] = [RemoveGroup(A)]
UNMETERED: list[Action] = [RemoveMonitor(A, "nftop.m")]


@pytest.mark.parametrize("how", [taken_back, cut_off])
@pytest.mark.parametrize("actions", [REMOVED, UNMETERED])
@pytest.mark.parametrize("reset", [False, True])
def test_what_a_taking_back_makes_again_is_nftops_own(
    how: Callable[[BackendClassGate, list[Action]], None], actions: list[Action], reset: bool
) -> None:
    host = furnished()
    gate, before = gate_of(host, Disk()), whole(host)
    do(gate, WISH)
    present = host.state()
    how(gate, actions)
    assert without_births(host.state()) == without_births(present)
    assert host.state() != present
    proposal = back(gate, reset=reset)
    assert proposal.unmet == ()
    assert whole(host) == before


@pytest.mark.parametrize("actions", [REMOVED, UNMETERED])
def test_revert_is_recovered_wherever_its_process_is_killed(actions: list[Action]) -> None:
    """Twice: the number is known after the second only."""
    for first, second in itertools.product(range(12), range(6)):
        host, disk = furnished(), Disk()
        gate, before = gate_of(host, disk), whole(host)
        do(gate, WISH)
        _, entry = apply(host, gate.journal, gate.propose(actions), REQUESTED)
        assert entry is not None
        died = False
        for at in (first, second):
            victim, journal = mortal(host, disk, Death(at, late=False))
            try:
                recover(victim, journal)
            except KilledError:
                died = True
        recover(host, memory(disk))
        assert memory(disk).pending() is None
        proposal = back(gate_of(host, disk))
        assert proposal.unmet == ()
        assert whole(host) == before
        if not died:
            return
    pytest.fail("it never came to its end")


def test_a_taking_back_that_is_tried_again_knows_what_it_created() -> None:
    """The kernel refused something when half of it was done."""
    host, disk = furnished(), Disk()
    gate, before = gate_of(host, disk), whole(host)
    do(gate, WISH)
    present = whole(host)
    _, entry = apply(host, gate.journal, gate.propose(REMOVED), REQUESTED)
    assert entry is not None
    stubborn, tries = Stubborn(host.lab, at=1), list[str]()

    def attempt() -> Receipt:
        receipt = revert(stubborn, gate.journal, entry)
        tries.append(receipt.outcome)
        return receipt

    retry(60, attempt)
    assert tries == ["failed", "reverted"]
    assert whole(host) == present
    back(gate)
    assert whole(host) == before


def test_a_refused_removal_leaves_it_nftops_own() -> None:
    host = furnished()
    gate, before = gate_of(host, Disk()), whole(host)
    do(gate, WISH)
    stubborn = Stubborn(host.lab, at=0)
    receipt, _ = apply(stubborn, gate.journal, gate.propose(REMOVED), REQUESTED)
    assert receipt.outcome == "refused"
    assert back(gate).unmet == ()
    assert whole(host) == before


@pytest.mark.parametrize("kernel", profile.kernels())
@pytest.mark.parametrize("way", ["undo", "reset", "revert", "recover"])
def test_a_monitoring_group_of_the_root_group_has_its_cpus_again(kernel: str, way: str) -> None:
    host = lab_host(kernel)
    host.lab.mkdir("/mon_groups/m")
    host.lab.echo("2-3", "/mon_groups/m/cpus_list")
    gate, before = gate_of(host, Disk()), whole(host)
    wish: list[Action] = [CreateGroup(A), MoveCpus((Cpu(2), Cpu(5)), A)]
    if way in ("undo", "reset"):
        do(gate, wish)
        back(gate, reset=way == "reset")
    else:
        (taken_back if way == "revert" else cut_off)(gate, wish)
    assert whole(host) == before


def test_members_of_a_vanished_group_fall_to_the_root_group_with_a_report(
    snapshot: SnapshotAssertion,
) -> None:
    host = furnished()
    gate = gate_of(host, Disk())
    do(gate, [CreateGroup(A), MoveCpus((Cpu(2), Cpu(3), Cpu(5)), A), MoveTasks((100,), A)])
    host.lab.rmdir("/vpp")
    host.lab.rmdir("/mon_groups/m")
    assert back(gate).unmet == snapshot
    result = host.state([Cell("task", "", "100@100")])
    assert {value for cell, value in result.items() if cell.kind in ("cpu", "task")} == {"/"}
    assert Cell("group", A) not in result


def test_a_thread_reverted_after_a_crash_falls_to_the_root_group_too(
    snapshot: SnapshotAssertion,
) -> None:
    host = furnished()
    gate = gate_of(host, Disk())
    apply(host, gate.journal, gate.propose([CreateGroup(A), MoveCpus((Cpu(2),), A)]), REQUESTED)
    host.lab.rmdir("/vpp")
    receipt = recover(host, gate.journal)
    assert receipt is not None
    assert receipt.outcome == "overwritten"
    assert receipt.sentences == snapshot
    assert not any("by somebody else" in sentence for sentence in receipt.sentences)
    assert host.state()[Cell("cpu", "", number=2)] == "/"


def test_a_new_group_of_the_same_name_is_not_where_it_came_from() -> None:
    host = furnished()
    gate = gate_of(host, Disk())
    do(gate, [MoveCpus((Cpu(2),), "/")])
    do(gate, [CreateGroup(A), MoveCpus((Cpu(1),), A)])
    host.lab.rmdir("/vpp")
    host.lab.mkdir("/vpp")
    is_new = "group vpp is another of that name now: default has CPU {}, which was in it"
    assert back(gate).unmet == (is_new.format(1),)
    assert back(gate).unmet == (is_new.format(2),)
    assert host.state()[Cell("cpu", "", number=1)] == "/"


def test_a_monitoring_group_that_is_gone_leaves_the_cpu_to_its_class() -> None:
    host = furnished()
    host.lab.mkdir("/vpp/mon_groups/m")
    host.lab.echo("2", "/vpp/mon_groups/m/cpus_list")
    gate = gate_of(host, Disk())
    do(gate, [MoveCpus((Cpu(2),), "/")])
    host.lab.rmdir("/vpp/mon_groups/m")
    message = "monitoring group vpp:m is gone: vpp itself has CPU 2, which was in it"
    assert back(gate).unmet == (message,)
    assert host.state()[Cell("cpu", "", number=2)] == "vpp"


def test_reset_makes_nothing_again_that_nftop_had_created() -> None:
    """The undo could not remove the group, since there was something of others in it."""
    host = furnished()
    gate, before = gate_of(host, Disk()), whole(host)
    do(gate, WISH[:3])
    host.lab.mkdir(f"/{A}/mon_groups/theirs")
    assert len(back(gate).unmet) == 1
    assert Cell("group", A) in host.state()
    assert back(gate, reset=True).changes == ()
    host.lab.rmdir(f"/{A}/mon_groups/theirs")
    do(gate, [RemoveGroup(A)])
    assert whole(host) == before
    result = gate.propose_reset()
    assert result is not None
    assert (result[0].changes, result[0].unmet) == ((), ())


@pytest.mark.parametrize("reset", [False, True])
def test_what_an_undo_left_alone_is_tried_once_more(reset: bool) -> None:
    host = furnished()
    gate, before = gate_of(host, Disk()), whole(host)
    do(gate, WISH[:3])
    host.lab.mkdir(f"/{A}/mon_groups/theirs")
    back(gate)
    host.lab.rmdir(f"/{A}/mon_groups/theirs")
    assert back(gate, reset=reset).unmet == ()
    assert whole(host) == before
    assert gate.propose_reset() is None
    assert gate.propose_undo() is None


def test_a_group_that_somebody_else_created_is_not_removed_without_a_word(
    snapshot: SnapshotAssertion,
) -> None:
    host = furnished()
    gate = gate_of(host, Disk())
    do(gate, WISH)
    assert gate.propose(REMOVED).warnings == ()
    host.lab.rmdir(f"/{A}")
    host.lab.mkdir(f"/{A}")
    host.lab.echo("2,4", f"/{A}/cpus_list")
    host.lab.echo("200", f"/{A}/tasks")
    host.lab.mkdir(f"/{A}/mon_groups/nftop.m")
    host.lab.echo("4", f"/{A}/mon_groups/nftop.m/cpus_list")
    assert gate.propose(REMOVED).warnings == snapshot
    assert gate.propose(UNMETERED).warnings == snapshot


class ClosedJournal(MemoryJournal):
    """A journal that only root may read."""

    def history(self) -> tuple[Entry, ...]:
        raise PermissionError(errno.EACCES, "Permission denied", "/var/lib/nftop/history.jsonl")


def test_without_privilege_it_is_reported_that_this_is_not_known(
    snapshot: SnapshotAssertion,
) -> None:
    host = furnished()
    host.lab.mkdir(f"/{A}")
    [message] = (
        BackendClassGate(host, ClosedJournal(Disk()), start_guard, "nftop")
        .propose(REMOVED)
        .warnings
    )
    assert message == snapshot


_OPERATIONS = st.one_of(
    st.tuples(st.just("rmdir"), st.sampled_from(["vpp", "ovs", A, "nftop.b"])),
    st.tuples(st.just("rmdir"), st.sampled_from(["mon_groups/m", "vpp/mon_groups/m"])),
    st.tuples(st.just("mkdir"), st.sampled_from(["vpp", A])),
)
# What makes and removes one group again and again, which chance alone seldom does.
_AT_ONE = st.sampled_from([WISH, WISH[:3], REMOVED, UNMETERED, [MoveCpus((Cpu(2), Cpu(6)), A)]])
_ROUNDS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["keep", "take back", "recover"]), _AT_ONE | ACTIONS),
        st.tuples(st.sampled_from(["undo", "reset"]), st.just([])),
        st.tuples(st.just("others"), _OPERATIONS),
    ),
    min_size=2,
    max_size=7,
)


@settings(deadline=None, max_examples=100)
@given(host=hosts(), rounds=_ROUNDS)
def test_the_end_is_as_the_start_or_the_difference_is_reported(
    host: LabHost, rounds: list[tuple[str, list[Action] | tuple[str, str]]]
) -> None:
    gate, before, others, message = gate_of(host, Disk()), whole(host), False, list[str]()
    for what, wish in rounds:
        if what == "others":
            with contextlib.suppress(OSError):
                getattr(host.lab, str(wish[0]))(f"/{wish[1]}")
                others = True
        elif what in ("undo", "reset"):
            if (gate.propose_reset() if what == "reset" else gate.propose_undo()) is not None:
                message += back(gate, reset=what == "reset").unmet
        elif (proposal := planned(host, list(wish))).changes:  # type: ignore[arg-type]
            present = whole(host)
            if what == "keep":
                change(gate, proposal)
                continue
            _, entry = apply(host, gate.journal, proposal, REQUESTED)
            assert entry is not None
            receipt = (
                recover(host, gate.journal)
                if what == "recover"
                else revert(host, gate.journal, entry)
            )
            assert receipt is not None
            assert receipt.outcome == "reverted"
            assert whole(host) == present
    stands = effects(gate.journal.history())
    last = back(gate, reset=True).unmet if gate.propose_reset() is not None else ()
    end, message = whole(host), [*message, *last]
    event(f"others: {others}, said: {bool(message)}")
    if not others:
        assert (end, message) == (before, [])
        assert (result := gate.propose_reset()) is None or not result[0].changes
    left = [cell for cell, value in stands.items() if end.get(cell) != value]
    assert last or not left


def effects(history: tuple[Entry, ...]) -> dict[Cell, str | None]:
    """What nftop has changed and not changed back, and what that was before."""
    result: dict[Cell, str | None] = {}
    last: dict[Cell, str | None] = {}
    for entry in history:
        for item in entry.changes if entry.outcome == "kept" else ():
            present = item.cell.kind in ("group", "monitor")
            old, new = (
                "there" if present and value is not None else value
                for value in (item.old, item.new)
            )
            if old is None and last.get(item.cell) is not None:
                result[item.cell] = None  # somebody else has removed what it was a part of
            last[item.cell] = new
            if result.setdefault(item.cell, old) == new:
                del result[item.cell]
    return result


# Which undo is final


def masks(gate: BackendClassGate, bits: int, domain: int = 0) -> int:
    """Keep a mask of VPP's; the number of the change."""
    receipt = do(gate, [SetSchemata("vpp", "L3", ((domain, bits),))])
    assert receipt.number is not None
    return receipt.number


def undo_of(gate: BackendClassGate, *, beyond: bool = False) -> tuple[tuple[int, ...], bool]:
    """The numbers that an undo would take back now, and whether it would be final."""
    result = gate.propose_undo(beyond=beyond)
    assert result is not None and result[0].changes
    return result[1], result[0].final


def test_undo_is_final_for_the_newest_change_that_stands() -> None:
    gate = gate_of(furnished(), Disk())
    assert not gate.propose([SetSchemata("vpp", "L3", ((0, 0xF),))]).final
    first, second = masks(gate, 0xF), masks(gate, 0x3)
    assert undo_of(gate) == ((second,), True)
    assert undo_of(gate, beyond=True) == ((second,), True), "nothing is passed over"
    back(gate)
    assert undo_of(gate) == ((first,), True), "it is the newest that stands now"
    third = masks(gate, 0x7)
    assert undo_of(gate) == ((third,), True)


def test_undo_of_an_older_change_waits_to_be_kept() -> None:
    host = furnished()
    gate = gate_of(host, Disk())
    first, second = masks(gate, 0xF), masks(gate, 0x3, domain=1)
    host.lab.echo("L3:1=7ff", "/vpp/schemata")  # as before the second: nothing is left of it
    assert undo_of(gate) == ((first, second), False)
    host.lab.echo("L3:1=7", "/vpp/schemata")
    assert undo_of(gate, beyond=True) == ((first,), False)
    host.lab.echo("L3:1=3;0=7", "/vpp/schemata")
    assert undo_of(gate) == ((second,), True)


def test_a_reset_is_final_only_where_it_is_an_undo_of_the_newest() -> None:
    gate = gate_of(furnished(), Disk())
    number = masks(gate, 0xF)
    result = gate.propose_reset()
    assert result is not None and (result[1], result[0].final) == ((number,), True)
    masks(gate, 0x3)
    result = gate.propose_reset()
    assert result is not None and not result[0].final


@pytest.mark.parametrize("wish", [[SetSchemata("vpp", "L3", ((0, 0xF), (1, 3)))], WISH, REMOVED])
def test_a_final_undo_that_is_killed_at_any_step_is_undone_or_offered_again(
    wish: list[Action],
) -> None:
    outcomes = set()
    for at in itertools.count():
        host, disk = furnished(), Disk()
        gate = gate_of(host, disk)
        if wish is REMOVED:
            do(gate, WISH)
        before = whole(host)
        number, changed = do(gate, wish).number, whole(host)
        result = gate.propose_undo()
        assert result is not None and result[0].final and result[1] == (number,)
        victim, journal = mortal(host, disk, Death(at, late=False))
        receipts: list[Receipt | None] = []
        try:
            serve(
                victim,
                journal,
                result[0],
                replace(REQUESTED, undoes=result[1]),
                None,
                answer=receipts.append,
                kept=lambda _: pytest.fail("nobody is asked"),
            )
        except KilledError:
            pass
        else:
            assert receipts[-1] is not None and receipts[-1].outcome == "kept"
            assert whole(host) == before
            break
        mended = recover(host, memory(disk))
        again = gate.propose_undo()
        if again is not None and again[1] == (number,):
            assert whole(host) == changed and again[0].final
            assert mended is None or mended.outcome == "reverted"
            if mended is not None and mended.number != number:
                assert any(f"change {number} is not" in s for s in mended.sentences)
        else:
            assert whole(host) == before
            assert mended is None or mended.outcome == "kept"
        outcomes.add(None if mended is None else mended.outcome)
        assert recover(host, memory(disk)) is None
    assert outcomes >= {"reverted", "kept"}


@pytest.mark.parametrize("later", [False, True])
def test_an_undo_of_a_deleted_change_is_no_change_to_reset(later: bool) -> None:
    host, disk = furnished(), Disk()
    gate = gate_of(host, disk)
    before = whole(host)
    masks(gate, 0xF)
    back(gate)
    assert whole(host) == before
    if later:
        masks(gate, 0x3)
    deleted = [entry for entry in disk.history if entry_of("history", entry).number == 1]
    for item in deleted:  # as `nftop recover` has a damaged line deleted
        disk.history.remove(item)
    assert deleted
    result = gate.propose_reset()
    if later:
        assert result is not None and result[1] == (3,)
        back(gate, reset=True)
    else:
        assert result is None or not result[0].changes
    assert whole(host) == before
