"""The page of an incident: opened, turned, its draft in the editor, its rules muted."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from textual.screen import Screen

from nftop.control.resctrl.remedy import remedy
from nftop.control.simulated import simulated_gates
from nftop.model.change import Cell
from nftop.model.frame import Frame
from nftop.model.incident import Incident
from nftop.model.remedy import Remedy
from nftop.model.struct import replace
from nftop.store.user.rules import rules_file
from nftop.ui.options import Options
from nftop.ui.screens.experiment import ExperimentScreen
from nftop.ui.screens.incident import IncidentScreen
from tests.command import lines_with
from tests.frames import WALL_NS
from tests.sim.hosts import Frozen, S, span_s
from tests.ui.harness import Running, running


@pytest.fixture(scope="module")
def noisy() -> tuple[Frozen, Frame]:
    host = Frozen("noisy", traffic=None)
    host.tick(0)
    host.tick(S)
    frames = [host.tick(S) for _ in range(75)]
    return host, frames[-1]


def title(run: Running) -> str:
    """Title of the page, which is below header and strip."""
    rows = [row for row in run.text.splitlines() if row]
    return rows[next(at for at, row in enumerate(rows) if row.startswith(" CULPRIT")) - 1]


@pytest.mark.parametrize("size", [(40, 8), (80, 24), (120, 36), (200, 50), (400, 100)])
async def test_tab_opens_the_worst_and_n_and_p_turn(
    noisy: tuple[Frozen, Frame], size: tuple[int, int]
) -> None:
    async with running(noisy[1], size=size) as run:
        await run.press("tab")
        assert " tenant " in title(run) and title(run).lstrip().startswith("● ")
        assert all(len(row) <= size[0] for row in run.text.splitlines())
        await run.press("n")
        assert title(run).lstrip().startswith("i ")
        await run.press("p")
        assert " tenant " in title(run) and title(run).lstrip().startswith("● ")
        assert "edit draft" in run.text.splitlines()[-1]
        await run.press("escape")
        assert "CULPRIT" not in run.text


async def test_the_whole_page(noisy: tuple[Frozen, Frame], snapshot: SnapshotAssertion) -> None:
    frame = replace(noisy[1], wall_ns=noisy[1].wall_ns)
    async with running(frame, size=(120, 44), options=Options(ascii_only=True)) as run:
        text = await run.press("tab")
        assert text.isascii()
        assert text == snapshot


async def test_the_command_is_copied_and_the_draft_opens_in_the_editor(
    noisy: tuple[Frozen, Frame],
) -> None:
    host, frame = noisy
    gate = simulated_gates(host.simulated.world)
    async with running(frame, size=(120, 40), options=Options(gate=gate, rw=True)) as run:
        await run.press("tab", "C")
        command = "cat set --group tenant --l3 0=2"
        text, *commands = run.app.clipboard.splitlines()
        assert text.startswith("# tenant ") and frame.incidents[0].id in text
        assert command in commands[0]
        await run.press("e")
        await run.until(lambda: command in run.text)
        mask = gate.host.state()[Cell("schemata", "tenant", "L3", 0)]
        assert int(mask, 16) == 0xFE, "nothing is applied by itself"


async def test_a_command_with_characters_that_are_not_shown_is_not_copied(
    noisy: tuple[Frozen, Frame], monkeypatch: pytest.MonkeyPatch
) -> None:
    for text in ("taskset\nreboot", "taskset \x1b[2J", "taskset \u202e"):
        plan = Remedy("command", "move it", (text,))
        monkeypatch.setattr("nftop.ui.screens.incident.remedy", lambda *_, plan=plan: plan)
        async with running(noisy[1], size=(120, 36)) as run:
            await run.press("tab", "C")
            assert run.app.clipboard == ""
            assert "not copied" in run.text


async def test_what_mends_it_is_computed_again_only_when_something_changes(
    noisy: tuple[Frozen, Frame], monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = noisy[1]
    calls: list[Frame] = []

    def counted(incident: Incident, shown: Frame) -> Remedy:
        calls.append(shown)
        return remedy(incident, shown)

    monkeypatch.setattr("nftop.ui.screens.incident.remedy", counted)
    async with running(frame, size=(120, 36)) as run:
        await run.press("tab", "j", "k", "C")
        assert len(calls) == 1
        later = replace(frame, wall_ns=frame.wall_ns + S, monotonic_ns=frame.monotonic_ns + S)
        await run.give(later)
        assert len(calls) == 1
        groups = tuple(
            replace(item, cpus=item.cpus[1:]) if item.name == "tenant" else item
            for item in frame.groups
        )
        await run.give(replace(later, wall_ns=later.wall_ns + S, groups=groups))
        assert len(calls) == 2


async def test_without_a_draft_the_editor_stays_closed(
    noisy: tuple[Frozen, Frame], snapshot: SnapshotAssertion
) -> None:
    frame = noisy[1]
    notes = replace(frame, incidents=frame.incidents[1:])
    async with running(notes, size=(120, 36)) as run:
        await run.press("tab", "e")
        assert run.footer == snapshot
        foot = (await run.press("j")).splitlines()[-1]
        assert "edit draft" not in foot and "m mute" in foot and "a seen" in foot
        await run.press("C")
        assert run.app.clipboard.startswith("# ") and "copied incident" in run.text


async def test_muted_rules_reach_the_feed_and_the_file(
    noisy: tuple[Frozen, Frame], tmp_path: Path
) -> None:
    kept = rules_file({"XDG_CONFIG_HOME": str(tmp_path)})
    frame = noisy[1]
    async with running(frame, size=(120, 36), options=Options(rules=kept)) as run:
        await run.press("tab", "m")
        settings = run.feed.settings
        assert settings is not None and settings.of("noisy-neighbour", "vpp").muted
        assert not settings.of("noisy-neighbour", "loop/testpmd").muted
        environ = {"XDG_CONFIG_HOME": str(tmp_path)}
        await run.until(lambda: rules_file(environ).settings == settings)
        # Decided by the settings: no frame has come since. The page opened again knows them too.
        await run.press("escape", "tab", "m")
        settings = run.feed.settings
        assert settings is not None and not settings.of("noisy-neighbour", "vpp").muted
        await run.until(lambda: rules_file(environ).settings == settings)
        await run.press("a")
        assert run.feed.settings is not None
        assert run.feed.settings.acknowledged == (frame.incidents[0].id,)
        await run.press("a")
        assert not run.feed.settings.acknowledged


async def test_what_is_measured_of_a_socket_is_muted_with_its_incident() -> None:
    host = Frozen("doorbells", traffic=True)
    begins_s, _ = span_s("doorbells")
    host.tick(0)
    host.tick((begins_s - 2) * S)
    frame = [host.tick(S) for _ in range(12)][-1]
    async with running(frame, size=(120, 36)) as run:
        await run.press("tab", "m")
        settings = run.feed.settings
        assert settings is not None and settings.of("mmio-reads").muted
        assert "muted for all" in run.text
        host.state = replace(host.state, rules=settings)
        frame = [host.tick(S) for _ in range(2)][-1]
        [one] = [item for item in frame.incidents if item.kind == "registers"]
        assert one.muted
        await run.press("m")
        assert run.feed.settings is not None and not run.feed.settings.of("mmio-reads").muted


def _is_for_session(run: Running) -> bool:
    return "session only" in run.text


async def test_a_setting_that_cannot_be_kept_is_for_the_session(
    noisy: tuple[Frozen, Frame], tmp_path: Path
) -> None:
    own = tmp_path / "nftop/rules.toml"
    own.parent.mkdir()
    kept = rules_file({"XDG_CONFIG_HOME": str(tmp_path)})
    own.mkdir()  # no file can take its place
    session = rules_file({"XDG_CONFIG_HOME": str(tmp_path)}, for_session=True)
    for rules in (kept, session):
        async with running(noisy[1], size=(120, 36), options=Options(rules=rules)) as run:
            await run.press("tab", "m")
            await run.until(partial(_is_for_session, run))
            assert run.feed.settings is not None and run.feed.settings.rows
    own.rmdir()


async def test_a_damaged_rules_file_is_reported_and_stays(
    noisy: tuple[Frozen, Frame], tmp_path: Path
) -> None:
    own = tmp_path / "nftop/rules.toml"
    own.parent.mkdir()
    own.write_text("[rules.none]\n")
    kept = rules_file({"XDG_CONFIG_HOME": str(tmp_path)})
    async with running(noisy[1], size=(200, 36), options=Options(rules=kept)) as run:
        assert "no rule 'none'" in run.text
        await run.press("tab", "m")
        assert "session only" in run.text
    assert own.read_text() == "[rules.none]\n"


async def test_a_frame_without_incidents_reports_it(
    noisy: tuple[Frozen, Frame], snapshot: SnapshotAssertion
) -> None:
    none = replace(noisy[1], incidents=(), past_incidents=(), wall_ns=WALL_NS)
    async with running(none, size=(80, 24)) as run:
        text = await run.press("tab")
        assert lines_with(text, "No incident") == snapshot
        foot = text.splitlines()[-1]
        assert not any(hint in foot for hint in ("edit draft", "next", "copy", "mute", "seen"))


async def test_the_graph_is_of_what_the_victim_sent_in_the_time_of_the_incident() -> None:
    host = Frozen("noisy", traffic=None)
    host.tick(0)
    host.tick(S)
    frames = [host.tick(S) for _ in range(75)]
    async with running(frames[-1], size=(120, 44)) as run:
        for frame in frames:
            run.app._history.append(frame)
        await run.press("tab")
        page = run.app.screen
        assert isinstance(page, IncidentScreen)
        one = page.incident
        assert one is not None
        key = one.victims[0].party.key
        (nf,) = (item for item in frames[-1].nfs if item.key == key)
        trend = page._trend(frames[-1], one, 600)
        assert trend is not None and trend.sent
        assert trend.values[-1] == pytest.approx(nf.readings["tx_packets_per_s"])
        over = replace(
            one,
            until_ns=frames[40].wall_ns,
            since_ns=frames[30].wall_ns,
            ended_ns=frames[40].monotonic_ns,
            began_ns=frames[30].monotonic_ns,
        )
        trend = page._trend(frames[-1], over, 140)
        assert trend is not None and trend.span_s == pytest.approx(70.0)
        assert trend.first_ns == over.since_ns - 30 * S
        (nf,) = (item for item in frames[70].nfs if item.key == key)
        assert trend.values[-1] == pytest.approx(nf.readings["tx_packets_per_s"])


async def test_the_page_stays_with_its_incident_at_every_moment(
    noisy: tuple[Frozen, Frame],
) -> None:
    frame = noisy[1]
    worst, other = frame.incidents[0], frame.incidents[-1]
    before = replace(frame, wall_ns=worst.since_ns - 60 * S, incidents=(other,), past_incidents=())
    again = replace(frame, incidents=(other, replace(worst, id="neighbour-other")))
    async with running(frame, size=(120, 36)) as run:
        await run.press("tab")
        session = run.app._main._session
        session.past = before
        run.app.screen.paint()  # type: ignore[attr-defined]
        text = await run.press("j")
        assert "it begins at" in text and "1m00s later" in text and "tenant" in text
        assert "CULPRIT" not in text
        for key in ("e", "C", "m"):
            await run.press(key)
            assert run.app.clipboard == "" and len(run.app.screen_stack) == 3
        session.past = again
        assert " tenant " in (await run.press("k"), title(run))[1], "under another id"
        session.past = before
        await run.press("n")
        assert title(run).lstrip().startswith("i "), "the one of that moment"
        session.past = None
        await run.press("k")
        assert title(run).lstrip().startswith("i ")


async def test_the_sweep_of_a_mask_is_offered_and_opened_where_it_is_the_mend(
    noisy: tuple[Frozen, Frame],
) -> None:
    host, frame = noisy
    gate = simulated_gates(host.simulated.world)
    async with running(frame, size=(80, 24), options=Options(gate=gate, rw=True)) as run:
        text = await run.press("tab")
        assert "T sweep" in text.splitlines()[-1]
        await run.press("n")
        assert "T sweep" not in run.text.splitlines()[-1]
        opened: list[type[Screen[Any]]] = []
        for keys in (("T",), ("p", "T"), ("escape",)):
            await run.press(*keys)
            opened.append(type(run.app.screen))
        assert opened == [IncidentScreen, ExperimentScreen, IncidentScreen]
