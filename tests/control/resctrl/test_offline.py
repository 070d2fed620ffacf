"""CPUs and caches that go offline between a change and its way back: nobody else did that."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.control.change_history import initial_values, waiting
from nftop.control.gate import BackendClassGate
from nftop.control.journal_entry import Requester
from nftop.control.rdt_limits import LimitRule, MaskRule, Rules
from nftop.control.recovery import RESTORED, plan_revert, recover
from nftop.control.transaction import apply, keep, serve
from nftop.control.wording import offline_sentences
from nftop.model.change import (
    Action,
    Cell,
    CreateGroup,
    MoveCpus,
    Proposal,
    Receipt,
    SetSchemata,
    State,
)
from nftop.model.ids import Cpu
from tests.control.hosts import (
    Death,
    Disk,
    KilledError,
    LabHost,
    gate_of,
    lab_host,
    memory,
    mortal,
)
from tests.lab.resctrl import hotplug
from tests.lab.resctrl.state import controls, default

REQUESTED = Requester("somebody")
A = "nftop.a"
L3_0, L3_1, MB_1 = (Cell("schemata", "vpp", *item) for item in (("L3", 0), ("L3", 1), ("MB", 1)))
CPU_3 = Cell("cpu", "", number=3)
ALL_WAYS = "7ff"


@dataclass
class ShrinkingHost(LabHost):
    """One whose caches can go offline with all of their CPUs, and come back.

    Source: `domain_remove_cpu` and `domain_setup_ctrlval` of arch/x86/kernel/cpu/resctrl/core.c,
    Linux 6.1: schemata lack the domain, and one that comes back has the default of every class.
    """

    gone: set[int] = field(default_factory=set)

    def state(self, threads: Iterable[Cell] = ()) -> State:
        known = super().state(threads)
        return {c: v for c, v in known.items() if c.kind != "schemata" or c.number not in self.gone}

    def take_offline(self, domain: int) -> None:
        self.gone.add(domain)
        self._follow()

    def bring_online(self, domain: int) -> None:
        self.gone.discard(domain)
        self._follow()
        for group in controls(self.lab.state):
            for schema in self.lab.state.schemas:
                group.values[schema.name][domain] = default(self.lab.state, schema)

    def _follow(self) -> None:
        domain_of = self.lab.state.hardware.domain_of
        hotplug.follow(
            self.lab.state, {cpu for cpu, l3 in enumerate(domain_of) if l3 not in self.gone}
        )


def furnished() -> ShrinkingHost:
    """A group `vpp` with CPUs of both caches; CPU 2, 3, 6 and 7 are of cache 1."""
    host = ShrinkingHost(lab_host().lab)
    host.lab.mkdir("/vpp")
    host.lab.echo("L3:0=f0;1=f0", "/vpp/schemata")
    host.lab.echo("1-3", "/vpp/cpus_list")
    return host


def do(gate: BackendClassGate, proposal: Proposal, undoes: tuple[int, ...] = ()) -> Receipt:
    requested = replace(REQUESTED, undoes=undoes)
    receipt, entry = apply(gate.host, gate.journal, proposal, requested)
    assert entry is not None, receipt
    return keep(gate.host, gate.journal, entry)


def undo(gate: BackendClassGate) -> tuple[Proposal, tuple[int, ...]]:
    known = gate.propose_undo()
    assert known is not None
    return known


BOTH: list[Action] = [SetSchemata("vpp", "L3", ((0, 0x3), (1, 0x3)))]


def test_undo_takes_back_the_rest_and_what_was_offline_once_it_is_back() -> None:
    host = furnished()
    gate, before = gate_of(host, Disk()), host.state()
    do(gate, gate.propose([*BOTH, SetSchemata("vpp", "MB", ((1, 50),))]))
    host.take_offline(1)
    proposal, numbers = undo(gate)
    assert [change.cell for change in proposal.changes] == [L3_0]
    assert (proposal.offline, proposal.leaves) == ((L3_1, MB_1), (1,))
    assert not any("somebody else" in entry for entry in proposal.unmet)
    assert sum("offline" in entry for entry in proposal.unmet) == 2
    assert do(gate, proposal, numbers).outcome == "kept"
    assert waiting(gate.journal.history(), ()) == (L3_1, MB_1)
    proposal, _ = undo(gate)
    assert proposal.changes == ()
    assert proposal.offline == (L3_1, MB_1)
    host.bring_online(1)
    assert host.state()[L3_1] == ALL_WAYS, "the kernel has set it, and nobody else"
    proposal, numbers = undo(gate)
    assert numbers == (1,)
    assert (proposal.unmet, proposal.offline) == ((), ())
    do(gate, proposal, numbers)
    assert {c: v for c, v in host.state().items() if c.kind == "schemata"} == {
        c: v for c, v in before.items() if c.kind == "schemata"
    }
    assert gate.propose_undo() is None


def test_what_somebody_sets_in_a_cache_that_is_back_is_left_alone(
    snapshot: SnapshotAssertion,
) -> None:
    host = furnished()
    gate = gate_of(host, Disk())
    do(gate, gate.propose(BOTH))
    host.take_offline(1)
    proposal, numbers = undo(gate)
    do(gate, proposal, numbers)
    host.bring_online(1)
    host.lab.echo("L3:1=7", "/vpp/schemata")
    proposal, _ = undo(gate)
    assert proposal.changes == ()
    assert len(proposal.unmet) == 1
    assert proposal.unmet[0] == snapshot


def test_what_was_offline_and_came_back_before_the_undo_is_not_only_somebody_s(
    snapshot: SnapshotAssertion,
) -> None:
    host = furnished()
    gate, online = gate_of(host, Disk()), host.lab.state.hardware.online
    do(gate, gate.propose([*BOTH, CreateGroup(A), MoveCpus((Cpu(1),), A)]))
    host.take_offline(1)
    host.bring_online(1)
    hotplug.follow(host.lab.state, online - {1})
    hotplug.follow(host.lab.state, online)
    proposal, _ = undo(gate)
    changed = {change.cell for change in proposal.changes}
    assert {Cell("group", A), L3_0} <= changed
    assert not {Cell("cpu", "", number=1), L3_1} & changed
    assert proposal.unmet == snapshot


def test_a_cpu_that_is_offline_is_moved_back_once_it_is_online() -> None:
    host = furnished()
    gate, before = gate_of(host, Disk()), host.state()
    do(gate, gate.propose([MoveCpus((Cpu(1), Cpu(3)), "/")]))
    online = host.lab.state.hardware.online
    hotplug.follow(host.lab.state, online - {3})
    proposal, numbers = undo(gate)
    assert (proposal.offline, numbers) == ((CPU_3,), (1,))
    assert not any("somebody else" in entry for entry in proposal.unmet)
    do(gate, proposal, numbers)
    hotplug.follow(host.lab.state, online)
    proposal, numbers = undo(gate)
    assert proposal.unmet == ()
    do(gate, proposal, numbers)
    assert host.state() == before


def test_a_cpu_that_comes_back_where_it_was_needs_nothing() -> None:
    """The kernel puts it into the root group, from which nftop had moved it."""
    host = furnished()
    gate = gate_of(host, Disk())
    do(gate, gate.propose([MoveCpus((Cpu(5), Cpu(6)), "vpp")]))
    hotplug.follow(host.lab.state, host.lab.state.hardware.online - {5})
    proposal, _ = undo(gate)
    assert (proposal.unmet, proposal.offline) == ((), ())


def test_a_group_of_nftops_own_goes_though_one_of_its_caches_is_offline() -> None:
    host = furnished()
    gate = gate_of(host, Disk())
    do(gate, gate.propose([CreateGroup(A), SetSchemata(A, "L3", ((0, 3), (1, 3)))]))
    host.take_offline(1)
    proposal, numbers = undo(gate)
    assert (proposal.unmet, proposal.offline) == ((), ())
    do(gate, proposal, numbers)
    assert Cell("group", A) not in host.state()


@pytest.mark.parametrize("again", [False, True])
def test_what_a_crash_left_is_taken_back_as_far_as_it_is_online(again: bool) -> None:
    host, disk = furnished(), Disk()
    wish = [*BOTH, MoveCpus((Cpu(3),), "/")]
    _, entry = apply(host, memory(disk), gate_of(host, disk).propose(wish), REQUESTED)
    assert entry is not None
    host.take_offline(1)
    if again:  # taking it back was cut off too
        memory(disk).begin(plan_revert(host, entry).entry)
    receipt = recover(host, memory(disk))
    assert receipt is not None
    assert receipt.outcome == "partial"
    assert not any("somebody else" in sentence for sentence in receipt.sentences)
    assert host.state()[L3_0] == "f0"
    [done] = memory(disk).history()
    assert done.offline == (CPU_3, L3_1)
    assert RESTORED not in receipt.sentences


def left_in_piece(host: ShrinkingHost, disk: Disk, wish: list[Action]) -> None:
    """A change that was not kept, and taken back while cache 1 was offline."""
    _, entry = apply(host, memory(disk), gate_of(host, disk).propose(wish), REQUESTED)
    assert entry is not None
    host.take_offline(1)
    receipt = recover(host, memory(disk))
    assert receipt is not None
    assert (receipt.outcome, receipt.number) == ("partial", entry.number)
    assert any("`nftop undo`" in sentence for sentence in receipt.sentences)


@pytest.mark.parametrize("reset", [False, True])
def test_what_was_offline_when_an_unkept_change_was_taken_back_can_be_undone(reset: bool) -> None:
    host, disk = furnished(), Disk()
    gate, before = gate_of(host, disk), host.state()
    left_in_piece(host, disk, [*BOTH, MoveCpus((Cpu(3),), "/")])
    still_offline = gate.propose_undo()
    assert still_offline is not None
    assert (still_offline[0].changes, still_offline[0].offline) == ((), (CPU_3, L3_1))
    host.bring_online(1)
    planned = gate.propose_reset() if reset else gate.propose_undo()
    assert planned is not None
    proposal, numbers = planned
    assert [change.cell for change in proposal.changes] == [CPU_3, L3_1]
    assert (numbers, proposal.unmet, proposal.final) == ((1,), (), True)
    do(gate, proposal, numbers)
    assert host.state()[L3_1] == before[L3_1] == "f0"
    assert host.state()[CPU_3] == before[CPU_3] == "vpp"
    assert gate.propose_undo() is None
    assert gate.propose_reset() is None


def test_what_somebody_has_set_since_an_unkept_change_is_left_alone(
    snapshot: SnapshotAssertion,
) -> None:
    host, disk = furnished(), Disk()
    left_in_piece(host, disk, BOTH)
    host.bring_online(1)
    host.lab.echo("L3:1=7", "/vpp/schemata")
    proposal, _ = undo(gate_of(host, disk))
    assert (proposal.changes, len(proposal.unmet)) == ((), 1)
    assert proposal.unmet[0] == snapshot


def test_an_unkept_change_that_is_still_offline_does_not_block_an_older_one() -> None:
    host, disk = furnished(), Disk()
    gate = gate_of(host, disk)
    do(gate, gate.propose([SetSchemata("vpp", "L3", ((0, 0x1F),))]))
    left_in_piece(host, disk, BOTH)
    proposal, numbers = undo(gate)
    assert ([change.cell for change in proposal.changes], numbers) == ([L3_0], (1,))
    assert not proposal.final, "a newer change stands"
    do(gate, proposal, numbers)
    host.bring_online(1)
    proposal, numbers = undo(gate)
    assert ([change.cell for change in proposal.changes], numbers) == ([L3_1], (2,))


def test_an_undo_that_was_taken_back_partly_can_be_repeated() -> None:
    host, disk = furnished(), Disk()
    gate, before = gate_of(host, disk), host.state()
    do(gate, gate.propose(BOTH))
    proposal, numbers = undo(gate)
    _, entry = apply(host, memory(disk), proposal, replace(REQUESTED, undoes=numbers))
    assert entry is not None
    host.take_offline(1)
    receipt = recover(host, memory(disk))
    assert receipt is not None and receipt.outcome == "partial"
    host.bring_online(1)
    proposal, numbers = undo(gate)
    assert ([change.cell for change in proposal.changes], numbers) == ([L3_0, L3_1], (1,))
    assert (proposal.unmet, proposal.final) == ((), True)
    do(gate, proposal, numbers)
    assert (host.state()[L3_0], host.state()[L3_1]) == (before[L3_0], before[L3_1])


def test_undo_of_an_unkept_change_that_is_killed_at_any_step_is_done_or_offered_again() -> None:
    outcomes = set()
    for at in itertools.count():
        host, disk = furnished(), Disk()
        gate = gate_of(host, disk)
        left_in_piece(host, disk, [*BOTH, MoveCpus((Cpu(3),), "/")])
        host.bring_online(1)
        changed = host.state()
        proposal, numbers = undo(gate)
        victim, journal = mortal(host, disk, Death(at, late=False))
        try:
            serve(
                victim,
                journal,
                proposal,
                replace(REQUESTED, undoes=numbers),
                None,
                answer=lambda _: None,
                kept=lambda _: pytest.fail("nobody is asked"),
            )
        except KilledError:
            pass
        else:
            assert (host.state()[L3_1], host.state()[CPU_3]) == ("f0", "vpp")
            break
        mended = recover(host, memory(disk))
        again = gate.propose_undo()
        if again is None:
            assert (host.state()[L3_1], host.state()[CPU_3]) == ("f0", "vpp")
        else:
            assert host.state() == changed
            assert (again[1], again[0].changes) == (numbers, proposal.changes)
        outcomes.add((None if mended is None else mended.outcome, again is None))
    assert outcomes == {(None, False), ("reverted", False), ("kept", True)}


def test_what_is_offline_when_a_change_is_kept_is_reported_and_blamed_on_nobody(
    snapshot: SnapshotAssertion,
) -> None:
    host = furnished()
    gate = gate_of(host, Disk())
    _, entry = apply(host, gate.journal, gate.propose(BOTH), REQUESTED)
    assert entry is not None
    host.take_offline(1)
    receipt = keep(host, gate.journal, entry)
    assert receipt.outcome == "kept"
    assert receipt.unmet == snapshot


def test_what_the_kernel_gives_what_comes_online() -> None:
    rules = Rules(masks={"L3": MaskRule(11)}, limit=LimitRule(10, 10, 100))
    cells = (CPU_3, L3_1, MB_1, Cell("schemata", "vpp", "L2", 0), Cell("group", "vpp"))
    assert initial_values(cells, rules) == {CPU_3: "/", L3_1: ALL_WAYS, MB_1: "100"}


def test_every_kind_of_cell_that_can_be_offline_has_a_sentence() -> None:
    goal = {
        CPU_3: "vpp/m",
        L3_1: "f0",
        MB_1: "50",
        Cell("min_khz", "", "5", 5): "800000",
        Cell("bf", "", "0.0@0", 1): "off",
        Cell("cp_class", "", number=4): "0",
    }
    sentences = offline_sentences(goal, goal)
    assert len(sentences) == len(goal)
    assert all("offline" in sentence for sentence in sentences)
