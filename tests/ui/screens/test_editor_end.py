"""Leaving the editor in every state: nothing is left that was not kept."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.control.resctrl import draft as drafts
from nftop.control.resctrl.plan import propose
from nftop.export.output import FAILURE, OK
from nftop.model.change import Receipt
from nftop.ui.key_bindings import CONFIRM, EDITOR
from nftop.ui.screens.confirm import ConfirmScreen
from nftop.ui.screens.editor import EditorScreen
from tests.ui.editing import (
    VPP,
    apply,
    edited,
    is_drafting,
    is_planned,
    phase,
    select,
    settle,
)
from tests.ui.gates import MemoryGate, open_gate
from tests.ui.harness import Running
from tests.waiting import until


async def test_leaving_prompts_about_the_draft() -> None:
    async with edited(open_gate()) as run:
        assert "CAT editor" not in await run.press("escape")
        await run.press("e")
        await run.until(lambda: is_drafting(run))
        select(run, "vpp")
        assert "keep the draft" in await run.press("plus", "escape")
        assert "keep the draft" in await run.press("m", "z", "enter", "q", "X"), "none answers it"
        text = await run.press("escape")
        assert "CAT editor" in text and "keep the draft" not in text and "0f0 → 1f0" in text
        assert "CAT editor" not in await run.press("escape", "y")
        await run.press("e")
        await run.until(lambda: "0f0 → 1f0" in run.text)
        await run.press("escape", "n", "e")
        await run.until(lambda: is_drafting(run))
        assert "0f0 →" not in run.text


@pytest.mark.parametrize("key", ["q", "f10"])
async def test_quitting_prompts_about_the_draft(key: str, snapshot: SnapshotAssertion) -> None:
    async with edited(open_gate()) as run:
        for stays in ("n", "escape"):
            await run.press("plus", key)
            assert run.footer == snapshot
            assert "0f0 →" in await run.press(stays)
            assert run.app.is_running
        await run.press(key, "y")
        assert run.app._exit


async def test_a_pending_change_is_kept_during_the_draft_s_prompt(
    snapshot: SnapshotAssertion,
) -> None:
    gate = open_gate()
    async with edited(gate) as run:
        await run.press("plus")
        await apply(run, gate)
        await run.press("plus", "q")
        assert run.footer == snapshot
        await run.press("K")
        await settle(run)
        assert run.footer == snapshot
        assert [item.outcome for item in gate.journal.history()] == ["kept"]


async def test_quitting_without_a_changed_draft_has_no_prompt() -> None:
    async with edited(open_gate()) as run:
        await run.press("q")
        assert run.app._exit


WAYS_OUT: Mapping[int, Callable[[Running], object]] = {  # by exit code
    129: lambda run: run.app.leave(129),  # what SIGHUP and SIGTERM do
    OK: lambda run: run.app.exit(),
    FAILURE: lambda run: run.app.panic("a fault of the thread that reads the terminal"),
}


@pytest.mark.parametrize(
    ("state", "code"),
    [
        *((state, 129) for state in ("drafted", "asking", "previewed", "paged")),
        *((state, code) for state in ("applying", "unkept") for code in WAYS_OUT),
    ],
)
async def test_the_end_in_every_state_leaves_the_host_as_before_the_unkept_change(
    state: str, code: int
) -> None:
    gate = open_gate()
    first = gate.host.state()
    async with edited(gate, "plus") as run:
        if state == "asking":
            await run.press("m", *"5")
        elif state != "drafted":
            await run.press("enter")
            await run.until(lambda: is_planned(run))
        if state in ("applying", "unkept", "paged"):
            if state == "applying":
                gate.free.clear()
            await run.press("y")
            wanted = "applying" if state == "applying" else "unkept"
            await run.until(lambda: phase(run) == wanted)
        if state == "paged":
            await run.press("question_mark")
        WAYS_OUT[code](run)
        gate.free.set()
    until(lambda: phase(run) == "none")
    assert gate.host.state() == first
    assert bool(gate.requested) == (state in ("applying", "unkept", "paged"))
    assert ("reverted" in run.app.exit_message) == bool(gate.requested)
    if state in ("unkept", "paged"):
        assert run.app.return_code == code


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
    assert run.app.exit_message == ""


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


async def test_a_keep_that_fails_in_the_last_moment_is_reported(
    monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
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
    assert run.app.exit_message == snapshot
    assert "no space left" in run.app.exit_message


async def test_a_change_kept_in_the_last_moment_that_differs_is_reported(
    snapshot: SnapshotAssertion,
) -> None:
    gate = open_gate()
    async with edited(gate, "plus") as run:
        await apply(run, gate)
        gate.host.lab.echo("L3:0=3", "/vpp/schemata")
        keep_while_it_ends(run, gate)
    until(lambda: phase(run) == "none")
    assert gate.host.state()[VPP] == "3"
    assert run.app.exit_message == snapshot


KEYS = tuple(
    sorted(
        {name for key in (*EDITOR, *CONFIRM) for name in key.keys.split(",")}
        - {"q", "f10", "y", "up", "down"}
    )
)


async def test_no_sequence_of_keys_is_illegal_or_applies_without_its_confirmation() -> None:
    """All keys but the two that confirm and quit; texts are typed where one is asked for."""
    gate = open_gate("7.2", "cdp")
    first, chance = gate.host.state(), random.Random(1)
    async with edited(gate) as run:
        for _ in range(60):
            await run.pilot.press(chance.choice(KEYS))
            screen = run.app.screen
            if isinstance(screen, EditorScreen) and screen._model is not None:
                if screen.prompting:
                    await run.pilot.press(*chance.choice(["1-2", "nftop.x", "50", ""]), "enter")
                draft = screen._model.draft
                proposal = propose(draft.base, draft.rules, drafts.actions(draft))
                assert proposal.refusals == ()
            elif not isinstance(screen, ConfirmScreen) and chance.random() < 0.5:
                await run.pilot.press("escape", "1", "e")
        assert gate.requested == []
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
        await run.press(
            chance.choice(
                ["enter", "enter", "u", "plus"]
                if drafted
                else ["plus", "minus", "tab", "left_square_bracket"]
            )
        )
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


@pytest.mark.parametrize("closed", [True, False])
async def test_quitting_with_an_unkept_change_needs_two_keys(
    closed: bool, snapshot: SnapshotAssertion
) -> None:
    gate = open_gate()
    async with edited(gate, "plus") as run:
        await apply(run, gate)
        if closed:
            await run.press("escape")
        text = await run.press("q")
        if "drop the draft" in text:
            text = await run.press("y")
        assert run.footer == snapshot
        assert not is_over(run)
        await run.press("q")
        if not is_over(run):
            await run.press("y")
        assert is_over(run)
    until(lambda: [item.outcome for item in gate.journal.history()] == ["reverted"])


async def test_ctrl_c_quits_at_once_with_an_unkept_change() -> None:
    gate = open_gate()
    async with edited(gate, "plus") as run:
        await apply(run, gate)
        await run.press("ctrl+c")
        assert run.app._exit


async def test_the_warning_is_of_one_change() -> None:
    gate = open_gate()
    async with edited(gate, "plus") as run:
        await apply(run, gate)
        await run.press("escape")
        assert "q again reverts it" in await run.press("q") and not is_over(run)
        await run.press("K")
        await settle(run)
        await run.press("q")
        assert is_over(run)


async def test_a_later_change_is_warned_of_again() -> None:
    gate = open_gate()
    async with edited(gate, "plus") as run:
        await apply(run, gate)
        await run.press("escape", "q", "u")
        await settle(run)
        await run.press("e")
        await run.until(lambda: is_drafting(run))
        select(run, "vpp")
        await run.press("plus")
        await apply(run, gate)
        await run.press("escape")
        assert "q again reverts it" in await run.press("q") and not is_over(run)


def is_over(run: Running) -> bool:
    return run.app._exit
