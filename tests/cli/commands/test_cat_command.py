"""The commands that change classes, in this process: what they say and how they end."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.cli.commands import apply as change
from nftop.cli.commands import cat, cat_show, undo
from nftop.cli.compose import gates
from nftop.cli.main import build_parser
from nftop.cli.parsers.cat import shows
from nftop.control import gate as gate_module
from nftop.control import journal as journal_module
from nftop.control.backend import CLASSES, AbsentError
from nftop.control.backends import BACKENDS
from nftop.control.cpufreq.cpufreq import CPUFREQ, Cpufreq
from nftop.control.gate import BackendClassGate, HostGate
from nftop.control.guard_client import start_guard
from nftop.control.journal import FileJournal, Journal
from nftop.control.journal_entry import Requester
from nftop.control.recovery import revert
from nftop.control.transaction import apply, keep
from nftop.control.wording import GUARD_GOES_ON, GUARD_REVERTS
from nftop.model.change import Proposal, Receipt, SetSchemata
from nftop.model.rdt.rdt import ResctrlTable
from tests.command import wording
from tests.control.hosts import Disk, LabHost, lab_host, memory, without_births

SET = "cat set --group vpp --l3 0=3f0 --l3 1=f"
Typed = str | type[KeyboardInterrupt]


@dataclass
class Terminal:
    """What an operator types, line by line, and reads. `meanwhile` is done before a line."""

    typed: list[Typed]
    meanwhile: dict[int, Callable[[], object]] = field(default_factory=dict)
    out: io.StringIO = field(default_factory=io.StringIO)
    count: int = 0
    ready: int = -1

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return self.ready

    def readline(self) -> str:
        self.meanwhile.get(self.count, lambda: None)()
        line = self.typed[self.count] if self.count < len(self.typed) else ""
        self.count += 1
        if isinstance(line, str):
            return line
        raise line

    def write(self, text: str) -> int:
        return self.out.write(text)

    def flush(self) -> None:
        """Nothing waits."""


@dataclass
class NearPending:
    """A guard in this process. `interrupted_again`: Ctrl-C comes while it reverts the change."""

    host: LabHost
    journal: Journal
    requested: tuple[Receipt, object]
    interrupted_again: bool = False

    def __post_init__(self) -> None:
        self.receipt, self.entry = self.requested

    def settled(self, seconds: float) -> Receipt | None:
        assert seconds == 0
        return None

    def keep(self) -> Receipt:
        return keep(self.host, self.journal, self.entry)  # type: ignore[arg-type]

    def revert(self) -> Receipt:
        if self.interrupted_again:
            raise KeyboardInterrupt
        return revert(self.host, self.journal, self.entry)  # type: ignore[arg-type]


@dataclass
class CommandHost:
    """A host, its journal, and commands for them."""

    host: LabHost
    journal: Journal
    terminal: Terminal
    interrupted_again: bool = False

    def run(self, line: str, *typed: Typed) -> int:
        self.terminal.typed, self.terminal.count = list(typed), 0
        self.terminal.out.seek(0)
        self.terminal.out.truncate()
        options = build_parser().parse_args(line.split())
        subcommand = {"recover": "recovery"}.get(options.command, options.command)
        with pytest.MonkeyPatch.context() as patch:  # pytest puts its own back before a test
            for name in ("stdin", "stdout", "stderr"):
                patch.setattr(sys, name, self.terminal)
            if shows(options):
                return cat_show.cat_show(options)
            code: int = getattr(cat if subcommand == "cat" else undo, subcommand)(options)
        return code

    @property
    def text(self) -> str:
        return self.terminal.out.getvalue()


def no_frequencies() -> Cpufreq:
    raise AbsentError("this host has no cpufreq")


def without_checksum(line: str) -> str:
    """A line of the journal as nftop wrote it before lines had checksums."""
    raw = json.loads(line)
    for name in ("format", "verified", "offline", "sha256"):
        del raw[name]
    return json.dumps(raw) + "\n"


@pytest.fixture
def command_host(monkeypatch: pytest.MonkeyPatch) -> Iterator[CommandHost]:
    host = lab_host()
    for number, group in enumerate(("vpp", "ovs"), 1):
        host.lab.mkdir(f"/{group}")
        host.lab.echo(f"{number}-{number}", f"/{group}/cpus_list")
    readable, writable = os.pipe()
    os.write(writable, b"\n")
    terminal = Terminal([], ready=readable)
    result = CommandHost(host, memory(Disk()), terminal)

    class NearGate(BackendClassGate):
        def apply(
            self,
            proposal: Proposal,
            *,
            keep_within_s: float | None = 60.0,
            undoes: tuple[int, ...] = (),
        ) -> NearPending:
            done = apply(host, result.journal, proposal, Requester("me", undoes))
            pending = NearPending(host, result.journal, done, result.interrupted_again)
            if keep_within_s is None and done[1] is not None:
                pending.receipt = pending.keep()
            return pending

    def near_gate(host: LabHost) -> NearGate:
        return NearGate(host, result.journal, start_guard, "nftop")

    for module in (gate_module, gates):
        monkeypatch.setattr(module, "open_gate", near_gate)
    for module in (journal_module, undo, gates):
        monkeypatch.setattr(module, "FileJournal", lambda: result.journal)
    monkeypatch.setattr(gates, "open_classes", lambda: host)
    rows = {
        CLASSES: replace(BACKENDS[CLASSES], open=lambda: host),
        CPUFREQ: replace(BACKENDS[CPUFREQ], open=no_frequencies),
    }
    monkeypatch.setattr(gate_module, "BACKENDS", rows)
    monkeypatch.setattr(change, "missing_privilege", lambda: "")
    yield result
    os.close(readable)
    os.close(writable)


def test_ctrl_c_before_anything_is_done(
    command_host: CommandHost, snapshot: SnapshotAssertion
) -> None:
    before = command_host.host.state()
    assert command_host.run(SET, KeyboardInterrupt) == 130
    assert wording(command_host.text) == snapshot
    assert (command_host.host.state(), command_host.host.writes) == (before, 0)


def test_ctrl_c_before_keep_waits_until_it_is_taken_back(
    command_host: CommandHost, snapshot: SnapshotAssertion
) -> None:
    before = command_host.host.state()
    assert command_host.run(SET, "y\n", KeyboardInterrupt) == 130
    assert wording(command_host.text) == snapshot
    assert command_host.host.state() == before


def test_ctrl_c_twice_does_not_wait(command_host: CommandHost) -> None:
    command_host.interrupted_again = True
    assert command_host.run(SET, "y\n", KeyboardInterrupt) == 130
    assert command_host.text.endswith(f"nftop: {GUARD_REVERTS}\n")


@pytest.mark.parametrize(("typed", "code"), [((), 1), (("n\n",), 1), (("y\n",), 5)])
def test_the_end_of_input_is_a_no(
    command_host: CommandHost, typed: tuple[str, ...], code: int
) -> None:
    before = command_host.host.state()
    assert command_host.run(SET, *typed) == code
    assert command_host.host.state() == before
    assert command_host.text.endswith("\n")


def test_what_somebody_changes_before_keep_is_reported(
    command_host: CommandHost, snapshot: SnapshotAssertion
) -> None:
    command_host.terminal.meanwhile[1] = lambda: command_host.host.lab.echo(
        "L3:0=1", "/vpp/schemata"
    )
    assert command_host.run(SET, "y\n", "y\n") == 5
    assert wording(command_host.text) == snapshot
    assert command_host.journal.history()[-1].outcome == "kept"


def test_undo_of_the_newest_change_is_final_after_one_yes(
    command_host: CommandHost, snapshot: SnapshotAssertion
) -> None:
    before = command_host.host.state()
    command_host.run(f"{SET} --yes")
    assert command_host.run("undo --keep-within 5", "y\n") == 0
    assert command_host.terminal.count == 1, "one question"
    assert wording(command_host.text) == snapshot
    assert command_host.host.state() == before
    last = command_host.journal.history()[-1]
    assert (last.outcome, last.undoes) == ("kept", (1,))
    assert command_host.run("undo") == 0
    assert wording(command_host.text) == snapshot


@pytest.mark.parametrize("lost", [False, True])
def test_the_history_has_by_which_change_one_was_undone(
    command_host: CommandHost, lost: bool
) -> None:
    command_host.run("cat set --group vpp --l3 0=3 --l3 1=3 --yes")
    command_host.run("cat set --group ovs --l3 0=f --yes")
    command_host.run("undo --yes")
    if lost:  # another program has a word in half of the first
        command_host.host.lab.echo("L3:0=1", "/vpp/schemata")
    command_host.run("undo --past --yes")
    command_host.run("history --json")
    rows = [json.loads(text) for text in command_host.text.splitlines() if text.startswith("{")]
    assert [row["undone_by"] for row in rows] == [4, 3, None, None]
    assert [row["undone_in_part"] for row in rows] == [lost, False, False, False]
    command_host.run("history")
    lines = command_host.text.splitlines()
    assert f"(undone{' in part' * lost} by 4)" in lines[0] and "(undone by 3)" in lines[1]
    assert not any("undone" in text for text in lines[2:])


def test_undo_of_an_older_change_prompts_whether_to_keep_it(
    command_host: CommandHost, snapshot: SnapshotAssertion
) -> None:
    command_host.run("cat set --group ovs --l3 0=3 --yes")
    command_host.run("cat set --group vpp --l3 0=f --yes")
    command_host.host.lab.echo("L3:0=1", "/vpp/schemata")
    assert command_host.run("undo --past --keep-within 5", "y\n", "n\n") == 5
    assert command_host.terminal.count == 2
    assert wording(command_host.text) == snapshot
    assert command_host.host.lab.state.groups["ovs"].values["L3"][0] == 3


def test_ctrl_c_while_a_final_undo_is_done_does_not_stop_it(
    command_host: CommandHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    command_host.run(f"{SET} --yes")
    real = gates.open_gate  # type: ignore[attr-defined]
    kind = type(real(command_host.host))
    of_guard: Callable[..., object] = kind.apply

    def interrupted(*arguments: object, **options: object) -> None:
        of_guard(*arguments, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(kind, "apply", interrupted)
    assert command_host.run("undo", "y\n") == 130
    assert GUARD_GOES_ON in command_host.text


def test_undo_is_no_way_back_where_nothing_of_a_change_is_left(
    command_host: CommandHost, snapshot: SnapshotAssertion
) -> None:
    command_host.terminal.meanwhile[1] = lambda: command_host.host.lab.echo(
        "L3:0=f", "/vpp/schemata"
    )
    assert command_host.run("cat set --group vpp --l3 0=3", "y\n", "y\n") == 5
    assert wording(command_host.text) == snapshot


def test_what_is_requested_and_kept_is_fine(
    command_host: CommandHost, snapshot: SnapshotAssertion
) -> None:
    assert command_host.run(SET, "y\n", "y\n") == 0
    assert wording(command_host.text) == snapshot
    assert command_host.run(f"{SET} --yes") == 0
    assert wording(command_host.text) == snapshot
    assert command_host.run("cat reset --yes") == 0
    assert command_host.run("undo") == 0
    assert wording(command_host.text) == snapshot


@pytest.mark.parametrize("command", ["undo", "cat reset"])
def test_an_undo_that_leaves_all_alone_is_not_as_requested(
    command_host: CommandHost, command: str, snapshot: SnapshotAssertion
) -> None:
    command_host.run(f"{SET} --yes")
    command_host.host.lab.echo("L3:0=1;1=1", "/vpp/schemata")
    count = command_host.host.writes
    assert command_host.run(f"{command} --yes") == 5
    assert wording(command_host.text) == snapshot
    assert command_host.host.writes == count


@pytest.mark.parametrize("command", ["undo", "cat reset"])
def test_an_undo_that_skips_one_backend_does_the_others(
    command_host: CommandHost, command: str, snapshot: SnapshotAssertion
) -> None:
    command_host.run(f"{SET} --yes")
    command_host.host.lab.echo("L3:0=1", "/vpp/schemata")
    assert command_host.run(f"{command} --yes") == 5
    assert wording(command_host.text) == snapshot
    assert command_host.host.lab.state.groups["vpp"].values["L3"] == {0: 1, 1: 0x7FF}


def test_an_older_change_is_not_taken_back_past_one_that_was_overwritten(
    command_host: CommandHost, snapshot: SnapshotAssertion
) -> None:
    command_host.run("cat set --group ovs --l3 0=3 --yes")
    command_host.run("cat set --group vpp --l3 0=f --yes")
    command_host.host.lab.echo("L3:0=1", "/vpp/schemata")
    count = command_host.host.writes
    for _ in range(2):
        assert command_host.run("undo --yes") == 5
        assert wording(command_host.text) == snapshot
    assert command_host.host.writes == count
    assert command_host.run("undo --past --yes") == 5
    assert wording(command_host.text) == snapshot
    assert command_host.host.lab.state.groups["ovs"].values["L3"][0] == 0x7FF
    assert command_host.run("history") == 0
    assert wording(command_host.text) == snapshot
    command_host.run("cat set --group ovs --l3 0=3 --yes")
    assert (
        command_host.run("undo --yes") == 0
    )  # what was passed over knowingly is no obstacle to others
    assert command_host.run("undo --yes") == 5
    command_host.host.lab.echo("L3:0=f", "/vpp/schemata")
    assert command_host.run("undo --yes") == 0  # it can be had now
    assert command_host.host.lab.state.groups["vpp"].values["L3"][0] == 0x7FF
    assert command_host.run("undo") == 0
    assert wording(command_host.text) == snapshot


def test_what_was_taken_back_partly_is_called_so_and_tried_again(
    command_host: CommandHost, snapshot: SnapshotAssertion
) -> None:
    command_host.run("cat set --group ovs --l3 0=3 --yes")
    command_host.run(f"{SET} --yes")
    command_host.host.lab.echo("L3:0=1", "/vpp/schemata")
    assert command_host.run("undo --yes") == 5
    command_host.run("history")
    assert wording(command_host.text) == snapshot
    command_host.run("history --json")
    last = json.loads(command_host.text.splitlines()[-1])
    assert (last["undoes"], last["leaves"]) == ([2], [2])
    assert last["left"] == snapshot
    assert command_host.run("undo --dry-run") == 0
    assert wording(command_host.text) == snapshot
    command_host.host.lab.echo("L3:0=3f0", "/vpp/schemata")
    assert command_host.run("undo --yes") == 0
    assert command_host.host.lab.state.groups["vpp"].values["L3"] == {0: 0x7FF, 1: 0x7FF}
    assert command_host.host.lab.state.groups["ovs"].values["L3"][0] == 3
    assert command_host.run("undo --yes") == 0
    assert command_host.host.lab.state.groups["ovs"].values["L3"][0] == 0x7FF


def test_what_was_cut_off_is_reported_where_classes_and_changes_are_shown(
    command_host: CommandHost, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    nothing = ResctrlTable(groups=(), domains=())
    monkeypatch.setattr(cat_show, "table_of", lambda _, metered: nothing)
    command_host.run(f"{SET} --yes")
    assert command_host.run("cat show --json") == 0
    assert json.loads(command_host.text)["unfinished"] is None
    gate = BackendClassGate(command_host.host, command_host.journal, start_guard, "nftop")
    wish = gate.propose([SetSchemata("vpp", "L3", ((0, 1),))], ("nftop cat set",))
    apply(gate.host, gate.journal, wish, Requester("me"))
    assert command_host.run("cat show --json") == 0
    message = json.loads(command_host.text)["unfinished"]
    assert message == snapshot
    assert command_host.run("cat show") == 0
    assert command_host.text.startswith(f"{message}\n\n")
    assert command_host.run("history") == 0
    assert command_host.text.endswith(f"\n{message}\n")
    assert command_host.run("history --json") == 0
    first, last = map(json.loads, command_host.text.splitlines())
    assert (first["outcome"], first["unfinished"]) == ("kept", None)
    assert (last["number"], last["outcome"], last["unfinished"]) == (2, None, message)


def test_recover_reports_which_change_an_undo_that_was_cut_off_leaves(
    command_host: CommandHost, snapshot: SnapshotAssertion
) -> None:
    command_host.run(f"{SET} --yes")
    gate = BackendClassGate(command_host.host, command_host.journal, start_guard, "nftop")
    planned = gate.propose_undo()
    assert planned is not None
    apply(gate.host, gate.journal, planned[0], Requester("me", planned[1]))
    assert command_host.run("recover", "n\n") == 1
    assert wording(command_host.text) == snapshot


def test_a_section_that_a_reset_left_is_tried_again(
    command_host: CommandHost, snapshot: SnapshotAssertion
) -> None:
    command_host.run(f"{SET} --yes")
    command_host.host.lab.echo("L3:0=1", "/vpp/schemata")
    assert command_host.run("cat reset --yes") == 5
    assert command_host.run("history") == 0
    assert wording(command_host.text) == snapshot
    command_host.host.lab.echo("L3:0=3f0", "/vpp/schemata")
    assert command_host.run("undo --yes") == 0
    assert command_host.host.lab.state.groups["vpp"].values["L3"] == {0: 0x7FF, 1: 0x7FF}


def test_a_cpu_that_is_offline_is_called_so(
    command_host: CommandHost, snapshot: SnapshotAssertion
) -> None:
    command_host.run("cat move --group ovs --cpus 1,3 --yes")
    command_host.host.lab.state.groups["ovs"].cpus.discard(1)  # as the kernel does
    assert command_host.run("undo --yes") == 5
    assert wording(command_host.text) == snapshot
    command_host.terminal.meanwhile[0] = lambda: command_host.host.lab.state.groups[
        "ovs"
    ].cpus.discard(2)
    assert command_host.run("cat move --group vpp --cpus 2", "y\n") == 5
    assert wording(command_host.text) == snapshot


def test_a_group_recreated_since_the_preview_is_no_number(
    command_host: CommandHost, snapshot: SnapshotAssertion
) -> None:
    def again() -> None:
        command_host.host.lab.rmdir("/vpp")
        command_host.host.lab.mkdir("/vpp")
        command_host.host.lab.echo("1", "/vpp/cpus_list")

    command_host.terminal.meanwhile[0] = again
    assert command_host.run(SET, "y\n") == 5
    assert wording(command_host.text) == snapshot


@pytest.mark.parametrize(
    "line",
    [
        "cat set --group nobody --l3 0=1",
        "cat move --group vpp --tasks 4194305",
        "cat move --group vpp --cpus 99",
        "cat set --group vpp --mba 0=unlimited",
    ],
)
def test_what_is_not_here_ends_all_alike(
    command_host: CommandHost, line: str, snapshot: SnapshotAssertion
) -> None:
    assert command_host.run(f"{line} --yes") == 1
    assert wording(command_host.text) == snapshot


@pytest.mark.parametrize("line", ["undo --yes", "recover --yes", "history", "cat reset --yes"])
def test_a_journal_that_can_not_be_read_is_not_an_empty_one(
    command_host: CommandHost, tmp_path: Path, line: str, snapshot: SnapshotAssertion
) -> None:
    before = without_births(command_host.host.state())
    for name in ("open", "file"):
        command_host.journal = FileJournal(tmp_path / name)
        if name == "open":
            (tmp_path / name).mkdir(mode=0o755)
        else:
            (tmp_path / name).write_text("")
        assert command_host.run(line) == 1
        assert wording(command_host.text, tmp_path) == snapshot
    command_host.journal = FileJournal(tmp_path / "damaged")
    with command_host.journal.hold():
        for name in ("history.jsonl", "pending.json"):
            (tmp_path / "damaged" / name).write_text("{}\n")
    assert command_host.run(line) == 1
    assert wording(command_host.text, tmp_path) == snapshot
    assert without_births(command_host.host.state()) == before


def test_undo_on_a_host_that_can_not_be_changed_matters_only_after_a_change(
    command_host: CommandHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(_: object) -> HostGate:
        raise AbsentError("this kernel has no resctrl")

    monkeypatch.setattr(gates, "whole_gate", absent)
    assert command_host.run("undo --yes") == 0
    assert "no resctrl" not in command_host.text
    assert command_host.run(f"{SET} --yes") == 0
    assert command_host.run("undo --yes") == 1
    assert "no resctrl" in command_host.text


def test_recover_and_history_report_what_is_damaged_and_how_to_go_on(
    command_host: CommandHost, tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    journal = FileJournal(tmp_path / "nftop")
    command_host.journal = journal
    with journal.hold():
        assert command_host.run(f"{SET} --yes") == 0
        assert command_host.run(f"{SET.replace('3f0', '30')} --yes") == 0
    history = journal.folder / "history.jsonl"
    whole = history.read_bytes()
    history.write_bytes(whole.replace(b'"number": 1', b'"number": 3'))
    damaged = history.read_bytes()
    for line, code in (("recover --yes", 1), ("history", 1), ("undo --yes", 1)):
        assert command_host.run(line) == code
        assert wording(command_host.text, tmp_path) == snapshot
    assert history.read_bytes() == damaged
    history.write_bytes(whole)
    assert command_host.run("history") == 0
    with journal.hold():
        journal.begin(journal.history()[0])
    pending = journal.folder / "pending.json"
    pending.write_bytes(pending.read_bytes()[:-9])
    for line in ("recover --yes", "history", "undo --yes", f"{SET} --yes"):
        assert command_host.run(line) == 1
        assert wording(command_host.text, tmp_path) == snapshot
    assert pending.exists()


def test_what_has_no_checksum_is_undone_and_marked(
    command_host: CommandHost, tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    journal = FileJournal(tmp_path / "nftop")
    command_host.journal, before = journal, command_host.host.state()
    with journal.hold():
        assert command_host.run(f"{SET} --yes") == 0
        history = journal.folder / "history.jsonl"
        history.write_text(without_checksum(history.read_text()))
        (journal.folder / "index.json").unlink()
        assert command_host.run("undo --yes") == 0
    assert wording(command_host.text) == snapshot
    assert command_host.host.state() == before
    assert command_host.run("history") == 0
    assert wording(command_host.text) == snapshot
    assert command_host.run("history --json") == 0
    rows = [json.loads(line) for line in command_host.text.splitlines()]
    assert [row["verified"] for row in rows] == [False, True]


def test_after_a_new_mount_it_is_reported_that_nothing_is_left(
    command_host: CommandHost, snapshot: SnapshotAssertion
) -> None:
    assert command_host.run(f"{SET} --yes") == 0
    command_host.host.identity = "a-boot 8:1"
    count = command_host.host.writes
    assert command_host.run("undo --yes") == 0
    assert wording(command_host.text) == snapshot
    assert command_host.host.writes == count


def test_a_profile_without_a_request_is_an_error(
    command_host: CommandHost, tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    for name, text in (("none.conf", ""), ("none.toml", 'schema = "nftop.profile/1"\n')):
        file = tmp_path / name
        file.write_text(text)
        assert command_host.run(f"cat import {file} --yes") == 1
        assert wording(command_host.text, tmp_path) == snapshot


def test_the_form_of_a_profile_is_what_its_text_reports(
    command_host: CommandHost, tmp_path: Path
) -> None:
    toml = 'schema = "nftop.profile/1"\n[[class]]\ngroup = "vpp"\nl3 = "3f"\n'
    for name, text in (
        ("vpp.conf", f"# not pqos\n\n{toml}"),
        ("vpp", f"# as alloc-class-set of pqos\n{toml}"),
        ("pqos.conf", "# nftop: COS 1 is group vpp\nalloc-class-set: llc:1=0x3f\n"),
    ):
        (tmp_path / name).write_text(text)
        assert command_host.run(f"cat import {tmp_path / name} --dry-run") == 0
        assert "vpp L3 0" in command_host.text


def test_nothing_is_changed_while_something_is_cut_off(
    command_host: CommandHost, tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    """Neither is it taken back by itself: `nftop recover` is for an operator to give."""
    command_host.run("cat create --group nftop.a --yes")
    gate = BackendClassGate(command_host.host, command_host.journal, start_guard, "nftop")
    _, entry = apply(
        command_host.host,
        command_host.journal,
        gate.propose([SetSchemata("vpp", "L3", ((0, 1),))]),
        Requester("me"),
    )
    assert entry is not None
    profile = tmp_path / "profile.toml"
    profile.write_text("")
    count = command_host.host.writes
    for line in (
        SET,
        "cat move --group vpp --cpus 3",
        "cat create --group nftop.b",
        "cat remove --group nftop.a",
        "cat reset",
        "undo",
        f"cat import {profile}",
    ):
        assert command_host.run(f"{line} --yes") == 1
        assert wording(command_host.text) == snapshot
    assert command_host.host.writes == count
