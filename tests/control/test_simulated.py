"""The simulated host behind the gate: the kernel's rules, the gate's promises, in this process."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nftop.control.backend import CLASSES, LockedError, RefusedError
from nftop.control.gate import BackendClassGate
from nftop.control.gate_protocols import ClassGate
from nftop.control.guard_client import start_guard
from nftop.control.journal import unfinished
from nftop.control.journal_entry import Entry, Requester
from nftop.control.resctrl import draft as drafts
from nftop.control.resctrl.operations import ResctrlStep
from nftop.control.simulated import (
    CLASSES_PATH,
    MemoryJournal,
    SimulatedResctrl,
    ThreadGuardedChange,
    simulated_gates,
)
from nftop.model.change import (
    Action,
    Cell,
    CreateGroup,
    CreateMonitor,
    MoveCpus,
    MoveTasks,
    ReasonCode,
    RemoveGroup,
    RemoveMonitor,
    SetIoWays,
    SetSchemata,
    State,
)
from nftop.model.ids import Cpu
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import ROOT, IoWays
from nftop.papers.printed import printed_tables
from nftop.sim import scenario
from nftop.sim.classes import numbered
from nftop.sim.model import model_of
from nftop.sim.rdt import rdt_of, resctrl_table
from nftop.sim.world import World
from tests import waiting

S = 1_000_000_000
SHRINK = SetSchemata("tenant", "L3", ((0, 0x3),))


@dataclass
class Clock:
    now_ns: int = 5 * S

    def __call__(self) -> int:
        return self.now_ns


@dataclass
class SimulatedGate:
    """A simulated host of 16 CPUs, whose clock stands still, and its gate."""

    scenario: str = "noisy"
    processor: str = ""
    clock: Clock = field(default_factory=Clock)
    world: World = field(init=False)
    gate: BackendClassGate = field(init=False)

    def __post_init__(self) -> None:
        model = model_of(scenario.load(self.scenario, self.processor), 16)
        self.world = World(rdt_of(model), self.clock)
        self.gate = simulated_gates(self.world).gates[CLASSES]

    @property
    def state(self) -> State:
        """All of it, threads too; a directory only as being there."""
        result = self.world.now().rdt.classes.state
        return {c: "there" if c.kind in ("group", "monitor") else v for c, v in result.items()}

    def keep(self, *actions: Action) -> str:
        proposal = self.gate.propose(actions)
        return self.gate.apply(proposal, keep_within_s=None).receipt.outcome


def test_it_is_what_screens_and_commands_change() -> None:
    gate: ClassGate = SimulatedGate().gate  # for the type checker above all
    assert gate.host.where == CLASSES_PATH
    assert gate.writes(gate.propose([SHRINK])) == (
        f"echo 'L3:0=3' > {CLASSES_PATH}/tenant/schemata",
    )
    rules = gate.host.rules()
    assert (rules.masks["L3"].ways, rules.closids, rules.io[0][0]) == (20, 16, 0xC0000)
    assert rules.siblings[1] == {9}


def test_a_change_is_present_until_it_is_taken_back() -> None:
    simulated = SimulatedGate()
    before = simulated.state
    pending = simulated.gate.apply(simulated.gate.propose([SHRINK]))
    assert pending.receipt.outcome == "applied"
    assert simulated.state[Cell("schemata", "tenant", "L3", 0)] == "3"
    assert pending.settled(0) is None
    assert "under way" in unfinished(simulated.gate.journal)
    second = simulated.gate.apply(simulated.gate.propose([SetSchemata("vpp", "L3", ((0, 0x1),))]))
    assert second.receipt.outcome == "refused", "one change at a time"
    assert pending.revert().outcome == "reverted"
    assert pending.keep().outcome == "reverted", "the first word counts"
    assert simulated.state == before
    assert simulated.gate.propose_undo() is None
    assert [item.outcome for item in simulated.gate.journal.history()] == ["reverted"]


def test_nobody_keeps_it_and_it_is_taken_back_by_itself() -> None:
    simulated = SimulatedGate()
    before = simulated.state
    pending = simulated.gate.apply(simulated.gate.propose([SHRINK]), keep_within_s=0.01)
    waiting.until(lambda: pending.settled(0) is not None)
    assert pending.receipt.outcome == "reverted"
    assert pending.keep().outcome == "reverted"
    assert simulated.state == before


def test_what_is_kept_is_undone_and_all_of_it_reset() -> None:
    simulated = SimulatedGate()
    before = simulated.state
    pending = simulated.gate.apply(simulated.gate.propose([SHRINK], ("nftop cat set",)))
    assert pending.keep().outcome == "kept"
    assert pending.revert().outcome == "kept", "the first word counts"
    kept = simulated.state
    assert simulated.keep(CreateGroup("nftop.a"), MoveCpus((Cpu(3),), "nftop.a")) == "kept"
    planned = simulated.gate.propose_undo()
    assert planned is not None
    receipt = simulated.gate.apply(planned[0], keep_within_s=None, undoes=planned[1]).receipt
    assert (receipt.outcome, simulated.state) == ("kept", kept)
    planned = simulated.gate.propose_reset()
    assert planned is not None
    simulated.gate.apply(planned[0], keep_within_s=None, undoes=planned[1])
    assert simulated.state == before
    assert simulated.gate.propose_reset() is None


def test_another_s_change_since_the_preview_is_a_conflict() -> None:
    simulated = SimulatedGate()
    proposal = simulated.gate.propose([SHRINK])
    simulated.gate.host.do(
        ResctrlStep("schemata", "vpp", values={Cell("schemata", "vpp", "L3", 0): "1"})
    )
    assert simulated.gate.apply(proposal).receipt.outcome == "conflict"
    assert simulated.state[Cell("schemata", "tenant", "L3", 0)] == "fe"


def test_a_lock_that_another_holds() -> None:
    host = SimulatedGate().gate.host
    with host.lock(0.01), pytest.raises(LockedError), host.lock(0.01):
        pass
    with host.lock(0.01):
        pass


def mask(group: str, value: str, line: str = "L3", l3: int = 0) -> ResctrlStep:
    return ResctrlStep("schemata", group, values={Cell("schemata", group, line, l3): value})


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (mask("vpp", "5"), "non-consecutive"),
        (mask("vpp", "0"), "Need at least 1 bits"),
        (mask("vpp", "100000"), "out of range"),
        (mask("vpp", "50", "MB"), "Unknown or unsupported resource"),
        (mask("vpp", "1", "L2"), "Unknown or unsupported resource"),
        (mask("vpp", "1", "L3", 7), "no domain 7"),
        (mask("nobody", "1"), "No such file"),
        (ResctrlStep("mkdir", "vpp"), "File exists"),
        (ResctrlStep("rmdir", "nobody"), "No such file"),
        (ResctrlStep("rmdir", ROOT), "not permitted"),
        (ResctrlStep("cpus", "vpp", cpus=frozenset({16})), "online CPUs, not 16"),
        (ResctrlStep("cpus", ROOT, cpus=frozenset()), "Can't drop CPUs from default group"),
        (ResctrlStep("mkdir", "nobody", "m"), ""),
    ],
)
def test_what_the_kernel_refuses_is_refused(step: ResctrlStep, why: str) -> None:
    simulated = SimulatedGate()
    before = simulated.state
    with pytest.raises(RefusedError, match=f"the simulated kernel says: .*{why}"):
        simulated.gate.host.do(step)
    assert simulated.state == before


def test_limits_on_memory_bandwidth_are_set_and_refused_with_mba() -> None:
    simulated = SimulatedGate(processor="gold-6252n")
    simulated.gate.host.do(mask("vpp", "50", "MB"))
    assert simulated.state[Cell("schemata", "vpp", "MB", 0)] == "50"
    with pytest.raises(RefusedError, match=r"out of range \[10,100\]"):
        simulated.gate.host.do(mask("vpp", "5", "MB"))


def test_masks_of_the_rdt_paper_fit_the_simulated_cache_unchanged() -> None:
    """Tables 3 and 8, for a processor of 20 ways too; Table 13's 0xFFFFF0 fits neither."""
    simulated = SimulatedGate()
    every = [
        bits
        for table in printed_tables(paper="nfv_rdt")
        if table.label in ("Table 3", "Table 8")
        for row in table.rows
        for bits in re.findall(r"0x([0-9A-F]+)", " ".join(row))
    ]
    assert len(every) == 16 + 6
    for bits in dict.fromkeys(every):
        simulated.gate.host.do(mask("vpp", bits.lower()))
        assert int(simulated.state[Cell("schemata", "vpp", "L3", 0)], 16) == int(bits, 16)
    with pytest.raises(RefusedError, match="out of range"):
        simulated.gate.host.do(mask("vpp", "fffff0"))


def test_monitoring_groups_take_their_class_s_cpus_and_threads_only() -> None:
    simulated = SimulatedGate()
    host = simulated.gate.host
    host.do(ResctrlStep("mkdir", "vpp", "m"))
    (cpu, *_) = simulated.world.now().rdt.classes.cpus("vpp")
    host.do(ResctrlStep("cpus", "vpp", "m", cpus=frozenset({int(cpu)})))
    with pytest.raises(RefusedError, match="belong to parent"):
        host.do(ResctrlStep("cpus", "vpp", "m", cpus=frozenset({0})))
    thread = Cell("task", "", simulated.world.now().rdt.classes.on_cpu[int(cpu)])
    with pytest.raises(RefusedError, match="different control group"):
        host.do(ResctrlStep("task", "vpp", "m", task=thread))
    host.do(ResctrlStep("task", "vpp", task=thread))
    host.do(ResctrlStep("task", "vpp", "m", task=thread))
    assert simulated.state[thread] == "vpp/m"
    host.do(ResctrlStep("task", "vpp", task=Cell("task", "", "1@1")))  # it has ended
    assert simulated.world.now().rdt.classes.cpus("vpp/m") == (cpu,)
    host.do(ResctrlStep("rmdir", "vpp", "m"))
    assert simulated.state[thread] == "vpp"


def test_classes_and_monitors_run_out() -> None:
    simulated = SimulatedGate()
    host = simulated.gate.host
    for number in range(16 - 4):
        host.do(ResctrlStep("mkdir", f"g{number}"))
    with pytest.raises(RefusedError, match="Out of CLOSIDs"):
        host.do(ResctrlStep("mkdir", "more"))
    metered = {Cell("monitor", ROOT, f"m{number}"): "" for number in range(176 - 16)}
    simulated.world.change(lambda now: numbered(now, {**now.state, **metered}, (0, 1)))
    with pytest.raises(RefusedError, match="Out of RMIDs"):
        host.do(ResctrlStep("mkdir", ROOT, "more"))


def test_threads_of_its_processes() -> None:
    host = SimulatedGate().gate.host
    assert isinstance(host, SimulatedResctrl)
    every = sorted(int(name.partition("@")[0]) for name in host.tasks([ROOT], []))
    pid = every[0]
    own = host.threads_of(pid)
    assert len(own) > 1 and set(own) < set(every)
    assert host.threads_of(own[1]) == own[1:2]
    assert host.threads_of(1) == ()


MASKS = st.builds(lambda ways, low: ((1 << ways) - 1) << low, st.integers(1, 6), st.integers(0, 5))
GROUPS = st.sampled_from([ROOT, "vpp", "switch", "tenant", "nftop.a", "nftop.b"])
OWN = st.sampled_from(["nftop.a", "nftop.b"])
CPUS = st.sets(st.integers(0, 15).map(Cpu), min_size=1, max_size=4).map(tuple)
ACTION: st.SearchStrategy[Action] = st.one_of(
    st.builds(lambda group, bits: SetSchemata(group, "L3", ((0, bits),)), GROUPS, MASKS),
    st.builds(lambda g, n: SetSchemata(g, "MB", ((1, n),)), GROUPS, st.integers(10, 100)),
    st.builds(MoveCpus, CPUS, GROUPS),
    st.builds(lambda tid, group: MoveTasks((tid,), group), st.integers(4000, 4004), GROUPS),
    st.builds(CreateGroup, OWN),
    st.builds(RemoveGroup, OWN),
    st.builds(CreateMonitor, GROUPS, OWN),
    st.builds(RemoveMonitor, GROUPS, OWN),
)


@settings(max_examples=20, deadline=None)
@given(
    rounds=st.lists(
        st.tuples(st.lists(ACTION, min_size=1, max_size=4), st.integers(0, 3), st.booleans()),
        min_size=1,
        max_size=4,
    )
)
def test_what_the_plan_allows_is_done_and_undone_to_the_last_cell(
    rounds: list[tuple[list[Action], int, bool]],
) -> None:
    simulated = SimulatedGate()
    states = [simulated.state]
    counted = simulated.world.now().rdt.model.counts(0)
    for actions, seconds, stays in rounds:
        simulated.clock.now_ns += seconds * S
        good: list[Action] = []
        for action in actions:
            if not simulated.gate.propose([*good, action]).refusals:
                good.append(action)
        proposal = simulated.gate.propose(good)
        pending = simulated.gate.apply(proposal)
        if proposal.changes:
            assert pending.receipt.outcome == "applied", pending.receipt
            assert (pending.keep() if stays else pending.revert()).outcome in ("kept", "reverted")
        else:
            assert pending.receipt.outcome == "refused"
        if stays and proposal.changes:
            states.append(simulated.state)
        assert simulated.state == states[-1]
        moment = simulated.world.now()
        now = moment.rdt.model.counts(moment.t_ns)
        assert (now >= counted).all()
        counted = now
    while (planned := simulated.gate.propose_undo()) is not None:
        done = simulated.gate.apply(planned[0], keep_within_s=None, undoes=planned[1]).receipt
        assert done.outcome == "kept", done
        states.pop()
        assert simulated.state == states[-1]
    assert len(states) == 1


def test_what_was_long_ago_is_forgotten_but_counted() -> None:
    simulated = SimulatedGate()
    whole = simulated.world.now().rdt.model
    counted = whole.counts(0)
    for turn in range(8):
        simulated.clock.now_ns += 50 * S
        assert simulated.keep(SetSchemata("vpp", "L3", ((1, 1 + 2 * (turn % 2)),))) == "kept"
        moment = simulated.world.now()
        assert len(moment.rdt.stretches) == len(moment.rdt.model.starts_ns) <= 4
        now = moment.rdt.model.counts(moment.t_ns)
        assert (now >= counted).all()
        counted = now
    # Nothing runs on that package that a mask of it would slow.
    assert np.allclose(counted[1:4], whole.counts(400 * S)[1:4], rtol=1e-12, atol=2)
    with pytest.raises(ValueError, match=r"starts at \d+ ns, not at 5"):
        simulated.world.now().rdt.model.counts(5)


def test_readers_never_see_a_counter_step_back_while_it_changes() -> None:
    model = model_of(scenario.load("noisy"), 16)
    world = World(rdt_of(model), time.monotonic_ns)
    gate = simulated_gates(world).gates[CLASSES]
    pending = gate.apply(gate.propose([SHRINK]))
    last = world.now()
    for turn in range(20):
        moment = world.now()
        before = last.rdt.model.counts(last.t_ns)
        assert (moment.rdt.model.counts(moment.t_ns) >= before).all()
        last = moment
        if turn == 10:
            pending.revert()


def test_no_word_of_it_is_a_command_for_a_real_host() -> None:
    simulated = SimulatedGate()
    draft, _ = drafts.ask(
        drafts.begin(
            simulated.gate.host.state(), simulated.gate.host.rules(), simulated.gate.program
        ),
        [SHRINK],
    )
    assert draft.plan.commands == (
        "nftop demo --scenario noisy --cpus 16 cat set --group tenant --l3 0=3",
    )
    pending = simulated.gate.apply(
        simulated.gate.propose(drafts.actions(draft), draft.plan.commands)
    )
    under_way = unfinished(simulated.gate.journal)
    kept = pending.keep()
    assert kept.sentences == ("it is done",)
    planned = simulated.gate.propose_undo()
    assert planned is not None
    undone = simulated.gate.apply(planned[0], keep_within_s=None, undoes=planned[1]).receipt
    assert undone.outcome == "kept"
    message = "; ".join((under_way, *planned[0].commands, *kept.sentences, *undone.sentences))
    assert "nftop" not in message


def test_no_guard_of_a_real_host_takes_its_changes() -> None:
    simulated = SimulatedGate()
    wrong = replace(simulated.gate, begin=start_guard)
    with pytest.raises(TypeError, match=r"/SIMULATED/resctrl has no journal"):
        wrong.apply(wrong.propose([SHRINK]))
    other = SimulatedGate().gate.apply(simulated.gate.propose([SHRINK]), keep_within_s=None).receipt
    assert (other.outcome, other.code) == ("conflict", ReasonCode.OTHER_HOST)


def test_a_failing_guard_reports_the_failure_to_its_client() -> None:
    simulated = SimulatedGate()
    journal = Wordless()
    pending = ThreadGuardedChange(
        simulated.gate.host, journal, simulated.gate.propose([SHRINK]), Requester("me"), None
    )
    assert (pending.receipt.outcome, pending.receipt.code) == ("failed", ReasonCode.ERROR)
    assert "no journal today" in pending.receipt.sentences[0]
    assert pending.settled(0) == pending.receipt


class Wordless(MemoryJournal):
    """A journal that fails where nobody foresaw it."""

    def pending(self) -> Entry | None:
        raise RuntimeError("no journal today")


IO_ON = SetIoWays(True, ((0, 0x600), (1, 0x003)))


def test_ways_of_io_are_set_where_the_processor_has_it() -> None:
    simulated = SimulatedGate(processor="gold-6252n")
    before = simulated.state
    assert simulated.keep(IO_ON) == "kept"
    assert simulated.state[Cell("io_cbm", "", "L3", 1)] == "3"
    table = resctrl_table(simulated.world.now().rdt, 6 * S)
    assert table.limits.io_alloc
    assert table.limits.closids == 7
    assert [domain.io for domain in table.domains] == [
        IoWays(Cbm(bits, 11), "io_alloc") for bits in (0x600, 3)
    ]
    assert table.domains[1].usage == "HH0000SSSXX"
    undo = simulated.gate.propose_undo()
    assert undo is not None
    assert (
        simulated.gate.apply(*undo[:1], keep_within_s=None, undoes=undo[1]).receipt.outcome
        == "kept"
    )
    assert simulated.state == before
    [refusal] = SimulatedGate().gate.propose([IO_ON]).refusals
    assert refusal.code is ReasonCode.IO_UNSUPPORTED


def test_io_and_groups_compete_for_classes() -> None:
    simulated = SimulatedGate(processor="gold-6252n")
    free = 8 - len(simulated.world.now().rdt.classes.clos)
    assert simulated.keep(*(CreateGroup(f"nftop.{n}") for n in range(free))) == "kept"
    host = simulated.gate.host
    with pytest.raises(RefusedError, match="used by nftop"):
        host.do(ResctrlStep("io_alloc", "/", values={Cell("io_alloc", "", "L3"): "enabled"}))
    assert simulated.keep(RemoveGroup(f"nftop.{free - 1}"), IO_ON) == "kept"
    assert simulated.gate.propose([CreateGroup("nftop.z")]).refusals
    with pytest.raises(RefusedError, match="Out of CLOSIDs"):
        host.do(ResctrlStep("mkdir", "nftop.z"))
