"""The editor and a host that others change, that cannot be read, or that is read-only."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.control.rdt_limits import Rules
from nftop.model.change import State
from nftop.ui.options import Options
from nftop.ui.screens.editor import EditorScreen
from tests.frames import frame
from tests.ui.editing import (
    VPP,
    apply,
    edited,
    is_drafting,
    is_planned,
    row,
    settle,
)
from tests.ui.gates import frame_at, open_gate
from tests.ui.harness import running


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
        assert "0f0 → ..#####.... 1f0" in run.text


async def test_a_foreign_change_is_reported_and_stops_the_change() -> None:
    gate = open_gate()
    async with edited(gate, "plus") as run:
        gate.host.lab.echo("L3:0=3", "/ovs/schemata")
        text = await run.give(frame_at(gate.host.state(), 1))
        printed = (
            "changed by another program since the draft began (r takes it over): L3 0 of ovs: 180"
        )
        assert printed in " ".join(text.split())
        assert "0f0 → 1f0" in row(run, "vpp"), "what was drafted stays as it was"
        await run.press("enter")
        await run.until(lambda: "the host changed since the draft began" in run.text)
        await run.press("y")
        assert gate.requested == []
        await run.press("escape", "r")
        await run.until(lambda: "changed by another program" not in run.text)
        assert "0f0 → 1f0" in row(run, "vpp") and " 003 " in row(run, "ovs")
        await run.press("enter")
        await run.until(lambda: is_planned(run))
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
        await run.until(lambda: is_drafting(run))
        assert "somebody else" not in run.text
        await run.give(frame_at(gate.host.state(), 1))
        assert "somebody else" not in await run.give(frame(8, 2)), "one that tells of no class"


async def test_a_reading_that_was_overtaken_is_not_taken_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate = open_gate()
    read, held, free = gate.host.state, threading.Event(), threading.Event()

    def slow(*args: object) -> State:
        result = read(*args)  # type: ignore[arg-type]
        if not held.is_set():
            held.set()
            free.wait(60.0)
        return result

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
    assert gate.requested == []
    assert gate.host.state() == first


async def test_without_a_gate_e_and_u_report_why(snapshot: SnapshotAssertion) -> None:
    why = "changes need root: run it with sudo"
    async with running(frame(8), options=Options(no_gate=why, rw=True)) as run:
        assert why in await run.press("e")
        assert why in await run.press("u")
        await run.press("6", "e")
        assert run.footer == snapshot


async def test_a_host_that_can_not_be_read_is_a_sentence() -> None:
    gate = open_gate()

    error = OSError(5, "resctrl can't be read as a whole")

    def broken(*_: object) -> State:
        raise error

    gate.host.state = broken  # type: ignore[method-assign,assignment]
    async with running(frame(8), options=Options(gate=gate, rw=True)) as run:
        await run.press("e")
        await run.until(lambda: "cannot read the classes" in run.text)
        await run.press("space", "plus", "enter", "d", "C", "r", "question_mark", "escape")
        assert str(error.strerror) in run.text
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
        assert "0f0 → 1f0" in row(run, "vpp"), "the draft is as it was"


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
        await run.until(lambda: is_planned(run))
        await run.press("y")
        await settle(run)
        assert " FAILED " in run.text and "no guard here" in run.text
