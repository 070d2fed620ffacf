"""Frequencies through the gate: pinned, released, all of a host, and every way back."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from nftop.control.backend import AbsentError
from nftop.control.cpufreq.cpufreq import Cpufreq, open_cpufreq
from nftop.control.cpufreq.operations import CpufreqWrite
from nftop.control.cpufreq.policies import cores
from nftop.control.gate import BackendGate
from nftop.control.guard_client import start_guard
from nftop.control.journal import Journal
from nftop.control.journal_entry import Requester
from nftop.control.recovery import RESTORED, recover, revert
from nftop.control.series import serve_series
from nftop.control.transaction import apply, keep
from nftop.model.change import (
    FrequencyAction,
    PinCpus,
    PinEvery,
    Proposal,
    ReasonCode,
    Receipt,
    ReleaseCpus,
)
from nftop.model.ids import Cpu, parse_cpu_list
from tests.control.hosts import Death, Disk, KilledError, memory
from tests.control.sst_trees import (
    BASES,
    HIGH,
    LEAST,
    LOW,
    MOST,
    NOMINAL,
    FakeCpufreq,
    Kernel,
    component,
    in_memory,
    make_tree,
    take_offline,
)

REQUESTED = Requester("somebody")
MIN, MAX, GOVERNOR = "scaling_min_freq", "scaling_max_freq", "scaling_governor"
EPP = "energy_performance_preference"


@pytest.fixture
def location() -> Iterator[Path]:
    with in_memory() as folder:
        yield folder


@pytest.fixture
def kernel(location: Path) -> Kernel:
    return make_tree(location)


def gate_of(host: FakeCpufreq, disk: Disk) -> BackendGate[FakeCpufreq]:
    return BackendGate(host, memory(disk), start_guard, "nftop")


def done(host: FakeCpufreq, disk: Disk, *actions: FrequencyAction) -> Receipt:
    """Asked for, applied and kept."""
    proposal = gate_of(host, disk).propose(actions, ("nftop sst",))
    assert proposal.refusals == ()
    return kept(host, disk, proposal)


def kept(
    host: FakeCpufreq, disk: Disk, proposal: Proposal, undoes: tuple[int, ...] = ()
) -> Receipt:
    receipt, entry = apply(host, memory(disk), proposal, replace(REQUESTED, undoes=undoes))
    assert entry is not None, receipt
    receipt = keep(host, memory(disk), entry)
    assert receipt.outcome == "kept"
    return receipt


def undone(host: FakeCpufreq, disk: Disk) -> Receipt:
    planned = gate_of(host, disk).propose_undo()
    assert planned is not None
    return kept(host, disk, *planned)


def limits(kernel: Kernel, cpu: int) -> tuple[int, int]:
    return int(kernel.get(cpu, MIN)), int(kernel.get(cpu, MAX))


def test_a_core_is_pinned_with_its_sibling_and_undone_byte_for_byte(
    kernel: Kernel, snapshot: SnapshotAssertion
) -> None:
    host, disk, before = component(kernel), Disk(), kernel.state()
    proposal = gate_of(host, disk).propose([PinCpus((Cpu(1),))])
    assert {change.cell.number for change in proposal.changes} == {1, 5}
    assert proposal.effects == snapshot
    kept(host, disk, proposal)
    assert limits(kernel, 1) == limits(kernel, 5) == (HIGH, HIGH)
    assert limits(kernel, 0) == (LEAST, MOST)
    undone(host, disk)
    assert kernel.state() == before
    assert gate_of(host, disk).propose_undo() is None


def test_a_low_priority_core_is_pinned_to_its_own_and_reported(kernel: Kernel) -> None:
    host, disk = component(kernel), Disk()
    proposal = gate_of(host, disk).propose([PinCpus((Cpu(0),))])
    kept(host, disk, proposal)
    assert limits(kernel, 0) == limits(kernel, 4) == (LOW, LOW)
    assert any("low priority" in effect and "2700 MHz" in effect for effect in proposal.effects)


def test_packages_that_differ_and_cores_of_two_kinds_are_no_sst_bf(
    location: Path, snapshot: SnapshotAssertion
) -> None:
    kernel = make_tree(location / "two", bases=(HIGH, LOW) * 4, packages=2)
    host = component(kernel)
    assert {core.priority for core in cores(host.facts(), host.state())} == {None}
    proposal = gate_of(host, Disk()).propose([PinCpus((Cpu(1),))])
    assert not any("priority" in effect for effect in proposal.effects)
    proposal = gate_of(host, Disk()).propose([PinEvery("bf")])
    assert proposal.warnings == snapshot

    kernel = make_tree(location / "hybrid")
    host = component(kernel)
    kinds = [core.priority for core in cores(host.facts(), host.state())]
    assert kinds == ["high" if base == HIGH else "low" for base in BASES]
    atom = kernel.root / "sys/devices/cpu_atom"
    atom.mkdir()
    (atom / "cpus").write_text("0,3-4,7\n")
    assert {core.priority for core in cores(host.facts(), host.state())} == {None}
    proposal = gate_of(host, Disk()).propose([PinEvery("bf")])
    assert any("not SST-BF" in warning for warning in proposal.warnings)


@pytest.mark.parametrize("governor", ["powersave", "performance"])
def test_the_whole_host_as_sst_bf_s_and_m_and_back(location: Path, governor: str) -> None:
    kernel = make_tree(location, governor=governor)
    host, disk, before = component(kernel), Disk(), kernel.state()
    done(host, disk, PinEvery("bf"))
    assert [limits(kernel, cpu) for cpu in range(8)] == [(base, base) for base in BASES]
    assert {kernel.get(cpu, GOVERNOR) for cpu in range(8)} == {"powersave"}
    between = kernel.state()
    done(host, disk, PinEvery("base"))
    assert {limits(kernel, cpu) for cpu in range(8)} == {(NOMINAL, NOMINAL)}
    undone(host, disk)
    assert kernel.state() == between
    undone(host, disk)
    assert kernel.state() == before


def test_release_goes_back_to_what_was_before_the_pin(kernel: Kernel) -> None:
    host, disk = component(kernel), Disk()
    kernel.put(1, MIN, "1000000")
    kernel.put(5, MAX, "3000000")
    before = kernel.state()
    done(host, disk, PinCpus((Cpu(1),)))
    done(host, disk, ReleaseCpus((Cpu(5),)))
    assert kernel.state() == before
    undone(host, disk)
    assert limits(kernel, 1) == (HIGH, HIGH)


def test_release_within_a_mode_goes_back_to_the_mode(kernel: Kernel) -> None:
    host, disk, before = component(kernel), Disk(), kernel.state()
    done(host, disk, PinEvery("base"))
    mode = kernel.state()
    done(host, disk, PinCpus((Cpu(1),)))
    done(host, disk, ReleaseCpus((Cpu(1),)))
    assert kernel.state() == mode
    done(host, disk, ReleaseCpus(tuple(map(Cpu, range(8)))))
    assert kernel.state() == before


def test_release_reaches_past_a_change_of_the_governor_alone(location: Path) -> None:
    kernel = make_tree(location, governor="performance")
    host, disk, before = component(kernel), Disk(), kernel.state()
    done(host, disk, PinCpus((Cpu(0),)))
    done(host, disk, PinEvery("bf"))
    done(host, disk, ReleaseCpus((Cpu(0),)))
    assert limits(kernel, 0) == limits(kernel, 4) == (LEAST, MOST)
    assert limits(kernel, 1) == (HIGH, HIGH)
    done(host, disk, ReleaseCpus(tuple(map(Cpu, range(8)))))
    assert kernel.state() == before


def test_what_was_pinned_by_hand_is_opened_or_reported_to_stay(
    location: Path, snapshot: SnapshotAssertion
) -> None:
    kernel = make_tree(location, governor="performance")
    for cpu, limit in itertools.product((0, 1, 4, 5), (MAX, MIN)):
        kernel.put(cpu, limit, str(BASES[cpu] if cpu in (0, 4) else NOMINAL))
    host, disk = component(kernel), Disk()
    done(host, disk, PinEvery("bf"))
    proposal = gate_of(host, disk).propose([ReleaseCpus((Cpu(0), Cpu(1)))])
    texts = " ".join(proposal.effects)
    assert texts == snapshot
    kept(host, disk, proposal)
    assert limits(kernel, 0) == (LEAST, MOST)
    assert limits(kernel, 1) == (NOMINAL, NOMINAL)
    assert {kernel.get(cpu, GOVERNOR) for cpu in (0, 1, 4, 5)} == {"performance"}


def test_what_is_not_as_nftop_left_it_is_released_to_the_hardwares_limits(
    kernel: Kernel, snapshot: SnapshotAssertion
) -> None:
    host, disk = component(kernel), Disk()
    done(host, disk, PinCpus((Cpu(1),)))
    kernel.put(1, MAX, "3000000")
    kernel.put(1, MIN, "1200000")
    proposal = gate_of(host, disk).propose([ReleaseCpus((Cpu(1),))])
    assert proposal.effects == snapshot
    kept(host, disk, proposal)
    assert limits(kernel, 1) == limits(kernel, 5) == (LEAST, MOST)


@pytest.mark.parametrize("pins", [True, False])
def test_a_release_is_not_taken_back_by_the_next(kernel: Kernel, pins: bool) -> None:
    host, disk = component(kernel), Disk()
    if pins:
        done(host, disk, PinCpus((Cpu(1),)))
    kernel.put(1, MAX, "3000000")
    kernel.put(5, MIN, "1000000")
    done(host, disk, ReleaseCpus((Cpu(1),)))
    assert limits(kernel, 1) == limits(kernel, 5) == (LEAST, MOST)
    for _ in range(2):
        proposal = gate_of(host, disk).propose([ReleaseCpus((Cpu(1),))])
        assert proposal.changes == ()


def test_a_foreign_write_since_the_preview_is_a_conflict_and_one_elsewhere_is_not(
    kernel: Kernel, snapshot: SnapshotAssertion
) -> None:
    host, disk = component(kernel), Disk()
    proposal = gate_of(host, disk).propose([PinCpus((Cpu(1),))])
    kernel.put(3, MAX, "2000000")
    kernel.put(5, EPP, "power")
    before = kernel.state()
    receipt, entry = apply(host, memory(disk), proposal, REQUESTED)
    assert (receipt.outcome, entry, disk) == ("conflict", None, Disk())
    assert receipt.sentences[0] == snapshot
    assert receipt.sentences == snapshot
    assert kernel.state() == before
    kernel.put(5, EPP, "balance_performance")
    kept(host, disk, proposal)


def test_what_others_changed_since_is_left_alone_and_named(kernel: Kernel) -> None:
    host, disk = component(kernel), Disk()
    done(host, disk, PinCpus((Cpu(1),)))
    kernel.put(5, MAX, "3000000")
    planned = gate_of(host, disk).propose_undo()
    assert planned is not None
    words = "scaling_max_freq of CPU 5 was changed by somebody else since: left alone, 3000 MHz now"
    assert words in planned[0].unmet
    kept(host, disk, *planned)
    assert limits(kernel, 1) == (LEAST, MOST)
    assert limits(kernel, 5) == (LEAST, 3_000_000)


def test_what_passes_over_a_change_of_frequencies_is_named_alone(
    kernel: Kernel, snapshot: SnapshotAssertion
) -> None:
    host, disk = component(kernel), Disk()
    done(host, disk, PinCpus((Cpu(0),)))
    done(host, disk, PinCpus((Cpu(1),)))
    for cpu in (1, 5):
        kernel.put(cpu, MAX, "3000000")
        kernel.put(cpu, MIN, "1200000")
    planned = gate_of(host, disk).propose_undo()
    assert planned is not None
    assert planned[0].unmet
    assert planned[0].changes == ()
    assert planned[0].warnings == snapshot


def test_a_base_beyond_the_hardwares_limit_is_clamped_and_shown_before(
    kernel: Kernel, snapshot: SnapshotAssertion
) -> None:
    for cpu in (1, 5):
        (kernel.folder(cpu) / "cpuinfo_max_freq").write_text("2500000\n")
        kernel.put(cpu, MAX, "2500000")
    host, disk = component(kernel), Disk()
    proposal = gate_of(host, disk).propose([PinCpus((Cpu(1),))])
    assert proposal.rounded[0] == snapshot
    kept(host, disk, proposal)
    assert limits(kernel, 1) == (2_500_000, 2_500_000)


def test_a_clamp_that_nobody_foresaw_is_undone(kernel: Kernel, snapshot: SnapshotAssertion) -> None:
    host, disk, before = component(kernel), Disk(), kernel.state()
    proposal = gate_of(host, disk).propose([PinCpus((Cpu(1),))])
    kernel.ceiling = 2_500_000
    receipt, entry = apply(host, memory(disk), proposal, REQUESTED)
    assert (receipt.outcome, entry) == ("differs", None)
    assert " ".join(receipt.sentences) == snapshot
    assert kernel.state() == before
    assert disk.pending is None


def test_what_the_kernel_refuses_in_the_middle_is_taken_back(kernel: Kernel) -> None:
    host, disk, before = component(kernel), Disk(), kernel.state()
    proposal = gate_of(host, disk).propose([PinEvery("bf")])
    stubborn = replace(host, stubborn=((4, MIN),))
    receipt, entry = apply(stubborn, memory(disk), proposal, REQUESTED)
    assert (receipt.outcome, entry) == ("refused", None)
    assert kernel.state() == before


def test_a_limit_that_comes_into_effect_after_a_refusal_is_taken_back_too(
    kernel: Kernel, snapshot: SnapshotAssertion
) -> None:
    kernel.put(1, MAX, "2000000")
    host, disk, before = component(kernel), Disk(), kernel.state()
    proposal = gate_of(host, disk).propose([PinCpus((Cpu(1),))])
    receipt, entry = apply(replace(host, stubborn=((1, MIN),)), memory(disk), proposal, REQUESTED)
    assert (receipt.outcome, entry) == ("refused", None)
    assert receipt.sentences[-1] == snapshot
    assert limits(kernel, 1) == (LEAST, 2_000_000)
    assert kernel.state() == before


@pytest.mark.parametrize("refused", [True, False])
def test_a_limit_that_was_written_and_is_hidden_by_anothers_is_named(
    kernel: Kernel, refused: bool, snapshot: SnapshotAssertion
) -> None:
    kernel.upper = 2_000_000
    for cpu in (1, 5):
        kernel.put(cpu, MAX, str(MOST))
    host, disk, before = component(kernel), Disk(), kernel.state()
    proposal = gate_of(host, disk).propose([PinCpus((Cpu(1),))])
    assert proposal.effects == snapshot
    host = replace(host, stubborn=((1, MIN),) * refused)
    receipt, entry = apply(host, memory(disk), proposal, REQUESTED)
    assert (receipt.outcome, entry) == ("overwritten", None)
    assert " ".join(receipt.sentences) == snapshot
    assert RESTORED not in receipt.sentences
    assert kernel.state() == before
    [texts] = memory(disk).history()
    assert any("stays asked for" in item for item in texts.left)


@pytest.mark.parametrize("cut_off", [True, False])
def test_an_epp_that_somebody_set_since_is_not_taken_for_the_kernels(
    location: Path, cut_off: bool
) -> None:
    kernel = make_tree(location, governor="performance")
    host, disk = component(kernel), Disk()
    proposal = gate_of(host, disk).propose([PinEvery("bf")])
    _, entry = apply(host, memory(disk), proposal, REQUESTED)
    assert entry is not None
    kernel.put(1, EPP, "power")
    receipt = recover(host, memory(disk)) if cut_off else revert(host, memory(disk), entry)
    assert receipt is not None
    assert receipt.outcome == "overwritten"
    words = "EPP of CPU 1 was changed by somebody else since: left alone, power now"
    assert [sentence for sentence in receipt.sentences if "changed by somebody" in sentence] == [
        words
    ]
    assert {limits(kernel, cpu) for cpu in range(8)} == {(LEAST, MOST)}


@pytest.mark.parametrize("at", range(1, 5))
def test_a_cpu_that_goes_offline_in_the_middle_leaves_nothing_else_half_done(
    kernel: Kernel, at: int
) -> None:
    host, disk, before = component(kernel), Disk(), kernel.state()
    proposal = gate_of(host, disk).propose([PinCpus((Cpu(1),))])

    class Unplugged(FakeCpufreq):
        def _do(self, step: object) -> None:
            steps.append(step)
            if len(steps) == at:
                take_offline(kernel, 5)
            try:
                super()._do(step)  # type: ignore[arg-type]
            except FileNotFoundError:
                pytest.fail("the kernel says why")

    steps: list[object] = []
    unplugged = Unplugged(host.root, kernel=kernel)
    receipt, entry = apply(unplugged, memory(disk), proposal, REQUESTED)
    assert entry is None
    assert receipt.outcome in ("refused", "partial"), receipt
    assert "CPU 5: offline" in " ".join(receipt.sentences)
    assert {k: v for k, v in before.items() if "policy5" not in k} == kernel.state()


def test_other_programs_that_set_frequencies_are_named_first(kernel: Kernel) -> None:
    wants = kernel.root / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir(parents=True)
    (wants / "cpupower.service").write_text("")
    host, disk = component(kernel), Disk()
    words = "cpupower may set frequencies here too (cpupower.service is enabled)"
    proposal = gate_of(host, disk).propose([PinCpus((Cpu(1),))])
    assert words in proposal.warnings
    kept(host, disk, proposal)
    planned = gate_of(host, disk).propose_undo()
    assert planned is not None
    assert words in planned[0].warnings


def test_hosts_that_can_not(location: Path) -> None:
    (location / "proc").mkdir()
    with pytest.raises(AbsentError, match="no cpufreq"):
        open_cpufreq(location)
    kernel = make_tree(location / "a", bases=(None,) * 8, driver="acpi-cpufreq", shared=4)
    host, disk = component(kernel), Disk()
    for action, code in (
        (PinCpus((Cpu(1),)), ReasonCode.FREQUENCY_UNREPORTED),
        (PinEvery("bf"), ReasonCode.FREQUENCY_UNREPORTED),
        (PinCpus((Cpu(99),)), ReasonCode.CPU_ABSENT),
    ):
        assert gate_of(host, disk).propose([action]).refusals[0].code is code
    assert gate_of(host, disk).propose([PinEvery("base")]).refusals == ()


def test_a_shared_policy_is_changed_once_and_lists_its_cpus(
    location: Path, snapshot: SnapshotAssertion
) -> None:
    kernel = make_tree(location, bases=(None,) * 8, driver="acpi-cpufreq", shared=4)
    host, disk = component(kernel), Disk()
    kernel.put(0, MAX, "2000000")
    proposal = gate_of(host, disk).propose([ReleaseCpus((Cpu(1),))])
    assert {(change.cell.number, change.cell.name) for change in proposal.changes} == {(0, "0-3")}
    assert proposal.effects == snapshot
    kept(host, disk, proposal)
    assert limits(kernel, 0) == (LEAST, MOST)


def test_only_words_and_numbers_are_ever_written(kernel: Kernel) -> None:
    from nftop.control.backend import RefusedError
    from nftop.model.change import Cell

    real, before = Cpufreq(kernel.root), kernel.state()
    for cell, text in (
        (Cell("min_khz", "", "1", 1), "../../x"),
        (Cell("governor", "", "1", 1), "a\nb"),
        (Cell("max_khz", "", "1", -1), "5"),
        (Cell("schemata", "/", "L3", 1), "5"),
    ):
        with pytest.raises(RefusedError):
            real.do(CpufreqWrite(cell, text))
    assert kernel.state() == before
    (kernel.folder(1) / MIN).unlink()
    (kernel.folder(1) / MIN).symlink_to(kernel.folder(2) / MIN)
    with pytest.raises(RefusedError):
        real.do(CpufreqWrite(Cell("min_khz", "", "1", 1), "900000"))
    assert limits(kernel, 2) == (LEAST, MOST)


def session(host: FakeCpufreq, journal: Journal, proposal: Proposal, *, stays: bool) -> None:
    receipt, entry = apply(host, journal, proposal, REQUESTED)
    assert entry is not None, receipt
    (keep if stays else revert)(host, journal, entry)


ACTIONS: dict[str, FrequencyAction] = {
    "pin": PinCpus((Cpu(1), Cpu(0))), "bf": PinEvery("bf"), "base": PinEvery("base"),
    "release": ReleaseCpus(tuple(map(Cpu, range(8)))),
}  # fmt: skip


@pytest.mark.parametrize("stays", [True, False])
@pytest.mark.parametrize("name", ACTIONS)
def test_killed_at_every_step(location: Path, name: str, stays: bool) -> None:
    for at in itertools.count():
        kernel = make_tree(location / str(at), governor="performance", bases=BASES[:4])
        kernel.put(2, MAX, "2000000")
        disk, before = Disk(), kernel.state()
        proposal = gate_of(component(kernel), disk).propose([_within(ACTIONS[name])])
        death = Death(at, late=False)
        try:
            session(component(kernel, death), memory(disk, death), proposal, stays=stays)
        except KilledError:
            recover(component(kernel), memory(disk))
            outcomes = [item.outcome for item in memory(disk).history()]
            if outcomes != ["kept"]:
                assert kernel.state() == before, (at, outcomes)
            assert outcomes in ([], ["reverted"], ["kept"])
            assert memory(disk).pending() is None
            assert recover(component(kernel), memory(disk)) is None
        else:
            assert (kernel.state() == before) == (not stays)
            assert at > 4
            return


@dataclass
class Spoken:
    """A client of a series: its words, and the outcomes that it hears."""

    words: list[bytes]
    outcomes: list[str] = field(default_factory=list)

    def word(self, _seconds: float) -> bytes:
        return self.words.pop(0) if self.words else b""

    def answer(self, receipt: Receipt | None) -> None:
        assert receipt is not None
        self.outcomes.append(receipt.outcome)


def test_a_series_that_is_killed_at_every_step_restores(location: Path) -> None:
    """A trial of pins: pinned and as before in turn, one entry of the journal."""
    words = [b"try 1", b"try 0", b"try 1", b"try 1", b"try 0", b"end"]
    for at in itertools.count():
        kernel = make_tree(location / str(at), bases=BASES[:4])
        kernel.put(2, MAX, "2000000")
        disk, before = Disk(), kernel.state()
        proposal = gate_of(component(kernel), disk).propose([PinCpus((Cpu(1), Cpu(0)))])
        death, client = Death(at, late=False), Spoken(list(words))
        try:
            serve_series(
                component(kernel, death),
                memory(disk, death),
                proposal,
                [(), proposal.changes],
                REQUESTED,
                answer=client.answer,
                word=client.word,
            )
        except KilledError:
            recover(component(kernel), memory(disk))
            assert kernel.state() == before, at
            assert memory(disk).pending() is None
        else:
            assert kernel.state() == before
            assert client.outcomes == [*["applied"] * 6, "reverted"]
            assert [item.outcome for item in memory(disk).history()] == ["reverted"]
            assert at > 10
            return


def _within(action: FrequencyAction) -> FrequencyAction:
    """Of the four CPUs of these hosts."""
    if isinstance(action, PinEvery):
        return action
    return replace(action, cpus=tuple(cpu for cpu in action.cpus if cpu < 4))


def test_a_guard_that_did_not_run_for_a_while_waits_for_the_kernel_all_the_same(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, disk = component(kernel), Disk()
    proposal = gate_of(host, disk).propose([PinCpus((Cpu(1),))])
    monkeypatch.setattr(time, "monotonic", itertools.count(0, 10).__next__)
    assert kept(host, disk, proposal).outcome == "kept"


@settings(deadline=None, max_examples=20)
@given(data=st.data())
def test_changes_and_undos_in_any_order_end_where_they_began(
    data: st.DataObject,
) -> None:
    with in_memory() as folder:
        in_any_order(folder, data)


def in_any_order(folder: Path, data: st.DataObject) -> None:
    governors = st.sampled_from(["powersave", "performance"])
    kernel = make_tree(folder, governor=data.draw(governors))
    for cpu in data.draw(st.sets(st.integers(0, 7), max_size=3)):
        kernel.put(cpu, MIN, str(data.draw(st.integers(8, 20)) * 100_000))
        kernel.put(cpu, MAX, str(data.draw(st.integers(20, 39)) * 100_000))
    cpus = st.sets(st.integers(0, 7).map(Cpu), min_size=1, max_size=4).map(tuple)
    one: st.SearchStrategy[FrequencyAction] = st.one_of(
        st.builds(PinCpus, cpus),
        st.builds(ReleaseCpus, cpus),
        st.builds(PinEvery, st.sampled_from(["bf", "base"])),
    )
    host, disk = component(kernel), Disk()
    stack = [kernel.state()]
    for _ in range(data.draw(st.integers(1, 6))):
        action = data.draw(one)
        proposal = gate_of(host, disk).propose([action])
        if proposal.changes:
            kept(host, disk, proposal)
            stack.append(kernel.state())
        if isinstance(action, ReleaseCpus):
            every_pinned_core_is_reported(kernel, action, proposal)
        if len(stack) > 1 and data.draw(st.booleans()):
            undone(host, disk)
            stack.pop()
            assert kernel.state() == stack[-1]
    while len(stack) > 1:
        undone(host, disk)
        stack.pop()
        assert kernel.state() == stack[-1]
    assert gate_of(host, disk).propose_undo() is None


def every_pinned_core_is_reported(kernel: Kernel, action: ReleaseCpus, proposal: Proposal) -> None:
    """What was released is open, or at what it was before nftop's change, and that is told."""
    at_one = {
        cpu
        for item in action.cpus
        for cpu in (item % 4, item % 4 + 4)
        if len(set(limits(kernel, cpu))) == 1
    }
    texts = [effect for effect in proposal.effects if "pinned before nftop's last change" in effect]
    named = {cpu for item in texts for cpu in parse_cpu_list(item.split()[1].rstrip(":"))}
    assert at_one == named
