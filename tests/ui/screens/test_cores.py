"""Cores screen: which rows are in view."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nftop.model.frame import Frame
from nftop.model.ids import Cpu
from nftop.render.base.line import Tone
from nftop.render.cores.harm import SICK
from nftop.render.cores.layout import ScreenSections, below_head
from nftop.ui.screens import cores
from tests.frames import frame, with_cells
from tests.sim.hosts import Frozen, S
from tests.ui.harness import Running, running
from tests.ui.test_matrix import sick


def waiting(tick: int, cpu: int) -> Frame:
    """A host whose only sick poller, of CPUs 1 to 3, waits for its CPU."""
    base = with_cells(frame(8, tick), "wait_ratio", {1: 0.0, 2: 0.0, 3: 0.0, cpu: 0.5})
    nfs = (replace(nf, readings={**nf.readings, "drop_packets_per_s": 0.0}) for nf in base.nfs)
    return replace(base, nfs=tuple(nfs))


def rows_in_view(run: Running) -> list[int]:
    session = run.app._main._session
    return list(session.rows.shown[session.cursor.top :][: session.page])


def sick_rows(run: Running) -> set[int]:
    session = run.app._main._session
    assert session.facts.harm is not None
    return {row for row in session.rows.shown if session.facts.harm[row] >= SICK}


async def test_without_a_selection_the_worst_row_is_selected_and_on_top() -> None:
    async with running(waiting(0, 1), size=(80, 24)) as run:
        session = run.app._main._session
        for tick, cpu in enumerate((1, 3, 2), 1):
            await run.give(waiting(tick, cpu))
            assert (session.cpu, session.cursor.index, session.cursor.held) == (cpu, 0, False)
            assert session.rows.shown[0] == cpu


async def test_a_key_draws_again_only_what_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[object] = []

    def counted(*args: Any) -> ScreenSections:
        drawn.append(args)
        return below_head(*args)

    monkeypatch.setattr(cores, "below_head", counted)
    async with running(frame(8), size=(80, 24)) as run:
        before = len(drawn)
        assert before
        await run.press("j", "j", "k")
        assert len(drawn) == before
        await run.press("i")  # folds rows: other sections
        await run.give(frame(8, 1))
        assert len(drawn) > before


async def test_what_the_operator_scrolled_off_is_counted_and_one_key_brings_it_back() -> None:
    async with running(*sick(), size=(80, 24)) as run:
        text = await run.press("G")
        hidden = sick_rows(run) - set(rows_in_view(run))
        assert hidden
        [line] = [line for line in text.split("\n") if "sick" in line]
        assert f"+ {len(hidden)} " in line and "(g" in line
        text = await run.press("g")
        session = run.app._main._session
        assert rows_in_view(run)[:3] == list(session.rows.shown)[:3]
        assert "(g" not in text and not session.cursor.held


async def test_a_culprit_has_its_name_and_its_victims_what_changed() -> None:
    host = Frozen("noisy", traffic=None)
    frames = [host.tick(0), host.tick(15 * S), *(host.tick(S) for _ in range(65))]
    for size, name in (((120, 36), "CPU 0-3/KVM   vm neighbour"), ((80, 24), "▲vm neighbour")):
        async with running(*frames, size=size) as run:
            session = run.app._main._session
            assert f"\n 11-14 {name}" in run.text
            sick, pollers = session.sick or (0, 0)
            assert (sick, pollers) == (len(sick_rows(run) - session.facts.culprits), 11)
            lit = [
                text
                for row in run.rows
                for text, style in row
                if run.has_ground(style, Tone.LIT) and set(text) <= set("FbBMC")
            ]
            assert lit and set("".join(lit)) == {"M"}
            if size == (120, 36):
                assert "BE.mem 18% → 26%" in run.text and f"sick {sick} of 11" in run.text
                page = await run.press("tab")
                assert " ● INCIDENT  tenant" in page and "48.0 GB/s (was 0.9" in page


async def test_a_selection_keeps_its_cpu_and_a_page_about_it_does_too() -> None:
    async with running(waiting(0, 1), size=(80, 24)) as run:
        session = run.app._main._session
        await run.press("x")
        await run.give(waiting(1, 3))
        assert session.cpu == Cpu(1)
        await run.press("escape")
        await run.give(waiting(2, 3))
        assert session.cpu == Cpu(3)
        await run.press("down", "up")
        await run.give(waiting(3, 2))
        assert session.cpu == Cpu(3)
