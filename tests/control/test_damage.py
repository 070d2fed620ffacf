"""Damage to the files of the journal: refused, kept, and never taken for an intact host."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from nftop.control import journal as journal_module
from nftop.control.gate import BackendClassGate
from nftop.control.guard_client import start_guard
from nftop.control.journal import FileJournal
from nftop.control.journal_check import check, notice
from nftop.control.journal_damage import Damage, DamagedJournalError
from nftop.control.journal_entry import (
    Entry,
    Requester,
    changes_of,
    entry_of,
    finished,
    seal,
    state_of,
    text_of,
)
from nftop.control.recovery import recover
from nftop.control.transaction import apply, keep
from nftop.export.json.changes import change_json
from nftop.model.change import Cell, Change, CreateGroup, MoveCpus, SetSchemata, State
from nftop.model.ids import Cpu
from nftop.model.missing import Reason
from tests.command import wording
from tests.control.hosts import LabHost, lab_host

REQUESTED = Requester("somebody")
PENDING, HISTORY, INDEX = "pending.json", "history.jsonl", "index.json"
ONE = Entry(1, "now", "boot 7:1", "root", "cmd", (Change(Cell("group", "a"), None, "7"),))
FORMAT_2_ALONE = ("format", "verified", "offline", "sha256")


@dataclass
class Case:
    """A host with one kept change and one under way, and its journal on a disk."""

    host: LabHost
    journal: FileJournal

    def path(self, name: str) -> Path:
        return self.journal.folder / name

    def gate(self) -> BackendClassGate:
        return BackendClassGate(self.host, self.journal, start_guard, "nftop")


def case_of(folder: Path) -> Case:
    host, journal = lab_host(), FileJournal(folder / "nftop")
    host.lab.mkdir("/vpp")
    host.lab.echo("1-3", "/vpp/cpus_list")
    gate = BackendClassGate(host, journal, start_guard, "nftop")
    with journal.hold():
        for actions in ([SetSchemata("vpp", "L3", ((0, 0xF0),))], [MoveCpus((Cpu(3),), "/")]):
            _, entry = apply(host, journal, gate.propose(actions, ("a command",)), REQUESTED)
            assert entry is not None
            assert keep(host, journal, entry).outcome == "kept"
        wish = [CreateGroup("nftop.a"), SetSchemata("vpp", "L3", ((0, 0x3),))]
        _, entry = apply(host, journal, gate.propose(wish, ("a command",)), REQUESTED)  # type: ignore[arg-type]
        assert entry is not None
    return Case(host, journal)


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return case_of(tmp_path)


def format_1(line: str) -> str:
    """A line as nftop wrote it before format 2."""
    raw = json.loads(line)
    return json.dumps({name: raw[name] for name in raw if name not in FORMAT_2_ALONE}) + "\n"


def as_format_1(case: Case) -> None:
    """The journal as nftop left it before format 2."""
    for name in (PENDING, HISTORY):
        if case.path(name).exists():
            lines = case.path(name).read_text().splitlines()
            case.path(name).write_text("".join(map(format_1, lines)))
    case.path(INDEX).unlink()


def flips(data: bytes, sparse_bytes: int = 0) -> list[bytes]:
    """The data with one bit flipped; of the first `sparse_bytes` bytes one bit each, by turns."""
    return [
        data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
        for at in range(len(data))
        for bit in ([at % 8] if at < sparse_bytes else range(8))
    ]


def reading(monkeypatch: pytest.MonkeyPatch, name: str) -> Callable[[bytes], None]:
    """Have a file of the journal read as something else, while the disk stays as it is."""
    real, other = journal_module._read, [b""]

    def read(path: Path, most_bytes: int) -> bytes | None:
        return other[0] if path.name == name else real(path, most_bytes)

    monkeypatch.setattr(journal_module, "_read", read)

    def put(data: bytes) -> None:
        other[0] = data

    return put


def files(case: Case) -> dict[str, bytes]:
    return {entry.name: entry.read_bytes() for entry in case.journal.folder.iterdir()}


@pytest.mark.parametrize("name", [HISTORY, INDEX])
def test_every_flipped_bit_of_the_history_is_refused(
    case: Case, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """7,400 flips in two entries, and 1,672 in the index."""
    before = files(case)
    gate, put = case.gate(), reading(monkeypatch, name)
    for data in flips(before[name]):
        put(data)
        with pytest.raises(DamagedJournalError) as caught:
            case.journal.history()
        assert str(case.journal.folder) in str(caught.value)
        assert any("sudo" in detail for detail in caught.value.details)
    with pytest.raises(DamagedJournalError):
        gate.propose_undo()
    with pytest.raises(DamagedJournalError):
        apply(case.host, replace_pending(case.journal), gate_proposal(case), REQUESTED)
    assert files(case) == before


def replace_pending(journal: FileJournal) -> FileJournal:
    """The same journal; nothing is under way in it."""

    class Idle(FileJournal):
        def pending(self) -> Entry | None:
            return None

    return Idle(journal.folder)


def gate_proposal(case: Case) -> Any:
    return case.gate().propose([SetSchemata("vpp", "L3", ((1, 0x7),))])


@pytest.mark.parametrize("name", [HISTORY, INDEX])
def test_a_history_that_is_cut_off_anywhere_is_refused(
    case: Case, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """After each of its bytes, but for the end of its last line where nothing else is lost."""
    before, put = files(case), reading(monkeypatch, name)
    whole = len(before[name]) - (0 if name == HISTORY else 1)
    for length in range(whole):
        put(before[name][:length])
        with pytest.raises(DamagedJournalError) as caught:
            case.journal.history()
        assert caught.value.details
        assert "somebody else" not in " ".join(caught.value.details)
    assert files(case) == before
    put(before[name][:whole])
    assert len(case.journal.history()) == 2


def test_every_flipped_bit_of_an_entry_without_a_checksum_is_unverified_or_refused(
    case: Case,
) -> None:
    data = format_1(case.path(PENDING).read_text()).encode()
    refused = 0
    for flip in flips(data):
        try:
            entry = entry_of(PENDING, flip.decode("latin-1"))
        except DamagedJournalError:
            refused += 1
        else:
            assert not entry.verified
    assert refused > 4 * len(data), "strict types refuse more than half of all flips"


def test_what_a_damaged_entry_held_is_shown_as_far_as_it_can_be_read(
    case: Case, snapshot: SnapshotAssertion
) -> None:
    path = case.path(PENDING)
    text = path.read_text()
    path.write_text(text.replace('"time"', '"tame"').replace('"somebody"', '"some\x1bbody"'))
    with pytest.raises(DamagedJournalError) as caught:
        case.journal.pending()
    message = "\n".join(caught.value.details)
    assert wording(message, path.parent) == snapshot
    assert wording(notice(case.journal), path.parent) == snapshot
    doctor = check(case.journal)
    assert (doctor.reason, doctor.fix) == (Reason.ERROR, "sudo nftop recover")
    assert path.read_text() != text, "it is still there, as it is"


def sealed(**members: object) -> str:
    raw = json.loads(text_of(ONE))
    del raw["sha256"]
    return seal({**raw, **members})


def sealed_text(old: str, new: str) -> str:
    """An entry with other JSON in it and the right checksum of that."""
    line = text_of(ONE).partition(', "sha256"')[0] + "}"
    assert old in line
    return journal_line(line.replace(old, new))


def journal_line(body: str) -> str:
    """The format by hand, without the code that is tested."""
    digest = hashlib.sha256(body.encode()).hexdigest()
    return f'{body[:-1]}, "sha256": "{digest}"}}\n'


def mask(value: str, name: str = "L3") -> list[Any]:
    return [[["schemata", "a", name, 0], "f", value]]


MALFORMED: list[tuple[str, Damage]] = [
    (sealed_text('"number": 1', '"number": Infinity'), "number"),
    (sealed_text('"number": 1', '"number": NaN'), "number"),
    (sealed_text('"number": 1', '"number": 1e999'), "number"),
    (sealed_text('"number": 1', '"number": 1.0'), "number"),
    (sealed_text('"number": 1', f'"number": {"9" * 5000}'), "number"),
    (sealed_text('"number": 1', f'"number": {1 << 54}'), "number"),
    (sealed_text('"number": 1', '"number": 0'), "number"),
    (sealed_text('"number": 1', '"number": true'), "number"),
    (sealed_text('"number": 1', '"number": "1"'), "number"),
    (sealed_text('"number": 1', '"number": 1, "number": 2'), "member"),
    (sealed_text('"number": 1', '"numbed": 1'), "member"),
    (sealed_text('"number": 1', '"number": 1, "more": 2'), "member"),
    (sealed_text('"back": []', f'"back": {"[" * 100_000}{"]" * 100_000}'), "depth"),
    (sealed_text('"back": []', '"back": [[[[[]]]]]'), "syntax"),
    (sealed_text('"back": []', '"back": {}'), "syntax"),
    (sealed_text('"format": 2', '"format": 3'), "format"),
    (sealed(changes=mask("g")), "value"),
    (sealed(changes=mask("0xf")), "value"),
    (sealed(changes=mask("-f")), "value"),
    (sealed(changes=mask("f" * 17)), "value"),
    (sealed(changes=mask("f\n")), "value"),
    (sealed(changes=mask("5a", "MB")), "value"),
    (sealed(changes=mask(7)), "value"),  # type: ignore[arg-type]
    (sealed(changes=[[["schemata", "a", "L3", 1 << 40], "f", "f"]]), "number"),
    (sealed(changes=[[["schemata", "a", "L3", -1], "f", "f"]]), "number"),
    (sealed(changes=[[["nothing", "a", "L3", 0], "f", "f"]]), "value"),
    (sealed(changes=[[["task", "", "1@x", -1], "a", "b"]]), "value"),
    (sealed(base=[[["cpu", "", "", 1], "a"], [["cpu", "", "", 1], "b"]]), "value"),
    (sealed(outcome="done"), "value"),
    (sealed(outcome=[]), "value"),
    (sealed(done=1), "value"),
    (sealed(left=[1]), "value"),
    (sealed(undoes=[0]), "number"),
    ("[]\n", "syntax"),
    ("null\n", "syntax"),
    ("1\n", "syntax"),
    ("", "syntax"),
    ("\xe4\n", "syntax"),
    (text_of(ONE) + text_of(ONE), "checksum"),
    (text_of(ONE).replace('"cmd"', '"cmb"'), "checksum"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(MALFORMED)))
def test_what_an_entry_can_not_be_is_refused_with_the_reason(number: int) -> None:
    text, reason = MALFORMED[number]
    with pytest.raises(DamagedJournalError) as caught:
        entry_of("pending.json", text)
    # A line that has the seal of another within it may be no JSON at all.
    assert caught.value.reason in ({reason, "syntax"} if reason == "checksum" else {reason})


def test_a_file_that_is_too_long_is_not_read(case: Case) -> None:
    with case.path(PENDING).open("r+b") as file:
        file.truncate(1 << 40)
    with pytest.raises(DamagedJournalError) as caught:
        case.journal.pending()
    assert caught.value.reason == "size"


def test_a_change_that_could_not_be_read_again_is_not_begun(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(case)
    monkeypatch.setattr(journal_module, "MOST_BYTES", 100)
    with pytest.raises(OSError, match="too large to be written down"):
        case.journal.begin(ONE)
    assert files(case) == before


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=8,
)


@settings(deadline=None)
@given(st.sampled_from(sorted(json.loads(text_of(ONE)))), _JSON, st.booleans())
def test_a_member_of_any_type_is_read_or_refused(name: str, value: Any, is_sealed: bool) -> None:
    raw = {**json.loads(text_of(ONE)), name: value}
    raw.pop("sha256", None) if is_sealed or name != "sha256" else None
    text = seal(raw) if is_sealed else format_1(json.dumps(raw))
    try:
        entry = entry_of("pending.json", text)
    except DamagedJournalError as error:
        assert error.reason in ("number", "member", "value", "syntax", "format", "checksum")
    else:
        assert entry_of("pending.json", text_of(entry)) == entry


def test_a_change_that_an_earlier_nftop_kept_is_undone_and_marked(
    case: Case, snapshot: SnapshotAssertion
) -> None:
    case.path(PENDING).unlink()
    as_format_1(case)
    assert [item.verified for item in case.journal.history()] == [False, False]
    result = case.gate().propose_undo()
    assert result is not None
    proposal, numbers = result
    assert numbers == (2,)
    assert [warning for warning in proposal.warnings if warning.startswith("unverified: change 2:")]
    with case.journal.hold():
        _, entry = apply(case.host, case.journal, proposal, replace(REQUESTED, undoes=numbers))
        assert entry is not None
        assert keep(case.host, case.journal, entry).outcome == "kept"
    assert case.host.state()[Cell("cpu", "", number=3)] == "vpp"
    history = case.journal.history()
    assert [item.verified for item in history] == [False, False, True]
    assert [json.loads(change_json(element))["verified"] for element in history] == [
        False,
        False,
        True,
    ]
    assert check(case.journal).text == snapshot


def test_a_change_that_an_earlier_nftop_left_half_done_is_taken_back_and_marked(
    case: Case,
) -> None:
    before = case.journal.pending()
    assert before is not None
    as_format_1(case)
    receipt = recover(case.host, case.journal)
    assert receipt is not None
    assert receipt.outcome == "reverted"
    assert any(sentence.startswith("unverified: change 3:") for sentence in receipt.sentences)
    assert without_groups(case.host.state()) == without_groups(before.base)
    assert case.journal.pending() is None
    assert case.journal.history()[-1].verified is False, "it stays so when it is written again"


def without_groups(state: State) -> State:
    return {cell: value for cell, value in state.items() if cell.kind != "group"}


def read_by_format_1(text: str) -> Entry:
    """As nftop before format 2 read a line."""
    raw = json.loads(text)
    return Entry(
        number=int(raw["number"]),
        time=str(raw["time"]),
        identity=str(raw["identity"]),
        operator=str(raw["operator"]),
        command=str(raw["command"]),
        changes=changes_of(raw["changes"]),
        undoes=tuple(map(int, raw["undoes"])),
        leaves=tuple(map(int, raw.get("leaves", ()))),
        done=bool(raw.get("done")),
        outcome=raw["outcome"],
        base=state_of(raw["base"]),
        reverting=bool(raw["reverting"]),
        back=changes_of(raw["back"]),
        left=tuple(map(str, raw["left"])),
        remade=state_of(raw.get("remade", ())),
    )


def test_an_earlier_nftop_reads_what_this_one_writes(case: Case) -> None:
    assert read_by_format_1(case.path(PENDING).read_text()) == case.journal.pending()
    lines = case.path(HISTORY).read_text().splitlines()
    assert tuple(map(read_by_format_1, lines)) == case.journal.history()


def test_what_an_earlier_nftop_adds_to_the_history_is_read(case: Case) -> None:
    with case.path(HISTORY).open("a") as file:
        file.write(format_1(text_of(finished(replace(ONE, number=3), "kept"))))
    assert [item.verified for item in case.journal.history()] == [True, True, False]
    with case.journal.hold():
        case.journal.record(replace(ONE, number=4), "kept")
    assert [item.number for item in case.journal.history()] == [1, 2, 3, 4]
    assert json.loads(case.path(INDEX).read_text())["lines"] == 4


def test_a_crash_between_a_line_and_the_index_loses_nothing(case: Case) -> None:
    index = case.path(INDEX).read_bytes()
    with case.journal.hold():
        case.journal.record(replace(ONE, number=3), "kept")
        case.path(INDEX).write_bytes(index)
        assert len(case.journal.history()) == 3
        with case.path(HISTORY).open("ab") as file:
            file.write(b'{"format": 2, "num')
        assert len(case.journal.history()) == 3, "that line was never acknowledged"
        case.journal.record(replace(ONE, number=4), "kept")
    assert [item.number for item in case.journal.history()] == [1, 2, 3, 4]


def test_a_line_is_added_to_a_damaged_history_and_nothing_of_it_is_lost(case: Case) -> None:
    """Mending what a crash left adds a line; the index does not cover the damage up."""
    data = case.path(HISTORY).read_bytes()[:-40]
    case.path(HISTORY).write_bytes(data)
    index = case.path(INDEX).read_bytes()
    receipt = recover(case.host, case.journal)
    assert receipt is not None
    assert receipt.outcome == "reverted"
    assert any("is damaged" in sentence for sentence in receipt.sentences)
    assert case.path(HISTORY).read_bytes().startswith(data + b"\n")
    assert case.path(INDEX).read_bytes() == index
    assert [item.number for item in case.journal.known()[0]] == [1, 3]
    with pytest.raises(DamagedJournalError):
        case.journal.history()


def commands(error: DamagedJournalError) -> list[str]:
    """The commands of the details, in their order, as a shell without sudo takes them."""
    return re.findall(r"`sudo ([^`]*)`", "\n".join(error.details))


@pytest.mark.parametrize("bad", [(2,), (2, 4), (1, 2, 5, 6)])
@pytest.mark.parametrize("is_index_damaged", [False, True])
def test_the_commands_for_damaged_lines_leave_every_intact_entry(
    tmp_path: Path, bad: tuple[int, ...], is_index_damaged: bool
) -> None:
    journal = FileJournal(tmp_path / "with a blank; and 'quotes'" / "nftop")
    with journal.hold():
        for number in range(1, 7):
            journal.record(replace(ONE, number=number), "kept")
    path = journal.folder / HISTORY
    lines = path.read_text().split("\n")
    for number in bad:
        lines[number - 1] = "x" + lines[number - 1]
    path.write_text("\n".join(lines))
    if is_index_damaged:
        (journal.folder / INDEX).write_text("{}\n")
    with pytest.raises(DamagedJournalError) as caught:
        journal.history()
    assert sum("sed" in command for command in commands(caught.value)) == 1
    for command in commands(caught.value):
        subprocess.run(["sh", "-c", command], check=True)
    intact = [number for number in range(1, 7) if number not in bad]
    assert [entry.number for entry in journal.history()] == intact
    assert journal.known()[1] == ()


def as_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def as_link(path: Path) -> None:
    path.rename(path.with_suffix(".other"))
    path.symlink_to(path.with_suffix(".other"))


def as_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def as_long(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(1 << 40)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [(as_directory, "type"), (as_link, "type"), (as_pipe, "type"), (as_long, "size")],
)
def test_a_change_is_kept_though_the_index_became_unreadable(
    case: Case, spoil: Callable[[Path], None], reason: Damage
) -> None:
    entry = case.journal.pending()
    assert entry is not None
    history = case.path(HISTORY).read_bytes()
    spoil(case.path(INDEX))
    assert keep(case.host, case.journal, entry).outcome == "kept"
    assert case.journal.pending() is None
    assert case.path(HISTORY).read_bytes().startswith(history)
    entries, sentences = case.journal.known()
    assert ([item.number for item in entries], len(sentences)) == ([1, 2, 3], 1)
    with pytest.raises(DamagedJournalError) as caught:
        case.journal.history()
    assert caught.value.reason == reason


def test_a_line_that_could_not_be_read_again_is_not_added(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(case)
    monkeypatch.setattr(journal_module, "MOST_BYTES", 100)
    with pytest.raises(OSError, match="too large to be written down"):
        case.journal.record(ONE, "kept")
    assert files(case) == before
