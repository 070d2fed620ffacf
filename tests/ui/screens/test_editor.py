"""The class editor: its screen at all sizes, every key, classes, caches and prompts."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.control.profile.pqos_config import parse
from nftop.ui.options import Options
from nftop.ui.screens.editor import EditorScreen
from nftop.ui.widgets.prompt import Prompt
from tests.command import lines_with
from tests.ui.editing import commands, draft, drafted, edited, is_drafting, is_planned, model, row
from tests.ui.gates import frame_at, open_gate
from tests.ui.harness import assert_fits, running


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
        await run.until(lambda: is_planned(run))
        assert run.text == snapshot
        await run.press("escape")
        assert run.text.startswith(" SIMULATED   CAT editor")
        help_page = await run.press("question_mark")
        assert "higher ways" in help_page
        assert "DRAFT" in await run.press("escape")


async def test_before_the_first_tick_it_reports_what_it_waits_for() -> None:
    """The classes are read long before the counters of a large host are open."""
    gate = open_gate()
    shown = frame_at(gate.host.state())
    async with running(options=Options(gate=gate, rw=True)) as run:
        await run.press("e")
        await run.until(lambda: "waiting for the first tick" in run.text)
        assert "reading the classes" not in run.text
        await run.give(shown)
        await run.until(lambda: is_drafting(run))


@pytest.mark.parametrize("size", [(1, 1), (39, 30), (300, 9)])
async def test_any_size_shows_what_fits(size: tuple[int, int]) -> None:
    gate = open_gate()
    async with running(
        frame_at(gate.host.state()), size=size, options=Options(gate=gate, rw=True)
    ) as run:
        await run.press("e")
        await run.until(lambda: isinstance(run.app.screen, EditorScreen))
        for key, title in (
            ("plus", "180 → 380"),
            ("d", "DRAFT"),
            ("escape", "CAT editor"),
            ("enter", "Preview of the draft"),
            ("escape", "CAT editor"),
            ("question_mark", "Editor of cache classes"),
        ):
            await run.press(key)
            assert_fits(run, title)


async def test_keys_edit_the_selected_mask_and_report_what_they_can_not() -> None:
    async with edited(open_gate()) as run:
        for key, mask in (
            ("plus", "0f0 → 1f0"),
            ("minus", "0f0"),
            ("left_square_bracket", "0f0 → 1e0"),
            ("right_square_bracket", "0f0"),
            ("space", "0f0 → 070"),
            ("space", "0f0"),
            ("left", "0f0"),
            ("space", "0f0 → 1f0"),
            ("z", "0f0"),
        ):
            await run.press(key)
            assert f" {mask} " in row(run, "vpp"), key
            assert drafted(run) == mask[-3:].lstrip("0"), key
        for key in ("z", "X", "greater_than_sign", "c", "C"):
            await run.press(key)
            assert model(run).message and not commands(run), f"{key} says why it does nothing"
            assert model(run).message[:60] in run.text
        assert is_drafting(run), "without changes Enter previews nothing"
        await run.press("enter")
        assert model(run).message and is_drafting(run)
        assert "(?: keys)" in await run.press("w")
        await run.press("less_than_sign")
        assert "100% → 90%" in row(run, "vpp")


async def test_a_click_selects_a_way_and_toggles_it() -> None:
    async with edited(open_gate()) as run:
        lines = run.text.split("\n")
        head = next(line for line in lines if "CLASS " in line)
        at = head.index("10") + 3 * (10 - 9)
        y = lines.index(row(run, "ovs"))
        for mask in ("380", "180"):
            await run.pilot.click(offset=(at, y))
            await run.pilot.pause()
            selection = model(run).selection
            assert (selection.group, selection.way, drafted(run, "ovs")) == ("ovs", 9, mask)
        await run.pilot.click(offset=(1, y - 1))
        await run.pilot.pause()
        assert (model(run).selection.group, commands(run)) == ("vpp", ())
        await run.press("m")
        await run.pilot.click(offset=(at, y))
        assert model(run).selection.group == "vpp", "what a question is about stays selected"


async def test_the_command_is_copied_whole() -> None:
    async with edited(open_gate(), "plus") as run:
        await run.press("C")
        assert run.app.clipboard == commands(run)[0] == "nftop cat set --group vpp --l3 0=1f0"


async def test_classes_caches_and_links(snapshot: SnapshotAssertion) -> None:
    async with edited(open_gate()) as run:
        assert row(run, "vpp").startswith("▸")
        for key, name in (("tab", "ovs"), ("shift+tab", "vpp"), ("k", "default"), ("j", "vpp")):
            await run.press(key)
            assert row(run, name).startswith("▸"), key
        assert "L3 1 (socket 1)" in await run.press("D")
        assert lines_with(await run.press("L"), "LINKED") == snapshot
        await run.press("minus")
        assert commands(run) == ("nftop cat set --group vpp --l3 0=70 --l3 1=70",)
        assert f"$        {commands(run)[0]} " in run.text
        await run.press("L", "tab", "equals_sign")
        assert "nftop cat set --group ovs --l3 0=700" in commands(run)


async def test_cpus_limits_and_new_classes_have_prompts() -> None:
    async with edited(open_gate()) as run:
        await run.press("n", *"fast", "enter")
        assert row(run, "nftop.fast").startswith("▸") and " new 00f " in row(run, "nftop.fast")
        await run.press("m", *"5-6", "enter")
        assert commands(run) == ("nftop cat create --group nftop.fast --cpus 5-6",)
        await run.press("b", *"41", "enter")
        assert drafted(run, "nftop.fast", line="MB") == "50", "the kernel's steps"
        before = draft(run)
        for key, wrong in (("b", "all"), ("m", "x-"), ("m", "77")):
            await run.press(key, *wrong, "enter")
            assert wrong in run.footer and draft(run) is before
            # What is typed on is no key.
            await run.press("X")
            assert draft(run) is before
            await run.press("escape")
        await run.press("m", "tab", "tab", *"7", "enter")
        assert "--cpus 5-7" in commands(run)[0], "what a question is about stays selected"
        await run.press("X")
        assert not draft(run).changed and "nftop.fast" not in run.text


async def test_a_profile_is_chosen_by_its_name() -> None:
    async with edited(open_gate()) as run:
        await run.press("p")
        assert model(run).message and not run.app.screen.query_one(Prompt).display
    profiles = {"quiet": parse("# nftop: COS 1 is group vpp\nalloc-class-set: llc:1=0x3\n")}
    async with edited(open_gate(), profiles=profiles) as run:
        assert "(quiet)" in await run.press("p")
        await run.press(*"quiet", "enter")
        assert commands(run) == ("nftop cat set --group vpp --l3 0=3 --l3 1=3",)


async def test_code_and_data_have_rows_of_their_own() -> None:
    async with edited(open_gate("7.2", "cdp")) as run:
        assert row(run, "vpp").startswith("▸")
        lines = run.text.split("\n")
        at = lines.index(row(run, "vpp"))
        assert "code" in lines[at + 1]
        await run.press("tab", "minus")
        assert commands(run) == ("nftop cat set --group vpp --l3code 0=3ff",)


async def test_help_opens_above_the_preview_and_the_difference(snapshot: SnapshotAssertion) -> None:
    async with edited(open_gate(), "plus") as run:
        before = await run.press("d")
        assert (await run.press("question_mark")).startswith(" Pages: ")
        assert await run.press("question_mark") == before
        assert "CAT editor" in await run.press("d"), "the key that opened it closes it"
        await run.press("enter")
        await run.until(lambda: is_planned(run))
        before = run.text
        assert (await run.press("question_mark")).startswith(" Preview of a change")
        assert await run.press("question_mark") == before
        await run.press("w")
        assert run.footer == snapshot


async def test_a_message_while_the_host_is_read_is_seen() -> None:
    gate = open_gate()
    async with edited(gate) as run:
        await run.press("escape")
        gate.free.clear()
        await run.press("e")
        assert "nothing to keep" in await run.press("K")
        gate.free.set()
