"""The editor of cache classes: every key, no write without its confirmation, none left behind."""

from __future__ import annotations

import random
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.control.profile.pqos_config import parse
from nftop.control.resctrl import draft as drafts
from nftop.control.resctrl.plan import propose
from nftop.control.rules import Rules
from nftop.model.change import Cell, Receipt, State
from nftop.ui.keys import CONFIRM, EDITOR
from nftop.ui.options import Options
from nftop.ui.screens.confirm import ConfirmScreen, PlanReady
from nftop.ui.screens.editor import EditorScreen
from tests.frames import frame
from tests.ui.gates import MemoryGate, frame_at, open_gate
from tests.ui.harness import Running, running
from tests.waiting import until

VPP = Cell("schemata", "vpp", "L3", 0)


@asynccontextmanager
async def edited(
    gate: MemoryGate,
    *keys: str,
    size: tuple[int, int] = (80, 24),
    rw: bool = True,
    **options: object,
) -> AsyncIterator[Running]:
    """The application with the editor up and these keys pressed; VPP is selected."""
    drawn = Options(gate=gate, rw=rw, **options)  # type: ignore[arg-type]
    shown = frame_at(gate.host.state(), simulated=True)
    async with running(shown, size=size, options=drawn) as run:
        await run.press("e")
        await run.until(lambda: "CHECK" in run.text)
        for key in keys:
            await run.press(key)
        yield run


async def apply(run: Running, gate: MemoryGate) -> None:
    """Preview and confirm what is drafted, and wait for its receipt."""
    before = len(gate.pending)
    await run.press("enter")
    await run.until(lambda: "applies it" in run.text)
    await run.press("y")
    await run.until(lambda: len(gate.pending) > before and phase(run) != "applying")


def phase(run: Running) -> str:
    return run.app.changes.standing.phase


async def settle(run: Running) -> None:
    await run.until(lambda: phase(run) == "none")
    await run.pilot.pause()


def row(run: Running, name: str) -> str:
    return next(line for line in run.text.split("\n") if f" {name} " in line)


@pytest.mark.parametrize(
    ("size", "options"),
    [
        pytest.param((80, 24), {}, id="80x24"),
        pytest.param((200, 50), {}, id="200x50"),
        pytest.param((80, 24), {"color": False}, id="no-color"),
        pytest.param((80, 24), {"ascii_only": True}, id="ascii"),
        pytest.param((40, 12), {}, id="40x12"),
    ],
)
async def test_screen(
    size: tuple[int, int], options: dict[str, bool], snapshot: SnapshotAssertion
) -> None:
    async with edited(open_gate(), "plus", "tab", "minus", size=size, **options) as run:
        assert run.text == snapshot
        assert " SIMULATED " in run.text, "of a simulated host every screen says so"
        colours = {style.color.name for strip in run.rows for _, style in strip if style.color}
        assert (colours - {"default"} == set()) == (options.get("color") is False)
        if options.get("ascii_only"):
            assert run.text.isascii()


async def test_the_preview_and_the_help(snapshot: SnapshotAssertion) -> None:
    async with edited(open_gate(), "plus", "greater_than_sign") as run:
        await run.press("enter")
        await run.until(lambda: "applies it" in run.text)
        assert run.text == snapshot
        await run.press("escape")
        assert run.text.startswith(" SIMULATED   CAT editor")
        help_page = await run.press("question_mark")
        assert "shift the mask to higher ways" in help_page
        assert "PLAN" in await run.press("escape")


async def test_before_the_first_tick_it_says_what_it_waits_for() -> None:
    """The classes are read long before the counters of a large host are open."""
    gate = open_gate()
    shown = frame_at(gate.host.state())
    async with running(options=Options(gate=gate, rw=True)) as run:
        await run.press("e")
        await run.until(lambda: "waiting for the first tick" in run.text)
        assert "reading the classes" not in run.text
        await run.give(shown)
        await run.until(lambda: "CHECK" in run.text)


@pytest.mark.parametrize("size", [(1, 1), (39, 30), (300, 9)])
async def test_any_size_shows_what_fits(size: tuple[int, int]) -> None:
    gate = open_gate()
    async with running(
        frame_at(gate.host.state()), size=size, options=Options(gate=gate, rw=True)
    ) as run:
        await run.press("e")
        await run.until(lambda: isinstance(run.app.screen, EditorScreen))
        for keys in (("plus",), ("d",), ("escape",), ("enter",), ("escape",), ("question_mark",)):
            assert len((await run.press(*keys)).split("\n")) == size[1]


async def test_keys_edit_the_selected_mask_and_say_what_they_can_not() -> None:
    async with edited(open_gate()) as run:
        for key, mask in (
            ("plus", "0f0->1f0"),
            ("minus", "0f0"),
            ("left_square_bracket", "0f0->1e0"),
            ("right_square_bracket", "0f0"),
            ("space", "0f0->070"),
            ("space", "0f0"),
            ("left", "0f0"),
            ("space", "0f0->1f0"),
            ("z", "0f0"),
        ):
            await run.press(key)
            assert f" {mask} " in row(run, "vpp"), key
        assert "there is nothing to take back" in await run.press("z")
        assert "the draft has no changes" in await run.press("enter")
        assert "is not nftop's, so nftop does not remove it" in await run.press("X")
        assert "(?: keys)" in await run.press("w")
        assert "limits are between 10 and 100" in await run.press("greater_than_sign")
        await run.press("less_than_sign")
        assert "100%->90%" in row(run, "vpp")
        assert "only L3 can be allocated" in await run.press("c")


async def test_classes_caches_and_links() -> None:
    async with edited(open_gate()) as run:
        assert row(run, "vpp").startswith(">")
        for key, name in (("tab", "ovs"), ("shift+tab", "vpp"), ("k", "default"), ("j", "vpp")):
            await run.press(key)
            assert row(run, name).startswith(">"), key
        assert "L3 1 (socket 1)" in await run.press("D")
        assert "LINKED: all 2 L3 alike" in await run.press("L")
        await run.press("minus")
        assert "$ nftop cat set --group vpp --l3 0=70 --l3 1=70" in run.text
        await run.press("L", "tab", "equals_sign")
        assert "$ nftop cat set --group ovs --l3 0=700" in run.text


async def test_cpus_limits_and_new_classes_are_asked_for() -> None:
    async with edited(open_gate()) as run:
        await run.press("n", *"fast", "enter")
        assert row(run, "nftop.fast").startswith("> new")
        await run.press("m", *"5-6", "enter")
        assert "$ nftop cat create --group nftop.fast --cpus 5-6" in run.text
        await run.press("b", *"41", "enter")
        assert "MB 0=41 becomes 50" in run.text
        assert "is not a limit" in await run.press("b", *"all", "enter")
        assert "is not a CPU list" in await run.press("m", *"x-", "enter")
        assert "CPU 77 is not there" in await run.press("m", *"77", "enter")
        await run.press("m", "tab", "tab", *"7", "enter")
        assert "--cpus 5-7" in run.text, "what a question is about stays selected"
        await run.press("X")
        assert "nothing is changed" in run.text and "nftop.fast" not in run.text


async def test_a_profile_is_asked_for_by_its_name() -> None:
    async with edited(open_gate()) as run:
        assert "no profiles" in await run.press("p")
    profiles = {"quiet": parse("# nftop: COS 1 is group vpp\nalloc-class-set: llc:1=0x3\n")}
    async with edited(open_gate(), profiles=profiles) as run:
        assert "profile to take into the draft (quiet)" in await run.press("p")
        await run.press(*"quiet", "enter")
        assert "$ nftop cat set --group vpp --l3 0=3 --l3 1=3" in run.text


async def test_code_and_data_have_rows_of_their_own() -> None:
    async with edited(open_gate("7.2", "cdp")) as run:
        assert ">" in row(run, "vpp")[:1]
        lines = run.text.split("\n")
        at = lines.index(row(run, "vpp"))
        assert "code" in lines[at + 1]
        await run.press("tab", "minus")
        assert "$ nftop cat set --group vpp --l3code 0=3ff" in run.text


async def test_what_warns_has_to_be_seen_before_it_is_confirmed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate = open_gate()
    propose_it = gate.propose
    warnings = tuple(f"the {count}. of many things that speak against it" for count in range(30))
    monkeypatch.setattr(
        gate, "propose", lambda *asked: replace(propose_it(*asked), warnings=warnings)
    )
    async with edited(gate, "plus") as run:
        await run.press("enter")
        await run.until(lambda: "warning: the 0. of many" in run.text)
        assert "continue below: read them first" in await run.press("y")
        assert "the 29. of many" in await run.press("pagedown")
        screen = run.app.screen
        assert isinstance(screen, ConfirmScreen)
        screen.on_plan_ready(PlanReady(screen._planned))
        screen.action_act("yes", 0)
        assert gate.asked == [], "a key that was typed ahead of the screen"
        await run.until(lambda: "the plan was not shown yet" in run.text)
        await run.until(lambda: screen._seen >= screen._warned)
        await run.press("y")
        await run.until(lambda: phase(run) == "unkept")
        assert [item.warnings for item in gate.asked] == [warnings]


async def test_applied_kept_and_undone() -> None:
    gate = open_gate()
    first = gate.host.state()
    async with edited(gate, "plus") as run:
        await apply(run, gate)
        assert gate.host.state()[VPP] == "1f0"
        for keys in ((), ("question_mark",), ("escape",), ("d",), ("escape", "escape"), ("4",)):
            assert "CHANGE 1 IS NOT KEPT" in await run.press(*keys), f"on every screen: {keys}"
        await run.press("K")
        await settle(run)
        assert "kept: `nftop undo` takes it back" in run.text
        assert gate.pending[-1].receipt.outcome == "kept"
        await run.press("u")
        await run.until(lambda: "applies it" in run.text)
        assert "1f0 -> " in run.text
        await run.press("y")
        await run.until(lambda: len(gate.pending) == 2)
        await settle(run)
        assert gate.host.state() == first
        assert "kept: change 1 is taken back" in run.text
        await run.press("u")
        await run.until(lambda: "nothing to undo" in run.text)
    main = {thread for thread in gate.threads if thread.name == "MainThread"}
    assert gate.threads and not main, "the gate is never asked from the screen's own thread"


async def test_an_undo_that_was_confirmed_stays_when_the_guards_time_is_up() -> None:
    gate = open_gate()
    first, now_s = gate.host.state(), 0.0
    async with edited(gate, "plus") as run:
        run.app.changes._clock = lambda: now_s
        await apply(run, gate)
        await run.press("K")
        await settle(run)
        judged = run.app.changes.standing.applied
        assert judged is not None and (judged.number, judged.taken_back_ns) == (1, None)
        await run.press("u")
        await run.until(lambda: "applies it" in run.text)
        assert "final: kept at once" in " ".join(run.text.split())
        assert "unless K" not in run.text
        await run.press("y")
        await run.until(lambda: len(gate.pending) == 2 and phase(run) == "none")
        now_s += 2 * run.app.changes.keep_within_s
        gate.pending[-1].expired.set()
        assert "nothing to keep" in await run.press("K")
        assert "IS NOT KEPT" not in run.text
        undone = run.app.changes.standing.applied
        assert undone is not None and undone.taken_back_ns is not None
        assert (undone.number, undone.at_ns) == (1, judged.at_ns)
        assert undone.taken_back_ns > judged.at_ns
    assert gate.host.state() == first
    last = gate.journal.history()[-1]
    assert (last.outcome, last.undoes) == ("kept", (1,))
    assert run.app.last_words == ""


async def test_an_undo_that_was_confirmed_stays_when_nftop_ends_meanwhile() -> None:
    gate = open_gate()
    first = gate.host.state()
    async with edited(gate, "plus") as run:
        await apply(run, gate)
        await run.press("K")
        await settle(run)
        await run.press("u")
        await run.until(lambda: "applies it" in run.text)
        gate.free.clear()
        await run.press("y")
        await run.until(lambda: phase(run) == "applying")
        run.app.exit()
        gate.free.set()
    until(lambda: phase(run) == "none")
    assert gate.host.state() == first
    assert gate.journal.history()[-1].outcome == "kept"
    assert run.app.last_words == ""


async def test_an_undo_of_an_older_change_waits_to_be_kept() -> None:
    gate = open_gate()
    async with edited(gate, "plus") as run:
        for _ in range(2):
            await apply(run, gate)
            await run.press("K")
            await settle(run)
            await run.until(lambda: "->" not in row(run, "vpp"))
            await run.press("plus")
        assert gate.host.state()[VPP] == "3f0"
        gate.host.lab.echo("L3:0=1f0", "/vpp/schemata")  # nothing is left of the newest
        await run.press("u")
        await run.until(lambda: "applies it" in run.text)
        assert "taken back by itself in 60 s" in " ".join(run.text.split())
        await run.press("y")
        await run.until(lambda: phase(run) == "unkept")
        assert gate.host.state()[VPP] == "f0"
        gate.pending[-1].expired.set()
        await settle(run)
        assert gate.host.state()[VPP] == "1f0"


async def test_when_its_time_is_up_nobody_is_asked_to_keep_it() -> None:
    gate = open_gate()
    now_s = 0.0
    async with edited(gate, "plus") as run:
        run.app.changes._clock = lambda: now_s
        await apply(run, gate)
        assert "u take back" in await run.press("question_mark")
        now_s += run.app.changes.keep_within_s
        text = await run.press("escape")
        assert "CHANGE 1 WAS NOT KEPT" in text and "u take back" not in text


@pytest.mark.parametrize("how", ["u", "expired"])
async def test_the_verdict_ends_when_the_change_is_taken_back(how: str) -> None:
    gate = open_gate()
    async with edited(gate, "plus", size=(120, 50)) as run:
        await apply(run, gate)
        waits = run.app.changes.standing.applied
        assert waits is not None and waits.until_ns is not None
        assert waits.until_ns - waits.at_ns == run.app.changes.keep_within_s * 1e9
        await run.give(replace(frame_at(gate.host.state(), 1), monotonic_ns=waits.at_ns + 10**9))
        assert "taken back 60 s after the change unless K keeps it" in run.text
        if how == "u":
            await run.press("u")
        else:
            gate.pending[-1].expired.set()
        await settle(run)
        ended = run.app.changes.standing.applied
        assert ended is not None and ended.until_ns is None and ended.taken_back_ns is not None
        assert waits.at_ns <= ended.taken_back_ns <= waits.until_ns
        await run.give(
            replace(frame_at(gate.host.state(), 2), monotonic_ns=waits.at_ns + 90 * 10**9)
        )
        assert "not settled when it was taken back" in run.text
        assert "not kept yet" not in run.text


async def test_the_verdict_goes_on_once_the_change_is_kept() -> None:
    gate = open_gate()
    async with edited(gate, "plus") as run:
        await apply(run, gate)
        await run.press("K")
        await settle(run)
        kept = run.app.changes.standing.applied
        assert kept is not None and (kept.until_ns, kept.taken_back_ns) == (None, None)


async def test_a_guard_that_was_killed_is_not_said_to_have_taken_it_back() -> None:
    gate = open_gate()
    async with edited(gate, "plus") as run:
        await apply(run, gate)
        gate.pending[-1].revert = lambda: Receipt("failed", ("killed",))  # type: ignore[method-assign]
        await run.press("u")
        await settle(run)
        left = run.app.changes.standing.applied
        assert left is not None and (left.until_ns, left.taken_back_ns) == (None, None)


@pytest.mark.parametrize("key", ["u", "U"])
async def test_taken_back_by_a_key(key: str) -> None:
    gate = open_gate()
    first = gate.host.state()
    async with edited(gate, "plus") as run:
        await apply(run, gate)
        assert gate.host.state() != first
        await run.press(key)
        await settle(run)
        assert gate.host.state() == first
        assert " REVERTED " in run.text
        await run.until(lambda: "is in the draft again" in run.text)
        assert " REVERTED " not in await run.press("escape")
        assert "0f0->1f0" in row(run, "vpp")
        await run.press("z")
        assert " 0f0 " in row(run, "vpp")
        assert "change 1 is over (reverted)" in await run.press("K")
        assert "no change is pending" in await run.press("U")
        there, back = run.app.changes.own_changes
        assert [(change.old, change.new) for change in there.changes] == [("f0", "1f0")]
        assert [(change.old, change.new) for change in back.changes] == [("1f0", "f0")]
        assert there.from_ns <= there.until_ns <= back.until_ns


async def test_what_was_applied_is_drafted_again_unless_it_is_kept() -> None:
    gate = open_gate()
    async with edited(gate, "plus") as run:
        await apply(run, gate)
        await run.until(lambda: " 1f0 " in row(run, "vpp"))
        await run.press("tab", "minus")
        assert "180->100" in row(run, "ovs")
        await run.press("U")
        await settle(run)
        await run.until(lambda: "in the draft again" in run.text)
        assert "0f0->1f0" in row(run, "vpp")
        assert "180->100" in row(run, "ovs"), "and what was drafted meanwhile"
        await run.press("escape")
        await apply(run, gate)
        await run.until(lambda: " 1f0 " in row(run, "vpp"))
        assert "CAT editor" not in await run.press("escape"), "there is nothing to ask about"
        await run.press("U")
        await settle(run)
        await run.press("escape", "e")
        await run.until(lambda: "in the draft again" in run.text)
        await apply(run, gate)
        await run.press("K")
        await settle(run)
        await run.until(lambda: " 1f0 " in row(run, "vpp"))
        await run.press("r")
        screen = run.app.screen
        assert isinstance(screen, EditorScreen)
        await run.until(lambda: screen._read_last == screen._requested)
        assert "->" not in row(run, "vpp") + row(run, "ovs")


async def test_taken_back_when_its_time_is_up_and_said_so() -> None:
    gate = open_gate()
    first = gate.host.state()
    async with edited(gate, "plus") as run:
        await apply(run, gate)
        gate.pending[-1].expired.set()
        await settle(run)
        assert gate.host.state() == first
        assert " REVERTED " in run.text
        for dismissed in (False, True):
            text = await run.press(*["escape"] * dismissed, "K")
            assert (" REVERTED " in text) is not dismissed
            assert "change 1 was not kept within 60 s (reverted)" in text
    assert run.app.last_words == "", "it was over before the end"


async def test_what_is_previewed_is_the_draft_as_it_was_then() -> None:
    gate = open_gate()
    async with edited(gate, "plus") as run:
        editor = run.app.screen
        assert isinstance(editor, EditorScreen) and editor._model is not None
        gate.free.clear()
        await run.press("enter")
        gate.host.lab.echo("L3:0=3", "/ovs/schemata")
        # A reading comes meanwhile: what it takes over is not what was asked about.
        editor._model.reload(gate.host.state(), gate.host.rules(), 0)
        gate.free.set()
        await run.until(lambda: "the host changed since the draft began" in run.text)
        assert "0f0 -> ..#####.... 1f0" in run.text


async def test_a_second_change_waits_for_the_first() -> None:
    gate = open_gate()
    async with edited(gate, "plus") as run:
        await apply(run, gate)
        await run.until(lambda: " 1f0 " in row(run, "vpp"))
        await run.press("plus", "enter")
        await run.until(lambda: "the previous change is pending" in run.text)
        await run.press("y")
        assert len(gate.asked) == 1


async def test_what_somebody_else_changes_is_said_and_stops_the_change() -> None:
    gate = open_gate()
    async with edited(gate, "plus") as run:
        gate.host.lab.echo("L3:0=3", "/ovs/schemata")
        text = await run.give(frame_at(gate.host.state(), 1))
        said = (
            "changed by another program since the draft began (r takes it over): L3 0 of ovs: 180"
        )
        assert said in " ".join(text.split())
        assert "0f0->1f0" in row(run, "vpp"), "what was drafted stays as it was"
        await run.press("enter")
        await run.until(lambda: "the host changed since the draft began" in run.text)
        await run.press("y")
        assert gate.asked == []
        await run.press("escape", "r")
        await run.until(lambda: "changed by another program" not in run.text)
        assert "0f0->1f0" in row(run, "vpp") and " 003 " in row(run, "ovs")
        await run.press("enter")
        await run.until(lambda: "applies it" in run.text)
        gate.host.lab.echo("L3:0=7", "/ovs/schemata")
        await run.press("y")
        await settle(run)
        assert " CONFLICT " in run.text
        assert gate.host.state()[VPP] == "f0"


async def test_an_older_frame_is_no_change_of_somebody_else() -> None:
    gate = open_gate()
    old = replace(frame_at(gate.host.state()), monotonic_ns=1)
    gate.host.lab.echo("L3:0=3", "/ovs/schemata")
    async with running(old, options=Options(gate=gate, rw=True)) as run:
        await run.press("e")
        await run.until(lambda: "PLAN" in run.text)
        assert "somebody else" not in run.text
        await run.give(frame_at(gate.host.state(), 1))
        assert "somebody else" not in await run.give(frame(8, 2)), "one that tells of no class"


async def test_a_reading_that_was_overtaken_is_not_taken_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate = open_gate()
    read, held, free = gate.host.state, threading.Event(), threading.Event()

    def slow(*args: object) -> State:
        found = read(*args)  # type: ignore[arg-type]
        if not held.is_set():
            held.set()
            free.wait(60.0)
        return found

    async with edited(gate, "plus") as run:
        before = len(run.app.workers)
        monkeypatch.setattr(gate.host, "state", slow)
        await run.press("r")
        await run.until(held.is_set)
        gate.host.lab.echo("L3:0=3", "/ovs/schemata")
        await run.press("r")
        await run.until(lambda: " 003 " in row(run, "ovs"))
        free.set()
        await run.until(lambda: len(run.app.workers) <= before)
        await run.pilot.pause()
        assert " 003 " in row(run, "ovs"), "the older one came last"


async def test_read_only_never_applies() -> None:
    gate = open_gate()
    first = gate.host.state()
    async with edited(gate, "plus", rw=False) as run:
        assert "read-only" in run.text
        await run.press("enter")
        await run.until(lambda: "start nftop with --rw" in run.text)
        await run.press("y", "y", "K", "u", "y")
        await run.press("escape", "u")
        await run.until(lambda: "nothing to undo" in run.text)
        await run.press("y")
    assert gate.asked == []
    assert gate.host.state() == first


async def test_without_a_gate_e_and_u_say_why() -> None:
    why = "changes need root: run it with sudo"
    async with running(frame(8), options=Options(no_gate=why, rw=True)) as run:
        assert why in await run.press("e")
        assert why in await run.press("u")
        assert "not a key of the Topdown screen" in await run.press("6", "e")


async def test_a_host_that_can_not_be_read_is_a_sentence() -> None:
    gate = open_gate()

    def broken(*_: object) -> State:
        raise OSError(5, "resctrl can't be read as a whole")

    gate.host.state = broken  # type: ignore[method-assign,assignment]
    async with running(frame(8), options=Options(gate=gate, rw=True)) as run:
        await run.press("e")
        await run.until(lambda: "cannot read the classes" in run.text)
        await run.press("space", "plus", "enter", "d", "y", "r", "question_mark", "escape")
        assert "resctrl can't be read as a whole" in run.text
        await run.press("escape")
        assert "CAT editor" not in run.text


async def test_a_host_that_has_no_masks_any_more_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate = open_gate()
    async with edited(gate, "plus") as run:
        monkeypatch.setattr(gate.host, "rules", Rules)
        await run.press("r")
        await run.until(lambda: "can be allocated by class" in run.text)
        assert "0f0->1f0" in row(run, "vpp"), "the draft is as it was"


async def test_a_guard_that_fails_is_a_sentence() -> None:
    gate = open_gate()
    gate.host.locked_by = "pqos (pid 7)"

    def broken(*_: object, **__: object) -> None:
        raise OSError("no guard here")

    async with edited(gate, "plus") as run:
        await apply(run, gate)
        await settle(run)
        assert " LOCKED " in run.text and "pqos (pid 7)" in run.text
        gate.apply = broken  # type: ignore[method-assign,assignment]
        gate.host.locked_by = None
        await run.press("escape", "enter")
        await run.until(lambda: "applies it" in run.text)
        await run.press("y")
        await settle(run)
        assert " FAILED " in run.text and "no guard here" in run.text


async def test_leaving_asks_about_the_draft() -> None:
    async with edited(open_gate()) as run:
        assert "CAT editor" not in await run.press("escape")
        await run.press("e")
        await run.until(lambda: "PLAN" in run.text)
        assert "keep the draft" in await run.press("plus", "escape")
        assert "keep the draft" in await run.press("m", "z", "enter", "q", "X"), "none answers it"
        text = await run.press("escape")
        assert "CAT editor" in text and "keep the draft" not in text and "0f0->1f0" in text
        assert "CAT editor" not in await run.press("escape", "y")
        await run.press("e")
        await run.until(lambda: "0f0->1f0" in run.text)
        await run.press("escape", "n", "e")
        await run.until(lambda: "PLAN" in run.text)
        assert "0f0->" not in run.text


@pytest.mark.parametrize("key", ["q", "f10"])
async def test_quitting_asks_about_the_draft(key: str) -> None:
    async with edited(open_gate()) as run:
        for stays in ("n", "escape"):
            assert "quit and drop the draft?" in await run.press("plus", key)
            assert "0f0->" in await run.press(stays)
            assert run.app.is_running
        await run.press(key, "y")
        assert run.app._exit


async def test_what_waits_is_kept_while_the_draft_is_asked_about() -> None:
    gate = open_gate()
    async with edited(gate) as run:
        await run.press("plus")
        await apply(run, gate)
        assert "quit and drop the draft?" in await run.press("plus", "q")
        await run.press("K")
        await settle(run)
        assert "quit and drop the draft?" in run.text
        assert [item.outcome for item in gate.journal.history()] == ["kept"]


async def test_quitting_without_a_changed_draft_asks_nothing() -> None:
    async with edited(open_gate()) as run:
        await run.press("q")
        assert run.app._exit


WAYS_OUT: tuple[Callable[[Running], object], ...] = (
    lambda run: run.app.leave(129),  # what SIGHUP and SIGTERM do
    lambda run: run.app.exit(),
)


@pytest.mark.parametrize(
    ("state", "leave"),
    [
        *((state, WAYS_OUT[0]) for state in ("drafted", "asking", "previewed", "paged")),
        *((state, leave) for state in ("applying", "unkept") for leave in WAYS_OUT),
    ],
)
async def test_the_end_in_every_state_leaves_the_host_as_before_the_unkept_change(
    state: str, leave: Callable[[Running], object]
) -> None:
    gate = open_gate()
    first = gate.host.state()
    async with edited(gate, "plus") as run:
        if state == "asking":
            await run.press("m", *"5")
        elif state != "drafted":
            await run.press("enter")
            await run.until(lambda: "applies it" in run.text)
        if state in ("applying", "unkept", "paged"):
            if state == "applying":
                gate.free.clear()
            await run.press("y")
            wanted = "applying" if state == "applying" else "unkept"
            await run.until(lambda: phase(run) == wanted)
        if state == "paged":
            await run.press("question_mark")
        leave(run)
        gate.free.set()
    until(lambda: phase(run) == "none")
    assert gate.host.state() == first
    assert bool(gate.asked) == (state in ("applying", "unkept", "paged"))
    assert ("reverted" in run.app.last_words) == bool(gate.asked)
    if state in ("unkept", "paged"):
        assert run.app.return_code == (129 if leave is WAYS_OUT[0] else 0)


async def test_a_fault_of_the_screen_takes_back_what_is_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate = open_gate()
    first = gate.host.state()
    with pytest.raises(ZeroDivisionError):
        async with edited(gate, "plus") as run:
            await apply(run, gate)
            assert gate.host.state() != first
            monkeypatch.setattr(EditorScreen, "paint", lambda _: 1 / 0)
            await run.press("plus")
    until(lambda: phase(run) == "none")
    assert gate.host.state() == first


async def test_what_was_kept_in_the_last_moment_stays() -> None:
    gate = open_gate()
    async with edited(gate, "plus") as run:
        await apply(run, gate)
        run.app.changes.keep()
        run.app.exit()
    until(lambda: phase(run) == "none")
    assert gate.host.state()[VPP] == "1f0"
    assert run.app.last_words == ""


def keep_while_it_ends(run: Running, gate: MemoryGate) -> None:
    """The guard hears of it when the application is about to end already."""
    pending = gate.pending[-1]
    keep = pending.keep

    def late() -> Receipt:
        until(lambda: run.app.changes._closing)
        return keep()

    pending.keep = late  # type: ignore[method-assign]
    run.app.changes.keep()
    run.app.exit()


async def test_a_keep_that_fails_in_the_last_moment_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "no space left")

    gate = open_gate()
    async with edited(gate, "plus") as run:
        await apply(run, gate)
        monkeypatch.setattr(type(gate.journal), "record", full)
        keep_while_it_ends(run, gate)
    until(lambda: phase(run) == "none")
    assert gate.host.state()[VPP] == "f0"
    assert "the change was not kept: " in run.app.last_words
    assert "no space left" in run.app.last_words


async def test_a_change_kept_in_the_last_moment_that_is_not_as_asked_is_said() -> None:
    gate = open_gate()
    async with edited(gate, "plus") as run:
        await apply(run, gate)
        gate.host.lab.echo("L3:0=3", "/vpp/schemata")
        keep_while_it_ends(run, gate)
    until(lambda: phase(run) == "none")
    assert gate.host.state()[VPP] == "3"
    assert "the change: kept: but nothing of it" in run.app.last_words


KEYS = tuple(
    sorted({name for key in (*EDITOR, *CONFIRM) for name in key.keys.split(",")}
           - {"q", "f10", "y", "up", "down"})
)  # fmt: skip


async def test_no_sequence_of_keys_is_illegal_or_applies_without_its_confirmation() -> None:
    """All keys but the two that confirm and quit; texts are typed where one is asked for."""
    gate = open_gate("7.2", "cdp")
    first, chance = gate.host.state(), random.Random(1)
    async with edited(gate) as run:
        for _ in range(60):
            await run.pilot.press(chance.choice(KEYS))
            screen = run.app.screen
            if isinstance(screen, EditorScreen) and screen._model is not None:
                if screen._asking:
                    await run.pilot.press(*chance.choice(["1-2", "nftop.x", "50", ""]), "enter")
                draft = screen._model.draft
                proposal = propose(draft.base, draft.rules, drafts.actions(draft))
                assert proposal.refusals == ()
            elif not isinstance(screen, ConfirmScreen) and chance.random() < 0.5:
                await run.pilot.press("escape", "1", "e")
        assert gate.asked == []
        assert gate.host.state() == first


async def next_key(run: Running, gate: MemoryGate, chance: random.Random) -> None:
    """Press what leads on from what is on the screen, more often than not."""
    screen = run.app.screen
    if isinstance(screen, EditorScreen):  # so that the same keys do the same
        await run.until(lambda: screen._read_last == screen._requested)
    if phase(run) == "unkept" and chance.random() < 0.6:
        # Each in its turn.
        await run.press("KuKU"[len(gate.pending) % 4])
        await settle(run)
    elif isinstance(screen, ConfirmScreen):
        await run.until(lambda: screen._planned is not None or bool(screen._why))
        await run.press(chance.choice(["y", "y", "y", "escape"]))
        await run.until(lambda: phase(run) != "applying")
    elif isinstance(screen, EditorScreen) and screen._model is not None:
        drafted = screen._model.draft.changed
        await run.press(chance.choice(["enter", "enter", "u", "plus"] if drafted else
                                      ["plus", "minus", "tab", "left_square_bracket"]))  # fmt: skip
    else:
        await run.press(chance.choice(["e", "escape"]))


@pytest.mark.parametrize("seed", [1, 2])
async def test_whatever_is_pressed_with_confirmations_the_end_leaves_only_what_was_kept(
    seed: int,
) -> None:
    gate, chance = open_gate(), random.Random(seed)
    async with edited(gate) as run:
        for _ in range(40):
            await next_key(run, gate, chance)
    until(lambda: phase(run) == "none")
    outcomes = [item.receipt.outcome for item in gate.pending]
    assert outcomes.count("kept") and outcomes.count("reverted"), outcomes
    wanted = dict(open_gate().host.state())
    for entry in gate.journal.history():
        for change in entry.changes if entry.outcome == "kept" else ():
            if change.new is None:
                wanted.pop(change.cell, None)
            else:
                wanted[change.cell] = change.new
    assert gate.host.state() == wanted


async def test_the_same_keys_at_once_are_one_change() -> None:
    gate = open_gate()
    async with edited(gate, "plus") as run:
        await run.press("enter")
        await run.until(lambda: "applies it" in run.text)
        gate.free.clear()
        await run.pilot.press("y", "y", "y", "enter", "y")
        gate.free.set()
        await run.until(lambda: phase(run) == "unkept")
    assert len(gate.asked) == 1


async def test_the_card_of_the_change_is_below_the_plan() -> None:
    gate = open_gate()
    async with edited(gate, "plus", size=(120, 50)) as run:
        plain = run.text
        await apply(run, gate)
        # A frame's clock is the change's.
        applied = run.app.changes.standing.applied
        assert applied is not None
        assert applied.groups == ("vpp",)
        later = replace(frame_at(gate.host.state(), 1), monotonic_ns=applied.at_ns + 10**9)
        await run.give(later)
        assert "vpp" in run.text.rsplit("SAFE", 1)[-1]
        assert "vpp" not in plain.rsplit("SAFE", 1)[-1].rsplit("\n", 1)[0]


async def test_help_opens_above_the_preview_and_the_difference() -> None:
    async with edited(open_gate(), "plus") as run:
        before = await run.press("d")
        assert (await run.press("question_mark")).startswith("On this page")
        assert await run.press("question_mark") == before
        assert "CAT editor" in await run.press("d"), "the key that opened it closes it"
        await run.press("enter")
        await run.until(lambda: "applies it" in run.text)
        before = run.text
        assert (await run.press("question_mark")).startswith("Keys")
        assert await run.press("question_mark") == before
        assert "w does nothing here" in await run.press("w")


async def test_what_is_said_while_the_host_is_read_is_seen() -> None:
    gate = open_gate()
    async with edited(gate) as run:
        await run.press("escape")
        gate.free.clear()
        await run.press("e")
        assert "nothing to keep" in await run.press("K")
        gate.free.set()
