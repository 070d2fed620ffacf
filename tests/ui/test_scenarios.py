"""Every scenario of the demo as a reader of the screen has it: culprit, victims, later the history.

The clock is stepped and only the frames that are read are drawn.
"""

from __future__ import annotations

import re

import pytest
from rich.cells import cell_len

from nftop.model.incident import Incident, Severity
from nftop.render.cores.harm import SICK, hidden_culprits
from nftop.render.incidents.line import culprit_name
from tests.derive.incidents.test_scenarios import (
    EXPECTED,
    WITHIN_S,
    story,
)
from tests.sim.hosts import Frozen, S
from tests.ui.harness import Running, running

SIZES = ((40, 8), (80, 24), (120, 36), (200, 50), (400, 100))
# On a smaller terminal one line has the worst.
FULL = (80, 24)


def check_story(run: Running, size: tuple[int, int], incident: Incident) -> None:
    """Culprit and victims are on screen as far as there is room, and nothing overflows."""
    text = run.text
    rows = text.split("\n")
    assert len(rows) == size[1] and max(map(cell_len, rows)) <= size[0]
    victims = [item.party.name for item in incident.victims]
    culprit = culprit_name(incident)
    # Information that ended makes way for what is open.
    is_over = incident.severity is Severity.INFO and incident.until_ns is not None
    if size >= FULL and not (is_over and culprit not in text):
        assert culprit in text, (size, culprit)
        assert not victims or victims[0] in text, (size, victims)
    elif incident.severity > Severity.INFO:
        assert culprit in text or any(victim in text for victim in victims), size
    else:
        assert "no harm" in text and re.search(r"\+[12]\b", text)


def check_sick(run: Running) -> None:
    """The sick rows are in view, as many of them as fit."""
    session = run.app._main._session
    assert session.facts.harm is not None
    sick = [row for row in session.rows.shown if session.facts.harm[row] >= SICK]
    in_view = session.rows.shown[session.cursor.top :][: session.page]
    assert set(in_view) >= set(sick) or set(in_view) <= set(sick)
    assert session.frame is not None
    if session.page >= 3:  # rows
        assert not hidden_culprits(session.frame, in_view, session.page)[session.page // 3 :]
        own = {session.frame.topology.row_of[cpu] for cpu in session.facts.culprits}
        assert not own or not own.isdisjoint(in_view)


@pytest.mark.parametrize("name", sorted(EXPECTED))
async def test_culprit_and_victim_are_read_in_time_without_a_key_and_later_as_history(
    name: str,
) -> None:
    scenes = story(name)
    assert scenes.seconds <= WITHIN_S
    async with running(scenes.before[-1], scenes.known, size=FULL) as run:
        for size in SIZES:
            await run.resize(size)
            check_story(run, size, scenes.incident)
            check_sick(run)
        for frame in scenes.later:
            await run.resize(FULL)
            await run.give(frame)
            [past] = [item for item in frame.past_incidents if item.id == scenes.incident.id]
            assert past.until_ns is not None
            for size in SIZES:
                await run.resize(size)
                check_story(run, size, past)


@pytest.mark.parametrize(
    ("name", "after_s", "culprit", "victim"),
    [
        ("noisy", 60, "tenant", "vpp"),
        ("default", 0, "backup", "north/l3fwd"),
        ("sst-bf", 0, "cpu ", "l3fwd"),
    ],
)
async def test_scenarios_without_an_end(name: str, after_s: int, culprit: str, victim: str) -> None:
    host = Frozen(name, traffic=None)
    host.tick(0)
    frames = [host.tick(after_s * S or S), *(host.tick(S) for _ in range(WITHIN_S))]
    async with running(frames[0], frames[-1], size=FULL) as run:
        worst = frames[-1].incidents[0]
        assert worst.severity is Severity.BAD
        assert culprit in culprit_name(worst) and worst.victims[0].party.name.endswith(victim)
        for size in SIZES:
            await run.resize(size)
            check_story(run, size, worst)
            check_sick(run)


async def test_a_healthy_host_has_nothing_to_read() -> None:
    host = Frozen("healthy", traffic=None)
    frames = [host.tick(0), *(host.tick(10 * S) for _ in range(3))]
    async with running(*frames, size=FULL) as run:
        for size in SIZES:
            await run.resize(size)
            assert "nothing hurts" in run.text
