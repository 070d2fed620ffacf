"""Series of settings: whoever dies, and whoever else writes, what was there before is restored."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from nftop.control import series
from nftop.control.backend import goal
from nftop.control.journal_entry import (
    Entry,
    Requester,
    proposal_of,
    series_request,
    settings_of,
)
from nftop.control.recovery import recover
from nftop.control.resctrl.plan import propose
from nftop.control.series import ALIVE, END, serve_series
from nftop.model.change import (
    Action,
    Cell,
    Change,
    CreateMonitor,
    Proposal,
    ReasonCode,
    Receipt,
    SetSchemata,
    State,
    difference,
)
from nftop.model.ids import Cpu
from nftop.model.struct import replace
from tests.control.hosts import (
    Death,
    Disk,
    KilledError,
    LabHost,
    Stubborn,
    lab_host,
    memory,
    mortal,
    without_births,
)
from tests.lab.resctrl import profile

REQUESTER = Requester("somebody")
KERNELS = pytest.mark.parametrize("kernel", profile.kernels())
CDP = pytest.mark.parametrize("options", [(), ("cdp",)], ids=["", "cdp"])
MASKS = (0x1, 0x3, 0x7, 0xF, 0x1F)
ORDER = (3, 0, 4, 1, 2)


def furnished(kernel: str = "7.2", *options: str) -> LabHost:
    """Two classes on a host of two sockets."""
    host = lab_host(kernel, *options)
    line = "L3DATA" if options else "L3"
    for name, cpus, mask in (("vpp", "1-3", "f0"), ("tenant", "4,5", "fe")):
        host.lab.mkdir(f"/{name}")
        host.lab.echo(cpus, f"/{name}/cpus_list")
        host.lab.echo(f"{line}:0={mask};1=1f", f"/{name}/schemata")
    return host


@dataclass(frozen=True)
class Wish:
    """Masks of `tenant` in both caches, as a plan of a sweep has them."""

    proposal: Proposal
    settings: tuple[tuple[Change, ...], ...]


def wished(host: LabHost) -> Wish:
    state = host.state()
    lines = sorted({cell.name for cell in state if cell.name.startswith("L3")})
    settings = tuple(
        propose(
            state,
            host.rules(),
            [SetSchemata("tenant", line, ((0, mask), (1, mask << 2))) for line in lines],
        ).changes
        for mask in MASKS
    )
    every = tuple(change for changes in settings for change in changes)
    proposal = Proposal(state, every, commands=("nftop cat sweep",), identity=host.identity)
    return Wish(proposal, settings)


@dataclass
class Client:
    """What nftop says, word for word, and what it hears; `before`: done before a word."""

    words: Sequence[bytes | None] = (*(f"try {n}".encode() for n in ORDER), END)
    before: Mapping[int, Callable[[], object]] = field(default_factory=dict)
    receipts: list[Receipt] = field(default_factory=list)
    spoken: int = 0

    def word(self, seconds: float) -> bytes | None:
        self.before.get(self.spoken, lambda: None)()
        self.spoken += 1
        return self.words[self.spoken - 1] if self.spoken <= len(self.words) else b""

    def answer(self, receipt: Receipt | None) -> None:
        assert receipt is not None
        self.receipts.append(receipt)

    def run(self, host: LabHost, disk: Disk, wish: Wish | None = None) -> Receipt:
        wish = wish or wished(host)
        serve_series(
            host,
            memory(disk),
            wish.proposal,
            wish.settings,
            REQUESTER,
            answer=self.answer,
            word=self.word,
        )
        return self.receipts[-1]


def history(disk: Disk) -> list[Entry]:
    return list(memory(disk).history())


@KERNELS
@CDP
def test_every_setting_is_on_the_host_in_turn_and_then_none(
    kernel: str, options: tuple[str, ...]
) -> None:
    host, disk, states = furnished(kernel, *options), Disk(), list[State]()
    before, wish = host.state(), wished(host)
    after = {n: lambda: states.append(host.state()) for n in range(1, len(ORDER) + 1)}
    client = Client(before=after)
    assert client.run(host, disk).outcome == "reverted"
    assert [item.outcome for item in client.receipts[:-1]] == ["applied"] * 6
    assert states == [goal(before, wish.settings[n]) for n in ORDER]
    assert host.state() == before
    [entry] = history(disk)
    assert (entry.outcome, entry.command, entry.operator) == (
        "reverted",
        "nftop cat sweep",
        "somebody",
    )
    assert disk.pending is None


def test_nothing_is_written_before_the_first_word() -> None:
    host, disk = furnished(), Disk()
    writes, written = host.writes, list[int]()
    client = Client(words=[END], before={0: lambda: written.append(host.writes - writes)})
    assert client.run(host, disk).outcome == "reverted"
    assert written == [0]
    assert host.writes == writes
    assert client.receipts[0].changes == ()


def test_the_journal_has_every_value_before_the_first_write() -> None:
    host, disk = furnished(), Disk()
    entries = list[Entry | None]()
    client = Client(before={0: lambda: entries.append(memory(disk).pending())})
    client.run(host, disk)
    [entry] = entries
    assert entry is not None
    masks = {change.new for change in entry.changes if change.cell.number == 0}
    assert masks == {f"{mask:x}" for mask in MASKS}
    assert entry.base == host.state()


def deaths() -> Iterator[Death]:
    return (Death(at, late=late) for at in itertools.count() for late in (False, True))


@KERNELS
@CDP
def test_the_guard_is_killed_at_every_step(kernel: str, options: tuple[str, ...]) -> None:
    """Before and after each write of the host and of the journal; then `nftop recover`."""
    count = 0
    for death in deaths():
        host, disk = furnished(kernel, *options), Disk()
        before, wish = host.state(), wished(host)
        victim, journal = mortal(host, disk, death)
        client = Client()
        try:
            serve_series(
                victim,
                journal,
                wish.proposal,
                wish.settings,
                REQUESTER,
                answer=client.answer,
                word=client.word,
            )
            break
        except KilledError:
            count += 1
        receipt = recover(host, memory(disk))
        assert host.state() == before
        assert memory(disk).pending() is None
        outcomes = [entry.outcome for entry in history(disk)]
        assert outcomes in ([], ["reverted"])
        assert outcomes or receipt is None or count <= 2
    # Two entries of the journal, five settings, the restoring one, the history, the end.
    assert count >= 2 * (2 + len(ORDER) + 1 + 2)


@KERNELS
@pytest.mark.parametrize("at", range(1, len(ORDER) + 1))
@pytest.mark.parametrize("where", ["vpp", "tenant", "cpus", "group"])
def test_somebody_else_writes(kernel: str, at: int, where: str) -> None:
    """Before each setting, and before the end: it ends, and nothing of his is undone."""
    host, disk = furnished(kernel), Disk()
    before = host.state()

    def write() -> None:
        if where == "cpus":
            host.lab.echo("1-2", "/vpp/cpus_list")
        elif where == "group":
            host.lab.mkdir("/other")
        else:
            host.lab.echo("L3:0=7c0", f"/{where}/schemata")

    client = Client(before={at: write})
    receipt = client.run(host, disk)
    state = without_births(host.state())
    cell = Cell("schemata", where, "L3", 0)
    if where == "tenant":
        assert receipt.outcome == "overwritten"
        assert state == {**without_births(before), cell: "7c0"}
    elif where == "vpp":
        assert state == {**without_births(before), cell: "7c0"}
    else:
        other = difference(without_births(before), state)
        assert other
        assert not any(change.cell.group == "tenant" for change in other)
    # Where it is his last word, the end finds it; else the next setting is refused.
    tries = [item.outcome for item in client.receipts[1:-1]]
    assert tries == ["applied"] * at
    assert disk.pending is None


@pytest.mark.parametrize("forgets", [False, True])
@pytest.mark.parametrize("at", range(1, 6))
def test_a_write_that_fails_or_does_not_last_restores(at: int, forgets: bool) -> None:
    own = furnished()
    before = own.state()
    host, disk = Stubborn(own.lab, identity=own.identity, at=at - 1, forgets=forgets), Disk()
    receipt = Client().run(host, disk, wished(own))
    differs, refused = ReasonCode.VALUE_DIFFERS, ReasonCode.WRITE_REFUSED
    expected = ("differs", differs) if forgets else ("refused", refused)
    assert (receipt.outcome, receipt.code) == expected
    assert own.state() == before
    assert disk.pending is None


def test_a_closed_channel_restores() -> None:
    host, disk = furnished(), Disk()
    before = host.state()
    client = Client(words=[b"try 2", b""])
    assert client.run(host, disk).outcome == "reverted"
    assert host.state() == before


def test_silence_restores(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("nftop.control.series.time.monotonic", lambda: now[0])
    host, disk = furnished(), Disk()
    before = host.state()

    def pass_by() -> None:
        now[0] += series.CHECK_S

    words = [b"try 1", ALIVE, *[None] * 20]
    client = Client(words, dict.fromkeys(range(len(words)), pass_by))
    receipt = client.run(host, disk)
    assert (receipt.outcome, receipt.code) == ("reverted", ReasonCode.CLIENT_SILENT)
    assert host.state() == before
    # After the last word it waited for as long as it is patient, and not much longer.
    quiet_s = (client.spoken - 2) * series.CHECK_S
    assert series.SILENCE_S <= quiet_s <= series.SILENCE_S + 2 * series.CHECK_S


def test_a_guard_that_did_not_run_for_a_while_hears_later_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One wait that takes a minute: the machine was stopped, and nftop with it."""
    now = [0.0]
    monkeypatch.setattr("nftop.control.series.time.monotonic", lambda: now[0])

    def stopped() -> None:
        now[0] += 60

    host, disk = furnished(), Disk()
    client = Client([b"try 1", None, ALIVE, b"try 2", END], {1: stopped})
    assert client.run(host, disk).outcome == "reverted"
    assert [item.outcome for item in client.receipts] == [*["applied"] * 3, "reverted"]


@pytest.mark.parametrize("word", [b"try 99", b"try x", b"keep", b"nonsense"])
def test_a_word_that_it_does_not_know_restores(word: bytes) -> None:
    host, disk = furnished(), Disk()
    before = host.state()
    client = Client(words=[b"try 2", word])
    assert client.run(host, disk).outcome in ("reverted", "refused")
    assert host.state() == before
    assert len(client.receipts) == 3


def test_another_state_than_in_the_plan_begins_nothing() -> None:
    host, disk = furnished(), Disk()
    wish = wished(host)
    host.lab.echo("L3:0=7c0", "/vpp/schemata")
    client = Client()
    assert client.run(host, disk, wish).outcome == "conflict"
    assert client.spoken == 0
    assert (disk.pending, disk.history) == (None, [])


@pytest.mark.parametrize("lacks", ["settings", "changes"])
def test_settings_that_the_journal_does_not_have_begin_nothing(lacks: str) -> None:
    host, disk = furnished(), Disk()
    wish = wished(host)
    before = host.state()
    if lacks == "settings":
        wish = Wish(wish.proposal, ())
    else:
        wish = Wish(replace(wish.proposal, changes=wish.settings[0]), wish.settings)
    client = Client()
    receipt = client.run(host, disk, wish)
    assert (receipt.outcome, receipt.code) == ("refused", ReasonCode.SETTING_INVALID)
    assert (client.spoken, disk.pending, host.state()) == (0, None, before)


def test_it_begins_nothing_while_a_change_waits_to_be_recovered() -> None:
    host, disk = furnished(), Disk()
    wish = wished(host)
    memory(disk).begin(Entry(1, "now", host.identity, "root", "", wish.settings[0]))
    client = Client()
    assert client.run(host, disk, wish).outcome == "refused"
    assert client.spoken == 0


def test_a_lock_that_another_program_holds_ends_it() -> None:
    host, disk = furnished(), Disk()
    before = host.state()
    held = {1: lambda: setattr(host, "locked_by", "pqos")}
    words = [b"try 2", b"try 3"]
    client = Client(words, held)

    def later(_limit_s: float, attempt: Callable[[], Receipt]) -> Receipt:
        host.locked_by = None  # it is free again before the first value is restored
        return attempt()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(series, "retry", later)
        receipt = client.run(host, disk)
    assert (receipt.outcome, receipt.code) == ("reverted", ReasonCode.LOCK_HELD)
    assert "pqos" in receipt.sentences[0]
    assert "nothing was written" not in " ".join(receipt.sentences)
    assert host.state() == before


def test_the_guard_hears_all_of_a_series() -> None:
    host = furnished()
    wish = wished(host)
    raw = series_request(wish.proposal, wish.settings, REQUESTER, Path("/var/lib/nftop"))
    assert settings_of(raw) == wish.settings
    assert replace(proposal_of(raw), commands=wish.proposal.commands) == wish.proposal


def with_monitors(host: LabHost) -> Wish:
    """As `wished`, every setting with monitoring groups of a CPU and of a thread."""
    if Cell("group", "vpp") in host.state():
        host.lab.echo("101", "/tenant/tasks")
    rules = replace(host.rules(), tasks=host.tasks((), [101]))
    actions: list[Action] = [
        CreateMonitor("vpp", "nftop.a", (Cpu(2),)),
        CreateMonitor("tenant", "nftop.b", (), (101,)),
    ]
    proposals = [
        propose(host.state(), rules, [*actions, SetSchemata("tenant", "L3", ((0, mask),))])
        for mask in MASKS
    ]
    assert not any(item.refusals for item in proposals)
    settings = tuple(item.changes for item in proposals)
    every = tuple(dict.fromkeys(change for changes in settings for change in changes))
    proposal = Proposal(proposals[0].base, every, identity=host.identity)
    return Wish(proposal, settings)


def test_monitoring_groups_of_every_setting_are_created_once_and_removed() -> None:
    host, disk = furnished(), Disk()
    wish = with_monitors(host)
    tasks = [cell for cell in wish.proposal.base if cell.kind == "task"]
    before, serials = host.state(tasks), list[str]()

    def observe() -> None:
        state = host.state(tasks)
        serials.append(state[Cell("monitor", "vpp", "nftop.a")])
        assert state[tasks[0]] == "tenant/nftop.b"

    client = Client(before=dict.fromkeys(range(1, len(ORDER) + 1), observe))
    assert client.run(host, disk, wish).outcome == "reverted"
    assert [item.outcome for item in client.receipts[:-1]] == ["applied"] * 6
    assert len(serials) == len(ORDER) and len(set(serials)) == 1
    assert host.state(tasks) == before


def test_a_thread_that_ends_meanwhile_does_not_end_the_series() -> None:
    host, disk = furnished(), Disk()
    wish = with_monitors(host)
    client = Client(before={2: lambda: host.lab.people.by_id.pop(101)})
    assert client.run(host, disk, wish).outcome == "reverted"
    assert [item.outcome for item in client.receipts[:-1]] == ["applied"] * 6
    assert [cell for cell in host.state() if cell.kind == "monitor"] == []


def test_the_guard_of_monitoring_groups_is_killed_at_every_step() -> None:
    count = 0
    for death in deaths():
        host, disk = furnished(), Disk()
        wish = with_monitors(host)
        tasks = [cell for cell in wish.proposal.base if cell.kind == "task"]
        before = host.state(tasks)
        victim, journal = mortal(host, disk, death)
        client = Client()
        try:
            serve_series(
                victim,
                journal,
                wish.proposal,
                wish.settings,
                REQUESTER,
                answer=client.answer,
                word=client.word,
            )
            break
        except KilledError:
            count += 1
        recover(host, memory(disk))
        assert without_births(host.state(tasks)) == without_births(before)
        assert memory(disk).pending() is None
    # Two groups, a CPU's, a thread's, five masks, and all of it back.
    assert count >= 2 * (4 + len(ORDER) + 4)
