"""Classes through MSRs behind the gate: the same protocol, on hardware that takes what it takes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.control import backends, pqos
from nftop.control.backend import AbsentError, RefusedError
from nftop.control.journal import FileJournal, Journal
from nftop.control.journal_entry import Requester
from nftop.control.pqos import ClientReader, LibraryAccess, PqosHost, pqos_commands
from nftop.control.recovery import recover, revert
from nftop.control.resctrl.operations import ResctrlStep
from nftop.control.resctrl.plan import propose
from nftop.control.transaction import apply, keep
from nftop.model.change import Action, CreateGroup, MoveCpus, Proposal, ReasonCode, SetSchemata
from nftop.model.ids import Cpu
from nftop.model.missing import Missing, Reason
from nftop.sources.pqos import source
from nftop.sources.pqos.library import UnusableError
from tests.sources.pqos.fake import TOPOLOGY, Fake

OWNER = Requester("an operator")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A host whose kernel has no resctrl."""
    files = {
        "proc/sys/kernel/random/boot_id": "a-boot\n",
        "proc/mounts": "",
        "proc/filesystems": "nodev\tproc\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def host_of(fake: Fake, root: Path) -> PqosHost:
    return PqosHost(LibraryAccess(cast(Any, fake)), TOPOLOGY, root)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    folder = tmp_path / "journal"
    folder.mkdir(mode=0o700)
    return FileJournal(folder)


SET: tuple[Action, ...] = (
    SetSchemata("COS2", "L3", ((0, 0xF0),)),
    SetSchemata("COS2", "MB", ((1, 35),)),
    MoveCpus((Cpu(1), Cpu(6)), "COS2"),
)


def planned(host: PqosHost, *actions: Action) -> Proposal:
    return replace(propose(host.state(), host.rules(), actions), identity=host.identity)


def after(fake: Fake, host: PqosHost, journal: Journal, *actions: Action) -> Any:
    proposal = planned(host, *actions)
    assert proposal.refusals == ()
    receipt, entry = apply(host, journal, proposal, OWNER)
    assert receipt.outcome == "applied", receipt
    assert entry is not None
    return entry


def test_masks_limits_and_cpus_are_set_kept_and_taken_back(root: Path, journal: Journal) -> None:
    fake = Fake()
    host = host_of(fake, root)
    before = host.state()
    entry = after(fake, host, journal, *SET)
    assert (fake.mask[0, 2], fake.limit[2, 2]) == ([0xF0], 40)
    assert [cpu for cpu, clos in fake.class_of.items() if clos == 2] == [1, 6]
    assert keep(host, journal, entry).outcome == "kept"
    assert entry.identity.split()[1:] == ["msr"]
    again = after(fake, host, journal, MoveCpus((Cpu(6),), "/"))
    assert fake.class_of[6] == 0
    assert revert(host, journal, again).outcome == "reverted"
    assert fake.class_of[6] == 2
    assert host.state() != before


def test_what_is_not_kept_is_as_it_was(root: Path, journal: Journal) -> None:
    fake = Fake(class_of={cpu: cpu % 3 for cpu in range(8)})
    host = host_of(fake, root)
    before = host.state()
    entry = after(fake, host, journal, *SET)
    assert revert(host, journal, entry).outcome == "reverted"
    assert host.state() == before
    assert recover(host, journal) is None


def test_what_a_crash_left_is_taken_back(root: Path, journal: Journal) -> None:
    fake = Fake()
    host = host_of(fake, root)
    before = host.state()
    after(fake, host, journal, *SET)
    receipt = recover(host_of(fake, root), journal)
    assert receipt is not None
    assert receipt.outcome == "reverted"
    assert host.state() == before


def test_a_boot_since_has_undone_it(
    root: Path, journal: Journal, snapshot: SnapshotAssertion
) -> None:
    fake = Fake()
    host = host_of(fake, root)
    after(fake, host, journal, *SET)
    (root / "proc/sys/kernel/random/boot_id").write_text("another-boot\n")
    receipt = recover(host_of(Fake(), root), journal)
    assert receipt is not None
    assert receipt.outcome == "reverted"
    assert receipt.sentences[-1] == snapshot


def test_somebody_elses_write_since_the_preview_is_a_conflict(root: Path, journal: Journal) -> None:
    fake = Fake()
    host = host_of(fake, root)
    proposal = planned(host, *SET)
    fake.class_of[3] = 1
    receipt, entry = apply(host, journal, proposal, OWNER)
    assert (receipt.outcome, entry) == ("conflict", None)
    assert fake.mask == {}


def test_what_libpqos_refuses_is_undone(root: Path, journal: Journal) -> None:
    fake = Fake(refuses=True)
    host = host_of(fake, root)
    before = host.state()
    receipt, entry = apply(host, journal, planned(host, *SET), OWNER)
    assert (receipt.outcome, entry) == ("refused", None)
    assert "libpqos refused" in receipt.sentences[0]
    assert host.state() == before


def test_resctrl_that_came_meanwhile_stops_it(
    root: Path, journal: Journal, snapshot: SnapshotAssertion
) -> None:
    fake = Fake()
    host = host_of(fake, root)
    proposal = planned(host, *SET)
    (root / "proc/filesystems").write_text("nodev\tresctrl\n")
    receipt, entry = apply(host, journal, proposal, OWNER)
    assert (receipt.outcome, entry) == ("locked", None)
    assert receipt.sentences[0] == snapshot
    assert fake.mask == {}


def test_with_cdp_one_mask_is_set_and_the_other_stays(root: Path, journal: Journal) -> None:
    fake = Fake(has_cdp=True, mask={(0, 1): [0x7, 0x70]})
    host = host_of(fake, root)
    after(fake, host, journal, SetSchemata("COS1", "L3CODE", ((0, 0xF0),)))
    assert fake.mask[0, 1] == [0x7, 0xF0]


def refusals(host: PqosHost, *actions: Action) -> list[ReasonCode]:
    return [item.code for item in propose(host.state(), host.rules(), actions).refusals]


def test_what_the_hardware_has_not_is_refused_beforehand(root: Path) -> None:
    host = host_of(Fake(), root)
    for action, code in (
        (CreateGroup("nftop.x"), ReasonCode.CLOSIDS_EXHAUSTED),
        (SetSchemata("COS1", "L3", ((0, 5),)), ReasonCode.MASK_INVALID),
        (SetSchemata("COS1", "L3", ((0, 0xFFF),)), ReasonCode.MASK_INVALID),
        (SetSchemata("COS1", "MB", ((0, 5),)), ReasonCode.LIMIT_INVALID),
        (SetSchemata("COS9", "L3", ((0, 1),)), ReasonCode.GROUP_ABSENT),
    ):
        assert refusals(host, action) == [code]
    with pytest.raises(OSError, match="through MSRs only CPUs have a class"):
        host.tasks((), (1,))
    with pytest.raises(RefusedError):
        host.do(ResctrlStep("mkdir", "nftop.x"))
    with pytest.raises(RefusedError, match="only the guard"):
        PqosHost(ClientReader(cast(Any, None)), TOPOLOGY, root).do(ResctrlStep("cpus", "COS1"))


def test_haswells_masks_have_two_ways(root: Path) -> None:
    host = host_of(Fake(), root)
    assert host.rules().masks["L3"].min_bits == 1
    rows = ("vendor_id\t: GenuineIntel", "cpu family\t: 6", "model\t\t: 63", "stepping\t: 2")
    (root / "proc/cpuinfo").write_text("processor\t: 0\n" + "\n".join(rows) + "\n\n")
    assert host.rules().masks["L3"].min_bits == 2


def test_what_would_be_written_is_what_pqos_takes(root: Path, snapshot: SnapshotAssertion) -> None:
    host = host_of(Fake(), root)
    proposal = planned(host, *SET)
    assert pqos_commands(proposal.changes) == snapshot
    back = propose(host.state(), host.rules(), [MoveCpus((Cpu(1),), "COS1")]).changes
    assert pqos_commands(back) == ("pqos --iface=msr -a 'llc:1=1'",)


@pytest.mark.parametrize(
    ("mount", "flag", "msr", "words"),
    [
        (Missing(Reason.SOURCE, "resctrl is not mounted"), "cqm", True, "resctrl is not mounted"),
        (Missing(Reason.HARDWARE, "no resctrl"), "cqm", False, "no resctrl; through MSRs: not he"),
        (Missing(Reason.HARDWARE, "no resctrl"), "sse2", True, "no resctrl$"),
        (Missing(Reason.HARDWARE, "no resctrl"), "cqm", True, ""),
    ],
)
def test_msrs_are_the_choice_only_without_resctrl_and_on_a_cpu_with_classes(
    mount: Missing, flag: str, msr: bool, words: str, monkeypatch: pytest.MonkeyPatch, root: Path
) -> None:
    result = host_of(Fake(), root)

    def opened(_root: Path) -> PqosHost:
        if not msr:
            raise AbsentError("not here")
        return result

    def unmounted(_root: Path) -> PqosHost:
        raise AbsentError(mount.message)

    monkeypatch.setattr(source, "find_mount", lambda _: mount)
    monkeypatch.setattr(source, "cpu_flags", lambda _: {flag})
    monkeypatch.setattr(backends, "open_pqos", opened)
    monkeypatch.setattr(backends, "open_resctrl", unmounted)
    if not words:
        assert backends.open_classes(root) is result
        return
    with pytest.raises(AbsentError, match=words):
        backends.open_classes(root)


def test_a_library_that_does_not_fit_is_no_host(
    monkeypatch: pytest.MonkeyPatch, root: Path
) -> None:
    def unusable() -> None:
        raise UnusableError("libpqos.so.4.9.9 does not fit")

    monkeypatch.setattr(pqos, "why_not", lambda _: None)
    monkeypatch.setattr(pqos, "Library", unusable)
    with pytest.raises(AbsentError, match="does not fit"):
        pqos.open_pqos(root, writing=True)
