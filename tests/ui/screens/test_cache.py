"""The Cache screen: keys and sizes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.model.change import OwnChange
from nftop.model.frame import Frame
from nftop.model.rdt.rdt import ROOT
from nftop.ui.options import Options
from tests.command import lines_with
from tests.frames import frame
from tests.rdt import frame_of, group, in_cache, table
from tests.story import Story
from tests.ui.harness import Running, assert_fits, running, selected_rows


def cheaper(tick: int) -> dict[str, dict[str, float]]:
    """From the change on a packet of `fwd` costs less."""
    return {"fwd": {"cpp": 320.0, "busy_cpp": 250.0}} if tick >= 30 else {}


CHANGED = tuple(Story(changed_at=30, shown=cheaper).frames(90))
QUIET = CHANGED[:29]
TOP, BELOW = "COS0  default", "COS1  vpp"


def marked(run: Running) -> str:
    """The row under the cursor."""
    (row,) = selected_rows(run)
    return row


def colours(run: Running) -> set[str]:
    """Those on screen but for the terminal's own."""
    names = {style.color.name for row in run.rows for _, style in row if style.color is not None}
    return names - {"default"}


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 50), (40, 8)])
async def test_screen(size: tuple[int, int], snapshot: SnapshotAssertion) -> None:
    async with running(*CHANGED, size=size) as run:
        assert await run.press("3", "j") == snapshot


async def test_many_classes(snapshot: SnapshotAssertion) -> None:
    groups = tuple(
        group(
            ROOT if not at else f"COS{at}",
            at,
            (at,),
            *(in_cache(l3, 3 << at % 11, 1 << 22) for l3 in (0, 1)),
        )
        for at in range(15)
    )
    async with running(frame_of(table(groups=groups)), size=(80, 24)) as run:
        await run.press("3", "G")
        assert marked(run).startswith("COS14 COS14")
        assert "I/O" in run.text.split(marked(run).rstrip())[1], (
            "with the last comes what is below it"
        )
        await run.press("k")
        assert marked(run).startswith("COS13 COS13")
        await run.press("g")
        assert marked(run).startswith(TOP) and "L3 0  socket 0" in run.text
        await run.press("pagedown")
        assert run.text == snapshot


@pytest.mark.parametrize("size", [(1, 1), (20, 5), (39, 30), (300, 9), (60, 14)])
async def test_any_size_shows_what_fits(size: tuple[int, int]) -> None:
    async with running(CHANGED[-1], size=size) as run:
        await run.press("3", "G", "pageup", "v", "D")
        assert_fits(run, "COS   CLASS", selected="COS")


async def test_the_cursor_goes_over_classes_and_caches() -> None:
    async with running(*QUIET[-2:], size=(80, 24)) as run:
        await run.press("3")
        assert marked(run).startswith(TOP)
        await run.press("j")
        assert marked(run).startswith(BELOW)
        assert run.app._main._view.editor_start == ("vpp", 0)
        await run.press("D")
        assert marked(run).startswith(BELOW)
        assert run.app._main._view.editor_start == ("vpp", 1)
        await run.press("D")
        assert run.app._main._view.editor_start == ("vpp", 0), "behind the last comes the first"
        await run.press("G")
        assert run.app._main._view.editor_start == ("ovs", 1)
        assert " 6/6" in run.text.split("\n")[-1]


async def test_the_selected_class_stays_in_view_when_the_verdict_comes() -> None:
    async with running(*QUIET, size=(80, 24)) as run:
        await run.press("3", "G")
        assert marked(run).startswith("COS2  ovs")
        text = await run.give(*CHANGED[29:])
        assert "VERDICT" in text and marked(run).startswith("COS2  ovs")
        assert run.app._main._view.editor_start == ("ovs", 1)


async def test_a_class_that_goes_gives_way_to_another_of_its_cache() -> None:
    async with running(*QUIET[-2:], size=(80, 24)) as run:
        await run.press("3", "j")
        less = frame_of(table(groups=table().groups[:2]))
        await run.give(replace(less, monotonic_ns=QUIET[-1].monotonic_ns + 1))
        assert marked(run).startswith(TOP)


async def test_the_verdict_is_in_front_while_samples_come_and_v_swaps(
    snapshot: SnapshotAssertion,
) -> None:
    async with running(*QUIET, size=(80, 24)) as run:
        text = await run.press("3", "j")
        assert "COS1 vpp in L3 0" in text and "VERDICT" not in text
        text = await run.give(*CHANGED[29:])
        assert "VERDICT" in text and "✔ better  fwd -15% CPP" in text
        assert lines_with(text, "CHANGED") == snapshot
        text = await run.press("v")
        assert "COS1 vpp in L3 0" in text and "VERDICT" not in text
        assert lines_with(await run.press("x"), "changed 00:") == snapshot
        text = await run.press("escape", "v")
        assert "VERDICT" in text


async def test_v_without_a_verdict(snapshot: SnapshotAssertion) -> None:
    async with running(*QUIET, size=(80, 24)) as run:
        await run.press("3", "v")
        assert run.footer == snapshot
        assert "no verdict" not in await run.press("j")


async def test_what_is_cut_off_below_the_table_is_a_page(snapshot: SnapshotAssertion) -> None:
    async with running(*CHANGED, size=(80, 24)) as run:
        text = await run.press("3", "j")
        assert lines_with(text, "Enter shows") == snapshot
        assert "class ovs" not in text
        text = await run.press("enter")
        assert "Cache, below the table at 00:01:30Z\n\n VERDICT" in text
        assert "COS1 vpp in L3 0" in await run.press("G")
        assert "COS1 vpp" in (await run.press("escape", "v")).split("VERDICT")[0]
        assert "Z\n\n COS1 vpp in L3 0" in await run.press("enter")
        # Elsewhere it leads on.
        assert "[6 Topdown]" in await run.press("escape", "1", "enter")


async def test_a_verdict_follows_the_frames_until_it_is_final() -> None:
    story = tuple(Story(changed_at=30, shown=cheaper).frames(190))
    async with running(*story[:60], size=(120, 36)) as run:
        early = await run.press("3")
        assert "27/20" in early
        text = await run.give(story[99])
        assert "27/20" not in text and "up to 120 s" in text
        text = await run.give(*story[100:180])
        assert "final" in text
        card = text.split("VERDICT")[1]
        assert (await run.give(*story[180:])).split("VERDICT")[1] == card


async def test_the_verdict_is_as_long_as_a_change_waits_to_be_kept() -> None:
    story = tuple(Story(changed_at=30, shown=cheaper).frames(60))
    async with running(*story[:49], size=(120, 36)) as run:
        run.app._main.set_own_changes((), story[29].monotonic_ns + 60 * 10**9)
        await run.press("3")
        text = await run.give(story[49])
        assert "up to 5" in text and "up to 120 s" not in text
        run.app._main.set_own_changes((), None)
        assert "up to 120 s" in await run.give(story[50])


async def test_what_nftop_did_is_not_somebody_elses(snapshot: SnapshotAssertion) -> None:
    async with running(*CHANGED, size=(120, 36)) as run:
        noticed = CHANGED[-1].noticed
        created = (OwnChange(item.changes, item.since_ns, item.at_ns) for item in noticed)
        run.app._main.set_own_changes(tuple(created))
        text = await run.press("3")
        assert lines_with(text, "CHANGED") == snapshot
        assert " *3f0 " in text and "!3f0" not in text


async def test_classes_nobody_uses_unfold() -> None:
    idle = group("COS3", 3, (), in_cache(0, 0xFFF), in_cache(1, 0xFFF))
    async with running(frame_of(table(groups=(*table().groups, idle)))) as run:
        assert "+ 1 class without CPUs" in await run.press("3")
        text = await run.press("i")
        assert "COS3  COS3" in text and "without CPUs" not in text


async def test_explain_is_about_the_class_under_the_cursor(snapshot: SnapshotAssertion) -> None:
    async with running(*CHANGED, size=(120, 60)) as run:
        text = await run.press("3", "j", "x")
        assert lines_with(text, "Class vpp") == snapshot
        for printed in ("VERDICT", "whose", "What the numbers mean", "USED"):
            assert printed in text


async def test_without_classes_it_reports_why_and_no_key_fails(snapshot: SnapshotAssertion) -> None:
    async with running(frame(8)) as run:
        assert lines_with(await run.press("3"), "resctrl") == snapshot
        text = await run.press("j", "G", "pagedown", "D", "v", "i", "x")
        assert lines_with(text, "resctrl") == snapshot


async def test_a_frozen_screen_stands_still() -> None:
    async with running(*CHANGED[:60], size=(120, 36)) as run:
        await run.press("3")
        frozen = await run.press("space")
        assert await run.give(CHANGED[-1]) == frozen
        assert await run.press("space") != frozen


async def test_ascii_and_no_colour_lose_no_text() -> None:
    async with running(CHANGED[-1], size=(120, 36)) as run:
        plain = await run.press("3")
        assert colours(run)
    async with running(CHANGED[-1], size=(120, 36), options=Options(color=False)) as run:
        assert await run.press("3") == plain
        assert not colours(run)
    async with running(CHANGED[-1], size=(120, 36), options=Options(ascii_only=True)) as run:
        bare = await run.press("3")
    assert bare.isascii()
    for mark in ("..ooo###....", "!3f0", "full"):
        assert mark in bare and mark in plain


async def test_the_simulated_host_is_badged() -> None:
    shown: Frame = replace(CHANGED[-1], host=replace(CHANGED[-1].host, simulated=True))
    async with running(shown, size=(80, 24)) as run:
        assert "SIMULATED" in await run.press("3")
        assert "SIMULATED" in await run.press("x")
        assert "SIMULATED" in await run.press("escape", "enter")
