"""SST-BF and SST-CP classes through the gate: switched, read back, and every way back."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from nftop.control.backend import AbsentError, RefusedError
from nftop.control.gate import BackendGate
from nftop.control.guard_client import start_guard
from nftop.control.journal_entry import Requester
from nftop.control.recovery import recover, revert
from nftop.control.speed_select.backend import IsstCall, class_cell, open_isst
from nftop.control.transaction import apply, keep
from nftop.export.json.changes_of import change_object
from nftop.model.change import Cell, Proposal, ReasonCode, Receipt, SetCpClass, SstAction, SwitchBf
from nftop.model.ids import Cpu
from nftop.render.editor.change import preview
from tests.control.hosts import Death, Disk, KilledError, memory
from tests.control.sst_trees import in_memory
from tests.isst.hosts import HUNG, FakeSpeedSelect, base_mhz, component, make_tool
from tests.isst.tool import Tool, install, load

REQUESTED = Requester("somebody")
ON, OFF = SwitchBf(True), SwitchBf(False)
CLASS = SetCpClass((Cpu(1),), 0)


@pytest.fixture
def location() -> Iterator[Path]:
    with in_memory() as folder:
        yield folder


@pytest.fixture
def tool(location: Path) -> Tool:
    return make_tool(location)


def gate_of(host: FakeSpeedSelect, disk: Disk) -> BackendGate[FakeSpeedSelect]:
    return BackendGate(host, memory(disk), start_guard, "nftop")


def planned(host: FakeSpeedSelect, disk: Disk, *actions: SstAction) -> Proposal:
    proposal = gate_of(host, disk).propose(actions, ("nftop sst",))
    assert proposal.refusals == ()
    return proposal


def kept(
    host: FakeSpeedSelect, disk: Disk, proposal: Proposal, undoes: tuple[int, ...] = ()
) -> Receipt:
    receipt, entry = apply(host, memory(disk), proposal, replace(REQUESTED, undoes=undoes))
    assert entry is not None, receipt
    receipt = keep(host, memory(disk), entry)
    assert receipt.outcome == "kept"
    return receipt


def undone(host: FakeSpeedSelect, disk: Disk) -> Proposal:
    back = gate_of(host, disk).propose_undo()
    assert back is not None
    kept(host, disk, *back)
    return back[0]


def refused(location: Path, tool: Tool, action: SstAction) -> list[ReasonCode]:
    proposal = gate_of(component(location, tool), Disk()).propose([action])
    assert proposal.changes == ()
    return [refusal.code for refusal in proposal.refusals]


def writes(tool: Tool) -> list[tuple[str, ...]]:
    verbs = ("enable", "disable", "assoc")
    return [item for item in tool.requested if any(word in verbs for word in item)]


def test_bf_on_shows_every_core_is_read_back_and_undone(
    location: Path, tool: Tool, snapshot: SnapshotAssertion
) -> None:
    host, disk, before = component(location, tool), Disk(), copy.deepcopy(tool.state)
    proposal = planned(host, disk, ON)
    lines = preview(proposal, {}, "percent")
    assert lines[:2] == snapshot
    texts = " ".join(lines)
    assert texts == snapshot
    assert "package 1, CPU 2,6 (high" in texts and "package 1, CPU 3,7 (low" in texts
    kept(host, disk, proposal)
    assert base_mhz(tool) == [2100, 2700, 2700, 2100, 2100, 2700, 2700, 2100]
    assert gate_of(host, disk).propose([ON]).changes == ()
    back = undone(host, disk)
    assert back.effects == snapshot
    assert tool.state == before and base_mhz(tool) == [2300] * 8
    assert gate_of(host, disk).propose_undo() is None


def test_a_package_alone_and_words_that_are_fixed(location: Path, tool: Tool) -> None:
    host, disk = component(location, tool), Disk()
    proposal = planned(host, disk, SwitchBf(True, (1,)))
    kept(host, disk, proposal)
    assert [domain.bf for domain in tool.state.domains] == [False, True]
    kept(host, disk, planned(host, disk, CLASS))
    assert writes(tool) == [
        ("-f", "json", "-c", "2", "base-freq", "enable"),
        ("-f", "json", "-c", "1,5", "core-power", "assoc", "--clos", "0"),
    ]
    assert gate_of(host, disk).writes(proposal) == (
        "intel-speed-select -c CPU base-freq enable  # CPU: one of package 1",
    )


def test_power_domains_are_switched_one_by_one(location: Path, snapshot: SnapshotAssertion) -> None:
    tool = make_tool(location, split=True)
    host, disk = component(location, tool), Disk()
    proposal = planned(host, disk, SwitchBf(True, (0,)))
    assert [change.cell.name for change in proposal.changes] == ["0.0@0", "0.1@0"]
    texts = " ".join(proposal.effects)
    assert "package 0, CPU 0,4 (low" in texts
    assert texts == snapshot
    kept(host, disk, proposal)
    assert [domain.bf for domain in tool.state.domains] == [True, True, False]
    undone(host, disk)
    assert not any(domain.bf for domain in tool.state.domains)


def test_a_class_is_the_whole_cores_and_undone(
    location: Path, tool: Tool, snapshot: SnapshotAssertion
) -> None:
    host, disk = component(location, tool), Disk()
    tool.state.classes[0] = 2
    proposal = planned(host, disk, SetCpClass((Cpu(0), Cpu(1)), 0))
    lines = preview(proposal, {}, "percent")
    assert lines[:2] == ["CPU 0,4 SST-CP class  2 -> 0", "CPU 1,5 SST-CP class  3 -> 0"]
    assert proposal.effects == snapshot
    assert "CLOS" not in " ".join(lines)
    kept(host, disk, proposal)
    assert tool.state.classes == {0: 0, 1: 0, 2: 3, 3: 3}
    undone(host, disk)
    assert tool.state.classes == {0: 2, 1: 3, 2: 3, 3: 3}


def test_what_is_changed_as_json_has_it(location: Path, tool: Tool) -> None:
    host, disk = component(location, tool), Disk()
    both = [*planned(host, disk, SwitchBf(True, (0,))).changes, *planned(host, disk, CLASS).changes]
    assert [change_object(item) for item in both[:2]] == [
        {
            "kind": "bf",
            "old": "off",
            "new": "on",
            "package": 0,
            "die": 0,
            "power_domain": 0,
            "level": 0,
        },
        {"kind": "cp_class", "old": 3, "new": 0, "cpu": 1},
    ]


def test_what_it_may_lack_is_a_warning(
    location: Path, tool: Tool, snapshot: SnapshotAssertion
) -> None:
    host, disk = component(location, tool), Disk()
    assert planned(host, disk, ON).warnings == ()
    tool.state.domains[0].cp = False
    for name in ("scaling_min_freq", "scaling_max_freq"):
        assert tool.tree is not None
        (tool.tree / f"policy5/{name}").write_text("2300000\n")
    printed = planned(host, disk, ON).warnings
    assert printed == snapshot
    assert planned(host, disk, CLASS).warnings == snapshot


def test_without_cpufreq_the_tools_own_numbers_are_left(
    location: Path, tool: Tool, snapshot: SnapshotAssertion
) -> None:
    assert tool.tree is not None
    tool.tree.rename(tool.tree.parent / "gone")
    printed = " ".join(planned(component(location, tool), Disk(), ON).effects)
    assert printed == snapshot


@pytest.mark.parametrize("model", [0x55, 0])
def test_what_would_not_be_switched_at_all(location: Path, tool: Tool, model: int) -> None:
    tool.state.model = model
    assert refused(location, tool, ON) == [ReasonCode.SST_UNSUPPORTED]


def test_what_can_not_be_is_refused_with_its_reason(location: Path, tool: Tool) -> None:
    assert refused(location, tool, SwitchBf(True, (7,))) == [ReasonCode.RESOURCE_ABSENT]
    assert refused(location, tool, SetCpClass((Cpu(99),), 1)) == [ReasonCode.CPU_ABSENT]
    assert refused(location, tool, SetCpClass((Cpu(1),), 4)) == [ReasonCode.SST_CLASS_INVALID]
    tool.state.domains[1].level = 2
    assert refused(location, tool, ON) == [ReasonCode.SST_UNSUPPORTED]
    tool.state.domains[0].cp_supported = False
    assert refused(location, tool, CLASS) == [ReasonCode.SST_UNSUPPORTED]


def test_what_can_not_be_read_back_is_not_set(location: Path, tool: Tool) -> None:
    tool.silent_about = frozenset({"clos"})
    assert refused(location, tool, CLASS) == [ReasonCode.RESOURCE_UNREPORTED]
    tool.silent_about = frozenset({"speed-select-base-freq"})
    assert set(refused(location, tool, ON)) == {ReasonCode.SST_UNSUPPORTED}
    tool.hangs_on_reads = True
    with pytest.raises(OSError, match="did not end"):
        gate_of(component(location, tool), Disk()).propose([ON])


@pytest.mark.parametrize("action", [ON, CLASS])
def test_a_foreign_change_since_the_preview_is_a_conflict(
    location: Path, tool: Tool, action: SstAction
) -> None:
    host, disk = component(location, tool), Disk()
    proposal = planned(host, disk, action)
    tool.state.classes[1] = 1
    tool.state.domains[0].bf = True
    receipt, entry = apply(host, memory(disk), proposal, REQUESTED)
    assert (receipt.outcome, entry, disk) == ("conflict", None, Disk())
    assert writes(tool) == []


def test_another_level_since_the_preview_is_a_conflict(location: Path, tool: Tool) -> None:
    host, disk = component(location, tool), Disk()
    tool.state.domains[0].bf_of = [0, 3]
    proposal = planned(host, disk, SwitchBf(True, (0,)))
    tool.state.domains[0].level = 3
    receipt, _ = apply(host, memory(disk), proposal, REQUESTED)
    assert receipt.outcome == "conflict"
    with pytest.raises(RefusedError, match="another level"):
        host.do(host.steps(proposal.base, proposal.changes)[0])
    assert writes(tool) == []


def test_what_others_changed_since_is_left_alone(
    location: Path, tool: Tool, snapshot: SnapshotAssertion
) -> None:
    host, disk = component(location, tool), Disk()
    kept(host, disk, planned(host, disk, SetCpClass((Cpu(0), Cpu(1)), 0)))
    tool.state.classes[1] = 2
    back = undone(host, disk)
    assert back.unmet == snapshot
    assert tool.state.classes == {0: 3, 1: 2, 2: 3, 3: 3}


@pytest.mark.parametrize("action", [ON, SetCpClass((Cpu(0), Cpu(1)), 0)])
@pytest.mark.parametrize(
    ("trouble", "outcome", "printed"),
    [
        ("fail", "refused", "failed(error -1)"),
        ("silent", "refused", "it says nothing"),
        ("lie", "differs", "is what is read back"),
        ("part", "differs", "is what is read back"),
        ("hang-before", "refused", HUNG),
        ("hang-after", "refused", HUNG),
        ("die-before", "refused", "it ended with -9"),
        ("die-after", "refused", "it ended with -9"),
    ],
)
def test_what_goes_wrong_is_read_back_and_taken_back(
    location: Path,
    tool: Tool,
    action: SstAction,
    trouble: str,
    outcome: str,
    printed: str,
) -> None:
    host, disk, before = component(location, tool), Disk(), copy.deepcopy(tool.state)
    proposal = planned(host, disk, action)

    class Once(FakeSpeedSelect):
        """The trouble is of one call."""

        def do(self, step: IsstCall) -> None:
            tool.trouble = trouble if not writes(tool) else ""
            super().do(step)

    once = Once(host.ask, host.root, host.folder, 0.0)
    receipt, entry = apply(once, memory(disk), proposal, REQUESTED)
    assert (receipt.outcome, entry) == (outcome, None), receipt
    assert printed in " ".join(receipt.sentences)
    assert tool.state == before and disk.pending is None


def test_a_tool_that_stays_hung_leaves_it_under_way_and_recover_ends_it(
    location: Path, tool: Tool, snapshot: SnapshotAssertion
) -> None:
    host, disk, before = component(location, tool), Disk(), copy.deepcopy(tool.state)
    proposal = planned(host, disk, SwitchBf(True, (0,)))
    tool.trouble = "hang-after"

    class Ever(FakeSpeedSelect):
        def do(self, step: IsstCall) -> None:
            try:
                super().do(step)
            finally:
                tool.hangs_on_reads = True

    ever = Ever(host.ask, host.root, host.folder, 0.0)
    receipt, entry = apply(ever, memory(disk), proposal, REQUESTED)
    assert (receipt.outcome, entry) == ("failed", None)
    assert " ".join(receipt.sentences) == snapshot
    assert tool.state.domains[0].bf and disk.pending is not None
    tool.trouble, tool.hangs_on_reads = "", False
    mended = recover(host, memory(disk))
    assert mended is not None and mended.outcome == "reverted"
    assert tool.state == before and disk.pending is None


ACTIONS: dict[str, tuple[SstAction, ...]] = {
    "bf": (ON,),
    "class": (SetCpClass((Cpu(0), Cpu(1), Cpu(3)), 0),),
    "both": (ON, SetCpClass((Cpu(0), Cpu(1)), 1)),
}


@pytest.mark.parametrize("late", [True, False])
@pytest.mark.parametrize("stays", [True, False])
@pytest.mark.parametrize("name", ACTIONS)
def test_killed_at_every_step(location: Path, name: str, *, stays: bool, late: bool) -> None:
    for at in itertools.count():
        tool = make_tool(location / str(at))
        tool.state.classes[0] = 2
        disk, before = Disk(), copy.deepcopy(tool.state)
        proposal = planned(component(tool_root(tool), tool), disk, *ACTIONS[name])
        death = Death(at, late=late)
        host = component(tool_root(tool), tool, death)
        try:
            receipt, entry = apply(host, memory(disk, death), proposal, REQUESTED)
            assert entry is not None, receipt
            (keep if stays else revert)(host, memory(disk, death), entry)
        except KilledError:
            again = component(tool_root(tool), tool)
            recover(again, memory(disk))
            outcomes = [item.outcome for item in memory(disk).history()]
            assert outcomes in ([], ["reverted"], ["kept"])
            assert (tool.state == before) == (outcomes != ["kept"]), (at, outcomes)
            assert memory(disk).pending() is None
            assert recover(again, memory(disk)) is None
        else:
            assert (tool.state == before) == (not stays)
            assert at > 4
            return


def tool_root(tool: Tool) -> Path:
    assert tool.tree is not None
    return tool.tree.parents[4]


@settings(deadline=None, max_examples=20)
@given(data=st.data())
def test_changes_and_undos_in_any_order_end_where_they_began(data: st.DataObject) -> None:
    cpus = st.sets(st.integers(0, 7).map(Cpu), min_size=1, max_size=4).map(tuple)
    one: st.SearchStrategy[SstAction] = st.one_of(
        st.builds(SwitchBf, st.booleans(), st.sampled_from([(), (0,), (1,)])),
        st.builds(SetCpClass, cpus, st.integers(0, 3)),
    )
    with in_memory() as folder:
        tool = make_tool(folder, split=data.draw(st.booleans()))
        for core in range(4):
            tool.state.classes[core] = data.draw(st.integers(0, 3))
        host, disk = component(folder, tool), Disk()
        stack = [copy.deepcopy(tool.state)]
        for _ in range(data.draw(st.integers(1, 6))):
            proposal = planned(host, disk, data.draw(one))
            if proposal.changes:
                kept(host, disk, proposal)
                stack.append(copy.deepcopy(tool.state))
            if len(stack) > 1 and data.draw(st.booleans()):
                undone(host, disk)
                stack.pop()
                assert tool.state == stack[-1]
        while len(stack) > 1:
            undone(host, disk)
            stack.pop()
            assert tool.state == stack[-1]
        assert gate_of(host, disk).propose_undo() is None


def test_only_sound_calls_are_created(location: Path, tool: Tool) -> None:
    host = component(location, tool)
    bf = Cell("bf", "", "0.0@0", 0)
    for cells, value in (
        ((bf,), "maybe"),
        ((bf, bf), "on"),
        ((class_cell(1),), "4"),
        ((class_cell(1),), "0 -a"),
        ((class_cell(-1),), "0"),
        ((class_cell(1), bf), "0"),
        ((Cell("epp", "", "1", 1),), "0"),
    ):
        with pytest.raises(RefusedError, match="is not called"):
            host.do(IsstCall(cells, value))
    assert tool.requested == []


def test_a_real_program_is_switched_and_undone(location: Path, tool: Tool) -> None:
    state = install(location, tool)
    host, disk = open_isst(location, location), Disk()
    gate = BackendGate(host, memory(disk), start_guard, "nftop")
    proposal = gate.propose([ON, CLASS])
    assert proposal.refusals == ()
    receipt, entry = apply(host, memory(disk), proposal, REQUESTED)
    assert entry is not None, receipt
    now = load(state).state
    assert [domain.bf for domain in now.domains] == [True, True] and now.classes[1] == 0
    assert revert(host, memory(disk), entry).outcome == "reverted"
    assert load(state).state == tool.state


def test_only_a_program_that_root_alone_can_replace_is_run(location: Path, tool: Tool) -> None:
    with pytest.raises(AbsentError, match="is not installed where only root"):
        open_isst(location, location)
    install(location, tool)
    folder = location / "usr/sbin"
    assert open_isst(location, location).where == "intel-speed-select"
    folder.chmod(0o775)
    with pytest.raises(AbsentError, match="others than root may write to its folder"):
        open_isst(location, location)
    folder.chmod(0o755)
    (folder / "intel-speed-select").chmod(0o775)
    with pytest.raises(AbsentError, match="is not installed where only root"):
        open_isst(location, location)
