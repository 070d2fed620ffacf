"""A change from the editor: confirmed, applied, kept, taken back, undone, judged."""

from __future__ import annotations

from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.model.change import Receipt
from nftop.ui.screens.confirm import ConfirmScreen, PlanReady
from nftop.ui.screens.editor import EditorScreen
from tests.command import lines_with
from tests.ui.editing import (
    VPP,
    apply,
    edited,
    is_planned,
    phase,
    row,
    settle,
)
from tests.ui.gates import frame_at, open_gate
from tests.waiting import until


async def test_what_warns_has_to_be_seen_before_it_is_confirmed(
    monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    gate = open_gate()
    propose_it = gate.propose
    warnings = tuple(f"the {count}. of many things that speak against it" for count in range(30))
    monkeypatch.setattr(
        gate, "propose", lambda *requested: replace(propose_it(*requested), warnings=warnings)
    )
    async with edited(gate, "plus") as run:
        await run.press("enter")
        await run.until(lambda: "warning: the 0. of many" in run.text)
        await run.press("y")
        assert run.footer == snapshot
        assert "the 29. of many" in await run.press("pagedown")
        screen = run.app.screen
        assert isinstance(screen, ConfirmScreen)
        screen.on_plan_ready(PlanReady(screen._planned))
        screen.action_act("yes", 0)
        assert gate.requested == [], "a key that was typed ahead of the screen"
        await run.until(lambda: "the plan was not shown yet" in run.text)
        await run.until(lambda: screen._seen >= screen._warned)
        await run.press("y")
        await run.until(lambda: phase(run) == "unkept")
        assert [item.warnings for item in gate.requested] == [warnings]


async def test_applied_kept_and_undone(snapshot: SnapshotAssertion) -> None:
    gate = open_gate()
    first = gate.host.state()
    async with edited(gate, "plus") as run:
        await apply(run, gate)
        assert gate.host.state()[VPP] == "1f0"
        for keys in ((), ("question_mark",), ("escape",), ("d",), ("escape", "escape"), ("4",)):
            assert "CHANGE 1 IS NOT KEPT" in await run.press(*keys), f"on every screen: {keys}"
        await run.press("K")
        await settle(run)
        assert run.footer == snapshot
        assert gate.pending[-1].receipt.outcome == "kept"
        await run.press("u")
        await run.until(lambda: is_planned(run))
        assert "1f0 → " in run.text
        await run.press("y")
        await run.until(lambda: len(gate.pending) == 2)
        await settle(run)
        assert gate.host.state() == first
        assert run.footer == snapshot
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
        judged = run.app.changes.state.applied
        assert judged is not None and (judged.number, judged.taken_back_ns) == (1, None)
        await run.press("u")
        await run.until(lambda: is_planned(run))
        assert "kept at once" in " ".join(run.text.split())
        assert "unless K" not in run.text
        await run.press("y")
        await run.until(lambda: len(gate.pending) == 2 and phase(run) == "none")
        now_s += 2 * run.app.changes.keep_within_s
        gate.pending[-1].expired.set()
        assert "nothing to keep" in await run.press("K")
        assert "IS NOT KEPT" not in run.text
        undone = run.app.changes.state.applied
        assert undone is not None and undone.taken_back_ns is not None
        assert (undone.number, undone.at_ns) == (1, judged.at_ns)
        assert undone.taken_back_ns > judged.at_ns
    assert gate.host.state() == first
    last = gate.journal.history()[-1]
    assert (last.outcome, last.undoes) == ("kept", (1,))
    assert run.app.exit_message == ""


async def test_an_undo_that_was_confirmed_stays_when_nftop_ends_meanwhile() -> None:
    gate = open_gate()
    first = gate.host.state()
    async with edited(gate, "plus") as run:
        await apply(run, gate)
        await run.press("K")
        await settle(run)
        await run.press("u")
        await run.until(lambda: is_planned(run))
        gate.free.clear()
        await run.press("y")
        await run.until(lambda: phase(run) == "applying")
        run.app.exit()
        gate.free.set()
    until(lambda: phase(run) == "none")
    assert gate.host.state() == first
    assert gate.journal.history()[-1].outcome == "kept"
    assert run.app.exit_message == ""


async def test_an_undo_of_an_older_change_waits_to_be_kept() -> None:
    gate = open_gate()
    async with edited(gate, "plus") as run:
        for _ in range(2):
            await apply(run, gate)
            await run.press("K")
            await settle(run)
            await run.until(lambda: "→" not in row(run, "vpp"))
            await run.press("plus")
        assert gate.host.state()[VPP] == "3f0"
        gate.host.lab.echo("L3:0=1f0", "/vpp/schemata")  # nothing is left of the newest
        await run.press("u")
        await run.until(lambda: is_planned(run))
        assert "itself in 60 s" in " ".join(run.text.split())
        await run.press("y")
        await run.until(lambda: phase(run) == "unkept")
        assert gate.host.state()[VPP] == "f0"
        gate.pending[-1].expired.set()
        await settle(run)
        assert gate.host.state()[VPP] == "1f0"


async def test_an_expired_change_has_no_prompt_to_keep_it(snapshot: SnapshotAssertion) -> None:
    gate = open_gate()
    now_s = 0.0
    async with edited(gate, "plus") as run:
        run.app.changes._clock = lambda: now_s
        await apply(run, gate)
        await run.press("question_mark")
        assert run.footer == snapshot
        now_s += run.app.changes.keep_within_s
        text = await run.press("escape")
        assert "CHANGE 1 WAS NOT KEPT" in text
        assert "K keep" not in text.split("SIMULATED")[0]


@pytest.mark.parametrize("how", ["u", "expired"])
async def test_the_verdict_ends_when_the_change_is_taken_back(
    how: str, snapshot: SnapshotAssertion
) -> None:
    gate = open_gate()
    async with edited(gate, "plus", size=(120, 50)) as run:
        await apply(run, gate)
        waits = run.app.changes.state.applied
        assert waits is not None and waits.until_ns is not None
        assert waits.until_ns - waits.at_ns == run.app.changes.keep_within_s * 1e9
        await run.give(replace(frame_at(gate.host.state(), 1), monotonic_ns=waits.at_ns + 10**9))
        assert "up to 55 s" in run.text or "settling" in run.text
        if how == "u":
            await run.press("u")
        else:
            gate.pending[-1].expired.set()
        await settle(run)
        ended = run.app.changes.state.applied
        assert ended is not None and ended.until_ns is None and ended.taken_back_ns is not None
        assert waits.at_ns <= ended.taken_back_ns <= waits.until_ns
        await run.give(
            replace(frame_at(gate.host.state(), 2), monotonic_ns=waits.at_ns + 90 * 10**9)
        )
        assert lines_with(run.text, "not settled") == snapshot


async def test_the_verdict_goes_on_once_the_change_is_kept() -> None:
    gate = open_gate()
    async with edited(gate, "plus") as run:
        await apply(run, gate)
        await run.press("K")
        await settle(run)
        kept = run.app.changes.state.applied
        assert kept is not None and (kept.until_ns, kept.taken_back_ns) == (None, None)


async def test_a_killed_guard_is_not_reported_as_having_reverted() -> None:
    gate = open_gate()
    async with edited(gate, "plus") as run:
        await apply(run, gate)
        gate.pending[-1].revert = lambda: Receipt("failed", ("killed",))  # type: ignore[method-assign]
        await run.press("u")
        await settle(run)
        left = run.app.changes.state.applied
        assert left is not None and (left.until_ns, left.taken_back_ns) == (None, None)


@pytest.mark.parametrize("key", ["u", "U"])
async def test_taken_back_by_a_key(key: str, snapshot: SnapshotAssertion) -> None:
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
        assert "0f0 → 1f0" in row(run, "vpp")
        await run.press("z")
        assert " 0f0 " in row(run, "vpp")
        await run.press("K")
        assert run.footer == snapshot
        await run.press("U")
        assert run.footer == snapshot
        present, back = run.app.changes.own_changes
        assert [(change.old, change.new) for change in present.changes] == [("f0", "1f0")]
        assert [(change.old, change.new) for change in back.changes] == [("1f0", "f0")]
        assert present.from_ns <= present.until_ns <= back.until_ns


async def test_what_was_applied_is_drafted_again_unless_it_is_kept() -> None:
    gate = open_gate()
    async with edited(gate, "plus") as run:
        await apply(run, gate)
        await run.until(lambda: " 1f0 " in row(run, "vpp"))
        await run.press("tab", "minus")
        assert "180 → 100" in row(run, "ovs")
        await run.press("U")
        await settle(run)
        await run.until(lambda: "in the draft again" in run.text)
        assert "0f0 → 1f0" in row(run, "vpp")
        assert "180 → 100" in row(run, "ovs"), "and what was drafted meanwhile"
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
        assert "→" not in row(run, "vpp") + row(run, "ovs")


async def test_an_expired_change_is_reverted_and_reported(snapshot: SnapshotAssertion) -> None:
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
            assert run.footer == snapshot
    assert run.app.exit_message == "", "it was over before the end"


async def test_a_second_change_waits_for_the_first() -> None:
    gate = open_gate()
    async with edited(gate, "plus") as run:
        await apply(run, gate)
        await run.until(lambda: " 1f0 " in row(run, "vpp"))
        await run.press("plus", "enter")
        await run.until(lambda: "the previous change is pending" in run.text)
        await run.press("y")
        assert len(gate.requested) == 1


async def test_a_change_that_moves_while_nftop_leaves_draws_nothing() -> None:
    gate = open_gate()
    async with edited(gate, "plus") as run:
        await apply(run, gate)
    assert not run.app.screen_stack
    run.app.on_change_moved()
    await run.app.action_quit()


async def test_the_same_keys_at_once_are_one_change() -> None:
    gate = open_gate()
    async with edited(gate, "plus") as run:
        await run.press("enter")
        await run.until(lambda: is_planned(run))
        gate.free.clear()
        await run.pilot.press("y", "y", "y", "enter", "y")
        gate.free.set()
        await run.until(lambda: phase(run) == "unkept")
    assert len(gate.requested) == 1


async def test_the_card_of_the_change_is_below_the_plan() -> None:
    gate = open_gate()
    async with edited(gate, "plus", size=(120, 50)) as run:
        assert "VERDICT" not in run.text
        await apply(run, gate)
        # A frame's clock is the change's.
        applied = run.app.changes.state.applied
        assert applied is not None
        assert applied.groups == ("vpp",)
        later = replace(frame_at(gate.host.state(), 1), monotonic_ns=applied.at_ns + 10**9)
        await run.give(later)
        assert "VERDICT ON CHANGE 1 " in run.text
        assert "vpp" in run.text.rsplit("VERDICT", 1)[-1]
