"""Findings on the screens: their page, and what is typed to get there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.model.rule_settings import NO_SETTINGS, RuleSetting, RuleSettings
from nftop.store.user.rules import RulesFile, rules_file
from nftop.ui.options import Options
from tests.command import lines_with
from tests.frames import about, frame, ticks
from tests.render.frame.test_findings import RESULT
from tests.ui.harness import Running, running

QUIET = tuple(ticks(lambda tick: frame(8, tick), 3))
LAST = QUIET[-1]
# Their times are of the first frame's clock.
LOUD = (*QUIET, replace(LAST, wall_ns=frame().wall_ns, findings=RESULT))


async def test_the_page_lists_all_and_goes_back(snapshot: SnapshotAssertion) -> None:
    async with running(*LOUD, size=(80, 24)) as run:
        assert await run.press("F") == snapshot
        assert "(empty-polls)" in await run.press("G")
        assert "[1 Cores]" in await run.press("escape")


async def test_every_screen_has_the_key() -> None:
    async with running(*LOUD, size=(80, 24)) as run:
        for screen in "123467":
            await run.press(screen)
            assert "Findings at" in await run.press("F")
            await run.press("escape")


async def test_they_go_when_the_frame_has_none() -> None:
    async with running(*LOUD, size=(80, 24)) as run:
        assert "(drops)" in await run.press("F")
        await run.press("escape")
        await run.give(replace(LAST, wall_ns=LAST.wall_ns + 10**9))
        assert "No active findings." in await run.press("F")


def settings(run: Running) -> RuleSettings:
    assert run.feed.settings is not None
    return run.feed.settings


def kept(environ: dict[str, str]) -> set[RuleSetting]:
    return set(rules_file(environ).settings.rows)


async def test_rules_are_muted_for_one_or_for_all_and_kept(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    async with running(*LOUD, size=(80, 24), options=Options(rules=rules_file(environ))) as run:
        await run.press("F", "m")
        assert settings(run).of("drops", "vpp").muted and not settings(run).of("drops").muted
        assert lines_with(run.text, "set by you") == snapshot
        await run.press("m", "M")
        assert settings(run).of("drops").muted
        await run.press("j", "m")
        assert settings(run).of("low-ipc", "fwd").muted and not settings(run).of("low-ipc").muted
        await run.until(lambda: kept(environ) == set(settings(run).rows))


async def test_a_setting_for_a_name_of_several_is_shown_as_not_in_effect(
    snapshot: SnapshotAssertion,
) -> None:
    first, second = LAST.nfs
    nfs = (replace(first, name="pmd@1-2"), replace(second, name="pmd@3"))
    drops = replace(RESULT[0], subject=about("nf pmd@3"))
    last = replace(LAST, wall_ns=frame().wall_ns, findings=(drops,), nfs=nfs)
    own = Options(rules=RulesFile(None, base=NO_SETTINGS.with_muted("drops", "pmd")))
    async with running(*QUIET, last, size=(120, 24), options=own) as run:
        assert lines_with(await run.press("F"), "in effect") == snapshot
        await run.press("m")
        assert settings(run).of("drops", "pmd@3").muted
        assert not settings(run).of("drops", "pmd@1-2").muted


async def test_another_limit_is_set_and_taken_away(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    async with running(*LOUD, size=(120, 24), options=Options(rules=rules_file(environ))) as run:
        await run.press("F", "j")
        await run.press("l")
        assert run.footer == snapshot
        await run.press(*"1.5", "enter")
        assert settings(run).of("low-ipc", "fwd").limit == 1.5
        assert settings(run).of("low-ipc").limit is None
        assert lines_with(run.text, "set by you") == snapshot
        await run.press("L", *"1.2", "enter")
        assert settings(run).of("low-ipc").limit == 1.2
        await run.until(lambda: kept(environ) == set(settings(run).rows))
        before = settings(run)
        await run.press("L", *"soon", "enter")
        assert run.footer == snapshot
        await run.press("escape")
        assert settings(run) == before
        await run.press("L", "enter", "l", "enter")
        assert settings(run).rows == ()


@pytest.mark.parametrize("size", [(40, 8), (80, 24), (200, 50)])
async def test_the_cursor_stays_in_view(size: tuple[int, int]) -> None:
    async with running(*LOUD, size=size) as run:
        await run.press("F")
        for finding in RESULT:
            assert f"{finding.where}: " in run.app.screen.selected_text()  # type: ignore[attr-defined]
            await run.press("j")
        assert "no search yet" in await run.press("n")
